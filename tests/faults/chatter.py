"""Does a run that reports ten thousand epochs a second keep the driver from another run's end?

A study for the faults, whose runs train nothing: the first reports for ten seconds through the real throttle, each other one
ends after a second. The driver prints how long after a run's end it told of it.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from tiny import study

from recstudy.cluster.driver import run_study
from recstudy.cluster.sources import Where
from recstudy.cluster.view import View
from recstudy.records import Attempt, Results, RunFolder, write_json
from recstudy.study.study import Run, make_plan
from recstudy.train.work import Report, Trial

SECONDS, EPOCHS = 10, 10**9


def chatter(trial: Trial, report: Report, leave: Callable[[], bool]) -> dict[str, Any]:
    folder = RunFolder(Path(trial.folder))
    folder.path.mkdir()
    folder.begin(Attempt(started="now"))
    talks = trial.config["model"]["latent_steps"] == 1 and trial.config["train"]["supervision_steps"] == 1
    told = talk(report) if talks else time.sleep(1)
    write_json(
        folder.result,
        {"status": "done", "metrics": {}, "cost": {}, "attempts": 1, "provenance": {"told": told, "end": time.time()}},
    )
    return {"status": "done", "score": 0.0}


def talk(report: Report) -> int:
    """How many epochs it told of, in so many seconds."""
    epoch, began = 0, time.monotonic()
    while time.monotonic() < began + SECONDS:
        report({"epoch": epoch, "epochs_done": epoch + 1, "epochs": EPOCHS, "train_loss": 0.0})
        epoch += 1
    return epoch


class Clock(View):
    """Notes how long after a run's end the driver hears of it."""

    def ended(self, run: Run, outcome: Any) -> None:
        result = results.run(run.id).result
        print(run.label, time.time() - result.stat().st_mtime)


if __name__ == "__main__":
    results, plan = Results(Path(sys.argv[2])), make_plan(study)
    run_study(plan, plan.runs, results, Where(), Clock(Console()), work=chatter)
