"""Studies of a training function whose runs take no time, for what readers say of a user's own program."""

from pathlib import Path
from typing import Any

import pytest

import recstudy
from recstudy import Function, Metric, RunContext, Study, grid
from recstudy.records import Results


def train(run: RunContext) -> dict[str, float]:
    depth = run.settings["depth"]
    for step in range(3):
        run.report(step, loss=1 / (step + 1), accuracy=50.0 + step)
    return {"accuracy": 80 + 3 * depth + 0.1 * run.seed, "latency": 2.0 * depth + 0.01 * run.seed}


def silent(run: RunContext) -> dict[str, float]:
    """Report no steps, and a metric that `train` has too, as a share."""
    return {"accuracy": 0.8 + 0.03 * run.settings["depth"] + 0.001 * run.seed}


def run_study(folder: Path, name: str = "depth", program: Any = train, **fields: Any) -> Results:
    """Run a study of the depths 1, 2 and 4 with three seeds, as a user types it, and return its results
    folder.
    """
    metrics = {"accuracy": Metric("%", items=10_000), "latency": Metric("ms", better="lower")}
    if program is silent:
        metrics = {"accuracy": Metric("", items=100)}
    fields = {
        "settings": {"depth": 2, "rate": 0.1},
        "variants": grid({"depth": [1, 2, 4]}),
        "metrics": metrics,
    } | fields
    study = Study(
        name,
        program=Function(program, name=f"{name}.{program.__name__}"),
        **{"seeds": 3, "question": "Deeper?"} | fields,
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.argv", ["own.py"])  # the plan keeps the command, which is that of the tests here
        # and what other tests of this process have registered
        patched.setattr("recstudy.plugins.loading.outsiders", list)
        recstudy.run(study, results=folder, ray=False)
    return Results(folder)
