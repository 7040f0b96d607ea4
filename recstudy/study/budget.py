"""What a search may spend, and what it has spent: runs, hours, GPU hours."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from recstudy.errors import ConfigError
from recstudy.records import append_record
from recstudy.records.reading import read_trials
from recstudy.records.study_schema import Clock, ClockLine
from recstudy.study.design import MOST_RUNS

WRITTEN_S = 60.0  # least time between two totals in the log
UNITS = {"runs": "runs", "h": "hours", "gpuh": "GPU hours"}
BUDGET = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(runs?|min|h|gpuh)?\s*")


@dataclass(frozen=True)
class Budget:
    """How much a search may spend, fresh seeds for its best included: runs, hours that it takes, or hours of its GPUs.

    >>> Budget.parse("40gpuh")
    Budget(amount=40.0, unit='gpuh')
    """

    amount: float
    unit: Literal["runs", "h", "gpuh"]

    @classmethod
    def parse(cls, text: str) -> "Budget":
        match = BUDGET.fullmatch(text) if isinstance(text, str) else None
        if match is None or not float(match[1]):
            raise ConfigError(
                f"a budget is a number of runs, hours or GPU hours, such as 24, 90min, 2h or 40gpuh, but got {text!r}"
            )
        amount, unit = float(match[1]), match[2] or "runs"
        if unit == "min":
            return cls(amount / 60, "h")
        if unit.startswith("run") and (amount > MOST_RUNS or amount != int(amount)):
            raise ConfigError(f"a budget in runs is a whole number of {MOST_RUNS:,} at most, but got {text!r}")
        return cls(amount, "runs" if unit.startswith("run") else "h" if unit == "h" else "gpuh")

    def __str__(self) -> str:
        return f"{self.amount:g} {UNITS[self.unit]}" if self.amount != 1 else f"1 {UNITS[self.unit].removesuffix('s')}"


class Meter:
    """Hours that a search has run, and the GPU hours of its runs, over all of its sessions.

    A session's total so far is written every minute, so that a kill loses no more than that.

    Args:
        path: the trial log.
        gpus: how many a run holds.
        clock: monotonic seconds.
    """

    def __init__(self, path: Path, gpus: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.path, self.gpus, self.clock = path, gpus, clock
        self.session, self.began = datetime.now(UTC).isoformat(), clock()
        totals = {line.clock.session: line.clock for line in read_trials(path) if isinstance(line, ClockLine)}
        self.before = {"h": sum(one.h for one in totals.values()), "gpuh": sum(one.gpuh for one in totals.values())}
        self.written = self.began
        self.held = 0.0  # GPU seconds of runs that have ended
        self.since: dict[str, float] = {}  # running run -> when it began

    def started(self, run_id: str) -> None:
        self.since.setdefault(run_id, self.clock())

    def ended(self, run_id: str) -> None:
        self.held += self.gpus * (self.clock() - self.since.pop(run_id, self.clock()))

    def write(self) -> None:
        """Write the session's total so far to the log."""
        self.written = self.clock()
        append_record(self.path, ClockLine(clock=Clock(session=self.session, **self.now)))

    @property
    def now(self) -> dict[str, float]:
        """Return this session's hours and GPU hours so far."""
        running = sum(self.clock() - since for since in self.since.values())
        return {"h": (self.clock() - self.began) / 3600, "gpuh": (self.held + self.gpus * running) / 3600}

    def spent(self, unit: str) -> float:
        if self.clock() - self.written >= WRITTEN_S:
            self.write()
        return self.before[unit] + self.now[unit]
