"""Does counting further help?

A study of a function for the tests: it counts to `steps`, keeps the count in its folder and resumes from it.
COUNTING names what goes wrong in the first attempt: `killed`, `asked` to stop, or a failure.
"""

import json
import os
import signal
from pathlib import Path

from recstudy import Function, Metric, RunContext, Study, grid, main


def count(run: RunContext) -> dict[str, float] | None:
    state = run.folder / "count.json"
    first = json.loads(state.read_text()) if state.exists() else 0
    wrong = os.environ.get("COUNTING", "") if first == 0 else ""
    for step in range(first, run.settings["steps"]):
        state.write_text(json.dumps(step + 1))
        run.report(step, accuracy=10.0 * (step + 1), loss=float("nan") if wrong == "nan reported" else 1.0)
        if wrong == "killed" and step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if wrong == "asked" and step == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        if run.should_stop():
            return None
    returned = {"accuracy": 40.0 + 5 * run.settings["depth"] + run.seed, "loss": 0.5}
    return {
        "nan": returned | {"accuracy": float("nan")},
        "text": returned | {"accuracy": "high"},
        "missing": {"loss": 0.5},
        "nothing": None,
        "exit": returned if wrong != "exit" else _leave(),
        "raised": returned if wrong != "raised" else 1 / 0,
    }.get(wrong, returned)


def _leave() -> None:
    raise SystemExit(3)


study = Study(
    "counting",
    program=Function(count, title="Counter", data="numbers", is_synthetic=True),
    settings={"depth": 1, "steps": 4},
    metrics={"accuracy": Metric("%", items=1000), "loss": Metric(better="lower")},
    variants=grid({"depth": [1, 2]}),
    seeds=2,
)

if __name__ == "__main__":
    main(study)

FILE = Path(__file__)
