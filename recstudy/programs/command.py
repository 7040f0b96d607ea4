"""Run an existing script: each run is a process, whose command line contains the settings of the run."""

import logging
import os
import shlex
import shutil
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from recstudy.base.errors import ConfigError, RunError, choices
from recstudy.base.explained import explained
from recstudy.base.strict_yaml import write_yaml
from recstudy.base.values import digest, flatten
from recstudy.plugins import caller
from recstudy.programs.attempt import Trial
from recstudy.programs.base import Program, RunSettings
from recstudy.programs.command_line import Placeholders, script_of, search_path, split_words
from recstudy.programs.function import LINE, RunContext, TrainingProgram
from recstudy.programs.inputs import CODE, CONFIGS, Yaml, input_files
from recstudy.programs.metric import Metric
from recstudy.programs.own import read_metrics
from recstudy.programs.process import Process, kept_lines
from recstudy.programs.settings import Resources
from recstudy.programs.sources import (
    STEPS,
    CommandOutput,
    CsvFile,
    JsonFile,
    LastLine,
    Wandb,
    compile_pattern,
    read_step,
)
from recstudy.programs.trial import NO_MEMORY
from recstudy.records import Json, read_record, write_json

LOG = "output.log"
# of an attempt that exited with code 0 and without metrics: where its output starts
KEPT_ATTEMPT = "kept.json"
log = logging.getLogger(__name__)
TAIL = 20  # last lines of the output in the record of a failure
LOOK_S = 2.0  # time between two looks at the files that a command writes
# A shell reports the second code if its child was killed.
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)


@explained
@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Command(Program):
    r"""A command line as the `program` of a study. Each run is a separate process; no shell is used.

    Placeholders in the command and in `environment` are `{seed}`, `{folder}` and the names of the settings,
    such as `{lr}` or `{model.depth}`. `{lr:.0e}` is formatted and `{{` is a brace. `{folder}` is the run's
    own folder for checkpoints, not the argument `folder`. A resumed run gets the same folder, which is
    removed when the run has ended.

    The command and the name are part of the run ids, so a changed command gives new runs. The other arguments
    are not. If the environment, the source of the metrics or an input file has changed since a finished run,
    the study stops and offers `--rerun changed` and `--keep`. Input files are the files on the line, the
    modules that its scripts import, and the files that git tracks below `folder` and the scripts' folders
    without Markdown and LaTeX. Without git they are `.py`, `.sh`, `.yaml`, `.json` and `.toml` files there.

    Args:
        command: The command line, such as `"python train.py --lr {lr} --seed {seed} --out {folder}"`.
        folder: The working directory, relative to the study file.
        metrics: Source of the metrics: `JsonFile("metrics.json")`, `CsvFile("metrics.csv")`,
            `Wandb("val/accuracy")` or `LastLine(r"accuracy: (\S+)")`.
        progress: A regular expression for output lines that report a step, such as
            `r"step (?P<step>\d+) loss (?P<loss>\S+)"`. The group `step` or `epoch` numbers the step; the
            other groups are values. A search can stop a run early if a group is named like its first metric.
        environment: Additional environment variables of the process, such as `{"SEED": "{seed}"}`.
        config: A config that is written for each run, such as `Yaml("config.yaml")`: the file with the
            settings at their keys, and the seed. `{config}` on the line is its path.
        inputs: Globs of further input files, relative to `folder`, such as `"data/*.csv"`. `"!tests/**"`
            excludes files.
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
    metrics: JsonFile | CsvFile | Wandb | LastLine = JsonFile("metrics.json")
    progress: str = ""
    environment: dict[str, str] = Field(default_factory=dict)
    config: Yaml | None = None
    inputs: tuple[str, ...] = ()
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


class CommandProgram(TrainingProgram):
    """A command with its settings and metrics."""

    has_paths = True
    unfilled: tuple[str, ...] = ()  # settings without a placeholder
    # Other packages are not recorded, because the command may run in another environment.
    packages = ("ray",)

    def __init__(self, command: Command, settings: Any, metrics: Mapping[str, Metric]) -> None:
        self.spec = self.command = command
        self.words = split_words(command.command)
        self.script = name = command.name or Path(script_of(self.words)).name
        super().__init__(
            f"{name}: {command.command}",
            settings,
            metrics,
            command.title or name,
            command.data,
            command.is_synthetic,
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
        config_names = {"config"} if self.command.config else set()
        for name in ({"folder"} | config_names) & values.keys():
            raise ConfigError(
                f"A setting of {self.title} must not be named {name!r}, which is the run's {name}. Rename it"
            )
        if "CUDA_VISIBLE_DEVICES" in self.command.environment:
            raise ConfigError(
                "environment must not contain CUDA_VISIBLE_DEVICES, because Ray assigns the GPUs. Use --gpus"
            )
        try:
            *_, used_names = self._fill(0, Path("folder"), values)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"Cannot fill in a placeholder: {error}: {command}") from None
        for name in config_names or values:
            if name not in (*used_names, *self.unfilled):
                kind = "" if config_names else "setting "
                raise ConfigError(f"No placeholder uses the {kind}{name!r}. Add {{{name}}} to {command}")
        self.names_seed = "seed" in used_names
        self.has_seed = self.names_seed or bool(config_names)
        # the config may name the folder
        self.command.metrics.check(self.metrics, used_names | ({"folder"} if config_names else set()))

    def _fill(
        self, seed: int, folder: Path, values: Mapping[str, Any]
    ) -> tuple[list[str], dict[str, str], set[str]]:
        """Return the command's words, its environment variables and the names of the used values."""
        config = {"config": folder / Path(self.command.config.path).name} if self.command.config else {}
        placeholders = Placeholders({"seed": seed, "folder": folder, **config, **values})
        words = [placeholders.format(word) for word in self.words]
        variables = {name: placeholders.format(text) for name, text in self.command.environment.items()}
        return words, variables, placeholders.used_names

    def same_as(self, program: Program) -> bool:
        return isinstance(program, CommandProgram) and self.command == program.command

    def check(self, settings: Iterable[RunSettings], *data_options: Any) -> None:
        folder, program = Path(self.command.folder), self.words[0]
        if not folder.is_dir():
            raise ConfigError(f"The folder of {self.title} does not exist: {folder}")
        self._config(0, self.defaults)
        known_runs: dict[str, dict[str, Any]] = {}  # the command line, variables and config -> settings
        for run in settings:
            values = flatten(run.model_dump()["settings"])
            words, variables, _ = self._fill(0, Path("folder"), values)
            unfilled = [values.get(name) for name in self.unfilled]
            filled = repr((words, variables, self._config(0, values), unfilled))
            if (known_values := known_runs.setdefault(filled, values)) != values:
                name = next(name for name in values if values[name] != known_values.get(name))
                raise ConfigError(
                    f"{name}={known_values.get(name)} and {name}={values[name]} give the same command:"
                    f" {shlex.join(words)}. Use {{{name}}} without a format that rounds it"
                )
        if "{" in program:
            return
        executable = folder / program if os.sep in program else program
        if not shutil.which(executable, path=search_path()):
            raise ConfigError(f"Program {program!r} of the command is not installed: {self.command.command}")

    def hints(self, settings: Iterable[RunSettings]) -> list[str]:
        if self.has_seed:
            return []
        return [
            f"The command of {self.title} has no {{seed}}, so the runs of a variant differ only if"
            f" {self.title} is random."
        ]

    def user_files(self) -> dict[str, str]:
        return self._inputs() | self._source

    @property
    def _source(self) -> dict[str, str]:
        """The digest of the source of the metrics."""
        kind, options = type(self.command.metrics), vars(self.command.metrics)
        # without defaults, so that a new option is no change
        options = {name: value for name, value in options.items() if value != getattr(kind, name, None)}
        return {f"metrics of {self.script}": digest([kind.__name__, options], 64)}

    def _inputs(self) -> dict[str, str]:
        """Return the digests of the files and the environment that decide the output."""
        command, config = self.command, [self.command.config] if self.command.config else []
        words = [*self.words, *(file.path for file in config)]
        variables = [command.environment, *(file.seed for file in config)]
        files = input_files(words, Path(command.folder), command.inputs)
        return files | {f"environment of {self.script}": digest(variables, 64)}

    def _config(self, seed: int, settings: Mapping[str, Any]) -> str:
        """Return the config of a run (ConfigError if the file lacks a key); empty without a config."""
        config = self.command.config
        if config is None:
            return ""
        names = flatten(self.defaults)
        values = {name: value for name, value in flatten(settings).items() if name in names}
        values |= {} if self.names_seed else {config.seed: seed}
        return write_yaml(config.fill(Path(self.command.folder), values))

    def execute(self, context: RunContext, trial: Trial) -> Any:
        command, settings = self.command, trial.settings
        folder = context.folder.resolve()
        words, variables, _ = self._fill(settings.seed, folder, flatten(settings.settings))
        if command.config:
            config = self._config(settings.seed, settings.settings).replace("{folder}", str(folder))
            (folder / Path(command.config.path).name).write_text(config, encoding="utf-8")
        files = self._inputs()
        self._note_edits(trial, files)
        output, reported_steps = CommandOutput(self.metrics, {}, folder, trial.records.path), set[int]()
        if (metrics := self._read_kept(context, trial, output, files)) is not None:
            return metrics
        output = output._replace(attempt=time.time_ns())
        running = output._replace(is_running=True)
        # os.environ overrides these two, so users can change them
        threads = {"OMP_NUM_THREADS": str(settings.resources.cpus), "PYTHONUNBUFFERED": "1"}
        environment = {**threads, **os.environ, "PATH": search_path(), **variables}
        environment |= command.metrics.environment(running, environment)
        limit, has_left, next_time = "", False, 0.0
        process = Process(
            words, Path(command.folder), environment, trial.records.path / LOG, command.grace_seconds
        )
        try:
            with process:
                # a silent command yields an empty line from time to time, so that limits are checked
                for line in process.lines():
                    output.values.update(command.metrics.match(self.metrics, line))
                    if step := read_step(command.progress, line, context.next_step):
                        context.report(**step)
                    if (look_time := time.monotonic()) > next_time:
                        # the last step may lack a metric yet
                        self._report(context, [*command.metrics.steps(running).items()][:-1], reported_steps)
                        next_time = look_time + LOOK_S + 20 * (time.monotonic() - look_time)
                    limit = limit or self._limit(settings.resources, process)
                    has_left = has_left or context.should_stop()
                    if limit or has_left:
                        process.stop()
                self._report(context, command.metrics.steps(output).items(), reported_steps)
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
            failures = [file.stat().st_mtime for file in trial.records.path.glob("failure-*.json")]
            return self._read_metrics(trial, output._replace(since=max(failures, default=0.0)), files)
        except ConfigError as error:
            cost = {"seconds": context.seconds, "memory_mb": context.memory_mb}
            write_json(output.records / KEPT_ATTEMPT, {"files": files, "start": process.output_start, **cost})
            raise RunError(
                f"{self.title} exited with code 0, but its metrics are missing: {error}", "code", tail
            ) from None

    def _note_edits(self, trial: Trial, files: Mapping[str, str]) -> None:
        """Record the current inputs of a run if they have changed since the study started."""
        recorded_files = trial.records.user_files
        edited = {}
        for name in (files.keys() & recorded_files.keys()) - {f"environment of {self.script}"}:
            if recorded_files[name].split()[-1] != files[name] and name.endswith((*CODE, *CONFIGS)):
                edited[name] = files[name]
        if edited:
            write_json(trial.records.files, recorded_files | edited)

    def _report(
        self, context: RunContext, steps: Iterable[tuple[int, Mapping[str, Any]]], reported_steps: set[int]
    ) -> None:
        for step, values in steps:
            if step not in reported_steps:
                context.report(step, **{name: value for name, value in values.items() if name not in LINE})
                reported_steps.add(step)

    def _read_metrics(self, trial: Trial, output: CommandOutput, files: Mapping[str, str]) -> Any:
        """Return the metrics, and record the source and the inputs that they depend on.

        `files` are the digests of the inputs before the command started.
        """
        returned = self.command.metrics.read(output)
        read_metrics(self.title, returned, self.metrics)
        files_after = self._inputs()
        inputs = {}
        for name, sha in trial.records.user_files.items():
            before, after = files.get(name), files_after.get(name)
            if before == after:
                inputs[name] = sha
            elif name.endswith((*CODE, *CONFIGS)):  # other files that changed meanwhile are outputs
                # edited during the run, which may have read both versions
                inputs[name] = f"{before} {after}" if before and after else sha
        write_json(trial.records.files, inputs | self._source)
        return returned

    def _read_kept(
        self, context: RunContext, trial: Trial, output: CommandOutput, files: Mapping[str, str]
    ) -> Any:
        """Return the metrics of an earlier attempt that exited with code 0, if only they were missing.

        The source of the metrics may be corrected since, which changes no run id. Return None if the command
        must run again, also if its files have changed.
        """
        kept_file = output.records / KEPT_ATTEMPT
        attempt = read_record(kept_file, Json) or {}
        kept_file.unlink(missing_ok=True)
        if attempt.get("files") != files:
            return None
        with open(output.records / LOG, "rb") as lines:
            for line in kept_lines(lines, attempt["start"]):
                output.values.update(self.command.metrics.match(self.metrics, line))
        with suppress(ConfigError):
            metrics = self._read_metrics(trial, output, files)
            context.earlier_seconds, context.memory_mb = attempt["seconds"], attempt["memory_mb"]
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
