"""Matches published values (targets) with variants, and decides whether the two are comparable.

Matching: a target belongs to the variants that have its value of every setting that the study varies. If
several variants match, those with the preset's values of unstated settings are kept, because the preset has
the paper's defaults. If no variant matches, for example in a preset with shorter training, the target belongs
to the variants with the same label as in the `paper` preset, and it is not comparable. A target of another
data set or model is never shown.

Comparability: three sources must agree with the variant's settings. These are the target itself (protocol,
epochs, ...), its paper and the authors' code (`papers/settings.yaml`), unless the study explains a
deviation (`deviations`). Settings that no source states are listed as assumptions with their values, and the
verdict names them. Any other setting makes a value of recstudy's tables not comparable, so that a wrong
`paper` preset cannot certify itself. For a table of a user's own, such a setting must equal the value in the
study's `paper` preset.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isclose
from typing import Any

from recstudy.papers import Target, assumptions, by_name, settings
from recstudy.programs.settings import PREFIX
from recstudy.records import Json
from recstudy.records.plans import short_names
from recstudy.records.study_schema import Deviation
from recstudy.report.fits import AT_TEST
from recstudy.report.names import (
    in_own_unit,
    join_labels,
    metric,
    number,
    plural,
    same_value,
    setting_name,
    value_text,
)
from recstudy.report.reasons import IMPORTED, LEAK
from recstudy.report.registration import Statement, is_redescribed, post_hoc
from recstudy.report.study_records import StudyRecords

SHOWN_ASSUMPTIONS = 2  # a verdict names at most so many assumptions, and counts more
UNKNOWN = "the plan is too old to have the paper's settings: run the study's command again"
NO_SETTINGS = "the paper's training settings are not known"
# A source that does not state these settings does not describe a training.
TRAINING = ("train.optimizer", "train.learning_rate", "train.batch_size", "train.epochs")
PAPER = "paper"  # the preset with the settings of the paper
SHARDS = "batch norm uses the statistics of each worker's share of a batch"
SHORT = 12  # characters of a checksum in a reason
SHOWN_SETTINGS = 6  # a reason gives the values of at most so many settings
# A limit of the data has a reason of its own, and evaluation depths only add scores of the test set.
OWN_CHECKS = ("data.limit", "train.evaluation_depths")
DATA_SET = {"data.name", "data.version"}  # fields that identify the data set
TRAINED = ("model.weights", "model.tuned")  # fields on a model's training, which do not identify it


@dataclass(frozen=True)
class MatchedTarget:
    """A published value that belongs to a variant of the study.

    Args:
        target: The published value.
        reasons: Why the value is not comparable; empty if it is.
        deviations: Stated deviations of our settings from the paper's.
        late: Whether its margin was first stated after a run that it judges had finished.
    """

    target: Target
    reasons: tuple[str, ...]
    deviations: tuple[Deviation, ...] = ()
    late: bool = False

    @property
    def assumed(self) -> str:
        """The assumptions of a verdict: `if N_sup was 16, which the paper does not say`, or nothing."""
        assumptions = [self.target.assumed] if self.target.assumed else []
        assumptions += [
            f"{_subject(deviation)} was {value_text(deviation.ours)}"
            for deviation in self.deviations
            if deviation.paper is None
        ]
        if self.reasons or not assumptions:
            return ""
        words = f"{len(assumptions)} settings were as assumed"
        if len(assumptions) <= SHOWN_ASSUMPTIONS:
            words = " and ".join(assumptions)
        return f"if {words}, which the paper does not say"

    @property
    def value(self) -> float:
        """The published value in the unit of our own records."""
        return in_own_unit(self.target.metric, self.target.value, self.target.unit)

    @property
    def margin(self) -> float:
        """The margin in the unit of our own records; 0 if the study gives no reason for one."""
        margin = self.target.margin if self.target.margin_reason else 0.0
        if metric(self.target.metric).computed:
            # A computed count must round to the published digits, whatever the stated margin.
            margin = 0.5 * 10**-self.decimals
        return in_own_unit(self.target.metric, margin, self.target.unit)

    @property
    def decimals(self) -> int:
        return (
            len(repr(self.target.value).partition(".")[2])
            if self.target.decimals is None
            else self.target.decimals
        )

    @property
    def text(self) -> str:
        """The value as the paper prints it."""
        if self.target.unit == "million":
            return f"{self.target.value:,.{self.decimals}f} M"
        text, std = number(self.target.metric, self.value), self.target.std
        printed = f"{self.value:,.6f}".rstrip("0").rstrip(".")
        # The format of the metric may have fewer digits than the paper.
        if self.target.kind != "derived" and len(text.partition(".")[2]) < len(printed.partition(".")[2]):
            text = printed
        if std is None:
            return text
        spread = number(self.target.metric, in_own_unit(self.target.metric, std, self.target.unit))
        return f"{text} ± {spread}"


def deviation_notes(matches: Iterable[MatchedTarget]) -> tuple[str, ...]:
    """Return the deviations and assumptions of the compared values: their counts, then each in words."""
    nouns = {
        deviation_text(deviation): "assumption" if deviation.paper is None else "stated deviation"
        for value in matches
        for deviation in value.deviations
    }
    # The nouns in reverse alphabetical order: deviations are first.
    counts = sorted(Counter(nouns.values()).items(), reverse=True)
    words = " and ".join(plural(count, noun) for noun, count in counts)
    return (f"comparable, with {words}:", *nouns) if nouns else ()


def deviation_text(deviation: Deviation) -> str:
    """Return `precision bfloat16, not float32: why`."""
    theirs = (
        "which the paper leaves blank" if deviation.paper is None else f"not {value_text(deviation.paper)}"
    )
    return f"{_subject(deviation)} {value_text(deviation.ours)}, {theirs}: {by_name(deviation.why)}"


def _subject(deviation: Deviation) -> str:
    return _short(deviation.field) if deviation.of_config else deviation.field


def nearest_matches(matches: Sequence[Any]) -> tuple[Any, ...]:
    """Return the values, or differences of two, with the fewest reasons against a comparison.

    Comparable values have none.
    """
    fewest_reasons = min((len(match.reasons) for match in matches), default=0)
    return tuple(match for match in matches if len(match.reasons) == fewest_reasons)


@dataclass(frozen=True)
class Placement:
    """The result of matching: values by (variant, metric), and unmatched values with the reason."""

    matches: dict[tuple[int, str], list[MatchedTarget]]
    unmatched_targets: tuple[tuple[Target, str], ...]

    @property
    def notes(self) -> list[str]:
        """The number of published values that are not shown, by source and reason."""
        counts = Counter(
            (target.cited.partition(" (")[0], reason) for target, reason in self.unmatched_targets
        )
        return [
            f"not shown: {plural(count, 'published value')} of {source} ({reason})"
            for (source, reason), count in counts.items()
        ]


def match_targets(
    records: StudyRecords, targets: Sequence[Target], variants: Sequence[int], metrics: Sequence[str]
) -> Placement:
    """Match published values with variants of the same data set and model.

    Args:
        records: The study's records.
        targets: The published values.
        variants: The variants that the part shows.
        metrics: The metrics that the part shows.
    """
    by_cell: dict[tuple[int, str], list[MatchedTarget]] = {}
    unmatched: list[tuple[Target, str]] = []
    for target in targets:
        blank = [path for path, value in target.where.items() if value is None]
        blank = [_short(path) for path in blank if _decides(target.metric, path)]
        if blank:
            unmatched.append((target, f"{', '.join(blank)} left blank in the source"))
            continue
        if target.metric not in metrics:
            unmatched.append((target, "; ".join((*map(by_name, target.against), "not measured here"))))
            continue
        source, problem, is_placed = _source(records, target), "", False
        for index in source.homes:
            if index not in variants:
                continue
            if identity := _other_identity(records, index, source.stated_settings):
                problem = problem or f"its {identity} is not run here"
                continue
            match = _match(records, index, source)
            # A count of another network (parameters, FLOPs) says nothing about this one, so it is not shown.
            if match.reasons and metric(target.metric).computed:
                problem = f"a count of other settings: {'; '.join(match.reasons)}"
                continue
            by_cell.setdefault((index, target.metric), []).append(match)
            is_placed = True
        if not is_placed:
            unmatched.append((target, problem or "no variant here has its settings"))
    return Placement(by_cell, tuple(unmatched))


@dataclass(frozen=True)
class _Source:
    """What is known about the settings of a published value.

    Args:
        target: The published value.
        stated_settings: The settings that the target states and that decide its metric.
        sourced: The settings that its paper or code states, in any other case.
        deviations: The deviations and assumptions of the study.
        references: The settings of the matches in the `paper` preset. None if the study runs it itself.
        homes: The variants with the stated settings, or with the label of a match in the `paper` preset.
    """

    target: Target
    stated_settings: Json
    sourced: Json
    deviations: tuple[Deviation, ...]
    references: list[Json] | None
    homes: list[int]


def _source(records: StudyRecords, target: Target) -> _Source:
    name, plan, reference = target.metric, records.plan, records.reference
    decides = partial(_decides, name)
    stated_settings = {path: value for path, value in target.where.items() if decides(path)}
    sourced = {path: value for path, value in settings(target).items() if _compared(name, path)}
    known_fields = {deviation.field for deviation in plan.deviations}
    unstated = [deviation for deviation in assumptions(target) if deviation.field not in known_fields]
    homes, references = records.design.homes(stated_settings, decides), None
    if reference is not None and reference is not records.design:
        matches = reference.homes(stated_settings, decides)
        labels = {reference.variants[index].label for index in matches}
        homes = homes or [index for index, variant in enumerate(plan.variants) if variant.label in labels]
        fields = [_settings(reference.configs[index], name) for index in matches]
        references = list({repr(config): config for config in fields}.values())
    return _Source(target, stated_settings, sourced, (*plan.deviations, *unstated), references, homes)


def _match(records: StudyRecords, index: int, source: _Source) -> MatchedTarget:
    """Return the published value as one of this variant."""
    target = source.target
    reasons = (*map(by_name, target.against), *_reasons(records, index, source))
    if reasons:
        return MatchedTarget(target, reasons)
    deviations = _applied_deviations(records.configs[index], source)
    statements: list[Statement] = [target] * bool(target.margin_reason)
    statements += [deviation for deviation in deviations if deviation.of_config]
    late = any(post_hoc(records, statement, [index]) for statement in statements)
    late = late or is_redescribed(records, [target.metric], [index])
    return MatchedTarget(target, (), deviations, late)


def _other_identity(records: StudyRecords, index: int, stated_settings: Json) -> str:
    """Return `data set` or `model` if the published value has another one than the variant; else empty."""
    # A user's own program may lack the fields of both.
    paths = [
        path
        for path, value in stated_settings.items()
        if (path in records.configs[index] or not records.is_own)
        and not records.design.agrees(index, path, value)
    ]
    if not DATA_SET.isdisjoint(paths):
        return "data set"
    is_other_model = any(path.startswith("model") and path not in TRAINED for path in paths)
    return "model" * is_other_model


def _decides(name: str, path: str) -> bool:
    """Return whether a metric depends on a setting. A parameter count does not depend on the training."""
    irrelevant_prefixes = (
        ("resources",) if name.partition(".")[0] in AT_TEST else ("resources", "train.at_test")
    )
    return not path.startswith(irrelevant_prefixes) and not (
        metric(name).computed and path.startswith(("train", "model.weights"))
    )


def _compared(name: str, path: str) -> bool:
    """Return whether a setting that the target does not state must be as in the `paper` preset."""
    parts = ("model.",) if metric(name).computed else ("data.", "model.", "train.", PREFIX)
    return path.startswith(parts) and path not in OWN_CHECKS and _decides(name, path)


def _reasons(records: StudyRecords, index: int, source: _Source) -> list[str]:
    """Return why a variant and a published value are not comparable.

    These are settings that differ from the target, its sources, the deviations or the `paper` preset. If
    there are none, they are settings that no source states.
    """
    design, plan, target, is_own = records.design, records.plan, source.target, records.is_own
    config = design.configs[index]
    compared = _settings(config, target.metric)
    excused = {deviation.field for deviation in source.deviations if _excuses(deviation, config, source)}
    sourced = dict(source.sourced)
    # A value that differs from the stated deviation is a reason too, even in the `paper` preset.
    for deviation in source.deviations:
        if deviation.field not in source.stated_settings:
            theirs = deviation.ours if deviation.paper is None else deviation.paper
            sourced.setdefault(deviation.field, theirs)
    differing: dict[str, str] = {}
    followed: dict[str, str] = {}  # setting -> its source (text or code), if the two differ
    for path, theirs in sourced.items():
        if path not in compared or path in excused:
            continue
        alternatives = _alternatives(theirs)
        agreeing = [name for name, value in alternatives.items() if _as_sourced(config[path], value)]
        if not agreeing:
            # `adamw (text) or adam_atan2 (code)`
            words = [f"{value_text(value)}{name and f' ({name})'}" for name, value in alternatives.items()]
            differing[path] = f"{value_text(config[path])}, not {' or '.join(words)}"
        elif agreeing != [*alternatives]:
            followed[path] = agreeing[0]
    known_paths = {*source.stated_settings, *sourced}
    rules: dict[str, Any] = {LEAK: records.leaks(index), IMPORTED: index in records.imported and not is_own}
    for path, value in source.stated_settings.items():
        mismatch = f"{_short(path)} {value_text(design.setting(index, path))}, not {value_text(value)}"
        rules[mismatch] = not design.agrees(index, path, value)
    reasons = [reason for reason, holds in rules.items() if holds]
    reasons += _differences_in_words(compared, known_paths, source.references, differing)
    mixture = [f"{_short(path)} {value_text(config[path])} ({name})" for path, name in followed.items()]
    is_mixture = not reasons and len({*followed.values()}) > 1
    rules = {
        f"a mixture of the paper's text and its code: {', '.join(mixture)}": is_mixture,
        UNKNOWN: plan.reference is None,
    }
    if not metric(target.metric).computed:
        is_paper = plan.reference is None or plan.reference.preset == PAPER
        has_reasons = bool(reasons or target.against) or any(rules.values())
        unstated = [setting_name(path) for path in compared if path not in known_paths]
        is_unstated = unstated and ((target.row and not has_reasons) or (is_own and not is_paper))
        is_training_known = is_paper or is_own or known_paths >= {*TRAINING}
        limit, stated_limit = config.get("data.limit"), source.stated_settings.get("data.limit")
        workers = [run.provenance.workers for run in records.by_variant[index] if run.done]
        checksums = [checksum[:SHORT] for checksum in records.data_checksums(index)]
        rules |= {
            f"its source does not state {join_labels(unstated, ', ')}": is_unstated,
            NO_SETTINGS: not (is_unstated or is_training_known),
            "another machine": metric(target.metric).timed,
            f"only {limit} images of each split": limit not in (None, stated_limit),
            SHARDS: max(workers, default=1) > 1 and records.variants[index].batch_norm,
            f"data of several checksums: {' and '.join(checksums)}": len(checksums) > 1,
            "smoke run": plan.smoke,
        }
    return reasons + [reason for reason, holds in rules.items() if holds]


def _excuses(deviation: Deviation, config: Json, source: _Source) -> bool:
    """Return whether a deviation explains why a setting differs from the target's source."""
    field, paper = deviation.field, deviation.paper
    if field not in config or not same_value(config[field], deviation.ours):
        return False
    # The paper's value in the deviation may belong to another number of the table than this target.
    alternatives = _alternatives(source.sourced.get(field, paper)).values()
    return paper is None or any(_as_sourced(paper, alternative) for alternative in alternatives)


def _alternatives(value: Any) -> Json:
    """Return the values of a setting by their source (text or code). A single value has an empty source."""
    return value if isinstance(value, dict) else {"": value}


def _as_sourced(value: Any, sourced: Any) -> bool:
    return same_value(value, sourced) or (
        isinstance(value, float) and isinstance(sourced, float) and isclose(value, sourced)
    )


def _settings(config: Json, name: str) -> Json:
    """Return the settings that are compared for a metric."""
    return {path: value for path, value in config.items() if _compared(name, path)}


def _applied_deviations(config: Json, source: _Source) -> tuple[Deviation, ...]:
    """Return the deviations and assumptions that apply to these settings and matter for the metric."""
    applied, name = [], source.target.metric
    for deviation in source.deviations:
        field = deviation.field
        is_as_sourced = field in source.sourced and same_value(deviation.ours, source.sourced[field])
        applies = _compared(name, field) and not is_as_sourced and _excuses(deviation, config, source)
        if applies if deviation.of_config else not metric(name).computed:
            applied.append(deviation)
    return tuple(applied)


def _differences_in_words(
    ours: Json, known_paths: Collection[str], references: Sequence[Json] | None, differing: dict[str, str]
) -> list[str]:
    """Return the differing settings in words; after the first `SHOWN_SETTINGS`, only their names.

    Args:
        ours: The variant's settings.
        known_paths: The settings that the target or its sources state.
        references: The settings of the matches in the `paper` preset. Unstated settings are compared with the
            nearest of them.
        differing: Setting -> how it differs from the paper or its code.
    """
    if references:
        theirs = min(references, key=lambda fields: len(_differing_fields(ours, fields)))
        for path in _differing_fields(ours, theirs):
            if path not in known_paths:
                differing[path] = f"{value_text(ours.get(path))}, not {value_text(theirs.get(path))}"
    names = short_names(differing)
    reasons = ["the paper preset has no such variant"] * (references == [])
    reasons += [f"{name} {differing[path]}" for path, name in [*names.items()][:SHOWN_SETTINGS]]
    if further_names := [*names.values()][SHOWN_SETTINGS:]:
        reasons.append(f"{plural(len(further_names), 'more setting')} ({', '.join(further_names)})")
    return reasons


def _differing_fields(ours: Json, theirs: Json) -> list[str]:
    return [path for path in theirs | ours if not same_value(ours.get(path), theirs.get(path))]


def _short(path: str) -> str:
    """Return the last part of a path: `epochs` for `train.epochs`, but `data` for `data.name`."""
    return "data" if path == "data.name" else path.rpartition(".")[2]
