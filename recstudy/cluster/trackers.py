"""Log runs to Prometheus, and to TensorBoard, Trackio, Weights & Biases and MLflow (`--log`).

Tune would pass its trials to Ray's loggers. These identify a run by a number, have a single object as config
and count reports instead of epochs. So the loggers receive the events of the view, with a `TrackedRun` as the
trial: its name is the variant and seed, its config contains the fields of the run config, and its step is the
epoch. They log at most ten epochs per second of a run, which is what the driver receives; `epochs.jsonl`
contains all epochs. If requested, the losses of updates are read from `losses.jsonl` when the run has ended.
"""

import os
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from contextvars import copy_context
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ray.tune.logger import LoggerCallback
from ray.tune.result import AUTO_RESULT_KEYS, TRAINING_ITERATION
from ray.util.metrics import Counter, Gauge

from recstudy.base.errors import ConfigError
from recstudy.base.values import flatten
from recstudy.cluster.view import Listener, Outcome, View
from recstudy.records import LossLine, Results, Run, read_log

PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow", "trackio": "trackio"}


def check_loggers(names: Sequence[str]) -> None:
    """Raise a ConfigError if the package of a logger is not installed."""
    for name in names:
        if find_spec(PACKAGES[name]) is None:
            raise ConfigError(
                f"--log {name} needs the package {PACKAGES[name]}, which is not installed: pip install"
                f" {PACKAGES[name]}"
            )


class _EventFiles(LoggerCallback):
    """Writes TensorBoard's event files with tensorboardX. Ray's logger would prefix names by `ray/tune/`."""

    def log_trial_start(self, trial: "TrackedRun") -> None:
        from tensorboardX import SummaryWriter

        trial.writer = SummaryWriter(trial.local_path)

    def log_trial_result(self, epochs: int, trial: "TrackedRun", result: Mapping[str, float]) -> None:
        for name in result.keys() - {TRAINING_ITERATION}:
            trial.writer.add_scalar(name, result[name], epochs)
        trial.writer.flush()

    def log_trial_end(self, trial: "TrackedRun", failed: bool = False) -> None:
        # TensorBoard's table of hyperparameters: the run's settings and its last numbers
        from tensorboardX.summary import hparams

        with trial.writer as writer:
            for summary in hparams(trial.config, trial.last_numbers):
                writer.file_writer.add_summary(summary)


class _TrackioRuns(LoggerCallback):
    """Writes Trackio's local database, or its Space if TRACKIO_SPACE_ID is set. Ray has no such logger."""

    def __init__(self, study: str, folder: Path) -> None:
        os.environ.setdefault("TRACKIO_DIR", str(folder))  # read at the import
        self._study = study

    def log_trial_start(self, trial: "TrackedRun") -> None:
        import trackio

        options = {"config": trial.config, "embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
        # In a context of its own, because Trackio finishes the current run at exit. It prints each run.
        with redirect_stdout(StringIO()):
            trial.writer = copy_context().run(trackio.init, self._study, str(trial), **options)

    def log_trial_result(self, epochs: int, trial: "TrackedRun", result: Mapping[str, float]) -> None:
        numbers = {name: value for name, value in result.items() if name != TRAINING_ITERATION}
        trial.writer.log(numbers, step=epochs)

    def log_trial_end(self, trial: "TrackedRun", failed: bool = False) -> None:
        with redirect_stdout(StringIO()):
            trial.writer.finish()


def _make_callback(name: str, study: str, folder: Path) -> Any:
    """Create the logger with this name, which imports the tracker's package."""
    if name == "wandb":
        from ray.air.integrations.wandb import WandbLoggerCallback

        return WandbLoggerCallback(project=os.environ.get("WANDB_PROJECT", study), group=study)
    if name == "mlflow":
        from ray.air.integrations.mlflow import MLflowLoggerCallback

        database = f"sqlite:///{quote(str(folder))}/mlflow.db"  # MLflow 3 refuses plain files
        server = os.environ.get("MLFLOW_TRACKING_URI", database)
        return MLflowLoggerCallback(server, experiment_name=os.environ.get("MLFLOW_EXPERIMENT_NAME", study))
    return _TrackioRuns(study, folder) if name == "trackio" else _EventFiles()


def _stop_on_error(method: Callable[..., None]) -> Callable[..., None]:
    """Switch the logger off after its first error, so that runs neither fail nor wait for a server."""

    @wraps(method)
    def guarded(self: "Logger", *values: Any) -> None:
        if self.failed:
            return
        try:
            method(self, *values)
        except Exception as error:
            self.failed = True
            self.view.say(f"--log {self.name} has stopped, the runs continue: {_line(error)}")

    return guarded


@dataclass
class Logger(Listener):
    """One of Ray's loggers. If it fails, it is switched off and the runs continue.

    Args:
        name: The name on the command line.
        study: The name of the study.
        results: The results folder. The logger's files go to its subfolder `logs/NAME`.
        view: Prints the error of the logger.
        losses: Whether the losses of updates are logged at the end of a run.

    Raises:
        ConfigError: The logger cannot start, such as without an account.
    """

    name: str
    study: str
    results: Results
    view: View
    losses: bool = False

    def __post_init__(self) -> None:
        self.folder = self.results.root.absolute() / "logs" / self.name
        self._trials: dict[str, TrackedRun] = {}  # running, by run id
        self.failed = False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._callback = _make_callback(self.name, self.study, self.folder)
            self._callback.setup()
        except Exception as error:  # trackers raise their own types if a server or an account is missing
            raise ConfigError(f"--log {self.name} cannot start: {_line(error)}") from None

    @_stop_on_error
    def on_start(self, run: Run) -> None:
        if run.id not in self._trials:  # known if its process was lost and the run resumes
            self._trials[run.id] = TrackedRun(run, self.folder / self.study)
            self._callback.log_trial_start(self._trials[run.id])

    @_stop_on_error
    def on_epoch(self, run: Run, line: Outcome) -> None:
        trial = self._trials[run.id]
        trial.epochs = line["epochs_done"]
        names = line.keys() - AUTO_RESULT_KEYS
        numbers = {name: line[name] for name in names if isinstance(line[name], float)}
        self._log(trial, trial.epochs, numbers)

    @_stop_on_error
    def on_end(self, run: Run, outcome: Outcome) -> None:
        trial = self._trials.pop(run.id, None)
        if trial is None:  # no process of the run has started
            return
        if self.losses and outcome["status"] != "failed":
            for line in read_log(self.results.run(run.id).losses, LossLine):
                for position, loss in enumerate(line.losses):
                    self._log(trial, line.first + position * line.every, {"update_loss": loss})
        if outcome["status"] == "done" and outcome.get("score") is not None:
            self._log(trial, trial.epochs, {f"test_{run.config.score}": outcome["score"]})
        self._callback.log_trial_end(trial, failed=outcome["status"] not in ("done", "stopped"))

    @_stop_on_error
    def close(self) -> None:
        """End the open runs, and wait until all data are sent to the server."""
        while self._trials:
            self._callback.log_trial_end(self._trials.popitem()[1])
        self._callback.on_experiment_end([])
        self.results.send(self.folder)

    def _log(self, trial: "TrackedRun", step: int, numbers: dict[str, float]) -> None:
        trial.last_numbers |= numbers
        self._callback.log_trial_result(step, trial, {**numbers, TRAINING_ITERATION: step})


class TrackedRun:
    """A run with the attributes of a Tune trial that Ray's loggers use."""

    epochs = 0  # finished epochs
    writer: Any = None  # that of a tracker's package

    def __init__(self, run: Run, folder: Path) -> None:
        self._name = str(run)
        self.config: dict[str, Any] = {}
        for name, value in flatten(run.config.values).items():
            if value is not None:
                self.config[name] = str(value) if isinstance(value, list) else value
        self.last_numbers: dict[str, float] = {}
        self.trial_id = uuid.uuid4().hex[:8]  # new for each attempt, because W&B overwrites an equal id
        safe_name = re.sub(r"[^A-Za-z0-9_=.,()+ -]+", "-", self._name)[:100]
        self._folder = folder / f"{safe_name} ({run.id[:6]})"

    def __str__(self) -> str:
        return self._name

    @property
    def local_path(self) -> str:
        """The folder for a logger's files."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return str(self._folder)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"


TAGS = ("study", "family", "variant")
MAX_SERIES = 100  # variants with a separate series
OTHER_LABEL = "(others)"
EVERY_S = 2.0  # Ray exports values every 10 s

GAUGES = {
    "recstudy_runs_running": "Running runs",
    "recstudy_images_per_second": "Training images per second of all running runs",
    "recstudy_loss": "Training loss of the newest epoch",
    "recstudy_score": "Score of the newest epoch on the selection split, in percent",
    "recstudy_supervision_steps_used": "Mean supervision steps until halting, in the newest epoch",
}
END_COUNTER = "recstudy_runs_ended"  # Prometheus adds `_total`

Series = tuple[str, ...]  # values of `TAGS`


class Metrics(Listener):
    """Exports a running study to the cluster's Prometheus endpoints (see `dashboards/grafana/recstudy.json`).

    All values come from the driver, which receives each epoch anyway. Nothing is exported if Ray has no
    dashboard or its metrics are switched off. Prometheus adds the prefix `ray_` to each name.

    The seeds of a variant share a series for each metric. If there are more than `MAX_SERIES` variants, as in
    a long search, the other variants share a series per family. Ray adds labels of the driver and its
    session.

    Args:
        study: The name of the study.
    """

    def __init__(self, study: str) -> None:
        self._study = study
        self._gauges = [Gauge(name, text, TAGS) for name, text in GAUGES.items()]
        self._end_counter = Counter(
            END_COUNTER, "Runs that have ended: done, diverged, failed or stopped", (*TAGS, "status")
        )
        self._own_series: set[Series] = set()  # the first `MAX_SERIES`
        self._running: dict[str, tuple[Run, Outcome]] = {}  # run id -> run and its newest epoch
        self._show_time, self._active_series = float("-inf"), set[Series]()

    def on_start(self, run: Run) -> None:
        self._running[run.id] = run, {}

    def on_epoch(self, run: Run, line: Outcome) -> None:
        self._running[run.id] = run, {**line, "score": line.get(run.config.objective)}

    def on_leave(self, run: Run) -> None:
        self._running.pop(run.id, None)

    def on_end(self, run: Run, outcome: Outcome) -> None:
        self.on_leave(run)
        self._end_counter.inc(1, {**_tags(self.series(run)), "status": outcome["status"]})

    def show(self) -> None:
        """Set the gauges at intervals even without new epochs, because Ray drops gauges that are not set."""
        if time.monotonic() - self._show_time >= EVERY_S:
            self._show_time = time.monotonic()
            self._show()

    def close(self) -> None:
        """Set the gauges to no running runs."""
        self._running.clear()
        self._show()

    def _show(self) -> None:
        # an active series without a running run is set to 0
        lines: dict[Series, list[Outcome]] = {series: [] for series in self._active_series}
        for run, line in self._running.values():
            lines.setdefault(self.series(run), []).append(line)
        for series, epochs in lines.items():
            newest = next(filter(None, reversed(epochs)), {})  # of the run that started last
            values = (
                len(epochs),
                sum(line.get("images_per_second", 0.0) for line in epochs),
                newest.get("train_loss"),
                newest.get("score"),
                newest.get("supervision_steps_used"),
            )
            for gauge, value in zip(self._gauges, values, strict=True):
                gauge.set(value, _tags(series))  # None does not change the gauge
        self._active_series = {series for series, epochs in lines.items() if epochs}

    def series(self, run: Run) -> Series:
        """Return the labels of a run, in ASCII because Ray (2.60) refuses other characters."""
        names = self._study, run.config.family, run.label
        series = tuple(name.encode("ascii", "backslashreplace").decode() for name in names)
        if len(self._own_series) < MAX_SERIES:
            self._own_series.add(series)
        return series if series in self._own_series else (*series[:2], OTHER_LABEL)


def _tags(series: Series) -> dict[str, str]:
    return dict(zip(TAGS, series, strict=True))
