"""A table of finished runs as a program: its columns are settings, a seed and metrics. Nothing is run.

Exports of W&B, MLflow, Optuna and pandas are read as they come. The role of a column follows from its name, where a tracker's
prefix or a usual name tells it, and else from its cells (`_role`). Text and numbers with few levels are settings. Numbers with a
point that differ in nearly every row are metrics.
"""

import ast
import csv
import hashlib
import io
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn

from recstudy.errors import ALIASES, ConfigError, choices, nearest
from recstudy.programs.base import PROGRAMS
from recstudy.programs.metric import Metric
from recstudy.programs.own import OwnProgram
from recstudy.programs.settings import canonical, flatten, run_ids
from recstudy.records.schema import MOST, now
from recstudy.records.study_schema import ImportedFile, ImportedRun

PROGRAM = "table."  # begins the names of such programs
SETTING, METRIC, UNCLEAR, NEITHER = "setting", "metric", "unclear", ""  # roles of columns
PREFIX = re.compile(r"^(?:(?P<setting>config|params|hparams|settings)|(?P<metric>summary|metrics))[./](?=.)")
# Columns that trackers add to settings and metrics: by their heads, and by the names of those without a tracker's prefix.
TRACKED = re.compile(r"_|unnamed:|tags\.|system[./]|gradients/|parameters/|user_attrs|system_attrs")
BOOKKEEPING = re.compile(
    """(run_|display_|experiment_)?name|(run_|trial_|experiment_)?id|artifact_uri|lifecycle_stage|state|status|number|created(_at)?
    |updated(_at)?|(start|end)_time|datetime_(start|complete)|date|timestamp|heartbeat|runtime|duration|host(name)?|pid|user(name)?
    |entity|project|group|job_type|sweep|agent|tags|notes|description|commit|(gpu|cpu)_(type|count)|os|python_version
    |epoch|(trainer_)?(global_)?step|(.*_)?(std|stdev|stddev|stderr|sem)""",
    re.VERBOSE,
)
STATES = {
    **dict.fromkeys(("finished", "complete", "completed", "done", "success", "succeeded", "terminated"), "done"),
    **dict.fromkeys(("crashed", "failed", "fail", "failure", "error", "killed", "canceled", "cancelled", "preempted"), "failed"),
    **dict.fromkeys(("running", "pending", "queued", "scheduled", "waiting", "paused", "pruned", "preempting"), "unfinished"),
}
SEED = re.compile("(random_|rng_)?seed|random_state")
ERROR = "loss|error|err|perplexity|ppl|mae|mse|rmse|fid|wer|cer|nll|bpc|ece|brier|regret"
SCORE = "accuracy|acc|f1|auc|auroc|auprc|iou|miou|dice|bleu|rouge|psnr|ssim|score|reward|return|top1|top5|r2"
AROUND = "val|valid|validation|test|eval|train|dev|mean|avg|best|final|max|min|at|[0-9]+"
LOWER = re.compile(rf"(.*_)?({ERROR})(_.*)?")  # names of metrics of which lower is better
USUAL_METRIC = re.compile(rf"(({AROUND})_)*({ERROR}|{SCORE})(_({AROUND}|{ERROR}|{SCORE}))*")
USUAL_SETTINGS = {name for field, names in ALIASES.items() for name in (field.partition(".")[2], *names.split())}
EMPTY = ("", "nan", "none", "null", "na", "n/a", "<na>")
GROUPED = re.compile(r"[+-]?(\d{1,3}([ '.,]\d{3})+|\d+)([.,]\d*)?\s*%?")  # with separators, a decimal comma or a percent sign


class Table(OwnProgram):
    """The runs of a table.

    Args:
        name: Of the study, and part of the run ids.
        metrics: Name -> how it is read.
        title: What tables call the program.
        data: What tables call its data set.
        imported: The files that the runs were imported from.
    """

    def __init__(
        self, name: str, metrics: Mapping[str, Metric], title: str = "", data: str = "", imported: Sequence[ImportedFile] = ()
    ) -> None:
        super().__init__(PROGRAM + name, {}, metrics, title or name, data)
        self.imported = tuple(imported)

    def parse(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return dict(settings)

    def register(self, module: str) -> None:
        """Make the table known in place of one that was read before."""
        PROGRAMS.put(self.name, self, __name__)

    def run(self, execution: Any) -> NoReturn:
        raise ConfigError(f"{self.title} was imported: its runs were finished elsewhere, and recstudy cannot run them")


class Column:
    """A column of a table: its head, its name without a tracker's prefix, its cells, and those that are not empty."""

    def __init__(self, head: str, cells: Sequence[str]) -> None:
        prefix = PREFIX.match(head)
        self.head, self.cells = head, cells
        self.stated = str(prefix.lastgroup) if prefix else ""
        self.name = name_of(head)
        self.texts = [cell for cell in cells if cell.lower() not in EMPTY]
        self.numbers = [number for cell in self.texts if (number := number_of(cell)) is not None]
        self.levels = len(set(self.texts))

    def is_constant(self, rows: Sequence[int]) -> bool:
        """Return whether these rows have the same cell, and there are such rows."""
        return len({self.cells[row] for row in rows}) == 1


@dataclass(frozen=True)
class RunTable:
    """A file of finished runs.

    Args:
        file: Its name and digest.
        lines: The line of the file where each row begins.
        columns: Those with a head.
    """

    file: ImportedFile
    lines: Sequence[int]
    columns: Sequence[Column]

    def refuse(self, row: int, column: Column, problem: str) -> NoReturn:
        raise ConfigError(f"{self.file.name}, line {self.lines[row]}, column {column.head!r}: {problem}")

    def find(self, name: str) -> Column:
        """Return the column of this head, or else of this name."""
        for column in (*(one for one in self.columns if one.head == name), *self.columns):
            if column.head == name or column.name == name_of(name):
                return column
        known = [column.head for column in self.columns]
        raise ConfigError(f"{self.file.name} has no column {name!r}: it has {choices(known)}.{nearest(name, known)}")


def name_of(head: str) -> str:
    """Return a column's name without a tracker's prefix, like a Python variable's: `val_acc_1` of `metrics.val/acc@1`."""
    return re.sub(r"\W+", "_", PREFIX.sub("", head, count=1)).rstrip("_")


def number_of(cell: str) -> float | None:
    """Return the number in a cell, which may be infinite or NaN; None if there is none."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


@cache
def value_of(cell: str) -> Any:
    """Return a setting of a cell: None, a truth value, a number or a text. 64.0 is 64: pandas writes integers as floats."""
    if cell.lower() in EMPTY:
        return None
    if cell.lower() in ("true", "false"):
        return cell.lower() == "true"
    number = number_of(cell)
    if number is None or not isfinite(number):
        return cell
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def read_table(path: Path) -> RunTable:
    """Read a CSV file with a head. Cells are separated by commas, semicolons or tabs.

    Raises:
        ConfigError: It cannot be read. The message names the file and the line.
    """
    name = path.name.encode(errors="replace").decode()
    try:
        content = path.read_bytes()
        changed = min(path.stat().st_mtime, time.time() - 1)  # before any claim is stated that this import brings
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}, line {line}: it is no text in UTF-8. Export it again as CSV in UTF-8") from None
    seconds = datetime.fromtimestamp(int(changed), UTC).isoformat()
    file = ImportedFile(name=name, sha256=hashlib.sha256(content).hexdigest(), date=now(), changed=seconds)
    first = text.partition("\n")[0]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), strict=True)
    rows: list[tuple[int, list[str]]] = []
    line = 1
    try:
        for cells in reader:
            if any(map(str.strip, cells)):
                rows.append((line, [cell.strip() for cell in cells]))
            line = reader.line_num + 1
    except csv.Error as error:
        raise ConfigError(
            f"{name}, line {line}: {error}. If a quotation mark is not closed there, close it, or write it twice inside a cell"
        ) from None
    if len(rows) < 2:
        what = "has a head and no run" if rows else "is empty"
        raise ConfigError(f"{name} {what}. It needs a line with the names of settings, seed and metrics, and a line for each run")
    heads = rows.pop(0)[1]
    for head, count in Counter(filter(None, heads)).items():
        if count > 1:
            raise ConfigError(f"{name}, line 1, column {head!r}: {count} columns are called so. Rename or remove one")
    for line, cells in rows:
        if len(cells) != len(heads):
            raise ConfigError(
                f"{name}, line {line}: it has {len(cells)} cells, but the head has {len(heads)}. "
                "If a cell holds the separator, put it in quotation marks"
            )
    columns = [Column(head, cells) for head, cells in zip(heads, zip(*(cells for _, cells in rows), strict=True), strict=True)]
    table = RunTable(file, [line for line, _ in rows], [column for column in columns if column.head])
    return replace(table, columns=[part for column in table.columns for part in _parts(table, column)])


def _parts(table: RunTable, column: Column) -> list[Column]:
    """Return a column for each key of dictionaries, which W&B's own example of an export writes as text; else the column."""
    if column.head not in ("config", "summary") or not all(cell.startswith("{") for cell in column.texts):
        return [column]
    rows = []
    for row, cell in enumerate(column.cells):
        try:
            rows.append(flatten(ast.literal_eval(cell or "{}")))
        except (ValueError, SyntaxError):
            table.refuse(row, column, "it is no dictionary. Export a column for each key, by pandas.json_normalize")
    heads = dict.fromkeys(head for row in rows for head in row)
    return [Column(f"{column.head}.{head}", [str(row.get(head, "")) for row in rows]) for head in heads]


@dataclass(frozen=True)
class Roles:
    """Which columns are settings, seed and metrics."""

    settings: Sequence[Column]
    metrics: Sequence[Column]
    seed: Column | None
    state: Column | None


def heads(columns: Iterable[Column | None], most: int = 20) -> str:
    return choices((column.head for column in columns if column), most) or "none"


def assign(table: RunTable, settings: Sequence[str] = (), metrics: Sequence[str] = (), seed: str = "") -> Roles:
    """Return the role of each column: as stated, else by its name or its cells.

    Raises:
        ConfigError: A column is not there or has no clear role. The message names the assignment and the options that state it.
    """
    stated = {table.find(name).head: role for role, names in ((METRIC, metrics), (SETTING, settings)) for name in names}
    others = [column for column in table.columns if column.head not in stated]
    state = next((column for column in others if column.name.lower() in ("state", "status") and _is_state(column)), None)
    seeds = [table.find(seed)] if seed else [column for column in others if SEED.fullmatch(column.name.lower())]
    named: dict[str, list[Column]] = {SETTING: [], METRIC: [], UNCLEAR: [], NEITHER: []}
    for column in table.columns:
        role = stated.get(column.head)
        if role is None and column not in (state, *seeds[:1]):
            role = NEITHER if settings and metrics else _role(table, column)
            if {SETTING: settings, METRIC: metrics, UNCLEAR: settings or metrics}.get(role):
                role = NEITHER
        if role:
            named[role].append(column)
    places = {head: place for place, head in enumerate(stated)}
    for same_role in named.values():
        same_role.sort(key=lambda column: places.get(column.head, 0))
    roles = Roles(named[SETTING], named[METRIC], next(iter(seeds), None), state)
    if roles.settings and not settings:
        roles = replace(roles, settings=_deciding(roles))
    problem = _problem(roles, named[UNCLEAR], bool(settings or metrics))
    if problem:
        taken = f"settings: {heads(roles.settings)}; seed: {heads([roles.seed])}; metrics: {heads(roles.metrics)}"
        how = "Say which columns are which: --settings A,B --metrics C,D --seed S"
        raise ConfigError(f"{table.file.name}: {taken}; {problem}. {how}")
    for name, count in Counter(column.name for column in (*roles.settings, *roles.metrics)).items():
        if count > 1:
            alike = heads(column for column in table.columns if column.name == name)
            raise ConfigError(f"{table.file.name}: the columns {alike} would both be called {name!r}. Rename or leave out one")
    return roles


def _problem(roles: Roles, unclear: Sequence[Column], is_stated: bool) -> str:
    """Return why the roles that columns were given cannot be right; empty if they can."""
    if sum(column.name.isdigit() for column in roles.metrics) > 1:
        return "columns called by numbers look like seeds, but each run needs a line of its own, as pandas.melt makes it"
    once = not is_stated and len(roles.settings) > 0 and _count(roles.settings) == len(roles.settings[0].cells)
    if once and len(roles.metrics) > 1:  # what differs from row to row may then be a setting
        unclear = [*unclear, *(one for one in roles.metrics if not one.stated and not USUAL_METRIC.fullmatch(one.name.lower()))]
    if unclear:
        return f"unclear: {heads(unclear)}"
    if not roles.settings or not roles.metrics:
        return f"no column is a {METRIC if roles.settings else SETTING}"
    if once and roles.seed and roles.seed.levels > 1:
        return "there are several seeds, but no two runs have the same settings"
    return ""


def _is_state(column: Column) -> bool:
    return bool(column.texts) and all(text.lower() in STATES for text in column.texts)


def _role(table: RunTable, column: Column) -> str:
    name, tracked = column.name.lower(), not column.stated and TRACKED.match(column.head.lower())
    if not column.texts or tracked or name.startswith("_") or (BOOKKEEPING.fullmatch(name) and column.stated != SETTING):
        return NEITHER
    wrong = [text for text in column.texts if number_of(text) is None]
    if wrong and all(number_of(text) is not None or GROUPED.fullmatch(text) for text in column.texts):
        _refuse_number(table, column, wrong[0])
    if column.stated == METRIC:
        return METRIC if column.numbers else NEITHER
    if column.stated or wrong or column.name in USUAL_SETTINGS or name.startswith("params_"):  # as Optuna calls them
        return SETTING
    if USUAL_METRIC.fullmatch(name):
        return METRIC
    if 2 * column.levels <= len(column.texts):
        return SETTING
    is_real = any(not number.is_integer() for number in column.numbers)
    return METRIC if is_real and column.levels >= 0.9 * len(column.texts) else UNCLEAR


def _refuse_number(table: RunTable, column: Column, cell: str) -> NoReturn:
    plain = re.sub(r"[\s'%]", "", cell)
    *whole, rest = re.split(r"[.,]", plain)
    such = "" if not GROUPED.fullmatch(cell) else f", such as {''.join(whole)}.{rest}" if whole else f", such as {rest}"
    fix = f"Write numbers with a decimal point and without separators or units{such}"
    table.refuse(column.cells.index(cell), column, f"{cell!r} is no number. {fix}")


def _count(columns: Iterable[Column]) -> int:
    """Return how many different rows these columns have."""
    return len(set(zip(*(column.cells for column in columns), strict=True)))


def _deciding(roles: Roles) -> list[Column]:
    """Return the settings without further columns of seeds, and without names of single runs, such as output folders."""
    seed = [roles.seed] if roles.seed else []
    kept = [column for column in roles.settings if not (seed and _count([column, *seed]) == _count([column]) == _count(seed) > 1)]
    others = [column for column in kept if column.numbers or column.levels < len(column.texts)]
    runs = len(roles.metrics[0].cells) if roles.metrics else 0
    repeated = others and _count(others) < runs and (not seed or _count([*others, *seed]) == runs)
    return others if repeated else kept


def finished_runs(table: RunTable, roles: Roles, program: str) -> tuple[dict[str, ImportedRun], list[str]]:
    """Return the runs of a table by their ids, and lines on what was left out.

    Raises:
        ConfigError: A seed or a metric is no number, or two rows have the same settings and seed.
    """
    runs: dict[str, ImportedRun] = {}
    left: Counter[str] = Counter()
    seeds: Counter[str] = Counter()  # settings -> runs so far, which number them where there is no seed
    states = roles.state.cells if roles.state else [""] * len(table.lines)
    whole = [row for row, state in enumerate(states) if STATES.get(state.lower()) != "failed"]
    constants = {column.name: value_of(column.cells[whole[0]]) for column in roles.settings if column.is_constant(whole)}
    for row, (line, state) in enumerate(zip(table.lines, states, strict=True)):
        status: Any = STATES.get(state.lower(), "done")
        if status == "unfinished":
            left["not finished"] += 1
            continue
        values = {column.name: value_of(column.cells[row]) for column in roles.settings}
        settings = {name: value for name, value in values.items() if value is not None}  # a column more changes no earlier id
        settings |= constants if status == "failed" else {}  # it may have ended before it logged them
        key = canonical(settings)
        seed = float(seeds[key]) if roles.seed is None else number_of(roles.seed.cells[row])
        seeds[key] += 1
        if seed is None or not (seed >= 0 and seed.is_integer() and seed <= MOST):
            if roles.seed and status != "failed":
                table.refuse(row, roles.seed, f"{roles.seed.cells[row]!r} is no seed. A seed is a whole number of at least 0")
            left["failed without a seed"] += 1
            continue
        measured = {column.name: _measured(table, row, column) for column in roles.metrics}
        finite = {name: value for name, value in measured.items() if value is None or isfinite(value)}
        error_class = ""
        error = next((f"{name} is {value}" for name, value in measured.items() if name not in finite), "")
        if error and status == "done":
            status = "diverged"
        if status == "failed":
            error, error_class = f"its state is {state}", state.lower()
        elif not any(value is not None for value in measured.values()):
            status, error, error_class = "failed", "it has no metric", "no metric"
        error = f"{table.file.name}, line {line}: {error}" if error else ""
        run = ImportedRun(
            settings=settings, seed=int(seed), status=status, error_class=error_class, error=error, metrics=finite, line=line
        )
        run_id = run_ids({"program": program, "settings": settings, "seed": 0}, [run.seed])[0]
        before = runs.get(run_id, run)
        if before is not run and "failed" not in (before.status, status):
            same = ", ".join(f"{name}={value}" for name, value in settings.items())
            raise ConfigError(
                f"{table.file.name}, lines {before.line} and {line}: the same settings and seed ({same}, seed {run.seed}). "
                "Remove one, such as all but the last epoch of a run. If another column tells them apart, name it too: "
                f"--settings {','.join(values)},COLUMN"
            )
        left["failed, and repeated"] += before is not run
        runs[run_id] = before if status == "failed" else run
    return runs, [f"{count:,} run{'s' * (count > 1)} left out: {why}" for why, count in left.items() if count]


def _measured(table: RunTable, row: int, column: Column) -> float | None:
    cell = column.cells[row]
    number = number_of(cell)
    if number is None and cell.lower() not in EMPTY:
        _refuse_number(table, column, cell)
    return number
