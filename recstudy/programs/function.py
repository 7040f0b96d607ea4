"""A training function as a program: any framework, in the worker's process."""

import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from inspect import getclosurevars
from typing import Any

from recstudy.errors import ConfigError, raised_at
from recstudy.plugins import check_call, named, study_file
from recstudy.programs.base import Execution, Program
from recstudy.programs.metric import Metric
from recstudy.programs.own import OwnProgram, measured, not_finite, number, python_scalar
from recstudy.programs.trial import peak_memory_mb, record_user_files, reset_process
from recstudy.programs.watchdog import alive, waiting, watched
from recstudy.records import EpochLine, Json, append_line, read_log

FOLDER = "files"  # of a run's folder, for what its program saves
# what a line has beside reported values
LINE = ("epoch", "epochs", "epochs_done", "seconds", "status", "warnings")


class Diverged(BaseException):
    """Ends a function whose numbers are no longer finite; no Exception, so that its own handlers let it
    pass.
    """


class Stopped(SystemExit):
    """Ends a run that a search stops early."""


class RunContext:
    """What a training function gets of its run.

    Attributes:
        settings: The settings, as a dictionary or as an object of the user's own class.
        seed: The seed of the run: 0, 1, ...
        folder: A folder for checkpoints. It is the same when the run resumes, and is removed when the run has
            ended.
        next_step: The step after the last report, over all attempts; 0 in a new run.
    """

    def __init__(self, execution: Execution, settings: Any) -> None:
        self.settings, self.seed = settings, execution.settings.seed
        self.folder = execution.records.path / FOLDER
        self.folder.mkdir(parents=True, exist_ok=True)
        self._execution = execution
        lines = read_log(execution.records.epochs, EpochLine)
        self.next_step = max((line.epoch for line in lines), default=-1) + 1
        self._before = max((float(line.values.get("seconds") or 0.0) for line in lines), default=0.0)
        self._began = time.monotonic()
        self.memory_mb: float | None = None
        self.cpu_seconds = 0.0
        self.watch = ExitStack()  # ends a run that hangs, once it has reported a step
        self._is_watched = False

    @property
    def resumes(self) -> bool:
        """Whether an earlier attempt has reported a step."""
        return self.next_step > 0

    def report(self, step: int, **values: float) -> None:
        """Report values of a step, such as an epoch: they are logged, shown, and may end the run early in a
        search.

        Args:
            step: 0, 1, ...; a resumed run may report a step again.
            values: Numbers by name, such as `loss=0.3, accuracy=91.2`.

        Raises:
            ConfigError: `step` is not a whole number of at least 0, or a value is not a number or has a name
                of recstudy's own.
        """
        name, records = self._execution.settings.program_name, self._execution.records
        step = python_scalar(step)
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise ConfigError(
                f"{name}: the step of run.report must be a whole number of at least 0, but it is {step!r}"
            )
        if reserved := [key for key in values if key in LINE]:
            raise ConfigError(f"run.report: {reserved[0]!r} is recstudy's own. Give the value another name")
        numbers = {key: number(name, key, value) for key, value in values.items()}
        if wrong := not_finite(numbers):
            raise Diverged(f"step {step}: {wrong}")
        if step < self.next_step:
            records.keep_epochs(below=step)
        self.next_step = step + 1
        line = {"epoch": step, **numbers, "seconds": round(self.seconds, 3)}
        append_line(records.epochs, line)
        if not self._is_watched:
            self._is_watched = True
            minutes = self._execution.settings.resources.hang_timeout_minutes
            self.watch.enter_context(watched(60 * minutes, records.hang_log(0)))
        alive()
        with waiting():  # for a driver that may be busy, or stopped, and then resumes
            try:
                steps = self._execution.settings.steps or 0
                self._execution.report(
                    line | {"epochs_done": step + 1, "epochs": steps if step < steps else 0}
                )
            except SystemExit as end:  # which is how Ray Tune stops a trial
                raise Stopped(end.code) from None

    def should_stop(self) -> bool:
        """Return whether the run is to save its state and return early, without metrics: it resumes later.

        True after Ctrl-C or SIGTERM to the study, or when Ray takes the node away, such as a spot machine.
        """
        alive()
        return bool(self._execution.leave())

    @property
    def seconds(self) -> float:
        """Seconds of the run so far, over all attempts."""
        return self._before + time.monotonic() - self._began


@dataclass(frozen=True)
class Function:
    """A training function with what tables call it, as the `program` of a study.

    Args:
        function: Called once for each run with a `RunContext`. It returns the metrics by their names.
        name: Part of the run ids. By default its module and name, such as `my_study.train`.
        title: What tables call it. By default the function's name.
        data: What tables call its data set.
        is_synthetic: Whether its data are generated.
    """

    function: Callable[[RunContext], Any]
    name: str = ""
    title: str = ""
    data: str = ""
    is_synthetic: bool = False

    def bind(self, settings: Any, metrics: Mapping[str, Metric]) -> "FunctionProgram":
        """Return the program with these settings and metrics."""
        return FunctionProgram(self, settings, metrics)

    def __reduce__(self) -> tuple[Any, ...]:
        """Reach workers by name if the study is a file, because what its module has, such as a lock, may not
        be picklable.
        """
        file, name = study_file(), getattr(self.function, "__qualname__", "")
        given = (self.name, self.title, self.data, self.is_synthetic)
        if file is not None and getattr(sys.modules["__main__"], name, None) is self.function:
            return _imported, (f"{file.name}:{name}", *given)
        return Function, (self.function, *given)


def _imported(place: str, *given: Any) -> Function:
    return Function(named(place), *given)


class TrainingProgram(OwnProgram, ABC):
    """What functions and commands do alike."""

    packages: tuple[str, ...] = ("torch", "numpy", "ray")

    @abstractmethod
    def execute(self, context: RunContext, execution: Execution) -> Any:
        """Return the metrics, or None if the run has left early. Set its memory and CPU time in `context`."""

    def run(self, execution: Execution) -> Json:
        settings = execution.settings
        context = RunContext(
            execution, self.parse(settings.settings) if self.typed else dict(settings.settings)
        )
        record_user_files(execution.trial, execution.records, resumes=context.resumes)
        began = time.monotonic()
        outcome: Json
        try:
            with context.watch:
                returned = self.execute(context, execution)
            if returned is None and execution.leave():
                return {"status": "drained"}
            values = measured(self.name, returned, self.metrics)
            if wrong := not_finite(values):
                raise Diverged(wrong)
            outcome = {"status": "done", "metrics": values}
            if others := [str(name) for name in returned if name not in values]:
                outcome["notes"] = [f"returned without being stated as metrics: {', '.join(others)}"]
        except Diverged as error:
            outcome = {"status": "diverged", "error": str(error), "metrics": {}}
        cost = {
            "seconds": context.seconds,
            "device_seconds": context.seconds,
            "peak_memory_mb": context.memory_mb,
        }
        if (seconds := time.monotonic() - began) >= 1:
            cost["cores_used"] = round(context.cpu_seconds / seconds, 3)
        shutil.rmtree(context.folder, ignore_errors=True)
        return outcome | {"cost": cost}


class FunctionProgram(TrainingProgram):
    """A training function with its settings and metrics."""

    def __init__(self, given: Function, settings: Any, metrics: Mapping[str, Metric]) -> None:
        if not callable(given.function):
            raise ConfigError(
                f"a program must be a function, a Function or a Command, but got {given.function!r}"
            )
        check_call(given.function, "run")
        self.spec, self.function = given, given.function
        super().__init__(
            given.name or _name(given.function),
            settings,
            metrics,
            given.title,
            given.data,
            given.is_synthetic,
        )

    def same_as(self, other: Program) -> bool:
        return isinstance(other, FunctionProgram) and _identity(self.function) == _identity(other.function)

    def execute(self, context: RunContext, execution: Execution) -> Any:
        reset_process(execution.settings.seed, execution.settings.resources.cpus)
        busy = time.process_time()
        try:
            return self.function(context)
        except Stopped:
            raise
        except SystemExit as left:  # it ends this run and not the study
            raise ConfigError(f"{self.name} ended its process: {raised_at(left)}") from left
        finally:
            context.memory_mb = peak_memory_mb()
            context.cpu_seconds = time.process_time() - busy


def _name(function: Any) -> str:
    """Return module and name of a function; those of the file that is run have its name."""
    file = study_file()
    module = getattr(function, "__module__", "") or ""
    module = (file.name if file else "notebook") if module == "__main__" else module
    name = (
        getattr(function, "__qualname__", type(function).__name__)
        .replace("<lambda>", "function")
        .replace(".<locals>", "")
    )
    return f"{module}.{name}"


def _identity(function: Any) -> Any:
    """Return what tells two functions apart: the same file may be imported under two module names.

    Functions that one function makes have the same code; what they close over tells them apart.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return function
    values = function.__defaults__, getclosurevars(function).nonlocals, getattr(function, "__self__", None)
    return code.co_filename, code, repr(values)
