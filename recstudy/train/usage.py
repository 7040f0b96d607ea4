"""What a run uses of its machine: the mean number of cores of its process and the mean and peak use of its
GPU.

The first worker of a run measures it over its attempt. The peak of memory is
`recstudy.train.process.peak_memory_mb`.
"""

import ctypes
import threading
import time
from functools import cache
from typing import Self

import torch

from recstudy.records.schema import Values

STEP_S = 10.0  # seconds between two samples of the GPU; a shorter run has no means


class Usage:
    """Means and peaks so far of what this process uses within the block.

    Args:
        device: The run's device.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.gpu: list[float] = []  # percent; one sample each `STEP_S`
        self._start, self._busy = time.perf_counter(), time.process_time()
        self._ended = threading.Event()

    @property
    def values(self) -> Values:
        """Return `cores_used`, `gpu_use` and `gpu_use_peak` (percent), as far as they are known."""
        seconds = time.perf_counter() - self._start
        if seconds < STEP_S:
            return {}
        values: Values = {"cores_used": round((time.process_time() - self._busy) / seconds, 3)}
        if self.gpu:
            values |= {"gpu_use": round(sum(self.gpu) / len(self.gpu), 3), "gpu_use_peak": max(self.gpu)}
        return values

    def sample(self) -> None:
        """Sample the GPU's use until the run ends or NVML does not answer."""
        while not self._ended.wait(STEP_S):
            use = gpu_use(self.device.index or 0)
            if use is None:
                return
            self.gpu.append(use)

    def __enter__(self) -> Self:
        if self.device.type == "cuda":
            threading.Thread(target=self.sample, name="usage", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()


class _Rates(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]  # nvmlUtilization_t


def gpu_use(index: int) -> float | None:
    """Return the percent of the last second in which this GPU computed, for any process; None if NVML does
    not answer.
    """
    library, handle, rates = *_nvml(index), _Rates()
    known = library is not None and library.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates)) == 0
    return float(rates.gpu) if known else None


@cache
def _nvml(index: int) -> tuple[ctypes.CDLL | None, ctypes.c_void_p]:
    """Return the driver's own library, loaded once, and its handle of the GPU; this needs no Python
    package.
    """
    handle = ctypes.c_void_p()
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None, handle
    name = f"GPU-{torch.cuda.get_device_properties(index).uuid}".encode()
    known = library.nvmlInit_v2() == 0 and library.nvmlDeviceGetHandleByUUID(name, ctypes.byref(handle)) == 0
    return (library if known else None), handle
