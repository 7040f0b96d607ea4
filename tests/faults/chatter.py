"""Does a run that reports ten thousand epochs a second keep the driver from another run's end?

A study for the faults, whose runs train nothing: the first reports for ten seconds through the real throttle, each other one
ends after a second. The driver prints how long after a run's end it told of it.
"""

import sys
import time
from pathlib import Path
from typing import Any

from ray import tune
from rich.console import Console
from tiny import study

from recstudy.cluster.driver import run_study
from recstudy.cluster.sweep import Where
from recstudy.cluster.view import View
from recstudy.cluster.worker import throttled
from recstudy.records import Attempt, Results, RunFolder, write_json
from recstudy.study.study import Run, make_plan
from recstudy.train.trial import Trial

SECONDS, EPOCHS = 10, 10**9


def chatter(settings: dict[str, Trial]) -> None:
    trial = settings["trial"]
    folder = RunFolder(Path(trial.folder))
    folder.path.mkdir()
    folder.begin(Attempt(started="now"))
    talks = trial.config["model"]["latent_steps"] == 1 and trial.config["train"]["supervision_steps"] == 1
    told = talk() if talks else time.sleep(1)
    write_json(
        folder.result,
        {"status": "done", "metrics": {}, "cost": {}, "attempts": 1, "provenance": {"told": told, "end": time.time()}},
    )
    tune.report({"status": "done", "score": 0.0})


def talk() -> int:
    """How many epochs it told of, in so many seconds."""
    report, epoch, began = throttled(tune.report), 0, time.monotonic()
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
    run_study(plan, plan.runs, results, Where(), Clock(Console()), trainable=chatter)
