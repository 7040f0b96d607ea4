"""How a number is named on the command line: TABLE:ROW:COLUMN.

Each of the three is a label, the beginning of one alone, or, of rows and columns, a number from 1 on. A label as it stands goes
before a number, and a number before a beginning. Labels may have colons of their own. Columns of settings are counted last.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.shown import Explained, Places, problem
from recstudy.errors import ConfigError, choices, nearest
from recstudy.report import Part


@dataclass(frozen=True)
class Found:
    """The labels of a place in a table, and what is behind the number that stands there."""

    table: str
    row: str
    column: str
    behind: Explained


def study_of(studies: Sequence[StudyRecords], name: str) -> StudyRecords:
    """The one study that has a table of this name."""
    if len(studies) == 1:
        return studies[0]
    wanted = name.partition(":")[0]
    having = [records for records in studies if wanted in tables_of(records)]
    if len(having) == 1:
        return having[0]
    named = ((records.plan, ", ".join(tables_of(records))) for records in studies)
    known = choices(f"studies/{plan.study}/{plan.folder} ({tables})" for plan, tables in named)
    count = f"{len(having)} studies here have" if having else "no study here has"
    raise ConfigError(f"{count} a table {wanted!r}: give one study's folder. There are {known}.")


def find(records: StudyRecords, name: str) -> Found:
    """What `name` (TABLE:ROW:COLUMN) names.

    Raises:
        ConfigError: no or more than one table, row or column is called so. The message names those there are.
    """
    wanted, _, place = name.partition(":")
    tables = [part for part in records.parts if part.explained]
    known = tables_of(records)
    if not known or not place.strip(":"):
        raise ConfigError(
            f"a cell is named TABLE:ROW:COLUMN, but got {name!r}. Tables of {records.plan.study}: {choices(known) or 'none'}."
        )
    table = tables[_one("table", wanted, known, numbered=False)]
    columns, rows = _places(records, table)
    row, column = _split(place, [label for label, _ in rows], columns)
    return Found(table.name, rows[row][0], columns[column], rows[row][1][column])


def tables_of(records: StudyRecords) -> list[str]:
    return [part.name for part in records.parts if part.explained]


def _places(records: StudyRecords, table: Part) -> Places:
    try:
        return table.shown(records).places()
    except Exception as error:
        raise ConfigError(problem(table, error)) from None


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
        raise ConfigError(f"{wanted!r} matches {len(found)} {what}s; be more specific{', or give a number' * numbered}: {shown}")
    raise ConfigError(f"no {what} {wanted!r}: there are {shown}.{nearest(wanted, labels)}")
