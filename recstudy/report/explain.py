"""What is behind a number of a table, named TABLE:ROW:COLUMN: its runs and seeds, their values, the estimate
and the verdict.

Table, row and column are labels, or the beginning of one label; rows and columns may be numbers from 1 on. An
exact label is preferred to a number, and a number to a beginning. Labels may have colons of their own.
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
from recstudy.records.runs import Row, distinct
from recstudy.report.cells import commit_words, missing_reason
from recstudy.report.kinds import render_part, report_problem
from recstudy.report.names import improved_metric
from recstudy.report.study_records import StudyRecords, load_studies
from recstudy.terminal import shortest

PRINTED_APART = ("row", "column", "run_ids")  # fields


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

    @property
    def metric(self) -> str:
        """The metric, or the metric that it improves on."""
        name = str(self.fields.get("metric", ""))
        return improved_metric(name) or name

    def value(self, row: Row) -> float | None:
        return row.value(self.metric)


def show_cell(
    studies: Sequence[tuple[Results, str, str]], name: str, console: Console, trust: bool = False
) -> None:
    """Print what is behind a number; of several studies (results folder, name, preset), the one that has its
    table.

    Raises:
        ConfigError: No study or more than one has it.
        StorageError: No study that can be read has it, and one is damaged.
    """
    readable, damages = load_studies(studies, trust)
    errors: list[Exception] = [*damages]
    numbers: list[tuple[StudyRecords, NamedNumber]] = []
    for records in readable.values():
        try:
            with records.study_modules():
                numbers.append((records, find(records, name)))
        except ConfigError as error:
            errors.append(error)
    if len(numbers) > 1:
        folders = choices(f"studies/{records.plan.study}/{records.plan.folder}" for records, _ in numbers)
        raise ConfigError(
            f"{len(numbers)} studies here have {name!r}: give one study's folder. There are {folders}."
        )
    if not numbers:
        raise errors[0]
    ((records, number),) = numbers
    records.record_look()
    with records.study_modules():
        column = f", column {number.column!r}" if number.column else ""
        console.print(Text(f"{number.table}, row {number.row!r}{column}", style="bold"), soft_wrap=True)
        for field, value in number.fields.items():
            if field not in PRINTED_APART and not pd.isna(value) and value is not False:
                console.print(Text(f"{field.replace('_', ' ')}: {value}"), soft_wrap=True)
        table = RichTable("run", "seed", "variant", "value", "made by", box=None)
        left_out = []
        variants = {row.variant for row in records.rows if row.id in number.run_ids}
        for row in distinct(records.rows):
            if row.id in number.run_ids:
                table.add_row(
                    *map(
                        Text,
                        (
                            row.id,
                            str(row.seed),
                            row.label,
                            f"{number.value(row) or 0:.10g}",
                            commit_words(row),
                        ),
                    )
                )
            elif row.variant in variants:
                why = missing_reason(row, number.metric) or "of another purpose"
                left_out.append(f"Not in it: run {row.id}, seed {row.seed}, {row.label}: {why}")
        console.print(table if variants else Text("No run is behind it."))
        place = records.results.root / "runs/RUN"
        if records.plan.imported:
            place = records.results.study(records.plan.study, records.plan.folder) / IMPORTED
            left_out += [f"Imported from {file.words}" for file in records.plan.imported]
        for line in (*left_out, f"Records: {shortest(place)}", *records.missing_modules):
            console.print(Text(line), soft_wrap=True)


def find(records: StudyRecords, name: str) -> NamedNumber:
    """Return the number that `name` (TABLE:ROW:COLUMN) names. A table with one number per row has no COLUMN.

    Raises:
        ConfigError: No or more than one table, row or column has that name. The message lists those there
            are.
    """
    table_label, _, place = name.partition(":")
    parts = {part.name: part for part in records.parts if part.explained}
    if not parts or not place.strip(":"):
        raise ConfigError(
            f"a cell is named TABLE:ROW:COLUMN, but got {name!r}. Tables of {records.plan.study}:"
            f" {choices(parts) or 'none'}."
        )
    part = parts[match("table", table_label, list(parts), numbered=False)]
    try:
        frame = render_part(records, part).frame
    except Exception as error:
        raise ConfigError(report_problem(part, error)) from None
    rows = frame.iloc[:, 0].astype(str)
    columns = frame["column"].astype(str) if "column" in frame else rows.map(lambda label: "")
    words = place.split(":") if "column" in frame else [place]
    errors = []
    for position in range(1, len(words) + 1):
        try:
            row = match("row", ":".join(words[:position]), list(dict.fromkeys(rows)))
            column = match("column", ":".join(words[position:]), list(dict.fromkeys(columns)))
        except ConfigError as error:
            errors.append(error)
        else:
            line = frame[(rows == row) & (columns == column)].iloc[0]
            return NamedNumber(part.name, row, column, {str(field): value for field, value in line.items()})
    raise errors[0]


def match(kind: str, name: str, labels: Sequence[str], numbered: bool = True) -> str:
    """Return the label that `name` means.

    Args:
        kind: Table, row or column, for the error.
        name: A label with or without its unit, a number from 1 on, or the beginning of one label.
        labels: The labels of the table.
        numbered: Whether `name` may be a number.

    Raises:
        ConfigError: No label matches, or several do.
    """
    name = name.strip()
    matches = [label for label in labels if name in (label, label.partition(" (")[0])]
    if not matches and numbered and name.isdecimal() and 1 <= int(name) <= len(labels):
        return labels[int(name) - 1]
    if not matches and name:
        matches = [label for label in labels if label.lower().startswith(name.lower())]
    if len(matches) == 1:
        return matches[0]
    listed = choices(
        f"{number} {label!r}" if numbered else repr(label) for number, label in enumerate(labels, 1)
    )
    if matches:
        advice = ", or give a number" * numbered
        raise ConfigError(f"{name!r} matches {len(matches)} {kind}s; be more specific{advice}: {listed}")
    raise ConfigError(f"no {kind} {name!r}: there are {listed}.{nearest(name, labels)}")
