"""Poll a results folder: each poll reads the plans and runs that changed since the last one.

`server.py` polls, and the pages read the studies of the last poll.
"""

import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recstudy.base.errors import ConfigError, StorageError, choices, nearest
from recstudy.base.opened import entries
from recstudy.records import EpochLine, PlanRecord, Results, read_log
from recstudy.records.plans import read_imported, read_plan
from recstudy.records.runs import Row, read_row
from recstudy.records.schema import Values
from recstudy.report.status import is_running, last_change, studies
from recstudy.report.study_records import StudyRecords, records_of

# Between the end of a run and the start of the next, fewer runs are running than there are workers. So the
# number of workers is the maximum over this time.
RECENT_S = 30.0
# Runs with these statuses are only read again if their folder changes.
SETTLED = ("done", "diverged", "stopped")
StudyKey = tuple[str, str]  # name, preset


@dataclass(frozen=True, eq=False)
class BoardStudy:
    """A study at the last poll. A poll makes a new object if the study has changed.

    Args:
        records: Its plan and runs.
        logs: Id of a run in progress -> epoch -> its values.
        workers: The maximum number of concurrent runs in the last `RECENT_S` seconds.
        state: The values from which the object was made, to detect changes.
        version: A unique number of this object.
    """

    records: StudyRecords
    logs: Mapping[str, dict[int, Values]]
    workers: int
    state: tuple[Any, ...]
    version: int


class ResultsFolder:
    """The studies of a results folder.

    Args:
        results: The folder. For an object store, its local copy is read.
        trust: Import the current modules of the studies.

    Attributes:
        studies: Name and preset -> the study.
        problems: Name and preset -> why the plan cannot be read.
    """

    def __init__(self, results: Results, trust: bool = False) -> None:
        self.results = Results(results.root)
        self.trust = trust
        self.studies: dict[StudyKey, BoardStudy] = {}
        self.problems: dict[StudyKey, str] = {}
        self._plans: dict[StudyKey, tuple[object, PlanRecord | None]] = {}
        self._rows: dict[str, tuple[int, Row]] = {}
        self._recent: dict[StudyKey, list[tuple[float, int]]] = {}
        self._versions = itertools.count()

    def study(self, name: str, preset: str) -> BoardStudy:
        """Return a study at the last poll.

        Raises:
            ConfigError: There is no such study, or its plan cannot be read.
        """
        if problem := self.problems.get((name, preset)):
            raise ConfigError(problem)
        if (name, preset) not in self.studies:
            names = [f"{study} ({folder})" for study, folder in self.studies]
            choices_text = f"Studies: {choices(names)}" if names else "The folder has no study yet"
            raise ConfigError(
                f"No study {name!r} with the preset {preset!r}. {choices_text}."
                f"{nearest(f'{name} ({preset})', names)}"
            )
        return self.studies[name, preset]

    def study_of(self, run_id: str) -> BoardStudy:
        """Return the first study that plans a run.

        Raises:
            ConfigError: There is none.
        """
        for study in self.studies.values():
            if any(row.id == run_id for row in study.records.rows):
                return study
        raise ConfigError(f"No study of this folder has a run {run_id!r}")

    def poll(self) -> None:
        """Read the plans and runs that changed since the last poll.

        Raises:
            OSError: The folder cannot be read.
        """
        plans: dict[StudyKey, PlanRecord] = {}
        problems: dict[StudyKey, str] = {}
        for key in studies(self.results):
            try:
                plan = self._read_plan(key)
            except StorageError as damage:
                problems[key] = str(damage)
            else:
                plans |= {key: plan} if plan else {}
        self.problems = problems
        planned = {run.id for plan in plans.values() for run in plan.runs}
        folders = [entry for entry in entries(self.results.root / "runs") if entry.name in planned]
        self._rows = {
            entry.name: self._read_row(entry.name, entry.stat(follow_symlinks=False).st_mtime_ns)
            for entry in folders
        }
        rows = {run_id: row for run_id, (_, row) in self._rows.items()}
        logs = {row.id: self._read_log(row.id) for row in rows.values() if self._is_running(row)}
        self.studies = {key: self._updated(key, plan, rows, logs) for key, plan in plans.items()}

    def _read_plan(self, key: StudyKey) -> PlanRecord | None:
        folder = self.results.study(*key)
        files = [entry for entry in entries(folder) if entry.name.endswith((".json", ".jsonl"))]
        statuses = [(entry.name, entry.stat(follow_symlinks=False)) for entry in files]
        stamp = [(name, status.st_mtime_ns, status.st_size) for name, status in statuses]
        if key not in self._plans or self._plans[key][0] != stamp:
            plan = read_plan(folder)
            if plan and plan.imported:
                # If the imported runs are damaged, only this study has a problem.
                read_imported(folder)
            self._plans[key] = stamp, plan
        return self._plans[key][1]

    def _read_row(self, run_id: str, changed: int) -> tuple[int, Row]:
        """Read a run unless it is settled and unchanged. An equal row stays the same object.

        Args:
            run_id: The run id.
            changed: The modification time of the run's folder. It changes when a file in the folder is made,
                replaced or removed, so a finished run is read once.
        """
        old_entry = self._rows.get(run_id)
        if old_entry and old_entry[0] == changed and old_entry[1].status in SETTLED:
            return old_entry
        row = read_row(self.results, run_id)
        return changed, old_entry[1] if old_entry and old_entry[1] == row else row

    def _is_running(self, row: Row) -> bool:
        if row.status in SETTLED or row.error_class == "damaged record":
            return False
        return is_running(self.results.run(row.id), time.time())

    def _read_log(self, run_id: str) -> dict[int, Values]:
        try:
            return {line.epoch: line.values for line in read_log(self.results.run(run_id).epochs, EpochLine)}
        except StorageError:  # the page of the run reports the damage
            return {}

    def _updated(
        self, key: StudyKey, plan: PlanRecord, rows: Mapping[str, Row], logs: Mapping[str, dict[int, Values]]
    ) -> BoardStudy:
        planned = [rows.get(run.id) or Row(id=run.id) for run in plan.runs]
        running = {row.id: logs[row.id] for row in planned if row.id in logs}
        poll_time = time.monotonic()
        recent = [
            (moment, count) for moment, count in self._recent.get(key, []) if poll_time - moment < RECENT_S
        ]
        self._recent[key] = [*recent, (poll_time, len(running))]
        workers = max(count for _, count in self._recent[key])
        modules = [last_change(Path(plugin["file"])) for plugin in plan.plugins] if self.trust else []
        state = plan, planned, running, workers, modules
        study = self.studies.get(key)
        if study and study.state == state:
            return study
        records = records_of(self.results, plan, {row.id: row for row in planned})
        return BoardStudy(replace(records, trust=self.trust), running, workers, state, next(self._versions))
