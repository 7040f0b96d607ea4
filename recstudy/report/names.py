"""Names for readers: titles and units of metrics, formats of numbers, words for settings and study titles.

Tables, figures, pages and the board take their words from here. `is_selected` also decides which variants a
selector names.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import floor, log10
from typing import Any

from recstudy.base.terminal import scaled_unit
from recstudy.programs.metric import METRICS, Metric
from recstudy.programs.settings import PREFIX
from recstudy.records import Json
from recstudy.records.study_schema import PlanRecord, VariantRecord

DASH = "\N{EN DASH}"  # printed in place of a missing number
# A prefix of a metric's name states its split. Without a prefix, the metric is of the test split.
SPLITS = {"selection_": "selection", "train_": "training"}
# Papers print millions and fractions. Records have counts and percents.
SCALES = {"million": 1e6, "millions": 1e6, "billion": 1e9}
DIGITS_FORM = re.compile(r"(\+?,?)\.(\d+)([fg])")  # a format whose digits an interval may increase
SMALLEST_HALF = 1e-6  # of an interval that adds digits: seeds may be equal but for rounding errors
LONGEST = 1e15  # numbers from here on are printed with an exponent

# How page titles spell the acronyms and names in the name of a study file.
SPELLINGS = {"micar": "MicarVLMoE", "xray": "X-ray"} | {
    name.lower().replace("-", "_"): name
    for name in (
        *("ARC-AGI", "ARC", "CIFAR", "CNN", "CPU", "EMA", "FuseLIP", "GPU", "HRM", "ImageHRM", "ImageTRM"),
        *("MicarVLMoE", "MLP", "MNIST", "ResNet", "TRM", "ViT", "ViTRM"),
    )
}

NAMING = ("model", "data", "variant")  # axes whose levels are names


def improved_metric(name: str) -> str:
    """Return the metric behind a relative improvement: `avg_bleu` for `avg_bleu_delta`.

    Any other name gives an empty text.
    """
    base_name = name.removesuffix("_delta")
    is_improvement = base_name != name and find_metric(base_name.partition(".")[0])
    return base_name if is_improvement else ""


def find_metric(name: str) -> Metric | None:
    """Return the registered metric of this name, or None.

    `selection_auroc` is the metric `auroc` on the selection split.
    """
    definition = METRICS.get(name)
    if definition is not None:
        return definition
    for prefix, split in SPLITS.items():
        test_metric = METRICS.get(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if test_metric:
            return replace(test_metric, title=f"{test_metric.title}, {split}", by_finding=False)
    return None


def metric(name: str) -> Metric:
    """Return the metric of this name, or a new one whose title is the name without underscores.

    `auroc.Effusion` has the unit of `auroc`. `top1_accuracy@4` is the accuracy after 4 supervision steps.
    """
    definition = find_metric(name)
    if definition is not None:
        return definition
    name, _, depth = name.partition("@")
    if depth:
        return replace(metric(name), title=f"{metric(name).title} after {depth}", by_finding=False)
    if improved := improved_metric(name):
        return replace(
            metric(improved),
            title=f"{metric(improved).title} delta",
            unit="%",
            better=None,
            form=".2f",
            bounds=None,
            share=False,
        )
    parent, _, part = name.partition(".")
    parent_metric, words = find_metric(parent), part.replace("_", " ")
    if parent_metric is None:
        return Metric(better=None, title=name.replace("_", " "))
    return replace(parent_metric, title=f"{parent_metric.title}, {words}") if words else parent_metric


def at_depth(metric: str, depth: int | str) -> str:
    """Return the name of a test metric after `depth` supervision steps of the same weights."""
    return f"{metric}@{depth}"


def in_own_unit(name: str, value: float, unit: str) -> float:
    """Return a published value in the unit of the records."""
    is_fraction_of_percent = unit == "fraction" and metric(name).unit == "%"
    return value * (100.0 if is_fraction_of_percent else SCALES.get(unit, 1.0))


Bounds = tuple[float, float] | None  # of an interval


def number(name: str, value: float, interval: Bounds = None) -> str:
    """Return a value of this metric as tables print it, with the digits of its interval."""
    return formatted(value, resolving_form(metric(name).form, interval))


def formatted(value: float, form: str) -> str:
    """Return a number in this format with grouped thousands, and an exponent from 1e15 on.

    Examples:
        >>> formatted(2135.4, ".1f"), formatted(20_971.4, ".4g"), formatted(2.4e200, ".1f")
        ('2,135.4', '20,971', '2.4e200')
    """
    sign, is_long = "+" * form.startswith("+"), not abs(value) < LONGEST
    text = format(value, f"{sign}.4g" if is_long else grouped_form(form))
    if "e" not in text:
        return text
    if form.endswith("g") and abs(value) >= 1 and not is_long:
        return format(value, f"{sign},.0f")
    return re.sub(r"e\+?(-?)0*", r"e\1", text)


@cache
def grouped_form(form: str) -> str:
    """Return a format with grouped thousands."""
    return DIGITS_FORM.sub(r"\1,.\2\3", form.replace(",", ""))


def resolving_form(form: str, interval: Bounds) -> str:
    """Return the format in which a value and its interval are printed: with two digits of half the interval.

    A format with fixed decimals, such as `.1f`, stays if it shows one digit of this half.

    Examples:
        >>> resolving_form(".1f", (97.6, 97.9)), resolving_form(".2f", (1.0745, 1.0755))
        ('.1f', '.5f')
        >>> resolving_form("+.5g", (0.00095284, 0.0030472)), resolving_form(".4g", (120.0, 180.0))
        ('+.4f', '.4g')
    """
    match, half = DIGITS_FORM.fullmatch(form), (interval[1] - interval[0]) / 2 if interval else 0.0
    half *= 1 + 1e-9  # half of 97.6 to 97.8 is 0.1
    if not match or not SMALLEST_HALF <= half < (10.0 ** -int(match[2]) if match[3] == "f" else 10.0):
        return form
    return f"{match[1]}.{1 - floor(log10(half))}f"


def quantity(name: str, value: float) -> str:
    """Return a value with its unit: `83.5 %`, `392.7 GFLOP`, `13,800 images/s`."""
    factor, unit = scaled_unit(metric(name).unit, value)
    return f"{number(name, value * factor)} {unit}".strip()


def inline(name: str) -> str:
    """Return a metric's title within a sentence: `exact accuracy`, but `AUROC` and `F1`.

    A title that is the metric's own name has the letters of the name.
    """
    title, words = metric(name).title, name.replace("_", " ")
    if title[1:] == words[1:]:
        return words
    return title[:1].lower() + title[1:] if title[1:2].islower() else title


def value_text(value: Any) -> str:
    """Return a config value as text: `true`, `none`, and no quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ", ".join(f"{key}={value_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return "[" + ", ".join(value_text(item) for item in value) + "]"
    if value is None:
        return "none"
    is_large = isinstance(value, float) and 1e6 <= abs(value) < LONGEST  # `g` would print 2.0971e+6
    return f"{value:{'.0f' if is_large else 'g'}}" if isinstance(value, float) else str(value)


def capitalized(text: str) -> str:
    """Return text with a capital letter, unless it starts with a name or symbol, such as `train.py`."""
    first = text.partition(" ")[0]
    return text[0].upper() + text[1:] if re.fullmatch("[a-z]{2,}[,:]?", first) else text


def plural(count: int, word: str) -> str:
    if count == 1:
        return f"{count:,} {word}"
    plural_word = re.sub("([^aeiou])y$", r"\1ie", word) + "s"
    return f"{count:,} {plural_word}"


def join_labels(labels: Sequence[str], separator: str = " / ", limit: int = 3) -> str:
    """Join at most `limit` labels, and state how many more there are."""
    rest = [f"{len(labels) - limit} more"] * (len(labels) > limit)
    return separator.join([*labels[:limit], *rest])


def join_texts(*texts: str, separator: str = "; ") -> str:
    """Join the texts that are not empty."""
    return separator.join(filter(None, texts))


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


def difference_form(name: str, interval: Bounds = None) -> str:
    """Return the number format of differences of a metric, such as `+.2f` for a metric printed as `.1f`."""
    form = metric(name).form
    # differences are smaller than the numbers themselves, so they get one more digit
    return resolving_form(f"+{form[:-2]}{int(form[-2]) + 1}{form[-1]}", interval)


def at_alpha(alpha: float) -> str:
    """Return `at the level 0.01`, which a verdict states if it is not the usual one."""
    return f"at the level {alpha:g}"


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
    varied = varied_axes(variants)
    labels = [_word_label(variant, varied) for variant in variants]
    if len(set(labels)) < len(labels):
        return tuple(variants)
    return tuple(replace(variant, label=label) for variant, label in zip(variants, labels, strict=True))


def varied_axes(variants: Sequence[VariantRecord]) -> list[str]:
    """Return the axes on which the variants have several levels."""
    axes = dict.fromkeys(axis for variant in variants for axis in variant.levels)
    return [axis for axis in axes if len({repr(variant.levels.get(axis)) for variant in variants}) > 1]


def _word_label(variant: VariantRecord, varied: Collection[str]) -> str:
    generated = {f"{axis}={level}": axis for axis, level in variant.levels.items()}
    parts, rest = [], variant.label
    while rest:  # a level may contain a comma, as in `model=ViT, equal FLOPs`
        part = next(
            (text for text in generated if f"{rest}, ".startswith(f"{text}, ")), rest.partition(", ")[0]
        )
        parts.append((generated.get(part, ""), part))
        rest = rest[len(part) :].removeprefix(", ")
    varying = [(axis, part) for axis, part in parts if not axis or axis in varied] or parts
    return ", ".join(level_words(axis, variant.levels[axis]) if axis else part for axis, part in varying)


def level_of(variant: VariantRecord, config: Json, name: str) -> Any:
    """Return a variant's level of an axis, or its value of a config field; None if it has neither.

    `variant` means the label; `model` and `data` mean their titles.
    """
    if name in variant.levels:
        level = variant.levels[name]
        return value_text(level) if isinstance(level, dict | list) else level
    titles = {"variant": variant.label, "model": variant.model, "data": variant.data}
    return config[name] if name in config else config.get(PREFIX + name, titles.get(name))


def setting_name(path: str) -> str:
    """Return a setting's name for readers: settings of a user's own program lose their prefix."""
    return path.removeprefix(PREFIX)


def is_selected(selector: Mapping[str, Any], level: Callable[[str], Any]) -> bool:
    """Return whether a selector names a variant.

    Args:
        selector: Axis or setting -> its level. A list matches any of its values.
        level: Returns the variant's level of an axis or setting.
    """
    for name, value in selector.items():
        # A level may be a list itself, so the list counts as one of the values.
        values = [value, *(value if isinstance(value, list | tuple) else [])]
        variant_level = level(name)
        if not any(same_value(variant_level, value) for value in values):
            return False
    return True


def same_value(first_value: Any, second_value: Any) -> bool:
    """Return whether two settings are equal: 1 and 1.0 are, 1 and True are not."""
    are_both_flags = isinstance(first_value, bool) == isinstance(second_value, bool)
    return first_value == second_value and are_both_flags
