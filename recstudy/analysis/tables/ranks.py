"""Which values of a table may be the best: those that cannot be told from it, where some can."""

from collections.abc import Sequence
from dataclasses import replace

from recstudy.analysis.cells import Cell, TableRow
from recstudy.analysis.frame import StudyRecords
from recstudy.evidence import ALPHA, Question, asked, contrast, holm
from recstudy.report import Table
from recstudy.report.names import metric, number, plain


def marked(records: StudyRecords, spec: Table, variants: Sequence[int], rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """The best marked where values were measured on the same data: in each column, or else in each row."""
    if spec.across:
        return with_ranks(rows, across=True) if one_task(records, variants, None) else tuple(rows)
    if one_task(records, variants, spec.columns):
        return with_ranks(rows)
    return with_ranks(rows, across=True) if spec.rows and one_task(records, variants, spec.rows) else tuple(rows)


def with_ranks(rows: Sequence[TableRow], across: bool = False) -> tuple[TableRow, ...]:
    """Mark the best values of each metric: within each row where these compare, else within each column."""
    if across:
        return tuple(replace(row, cells=ranked(row.cells)) for row in rows)
    columns = [ranked(column) for column in zip(*(row.cells for row in rows), strict=True)]
    return tuple(replace(row, cells=tuple(column[at] for column in columns)) for at, row in enumerate(rows))


def ranked(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The cells with the best of each metric marked. What leaks is never compared."""
    marked = list(cells)
    for name in dict.fromkeys(cell.metric for cell in cells):
        compared = [at for at, cell in enumerate(cells) if cell.metric == name and cell.value is not None and not cell.leaks]
        if metric(name).better is None or len(compared) < 2:
            continue
        best = _best(name, [cells[at] for at in compared])
        for at, mark in zip(compared, best, strict=True):
            tied = all(best) and not metric(name).computed
            marked[at] = replace(cells[at], best=mark and not all(best), tied=tied)
    return tuple(marked)


def tied_notes(rows: Sequence[TableRow]) -> tuple[str, ...]:
    """Names the metrics by which no difference is significant, everywhere or in a part of the table."""
    cells = [cell for row in rows for cell in row.cells if cell.value is not None]
    tied = dict.fromkeys(cell.metric for cell in cells if cell.tied)
    some = {name for name in tied if any(cell.best for cell in cells if cell.metric == name)}
    said = [f"{metric(name).title}{' (in a part)' if name in some else ''}" for name in tied]
    return (f"no significant difference between variants by {'; '.join(said)}",) if said else ()


def one_task(records: StudyRecords, variants: Sequence[int], axis: str | None) -> bool:
    """Whether the variants at each level of the axis (without one: all of them) were measured on the same data."""
    data = {(records.variants[index].data, plain(records.level(index, axis)) if axis else None) for index in variants}
    return len(data) == len({level for _, level in data})


def _best(name: str, cells: Sequence[Cell]) -> list[bool]:
    """Which of these cannot be told from the best: as printed where the config decides, else by t tests against it.

    Holm's p are taken k/2 times, because each of k values could have come out as the best: else some of 12 equal variants would
    be marked in 13 % of tables (`studies/bench/evidence.py`).
    """
    best = max(cells, key=lambda cell: metric(name).sign * (cell.value or 0.0))
    if metric(name).computed:
        return [number(name, cell.value or 0.0) == number(name, best.value or 0.0) for cell in cells]
    against = Question({0: 1.0, 1: -1.0}, other_than=0.0)
    found = [asked(against, contrast([(1.0, best.mean), (-1.0, cell.mean)])).p for cell in cells if cell is not best]
    apart = iter([p * len(cells) / 2 < ALPHA for p in holm([1.0 if p is None else p for p in found])])
    return [cell is best or not next(apart) for cell in cells]
