"""The variants of a study: their check against the command line, their records, and `--only`."""

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.values import flatten
from recstudy.programs.base import RunSettings
from recstudy.programs.settings import KINDS, json_value
from recstudy.records import Run
from recstudy.records.study_schema import VariantRecord
from recstudy.report.names import setting_name
from recstudy.study.design import Changes, Variant
from recstudy.study.study import PAPER, Study


def variant_record(variant: Variant, config: RunSettings, **known_fields: Any) -> VariantRecord:
    """Return the record of a variant.

    An axis without a level has the value of the preset. The label mentions leaks and imported weights.

    Args:
        variant: The variant.
        config: Its settings.
        known_fields: More fields of the record.
    """
    description = config.description
    fields = flatten(config.values) if variant.axes.keys() - variant.levels.keys() else {}
    levels = {axis: fields[path] for axis, path in variant.axes.items() if path in fields}
    # as the program's types convert it, because the run id depends on it
    own_values = flatten(config.values) if config.metrics else {}
    changes = json_value({**variant.changes}, f"the variant {variant.label!r}")
    words = ["LEAKY"] * description.leaks + ["imported"] * description.is_imported
    return VariantRecord(
        label=", ".join([variant.label, *(word for word in words if word not in variant.label)]),
        levels=levels | dict(variant.levels),
        changes={path: own_values.get(path, value) for path, value in changes.items()},
        model=description.model,
        data=description.data,
        synthetic=description.is_synthetic,
        leaks=description.leaks,
        batch_norm=description.has_batch_norm,
        **known_fields,
    )


def check_variants(study: Study, preset: str, changes: Changes) -> None:
    """Check the labels of the variants and the changes of the command line.

    Raises:
        ConfigError: A label is invalid or repeated, or a change affects a field that distinguishes variants,
            whose labels would then be wrong.
    """
    variants, name = study.by_preset(study.variants, preset), f"{study.name}, preset {preset}"
    labels = Counter(variant.label for variant in variants)
    if not labels:
        raise ConfigError(f"{name} has no variants")
    for text, count in labels.items():
        if count > 1:
            raise ConfigError(
                f"{name}: {count} variants have the label {text!r}. Give each variant its own label"
            )
    for variant in variants:
        if variant.base and variant.base not in labels:
            raise ConfigError(
                f"{variant.label!r} is compared with {variant.base!r}, which is no variant: there are"
                f" {choices(labels, limit=6)}." + nearest(variant.base, labels)
            )
    if "seed" in changes:
        raise ConfigError("seed cannot be set. Use --seeds N to run seeds 0 to N-1")
    swept = {path: variant.label for variant in reversed(variants) for path in variant.axes.values()}
    # other field that variants do not set alike -> the label of the first that sets it
    distinguishing: dict[str, str] = {}
    for path in dict.fromkeys(path for variant in variants for path in variant.changes if path not in swept):
        values = {
            variant.label: repr(variant.changes[path]) for variant in variants if path in variant.changes
        }
        if len(values) < len(variants) or len({*values.values()}) > 1:
            distinguishing[path] = next(iter(values))
    for changed in changes:
        if changed in swept:
            raise ConfigError(
                f"{setting_name(changed)!r} is varied by this study. Choose its levels with --only, such as "
                f"--only '{swept[changed]}'"
            )
        if changed in distinguishing:
            raise ConfigError(
                f"{changed!r} distinguishes {distinguishing[changed]!r} in this study, so its label would be"
                " wrong. Choose variants with --only, or change the value in the study"
            )
        for path in (*swept, *distinguishing):
            if path.startswith(f"{changed}.") or changed in (f"{path}.{kind}" for kind in KINDS):
                raise ConfigError(
                    f"{changed!r} would replace {path!r}, which is varied by this study. "
                    "Set other fields one by one, such as train.epochs=5"
                )


def check_deviations(study: Study, configs: Iterable[RunSettings]) -> None:
    """Raise a ConfigError if a stated deviation is not what the `paper` preset does."""
    settings = [flatten(config.values) for config in configs]
    for deviation in study.deviations:
        values = dict.fromkeys(
            repr(fields[deviation.field]) for fields in settings if deviation.field in fields
        )
        if deviation.of_config and repr(deviation.ours) not in values:
            raise ConfigError(
                f"{study.name} states as a deviation that {deviation.field} is {deviation.ours!r}, but in its"
                f" preset {PAPER} "
                + (f"it is {choices(values)}" if values else "no model or data set has this field")
            )


def select(runs: Sequence[Run], patterns: Sequence[str], option: str = "--only") -> Sequence[Run]:
    """Return the runs whose label matches any of the globs. Without globs, return all runs.

    Spaces in labels and globs are ignored.
    """
    labels = {run.label.replace(" ", ""): run.label for run in runs}
    chosen: set[str] = set()
    for pattern in patterns:
        matches = fnmatch.filter(labels, pattern.replace(" ", ""))
        if not matches:
            known_labels = choices((f"'{label}'" for label in labels.values()), limit=6)
            near = _nearest_name(pattern, labels.values()) or nearest(pattern, labels.values())
            raise ConfigError(f"No variant matches {option} {pattern!r}.{near} Variants: {known_labels}")
        chosen |= {labels[match] for match in matches}
    return [run for run in runs if run.label in chosen] if patterns else runs


def _nearest_name(pattern: str, labels: Iterable[str]) -> str:
    """Return a hint with the label whose beginning is most similar to the glob."""
    word = re.split(r"[=*?[]", pattern.lstrip("* "))[0]
    names = dict.fromkeys(part.partition("=")[0] for label in labels for part in label.split(", "))
    # one letter more, as one may be missing
    prefixes = {name[: len(word) + 1]: name for name in reversed(names)}
    match = get_close_matches(word, prefixes, n=1)
    return f" Did you mean {prefixes[match[0]]!r}?" if match and word not in names else ""
