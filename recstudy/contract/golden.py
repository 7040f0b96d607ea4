"""The first twenty losses of a family on its example: what a refactoring leaves as they are."""

import json
from pathlib import Path

import torch

from recstudy.config import RunConfig
from recstudy.contract.checks import CPU, data_of, hold
from recstudy.metrics import TASKS
from recstudy.records import write_whole
from recstudy.train.loop import Training

DIGITS = 6
CLOSE = 1e-4  # relative, between processors


def first_losses(config: RunConfig, folder: Path = Path("data")) -> list[float]:
    """Of 20 supervision steps in batches of 8, with Mixup where there is one; in float64, where the order of summation does
    not show."""
    config = config.with_changes({"data.limit": 200})
    if TASKS[config.task].mixes and not config.model.reads_pixels:
        config = config.with_changes({"train.augment.mixup": 0.4})
    training = Training(config, data_of(config, folder), CPU)
    training.state.network.double()
    training.state.average = None
    torch.manual_seed(0)
    found: list[float] = []
    for batch in training._train.epoch(0):
        found += [float(loss) for loss in training.train_batch(batch._replace(images=batch.images.double()))]
        if len(found) >= 20:
            break
    return found[:20]


def compare(file: Path, family: str, found: list[float]) -> bool:
    """Hold the losses against those that were kept; False where none were."""
    kept = kept_losses(file).get(family)
    if kept is None:
        return False
    close = len(kept) == len(found) and all(
        abs(one - other) <= CLOSE * abs(other) for one, other in zip(found, kept, strict=True)
    )
    if not close:
        at = next(
            (at for at, pair in enumerate(zip(found, kept, strict=False)) if abs(pair[0] - pair[1]) > CLOSE * abs(pair[1])), 0
        )
        hold(False, f"the loss of step {at + 1} is {found[at]:.6f}, but was {kept[at]:.6f}: what is computed has changed")
    return True


def kept_losses(file: Path) -> dict[str, list[float]]:
    return dict(json.loads(file.read_text())) if file.exists() else {}


def keep(file: Path, family: str, found: list[float]) -> None:
    losses = kept_losses(file) | {family: [round(loss, DIGITS) for loss in found]}
    write_whole(file, json.dumps(losses, indent=1) + "\n")
