"""From a plan to records, on Ray: what is missing is run, what is finished is left alone.

A run is its id, so resuming, retrying and extending a study are one and the same case. Each run's worker writes the run's
records; the driver writes the plan and names the runs that never came back.
"""

import os
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from recstudy.config import Place, RunConfig
from recstudy.data.cache import load
from recstudy.leases import leased
from recstudy.records import Results, locked
from recstudy.study.cluster import cluster, fitting
from recstudy.study.loggers import check_loggers
from recstudy.study.nodes import check_storage
from recstudy.study.plan import record_plan
from recstudy.study.search import SearchPlan
from recstudy.study.study import Plan, Run
from recstudy.study.sweep import Listed, Sweep, Trainable, Where
from recstudy.study.view import View
from recstudy.train.worker import tune_trial


def run_study(
    plan: Plan, runs: Sequence[Run], results: Results, where: Where, view: View, trainable: Trainable = tune_trial
) -> None:
    """Run those of `runs` that have no result yet, and record the plan.

    Raises:
        ConfigError, StorageError, DataError, ClusterError: before anything is started.
    """
    check_loggers(where.log)
    check_data([run.config for run in missing(runs, results)], where)
    with held(plan, results, view):
        todo = missing(runs, results)
        view.planned(runs, todo)
        if not todo:
            record_plan(plan, results)
            return
        with ready(plan.study.name, [run.config for run in todo], results, where, view) as places:
            record_plan(plan, results)  # from here on nothing is refused
            sweep = Sweep(plan.study.name, results, where, view, trainable)
            for place, fit in places.items():  # a warm process serves runs of one size
                sweep.run(fit, Listed(deque(run for run in todo if run.config.place == place)))
                if sweep.hopeless:
                    return


def missing(runs: Sequence[Run], results: Results) -> list[Run]:
    """Each run without a result, once."""
    states = results.states()
    return list({run.id: run for run in runs if states.get(run.id) != "done"}.values())


def check_data(configs: Sequence[RunConfig], where: Where) -> None:
    """Refuse a set that is missing or damaged here, before anything is written, and not in every run."""
    for data in {config.data for config in configs}:
        known = load(data, where.data, download=where.download)
        for model in {config.model for config in configs if config.data == data}:
            model.check_groups(known.group_count, data.title)


@contextmanager
def held(plan: Plan | SearchPlan, results: Results, view: View) -> Iterator[Path]:
    """The study's folder, for one driver at a time: a second one waits."""
    folder = results.create().study(plan.study.name, plan.folder)
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    with locked(folder / "lock", holder, wait=True, on_wait=view.waits), ExitStack() as kept:
        if results.mirror is not None:
            kept.enter_context(leased(results.mirror, folder, holder, view.waits))
            results.pull()
        yield folder


@contextmanager
def ready(study: str, configs: Sequence[RunConfig], results: Results, where: Where, view: View) -> Iterator[dict[Place, Place]]:
    """A cluster that can do the study's work, and each place that is asked for with its GPUs decided."""
    with cluster(where.address, view.silent, study) as dashboard:
        view.connected(dashboard)
        if where.address is not None:
            check_storage(results)
        places = dict.fromkeys(config.place for config in configs)
        yield {place: fitting(place, [config for config in configs if config.place == place]) for place in places}
