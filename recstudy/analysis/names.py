"""What metrics are called, what they are measured in, and how their numbers are printed."""

from dataclasses import dataclass, replace
from typing import Any

DASH = "\N{EN DASH}"  # stands where there is no number


@dataclass(frozen=True)
class Metric:
    """A metric's title, unit and better direction; `computed` ones follow from the config, not from training;
    `timed` ones depend on the machine, so that no published one is comparable.

    One `by_finding` is a mean over the findings that the test set can judge; `auroc.Effusion` is that of one finding.
    One `of_text` depends on how captions are cut into tokens, one `of_words` also on how they are decoded and cut into words.
    """

    title: str
    unit: str = ""
    better: str | None = None
    form: str = ".4g"
    computed: bool = False
    timed: bool = False
    by_finding: bool = False
    of_text: bool = False
    of_words: bool = False

    @property
    def heading(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title


METRICS = {
    "top1_accuracy": Metric("Top-1 accuracy", "%", "higher", ".1f"),
    "train_top1_accuracy": Metric("Top-1 accuracy, training", "%", "higher", ".1f"),
    "macro_f1": Metric("Macro F1", "%", "higher", ".1f"),
    "auroc": Metric("AUROC", "%", "higher", ".1f", by_finding=True),
    "average_precision": Metric("Average precision", "%", "higher", ".1f", by_finding=True),
    "train_auroc": Metric("AUROC, training", "%", "higher", ".1f"),
    "nll": Metric("NLL", "nats", "lower", ".3f"),
    "ece": Metric("ECE", "%", "lower", ".1f"),
    **{f"bleu_{n}": Metric(f"BLEU-{n}", "", "higher", ".3f", of_words=True) for n in range(1, 5)},
    "avg_bleu": Metric("Avg-BLEU", "", "higher", ".3f", of_words=True),
    "rouge_l": Metric("ROUGE-L", "", "higher", ".3f", of_words=True),
    "cider": Metric("CIDEr", "", "higher", ".3f", of_words=True),
    "meteor": Metric("METEOR", "", "higher", ".3f", of_words=True),
    "rate_score": Metric("RaTEScore", "", "higher", ".3f", of_words=True),
    "token_accuracy": Metric("Token accuracy", "%", "higher", ".1f", of_text=True),
    "train_token_accuracy": Metric("Token accuracy, training", "%", "higher", ".1f", of_text=True),
    "extra_loss": Metric("Loss beside the task's", "", "lower", ".3f"),
    "caption_loss": Metric("Caption loss", "nats/token", "lower", ".3f", of_text=True),
    "router_entropy": Metric("Router entropy", "nats", form=".3f", of_text=True),
    "expert_load_peak": Metric("Largest expert share", "%", "lower", ".1f", of_text=True),
    "dropped_tokens": Metric("Dropped tokens", "%", "lower", ".1f", of_text=True),
    "act_loss": Metric("ACT loss", "nats", "lower", ".2f"),  # of the 000 paper, which does not define it
    **{f"recall_{k}": Metric(f"Recall@{k}", "%", "higher", ".1f", of_text=True) for k in (1, 5, 10)},
    "cosine_before": Metric("Cosine, before", form=".3f", of_text=True),
    "cosine_after": Metric("Cosine, after", form=".3f", of_text=True),
    "params": Metric("Parameters", computed=True, form=",.0f"),
    "trained_params": Metric("Trained parameters", computed=True, form=",.0f"),
    "gflops": Metric("Forward", "GFLOP/image", computed=True),
    "train_gflops": Metric("Training", "GFLOP/image", computed=True),
    "train_pflop": Metric("Training in all", "PFLOP"),
    "seconds": Metric("Wall time", "s", timed=True),
    "device_seconds": Metric("Device time", "s", timed=True),
    "epoch_seconds": Metric("Epoch, training pass", "s", timed=True),
    "images_per_second": Metric("Throughput", "images/s", timed=True),
    "peak_memory_mb": Metric("Peak memory", "MB"),
    "supervision_steps_used": Metric("Supervision steps used"),
    "train_loss": Metric("Training loss", "nats", "lower", ".3f"),
    "learning_rate": Metric("Learning rate"),
    "selection_loss": Metric("Loss, selection", "nats", "lower", ".3f"),
    "selection_top1_accuracy": Metric("Top-1 accuracy, selection", "%", "higher", ".1f"),
    "selection_auroc": Metric("AUROC, selection", "%", "higher", ".1f"),
    "selection_token_accuracy": Metric("Token accuracy, selection", "%", "higher", ".1f", of_text=True),
    "selection_recall_1": Metric("Recall@1, selection", "%", "higher", ".1f", of_text=True),
}
# What a published unit is worth in the unit above: papers print millions and fractions, records hold counts and percents.
SCALES = {"million": 1e6, "billion": 1e9}


def improved(name: str) -> str:
    """Of `avg_bleu_delta`, a relative improvement in percent, the metric that is improved; empty for any other name."""
    of = name.removesuffix("_delta")
    return of if of != name and of.partition(".")[0] in METRICS else ""


def metric(name: str) -> Metric:
    """The metric of that name, `auroc.Effusion` with the unit of `auroc`; an unknown name stays, less the underscores."""
    if of := improved(name):
        return replace(metric(of), title=f"{metric(of).title} delta", unit="%", better=None, form=".2f")
    parent, _, part = name.partition(".")
    known, words = METRICS.get(parent), part.replace("_", " ")
    if known is None:
        return Metric(name.replace("_", " "))
    return replace(known, title=f"{known.title}, {words}") if words else known


def in_own_unit(name: str, value: float, unit: str) -> float:
    """A published value in the unit that the records use."""
    return value * (100.0 if unit == "fraction" and metric(name).unit == "%" else SCALES.get(unit, 1.0))


def number(name: str, value: float) -> str:
    """A value of this metric, as tables print it."""
    return format(value, metric(name).form)


def spread(name: str, half: float) -> str:
    """Half an interval's width: as many decimals as the mean, or one significant digit where those are all zero."""
    text = number(name, half)
    return text if half == 0 or any(digit in text for digit in "123456789") else f"{half:.1g}"


def plain(value: Any) -> str:
    """A config value as text: `true`, `none`, and no quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ", ".join(f"{key}={plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return "[" + ", ".join(plain(item) for item in value) + "]"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def axis_title(name: str | None) -> str:
    """What a table or figure calls an axis: `train.batch_size` is `batch size`."""
    return (name or "").rpartition(".")[2].replace("_", " ")
