"""One trial: from a config to its records, in whatever process it is called.

A run's folder is written by the worker that holds its lock, so that a killed driver loses nothing: what was finished
has its result, what was not goes on from its newest checkpoint.
"""

import io
import os
import socket
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recstudy.config import RunConfig
from recstudy.data.cache import load
from recstudy.errors import StorageError
from recstudy.records import Json, RunFolder, append_line, read_lines, write_json, write_whole
from recstudy.train.account import origin, spent
from recstudy.train.evaluate import Diverged
from recstudy.train.failures import failure_class
from recstudy.train.loop import Training
from recstudy.train.parallel import any_says, first_says, rank_and_world, wait_for_all
from recstudy.train.state import load_checkpoint, save_checkpoint, save_weights
from recstudy.train.watchdog import watched
from recstudy.train.workplace import beside, workplace

Report = Callable[[dict[str, Any]], None]

LOADING = 8  # times the silence allowed in training: decoding a set, or waiting for who does, gives no sign


@dataclass(frozen=True)
class Trial:
    """What a worker is given: plain values, so that they travel to any process."""

    study: str
    label: str
    config: Json
    run_id: str
    folder: str
    data: str
    download: bool
    scratch: str  # for what Ray Train itself writes; thrown away
    commit: str | None
    dirty: bool
    store: str = ""  # the URI of the results, where they are no folder

    @property
    def title(self) -> str:
        """What the process list and the Ray dashboard show."""
        return f"{self.study} {self.label} seed={self.config['seed']}"


def never() -> bool:
    return False


def run_trial(trial: Trial, report: Report, leave: Callable[[], bool] = never) -> Json:
    """Train one run to its result, or say why not: `{"status": "done" | "diverged" | "failed" | "drained", ...}`.

    Every worker of a group calls this; the first writes the records, and `report` gets each epoch's line. Once `leave`
    says so on any of them, the run ends after the epoch under way as `drained`, with a checkpoint to go on from elsewhere.
    """
    if rank_and_world()[0] != 0:
        if not first_says(False):
            return {"status": "done"}
        with beside(trial.folder, trial.store) as folder:
            return _fit(trial, folder, report, leave, write=False)
    try:
        with workplace(trial.folder, trial.store) as folder:
            return _attempt(trial, folder, report, leave)
    except StorageError as error:
        return _ended(error)


def _attempt(trial: Trial, folder: RunFolder, report: Report, leave: Callable[[], bool]) -> Json:
    """What the worker does that holds the run's lock."""
    try:
        folder.sweep()
        hung = "" if folder.finished else folder.take_hang()
        if not first_says(not folder.finished and not hung):  # another study, or an earlier driver, was faster
            return _hung(trial, folder, hung) if hung else {"status": "done"}
        attempt = {"started": now(), "host": socket.gethostname(), "process": os.getpid()}
        folder.begin(attempt | {"commit": trial.commit, "dirty": trial.dirty})
        write_json(folder.config, trial.config)
        folder.send()  # a worker that is killed early has tried, too
        return _fit(trial, folder, report, leave, write=True)
    except Exception as error:
        with suppress(StorageError):  # then the outcome alone tells
            if folder.path.exists():
                folder.fail({**_failure(error), "traceback": traceback.format_exc()})
        return _ended(error)


def _failure(error: Exception) -> Json:
    return {"class": failure_class(error), "error": f"{type(error).__name__}: {error}"}


def _ended(error: Exception) -> Json:
    if rank_and_world()[1] > 1:
        raise error  # the other workers wait for a message that will not come: let Train end the group
    return {"status": "failed", **_failure(error)}


def _hung(trial: Trial, folder: RunFolder, stack: str) -> Json:
    minutes = trial.config["place"]["silent_minutes"]
    failure = {"class": "hung", "error": f"no sign of life for {minutes:g} minutes (place.silent_minutes); it was stopped"}
    folder.fail({**failure, "traceback": stack})
    return {"status": "failed", **failure}


def _fit(trial: Trial, folder: RunFolder, report: Report, leave: Callable[[], bool], write: bool) -> Json:
    started = now()
    config = RunConfig.model_validate(trial.config)
    silence, log = 60 * config.place.silent_minutes, folder.hang_log(rank_and_world()[0])
    device = reset_process(config)
    with watched(LOADING * silence, log):
        data = load(config.data, Path(trial.data), download=trial.download, hold_out=config.train.selection == "validation")
        training = Training(config, data, device, compile=config.place.compiles)  # may compute features of every image
    with watched(silence, log):
        load_checkpoint(training, folder.path)
        if write:
            folder.keep_epochs(below=training.state.epoch)
        outcome = _outcome(training, folder, report, leave, write)
        if write:
            _record(training, trial, folder, outcome, started)
    wait_for_all()  # a worker that leaves early would end the group
    return {"status": outcome["status"], "score": outcome.get("metrics", {}).get(config.score)}


def _outcome(training: Training, folder: RunFolder, report: Report, leave: Callable[[], bool], write: bool) -> Json:
    try:
        if not _train(training, folder, report, leave, write):
            return {"status": "drained"}
        return {"status": "done", **training.finish()}
    except Diverged as error:
        return {"status": "diverged", "error": str(error), "metrics": {}}


def _train(training: Training, folder: RunFolder, report: Report, leave: Callable[[], bool], write: bool) -> bool:
    """Train the epochs that are left; False where the run was left before its end."""
    saved, epochs = time.monotonic(), training.config.train.epochs
    for line in training.epochs():
        if write:
            append_line(folder.losses, training.trace)
            append_line(folder.epochs, line)
        leaving = any_says(leave())
        if first_says(leaving or time.monotonic() - saved >= training.config.place.checkpoint_seconds):
            save_checkpoint(training, folder.path, write)
            folder.send()
            saved = time.monotonic()
        report(line | {"epochs_done": training.state.epoch, "epochs": epochs})
        if leaving:
            return False
    return True


def _record(training: Training, trial: Trial, folder: RunFolder, outcome: Json, started: str) -> None:
    """What an ended run leaves; the result is last, so that there is all of it or none."""
    if outcome["status"] == "drained":
        folder.drained({"ended": now()})
        return
    folder.wait_until_there()
    for name, content in training.kept.items():
        path = folder.path / name
        write_json(path, content) if path.suffix == ".json" else write_whole(path, _archive(content))
    if outcome["status"] == "done":
        save_weights(training.state.evaluated.state_dict(), folder.weights)  # finish() has loaded the selected ones
    dirty = any(line.get("dirty") for line in read_lines(folder.attempts))
    code = {"commit": trial.commit, "dirty": dirty, "commits": folder.commits}
    made = {"provenance": {**code, **origin(training), "started": started, "finished": now()}}
    folder.finish({**outcome, "cost": spent(training), "attempts": folder.tries, **made})
    folder.sweep()


def _archive(arrays: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def reset_process(config: RunConfig) -> torch.device:
    """Leave nothing of the trial before: threads, precision, cached GPU memory, compiled graphs."""
    torch.set_num_threads(config.place.cpus_per_run)
    torch.set_float32_matmul_precision("highest" if config.train.precision == "float32" else "high")
    torch.set_default_dtype(torch.float32)
    if config.place.compiles:
        torch.compiler.reset()
    if not config.place.gpus_per_run:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise RuntimeError("this run was given a GPU, but torch sees none on this node")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.device("cuda", torch.cuda.current_device())


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
