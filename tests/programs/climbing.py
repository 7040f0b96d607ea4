"""Which learning rate and depth are best?

A search of a function for the tests, whose scores are known beforehand. With CLIMBING=N the process of the
N-th run is killed.
"""

import os
import signal
import time
from pathlib import Path

from recstudy import Metric, Range, RunContext, Search, main


def climb(run: RunContext) -> dict[str, float]:
    score = 50 - 100 * abs(run.settings["lr"] - 0.1) - abs(run.settings["depth"] - 3)
    runs = run.folder.parents[1]
    for step in range(run.settings["epochs"]):
        score += 1
        run.report(step, accuracy=score)
        time.sleep(run.settings["pause"])
    if len(list(runs.glob("*/config.json"))) == int(os.environ.get("CLIMBING", "0")):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"accuracy": score}


study = Search(
    "climbing",
    program=climb,
    settings={"lr": 0.1, "depth": 2, "epochs": 9, "pause": 0.0},
    metrics={"accuracy": Metric("%")},
    ranges={"lr": Range(1e-4, 1.0, log=True), "depth": Range(1, 6)},
    budget="12 runs",
    confirm=2,
    seeds=1,
    stopping="median",
)

if __name__ == "__main__":
    main(study)

FILE = Path(__file__)
