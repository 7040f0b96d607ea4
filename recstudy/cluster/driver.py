"""From a plan to records, on Ray or in this process: what is missing is run, what is finished is left alone.

A run is its id, so resuming, retrying and extending a study are one and the same case. Each run's worker
writes the run's records; the driver writes the plan and names the runs that never came back.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from recstudy.cluster.address import check_address
from recstudy.cluster.sources import Where, missing, study_steps
from recstudy.cluster.view import View
from recstudy.errors import ClusterError
from recstudy.plugins import import_all, sent_files
from recstudy.programs.run_folder import locked_run_folder
from recstudy.programs.settings import Resources, RunSettings
from recstudy.programs.trial import Work, run_trial
from recstudy.records import Results
from recstudy.records.locks import Held
from recstudy.study.budget import Meter
from recstudy.study.plan import Plan, Run
from recstudy.study.record import record_plan, recorded
from recstudy.study.trials import TrialLog

if TYPE_CHECKING:
    from recstudy.cluster.alone import Alone
    from recstudy.cluster.sweep import Sweep
    from recstudy.study.until import Until
    from recstudy.train.initial import Weights


def run_plan(
    plan: Plan,
    results: Results,
    where: Where,
    view: View,
    runs: Sequence[Run] = (),
    *,
    work: Work = run_trial,
    again: Collection[str] = (),
    until: "Until | None" = None,
    begin: "Weights | None" = None,
    storage: str = "",
) -> Plan:
    """Run what a plan lacks: unfinished runs of a study, or what a search proposes and confirms. Record the
    plan before.

    The study's folder is locked meanwhile. If the runs of a study are shared, as by several processes with
    `--no-ray`, it is locked only until the plan is recorded: each run is locked by itself.

    Args:
        plan: The plan of a study or search.
        results: The results folder.
        where: Cluster and data.
        view: Is told what happens.
        runs: Of a study, the runs to finish. With `until` it is all runs of the plan, and then block after
            block of further ones.
        work: What is done with a trial; by default it is run.
        again: Ids of finished runs that are run anew.
        until: How far a study goes on for open questions.
        begin: What runs start from. It is kept in the results folder.
        storage: Where optuna-dashboard finds the trials of a search: a journal file or a database URL.

    Returns:
        The plan with the further blocks.

    Raises:
        ConfigError, StorageError, DataError, ClusterError: Before anything is started.
    """
    if plan.is_search:
        configs: Sequence[RunSettings] = [*plan.space.bases.values()]
    else:
        configs = plan.configs if until else [run.config for run in missing(runs, results, again)]
    # Trackers, an address, data and weights that cannot be used are refused before anything is written, and
    # not in every run.
    if not where.alone:
        check_address(where.address)  # before Ray is imported
        sent_files()
        if where.log:
            # it imports Ray Tune, for which there is time later
            from recstudy.cluster.trackers import check_loggers

            check_loggers(where.log)
    if configs:
        configs[0].program.check(configs, results, where.data, where.download, begin)
    shared = where.alone and not (until or plan.is_search or results.store)
    with ExitStack() as lock, ExitStack() as opened:
        is_recorded = _lock_study(lock, plan, results, view, shared)
        if plan.is_search:
            from recstudy.cluster.searching import search_steps  # it imports Optuna

            steps = search_steps(TrialLog(plan, results), view, storage, again)
        else:
            steps = study_steps(plan, runs, results, view, again, until, shared)
        sweep = None
        for step in steps:
            plan = step.plan
            if step.sources and sweep is None:
                resources = opened_sweep(plan.study.name, configs, results, where, view, work)
                sweep, places = opened.enter_context(resources)
                if meter := next(iter(step.sources.values())).meter:
                    if meter.budget.unit == "gpuh" and not all(fit.gpus for fit in places.values()):
                        raise ClusterError(
                            f"--budget {meter.budget} counts GPU hours, but the runs use no GPU. Give hours"
                            " (2h) or runs"
                        )
                    opened.callback(keep_hours, meter, results)
            if not is_recorded:
                record_plan(plan, results, where.data)  # from here on nothing is refused
            if sweep is None:
                continue
            if shared:
                lock.close()
            if begin is not None:
                begin.keep(results)
            archive(again, results)
            again = ()
            for requested, source in step.sources.items():
                sweep.run(places[requested], source, step.pruning)
                if sweep.hopeless:
                    return plan
        return plan


def keep_hours(meter: Meter, results: Results) -> None:
    with results.changing(meter.path):
        meter.write()


def lock_and_record(plan: Plan, results: Results, view: View, data: Path) -> None:
    """Record a plan of which no run is left, unless the driver that runs this study has recorded one that
    names all its runs.
    """
    with ExitStack() as lock:
        if not _lock_study(lock, plan, results, view, shared=True):
            record_plan(plan, results, data)


def _lock_study(lock: ExitStack, plan: Plan, results: Results, view: View, shared: bool) -> bool:
    """Lock the study's folder until `lock` is closed, and return whether another process has recorded this
    plan meanwhile.

    If the study is shared and the process that has the lock has recorded this plan, nothing is locked.
    """
    hold = partial(results.holding, plan.study.name, plan.folder, on_wait=view.waits)
    with suppress(Held):
        lock.enter_context(hold(wait=not shared))
        return False
    if not recorded(plan, results):
        lock.enter_context(hold())
    return recorded(plan, results)


def archive(again: Collection[str], results: Results) -> None:
    """Move the records of these finished runs out of the way, whole, so that they are run anew.

    A run that another process has run anew since `results` read it stays as it is.
    """
    for run_id in again:
        with (
            suppress(Held),
            locked_run_folder(str(results.run(run_id).path), results.store, wait=False) as folder,
        ):
            if folder.finished and results.is_as_read(run_id):
                folder.archive()
        results.pull(run_id)


@contextmanager
def opened_sweep(
    study: str, configs: Sequence[RunSettings], results: Results, where: Where, view: View, work: Work
) -> Iterator[tuple["Sweep | Alone", dict[Resources, Resources]]]:
    """Give what runs runs, on a cluster that can do the work or in this process, and the places with their
    GPUs decided.
    """
    program, places = configs[0].program, dict.fromkeys(config.resources for config in configs)
    for resources in places:
        program.check_device(resources.device)
    if where.alone:
        from recstudy.cluster.alone import Alone, fit_to_process

        fits = {resources: fit_to_process(resources, program) for resources in places}
        import_all()
        yield Alone(study, results, where, view, work), fits
        return
    from recstudy.cluster.connection import cluster, fitting
    from recstudy.cluster.nodes import check_nodes

    with cluster(where.address, study, view.lost) as dashboard:
        if dashboard:
            view.say(f"Ray dashboard: {dashboard}")
        if where.address is not None:
            check_nodes(results)
        fits = {
            resources: fitting(resources, [config for config in configs if config.resources == resources])
            for resources in places
        }
        from recstudy.cluster.sweep import Sweep  # it imports Ray Tune, for which there is time later

        yield Sweep(study, results, where, view, work, program=program), fits
