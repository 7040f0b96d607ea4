"""Published numbers beside our own: which variant a target belongs to, and what may be said about the two.

A target belongs to a variant when every setting that the study varies is as the target states it; a setting that the
target leaves unsaid counts as the preset's own, because that is where the paper's defaults are written down. A target that
names its model has said all of it. It is comparable when everything else that it states (data set, protocol, epochs, ...)
agrees too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recstudy.analysis.caveats import LEAK
from recstudy.analysis.frame import StudyRecords, same, varied_fields
from recstudy.analysis.stats import more_seeds, verdict
from recstudy.config import KINDS, flatten
from recstudy.papers import Target
from recstudy.records import Json
from recstudy.report.names import in_own_unit, metric, number, plain, plural


@dataclass(frozen=True)
class Placed:
    """A target at a variant of the study: what stands against a comparison, if anything."""

    target: Target
    reasons: tuple[str, ...]

    @property
    def value(self) -> float:
        """In the unit of our own records."""
        return in_own_unit(self.target.metric, self.target.value, self.target.unit)

    @property
    def margin(self) -> float:
        """In the unit of our own records. A computed count must round to the published digits, whatever margin is asked."""
        margin = self.target.margin
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

    def verdict(self, values: Sequence[float]) -> str:
        """`not comparable`, `not run`, or what the values say."""
        if self.reasons:
            return "not comparable"
        if not values:
            return "not run"
        if metric(self.target.metric).computed:
            off = max(abs(value - self.value) for value in values)
            return "reproduced" if off <= self.margin else "differs"
        return verdict(values, self.value, self.margin)

    def outcome(self, values: Sequence[float]) -> str:
        """The verdict, and where it is open how many more seeds would settle it."""
        found = self.verdict(values)
        more = more_seeds(values, self.value, self.margin) if found == "undecided" else None
        return f"{found}: about {plural(more, 'more seed')}" if more else found


@dataclass(frozen=True)
class Placement:
    """Targets by (variant, metric), and those that have no place, each with the reason."""

    placed: dict[tuple[int, str], tuple[Placed, ...]]
    homeless: tuple[tuple[Target, str], ...]


def place(records: StudyRecords, targets: Sequence[Target], variants: Sequence[int], metrics: Sequence[str]) -> Placement:
    """Give every target its variants."""
    placed: dict[tuple[int, str], tuple[Placed, ...]] = {}
    homeless: list[tuple[Target, str]] = []
    changed = dict.fromkeys(path for variant in records.variants for path in variant.changes)
    varied = {"model", *varied_fields(records.configs)}
    preset = flatten(records.plan.base)
    for target in targets:
        stated = _counting(target)
        blank = [path for path, value in stated.items() if value is None]
        deciding = [path for path in changed if _decides(path, target.metric)]
        unsaid = {path: value for path, value in preset.items() if path not in stated and _decides(path, target.metric)}
        said = {path: value for path, value in stated.items() if path in varied or path in changed}
        homes = [] if blank else [index for index in variants if _belongs(records, index, said, deciding, unsaid)]
        if blank or target.metric not in metrics or not homes:
            homeless.append((target, _no_place(target, blank, metrics)))
            continue
        for index in homes:
            key = (index, target.metric)
            placed[key] = (
                *placed.get(key, ()),
                Placed(target, (*target.against, *_reasons(records, index, stated, target.metric))),
            )
    return Placement(placed, tuple(homeless))


def _counting(target: Target) -> Json:
    """The stated settings that decide the metric: a parameter count does not depend on how the training began and went."""
    return {path: value for path, value in target.where.items() if _decides(path, target.metric)}


def _decides(path: str, name: str) -> bool:
    return not path.startswith("place") and not (metric(name).computed and path.startswith(("train", "model.weights")))


def _belongs(records: StudyRecords, index: int, stated: Json, changed: Sequence[str], unsaid: Json) -> bool:
    """Whether the variant is as the target states, or as the preset is, in every setting that some variant changes."""
    for path in changed:
        said = [name for name in stated if name == path or name.startswith(path + ".")]
        if not all(_agrees(records, index, name, stated[name]) for name in said):
            return False
        if not said and not _as_preset(records, index, path):
            return False
        if said and path not in said and not _else_as_preset(records, index, path, unsaid):
            return False
    return True


def _else_as_preset(records: StudyRecords, index: int, part: str, unsaid: Json) -> bool:
    """Whether a part (`model`) has the preset's values where the target says nothing; one of another kind has its own."""
    config, preset = records.configs[index], records.plan.base.get(part)
    if not isinstance(preset, dict) or any(config.get(f"{part}.{kind}") != preset.get(kind) for kind in KINDS):
        return True
    own = {path: value for path, value in unsaid.items() if path.startswith(f"{part}.") and path in config}
    return all(same(config[path], value) for path, value in own.items())


def _agrees(records: StudyRecords, index: int, name: str, value: Any) -> bool:
    variant = records.variants[index]
    levels = [variant.levels.get(axis) for axis, path in records.plan.axes.items() if path == name]
    return same(_setting(records, index, name), value) or (name == "model" and value in levels)


def _as_preset(records: StudyRecords, index: int, path: str) -> bool:
    default: Any = records.plan.base
    for part in path.split("."):
        default = default.get(part) if isinstance(default, dict) else None
    return same(records.variants[index].changes.get(path, default), default)


def _setting(records: StudyRecords, index: int, name: str) -> Any:
    """A variant's value of a stated setting; `model` is the model's title."""
    return records.variants[index].model if name == "model" else records.configs[index].get(name)


def _reasons(records: StudyRecords, index: int, stated: Json, name: str) -> tuple[str, ...]:
    """Why the two cannot be compared: each setting that is not as the target states it."""
    reasons = [LEAK] if records.leaks(index) else []
    reasons += [
        f"{_short(path)} {plain(_setting(records, index, path))}, not {plain(value)}"
        for path, value in stated.items()
        if not _agrees(records, index, path, value)
    ]
    if metric(name).computed:
        return tuple(reasons)
    reasons += ["another machine"] if metric(name).timed else []
    limit = records.configs[index].get("data.limit")
    reasons += [f"only {limit} images of each split"] if limit is not None else []
    return tuple(reasons + (["smoke run"] if records.plan.smoke else []))


def _no_place(target: Target, blank: Sequence[str], metrics: Sequence[str]) -> str:
    if blank:
        return f"{', '.join(_short(path) for path in blank)} left blank in the source"
    if target.metric not in metrics:
        return "; ".join(("not measured here", *target.against))
    return "no variant here has its settings"


def _short(path: str) -> str:
    """`train.epochs` -> `epochs`, `data.name` -> `data`."""
    return "data" if path == "data.name" else path.rpartition(".")[2]
