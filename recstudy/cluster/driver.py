"""From a plan to records, on Ray: what is missing is run, what is finished is left alone.

A run is its id, so resuming, retrying and extending a study are one and the same case. Each run's worker writes the run's
records; the driver writes the plan and names the runs that never came back.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from recstudy.cluster.address import check_address
from recstudy.cluster.connection import cluster, fitting
from recstudy.cluster.nodes import check_nodes
from recstudy.cluster.sources import Listed, Where
from recstudy.cluster.view import View
from recstudy.config import Place, RunConfig
from recstudy.data.cache import load
from recstudy.records import Results
from recstudy.study.plan import record_plan
from recstudy.study.study import Plan, Run
from recstudy.train.run_folder import workplace
from recstudy.train.work import Work, train


def run_study(
    plan: Plan,
    runs: Sequence[Run],
    results: Results,
    where: Where,
    view: View,
    work: Work = train,
    again: Collection[str] = (),
) -> None:
    """Run those of `runs` that have no result yet, and record the plan; those with the ids `again` are run anew.

    Raises:
        ConfigError, StorageError, DataError, ClusterError: before anything is started.
    """
    check([run.config for run in missing(runs, results, again)], where, view)
    with results.holding(plan.study.name, plan.folder, on_wait=view.waits):
        todo = missing(runs, results, again)
        view.planned(runs, todo)
        if not todo:
            record_plan(plan, results, where.data)
            return
        with ready(plan.study.name, [run.config for run in todo], results, where, view) as places:
            from recstudy.cluster.sweep import Sweep  # not before: see MEANWHILE

            record_plan(plan, results, where.data)  # from here on nothing is refused
            set_aside(again, results)
            sweep = Sweep(plan.study.name, results, where, view, work)
            for place, fit in places.items():  # a warm process serves runs of one size
                sweep.run(fit, Listed(deque(run for run in todo if run.config.place == place)))
                if sweep.hopeless:
                    return


def missing(runs: Sequence[Run], results: Results, again: Collection[str] = ()) -> list[Run]:
    """Each run without a result or with an id of `again`, once."""
    states = results.states()
    return list({run.id: run for run in runs if states.get(run.id) != "done" or run.id in again}.values())


def set_aside(again: Collection[str], results: Results) -> None:
    """Move the records of these finished runs out of the way, whole, so that they are run anew."""
    for run_id in again:
        with workplace(str(results.run(run_id).path), results.store) as folder:
            if folder.finished:
                folder.set_aside()
        results.pull(run_id)


def check(configs: Sequence[RunConfig], where: Where, view: View) -> None:
    """Refuse trackers, an address and data that cannot be used, before anything is written, and not in every run."""
    if where.log:
        from recstudy.cluster.trackers import check_loggers  # it imports Ray Tune, for which there is time later

        check_loggers(where.log)
    check_address(where.address, view.silent)
    for data, drawn in {config.data: config.drawn.data for config in configs}.items():  # of data drawn per seed, one seed's
        known = load(drawn, where.data, download=where.download)
        for model in {config.model for config in configs if config.data == data}:
            model.check_groups(known.group_count, data.title)


@contextmanager
def ready(study: str, configs: Sequence[RunConfig], results: Results, where: Where, view: View) -> Iterator[dict[Place, Place]]:
    """A cluster that can do the study's work, and each place that is asked for with its GPUs decided."""
    with cluster(where.address, study, view.lost) as dashboard:
        view.connected(dashboard)
        if where.address is not None:
            check_nodes(results)
        places = dict.fromkeys(config.place for config in configs)
        yield {place: fitting(place, [config for config in configs if config.place == place]) for place in places}
