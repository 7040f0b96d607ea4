"""The driver: it executes the unfinished runs of a plan, on Ray or in this process, and skips finished ones.

A run is identified by its id, so resuming, retrying and extending a study use the same code. Each run's
worker writes the records of the run. The driver writes the plan, and the failures of runs whose process was
lost.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from recstudy.base.errors import EXIT_CODES, ClusterError, StorageError
from recstudy.cluster.address import check_address
from recstudy.cluster.sources import RunOptions, study_steps, unfinished_runs
from recstudy.cluster.view import View
from recstudy.plugins import import_all, sent_files
from recstudy.programs.base import RunSettings
from recstudy.programs.run_folder import locked_run_folder
from recstudy.programs.settings import Resources
from recstudy.records import Results, Run
from recstudy.records.locks import LockedError
from recstudy.study.budget import Meter
from recstudy.study.plan import Plan
from recstudy.study.record import record_plan, recorded
from recstudy.study.trials import TrialLog, runs_of

if TYPE_CHECKING:
    from recstudy.cluster.sweep import Sweep
    from recstudy.cluster.without_ray import LocalRunner
    from recstudy.programs.facts import InitialWeights
    from recstudy.study.until import Until


def run_plan(
    plan: Plan,
    results: Results,
    options: RunOptions,
    view: View,
    runs: Sequence[Run] = (),
    *,
    rerun_ids: Collection[str] = (),
    until: "Until | None" = None,
    begin: "InitialWeights | None" = None,
    storage: str = "",
) -> Plan:
    """Record the plan and execute its unfinished runs, or the proposals of a search.

    The study's folder is locked meanwhile. If several processes share the runs of a study (`--no-ray`), it is
    locked only until the plan is recorded, because each run has its own lock.

    Args:
        plan: The plan of a study or search.
        results: The results folder.
        options: Cluster, data and loggers.
        view: The display of progress.
        runs: The runs of a study to finish. With `until`, all runs of the plan are finished, followed by
            blocks of additional seeds.
        rerun_ids: Ids of finished runs to repeat.
        until: Adds seeds to a study until its questions are decided.
        begin: Initial weights of the runs, which are saved in the results folder.
        storage: A journal file or a database URL for optuna-dashboard.

    Returns:
        The plan with all blocks of seeds.

    Raises:
        ConfigError, StorageError, DataError, ClusterError: The plan cannot be executed. No run was started.
    """
    if plan.is_search:
        configs: Sequence[RunSettings] = [*plan.space.bases.values()]
    else:
        configs = plan.configs if until else [run.config for run in unfinished_runs(runs, results, rerun_ids)]
    # Check loggers, address, data and weights once, before any record is written.
    if not options.without_ray:
        check_address(options.address)  # before Ray is imported
        sent_files()
        if options.log:
            # imported late, because it imports Ray Tune
            from recstudy.cluster.trackers import check_loggers

            check_loggers(options.log)
    if configs:
        configs[0].program.check(configs, results, options.data, options.download, begin)
    shared = options.without_ray and not (until or plan.is_search or results.store)
    with ExitStack() as lock, ExitStack() as stack:
        is_recorded = _lock_study(lock, plan, results, view, shared)
        if plan.is_search:
            from recstudy.cluster.searching import search_steps  # imports Optuna

            steps = search_steps(TrialLog(plan, results), view, storage, rerun_ids)
        else:
            steps = study_steps(plan, runs, results, view, rerun_ids, until, shared)
        sweep = None
        for step in steps:
            plan = step.plan
            if step.sources and sweep is None:
                resources = open_runner(plan, configs, results, options, view)
                sweep, places = stack.enter_context(resources)
                if meter := next(iter(step.sources.values())).meter:
                    if meter.budget.unit == "gpuh" and not all(fit.gpus for fit in places.values()):
                        raise ClusterError(
                            f"--budget {meter.budget} counts GPU hours, but the runs use no GPU. Use hours"
                            " (2h) or a number of runs"
                        )
                    stack.callback(keep_hours, meter, results)
            if not is_recorded:
                record_plan(plan, results, options.data)  # all checks have passed
            if sweep is None:
                continue
            if shared:
                lock.close()
            if begin is not None:
                begin.keep(results)
            archive(rerun_ids, results)
            rerun_ids = ()
            sweep.succeeded |= any(results.state(run.id) == "done" for run in runs_of(plan, results))
            for requested, source in step.sources.items():
                try:
                    sweep.run(places[requested], source)
                except StorageError as error:
                    error.exit_code = EXIT_CODES["storage"]  # before runs, it is an input error
                    raise
                if sweep.is_hopeless:
                    return plan
        return plan


def keep_hours(meter: Meter, results: Results) -> None:
    with results.changing(meter.path):
        meter.write()


def lock_and_record(plan: Plan, results: Results, view: View, data: Path) -> None:
    """Record a plan without unfinished runs, unless another driver of this study has recorded its runs."""
    with ExitStack() as lock:
        if not _lock_study(lock, plan, results, view, shared=True):
            record_plan(plan, results, data)


def _lock_study(lock: ExitStack, plan: Plan, results: Results, view: View, shared: bool) -> bool:
    """Lock the study's folder until `lock` is closed.

    If the study is shared and the process with the lock has recorded this plan, nothing is locked.

    Returns:
        Whether another process has recorded this plan.
    """
    hold = partial(results.holding, plan.study.name, plan.folder, on_wait=view.waits)
    with suppress(LockedError):
        lock.enter_context(hold(wait=not shared))
        return False
    if not recorded(plan, results):
        lock.enter_context(hold())
    return recorded(plan, results)


def archive(rerun_ids: Collection[str], results: Results) -> None:
    """Archive the records of these finished runs, so that they can be repeated.

    A run that another process has already repeated since `results` read it is not archived.
    """
    for run_id in rerun_ids:
        with (
            suppress(LockedError),
            locked_run_folder(str(results.run(run_id).path), results.store, wait=False) as folder,
        ):
            if folder.finished and results.is_as_read(run_id):
                folder.archive()
        results.pull(run_id)


@contextmanager
def open_runner(
    plan: Plan, configs: Sequence[RunSettings], results: Results, options: RunOptions, view: View
) -> Iterator[tuple["Sweep | LocalRunner", dict[Resources, Resources]]]:
    """Yield a runner, on a cluster or in this process, and the resources with their number of GPUs.

    Yields:
        The runner, and for each requested `Resources` those with the number of GPUs set.
    """
    program, requests = configs[0].program, dict.fromkeys(config.resources for config in configs)
    for resources in requests:
        program.check_device(resources.device)
    if options.without_ray:
        from recstudy.cluster.without_ray import LocalRunner, fit_to_process

        resolved = {resources: fit_to_process(resources, program) for resources in requests}
        import_all()
        plan.study.activate()  # an imported file may have another study of its program
        yield LocalRunner(plan.study.name, results, options, view), resolved
        return
    view.begin("starting Ray")
    from recstudy.cluster.connection import cluster, resolve_gpus
    from recstudy.cluster.nodes import check_nodes

    with cluster(options.address, plan.study.name, view.exit_lost) as dashboard:
        view.ray_started(dashboard)
        if options.address is not None:
            check_nodes(results)
        resolved = {
            resources: resolve_gpus(
                resources, [config for config in configs if config.resources == resources]
            )
            for resources in requests
        }
        from recstudy.cluster.sweep import Sweep  # imported late, because it imports Ray Tune

        yield Sweep(plan.study.name, results, options, view, program=program), resolved
