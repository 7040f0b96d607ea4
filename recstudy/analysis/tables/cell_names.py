"""How a number is named on the command line: TABLE:ROW:COLUMN.

Each of the three is a label, the beginning of one alone, or, of rows and columns, a number from 1 on. A label as it stands goes
before a number, and a number before a beginning. Labels may have colons of their own. Columns of settings are counted last.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from recstudy.analysis.audit.findings import parts
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.parts import cells
from recstudy.analysis.spec import Differences, Effects, OfCells, OfRuns
from recstudy.analysis.tables.cells import Cell
from recstudy.analysis.tables.difference_words import columns
from recstudy.analysis.tables.differences import Difference, DifferencesData, differences_data
from recstudy.analysis.tables.effect_words import HEADS
from recstudy.analysis.tables.effects import Effect, EffectsData, effects_data
from recstudy.analysis.tables.settings import settings_title
from recstudy.errors import ConfigError, choices, nearest

Thing = Cell | Difference | Effect | dict[str, str]  # the last: a setting, by field


@dataclass(frozen=True)
class Found:
    """What stands in a place of a table, with the labels of that place; `among`: a table of tests as a whole."""

    table: str
    row: str
    column: str
    thing: Thing
    among: DifferencesData | EffectsData | None = None


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


def find(records: StudyRecords, name: str) -> Found:
    """What `name` (TABLE:ROW:COLUMN) names.

    Raises:
        ConfigError: no or more than one table, row or column is called so. The message names those there are.
    """
    wanted, _, place = name.partition(":")
    specs = [part for part in parts(records) if isinstance(part, OfRuns)]
    if not specs or not place.strip(":"):
        tables = choices([spec.name for spec in specs]) or "none"
        raise ConfigError(f"a cell is named TABLE:ROW:COLUMN, but got {name!r}. Tables of {records.plan['study']}: {tables}.")
    spec = specs[_one("table", wanted, [spec.name for spec in specs], numbered=False)]
    heads, lines, among = _grid(records, spec)
    row, column = _split(place, [label for label, _ in lines], heads)
    return Found(spec.name, lines[row][0], heads[column], lines[row][1][column], among)


Grid = tuple[Sequence[str], list[tuple[str, Sequence[Thing]]], DifferencesData | EffectsData | None]


def _grid(records: StudyRecords, spec: OfRuns) -> Grid:
    """The heads of the columns, and each line's label with what stands in its columns."""
    match spec:
        case Differences():
            differences = differences_data(records, spec)
            heads = columns(spec, differences)
            lines: dict[str, Sequence[Thing]] = {row.base: [row.theirs] * len(heads) for row in differences.rows}
            lines |= {row.label: [row.ours, *[row] * (len(heads) - 1)] for row in differences.rows}
            return heads, list(lines.items()), differences
        case Effects():
            effects = effects_data(records, spec)
            return HEADS[1:], [(effect.title, [effect] * (len(HEADS) - 1)) for effect in effects.effects], effects
        case _:
            return _of_cells(records, spec)


def _of_cells(records: StudyRecords, spec: OfCells) -> Grid:
    """Rows of one label in several groups are called by their group too."""
    table, group = cells(records, spec), ""
    count = Counter(row.label for row in table.rows if row.cells)
    lines: list[tuple[str, Sequence[Thing]]] = []
    for row in table.rows:
        if not row.cells:
            group = row.label
            continue
        settings = [dict(zip(fields, words, strict=True)) for fields, words in zip(table.settings, row.settings, strict=True)]
        lines.append((f"{group}, {row.label}" if count[row.label] > 1 else row.label, [*row.cells, *settings]))
    return [*table.columns, *map(settings_title, table.settings)], lines, None


def _tables(records: StudyRecords) -> list[str]:
    return [spec.name for spec in parts(records) if isinstance(spec, OfRuns)]


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
