"""Reset a reused worker process, so that a run's numbers do not depend on the runs before it.

`recstudy.recursive.train.trial` calls `reset_process` before each run. `draw` gives the random seed of each
purpose.
"""

import gc
import os

import numpy as np
import torch
from torch.backends import cudnn

from recstudy.base.errors import ClusterError
from recstudy.base.files import cache_folder
from recstudy.programs import trial
from recstudy.recursive.config.run import RunConfig

_graphs = ""  # key of the network that was compiled last


def reset_process(config: RunConfig) -> torch.device:
    """Reset the process and return the device of the run.

    Memory, random generators, switches, threads and precision are reset. Compiled graphs are kept if the
    network and the batch shape are the same.

    Raises:
        ClusterError: The run needs an Apple GPU, and torch sees none.
        RuntimeError: The run has a GPU, and torch sees none.
    """
    global _graphs
    gc.collect()
    if config.resources.compiles:
        graphs = config.graph + config.resources.compile_mode
        # The same graphs give the same numbers for a hundredth of the compile time. A CUDA graph cannot be
        # kept: it holds the weights of its own run.
        if graphs != _graphs or config.resources.compile_mode == "reduce-overhead":
            torch.compiler.reset()  # torch stops compiling a function after a few compilations
            _graphs = graphs
        # Later commands use this folder too.
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
    """Raise a ClusterError if torch sees no Apple GPU."""
    if not torch.backends.mps.is_available():
        raise ClusterError(
            "resources.device is mps, but torch sees no Apple GPU on this machine. Choose auto, cpu or cuda."
        )


def peak_memory_mb(device: torch.device) -> float | None:
    """Return the peak memory since `reset_process` in MiB: the GPU's, or the process's; None if unknown."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return trial.peak_memory_mb()


def draw(seed: int, *purpose: str | int) -> int:
    """Return the random seed of one purpose of a run.

    Args:
        seed: The run's seed.
        *purpose: Words and numbers that name the purpose, such as "epoch" and its number.
    """
    # SeedSequence mixes its words, so neighbouring run seeds give unrelated streams.
    words = [int.from_bytes(part.encode(), "little") if isinstance(part, str) else part for part in purpose]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1, np.uint64)[0] >> 1)
