"""Finished runs sent to a tracker after the fact, as `--log` would have told it of them: `recstudy log RESULTS --to mlflow`.

No run is sent twice. The tracker itself is asked: MLflow by the tag `recstudy.run`, W&B by the run's id, which is recstudy's; of
TensorBoard's folders each complete one has a file `RUN.sent`. What a killed command has sent in part is sent anew.
"""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from recstudy.analysis.frame import load_study
from recstudy.analysis.rows import distinct
from recstudy.cluster.trackers import SENT, TAG, Logger, Trial, check_loggers
from recstudy.config import RunConfig
from recstudy.errors import StorageError
from recstudy.records import EpochLine, Results, read_json, read_log
from recstudy.study.study import Run
from recstudy.terminal import environment


class Raising:
    """Hears what a tracker fails with, and ends the command with it."""

    def logger_failed(self, name: str, error: str) -> None:
        raise StorageError(f"{name} cannot be told: {error}. The same command sends what is left")


class Tracker(Protocol):
    """What is asked of a tracker before it is told of a run."""

    def has(self, run: str) -> bool:
        """Tell whether the run was sent whole; what there is of it in part is removed."""


def send(results: Results, name: str, preset: str, to: str, uri: str = "", losses: bool = False) -> tuple[int, int]:
    """Send a study's finished runs that the tracker does not have.

    Args:
        results: where the records are.
        name: the study's.
        preset: its folder's.
        to: `mlflow`, `wandb` or `tensorboard`.
        uri: of the tracker, or the folder that it writes to; by default as `--log` has it.
        losses: also the losses of updates.

    Returns:
        How many were sent, and how many the tracker had.

    Raises:
        ConfigError: the tracker's package is missing, or it cannot begin.
        StorageError: a record is damaged, or the tracker fails.
    """
    check_loggers([to])
    variable = {"mlflow": "MLFLOW_TRACKING_URI", "wandb": "WANDB_BASE_URL"}.get(to)
    with environment(**({variable: uri} if variable and "://" in uri else {})):
        return _send(results, name, preset, to, uri, losses)


def _send(results: Results, name: str, preset: str, to: str, uri: str, losses: bool) -> tuple[int, int]:
    records = load_study(results, name, preset)
    with records.standing():
        kind = WandbRuns if to == "wandb" else None
        logger = Logger(to, name, results, Raising(), losses, "" if "://" in uri else uri, kind)
        kinds: dict[str, Callable[[Logger], Tracker]] = {"mlflow": _Mlflow, "wandb": _Wandb, "tensorboard": _Folders}
        tracker = kinds[to](logger)
        sent = had = 0
        for row in (row for row in distinct(records.rows) if row.result is not None):
            if tracker.has(row.id):
                had += 1
                continue
            folder = results.run(row.id)
            kept = read_json(folder.config)
            if kept is None:
                raise StorageError(f"{folder.config} is missing, which says what decided the run")
            run = Run(row.variant, row.label, row.seed, RunConfig.model_validate(kept), row.id)
            logger.started(run)
            for line in {line.epoch: line for line in read_log(folder.epochs, EpochLine)}.values():
                logger.epoch(run, {**line.values, "epochs_done": line.epoch + 1})
            logger.ended(run, {"status": row.status, "score": row.value(run.config.score)})
            sent += 1
        logger.close()
    return sent, had


class _Folders:
    """TensorBoard's."""

    def __init__(self, logger: Logger) -> None:
        self.folder = logger.folder / logger.study

    def has(self, run: str) -> bool:
        found = [folder for folder in self.folder.glob(f"*({run[:6]})") if folder.is_dir() and not folder.is_symlink()]
        whole = any((folder / f"{run}{SENT}").exists() for folder in found)
        for events in (file for folder in found if not whole for file in folder.glob("events.out.tfevents.*")):
            events.unlink()
        return whole


class _Mlflow:
    def __init__(self, logger: Logger) -> None:
        from mlflow.tracking import MlflowClient

        self.client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{logger.folder}/mlflow.db")
        experiment = self.client.get_experiment_by_name(os.environ.get("MLFLOW_EXPERIMENT_NAME", logger.study))
        self.known = [experiment.experiment_id] if experiment else []

    def has(self, run: str) -> bool:
        found = self.client.search_runs(self.known, f"tags.`{TAG}` = '{run}'") if self.known else []
        ended = [one for one in found if one.info.status in ("FINISHED", "FAILED")]
        for one in found if not ended else ():
            self.client.delete_run(one.info.run_id)
        return bool(ended)


class _Wandb:
    """Its server, or in offline mode the folders that `wandb sync` would send."""

    def __init__(self, logger: Logger) -> None:
        self.folder, self.offline = logger.folder / "wandb", os.environ.get("WANDB_MODE") == "offline"
        self.place = "/".join(filter(None, (os.environ.get("WANDB_ENTITY"), os.environ.get("WANDB_PROJECT", logger.study))))

    def has(self, run: str) -> bool:
        if not self.offline:
            import wandb

            try:
                return wandb.Api().run(f"{self.place}/{run}").state in ("finished", "failed", "crashed")
            except (ValueError, wandb.errors.CommError):  # there is none
                return False
        found = [*self.folder.glob(f"offline-run-*-{run}")]
        whole = (self.folder / f"{run}{SENT}").exists()
        for folder in found if not whole else ():
            shutil.rmtree(folder)
        return whole and bool(found)


class WandbRuns:
    """W&B's own, without the processes that Ray's logger begins for each run; a run's id there is ours."""

    def __init__(self, study: str, folder: Path) -> None:
        self.study, self.folder = study, folder
        self._runs: dict[Trial, Any] = {}

    def setup(self) -> None:
        """Do nothing: each run begins by itself."""

    def log_trial_start(self, trial: Trial) -> None:
        import wandb

        self._runs[trial] = wandb.init(
            project=os.environ.get("WANDB_PROJECT", self.study),
            group=self.study,
            name=str(trial),
            id=trial.run_id,
            config=trial.config,
            dir=str(self.folder),
            reinit="create_new",
            settings=wandb.Settings(silent=True),
        )

    def log_trial_result(self, epochs: int, trial: Trial, result: dict[str, float]) -> None:
        self._runs[trial].log(result)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        self._runs.pop(trial).finish(exit_code=int(failed))
        (self.folder / "wandb").mkdir(exist_ok=True)
        (self.folder / "wandb" / f"{trial.run_id}{SENT}").touch()

    def on_experiment_end(self, trials: Iterable[Trial]) -> None:
        """Do nothing: each run has ended."""
