"""What a network has learned: the selection split after each epoch, the test set once, at the end.

Every function takes the network with the weights to be judged and leaves it in evaluation mode. Prediction is shared by a
group's workers as training is; the test set is looked at by one of them, while all of them write its captions.

Shapes: N images, K classes.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recstudy.config import RunConfig, TrainConfig
from recstudy.data.batches import Batches
from recstudy.data.cache import DataSet, Split
from recstudy.metrics import Answers, measured
from recstudy.metrics.kept import packed
from recstudy.metrics.registry import score
from recstudy.models.networks.contract import Network
from recstudy.train.losses import answer_loss, loss_of
from recstudy.train.parallel import concatenated, rank_and_world
from recstudy.train.watchdog import alive

MISTAKES = 36  # misclassified test images kept to look at


class Diverged(Exception):
    """A loss or an answer is no longer finite."""


def autocast(device: torch.device, config: TrainConfig) -> AbstractContextManager[Any]:
    """The precision of the matrix products, in training and here."""
    return torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16")


@torch.no_grad()
def predict(network: Network, batches: Batches, config: RunConfig, depths: Sequence[int] = ()) -> tuple[list[Tensor], Tensor]:
    """Logits (N, K) after each of `depths` supervision steps, and labels (N,), of this worker's share.

    Without depths: after `evaluation_steps`. Depths are counted from 1 and come from one chain of steps.
    """
    depths = depths or [config.train.evaluation_steps]
    network.eval()
    logits: dict[int, list[Tensor]] = {depth: [] for depth in depths}
    labels = []
    for batch in batches.plain(own_batch(config) * batches.world):
        alive()
        images, told = some(batch.images), None if batch.told is None else some(batch.told)
        carry = network.start(images, told)
        for step in range(1, max(depths) + 1):
            with autocast(images.device, config.train):
                output, carry = network(images, carry)
            if step in logits:
                logits[step].append(output.logits[: len(batch.images)].float())
        labels.append(batch.labels)
    return [torch.cat(parts) for parts in logits.values()], torch.cat(labels)


def selection_scores(network: Network, batches: Batches, config: RunConfig, data: DataSet) -> tuple[float, float]:
    """Loss in nats and the score that selects epochs on the selection split, over all workers.

    The score is not a number where no class has both kinds of images.
    """
    (logits,), labels = predict(network, batches, config)
    logits, labels = concatenated(logits), concatenated(labels)
    loss = answer_loss(logits, labels, loss_of(config.train)).mean().item()
    rows = concatenated(batches.seen(own_batch(config) * batches.world).to(logits.device))
    return loss, score(config.score, answers(logits, labels, batches, config, rows))


def answers(logits: Tensor, labels: Tensor, batches: Batches, config: RunConfig, rows: Tensor | None = None) -> Answers:
    """What metrics look at: logits (N, K) and labels of the images in these rows, by default of all in their order."""
    rows = batches.rows if rows is None else rows.cpu()
    return Answers(
        config.data.task,
        logits.cpu().double().numpy(),
        labels.cpu().numpy(),
        config.data.class_names,
        None if batches.groups is None else batches.groups[rows].numpy(),
        rows.numpy(),
        levels=config.data.levels(rows.numpy()),
    )


def own_batch(config: RunConfig) -> int:
    """Images of a worker's share of a batch here: it fits where training does, which keeps activations."""
    return max(1, 2 * config.train.batch_size // rank_and_world()[1])


def findings(
    network: Network, test: Batches, train: Batches, config: RunConfig, data: DataSet
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a result states of the answers, and what is kept to look at, by file.

    Raises:
        Diverged: a logit is not finite.
    """
    tested = answered(network, test, config, data)
    (seen,), known = predict(network, train, config)
    task = config.data.task
    told = measured(tested)
    taught = defined({f"train_{config.score}": score(config.score, answers(seen, known, train, config))})
    found: dict[str, Any] = {"metrics": told.values | taught, "depths": {config.score: by_depth(network, test, config)}}
    found |= {"undefined": list(told.undefined)} if task == "multilabel" else {}
    found |= {"unavailable": told.unavailable, "raised": list(told.raised)}
    looked = {"mistakes.npz": mistakes(data.test, tested)} if task == "multiclass" else {}
    content, count = packed(tested)
    return {**found, "answers": {"kept": count, "of": len(tested)}}, {**looked, "answers.npz": content}


def answered(network: Network, test: Batches, config: RunConfig, data: DataSet) -> Answers:
    """What metrics of the test set are computed from.

    Raises:
        Diverged: a logit is not finite.
    """
    (logits,), labels = predict(network, test, config)
    if not torch.isfinite(logits).all():
        raise Diverged("the logits of the test set are not finite")
    return answers(logits, labels, test, config)


def by_depth(network: Network, test: Batches, config: RunConfig) -> dict[str, float]:
    """The score on the test set after 1, 2, ... supervision steps of the same weights, from the first that has seen
    the whole image on; none without recursion."""
    depths = range(config.model.unseen_steps + 1, config.train.evaluation_depths + 1)
    if not config.model.recursive or not depths:
        return {}
    told, labels = predict(network, test, config, depths)
    scores = (score(config.score, answers(logits, labels, test, config)) for logits in told)
    return defined({str(depth): value for depth, value in zip(depths, scores, strict=True)})


def mistakes(split: Split, tested: Answers) -> dict[str, Any]:
    """The first misclassified images, with what they are and what they were taken for."""
    at = (tested.predicted != tested.labels).nonzero()[0][:MISTAKES]
    rows, names = split.rows[at], [*tested.class_names]
    names += [f"token {at}" for at in range(len(names), tested.logits.shape[1])]  # of a vocabulary larger than the classes
    return {
        "rows": rows,
        "labels": tested.labels[at],
        "predicted": tested.predicted[at],
        "images": np.asarray(split.images[rows]),
        "names": np.array(names),
    }


def defined(values: dict[str, float]) -> dict[str, float]:
    """Without those that are not a number."""
    return {name: value for name, value in values.items() if np.isfinite(value)}


def some(share: Tensor) -> Tensor:
    """A share, or one of zeros in place of an empty one: not every network can take no images."""
    return share if len(share) else share.new_zeros(1, *share.shape[1:])
