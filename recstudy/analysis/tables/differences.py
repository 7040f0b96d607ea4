"""Each variant against its base: what an ablation says, with what it could not have seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from recstudy.analysis.caveats import LEAK
from recstudy.analysis.cells import Cell, by_reason, cell, gap, pair_gap
from recstudy.analysis.contrasts import Contrast, Pairing, contrast, detectable, factors, holm, seeds_to_show
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.items import MOST_RUNS, each_score, mcnemar, with_images
from recstudy.analysis.spreads import pairing_of, seeds_of, spreads_of
from recstudy.analysis.stats import ALPHA, Spread
from recstudy.analysis.targets import Placed, Placement, place
from recstudy.errors import ConfigError, choices, nearest
from recstudy.report import Differences
from recstudy.report.names import metric


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
        return f"{self.ours.target.cited} minus {self.theirs.target.cited}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the difference is not comparable with ours; empty where it is."""
        return tuple(dict.fromkeys([*self.ours.reasons, *self.theirs.reasons]))


class Detectable(NamedTuple):
    """The least true difference that is shown 4 times in 5, and the range in which the spread's own uncertainty leaves it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """A variant minus its base.

    `found` is the difference of their means over the finished seeds, by the spread of all variants; `paired`: over the seeds
    that both have, in pairs, whose differences are `values`. `run_ids` and `base_ids` are the runs behind it, of these `seeds`;
    `missing` says why each other one is not. `refused`: why the two are not compared at all. `found.p` is of this row alone,
    `adjusted` for all rows. Where all runs have kept their answers, `items` is the same over seeds and test images, and
    `mcnemar` the p over images alone.
    """

    label: str
    base: str
    ours: Cell
    theirs: Cell
    seeds: tuple[int, ...]
    values: tuple[float, ...]
    missing: tuple[str, ...]
    refused: str
    published: tuple[PublishedDifference, ...]
    run_ids: tuple[str, ...]
    base_ids: tuple[str, ...]
    found: Contrast
    spreads: tuple[Spread | None, Spread | None] = (None, None)
    paired: bool = False
    adjusted: float | None = None
    detectable: Detectable | None = None
    more: int | None = None
    items: Contrast | None = None
    mcnemar: float | None = None

    @property
    def n(self) -> tuple[int, int]:
        """Finished seeds of the variant and of its base."""
        return len(self.run_ids), len(self.base_ids)

    @property
    def verdict(self) -> str:
        """In words; by the adjusted p at 0.05."""
        if self.refused or self.found.value is None:
            return self.refused or ("no pair" if self.paired else "no run")
        if self.adjusted is None:
            return "undecided: no spread is known"
        if self.adjusted >= ALPHA:
            return "no difference shown"
        higher, better = self.found.value > 0, metric(self.ours.metric).better
        if better is None:
            return "higher" if higher else "lower"
        return "better" if higher == (better == "higher") else "worse"


@dataclass(frozen=True)
class DifferencesData:
    """The rows in the study's order, how the seeds of all variants go together, and the targets that have no place."""

    rows: tuple[Difference, ...]
    homeless: int
    pairing: Pairing | None = None

    @property
    def tests(self) -> int:
        return sum(row.found.p is not None for row in self.rows)


def differences_data(records: StudyRecords, spec: Differences) -> DifferencesData:
    """One row for each variant that has a base.

    Raises:
        ConfigError: no variant has a base, `base` is no variant's label, or the metric needs no test.
    """
    if metric(spec.metric).computed:
        raise ConfigError(f"{spec.metric} follows from the config, so its differences need no test: show it in a Table")
    chosen = records.chosen(spec.where)
    bases = _bases(records, spec, chosen)
    compared = [*dict.fromkeys([*bases, *bases.values()])]
    placement = place(records, spec.targets, compared, [spec.metric])
    pairs = pairing_of(records, spec.metric, compared)
    rows = [_difference(records, spec.metric, index, base, placement, pairs) for index, base in bases.items()]
    runs = {run_id for row in rows for run_id in (*row.run_ids, *row.base_ids)}
    rows = [_with_items(records, row) for row in rows] if len(runs) <= MOST_RUNS else rows
    return DifferencesData(_judged(rows), len(placement.homeless), pairs)


def _with_items(records: StudyRecords, row: Difference) -> Difference:
    """With the tests over the test images, if they are the same for all runs."""
    scores = each_score(records, [*row.run_ids, *row.base_ids], row.ours.metric) if row.found.value is not None else None
    if scores is None:
        return row
    ours, theirs = scores[: row.n[0]], scores[row.n[0] :]
    return replace(row, items=with_images(row.found, [ours, theirs], [1.0, -1.0]), mcnemar=mcnemar(ours, theirs))


def _judged(rows: Sequence[Difference]) -> tuple[Difference, ...]:
    """With p adjusted for all rows, and what the first of Holm's steps could have shown."""
    adjusted = holm([row.found.p for row in rows])
    alpha = ALPHA / max(1, sum(p is not None for p in adjusted))
    return tuple(replace(_powered(row, alpha), adjusted=p) for row, p in zip(rows, adjusted, strict=True))


def _powered(row: Difference, alpha: float) -> Difference:
    if row.found.error is None or row.found.df is None:
        return row
    least, (low, high) = detectable(row.found.error, row.found.df, alpha), factors(row.found.df)
    variants = max(spread.variants for spread in row.spreads if spread)
    return replace(
        row,
        detectable=Detectable(least, low * least, high * least),
        more=seeds_to_show(row.found, min(row.n), variants, alpha),
    )


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


def _difference(
    records: StudyRecords, name: str, index: int, base: int, placement: Placement, pairs: Pairing | None
) -> Difference:
    refused = _refused(records, index, base)
    ours, theirs = ({run.seed: run for run in seeds_of(records, variant, name)} for variant in (index, base))
    own = spreads_of(records, name)
    spreads = own.get(index), own.get(base)
    paired = pairs is not None and pairs.helps and not any(spread and spread.why for spread in spreads)
    seeds = sorted({*ours} & {*theirs} if paired else {*ours} | {*theirs}) if not refused else []
    sides = [[runs[seed] for seed in seeds if seed in runs] for runs in (ours, theirs)]
    if paired and pairs is not None:
        spreads = pairs.spread, pairs.spread
    both = [seed for seed in seeds if seed in ours and seed in theirs]
    scores = [[run.number(name) for run in side] for side in sides]
    return Difference(
        label=records.variants[index].label,
        base=records.variants[base].label,
        ours=cell(records, [index], name, placement),
        theirs=cell(records, [base], name, placement),
        seeds=tuple(seeds),
        values=tuple(round(ours[seed].number(name) - theirs[seed].number(name), 9) for seed in both) if paired else (),
        missing=() if refused else by_reason(_gaps(records, index, base, name, paired)),
        refused=refused,
        published=_published(placement, index, base, name),
        run_ids=tuple(run.id for run in sides[0]),
        base_ids=tuple(run.id for run in sides[1]),
        found=contrast(scores, (1, -1), spreads) if all(scores) else Contrast(),
        spreads=spreads,
        paired=paired,
    )


def _gaps(records: StudyRecords, index: int, base: int, name: str, paired: bool) -> dict[int, str]:
    """Why seeds are not in it: in pairs what either lacks, else what was planned and lacks."""
    ours, theirs = ({run.seed: run for run in records.by_variant[variant]} for variant in (index, base))
    seeds = sorted({*ours, *theirs})
    if paired:
        return {seed: pair_gap(ours.get(seed), theirs.get(seed), name) for seed in seeds}
    sides = ((ours, ""), (theirs, "base "))
    said = {seed: [f"{who}{why}" for runs, who in sides if seed in runs and (why := gap(runs[seed], name))] for seed in seeds}
    return {seed: ", ".join(whys) for seed, whys in said.items()}


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
