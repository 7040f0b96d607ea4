"""How a cell of a table is named on the command line: TABLE:ROW:COLUMN.

Each of the three is a label, the beginning of one alone, or, of rows and columns, a number from 1 on. A label as it stands goes
before a number, and a number before a beginning. Labels may have colons of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from recstudy.analysis.audit.findings import parts
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.parts import cells
from recstudy.analysis.spec import OfCells
from recstudy.analysis.tables.cells import Cell, TableData
from recstudy.errors import ConfigError, choices, nearest


@dataclass(frozen=True)
class Found:
    """A cell with the labels of its place."""

    table: TableData
    row: str
    column: str
    cell: Cell


def study_of(studies: Sequence[StudyRecords], name: str) -> StudyRecords:
    """The one study that has a table of this name."""
    if len(studies) == 1:
        return studies[0]
    wanted = name.partition(":")[0]
    having = [records for records in studies if wanted in _tables(records)]
    if len(having) == 1:
        return having[0]
    known = choices(
        f"studies/{records.plan['study']}/{records.plan['preset']} ({', '.join(_tables(records))})" for records in studies
    )
    count = f"{len(having)} studies here have" if having else "no study here has"
    raise ConfigError(f"{count} a table {wanted!r}: give one study's folder. There are {known}.")


def find_cell(records: StudyRecords, name: str) -> Found:
    """The cell that `name` (TABLE:ROW:COLUMN) names.

    Raises:
        ConfigError: no or more than one table, row or column is called so. The message names those there are.
    """
    wanted, _, place = name.partition(":")
    specs = [part for part in parts(records) if isinstance(part, OfCells)]
    if not specs or not place.strip(":"):
        tables = choices([spec.name for spec in specs]) or "none"
        raise ConfigError(f"a cell is named TABLE:ROW:COLUMN, but got {name!r}. Tables of {records.plan['study']}: {tables}.")
    table = cells(records, specs[_one("table", wanted, [spec.name for spec in specs], numbered=False)])
    rows = [row for row in table.rows if row.cells]
    row, column = _split(place, [row.label for row in rows], table.columns)
    return Found(table, rows[row].label, table.columns[column], rows[row].cells[column])


def _tables(records: StudyRecords) -> list[str]:
    return [spec.name for spec in parts(records) if isinstance(spec, OfCells)]


def _split(place: str, rows: Sequence[str], columns: Sequence[str]) -> tuple[int, int]:
    """ROW:COLUMN, of which either may have colons of its own: the first way to cut it that names both."""
    words = place.split(":")
    cuts = [(":".join(words[:at]), ":".join(words[at:])) for at in range(1, len(words))] or [(place, "")]
    errors = []
    for row, column in cuts:
        try:
            return _one("row", row, rows), _one("column", column, columns)
        except ConfigError as error:
            errors.append(error)
    raise errors[0]


def _one(what: str, wanted: str, labels: Sequence[str], numbered: bool = True) -> int:
    """Where the label that is meant stands."""
    wanted = wanted.strip()
    exact = [at for at, label in enumerate(labels) if wanted in (label, label.partition(" (")[0])]  # with or without its unit
    if not exact and numbered and wanted.isdecimal() and 1 <= int(wanted) <= len(labels):
        return int(wanted) - 1
    found = exact or [at for at, label in enumerate(labels) if wanted and label.lower().startswith(wanted.lower())]
    if len(found) == 1:
        return found[0]
    shown = choices(f"{at} {label!r}" if numbered else repr(label) for at, label in enumerate(labels, 1))
    if found:
        raise ConfigError(
            f"{wanted!r} is the beginning of {len(found)} {what}s: give more of it{', or a number' * numbered}: {shown}"
        )
    raise ConfigError(f"no {what} {wanted!r}: there are {shown}.{nearest(wanted, labels)}")
