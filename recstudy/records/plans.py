"""The plan of a study as readers want it: of a search, with the variants and runs of what its sampler proposed.

    plan.json                     of a search, "search": objectives, sampler, stopping, budget, space by family, what is confirmed
    trials-DEFINITION.jsonl       a line a trial (settings, variant, run id), and one a fresh seed of one of the best
    looks-DEFINITION.jsonl        a line a look: at how many whole seeds a report was made
    importance-DEFINITION.json    how much each field matters, once enough trials have finished

Trials with the same settings are the same run, so they share a variant; its first run is the search's own.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from recstudy.errors import StorageError
from recstudy.records.files import Json
from recstudy.records.reading import append_record, read_log, read_record, read_trials
from recstudy.records.results import Results
from recstudy.records.schema import now
from recstudy.records.study_schema import (
    ConfirmLine,
    ImportanceRecord,
    Look,
    PlannedRun,
    PlanRecord,
    Range,
    SearchRecord,
    TrialLine,
    TrialRecord,
)

ENDED = ("result.json", "failure.json", "stopped.json")  # one of them is there once a run has ended
FAMILY = "family"  # the parameter that chooses between model families, where a search has several


def read_plan(folder: Path) -> PlanRecord | None:
    """Return a study's plan, or None where there is none, with the other definitions of this name and what they hold.

    Raises:
        StorageError: a file of it is damaged. The message names it.
    """
    plan = read_record(folder / "plan.json", PlanRecord)
    if plan is None:
        return None
    found = plan if plan.search is None else _with_trials(folder, plan, plan.search)
    others = {definition: _held(folder, other, plan) for definition, other in other_plans(folder, plan)}
    return replace(found, others=others, looks=_looks(folder, plan))


def kept_beside(folder: Path, shown: PlanRecord) -> list[PlanRecord]:
    """Return the plans of this name with other settings, which readers of `plan.json` do not see: such as those of a notebook."""
    others = [plan for _, plan in other_plans(folder, shown) if plan and not _alike(plan, shown)]
    return [plan if plan.search is None else _with_trials(folder, plan, plan.search) for plan in others]


def whole_seeds(plan: PlanRecord, ended: Collection[str]) -> int:
    """Return of how many seeds every planned run has ended; `ended`: the ids of runs that have."""
    return len({run.seed for run in plan.runs} - {run.seed for run in plan.runs if run.id not in ended})


def record_look(results: Results, name: str, preset: str) -> None:
    """Note that a report of the study is made, at so many seeds, unless that was noted before or the folder cannot be written.

    It stands in a log of its own, so that a look while a driver holds the study is noted too. A search has none: its verdicts
    are of seeds that are fixed beforehand.
    """
    folder = results.study(name, preset)
    with suppress(StorageError, OSError):  # a damaged plan is told of by who reads it next
        plan = read_record(folder / "plan.json", PlanRecord)
        if plan is None or plan.search is not None or not os.access(folder, os.W_OK):
            return
        runs = results.root / "runs"  # that a run has ended is seen from its files: to read 10,000 of them takes a second
        ended = {run.id for run in plan.runs if any(os.path.exists(f"{runs}/{run.id}/{file}") for file in ENDED)}
        seeds = whole_seeds(plan, ended)
        if seeds and seeds not in _looks(folder, plan):
            log = folder / f"looks-{plan.definition}.jsonl"
            with results.changing(log):
                append_record(log, Look(seeds=seeds, date=now()))


def _looks(folder: Path, plan: PlanRecord) -> tuple[int, ...]:
    return tuple(sorted({look.seeds for look in read_log(folder / f"looks-{plan.definition}.jsonl", Look)}))


def ranges_of(space: Mapping[str, Mapping[str, Range]]) -> dict[str, list[Range]]:
    """Field -> the ranges that the families state; the choice of the family first where there are several."""
    ranges: dict[str, list[Range]] = {FAMILY: [Range(choices=tuple(space))]} if len(space) > 1 else {}
    for fields in space.values():
        for path, stated in fields.items():
            ranges.setdefault(path, []).append(stated)
    return ranges


def short_names(fields: Iterable[str]) -> dict[str, str]:
    """Field -> the last part of its path, or the whole path where two fields end alike."""
    last = {path: path.rpartition(".")[2] for path in fields}
    return {path: name if list(last.values()).count(name) == 1 else path for path, name in last.items()}


def earlier_runs(folder: Path, shown: PlanRecord) -> set[str]:
    """Runs of these settings by code of an earlier revision, which other definitions of this name and not `shown` name."""
    found = [plan for _, plan in other_plans(folder, shown) if plan and _alike(plan, shown)]
    return {run_id for plan in found for run_id in _left(plan, shown)}


def kept_plans(folder: Path) -> Iterator[tuple[str, PlanRecord | None]]:
    """Yield each definition of a study's name with its plan; None for a damaged one."""
    for path in sorted(folder.glob("plan-*.json")):
        try:
            plan = read_record(path, PlanRecord)
            if plan is not None:
                yield path.stem.removeprefix("plan-"), plan
        except StorageError:
            yield path.stem.removeprefix("plan-"), None


def other_plans(folder: Path, shown: PlanRecord) -> Iterator[tuple[str, PlanRecord | None]]:
    """Yield the definitions that compare something else than the plan that is shown."""
    if all(path.stem == f"plan-{shown.definition}" for path in folder.glob("plan-*.json")):
        return
    for definition, plan in kept_plans(folder):
        if definition != shown.definition and not (plan and same_cells(plan, shown)):
            yield definition, plan


def same_cells(one: PlanRecord, other: PlanRecord) -> bool:
    """Return whether two plans compare the same, whatever they claim: definitions of before were digests of the claims too."""
    if one.definition == other.definition:
        return True
    if [variant.label for variant in one.variants] != [variant.label for variant in other.variants]:
        return False
    ids, others = ({(run.variant, run.seed): run.id for run in plan.runs} for plan in (one, other))
    shared = ids.keys() & others.keys()
    return bool(shared) and all(ids[at] == others[at] for at in shared)


def _held(folder: Path, plan: PlanRecord | None, shown: PlanRecord) -> str:
    try:
        lines = read_trials(_trial_log(folder, plan)) if plan and plan.search else []
    except StorageError:
        plan = None
    if plan is None:
        return "damaged"  # and not what is shown
    trials = sum(isinstance(line, TrialLine) for line in lines)
    count, word = (trials, "trial") if plan.search else (len(_left(plan, shown)), "run")
    return f"{count} {word}" + "s" * (count != 1) + " of an earlier revision" * _alike(plan, shown)


def _left(plan: PlanRecord, shown: PlanRecord) -> set[str]:
    return {run.id for run in plan.runs} - {run.id for run in shown.runs}


def _alike(before: PlanRecord, now: PlanRecord) -> bool:
    """Return whether two definitions have the same settings, as far as both know them: then what computes them differs."""
    return _stated(before) == _stated(now) and _agree(_settings(before), _settings(now))


def _stated(plan: PlanRecord) -> list[Any]:
    """Return what is searched, and what each variant changes, by name."""
    return [plan.search and plan.search.space, *((variant.label, set(variant.changes)) for variant in plan.variants)]


def _settings(plan: PlanRecord) -> Json:
    deciding = {part: values for part, values in plan.base.items() if part != "place"}
    return {"base": deciding} | {str(at): variant.changes for at, variant in enumerate(plan.variants)}


def _agree(before: Any, now: Any) -> bool:
    """Return whether two settings are equal wherever both are known."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(_agree(value, now[name]) for name, value in before.items() if name in now)
    return bool(before == now)


def _trial_log(folder: Path, plan: PlanRecord) -> Path:
    return folder / f"trials-{plan.definition}.jsonl"


def _with_trials(folder: Path, plan: PlanRecord, search: SearchRecord) -> PlanRecord:
    lines = read_trials(_trial_log(folder, plan))
    proposed = {line.number: line for line in lines if isinstance(line, TrialLine)}
    first = {line.id: line for line in reversed(proposed.values())}  # of one run, the first that proposed it
    at = {identity: index for index, identity in enumerate(dict.fromkeys(line.id for line in proposed.values()))}
    runs = [PlannedRun(index, first[identity].seed, identity) for identity, index in at.items()]
    known, confirmed = set(runs), dict[int, list[int]]()
    for line in lines:
        if isinstance(line, ConfirmLine) and line.confirms in proposed:
            run = PlannedRun(at[proposed[line.confirms].id], line.seed, line.id)
            if run not in known:
                known.add(run)
                runs.append(run)
                confirmed.setdefault(run.variant, []).append(run.seed)
    return replace(
        plan,
        variants=tuple(first[identity].variant for identity in at),
        runs=tuple(runs),
        axes={name: path for path, name in short_names(ranges_of(search.space)).items()},
        search=replace(
            search,
            trials=tuple(
                TrialRecord(number=number, params=line.params, variant=at[line.id]) for number, line in proposed.items()
            ),
            confirmed={variant: tuple(seeds) for variant, seeds in confirmed.items()},
            importance=read_record(folder / f"importance-{plan.definition}.json", ImportanceRecord),
        ),
    )
