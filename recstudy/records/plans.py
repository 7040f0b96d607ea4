"""The plan of a study as readers want it: of a search, with the variants and runs of what its sampler
proposed.

    plan.json                     of a search, "search": objectives, sampler, stopping, budget, space by family, what is confirmed
    trials-DEFINITION.jsonl       a line a trial (settings, variant, run id), and one a fresh seed of one of the best
    importance-DEFINITION.json    how much each field matters, once enough trials have finished
    imported.json                 of runs that were finished elsewhere: settings, seed and metrics

Trials with the same settings are the same run, so they share a variant; its first run is the search's own.

`studies/looks.jsonl` of a results folder has a line for each reading of verdicts (report, board, notebook)
with the runs that it showed for the first time. Looks belong to runs: another name of the study, a new
variant or a dropped claim does not reset them.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from recstudy.errors import StorageError
from recstudy.programs.settings import current_names, current_paths
from recstudy.records.reading import append_record, read_log, read_record, read_trials
from recstudy.records.results import Results
from recstudy.records.schema import now
from recstudy.records.study_schema import (
    ClockLine,
    ConfirmLine,
    ImportanceRecord,
    Imported,
    Look,
    PlannedRun,
    PlanRecord,
    RangeRecord,
    Reference,
    SearchRecord,
    TrialLine,
    TrialRecord,
    VariantRecord,
)

ENDED = ("result.json", "failure.json", "stopped.json")  # one of them is there once a run has ended
IMPORTED = "imported.json"
LOOKS = "looks.jsonl"
FAMILY = "family"  # the parameter that chooses between model families, where a search has several


def read_plan(folder: Path) -> PlanRecord | None:
    """Return a study's newest plan, or None where there is none.

    Raises:
        StorageError: a file of it is damaged. The message names it.
    """
    plan = read_record(folder / "plan.json", PlanRecord)
    if plan is not None and "place" in plan.base:  # written by version 0.1
        plan = replace(
            plan,
            base=current_names(plan.base),
            variants=_with_current_paths(plan.variants),
            reference=plan.reference and _with_current_names(plan.reference),
        )
    if plan is not None and plan.search is not None:
        plan = _with_trials(folder, plan, plan.search)
    return plan


def _with_current_names(reference: Reference) -> Reference:
    variants = None if reference.variants is None else _with_current_paths(reference.variants)
    return replace(reference, base=current_names(reference.base), variants=variants)


def _with_current_paths(variants: Iterable[VariantRecord]) -> tuple[VariantRecord, ...]:
    return tuple(replace(variant, changes=current_paths(variant.changes)) for variant in variants)


def read_imported(folder: Path) -> Imported:
    """Return the runs that were imported into a study (StorageError: their file is damaged)."""
    return read_record(folder / IMPORTED, Imported) or Imported()


def whole_seeds(plan: PlanRecord, ended: Collection[str]) -> int:
    """Return of how many seeds every planned run has ended; `ended`: the ids of runs that have."""
    return len({run.seed for run in plan.runs} - {run.seed for run in plan.runs if run.id not in ended})


def record_look(results: Results, name: str, preset: str) -> None:
    """Record that the verdicts of a study are read now. A damaged plan is reported by its readers."""
    folder = results.study(name, preset)
    with suppress(StorageError, OSError):
        plan = read_record(folder / "plan.json", PlanRecord)
        if plan is None:
            return
        # that a run has ended is seen from its files: to read 10,000 of them takes a second
        runs = results.root / "runs"
        ended = {*read_imported(folder).runs}
        if not plan.imported:
            ended = {
                run.id
                for run in plan.runs
                if any(os.path.exists(f"{runs}/{run.id}/{file}") for file in ENDED)
            }
        record_runs_read(results, plan, ended)


def record_runs_read(results: Results, plan: PlanRecord, ended: Collection[str]) -> None:
    """Record the runs that readers of a study's verdicts see for the first time; `ended`: the ids of runs
    that have ended.

    A question waits for all planned runs of its variants, so a variant with an unfinished run is not read
    yet. A search has no looks: its verdicts are of seeds that are fixed beforehand. Nothing is recorded if
    the folder cannot be written.
    """
    log = results.root / "studies" / LOOKS
    if plan.search is not None or not os.access(log.parent, os.W_OK):
        return
    waiting = {run.variant for run in plan.runs if run.id not in ended}
    # a full disk stops no reader; a damaged log is reported by those that need it
    with suppress(StorageError, OSError):
        before = {run_id for look in read_looks(results, plan) for run_id in look.runs}
        new = dict.fromkeys(
            run.id for run in plan.runs if run.variant not in waiting and run.id not in before
        )
        if new:
            with results.changing(log):
                append_record(log, Look(date=now(), runs=tuple(new)))


def read_looks(results: Results, plan: PlanRecord) -> list[Look]:
    """Return the readings of verdicts in a results folder, in the order of their dates."""
    older = read_log(results.study(plan.study, plan.folder) / f"looks-{plan.definition}.jsonl", Look)
    looks = [
        replace(look, runs=tuple(run.id for run in plan.runs if run.seed in plan.seeds[: look.seeds]))
        for look in older
    ]
    looks += read_log(results.root / "studies" / LOOKS, Look)
    return sorted(looks, key=lambda look: look.date)


def ranges_of(space: Mapping[str, Mapping[str, RangeRecord]]) -> dict[str, list[RangeRecord]]:
    """Field -> the ranges that the families state; the choice of the family first where there are several."""
    ranges: dict[str, list[RangeRecord]] = (
        {FAMILY: [RangeRecord(choices=tuple(space))]} if len(space) > 1 else {}
    )
    for fields in space.values():
        for path, field_range in fields.items():
            ranges.setdefault(path, []).append(field_range)
    return ranges


def short_names(fields: Iterable[str]) -> dict[str, str]:
    """Field -> the last part of its path, or the whole path where two fields end alike."""
    last = {path: path.rpartition(".")[2] for path in fields}
    return {path: name if list(last.values()).count(name) == 1 else path for path, name in last.items()}


def earlier_runs(results: Results, folder: Path, definition: str, ids: Collection[str]) -> set[str]:
    """Return the runs in `runs/` that only earlier definitions of a study name. A damaged plan names none.

    Args:
        results: The results folder.
        folder: The study's folder.
        definition: The definition that is shown.
        ids: The runs of that definition.
    """
    runs: set[str] = set()
    for path in folder.glob("*-*.json*"):
        if path.stem.partition("-")[2] != definition:
            with suppress(StorageError):
                runs |= named_runs(path)
    return {run_id for run_id in runs.difference(ids) if results.run(run_id).path.is_dir()}


def named_runs(path: Path) -> set[str]:
    """Return the runs that a plan, or a search's log, names; none of any other file.

    Raises:
        StorageError: The file is damaged.
    """
    if path.match("plan*.json"):
        plan = read_record(path, PlanRecord)
        return {run.id for run in plan.runs} if plan else set()
    lines = read_trials(path) if path.match("trials-*.jsonl") else []
    return {line.id for line in lines if not isinstance(line, ClockLine)}


def _with_trials(folder: Path, plan: PlanRecord, search: SearchRecord) -> PlanRecord:
    lines = read_trials(folder / f"trials-{plan.definition}.jsonl")
    trials = {line.number: line for line in lines if isinstance(line, TrialLine)}
    first_trials: dict[str, TrialLine] = {}  # run id -> the trial that proposed the run first
    for trial in trials.values():
        first_trials.setdefault(trial.id, trial)
    positions = {run_id: position for position, run_id in enumerate(first_trials)}
    confirmations = [line for line in lines if isinstance(line, ConfirmLine) and line.confirms in trials]
    runs = [PlannedRun(positions[trial.id], trial.seed, trial.id) for trial in first_trials.values()]
    runs += [PlannedRun(positions[trials[line.confirms].id], line.seed, line.id) for line in confirmations]
    runs = list(dict.fromkeys(runs))
    fresh_seeds: dict[int, tuple[int, ...]] = {}  # by variant
    for run in runs[len(first_trials) :]:
        fresh_seeds[run.variant] = (*fresh_seeds.get(run.variant, ()), run.seed)
    return replace(
        plan,
        variants=tuple(trial.variant for trial in first_trials.values()),
        runs=tuple(runs),
        axes={name: path for path, name in short_names(ranges_of(search.space)).items()},
        search=replace(
            search,
            trials=tuple(
                TrialRecord(number=number, params=trials[number].params, variant=positions[trials[number].id])
                for number in sorted(trials)
            ),
            confirmed=fresh_seeds,
            importance=read_record(folder / f"importance-{plan.definition}.json", ImportanceRecord),
        ),
    )
