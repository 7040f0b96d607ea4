"""What trackers are told of a study: Prometheus; TensorBoard, Weights & Biases and MLflow by Ray's own
loggers (`--log`).

Tune would hand them its trials, which know a run by a number, have one object for a config and count reports,
not epochs. So they are told what the view is told, with a stand-in for the trial: the variant and seed as its
name, the run config's fields, and the epoch as the step. They log what the driver hears, at most ten epochs a
second of a run; `epochs.jsonl` has all. Losses of updates, where asked for, are read from `losses.jsonl` once
the run has ended.
"""

import os
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ray.tune.logger import LoggerCallback
from ray.tune.result import AUTO_RESULT_KEYS, TRAINING_ITERATION
from ray.util.metrics import Counter, Gauge

from recstudy.cluster.view import Listener, Outcome, View
from recstudy.errors import ConfigError
from recstudy.programs.settings import flatten
from recstudy.records import LossLine, Results, read_log
from recstudy.study.plan import Run

PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow"}


def check_loggers(names: Sequence[str]) -> None:
    """Refuse a logger whose package is missing."""
    for name in names:
        if find_spec(PACKAGES[name]) is None:
            raise ConfigError(
                f"--log {name} needs the package {PACKAGES[name]}, which is not installed: pip install"
                f" {PACKAGES[name]}"
            )


class _EventFiles(LoggerCallback):
    """TensorBoard's, by tensorboardX, with what Ray's loggers are asked; its own puts `ray/tune/` before
    every name.
    """

    def __init__(self) -> None:
        self._writers: dict[Trial, Any] = {}

    def log_trial_start(self, trial: "Trial") -> None:
        from tensorboardX import SummaryWriter

        self._writers[trial] = SummaryWriter(trial.local_path)

    def log_trial_result(self, epochs: int, trial: "Trial", result: Mapping[str, float]) -> None:
        for name in result.keys() - {TRAINING_ITERATION}:
            self._writers[trial].add_scalar(name, result[name], epochs)
        self._writers[trial].flush()

    def log_trial_end(self, trial: "Trial", failed: bool = False) -> None:
        """Ends with the run's fields beside its last numbers, for TensorBoard's table of hyperparameters."""
        from tensorboardX.summary import hparams

        with self._writers.pop(trial) as writer:
            for summary in hparams(trial.config, trial.last_numbers):
                writer.file_writer.add_summary(summary)


def _make_callback(name: str, study: str, folder: Path) -> Any:
    """Return Ray's logger of this name, which imports the tracker's package."""
    if name == "wandb":
        from ray.air.integrations.wandb import WandbLoggerCallback

        return WandbLoggerCallback(project=os.environ.get("WANDB_PROJECT", study), group=study)
    if name == "mlflow":
        from ray.air.integrations.mlflow import MLflowLoggerCallback

        database = f"sqlite:///{quote(str(folder))}/mlflow.db"  # MLflow 3 refuses plain files
        server = os.environ.get("MLFLOW_TRACKING_URI", database)
        return MLflowLoggerCallback(server, experiment_name=os.environ.get("MLFLOW_EXPERIMENT_NAME", study))
    return _EventFiles()


def _guarded(method: Callable[..., None]) -> Callable[..., None]:
    """Let nothing that a tracker raises end a run; after the first time it is told no more, for each may wait
    for a server.
    """

    @wraps(method)
    def guarded(self: "Logger", *values: Any) -> None:
        if self.failed:
            return
        try:
            method(self, *values)
        except Exception as error:
            self.failed = True
            self.view.say(f"--log {self.name} has stopped, and the runs go on: {_line(error)}")

    return guarded


@dataclass
class Logger(Listener):
    """One of Ray's loggers, told of runs as the view is; once it fails, it is told no more, and the runs go
    on.

    Args:
        name: as on the command line.
        study: the runs' study.
        results: what it writes by itself goes to `logs/NAME` there.
        view: hears of its failure.
        losses: whether it is told those of updates, once a run has ended.

    Raises:
        ConfigError: it cannot begin, such as without an account.
    """

    name: str
    study: str
    results: Results
    view: View
    losses: bool = False

    def __post_init__(self) -> None:
        self.folder = self.results.root.absolute() / "logs" / self.name
        self._trials: dict[str, Trial] = {}  # under way, by run
        self.failed = False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._callback = _make_callback(self.name, self.study, self.folder)
            self._callback.setup()
        except Exception as error:  # whatever a tracker raises of a server or an account
            raise ConfigError(f"--log {self.name} cannot begin: {_line(error)}") from None

    @_guarded
    def started(self, run: Run) -> None:
        if run.id not in self._trials:  # else its process was lost, and another one goes on
            self._trials[run.id] = Trial(run, self.folder / self.study)
            self._callback.log_trial_start(self._trials[run.id])

    @_guarded
    def epoch(self, run: Run, line: Outcome) -> None:
        trial = self._trials[run.id]
        trial.epochs = line["epochs_done"]
        own_names = line.keys() - AUTO_RESULT_KEYS
        self._log(
            trial, trial.epochs, {name: line[name] for name in own_names if isinstance(line[name], float)}
        )

    @_guarded
    def ended(self, run: Run, outcome: Outcome) -> None:
        trial = self._trials.pop(run.id, None)
        if trial is None:  # no process of it ever began
            return
        if self.losses and outcome["status"] != "failed":
            for line in read_log(self.results.run(run.id).losses, LossLine):
                for position, loss in enumerate(line.losses):
                    self._log(trial, line.first + position * line.every, {"update_loss": loss})
        if outcome["status"] == "done" and outcome.get("score") is not None:
            self._log(trial, trial.epochs, {f"test_{run.config.score}": outcome["score"]})
        self._callback.log_trial_end(trial, failed=outcome["status"] not in ("done", "stopped"))

    @_guarded
    def close(self) -> None:
        """End what was not ended, and wait for what is on its way to a server."""
        while self._trials:
            self._callback.log_trial_end(self._trials.popitem()[1])
        self._callback.on_experiment_end([])
        self.results.send(self.folder)

    def _log(self, trial: "Trial", step: int, numbers: dict[str, float]) -> None:
        trial.last_numbers |= numbers
        self._callback.log_trial_result(step, trial, {**numbers, TRAINING_ITERATION: step})


class Trial:
    """What Ray's loggers ask of a trial, for a run."""

    epochs = 0  # done

    def __init__(self, run: Run, folder: Path) -> None:
        self._name = str(run)
        fields = flatten(run.config.values).items()
        self.config = {
            name: str(value) if isinstance(value, list) else value
            for name, value in fields
            if value is not None
        }
        self.last_numbers: dict[str, float] = {}
        self.trial_id = uuid.uuid4().hex[:8]  # of this attempt: W&B would begin an earlier one anew
        safe_name = re.sub(r"[^A-Za-z0-9_=.,()+ -]+", "-", self._name)[:100]
        self._folder = folder / f"{safe_name} ({run.id[:6]})"

    def __str__(self) -> str:
        return self._name

    @property
    def local_path(self) -> str:
        """For those that write files of their own."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return str(self._folder)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"


TAGS = ("study", "family", "variant")
MOST = 100  # variants with series of their own
OTHERS = "(others)"
EVERY_S = 2.0  # Ray passes values on every 10 s

GAUGES = {
    "recstudy_runs_running": "Runs under way",
    "recstudy_images_per_second": "Training images a second, of all runs under way",
    "recstudy_loss": "Training loss of the newest epoch",
    "recstudy_score": "Score of the newest epoch on the selection split, in percent",
    "recstudy_supervision_steps_used": "Mean supervision steps until halting, in the newest epoch",
}
ENDED = "recstudy_runs_ended"  # Prometheus adds `_total`

Series = tuple[str, ...]  # values of `TAGS`


class Metrics(Listener):
    """What the cluster's Prometheus endpoints tell of a study while it runs;
    `dashboards/grafana/recstudy.json` draws it.

    All of it comes from the driver, which hears of every epoch anyway: trials do nothing for it. Where Ray
    has no dashboard or its metrics are off, it goes nowhere. Prometheus shows each name with `ray_` before
    it.

    The series are few: one a metric and variant, which the variant's seeds share; beyond `MOST` variants, as
        in a long search,
    the others share one a family. Ray adds labels of the driver and its session.

    Args:
        study: its name.
    """

    def __init__(self, study: str) -> None:
        self._study = study
        self._gauges = [Gauge(name, text, TAGS) for name, text in GAUGES.items()]
        self._ended = Counter(
            ENDED, "Runs that have ended: done, diverged, failed or stopped", (*TAGS, "status")
        )
        self._own: set[Series] = set()  # the first `MOST`
        self._running: dict[str, tuple[Run, Outcome]] = {}  # by run id, with its newest epoch
        self._shown, self._at_work = float("-inf"), set[Series]()

    def started(self, run: Run) -> None:
        self._running[run.id] = run, {}

    def epoch(self, run: Run, line: Outcome) -> None:
        self._running[run.id] = run, {**line, "score": line.get(run.config.objective)}

    def left(self, run: Run) -> None:
        self._running.pop(run.id, None)

    def ended(self, run: Run, outcome: Outcome) -> None:
        self._running.pop(run.id, None)
        self._ended.inc(1, {**_tags(self.series(run)), "status": outcome["status"]})

    def show(self) -> None:
        """Set the gauges, also where nothing is new: Ray forgets one that is not set for a while, and an
        epoch may be long.
        """
        if time.monotonic() - self._shown >= EVERY_S:
            self._shown = time.monotonic()
            self._show()

    def close(self) -> None:
        """Say that nothing runs any more, whatever was told of it."""
        self._running.clear()
        self._show()

    def _show(self) -> None:
        # none: its last run has ended
        lines: dict[Series, list[Outcome]] = {series: [] for series in self._at_work}
        for run, line in self._running.values():
            lines.setdefault(self.series(run), []).append(line)
        for series, epochs in lines.items():
            newest = next(filter(None, reversed(epochs)), {})  # of the run that began last
            values = (
                len(epochs),
                sum(line.get("images_per_second", 0.0) for line in epochs),
                newest.get("train_loss"),
                newest.get("score"),
                newest.get("supervision_steps_used"),
            )
            for gauge, value in zip(self._gauges, values, strict=True):
                gauge.set(value, _tags(series))  # a value of None changes nothing
        self._at_work = {series for series, epochs in lines.items() if epochs}

    def series(self, run: Run) -> Series:
        """Return what the run's numbers are shown under, in ASCII: Ray raises at anything else (2.60)."""
        names = self._study, run.config.family, run.label
        series = tuple(name.encode("ascii", "backslashreplace").decode() for name in names)
        if len(self._own) < MOST:
            self._own.add(series)
        return series if series in self._own else (*series[:2], OTHERS)


def _tags(series: Series) -> dict[str, str]:
    return dict(zip(TAGS, series, strict=True))
