"""Import a CSV file of finished runs as a program. Its columns are settings, a seed and metrics.

Exports of W&B, MLflow, Optuna and pandas are read without changes. The role of a column follows from its
name, if it has a tracker's prefix or a common name, else from its cells (`_role`). Text and numbers with few
levels are settings. Decimal numbers that differ in nearly every row are metrics.
"""

import ast
import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, Literal, NoReturn

from recstudy.errors import ALIASES, ConfigError, choices, nearest
from recstudy.programs.base import PROGRAMS
from recstudy.programs.metric import Metric
from recstudy.programs.own import OwnProgram
from recstudy.programs.settings import canonical, flatten, run_ids
from recstudy.records.schema import MAX_INTEGER, current_time
from recstudy.records.study_schema import ImportedFile, ImportedRun

PROGRAM = "table."  # prefix of the names of these programs
# roles of columns
SETTING, METRIC, SEED, STATE, UNCLEAR, NEITHER = "setting", "metric", "seed", "state", "unclear", "neither"
PREFIX = re.compile(r"^(?:(?P<setting>config|params|hparams|settings)|(?P<metric>summary|metrics))[./](?=.)")
# Columns that trackers add: recognized by the head, and by the name if the column has no tracker's prefix.
TRACKED = re.compile(r"_|unnamed:|tags\.|system[./]|gradients/|parameters/|user_attrs|system_attrs")
BOOKKEEPING = re.compile(
    """(run_|display_|experiment_)?name|(run_|trial_|experiment_)?id|artifact_uri|lifecycle_stage|state|status|number|created(_at)?
    |updated(_at)?|(start|end)_time|datetime_(start|complete)|date|timestamp|heartbeat|runtime|duration|host(name)?|pid|user(name)?
    |entity|project|group|job_type|sweep|agent|tags|notes|description|commit|(gpu|cpu)_(type|count)|os|python_version
    |epoch|(trainer_)?(global_)?step|(.*_)?(std|stdev|stddev|stderr|sem)""",
    re.VERBOSE,
)
START = re.compile("created(_at)?|start(ed)?(_at)?|start_time|datetime_start")
FIRST_ZONE = timezone(timedelta(hours=14))
STATES = {  # names in W&B, MLflow, Optuna and Ray; a run without a state counts as done
    "done": ",finished,complete,completed,done,success,succeeded,terminated",
    "failed": "crashed,failed,fail,failure,error,killed,canceled,cancelled,preempted",
    "unfinished": "running,pending,queued,scheduled,waiting,paused,pruned,preempting",
}
STATUS = {state: status for status, states in STATES.items() for state in states.split(",")}
SEEDS = re.compile("(random_|rng_)?seed|random_state")
ERROR = "loss|error|err|perplexity|ppl|mae|mse|rmse|fid|wer|cer|nll|bpc|ece|brier|regret"
SCORE = "accuracy|acc|f1|auc|auroc|auprc|iou|miou|dice|bleu|rouge|psnr|ssim|score|reward|return|top1|top5|r2"
AROUND = "val|valid|validation|test|eval|train|dev|mean|avg|best|final|max|min|at|[0-9]+"
LOWER = re.compile(rf"(.*_)?({ERROR})(_.*)?")  # names of metrics for which lower is better
USUAL_METRIC = re.compile(rf"(({AROUND})_)*({ERROR}|{SCORE})(_({AROUND}|{ERROR}|{SCORE}))*")
USUAL_SETTINGS = {
    name for field, names in ALIASES.items() for name in (field.partition(".")[2], *names.split())
}
EMPTY = ("", "nan", "none", "null", "na", "n/a", "<na>")
# numbers with thousands separators, a decimal comma or a percent sign
GROUPED = re.compile(r"[+-]?(\d{1,3}([ '.,]\d{3})+|\d+)([.,]\d*)?\s*%?")


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


class Column:
    """A column of a table.

    Attributes:
        head: The head in the file.
        name: The name without a tracker's prefix.
        kind: The role given by a tracker's prefix; empty without one.
        role: The assigned role.
        cells: All cells.
        texts: The cells that are not empty.
        numbers: The cells that are numbers.
        levels: The number of different texts.
    """

    def __init__(self, head: str, cells: Sequence[str]) -> None:
        prefix = PREFIX.match(head)
        self.head, self.name, self.cells = head, name_of(head), cells
        self.role = ""
        self.kind = str(prefix.lastgroup) if prefix else ""
        self.texts = [cell for cell in cells if cell.lower() not in EMPTY]
        self.numbers = [number for cell in self.texts if (number := number_of(cell)) is not None]
        self.levels = len(set(self.texts))


class RunTable:
    """A file of finished runs.

    Args:
        file: Name and digest of the file.
        lines: The line of the file where each row begins.
        columns: The columns that have a head.
    """

    def __init__(self, file: ImportedFile, lines: Sequence[int], columns: list[Column]) -> None:
        self.file, self.lines, self.columns = file, lines, columns

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

    def refuse_number(self, column: Column, cell: str) -> NoReturn:
        *groups, rest = re.split("[.,]", re.sub(r"[\s'%]", "", cell))
        example = f", such as {''.join(groups)}{'.' * bool(groups)}{rest}" if GROUPED.fullmatch(cell) else ""
        if example and len(groups) == 1 and len(rest) == 3:  # 1,234 may be 1234 or 1.234
            example = f", such as {groups[0]}{rest} or {groups[0]}.{rest}"
        fix = f"Write numbers with a decimal point and without separators or units{example}"
        self.refuse(column.cells.index(cell), column, f"{cell!r} is not a number. {fix}")


def name_of(head: str) -> str:
    """Return a column's name as an identifier without a tracker's prefix.

    >>> name_of("metrics.val/acc@1")
    'val_acc_1'
    """
    return re.sub(r"\W+", "_", PREFIX.sub("", head, count=1)).rstrip("_")


def number_of(cell: str) -> float | None:
    """Return the number in a cell, which may be infinite or NaN; None if it is not a number."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


@cache
def value_of(cell: str) -> Any:
    """Return the value of a setting: None, a bool, a number or a text.

    64.0 becomes 64, because pandas writes integers as floats if a cell of the column is empty.
    """
    if cell.lower() in EMPTY:
        return None
    if cell.lower() in ("true", "false"):
        return cell.lower() == "true"
    number = number_of(cell)
    if number is None or not isfinite(number):
        return cell
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


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
    columns = [column for column in table.columns if START.fullmatch(column.name.lower())]
    with suppress(ValueError):  # a start is unknown, or no column has it
        starts = [datetime.fromisoformat(cell) for column in columns for cell in column.cells]
        # A time without a zone may be that of the earliest zone.
        first = min(start if start.tzinfo else start.replace(tzinfo=FIRST_ZONE) for start in starts)
        if first < datetime.now(UTC):
            table.file = replace(file, started=first.isoformat())
    return table


def _cells(name: str, text: str) -> tuple[list[int], list[list[str]]]:
    """Return the line where each row begins, and the rows. The first row is the header."""
    first, line = text.partition("\n")[0], 1
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), strict=True)
    lines: list[int] = []
    rows: list[list[str]] = []
    try:
        for cells in reader:
            if any(map(str.strip, cells)):
                lines.append(line)
                rows.append([cell.strip() for cell in cells])
                if len(cells) != len(rows[0]):
                    raise ConfigError(
                        f"{name}, line {line}: it has {len(cells)} cells, but the header has {len(rows[0])}."
                        " Put cells that contain the separator in quotes"
                    )
            line = reader.line_num + 1
    except csv.Error as error:
        raise ConfigError(
            f"{name}, line {line}: {error}. Close the quote of a cell, and double quotes inside it"
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
    rows = []
    for row, cell in enumerate(column.cells):
        try:
            rows.append(flatten(ast.literal_eval(cell or "{}")))
        except (ValueError, SyntaxError):
            table.refuse(
                row, column, "it is not a dictionary. Export a column for each key with pandas.json_normalize"
            )
    heads = dict.fromkeys(head for row in rows for head in row)
    return [Column(f"{column.head}.{head}", [str(row.get(head, "")) for row in rows]) for head in heads]


# ------------------------------------------------------------------------------------------------------------
# roles


def assign(
    table: RunTable, settings: Sequence[str] = (), metrics: Sequence[str] = (), seed: str = ""
) -> None:
    """Assign a role to each column: the given one, else a role based on its name and its cells.

    Columns with given roles come first, in the given order.

    Raises:
        ConfigError: A column is missing or its role is unclear. The message contains the assigned roles and
            the options that set them.
    """
    stated_columns = []
    for role, names in ((METRIC, metrics), (SETTING, settings), (SEED, [seed] if seed else [])):
        for column in map(table.find, names):
            column.role = role
            stated_columns.append(column)
    table.columns = [*stated_columns, *(column for column in table.columns if column not in stated_columns)]
    stated_names = {SETTING: settings, METRIC: metrics, UNCLEAR: settings or metrics}
    for column in table.columns[len(stated_columns) :]:
        name = column.name.lower()
        if name in ("state", "status") and all(cell.lower() in STATUS for cell in column.cells):
            column.role = STATE
        elif SEEDS.fullmatch(name) and not table.with_role(SEED):
            column.role = SEED
        else:
            role = NEITHER if settings and metrics else _role(table, column)
            column.role = NEITHER if stated_names.get(role) else role
    if not settings:
        _leave_out(table)
    if problem := _problem(table, bool(settings or metrics)):
        roles = f"settings: {table.heads(SETTING)}; seed: {table.heads(SEED)}; metrics: {table.heads(METRIC)}"
        raise ConfigError(
            f"{table.file.name}: {roles}; {problem}. Name the columns: --settings A,B --metrics C,D --seed S"
        )


def _role(table: RunTable, column: Column) -> str:
    name, tracked = column.name.lower(), not column.kind and TRACKED.match(column.head.lower())
    if (
        not column.texts
        or tracked
        or name.startswith("_")
        or (BOOKKEEPING.fullmatch(name) and column.kind != SETTING)
    ):
        return NEITHER
    wrong = [text for text in column.texts if number_of(text) is None]
    if wrong and all(number_of(text) is not None or GROUPED.fullmatch(text) for text in column.texts):
        table.refuse_number(column, wrong[0])
    if column.kind == METRIC:
        return METRIC if column.numbers else NEITHER
    # `params_` is Optuna's prefix
    if column.kind or wrong or column.name in USUAL_SETTINGS or name.startswith("params_"):
        return SETTING
    if USUAL_METRIC.fullmatch(name):
        return METRIC
    if 2 * column.levels <= len(column.texts):
        return SETTING
    is_real = any(not number.is_integer() for number in column.numbers)
    return METRIC if is_real and column.levels >= 0.9 * len(column.texts) else UNCLEAR


def _count(columns: Iterable[Column]) -> int:
    """Count the different rows of these columns."""
    return len(set(zip(*(column.cells for column in columns), strict=True)))


def _leave_out(table: RunTable) -> None:
    """Exclude columns that are not settings: further seeds, and names of single runs, such as folders."""
    runs, seed = len(table.lines), table.with_role(SEED)
    for column in table.with_role(SETTING) if seed else ():
        if _count([column, *seed]) == _count([column]) == _count(seed) > 1:
            column.role = NEITHER
    names = [
        column
        for column in table.with_role(SETTING)
        if not column.numbers and column.levels == len(column.texts)
    ]
    other_settings = [column for column in table.with_role(SETTING) if column not in names]
    if _count(other_settings) < runs and (not seed or _count([*other_settings, *seed]) == runs):
        for column in names if other_settings else ():
            column.role = NEITHER


def _problem(table: RunTable, is_stated: bool) -> str:
    """Return why the roles of the columns are wrong or unclear; empty if they are plausible."""
    settings, metrics, unclear = table.with_role(SETTING), table.with_role(METRIC), table.with_role(UNCLEAR)
    if sum(column.name.isdigit() for column in metrics) > 1:
        return "columns named by numbers look like seeds, but each run needs its own line. Use pandas.melt"
    are_unique = not is_stated and bool(settings) and _count(settings) == len(table.lines)
    if are_unique and len(metrics) > 1:  # then a number that differs in each row may be a setting
        unclear += [
            column
            for column in metrics
            if not column.kind and not USUAL_METRIC.fullmatch(column.name.lower())
        ]
    if unclear:
        return f"unclear: {choices(column.head for column in unclear)}"
    if not settings or not metrics:
        return f"no column is a {METRIC if settings else SETTING}"
    if are_unique and any(column.levels > 1 for column in table.with_role(SEED)):
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
        ConfigError: A seed or a metric is not a number, or two rows have the same settings and seed.
    """
    runs: dict[str, ImportedRun] = {}
    left_out: Counter[str] = Counter()
    # Settings -> runs so far. The count replaces a missing seed.
    repeats: Counter[str] = Counter()
    columns, seeds = table.with_role(SETTING), table.with_role(SEED)
    states = table.with_role(STATE)[0].cells if table.with_role(STATE) else [""] * len(table.lines)
    statuses = [STATUS[state.lower()] for state in states]
    shared = {}  # settings of all other runs, for runs that failed before they logged their settings
    for column in columns:
        cells = {cell for cell, status in zip(column.cells, statuses, strict=True) if status != "failed"}
        if len(cells) == 1 and (value := value_of(cells.pop())) is not None:
            shared[column.name] = value
    for row, (line, status) in enumerate(zip(table.lines, statuses, strict=True)):
        if status == "unfinished":
            left_out["not finished"] += 1
            continue
        settings = shared.copy() if status == "failed" else {}
        settings |= {
            column.name: value for column in columns if (value := value_of(column.cells[row])) is not None
        }
        key = canonical(settings)
        seed = number_of(seeds[0].cells[row]) if seeds else float(repeats[key])
        repeats[key] += 1
        if seed is None or not (0 <= seed <= MAX_INTEGER and seed.is_integer()):
            if status != "failed":
                table.refuse(
                    row,
                    seeds[0],
                    f"{seeds[0].cells[row]!r} is not a seed. A seed is an integer of at least 0",
                )
            left_out["failed, without a seed"] += 1
            continue
        run = _run(table, row, settings, int(seed), states[row] if status == "failed" else "")
        run_id = run_ids({"program": program, "settings": settings, "seed": 0}, [run.seed])[0]
        earlier_run = runs.get(run_id)
        if earlier_run and "failed" not in (earlier_run.status, run.status):
            repeated = ", ".join(f"{name}={value}" for name, value in settings.items())
            raise ConfigError(
                f"{table.file.name}, lines {earlier_run.line} and {line}: the same settings and seed"
                f" ({repeated}, seed {run.seed}). Remove one of them, such as all but the last epoch of a"
                " run. If another column distinguishes them, add it:"
                f" --settings {','.join(column.name for column in columns)},COLUMN"
            )
        left_out["failed, and repeated"] += earlier_run is not None
        runs[run_id] = earlier_run if earlier_run and run.status == "failed" else run
    return runs, [
        f"{count:,} run{'s' * (count > 1)} left out: {why}" for why, count in left_out.items() if count
    ]


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
        status, error, failure = "failed", f"its state is {failure}", f"{failure.lower()} elsewhere"
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
