"""Track what a search may spend and has spent: runs, hours or GPU hours."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from recstudy.base.errors import ConfigError
from recstudy.records import append_record
from recstudy.records.reading import read_trials
from recstudy.records.study_schema import Clock, ClockLine
from recstudy.study.design import MOST_RUNS

# Least time between two totals in the log, so that a killed process loses at most one minute.
WRITTEN_S = 60.0
UNITS = {"runs": "runs", "h": "hours", "gpuh": "GPU hours"}
BUDGET = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(runs?|min|h|gpuh)?\s*")


@dataclass(frozen=True)
class Budget:
    """The maximum cost of a search, with the confirmation of its best trials: runs, hours or GPU hours.

    >>> Budget.parse("40gpuh")
    Budget(amount=40.0, unit='gpuh')
    """

    amount: float
    unit: str  # one of UNITS

    @classmethod
    def parse(cls, text: str) -> "Budget":
        match = BUDGET.fullmatch(text) if isinstance(text, str) else None
        if match is None or not float(match[1]):
            raise ConfigError(
                "a budget is a number of runs, hours or GPU hours, such as 24, 90min, 2h or 40gpuh, but got"
                f" {text!r}"
            )
        amount, unit = float(match[1]), match[2]
        if unit == "min":
            return cls(amount / 60, "h")
        if unit in ("h", "gpuh"):
            return cls(amount, unit)
        if amount > MOST_RUNS or amount != int(amount):
            raise ConfigError(
                f"a budget in runs is a whole number of {MOST_RUNS:,} at most, but got {text!r}"
            )
        return cls(amount, "runs")

    def __str__(self) -> str:
        unit = UNITS[self.unit]
        return f"{self.amount:g} {unit.removesuffix('s') if self.amount == 1 else unit}"


class Meter:
    """Counts the hours and GPU hours of a plan over all of its sessions.

    The total of a session is written every minute, so a killed process loses at most one minute.

    Args:
        path: The log where the hours are recorded.
        budget: The budget.
        clock: Returns monotonic seconds.

    Attributes:
        gpus: The number of GPUs of each run.
    """

    def __init__(self, path: Path, budget: Budget, clock: Callable[[], float] = time.monotonic) -> None:
        self.path, self.budget, self.clock, self.gpus = path, budget, clock, 0.0
        self.start()

    def start(self) -> None:
        """Start a session after those in the log."""
        self.session, self.start_time = datetime.now(UTC).isoformat(), self.clock()
        lines = [line for line in read_trials(self.path) if isinstance(line, ClockLine)]
        totals = {line.clock.session: line.clock for line in lines}
        # a budget in runs counts no hours
        self.earlier_hours = sum(getattr(total, self.budget.unit, 0.0) for total in totals.values())
        self.last_write = self.start_time
        self.gpu_seconds = 0.0  # of runs that have ended
        self.running: dict[str, float] = {}  # run id -> when the run began

    def start_run(self, run_id: str) -> None:
        self.running.setdefault(run_id, self.clock())

    def end_run(self, run_id: str) -> None:
        self.gpu_seconds += self.gpus * (self.clock() - self.running.pop(run_id, self.clock()))

    def write(self) -> None:
        """Write the total of this session to the log."""
        self.last_write = self.clock()
        append_record(self.path, ClockLine(clock=Clock(session=self.session, **self.session_totals)))

    @property
    def session_totals(self) -> dict[str, float]:
        """Return the hours and GPU hours of this session so far."""
        running = sum(self.clock() - start_time for start_time in self.running.values())
        return {
            "h": (self.clock() - self.start_time) / 3600,
            "gpuh": (self.gpu_seconds + self.gpus * running) / 3600,
        }

    @property
    def spent_hours(self) -> float:
        """Return the hours, or GPU hours, that all sessions have spent."""
        if self.clock() - self.last_write >= WRITTEN_S:
            self.write()
        return self.earlier_hours + self.session_totals[self.budget.unit]

    @property
    def is_spent(self) -> bool:
        """Return whether a budget in hours is spent. A budget in runs is checked before each run instead."""
        return self.budget.unit != "runs" and self.spent_hours >= self.budget.amount
