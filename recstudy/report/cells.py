"""A table as data: what every cell holds, how many runs are behind it, and what stands beside it in the literature.

Intervals are over seeds, and, where runs have kept their answers, over seeds and test items (shapes: n runs, M test items).
`tables/render.py` turns it into text. Nothing here depends on the time or the machine, so the same records give the same table.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from recstudy.errors import StorageError
from recstudy.evidence import LINEAR, Answer, Estimate, Kind, Question, Verdict, Weighted, over_items, published, width
from recstudy.evidence.estimates import Scores
from recstudy.lazy import np
from recstudy.papers import Target
from recstudy.programs.base import Program
from recstudy.programs.metric import METRICS, NotAvailable
from recstudy.report.caveats import IMPORTED, IMPORTED_RESULTS, is_synthetic
from recstudy.report.fits import estimates_of, fits_of, scale_of, scored
from recstudy.report.names import metric
from recstudy.report.rows import Row, distinct
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import Note
from recstudy.report.targets import Placed, Placement, deviation_text

if TYPE_CHECKING:
    import numpy.typing as npt

NONE = Estimate(None)
MOST_RUNS = 100  # whose answers a table reads: 2 s


@dataclass(frozen=True)
class Cell:
    """One metric of one variant (or of the variants that share a place in the table).

    `estimate` is the mean over the finished runs of the `expected` planned ones with its interval over seeds, `prediction` where
    one more run would lie, and `items` the interval over seeds and test items; all in the metric's own unit. `left` runs have
    not ended. Diverged runs and those that a search stopped early are counted, never averaged.
    `planned` are all runs of the cell, `run_ids` those behind `values`, of these `seeds`, by these `commits`; `against` those of
    the other variant, where the estimate is by how many percent that one is better than `values`.
    `lacking`: finished runs without this metric, such as an AUROC of data with one label an image; `unavailable`: why some of
    them could not have it, such as no Java for METEOR.
    `synthetic`: on data drawn by a program. `imported`: from elsewhere, in words. `leaks`: by a model that is told
    the answer, so never `best`. `tied`: it was compared with others, and no difference between any two of them is significant.
    `pooled`: variants of its fit.
    """

    metric: str
    estimate: Estimate
    expected: int
    values: tuple[float, ...]
    prediction: Estimate = NONE
    items: Estimate | None = None
    left: int = 0
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
    pooled: int = 1
    best: bool = False
    tied: bool = False
    synthetic: bool = False
    leaks: bool = False
    imported: str = ""  # what is from elsewhere, in words
    damaged: tuple[str, ...] = ()  # why kept answers of its runs cannot be read: its values are those that the runs recorded

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
    def n(self) -> int:
        """Runs behind the mean, of a comparison those of the side that has fewer."""
        return min(len(self.values), len(self.against)) if self.against else len(self.values)

    @property
    def mean(self) -> Weighted | None:
        """The mean as a contrast takes it."""
        found = self.estimate
        if found.value is None:
            return None
        variance = None if found.error is None else found.error**2
        return Weighted(found.value, variance, found.df or 0.0, self.n, *found.reach, why=found.why)

    @cached_property
    def answers(self) -> tuple[tuple[Placed, Answer[str]], ...]:
        """Each published value that stands beside it, and what is found of it."""
        return tuple((placed, self._answer(placed)) for placed in self.placed)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The different verdicts on its published values."""
        return tuple(dict.fromkeys(answer.verdict for _, answer in self.answers))

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the published value is not comparable; empty where it is."""
        return tuple(dict.fromkeys(reason for target in self.placed for reason in target.reasons))

    @property
    def deviations(self) -> str:
        """Where ours is compared although it is not as in the paper, as its study states."""
        return "; ".join(dict.fromkeys(deviation_text(one) for target in self.placed for one in target.deviations))

    @property
    def assumed(self) -> str:
        """What the verdicts take for granted."""
        return "; ".join(filter(None, dict.fromkeys(target.assumed for target in self.placed)))

    def _answer(self, placed: Placed) -> Answer[str]:
        question = Question({"ours": 1.0}, near=placed.value, within=placed.margin, kind=Kind.PUBLISHED)
        known = Answer(question, self.estimate, runs=self.run_ids)
        if placed.reasons:
            return replace(known, verdict=Verdict.NOT_COMPARABLE, reasons=placed.reasons)
        if not self.values:
            return replace(known, verdict=Verdict.NOT_RUN)
        if metric(placed.target.metric).computed:
            off = max(abs(value - placed.value) for value in self.values)
            return replace(known, verdict=Verdict.REPRODUCED if off <= placed.margin else Verdict.DIFFERS)
        lost = len(self.failed) + self.diverged  # the others may be the lucky ones
        found = published(placed.value, placed.margin or None, self.estimate, self.prediction, self.left, lost, self.pooled)
        return replace(found, runs=self.run_ids)


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
    caption: str | Note = ""
    warnings: tuple[str, ...] = ()
    notes: tuple[str | Note, ...] = ()
    unmatched_targets: tuple[tuple[Target, str], ...] = ()
    settings: tuple[tuple[str, ...], ...] = ()


def cell(records: StudyRecords, variants: Sequence[int], name: str, placement: Placement | None = None) -> Cell:
    """Return the cell of one metric over all runs of these variants, beside what `placement` has for it."""

    def made() -> Cell:
        return cell_of(records, variants, name, distinct(run for index in variants for run in records.by_variant[index]))

    known = records.once(("cell", *variants, name), made)
    near = [target for index in variants for target in placement.placed.get((index, name), ())] if placement else ()
    return replace(known, placed=nearest_placed(near)) if near else known


def cell_of(records: StudyRecords, variants: Sequence[int], name: str, runs: Sequence[Row]) -> Cell:
    """Return the cell of one metric over some `runs` of these variants, without what is published."""
    done = scored(runs, name)
    estimate, prediction = estimates_of(records, done, name)
    fits = fits_of(records, name)
    fit = next((fits[run.variant][0] for run in done if run.variant in fits), None)
    planned = tuple(run.id for run in runs)
    return Cell(
        metric=name,
        estimate=estimate,
        expected=len(runs),
        values=tuple(run.number(name) for run in done),
        prediction=prediction,
        left=sum(run.status in ("not run", "unfinished") for run in runs),
        lacking=sum(run.done for run in runs) - len(done) if not metric(name).computed else 0,
        unavailable=tuple(dict.fromkeys(run.unavailable[name] for run in runs if name in run.unavailable)),
        failed=tuple(sorted(run.error_class for run in runs if run.failed)),
        diverged=sum(run.status == "diverged" for run in runs),
        stopped=sum(run.status == "stopped" for run in runs),
        planned=planned,
        run_ids=planned if len(done) == len(runs) else tuple(run.id for run in done),
        seeds=tuple(dict.fromkeys(run.seed for run in done)),
        commits=tuple(dict.fromkeys(commit(run) for run in done)),
        pooled=max(1, len(fit.own)) if fit else 1,
        synthetic=is_synthetic(records, variants),
        leaks=any(records.leaks(index) for index in variants),
        imported="" if records.imported.isdisjoint(variants) else IMPORTED_RESULTS if records.is_own else IMPORTED,
    )


def cell_of_values(records: StudyRecords, variants: Sequence[int], name: str, values: Mapping[str, float]) -> Cell:
    """Return the cell of numbers that somebody else has: the mean over these variants' runs, of a value by run id.

    `name` is the metric's, whose unit and form it is printed in; without a registered metric, four digits.
    """
    runs = [replace(run, added={name: values.get(run.id)}) for index in variants for run in records.by_variant[index]]
    return cell_of(records, variants, name, runs)


def commit(run: Row) -> str:
    """Name the code that made a run."""
    return sys.intern(f"commit {run.provenance.made_by or 'unknown'}" + " with changes" * run.provenance.dirty)  # one


def nearest_placed(placed: Sequence[Placed]) -> tuple[Placed, ...]:
    """Return those with the least against them: the comparable ones, or those of the same data set before others."""
    least = min((len(target.reasons) for target in placed), default=0)
    return tuple(target for target in placed if len(target.reasons) == least)


def gap(run: Row | None, name: str) -> str:
    """Say why a run gives no value of this metric; empty where it does."""
    if run is None or not run.done:
        return "not planned" if run is None else f"failed: {run.error_class}" if run.failed else run.status
    return "" if run.value(name) is not None else f"without {metric(name).title}"


# ----------------------------------------------------------------------------------------- over seeds and test items


# Rows of the test split, the score of each and its patient.
Scored: TypeAlias = "tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.int64] | None]"


class ItemScores(NamedTuple):
    """What runs score on the items of one test set."""

    each: Scores  # (n, M), a row a run
    clusters: npt.NDArray[np.int64] | None  # (M,) the patient of each item, whose items are one draw; None without patients


def item_scores(records: StudyRecords, run_ids: Sequence[str], name: str) -> ItemScores | None:
    """Return what every run scores on every test item; None where the metric is no mean over items, or where runs have not kept
    the answers to all of them, or to others, such as items that each seed drew for itself."""
    if name not in METRICS or METRICS[name].each is None or not run_ids:
        return None
    made = records.once("checksums", lambda: {row.id: row.provenance.data_checksum for row in records.rows})
    if len({made[run_id] for run_id in run_ids if made.get(run_id)}) > 1:
        return None
    found = scores_of(records, run_ids, name)
    whole = [one for one in found if isinstance(one, tuple)]
    if len(whole) < len(found) or any(not np.array_equal(one[0], whole[0][0]) for one in whole):
        return None
    return ItemScores(np.array([one[1] for one in whole], dtype=np.float64), whole[0][2])


def scores_of(records: StudyRecords, run_ids: Sequence[str], name: str) -> list[Scored | str | None]:
    """Return what each run scores on every test item; why its answers cannot be read; None where it has none, or not all."""
    files = [records.results.run(run_id).answers for run_id in run_ids]
    program = records.program
    return [_scores(program, file, file.lstat().st_mtime_ns, name) if os.path.lexists(file) else None for file in files]


def with_items(records: StudyRecords, rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """Add intervals over seeds and items to a table whose runs have kept their answers and are not too many."""
    cells = [one for row in rows for one in row.cells if one.metric in METRICS and METRICS[one.metric].each is not None]
    if len({run_id for one in cells for run_id in one.run_ids}) > MOST_RUNS:
        return tuple(rows)
    return tuple(replace(row, cells=tuple(with_items_of(records, cell) for cell in row.cells)) for row in rows)


def with_items_of(records: StudyRecords, cell: Cell) -> Cell:
    """Add a cell's interval over seeds and items, or which of its runs have damaged answers."""
    if cell.metric in METRICS and METRICS[cell.metric].each is not None:
        cell = replace(cell, damaged=tuple(one for one in scores_of(records, cell.run_ids, cell.metric) if isinstance(one, str)))
    known = cell.estimate.error is not None and not cell.against
    found = item_scores(records, cell.run_ids, cell.metric) if known else None
    if found is None:
        return cell
    runs = [row for row in distinct(records.rows) if row.id in cell.run_ids]
    alone = len({row.variant for row in runs}) == 1  # the mean of several variants is a contrast, in the metric's unit
    scale = scale_of(cell.metric, runs) if alone else LINEAR
    return replace(cell, items=over_items(cell.estimate, [found.each], [1.0], found.clusters, scale))


def damaged_notes(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Say which kept answers cannot be read, and that the values are those that the runs recorded when they ended."""
    why = list(dict.fromkeys(one for cell in cells for one in cell.damaged))
    more = f"; {len(why) - 1} more like it" if len(why) > 1 else ""
    return (f"values as recorded, without intervals over items: {why[0]}{more}",) if why else ()


def items_note(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Say how much wider intervals are over other items, too."""
    ratios = [width(cell.items) / width(cell.estimate) for cell in cells if cell.items and width(cell.estimate)]
    ends = dict.fromkeys(f"{ratio:.1f}" for ratio in (min(ratios), max(ratios))) if ratios else {}
    wider = f"over seeds and other items they are {' to '.join(ends)} times as wide"
    return (f"intervals are over seeds, for these test items; {wider}",) if set(ends) - {"1.0"} else ()


@lru_cache(maxsize=256)
def _scores(program: Program, file: Path, changed: int, name: str) -> Scored | str | None:
    """Read rows of the test split, the score of each and its patient; None where the file is cut, or its task has other answers;
    why where it is damaged."""
    known = METRICS[name].each
    try:
        kept = program.answers(file)
        if kept is None or kept.cut or known is None:
            return None
        return kept.answers.rows, known(kept.answers).astype(np.float32), kept.answers.groups
    except NotAvailable:
        return None
    except Exception as error:  # arrays that do not go together raise nearly anything
        why = f"{type(error).__name__}: {error}" if not isinstance(error, StorageError) else str(error)
        return " ".join(why.replace(f"{file.parents[2]}/", "").split())
