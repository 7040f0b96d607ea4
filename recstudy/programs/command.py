"""An existing script as a program: each run is a process, started by a command line that has the settings of the run."""

import json
import os
import re
import shlex
import shutil
import signal
import string
import sys
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recstudy.errors import ConfigError, RunError, choices, nearest
from recstudy.plugins import user_files_of
from recstudy.programs.base import Execution, InitialWeights, Program
from recstudy.programs.function import LINE, RunContext, TrainingProgram
from recstudy.programs.metric import Metric
from recstudy.programs.own import measured
from recstudy.programs.process import Process
from recstudy.programs.settings import Place, RunSettings, flatten
from recstudy.records import Results

LOG = "output.log"
TAIL = 20  # lines of the output that the record of a failure has
GIVEN = {"seed": 0, "folder": "folder"}  # placeholders that are no settings
STEPS = ("step", "epoch")  # groups of a progress pattern that count
NO_MEMORY = re.compile("out ?of ?memory|MemoryError|not enough memory", re.IGNORECASE)
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # the second one is what a shell says of its child


@dataclass(frozen=True)
class JsonFile:
    """Metrics in a JSON file that the command writes: an object with a number for each metric.

    Args:
        path: The file, below `{folder}`. It is read once the command has ended.
    """

    path: str

    def check(self, command: str, metrics: Iterable[str], used: Iterable[str]) -> None:
        """Refuse (ConfigError) metrics and placeholders that do not fit."""
        if "folder" not in used:
            raise ConfigError(
                f"{self.path} is read in the folder of a run, because runs side by side must not share it. "
                f"Add {{folder}} to the command, such as --out {{folder}}: {command}"
            )

    def find(self, line: str, metrics: Collection[str]) -> dict[str, str]:
        """Return the metrics in a line of the output."""
        return {}

    def read(self, folder: Path, found: Mapping[str, str]) -> Any:
        """Return the metrics of a command that has ended (ConfigError)."""
        try:
            return json.loads((folder / self.path).read_bytes())
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be read in {{folder}}: {error.strerror}") from None
        except ValueError as error:
            raise ConfigError(f"{self.path} is not JSON: {error}") from None


@dataclass(frozen=True)
class LastLine:
    r"""Metrics that the command prints. Of several matching lines, the last one counts.

    Args:
        pattern: A regular expression with a group for each metric in their order, such as `r"accuracy: (\S+)"`, or with
            groups named by the metrics, such as `r"accuracy: (?P<accuracy>\S+)|F1: (?P<f1>\S+)"`.
    """

    pattern: str

    def check(self, command: str, metrics: Iterable[str], used: Iterable[str]) -> None:
        """Refuse (ConfigError) metrics and placeholders that do not fit."""
        pattern = _compiled("LastLine", self.pattern)
        names = pattern.groupindex or [*metrics][: pattern.groups]
        if lacking := [name for name in metrics if name not in names]:
            raise ConfigError(f"the pattern of LastLine has no group for {choices(lacking)}: {self.pattern}")

    def find(self, line: str, metrics: Collection[str]) -> dict[str, str]:
        """Return the metrics in a line of the output."""
        values: dict[str, str] = {}
        for match in re.finditer(self.pattern, line):
            groups = match.groupdict() or dict(zip(metrics, match.groups(), strict=False))
            values |= {name: text for name, text in groups.items() if text is not None and name in metrics}
        return values

    def read(self, folder: Path, found: Mapping[str, str]) -> Any:
        """Return the metrics of a command that has ended (ConfigError)."""
        if not found:
            raise ConfigError(f"no line of its output matches {self.pattern}")
        return found


@dataclass(frozen=True)
class Command:
    r"""A command line as the `program` of a study. Each run is a process of its own; no shell is used.

    Placeholders in the command and in `environment` are `{seed}`, `{folder}` and the names of the settings, such as `{lr}` or
    `{model.depth}`; `{lr:.0e}` is formatted and `{{` is a brace. `{folder}` is for checkpoints: it is the same when the run
    resumes and is removed when the run has ended.

    The command and the name are part of the run ids, so a changed command gives new runs. `folder`, `environment` and everything
    else are not: what decides the numbers belongs into the settings.

    Args:
        command: Such as `"python train.py --lr {lr} --seed {seed} --out {folder}"`.
        folder: The working directory, relative to the study file.
        metrics: `JsonFile("metrics.json")` or `LastLine(r"accuracy: (\S+)")`.
        progress: A regular expression for lines of the output that report a step, such as
            `r"step (?P<step>\d+) loss (?P<loss>\S+)"`: `step` or `epoch` counts, the other groups are numbers by name. A search
            can stop a run early by a group with the name of its first metric.
        environment: Variables that the process gets in addition.
        minutes: The time limit of an attempt; 0: none. Without one, a command that prints nothing for `place.silent_minutes`
            is stopped.
        grace_seconds: Time to save a checkpoint between SIGTERM and SIGKILL, when a run is stopped.
        name: Part of the run ids. By default the name of the script, such as `train.py`.
        title: What tables call it. By default the name.
        data: What tables call its data set.
        is_synthetic: Whether its data are generated.

    Example:
        >>> program = Command("python train.py --lr {lr} --out {folder}", metrics=JsonFile("metrics.json"))
    """

    command: str
    folder: str | Path = "."
    metrics: JsonFile | LastLine = JsonFile("metrics.json")
    progress: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    minutes: float = 0
    grace_seconds: float = 10
    name: str = ""
    title: str = ""
    data: str = ""
    is_synthetic: bool = False

    def __post_init__(self) -> None:
        frame: Any = sys._getframe(1)
        while frame.f_globals.get("__name__") == __name__:
            frame = frame.f_back
        beside = Path(frame.f_globals.get("__file__", "notebook")).resolve().parent
        object.__setattr__(self, "folder", beside / Path(self.folder).expanduser())

    def bind(self, settings: Any, metrics: Mapping[str, Metric]) -> "CommandProgram":
        """Return the program with these settings and metrics."""
        return CommandProgram(self, settings, metrics)


class Placeholders(string.Formatter):
    """Fills in values by their names, which may have dots, and notes which are used."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values, self.used = values, set[str]()

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        """Return a value (ConfigError: there is none of this name)."""
        if field_name not in self.values:
            near = nearest(field_name, self.values)
            raise ConfigError(f"unknown placeholder {{{field_name}}}: there are {choices(self.values)}.{near}")
        self.used.add(field_name)
        return self.values[field_name], field_name


class CommandProgram(TrainingProgram):
    """A command with its settings and metrics."""

    packages = ("ray",)  # the command may run in another environment

    def __init__(self, command: Command, settings: Any, metrics: Mapping[str, Metric]) -> None:
        self.spec = self.command = command
        try:
            self.words = shlex.split(command.command)
        except ValueError as error:
            raise ConfigError(f"the command cannot be split into words: {error}: {command.command}") from None
        if not self.words:
            raise ConfigError("the command is empty: give one, such as python train.py --lr {lr}")
        name = command.name or Path(script_of(self.words)).name
        title = command.title or name
        super().__init__(f"{name}: {command.command}", settings, metrics, title, command.data, command.is_synthetic)
        self._check()

    def _check(self) -> None:
        command = self.command
        known = GIVEN | flatten(self.defaults)
        for name in GIVEN:
            if name in self.defaults:
                raise ConfigError(f"a setting of {self.title} must not be called {name!r}: {{{name}}} is given to every run")
        if "CUDA_VISIBLE_DEVICES" in command.environment:
            raise ConfigError("leave CUDA_VISIBLE_DEVICES out of the environment: Ray chooses the GPUs, see --gpus-per-run")
        filled = Placeholders(known)
        try:
            self._fill(filled)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"a placeholder cannot be filled in: {error}: {command.command}") from None
        for name in known:
            if name not in filled.used and name not in GIVEN:
                raise ConfigError(f"no placeholder uses the setting {name!r}: add {{{name}}} to {command.command}")
        self.has_seed = "seed" in filled.used
        command.metrics.check(command.command, self.metrics, filled.used)
        groups = _compiled("progress", command.progress).groupindex
        if reserved := [group for group in groups if group in LINE and group not in STEPS]:
            raise ConfigError(f"a group of progress must not be called {reserved[0]!r}: recstudy reports it")
        if command.progress and not groups:
            raise ConfigError(f"progress has no named group, such as (?P<loss>\\S+): {command.progress}")

    def _fill(self, placeholders: Placeholders) -> tuple[list[str], dict[str, str]]:
        """Return the command's words and the environment variables."""
        words = [placeholders.format(word) for word in self.words]
        return words, {name: placeholders.format(value) for name, value in self.command.environment.items()}

    def same_as(self, other: Program) -> bool:
        own = self.command, self.defaults, self.metrics
        return isinstance(other, CommandProgram) and own == (other.command, other.defaults, other.metrics)

    def check(
        self, settings: Iterable[RunSettings], results: Results, data: Path, download: bool, begin: InitialWeights | None
    ) -> None:
        folder, program = Path(self.command.folder), self.words[0]
        if not folder.is_dir():
            raise ConfigError(f"the folder of {self.title} is not there: {folder}")
        if "{" not in program and not shutil.which(folder / program if os.sep in program else program, path=_path()):
            raise ConfigError(f"no program {program!r}, of the command {self.command.command}")

    def hints(self, settings: Iterable[RunSettings]) -> list[str]:
        if self.has_seed:
            return []
        return [f"The command of {self.title} has no {{seed}}: the runs of a variant differ only if {self.title} is random."]

    def user_files(self) -> dict[str, str]:
        folder = Path(self.command.folder)
        digests: dict[str, str] = {}
        for word in self.words:
            script = folder / word
            if script.suffix == ".py" and script.is_file():
                digests |= user_files_of(script.parent, [script.stem]).digests
        return dict(sorted(digests.items()))

    def execute(self, context: RunContext, execution: Execution) -> Any:
        command, settings = self.command, execution.settings
        values = {"seed": settings.seed, "folder": context.folder.resolve()} | flatten(settings.settings)
        words, variables = self._fill(Placeholders(values))
        threads = {"OMP_NUM_THREADS": str(settings.place.cpus_per_run), "PYTHONUNBUFFERED": "1"}
        environment = {**threads, **os.environ, "PATH": _path(), **variables}
        tail: deque[str] = deque(maxlen=TAIL)
        metrics: dict[str, str] = {}
        limit, has_left = "", False
        began = printed = time.monotonic()
        process = Process(words, Path(command.folder), environment, execution.records.path / LOG, command.grace_seconds)
        try:
            with process:
                for line in process.lines():
                    now = time.monotonic()
                    if line.strip():
                        printed = now
                        tail.append(line)
                        metrics |= command.metrics.find(line, self.metrics)
                        self._report(context, line)
                    limit = limit or self._limit(settings.place, now - began, now - printed)
                    has_left = has_left or context.should_stop()
                    if limit or has_left:
                        process.stop()
        finally:
            context.memory_mb = process.status.get("peak_memory_mb")
            context.cpu_seconds = process.status.get("cpu_seconds", 0.0)
        code = process.status.get("code")
        if has_left or (code and execution.leave()):  # a batch system may have ended it before the worker knew
            return None
        output = "\n".join(tail)
        if limit:
            raise RunError(limit, "hung", output)
        if code != 0:
            raise RunError(self._exit(process.status, [*tail]), _failure_class(code, output), output)
        try:
            returned = command.metrics.read(context.folder, metrics)
            if isinstance(returned, Mapping):
                returned = {name: _number(value) for name, value in returned.items()}
            measured(self.title, returned, self.metrics)
        except ConfigError as error:
            raise RunError(f"{self.title} exited with code 0 without its metrics: {error}", "code", output) from None
        return returned

    def _report(self, context: RunContext, line: str) -> None:
        """Report a step, if the line has one. Groups that are no numbers are left out."""
        match = re.search(self.command.progress, line) if self.command.progress else None
        if match:
            values = {name: _number(text) for name, text in match.groupdict().items()}
            numbers = {name: value for name, value in values.items() if isinstance(value, float)}
            counts = [int(numbers.pop(name)) for name in STEPS if name in numbers]
            context.report(counts[0] if counts else context.next_step, **numbers)

    def _limit(self, place: Place, seconds: float, silent_seconds: float) -> str:
        """Return why the command must be stopped; empty if it may run on."""
        minutes = self.command.minutes
        if minutes and seconds > 60 * minutes:
            return f"{self.title} ran into its time limit of {minutes:g} minutes and was stopped: raise minutes of its Command"
        if not minutes and 0 < 60 * place.silent_minutes < silent_seconds:
            return (
                f"{self.title} printed nothing for {place.silent_minutes:g} minutes (place.silent_minutes) and was stopped. "
                "If that is normal, give its Command a time limit, such as minutes=60"
            )
        return ""

    def _exit(self, status: Mapping[str, Any], tail: list[str]) -> str:
        """Return how a command has ended that has not exited with code 0."""
        if "error" in status:
            return f"{self.title} could not run: {status['error']}"
        code = status["code"]
        how = f"was ended by signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"exited with code {code}"
        return f"{self.title} {how}{f': {tail[-1]}' if tail else ''}"


def script_of(words: Sequence[str]) -> str:
    """Return the word that names the program of a command: its first file, such as `train.py`, or its first word."""
    return next((word for word in words if re.fullmatch(r"[^-{=][^{=]*\.[A-Za-z_]\w*", word)), words[0])


def _failure_class(code: int | None, output: str) -> str:
    return "out of memory" if code in KILLED or NO_MEMORY.search(output) else "code"


def _number(value: Any) -> Any:
    """Return a number that is written as text as a float; anything else as it is."""
    if isinstance(value, str):
        with suppress(ValueError):
            return float(value)
    return value


def _path() -> str:
    """Return where programs are looked for: first beside this Python, so that `python` is the one that runs the study."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def _compiled(name: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"the pattern of {name} is no regular expression: {error}: {pattern}") from None
