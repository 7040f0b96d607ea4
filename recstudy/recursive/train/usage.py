"""Measure the utilisation of a run's machine: the mean number of CPU cores, and mean and peak use of its GPU.

The first worker of a run measures them during its attempt. `recstudy.recursive.train.process.peak_memory_mb`
measures the peak memory.
"""

import ctypes
import threading
import time
from functools import cache
from typing import Self

import torch

from recstudy.records.schema import Values

STEP_S = 10.0  # seconds between two samples of the GPU; a shorter run has no mean values


class Usage:
    """Mean and peak utilisation of this process within the block.

    Args:
        device: The run's device.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.gpu: list[float] = []  # percent; one sample every `STEP_S` seconds
        self._start, self._start_cpu = time.perf_counter(), time.process_time()
        self._stopped = threading.Event()

    @property
    def values(self) -> Values:
        """The known values of `cores_used`, `gpu_use` (percent) and `gpu_use_peak` (percent)."""
        seconds = time.perf_counter() - self._start
        if seconds < STEP_S:
            return {}
        values: Values = {"cores_used": round((time.process_time() - self._start_cpu) / seconds, 3)}
        if self.gpu:
            values |= {"gpu_use": round(sum(self.gpu) / len(self.gpu), 3), "gpu_use_peak": max(self.gpu)}
        return values

    def sample(self) -> None:
        """Sample the use of the GPU until the block ends or NVML gives no value."""
        while not self._stopped.wait(STEP_S):
            use = gpu_use(self.device.index or 0)
            if use is None:
                return
            self.gpu.append(use)

    def __enter__(self) -> Self:
        if self.device.type == "cuda":
            threading.Thread(target=self.sample, name="usage", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()


class _Rates(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]  # nvmlUtilization_t


def gpu_use(index: int) -> float | None:
    """Return the percentage of the last second in which a GPU was busy, with any process; None if unknown."""
    library, handle, rates = *_nvml(index), _Rates()
    is_known = library is not None and library.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates)) == 0
    return float(rates.gpu) if is_known else None


@cache
def _nvml(index: int) -> tuple[ctypes.CDLL | None, ctypes.c_void_p]:
    """Return NVML and its handle of a GPU; None in place of NVML if it cannot be used."""
    # The driver's own library is loaded through ctypes, so no Python package is needed.
    handle = ctypes.c_void_p()
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None, handle
    name = f"GPU-{torch.cuda.get_device_properties(index).uuid}".encode()
    is_known = (
        library.nvmlInit_v2() == 0 and library.nvmlDeviceGetHandleByUUID(name, ctypes.byref(handle)) == 0
    )
    return (library if is_known else None), handle
