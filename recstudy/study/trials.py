"""The trials of a search on disk: one line each, appended before its run starts, so that a killed driver forgets none.

`trials-DEFINITION.jsonl` in the study's folder also says which of the best are run again with fresh seeds, and how much
time the search has used (`budget.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from recstudy.analysis.trials import ranked
from recstudy.records import Json, Results, append_line, read_lines, read_result
from recstudy.study.budget import Meter, used_up
from recstudy.study.plan import variant_record
from recstudy.study.search import Params, SearchPlan
from recstudy.study.study import Run
from recstudy.study.view import score_name

State = Literal["done", "stopped", "failed"]


@dataclass(frozen=True)
class Tried:
    """A trial that the records know: its settings, what came of it, and its score epoch by epoch."""

    params: Params
    run_id: str
    state: State
    values: Sequence[float] = ()  # one an objective, where it is done
    scores: Mapping[int, float] = field(default_factory=dict)  # on the selection split, by epoch


class TrialLog:
    """What was proposed so far.

    Args:
        plan: the search.
        results: where its records are.
    """

    def __init__(self, plan: SearchPlan, results: Results) -> None:
        self.plan, self.results = plan, results
        self.path = results.study(plan.study.name, plan.folder) / f"trials-{plan.definition}.jsonl"
        lines = read_lines(self.path)
        self.params: dict[str, Params] = {line["id"]: line["params"] for line in lines if "number" in line}
        again = (line for line in lines if "confirms" in line)
        self.fresh: dict[str, tuple[int, int]] = {line["id"]: (line["confirms"], line["seed"]) for line in again}

    def add(self, run: Run, params: Params) -> None:
        """A new trial, number `len(self.params)`."""
        variant = variant_record(self.plan.variant(params), run.config)
        line = {"number": run.variant, "params": dict(params), "variant": variant, "seed": run.seed, "id": run.id}
        with self.results.changing(self.path):
            append_line(self.path, line)
        self.params[run.id] = params

    @property
    def runs(self) -> list[Run]:
        """Of every trial, in their order."""
        return [self.plan.run(number, params) for number, params in enumerate(self.params.values())]

    def tried(self) -> list[Tried]:
        """What came of the trials that ended."""
        states = self.results.states()
        return [self._tried(run_id, states[run_id]) for run_id in self.params if states.get(run_id) in ("done", "stopped")]

    def _tried(self, run_id: str, state: str) -> Tried:
        result = result_of(self.results, run_id) or {}
        values = [value for value in objective_values(self.plan.objectives, result) if value is not None]
        whole = len(values) == len(self.plan.objectives) and result.get("status") == "done"
        kind: State = "stopped" if state == "stopped" else "done" if whole else "failed"
        lines = read_lines(self.results.run(run_id).epochs)
        scores = {line["epoch"]: line[name] for line in lines if (name := score_name(line))}
        return Tried(self.params[run_id], run_id, kind, values, scores)

    def best(self) -> list[Run]:
        """Fresh seeds of the best finished trials, in seed blocks, the best first."""
        known, objectives = list(self.params), list(self.plan.objectives)
        rows = [[trial.run_id, *trial.values] for trial in self.tried() if trial.state == "done"]
        table = pd.DataFrame(rows, columns=["id", *objectives]).astype(dict.fromkeys(objectives, float))
        numbers = [known.index(run_id) for run_id in ranked(table, self.plan.objectives)["id"][: self.plan.confirm]]
        best = [(number, self.params[known[number]]) for number in numbers]
        return [self.plan.run(number, params, seed) for seed in range(1, self.plan.seeds + 1) for number, params in best]

    def confirm(self) -> list[Run]:
        """The runs of `best`; those that are new are written down."""
        runs = self.best()
        with self.results.changing(self.path):
            for run in runs:
                if run.id not in self.fresh:
                    append_line(self.path, {"confirms": run.variant, "seed": run.seed, "id": run.id})
                    self.fresh[run.id] = run.variant, run.seed
        return runs

    def settled(self) -> bool:
        """Whether nothing is left to do: the budget is used, and every trial and every fresh seed has its numbers."""
        states = self.results.states()
        if not used_up(self.plan.budget, len(self.params), Meter(self.path, gpus=0)):
            return False
        if any(states.get(run_id) not in ("done", "stopped") for run_id in self.params):
            return False
        return all(states.get(run.id) == "done" for run in self.best())

    @property
    def confirmations(self) -> list[Run]:
        """The runs with fresh seeds that were decided on."""
        known = list(self.params.values())
        return [self.plan.run(number, known[number], seed) for number, seed in self.fresh.values()]


def objective_values(objectives: Mapping[str, Any], result: Json) -> list[float | None]:
    """A finished run's objectives; None where it has none."""
    measured = {f"selection_{name}": value for name, value in (result.get("selected") or {}).items()} | (result.get("cost") or {})
    return [measured.get(name) for name in objectives]


def result_of(results: Results, run_id: str) -> Json | None:
    folder = results.run(run_id)
    return read_result(folder.result) if folder.finished else None
