"""What a network has learned of puzzles: exact accuracy on the selection split after each epoch, all scores at the end.

Answers are read in every cell after each segment, from one chain of segments. Of the logits nothing is kept but the loss and the
most likely token of each cell, so that a test set of any size streams through.

Shapes: N puzzles, S cells, T segments.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recstudy.config import RunConfig
from recstudy.data.batches import Batches
from recstudy.data.cache import DataSet
from recstudy.data.puzzles import Puzzles
from recstudy.metrics import Answers, measured
from recstudy.metrics.kept import packed
from recstudy.metrics.registry import score
from recstudy.models.networks.contract import Carry, Network
from recstudy.train.at_test import at_test
from recstudy.train.evaluate import Diverged, autocast, defined, own_batch, some
from recstudy.train.losses import answer_loss, loss_of, token_hits
from recstudy.train.parallel import concatenated
from recstudy.train.watchdog import alive

SHOWN = 12  # test puzzles whose answers after every segment are kept to look at
WATCHED = 256  # test puzzles over which states are compared from segment to segment
TAUGHT = 1000  # training puzzles that are judged at the end


@dataclass
class Solved:
    """What the puzzles of one pass were answered with; N of this worker's share."""

    cells: Tensor  # (N, S) uint8, after `evaluation_steps`
    labels: Tensor  # (N, S) uint8
    loss: Tensor  # (N,) nats a cell, then
    hits: Tensor  # (N, T) int32: cells that are right after each segment
    asked: Tensor  # (N,) int32: cells that are asked for
    halts: Tensor  # (N, T) bool: the model would halt here
    sure: Tensor  # (N,) logit of "this answer is right", after `evaluation_steps`; 0 where the model has no halting head


@torch.no_grad()
def solve(network: Network, batches: Batches, config: RunConfig, segments: int = 0, most: int | None = None) -> Solved:
    """Answers of this worker's share, or of the first `most` puzzles, after each of so many segments (`evaluation_steps`)."""
    last = config.train.evaluation_steps
    segments = max(segments, last)
    network.eval()
    parts, seen = [], 0
    for batch in batches.plain(own_batch(config) * batches.world):
        if most is not None and seen >= most:
            break
        alive()
        count, images = len(batch.images), some(batch.images)
        seen += batch.total
        labels = some(batch.labels)
        carry, by_step = network.start(images, None if batch.told is None else some(batch.told)), []
        for step in range(1, segments + 1):
            with autocast(images.device, config.train):
                output, carry = network(images, carry)
            logits = output.logits.float()
            hits, asked = token_hits(logits, labels)
            halt = torch.zeros(len(images), device=images.device) if output.halt is None else output.halt.float()
            by_step.append((hits.int(), halt > (0 if output.proceed is None else output.proceed)))
            if step == last:
                sure = halt
                cells, loss = logits.argmax(-1).byte(), answer_loss(logits, labels, loss_of(config.train)).float()
        hits, halts = (torch.stack(column, 1) for column in zip(*by_step, strict=True))
        own = cells, labels.byte(), loss, hits, asked.int(), halts, sure
        parts.append(tuple(part[:count] for part in own))
    return Solved(*(torch.cat(column) for column in zip(*parts, strict=True)))


def selection_scores(network: Network, batches: Batches, config: RunConfig, data: DataSet) -> tuple[float, float]:
    """Nats a cell and the score that selects epochs on the selection split, over all workers."""
    found = solve(network, batches, config)
    cells, labels, loss = (concatenated(part) for part in (found.cells, found.labels, found.loss))
    rows = concatenated(batches.seen(own_batch(config) * batches.world).to(cells.device))
    return loss.mean().item(), score(config.score, answers(cells, labels, rows, batches, config))


def answers(cells: Tensor, labels: Tensor, rows: Tensor, batches: Batches, config: RunConfig) -> Answers:
    """What metrics look at: the cells (N, S) that the model gives for the puzzles in these rows."""
    assert isinstance(config.data, Puzzles)
    at, given = rows.cpu().numpy(), cells.cpu().numpy()
    lawful = config.data.lawful(np.asarray(batches.split.images[at]).reshape(given.shape), given)
    return Answers(
        "grid",
        labels=labels.cpu().numpy(),
        class_names=config.data.class_names,
        rows=at,
        levels=config.data.levels(at),
        cells=given,
        lawful=lawful,
    )


def findings(
    network: Network, test: Batches, train: Batches, config: RunConfig, data: DataSet
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a result states of the answers, and what is kept to look at, by file.

    Raises:
        Diverged: a loss is not finite.
    """
    found = solve(network, test, config, config.train.evaluation_depths if config.model.recursive else 0)
    if not torch.isfinite(found.loss).all():
        raise Diverged("the loss of the test set is not finite")
    told = answers(found.cells, found.labels, test.rows, test, config)
    taught = solve(network, train, config, most=TAUGHT)
    seen = answers(taught.cells, taught.labels, train.rows[: len(taught.cells)], train, config)
    scores = measured(told)
    own = defined({f"train_{config.score}": score(config.score, seen)}) | halting(found, config) | at_test(network, test, config)
    verdict, files = verdict_on(told, found.sure, test, config, data)
    content, count = packed(told)
    thought, residual = thinking(network, test, config)
    stated = {
        "metrics": scores.values | own | verdict,
        "depths": {**by_depth(found, config), "residual": residual if config.model.recursive else {}},
        "answers": {"kept": count, "of": len(told)},
        "unavailable": scores.unavailable,
        "raised": list(scores.raised),
    }
    return stated, {"answers.npz": content, "thinking.npz": thought} | files


def verdict_on(
    told: Answers, sure: Tensor, test: Batches, config: RunConfig, data: DataSet
) -> tuple[dict[str, float], dict[str, Any]]:
    """What the data set itself makes of the answers: metrics, and files to keep."""
    assert isinstance(config.data, Puzzles)
    ids = None if test.split.ids is None else test.split.ids[told.rows]
    return config.data.verdict(told, sure.double().cpu().numpy(), ids, data.identifiers)


def answered(network: Network, test: Batches, config: RunConfig, data: DataSet) -> Answers:
    """What metrics of the test set are computed from.

    Raises:
        Diverged: a loss is not finite.
    """
    found = solve(network, test, config)
    if not torch.isfinite(found.loss).all():
        raise Diverged("the loss of the test set is not finite")
    return answers(found.cells, found.labels, test.rows, test, config)


def by_depth(found: Solved, config: RunConfig) -> dict[str, dict[str, float]]:
    """Exact and cell accuracy in percent after 1, 2, ... segments of the same weights; none without recursion."""
    depths = range(1, config.train.evaluation_depths + 1) if config.model.recursive else ()
    hits, asked = found.hits.double(), found.asked.double()[:, None]
    exact, cells = (100 * (hits == asked).double().mean(0)).tolist(), (100 * (hits / asked).mean(0)).tolist()
    return {
        name: {str(depth): values[depth - 1] for depth in depths}
        for name, values in (("exact_accuracy", exact), ("cell_accuracy", cells))
    }


def halting(found: Solved, config: RunConfig) -> dict[str, float]:
    """Exact accuracy in percent where each puzzle ends at the first segment after which the model would halt, the last of
    `evaluation_steps` at the latest, and how many segments that takes; nothing of models that never halt by themselves."""
    if not config.model.halts or not config.model.recursive:
        return {}
    halts = found.halts[:, : config.train.evaluation_steps].clone()
    halts[:, -1] = True
    first = halts.int().argmax(1, keepdim=True)
    exact = found.hits.gather(1, first)[:, 0] == found.asked
    return {"halted_exact_accuracy": 100 * exact.double().mean().item(), "halted_steps": 1 + first.double().mean().item()}


@torch.no_grad()
def thinking(network: Network, test: Batches, config: RunConfig) -> tuple[dict[str, Any], dict[str, float]]:
    """The first test puzzles with what stands in their cells after every segment, and by segment how far the states still move:
    the mean over some puzzles of |z_t - z_(t-1)| / |z_t|, over all states together.
    """
    assert isinstance(config.data, Puzzles)
    segments = max(config.train.evaluation_steps, config.train.evaluation_depths if config.model.recursive else 1)
    network.eval()
    batch = next(test.plain(min(WATCHED, own_batch(config))))
    carry = network.start(batch.images, batch.told)
    cells, halt, residual = [], [], {}
    for segment in range(1, segments + 1):
        before = _states(carry)
        with autocast(batch.images.device, config.train):
            output, carry = network(batch.images, carry)
        after = _states(carry)
        cells.append(output.logits[:SHOWN].argmax(-1).byte())
        if output.halt is not None:
            sure = output.halt if output.proceed is None else output.halt - output.proceed
            halt.append(sure[:SHOWN].float())
        residual[str(segment)] = ((after - before).norm(dim=1) / after.norm(dim=1)).mean().item()
    kept = {
        "rows": test.rows[:SHOWN].numpy(),
        "shape": np.array(config.data.shape[1:]),
        "symbols": np.array(config.data.symbols),
        "colours": np.array(config.data.colours, str),
        "boxes": np.array(config.data.boxes),
        "given": batch.images[:SHOWN].flatten(1).byte().cpu().numpy(),
        "answers": batch.labels[:SHOWN].byte().cpu().numpy(),
        "cells": torch.stack(cells, 1).cpu().numpy(),
        "halt": torch.stack(halt, 1).cpu().numpy() if halt else np.empty((len(cells[0]), 0), np.float32),
    }
    return kept, defined(residual)


def _states(carry: Carry) -> Tensor:
    """(N, D) of all states, in one row a puzzle."""
    return torch.cat([state.flatten(1).float() for state in carry if state.is_floating_point()], 1)
