"""What metrics are called, what they are measured in, how their numbers are printed; and which variants a
selector names.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from recstudy.programs.metric import METRICS, Metric
from recstudy.programs.settings import PREFIX
from recstudy.records import Json
from recstudy.records.study_schema import PlanRecord, VariantRecord
from recstudy.terminal import flops

DASH = "\N{EN DASH}"  # stands where there is no number
# What stands before the name of a metric that was measured elsewhere than on the test split.
SPLITS = {"selection_": "selection", "train_": "training"}
# What a published unit is worth in the unit above: papers print millions and fractions, records hold counts
# and percents.
SCALES = {"million": 1e6, "millions": 1e6, "billion": 1e9}

# How page titles spell the acronyms and names in the name of a study file.
SPELLINGS = {
    "arc_agi": "ARC-AGI",
    "arc": "ARC",
    "cifar": "CIFAR",
    "cnn": "CNN",
    "cpu": "CPU",
    "ema": "EMA",
    "fuselip": "FuseLIP",
    "gpu": "GPU",
    "hrm": "HRM",
    "imagehrm": "ImageHRM",
    "imagetrm": "ImageTRM",
    "micar": "MicarVLMoE",
    "micarvlmoe": "MicarVLMoE",
    "mlp": "MLP",
    "mnist": "MNIST",
    "resnet": "ResNet",
    "trm": "TRM",
    "vit": "ViT",
    "vitrm": "ViTRM",
    "xray": "X-ray",
}

NAMING = ("model", "data", "variant")  # axes whose levels are names


def improved_metric(name: str) -> str:
    """Return, of `avg_bleu_delta`, the metric that is improved, in percent of it; empty for any other
    name.
    """
    of = name.removesuffix("_delta")
    return of if of != name and find_metric(of.partition(".")[0]) else ""


def find_metric(name: str) -> Metric | None:
    """Return the registered metric of that name, as `selection_auroc` on the selection split; None where
    there is none.
    """
    if (found := METRICS.get(name)) is not None:
        return found
    for start, words in SPLITS.items():
        if name.startswith(start) and (of := METRICS.get(name.removeprefix(start))):
            return replace(of, title=f"{of.title}, {words}", by_finding=False)
    return None


def metric(name: str) -> Metric:
    """Look up the metric of that name, `auroc.Effusion` with the unit of `auroc`, `top1_accuracy@4` after so
    many steps; an unknown name stays, less the underscores."""
    if (known := find_metric(name)) is not None:
        return known
    name, _, depth = name.partition("@")
    if depth:
        return replace(metric(name), title=f"{metric(name).title} after {depth}", by_finding=False)
    if of := improved_metric(name):
        return replace(
            metric(of),
            title=f"{metric(of).title} delta",
            unit="%",
            better=None,
            form=".2f",
            bounds=None,
            share=False,
        )
    parent, _, part = name.partition(".")
    found, words = find_metric(parent), part.replace("_", " ")
    if found is None:
        return Metric(better=None, title=name.replace("_", " "))
    return replace(found, title=f"{found.title}, {words}") if words else found


def at_depth(metric: str, depth: int | str) -> str:
    """Return the name of a metric of the test set after so many supervision steps, from the same weights."""
    return f"{metric}@{depth}"


def in_own_unit(name: str, value: float, unit: str) -> float:
    """Return a published value in the unit that the records use."""
    return value * (100.0 if unit == "fraction" and metric(name).unit == "%" else SCALES.get(unit, 1.0))


def number(name: str, value: float) -> str:
    """Return a value of this metric, as tables print it."""
    return format(value, metric(name).form)


def quantity(name: str, value: float) -> str:
    """Return a value that stands alone, with its unit: `83.5 %`, `392.7 GFLOP`, `13,800 images/s`."""
    known = metric(name)
    if known.unit == "PFLOP":
        return flops(value)
    words = f"{value:,.0f}" if known.form.endswith("g") and abs(value) >= 1000 else number(name, value)
    return f"{words} {known.unit}".strip()


def inline(name: str) -> str:
    """Return a metric's title within a sentence: `exact accuracy`; AUROC and CIDEr stay as they are."""
    title = metric(name).title
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def points(name: str, difference: str) -> str:
    """Return a difference with what it is counted in: those of percents are points."""
    unit = metric(name).unit
    return f"{difference} points" if unit == "%" else f"{difference} {unit}".strip()


def value_text(value: Any) -> str:
    """Return a config value as text: `true`, `none`, and no quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ", ".join(f"{key}={value_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return "[" + ", ".join(value_text(item) for item in value) + "]"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def study_title(name: str) -> str:
    """Return the name of a study as words.

    Examples:
        >>> study_title("vitrm_depth_sweep"), study_title("hrm_chest_xray"), study_title("arc_agi")
        ('ViTRM depth sweep', 'HRM chest X-ray', 'ARC-AGI')
    """
    # The longest spelling comes first, so that `arc_agi` is not read as `arc`.
    spellings = "|".join(sorted(SPELLINGS, key=len, reverse=True))
    known_words = rf"(?<![^\W_])({spellings})(?![^\W_])"
    words = re.sub(known_words, lambda match: SPELLINGS[match[1]], name).replace("_", " ")
    first_word = words.partition(" ")[0]
    return words[:1].upper() + words[1:] if first_word.islower() else words


def page_title(plan: PlanRecord) -> str:
    """Return the title of a study's pages: `ViTRM depth sweep (quick preset)`."""
    smoke = ", smoke test" * plan.smoke
    return f"{study_title(plan.study)} ({plan.preset} preset{smoke})"


def axis_title(name: str | None) -> str:
    """Return what a table or figure calls an axis: `train.batch_size` is `batch size`."""
    return (name or "").rpartition(".")[2].replace("_", " ")


def level_words(axis: str, level: Any) -> str:
    """Return a level of an axis in words.

    Examples:
        >>> level_words("latent_steps", 1), level_words("learning_rate", 0.001), level_words("model", "TRM")
        ('1 latent step', 'learning rate 0.001', 'TRM')
        >>> level_words("ema", False), level_words("halting", None)
        ('without ema', 'without halting')
    """
    title = axis_title(axis)
    if axis in NAMING and isinstance(level, str):
        return level
    if level is None or isinstance(level, bool):
        return f"{'with' if level else 'without'} {title}"
    if isinstance(level, int) and title.endswith("s") and not title.endswith("ss"):
        return plural(level, title.removesuffix("s"))
    return f"{title} {value_text(level)}"


def with_word_labels(variants: Sequence[VariantRecord]) -> tuple[VariantRecord, ...]:
    """Return variants whose generated labels are words, without the axes on which all variants have one
    level.

    `latent_steps=2, supervision_steps=1` becomes `2 latent steps`. A label that a study gives itself stays.
    All labels stay if two would become equal.
    """
    axes = dict.fromkeys(axis for variant in variants for axis in variant.levels)
    constant = {axis for axis in axes if len({repr(variant.levels.get(axis)) for variant in variants}) == 1}
    labels = [_word_label(variant, constant) for variant in variants]
    if len(set(labels)) < len(labels):
        return tuple(variants)
    return tuple(replace(variant, label=label) for variant, label in zip(variants, labels, strict=True))


def _word_label(variant: VariantRecord, constant: Collection[str]) -> str:
    generated = {f"{axis}={level}": axis for axis, level in variant.levels.items()}
    parts, rest = [], variant.label
    while rest:  # a level may contain a comma, as in `model=ViT, equal FLOPs`
        part = next(
            (text for text in generated if f"{rest}, ".startswith(f"{text}, ")), rest.partition(", ")[0]
        )
        parts.append((generated.get(part, ""), part))
        rest = rest[len(part) :].removeprefix(", ")
    varying = [pair for pair in parts if pair[0] not in constant] or parts
    return ", ".join(level_words(axis, variant.levels[axis]) if axis else part for axis, part in varying)


def level_of(variant: VariantRecord, config: Json, name: str) -> Any:
    """Give its level of an axis, or its value of a config field; `variant` is its label, `model` and `data`
    are titles.

    None where it has neither.
    """
    if name in variant.levels:
        level = variant.levels[name]
        return value_text(level) if isinstance(level, dict | list) else level
    known = {"variant": variant.label, "model": variant.model, "data": variant.data}
    return config[name] if name in config else config.get(PREFIX + name, known.get(name))


def setting_name(path: str) -> str:
    """Return what a reader calls a setting: of a user's own program as the program does."""
    return path.removeprefix(PREFIX)


def is_selected(where: Mapping[str, Any], level: Callable[[str], Any]) -> bool:
    """Tell whether a variant with these levels is one that the selector means; a list is any of its
    values.
    """
    several = (
        (level(name), [wanted, *(wanted if isinstance(wanted, list | tuple) else [])])
        for name, wanted in where.items()
    )
    return all(any(same_value(found, one) for one in any_of) for found, any_of in several)


def same_value(one: Any, other: Any) -> bool:
    """Tell whether two settings are the same setting: 1 and 1.0 are, 1 and True are not."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
