"""Record the trials of a search. Each trial is one line that is appended before its run starts, so a killed
driver loses no trial.

`trials-DEFINITION.jsonl` in the study's folder also records the fresh seeds of the best trials and the time
that the search has used (`budget.py`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from recstudy.base.values import mean_of_all
from recstudy.records import EpochLine, Results, Run, append_record, read_log
from recstudy.records.reading import read_trials
from recstudy.records.study_schema import ConfirmLine, TrialLine
from recstudy.report.names import plural
from recstudy.study.budget import Meter
from recstudy.study.plan import Plan
from recstudy.study.search import Params
from recstudy.study.variants import variant_record

State = Literal["done", "stopped", "failed"]


@dataclass(frozen=True)
class Tried:
    """A trial in the records: its settings, its outcome, and its score at each epoch."""

    params: Params
    run_id: str
    state: State
    # One value per objective if the trial is done, otherwise none.
    values: Sequence[float | None] = ()
    scores: Mapping[int, float | None] = field(default_factory=dict)  # on the selection split, by epoch


class TrialLog:
    """The trials of a search so far.

    Args:
        plan: The plan of the search.
        results: The results folder.
    """

    def __init__(self, plan: Plan, results: Results) -> None:
        self.plan, self.results = plan, results
        self.path = results.study(plan.study.name, plan.folder) / f"trials-{plan.definition}.jsonl"
        lines = read_trials(self.path)
        trials = [line for line in lines if isinstance(line, TrialLine)]
        self.params: dict[str, Params] = {line.id: line.params for line in trials}  # by the first run's id
        self.ids = {line.id: line.ids for line in trials}  # of all runs
        self.meter = Meter(self.path, plan.budget)
        self.fresh = {line.id: line for line in lines if isinstance(line, ConfirmLine)}

    def add(self, run: Run, params: Params) -> None:
        """Add a new trial with the number `len(self.params)` and this first run."""
        more_ids = tuple(run.id for run in self.plan.trial_runs(run.variant, params)[1:])
        variant = variant_record(self.plan.variant(run, params), run.config)
        line = TrialLine(
            number=run.variant,
            params=dict(params),
            variant=variant,
            seed=run.seed,
            id=run.id,
            more_ids=more_ids or None,
        )
        with self.results.changing(self.path):
            append_record(self.path, line)
        self.params[run.id], self.ids[run.id] = params, line.ids

    @property
    def runs(self) -> list[Run]:
        """Return the runs of all trials, in order."""
        trials = enumerate(self.params.values())
        return [run for number, params in trials for run in self.plan.trial_runs(number, params)]

    def tried(self, excluded_ids: Collection[str] = ()) -> list[Tried]:
        """Return the ended trials, except for those whose run id is in `excluded_ids`."""
        tried: list[Tried] = []
        for run_id, params in self.params.items():
            ids = self.ids[run_id]
            run_states = set(map(self.results.state, ids))
            if not run_states.issubset(("done", "stopped")) or not {*ids}.isdisjoint(excluded_ids):
                continue
            status, values = self.measured(ids)
            state: State = "stopped" if "stopped" in run_states else "failed"
            if run_states == {status} == {"done"} and None not in values:
                state = "done"
            lines = read_log(self.results.run(run_id).epochs, EpochLine)
            scores = {line.epoch: line.values.get(self.plan.base.objective) for line in lines}
            tried.append(Tried(params, run_id, state, values if state == "done" else (), scores))
        return tried

    def measured(self, ids: Sequence[str]) -> tuple[str, list[float | None]]:
        """Return the status and the mean objectives of the runs of a trial.

        The status is empty if a run has no result, and an objective is None if a run does not have it.
        """
        results = dict(self.results.finished(ids)).values()
        if len(results) < len(ids):
            return "", [None for _ in self.plan.objectives]
        rows = []
        for result in results:
            selected = {f"selection_{name}": value for name, value in result.selected.scores.items()}
            rows.append(result.metrics | selected | result.cost)
        columns = ([row.get(name) for row in rows] for name in self.plan.objectives)
        status = next((result.status for result in results if result.status != "done"), "done")
        return status, list(map(mean_of_all, columns))

    def best(self) -> list[Run]:
        """Return the runs with fresh seeds of the best trials, seed by seed, as far as the budget allows."""
        wanted_runs = self._confirmation_runs()
        new = [run.id for run in wanted_runs if run.id not in self.fresh]
        runs_left = (
            int(self.plan.budget.amount) - self.run_count if self.plan.budget.unit == "runs" else len(new)
        )
        unpaid = set(new[max(0, runs_left) :])
        return [run for run in wanted_runs if run.id not in unpaid]

    def _confirmation_runs(self) -> list[Run]:
        import pandas as pd  # which --help does without

        from recstudy.report.trials import ranked

        objectives = list(self.plan.objectives)
        rows = [[trial.run_id, *trial.values] for trial in self.tried() if trial.state == "done"]
        table = pd.DataFrame(rows, columns=["id", *objectives]).astype(dict.fromkeys(objectives, float))
        best = ranked(table, self.plan.objectives)["id"][: self.plan.confirm]
        numbers, first_seed = list(self.params), self.plan.study.trial_seeds
        runs = [
            self.plan.run(numbers.index(run_id), self.params[run_id], seed)
            for seed in range(first_seed, first_seed + self.plan.seeds)
            for run_id in best
        ]
        return runs[: self.plan.reserved_runs]

    @property
    def run_count(self) -> int:
        """The number of runs that count for the budget: trials and confirmation runs."""
        return sum(map(len, self.ids.values())) + len(self.fresh)

    def has_room(self, running_trials: int = 0) -> bool:
        """Return whether the budget allows one more trial and then the confirmation of the best trials.

        With a budget in hours, the time of the confirmation is estimated from the runs so far.

        Args:
            running_trials: The number of trials that have not ended.
        """
        budget, reserved = self.plan.budget, self.plan.reserved_runs
        if budget.unit == "runs":
            runs_left = int(budget.amount) - self.run_count - self.plan.study.trial_seeds
            if runs_left >= reserved:
                return True
            needed_runs = sum(
                run.id not in self.fresh for run in self._confirmation_runs()
            ) + self.plan.seeds * (running_trials + 1)
            return runs_left >= min(reserved, needed_runs)
        spent_amount, ended_runs = self.meter.spent_hours, self.run_count - running_trials
        price = spent_amount / ended_runs if ended_runs > 0 else 0.0
        return spent_amount + min(reserved * price, budget.amount / 2) < budget.amount

    @property
    def unspent(self) -> str:
        """Why the budget has no room for another trial although runs are left; empty if none are left."""
        budget, plan = self.plan.budget, self.plan
        runs_left = int(budget.amount) - self.run_count
        if budget.unit != "runs" or runs_left <= 0 or self.has_room():
            return ""
        fresh_seeds = min(plan.seeds, plan.reserved_runs)
        reserved = f" ({fresh_seeds} of them for fresh seeds, if it is among the best)" * bool(fresh_seeds)
        return (
            f". Not used: {plural(runs_left, 'run')}, because another trial needs"
            f" {plan.study.trial_seeds + fresh_seeds}{reserved}. A larger --budget continues"
        )

    def confirm(self) -> list[Run]:
        """Return the runs of `best`, and record the new ones."""
        runs = self.best()
        with self.results.changing(self.path):
            for run in runs:
                if run.id not in self.fresh:
                    line = ConfirmLine(confirms=run.variant, seed=run.seed, id=run.id)
                    append_record(self.path, line)
                    self.fresh[run.id] = line
        return runs

    def is_settled(self) -> bool:
        """Return whether the search is finished: the budget is spent, and every run has ended."""
        if self.has_room():
            return False
        ids = [run_id for trial_ids in self.ids.values() for run_id in trial_ids]
        if any(self.results.state(run_id) not in ("done", "stopped") for run_id in ids):
            return False
        return all(self.results.state(run.id) == "done" for run in self.best())


def runs_of(plan: Plan, results: Results) -> Sequence[Run]:
    """Return the runs of a study, or the runs of a search so far."""
    if not plan.is_search:
        return plan.runs
    log = TrialLog(plan, results)
    params = list(log.params.values())
    return [
        *log.runs,
        *(plan.run(line.confirms, params[line.confirms], line.seed) for line in log.fresh.values()),
    ]
