"""The cells of a table: each an estimate of a metric with the runs behind it and the published values beside it.

Intervals are over seeds and, if the runs kept their answers, also over seeds and test items. The same records give the same
table: nothing here depends on the time or the machine. Shapes: n runs, M test items.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from recstudy.evidence import LINEAR, Estimate, over_items
from recstudy.programs.metric import METRICS
from recstudy.records.runs import Row, distinct
from recstudy.report.caveats import is_synthetic
from recstudy.report.fits import estimates_of, scale_of, scored
from recstudy.report.item_scores import MAX_RUNS, item_scores
from recstudy.report.names import improved, metric
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import Placed, Placement, nearest_placed

NONE = Estimate(None)


@dataclass(frozen=True)
class Cell:
    """One metric of one variant, or of the variants that share a place in the table.

    Args:
        records: Of the study.
        variants: Their positions in the plan.
        metric: Its name.
        estimate: The mean over the finished runs with its interval over seeds, in the metric's own unit.
        runs: All planned runs.
        base: Of a relative improvement, the cell of the variant that is better or worse than `runs`.
        more_planned: Runs that are not in the plan yet.
        prediction: Where one more run would be.
        items: The interval over seeds and test items.
        damages: Why saved answers cannot be read.
        placed: The published values beside the cell.
        problem: Why finished runs give no number.
        best: Whether no other cell is significantly better.
        tied: Whether no difference between compared cells is significant.
        second: Whether it is the best of the cells that are significantly worse than the best.
    """

    records: StudyRecords = field(repr=False, compare=False)
    variants: tuple[int, ...]
    metric: str
    estimate: Estimate
    runs: tuple[Row, ...]
    base: Cell | None = None
    more_planned: int = 0
    prediction: Estimate = NONE
    items: Estimate | None = None
    damages: tuple[str, ...] = ()
    placed: tuple[Placed, ...] = ()
    problem: str = ""
    best: bool = False
    tied: bool = False
    second: bool = False

    @property
    def value(self) -> float | None:
        """The mean."""
        return self.estimate.value

    @property
    def low(self) -> float | None:
        return self.estimate.low

    @property
    def high(self) -> float | None:
        return self.estimate.high

    @property
    def source(self) -> str:
        """The metric of the runs: of a relative improvement, the one that is improved."""
        return improved(self.metric) or self.metric

    @cached_property
    def counted(self) -> list[Row]:
        """The runs behind the mean."""
        return [] if self.value is None else scored(self.runs, self.source)

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(run.number(self.source) for run in self.counted)

    @property
    def run_ids(self) -> tuple[str, ...]:
        return tuple(run.id for run in self.counted)

    @property
    def expected(self) -> int:
        """The number of planned runs."""
        return len(self.runs) + self.more_planned

    @property
    def n(self) -> int:
        """The number of runs behind the mean, of an improvement on the side that has fewer."""
        return min(len(self.counted), self.base.n) if self.base else len(self.counted)

    @property
    def planned(self) -> tuple[str, ...]:
        """The ids of all planned runs."""
        return tuple(run.id for run in self.runs)

    @property
    def all_runs(self) -> tuple[Row, ...]:
        """The planned runs of both sides of an improvement."""
        return (*self.runs, *(self.base.runs if self.base else ()))

    def count(self, *states: str) -> int:
        """Return how many runs are in one of these states."""
        return sum(run.status in states for run in self.all_runs)

    @property
    def left(self) -> int:
        """The number of runs that have not ended."""
        return self.count("not run", "unfinished")

    @property
    def unavailable(self) -> tuple[str, ...]:
        """Why finished runs have no value, such as no Java for METEOR."""
        reasons = dict.fromkeys(run.unavailable[self.source] for run in self.runs if self.source in run.unavailable)
        return tuple(reasons) or tuple(filter(None, [self.problem]))

    @property
    def leaks(self) -> bool:
        """Whether the model is told the answer, so that the cell is never the best."""
        return any(map(self.records.leaks, self.variants))

    @property
    def synthetic(self) -> bool:
        """Whether the data are generated by a program."""
        return is_synthetic(self.records, self.variants)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the published values are not comparable; empty if they are."""
        return tuple(dict.fromkeys(reason for placed in self.placed for reason in placed.reasons))


@dataclass(frozen=True)
class TableRow:
    """A label and its cells, in the order of the table's columns; without cells, the heading of the rows below it.

    `settings`: the words of each field of each of the table's settings.
    `published`: of a row without runs, the published value of each column, None where the paper has none.
    """

    label: str
    cells: tuple[Cell, ...]
    settings: tuple[tuple[str, ...], ...] = ()
    published: tuple[Placed | None, ...] = ()


@dataclass(frozen=True)
class TableData:
    """A table of cells. `beneath`: published values stand in a line below ours, not in columns beside them.

    `settings`: the config fields of each column that stands before the `columns` of numbers.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    corner: str = "variant"
    beneath: bool = False
    caption: str = ""
    study_notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    settings: tuple[tuple[str, ...], ...] = ()

    @property
    def cells(self) -> list[Cell]:
        return [cell for row in self.rows for cell in row.cells]


def cell(records: StudyRecords, variants: Sequence[int], name: str, placement: Placement | None = None) -> Cell:
    """Return the cell of one metric over all runs of these variants, beside the published values of `placement`."""

    def make() -> Cell:
        return cell_of(records, variants, name, distinct(run for index in variants for run in records.by_variant[index]))

    result = records.once(("cell", *variants, name), make)
    placed = [target for index in variants for target in placement.placed.get((index, name), ())] if placement else ()
    return replace(result, placed=nearest_placed(placed)) if placed else result


def cell_of(records: StudyRecords, variants: Sequence[int], name: str, runs: Sequence[Row]) -> Cell:
    """Return the cell of one metric over some `runs` of these variants, without published values."""
    estimate, prediction = estimates_of(records, scored(runs, name), name)
    return Cell(records, tuple(variants), name, estimate, tuple(runs), prediction=prediction)


def cell_of_values(records: StudyRecords, variants: Sequence[int], name: str, values: Mapping[str, float]) -> Cell:
    """Return the cell of other numbers: the mean over the runs of these variants.

    Args:
        records: Of the study.
        variants: Their positions in the plan.
        name: The metric, in whose unit and format the mean is printed.
        values: A value by run id.
    """
    runs = [replace(run, added={name: values.get(run.id)}) for index in variants for run in records.by_variant[index]]
    return cell_of(records, variants, name, runs)


def commit(run: Row) -> str:
    """Return the code that made a run."""
    return sys.intern(f"commit {run.provenance.made_by or 'unknown'}" + " with changes" * run.provenance.dirty)


def gap(run: Row | None, name: str) -> str:
    """Return why a run gives no value of this metric; empty if it does."""
    if run is None or not run.done:
        return "not planned" if run is None else f"failed: {run.error_class}" if run.failed else run.status
    return "" if run.value(name) is not None else f"without {metric(name).title}"


# ----------------------------------------------------------------------------------------- over seeds and test items


def with_items(records: StudyRecords, rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """Add intervals over seeds and items to a table whose runs have kept their answers and are not too many."""
    cells = [cell for row in rows for cell in row.cells if cell.metric in METRICS and METRICS[cell.metric].each is not None]
    if len({run_id for cell in cells for run_id in cell.run_ids}) > MAX_RUNS:
        return tuple(rows)
    return tuple(replace(row, cells=tuple(map(_with_items, row.cells))) for row in rows)


def _with_items(cell: Cell) -> Cell:
    scores, damages = item_scores(cell.records, cell.counted, cell.metric)
    cell = replace(cell, damages=damages) if damages else cell
    if scores is None or cell.estimate.error is None:
        return cell
    alone = len({run.variant for run in cell.counted}) == 1  # the mean of several variants is a contrast, in the metric's unit
    scale = scale_of(cell.metric, cell.counted) if alone else LINEAR
    return replace(cell, items=over_items(cell.estimate, [scores.scores], [1.0], scores.clusters, scale))


def damage_notes(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Return which saved answers cannot be read."""
    damages = list(dict.fromkeys(damage for cell in cells for damage in cell.damages))
    more = f"; {len(damages) - 1} more like it" if len(damages) > 1 else ""
    return tuple(f"values as recorded, without intervals over items: {damage}{more}" for damage in damages[:1])
