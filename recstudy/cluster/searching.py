"""A search, run: propose, run, tell; then the best again with fresh seeds.

The trial log and the records are the truth: a killed driver's successor makes Optuna's study from them and
goes on.
"""

import itertools
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from recstudy.cluster.sources import Source, Step, missing
from recstudy.cluster.view import Outcome, View
from recstudy.errors import ConfigError, raised_at
from recstudy.records import EpochLine, read_log, write_record
from recstudy.study.plan import Run
from recstudy.study.search import Params
from recstudy.study.space import Optimizer
from recstudy.study.strategies import PRUNERS
from recstudy.study.trials import State, TrialLog, runs_of

ENDED = ("done", "stopped")  # trials that are not run again
TRIES = 30  # proposals of the sampler in a row that cannot be run, before other settings are looked for
DRAWS = 1000  # of those in a space that cannot be gone through: half a second


def search_steps(log: TrialLog, view: View, storage: str = "", again: Collection[str] = ()) -> Iterator[Step]:
    """Yield a search's proposals as far as the budget goes, then the best with fresh seeds on what is kept of
    it.

    Args:
        log: The trials so far.
        view: Is told what happens.
        storage: Where optuna-dashboard finds the trials: a journal file or a database URL.
        again: Ids of finished runs that are run anew.
    """
    plan, results = log.plan, log.results
    proposals = Proposals(log, view, storage, again)
    view.searching(plan, log.run_count, missing(runs_of(plan, results), results, again, ENDED))
    pruning = None if plan.stopping == "none" else PrunedBy(log, again)
    yield Step(plan, {plan.base.resources: proposals}, pruning)
    importance = log.path.with_name(f"importance-{plan.definition}.json")
    with results.changing(importance):
        write_record(importance, proposals.optimizer.importance())
    if plan.reserved_runs:
        fresh = log.confirm()
        todo = missing(fresh, results)
        view.confirming(fresh, todo)
        yield Step(plan, {plan.base.resources: Source(deque(todo), log.meter)})


class Proposals(Source):
    """What a search runs next, and what came of it.

    Args:
        log: The trials so far, which grows.
        view: Is told of each proposal.
        storage: See `Optimizer`.
        again: Ids of finished runs that are run anew.
    """

    def __init__(self, log: TrialLog, view: View, storage: str = "", again: Collection[str] = ()) -> None:
        waiting = missing(log.runs, log.results, again, ENDED)
        super().__init__(deque(waiting), log.meter)
        self.plan, self.log, self.view = log.plan, log, view
        self.optimizer = Optimizer(self.plan, log.tried(again), storage)
        for run in waiting:
            trial, _ = self.optimizer.ask(log.params[run.id])
            self.optimizer.start_trial(trial, run.id, run.label)
        self.first = deque(
            params for params in self.plan.first if self.plan.run(0, params).id not in log.params
        )
        self.rest = self.plan.space.combinations()
        self.exhausted = False
        self._asked, self._answer = (-1, -1), True

    @property
    def over(self) -> bool:
        """Hours end what is under way too; a run that was begun is one of the budget's."""
        return self.plan.budget.unit != "runs" and not self._room

    @property
    def _room(self) -> bool:
        """Asked many times a second; of a budget in runs, the answer changes only with the trials."""
        now = self.log.run_count, self.optimizer.running_trials
        if now != self._asked or self.plan.budget.unit != "runs":
            self._asked, self._answer = now, self.log.has_room(self.optimizer.running_trials)
        return self._answer

    def next(self) -> Run | None:
        """Return a run that is not known yet; None where the budget goes no further or nothing is left to
        try.
        """
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
            _, known = self.log.measured(run.id)
            if run.id in self.log.params:
                self.optimizer.tell(trial, "failed" if None in known else "done", known)
                continue
            tries = 0
            self.log.add(run, params)
            self.optimizer.start_trial(trial, run.id, run.label)
            self.view.proposed(run, is_finished=None not in known)
            if None in known:
                return run
            self.optimizer.end_trial(run.id, "done", known)
        return None

    def _untried(self) -> Params | None:
        """Settings that fit together and were not tried; where there seem to be none, the search is over, and
        it is said why.
        """
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
        self.optimizer.report_epoch(run.id, line["epoch"], line.get(run.config.objective))

    def ended(self, run: Run, outcome: Outcome) -> None:
        super().ended(run, outcome)
        _, values = self.log.measured(run.id)
        state: State = outcome["status"] if outcome["status"] in ENDED else "failed"
        self.optimizer.end_trial(run.id, state, values)


class PrunedBy:
    """Stops runs by a pruner, which also hears of the epochs of earlier runs: a search that resumes decides
    as before.

    Args:
        log: The trials so far.
        again: Ids of finished runs that are run anew.
    """

    def __init__(self, log: TrialLog, again: Collection[str] = ()) -> None:
        plan = log.plan
        self.name, self.rule = plan.stopping, PRUNERS[plan.stopping]
        self.objective, way = next(iter(plan.objectives.items()))
        self.sign = 1 if way == "max" else -1
        self.epochs = max(base.steps or 0 for base in plan.space.bases.values())
        self.scores: dict[str, dict[int, float]] = {}  # by run: epochs done -> score
        for run_id in (run_id for run_id in log.params if run_id not in again):
            for line in read_log(log.results.run(run_id).epochs, EpochLine):
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
            raise ConfigError(
                f"the pruner {self.name!r} cannot say whether a run is stopped: {raised_at(error)}"
            ) from None
