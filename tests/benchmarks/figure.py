"""A measured figure and its mark: what a part of the benchmark hands back, how it is printed and how it is
written down.
"""

import os
import platform
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

    def as_json(self) -> dict[str, Any]:
        """Return the fields of overhead.json; "most" and "least" are the mark."""
        fields = asdict(self)
        fields |= {"most": fields.pop("maximum"), "least": fields.pop("minimum")}
        return fields | {"value": self.value, "met": self.meets_mark}

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
    table = Table("figure", title=title, title_justify="left")
    for name in ("median", "least to most", "mark", "met"):
        table.add_column(name, justify="right")
    table.add_column("note")
    for figure in figures:
        mark_text = {None: "", True: "yes", False: "NO"}[figure.meets_mark]
        table.add_row(
            figure.name,
            f"{number(figure.value)} {figure.unit}",
            figure.spread,
            figure.mark,
            mark_text,
            figure.note,
        )
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
        "figures": [figure.as_json() for figure in figures],
    }
    write_json(path, content | {part: measured})
    return path


def hardware() -> dict[str, Any]:
    """The machine, and how busy it was when the figures were written."""
    cpus = [
        line
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    machine = {
        "cpu": cpus[0].split(":", 1)[1].strip() if cpus else platform.machine(),
        "cores": os.cpu_count(),
    }
    gpu = None
    with suppress(ImportError):
        import torch

        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return machine | {"load_average": os.getloadavg()[0], "gpu": gpu}
