"""Orders to a study that is being run: to stop, to pause, to resume, or to try a failed run again; of all of it or of one run.

They are lines of `orders.jsonl` in the study's folder, which its driver looks at once a second. What was ordered before a driver
began holds no more, and stays as a record of who ordered what, and when.
"""

import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from recstudy.errors import ConfigError, StorageError
from recstudy.records.files import Log, whole_lines
from recstudy.records.locks import held
from recstudy.records.notes import plain
from recstudy.records.plans import read_plan
from recstudy.records.reading import append_record, parsed_line
from recstudy.records.results import Results
from recstudy.records.schema import now
from recstudy.records.study_schema import Order, OrderLine

FILE = "orders.jsonl"
POLL_S = 1.0
MOST, LONGEST = 10_000, 80  # orders of a study, and letters of a name
OF_A_RUN = ("retry",)


def give(results: Results, name: str, preset: str, order: Order, run: str = "", by: str = "") -> OrderLine:
    """Order something of a study that is being run, or of one of its runs; it is obeyed within seconds.

    Raises:
        ConfigError: no such study or run; it is not being run; or it is nothing that can be ordered of it.
        StorageError: it cannot be written.
    """
    folder = results.study(name, preset)
    plan = read_plan(folder)
    if plan is None:
        raise ConfigError(f"no study {plain(name)!r} with the preset {plain(preset)!r} in {results.root}")
    if run and all(one.id != run for one in plan.runs):
        raise ConfigError(f"{name} ({preset}) has no run {plain(run)!r}")
    if order in OF_A_RUN and (not run or plan.search is not None):
        raise ConfigError(f"{order} is ordered of a run of a study, and of no search and no whole study")
    if not held(folder / "lock"):
        raise ConfigError(f"{name} ({preset}) is not being run: nobody would obey. Its command, as recorded: {plan.command}")
    if len(whole_lines(folder / FILE)) >= MOST:
        raise ConfigError(f"{folder / FILE} has {MOST:,} orders: remove it, then order again")
    line = OrderLine(date=now(), order=order, run=run, by=plain(by)[:LONGEST])
    append_record(folder / FILE, line)
    return line


def given(folder: Path) -> list[OrderLine]:
    """Return what was ever ordered of the study in this folder, the last first; damaged lines are passed over."""
    found: list[OrderLine] = []
    with suppress(StorageError):
        for line in whole_lines(folder / FILE)[-MOST:]:
            with suppress(StorageError):
                found.insert(0, parsed_line(line, OrderLine, folder / FILE))
    return found


def words(line: OrderLine) -> str:
    """Say an order in a line."""
    of = f"run {plain(line.run)}" if line.run else "the study"
    return f"{plain(line.date)}: {line.order} {of}{f', by {plain(line.by)}' if line.by else ''}"


@dataclass
class Orders:
    """What holds for a driver, which began with this; nothing without a folder.

    `stopped` and `paused` are of the whole study, `runs` has `stop` or `pause` by a run's id.
    """

    folder: Path | None = None
    stopped: bool = False
    paused: bool = False
    runs: dict[str, str] = field(default_factory=dict)
    problem: str = ""  # why the orders cannot be read
    _asked: float = float("-inf")

    def __post_init__(self) -> None:
        self._log = Log(self.folder / FILE) if self.folder else None
        self._new()

    def poll(self) -> list[OrderLine]:
        """Take in what is new; nothing where it was asked for a moment ago."""
        if time.monotonic() - self._asked < POLL_S:
            return []
        new = self._new()
        for line in new:
            if not line.run:
                self.stopped, self.paused = self.stopped or line.order == "stop", line.order == "pause"
            elif line.order in ("stop", "pause"):
                self.runs[line.run] = line.order
            else:
                self.runs.pop(line.run, None)
        return new

    def of(self, run_id: str) -> str:
        """Return what a run is to do: `stop`, `pause`, or nothing of both."""
        return "stop" if self.stopped else self.runs.get(run_id) or ("pause" if self.paused else "")

    def _new(self) -> list[OrderLine]:
        self._asked, found = time.monotonic(), list[OrderLine]()
        if self._log is None:
            return found
        try:
            for line in self._log.whole():
                with suppress(StorageError):  # a damaged line orders nothing
                    found.append(parsed_line(line, OrderLine, self._log.path))
        except StorageError as error:  # a link, or too large
            self.problem = str(error)
        return found
