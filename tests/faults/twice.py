"""How the curve of a run is read."""

import json
from pathlib import Path


def curve(run: Path) -> list[tuple]:
    """Epoch and losses of each line of a run's log."""
    lines = map(json.loads, (run / "epochs.jsonl").read_text().splitlines())
    return [(line["epoch"], line["train_loss"], line["selection_loss"]) for line in lines]
