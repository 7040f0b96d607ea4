"""Run an existing script: each run is a process, whose command line contains the settings of the run."""

import dataclasses
import logging
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
from typing import Annotated, Any

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from recstudy.base.errors import ConfigError, RunError, choices, nearest
from recstudy.base.explained import explained
from recstudy.base.files import read_json
from recstudy.base.values import flatten
from recstudy.plugins import caller, user_files_of
from recstudy.programs.base import InitialWeights, Program, RunSettings, Trial
from recstudy.programs.function import LINE, RunContext, TrainingProgram
from recstudy.programs.metric import Metric
from recstudy.programs.own import read_metrics
from recstudy.programs.process import Process, kept_lines
from recstudy.programs.settings import Resources
from recstudy.programs.trial import NO_MEMORY
from recstudy.records import Json, Results, read_record, write_json

LOG = "output.log"
KEPT = "kept.json"  # of an attempt that exited with code 0 and without metrics: where its output starts
log = logging.getLogger(__name__)
STEPS = ("epoch", "step")  # groups of a progress pattern that number the steps
TAIL = 20  # last lines of the output in the record of a failure
# A shell reports the second code if its child was killed.
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)


@dataclasses.dataclass(frozen=True)
class JsonFile:
    """Metrics in a JSON file that the command writes: an object with a number for each metric.

    Args:
        path: The file, relative to `{folder}`. It is read when the command has ended.
    """

    path: str

    def check(self, metrics: Collection[str], placeholders: Collection[str]) -> None:
        """Raise a ConfigError if the command cannot write the file."""
        if "folder" not in placeholders:
            raise ConfigError(
                f"{self.path} is read from {{folder}}: add it to the command, such as --out {{folder}}"
            )

    def match(self, metrics: Collection[str], line: str) -> dict[str, str]:
        """Return the metrics in a line of the output."""
        return {}

    def read(self, folder: Path, values: Mapping[str, str]) -> Any:
        """Return the metrics of a finished command from its folder (ConfigError)."""
        try:
            return _numbers(read_json((folder / self.path).read_bytes(), self.path))
        except OSError as error:
            raise ConfigError(f"Cannot read {self.path} in {{folder}}: {error.strerror}") from None
        except ValueError as error:
            raise ConfigError(f"{self.path} is not JSON: {error}") from None


@dataclasses.dataclass(frozen=True)
class LastLine:
    r"""Metrics that the command prints. If several lines match, the last one counts.

    Args:
        pattern: A regular expression with a group for each metric, in the order of the metrics, such as
            `r"accuracy: (\S+)"`; or with a named group for each metric, such as
            `r"accuracy: (?P<accuracy>\S+)|F1: (?P<f1>\S+)"`.
    """

    pattern: str

    def check(self, metrics: Collection[str], placeholders: Collection[str]) -> None:
        """Raise a ConfigError if the pattern has no group for a metric."""
        pattern = compile_pattern("LastLine", self.pattern)
        groups = pattern.groupindex or [*metrics][: pattern.groups]
        if missing_metrics := [name for name in metrics if name not in groups]:
            raise ConfigError(
                f"The pattern of LastLine has no group for {choices(missing_metrics)}: {self.pattern}"
            )

    def match(self, metrics: Collection[str], line: str) -> dict[str, str]:
        """Return the metrics in a line of the output."""
        values: dict[str, str] = {}
        for match in re.finditer(self.pattern, line):
            groups = match.groupdict() or dict(zip(metrics, match.groups(), strict=False))
            values |= {name: groups[name] for name in metrics if groups.get(name) is not None}
        return values

    def read(self, folder: Path, values: Mapping[str, str]) -> Any:
        """Return the metrics of a finished command from the values in its output (ConfigError)."""
        if not values:
            raise ConfigError(f"no line of the output matches {self.pattern}")
        return _numbers(values)


@explained
@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Command(Program):
    r"""A command line as the `program` of a study. Each run is a separate process; no shell is used.

    Placeholders in the command and in `environment` are `{seed}`, `{folder}` and the names of the settings,
    such as `{lr}` or `{model.depth}`. `{lr:.0e}` is formatted and `{{` is a brace. `{folder}` is the run's
    own folder for checkpoints, not the argument `folder`. A resumed run gets the same folder, which is
    removed when the run has ended.

    The command and the name are part of the run ids, so a changed command gives new runs. `folder`,
    `environment` and the other arguments are not. Put everything that changes the numbers into the settings.

    Args:
        command: The command line, such as `"python train.py --lr {lr} --seed {seed} --out {folder}"`.
        folder: The working directory, relative to the study file.
        metrics: Source of the metrics: `JsonFile("metrics.json")` or `LastLine(r"accuracy: (\S+)")`.
        progress: A regular expression for output lines that report a step, such as
            `r"step (?P<step>\d+) loss (?P<loss>\S+)"`. The group `step` or `epoch` numbers the step; the
            other groups are values. A search can stop a run early if a group is named like its first metric.
        environment: Additional environment variables of the process.
        minutes: Time limit of an attempt in minutes; 0: no limit. Without a limit, a command that prints
            nothing for `resources.hang_timeout_minutes` is stopped.
        grace_seconds: Seconds between SIGTERM and SIGKILL to save a checkpoint when a run is stopped.
        name: Part of the run ids. By default the name of the script, such as `train.py`.
        title: Name of the program in tables. By default `name`.
        data: Name of the data set in tables.
        is_synthetic: Whether the data are generated.

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
        return CommandProgram(self, settings, metrics)


class Placeholders(string.Formatter):
    """A formatter that accepts names with dots and records in `used_names` which names it has used."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values, self.used_names = values, set[str]()

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        """Return the value of a placeholder (ConfigError if the name is unknown)."""
        if field_name not in self.values:
            near = nearest(field_name, self.values)
            raise ConfigError(
                f"Unknown placeholder {{{field_name}}}. Known placeholders: {choices(self.values)}.{near}"
            )
        self.used_names.add(field_name)
        return self.values[field_name], field_name


class CommandProgram(TrainingProgram):
    """A command with its settings and metrics."""

    has_paths = True
    unfilled: tuple[str, ...] = ()  # settings without a placeholder
    # Other packages are not recorded, because the command may run in another environment.
    packages = ("ray",)

    def __init__(self, command: Command, settings: Any, metrics: Mapping[str, Metric]) -> None:
        self.spec = self.command = command
        try:
            self.words = shlex.split(command.command)
        except ValueError as error:
            raise ConfigError(f"Cannot split the command into words: {error}: {command.command}") from None
        if not self.words:
            raise ConfigError("The command is empty. Give one, such as python train.py --lr {lr}")
        name = command.name or Path(script_of(self.words)).name
        title = command.title or name
        super().__init__(
            f"{name}: {command.command}", settings, metrics, title, command.data, command.is_synthetic
        )
        self._check_placeholders()
        groups = compile_pattern("progress", command.progress).groupindex
        if command.progress and not groups:
            raise ConfigError(f"progress needs a named group, such as (?P<loss>\\S+): {command.progress}")
        if reserved := {*LINE} & {*groups} - {*STEPS}:
            raise ConfigError(
                f"A group of progress must not be named {choices(reserved)}, which recstudy reports itself."
                " Rename the group"
            )

    def _check_placeholders(self) -> None:
        command, values = self.command.command, flatten(self.defaults)
        if "folder" in values:
            raise ConfigError(
                f"A setting of {self.title} must not be named 'folder', which is the run's folder. Rename it"
            )
        if "CUDA_VISIBLE_DEVICES" in self.command.environment:
            raise ConfigError(
                "environment must not contain CUDA_VISIBLE_DEVICES, because Ray assigns the GPUs. Use --gpus"
            )
        try:
            *_, used_names = self._fill({"seed": 0, "folder": "folder", **values})
        except (ValueError, TypeError) as error:
            raise ConfigError(f"Cannot fill in a placeholder: {error}: {command}") from None
        for name in values:
            if name not in (*used_names, *self.unfilled):
                raise ConfigError(f"No placeholder uses the setting {name!r}. Add {{{name}}} to {command}")
        self.has_seed = "seed" in used_names
        self.command.metrics.check(self.metrics, used_names)

    def _fill(self, values: Mapping[str, Any]) -> tuple[list[str], dict[str, str], set[str]]:
        """Return the command's words, its environment variables and the names of the used values."""
        placeholders = Placeholders(values)
        words = [placeholders.format(word) for word in self.words]
        variables = {name: placeholders.format(text) for name, text in self.command.environment.items()}
        return words, variables, placeholders.used_names

    def same_as(self, program: Program) -> bool:
        return isinstance(program, CommandProgram) and self.command == program.command

    def check(
        self,
        settings: Iterable[RunSettings],
        results: Results,
        data: Path,
        download: bool,
        begin: InitialWeights | None,
    ) -> None:
        folder, program = Path(self.command.folder), self.words[0]
        if not folder.is_dir():
            raise ConfigError(f"The folder of {self.title} does not exist: {folder}")
        if "{" in program:
            return
        executable = folder / program if os.sep in program else program
        if not shutil.which(executable, path=_search_path()):
            raise ConfigError(f"Program {program!r} of the command is not installed: {self.command.command}")

    def hints(self, settings: Iterable[RunSettings]) -> list[str]:
        if self.has_seed:
            return []
        return [
            f"The command of {self.title} has no {{seed}}, so the runs of a variant differ only if"
            f" {self.title} is random."
        ]

    def user_files(self) -> dict[str, str]:
        digests: dict[str, str] = {}
        for word in self.words:
            script = Path(self.command.folder, word)
            if script.suffix == ".py" and script.is_file():
                digests |= user_files_of(script.parent, [script.stem]).digests
        return digests

    def execute(self, context: RunContext, trial: Trial) -> Any:
        command, settings = self.command, trial.settings
        folder = context.folder.resolve()
        words, variables, _ = self._fill(
            {"seed": settings.seed, "folder": folder, **flatten(settings.settings)}
        )
        files, kept_file = self.user_files(), trial.records.path / KEPT
        if (metrics := self._read_kept(context, kept_file, files)) is not None:
            return metrics
        # os.environ overrides these two, so users can change them
        threads = {"OMP_NUM_THREADS": str(settings.resources.cpus), "PYTHONUNBUFFERED": "1"}
        environment = {**threads, **os.environ, "PATH": _search_path(), **variables}
        limit, has_left, values = "", False, dict[str, str]()
        process = Process(
            words, Path(command.folder), environment, trial.records.path / LOG, command.grace_seconds
        )
        try:
            with process:
                # a silent command yields an empty line from time to time, so that limits are checked
                for line in process.lines():
                    values |= command.metrics.match(self.metrics, line)
                    if step := read_step(command.progress, line, context.next_step):
                        context.report(**step)
                    limit = limit or self._limit(settings.resources, process)
                    has_left = has_left or context.should_stop()
                    if limit or has_left:
                        process.stop()
        finally:
            context.memory_mb = process.status.get("peak_memory_mb")
            context.cpu_seconds = process.status.get("cpu_seconds", 0.0)
        ending = process.ending()
        # a batch system may stop the command before it stops the worker
        if has_left or (ending and trial.leave()):
            return None
        tail = "\n".join(process.output[-TAIL:])
        if limit:
            raise RunError(f"{self.title} {limit}", "hung", tail)
        if ending:
            is_out_of_memory = process.status.get("code") in KILLED or NO_MEMORY.search(tail)
            raise RunError(f"{self.title} {ending}", "out of memory" if is_out_of_memory else "code", tail)
        try:
            return self._read_metrics(context, values)
        except ConfigError as error:
            cost = {"seconds": context.seconds, "memory_mb": context.memory_mb}
            write_json(kept_file, {"files": files, "start": process.output_start, **cost})
            raise RunError(
                f"{self.title} exited with code 0, but its metrics are missing: {error}", "code", tail
            ) from None

    def _read_metrics(self, context: RunContext, values: Mapping[str, str]) -> Any:
        returned = self.command.metrics.read(context.folder, values)
        read_metrics(self.title, returned, self.metrics)
        return returned

    def _read_kept(self, context: RunContext, kept_file: Path, files: Mapping[str, str]) -> Any:
        """Return the metrics of an earlier attempt that exited with code 0, if only they were missing.

        The source of the metrics may be corrected since, which changes no run id. Return None if the command
        must run again, also if its files have changed.
        """
        kept = read_record(kept_file, Json) or {}
        kept_file.unlink(missing_ok=True)
        if kept.get("files") != files:
            return None
        values: dict[str, str] = {}
        with open(kept_file.with_name(LOG), "rb") as output:
            for line in kept_lines(output, kept["start"]):
                values |= self.command.metrics.match(self.metrics, line)
        with suppress(ConfigError):
            metrics = self._read_metrics(context, values)
            context.earlier_seconds, context.memory_mb = kept["seconds"], kept["memory_mb"]
            log.warning("%s did not run again: the output that was kept has its metrics", self.title)
            return metrics
        return None

    def _limit(self, resources: Resources, process: Process) -> str:
        """Return why the command must be stopped; empty if it may continue."""
        time_limit, silence_limit = self.command.minutes, resources.hang_timeout_minutes
        elapsed = (time.monotonic() - process.start_time) / 60
        silence = (time.monotonic() - process.last_output_time) / 60
        if time_limit and elapsed > time_limit:
            return (
                f"exceeded its time limit of {time_limit:g} minutes and was stopped. Increase minutes of its"
                " Command"
            )
        if not time_limit and silence_limit and silence > silence_limit:
            return (
                f"printed nothing for {silence_limit:g} minutes (resources.hang_timeout_minutes) and was"
                " stopped. If that is normal, give its Command a time limit, such as minutes=60"
            )
        return ""


def script_of(words: Sequence[str]) -> str:
    """Return the first word that is a file name, such as `train.py`; else the first word."""
    return next((word for word in words if re.fullmatch(r"[^-{=][^{=]*\.[A-Za-z_]\w*", word)), words[0])


def _search_path() -> str:
    # this interpreter's folder first, so that `python` runs the study's interpreter
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


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
    values = {name: value for name, value in _numbers(match.groupdict()).items() if isinstance(value, float)}
    for name in STEPS:
        step = int(values.pop(name, step))
    return {**values, "step": step}


def _numbers(values: Any) -> Any:
    """Return `values` with strings converted to numbers where possible."""
    values = dict(values) if isinstance(values, Mapping) else values
    for name, value in values.items() if isinstance(values, dict) else ():
        if isinstance(value, str):
            with suppress(ValueError):
                values[name] = float(value)
    return values


def compile_pattern(name: str, pattern: str) -> re.Pattern[str]:
    """Compile a pattern (ConfigError if it is not a regular expression)."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"The pattern of {name} is not a valid regular expression: {error}: {pattern}"
        ) from None
