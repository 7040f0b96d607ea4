"""One trial: from a config to its records, in whatever process it is called.

A run's folder is written by the worker that holds its lock, so that a killed driver loses nothing: what was finished
has its result, what was not goes on from its newest checkpoint.
"""

import errno
import io
import logging
import os
import platform
import socket
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recstudy.config import RunConfig
from recstudy.data.cache import load
from recstudy.errors import DataError, StorageError
from recstudy.models.costs import cost, steps_a_batch
from recstudy.plugins import Bundle, import_all, use
from recstudy.records import Attempt, Failure, Json, Result, Results, RunFolder, append_line, read_log, write_json, write_whole
from recstudy.records.locks import Held
from recstudy.records.reading import dumped, record_of
from recstudy.records.schema import Initial, now
from recstudy.train.evaluate import Diverged
from recstudy.train.initial import initial
from recstudy.train.loop import Training
from recstudy.train.parallel import any_says, first_says, rank_and_world, wait_for_all
from recstudy.train.process import peak_memory_mb, reset_process
from recstudy.train.run_folder import beside, locked_run_folder
from recstudy.train.state import load_checkpoint, save_checkpoint, save_weights
from recstudy.train.usage import Usage
from recstudy.train.watchdog import waiting, watched
from recstudy.train.work import Report, Trial, failed

log = logging.getLogger(__name__)

LOADING = 8  # times the silence allowed in training: fetching records, or decoding a set or waiting for who does, gives no sign


def never() -> bool:
    return False


def run_trial(trial: Trial, report: Report, leave: Callable[[], bool] = never) -> Json:
    """Train one run to its result, or say why not: `{"status": "done" | "diverged" | "failed" | "drained" | "held", ...}`.

    Every worker of a group calls this; the first writes the records, and `report` gets each epoch's line. Once `leave`
    says so on any of them, the run ends after the epoch under way as `drained`, with a checkpoint to go on from elsewhere.
    Nothing is waited for: a run that another process works on is `held`.
    """
    rank, world = rank_and_world()  # asked now: Train takes the group of workers apart as soon as one of them is lost
    loading = LOADING * 60 * trial.config["place"]["silent_minutes"]
    if rank > 0:
        if not first_says(False):
            return {"status": "done"}
        with beside(trial.folder, trial.store) as folder, watched(loading, folder.hang_log(rank)):
            return _fit(trial, folder, report, leave, write=False)
    try:
        with locked_run_folder(trial.folder, trial.store, wait=False) as folder, watched(loading, folder.hang_log(0)):
            return _attempt(trial, folder, report, leave, alone=world == 1)
    except Held as held:
        first_says(False)
        return {"status": "held", "by": held.holder}
    except StorageError as error:
        return _ended(error, world == 1)


def _attempt(trial: Trial, folder: RunFolder, report: Report, leave: Callable[[], bool], alone: bool) -> Json:
    """Return what the worker does that holds the run's lock."""
    try:
        folder.sweep()
        hung = "" if folder.finished else folder.take_hang()
        if not first_says(not folder.finished and not hung):  # another study, or an earlier driver, was faster
            if not hung:
                return {"status": "done"}
            minutes = trial.config["place"]["silent_minutes"]
            error = f"no sign of life for {minutes:g} minutes (place.silent_minutes); it was stopped"
            folder.fail(failure := Failure(error_class="hung", error=error, traceback=hung))
            return failed(failure)
        host, process = socket.gethostname(), os.getpid()
        begun = Attempt(started=now(), host=host, process=process, commit=trial.commit, dirty=trial.dirty)
        folder.begin(replace(begun, recstudy=trial.recstudy))
        write_json(folder.config, trial.config)
        folder.send()  # a worker that is killed early has tried, too
        return _fit(trial, folder, report, leave, write=True)
    except Exception as error:
        with suppress(StorageError):  # then the outcome alone tells
            if folder.path.exists():
                folder.fail(replace(_failure(error), traceback=traceback.format_exc()))
        return _ended(error, alone)


def _failure(error: Exception) -> Failure:
    return Failure(error_class=failure_class(error), error=f"{type(error).__name__}: {error}")


def _ended(error: Exception, alone: bool) -> Json:
    if not alone:
        raise error  # the other workers wait for a message that will not come: let Train end the group
    return failed(_failure(error))


def _fit(trial: Trial, folder: RunFolder, report: Report, leave: Callable[[], bool], write: bool) -> Json:
    started = now()
    use(Bundle(**trial.plugins))
    import_all()
    config = RunConfig.model_validate(trial.config).drawn
    device = reset_process(config)
    data = load(config.data, Path(trial.data), download=trial.download, hold_out=config.train.selection == "validation")
    begin = initial(config, Results(trial.store or Path(trial.folder).parents[1]))
    training = Training(config, data, device, config.place.compiles, begin)  # may compute features of every image
    with watched(60 * config.place.silent_minutes, folder.hang_log(rank_and_world()[0])):
        load_checkpoint(training, folder.path)
        if write:
            folder.keep_epochs(below=training.state.epoch)
            if lost := folder.lost_epochs(training.state.epoch):
                told = "the run goes on without these lines, and its curves lack them"
                log.warning("%s is damaged: %d of %d epochs are lost; %s", folder.epochs, lost, training.state.epoch, told)
            before = folder.user_files if training.state.epoch else {}
            if before or trial.files:  # both versions of a file count if the run resumes after the file changed
                versions = {path: dict.fromkeys([*before.get(path, "").split(), sha]) for path, sha in trial.files.items()}
                write_json(folder.files, before | {path: " ".join(digests) for path, digests in versions.items()})
        with Usage(device) as usage:
            outcome = _outcome(training, folder, report, leave, write)
        if write:
            _record(
                training, trial, folder, outcome, {**spent(training), **usage.values}, started, begin.about if begin else None
            )
    wait_for_all()  # a worker that leaves early would end the group
    return {"status": outcome["status"], "score": outcome.get("metrics", {}).get(config.score)}


def _outcome(training: Training, folder: RunFolder, report: Report, leave: Callable[[], bool], write: bool) -> Json:
    try:
        if not _train(training, folder, report, leave, write):
            return {"status": "drained"}
        return {"status": "done", **training.finish()}
    except Diverged as error:
        if write and training.trace.get("epoch") == training.state.epoch:
            append_line(folder.losses, training.trace)  # of the epoch that it did not finish
        return {"status": "diverged", "error": str(error), "metrics": {}}


def _train(training: Training, folder: RunFolder, report: Report, leave: Callable[[], bool], write: bool) -> bool:
    """Train the epochs that are left; False where the run was left before its end."""
    saved, epochs = time.monotonic(), training.config.train.epochs
    for line in training.epochs():
        if write:
            append_line(folder.losses, training.trace)
            append_line(folder.epochs, line)
        leaving = any_says(bool(leave()))
        if first_says(leaving or time.monotonic() - saved >= training.config.place.checkpoint_seconds):
            save_checkpoint(training, folder.path, write)
            folder.send()
            saved = time.monotonic()
        with waiting():  # for a driver that may be busy, or stopped, and then goes on
            report(line | {"epochs_done": training.state.epoch, "epochs": epochs})
        if leaving:
            return False
    return True


def _record(
    training: Training, trial: Trial, folder: RunFolder, outcome: Json, cost: Json, started: str, begin: Initial | None
) -> None:
    """Write what an ended run leaves; the result is last, so that there is all of it or none."""
    if outcome["status"] == "drained":
        folder.drained(now())
        return
    folder.wait_until_there()
    for name, content in training.kept.items():
        path = folder.path / name
        if path.suffix == ".json":
            write_json(path, content)
        else:
            write_whole(path, content if isinstance(content, bytes) else _archive(content))
    if outcome["status"] == "done":
        save_weights(training.state.evaluated.state_dict(), folder.weights)  # finish() has loaded the selected ones
    dirty = any(line.dirty for line in read_log(folder.attempts, Attempt))
    commits = {"commit": trial.commit, "dirty": dirty, "commits": folder.told("commit")}
    commits["recstudy"] = ", then ".join(folder.told("recstudy"))
    kept = {"earlier": folder.earlier, "lost_epochs": folder.lost_epochs(training.state.epoch)}
    from_where = {"initial": dumped(begin)} if begin else {}
    dates = {"started": started, "finished": now()}
    provenance = {**commits, "files": folder.user_files, **kept, **from_where, **origin(training), **dates}
    told = {"cost": cost, "attempts": folder.tries, "provenance": provenance}
    folder.finish(record_of(Result, {**outcome, **told}))
    folder.sweep()


def _archive(arrays: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)

# How torch says it on a CPU (a plain RuntimeError), and CUDA where the allocator is not the one to notice.
NO_MEMORY = ("DefaultCPUAllocator", "not enough memory", "can't allocate memory", "CUDA error: out of memory")


def failure_class(error: BaseException) -> str:
    """Return the class of an exception that ended a run."""
    if isinstance(error, DataError):
        return "data"
    if isinstance(error, StorageError) or (isinstance(error, OSError) and error.errno in STORAGE):
        return "storage"
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return "out of memory"
    if isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY):
        return "out of memory"
    return "code"


def spent(training: Training) -> Json:
    """Parameters and FLOPs as computed; seconds, throughput and memory as measured, over all attempts."""
    used, config, state = training.state.spent, training.config, training.state
    counted, seconds = cost(config), training.state.spent["seconds"]
    return {
        **asdict(counted),
        "train_pflop": used["image_steps"] * counted.train_gflops / steps_a_batch(config) / 1e6,
        "seconds": seconds,
        "evaluation_seconds": used.get("evaluation_seconds", 0.0),  # a checkpoint of before it was kept has none
        "device_seconds": seconds * rank_and_world()[1],
        "images_per_second": used["images"] / seconds if seconds else 0.0,
        "peak_memory_mb": peak_memory_mb(training.device),
        "epoch_seconds": used["train_seconds"] / state.epoch if state.epoch else 0.0,
        "supervision_steps_used": used["image_steps"] / used["images"] if used["images"] else 0.0,
    }


def origin(training: Training) -> Json:
    """Versions, hardware, workers, data, and whether anything was trained."""
    return {
        "versions": {name: _version(name) for name in ("recstudy", "torch", "torchvision", "ray", "numpy")},
        "hardware": hardware(training.device),
        "workers": rank_and_world()[1],
        "threads": torch.get_num_threads(),
        "data_checksum": training.data.checksum,
        "data_notes": list(training.data.notes),
        "synthetic": training.config.data.synthetic,
        "origin": "imported" if training.config.train.imported else "trained",
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "sent along by the driver"  # on a node of a cluster that has the packages alone


def hardware(device: torch.device) -> Json:
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else "Apple (MPS)" if device.type == "mps" else None
    return {"host": socket.gethostname(), "cpu": _cpu_name(), "cores": os.cpu_count(), "gpu": gpu}


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
