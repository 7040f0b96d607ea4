"""Evaluate a network: on the selection split after each epoch, and on the test set once, after training.

The tasks (`recstudy.recursive.tasks`) and the training loop call these functions. Each takes the network with
the weights to evaluate and leaves it in evaluation mode. The workers of a group share the selection split;
one of them evaluates the test set.

Shapes: N items.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from recstudy.base.errors import ConfigError
from recstudy.programs.metric import METRICS
from recstudy.programs.watchdog import heartbeat
from recstudy.recursive.config.answers import Answers, Scores
from recstudy.recursive.config.reader import Labels
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.train import TrainConfig
from recstudy.recursive.data.batches import Batch, Batches
from recstudy.recursive.data.cache import DataSet
from recstudy.recursive.metrics.kept import pack_answers
from recstudy.recursive.metrics.registry import measured, score, selection_score
from recstudy.recursive.models.networks.contract import Carry, Network, Output
from recstudy.recursive.train.losses import item_loss
from recstudy.recursive.train.parallel import concatenated, rank_and_world
from recstudy.recursive.train.task import Judged, Task

TaskArrays = dict[str, Tensor]  # arrays that a task keeps of its answers, with N rows each
LOSS = "loss"
MAX_KEPT_DEPTHS = 64  # depths whose answers are in memory at a time, for a score that is no mean over items


class DivergenceError(Exception):
    """A loss or an answer is no longer finite."""


def autocast(device: torch.device, config: TrainConfig) -> AbstractContextManager[Any]:
    """Return the context that sets the precision of the matrix products, in training and evaluation."""
    return torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16")


def take_step(network: Network, images: Tensor, carry: Carry, config: TrainConfig) -> tuple[Output, Carry]:
    """Take a supervision step in the run's precision, in training or evaluation."""
    # First states are one vector at all positions, with strides of 0. A compiled graph is for one layout.
    carry = tuple(state.contiguous() for state in carry)
    if config.state_precision == "bfloat16":
        carry = tuple(state.bfloat16() if state.is_floating_point() else state for state in carry)
    with autocast(images.device, config):
        output, carry = network(images, carry)
    if not network.has_graphs:
        return output, carry
    # The next replay of a CUDA graph overwrites the output. The carry is its input. An evaluation keeps
    # answers, but training reads the logits before the next replay.
    if not torch.is_grad_enabled():
        output = Output._make(part if part is None else part.clone() for part in output)
    return output, tuple(state.clone() for state in carry)


def end_update(network: Network) -> None:
    """Tell torch that CUDA graphs may overwrite their outputs, because no backward pass needs them."""
    if network.has_graphs:
        torch.compiler.cudagraph_mark_step_begin()


def padded_batches(network: Network, batches: Batches, config: RunConfig) -> Iterator[tuple[Batch, int]]:
    """Yield the evaluation batches of this worker's share, and the number of their real items.

    An empty share gets one item of zeros, because not every network can process it. With a compiled network,
    zeros fill every batch, because each further shape would be compiled, too.
    """
    network.eval()
    size = worker_batch_size(config)
    for share in batches.evaluation_batches(size * batches.world):
        heartbeat()
        count = len(share.images)
        if padding := size - count if network.is_compiled else int(not count):
            share = Batch._make(
                F.pad(part, (0, 0) * (part.dim() - 1) + (0, padding)) if isinstance(part, Tensor) else part
                for part in share
            )
        yield share, count


class Step(NamedTuple):
    """The output of a network for a batch after `depth` supervision steps."""

    depth: int
    batch: Batch
    output: Output
    items: int  # real items; the others are padding, which does not count


@torch.no_grad()
def iterate_outputs(
    network: Network, batches: Batches, config: RunConfig, depths: Sequence[int]
) -> Iterator[Step]:
    """Yield the network's output for each batch of this worker's share, after each of some depths.

    Args:
        network: The network.
        batches: The split.
        config: The run's config.
        depths: Numbers of supervision steps, counted from 1. One chain of steps gives all of them, and only
            the states after the last step are kept.
    """
    for batch, count in padded_batches(network, batches, config):
        carry = network.start(batch.images, batch.context)
        for depth in range(1, max(depths) + 1):
            end_update(network)
            output, carry = take_step(network, batch.images, carry, config.train)
            if depth in depths:
                yield Step(depth, batch, output, count)


@torch.no_grad()
def predict(
    task: Task, network: Network, batches: Batches, depths: Sequence[int] = ()
) -> tuple[list[TaskArrays], Tensor]:
    """Return what the task keeps of this worker's share, and the losses.

    Args:
        task: The task.
        network: The network.
        batches: The split.
        depths: Numbers of supervision steps; by default `evaluation_steps`.

    Returns:
        The arrays of each depth, and the loss at the last depth (N,) in nats.
    """
    depths = depths or [task.config.train.evaluation_steps]
    batch_arrays: dict[int, list[TaskArrays]] = {depth: [] for depth in depths}
    losses = []
    for depth, batch, output, count in iterate_outputs(network, batches, task.config, depths):
        batch_arrays[depth].append(_item_arrays(task, output, batch, count))
        if depth == max(depths):
            losses.append(item_loss(output, batch, task)[:count])
    return [concatenate(parts) for parts in batch_arrays.values()], torch.cat(losses)


def concatenate(parts: list[TaskArrays]) -> TaskArrays:
    """Return the arrays of several batches as one."""
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _item_arrays(task: Task, output: Output, batch: Batch, count: int) -> TaskArrays:
    """Return what the task keeps of the first `count` items.

    Raises:
        ConfigError: An array of the task does not have one row per item.
    """
    rows, arrays = len(batch.images), task.kept(output, batch)
    for name, array in arrays.items():
        if array.shape[:1] != (rows,):
            raise ConfigError(
                f"kept[{name!r}] of the task {task.name!r} must have {rows} rows, one per item, but has the"
                f" shape {tuple(array.shape)}"
            )
    return {name: array[:count] for name, array in arrays.items()}


def selection_scores(task: Task, network: Network, batches: Batches, data: DataSet) -> tuple[float, float]:
    """Return the loss and the score on the selection split, over all workers.

    The score is NaN if no class has both positive and negative images.
    """
    (arrays,), loss = predict(task, network, batches)
    return joint_scores(task, arrays, loss, batches)


def joint_scores(task: Task, arrays: TaskArrays, loss: Tensor, batches: Batches) -> tuple[float, float]:
    """Return the loss and the selection score over the shares of all workers."""
    arrays = {name: concatenated(array) for name, array in arrays.items()}
    # Each worker evaluated other rows, so the rows are gathered in the same order as the answers.
    batch_size = worker_batch_size(task.config) * batches.world
    rows = concatenated(batches.evaluation_rows(batch_size).to(batches.device))
    answers = collect_answers(task, arrays, batches, rows.cpu().numpy())
    return concatenated(loss).mean().item(), selection_score(task.config.score, answers)


def training_score(task: Task, arrays: TaskArrays, train: Batches) -> Scores:
    """Return the score on the first training items, for which the arrays are; empty if it is undefined."""
    name, count = task.config.score, len(next(iter(arrays.values())))
    answers = collect_answers(task, arrays, train, train.rows[:count].numpy())
    return drop_undefined({f"train_{name}": score(name, answers)})


def collect_answers(task: Task, arrays: TaskArrays, batches: Batches, rows: Labels | None = None) -> Answers:
    """Return the answers that metrics are computed from.

    Args:
        task: The task.
        arrays: What the task kept.
        batches: The split.
        rows: Indices of the images in the split (N,); by default all of them, in order.
    """
    numpy_arrays = {name: array.cpu().numpy() for name, array in arrays.items()}
    if "logits" in numpy_arrays:
        numpy_arrays["logits"] = numpy_arrays["logits"].astype(np.float64)
    return task.answers(numpy_arrays, batches.rows.numpy() if rows is None else rows, batches.split)


def worker_batch_size(config: RunConfig) -> int:
    """Return the number of images of one worker in an evaluation batch."""
    # Twice the training batch fits into memory, because evaluation keeps no activations.
    return max(1, 2 * config.train.batch_size // rank_and_world()[1])


def findings(task: Task, network: Network, test: Batches, train: Batches, data: DataSet) -> Judged:
    """Return the part of a result that describes the answers, and the files to keep, by name.

    Raises:
        DivergenceError: An answer is not finite.
    """
    answers = answered(task, network, test, data)
    judged, files = summarize_answers(answers)
    if not task.config.train.imported:  # the training data of imported weights are unknown
        (train_arrays,), _ = predict(task, network, train)
        judged["metrics"] |= training_score(task, train_arrays, train)
    judged["depths"] = {task.config.score: score_by_depth(task, network, test)}
    return judged, {**task.shown(answers, data.test), **files}


def summarize_answers(answers: Answers) -> Judged:
    """Return the metrics of answers to the test set, and the file that keeps the answers."""
    scores, (content, count) = measured(answers), pack_answers(answers)
    judged = {
        "metrics": scores.values,
        "undefined": list(scores.undefined),
        "unavailable": scores.unavailable,
        "raised": list(scores.raised),
        "answers": {"kept": count, "of": len(answers)},
    }
    return judged, {"answers.npz": content}


def answered(task: Task, network: Network, test: Batches, data: DataSet) -> Answers:
    """Return the network's answers to the test set.

    Raises:
        DivergenceError: An answer or a loss is not finite.
    """
    (arrays,), loss = predict(task, network, test)
    for name, array in {**arrays, LOSS: loss}.items():
        if array.is_floating_point() and not torch.isfinite(array).all():
            verb = "is" if name == LOSS else "are"
            raise DivergenceError(f"the {name} of the test set {verb} not finite")
    return collect_answers(task, arrays, test)


def score_by_depth(task: Task, network: Network, test: Batches) -> Scores:
    """Return the test score after 1, 2, ... supervision steps of the same weights.

    The result is empty for a model without recursion.
    """
    config, item_score = task.config, METRICS[task.config.score].each
    depths = config.depths
    if not depths:
        return {}
    scores = dict.fromkeys(depths, 0.0)
    if item_score is None:
        # The score needs all answers at once. A few depths are kept in memory at a time, and the steps before
        # them are repeated.
        for first in range(0, len(depths), MAX_KEPT_DEPTHS):
            some_depths = depths[first : first + MAX_KEPT_DEPTHS]
            depth_arrays, _ = predict(task, network, test, some_depths)
            for depth, arrays in zip(some_depths, depth_arrays, strict=True):
                scores[depth] = score(config.score, collect_answers(task, arrays, test))
    else:
        # A mean over items is summed batch by batch, so more depths need no more memory.
        rows, start = test.rows.numpy(), 0
        for depth, batch, output, count in iterate_outputs(network, test, config, depths):
            arrays = _item_arrays(task, output, batch, count)
            answers = collect_answers(task, arrays, test, rows[start : start + count])
            scores[depth] += float(item_score(answers).sum()) / len(rows)
            start += count if depth == depths[-1] else 0
    return drop_undefined({str(depth): value for depth, value in scores.items()})


def drop_undefined(values: Scores) -> Scores:
    """Return the values without NaN and infinity."""
    return {name: value for name, value in values.items() if np.isfinite(value)}
