"""Builders for tests: tiny studies, and records of runs that were not executed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from recstudy.programs.base import RunSettings, load_program
from recstudy.records import Failure, Json, Result, Results, Run
from recstudy.records.reading import record_of
from recstudy.study.design import Variant, grid
from recstudy.study.plan import Plan, make_plan
from recstudy.study.record import record_plan
from recstudy.study.study import Study


def tiny_study(variants: Sequence[Variant] = (), base: RunSettings | None = None, **fields: Any) -> Study:
    """Return a study with the preset `quick`, by default with one and two latent steps of `tiny_run()`.
    `fields` are arguments of `Study`.
    """
    variants = variants or grid({"model.latent_steps": [1, 2]})
    return Study(
        **{
            "name": "tiny",
            "presets": {"quick": base or load_program().example()},
            "variants": variants,
            "question": "?",
            **fields,
        }
    )


def make_result(score: float | None = None, metric: str = "top1_accuracy", **changes: Any) -> Result:
    """Return the record of a finished run with this score on both splits. `changes` are further fields."""
    scores = {} if score is None else {metric: score}
    values: Json = {
        "status": "done",
        "metrics": scores,
        "selected": {"split": "validation", "epoch": 1, **scores},
    }
    return record_of(Result, values | changes)


Score = Callable[[Run], "float | Result | Failure | None"]


def finish_runs(results: Results, runs: Plan | Sequence[Run], score: Score | float = 90.0) -> None:
    """Write results of runs as if they had been trained.

    `score` is the top-1 accuracy of all runs, or a function of a run that returns its accuracy, its record,
    or None for a run without a result.
    """
    for run in runs.runs if isinstance(runs, Plan) else runs:
        end, folder = score(run) if callable(score) else score, results.run(run.id)
        if isinstance(end, Failure):
            folder.fail(end)
        elif end is not None:
            folder.finish(end if isinstance(end, Result) else make_result(end))


def write_study(
    root: Path | str, study: Study | None = None, score: Score | float = 90.0, **plan: Any
) -> Results:
    """Return a new results folder with a study (by default `tiny_study()`) whose runs have ended."""
    results, study_plan = Results(root).create(), make_plan(study or tiny_study(), **plan)
    record_plan(study_plan, results)
    finish_runs(results, study_plan, score)
    return results
