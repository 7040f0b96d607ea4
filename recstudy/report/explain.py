"""One number of a table, named TABLE:ROW:COLUMN, with its runs, estimate, interval, and verdicts with their reasons.

Each of the three is a label, the beginning of one alone, or, of rows and columns, a number from 1 on. A label as it stands goes
before a number, and a number before a beginning. Labels may have colons of their own. Columns of settings are counted last.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from recstudy.errors import ConfigError, choices, nearest
from recstudy.records import Results
from recstudy.records.plans import IMPORTED
from recstudy.report.kinds import problem, shown
from recstudy.report.shown import Explained
from recstudy.report.study_records import StudyRecords, load_studies
from recstudy.terminal import shortest

SHORT = 12  # characters of a checksum or commit that tell it apart


@dataclass(frozen=True)
class NamedNumber:
    """The labels of a place in a table, and what is behind the number that stands there."""

    table: str
    row: str
    column: str
    behind: Explained


def show_cell(studies: Sequence[tuple[Results, str, str]], name: str, out: Console, trust: bool = False) -> None:
    """Print what is behind a number; of several studies (results folder, name, preset), the one that has its table.

    Raises:
        ConfigError: no study or more than one has it.
        StorageError: none that can be read has it, and one is damaged.
    """
    readable, damaged = load_studies(studies, trust)
    wanted = name.partition(":")[0]
    having = [records for records in readable.values() if wanted in tables_of(records)]
    if damaged and not having:
        raise damaged[0]
    if len(readable) != 1 and len(having) != 1:
        named = ((records.plan, ", ".join(tables_of(records))) for records in readable.values())
        known = choices(f"studies/{plan.study}/{plan.folder} ({tables})" for plan, tables in named)
        count = f"{len(having)} studies here have" if having else "no study here has"
        raise ConfigError(f"{count} a table {wanted!r}: give one study's folder. There are {known}.")
    (records,) = readable.values() if len(readable) == 1 else having
    with records.standing():
        number = find(records, name)
        behind = number.behind(records)
        missing = records.not_here
    place = f"{number.table}, row {number.row!r}, column {number.column!r}"
    out.print(Text(f"{place}: {behind.number}", style="bold"), soft_wrap=True)
    runs = RichTable("run", "seed", "variant", "value", "commit", "data checksum", "machine", "finished", box=None)
    rows = {row.id: row for row in records.rows}
    for run_id, value in behind.runs:
        row, made = rows[run_id], rows[run_id].provenance
        commits = ", then ".join(part[:SHORT] for part in (made.made_by or "unknown").split(", then "))
        commits += " with uncommitted changes" * made.dirty
        machine = ", ".join(filter(None, (made.hardware.host, made.hardware.gpu or made.hardware.cpu)))
        words = (run_id, str(row.seed), row.label, f"{value:.10g}", commits, made.data_checksum[:SHORT], machine, made.finished)
        runs.add_row(*map(Text, words))
    out.print(runs if behind.runs else Text("No run is behind it."))
    begun = [f"{run} has its weights from {origin}" for run, _ in behind.runs if (origin := rows[run].provenance.begun)]
    sources = dict.fromkeys(rows[run].provenance.source for run, _ in behind.runs)
    begun += [f"Imported from {source}" for source in sources if source]
    runs_at = shortest(records.results.root / "runs") + "/RUN"
    if records.plan.imported:
        runs_at = shortest(records.results.study(records.plan.study, records.plan.folder) / IMPORTED)
    for line in (*begun, *behind.lines, *missing, f"Records: {runs_at}"):
        out.print(Text(line), soft_wrap=True)


def find(records: StudyRecords, name: str) -> NamedNumber:
    """Return what `name` (TABLE:ROW:COLUMN) names.

    Raises:
        ConfigError: no or more than one table, row or column is called so. The message names those there are.
    """
    wanted, _, place = name.partition(":")
    known = tables_of(records)
    if not known or not place.strip(":"):
        raise ConfigError(
            f"a cell is named TABLE:ROW:COLUMN, but got {name!r}. Tables of {records.plan.study}: {choices(known) or 'none'}."
        )
    table = [part for part in records.parts if part.explained][_one("table", wanted, known, numbered=False)]
    try:
        columns, rows = shown(records, table).behind()
    except Exception as error:
        raise ConfigError(problem(table, error)) from None
    row, column = _split(place, [label for label, _ in rows], columns)
    return NamedNumber(table.name, rows[row][0], columns[column], rows[row][1][column])


def tables_of(records: StudyRecords) -> list[str]:
    """Return the names of the parts whose numbers can be explained."""
    return [part.name for part in records.parts if part.explained]


def _split(place: str, rows: Sequence[str], columns: Sequence[str]) -> tuple[int, int]:
    """Cut ROW:COLUMN, of which either may have colons of its own: the first way to cut it that names both."""
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
    """Return where the label that is meant stands."""
    wanted = wanted.strip()
    exact = [at for at, label in enumerate(labels) if wanted in (label, label.partition(" (")[0])]  # with or without its unit
    if not exact and numbered and wanted.isdecimal() and 1 <= int(wanted) <= len(labels):
        return int(wanted) - 1
    found = exact or [at for at, label in enumerate(labels) if wanted and label.lower().startswith(wanted.lower())]
    if len(found) == 1:
        return found[0]
    listed = choices(f"{at} {label!r}" if numbered else repr(label) for at, label in enumerate(labels, 1))
    if found:
        raise ConfigError(f"{wanted!r} matches {len(found)} {what}s; be more specific{', or give a number' * numbered}: {listed}")
    raise ConfigError(f"no {what} {wanted!r}: there are {listed}.{nearest(wanted, labels)}")
