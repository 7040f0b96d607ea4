"""Published numbers beside our own: which variant a target belongs to, and what may be said about the two.

A target belongs to a variant when every setting that the study varies is as the target states it. Where several variants
are left, they are told apart by what the target leaves unsaid: that counts as the preset's own, because there the paper's
defaults are written down. It is comparable when everything else that it states (data set, protocol, epochs, ...)
agrees too, and all else that decides numbers is as the study's `paper` preset has it for the same target.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from recstudy.analysis.caveats import LEAK
from recstudy.analysis.design import parted
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.stats import Spread, more_seeds, verdict
from recstudy.papers import Target
from recstudy.records import Json
from recstudy.records.plans import short_names
from recstudy.report.names import in_own_unit, metric, number, plain, plural

UNKNOWN = "planned before the paper's settings were kept: run its command again"
MOST = 6  # settings that a reason gives with their values


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

    def verdict(self, values: Sequence[float], spread: Spread | None = None, lost: int = 0) -> str:
        """`not comparable`, `not run`, or what the values say; nothing where seeds are `lost`: the rest may be the lucky ones."""
        if self.reasons:
            return "not comparable"
        if not values:
            return "not run"
        if metric(self.target.metric).computed:
            off = max(abs(value - self.value) for value in values)
            return "reproduced" if off <= self.margin else "differs"
        return "undecided" if lost else verdict(values, self.value, self.margin, spread)

    def judged(self, values: Sequence[float], spread: Spread | None, lost: int) -> bool:
        """Whether the verdict is that of a test, which may err."""
        decided = self.verdict(values, spread, lost) in ("reproduced", "consistent", "differs")
        return decided and not metric(self.target.metric).computed

    def outcome(self, values: Sequence[float], spread: Spread | None = None, lost: int = 0) -> str:
        """The verdict, and where it is open why, or about how many more seeds would show the two equal."""
        found = self.verdict(values, spread, lost)
        if found == "undecided":
            return f"{found}: {why_open(values, lost)}"
        more = more_seeds(values, self.value, self.margin, spread) if found == "consistent" else None
        return f"{found}: about {plural(more, 'more seed')} to reproduce" if more else found


def why_open(values: Sequence[float], lost: int) -> str:
    """What an undecided verdict lacks."""
    if lost:
        return f"{plural(lost, 'seed')} failed or diverged"
    return "one run, and no spread known" if len(values) == 1 else "its runs agree, and no spread is known"


@dataclass(frozen=True)
class Placement:
    """Targets by (variant, metric), and those that have no place, each with the reason."""

    placed: dict[tuple[int, str], tuple[Placed, ...]]
    homeless: tuple[tuple[Target, str], ...]


def place(records: StudyRecords, targets: Sequence[Target], variants: Sequence[int], metrics: Sequence[str]) -> Placement:
    """Give every target its variants."""
    placed: dict[tuple[int, str], tuple[Placed, ...]] = {}
    homeless: list[tuple[Target, str]] = []
    among = frozenset(variants)
    for target in targets:
        decides = partial(_decides, target.metric)
        stated = {path: value for path, value in target.where.items() if decides(path)}
        blank = [path for path, value in stated.items() if value is None]
        homes = [] if blank or target.metric not in metrics else records.design.homes(stated, decides)
        homes = [index for index in homes if index in among]
        if not homes:
            homeless.append((target, _no_place(target, blank, metrics)))
            continue
        theirs = _references(records, target.metric, stated)
        for index in homes:
            reasons = (*target.against, *_reasons(records, index, stated, target.metric, theirs))
            placed[index, target.metric] = (*placed.get((index, target.metric), ()), Placed(target, reasons))
    return Placement(placed, tuple(homeless))


def _decides(name: str, path: str) -> bool:
    """Whether a setting decides this metric: a parameter count does not depend on how the training began and went."""
    return not path.startswith("place") and not (metric(name).computed and path.startswith(("train", "model.weights")))


def _compared(name: str, path: str) -> bool:
    """Whether a setting that the target does not state is to be as in the `paper` preset; `data.limit` has its own words."""
    parts = ("model.",) if metric(name).computed else ("data.", "model.", "train.")
    return path.startswith(parts) and path != "data.limit" and _decides(name, path)


def _references(records: StudyRecords, name: str, stated: Json) -> list[Json] | None:
    """What the `paper` preset sets where it has the target's variants, each once; None where nothing else is run."""
    paper = records.reference
    if paper is None or paper is records.design:
        return None
    found = paper.homes(stated, partial(_decides, name))
    settings = [{path: value for path, value in paper.configs[index].items() if _compared(name, path)} for index in found]
    return list({repr(fields): fields for fields in settings}.values())


def _reasons(records: StudyRecords, index: int, stated: Json, name: str, theirs: Sequence[Json] | None) -> tuple[str, ...]:
    """Why the two cannot be compared: each setting that is not as the target states it, or else as the paper's preset has it."""
    design = records.design
    reasons = [LEAK] if records.leaks(index) else []
    reasons += [
        f"{_short(path)} {plain(design.setting(index, path))}, not {plain(value)}"
        for path, value in stated.items()
        if not design.agrees(index, path, value)
    ]
    reasons += _unlike(design.configs[index], stated, name, theirs) if theirs is not None else []
    reasons += [UNKNOWN] if records.reference is None else []
    if metric(name).computed:
        return tuple(reasons)
    reasons += ["another machine"] if metric(name).timed else []
    limit = design.configs[index].get("data.limit")
    reasons += [f"only {limit} images of each split"] if limit is not None else []
    return tuple(reasons + (["smoke run"] if records.plan.smoke else []))


def _unlike(config: Json, stated: Json, name: str, references: Sequence[Json]) -> list[str]:
    """The settings that differ from those of the nearest reference and of which the target says nothing; many at their end in
    short.
    """
    if not references:
        return ["the paper preset has no such variant"]
    ours = {path: value for path, value in config.items() if _compared(name, path)}
    theirs = min(references, key=lambda fields: len(parted(ours, fields)))
    names = short_names(path for path in parted(ours, theirs) if path not in stated)
    words = [f"{short} {plain(ours.get(path))}, not {plain(theirs.get(path))}" for path, short in names.items()]
    more = ", ".join([*names.values()][MOST:])
    return [*words[:MOST], *([f"{plural(len(words) - MOST, 'more setting')} ({more})"] if more else [])]


def _no_place(target: Target, blank: Sequence[str], metrics: Sequence[str]) -> str:
    if blank:
        return f"{', '.join(_short(path) for path in blank)} left blank in the source"
    if target.metric not in metrics:
        return "; ".join(("not measured here", *target.against))
    return "no variant here has its settings"


def _short(path: str) -> str:
    """`train.epochs` -> `epochs`, `data.name` -> `data`."""
    return "data" if path == "data.name" else path.rpartition(".")[2]
