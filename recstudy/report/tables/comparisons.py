"""Comparisons between the cells of a table: which are the best, and by how much one variant is better than
each of the others.

The latter is a column of 003's Table I, in percent of the other's score:

    delta = 100 (ours - row) / row   (1)   or, of a metric that is better lower,   100 (row - ours) / row   (2)

Both are means over all runs of a variant; the paper takes (1) of two printed numbers: 6.33 of 0.638 and
0.600.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from recstudy.evidence import ALPHA, Question, Weighted, answer, contrast, holm, ratio
from recstudy.report.caveats import LEAK
from recstudy.report.cells import NONE, Cell, TableRow, cell
from recstudy.report.fits import weighted_mean
from recstudy.report.names import improved_metric, metric, number, value_text
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import Placement, match_targets, nearest_matches

if TYPE_CHECKING:
    from recstudy.report.tables.table import Table

ZERO = "no percentage of a score of 0 or less"
ALONE = "no variant to compare it with"


def marked(
    records: StudyRecords, spec: Table, variants: Sequence[int], rows: Sequence[TableRow]
) -> list[TableRow]:
    """Mark the best cells of each column, or else of each row, if their values were measured on the same
    data.
    """
    if not spec.across and one_task(records, variants, spec.columns):
        columns = [
            ranked(column, spec.second_best) for column in zip(*(row.cells for row in rows), strict=True)
        ]
        return [
            replace(row, cells=cells)
            for row, cells in zip(rows, zip(*columns, strict=True), strict=bool(columns))
        ]
    if (spec.across or spec.rows) and one_task(records, variants, spec.rows):
        return [replace(row, cells=ranked(row.cells, spec.second_best)) for row in rows]
    return list(rows)


def one_task(records: StudyRecords, variants: Sequence[int], axis: str | None) -> bool:
    """Return whether the variants at each level of the axis, or all of them, were measured on the same
    data.
    """
    data = {
        (records.variants[index].data, value_text(records.level(index, axis)) if axis else None)
        for index in variants
    }
    return len(data) == len({level for _, level in data})


def ranked(cells: Sequence[Cell], second_best: bool = False) -> tuple[Cell, ...]:
    """Mark the best cells of each metric, and on request the second best. A cell that leaks is never
    compared.
    """
    result = list(cells)
    comparable = [
        position for position, cell in enumerate(cells) if cell.value is not None and not cell.leaks
    ]
    for name in dict.fromkeys(candidate.metric for candidate in cells):
        compared = [position for position in comparable if cells[position].metric == name]
        if metric(name).better is None or len(compared) < 2:
            continue
        best = _best(name, [cells[position] for position in compared])
        for position, is_best in zip(compared, best, strict=True):
            is_tied = all(best) and not metric(name).computed
            result[position] = replace(cells[position], best=is_best and not all(best), tied=is_tied)
        others = [position for position, is_best in zip(compared, best, strict=True) if not is_best]
        if second_best and others:
            second = max(others, key=lambda position: metric(name).sign * (cells[position].value or 0.0))
            result[second] = replace(result[second], second=True)
    return tuple(result)


def _best(name: str, cells: Sequence[Cell]) -> list[bool]:
    """Return which cells are as good as the best: as printed if the config decides, else by t tests against
    it.

    Holm's p are taken k/2 times, because each of k values could have come out as the best. Otherwise some of
    12 equal variants would be marked in 13 % of tables (`tests/benchmarks/evidence.py`).
    """
    best = max(cells, key=lambda candidate: metric(name).sign * (candidate.value or 0.0))
    if metric(name).computed:
        return [
            number(name, candidate.value or 0.0) == number(name, best.value or 0.0) for candidate in cells
        ]
    question = Question({0: 1.0, 1: -1.0}, other_than=0.0)
    contrasts = [
        contrast([(1.0, _mean(best)), (-1.0, _mean(candidate))])
        for candidate in cells
        if candidate is not best
    ]
    p_values = [answer(question, difference).p for difference in contrasts]
    adjusted = iter(holm([1.0 if p is None else p for p in p_values]))
    return [candidate is best or next(adjusted) * len(cells) / 2 >= ALPHA for candidate in cells]


def _mean(candidate: Cell) -> Weighted:
    """Return the mean as a contrast takes it."""
    of_fit = (
        weighted_mean(candidate.records, candidate.variants[0], candidate.source)
        if len(candidate.variants) == 1
        else None
    )
    if of_fit is not None and of_fit.n == candidate.n:
        return of_fit
    estimate = candidate.estimate
    variance = None if estimate.error is None else estimate.error**2
    return Weighted(
        estimate.value or 0.0, variance, estimate.df or 0.0, candidate.n, *estimate.reach, why=estimate.why
    )


def tied_notes(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Name the metrics by which no difference is significant, everywhere or in a part of the table."""
    best = {marked_cell.metric for marked_cell in cells if marked_cell.best}
    tied = dict.fromkeys(marked_cell.metric for marked_cell in cells if marked_cell.tied)
    names = [f"{metric(name).title}{' (in a part)' if name in best else ''}" for name in tied]
    return (f"no significant difference between variants by {'; '.join(names)}",) if names else ()


def improvement_cell(records: StudyRecords, spec: Table, index: int, name: str, placement: Placement) -> Cell:
    """Return the cell of a relative improvement: of the variant at the levels of `improvement` over this one.

    On every other axis that variant has the row's own level. A reason against either published number counts
    for their delta.

    Raises:
        ConfigError: the study has no such axis.
    """
    source = improved_metric(name)
    levels = {
        axis: records.level(index, axis)
        for axis in records.variants[index].levels
        if axis not in spec.improvement
    }
    bases = records.chosen(levels | spec.improvement)
    row = replace(cell(records, [index], source), metric=name)
    base = cell(records, bases, source) if len(bases) == 1 else None
    problem = "" if bases == [index] else _problem(row, base)
    if bases == [index] or problem or base is None or row.value is None:
        result = replace(row, estimate=NONE, prediction=NONE, problem=problem if row.counted else "")
    else:
        ours, theirs = (weighted_mean(records, position, source) for position in (bases[0], index))
        one_more = [
            one and one._replace(variance=one.variance and one.variance * (one.n + 1))
            for one in (ours, theirs)
        ]
        sign = float(metric(source).sign)
        prediction = ratio(one_more[0], one_more[1], sign)
        result = replace(row, estimate=ratio(ours, theirs, sign), prediction=prediction, base=base)
    placed = nearest_matches(placement.matches.get((index, name), ()))
    doubts = [ALONE]
    if placed and base:
        values = nearest_matches(
            match_targets(records, spec.targets, bases, [source]).matches.get((bases[0], source), ())
        )
        missing = (
            f"no published {metric(source).title} has the settings of {records.variants[bases[0]].label}"
        )
        doubts = [reason for one in values for reason in one.reasons] if values else [missing]
    return replace(
        result,
        matches=tuple(replace(one, reasons=tuple(dict.fromkeys([*one.reasons, *doubts]))) for one in placed),
    )


def _problem(row: Cell, base: Cell | None) -> str:
    """Return why two cells have no ratio; empty if they have one or if the row has no value."""
    if base is None:
        return ALONE
    ours, theirs = (row.records.variants[side.variants[0]] for side in (base, row))
    if row.leaks or base.leaks:
        return f"{'it' if row.leaks else ours.label} {LEAK}"
    if ours.data != theirs.data:
        return "measured on other data"
    if row.value is not None and base.value is None:
        return f"{ours.label}: no value"
    return ZERO if row.value is not None and row.value <= 0 else ""


def improvement_notes(spec: Table) -> tuple[str, ...]:
    """Say what the deltas of a table are, if it has any."""
    titles = [metric(name).title for name in spec.metrics if improved_metric(name)]
    ours = ", ".join(map(value_text, spec.improvement.values()))
    how = (
        f"by how much {ours} is better than the row, in percent of the row's score; no interval if the score"
        " may be 0"
    )
    return (f"{', '.join(titles)}: {how}",) if titles else ()
