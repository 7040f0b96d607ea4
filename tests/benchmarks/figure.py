"""A measured figure and its mark: how it is measured in a process of its own, printed and written down."""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from recstudy.records import Results, read_json, write_json

# Run by a process that is small itself, because Linux counts the memory of the process that starts a command as
# the command's own.
MEASURE_COMMAND = """
import json, os, subprocess, sys, time
began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
status, used = os.wait4(process.pid, 0)[1:]
print(json.dumps([time.perf_counter() - began, used.ru_maxrss * 1024 / 1e6, os.waitstatus_to_exitcode(status)]))
"""
PACKAGES = ("recstudy", "torch", "ray", "numpy", "pandas", "plotly")


@dataclass(frozen=True)
class Figure:
    """One figure: its median, every sample, and the mark it is held to, if any."""

    name: str
    unit: str
    samples: Sequence[float]
    maximum: float | None = None  # the mark: the median is at most this
    minimum: float | None = None  # or at least this
    note: str = ""

    @property
    def value(self) -> float:
        return median(self.samples)

    @property
    def meets_mark(self) -> bool | None:
        """Whether the median meets the mark; None where there is no mark."""
        if self.maximum is not None:
            return self.value <= self.maximum
        return None if self.minimum is None else self.value >= self.minimum

    @property
    def mark(self) -> str:
        if self.maximum is not None:
            return f"at most {number(self.maximum)}"
        return "" if self.minimum is None else f"at least {number(self.minimum)}"

    @property
    def spread(self) -> str:
        """From the smallest to the largest sample, and how many there are."""
        if len(self.samples) < 2:
            return ""
        return f"{number(min(self.samples))} to {number(max(self.samples))} ({len(self.samples)})"


def number(value: float) -> str:
    """Three digits that count: 1234, 56.7, 0.089."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def as_table(title: str, figures: Sequence[Figure]) -> Table:
    """Figure, mark and whether it is met."""
    table = Table(
        "figure", "median", "least to most", "mark", "met", "note", title=title, title_justify="left"
    )
    for figure in figures:
        met = {None: "", True: "yes", False: "NO"}[figure.meets_mark]
        value = f"{number(figure.value)} {figure.unit}"
        table.add_row(figure.name, value, figure.spread, figure.mark, met, figure.note)
    return table


def write_part(folder: Path, part: str, figures: Sequence[Figure], seconds: float) -> Path:
    """Put a part's figures into `bench/overhead.json` of a results folder; what other parts measured
    stays.
    """
    path = Results(folder).create().root / "bench" / "overhead.json"
    content, versions = read_json(path) or {}, {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    measured = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "hardware": hardware(),
        "versions": versions,
        "figures": [asdict(figure) | {"value": figure.value, "met": figure.meets_mark} for figure in figures],
    }
    write_json(path, content | {part: measured})
    return path


def hardware() -> dict[str, Any]:
    """The machine, and how busy it was when the figures were written."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    gpu = None
    with suppress(ImportError):
        import torch

        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "cpu": cpu[1] if cpu else platform.machine(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "gpu": gpu,
    }


def several(times: int, *arguments: str | Path) -> tuple[Sequence[float], Sequence[float]]:
    """Return the wall seconds and peak memories (MB) of `python ARGUMENT...`, imports included, run in turn."""
    command = [sys.executable, "-I", "-S", "-c", MEASURE_COMMAND, sys.executable, *arguments]
    seconds, memories = [], []
    for _ in range(times):
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
        duration, memory, code = json.loads(done.stdout)
        assert code == 0, f"exit code {code}: {arguments}"
        seconds.append(duration)
        memories.append(memory)
    return seconds, memories
