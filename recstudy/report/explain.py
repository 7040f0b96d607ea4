"""A number of a table, named TABLE:ROW:COLUMN: the line of the table's CSV file, and the runs that it comes from.

Each of the three is a label, the beginning of one alone, or, of rows and columns, a number from 1 on. A label as it is written
goes before a number, and a number before a beginning. Labels may have colons of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from recstudy.errors import ConfigError, choices, nearest
from recstudy.lazy import pd
from recstudy.records import Results
from recstudy.records.plans import IMPORTED
from recstudy.report.cells import gap
from recstudy.report.kinds import problem, shown
from recstudy.report.names import improved
from recstudy.report.rows import Row, distinct
from recstudy.report.study_records import StudyRecords, load_studies
from recstudy.terminal import shortest

DIGEST = 12  # characters of a checksum or commit that tell it apart
LABELS = ("row", "column", "run_ids")  # fields that are printed in another way


@dataclass(frozen=True)
class NamedNumber:
    """A number of a table: the labels of its place, and the fields of its line in the CSV file."""

    table: str
    row: str
    column: str
    fields: dict[str, Any]

    @property
    def run_ids(self) -> list[str]:
        return str(self.fields.get("run_ids", "")).split()

    def value(self, row: Row) -> float | None:
        """Return a run's value of the metric, or of the one that is improved."""
        name = str(self.fields.get("metric", ""))
        return row.value(improved(name) or name)


def show_cell(studies: Sequence[tuple[Results, str, str]], name: str, out: Console, trust: bool = False) -> None:
    """Print what is behind a number; of several studies (results folder, name, preset), the one that has its table.

    Raises:
        ConfigError: No study or more than one has it.
        StorageError: No study that can be read has it, and one is damaged.
    """
    readable, damages = load_studies(studies, trust)
    table = name.partition(":")[0]
    matches = [records for records in readable.values() if table in table_names(records)]
    if damages and not matches:
        raise damages[0]
    if len(readable) != 1 and len(matches) != 1:
        named = ((records.plan, ", ".join(table_names(records))) for records in readable.values())
        known = choices(f"studies/{plan.study}/{plan.folder} ({tables})" for plan, tables in named)
        count = f"{len(matches)} studies here have" if matches else "no study here has"
        raise ConfigError(f"{count} a table {table!r}: give one study's folder. There are {known}.")
    (records,) = readable.values() if len(readable) == 1 else matches
    with records.standing():
        cell = find(records, name)
        column = f", column {cell.column!r}" if cell.column else ""
        out.print(Text(f"{cell.table}, row {cell.row!r}{column}", style="bold"), soft_wrap=True)
        for field, value in cell.fields.items():
            if field not in LABELS and not pd.isna(value) and value is not False:
                out.print(Text(f"{field.replace('_', ' ')}: {value}"), soft_wrap=True)
        _show_runs(records, cell, out)
        for line in records.not_here:
            out.print(Text(line), soft_wrap=True)


def _show_runs(records: StudyRecords, cell: NamedNumber, out: Console) -> None:
    rows = {row.id: row for row in distinct(records.rows)}
    counted = [rows[run] for run in cell.run_ids if run in rows]
    table = RichTable("run", "seed", "variant", "value", "commit", "data checksum", "machine", "finished", box=None)
    for row in counted:
        made, value = row.provenance, cell.value(row)
        commit = ", then ".join(part[:DIGEST] for part in (made.made_by or "unknown").split(", then "))
        machine = ", ".join(filter(None, (made.hardware.host, made.hardware.gpu or made.hardware.cpu)))
        words = (row.id, str(row.seed), row.label, "" if value is None else f"{value:.10g}")
        changed = " with uncommitted changes" * made.dirty
        table.add_row(*map(Text, (*words, commit + changed, made.data_checksum[:DIGEST], machine, made.finished)))
    out.print(table if counted else Text("No run is behind it."))
    variants = {row.variant for row in counted}
    name = str(cell.fields.get("metric", ""))
    lines = [
        f"Not in it: run {row.id}, seed {row.seed}, {row.label}: {gap(row, improved(name) or name) or 'of another purpose'}"
        for row in rows.values()
        if row.variant in variants and row.id not in cell.run_ids
    ]
    lines += [f"{row.id} has its weights from {row.provenance.begun}" for row in counted if row.provenance.begun]
    lines += [f"Imported from {source}" for source in {row.provenance.source: None for row in counted} if source]
    folder = shortest(records.results.root / "runs") + "/RUN"
    if records.plan.imported:
        folder = shortest(records.results.study(records.plan.study, records.plan.folder) / IMPORTED)
    for line in (*lines, f"Records: {folder}"):
        out.print(Text(line), soft_wrap=True)


def find(records: StudyRecords, name: str) -> NamedNumber:
    """Return the number that `name` (TABLE:ROW:COLUMN) names. A table with one number per row has no COLUMN.

    Raises:
        ConfigError: No or more than one table, row or column has that name. The message lists those there are.
    """
    wanted, _, place = name.partition(":")
    known = table_names(records)
    if not known or not place.strip(":"):
        raise ConfigError(
            f"a cell is named TABLE:ROW:COLUMN, but got {name!r}. Tables of {records.plan.study}: {choices(known) or 'none'}."
        )
    part = [part for part in records.parts if part.explained][_match("table", wanted, known, numbered=False)]
    try:
        frame = shown(records, part).frame
    except Exception as error:
        raise ConfigError(problem(part, error)) from None
    labels = frame.iloc[:, 0].astype(str)
    rows = list(dict.fromkeys(labels))
    if "column" not in frame:
        row = rows[_match("row", place, rows)]
        return NamedNumber(part.name, row, "", _fields(frame[labels == row]))
    columns = list(dict.fromkeys(frame["column"].astype(str)))
    at_row, at_column = _split(place, rows, columns)
    row, column = rows[at_row], columns[at_column]
    line = frame[(labels == row) & (frame["column"] == column)]
    return NamedNumber(part.name, row, column, _fields(line))


def _fields(lines: pd.DataFrame) -> dict[str, Any]:
    return {str(name): value for name, value in lines.iloc[0].items()}


def table_names(records: StudyRecords) -> list[str]:
    """Return the names of the parts whose numbers can be explained."""
    return [part.name for part in records.parts if part.explained]


def _split(place: str, rows: Sequence[str], columns: Sequence[str]) -> tuple[int, int]:
    """Cut ROW:COLUMN, of which either may have colons of its own: the first way to cut it that names both."""
    words = place.split(":")
    cuts = [(":".join(words[:at]), ":".join(words[at:])) for at in range(1, len(words))] or [(place, "")]
    errors = []
    for row, column in cuts:
        try:
            return _match("row", row, rows), _match("column", column, columns)
        except ConfigError as error:
            errors.append(error)
    raise errors[0]


def _match(what: str, wanted: str, labels: Sequence[str], numbered: bool = True) -> int:
    """Return the place of the label that is meant."""
    wanted = wanted.strip()
    exact = [at for at, label in enumerate(labels) if wanted in (label, label.partition(" (")[0])]  # with or without its unit
    if not exact and numbered and wanted.isdecimal() and 1 <= int(wanted) <= len(labels):
        return int(wanted) - 1
    matches = exact or [at for at, label in enumerate(labels) if wanted and label.lower().startswith(wanted.lower())]
    if len(matches) == 1:
        return matches[0]
    listed = choices(f"{at} {label!r}" if numbered else repr(label) for at, label in enumerate(labels, 1))
    if matches:
        raise ConfigError(
            f"{wanted!r} matches {len(matches)} {what}s; be more specific{', or give a number' * numbered}: {listed}"
        )
    raise ConfigError(f"no {what} {wanted!r}: there are {listed}.{nearest(wanted, labels)}")
