"""The progress of the studies in a results folder, for `recstudy status`.

Only plans and the states of runs are read, and no measured values are shown.
"""

import os
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from recstudy.base import opened
from recstudy.base.errors import ConfigError, StorageError
from recstudy.base.terminal import shortest
from recstudy.records import MARKER, Results, RunFolder
from recstudy.records.locks import is_locked
from recstudy.records.plans import read_imported, read_plan
from recstudy.report.documents import StatusDocument, StudyStatus

StudyLocation = tuple[Results, str, str]  # results folder, name and preset of a study
SLACK_S = 2.0  # a log that grew so long after a failure belongs to a new attempt
SETTLED = ("done", "diverged", "stopped")  # states of runs that are not repeated
RECENT_S = 60.0  # how long after a log line a run without a lock counts as in progress


def studies(results: Results) -> list[tuple[str, str]]:
    """Return the name and preset of every study in the folder, sorted.

    A link is listed too, with an empty preset. Reading it raises a StorageError.

    Raises:
        StorageError: The folder of studies is a link, or cannot be read.
    """
    matches = []
    for name in opened.entries(results.root / "studies"):
        if name.is_symlink():
            matches.append((name.name, ""))
        elif name.is_dir():
            matches += [
                (name.name, preset.name)
                for preset in opened.entries(name.path)
                if preset.is_symlink() or os.path.lexists(f"{preset.path}/plan.json")
            ]
    return matches


def status(results: Results) -> list[StudyStatus]:
    """Return the progress of each study of the folder."""
    # first, so that `states` reads no result again
    diverged = {
        run_id: "diverged"
        for run_id, result in results.finished(results.run_ids())
        if result.status == "diverged"
    }
    states = results.states() | diverged
    rows = []
    for name, preset in studies(results):
        folder = results.study(name, preset)
        try:
            plan = read_plan(folder)
            imported = read_imported(folder).runs if plan and plan.imported else {}
        except StorageError as damage:
            rows.append(StudyStatus(study=name, preset=preset, problem=str(damage)))
            continue
        if plan is None:
            continue
        # Imported runs have no folders below `runs`, so their status comes from the file of the import.
        states |= {run_id: "failed" if run.status == "failed" else "done" for run_id, run in imported.items()}
        runs = {run.id: run for run in plan.runs}
        counts = Counter(map(states.get, runs))
        running = [
            f"{plan.variants[run.variant].label}, seed {run.seed}"
            for run in runs.values()
            if states.get(run.id) not in SETTLED and is_running(results.run(run.id), time.time())
        ]
        row = StudyStatus(
            study=name,
            preset=preset,
            **{state: counts[state] for state in (*SETTLED, "failed")},
            planned=len(runs),
            command="" if plan.imported else plan.command,
            running=running,
        )
        rows.append(row)
    return rows


def is_running(folder: RunFolder, time_now: float) -> bool:
    """Return whether a worker holds the run's lock.

    A copy of an object store has no locks. In a copy, a run is running if its logs grew in the last minute.
    """
    if folder.lock.exists():
        return is_locked(folder.lock)
    last = max(last_change(folder.epochs), last_change(folder.attempts))
    return time_now - RECENT_S < last >= last_change(folder.failure) + SLACK_S


def last_change(file: Path) -> float:
    """Return the time of a file's last change; 0 if the file is missing."""
    try:
        return file.lstat().st_mtime
    except OSError:
        return 0.0


def show_status(results: Results, console: Console, as_json: bool = False) -> None:
    """Print the progress of each study of a results folder, and how to resume unfinished studies."""
    rows = status(results)
    if as_json:
        StatusDocument(studies=rows).show()
        return
    columns = ("study", "preset", *SETTLED, "failed", "planned")
    table = RichTable(*columns)
    for row in rows:
        table.add_row(*(Text(str(getattr(row, column))) for column in columns))
    console.print(table if rows else Text(f"no studies in {shortest(results.root)}"))
    for row in rows:
        lines = [f": {row.problem}"] * bool(row.problem) + [f" runs {run}" for run in row.running]
        if row.command and sum(getattr(row, state) for state in SETTLED) < row.planned:
            lines.append(f" can be resumed with its recorded command: {row.command}")
        for line in lines:
            console.print(Text(f"{row.study} ({row.preset}){line}"), soft_wrap=True)


def studies_at(path: Path) -> list[StudyLocation]:
    """Return the studies in a results folder or in a study's folder.

    Raises:
        ConfigError: There is no study in this folder.
    """
    path = path.absolute()
    root = next((folder for folder in (path, *path.parents) if opened.is_regular_file(folder / MARKER)), None)
    if root is not None:
        results = Results(root)
        opened.refuse_link(path)
        matches = [
            (results, *study) for study in studies(results) if results.study(*study).is_relative_to(path)
        ]
        if matches:
            return matches
    raise ConfigError(
        f"no study in {path}. Give a results folder (recstudy.json is in it) or one of its"
        " studies/NAME/PRESET."
    )
