"""What a run uses of its machine over time: cores, memory, its GPU and that GPU's memory, a line in ten seconds.

A thread of the run's first worker writes them. Each line covers the seconds since the line before, so that a run that was resumed
has no gaps in its own time. Once there are `MOST` lines, two become one and the step doubles: a week takes as much as an hour.
"""

import ctypes
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from itertools import zip_longest
from pathlib import Path

import torch

from recstudy.errors import StorageError
from recstudy.records.files import whole_lines, write_whole
from recstudy.records.reading import adapter, append_record, parsed_line
from recstudy.records.schema import UsageLine, Values

STEP_S, MOST = 10.0, 500
LINE = adapter(UsageLine)
log = logging.getLogger(__name__)


@contextmanager
def usage_recorded(path: Path, device: torch.device, write: bool = True) -> Iterator["Usage"]:
    """Record into `path` what this process uses within the block; nothing where not `write`."""
    usage = Usage(path, device)
    if write:
        usage.start()
    try:
        yield usage
    finally:
        usage.stop()


class Usage:
    """The lines so far, of earlier attempts too.

    Args:
        path: the log.
        device: the run's.
        most: lines that are kept.
    """

    def __init__(self, path: Path, device: torch.device, most: int = MOST) -> None:
        self.path, self.device, self.most = path, device, most
        self.lines: list[UsageLine] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="usage", daemon=True)
        self._at, self._busy = time.perf_counter(), time.process_time()

    def start(self) -> None:
        """Begin; lines of before that are damaged are dropped."""
        try:
            found = whole_lines(self.path)
            for line in found:
                with suppress(StorageError):
                    self.lines.append(parsed_line(line, UsageLine, self.path))
            if len(self.lines) < len(found):
                self._write_all()
        except (OSError, StorageError) as error:
            self._give_up(error)
        else:
            self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def step(self) -> float:
        """Seconds between two lines: at least as many as the oldest stands for, which was joined most often."""
        return max(STEP_S, self.lines[0].seconds if self.lines else 0.0)

    @property
    def means(self) -> Values:
        """Return cores and percent of the GPU in use, as means over the run's time, as far as they are known."""
        named = {"cores_used": [(line.cores, line.seconds) for line in self.lines]}
        named["gpu_use"] = [(line.gpu, line.seconds) for line in self.lines if line.gpu is not None]
        return {name: _mean(values) for name, values in named.items() if values}

    def tick(self) -> None:
        """Write what was used since the last line."""
        now, busy = time.perf_counter(), time.process_time()
        seconds, cores = now - self._at, (busy - self._busy) / max(now - self._at, 1e-9)
        self._at, self._busy = now, busy
        cuda = self.device.type == "cuda"
        line = UsageLine(
            seconds=round(seconds, 3),
            cores=round(cores, 2),
            memory_mb=_resident_mb(),
            gpu=gpu_use(self.device.index or 0) if cuda else None,
            gpu_memory_mb=round(torch.cuda.memory_reserved(self.device) / 2**20, 1) if cuda else None,
        )
        self.lines.append(line)
        if len(self.lines) > self.most:
            self.lines = [_joined(*two) for two in zip_longest(self.lines[::2], self.lines[1::2])]
            self._write_all()
        else:
            append_record(self.path, line)

    def _work(self) -> None:
        while not self._ended.wait(self.step):
            try:
                self.tick()
            except (OSError, StorageError) as error:
                self._give_up(error)
                return

    def _give_up(self, error: Exception) -> None:
        """Warn: the run needs none of it, and its own records say what is wrong."""
        log.warning("what the run uses is recorded no further: %s", error)

    def _write_all(self) -> None:
        write_whole(self.path, b"".join(LINE.dump_json(line, exclude_none=True) + b"\n" for line in self.lines))


def _joined(one: UsageLine, two: UsageLine | None) -> UsageLine:
    """Return two lines as one: means of what is in use, and the larger of what is held."""
    if two is None:
        return one
    weights = one.seconds, two.seconds
    gpus = [(line.gpu, line.seconds) for line in (one, two) if line.gpu is not None]
    return replace(
        one,
        seconds=round(sum(weights), 3),
        cores=_mean(list(zip((one.cores, two.cores), weights, strict=True))),
        memory_mb=max(one.memory_mb or 0.0, two.memory_mb or 0.0) or None,
        gpu=_mean(gpus) if gpus else None,
        gpu_memory_mb=max(one.gpu_memory_mb or 0.0, two.gpu_memory_mb or 0.0) or None,
    )


def _mean(values: list[tuple[float, float]]) -> float:
    """Return the mean of values by their weights."""
    return round(sum(value * weight for value, weight in values) / (sum(weight for _, weight in values) or 1.0), 3)


def _resident_mb() -> float | None:
    """Return the memory that this process holds; None where /proc does not say."""
    with suppress(OSError), open("/proc/self/statm", encoding="utf-8") as file:
        return round(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)
    return None


class _Rates(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]  # nvmlUtilization_t


def gpu_use(index: int) -> float | None:
    """Return in how many percent of the last second or less this GPU computed, for whomever; None where NVML does not say."""
    library, handle, rates = *_nvml(index), _Rates()
    known = library is not None and library.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates)) == 0
    return float(rates.gpu) if known else None


@cache
def _nvml(index: int) -> tuple[ctypes.CDLL | None, ctypes.c_void_p]:
    """Return the driver's own library, loaded once, and what it calls the GPU; it needs no package of Python's."""
    handle = ctypes.c_void_p()
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None, handle
    name = f"GPU-{torch.cuda.get_device_properties(index).uuid}".encode()
    known = library.nvmlInit_v2() == 0 and library.nvmlDeviceGetHandleByUUID(name, ctypes.byref(handle)) == 0
    return (library if known else None), handle
