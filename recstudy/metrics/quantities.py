"""Numbers of a run that do not follow from its answers: costs, and what is measured while it trains."""

from functools import partial

from recstudy.metrics.classification import PERCENT
from recstudy.metrics.registry import METRICS, Metric

share = partial(Metric, unit="%", better="higher", form=".1f", of_text=True, bounds=PERCENT, share=True)

METRICS.update(
    {
        "token_accuracy": share("Token accuracy", short="tokens", tasks=("caption",)),
        **{f"recall_{k}": share(f"Recall@{k}", short=f"recall@{k}", ranks=k == 1, tasks=("alignment",)) for k in (1, 5, 10)},
        "cosine_before": Metric("Cosine, before", form=".3f", of_text=True),
        "cosine_after": Metric("Cosine, after", form=".3f", of_text=True),
        "caption_loss": Metric("Caption loss", "nats/token", "lower", ".3f", of_text=True),
        "extra_loss": Metric("Loss beside the task's", "", "lower", ".3f"),
        "router_entropy": Metric("Router entropy", "nats", form=".3f", of_text=True),
        "expert_load_peak": Metric("Largest expert share", "%", "lower", ".1f", of_text=True),
        "dropped_tokens": Metric("Dropped tokens", "%", "lower", ".1f", of_text=True),
        "act_loss": Metric("ACT loss", "nats", "lower", ".2f"),  # of the 000 paper, which does not define it
        "params": Metric("Parameters", computed=True, form=",.0f"),
        "trained_params": Metric("Trained parameters", computed=True, form=",.0f"),
        "gflops": Metric("Forward", "GFLOP/image", computed=True),
        "train_gflops": Metric("Training", "GFLOP/image", computed=True),
        "train_pflop": Metric("Training in all", "PFLOP"),
        "seconds": Metric("Wall time", "s", timed=True),
        "evaluation_seconds": Metric("Evaluation at the end", "s", timed=True),
        "device_seconds": Metric("Device time", "s", timed=True),
        "epoch_seconds": Metric("Epoch, training pass", "s", timed=True),
        "images_per_second": Metric("Throughput", "images/s", timed=True),
        "peak_memory_mb": Metric("Peak memory", "MB"),
        "cores_used": Metric("Cores in use", "cores", form=".1f", timed=True),
        "gpu_use": Metric("GPU in use", "%", form=".0f", bounds=PERCENT, timed=True),
        "gpu_use_peak": Metric("GPU in use, peak", "%", form=".0f", bounds=PERCENT, timed=True),
        "supervision_steps_used": Metric("Supervision steps used"),
        "numerical_floor": Metric("Items that rounding flips", "%", "lower", ".2f", bounds=PERCENT),
        "train_loss": Metric("Training loss", "nats", "lower", ".3f"),
        "selection_loss": Metric("Loss, selection", "nats", "lower", ".3f"),
        "learning_rate": Metric("Learning rate"),
    }
)
