"""A table as data: what every cell holds, how many runs are behind it, and what stands beside it in the literature.

`tables/render.py` turns it into text. Nothing here depends on the time or the machine, so the same records give the same table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from recstudy.analysis.caveats import is_synthetic
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row, distinct
from recstudy.analysis.spreads import scored, spread_of
from recstudy.analysis.stats import Interval, Spread, interval
from recstudy.analysis.tables.entries import Said
from recstudy.analysis.targets import Placed, Placement, deviation_text
from recstudy.papers import Target
from recstudy.report.names import metric


@dataclass(frozen=True)
class Cell:
    """One metric of one variant (or of the variants that share a place in the table).

    `value` is the mean over the `n` finished runs of the `expected` planned ones, with its 95 % interval by the `spread` of
    its seeds, and `items`, the interval over seeds and test images; all in the metric's own unit. Diverged runs and those that
    a search stopped early are counted, never averaged.
    `planned` are all runs of the cell, `run_ids` those behind `value`, of these `seeds`, made by these `commits`; `against` those
    of the other variant, where `value` is by how much that one is better. `lacking`: finished runs without this metric, such as
    an AUROC of data with one label an image; `unavailable`: why some of them could not have it, such as a METEOR without Java.
    `synthetic`: on data drawn by a program. `leaks`: by a model that is told the answer, so never `best`. `tied`: it was
    compared with others, and no two of them could be told apart.
    """

    metric: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    expected: int
    values: tuple[float, ...]
    spread: Spread | None = None
    items: Interval | None = None
    lacking: int = 0
    unavailable: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    diverged: int = 0
    stopped: int = 0
    placed: tuple[Placed, ...] = ()
    planned: tuple[str, ...] = ()
    run_ids: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    commits: tuple[str, ...] = ()
    best: bool = False
    tied: bool = False
    synthetic: bool = False
    leaks: bool = False

    @property
    def published(self) -> str:
        return ", ".join(dict.fromkeys(target.text for target in self.placed))

    @property
    def verdict(self) -> str:
        return ", ".join(dict.fromkeys(target.verdict(self.values, self.spread, self.lost) for target in self.placed))

    @property
    def outcome(self) -> str:
        """The verdict as a table says it: with what an open one lacks."""
        return ", ".join(dict.fromkeys(target.outcome(self.values, self.spread, self.lost) for target in self.placed))

    @property
    def lost(self) -> int:
        """Seeds that failed or diverged: the others may be the lucky ones."""
        return len(self.failed) + self.diverged

    @property
    def reasons(self) -> str:
        """Why the published value is not comparable; empty where it is."""
        return "; ".join(dict.fromkeys(reason for target in self.placed for reason in target.reasons))

    @property
    def deviations(self) -> str:
        """Where ours is compared although it is not as in the paper, as its study states."""
        return "; ".join(dict.fromkeys(deviation_text(one) for target in self.placed for one in target.deviations))

    @property
    def assumed(self) -> str:
        """What the verdicts take for granted."""
        return "; ".join(filter(None, dict.fromkeys(target.assumed for target in self.placed)))


@dataclass(frozen=True)
class TableRow:
    """A label and its cells, in the order of the table's columns; without cells, the heading of the rows below it.

    `settings`: the words of each field of each of the table's settings.
    """

    label: str
    cells: tuple[Cell, ...]
    settings: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class TableData:
    """A whole table. `beneath`: published values stand in a line under ours, not in columns beside them.

    `settings`: the config fields of each column that stands before the `columns` of numbers.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    corner: str = "variant"
    beneath: bool = False
    caption: Said = ""
    warnings: tuple[str, ...] = ()
    notes: tuple[Said, ...] = ()
    homeless: tuple[tuple[Target, str], ...] = ()
    settings: tuple[tuple[str, ...], ...] = ()


def cell(records: StudyRecords, variants: Sequence[int], name: str, placement: Placement) -> Cell:
    """The cell of one metric over all runs of these variants."""
    runs = distinct(run for index in variants for run in records.by_variant[index])
    placed = nearest_placed([target for index in variants for target in placement.placed.get((index, name), ())])
    return replace(cell_of(records, variants, name, runs), placed=placed)


def cell_of(records: StudyRecords, variants: Sequence[int], name: str, runs: Sequence[Row]) -> Cell:
    """The cell of one metric over some `runs` of these variants, without what is published."""
    done = [run for run in runs if scored(run, name)]
    values = tuple(run.number(name) for run in done)
    spread = spread_of(records, done, name) if done else None
    found = interval(values, spread)
    return Cell(
        metric=name,
        value=found.mean,
        low=found.low,
        high=found.high,
        n=found.n,
        expected=len(runs),
        values=values,
        spread=spread,
        lacking=sum(run.done for run in runs) - len(done) if not metric(name).computed else 0,
        unavailable=tuple(dict.fromkeys(run.unavailable[name] for run in runs if name in run.unavailable)),
        failed=tuple(sorted(run.error_class for run in runs if run.failed)),
        diverged=sum(run.status == "diverged" for run in runs),
        stopped=sum(run.status == "stopped" for run in runs),
        planned=tuple(run.id for run in runs),
        run_ids=tuple(run.id for run in done),
        seeds=tuple(dict.fromkeys(run.seed for run in done)),
        commits=tuple(dict.fromkeys(commit(run) for run in done)),
        synthetic=is_synthetic(records, variants),
        leaks=any(records.leaks(index) for index in variants),
    )


def cell_of_values(records: StudyRecords, variants: Sequence[int], name: str, values: Mapping[str, float]) -> Cell:
    """The cell of numbers that somebody else has: the mean over these variants' runs, of a value by run id.

    `name` is the metric's, whose unit and form it is printed in; without a registered metric, four digits.
    """
    runs = [replace(run, added={name: values.get(run.id)}) for index in variants for run in records.by_variant[index]]
    return cell_of(records, variants, name, runs)


def commit(run: Row) -> str:
    """The code that made a run."""
    return f"commit {run.provenance.made_by or 'unknown'}" + " with changes" * run.provenance.dirty


def nearest_placed(placed: Sequence[Placed]) -> tuple[Placed, ...]:
    """Those with the least against them: the comparable ones, or those of the same data set before others."""
    least = min((len(target.reasons) for target in placed), default=0)
    return tuple(target for target in placed if len(target.reasons) == least)


def gap(run: Row | None, name: str) -> str:
    """Why a run gives no value of this metric; empty where it does."""
    if run is None or not run.done:
        return "not planned" if run is None else f"failed: {run.error_class}" if run.failed else run.status
    return "" if run.value(name) is not None else f"without {metric(name).title}"


def pair_gap(ours: Row | None, theirs: Row | None, name: str) -> str:
    """Why a seed gives no pair; empty where it does."""
    said = [("", gap(ours, name)), ("base ", gap(theirs, name))]
    return ", ".join(f"{who}{why}" for who, why in said if why)


def by_reason(gaps: Mapping[int, str]) -> tuple[str, ...]:
    """`seeds 1, 3: not run`, a line a reason."""
    seeds = {why: [str(seed) for seed, own in gaps.items() if own == why] for why in dict.fromkeys(gaps.values()) if why}
    return tuple(f"seed{'s' * (len(own) > 1)} {', '.join(own)}: {why}" for why, own in seeds.items())
