"""The cells of a table: each is the estimate of a metric, with its runs and the published values for it.

Intervals are over seeds. If the runs saved their answers, there are also intervals over seeds and test items.
The same records give the same table: no cell depends on the time or the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

from recstudy.evidence import LINEAR, Estimate, over_items
from recstudy.programs.metric import METRICS
from recstudy.records.runs import Row, distinct
from recstudy.report.fits import (
    MAX_RUNS,
    estimates_of,
    item_scores,
    mean_over_variants,
    scale_of,
    scored_runs,
)
from recstudy.report.names import improved_metric, metric
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import TableRow
from recstudy.report.targets import MatchedTarget, Placement, nearest_matches

NONE = Estimate(None)
# marks of the best cells, which were compared by a test or not, and of cells that are all equally good
BEST, UNTESTED, TIED = "best", "untested", "tied"


@dataclass(frozen=True)
class Cell:
    """One metric of one variant, or of several variants in the same row of a table.

    Args:
        records: The records of the study.
        variants: The positions of the variants in the plan.
        metric: The metric's name.
        estimate: The mean over the finished runs with its interval over seeds, in the metric's own unit.
        runs: All planned runs.
        ours: If this cell is a relative improvement, the cell of our variant; the other fields are of the
            row's.
        more_planned: The number of fresh seeds of a search that are not in the plan yet.
        prediction: The interval for one more run.
        items: The interval over seeds and test items, if all runs have saved their answers.
        damages: Why saved answers cannot be read.
        matches: The published values for the cell.
        problem: Why finished runs give no number.
        mark: `BEST` or `UNTESTED` if no other cell is significantly better, `TIED` if that is true of all
            compared cells; empty for other cells.
    """

    records: StudyRecords = field(repr=False, compare=False)
    variants: tuple[int, ...]
    metric: str
    estimate: Estimate
    runs: tuple[Row, ...]
    ours: Cell | None = None
    more_planned: int = 0
    prediction: Estimate = NONE
    items: Estimate = NONE
    damages: tuple[str, ...] = ()
    matches: tuple[MatchedTarget, ...] = ()
    problem: str = ""
    mark: str = ""

    @property
    def value(self) -> float | None:
        """The mean over the finished runs."""
        return self.estimate.value

    @property
    def score(self) -> float:
        """The mean with the sign by which more is better; 0 without a mean."""
        return metric(self.metric).sign * (self.value or 0.0)

    @property
    def best(self) -> bool:
        """Whether no other cell is significantly better, and some cell is worse."""
        return self.mark in (BEST, UNTESTED)

    @property
    def low(self) -> float | None:
        return self.estimate.low

    @property
    def high(self) -> float | None:
        return self.estimate.high

    @property
    def source(self) -> str:
        """The metric of the runs. For a relative improvement, this is the improved metric."""
        return improved_metric(self.metric) or self.metric

    @cached_property
    def counted(self) -> list[Row]:
        """The runs behind the mean."""
        return [] if self.value is None else scored_runs(self.runs, self.source)

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(run.number(self.source) for run in self.counted)

    @property
    def run_ids(self) -> tuple[str, ...]:
        return tuple(run.id for run in self.counted)

    @property
    def expected(self) -> int:
        """The number of runs that the cell will have in the end."""
        return len(self.runs) + self.more_planned

    @property
    def n(self) -> int:
        """The number of runs behind the mean. For an improvement, that of the side with fewer runs."""
        # An improvement is as certain as its side with fewer runs.
        return min(len(self.counted), self.ours.n) if self.ours else len(self.counted)

    @property
    def has_spread(self) -> bool:
        """Whether there are several seeds or test items, which a comparison needs."""
        return self.n > 1 or self.estimate.is_over_items

    @property
    def all_runs(self) -> tuple[Row, ...]:
        """The planned runs, for an improvement those of both sides."""
        return (*self.runs, *(self.ours.runs if self.ours else ()))

    def count(self, *states: str) -> int:
        """Return how many runs are in one of these states."""
        return sum(run.status in states for run in self.all_runs)

    @property
    def runs_left(self) -> int:
        """The number of runs that are still to finish."""
        return self.count("not run", "unfinished")

    @property
    def unavailable(self) -> tuple[str, ...]:
        """Why finished runs have no value, such as no Java for METEOR."""
        reasons = [run.unavailable[self.source] for run in self.runs if self.source in run.unavailable]
        return tuple(dict.fromkeys(reasons)) or ((self.problem,) if self.problem else ())

    @property
    def leaks(self) -> bool:
        """Whether the model is given the answer. Such a cell is never the best."""
        return any(map(self.records.leaks, self.variants))

    @property
    def synthetic(self) -> bool:
        """Whether the data are generated by a program."""
        return not self.records.synthetic.isdisjoint(self.variants)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the published values are not comparable; empty if they are."""
        return tuple(dict.fromkeys(reason for match in self.matches for reason in match.reasons))


def cell(
    records: StudyRecords, variants: Sequence[int], name: str, placement: Placement | None = None
) -> Cell:
    """Return the cell of one metric over all runs of these variants, with its published values."""
    # Tables, published values and estimates share the cells. Only their published values differ.
    key, rows = ("cell", *variants, name), records.rows_of(variants)
    result = records.compute_once(key, lambda: cell_of(records, variants, name, distinct(rows)))
    published = placement.matches if placement else {}
    matches = [match for index in variants for match in published.get((index, name), ())]
    return replace(result, matches=nearest_matches(matches)) if matches else result


def weighted_cell(records: StudyRecords, weights: Mapping[int, float], name: str) -> Cell:
    """Return the cell of a weighted mean over variants (index -> weight)."""
    result = cell(records, [*weights], name)
    if len(weights) < 2 or result.value is None:
        return result
    return replace(result, estimate=mean_over_variants(records, result.counted, name, weights))


def cell_of(records: StudyRecords, variants: Sequence[int], name: str, runs: Sequence[Row]) -> Cell:
    """Return the cell of one metric over some `runs` of these variants, without published values."""
    estimate, prediction = estimates_of(records, scored_runs(runs, name), name)
    return Cell(records, tuple(variants), name, estimate, tuple(runs), prediction=prediction)


def cell_of_values(
    records: StudyRecords, variants: Sequence[int], name: str, values: Mapping[str, float]
) -> Cell:
    """Return the cell of numbers that are not metrics of the runs, for a user's own table.

    Args:
        records: The records of the study.
        variants: The positions of the variants in the plan.
        name: The metric whose unit and format the mean has.
        values: The value of each run, by run id.
    """
    runs = [
        # `added` values take precedence over the values in the run's record.
        replace(run, added={name: values.get(run.id)})
        for run in records.rows_of(variants)
    ]
    return cell_of(records, variants, name, runs)


def commit_words(run: Row) -> str:
    """Return the code version of a run: `commit 0123abc with changes`."""
    changes = " with changes" if run.provenance.dirty else ""
    # Thousands of runs share a few texts, so interning saves memory.
    return sys.intern(f"commit {run.provenance.made_by or 'unknown'}{changes}")


def missing_reason(run: Row | None, name: str) -> str:
    """Return why a run gives no value of this metric; empty if it does."""
    if run is None:
        return "not planned"
    if not run.done:
        return f"failed: {run.error_class}" if run.failed else run.status
    return "" if run.value(name) is not None else f"without {metric(name).title}"


def rank(cell: Cell) -> tuple[bool, float]:
    """Return the sort key of a cell: the best mean first, cells without a mean last."""
    return cell.value is None, -cell.score


def rank_rows(rows: Sequence[TableRow]) -> list[TableRow]:
    """Return the rows by the rank of their first cells, below each heading."""
    ranked_rows: list[TableRow] = []
    for _, group in groupby(rows, key=lambda row: bool(row.cells)):
        ranked_rows += sorted(group, key=lambda row: [rank(cell) for cell in row.cells[:1]])
    return ranked_rows


# --- over seeds and test items


def with_items(records: StudyRecords, rows: Sequence[TableRow]) -> Sequence[TableRow]:
    """Add intervals over seeds and items if the runs saved their answers.

    If more than `MAX_RUNS` runs would be read, none are added.
    """
    cells = [cell for row in rows for cell in row.cells]
    scored = [cell for cell in cells if cell.metric in METRICS and METRICS[cell.metric].each is not None]
    # Reading the answers of 100 runs takes 2 s, so larger tables have no intervals over items.
    if len({run_id for cell in scored for run_id in cell.run_ids}) > MAX_RUNS:
        return rows
    return [replace(row, cells=[*map(_with_items, row.cells)]) for row in rows]


def _with_items(cell: Cell) -> Cell:
    scores, damages = item_scores(cell.records, cell.counted, cell.metric)
    cell = replace(cell, damages=damages) if damages else cell
    if scores is None or cell.estimate.error is None:
        return cell
    # the mean of several variants is a contrast, which is in the metric's unit
    is_one_variant = len({run.variant for run in cell.counted}) == 1
    scale = scale_of(cell.metric, cell.counted) if is_one_variant else LINEAR
    return replace(cell, items=over_items(cell.estimate, [scores.scores], [1.0], scores.clusters, scale))


def damage_notes(cells: Sequence[Cell]) -> list[str]:
    """Return which saved answers cannot be read."""
    damages = list(dict.fromkeys(damage for cell in cells for damage in cell.damages))
    if not damages:
        return []
    more_damages = f"; {len(damages) - 1} more like it" if len(damages) > 1 else ""
    return [f"values as recorded, without intervals over items: {damages[0]}{more_damages}"]
