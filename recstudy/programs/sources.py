"""Sources of a command's metrics: lines of its output, and what it writes to files and to W&B."""

import csv
import json
import math
import os
import re
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.files import read_json
from recstudy.base.values import flatten
from recstudy.programs.metric import Metric

OFFLINE = Path(__file__).parent / "offline"  # a folder with the stand-in for wandb
WANDB_LOG = "wandb.jsonl"  # what a script logs to it, in the run's folder
STEPS = ("step", "epoch")  # columns, and groups of a progress pattern, that number the steps

Row = dict[str, Any]  # numbers by name with dots, and their `step`


class CommandOutput(NamedTuple):
    """What a command has written: the metrics in its lines, its folder `{folder}` and the run's folder."""

    metrics: Mapping[str, Metric]
    values: dict[str, str]
    folder: Path
    records: Path
    since: float = 0.0  # time of the last failed attempt, whose files do not count
    attempt: int = 0  # start of the last attempt in nanoseconds; 0 if it is unknown
    is_running: bool = False


class MetricSource:
    """A source of metrics."""

    def check(self, metrics: Collection[str], placeholders: Collection[str]) -> None:
        """Raise a ConfigError if it cannot have these metrics, or the command cannot write it."""

    def match(self, metrics: Collection[str], line: str) -> dict[str, str]:
        """Return the metrics in a line of the output."""
        return {}

    def environment(self, output: CommandOutput, variables: Mapping[str, str]) -> dict[str, str]:
        """Return additional environment variables of the command."""
        return {}

    def steps(self, output: CommandOutput) -> dict[int, Row]:
        """Return the metrics that were logged so far, by step."""
        return {}

    def read(self, output: CommandOutput) -> Any:
        """Return the metrics of a finished command (ConfigError if one is missing)."""
        return numbers(output.values)


@dataclass(frozen=True)
class LastLine(MetricSource):
    r"""Metrics that the command prints. If several lines match, the last one counts.

    Args:
        pattern: A regular expression with a group for each metric, in the order of the metrics, such as
            `r"accuracy: (\S+)"`; or with a named group for each metric, such as
            `r"accuracy: (?P<accuracy>\S+)|F1: (?P<f1>\S+)"`.
    """

    pattern: str

    def check(self, metrics: Collection[str], placeholders: Collection[str]) -> None:
        pattern = compile_pattern("LastLine", self.pattern)
        if not pattern.groupindex and pattern.groups > len(metrics):
            raise ConfigError(
                f"The pattern of LastLine has {pattern.groups} groups for {choices(metrics)}. Name the group"
                f" of each metric, such as (?P<{next(iter(metrics))}>...), or write (?:...) for others:"
                f" {self.pattern}"
            )
        groups = pattern.groupindex or [*metrics][: pattern.groups]
        if missing_metrics := [name for name in metrics if name not in groups]:
            raise ConfigError(
                f"The pattern of LastLine has no group for {choices(missing_metrics)}: {self.pattern}"
            )

    def match(self, metrics: Collection[str], line: str) -> dict[str, str]:
        values: dict[str, str] = {}
        for match in re.finditer(self.pattern, line):
            groups = match.groupdict() or dict(zip(metrics, match.groups(), strict=False))
            values |= {name: groups[name] for name in metrics if groups.get(name) is not None}
        return values

    def read(self, output: CommandOutput) -> Any:
        if not output.values:
            raise ConfigError(f"no line of the output matches {self.pattern}")
        return super().read(output)


class NamedSource(MetricSource):
    """A source with names of its own for the metrics."""

    sources: str | Mapping[str, str]
    path = ""

    def names(self, metrics: Iterable[str]) -> dict[str, str]:
        """Return the name of each metric in the source. `all/acc` and `all.acc` are the same name."""
        sources = self.sources or {metric: metric for metric in metrics}
        names = dict.fromkeys(metrics, sources) if isinstance(sources, str) else sources
        return {metric: dotted(name) for metric, name in names.items()}

    def check(self, metrics: Collection[str], placeholders: Collection[str]) -> None:
        names = self.names(metrics)
        if names.keys() != {*metrics} or len({*names.values()}) < len(names):
            raise ConfigError(
                f"{type(self).__name__} needs a source for each metric ({choices(metrics)}), such as"
                f' {{"{next(iter(metrics))}": "test.acc"}}, but got {self.sources!r}'
            )
        if self.path and ("folder" not in placeholders or Path(self.path).is_absolute()):
            raise ConfigError(
                f"{self.path} is read from {{folder}}: add it to the command, such as --out {{folder}}"
            )

    def pick(self, values: Any, metrics: Iterable[str], place: str) -> dict[str, Any]:
        """Return the metrics among nested values."""
        values = {dotted(name): value for name, value in flatten(values).items()}
        names = self.names(metrics)
        for name in names.values():
            if name not in values:
                raise ConfigError(
                    f"{place} has no {name!r}, but {choices(values) or 'nothing'}.{nearest(name, values)}"
                )
        return numbers({metric: values[name] for metric, name in names.items()})

    def refuse_stale(self, output: CommandOutput) -> None:
        """Raise a ConfigError if only an earlier attempt, which failed, wrote the file."""
        files = self.newest_files(output.folder) if self.path else []
        if files and files[-1].stat().st_mtime <= output.since:
            raise ConfigError(f"{self.path} in {{folder}} is from an earlier attempt, which failed")

    def newest_files(self, folder: Path) -> list[Path]:
        """Return the files of `path` in a folder, else in the folders below it, the newest last."""
        files = [*folder.glob(self.path)] or [*folder.glob(f"**/{self.path}")]
        return sorted(filter(Path.is_file, files), key=lambda file: file.stat().st_mtime)


@dataclass(frozen=True)
class JsonFile(NamedSource):
    """Metrics in a JSON file that the command writes: an object with a number for each metric.

    Args:
        path: The file, relative to `{folder}` or in any folder below it; or a glob. If several files match,
            the newest counts.
        sources: The metric's name in the file, such as `"test.acc"` for nested objects; or a dictionary with
            the name of each metric. By default the names of the metrics.
    """

    path: str
    sources: str | Mapping[str, str] = ""

    def read(self, output: CommandOutput) -> Any:
        self.refuse_stale(output)
        *_, file = output.folder / self.path, *self.newest_files(output.folder)
        try:
            values = read_json(file.read_bytes(), self.path)
        except OSError as error:
            raise ConfigError(f"Cannot read {self.path} in {{folder}}: {error.strerror}") from None
        except ValueError as error:
            raise ConfigError(f"{self.path} is not JSON: {error}") from None
        return self.pick(values if isinstance(values, dict) else {}, output.metrics, self.path)


class LogSource(NamedSource):
    """A source with rows, each with the numbers that the script logged at a step."""

    step: Literal["last", "best"] | int

    def check(self, metrics: Collection[str], placeholders: Collection[str]) -> None:
        super().check(metrics, placeholders)
        if self.step not in ("last", "best") and type(self.step) is not int:
            raise ConfigError(
                f"step of {type(self).__name__} must be 'last', 'best' or a number, but got {self.step!r}"
            )

    @abstractmethod
    def rows(self, output: CommandOutput, is_strict: bool = False) -> list[Row]:
        """Return the rows that were written so far.

        Args:
            output: The output of the command.
            is_strict: Raise a ConfigError if a value of a metric is no number.
        """

    def in_order(self, attempts: Iterable[Sequence[Row]], output: CommandOutput) -> list[Row]:
        """Return the rows of all attempts of a run.

        An attempt replaces earlier rows from the first step on for which it has a metric.
        """
        names, rows = {*self.names(output.metrics).values()}, list[Row]()
        for attempt_rows in attempts:
            steps = (row["step"] for row in attempt_rows if not names.isdisjoint(row))
            first = min(steps, default=math.inf)
            rows = [*(row for row in rows if row["step"] < first), *attempt_rows]
        return rows

    def steps(self, output: CommandOutput) -> dict[int, Row]:
        return self.by_step(self.rows(output), output)

    def by_step(self, rows: Iterable[Row], output: CommandOutput) -> dict[int, Row]:
        """Return the metrics in these rows, by step."""
        steps = defaultdict[int, Row](dict)
        for row in rows:
            for metric, name in self.names(output.metrics).items():
                if math.isfinite(row.get(name, math.nan)):
                    steps[row["step"]][metric] = row[name]
        return steps

    def read(self, output: CommandOutput) -> Any:
        place, values, rows = self.path or "wandb", Row(), self.rows(output, is_strict=True)
        self.refuse_stale(output)
        chosen_step: int | str = self.step
        if not rows:
            raise ConfigError(f"the command wrote nothing to {place}")
        score, metric = next(iter(output.metrics.items()))
        scores = {step: row[score] for step, row in self.by_step(rows, output).items() if score in row}
        if chosen_step == "best" and scores:
            chosen_step = max(scores, key=lambda step: metric.sign * scores[step])
        elif isinstance(chosen_step, int) and chosen_step not in scores:
            steps = choices(map(str, scores)) or "no step"
            raise ConfigError(f"{place} has {score} at {steps}, but not at step {chosen_step}")
        for row in rows:
            values |= row if chosen_step in ("last", "best", row["step"]) else {}
        return self.pick(values, output.metrics, place)


@dataclass(frozen=True)
class CsvFile(LogSource):
    """Metrics in a CSV file with a row for each step, such as `metrics.csv` of Lightning's logger.

    Rows are numbered by the column `step`, else by `epoch`. Cells may be empty.

    Args:
        path: The file, relative to `{folder}` or in any folder below it; or a glob.
        sources: The metric's column, or a dictionary with the column of each metric. By default the names
            of the metrics.
        step: The step that counts: `"last"`, `"best"` (by the first metric) or a number. With `"last"`, the
            last value of each column counts.
    """

    path: str
    sources: str | Mapping[str, str] = ""
    step: Literal["last", "best"] | int = "last"

    def rows(self, output: CommandOutput, is_strict: bool = False) -> list[Row]:
        earlier_rows: list[Row] = []
        last_rows: list[Row] = []
        columns = {*self.names(output.metrics).values()} if is_strict else set()
        for file in self.newest_files(output.folder):
            rows = last_rows if file.stat().st_mtime_ns > output.attempt else earlier_rows
            lines = csv.reader(file.read_text(encoding="utf-8-sig", errors="replace").splitlines())
            heads = [dotted(head) for head in next(lines, [])]
            if repeated := [head for head in heads if head in columns and heads.count(head) > 1]:
                raise ConfigError(f"{self.path} has two columns {repeated[0]!r}")
            for number, cells in enumerate(lines, 2):
                values = numbers(dict(zip(heads, cells, strict=False)))
                for head, value in values.items():
                    if head in columns and isinstance(value, str) and value.strip():
                        raise ConfigError(
                            f"{self.path}, line {number}: {head} is {value!r}, which is no number"
                        )
                row = {name: value for name, value in values.items() if name and isinstance(value, float)}
                if cells:
                    rows.append(row | {"step": step_of(row, len(rows))})
        # before the running attempt has logged, nobody knows where it continues
        return self.in_order([earlier_rows, last_rows], output) if last_rows or not output.is_running else []


@dataclass(frozen=True)
class Wandb(LogSource):
    """Metrics that the script logs to Weights & Biases, which need not be installed.

    The script imports a stand-in of `wandb`, which records what it logs and sends nothing.

    Args:
        sources: The metric's name in W&B, such as `"val/accuracy"`; or a dictionary with the name of each
            metric. By default the names of the metrics.
        step: The step that counts: `"last"`, `"best"` (by the first metric) or a number.
    """

    sources: str | Mapping[str, str] = ""
    step: Literal["last", "best"] | int = "last"

    def environment(self, output: CommandOutput, variables: Mapping[str, str]) -> dict[str, str]:
        path = [str(OFFLINE), *filter(None, [variables.get("PYTHONPATH")])]
        return {
            "PYTHONPATH": os.pathsep.join(path),
            "RECSTUDY_WANDB": str(output.records.resolve() / WANDB_LOG),
            "RECSTUDY_ATTEMPT": str(output.attempt),
            "RECSTUDY_FOLDER": str(output.folder),
        }

    def refuse_stale(self, output: CommandOutput) -> None:
        attempts = self.attempts(output)
        if attempts and max(attempts) <= output.since * 1e9:
            raise ConfigError("what wandb logged is from an earlier attempt, which failed")

    def attempts(self, output: CommandOutput) -> dict[int, list[Row]]:
        """Return the rows of each attempt by its start."""
        attempts = defaultdict[int, list[Row]](list)
        # a script may log any amount
        with suppress(FileNotFoundError), open(output.records / WANDB_LOG, "rb") as file:
            # the last line may be incomplete
            for line in map(json.loads, (text for text in file if text.endswith(b"\n"))):
                if "values" in line:
                    values = {dotted(name): value for name, value in line["values"].items()}
                    attempts[int(line.get("attempt") or 0)].append(values | {"step": line["step"]})
        return attempts

    def rows(self, output: CommandOutput, is_strict: bool = False) -> list[Row]:
        attempts = self.attempts(output)
        is_silent = output.is_running and output.attempt not in attempts
        return [] if is_silent else self.in_order(attempts.values(), output)


def dotted(name: str) -> str:
    return name.replace("/", ".")


def numbers(texts: Mapping[str, Any]) -> Row:
    """Return these values with texts converted to numbers where possible."""
    values = dict(texts)
    for name, text in texts.items():
        if isinstance(text, str):
            with suppress(ValueError):
                values[name] = float(text)
    return values


def compile_pattern(name: str, pattern: str) -> re.Pattern[str]:
    """Compile a pattern (ConfigError if it is not a regular expression)."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"The pattern of {name} is not a valid regular expression: {error}: {pattern}"
        ) from None


def read_step(pattern: str, line: str, step: int) -> dict[str, Any]:
    """Return the values that a line of the output reports, with their `step`; empty if it reports none.

    Args:
        pattern: The progress pattern.
        line: The line.
        step: The step if the line does not number it.
    """
    match = re.search(pattern, line) if pattern else None
    if match is None:
        return {}
    values = {name: value for name, value in numbers(match.groupdict()).items() if isinstance(value, float)}
    return {name: value for name, value in values.items() if name not in STEPS} | {
        "step": step_of(values, step)
    }


def step_of(values: Row, step: int) -> int:
    """Return the number of a step by its `step`, else by its `epoch`; `step` if it has neither."""
    stated_steps = [values[name] for name in STEPS if math.isfinite(values.get(name, math.nan))]
    return int(stated_steps[0]) if stated_steps else step
