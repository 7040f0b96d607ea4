"""The origin of a number of a table, for `recstudy explain TABLE:ROW:COLUMN`: its runs and seeds, their
values, the estimate and the verdict.

Table, row and column are labels, or the beginning of one label. Rows and columns may also be numbers from 1
on. An exact label has priority over a number, and a number over a beginning. Labels may contain colons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.lazy import pd
from recstudy.base.terminal import shortest
from recstudy.papers import passage
from recstudy.records.plans import IMPORTED
from recstudy.records.runs import distinct
from recstudy.report.cells import commit_words, missing_reason
from recstudy.report.claims import QuestionPart
from recstudy.report.documents import ExplainDocument, NumberRun
from recstudy.report.family import family
from recstudy.report.kinds import render_part, report_problem
from recstudy.report.names import DASH, improved_metric
from recstudy.report.parts import missing_modules, parts_of
from recstudy.report.status import StudyLocation
from recstudy.report.study_records import StudyRecords, load_studies

PRINTED_APART = ("row", "column", "run_ids")  # fields that the title and the list of runs show


@dataclass(frozen=True)
class NamedNumber:
    """A number of a table with its labels, and the fields of its line in the CSV file.

    `values` has the values of a question's runs.
    """

    table: str
    row: str
    column: str
    fields: dict[str, Any]
    values: Mapping[str, float]

    @property
    def run_ids(self) -> list[str]:
        return str(self.fields.get("run_ids", "")).split()

    @property
    def metric(self) -> str:
        """The metric, or the metric that it improves on."""
        name = str(self.fields.get("metric", ""))
        return improved_metric(name) or name

    def is_mean_of(self, values: Sequence[float]) -> bool:
        """Return whether the number may be the mean of these values. True for a number that is no mean."""
        mean = self.fields.get("mean")
        if not values or mean is None or self.metric != self.fields["metric"]:
            return True
        low, high = min(values), max(values)
        return low <= mean <= high or isclose(mean, low) or isclose(mean, high)


def explain_cell(studies: Sequence[StudyLocation], name: str, trust: bool = False) -> ExplainDocument:
    """Return the origin of a number: its fields in the CSV file, its runs, and runs that are left out.

    Args:
        studies: The locations of the studies. Exactly one must have the number.
        name: The number, as TABLE:ROW:COLUMN.
        trust: Whether the study's own modules may be imported.

    Raises:
        ConfigError: No study or more than one has the number.
        StorageError: No readable study has the number, and a study is damaged.
    """
    readable, damages = load_studies(studies, trust)
    errors: list[Exception] = [*damages]
    numbers: list[tuple[StudyRecords, NamedNumber]] = []
    for records in readable.values():
        try:
            with records.study_modules():
                numbers.append((records, find_number(records, name)))
        except ConfigError as error:
            errors.append(error)
    if len(numbers) > 1:
        folders = choices(f"studies/{records.plan.study}/{records.plan.folder}" for records, _ in numbers)
        raise ConfigError(f"{len(numbers)} studies have {name!r}: give the folder of one of {folders}")
    if not numbers:
        raise errors[0]
    ((records, number),) = numbers
    # A reader sees the value of a cell, so this counts as a look (interim analysis).
    records.record_look()
    with records.study_modules():
        targets = [target for part in parts_of(records) for target in getattr(part, "targets", ())]
        cited = {target.cited: passage(target) for target in targets}
        names = str(number.fields.get("sources", "")).split("; ")
        runs, notes = [], []
        variants = {row.variant for row in records.rows if row.id in number.run_ids}
        for row in distinct(records.rows):
            if row.id in number.run_ids:
                value = number.values.get(row.id, row.value(number.metric))
                runs.append(
                    NumberRun(
                        id=row.id, seed=row.seed, variant=row.label, value=value, made_by=commit_words(row)
                    )
                )
            elif row.variant in variants:
                reason = missing_reason(row, number.metric) or "of another purpose"
                notes.append(f"Left out: run {row.id}, seed {row.seed}, {row.label}: {reason}")
        values = [run.value for run in runs if run.value is not None]
        if not number.is_mean_of(values):
            runs = [run.model_copy(update={"value": None}) for run in runs]
            notes.append("The part computes this number from the runs. No run has such a value itself.")
        folder = records.results.root / "runs/RUN"
        if records.plan.imported:
            folder = records.folder / IMPORTED
            notes += [f"Imported from {file.words}" for file in records.plan.imported]
        return ExplainDocument(
            study=records.plan.study,
            preset=records.plan.folder,
            table=number.table,
            row=number.row,
            column=number.column,
            fields={name: None if pd.isna(value) else value for name, value in number.fields.items()},
            passages=[f"{name}: {cited[name]}" for name in names if cited.get(name)],
            runs=runs,
            notes=[*notes, *missing_modules(records)],
            records=shortest(folder),
        )


def show_cell(number: ExplainDocument, console: Console) -> None:
    """Print the origin of a number."""
    column = f", column {number.column!r}" if number.column else ""
    console.print(Text(f"{number.table}, row {number.row!r}{column}", style="bold"), soft_wrap=True)
    for field, value in number.fields.items():
        if field not in PRINTED_APART and value is not None and value is not False:
            words = f"{value:.10g}" if isinstance(value, float) else value
            console.print(Text(f"{field.replace('_', ' ')}: {words}"), soft_wrap=True)
    for words in number.passages:
        console.print(Text(f"published in: {words}"), soft_wrap=True)
    table = RichTable("run", "seed", "variant", "value", "made by", box=None)
    for run in number.runs:
        value = DASH if run.value is None else f"{run.value:.10g}"
        table.add_row(*map(Text, (run.id, str(run.seed), run.variant, value, run.made_by)))
    console.print(table if number.runs else Text("No run contributes to it."))
    for line in (*number.notes, f"Records: {number.records}"):
        console.print(Text(line), soft_wrap=True)


def find_number(records: StudyRecords, name: str) -> NamedNumber:
    """Return the number that `name` (TABLE:ROW:COLUMN) refers to.

    A table with one number per row has no COLUMN.

    Raises:
        ConfigError: No table, row or column has that name, or several do. The message lists the labels.
    """
    table_name, _, place = name.partition(":")
    parts = {part.name: part for part in parts_of(records) if part.explained}
    if not parts or not place.strip(":"):
        raise ConfigError(
            f"name a cell as TABLE:ROW:COLUMN, but got {name!r}. Tables of {records.plan.study}:"
            f" {choices(parts) or 'none'}."
        )
    part = parts[match("table", table_name, list(parts), numbered=False)]
    try:
        frame = render_part(records, part).frame
    except Exception as error:
        raise ConfigError(report_problem(part, error)) from None
    rows = frame.iloc[:, 0].astype(str)
    columns = frame["column"].astype(str) if "column" in frame else rows.map(lambda label: "")
    # labels may contain colons, so each colon may be the end of the row's label
    pieces = place.split(":") if "column" in frame else [place]
    errors = []
    for end in range(1, len(pieces) + 1):
        try:
            row = match("row", ":".join(pieces[:end]), list(dict.fromkeys(rows)))
            column = match("column", ":".join(pieces[end:]), list(dict.fromkeys(columns)))
        except ConfigError as error:
            errors.append(error)
            continue
        position = int(((rows == row) & (columns == column)).to_numpy().argmax())
        fields: Any = frame.iloc[position].to_dict()  # whose values have Python's own types
        values = {}
        if isinstance(part, QuestionPart):
            terms = family(records, part).rows[position].terms
            values = {
                run.id: value for term in terms for run, value in zip(term.runs, term.values, strict=True)
            }
        return NamedNumber(part.name, row, column, fields, values)
    if "column" not in frame and ":" in place:
        raise ConfigError(f"{part.name} has no columns: name a row as {part.name}:ROW; {errors[0]}")
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
    # An exact label has priority over a number, and a number over the beginning of a label.
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
