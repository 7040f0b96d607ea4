"""Run a training function of any framework in the worker's process."""

import pickle
import re
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from inspect import getclosurevars
from typing import Any

from recstudy.base.errors import ConfigError, raised_at
from recstudy.base.values import digest, is_count
from recstudy.plugins import check_call, computes_imports, current_files, import_object, study_file
from recstudy.programs.attempt import Trial
from recstudy.programs.base import Program
from recstudy.programs.inputs import file_digests, files_below
from recstudy.programs.metric import Metric
from recstudy.programs.own import OwnProgram, not_finite, number, python_scalar, read_metrics
from recstudy.programs.trial import peak_memory_mb, record_user_files, reset_process
from recstudy.programs.watchdog import hang_watchdog, heartbeat, paused_watchdog
from recstudy.records import EpochLine, Json, append_line, read_log

# keys of a reported line that are not values of the program
LINE = ("epoch", "epochs", "epochs_done", "seconds", "status", "warnings")


class Diverged(BaseException):
    """Ends a run whose values are not finite.

    A BaseException, so that `except Exception` in the user's function does not catch it.
    """


class SearchStopped(SystemExit):
    """Raised in a run that a search stops early."""


class RunContext:
    """The argument of a training function: settings, seed and reporting of one run.

    Attributes:
        settings: The settings, as a dictionary or as an instance of the user's settings class.
        seed: The seed of the run: 0, 1, ...
        folder: A folder for checkpoints. A resumed run gets the same folder, which is removed when the run
            has ended.
        next_step: The step after the last reported one, over all attempts; 0 in a new run.
    """

    def __init__(self, trial: Trial, settings: Any) -> None:
        self.settings, self.seed = settings, trial.settings.seed
        self.folder = trial.records.program_folder
        # A search that stopped the run before has removed its folder. An object store keeps no empty folder.
        if not self.folder.exists() and (trial.records.was_stopped or not trial.store):
            trial.records.keep_epochs(end_epoch=0)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._trial = trial
        lines = read_log(trial.records.epochs, EpochLine)
        self.next_step = max((line.epoch for line in lines), default=-1) + 1
        # of attempts before this one
        self.earlier_seconds = max((float(line.values.get("seconds") or 0.0) for line in lines), default=0.0)
        self._start_time = time.monotonic()
        self.memory_mb: float | None = None
        self.cpu_seconds = 0.0
        self.watch = ExitStack()  # ends a run that hangs, once it has reported a step
        self._is_watched = False

    @property
    def resumes(self) -> bool:
        """Whether an earlier attempt has reported a step."""
        return self.next_step > 0

    def report(self, step: int, **values: float) -> None:
        """Log the values of a step, such as an epoch. A search may stop the run based on them.

        Args:
            step: The step: 0, 1, ... A resumed run may report a step again.
            values: Numbers by name, such as `loss=0.3, accuracy=91.2`.

        Raises:
            ConfigError: `step` is not an integer of at least 0, a value is not a number, or its name is
                reserved.
        """
        name, records = self._trial.settings.program_name, self._trial.records
        step = python_scalar(step)
        if not is_count(step, 0):
            raise ConfigError(
                f"{name}: step of run.report must be an integer of at least 0, but got {step!r}"
            )
        if reserved := [key for key in values if key in LINE]:
            raise ConfigError(f"run.report: the name {reserved[0]!r} is reserved. Rename the value")
        numbers = {key: number(name, key, value) for key, value in values.items()}
        if wrong := not_finite(numbers):
            raise Diverged(f"step {step}: {wrong}")
        # A resumed run may repeat steps after its checkpoint. Their earlier lines are dropped.
        if step < self.next_step:
            records.keep_epochs(end_epoch=step)
        self.next_step = step + 1
        line = {"epoch": step, **numbers, "seconds": round(self.seconds, 3)}
        append_line(records.epochs, line)
        if not self._is_watched:
            self._is_watched = True
            minutes = self._trial.settings.resources.hang_timeout_minutes
            self.watch.enter_context(hang_watchdog(60 * minutes, records.hang_log(0)))
        heartbeat()
        with paused_watchdog():  # the driver may be busy or suspended
            try:
                steps = self._trial.settings.steps or 0
                self._trial.report(line | {"epochs_done": step + 1, "epochs": steps if step < steps else 0})
            except SystemExit as end:  # Ray Tune stops a trial with it
                raise SearchStopped(end.code) from None

    def should_stop(self) -> bool:
        """Return whether the function should save its state and return None, so that the run can resume.

        True after the first SIGTERM to the study, or when Ray drains the node, such as a spot machine. Ctrl-C
        and a second SIGTERM end the function at once instead.
        """
        heartbeat()
        return bool(self._trial.leave())

    @property
    def seconds(self) -> float:
        """Seconds of the run so far, over all attempts."""
        return self.earlier_seconds + time.monotonic() - self._start_time


@dataclass(frozen=True)
class Function(Program):
    """A training function and its titles in tables, as the `program` of a study.

    Args:
        function: Called once for each run with a `RunContext`. Returns a dictionary with the metrics.
        name: Part of the run ids. By default the function's module and name, such as `my_study.train`.
        title: Name of the program in tables. By default the function's name.
        data: Name of the data set in tables.
        is_synthetic: Whether the data are generated.
        inputs: Globs of files that the function reads, relative to the study's folder. Runs are not reused
            after an edit of them, as after one of the code.

    Example:
        >>> def train(run):
        ...     return {"accuracy": 91.2 + run.seed}
        >>> program = Function(train, title="MLP", data="MNIST")
    """

    function: Callable[[RunContext], Any]
    name: str = ""
    title: str = ""
    data: str = ""
    is_synthetic: bool = False
    inputs: Sequence[str] = ()

    def bind(self, settings: Any, metrics: Mapping[str, Metric]) -> "FunctionProgram":
        return FunctionProgram(self, settings, metrics)

    def __reduce__(self) -> tuple[Any, ...]:
        # By name if the study is a file: globals of its module, such as a lock, may not be picklable.
        file, name = study_file(), getattr(self.function, "__qualname__", "")
        options = (self.name, self.title, self.data, self.is_synthetic, self.inputs)
        if file is not None and getattr(sys.modules["__main__"], name, None) is self.function:
            return import_function, (f"{file.name}:{name}", *options)
        return Function, (self.function, *options)


def import_function(import_path: str, *options: Any) -> Function:
    return Function(import_object(import_path), *options)


class TrainingProgram(OwnProgram, ABC):
    """Base class of functions and commands: execute a run and collect its metrics and cost."""

    packages: tuple[str, ...] = ("torch", "numpy", "ray")

    @abstractmethod
    def execute(self, context: RunContext, trial: Trial) -> Any:
        """Return the metrics, or None if the run left early. Set memory and CPU time in `context`."""

    def run(self, trial: Trial) -> Json:
        settings = trial.settings.settings
        context = RunContext(trial, self.parse(settings) if self.typed else dict(settings))
        record_user_files(trial, resumes=context.resumes)
        start_time = time.monotonic()
        outcome: Json
        try:
            with context.watch:
                returned = self.execute(context, trial)
            if returned is None and trial.leave():
                return {"status": "drained"}
            values = read_metrics(self.name, returned, self.metrics)
            if wrong := not_finite(values):
                raise Diverged(wrong)
            outcome = {"status": "done", "metrics": values}
            if extra_names := [str(name) for name in returned if name not in values]:
                outcome["notes"] = [f"returned, but not declared as metrics: {', '.join(extra_names)}"]
        except Diverged as error:
            outcome = {"status": "diverged", "error": str(error), "metrics": {}}
        cost = {
            "seconds": context.seconds,
            "device_seconds": context.seconds,
            "peak_memory_mb": context.memory_mb,
        }
        if (seconds := time.monotonic() - start_time) >= 1:
            cost["cores_used"] = round(context.cpu_seconds / seconds, 3)
        if not trial.keeps_files:
            shutil.rmtree(context.folder, ignore_errors=True)
        return outcome | {"cost": cost}


class FunctionProgram(TrainingProgram):
    """A training function with its settings and metrics."""

    def __init__(self, spec: Function, settings: Any, metrics: Mapping[str, Metric]) -> None:
        if not callable(spec.function):
            raise ConfigError(
                f"program must be a function, a Function or a Command, but got {spec.function!r}"
            )
        check_call(spec.function, "run")
        self.spec, self.function, self.inputs = spec, spec.function, spec.inputs
        super().__init__(
            spec.name or _name(spec.function),
            settings,
            metrics,
            spec.title,
            spec.data,
            spec.is_synthetic,
        )

    def same_as(self, program: Program) -> bool:
        return isinstance(program, FunctionProgram) and _identity(self.function) == _identity(
            program.function
        )

    def user_files(self) -> dict[str, str]:
        """Return digests of bound values and inputs; if modules are imported by computed names, of all code
        in the study's folder.
        """
        files, inputs = current_files(), self.inputs
        computes = any(map(computes_imports, files.contents.values()))
        code = files_below(files.root, bool(inputs)) if computes else ()
        paths = {file for file in code if file.suffix == ".py"}
        versions = file_digests(files.root, paths, inputs)
        if values := _bound_values(self.function):
            versions[f"values bound to {self.name}"] = digest(values, 64)
        return versions

    def execute(self, context: RunContext, trial: Trial) -> Any:
        reset_process(trial.settings.seed, trial.settings.resources.cpus)
        start_cpu = time.process_time()
        try:
            return self.function(context)
        except SearchStopped:
            raise
        # sys.exit() in user code must end this run and not the study.
        except SystemExit as error:
            raise ConfigError(f"{self.name} ended its process: {raised_at(error)}") from error
        finally:
            context.memory_mb = peak_memory_mb()
            context.cpu_seconds = time.process_time() - start_cpu


def _name(function: Any) -> str:
    """Return `module.name` of a function. The module `__main__` is replaced by the name of the study file."""
    file = study_file()
    while isinstance(function, partial):
        function = function.func
    module = getattr(function, "__module__", "") or ""
    module = (file.name if file else "notebook") if module == "__main__" else module
    name = (
        getattr(function, "__qualname__", type(function).__name__)
        .replace("<lambda>", "function")
        .replace(".<locals>", "")
    )
    return f"{module}.{name}"


def _bound_values(function: Any) -> list[str]:
    """Return the plain values that a partial, closure, method or callable object adds to the settings."""
    if isinstance(function, partial):
        values = {
            "arguments": function.args,
            **function.keywords,
            "of the function": _bound_values(function.func),
        }
    elif owner := getattr(function, "__self__", None):
        values = getattr(owner, "__dict__", {})
    elif hasattr(function, "__code__"):
        values = dict(getclosurevars(function).nonlocals)
    else:
        values = getattr(function, "__dict__", {})
    # the text of other objects may contain an address, which differs in each process
    texts = {}
    for name, value in values.items():  # a set has another order in each process
        texts[name] = repr(sorted(map(repr, value)) if isinstance(value, set | frozenset) else value)
        if "..." in texts[name]:  # a shortened array, tensor or table
            with suppress(Exception):
                texts[name] = sha256(pickle.dumps(value)).hexdigest()
    return [f"{name}={text}" for name, text in texts.items() if not re.search(r" at 0x[0-9a-f]+", text)]


def _identity(function: Any) -> Any:
    """Return a value that is equal for equal functions, since a file may be imported under two module names.

    Closures of one function have the same code and differ in their captured values.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return function
    values = function.__defaults__, getclosurevars(function).nonlocals, getattr(function, "__self__", None)
    return code.co_filename, code, repr(values)
