"""What a study would run and what it would cost, before anything is started."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from recstudy.errors import choices
from recstudy.programs.base import RECURSIVE
from recstudy.records import Results
from recstudy.report.names import plural
from recstudy.study.plan import Plan, Run
from recstudy.study.record import plan_record
from recstudy.study.rerun import Outdated
from recstudy.study.search import FAMILY
from recstudy.study.trials import TrialLog
from recstudy.terminal import console, duration, flops

if TYPE_CHECKING:
    from recstudy.study.until import Until

CORE_FLOPS = 50e9  # for a first estimate of the time: dense float32 on a core of 2024, well below its peak
GPU_FLOPS = 250e12  # the same: bfloat16 on an H200, well below its peak
GUESS = "a guess at 50 GFLOP/s a core, 250 TFLOP/s: no run has finished"
START_S = 20.0  # from the command to the first update: a cluster of one's own, torch
COLUMNS = ("run", "seed", "parameters", "GFLOPs", "training GFLOPs", "in all PFLOP", "memory GB", "state")


def print_plan(
    plan: Plan, runs: Sequence[Run], outdated: Outdated, results: Results, as_json: bool, until: "Until | None" = None
) -> None:
    """Every run with its parameters, GFLOPs an image (forward; forward and backward), GB a worker and whether it is finished."""
    kept = outdated.finished.keys() - outdated.again
    rows = [_row(run, run.id in kept, outdated.kinds(run.id)) for run in runs]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    program = plan.base.program
    pflop = {run.id: program.pflop(run.config) for run in runs}
    table = Table(box=None)
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in ("run", "state") else "right", no_wrap=True)
    for row in rows:
        spend = pflop[row["id"]]
        price = "?" if spend is None else f"{spend:.3g}"
        counts = (_count(row[name]) for name in ("gflops", "train_gflops"))
        changed = f", of other {' and '.join(row['changed'])}" * bool(row["changed"])
        state = f"finished{changed}" if row["cached"] else "to run again" if row["id"] in outdated.again else "to run"
        params = "?" if row["params"] is None else f"{row['params']:,}"
        memory = "?" if row["memory_gb"] is None else f"{row['memory_gb']:.2g}"
        cells = row["label"], row["seed"], params, *counts, price, memory, state
        table.add_row(*(Text(str(cell)) for cell in cells))
    out = console()
    out.print(f"{plan.study.name}, preset {plan.folder}: {len(rows)} runs")
    out.print(table)
    outlook = _outlook(plan, results, until) if until or plan.claims else ()  # which reads all records
    priced = _price(rows, pflop, results) if program.name == RECURSIVE else _time(rows, results)
    for line in (*outdated.notices, *outlook, *priced):
        out.print(line, soft_wrap=True)


def _count(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _time(rows: Sequence[dict[str, Any]], results: Results) -> Iterator[str]:
    """Return how long the unfinished runs take, by finished runs. The FLOPs of a user's own program are unknown."""
    todo = [row for row in rows if not row["cached"]]
    if not todo:
        return
    known = {row["id"] for row in rows}
    seconds = [float(result.cost.get("seconds") or 0.0) for _, result in results.finished(known)]
    if not seconds:
        yield f"Price: {plural(len(todo), 'run')}. Their time and FLOPs are unknown: no run has finished."
        return
    left = duration(len(todo) * sum(seconds) / len(seconds))
    finished = plural(len(seconds), "finished run")
    yield f"Price: {plural(len(todo), 'run')}, about {left} one after another, by {finished}. Their FLOPs are unknown."


def _price(rows: Sequence[dict[str, Any]], pflop: dict[str, float | None], results: Results) -> Iterator[str]:
    """Return what is left to run in plain units: FLOPs, memory, and the time, by what finished runs took where there are any."""
    known = {run_id: spend for run_id, spend in pflop.items() if spend is not None}
    if len(known) < len(pflop):
        yield "What all of it costs is not known here: only the files, or `train_size` of a set, tell how many images."
        return
    todo = {row["id"]: row["memory_gb"] for row in rows if not row["cached"]}
    if not todo:
        return
    core, gpu = _times(known[next(iter(todo))], start=START_S)
    yield f"The first result, as roughly: after {core} where a run has a core, {gpu} where it has a GPU."
    left = sum(known[run_id] for run_id in todo)
    made = [(result.cost, known[run_id]) for run_id, result in results.finished(known)]
    took = sum(float(cost.get(name) or 0.0) for cost, _ in made for name in ("seconds", "evaluation_seconds"))
    spent, cores = sum(share for _, share in made), len(os.sched_getaffinity(0))
    if took and spent:
        time = f"{duration(left * took / spent)} of runs, one after another, by what {plural(len(made), 'finished run')} took"
    else:
        at_cores, at_gpu = _times(left, cores)
        time = f"{at_cores} on the {plural(cores, 'core')} of this machine, {at_gpu} on a GPU ({GUESS})"
    most = max(todo.values())
    memory = f"{most:,.2g} GB" if most >= 1 else f"{1000 * most:.2g} MB"
    most_flops = f"at most {flops(left)} of training (halting saves some)"
    yield f"Price: {plural(len(todo), 'run')}, {most_flops}, {memory} of memory each; about {time}."


def _times(pflop: float, cores: int = 1, start: float = 0.0) -> list[str]:
    """Guess how long so much takes on so many cores, and on a GPU."""
    return [duration(max(1.0, start + pflop * 1e15 / rate)) for rate in (cores * CORE_FLOPS, GPU_FLOPS)]


def _row(run: Run, cached: bool, changed: Sequence[str]) -> dict[str, Any]:
    program = run.config.program
    counted, memory = program.cost(run.config), program.memory(run.config)
    return {
        "label": run.label,
        "seed": run.seed,
        "id": run.id,
        "params": counted and counted.params,
        "gflops": counted and counted.gflops,
        "train_gflops": counted and counted.train_gflops,
        "memory_gb": None if memory is None else memory / 1e9,
        "cached": cached,
        "changed": list(changed),  # since it was finished: code, data
    }


def _outlook(plan: Plan, results: Results, until: "Until | None") -> Iterator[str]:
    """Return what `--until decided` may cost beyond these runs, and how many more seeds each open claim needs by those so far."""
    from recstudy.analysis.findings import wanted
    from recstudy.analysis.frame import records_of
    from recstudy.analysis.questions import family
    from recstudy.analysis.tables.question_table import needed_words

    records = records_of(results, plan_record(plan))
    if until:
        asked = wanted(records)
        variants = sorted({variant for one in asked for variant in one.variants})
        seeds = [max(0, until.at_most - plan.seeds_each[variant]) for variant in variants]
        runs = f"{plural(len(asked), 'question')}: at most {plural(sum(seeds), 'further run')}, up to {until.at_most} seeds of"
        pflop = [plan.base.program.pflop(plan.configs[variant]) for variant in variants]
        known = [spend * count for spend, count in zip(pflop, seeds, strict=True) if spend is not None]
        time = ", about {} on a core, {} on a GPU".format(*_times(sum(known))) if len(known) == len(pflop) else ""
        within = f"; the budget for all runs is {until.budget}" if until.budget else ""
        yield f"--until decided, {runs} {plural(len(variants), 'variant')}{time}{within}."
    for found in (family(records, part) for part in plan.claims):
        for row in found.rows:
            if row.answer.seeds_needed is not None:
                yield f"Claim: {row.label}. Seeds needed by the runs so far: {needed_words(row)}."


def print_search(plan: Plan, results: Results, told: Iterable[str], as_json: bool) -> None:
    """The ranges of each family, the settings that come first with their cost, what was tried before and is `told` of it."""
    log = TrialLog(plan, results)
    if as_json:
        print(json.dumps(_record(plan, log), indent=1))
        return
    out = console()
    out.print(f"{plan.study.name}, preset {plan.folder}: by {plan.sampler}, stopping {plan.stopping}")
    out.print(f"Budget: {plan.split}.", soft_wrap=True)
    out.print(f"Objectives: {', '.join(f'{name} ({way})' for name, way in plan.objectives.items())}")
    ranges = Table("family", "field", "tried", box=None)
    for family, fields in plan.space.ranges.items():
        for path, range in fields.items():
            where = " and ".join(f"{one} is {choices(map(str, values))}" for one, values in plan.space.when.get(path, {}).items())
            ranges.add_row(*(Text(str(cell)) for cell in (family, path, f"{range}, where {where}" if where else range)))
    out.print(ranges)
    first = Table("first", "parameters", "GFLOPs", "training GFLOPs", box=None)
    for run in (plan.run(0, params) for params in plan.first):
        counted = run.config.program.cost(run.config)
        known = [f"{counted.params:,}", f"{counted.gflops:.4g}", f"{counted.train_gflops:.4g}"] if counted else ["?"] * 3
        cells = run.label, *known
        first.add_row(*map(Text, cells))
    out.print(first)
    out.print(f"Tried before: {len(log.params)} settings, and {len(log.fresh)} runs with fresh seeds.")
    for line in told:
        out.print(line, soft_wrap=True)


def _record(plan: Plan, log: TrialLog) -> dict[str, Any]:
    when = {path: {"when": dict(conditions)} for path, conditions in plan.space.when.items()}
    return {
        "definition": plan.definition,
        "budget": str(plan.budget),
        "kept for fresh seeds": plan.kept,
        "sampler": plan.sampler,
        "stopping": plan.stopping,
        "objectives": dict(plan.objectives),
        "space": {
            family: {path: range.record | when.get(path, {}) for path, range in fields.items()}
            for family, fields in plan.space.ranges.items()
        },
        "first": [{FAMILY: plan.base.family, **params} for params in plan.first],
        "tried": len(log.params),
        "made": log.made,
    }
