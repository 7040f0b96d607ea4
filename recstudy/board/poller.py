"""A results folder as it changes: each poll reads what is new, and nothing outside the folder.

A run's folder changes its time of change whenever a file in it is made, replaced or removed, so one `stat` a run says
whether to read it again; only its logs grow without that, and those are looked at while the run is not finished. A plan is
read again when one of its files has changed. Links are never followed: a run or a study with one in its folder is refused.
Of results on an object store, the copy on this machine is fetched again while somebody looks.
"""

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from stat import S_ISDIR

from recstudy.analysis.rows import Outcome, outcome_of
from recstudy.analysis.status import is_running
from recstudy.errors import StorageError
from recstudy.records import EpochLine, Failure, PlanRecord, Results, RunFolder
from recstudy.records.files import Log
from recstudy.records.plans import read_plan
from recstudy.records.reading import parsed_line

FRESH_S = 2.0  # a folder that changed this short ago may change again within the same tick of its clock
LATELY_S = 30.0  # between one run's end and the next one's beginning fewer run at once than there is room for
FETCH_S = 5.0  # between two fetches from a store
FETCH_REST = 3.0  # or this often as long as the last fetch took: a store lists 1,000 objects at a time
NOT_RUN = Outcome()
REFUSED = "holds a link, or is one. The board follows none, because it reads nothing outside the results folder."
NO_PLAN = PlanRecord(study="", preset="", base={}, variants=(), seeds=(), runs=(), report=())
StudyKey = tuple[str, str]  # name and preset
log = logging.getLogger(__name__)


@dataclass
class PlannedStudy:
    """A study's plan, or why it cannot be shown. `named`: run id -> (variant, seed), as the plan names it first."""

    version: int  # of the poll that read it
    stamp: tuple[tuple[str, int, int], ...]
    plan: PlanRecord = field(default=NO_PLAN, repr=False)
    error: str = ""
    named: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)


@dataclass
class EpochLog:
    """The lines of `epochs.jsonl` by their epoch, read as they come: of one that stands there twice, the last."""

    log: Log
    lines: dict[int, EpochLine] = field(default_factory=dict)

    def poll(self) -> None:
        """Read what is new."""
        with suppress(OSError, StorageError):  # the next poll finds it, or that it is gone
            found = self.log.whole()  # too large, or a link: the run is refused, or says so where it is drawn
            if self.log.begun:
                self.lines = {}
            for line in found:
                with suppress(StorageError):  # a figure that reads the log says what is damaged
                    read = parsed_line(line, EpochLine, self.log.path)
                    self.lines[read.epoch] = read


@dataclass
class PolledRun:
    """A run's folder: what it says, and the log of one that is not finished."""

    outcome: Outcome
    version: int  # of the poll that read it
    stamp: int = -1
    noticed: float = 0.0  # by this machine's monotonic clock: when a poll first saw this stamp,
    read: float = 0.0  # and when one last read the folder
    log: EpochLog | None = None

    @property
    def offset(self) -> int:
        """How far its log was read."""
        return self.log.log.offset if self.log else 0


class PolledResults(Results):
    """The same folder for the report's functions, which open only runs that were polled and not refused."""

    def __init__(self, root: Path, known: dict[str, PolledRun]) -> None:
        super().__init__(root)
        self.known, self.nobody = known, uuid.uuid4().hex  # no run has this id

    def run(self, run_id: str) -> RunFolder:
        seen = self.known.get(run_id)
        return super().run(run_id if seen is not None and seen.stamp >= 0 else self.nobody)


class ResultsPoller:
    """What is known of the folder. `version` counts the polls that found something new.

    Args:
        root: the results folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.runs: dict[str, PolledRun] = {}
        self.studies: dict[StudyKey, PlannedStudy] = {}
        self.running: dict[str, PolledRun] = {}
        self.lately: dict[float, frozenset[str]] = {}  # by the time of a poll: the runs that were under way then
        self.version = 0
        self.looked = -inf  # when the last poll began
        self.expected = 0  # runs in the folder, for a first poll that takes its time
        self.results = PolledResults(self.root, self.runs)

    def poll(self) -> None:
        """Read what has changed since the last poll."""
        version, self.looked = self.version + 1, time.monotonic()
        found: dict[StudyKey, PlannedStudy] = {}
        for name in _folders(self.root / "studies"):
            for preset in [name] if name.is_symlink() else _folders(name.path):
                planned = _planned(preset, self.studies.get((name.name, preset.name)), version)
                if planned is not None:
                    found[name.name, preset.name] = planned
        self.studies = dict(sorted(found.items()))
        new = any(planned.version == version for planned in self.studies.values())
        folders = list(_folders(self.root / "runs"))
        self.expected = len(folders)
        for folder in folders:
            new = self._run(folder, version) or new
        for gone in self.runs.keys() - {folder.name for folder in folders}:
            del self.runs[gone]
            new = True
        now = time.monotonic()
        clock = time.time()
        self.running = {
            run_id: seen
            for run_id, seen in self.runs.items()
            if seen.log is not None and is_running(self.results.run(run_id), clock)
        }
        self.lately = {at: ids for at, ids in self.lately.items() if now - at < LATELY_S} | {now: frozenset(self.running)}
        self.version += new

    def outcome(self, run_id: str) -> Outcome:
        seen = self.runs.get(run_id)
        return NOT_RUN if seen is None else seen.outcome

    def studies_of(self, run_id: str) -> list[StudyKey]:
        """Return the studies that name this run."""
        return [study for study, planned in self.studies.items() if run_id in planned.named]

    def live(self, planned: PlannedStudy | None = None) -> tuple[tuple[str, int], ...]:
        """Return the runs under way, of all studies or of one, and how far their logs were read: other where one has gone on."""
        ids = self.running if planned is None else self.running.keys() & planned.named
        return tuple((run_id, self.running[run_id].offset) for run_id in self.running if run_id in ids)

    def _run(self, folder: os.DirEntry[str], version: int) -> bool:
        """Read a run's folder where it has changed; tell whether what it says has."""
        found, seen, now = folder.stat(follow_symlinks=False), self.runs.get(folder.name), self.looked
        changed = seen is None or seen.stamp != found.st_mtime_ns
        if seen is None or changed or (seen.log is not None and seen.read - seen.noticed < FRESH_S):
            before, seen = seen, self._read(folder, found, version, seen)
            seen.noticed, seen.read = now if before is None or changed else before.noticed, now
            if before is not None and before.outcome == seen.outcome:
                seen.version = before.version  # one that says the same as before is as old as it
            self.runs[folder.name] = seen
        if seen.log is not None:
            seen.log.poll()
        return seen.version == version

    def _read(self, folder: os.DirEntry[str], found: os.stat_result, version: int, before: PolledRun | None) -> PolledRun:
        path = Path(folder.path)
        if not S_ISDIR(found.st_mode) or any(entry.is_symlink() for entry in list(os.scandir(path))):
            failure = Failure(error_class="refused", error=f"runs/{folder.name} {REFUSED}")
            return PolledRun(Outcome(status="failed", failure=failure), version)
        self.runs.setdefault(folder.name, PolledRun(NOT_RUN, version)).stamp = found.st_mtime_ns  # now `results` opens it
        log = before.log if before and before.log else EpochLog(Log(path / "epochs.jsonl"))
        outcome = outcome_of(self.results, folder.name)
        going = None if (path / "result.json").exists() else log
        return PolledRun(outcome, version, found.st_mtime_ns, log=going)


def _folders(path: Path | str) -> Iterator[os.DirEntry[str]]:
    """Return the folders and links in a folder, which is no link; stray and hidden files are nobody's."""
    if Path(path).is_dir() and not Path(path).is_symlink():
        found = (entry for entry in os.scandir(path) if not entry.name.startswith("."))
        yield from (entry for entry in found if entry.is_symlink() or entry.is_dir())


def _planned(folder: os.DirEntry[str], before: PlannedStudy | None, version: int) -> PlannedStudy | None:
    """Read the plan in this folder, where one of its files has changed; one that is as `before` is the same object."""
    if folder.is_symlink():
        return before if before and not before.stamp else PlannedStudy(version, (), error=f"studies/{folder.name} {REFUSED}")
    if not folder.is_dir():
        return None
    files = list(os.scandir(folder.path))
    read = [file for file in files if file.name.endswith((".json", ".jsonl"))]
    found = [(file.name, file.stat(follow_symlinks=False)) for file in read]
    stamp = tuple(sorted((name, stat.st_mtime_ns, stat.st_size) for name, stat in found))
    if before is not None and before.stamp == stamp:
        return before
    if any(file.is_symlink() for file in files):
        return PlannedStudy(version, stamp, error=f"{'/'.join(Path(folder.path).parts[-3:])} {REFUSED}")
    try:
        plan = read_plan(Path(folder.path))
    except StorageError as damage:
        return PlannedStudy(version, stamp, error=str(damage))
    if plan is None:
        return None
    return PlannedStudy(version, stamp, plan, named={run.id: (run.variant, run.seed) for run in reversed(plan.runs)})


class StoreFollower:
    """Keeps this machine's copy of results on an object store as the store is, in a thread of its own.

    Args:
        results: on a store.
        wanted: whether somebody looks.

    Raises:
        ConfigError, StorageError: the first fetch fails.
    """

    def __init__(self, results: Results, wanted: Callable[[], bool]) -> None:
        self.results, self.wanted = results, wanted
        self.problem = ""  # why the copy is not as the store is
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="store", daemon=True)
        self.fetch()

    def fetch(self) -> None:
        """Fetch what is new in the store."""
        self.results.pull()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(1.0)  # a fetch that waits for a store that is gone ends with the process

    def _work(self) -> None:
        took = 0.0
        while not self._ended.wait(max(FETCH_S, FETCH_REST * took)):
            if not self.wanted():
                continue
            began = time.monotonic()
            try:
                self.fetch()
                self.problem = ""
            except Exception as error:  # the store may come back; what was fetched is still shown
                log.warning("cannot fetch %s: %s", self.results.store, error)
                self.problem = f"This is older than the store, which cannot be read: {error}"
            took = time.monotonic() - began
