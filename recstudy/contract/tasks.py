"""What a task promises, on its example."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from recstudy.config import RunConfig
from recstudy.contract.checks import CPU, data_of, hold
from recstudy.data.checking import checked
from recstudy.errors import DataError
from recstudy.metrics.kept import packed, unpacked
from recstudy.metrics.registry import measured
from recstudy.train.evaluate import filled, predict
from recstudy.train.loop import Training
from recstudy.train.losses import step_loss


def scores_each_item(config: RunConfig, folder: Path) -> None:
    """A loss an item, from which a gradient reaches the weights, and whether each is right, from 0 to 1."""
    training = Training(config, data_of(config, folder), CPU)
    network, batch = training.state.network.train(), filled(next(training._train.epoch(0)))
    output, _ = network(batch.images, network.start(batch.images, batch.told))

    loss = step_loss(output, batch, training.task)
    right = training.task.right(output, batch)
    loss.sum().backward()

    count = len(batch.images)
    hold(bool(torch.isfinite(loss).all()), "a loss is not finite")
    hold(tuple(right.shape) == (count,), f"`right` of {count} items is {tuple(right.shape)}")
    hold(bool(((right >= 0) & (right <= 1)).all()), "`right` is not from 0 to 1")
    hold(any(weight.grad is not None and weight.grad.any() for weight in network.parameters()), "no gradient reaches a weight")


def answers_are_kept(config: RunConfig, folder: Path) -> None:
    """A row an item of all that is kept, which a file gives back, and from which the task's score follows."""
    training = Training(config, data_of(config, folder), CPU)
    test = training._batches(training.data.test)
    (kept,), _ = predict(training.task, training.state.evaluated, test)
    answers = training.task.answered(training.state.evaluated, test, training.data)
    with TemporaryDirectory() as place:
        file = Path(place, "answers.npz")
        file.write_bytes(packed(answers)[0])
        again = unpacked(file).answers

    count = len(training.data.test)
    for name, part in kept.items():
        hold(len(part) == count, f"of {count} items it keeps {len(part)} rows of {name}")
    for name, array in answers.kept.items():
        hold(np.array_equal(array, again.kept[name], equal_nan=True), f"{name} is not in the file as it was")
    found = measured(again)
    why = found.unavailable.get(training.task.score, "it is no metric of the task")
    hold(training.task.score in found.values, f"its score {training.task.score!r} does not follow from the kept answers: {why}")


def other_labels_are_refused(config: RunConfig, folder: Path) -> str:
    """Labels of another type or shape are refused before training."""
    reader = config.data.reader()
    decoded = checked(reader.decode(folder), config.data)
    labels: Any = decoded.train_labels
    other: Any = labels.astype(np.float64 if labels.dtype.kind == "f" else np.float32)
    said = ""
    for wrong in (other, labels[..., None]):
        try:
            checked(decoded._replace(train_labels=wrong), config.data)
        except DataError as error:
            said = said or str(error)
        else:
            hold(False, f"labels {wrong.dtype} {wrong.shape} are taken")
    return said


OF_TASKS = scores_each_item, answers_are_kept, other_labels_are_refused
