"""A results folder as it changes: each poll reads the plans and run folders that changed since the last one.

A run's folder changes its time of change whenever a file in it is made, replaced or removed, so a finished run is read once.
Links are never followed: a run or a study with a link in its folder is refused.
"""

import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR

from recstudy.errors import StorageError
from recstudy.records import EpochLine, Failure, PlanRecord, Results, RunFolder, read_log
from recstudy.records.plans import read_plan
from recstudy.report.rows import Row, imported_rows, read_row
from recstudy.report.status import is_running

LATELY_S = 30.0  # between one run's end and the next one's beginning fewer run at once than there is room for
NOT_RUN = Row()
REFUSED = "holds a link, or is one. The board follows none, because it reads nothing outside the results folder."
NO_PLAN = PlanRecord(study="", preset="", base={}, variants=(), seeds=(), runs=(), report=())
StudyKey = tuple[str, str]  # name and preset


@dataclass(frozen=True, eq=False)
class PlannedStudy:
    """A study's plan, or why it cannot be shown. `named`: run id -> (variant, seed), as the plan names it first."""

    stamp: tuple[tuple[str, int, int], ...]
    plan: PlanRecord = field(default=NO_PLAN, repr=False)
    error: str = ""
    named: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)
    imported: dict[str, Row] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class PolledRun:
    """What a run's folder says, and when the folder last changed. A refused run is never opened."""

    outcome: Row
    stamp: int
    refused: bool = False


class PolledResults(Results):
    """The same folder for the report's functions, which open only runs that were polled and not refused."""

    def __init__(self, root: Path, runs: dict[str, PolledRun]) -> None:
        super().__init__(root)
        self.runs, self.nobody = runs, uuid.uuid4().hex  # no run has this id

    def run(self, run_id: str) -> RunFolder:
        run = self.runs.get(run_id)
        return super().run(self.nobody if run is None or run.refused else run_id)


class ResultsPoller:
    """The state of a results folder as of the last poll.

    Attributes:
        runs: Run id -> its outcome.
        studies: Name and preset -> its plan.
        running: Run id -> the epochs so far of a run in progress.
        lately: Time of a poll -> the ids of the runs in progress then, of the last 30 seconds.
        state: Changes whenever a poll found something new.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.runs: dict[str, PolledRun] = {}
        self.studies: dict[StudyKey, PlannedStudy] = {}
        self.running: dict[str, dict[int, EpochLine]] = {}
        self.lately: dict[float, frozenset[str]] = {}
        self.state: object = None
        self.version = 0
        self.results = PolledResults(self.root, self.runs)

    def poll(self) -> None:
        """Read what has changed since the last poll."""
        studies: dict[StudyKey, PlannedStudy] = {}
        for name in _folders(self.root / "studies"):
            for preset in [name] if name.is_symlink() else _folders(name.path):
                planned = _planned(preset, self.studies.get((name.name, preset.name)))
                if planned is not None:
                    studies[name.name, preset.name] = planned
        new = list(studies.values()) != list(self.studies.values())
        self.studies = dict(sorted(studies.items()))
        folders = list(_folders(self.root / "runs"))
        for folder in folders:
            new = self._read_run(folder) or new
        imported = {run_id: one for planned in studies.values() for run_id, one in planned.imported.items()}
        self.runs.update({run_id: PolledRun(outcome, 0) for run_id, outcome in imported.items()})
        for gone in self.runs.keys() - {folder.name for folder in folders} - imported.keys():
            del self.runs[gone]
            new = True
        now, clock = time.monotonic(), time.time()
        self.running = {
            run_id: _epochs(self.results.run(run_id))
            for run_id, run in self.runs.items()
            if run.outcome.result is None and not run.refused and is_running(self.results.run(run_id), clock)
        }
        self.lately = {at: ids for at, ids in self.lately.items() if now - at < LATELY_S} | {now: frozenset(self.running)}
        self.version += new
        self.state = self.version, tuple((run_id, len(lines)) for run_id, lines in self.running.items())

    def outcome(self, run_id: str) -> Row:
        run = self.runs.get(run_id)
        return NOT_RUN if run is None else run.outcome

    def studies_of(self, run_id: str) -> list[StudyKey]:
        """Return the studies that name this run."""
        return [study for study, planned in self.studies.items() if run_id in planned.named]

    def _read_run(self, folder: os.DirEntry[str]) -> bool:
        """Read a run's folder unless it is finished and unchanged. Return whether its outcome changed."""
        status, before = folder.stat(follow_symlinks=False), self.runs.get(folder.name)
        if before is not None and before.stamp == status.st_mtime_ns and before.outcome.result is not None:
            return False
        if not S_ISDIR(status.st_mode) or any(entry.is_symlink() for entry in list(os.scandir(folder.path))):
            failure = Failure(error_class="refused", error=f"runs/{folder.name} {REFUSED}")
            run = PolledRun(Row(id=folder.name, status="failed", failure=failure), status.st_mtime_ns, refused=True)
        else:
            self.runs[folder.name] = PolledRun(NOT_RUN, status.st_mtime_ns)  # now `results` opens it
            run = PolledRun(read_row(self.results, folder.name), status.st_mtime_ns)
        same = before is not None and before.outcome == run.outcome
        self.runs[folder.name] = PolledRun(before.outcome, run.stamp, run.refused) if before and same else run
        return not same


def _epochs(folder: RunFolder) -> dict[int, EpochLine]:
    try:
        return {line.epoch: line for line in read_log(folder.epochs, EpochLine)}
    except StorageError:  # the figure that reads the log says what is damaged
        return {}


def _folders(path: Path | str) -> Iterator[os.DirEntry[str]]:
    """Yield the folders and links in a folder, which is no link; stray and hidden files are nobody's."""
    if Path(path).is_dir() and not Path(path).is_symlink():
        found = (entry for entry in os.scandir(path) if not entry.name.startswith("."))
        yield from (entry for entry in found if entry.is_symlink() or entry.is_dir())


def _planned(folder: os.DirEntry[str], before: PlannedStudy | None) -> PlannedStudy | None:
    """Read the plan in this folder if one of its files has changed; an unchanged plan is the same object."""
    if folder.is_symlink():
        return before if before and not before.stamp else PlannedStudy((), error=f"studies/{folder.name} {REFUSED}")
    if not folder.is_dir():
        return None
    files = list(os.scandir(folder.path))
    stats = [(file.name, file.stat(follow_symlinks=False)) for file in files if file.name.endswith((".json", ".jsonl"))]
    stamp = tuple(sorted((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats))
    if before is not None and before.stamp == stamp:
        return before
    if any(file.is_symlink() for file in files):
        return PlannedStudy(stamp, error=f"{'/'.join(Path(folder.path).parts[-3:])} {REFUSED}")
    try:
        plan = read_plan(Path(folder.path))
        imported = imported_rows(Path(folder.path)) if plan and plan.imported else {}
    except StorageError as damage:
        return PlannedStudy(stamp, error=str(damage))
    if plan is None:
        return None
    return PlannedStudy(stamp, plan, "", {run.id: (run.variant, run.seed) for run in reversed(plan.runs)}, imported)
