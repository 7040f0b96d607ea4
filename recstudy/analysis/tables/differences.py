"""Each variant against its base, seed by seed: what an ablation says, with what it could not have seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from recstudy.analysis import stats
from recstudy.analysis.caveats import LEAK
from recstudy.analysis.cells import Cell, by_reason, cell, pair_gap
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.stats import ALPHA, Interval, mean_interval
from recstudy.analysis.targets import Placed, Placement, place
from recstudy.errors import ConfigError, choices, nearest
from recstudy.report import Differences
from recstudy.report.names import metric, plural


@dataclass(frozen=True)
class PublishedDifference:
    """Of two published numbers, in the metric's own unit: papers print no paired difference."""

    ours: Placed
    theirs: Placed

    @property
    def value(self) -> float:
        return round(self.ours.value - self.theirs.value, 9)

    @property
    def sources(self) -> str:
        return f"{self.ours.target.source} minus {self.theirs.target.source}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the difference is not comparable with ours; empty where it is."""
        return tuple(dict.fromkeys([*self.ours.reasons, *self.theirs.reasons]))


@dataclass(frozen=True)
class Difference:
    """A variant minus its base.

    `values` are the differences on `seeds`, those that both have finished, out of `expected`, of the runs `run_ids` and of
    the base's `base_ids`; `missing` says why each other seed gives none. `refused`: why the two are not compared at all.
    `p` is of this row alone, `adjusted` for all rows.
    """

    label: str
    base: str
    ours: Cell
    theirs: Cell
    seeds: tuple[int, ...]
    values: tuple[float, ...]
    expected: int
    missing: tuple[str, ...]
    refused: str
    published: tuple[PublishedDifference, ...]
    run_ids: tuple[str, ...]
    base_ids: tuple[str, ...]
    p: float | None
    adjusted: float | None = None

    @property
    def interval(self) -> Interval:
        """Without bounds where there is no spread to take them from: a few values on a small test set may well agree."""
        found = mean_interval(self.values)
        return found if self.p is not None else found._replace(low=None, high=None)

    @property
    def detectable(self) -> float | None:
        return stats.detectable(self.values)

    @property
    def verdict(self) -> str:
        """In words; by the adjusted p at 0.05."""
        n = len(self.values)
        if self.refused or n < 2:
            return self.refused or (f"n too small: {plural(n, 'seed')}" if n else "no pair")
        if self.adjusted is None:
            return "the same on every seed" if not self.values[0] else f"one difference on all {n} seeds: no spread to test by"
        if self.adjusted >= ALPHA:
            return "no difference shown"
        higher, better = sum(self.values) > 0, metric(self.ours.metric).better
        if better is None:
            return "higher" if higher else "lower"
        return "better" if higher == (better == "higher") else "worse"


@dataclass(frozen=True)
class DifferencesData:
    """The rows in the study's order, and the targets that have no place among the variants."""

    rows: tuple[Difference, ...]
    homeless: int

    @property
    def tests(self) -> int:
        return sum(row.p is not None for row in self.rows)


def differences_data(records: StudyRecords, spec: Differences) -> DifferencesData:
    """One row for each variant that has a base.

    Raises:
        ConfigError: no variant has a base, `base` is no variant's label, or the metric needs no test.
    """
    if metric(spec.metric).computed:
        raise ConfigError(f"{spec.metric} follows from the config, so its differences need no test: show it in a Table")
    chosen = records.chosen(spec.where)
    bases = _bases(records, spec, chosen)
    placement = place(records, spec.targets, [*dict.fromkeys([*bases, *bases.values()])], [spec.metric])
    rows = [_difference(records, spec.metric, index, base, placement) for index, base in bases.items()]
    adjusted = stats.holm([row.p for row in rows])
    found = tuple(replace(row, adjusted=p) for row, p in zip(rows, adjusted, strict=True))
    return DifferencesData(found, len(placement.homeless))


def _bases(records: StudyRecords, spec: Differences, chosen: Sequence[int]) -> dict[int, int]:
    """Variant -> its base."""
    if not spec.base:
        bases = {index: base for index in chosen if (base := records.variants[index].base) is not None}
        if not bases:
            raise ConfigError(
                f"differences {spec.name!r}: no variant has a base. Name one with base=LABEL, or use leave_one_out."
            )
        return bases
    labels = [variant.label for variant in records.variants]
    if spec.base not in labels:
        raise ConfigError(f"no variant {spec.base!r}: there are {choices(labels, most=6)}.{nearest(spec.base, labels)}")
    base = labels.index(spec.base)
    return {index: base for index in chosen if index != base}


def _difference(records: StudyRecords, name: str, index: int, base: int, placement: Placement) -> Difference:
    ours, theirs = ({run.seed: run for run in records.by_variant[variant]} for variant in (index, base))
    seeds = sorted({*ours, *theirs})
    refused = _refused(records, index, base)
    gaps = {seed: pair_gap(ours.get(seed), theirs.get(seed), name) for seed in seeds}
    paired = [] if refused else [seed for seed in seeds if not gaps[seed]]
    values = stats.differences(*([runs[seed].number(name) for seed in paired] for runs in (ours, theirs)))
    return Difference(
        label=records.variants[index].label,
        base=records.variants[base].label,
        ours=cell(records, [index], name, placement),
        theirs=cell(records, [base], name, placement),
        seeds=tuple(paired),
        values=tuple(values),
        expected=len(seeds),
        missing=() if refused else by_reason(gaps),
        refused=refused,
        published=_published(placement, index, base, name),
        run_ids=tuple(ours[seed].id for seed in paired),
        base_ids=tuple(theirs[seed].id for seed in paired),
        p=stats.paired_p(values),
    )


def _refused(records: StudyRecords, index: int, base: int) -> str:
    """Why the two are not compared; empty where they are."""
    if records.leaks(index) or records.leaks(base):
        return f"not compared: {'' if records.leaks(index) else 'the base '}{LEAK}"
    if records.variants[index].data != records.variants[base].data:
        return "not compared: other data"
    same = {run.id for run in records.by_variant[index]} & {run.id for run in records.by_variant[base]}
    return "the base itself: it changes nothing" if same else ""


def _published(placement: Placement, index: int, base: int, name: str) -> tuple[PublishedDifference, ...]:
    """Of every two published numbers from one table and data set; the ones that compare best."""
    placed: Mapping[tuple[int, str], tuple[Placed, ...]] = placement.placed
    found = [
        PublishedDifference(ours, theirs)
        for ours in placed.get((index, name), ())
        for theirs in placed.get((base, name), ())
        if _table(ours) == _table(theirs)
    ]
    least = min((len(difference.reasons) for difference in found), default=0)
    return tuple(difference for difference in found if len(difference.reasons) == least)


def _table(placed: Placed) -> tuple[str, object]:
    return placed.target.source.partition(" (")[0], placed.target.where.get("data.name")
