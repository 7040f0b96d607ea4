"""Resets a reused worker process: the numbers of a run do not depend on what ran there before it."""

import gc
import os

import numpy as np
import torch
from torch.backends import cudnn

from recstudy.config import RunConfig
from recstudy.errors import ClusterError
from recstudy.files import cache_folder
from recstudy.programs import trial

_graphs = ""  # the network and batches that were compiled last


def reset_process(config: RunConfig) -> torch.device:
    """Leave nothing of the run before, and give the device of this one.

    Memory, generators, switches, threads and precision are reset; compiled graphs are kept for the same
    network on batches of the same shape alone, where they give the same numbers for a hundredth of the time.
    """
    global _graphs
    gc.collect()
    if config.resources.compiles:
        graphs = config.graph + config.resources.compile_mode
        # a CUDA graph holds its run's own weights
        if graphs != _graphs or config.resources.compile_mode != "default":
            torch.compiler.reset()  # torch compiles a function a few times at most, and then no more
            _graphs = graphs
        # of later commands too
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder() / "compiled"))
    trial.reset_process(draw(config.seed, "process"), config.resources.cpus)
    torch.use_deterministic_algorithms(False)
    torch.set_autocast_cache_enabled(True)
    cudnn.enabled, cudnn.benchmark, cudnn.deterministic = True, False, False
    torch.clear_autocast_cache()
    torch.set_float32_matmul_precision("highest" if config.train.precision == "float32" else "high")
    if config.resources.device == "mps":
        check_apple()
        torch.mps.empty_cache()
        return torch.device("mps")
    if not config.resources.gpus:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise RuntimeError("this run was given a GPU, but torch sees none on this node")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.device("cuda", torch.cuda.current_device())


def check_apple() -> None:
    """Refuse `resources.device` mps where it cannot be (ClusterError)."""
    if not torch.backends.mps.is_available():
        raise ClusterError(
            "resources.device is mps, but torch sees no Apple GPU on this machine. Choose auto, cpu or cuda."
        )


def peak_memory_mb(device: torch.device) -> float | None:
    """Return the most memory that was in use since `reset_process`: the GPU's, or the process's; None if
    nobody knows it.
    """
    return (
        torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else trial.peak_memory_mb()
    )


def draw(seed: int, *purpose: str | int) -> int:
    """Return a seed of its own for each purpose, far from those of neighbouring seeds."""
    words = [int.from_bytes(part.encode(), "little") if isinstance(part, str) else part for part in purpose]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1, np.uint64)[0] >> 1)
