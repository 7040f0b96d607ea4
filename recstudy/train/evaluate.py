"""What a network has learned, as its task asks: the selection split after each epoch, the test set once, at
the end.

Every function takes the network with the weights to be judged and leaves it in evaluation mode. Prediction is
shared by a group's workers as training is; the test set is looked at by one of them.

Shapes: N items.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from recstudy.config import RunConfig, TrainConfig
from recstudy.data.batches import Batch, Batches
from recstudy.data.cache import DataSet
from recstudy.data.reader import Labels
from recstudy.errors import ConfigError
from recstudy.metrics import Answers, measured
from recstudy.metrics.kept import packed
from recstudy.metrics.registry import score, selection_score
from recstudy.models.networks.contract import Network, Output
from recstudy.programs.metric import METRICS
from recstudy.programs.watchdog import heartbeat
from recstudy.train.losses import item_loss
from recstudy.train.parallel import concatenated, rank_and_world

if TYPE_CHECKING:
    from recstudy.tasks import Task
    from recstudy.tasks.task import Judged

Kept = dict[str, Tensor]  # what a task keeps, N rows each
LOSS = "loss"
KEPT = 64  # depths whose answers are kept at a time, of a score that is no mean over items


class Diverged(Exception):
    """A loss or an answer is no longer finite."""


def autocast(device: torch.device, config: TrainConfig) -> AbstractContextManager[Any]:
    """Return the precision of the matrix products, in training and here."""
    return torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16")


class Step(NamedTuple):
    """What a network says of a batch after so many supervision steps."""

    depth: int
    batch: Batch
    output: Output
    items: int  # that are there: an empty share is filled up with one that is not


@torch.no_grad()
def read(network: Network, batches: Batches, config: RunConfig, depths: Sequence[int]) -> Iterator[Step]:
    """Yield, batch by batch of this worker's share, what the network says after each of `depths` supervision
    steps.

    Depths are counted from 1 and come from one chain of steps. Nothing is kept of a step but the states after
    it.
    """
    network.eval()
    for whole in batches.evaluation_batches(own_batch(config) * batches.world):
        heartbeat()
        batch = filled(whole)
        carry = network.start(batch.images, batch.context)
        for depth in range(1, max(depths) + 1):
            with autocast(batch.images.device, config.train):
                output, carry = network(batch.images, carry)
            if depth in depths:
                yield Step(depth, batch, output, len(whole.images))


@torch.no_grad()
def predict(
    task: "Task", network: Network, batches: Batches, depths: Sequence[int] = ()
) -> tuple[list[Kept], Tensor]:
    """Return what the task keeps of this worker's share after each of `depths` supervision steps, and the
    last one's loss (N,).

    Without depths: after `evaluation_steps`.
    """
    depths = depths or [task.config.train.evaluation_steps]
    kept: dict[int, list[Kept]] = {depth: [] for depth in depths}
    losses = []
    for depth, batch, output, count in read(network, batches, task.config, depths):
        kept[depth].append(_rows(task, output, batch, count))
        if depth == max(depths):
            losses.append(item_loss(output, batch, task)[:count])
    whole = [
        {name: torch.cat([part[name] for part in parts]) for name in parts[0]} for parts in kept.values()
    ]
    return whole, torch.cat(losses)


def _rows(task: "Task", output: Output, batch: Batch, count: int) -> Kept:
    """Return what the task keeps of the first `count` items (ConfigError: it has not a row an item)."""
    rows, told = len(batch.images), task.kept(output, batch)
    for name, part in told.items():
        if part.shape[:1] != (rows,):
            told_of = f"kept[{name!r}] of the task {task.name!r} must have {rows} rows, one an item"
            raise ConfigError(f"{told_of}, but has the shape {tuple(part.shape)}")
    return {name: part[:count] for name, part in told.items()}


def selection_scores(task: "Task", network: Network, batches: Batches, data: DataSet) -> tuple[float, float]:
    """Loss and the score that selects epochs on the selection split, over all workers.

    The score is not a number where no class has both kinds of images.
    """
    (kept,), loss = predict(task, network, batches)
    kept = {name: concatenated(part) for name, part in kept.items()}
    rows = concatenated(batches.evaluation_rows(own_batch(task.config) * batches.world).to(batches.device))
    found = answers(task, kept, batches, rows.cpu().numpy())
    return concatenated(loss).mean().item(), selection_score(task.config.score, found)


def answers(task: "Task", kept: Kept, batches: Batches, rows: Labels | None = None) -> Answers:
    """Return what metrics look at: what was kept of the images in these rows, by default of all in their
    order.
    """
    arrays = {name: part.cpu().numpy() for name, part in kept.items()}
    if "logits" in arrays:
        arrays["logits"] = arrays["logits"].astype(np.float64)
    return task.answers(arrays, batches.rows.numpy() if rows is None else rows, batches.split)


def own_batch(config: RunConfig) -> int:
    """Images of a worker's share of a batch here: it fits where training does, which keeps activations."""
    return max(1, 2 * config.train.batch_size // rank_and_world()[1])


def findings(task: "Task", network: Network, test: Batches, train: Batches, data: DataSet) -> "Judged":
    """Return what a result states of the answers, and what is kept to look at, by file.

    Raises:
        Diverged: an answer is not finite.
    """
    answers_of_test, name = answered(task, network, test, data), task.config.score
    judged, files = stated(answers_of_test)
    if not task.config.train.imported:  # what others trained on is not known
        (seen,), _ = predict(task, network, train)
        judged["metrics"] |= defined({f"train_{name}": score(name, answers(task, seen, train))})
    judged["depths"] = {name: by_depth(task, network, test)}
    return judged, {**task.shown(answers_of_test, data.test), **files}


def stated(known: Answers) -> "Judged":
    """Return what a result states of answers to the test set, and the file that keeps them."""
    scores, (content, count) = measured(known), packed(known)
    judged = {
        "metrics": scores.values,
        "undefined": list(scores.undefined),
        "unavailable": scores.unavailable,
        "raised": list(scores.raised),
        "answers": {"kept": count, "of": len(known)},
    }
    return judged, {"answers.npz": content}


def answered(task: "Task", network: Network, test: Batches, data: DataSet) -> Answers:
    """Return what metrics of the test set are computed from.

    Raises:
        Diverged: an answer or a loss is not finite.
    """
    (kept,), loss = predict(task, network, test)
    for name, part in {**kept, LOSS: loss}.items():
        if part.is_floating_point() and not torch.isfinite(part).all():
            raise Diverged(f"the {name} of the test set {'is' if name == LOSS else 'are'} not finite")
    return answers(task, kept, test)


def by_depth(task: "Task", network: Network, test: Batches) -> dict[str, float]:
    """Return the score on the test set after 1, 2, ... supervision steps of the same weights, from the first
    that has seen the whole image on; none without recursion.

    A score that is a mean over items is summed up batch by batch, so that more depths take no more memory. Of
    another one the answers of `KEPT` depths are kept at a time, and the steps before them are taken again.
    """
    config, each = task.config, METRICS[task.config.score].each
    depths = range(config.model.unseen_steps + 1, config.train.evaluation_depths + 1)
    if not config.model.recursive or not depths:
        return {}
    scores = dict.fromkeys(depths, 0.0)
    if each is None:
        for some in (depths[first : first + KEPT] for first in range(0, len(depths), KEPT)):
            kept, _ = predict(task, network, test, some)
            scores |= {
                depth: score(config.score, answers(task, one, test))
                for depth, one in zip(some, kept, strict=True)
            }
        return defined({str(depth): value for depth, value in scores.items()})
    rows, seen = test.rows.numpy(), 0
    for depth, batch, output, count in read(network, test, config, depths):
        told = answers(task, _rows(task, output, batch, count), test, rows[seen : seen + count])
        scores[depth] += float(each(told).sum()) / len(rows)
        seen += count if depth == depths[-1] else 0
    return defined({str(depth): value for depth, value in scores.items()})


def defined(values: dict[str, float]) -> dict[str, float]:
    """Without those that are not a number."""
    return {name: value for name, value in values.items() if np.isfinite(value)}


def filled(batch: Batch) -> Batch:
    """Return a share, or one item of zeros in place of an empty one: not every network can take no images."""
    return Batch._make(some(part) if isinstance(part, Tensor) else part for part in batch)


def some(share: Tensor) -> Tensor:
    return share if len(share) else share.new_zeros(1, *share.shape[1:])
