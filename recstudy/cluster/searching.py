"""A search, run: propose, run, tell; then the best again with fresh seeds.

The trial log and the records are the truth: a killed driver's successor makes Optuna's study from them and goes on.
"""

import itertools
from collections import deque
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from recstudy.cluster.driver import archive, check, gpus_of, missing, ready, sweep_of
from recstudy.cluster.sources import Outcome, Paid, Where
from recstudy.cluster.view import View
from recstudy.errors import ConfigError, raised_at
from recstudy.programs.trial import Work
from recstudy.records import EpochLine, Results, read_log, write_record
from recstudy.study.budget import Meter
from recstudy.study.plan import Plan, Run
from recstudy.study.record import record_plan
from recstudy.study.search import Params
from recstudy.study.space import Optimizer
from recstudy.study.strategies import PRUNERS
from recstudy.study.trials import State, TrialLog, objective_values, result_of

if TYPE_CHECKING:
    from recstudy.programs.base import InitialWeights

TRIES = 30  # proposals of the sampler in a row that cannot be run, before other settings are looked for
DRAWS = 1000  # of those in a space that cannot be gone through: half a second


def run_search(
    plan: Plan,
    results: Results,
    where: Where,
    view: View,
    storage: str = "",
    work: Work | None = None,
    again: Collection[str] = (),
    begin: "InitialWeights | None" = None,
) -> list[Run]:
    """Search as far as the budget goes, then run the best again with fresh seeds on what is kept of it.

    Args:
        plan: the search.
        results: the results folder.
        where: cluster and data.
        view: is told what happens.
        storage: where optuna-dashboard finds the trials: a journal file or a database URL.
        work: what is done with a trial, by default training.
        again: ids of finished runs that are run anew.
        begin: what runs start from, which is kept beside them.

    Returns:
        The search's runs and those with fresh seeds.

    Raises:
        ConfigError, StorageError, DataError, ClusterError: before anything is started.
    """
    check(list(plan.space.bases.values()), results, where, view, begin)
    with results.holding(plan.study.name, plan.folder, on_wait=view.waits) as folder:
        archive(again, results)  # first: the sampler hears of what is left
        log = TrialLog(plan, results)
        proposals = Proposals(plan, results, log, view, storage)
        record_plan(plan, results, where.data)
        if begin is not None:
            begin.keep(results)
        states = results.states()
        view.searching(plan, log.made, sum(states.get(run_id) not in ("done", "stopped") for run_id in (*log.params, *log.fresh)))
        with ready(plan.study.name, list(plan.space.bases.values()), results, where, view) as places:
            (place,) = places.values()
            proposals.meter = Meter(log.path, gpus_of(place, plan.budget))
            sweep = sweep_of(plan.study.name, results, where, view, work)
            try:
                sweep.run(place, proposals, None if plan.stopping == "none" else PrunedBy(plan, results, log))
                importance = folder / f"importance-{plan.definition}.json"
                with results.changing(importance):
                    write_record(importance, proposals.optimizer.importance())
                if not sweep.hopeless and plan.kept:
                    fresh = log.confirm()
                    todo = missing(fresh, results)
                    view.confirming(fresh, todo)
                    sweep.run(place, Paid(deque(todo), plan.budget, proposals.meter))
            finally:
                with results.changing(log.path):
                    proposals.meter.write()
        return [*log.runs, *log.confirmations]


class Proposals(Paid):
    """What to run next, and what came of it.

    Args:
        plan: the search.
        results: with every run's records.
        log: the trials so far, which grows.
        view: is told of each proposal.
        storage: see `Optimizer`.
    """

    def __init__(self, plan: Plan, results: Results, log: TrialLog, view: View, storage: str) -> None:
        self.plan, self.results, self.log, self.view = plan, results, log, view
        states, runs = results.states(), log.runs
        self.waiting = deque(run for run in runs if states.get(run.id) not in ("done", "stopped"))
        self.optimizer = Optimizer(plan, log.tried(), storage)
        for run in self.waiting:
            trial, _ = self.optimizer.ask(log.params[run.id])
            self.optimizer.begun(trial, run.id, run.label)
        self.first = deque(params for params in plan.first if plan.run(0, params).id not in log.params)
        self.rest = plan.space.combinations()
        self.exhausted = False
        self._asked, self._answer = (-1, -1), True

    @property
    def over(self) -> bool:
        """Hours end what is under way too; a run that was begun is one of the budget's."""
        return self.plan.budget.unit != "runs" and not self._room

    @property
    def _room(self) -> bool:
        """Asked many times a second; of a budget in runs, the answer changes only with the trials."""
        now = self.log.made, self.optimizer.under_way
        if now != self._asked or self.plan.budget.unit != "runs":
            self._asked, self._answer = now, self.log.room(self.meter, self.optimizer.under_way)
        return self._answer

    def next(self) -> Run | None:
        """Return a run that is not known yet; None where the budget goes no further or nothing is left to try."""
        tries = 0
        while not self.exhausted and self._room:
            given = self.first.popleft() if self.first else self._untried() if tries >= TRIES else None
            if self.exhausted:
                break
            trial, params = self.optimizer.ask(given)
            tries += 1
            try:
                run = self.plan.run(len(self.log.params), params)
            except ConfigError:  # settings that do not fit together, such as a width and its heads
                self.optimizer.tell(trial, "failed")
                continue
            known = objective_values(self.plan.objectives, result_of(self.results, run.id))
            if run.id in self.log.params:
                self.optimizer.tell(trial, "failed" if None in known else "done", known)
                continue
            tries = 0
            self.log.add(run, params)
            self.optimizer.begun(trial, run.id, run.label)
            self.view.proposed(run.label, known=None not in known)
            if None in known:
                return run
            self.optimizer.ended(run.id, "done", known)
        return None

    def _untried(self) -> Params | None:
        """Settings that fit together and were not tried; where there seem to be none, the search is over, and it is said why."""
        misfits: list[str] = []
        drawn = itertools.islice(self.plan.space.draws(seed=len(self.log.params)), DRAWS)
        for params in drawn if self.rest is None else self.rest:
            try:
                if self.plan.run(0, params).id not in self.log.params:
                    return params
            except ConfigError as error:
                misfits.append(str(error))
        self.exhausted = True
        words = "All settings that fit together were tried: the space is searched."
        if self.rest is None:
            unfit = f", {len(misfits):,} do not fit together, such as: {misfits[-1]}" if misfits else ""
            words = f"Of {DRAWS:,} settings drawn at random {DRAWS - len(misfits):,} were tried before{unfit}"
        elif not self.log.params:
            words = f"No settings fit together, such as: {misfits[-1]}"
        self.view.say(words)
        return None

    def epoch(self, run: Run, line: Outcome) -> None:
        self.optimizer.epoch(run.id, line["epoch"], line.get(run.config.objective))

    def ended(self, run: Run, outcome: Outcome) -> None:
        super().ended(run, outcome)
        values = objective_values(self.plan.objectives, result_of(self.results, run.id))
        state: State = outcome["status"] if outcome["status"] in ("done", "stopped") else "failed"
        self.optimizer.ended(run.id, state, values)


class PrunedBy:
    """Stops runs by a pruner, which is told the epochs of runs of before too: a search that goes on decides as it would have.

    Args:
        plan: the search.
        results: with the records of the runs of before.
        log: with their ids.
    """

    def __init__(self, plan: Plan, results: Results, log: TrialLog) -> None:
        self.name, self.rule = plan.stopping, PRUNERS[plan.stopping]
        self.objective, way = next(iter(plan.objectives.items()))
        self.sign = 1 if way == "max" else -1
        self.epochs = max(config.steps or 0 for config in plan.space.bases.values())
        self.scores: dict[str, dict[int, float]] = {}  # by run: epochs done -> score
        for run_id in log.params:
            for line in read_log(results.run(run_id).epochs, EpochLine):
                self._hear(run_id, line.epoch + 1, line.values)

    def _hear(self, run_id: str, epochs: int, values: Mapping[str, Any]) -> bool:
        score = values.get(self.objective)
        if score is not None:
            self.scores.setdefault(run_id, {})[epochs] = self.sign * score
        return score is not None

    def stops(self, run_id: str, line: Outcome) -> bool:
        """Return whether a run is stopped after this epoch."""
        if "status" in line or not self._hear(run_id, line["epochs_done"], line):
            return False
        run = {epoch: score for epoch, score in self.scores[run_id].items() if epoch <= line["epochs_done"]}
        others = [scores for other, scores in self.scores.items() if other != run_id]
        try:
            return self.rule(run, others, self.epochs or max(map(max, self.scores.values())))
        except Exception as error:  # of a user's own code
            raise ConfigError(f"the pruner {self.name!r} cannot say whether a run is stopped: {raised_at(error)}") from None
