"""From a plan to records, on Ray Tune: what is missing is run, what is finished is left alone.

Tune schedules, restarts what was killed and reuses warm processes. Seeds, order, resume and progress are ours: a run is
its id, so resuming, retrying and extending a study are one and the same case. Each run's worker writes the run's
records; the driver writes the plan and names the runs that never came back.
"""

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune import CheckpointConfig, FailureConfig, TuneConfig, Tuner
from ray.tune import RunConfig as TuneRunConfig
from ray.tune.experiment import Trial as TuneTrial

from recstudy.config import Place
from recstudy.data.cache import load
from recstudy.records import Results, locked, read_lines, write_json
from recstudy.study.cluster import check_storage, cluster, concurrent_runs, fitting
from recstudy.study.plan import record_plan
from recstudy.study.study import Plan, Run
from recstudy.study.view import View
from recstudy.train.trial import Trial
from recstudy.train.worker import RESTARTS, tune_trial

Trainable = Callable[..., None]

SAME = 3  # runs that fail with one and the same error before any succeeds: the rest would too

# What a Tune process needs that only starts Ray Train workers: no core, and Tune wants something; every head node has this.
COORDINATOR: dict[str, float] = {"node:__internal_head__": 0.001}


@dataclass(frozen=True)
class Where:
    """Where a study runs; nothing here decides a number."""

    address: str | None = None
    data: Path = Path("data")
    download: bool = False
    commit: str | None = None
    dirty: bool = False


def run_study(
    plan: Plan, runs: Sequence[Run], results: Results, where: Where, view: View, trainable: Trainable = tune_trial
) -> None:
    """Run those of `runs` that have no result yet, and record the plan.

    Raises:
        StorageError, DataError, ClusterError: before anything is started.
    """
    _check_data(_missing(runs, results), where)
    folder = results.create().study(plan.study.name, plan.folder)
    with locked(folder / "lock", f"process {os.getpid()} on {socket.gethostname()}"):
        missing = _missing(runs, results)
        view.planned(runs, missing)
        if not missing:
            record_plan(plan, results)
            return
        with cluster(where.address) as dashboard:
            view.connected(dashboard)
            check_storage(results.root, where.address)
            places = {place: fitting(place) for place in {run.config.place for run in missing}}
            record_plan(plan, results)  # from here on nothing is refused
            _tune(places, plan, missing, results, where, view, trainable)


def _missing(runs: Sequence[Run], results: Results) -> list[Run]:
    """Each run without a result, once."""
    states = results.states()
    return list({run.id: run for run in runs if states.get(run.id) != "done"}.values())


def _check_data(runs: Sequence[Run], where: Where) -> None:
    """Refuse a set that is missing or damaged here, before anything is written, and not in every run."""
    for data in {run.config.data for run in runs}:
        known = load(data, where.data, download=where.download)
        for model in {run.config.model for run in runs if run.config.data == data}:
            model.check_groups(known.group_count, data.title)


def _tune(
    places: Mapping[Place, Place],
    plan: Plan,
    missing: Sequence[Run],
    results: Results,
    where: Where,
    view: View,
    trainable: Trainable,
) -> None:
    """One Tune trial a run, in the plan's order, grouped by what they need: a warm process serves runs of one size."""
    for place, runs in _by_place(missing).items():
        fit = places[place]
        scratch = tempfile.mkdtemp(prefix="recstudy-", dir=results.root if where.address else None)
        trials = [_trial(plan, run, fit, results, where, scratch) for run in runs]
        watch = _Watch(runs, results, view)
        try:
            _fit(plan.study.name, trials, fit, scratch, watch, trainable)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if watch.hopeless:
            view.gave_up(watch.errors[0], SAME)
            return


def _by_place(runs: Sequence[Run]) -> Mapping[Place, list[Run]]:
    groups: dict[Place, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.config.place, []).append(run)
    return groups


def _trial(plan: Plan, run: Run, place: Place, results: Results, where: Where, scratch: str) -> Trial:
    return Trial(
        study=plan.study.name,
        label=run.label,
        config={**run.config.values, "place": place.model_dump()},
        run_id=run.id,
        folder=str(results.run(run.id).path),
        data=str(where.data.absolute()),
        download=where.download,
        scratch=scratch,
        commit=where.commit,
        dirty=where.dirty,
    )


def _fit(name: str, trials: list[Trial], place: Place, scratch: str, watch: "_Watch", trainable: Trainable) -> None:
    def named(settings: dict[str, Trial]) -> None:
        trainable(settings)

    named.__name__ = name  # what the dashboard's Actors page shows
    resources = COORDINATOR if place.uses_train else {"cpu": place.cpus_per_run, "gpu": place.gpus_per_run or 0}
    at_once = concurrent_runs(place)
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(at_once)
    tuner = Tuner(
        tune.with_resources(named, resources),
        param_space={"trial": tune.grid_search(trials)},
        tune_config=TuneConfig(reuse_actors=not place.uses_train, max_concurrent_trials=at_once),
        run_config=TuneRunConfig(
            name=name,
            storage_path=scratch,
            verbose=0,
            callbacks=[watch],
            stop=_Hopeless(watch),
            failure_config=FailureConfig(max_failures=0 if place.uses_train else RESTARTS),
            checkpoint_config=CheckpointConfig(checkpoint_frequency=0),
        ),
    )
    tuner.fit()


class _Watch(tune.Callback):
    """Tells the view what Tune sees, and records the runs whose processes never came back."""

    def __init__(self, runs: Sequence[Run], results: Results, view: View) -> None:
        self.results, self.view = results, view
        self.runs = {run.id: run for run in runs}
        self.errors: list[str] = []
        self.succeeded = False

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune writes its own state to disk; it is never restored from there

    def on_trial_start(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        self.view.started(self._run(trial))

    def on_trial_result(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, result: dict[str, Any], **info: Any
    ) -> None:
        if "status" in result:
            self._ended(self._run(trial), result)
        else:
            self.view.epoch(self._run(trial), result)

    def on_trial_error(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        run = self._run(trial)
        folder = self.results.run(run.id)
        reason = str(trial.get_error() or "its process ended").strip().splitlines()[-1]
        if not folder.failure.exists() and not folder.finished:
            failure = {"class": "lost", "error": reason, "traceback": str(trial.get_error() or "")}
            write_json(folder.failure, {**failure, "attempts": len(read_lines(folder.attempts))})
        self._ended(run, {"status": "failed", "error": reason})

    def _ended(self, run: Run, outcome: dict[str, Any]) -> None:
        if outcome["status"] == "failed":
            self.errors.append(str(outcome["error"]).replace(run.id, "ID"))  # a path in the run's folder is no difference
        else:
            self.succeeded = True
        self.view.ended(run, outcome)

    @property
    def hopeless(self) -> bool:
        """Whether the first runs all failed in the same way."""
        return not self.succeeded and len(self.errors) >= SAME and len(set(self.errors)) == 1

    def _run(self, trial: TuneTrial) -> Run:
        return self.runs[trial.config["trial"].run_id]


class _Hopeless(tune.Stopper):
    """Ends a sweep whose first runs all fail in the same way, rather than to fail a thousand times."""

    def __init__(self, watch: _Watch) -> None:
        self.watch = watch

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self.watch.hopeless
