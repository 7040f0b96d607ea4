"""Execute a search: propose settings, run them and report the result; then confirm the best with new seeds.

The search is resumed from the trial log and the records: the next driver rebuilds Optuna's study from them.
"""

import itertools
from collections import deque
from collections.abc import Collection, Iterator

from recstudy.base.errors import ConfigError
from recstudy.cluster.pruning import PrunedBy
from recstudy.cluster.sources import FINAL_STATES, Source, SweepStep, unfinished_runs
from recstudy.cluster.view import Outcome, View
from recstudy.records import Run, write_record
from recstudy.study.search import Params
from recstudy.study.space import Optimizer
from recstudy.study.trials import State, TrialLog, runs_of

TRIES = 30  # invalid proposals of the sampler in a row, before untried settings are searched for
DRAWS = 1000  # random settings in a space that cannot be enumerated: half a second


def search_steps(log: TrialLog, view: View, storage: str, rerun_ids: Collection[str]) -> Iterator[SweepStep]:
    """Yield the proposals of a search, and then the confirmation of the best settings with new seeds.

    Args:
        log: The trials so far.
        view: The display of progress.
        storage: A journal file or a database URL for optuna-dashboard.
        rerun_ids: Ids of finished runs to repeat.
    """
    plan, results = log.plan, log.results
    proposals = Proposals(log, view, storage, rerun_ids)
    view.searching(
        plan, log.run_count, unfinished_runs(runs_of(plan, results), results, rerun_ids, FINAL_STATES)
    )
    yield SweepStep(plan, {plan.base.resources: proposals})
    importance = log.path.with_name(f"importance-{plan.definition}.json")
    with results.changing(importance):
        write_record(importance, proposals.optimizer.importance())
    if plan.reserved_runs:
        fresh = log.confirm()
        todo = unfinished_runs(fresh, results)
        view.confirming(fresh, todo)
        yield SweepStep(plan, {plan.base.resources: Source(deque(todo), log.meter)})


class Proposals(Source):
    """The source of a search's runs. It proposes settings, and reports the results to the optimizer.

    Args:
        log: The trials so far. New trials are added.
        view: The display of progress.
        storage: See `Optimizer`.
        rerun_ids: Ids of finished runs to repeat.
    """

    def __init__(self, log: TrialLog, view: View, storage: str = "", rerun_ids: Collection[str] = ()) -> None:
        waiting = unfinished_runs(log.runs, log.results, rerun_ids, FINAL_STATES)
        pruner = None if log.plan.stopping == "none" else PrunedBy(log, rerun_ids)
        super().__init__(deque(waiting), log.meter, pruner=pruner)
        self.plan, self.log, self.view = log.plan, log, view
        self.optimizer = Optimizer(self.plan, log.tried(rerun_ids), storage)
        for run in waiting:
            trial, _ = self.optimizer.ask(log.params[run.id])
            self.optimizer.start_trial(trial, run.id, run.label)
        self.first = deque(
            params for params in self.plan.first if self.plan.run(0, params).id not in log.params
        )
        self.rest = self.plan.space.combinations()
        self.exhausted = False
        self._room_key, self._answer = (-1, -1), True

    @property
    def is_over(self) -> bool:
        """Whether running runs must end too. A budget in runs includes the runs that have started."""
        return self.plan.budget.unit != "runs" and not self._room

    @property
    def _room(self) -> bool:
        """Whether the budget allows another run. Cached for a budget in runs, since it is called often."""
        count = self.log.run_count, self.optimizer.running_trials
        if count != self._room_key or self.plan.budget.unit != "runs":
            self._room_key, self._answer = count, self.log.has_room(self.optimizer.running_trials)
        return self._answer

    def next(self) -> Run | None:
        """Return a new run; None if the budget is spent or all settings were tried."""
        tries = 0
        while not self.exhausted and self._room:
            fixed_params = None
            if self.first:
                fixed_params = self.first.popleft()
            elif tries >= TRIES:
                fixed_params = self._untried()
            if self.exhausted:
                break
            trial, params = self.optimizer.ask(fixed_params)
            tries += 1
            try:
                run = self.plan.run(len(self.log.params), params)
            except ConfigError:  # an invalid combination, such as a width and a number of heads
                self.optimizer.tell(trial, "failed")
                continue
            _, values = self.log.measured(run.id)
            if run.id in self.log.params:
                self.optimizer.tell(trial, "failed" if None in values else "done", values)
                continue
            tries = 0
            self.log.add(run, params)
            self.optimizer.start_trial(trial, run.id, run.label)
            self.view.proposed(run, is_finished=None not in values)
            if None in values:
                return run
            self.optimizer.end_trial(run.id, "done", values)
        return None

    def _untried(self) -> Params | None:
        """Return valid settings that were not tried. If none are found, end the search and print why."""
        errors: list[str] = []
        samples = itertools.islice(self.plan.space.draws(seed=len(self.log.params)), DRAWS)
        for params in samples if self.rest is None else self.rest:
            try:
                if self.plan.run(0, params).id not in self.log.params:
                    return params
            except ConfigError as error:
                errors.append(str(error))
        self.exhausted = True
        message = "All valid settings were tried, so the search ends."
        if self.rest is None:
            invalid = f", {len(errors):,} are invalid, such as: {errors[-1]}" if errors else ""
            message = f"Of {DRAWS:,} random settings, {DRAWS - len(errors):,} were tried before{invalid}"
        elif not self.log.params:
            message = f"All settings are invalid, such as: {errors[-1]}"
        self.view.say(message)
        return None

    def on_epoch(self, run: Run, line: Outcome) -> None:
        self.optimizer.report_epoch(run.id, line["epoch"], line.get(run.config.objective))

    def on_end(self, run: Run, outcome: Outcome) -> None:
        super().on_end(run, outcome)
        _, values = self.log.measured(run.id)
        state: State = outcome["status"] if outcome["status"] in FINAL_STATES else "failed"
        self.optimizer.end_trial(run.id, state, values)
