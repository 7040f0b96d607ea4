"""Import a table of finished runs as a program. Its columns are settings, a seed and metrics."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import repeat
from math import isfinite, isnan
from statistics import fmean
from typing import Any, Literal, NoReturn

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.values import canonical
from recstudy.programs.base import PROGRAMS
from recstudy.programs.columns import (
    EMPTY,
    ERROR_OF,
    ITEM,
    LOSSES,
    METRIC,
    NEITHER,
    SEED,
    SETTING,
    STEPS,
    TRAINING,
    Column,
    name_of,
)
from recstudy.programs.metric import Metric
from recstudy.programs.own import OwnProgram
from recstudy.programs.settings import run_ids
from recstudy.records.schema import MAX_INTEGER
from recstudy.records.study_schema import ImportedFile, ImportedRun

PROGRAM = "table."  # prefix of the names of these programs


class TableProgram(OwnProgram):
    """A program whose finished runs are imported from a table.

    Args:
        name: Name of the study, and part of the run ids.
        metrics: Description of each metric by name.
        title: Name of the program in tables.
        data: Name of the data set in tables.
        imported: The imported files.
    """

    def __init__(
        self,
        name: str,
        metrics: Mapping[str, Metric],
        title: str = "",
        data: str = "",
        imported: tuple[ImportedFile, ...] = (),
    ) -> None:
        super().__init__(PROGRAM + name, {}, metrics, title or name, data)
        self.imported = imported

    def parse(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return dict(settings)

    def register(self, module: str) -> None:
        """Register the table. It replaces an earlier one with the same name."""
        PROGRAMS.set_entry(self.name, self, __name__)


class RunTable:
    """A file of finished runs.

    Args:
        file: Name and digest of the file.
        lines: The line of the file where each row begins.

    Attributes:
        columns: The columns that have a head.
        rows: The rows that count as runs.
        failures: The state of each failed run; empty for other rows.
        left_out: Why runs were left out -> their number.
        notes: Lines about repeated runs.
    """

    def __init__(self, file: ImportedFile, lines: Sequence[int]) -> None:
        self.file, self.lines = file, lines
        self.columns: list[Column] = []
        self.rows: Sequence[int] = range(len(lines))
        self.failures = [""] * len(lines)
        self.left_out: Counter[str] = Counter()
        self.notes: list[str] = []

    def keys(self, columns: Sequence[Column]) -> Iterator[tuple[Any, ...]]:
        """Yield what each row has in these columns, to find equal rows."""
        if not columns:
            return repeat((), len(self.rows))
        return zip(*(map(column.keys.__getitem__, self.rows) for column in columns), strict=True)

    def count(self, columns: Sequence[Column]) -> int:
        """Count the different rows of these columns."""
        return len({*self.keys(columns)})

    def decides(self, keys: Sequence[Column], column: Column) -> bool:
        """Return whether a column has one value for all rows with equal keys."""
        values: dict[Any, Any] = {}
        entries = zip(self.keys(keys), self.keys([column]), strict=True)
        return all(values.setdefault(key, value) == value for key, value in entries)

    def unassigned(self, pattern: re.Pattern[str]) -> list[Column]:
        """Return the columns without a role whose names match."""
        return [column for column in self.with_role(NEITHER) if column.matches(pattern)]

    def finished(self) -> "RunTable":
        """Return the table without failed runs."""
        table = copy(self)
        table.rows = [row for row in self.rows if not self.failures[row]]
        return table

    def with_role(self, role: str) -> list[Column]:
        return [column for column in self.columns if column.role == role]

    def heads(self, role: str, limit: int = 20) -> str:
        return choices((column.head for column in self.with_role(role)), limit) or "none"

    def find(self, name: str) -> Column:
        """Return the column with this head, or else with this name."""
        heads = {column.head: column for column in self.columns}
        names = {column.name: column for column in reversed(self.columns)}
        if column := heads.get(name) or names.get(name_of(name)):
            return column
        raise ConfigError(
            f"{self.file.name} has no column {name!r}. Its columns: {choices(heads)}.{nearest(name, heads)}"
        )

    def note_notations(self) -> None:
        """Note which columns are not read as Python writes numbers, with a cell of each."""
        for column in (column for column in self.columns if column.role in (METRIC, SETTING)):
            readings = column.notation.readings
            cell = next((cell for cell in readings if not column.is_plain(cell)), "")
            if cell and not column.is_text:
                self.notes.append(f"{column.head}: {cell!r} is read as {readings[cell]:.15g}")

    def refuse(self, row: int, column: Column, problem: str) -> NoReturn:
        raise ConfigError(f"{self.file.name}, line {self.lines[row]}, column {column.head!r}: {problem}")

    def refuse_lines(self, first: int, second: int, keys: Sequence[Column]) -> NoReturn:
        """Refuse two rows with equal keys. The message names a difference and the options that decide."""
        names = ", ".join(f"{column.head}={column.cells[first]}" for column in keys)
        run = f"one run ({names})" if names else "one run"
        place = f"{self.file.name}, lines {self.lines[first]} and {self.lines[second]}: they may be of {run}"
        steps = self.unassigned(STEPS)
        ranked = [*steps, *self.with_role(NEITHER), *self.columns]
        different = [column for column in ranked if column.cells[first] != column.cells[second]]
        step = next((column.head for column in (*different, *steps) if column in steps), "STEP")
        heads = [
            [column.head for column in self.with_role(METRIC) if column.number(row) is not None]
            for row in (first, second)
        ]
        if all(heads) and set(heads[0]).isdisjoint(heads[1]):
            # Lightning writes the metrics of training and of validation in different lines
            heads.sort(key=lambda names: bool(TRAINING.fullmatch(name_of(names[0]).lower())))
            raise ConfigError(
                f"{place}, and have different metrics. Write these in one line, or name those of one line"
                f" and the column that counts the lines: --metrics {','.join(heads[0])} --last {step}"
            )
        difference = "all cells are equal"
        if different:
            column = different[0]
            difference = f"{column.head} is {column.cells[first]!r} and {column.cells[second]!r}"
        settings = ",".join([*(column.head for column in self.with_role(SETTING)), "COLUMN"])
        raise ConfigError(
            f"{place}, and {difference}. Remove one of them, or choose: the last or the best line of each run"
            f" counts (--last {step}, --best METRIC), each line is the result of a test item (--items"
            f" COLUMN), another column distinguishes them (--settings {settings}, or --seed COLUMN if"
            " it numbers runs), or each line is a run (--lines-are-runs)"
        )

    def refuse_number(self, column: Column, cell: str) -> NoReturn:
        problem = column.notation.problem or f"{cell!r} is not a number"
        fix = "Write all numbers of the column alike and without units"
        if column.role == SETTING:
            fix += f", or take them as texts: --texts {column.head}"
        self.refuse(column.cells.index(cell), column, f"{problem}. {fix}")


def finished_runs(table: RunTable, program: str, score: str) -> tuple[dict[str, ImportedRun], list[str]]:
    """Return the runs of a table by run id, and a line for each reason why runs were excluded.

    Args:
        table: The table.
        program: The program of the runs.
        score: The name of the score. A run without a number for it has diverged.

    Raises:
        ConfigError: A seed or a metric is not a number, or no run is left.
    """
    runs: dict[str, ImportedRun] = {}
    rows_of_items: dict[str, list[int]] = {}
    # Settings and item -> runs so far. The count replaces a missing seed.
    repeats: Counter[tuple[str, ...]] = Counter()
    columns, seeds, items = (table.with_role(role) for role in (SETTING, SEED, ITEM))
    shared = {}  # settings of all other runs, for runs that failed before they logged their settings
    for column in columns:
        values = {column.values[row] for row in table.rows if not table.failures[row]}
        if len(values) == 1 and (value := values.pop()) is not None:
            shared[column.name] = value
    for row in table.rows:
        failure = table.failures[row]
        settings = shared.copy() if failure else {}
        for column in columns:
            if (value := column.values[row]) is not None and (column.cells[row] or not failure):
                settings[column.name] = value
        key = (canonical(settings), *(column.cells[row] for column in items))
        seed = seeds[0].values[row] if seeds else repeats[key]
        repeats[key] += 1
        if type(seed) is not int or not 0 <= seed <= MAX_INTEGER:
            if not failure:
                problem = f"{seeds[0].cells[row]!r} is not a seed. A seed is an integer from 0 to 2^64"
                table.refuse(row, seeds[0], problem)
            table.left_out["failed, without a seed"] += 1
            continue
        run_id = run_ids({"program": program, "settings": settings, "seed": 0}, [seed])[0]
        rows = [*rows_of_items.get(run_id, ()), row] if items else [row]
        table.left_out["failed, and repeated"] += run_id in runs and not items
        if run_id not in runs or not failure:
            rows_of_items[run_id] = rows
            line = table.lines[row]
            runs[run_id] = ImportedRun(settings=settings, seed=seed, error_class=failure, line=line)
    runs = {run_id: _run(table, rows_of_items[run_id], run, score) for run_id, run in runs.items()}
    table.note_notations()
    lines = [
        f"{count:,} run{'s' * (count > 1)} left out: {why}" for why, count in table.left_out.items() if count
    ]
    if not runs:
        raise ConfigError(f"{table.file.name} has no finished run. {'; '.join(lines)}")
    return runs, table.notes + lines


def _run(table: RunTable, rows: Sequence[int], run: ImportedRun, score: str) -> ImportedRun:
    """Return a run with its metrics, from its line or from the lines of its test items.

    Infinity, or nan in the score or a loss, means that the run diverged. Other metrics may be undefined.
    """
    items = table.with_role(ITEM)
    metrics: dict[str, float | None] = {}
    item_scores: dict[str, dict[str, float]] = {}
    status: Literal["done", "diverged", "failed"] = "done"
    error, failure = "", run.error_class
    for column in table.with_role(METRIC):
        scores: dict[str, float] = {}
        for row in rows:
            cell = column.cells[row]
            number = column.number(row)
            if number is None and cell.lower() not in EMPTY:
                table.refuse_number(column, cell)
            if number is not None:
                scores[items[0].cells[row] if items else ""] = number
        mean = fmean(scores.values()) if scores else None
        if mean is not None and isnan(mean) and column.name != score and not column.matches(LOSSES):
            mean, scores = None, {}
        if mean is None or isfinite(mean):
            metrics[column.name] = mean
        else:
            status, error = "diverged", error or f"{column.head} is {mean}"
        if items and scores:
            item_scores[column.name] = scores
    if failure:
        status, error, failure = "failed", f"its state is {failure}", f"{failure} elsewhere"
    elif status == "done" and {*metrics.values()} == {None}:
        status, error, failure = "failed", "it has no metric", "no metric"
    errors = {}  # of metrics over test items
    for column in table.with_role(ERROR_OF):
        number = column.number(rows[0])
        if number is not None and isfinite(number) and number > 0:
            errors[column.error_of] = number
    return replace(
        run,
        status=status,
        error_class=failure,
        error=f"{table.file.name}, line {run.line}: {error}" if error else "",
        metrics=metrics,
        item_scores=None if failure else item_scores or None,
        errors=errors or None,
    )
