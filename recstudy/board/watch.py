"""A results folder as it changes: each look reads what is new, and nothing outside the folder.

A run's folder changes its time of change whenever a file in it is made, replaced or removed, so one `stat` a run says
whether to read it again; only its logs grow without that, and those are looked at while the run is not finished.
Links are never followed: a run or a study with one in its folder is shown as refused.
"""

import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from types import MappingProxyType

from recstudy.analysis.rows import Outcome, outcome_of
from recstudy.board.logs import Epochs
from recstudy.board.plans import REFUSED, Planned, Study, folders, plans
from recstudy.records import Failure, Results, RunFolder
from recstudy.records.files import Log
from recstudy.records.locks import PATIENCE

FRESH_NS = 2_000_000_000  # a folder that changed this short ago may change again within the same tick of its clock
LATELY_S = 30.0  # between one run's end and the next one's beginning fewer run at once than there is room for
SLACK_S = 2.0  # a worker that gives up lets go of its lock a moment later
NOT_RUN = Outcome()


@dataclass
class Seen:
    """A run's folder: what it says, and the log and the last sign of life of one that is not finished."""

    outcome: Outcome
    version: int  # of the look that read it
    stamp: int = -1
    log: Epochs | None = None
    beat: float = 0.0
    ended: float = 0.0  # when its last attempt was given up

    def alive(self, since: float) -> bool:
        return self.log is not None and self.beat > max(since, self.ended + SLACK_S)


class Looked(Results):
    """The same folder for the report's functions, which open only runs that were looked at and not refused."""

    def __init__(self, root: Path, known: dict[str, Seen]) -> None:
        super().__init__(root)
        self.known, self.nobody = known, uuid.uuid4().hex  # no run has this id

    def run(self, run_id: str) -> RunFolder:
        seen = self.known.get(run_id)
        return super().run(run_id if seen is not None and seen.stamp >= 0 else self.nobody)


class Watch:
    """What is known of the folder. `version` counts the looks that found something new.

    Args:
        root: the results folder.
        beats: other signs of life than those in it: the time of the last one by run id.
    """

    def __init__(self, root: Path, beats: Mapping[str, float] = MappingProxyType({})) -> None:
        self.root, self.beats = root.resolve(), beats
        self.runs: dict[str, Seen] = {}
        self.studies: dict[Study, Planned] = {}
        self.running: dict[str, Seen] = {}
        self.lately: dict[float, frozenset[str]] = {}  # by the time of a look: the runs that were under way then
        self.version = 0
        self.expected = 0  # runs in the folder, for a first look that takes its time
        self.complete = False  # whether there was a whole look
        self.results = Looked(self.root, self.runs)

    def look(self) -> None:
        """Read what has changed since the last look."""
        self.studies = plans(self.root, self.studies, self.version + 1)
        new = any(planned.version > self.version for planned in self.studies.values())
        found = list(folders(self.root / "runs"))
        self.expected = len(found)
        for folder in found:
            new = self._run(folder, self.version + 1) or new
        for gone in self.runs.keys() - {folder.name for folder in found}:
            del self.runs[gone]
            new = True
        since = time.time() - PATIENCE
        self.running = {run_id: seen for run_id, seen in self.runs.items() if seen.alive(since)}
        now = time.monotonic()
        self.lately = {at: ids for at, ids in self.lately.items() if now - at < LATELY_S} | {now: frozenset(self.running)}
        self.version += new
        self.complete = True

    def outcome(self, run_id: str) -> Outcome:
        seen = self.runs.get(run_id)
        return NOT_RUN if seen is None else seen.outcome

    def _run(self, folder: os.DirEntry[str], version: int) -> bool:
        """Whether the run's row has changed."""
        found, seen = folder.stat(follow_symlinks=False), self.runs.get(folder.name)
        fresh = found.st_mtime_ns > time.time_ns() - FRESH_NS
        if seen is None or seen.stamp != found.st_mtime_ns or (fresh and seen.log is not None):
            self.runs[folder.name] = self._read(folder, found, version, seen)
        seen = self.runs[folder.name]
        if seen.log is not None:
            files = (_changed(Path(folder.path, file)) for file in ("lock", "attempts.jsonl"))
            seen.beat = max(seen.log.look(), self.beats.get(folder.name, 0.0), *files)
        return seen.version == version

    def _read(self, folder: os.DirEntry[str], found: os.stat_result, version: int, before: Seen | None) -> Seen:
        path = Path(folder.path)
        if not S_ISDIR(found.st_mode) or _links(path):
            failure = Failure(error_class="refused", error=f"runs/{folder.name} {REFUSED}")
            return self._dated(Seen(Outcome(status="failed", failure=failure), version), before)
        self.runs.setdefault(folder.name, Seen(NOT_RUN, version)).stamp = found.st_mtime_ns  # now `results` opens it
        log = before.log if before and before.log else Epochs(Log(path / "epochs.jsonl", follow=False))
        ended = max(_changed(path / file) for file in ("failure.json", "stopped.json"))
        outcome = outcome_of(self.results, folder.name)
        going = None if (path / "result.json").exists() else log
        return self._dated(Seen(outcome, version, found.st_mtime_ns, going, ended=ended), before)

    def _dated(self, seen: Seen, before: Seen | None) -> Seen:
        """One that says the same as before is as old as it."""
        if before is not None and before.outcome == seen.outcome:
            seen.version = before.version
        return seen


def _links(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return any(entry.is_symlink() for entry in entries)


def _changed(file: Path) -> float:
    try:
        return file.lstat().st_mtime
    except OSError:
        return 0.0
