"""Read the plan of a study, with the variants and runs that its search proposed, and record looks.

Reports, the board and the driver read plans here. The files of a study:

    plan.json                     the plan, with the settings of a search
    trials-DEFINITION.jsonl       one line per trial (settings, variant, run id) and per confirmation seed
    importance-DEFINITION.json    the importance of each field, once enough trials have finished
    imported.json                 runs that were finished elsewhere: settings, seed and metrics

Trials with the same settings share a variant, and the first trial makes its run.

`studies/looks.jsonl` has one line for each time that verdicts were read (report, board, notebook), with the
runs that were shown for the first time. Looks belong to runs, so renaming the study, adding a variant or
dropping a claim does not reset them. The ids of imported runs contain the study's name, so the log has
digests of their content instead.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from recstudy.base.errors import StorageError
from recstudy.base.values import digest
from recstudy.records.reading import append_record, read_log, read_record, read_trials
from recstudy.records.results import Results
from recstudy.records.schema import current_time
from recstudy.records.study_schema import (
    ConfirmLine,
    ImportanceRecord,
    Imported,
    Look,
    PlanRecord,
    RangeRecord,
    Run,
    SearchRecord,
    TrialLine,
    TrialRecord,
)

END_FILES = ("result.json", "failure.json", "stopped.json")  # an ended run has one of these files
IMPORTED = "imported.json"
LOOKS = "looks.jsonl"
FAMILY = "family"  # the parameter that chooses a model family, if a search has several


def read_plan(folder: Path) -> PlanRecord | None:
    """Return the newest plan of a study, or None if there is none.

    Args:
        folder: The folder of the study.

    Raises:
        StorageError: A file of the plan is damaged. The message names it.
    """
    plan = read_record(folder / "plan.json", PlanRecord)
    if plan is not None and plan.search is not None:
        plan = _with_trials(folder, plan, plan.search)
    return plan


def read_imported(folder: Path) -> Imported:
    """Return the imported runs of a study. Raises StorageError if their file is damaged."""
    return read_record(folder / IMPORTED, Imported) or Imported()


def run_keys(results: Results, plan: PlanRecord) -> dict[str, list[str]]:
    """Return run id -> its keys in the log of looks: its id, or a digest for each metric of an imported run.

    Raises:
        StorageError: The file of the imported runs is damaged.
    """
    keys = {run.id: [run.id] for run in plan.runs}
    folder = results.study(plan.study, plan.folder)
    if (folder / IMPORTED).exists():
        keys |= _imported_keys(folder, (folder / IMPORTED).stat().st_mtime_ns)
    return keys


@lru_cache(maxsize=4)
def _imported_keys(folder: Path, changed: int) -> dict[str, list[str]]:
    """Return the keys of imported runs. `changed` is the time of the file, whose 10,000 runs take 0.3 s."""
    keys = {}
    for run_id, run in read_imported(folder).runs.items():
        metrics = [metric for metric in run.metrics.items() if None not in metric]
        keys[run_id] = [digest([run.settings, run.seed, metric], 10) for metric in metrics] or [run_id]
    return keys


def maximum_digest(seeds: int) -> str:
    """Return the key of a maximum number of seeds among a plan's dates of statements."""
    return digest(["seeds at most", seeds], 12)


def whole_seeds(plan: PlanRecord, ended_ids: Collection[str]) -> int:
    """Return the number of seeds of which every planned run has ended.

    Args:
        plan: The plan of the study.
        ended_ids: The ids of the ended runs.
    """
    return len({run.seed for run in plan.runs} - {run.seed for run in plan.runs if run.id not in ended_ids})


def record_look(results: Results, name: str, preset: str) -> None:
    """Record that the verdicts of a study are read now. Errors are left to the readers of the plan."""
    folder = results.study(name, preset)
    with suppress(StorageError, OSError):
        plan = read_record(folder / "plan.json", PlanRecord)
        if plan is None:
            return
        # Only the existence of the files is checked, because reading 10,000 results takes a second.
        runs = results.root / "runs"
        ended_ids = {*read_imported(folder).runs}
        if not plan.imported:
            ended_ids = {
                run.id
                for run in plan.runs
                if any(os.path.exists(f"{runs}/{run.id}/{file}") for file in END_FILES)
            }
        record_runs_read(results, plan, ended_ids)


def record_runs_read(results: Results, plan: PlanRecord, ended_ids: Collection[str]) -> None:
    """Record the runs whose verdicts are shown for the first time. Do nothing if the folder is read-only.

    Args:
        results: The results folder.
        plan: The plan of the study.
        ended_ids: The ids of the ended runs.
    """
    log = results.root / "studies" / LOOKS
    # A search has no looks, because its verdicts use seeds that are fixed in advance.
    if plan.search is not None or not os.access(log.parent, os.W_OK):
        return
    # A question waits for all planned runs of its variants, so a variant with an unfinished run is not shown.
    waiting = {run.variant for run in plan.runs if run.id not in ended_ids}
    # A full disk must not stop a reader, and a damaged log is reported by the readers that need it.
    try:
        seen_ids = {run_id for look in read_looks(results, plan) for run_id in look.runs}
        new = dict.fromkeys(
            run.id for run in plan.runs if run.variant not in waiting and run.id not in seen_ids
        )
        if new:
            keys = run_keys(results, plan)
            # Two keys of a run suffice to find it in later tables with other metrics.
            seen_keys = tuple(key for run_id in new for key in keys[run_id][:2])
            # a reader has only the local copy of an object store
            with results.in_store.changing(log, fetch=True):
                append_record(log, Look(date=current_time(), runs=seen_keys))
    except (StorageError, OSError):
        results.stores.pop(results.root, None)  # of a store that this reader may not change


def read_looks(results: Results, plan: PlanRecord) -> list[Look]:
    """Return the looks at the verdicts of a results folder, ordered by date, with ids of the plan's runs."""
    older = read_log(results.study(plan.study, plan.folder) / f"looks-{plan.definition}.jsonl", Look)
    looks = [
        replace(look, runs=tuple(run.id for run in plan.runs if run.seed in plan.seeds[: look.seeds]))
        for look in older
    ]
    ids = {key: run_id for run_id, keys in run_keys(results, plan).items() for key in keys}
    for look in read_log(results.root / "studies" / LOOKS, Look):
        looks.append(replace(look, runs=tuple(dict.fromkeys(ids.get(key, key) for key in look.runs))))
    return sorted(looks, key=lambda look: look.date)


def ranges_of(space: Mapping[str, Mapping[str, RangeRecord]]) -> dict[str, list[RangeRecord]]:
    """Return field -> its ranges in all families. If there are several families, their choice comes first."""
    ranges: dict[str, list[RangeRecord]] = (
        {FAMILY: [RangeRecord(choices=tuple(space))]} if len(space) > 1 else {}
    )
    for fields in space.values():
        for path, field_range in fields.items():
            ranges.setdefault(path, []).append(field_range)
    return ranges


def short_names(fields: Iterable[str]) -> dict[str, str]:
    """Return field -> the last part of its path, or the whole path if two fields have the same last part."""
    last = {path: path.rpartition(".")[2] for path in fields}
    return {path: name if list(last.values()).count(name) == 1 else path for path, name in last.items()}


def earlier_runs(results: Results, folder: Path, definition: str, ids: Collection[str]) -> set[str]:
    """Return the ids of existing runs that only earlier definitions of a study planned.

    Damaged plans are skipped.

    Args:
        results: The results folder.
        folder: The folder of the study.
        definition: The current definition.
        ids: The runs of the current definition.
    """
    runs: set[str] = set()
    for path in folder.glob("*-*.json*"):
        if path.stem.partition("-")[2] != definition:
            with suppress(StorageError):
                runs |= named_runs(path)
    return {run_id for run_id in runs.difference(ids) if results.run(run_id).path.is_dir()}


def named_runs(path: Path) -> set[str]:
    """Return the run ids in a plan or in the log of a search; an empty set for any other file.

    Raises:
        StorageError: The file is damaged.
    """
    if path.match("plan*.json"):
        plan = read_record(path, PlanRecord)
        return {run.id for run in plan.runs} if plan else set()
    lines = read_trials(path) if path.match("trials-*.jsonl") else []
    trial_ids = {run_id for line in lines if isinstance(line, TrialLine) for run_id in line.ids}
    return trial_ids | {line.id for line in lines if isinstance(line, ConfirmLine)}


def _with_trials(folder: Path, plan: PlanRecord, search: SearchRecord) -> PlanRecord:
    lines = read_trials(folder / f"trials-{plan.definition}.jsonl")
    trials = {line.number: line for line in lines if isinstance(line, TrialLine)}
    first_trials: dict[str, TrialLine] = {}  # run id -> the trial that proposed the run first
    for trial in trials.values():
        first_trials.setdefault(trial.id, trial)
    positions = {run_id: position for position, run_id in enumerate(first_trials)}
    confirmations = [line for line in lines if isinstance(line, ConfirmLine) and line.confirms in trials]
    own_runs = [
        Run(positions[trial.id], trial.seed + number, run_id)
        for trial in first_trials.values()
        for number, run_id in enumerate(trial.ids)
    ]
    fresh = [Run(positions[trials[line.confirms].id], line.seed, line.id) for line in confirmations]
    runs = list(dict.fromkeys([*own_runs, *fresh]))
    fresh_seeds: dict[int, tuple[int, ...]] = {}  # variant -> seeds of its confirmation
    for run in runs[len(own_runs) :]:
        fresh_seeds[run.variant] = (*fresh_seeds.get(run.variant, ()), run.seed)
    return replace(
        plan,
        variants=tuple(trial.variant for trial in first_trials.values()),
        runs=tuple(runs),
        axes={name: path for path, name in short_names(ranges_of(search.space)).items()},
        search=replace(
            search,
            trials=tuple(
                TrialRecord(number=number, params=trial.params, variant=positions[trial.id])
                for number, trial in sorted(trials.items())
            ),
            confirmed=fresh_seeds,
            importance=read_record(folder / f"importance-{plan.definition}.json", ImportanceRecord),
        ),
    )
