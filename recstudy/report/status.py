"""How far the studies of a results folder are, by their plans and by which records are there: no number is read."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from recstudy import opened
from recstudy.errors import ConfigError, StorageError
from recstudy.records import MARKER, Attempt, EpochLine, PlanRecord, Results, RunFolder, read_log
from recstudy.records.locks import held
from recstudy.records.plans import read_imported, read_plan
from recstudy.terminal import duration, shortest

SLACK_S = 2.0  # a worker that gives up lets go of its lock a moment later
RECENT_S = 60.0  # how long after a log line a run without a lock counts as in progress


def studies(results: Results) -> list[tuple[str, str]]:
    """Name and preset of every study in the folder, sorted; a link in its place as well, which whoever reads it refuses.

    Raises:
        StorageError: the folder of studies is a link, or cannot be read.
    """
    found = []
    for name in opened.entries(results.root / "studies"):
        if name.is_symlink():
            found.append((name.name, ""))
        elif name.is_dir():
            found += [
                (name.name, preset.name)
                for preset in opened.entries(name.path)
                if preset.is_symlink() or os.path.lexists(f"{preset.path}/plan.json")
            ]
    return found


@dataclass(frozen=True)
class StudyStatus:
    """How far a study is; of a search, `planned` so far. `problem`: why its plan cannot be read."""

    study: str
    preset: str
    done: int = 0
    stopped: int = 0
    failed: int = 0
    planned: int = 0
    command: str = ""
    smoke: bool = False
    problem: str = ""
    running: tuple[str, ...] = ()  # runs, in words


def status(results: Results) -> list[StudyStatus]:
    """Return how far each study of the folder is."""
    states = results.states()
    found = []
    for name, preset in studies(results):
        folder = results.study(name, preset)
        try:
            plan = read_plan(folder)
            imported = read_imported(folder).runs if plan is not None and plan.imported else {}
        except StorageError as damage:
            found.append(StudyStatus(name, preset, problem=str(damage)))
            continue
        if plan is not None:
            runs = {run.id for run in plan.runs}
            states |= {run_id: "failed" if run.status == "failed" else "done" for run_id, run in imported.items()}
            count = Counter(map(states.get, runs))
            counts = count["done"], count["stopped"], count["failed"], len(runs)
            row = StudyStatus(name, preset, *counts, "" if plan.imported else plan.command, plan.smoke)
            found.append(replace(row, running=tuple(under_way(results, plan, states))))
    return found


def under_way(results: Results, plan: PlanRecord, states: Mapping[str, str]) -> Iterator[str]:
    """Yield the label, seed, epoch and time of each run in progress."""
    now = time.time()
    for run in {run.id: run for run in plan.runs if states.get(run.id) not in ("done", "stopped")}.values():
        folder = results.run(run.id)
        if not is_running(folder, now):
            continue
        try:
            lines, attempts = read_log(folder.epochs, EpochLine), read_log(folder.attempts, Attempt)
        except StorageError:
            continue  # the report names what is damaged
        own = bool(plan.base.get("program"))  # whose steps are as they were reported
        epoch = f"{'step' if own else 'epoch'} {lines[-1].epoch + (not own)}" if lines else "starting"
        begun = next((one.started for one in reversed(attempts) if one.started), None)
        lasting = f", for {duration(now - datetime.fromisoformat(begun).timestamp())}" if begun else ""
        yield f"{plan.variants[run.variant].label}, seed {run.seed}: {epoch}{lasting}"


def is_running(folder: RunFolder, now: float) -> bool:
    """Return whether a worker holds the run's lock or, in a copy of an object store, whether its logs grew lately."""
    if folder.lock.exists():
        return held(folder.lock)
    last = max(last_change(folder.epochs), last_change(folder.attempts))
    return now - RECENT_S < last >= last_change(folder.failure) + SLACK_S


def last_change(file: Path) -> float:
    """Return the time of a file's last change; 0 if there is no file."""
    try:
        return file.lstat().st_mtime
    except OSError:
        return 0.0


def show_status(results: Results, out: Console) -> None:
    """Print how far each study of a results folder is, and the recorded commands of unfinished ones."""
    rows = status(results)
    shown = RichTable("study", "preset", "done", "stopped", "failed", "planned")
    for row in rows:
        shown.add_row(*(Text(str(one)) for one in (row.study, row.preset, row.done, row.stopped, row.failed, row.planned)))
    out.print(shown if rows else Text(f"no studies in {shortest(results.root)}"))
    for row in rows:
        if row.problem:
            out.print(Text(f"{row.study} ({row.preset}): {row.problem}"), soft_wrap=True)
        for run in row.running:
            out.print(Text(f"{row.study} ({row.preset}) runs {run}"), soft_wrap=True)
        if row.command and row.done + row.stopped < row.planned:
            out.print(Text(f"{row.study} ({row.preset}) can go on; its command, as recorded: {row.command}"), soft_wrap=True)


def studies_at(path: Path) -> list[tuple[Results, str, str]]:
    """Return the studies (results folder, name, preset) in a results folder, or in a study's folder inside one.

    Raises:
        ConfigError: there is no study there.
    """
    path = path.absolute()
    root = next((folder for folder in (path, *path.parents) if opened.there(folder / MARKER)), None)
    if root is not None:
        results = Results(root)
        opened.refuse_link(path)
        found = [(results, *study) for study in studies(results) if results.study(*study).is_relative_to(path)]
        if found:
            return found
    raise ConfigError(f"no study in {path}. Give a results folder (recstudy.json is in it) or one of its studies/NAME/PRESET.")
