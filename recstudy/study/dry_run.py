"""Print the runs of a study and their expected cost (`--dry-run`), before anything is started."""

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import IO, TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from recstudy.base.errors import choices
from recstudy.base.terminal import console, duration, flops
from recstudy.programs.base import RECURSIVE
from recstudy.programs.facts import RunPrice
from recstudy.records import Results, Run
from recstudy.records.reading import dumped
from recstudy.report.documents import DryRunDocument, PlannedEntry
from recstudy.report.names import plural, setting_name
from recstudy.study.plan import Plan
from recstudy.study.record import later_record, search_record
from recstudy.study.rerun import Outdated
from recstudy.study.search import Space
from recstudy.study.trials import TrialLog

if TYPE_CHECKING:
    from recstudy.study.until import Until

# FLOPs per second for a first estimate: dense float32 on a core of 2024, well below its peak.
CORE_FLOPS = 50e9
GPUS = 8  # a common machine, for which a price is also given
GPU_GB = 80  # assumed memory of a GPU if none is visible
# Seconds from the command to the first update: the start of a local cluster, and imports of torch.
START_S = 20.0
COSTS = ("parameters", "GFLOPs", "training GFLOPs", "in all PFLOP", "memory GB")


def print_plan(
    plan: Plan,
    runs: Sequence[Run],
    outdated: Outdated,
    results: Results,
    as_json: bool = False,
    until: "Until | None" = None,
    gpus: int = 0,
    verbose: bool = False,
    stdout: IO[str] | None = None,
) -> None:
    """Print the variants of a study, or the ranges and first runs of a search, with their cost and status.

    `verbose` lists every run. The price is also divided by the GPUs of the cluster (`gpus`), or by eight.
    """
    log = TrialLog(plan, results) if plan.is_search else None
    finished = outdated.finished - outdated.rerun_ids
    listed_runs = [plan.run(0, params) for params in plan.first] if log else runs
    rows = [_entry(run, run.id in finished, outdated) for run in listed_runs]
    outlook = _outlook(plan, results, until) if until or plan.claims else ()  # which reads all records
    notes = (*outdated.notices, *outlook, *price_lines(plan, runs, finished, results, gpus))
    if as_json:
        search = None
        if log:
            search = {
                "definition": plan.definition,
                "first": plan.first,
                "tried": len(log.params),
                "made": log.run_count,
                **dumped(search_record(plan)),
            }
        document = DryRunDocument(
            study=plan.study.name, preset=plan.folder, runs=rows, notes=[*notes], search=search
        )
        document.show(stdout)
        return
    terminal = console()
    table = _run_table(plan, listed_runs, rows, outdated, lists_seeds=verbose or plan.is_search)
    heading = f"{plan.study.name}, preset {plan.folder}: "
    if log:
        terminal.print(
            f"{heading}by {plan.sampler}, stopping {plan.stopping}\nBudget: {plan.split}.", soft_wrap=True
        )
        terminal.print(f"Objectives: {', '.join(f'{name} ({way})' for name, way in plan.objectives.items())}")
        tried = f"Tried before: {len(log.params)} settings, and {len(log.fresh)} runs with fresh seeds."
        terminal.print(_ranges(plan.space), table, tried)
    else:
        variants = plural(len({run.variant for run in runs}), "variant")
        count = plural(len({row.id for row in rows}), "run")
        terminal.print(f"{heading}{variants}, {count}", table, sep="\n")
    for line in notes:
        terminal.print(line, soft_wrap=True)


def _entry(run: Run, is_finished: bool, outdated: Outdated) -> PlannedEntry:
    cost, memory = run.config.program.cost(run.config), run.config.program.memory(run.config)
    return PlannedEntry(
        label=run.label,
        seed=run.seed,
        id=run.id,
        params=cost and cost.params,
        gflops=cost and cost.gflops,
        train_gflops=cost and cost.train_gflops,
        memory_gb=memory and memory / 1e9,
        cached=is_finished,
        changed=outdated.kinds(run.id),
    )


def _run_table(
    plan: Plan, runs: Sequence[Run], rows: Sequence[PlannedEntry], outdated: Outdated, lists_seeds: bool
) -> Table:
    """Return the table of the runs, with a line for each variant, or for each run if it `lists_seeds`."""
    table = Table(box=None)
    # a user's own program states no parameters and FLOPs
    is_priced = any(row.params is not None for row in rows)
    names = ("run", "seed") if lists_seeds else ("variant", "seeds")
    for name in (*names, *(COSTS if is_priced else ()), "state"):
        table.add_column(name, justify="left" if name in (names[0], "state") else "right", no_wrap=True)
    states = dict[tuple[str, ...], list[str]]()  # by the other cells of a row
    for run, row in zip(runs, rows, strict=True):
        state = "to run again" if run.id in outdated.rerun_ids else "to run"
        if row.cached:
            state = "finished" + f", of other {' and '.join(row.changed)}" * bool(row.changed)
        price = plan.base.program.price(run.config)
        costs = [_count(row.params), _count(row.gflops), _count(row.train_gflops)]
        costs += [_words(price and price.pflop, ".3g"), _words(row.memory_gb, ".2g")]
        seed = str(run.seed) if lists_seeds else ""
        states.setdefault((run.label, seed, *(costs if is_priced else ())), []).append(state)
    for (label, seed, *costs), row_states in states.items():
        counts = [f"{count} {state}" for state, count in Counter(row_states).items()]
        state = row_states[0] if seed else ", ".join(counts)
        table.add_row(*map(Text, (label, seed or str(len(row_states)), *costs, state)))
    return table


def _ranges(space: Space) -> Table:
    table = Table("family", "field", "tried", box=None)
    for family, ranges in space.ranges.items():
        for path, range in ranges.items():
            conditions = space.when.get(path, {}).items()
            condition = " and ".join(
                f"{field} is {choices(map(str, values))}" for field, values in conditions
            )
            tried = f"{range}, where {condition}" if condition else f"{range}"
            table.add_row(Text(family), Text(setting_name(path)), Text(tried))
    return table


def _words(value: float | None, form: str) -> str:
    return "?" if value is None else format(value, form)


def _count(value: float | None) -> str:
    return _words(value, ",.0f" if value and value >= 1000 else ".4g")


def price_lines(
    plan: Plan, runs: Sequence[Run], finished: Collection[str], results: Results, gpus: int = 0
) -> Iterator[str]:
    """Return lines about the remaining cost: FLOPs, memory, and time based on finished runs.

    Args:
        plan: The plan.
        runs: The selected runs of a study, or the runs of a search so far.
        finished: The ids of finished runs that are not repeated.
        results: The results folder.
        gpus: The GPUs of the cluster; 0 if they are unknown, which gives the price of `GPUS`.
    """
    gpus = gpus or GPUS
    program = plan.base.program
    # variants with equal settings share their runs
    todo = [*{run.id: run for run in runs if run.id not in finished}.values()]
    count = len(todo)
    # Later trials are assumed to cost the same as the first ones. A budget in hours is the cost itself.
    if plan.is_search:
        todo = [plan.run(0, params) for params in plan.first]
        count = int(plan.budget.amount) - len(runs) if plan.budget.unit == "runs" else 0
    if not todo or count <= 0:
        return
    finished_results = dict(results.finished(dict.fromkeys(run.id for run in runs)))
    took = sum(result.wall_seconds for result in finished_results.values())
    heading, finished_runs = f"Price: {plural(count, 'run')}", plural(len(finished_results), "finished run")
    prices = {run.id: program.price(run.config) for run in (*runs, *todo)}
    if not all(prices.values()):
        why = ""
        if program.name == RECURSIVE:
            names = choices(
                {run.config.description.data: None for run in (*runs, *todo) if not prices[run.id]}
            )
            why = f" The data config of {names} states no `train_size` (the number of training images)."
        time = ". Their time and FLOPs are unknown: no run has finished."
        if finished_results:
            mean = duration(count * took / len(finished_results))
            time = f", about {mean} one after another, by {finished_runs}. Their FLOPs are unknown."
        yield heading + time + why
        return
    run_prices = [price for run in todo if (price := prices[run.id])]
    workers = todo[0].config.resources.workers
    core, gpu = _times(run_prices[0], gpus=workers, start=START_S)
    yield f"First result in about {core} on a core, {gpu} on {f'{workers} GPUs' if workers > 1 else 'a GPU'}."
    total = RunPrice(*(count / len(todo) * sum(part) for part in zip(*run_prices, strict=True)))
    finished_pflop = sum(price.pflop for run_id in finished_results if (price := prices[run_id]))
    largest = max(todo, key=lambda run: program.memory(run.config) or 0)
    gigabytes = (program.memory(largest.config) or 0) / 1e9
    memory = f"{gigabytes:,.2g} GB" if gigabytes >= 1 else f"{float(f'{1000 * gigabytes:.2g}'):g} MB"
    if took and finished_pflop:
        seconds = duration(total.pflop * took / finished_pflop)
        time = f"about {seconds} of runs, one after another, based on {finished_runs}."
    else:
        cores = getattr(os, "process_cpu_count", os.cpu_count)() or 1  # the first is of Python 3.13
        at_cores, at_gpu = _times(total, cores)
        longest, rates = 1.0, dict[str, float]()  # TFLOP/s, the lowest of each family
        for run, price in zip(todo, run_prices, strict=True):
            longest = max(longest, price.gpu_s / run.config.resources.workers)
            rate = 1e3 * price.pflop / price.gpu_s
            rates[run.config.family] = min(rate, rates.get(run.config.family, rate))
        assumed = choices([f"{family} {rate:.3g}" for family, rate in rates.items()])
        time = (
            f"about {at_cores} on the {plural(cores, 'core')} of this machine; on a GPU {at_gpu} (training"
            f" {duration(total.training_s)}, evaluation {duration(total.evaluation_s)}), on {gpus}"
            f" {duration(max(longest, total.gpu_s / gpus))}. Assumed, as no run has finished: 50 GFLOP/s a"
            f" core, and TFLOP/s of a GPU: {assumed}."
        )
    visible = (program.free_gpu_bytes() or 0) / 1e9 if program.sees_gpu() else 0
    if gigabytes > (limit := visible or GPU_GB):
        gpu_words = "the GPU of this machine" if visible else "assumed, as no GPU is visible"
        yield (
            f"Memory: {largest.label} needs {gigabytes:,.3g} GB, but a GPU has {limit:,.3g} GB ({gpu_words})."
            f" {program.memory_fix(largest.config, limit * 1e9)}"
        )
    yield (
        f"{heading}, at most {flops(total.pflop)} (training {flops(total.training)}, evaluation"
        f" {flops(total.evaluation)}; halting saves some), {memory} of memory each; {time}"
    )


def _times(price: RunPrice, cores: int = 1, gpus: int = 1, start: float = 0.0) -> list[str]:
    """Return the time of this computation on these cores, and on these GPUs."""
    times = price.pflop * 1e15 / (cores * CORE_FLOPS), price.gpu_s / gpus
    return [duration(max(1.0, start + seconds)) for seconds in times]


def _outlook(plan: Plan, results: Results, until: "Until | None") -> Iterator[str]:
    """Return lines about the further cost of `--until decided` and the seeds that each open claim needs."""
    from recstudy.report.family import family
    from recstudy.report.open_questions import open_questions
    from recstudy.report.study_records import records_of
    from recstudy.report.tables.question_table import needed_words

    records = records_of(results, later_record(plan, results))
    if until:
        questions = open_questions(records)
        variants = sorted({variant for question in questions for variant in question.variants})
        added_runs = [index for index in variants for _ in range(plan.seeds_each[index], until.maximum)]
        runs = (
            f"{plural(len(questions), 'question')}: at most {plural(len(added_runs), 'further run')}, up to"
            f" {until.maximum} seeds of"
        )
        prices = [plan.base.program.price(plan.configs[index]) for index in added_runs]
        known_prices = [price for price in prices if price]
        time = ""
        if prices and len(known_prices) == len(prices):
            total = RunPrice(*map(sum, zip(*known_prices, strict=True)))
            time = ", about {} on a core, {} on a GPU".format(*_times(total))
        budget_note = f"; the budget for all runs is {until.budget}" if until.budget else ""
        yield f"--until decided, {runs} {plural(len(variants), 'variant')}{time}{budget_note}."
    for row in (row for part in plan.claims for row in family(records, part).rows):
        if row.answer.seeds_needed is not None:
            yield f"Claim: {row.label}. Seeds needed by the runs so far: {needed_words(row)}."
