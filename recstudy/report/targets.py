"""Published numbers beside our own: which variant a target belongs to, and what may be said about the two.

A target belongs to a variant when every setting that the study varies is as the target states it. Where several variants
are left, they are told apart by what the target leaves unsaid: that counts as the preset's own, because there the paper's
defaults are written down. Where none is left, as in a preset of smaller models, it stands beside the variants that are named
as its own in the `paper` preset, and is not comparable. It is comparable when everything else that it states (data set,
protocol, epochs, ...) agrees too, so does what its paper or the authors' code states besides (`papers/settings.yaml`), or the
study says why not (`deviations`), and all else that decides numbers is as the study's `paper` preset has it for the same target.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isclose
from typing import Any

from recstudy.papers import Target, by_name, settings
from recstudy.programs.settings import PREFIX
from recstudy.records import Json
from recstudy.records.plans import short_names
from recstudy.records.study_schema import Deviation
from recstudy.report.caveats import IMPORTED, LEAK, some
from recstudy.report.names import in_own_unit, metric, number, plain, plural, same, setting_name
from recstudy.report.registration import post_hoc
from recstudy.report.study_records import OTHERS, StudyRecords, differing_fields

FEW = 2  # assumptions that a verdict names
UNKNOWN = "planned before the paper's settings were kept: run its command again"
NOTHING = "nothing here says that the settings are the paper's"
TRAINING = ("train.optimizer", "train.learning_rate", "train.batch_size", "train.epochs")  # without which no training is said
PAPER = "paper"  # the preset that is as a paper has it
SHARDS = "batch norm by the statistics of each worker's share of a batch"
SHORT = 12  # characters of a checksum that tell it apart
MOST = 6  # settings that a reason gives with their values
APART = ("data.limit", "train.evaluation_depths")  # one has words of its own, the other scores the test set at more depths
AT_TEST = (  # what `train.at_test` decides, and nothing else
    "noisy_exact_accuracy", "any_exact_accuracy", "pass_at", "voted_exact_accuracy", "any_copy_exact_accuracy", "flipped_puzzles",
)  # fmt: skip


@dataclass(frozen=True)
class Placed:
    """A target at a variant of the study: what stands against a comparison, if anything."""

    target: Target
    reasons: tuple[str, ...]
    deviations: tuple[Deviation, ...] = ()  # of ours from the paper's settings
    late: bool = False  # its margin was first stated after a run that it judges had finished

    @property
    def assumed(self) -> str:
        """What a verdict takes for granted: `if N_sup was 16, which the paper does not say`; empty where nothing."""
        blank = [f"{_subject(one)} was {plain(one.ours)}" for one in self.deviations if one.paper is None]
        taken = [] if self.reasons else [*filter(None, [self.target.assumed]), *blank]
        said = " and ".join(taken) if len(taken) <= FEW else f"{len(taken)} settings were as assumed"
        return f"if {said}, which the paper does not say" if taken else ""

    @property
    def value(self) -> float:
        """In the unit of our own records."""
        return in_own_unit(self.target.metric, self.target.value, self.target.unit)

    @property
    def margin(self) -> float:
        """In the unit of our own records; 0 where the study gives no reason for one. A computed count must round to the published
        digits, whatever margin is asked.
        """
        margin = self.target.margin if self.target.margin_reason else 0.0
        if metric(self.target.metric).computed:
            margin = 0.5 * 10**-self.decimals
        return in_own_unit(self.target.metric, margin, self.target.unit)

    @property
    def decimals(self) -> int:
        """As the paper prints it, where the target says so."""
        return len(repr(self.target.value).partition(".")[2]) if self.target.decimals is None else self.target.decimals

    @property
    def text(self) -> str:
        """As the paper prints it."""
        if self.target.unit == "million":
            return f"{self.target.value:,.{self.decimals}f} M"
        return number(self.target.metric, self.value)


def deviation_notes(placed: Iterable[Placed]) -> tuple[str, ...]:
    """Say what is compared although it is not all as in the paper: how much of that the study states, and each in words."""
    found = {deviation_text(one): one.paper is None for beside in placed for one in beside.deviations}
    counts = [(len(found) - sum(found.values()), "stated deviation"), (sum(found.values()), "assumption")]
    said = " and ".join(plural(count, what) for count, what in counts if count)
    return (f"comparable, with {said}:", *found) if found else ()


def deviation_text(stated: Deviation) -> str:
    """Return `precision bfloat16, not float32: why`."""
    theirs = "which the paper leaves blank" if stated.paper is None else f"not {plain(stated.paper)}"
    return f"{_subject(stated)} {plain(stated.ours)}, {theirs}: {by_name(stated.why)}"


def _subject(stated: Deviation) -> str:
    return _short(stated.field) if stated.of_config else stated.field


@dataclass(frozen=True)
class Placement:
    """Targets by (variant, metric), and those that have no place, each with the reason."""

    placed: dict[tuple[int, str], tuple[Placed, ...]]
    unmatched_targets: tuple[tuple[Target, str], ...]


def nearest_placed(placed: Sequence[Placed]) -> tuple[Placed, ...]:
    """Return those with the fewest reasons against them: comparable values, or those of the same data set, before others."""
    least = min((len(target.reasons) for target in placed), default=0)
    return tuple(target for target in placed if len(target.reasons) == least)


def place(records: StudyRecords, targets: Sequence[Target], variants: Sequence[int], metrics: Sequence[str]) -> Placement:
    """Give every target its variants, of its own data set where several are published, and no count of another network."""
    placed: dict[tuple[int, str], list[Placed]] = {}
    unmatched_targets: list[tuple[Target, str]] = []
    among, paper = frozenset(variants), records.reference
    other = None if paper is records.design else paper
    for target in targets:
        decides = partial(_decides, target.metric)
        stated = {path: value for path, value in target.where.items() if decides(path)}
        blank = [path for path, value in stated.items() if value is None]
        found = [] if blank or target.metric not in metrics else records.design.homes(stated, decides)
        if not found and other is not None and not blank and target.metric in metrics:  # else the namesakes of those in `paper`
            named = {other.variants[index].label for index in other.homes(stated, decides)}
            found = [index for index, variant in enumerate(records.variants) if variant.label in named]
        homes = [index for index in found if index in among]
        if not homes:
            why = "no variant here has its settings"
            if blank:
                why = f"{', '.join(map(_short, blank))} left blank in the source"
            elif target.metric not in metrics:
                why = "; ".join(("not measured here", *map(by_name, target.against)))
            unmatched_targets.append((target, why))
            continue
        theirs = (
            None  # what the `paper` preset sets where it has the target's variants, each once; None where nothing else is run
        )
        if other is not None:
            sets = [_settings(records, other.configs[index], target.metric) for index in other.homes(stated, decides)]
            theirs = list({repr(fields): fields for fields in sets}.values())
        told = {path: value for path, value in settings(target).items() if _compared(target.metric, path)}
        for index in homes:
            reasons = (*map(by_name, target.against), *_reasons(records, index, stated, told, target.metric, theirs))
            known = () if reasons else records.plan.deviations
            apart = tuple(one for one in known if _holds(one, records.configs[index], target.metric, told))
            late = not reasons and bool(target.margin_reason) and post_hoc(records, target, [index])
            placed.setdefault((index, target.metric), []).append(Placed(target, reasons, apart, late))
    kept: dict[tuple[int, str], list[Placed]] = {}
    for (index, name), beside in placed.items():
        several = len({one.target.where.get("data.name") for one in beside}) > 1
        own = (None, records.configs[index].get("data.name"))
        kept[index, name] = [one for one in beside if not several or one.target.where.get("data.name") in own]
    shown = {at: tuple(one for one in beside if not (one.reasons and metric(at[1]).computed)) for at, beside in kept.items()}
    unmatched_targets += [(one.target, "its data set is not run here") for one in _gone(placed, kept)]
    unmatched_targets += [(one.target, f"a count of other settings: {'; '.join(one.reasons)}") for one in _gone(kept, shown)]
    return Placement({place: beside for place, beside in shown.items() if beside}, tuple(unmatched_targets))


def _gone(before: Mapping[Any, Sequence[Placed]], after: Mapping[Any, Sequence[Placed]]) -> Iterable[Placed]:
    """Return each target that stands nowhere any more, once."""
    there = {id(one.target) for beside in after.values() for one in beside}
    return {id(one.target): one for beside in before.values() for one in beside if id(one.target) not in there}.values()


def _decides(name: str, path: str) -> bool:
    """Tell whether a setting decides this metric: a parameter count does not depend on how the training began and went."""
    aside = ("place", *(() if name.partition(".")[0] in AT_TEST else ("train.at_test",)))
    return not path.startswith(aside) and not (metric(name).computed and path.startswith(("train", "model.weights")))


def _compared(name: str, path: str) -> bool:
    """Tell whether a setting that the target does not state is to be as in the `paper` preset."""
    parts = ("model.",) if metric(name).computed else ("data.", "model.", "train.", PREFIX)
    return path.startswith(parts) and path not in APART and _decides(name, path)


def _reasons(
    records: StudyRecords, index: int, stated: Json, told: Json, name: str, theirs: Sequence[Json] | None
) -> tuple[str, ...]:
    """Say why the two cannot be compared: each setting that is not as the target states it, as its paper or code has it (`told`),
    or else as the paper's preset has it.
    """
    design, kept = records.design, records.plan.reference
    config = design.configs[index]
    reasons = [
        *([LEAK] if records.leaks(index) else []),
        *([IMPORTED] if index in records.imported and not records.is_own else []),
    ]
    reasons += [
        f"{_short(path)} {plain(design.setting(index, path))}, not {plain(value)}"
        for path, value in stated.items()
        if not design.agrees(index, path, value)
    ]
    ours = _settings(records, config, name)
    meant = {one.field for one in records.plan.deviations if one.field in config and same(config[one.field], one.ours)}
    others = tuple(part for kind, part in OTHERS.items() if kind in stated and not design.agrees(index, kind, stated[kind]))
    unlike = {}
    for path, value in told.items():
        if path in config and path not in meant and not path.startswith(others) and not _as_told(config[path], value):
            # `adamw (text) or adam_atan2 (code)`
            said = [f"{plain(one)} ({at})" for at, one in value.items()] if isinstance(value, dict) else [plain(value)]
            unlike[path] = f"{plain(config[path])}, not {' or '.join(said)}"
    reasons += _unlike(ours, {*stated, *told}, theirs, unlike)
    reasons += [UNKNOWN] if kept is None else []
    if metric(name).computed:
        return tuple(reasons)
    if kept is not None and kept.preset != PAPER:
        unstated = [path for path in config if path.startswith(PREFIX) and path not in stated and path not in told]
        if records.is_own and unstated:
            reasons.append(f"its source does not state {some([*map(setting_name, unstated)], ', ')}")
        elif not records.is_own and not {*stated, *told} >= {*TRAINING}:
            reasons.append(NOTHING)
    reasons += ["another machine"] if metric(name).timed else []
    limit = config.get("data.limit")
    reasons += [f"only {limit} images of each split"] if limit not in (None, stated.get("data.limit")) else []
    done = [run.provenance for run in records.by_variant[index] if run.done]
    shards = max((one.workers for one in done), default=1) > 1 and records.variants[index].batch_norm
    reasons += [SHARDS] if shards else []
    sums = records.data_checksums(index)
    reasons += ["data of several checksums: " + " and ".join(one[:SHORT] for one in sums)] if len(sums) > 1 else []
    return (*reasons, *(["smoke run"] if records.plan.smoke else []))


def _as_told(value: Any, told: Any) -> bool:
    """Tell whether a setting is as the paper's text or its code has it."""
    if isinstance(told, dict):
        return any(_as_told(value, one) for one in told.values())
    return same(value, told) or (isinstance(value, float) and isinstance(told, float) and isclose(value, told))


def _settings(records: StudyRecords, config: Json, name: str) -> Json:
    """Return what is compared of it; the paper's own value counts as the preset's where the study states that these differ."""
    kept = {path: value for path, value in config.items() if _compared(name, path)}
    stated = [one for one in records.plan.deviations if one.field in kept and one.paper is not None]
    return kept | {one.field: one.ours for one in stated if same(kept[one.field], one.paper)}


def _holds(stated: Deviation, config: Json, name: str, told: Json) -> bool:
    """Tell whether a deviation is one of this config, and bears on this metric; none where the paper has our value for it."""
    if not stated.of_config:
        return not metric(name).computed
    if stated.field not in config or (stated.field in told and same(config[stated.field], told[stated.field])):
        return False
    return same(config[stated.field], stated.ours) and _compared(name, stated.field)


def _unlike(ours: Json, said: Collection[str], references: Sequence[Json] | None, unlike: dict[str, str]) -> list[str]:
    """Return the settings that are `unlike` what the paper or its code states, and those of which neither says anything and that
    differ from the nearest reference; of a part of another kind its kind alone, and many at their end in short.
    """
    if references:
        theirs = min(references, key=lambda fields: len(differing_fields(ours, fields)))
        paths = [path for path in differing_fields(ours, theirs) if path not in said]
        unlike = unlike | {path: f"{plain(ours.get(path))}, not {plain(theirs.get(path))}" for path in paths}
    other = tuple(OTHERS[path] for path in unlike if path in OTHERS)
    unlike = {path: words for path, words in unlike.items() if path in OTHERS or not path.startswith(other)}
    words = [f"{short} {unlike[path]}" for path, short in short_names(unlike).items()]
    more = ", ".join([*short_names(unlike).values()][MOST:])
    missing = ["the paper preset has no such variant"] if references == [] else []
    return [*missing, *words[:MOST], *([f"{plural(len(words) - MOST, 'more setting')} ({more})"] if more else [])]


def _short(path: str) -> str:
    """Shorten `train.epochs` -> `epochs`, `data.name` -> `data`."""
    return "data" if path == "data.name" else path.rpartition(".")[2]
