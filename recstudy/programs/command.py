"""An existing script as a program: each run is a process, started by a command line that has the settings of
the run.
"""

import dataclasses
import os
import re
import shlex
import shutil
import signal
import string
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from recstudy.errors import ConfigError, RunError, choices, nearest
from recstudy.explained import explained
from recstudy.files import read_json
from recstudy.plugins import caller, user_files_of
from recstudy.programs.base import Execution, Program
from recstudy.programs.function import LINE, RunContext, TrainingProgram
from recstudy.programs.metric import Metric
from recstudy.programs.own import measured
from recstudy.programs.process import Process
from recstudy.programs.settings import Resources, RunSettings, flatten
from recstudy.programs.trial import NO_MEMORY
from recstudy.records import Results

if TYPE_CHECKING:
    from recstudy.train.initial import Weights

LOG = "output.log"
STEPS = ("epoch", "step")  # groups of a progress pattern that count
TAIL = 20  # lines of the output that the record of a failure has
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # the second one is what a shell says of its child


@dataclasses.dataclass(frozen=True)
class JsonFile:
    """Metrics in a JSON file that the command writes: an object with a number for each metric.

    Args:
        path: The file, below `{folder}`. It is read once the command has ended.
    """

    path: str

    def check(self, metrics: Collection[str], placeholders: Collection[str]) -> None:
        """Refuse (ConfigError) a command that cannot have these metrics."""
        if "folder" not in placeholders:
            raise ConfigError(
                f"{self.path} is read in {{folder}}: add it to the command, such as --out {{folder}}"
            )

    def read(self, metrics: Collection[str], folder: Path, lines: Iterable[str]) -> Any:
        """Return the metrics of a command that has ended, by its folder and its output (ConfigError)."""
        try:
            return _numbers(read_json((folder / self.path).read_bytes(), self.path))
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be read in {{folder}}: {error.strerror}") from None
        except ValueError as error:
            raise ConfigError(f"{self.path} is not JSON: {error}") from None


@dataclasses.dataclass(frozen=True)
class LastLine:
    r"""Metrics that the command prints. Of several matching lines, the last one counts.

    Args:
        pattern: A regular expression with a group for each metric in their order, such as `r"accuracy:
            (\S+)"`, or with groups named by the metrics, such as `r"accuracy: (?P<accuracy>\S+)|F1:
            (?P<f1>\S+)"`.
    """

    pattern: str

    def check(self, metrics: Collection[str], placeholders: Collection[str]) -> None:
        """Refuse (ConfigError) a command that cannot have these metrics."""
        pattern = compiled("LastLine", self.pattern)
        groups = pattern.groupindex or [*metrics][: pattern.groups]
        if missing := [name for name in metrics if name not in groups]:
            raise ConfigError(f"the pattern of LastLine has no group for {choices(missing)}: {self.pattern}")

    def read(self, metrics: Collection[str], folder: Path, lines: Iterable[str]) -> Any:
        """Return the metrics of a command that has ended, by its folder and its output (ConfigError)."""
        values: dict[str, str] = {}
        for line in lines:
            for match in re.finditer(self.pattern, line):
                groups = match.groupdict() or dict(zip(metrics, match.groups(), strict=False))
                values |= {name: groups[name] for name in metrics if groups.get(name) is not None}
        if not values:
            raise ConfigError(f"no line of its output matches {self.pattern}")
        return _numbers(values)


@explained
@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Command:
    r"""A command line as the `program` of a study. Each run is a process of its own; no shell is used.

    Placeholders in the command and in `environment` are `{seed}`, `{folder}` and the names of the settings,
    such as `{lr}` or `{model.depth}`; `{lr:.0e}` is formatted and `{{` is a brace. `{folder}` is for
    checkpoints: it is the same when the run resumes and is removed when the run has ended.

    The command and the name are part of the run ids, so a changed command gives new runs. `folder`,
    `environment` and everything else are not: what decides the numbers belongs into the settings.

    Args:
        command: Such as `"python train.py --lr {lr} --seed {seed} --out {folder}"`.
        folder: The working directory, relative to the study file.
        metrics: `JsonFile("metrics.json")` or `LastLine(r"accuracy: (\S+)")`.
        progress: A regular expression for lines of the output that report a step, such as
            `r"step (?P<step>\d+) loss (?P<loss>\S+)"`: `step` or `epoch` counts, the other groups are numbers
            by name. A search can stop a run early by a group with the name of its first metric.
        environment: Variables that the process gets in addition.
        minutes: The time limit of an attempt; 0: none. Without one, a command that prints nothing for
            `resources.hang_timeout_minutes` is stopped.
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
    environment: dict[str, str] = Field(default_factory=dict)
    minutes: Annotated[float, Field(ge=0)] = 0
    grace_seconds: Annotated[float, Field(ge=0)] = 10
    name: str = ""
    title: str = ""
    data: str = ""
    is_synthetic: bool = False

    def __post_init__(self) -> None:
        study = Path(caller().get("__file__", "notebook")).resolve()
        object.__setattr__(self, "folder", study.parent / Path(self.folder).expanduser())

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
            raise ConfigError(
                f"unknown placeholder {{{field_name}}}: there are {choices(self.values)}.{near}"
            )
        self.used.add(field_name)
        return self.values[field_name], field_name


class CommandProgram(TrainingProgram):
    """A command with its settings and metrics."""

    has_paths = True
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
        super().__init__(
            f"{name}: {command.command}", settings, metrics, title, command.data, command.is_synthetic
        )
        self._check_placeholders()
        groups = compiled("progress", command.progress).groupindex
        if command.progress and not groups:
            raise ConfigError(f"progress has no named group, such as (?P<loss>\\S+): {command.progress}")
        if reserved := {*LINE} & {*groups} - {*STEPS}:
            raise ConfigError(
                f"a group of progress must not be called {choices(reserved)}: recstudy reports it"
            )

    def _check_placeholders(self) -> None:
        command, values = self.command.command, flatten(self.defaults)
        if "folder" in values:
            raise ConfigError(
                f"a setting of {self.title} must not be called 'folder', which is the folder of a run"
            )
        if "CUDA_VISIBLE_DEVICES" in self.command.environment:
            raise ConfigError(
                "leave CUDA_VISIBLE_DEVICES out of the environment: Ray chooses the GPUs, see --gpus"
            )
        try:
            *_, used = self._fill({"seed": 0, "folder": "folder", **values})
        except (ValueError, TypeError) as error:
            raise ConfigError(f"a placeholder cannot be filled in: {error}: {command}") from None
        for name in values:
            if name not in used:
                raise ConfigError(f"no placeholder uses the setting {name!r}: add {{{name}}} to {command}")
        self.has_seed = "seed" in used
        self.command.metrics.check(self.metrics, used)

    def _fill(self, values: Mapping[str, Any]) -> tuple[list[str], dict[str, str], set[str]]:
        """Return the command's words, its environment variables and the names of the values that they use."""
        placeholders = Placeholders(values)
        words = [placeholders.format(word) for word in self.words]
        variables = {name: placeholders.format(text) for name, text in self.command.environment.items()}
        return words, variables, placeholders.used

    def same_as(self, other: Program) -> bool:
        return isinstance(other, CommandProgram) and self.command == other.command

    def check(
        self,
        settings: Iterable[RunSettings],
        results: Results,
        data: Path,
        download: bool,
        begin: "Weights | None",
    ) -> None:
        folder, program = Path(self.command.folder), self.words[0]
        if not folder.is_dir():
            raise ConfigError(f"the folder of {self.title} is not there: {folder}")
        if "{" not in program and not shutil.which(
            folder / program if os.sep in program else program, path=_path()
        ):
            raise ConfigError(f"no program {program!r}, of the command {self.command.command}")

    def hints(self, settings: Iterable[RunSettings]) -> list[str]:
        if self.has_seed:
            return []
        return [
            f"The command of {self.title} has no {{seed}}: the runs of a variant differ only if {self.title}"
            " is random."
        ]

    def user_files(self) -> dict[str, str]:
        digests: dict[str, str] = {}
        for word in self.words:
            script = Path(self.command.folder, word)
            if script.suffix == ".py" and script.is_file():
                digests |= user_files_of(script.parent, [script.stem]).digests
        return digests

    def execute(self, context: RunContext, execution: Execution) -> Any:
        command, settings = self.command, execution.settings
        given = {"seed": settings.seed, "folder": context.folder.resolve(), **flatten(settings.settings)}
        words, variables, _ = self._fill(given)
        threads = {"OMP_NUM_THREADS": str(settings.resources.cpus), "PYTHONUNBUFFERED": "1"}
        environment = {**threads, **os.environ, "PATH": _path(), **variables}
        limit, has_left = "", False
        process = Process(
            words, Path(command.folder), environment, execution.records.path / LOG, command.grace_seconds
        )
        try:
            with process:
                for line in process.lines():
                    if values := read_step(command.progress, line, context.next_step):
                        context.report(**values)
                    limit = limit or self._limit(settings.resources, process)
                    has_left = has_left or context.should_stop()
                    if limit or has_left:
                        process.stop()
        finally:
            context.memory_mb = process.status.get("peak_memory_mb")
            context.cpu_seconds = process.status.get("cpu_seconds", 0.0)
        ending = process.ending()
        # a batch system may have ended it before the worker knew
        if has_left or (ending and execution.leave()):
            return None
        tail = "\n".join(process.output[-TAIL:])
        if limit:
            raise RunError(f"{self.title} {limit}", "hung", tail)
        if ending:
            has_memory = process.status.get("code") not in KILLED and not NO_MEMORY.search(tail)
            raise RunError(f"{self.title} {ending}", "code" if has_memory else "out of memory", tail)
        try:
            returned = command.metrics.read(self.metrics, context.folder, process.output)
            measured(self.title, returned, self.metrics)
        except ConfigError as error:
            raise RunError(
                f"{self.title} exited with code 0 without its metrics: {error}", "code", tail
            ) from None
        return returned

    def _limit(self, resources: Resources, process: Process) -> str:
        """Return why a command must be stopped; empty if it may run on."""
        minutes, hang_timeout_minutes, now = (
            self.command.minutes,
            resources.hang_timeout_minutes,
            time.monotonic(),
        )
        if minutes and now - process.began > 60 * minutes:
            return (
                f"ran into its time limit of {minutes:g} minutes and was stopped: raise minutes of its"
                " Command"
            )
        if not minutes and hang_timeout_minutes and now - process.printed > 60 * hang_timeout_minutes:
            return (
                f"printed nothing for {hang_timeout_minutes:g} minutes (resources.hang_timeout_minutes) and was stopped. If"
                " that is normal, give its Command a time limit, such as minutes=60"
            )
        return ""


def script_of(words: Sequence[str]) -> str:
    """Return the word that names the program of a command: its first file, such as `train.py`, or its first
    word.
    """
    return next((word for word in words if re.fullmatch(r"[^-{=][^{=]*\.[A-Za-z_]\w*", word)), words[0])


def _path() -> str:
    """Return where programs are looked for: first beside this Python, so that `python` is the one that runs
    the study.
    """
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def read_step(pattern: str, line: str, step: int) -> dict[str, Any]:
    """Return the values that a line reports, with their `step`, the given one if it is not numbered; empty if
    it reports none.
    """
    match = re.search(pattern, line) if pattern else None
    if match is None:
        return {}
    values = {name: value for name, value in _numbers(match.groupdict()).items() if isinstance(value, float)}
    for name in STEPS:
        step = int(values.pop(name, step))
    return {**values, "step": step}


def _numbers(values: Any) -> Any:
    """Return values with numbers in place of texts that are numbers."""
    values = dict(values) if isinstance(values, Mapping) else values
    for name, value in values.items() if isinstance(values, dict) else ():
        if isinstance(value, str):
            with suppress(ValueError):
                values[name] = float(value)
    return values


def compiled(name: str, pattern: str) -> re.Pattern[str]:
    """Return a pattern (ConfigError: it is not a regular expression)."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"the pattern of {name} is no regular expression: {error}: {pattern}") from None
