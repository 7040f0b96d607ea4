"""From a plan to records, on Ray or in this process: what is missing is run, what is finished is left alone.

A run is its id, so resuming, retrying and extending a study are one and the same case. Each run's worker writes the run's
records; the driver writes the plan and names the runs that never came back.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from recstudy.cluster.address import check_address
from recstudy.cluster.sources import Paid, Source, Where
from recstudy.cluster.view import View
from recstudy.errors import ClusterError
from recstudy.programs.base import InitialWeights
from recstudy.programs.run_folder import locked_run_folder
from recstudy.programs.settings import Place, RunSettings
from recstudy.programs.trial import Work, run_trial
from recstudy.records import Results
from recstudy.records.locks import Held
from recstudy.study.budget import Budget
from recstudy.study.plan import Plan, Run
from recstudy.study.record import record_plan, recorded, resumed

if TYPE_CHECKING:
    from recstudy.cluster.alone import Alone
    from recstudy.cluster.sweep import Sweep
    from recstudy.study.until import Until


def run_study(
    plan: Plan,
    runs: Sequence[Run],
    results: Results,
    where: Where,
    view: View,
    work: Work | None = None,
    again: Collection[str] = (),
    until: "Until | None" = None,
    begin: InitialWeights | None = None,
) -> Plan:
    """Run those of `runs` that have no result yet, and record the plan; those with the ids `again` are run anew.

    The study's folder is locked meanwhile. With `--no-ray` it is locked only until the plan is recorded: any number of processes
    then share the runs of a study, each of which is locked by itself.

    With `until` it is all runs of the plan, and then block after block of further ones. What they `begin` from is kept beside
    them.

    Returns:
        The plan with the blocks.

    Raises:
        ConfigError, StorageError, DataError, ClusterError: before anything is started.
    """
    check(plan.configs if until else [run.config for run in missing(runs, results, again)], results, where, view, begin)
    shared = where.alone and not (until or results.store)
    with ExitStack() as opened, ExitStack() as lock:
        is_recorded = _lock_study(lock, plan, results, view, shared)
        if until:
            plan = resumed(plan, results)  # a driver for which this one has waited may have gone on with it
            runs = plan.runs
            opened.callback(until.write, results)
        todo = missing(runs, results, again)
        view.planned(runs, todo)
        sweep = None
        while True:
            if todo and not (until and until.spent):
                if sweep is None:
                    configs = plan.configs if until else [run.config for run in todo]
                    places = opened.enter_context(ready(plan.study.name, configs, results, where, view))
                    sources = {place: _source(fit, until, shared) for place, fit in places.items()}
                    sweep = sweep_of(plan.study.name, results, where, view, work)
                if not is_recorded:
                    record_plan(plan, results, where.data)  # from here on nothing is refused
                if shared:
                    lock.close()
                if begin is not None:
                    begin.keep(results)
                archive(again, results)
                again = ()
                for place in dict.fromkeys(run.config.place for run in todo):  # a warm process serves runs of one size
                    sweep.run(places[place], sources[place](deque(run for run in todo if run.config.place == place)))
                    if sweep.hopeless:
                        return plan
            elif not is_recorded:
                record_plan(plan, results, where.data)
            further = until.further(plan, results) if until else None
            if further is None:
                return plan
            known, plan = {run.id for run in plan.runs}, further
            block = [run for run in plan.runs if run.id not in known]
            todo = missing(block, results)
            view.extended(block, todo)


def _lock_study(lock: ExitStack, plan: Plan, results: Results, view: View, shared: bool) -> bool:
    """Lock the study's folder until `lock` is closed, and return whether another process has recorded this plan meanwhile.

    If the study is shared and the process that has the lock has recorded this plan, nothing is locked.
    """
    try:
        lock.enter_context(results.holding(plan.study.name, plan.folder, wait=not shared, on_wait=view.waits))
        return False
    except Held:
        if not recorded(plan, results):
            lock.enter_context(results.holding(plan.study.name, plan.folder, on_wait=view.waits))
        return recorded(plan, results)


def _source(place: Place, until: "Until | None", shared: bool) -> Callable[[deque[Run]], Source]:
    """Return how the runs of a place are handed out: where hours are counted, by the meter."""
    if until is None or until.budget is None or until.meter is None:
        return partial(Source, shared=shared)
    return partial(Paid, budget=until.budget, meter=until.meter, gpus=gpus_of(place, until.budget))


def gpus_of(place: Place, budget: Budget) -> float:
    """Return how many GPUs a run has (ClusterError: none, and the budget counts their hours)."""
    gpus = (place.gpus_per_run or 0) * place.workers_per_run
    if budget.unit == "gpuh" and not gpus:
        raise ClusterError(f"--budget {budget} counts GPU hours, but the runs use no GPU. Give hours (2h) or runs")
    return gpus


def missing(runs: Sequence[Run], results: Results, again: Collection[str] = ()) -> list[Run]:
    """Return each run without a result or with an id of `again`, once."""
    states = results.states(run.id for run in runs)
    return list({run.id: run for run in runs if states.get(run.id) != "done" or run.id in again}.values())


def archive(again: Collection[str], results: Results) -> None:
    """Move the records of these finished runs out of the way, whole, so that they are run anew.

    A run that another process has run anew since `results` read it stays as it is.
    """
    for run_id in again:
        with suppress(Held), locked_run_folder(str(results.run(run_id).path), results.store, wait=False) as folder:
            if folder.finished and results.is_as_read(run_id):
                folder.archive()
        results.pull(run_id)


def check(
    configs: Sequence[RunSettings], results: Results, where: Where, view: View, begin: InitialWeights | None = None
) -> None:
    """Refuse trackers, an address, data and weights that cannot be used, before anything is written, and not in every run."""
    if not where.alone:
        check_address(where.address)  # before Ray is imported
        if where.log:
            from recstudy.cluster.trackers import check_loggers  # it imports Ray Tune, for which there is time later

            check_loggers(where.log)
    if configs:
        configs[0].program.check(configs, results, where.data, where.download, begin)


@contextmanager
def ready(study: str, configs: Sequence[RunSettings], results: Results, where: Where, view: View) -> Iterator[dict[Place, Place]]:
    """Give each place that is asked for with its GPUs decided, on a cluster that can do the work, or in this process alone."""
    places = dict.fromkeys(config.place for config in configs)
    if where.alone:
        from recstudy.cluster.alone import here

        yield {place: here(place, configs[0].program) for place in places}
        return
    from recstudy.cluster.connection import cluster, fitting
    from recstudy.cluster.nodes import check_nodes

    with cluster(where.address, study, view.lost) as dashboard:
        if dashboard:
            view.say(f"Ray dashboard: {dashboard}")
        if where.address is not None:
            check_nodes(results)
        yield {place: fitting(place, [config for config in configs if config.place == place]) for place in places}


def sweep_of(study: str, results: Results, where: Where, view: View, work: Work | None) -> "Sweep | Alone":
    """Return what runs runs; `work` is done with a trial, by default training."""
    if where.alone:
        from recstudy.cluster.alone import Alone

        return Alone(study, results, where, view, work or run_trial)
    from recstudy.cluster.sweep import Sweep  # it imports Ray Tune, for which there is time later

    return Sweep(study, results, where, view, work or run_trial)
