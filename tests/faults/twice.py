"""Two runs of some seconds, with a checkpoint an epoch; how their curves are read, and what hangs a run."""

import json
import os
from pathlib import Path

from shell import Shell

from recstudy.config import RunConfig, configure
from recstudy.records import Results
from recstudy.testing import make_trial
from recstudy.train.trial import run_trial

EPOCHS = ("--set", "train.epochs=150")
TWO = ("--only", "latent_steps=1*", *EPOCHS)


def curve(run: Path) -> list[tuple]:
    """Epoch and losses of each line of a run's log."""
    lines = map(json.loads, (run / "epochs.jsonl").read_text().splitlines())
    return [(line["epoch"], line["train_loss"], line["selection_loss"]) for line in lines]


def curve_alone(shell: Shell, run: str, root: Path) -> list[tuple]:
    """The curve of one of its runs without any fault, trained in this process, without Ray."""
    config = configure(RunConfig, shell.records("config.json")[run])
    run_trial(make_trial(root, config), lambda line: None)
    return curve(root / "runs" / run)


def hang(shell: Shell, run: str) -> None:
    """The reader of a fifo that nobody writes hangs, as on a file server that does not answer."""
    Results(shell.results).create().run(run).path.mkdir()
    os.mkfifo(shell.results / "runs" / run / "checkpoint-000001.pt")
