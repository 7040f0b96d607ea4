"""What a run cost and what made its numbers: the part of a result that stands beside the metrics."""

import os
import platform
import socket
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from recstudy.models.costs import cost, steps_a_batch
from recstudy.records import Json
from recstudy.train.loop import Training
from recstudy.train.parallel import rank_and_world
from recstudy.train.process import peak_memory_mb


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
    """Versions, hardware, workers and data."""
    return {
        "versions": {name: _version(name) for name in ("recstudy", "torch", "torchvision", "ray", "numpy")},
        "hardware": hardware(training.device),
        "workers": rank_and_world()[1],
        "data_checksum": training.data.checksum,
        "data_notes": list(training.data.notes),
        "synthetic": training.config.data.synthetic,
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "sent along by the driver"  # on a node of a cluster that has the packages alone


def hardware(device: torch.device) -> Json:
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {"host": socket.gethostname(), "cpu": _cpu_name(), "cores": os.cpu_count(), "gpu": gpu}


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
