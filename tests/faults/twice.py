"""Two runs of some seconds, with a checkpoint an epoch, and how their curves are read."""

import json
from pathlib import Path

EPOCHS = ("--set", "train.epochs=150")
TWO = ("--only", "latent_steps=1*", *EPOCHS)


def curve(run: Path) -> list[tuple]:
    """Epoch and losses of each line of a run's log."""
    lines = map(json.loads, (run / "epochs.jsonl").read_text().splitlines())
    return [(line["epoch"], line["train_loss"], line["selection_loss"]) for line in lines]
