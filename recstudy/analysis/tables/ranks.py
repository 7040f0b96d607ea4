"""Which value of a table is the best and which the second, as printed, among those that may be compared."""

from collections.abc import Sequence
from dataclasses import replace

from recstudy.analysis.cells import Cell, TableRow
from recstudy.analysis.frame import StudyRecords
from recstudy.report import Table
from recstudy.report.names import metric, number, plain


def marked(records: StudyRecords, spec: Table, variants: Sequence[int], rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """Best and second marked where values were measured on the same data: in each column, or else in each row."""
    if spec.across:
        return with_ranks(rows, across=True) if one_task(records, variants, None) else tuple(rows)
    if one_task(records, variants, spec.columns):
        return with_ranks(rows)
    return with_ranks(rows, across=True) if spec.rows and one_task(records, variants, spec.rows) else tuple(rows)


def with_ranks(rows: Sequence[TableRow], across: bool = False) -> tuple[TableRow, ...]:
    """Mark the best and the second value of each metric: within each row where these compare, else within each column."""
    if across:
        return tuple(replace(row, cells=ranked(row.cells)) for row in rows)
    columns = [ranked(column) for column in zip(*(row.cells for row in rows), strict=True)]
    return tuple(replace(row, cells=tuple(column[at] for column in columns)) for at, row in enumerate(rows))


def ranked(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The cells with their best and second marked, metric by metric. What leaks is neither."""
    names = dict.fromkeys(cell.metric for cell in cells)
    places = {name: _places(name, [cell for cell in cells if cell.metric == name]) for name in names}
    return tuple(_mark(cell, *places[cell.metric]) for cell in cells)


def one_task(records: StudyRecords, variants: Sequence[int], axis: str | None) -> bool:
    """Whether the variants at each level of the axis (without one: all of them) were measured on the same data."""
    data = {(records.variants[index].data, plain(records.level(index, axis)) if axis else None) for index in variants}
    return len(data) == len({level for _, level in data})


def _places(name: str, cells: Sequence[Cell]) -> tuple[str, str]:
    """Best and second as printed; empty where there is none.

    Of a metric without a better direction, of one value or of values that all print alike there is no best. Ties are all best,
    or all second. Two that are best leave no second, nor is the last of all called so.
    """
    better = metric(name).better
    values = [cell.value for cell in cells if cell.value is not None and not cell.leaks]
    texts = [number(name, value) for value in sorted(values, reverse=better == "higher")]
    if better is None or len(set(texts)) < 2:
        return "", ""
    behind = [text for text in texts if text != texts[0]]
    alone = len(behind) == len(texts) - 1 and len(set(behind)) > 1
    return texts[0], behind[0] if alone else ""


def _mark(cell: Cell, best: str, second: str) -> Cell:
    if cell.value is None or cell.leaks:
        return cell
    text = number(cell.metric, cell.value)
    return replace(cell, best=text == best, second=text == second)
