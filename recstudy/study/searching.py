"""A search, run: propose, run, tell; then the best again with fresh seeds.

The trial log and the records are the truth: a killed driver's successor makes Optuna's study from them and goes on.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ray.tune.schedulers import AsyncHyperBandScheduler, MedianStoppingRule, TrialScheduler

from recstudy.errors import ClusterError, ConfigError
from recstudy.records import Results, read_lines, write_json
from recstudy.study.budget import Meter, used_up
from recstudy.study.driver import check_data, held, missing, ready
from recstudy.study.loggers import check_loggers
from recstudy.study.plan import record_plan
from recstudy.study.search import Params, SearchPlan
from recstudy.study.space import Optimizer
from recstudy.study.study import Run
from recstudy.study.sweep import Listed, Outcome, Sweep, Trainable, Where
from recstudy.study.trials import State, TrialLog, objective_values, result_of
from recstudy.study.view import View, score_name
from recstudy.train.worker import tune_trial

REPEATS = 30  # proposals in a row that are known before the rest of a small space is looked through


def run_search(
    plan: SearchPlan, results: Results, where: Where, view: View, storage: str = "", trainable: Trainable = tune_trial
) -> list[Run]:
    """Search until the budget is used, then run the best again with fresh seeds.

    Args:
        plan: the search.
        results: the results folder.
        where: cluster and data.
        view: is told what happens.
        storage: where optuna-dashboard finds the trials: a journal file or a database URL.
        trainable: what Tune calls with a trial.

    Returns:
        The search's runs and those with fresh seeds.

    Raises:
        ConfigError, StorageError, DataError, ClusterError: before anything is started.
    """
    check_loggers(where.log)
    check_data(list(plan.bases.values()), where)
    with held(plan, results, view) as folder:
        log = TrialLog(plan, results)
        proposals = Proposals(plan, results, log, view, storage)
        record_plan(plan, results)
        view.searching(plan.budget, len(log.params), len(proposals.waiting))
        with ready(plan.study.name, list(plan.bases.values()), results, where, view) as places:
            (place,) = places.values()
            gpus = (place.gpus_per_run or 0) * place.workers_per_run
            if plan.budget.unit == "gpuh" and not gpus:
                raise ClusterError(f"--budget {plan.budget} counts GPU hours, but the runs use no GPU. Give hours (2h) or runs")
            proposals.meter = Meter(log.path, gpus)
            sweep = Sweep(plan.study.name, results, where, view, trainable)
            try:
                sweep.run(place, proposals, make_scheduler(plan, results, log))
            finally:
                with results.changing(log.path):
                    proposals.meter.write()
            importance = folder / f"importance-{plan.definition}.json"
            with results.changing(importance):
                write_json(importance, proposals.optimizer.importance())
            if not sweep.hopeless and plan.confirm:
                again = log.confirm()
                view.confirming(again, missing(again, results))
                sweep.run(place, Listed(deque(missing(again, results))))
        return [*log.runs, *log.confirmations]


class Proposals:
    """What to run next, and what came of it.

    Args:
        plan: the search.
        results: with every run's records.
        log: the trials so far, which grows.
        view: is told of each proposal.
        storage: see `Optimizer`.
    """

    meter: Meter

    def __init__(self, plan: SearchPlan, results: Results, log: TrialLog, view: View, storage: str) -> None:
        self.plan, self.results, self.log, self.view = plan, results, log, view
        states, runs = results.states(), log.runs
        self.waiting = deque(run for run in runs if states.get(run.id) not in ("done", "stopped"))
        self.optimizer = Optimizer(plan, log.tried(), storage)
        for run in self.waiting:
            self._open(run, log.params[run.id])
        self.first = deque(params for params in plan.first if plan.run(0, params).id not in log.params)
        self.rest: Iterator[Params] = plan.combinations() or iter(())
        self.exhausted = False

    def _open(self, run: Run, params: Params) -> None:
        trial, _ = self.optimizer.ask(params)
        self.optimizer.begun(trial, run.id, run.label)

    @property
    def over(self) -> bool:
        """Hours end what is under way too; a run that was begun is one of the budget's."""
        return self.plan.budget.unit != "runs" and self._used_up

    @property
    def _used_up(self) -> bool:
        return used_up(self.plan.budget, len(self.log.params), self.meter)

    def next(self) -> Run | None:
        """A run that is not known yet; None where the budget is used or nothing is left to try."""
        repeats = 0
        while not self._used_up and not self.exhausted:
            trial, params = self.optimizer.ask(self._given(repeats))
            repeats += 1
            try:
                run = self.plan.run(len(self.log.params), params)
            except ConfigError:  # settings that do not fit together, such as a width and its heads
                self.optimizer.tell(trial, "failed")
                continue
            known = objective_values(self.plan.objectives, result_of(self.results, run.id) or {})
            if run.id in self.log.params:
                self.optimizer.tell(trial, "failed" if None in known else "done", known)
                continue
            repeats = 0
            self.log.add(run, params)
            self.optimizer.begun(trial, run.id, run.label)
            self.view.proposed(run.label, known=None not in known)
            if None in known:
                return run
            self.optimizer.ended(run.id, "done", known)
        return None

    def _given(self, repeats: int) -> Params | None:
        """Settings to try: those given beforehand; None: what the sampler likes; at last what is left of a small space."""
        if self.first:
            return self.first.popleft()
        if repeats < REPEATS:
            return None
        rest = next(self.rest, None)
        self.exhausted = rest is None
        if self.exhausted:
            self.view.exhausted()
        return rest

    def started(self, run: Run) -> None:
        self.meter.started(run.id)

    def epoch(self, run: Run, line: Outcome) -> None:
        self.optimizer.epoch(run.id, line["epoch"], line.get(score_name(line)))

    def ended(self, run: Run, outcome: Outcome) -> None:
        self.meter.ended(run.id)
        values = objective_values(self.plan.objectives, result_of(self.results, run.id) or {})
        state: State = outcome["status"] if outcome["status"] in ("done", "stopped") else "failed"
        self.optimizer.ended(run.id, state, values)


@dataclass(frozen=True)
class _Before:
    """What a scheduler wants to know of an earlier trial."""

    trial_id: str


def make_scheduler(plan: SearchPlan, results: Results, log: TrialLog) -> TrialScheduler | None:
    """Tune's scheduler, told the epochs of the runs before it, so that a search that goes on knows their rungs."""
    if plan.stopping == "none":
        return None
    epochs = max(config.train.epochs for config in plan.bases.values())
    (metric, mode), clock = next(iter(plan.objectives.items())), "epochs_done"
    scheduler: Any = (
        AsyncHyperBandScheduler(clock, metric, mode, max_t=epochs, grace_period=max(1, epochs // 9), stop_last_trials=False)
        if plan.stopping == "asha"
        else MedianStoppingRule(clock, metric, mode, grace_period=max(1, epochs // 9), min_samples_required=3)
    )
    for run_id in log.params:
        before = _Before(run_id)
        scheduler.on_trial_add(None, before)
        for line in read_lines(results.run(run_id).epochs):
            scheduler.on_trial_result(None, before, {**line, clock: line["epoch"] + 1})
    return scheduler
