"""One trial: from a config to its records, in whatever process it is called.

A run's folder is written by the worker that holds its lock, so that a killed driver loses nothing: what was finished
has its result, what was not goes on from its newest checkpoint.
"""

import io
import os
import platform
import resource
import socket
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recstudy.config import RunConfig
from recstudy.data.cache import load
from recstudy.errors import DataError
from recstudy.metrics.cost import cost, steps_a_batch
from recstudy.metrics.task import SCORES
from recstudy.records import Json, RunFolder, append_line, locked, read_lines, write_json, write_whole
from recstudy.train.loop import Diverged, Training
from recstudy.train.parallel import first_says, rank_and_world, wait_for_all
from recstudy.train.state import load_checkpoint, save_checkpoint, save_weights

Report = Callable[[dict[str, Any]], None]


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

    @property
    def title(self) -> str:
        """What the process list and the Ray dashboard show."""
        return f"{self.study} {self.label} seed={self.config['seed']}"


def run_trial(trial: Trial, report: Report) -> Json:
    """Train one run to its result, or say why not: `{"status": "done" | "diverged" | "failed", ...}`.

    Every worker of a group calls this; the first writes the records, and `report` gets each epoch's line.
    """
    folder = RunFolder(Path(trial.folder))
    if rank_and_world()[0] != 0:
        return _fit(trial, folder, report, write=False) if first_says(False) else {"status": "done"}
    with locked(folder.path / "lock", f"process {os.getpid()} on {socket.gethostname()}", wait=True):
        folder.sweep()
        if not first_says(not folder.finished):  # another study, or an earlier driver, was faster
            return {"status": "done"}
        append_line(folder.attempts, {"started": now(), "host": socket.gethostname(), "process": os.getpid()})
        write_json(folder.config, trial.config)
        try:
            return _fit(trial, folder, report, write=True)
        except Exception as error:
            return _failed(error, folder)


def _failed(error: Exception, folder: RunFolder) -> Json:
    failure = {"class": _failure_class(error), "error": f"{type(error).__name__}: {error}"}
    attempts = len(read_lines(folder.attempts))
    write_json(folder.failure, {**failure, "traceback": traceback.format_exc(), "attempts": attempts})
    if rank_and_world()[1] > 1:
        raise error  # the other workers wait for a message that will not come: let Train end the group
    return {"status": "failed", **failure}


def _fit(trial: Trial, folder: RunFolder, report: Report, write: bool) -> Json:
    started = now()
    config = RunConfig.model_validate(trial.config)
    device = reset_process(config)
    data = load(config.data, Path(trial.data), download=trial.download, hold_out=config.train.selection == "validation")
    training = Training(config, data, device, compile=config.place.compiles)
    load_checkpoint(training, folder.path)
    if write:
        folder.keep_epochs(below=training.state.epoch)
    try:
        _train(training, folder, report, write)
        outcome: Json = {"status": "done", **(training.finish() if write else {})}
    except Diverged as error:
        outcome = {"status": "diverged", "error": str(error), "metrics": {}}
    if write:
        if training.mistakes:
            write_whole(folder.mistakes, _archive(training.mistakes))
        if outcome["status"] == "done":
            save_weights(training.state.evaluated.state_dict(), folder.weights)  # finish() has loaded the selected ones
        folder.finish(outcome | _account(training, trial, folder, started, data.checksum))
        folder.sweep()
    wait_for_all()  # a worker that leaves early would end the group
    return {"status": outcome["status"], "score": outcome.get("metrics", {}).get(SCORES[config.data.task])}


def _archive(arrays: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _train(training: Training, folder: RunFolder, report: Report, write: bool) -> None:
    saved = time.monotonic()
    for line in training.epochs():
        if write:
            append_line(folder.losses, training.trace)
            append_line(folder.epochs, line)
        if first_says(time.monotonic() - saved >= training.config.place.checkpoint_seconds):
            save_checkpoint(training, folder.path, write)
            saved = time.monotonic()
        report(line | {"epochs": training.config.train.epochs})


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


def _account(training: Training, trial: Trial, folder: RunFolder, started: str, checksum: str) -> Json:
    """What the run cost and where its numbers come from."""
    spent, config = training.state.spent, training.config
    counted = cost(config)
    step_gflops = counted.train_gflops / steps_a_batch(config)
    seconds = spent["seconds"]
    return {
        "cost": {
            **asdict(counted),
            "train_pflop": spent["image_steps"] * step_gflops / 1e6,
            "seconds": seconds,
            "device_seconds": seconds * rank_and_world()[1],
            "images_per_second": spent["images"] / seconds if seconds else 0.0,
            "peak_memory_mb": _peak_memory_mb(training.device),
            "epoch_seconds": spent["train_seconds"] / training.state.epoch if training.state.epoch else 0.0,
            "supervision_steps_used": spent["image_steps"] / spent["images"] if spent["images"] else 0.0,
        },
        "attempts": len(read_lines(folder.attempts)),
        "provenance": {
            "commit": trial.commit,
            "dirty": trial.dirty,
            "versions": {name: version(name) for name in ("recstudy", "torch", "torchvision", "ray", "numpy")},
            "hardware": hardware(training.device),
            "workers": rank_and_world()[1],
            "data_checksum": checksum,
            "data_notes": list(training.data.notes),
            "synthetic": config.data.synthetic,
            "started": started,
            "finished": now(),
        },
    }


def hardware(device: torch.device) -> Json:
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {"host": socket.gethostname(), "cpu": _cpu_name(), "cores": os.cpu_count(), "gpu": gpu}


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _peak_memory_mb(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10  # of the process, which may have run others before


def _failure_class(error: Exception) -> str:
    if isinstance(error, DataError):
        return "data"
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return "out of memory"
    return "code"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
