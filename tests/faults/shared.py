"""A study of short runs, which several processes run at once."""

import time

from recstudy import Metric, Study, grid, main
from recstudy.report import Table


def train(run):
    run.report(0, loss=1.0)
    time.sleep(0.05)
    return {"accuracy": 80 + run.settings["depth"] + run.seed / 100}


study = Study(
    "shared",
    program=train,
    settings={"depth": 1},
    metrics={"accuracy": Metric("%")},
    variants=grid({"depth": [1, 2, 4]}),
    seeds=40,
    report=[Table("depths", metrics=["accuracy"])],
)

if __name__ == "__main__":
    main(study)
