"""Comparisons between the cells of a table: which may be the best, and by how much one variant is better than each of the others.

The latter is a column of 003's Table I, in percent of the other's score:

    delta = 100 (ours - row) / row   (1)   or, of a metric that is better lower,   100 (row - ours) / row   (2)

Both are means over all runs of a variant; the paper takes (1) of two printed numbers: 6.33 of 0.638 and 0.600.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from recstudy.evidence import ALPHA, Estimate, Question, asked, contrast, holm, ratio
from recstudy.report.caveats import LEAK
from recstudy.report.cells import Cell, TableRow, cell, nearest_placed
from recstudy.report.fits import weighted
from recstudy.report.names import improved, metric, number, plain
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import Placement, place

if TYPE_CHECKING:
    from recstudy.report.tables.table import Table

NOTHING = Estimate(None)
ZERO = "no percentage of a score of 0 or less"
NONE = "no variant to compare it with"


def marked(records: StudyRecords, spec: Table, variants: Sequence[int], rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """Mark the best where values were measured on the same data: in each column, or else in each row."""
    if not spec.across and one_task(records, variants, spec.columns):
        columns = [ranked(column) for column in zip(*(row.cells for row in rows), strict=True)]
        return tuple(replace(row, cells=tuple(column[at] for column in columns)) for at, row in enumerate(rows))
    if (spec.across or spec.rows) and one_task(records, variants, spec.rows):
        return tuple(replace(row, cells=ranked(row.cells)) for row in rows)
    return tuple(rows)


def one_task(records: StudyRecords, variants: Sequence[int], axis: str | None) -> bool:
    """Tell whether the variants at each level of the axis (without one: all of them) were measured on the same data."""
    data = {(records.variants[index].data, plain(records.level(index, axis)) if axis else None) for index in variants}
    return len(data) == len({level for _, level in data})


def ranked(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Mark the best cells of each metric. What leaks is never compared."""
    marked = list(cells)
    for name in dict.fromkeys(one.metric for one in cells):
        compared = [at for at, one in enumerate(cells) if one.metric == name and one.value is not None and not one.leaks]
        if metric(name).better is None or len(compared) < 2:
            continue
        best = _best(name, [cells[at] for at in compared])
        for at, mark in zip(compared, best, strict=True):
            tied = all(best) and not metric(name).computed
            marked[at] = replace(cells[at], best=mark and not all(best), tied=tied)
    return tuple(marked)


def _best(name: str, cells: Sequence[Cell]) -> list[bool]:
    """Tell which cannot be told from the best: as printed where the config decides, else by t tests against it.

    Holm's p are taken k/2 times, because each of k values could have come out as the best: else some of 12 equal variants would
    be marked in 13 % of tables (`studies/bench/evidence.py`).
    """
    best = max(cells, key=lambda one: metric(name).sign * (one.value or 0.0))
    if metric(name).computed:
        return [number(name, one.value or 0.0) == number(name, best.value or 0.0) for one in cells]
    against = Question({0: 1.0, 1: -1.0}, other_than=0.0)
    found = [asked(against, contrast([(1.0, best.mean), (-1.0, one.mean)])).p for one in cells if one is not best]
    apart = iter([p * len(cells) / 2 < ALPHA for p in holm([1.0 if p is None else p for p in found])])
    return [one is best or not next(apart) for one in cells]


def tied_notes(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Name the metrics by which no difference is significant, everywhere or in a part of the table."""
    tied = dict.fromkeys(one.metric for one in cells if one.tied)
    some = {one.metric for one in cells if one.best}
    said = [f"{metric(name).title}{' (in a part)' if name in some else ''}" for name in tied]
    return (f"no significant difference between variants by {'; '.join(said)}",) if said else ()


def improvement_cell(records: StudyRecords, spec: Table, index: int, name: str, placement: Placement) -> Cell:
    """Return the cell of a relative improvement: of the variant at the levels of `improvement` over this one.

    Of every other axis that variant has the row's own level. What speaks against either published number does against theirs.

    Raises:
        ConfigError: the study has no such axis.
    """
    of = improved(name)
    others = {axis: records.level(index, axis) for axis in records.variants[index].levels if axis not in spec.improvement}
    found = records.chosen(others | spec.improvement)
    row = cell(records, [index], of)
    if len(found) != 1 or found == [index]:
        made = _without_number(row, "" if found == [index] else NONE)
    else:
        made = _compared(records, row, index, found[0])
    placed = nearest_placed(placement.placed.get((index, name), ()))
    doubts = [NONE]
    if placed and len(found) == 1:
        theirs = nearest_placed(place(records, spec.targets, found, [of]).placed.get((found[0], of), ()))
        none = f"no published {metric(of).title} has the settings of {records.variants[found[0]].label}"
        doubts = [reason for one in theirs for reason in one.reasons] if theirs else [none]
    placed = tuple(replace(one, reasons=tuple(dict.fromkeys([*one.reasons, *doubts]))) for one in placed)
    return replace(made, metric=name, placed=placed)


def _compared(records: StudyRecords, row: Cell, index: int, base: int) -> Cell:
    """Make the row's cell that of the ratio; runs that either side lost count for both."""
    if records.leaks(index) or records.leaks(base):
        return _without_number(row, f"{'it' if records.leaks(index) else records.variants[base].label} {LEAK}")
    if records.variants[index].data != records.variants[base].data:
        return _without_number(row, "measured on other data")
    ours = cell(records, [base], row.metric)
    if row.value is None:
        return _without_number(row, "")
    if ours.value is None or row.value <= 0:
        return _without_number(row, ZERO if ours.value is not None else f"{records.variants[base].label}: no value")
    sign = float(metric(row.metric).sign)
    means = [weighted(records, at, row.metric) for at in (base, index)]
    again = [one and one._replace(variance=one.variance and one.variance * (one.n + 1)) for one in means]  # of one more run each
    return replace(
        row,
        estimate=ratio(means[0], means[1], sign),
        prediction=ratio(again[0], again[1], sign),
        left=row.left + ours.left,
        failed=(*row.failed, *ours.failed),
        diverged=row.diverged + ours.diverged,
        against=ours.run_ids,
        seeds=tuple(dict.fromkeys([*row.seeds, *ours.seeds])),
        commits=tuple(dict.fromkeys([*row.commits, *ours.commits])),
    )


def _without_number(row: Cell, why: str) -> Cell:
    """Return the row's cell without a number; `why` where runs have finished."""
    unavailable = row.unavailable or ((why,) if why and row.values else ())
    none = replace(row, estimate=NOTHING, prediction=NOTHING, values=(), run_ids=(), seeds=(), commits=())
    return replace(none, lacking=row.lacking + row.n, unavailable=unavailable)


def improvement_notes(spec: Table) -> tuple[str, ...]:
    """Say what the deltas of a table are, where it has any."""
    titles = [metric(name).title for name in spec.metrics if improved(name)]
    ours = ", ".join(plain(level) for level in spec.improvement.values())
    how = f"by how much {ours} is better than the row, in percent of the row's score; no interval where that is not told from 0"
    return (f"{', '.join(titles)}: {how}",) if titles else ()
