"""Execute a search: propose settings, run them and report the result; then confirm the best with new seeds.

The search is resumed from the trial log and the records: the next driver rebuilds Optuna's study from them.
"""

import itertools
import shutil
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from math import inf

from recstudy.base.errors import ConfigError
from recstudy.cluster.pruning import PrunedBy
from recstudy.cluster.sources import FINAL_STATES, Source, SweepStep, unfinished_runs
from recstudy.cluster.view import Outcome, View
from recstudy.records import Run, write_record
from recstudy.study.search import Params, label
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
    if best_ids := log.ids.get(proposals.best[2]):
        folders = ", ".join(str(results.run(run_id).program_folder) for run_id in best_ids)
        view.say(f"Kept of trial {-proposals.best[1]}, the best: {folders}")
    importance = log.path.with_name(f"importance-{plan.definition}.json")
    with results.changing(importance):
        write_record(importance, proposals.optimizer.importance())
    if proposals.pruner and (note := proposals.pruner.note):
        view.say(note)
    if plan.reserved_runs:
        fresh = log.confirm()
        todo = unfinished_runs(fresh, results)
        view.confirming(fresh, todo)
        yield SweepStep(plan, {plan.base.resources: Source(deque(todo), log.meter)})
    if log.unspent:
        view.say(f"Budget: {plan.budget} in all, {log.run_count} made{log.unspent}")


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
        super().__init__(deque(waiting), log.meter, pruner=pruner, keeps_files=log.plan.study.keep == "best")
        self.plan, self.log, self.view = log.plan, log, view
        # the score of the best trial, higher is better; minus its number; the id of its first run
        self.best = -inf, 1, ""
        tried = log.tried(rerun_ids)
        for ended_trial in tried:
            self._keep_best(ended_trial.run_id, ended_trial.values)
        self.optimizer = Optimizer(self.plan, tried, storage)
        self._open_trials(waiting)
        self.first = deque(
            params for params in self.plan.first if self.plan.run(0, params).id not in log.params
        )
        self.rest = self.plan.space.combinations()
        self.exhausted = False
        self._room_key, self._answer = (-1, -1), True

    def _open_trials(self, runs: Sequence[Run]) -> None:
        for trial_id in dict.fromkeys(map(self._trial_id, runs)):
            params = self.log.params[trial_id]
            self.optimizer.start_trial(self.optimizer.ask(params)[0], trial_id, label(params))

    def retry(self, runs: Sequence[Run]) -> None:
        super().retry(runs)
        self._open_trials(runs)

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
                runs = self.plan.trial_runs(len(self.log.params), params)
            except ConfigError:  # an invalid combination, such as a width and a number of heads
                self.optimizer.tell(trial, "failed")
                continue
            run = runs[0]
            _, values = self.log.measured([run.id for run in runs])
            if run.id in self.log.params:
                self.optimizer.tell(trial, "failed" if None in values else "done", values)
                continue
            tries = 0
            self.log.add(run, params)
            self.optimizer.start_trial(trial, run.id, run.label)
            unfinished = [run for run in runs if None in self.log.measured([run.id])[1]]
            for proposed_run in runs:
                self.view.proposed(proposed_run, is_finished=proposed_run not in unfinished)
            if unfinished:
                self.waiting.extend(unfinished[1:])
                return unfinished[0]
            self._keep_best(run.id, values)
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
        trial_id = self._trial_id(run)
        status, values = self.log.measured(self.log.ids[trial_id])
        state: State = outcome["status"] if outcome["status"] in FINAL_STATES else "failed"
        if state == "done" and not status:
            return  # other seeds have not ended
        if status:
            self._keep_best(trial_id, values)
        self.optimizer.end_trial(trial_id, state, values)

    def _trial_id(self, run: Run) -> str:
        """Return the id of the first run of a run's trial."""
        return list(self.log.ids)[run.variant]

    def _keep_best(self, trial_id: str, values: Sequence[float | None]) -> None:
        """Remove the program's folders of the worse one of an ended trial and the best trial so far."""
        if not self.keeps_files:
            return
        score = values[0] if values else None
        sign = 1 if next(iter(self.plan.objectives.values())) == "max" else -1
        trial = -inf if score is None else sign * score, -list(self.log.ids).index(trial_id), trial_id
        worse = min(self.best, trial)
        self.best = max(self.best, trial)
        for run_id in self.log.ids.get(worse[2], ()):
            shutil.rmtree(self.log.results.run(run_id).program_folder, ignore_errors=True)
