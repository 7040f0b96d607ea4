"""Import a CSV file of finished runs as a program. Its columns are settings, a seed and metrics.

Exports of W&B, MLflow, Optuna, Ray and pandas are read without changes. The role of a column follows from a
tracker's prefix or its name, and texts are settings (`Column.usual_role`). Other numbers that vary are
unclear, and `assign` refuses them. Levels, lines and states that allow two readings are refused too.
"""

import ast
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, Literal, NoReturn

from recstudy.base.csv_rows import CsvError, csv_rows
from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.values import canonical, flatten
from recstudy.programs.base import PROGRAMS
from recstudy.programs.columns import (
    EMPTY,
    FILES,
    FIRST_ZONE,
    METRIC,
    NEITHER,
    RUN_IDS,
    RUN_NAMES,
    SEED,
    SEEDS,
    SETTING,
    START,
    STATE,
    STATE_NAMES,
    STATUS,
    STEPS,
    UNCLEAR,
    Column,
    name_of,
    number_of,
    plain_number,
)
from recstudy.programs.metric import Metric
from recstudy.programs.own import OwnProgram
from recstudy.programs.settings import run_ids
from recstudy.records.schema import MAX_INTEGER, current_time
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
        columns: The columns that have a head.

    Attributes:
        rows: The rows that count as runs.
        failures: The state of each failed run; empty for other rows.
        left_out: Why runs were left out -> their number.
        notes: Lines about repeated runs.
    """

    def __init__(self, file: ImportedFile, lines: Sequence[int], columns: list[Column]) -> None:
        self.file, self.lines, self.columns = file, lines, columns
        self.rows: Sequence[int] = range(len(lines))
        self.failures = [""] * len(lines)
        self.left_out: Counter[str] = Counter()
        self.notes: list[str] = []

    def key(self, row: int, columns: Iterable[Column]) -> tuple[Any, ...]:
        """Return the cells of a row: the values of settings and the seed, the texts of other columns."""
        return tuple(
            column.value(row) if column.role in (SETTING, SEED) else column.cells[row] for column in columns
        )

    def unassigned(self, pattern: re.Pattern[str]) -> list[Column]:
        """Return the columns without a role whose names match."""
        return [column for column in self.with_role(NEITHER) if column.matches(pattern)]

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

    def refuse(self, row: int, column: Column, problem: str) -> NoReturn:
        raise ConfigError(f"{self.file.name}, line {self.lines[row]}, column {column.head!r}: {problem}")

    def refuse_lines(self, first: int, second: int, keys: Sequence[Column]) -> NoReturn:
        """Refuse two rows with equal keys. The message names a difference and the options that decide."""
        names = ", ".join(f"{column.head}={column.cells[first]}" for column in keys)
        steps = self.unassigned(STEPS)
        ranked = [*steps, *self.with_role(NEITHER), *self.columns]
        other = next((column for column in ranked if column.cells[first] != column.cells[second]), None)
        difference = "all cells are equal"
        if other:
            difference = f"{other.head} is {other.cells[first]!r} and {other.cells[second]!r}"
        step = other.head if other in steps else "STEP"
        settings = ",".join(column.head for column in self.with_role(SETTING))
        raise ConfigError(
            f"{self.file.name}, lines {self.lines[first]} and {self.lines[second]}: they may be of one run"
            f" ({names}), and {difference}. Remove one of them, or choose: the last line of each run counts"
            f" (--last {step}), another column distinguishes them (--settings {settings},COLUMN, or --seed"
            " COLUMN if it numbers runs), or each line is a run (--lines-are-runs)"
        )

    def refuse_number(self, column: Column, cell: str) -> NoReturn:
        fix = f"Write numbers with a decimal point and without separators or units{plain_number(cell)}"
        self.refuse(column.cells.index(cell), column, f"{cell!r} is not a number. {fix}")


# ------------------------------------------------------------------------------------------------------------
# reading


def read_table(path: Path) -> RunTable:
    """Read a CSV file with a header line. Cells are separated by commas, semicolons or tabs.

    Raises:
        ConfigError: The file cannot be read. The message names the file and the line.
    """
    name = path.name.encode(errors="replace").decode()
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{name}, line {line}: the text is not UTF-8. Export the file as CSV in UTF-8"
        ) from None
    lines, rows = _cells(name, text)
    file = ImportedFile(name=name, sha256=hashlib.sha256(content).hexdigest(), date=current_time())
    table = RunTable(file, lines[1:], [])
    for head, *cells in zip(*rows, strict=True):
        table.columns += _parts(table, Column(head, cells)) if head else []
    columns = [column for column in table.columns if column.matches(START)]
    with suppress(ValueError):  # a start is unknown, or no column has it
        starts = [datetime.fromisoformat(cell) for column in columns for cell in column.cells]
        # A time without a zone may be that of the earliest zone.
        first = min(start if start.tzinfo else start.replace(tzinfo=FIRST_ZONE) for start in starts)
        if first < datetime.now(UTC):
            table.file = replace(file, started=first.isoformat())
    return table


def _cells(name: str, text: str) -> tuple[list[int], list[list[str]]]:
    """Return the line where each row begins, and the rows. The first row is the header."""
    lines: list[int] = []
    rows: list[list[str]] = []
    try:
        for line, cells in csv_rows(io.StringIO(text, newline="")):
            lines.append(line)
            rows.append([cell.strip() for cell in cells])
            if len(cells) != len(rows[0]):
                raise ConfigError(
                    f"{name}, line {line}: it has {len(cells)} cells, but the header has {len(rows[0])}."
                    " Put cells that contain the separator in quotes"
                )
    except CsvError as error:
        raise ConfigError(
            f"{name}, line {error.line}: {error}. Close the quote of a cell, and double quotes inside it"
        ) from None
    if len(rows) < 2:
        state = "has a header but no runs" if rows else "is empty"
        raise ConfigError(
            f"{name} {state}. It needs a header with the names of settings, seed and metrics, and a line for"
            " each run"
        )
    for head, count in Counter(filter(None, rows[0])).items():
        if count > 1:
            raise ConfigError(
                f"{name}, line 1, column {head!r}: {count} columns have this name. Rename or remove one"
            )
    return lines, rows


def _parts(table: RunTable, column: Column) -> list[Column]:
    """Split a column of dictionaries into a column for each key; return other columns unchanged.

    W&B's example of an export writes the columns `config` and `summary` as texts of dictionaries.
    """
    if column.head not in ("config", "summary") or not all(cell.startswith("{") for cell in column.texts):
        return [column]
    rows: list[dict[str, Any]] = []
    for row, cell in enumerate(column.cells):
        try:
            rows.append(flatten(_plain(ast.parse(cell or "{}", mode="eval").body)))
        except (AttributeError, SyntaxError, ValueError) as error:  # AttributeError: it is a set
            place = f" after {cell[: getattr(error, 'offset', 0) or 0][-30:]!r}"
            fix = "Export a column for each key with pandas.json_normalize"
            table.refuse(row, column, f"it is not a dictionary{place}. {fix}")
    columns = []
    for head in dict.fromkeys(head for row in rows for head in row):
        values = [row.get(head) for row in rows]
        cells = ["" if value in (None, "null") else str(value) for value in values]
        columns.append(Column(f"{column.head}.{head.removesuffix('.value')}", cells))  # W&B's {"value": 1}
    return columns


def _plain(node: Any) -> Any:
    """Return the dictionary, the constant or the text of an expression in Python or JSON."""
    if isinstance(node, ast.Dict):
        return {_plain(key): _plain(value) for key, value in zip(node.keys, node.values, strict=True)}
    if isinstance(node, ast.Call) and len(node.args) == 1:  # such as np.float64(0.9)
        return _plain(node.args[0])
    return node.value if isinstance(node, ast.Constant) else ast.unparse(node)


# ------------------------------------------------------------------------------------------------------------
# roles


def assign(
    table: RunTable,
    settings: Sequence[str] = (),
    metrics: Sequence[str] = (),
    seed: str = "",
    texts: Sequence[str] = (),
    last: str = "",
    lines_are_runs: bool = False,
) -> None:
    """Assign a role to each column: the given one, else the one of its name. Then reduce lines to runs.

    Columns with given roles come first, in the given order.

    Args:
        table: The table.
        settings: The columns that are settings.
        metrics: The columns that are metrics.
        seed: The column of the seed.
        texts: The columns whose levels are texts, also if they are written as numbers.
        last: The column by which the last line of each run is kept.
        lines_are_runs: Whether each line is a run. Ids, names and seeds are then left out.

    Raises:
        ConfigError: A column is missing, its role is unclear, or cells or lines can be read in two ways. The
            message names the option that decides.
    """
    roles = ((METRIC, metrics), (SETTING, settings), (SEED, [seed]), (NEITHER, [last]))
    column_roles = {column: role for role, names in roles for column in map(table.find, filter(None, names))}
    for column in map(table.find, texts):
        column.is_text = True
    table.columns = [*column_roles, *(column for column in table.columns if column not in column_roles)]
    stated_roles = {SETTING: settings, METRIC: metrics, UNCLEAR: settings}
    for column in table.columns:
        if column in column_roles:
            column.role = column_roles[column]
        elif column.matches(STATE_NAMES) and column.texts and column.kind != SETTING:
            column.role = STATE
        elif column.matches(SEEDS) and not (lines_are_runs or table.with_role(SEED)):
            column.role = SEED
        else:
            role = NEITHER if settings and metrics else column.usual_role(table.refuse_number)
            column.role = NEITHER if stated_roles.get(role) else role
    _read_states(table)
    if not table.with_role(UNCLEAR):
        _check_levels(table)
        _reduce(table, last, lines_are_runs)
        if not settings:
            _leave_out(table)
        if seeds := table.with_role(SEED):
            _merge(table, table.with_role(SETTING) + seeds)
    if problem := _problem(table, bool(settings or metrics)):
        assigned = (
            f"settings: {table.heads(SETTING)}; seed: {table.heads(SEED)}; metrics: {table.heads(METRIC)}"
        )
        fix = "Name the columns: --settings A,B --metrics C,D --seed S"
        raise ConfigError(f"{table.file.name}: {assigned}; {problem}. {fix}")


def _read_states(table: RunTable) -> None:
    """Read which runs have failed, and leave out unfinished ones."""
    unfinished = {}
    for column in table.with_role(STATE):
        for row, cell in enumerate(column.cells):
            # Ray leaves `done` empty for a trial without results
            word = re.sub(r"^\w+\.|[\W_]", "", cell.lower()) or "false" * (column.name == "done")
            if word not in STATUS:
                fix = f"If it is a setting: --settings {column.head},... States are {choices(STATUS, 99)}"
                table.refuse(row, column, f"{cell!r} is no known state of a run. {fix}")
            if STATUS[word] == "failed":
                table.failures[row] = word
            elif STATUS[word] == "unfinished":
                unfinished[row] = f"not finished ({word})"
    table.rows = [row for row in table.rows if row not in unfinished or table.failures[row]]
    table.left_out.update(why for row, why in unfinished.items() if not table.failures[row])


def _check_levels(table: RunTable) -> None:
    """Refuse texts that would become one level, such as 1.1 and 1.10, or none and an empty cell."""
    for column in table.with_role(SETTING):
        first_rows: dict[Any, int] = {}
        for row in table.rows:
            first, cell = first_rows.setdefault(column.value(row), row), column.cells[row]
            if cell != column.cells[first] and table.failures[row] == table.failures[first]:
                table.refuse(
                    row,
                    column,
                    f"{cell!r} would be the same level as {column.cells[first]!r} in line"
                    f" {table.lines[first]}. Write them alike, or keep them apart: --texts {column.head}",
                )


def _reduce(table: RunTable, last: str, lines_are_runs: bool) -> None:
    """Keep one line of each run.

    A run has an id, or settings and a seed. Without both, lines of equal settings are several runs, unless
    they have one name, are identical, or count steps.
    """
    names = table.with_role(SEED) or table.unassigned(RUN_NAMES)
    keys = table.unassigned(RUN_IDS)[:1] or table.with_role(SETTING) + names
    if last:
        counter = table.find(last)
        _merge(table, [*keys, counter])
        for row in table.rows:
            if number_of(counter.cells[row]) is None:
                table.refuse_number(counter, counter.cells[row])
        table.notes.append(f"--last {last}: of {len(table.rows):,} lines, the last one of each run counts")
        rows = sorted(table.rows, key=lambda row: float(counter.cells[row]))
        table.rows = sorted({table.key(row, keys): row for row in rows}.values())
    if not lines_are_runs:
        _merge(table, keys)


def _merge(table: RunTable, keys: Sequence[Column]) -> None:
    """Keep the first of identical lines, and refuse other lines with equal keys."""
    is_run = any(column.role != SETTING for column in keys)
    steps = table.unassigned(STEPS)
    compared = [column for column in table.columns if not column.head.lower().startswith("unnamed:")]
    groups: dict[Any, dict[Any, int]] = {}
    repeated: dict[int, str] = {}
    for row in table.rows:
        failure = table.failures[row]
        group = groups.setdefault((failure, table.key(row, keys)), {})
        cells = row if failure and not is_run else table.key(row, compared)
        equal = group.setdefault(cells, row)
        other = next(iter(group.values())) if equal == row else equal
        if is_run and equal != row:
            repeated[equal] = f"{repeated.get(equal, table.lines[equal])}={table.lines[row]}"
        elif failure or other == row:
            continue
        elif is_run or other == equal or table.key(other, steps) != table.key(row, steps):
            table.refuse_lines(other, row, keys)
    table.rows = sorted(row for group in groups.values() for row in group.values())
    if repeated:
        table.notes.append(f"equal lines of one run count once: lines {choices(repeated.values(), 6)}")


def _count(table: RunTable, columns: Sequence[Column]) -> int:
    """Count the different rows of these columns."""
    return len({table.key(row, columns) for row in table.rows})


def _leave_out(table: RunTable) -> None:
    """Exclude files of single runs. Other texts that differ in each row may be settings or names."""
    count, settings = len(table.rows), table.with_role(SETTING)
    texts = [column for column in settings if not column.numbers and _count(table, [column]) == count]
    if 1 < _count(table, [column for column in settings if column not in texts]) < count:
        for column in texts:
            column.role = NEITHER if column.matches(FILES) else UNCLEAR


def _problem(table: RunTable, is_stated: bool) -> str:
    """Return why the roles of the columns are wrong or unclear; empty if they are plausible."""
    settings, metrics, unclear = table.with_role(SETTING), table.with_role(METRIC), table.with_role(UNCLEAR)
    if sum(column.name.isdigit() for column in unclear) > 1:
        return "columns named by numbers look like seeds, but each run needs its own line. Use pandas.melt"
    if unclear:
        return f"unclear: {choices(column.head for column in unclear)}"
    if not settings or not metrics:
        return f"no column is a {METRIC if settings else SETTING}"
    if (
        not is_stated
        and _count(table, settings) == len(table.rows)
        and _count(table, table.with_role(SEED)) > 1
    ):
        return "there are several seeds, but all runs have different settings"
    for name, count in Counter(column.name for column in (*settings, *metrics)).items():
        if count > 1:
            return f"{count} of these columns would be named {name!r}"
    return ""


# ------------------------------------------------------------------------------------------------------------
# runs


def finished_runs(table: RunTable, program: str) -> tuple[dict[str, ImportedRun], list[str]]:
    """Return the runs of a table by run id, and a line for each reason why runs were excluded.

    Raises:
        ConfigError: A seed or a metric is not a number, or no run is left.
    """
    runs: dict[str, ImportedRun] = {}
    # Settings -> runs so far. The count replaces a missing seed.
    repeats: Counter[str] = Counter()
    columns, seeds = table.with_role(SETTING), table.with_role(SEED)
    shared = {}  # settings of all other runs, for runs that failed before they logged their settings
    for column in columns:
        values = {column.value(row) for row in table.rows if not table.failures[row]}
        if len(values) == 1 and (value := values.pop()) is not None:
            shared[column.name] = value
    for row in table.rows:
        failure = table.failures[row]
        settings = shared.copy() if failure else {}
        for column in columns:
            if (value := column.value(row)) is not None and (column.cells[row] or not failure):
                settings[column.name] = value
        key = canonical(settings)
        seed = seeds[0].value(row) if seeds else repeats[key]
        repeats[key] += 1
        if type(seed) is not int or not 0 <= seed <= MAX_INTEGER:
            if not failure:
                problem = f"{seeds[0].cells[row]!r} is not a seed. A seed is an integer from 0 to 2^64"
                table.refuse(row, seeds[0], problem)
            table.left_out["failed, without a seed"] += 1
            continue
        run_id = run_ids({"program": program, "settings": settings, "seed": 0}, [seed])[0]
        table.left_out["failed, and repeated"] += run_id in runs
        if run_id not in runs or not failure:
            runs[run_id] = _run(table, row, settings, seed, failure)
    lines = [
        f"{count:,} run{'s' * (count > 1)} left out: {why}" for why, count in table.left_out.items() if count
    ]
    if not runs:
        raise ConfigError(f"{table.file.name} has no finished run. {'; '.join(lines)}")
    return runs, table.notes + lines


def _run(table: RunTable, row: int, settings: dict[str, Any], seed: int, failure: str) -> ImportedRun:
    """Return the run of a row; `failure` is the tracker's state of a failed run."""
    metrics: dict[str, float | None] = {}
    status: Literal["done", "diverged", "failed"] = "done"
    error = ""
    for column in table.with_role(METRIC):
        number = number_of(cell := column.cells[row])
        if number is None and cell.lower() not in EMPTY:
            table.refuse_number(column, cell)
        if number is None or isfinite(number):
            metrics[column.name] = number
        else:
            status, error = "diverged", error or f"{column.head} is {number}"
    if failure:
        status, error, failure = "failed", f"its state is {failure}", f"{failure} elsewhere"
    elif status == "done" and {*metrics.values()} == {None}:
        status, error, failure = "failed", "it has no metric", "no metric"
    error = f"{table.file.name}, line {table.lines[row]}: {error}" if error else ""
    return ImportedRun(
        settings=settings,
        seed=seed,
        status=status,
        error_class=failure,
        error=error,
        metrics=metrics,
        line=table.lines[row],
    )
