"""Twenty optimiser steps a family on embedded data: a refactoring leaves these losses as they are.

A deliberate change rewrites them, and its commit says why: RECSTUDY_GOLDEN=write pytest tests/contract/test_golden.py
"""

import json
import os
from pathlib import Path

import pytest
import torch
from test_families import JUDGES, small

from recstudy.data.cache import load
from recstudy.train.loop import Training

GOLDEN = Path(__file__).with_name("golden_losses.json")


def losses(family: str) -> list[float]:
    """Of 20 supervision steps in batches of 8, with Mixup; in float64, where the order of summation does not show."""
    config = small(family).with_changes({"data.limit": 200})
    if config.data.task == "multiclass" and not config.model.reads_pixels:
        config = config.with_changes({"train.augment.mixup": 0.4})
    training = Training(config, load(config.data, Path()), torch.device("cpu"))
    training.state.network.double()
    training.state.average = None
    torch.manual_seed(0)
    found: list[float] = []
    for batch in training._train.epoch(0):
        found += [float(loss) for loss in training.train_batch(batch._replace(images=batch.images.double()))]
        if len(found) >= 20:
            break
    return found[:20]


@pytest.mark.parametrize("family", JUDGES)
def test_the_first_twenty_losses(family):
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    found = losses(family)
    if os.environ.get("RECSTUDY_GOLDEN") == "write":
        GOLDEN.write_text(json.dumps({**golden, family: [round(loss, 6) for loss in found]}, indent=1) + "\n")
        return

    assert found == pytest.approx(golden[family], rel=1e-4)
