"""What a network has learned of puzzles: exact accuracy on the selection split after each epoch, all scores
at the end.

Answers are read in every cell after each segment, from one chain of segments. Of the logits nothing is kept
but the loss and the most likely token of each cell, so that a test set of any size streams through.

Shapes: N puzzles, S cells, T segments.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from recstudy.config import RunConfig
from recstudy.data.batches import Batch, Batches
from recstudy.data.cache import DataSet
from recstudy.data.puzzles import Puzzles
from recstudy.metrics import Answers
from recstudy.metrics.registry import score, selection_score
from recstudy.models.networks.contract import Carry, Network, Output
from recstudy.programs.watchdog import heartbeat
from recstudy.tasks.at_test import at_test
from recstudy.train.evaluate import (
    DivergenceError,
    autocast,
    collect_answers,
    drop_undefined,
    pad_empty_batch,
    summarize_answers,
    worker_batch_size,
)
from recstudy.train.losses import token_hits
from recstudy.train.parallel import concatenated

if TYPE_CHECKING:
    from recstudy.tasks.grid import Grid
    from recstudy.tasks.task import Judged

SHOWN = 12  # test puzzles whose answers after every segment are kept to look at
SEEN = 64  # segments, at most, after which they are kept
WATCHED = 256  # test puzzles over which states are compared from segment to segment
TAUGHT = 1000  # training puzzles that are judged at the end


# `sums_of` several batches are added up, so that nothing grows with puzzles times segments
Sums = dict[str, Tensor]


@dataclass
class Solved:
    """What the puzzles of one pass were answered with; N of this worker's share."""

    cells: Tensor  # (N, S) uint8, after `evaluation_steps`
    loss: Tensor  # (N,) nats a cell, then
    right: Tensor  # (N,) bool: every cell that is asked for is right, then
    sure: Tensor  # (N,) logit of "this answer is right", then; 0 where the model has no halting head
    sums: Sums  # over the puzzles, segment by segment


def sums_of(hits: Tensor, asked: Tensor, halts: Tensor, last: int) -> Sums:
    """Return what is known of every segment, summed over the puzzles of a batch, in float64.

    Args:
        hits: (B, T) cells that are right after each segment.
        asked: (B,) cells that are asked for, at least one.
        halts: (H, B, T) whether the model would halt there, by each of H rules.
        last: the segment at which every puzzle halts at the latest.

    Returns:
        By segment, (T,): puzzles that are `exact`, shares of `cells`, and puzzles that are `lost`, which an
            earlier segment had
        right. By rule, (H,): puzzles that are right where they halt, `halted`, and the segments `used` until
        then.
    """
    right = hits == asked[:, None]
    ends = halts[..., :last].clone()
    ends[..., -1] = True
    first = ends.int().argmax(-1)
    return {
        "exact": right.double().sum(0),
        "cells": (hits.double() / asked[:, None].clamp(min=1)).sum(0),
        "lost": (right.int().cummax(1).values - right.int()).double().sum(0),
        "halted": torch.stack([right.gather(1, at[:, None])[:, 0] for at in first]).double().sum(1),
        "used": (first + 1).double().sum(1),
    }


@torch.no_grad()
def solve(
    task: "Grid",
    network: Network,
    batches: Batches,
    segments: int = 0,
    most: int | None = None,
    watch: "Watch | None" = None,
) -> Solved:
    """Answers of this worker's share, or of the first `most` puzzles, after each of so many segments
    (`evaluation_steps`).
    """
    config, last = task.config, task.config.train.evaluation_steps
    segments, size = max(segments, last), worker_batch_size(config) * batches.world
    network.eval()
    made = partial(torch.empty, len(batches.evaluation_rows(size)), device=batches.device)
    # Made before the first batch: small parts that are kept between large ones that are freed took 1 GB of
    # 423,000 puzzles.
    columns = made(config.data.cells, dtype=torch.uint8), made(), made(dtype=torch.bool), made()
    done, seen, sums = 0, 0, Sums()
    for batch in batches.evaluation_batches(size):
        if most is not None and seen >= most:
            break
        heartbeat()
        count, seen, batch = len(batch.images), seen + batch.total, pad_empty_batch(batch)
        carry = network.start(batch.images, batch.context)
        hits = torch.zeros(len(batch.images), segments, dtype=torch.int32, device=batch.images.device)
        ended = torch.zeros(
            1 + len(config.train.at_test.halts), *hits.shape, dtype=torch.bool, device=hits.device
        )
        for step in range(1, segments + 1):
            before = carry
            with autocast(batch.images.device, config.train):
                output, carry = network(batch.images, carry)
            if watch is not None and not done:
                watch.see(batch, before, output, carry)
            del before
            hits[:, step - 1], asked = token_hits(output.logits.float(), batch.labels)
            halt = torch.zeros(len(hits), device=hits.device) if output.halt is None else output.halt.float()
            ended[..., step - 1] = halts(halt, output.proceed, config)
            if step == last:
                own = (
                    task.kept(output, batch)["cells"],
                    task.loss(output, batch),
                    hits[:, step - 1] == asked,
                    halt,
                )
                for column, part in zip(columns, own, strict=True):
                    column[done : done + count] = part[:count]
        done += count
        for name, value in sums_of(
            hits[:count].cpu(), asked[:count].cpu(), ended[:, :count].cpu(), last
        ).items():
            sums[name] = sums[name] + value if name in sums else value
    cells, loss, right, sure = (column[:done] for column in columns)
    return Solved(cells, loss, right, sure, sums)


def halts(halt: Tensor, proceed: Tensor | None, config: RunConfig) -> Tensor:
    """Return whether the model would halt by itself, and whether its halting probability is above each of
    `train.at_test.halts`, (H, B)."""
    own = halt > (0 if proceed is None else proceed)
    return torch.stack([own, *(halt.sigmoid() > threshold for threshold in config.train.at_test.halts)])


def selection_scores(task: "Grid", network: Network, batches: Batches, data: DataSet) -> tuple[float, float]:
    """Nats a cell and the score that selects epochs on the selection split, over all workers."""
    found = solve(task, network, batches)
    cells, loss = concatenated(found.cells), concatenated(found.loss)
    rows = concatenated(
        batches.evaluation_rows(worker_batch_size(task.config) * batches.world).to(cells.device)
    )
    told = collect_answers(task, {"cells": cells}, batches, rows.cpu().numpy())
    return loss.mean().item(), selection_score(task.config.score, told)


def findings(task: "Grid", network: Network, test: Batches, train: Batches, data: DataSet) -> "Judged":
    """Return what a result states of the answers, and what is kept to look at, by file.

    Raises:
        DivergenceError: a loss is not finite.
    """
    config, more = task.config, task.config.train.at_test
    watch = Watch()
    found = solve(
        task, network, test, config.train.evaluation_depths if config.model.recursive else 0, watch=watch
    )
    told = _told(task, found, test)
    judged, files = summarize_answers(told)
    own = {}
    if not config.train.imported:  # what others trained on is not known
        taught = solve(task, network, train, most=TAUGHT)
        seen = collect_answers(task, {"cells": taught.cells}, train, train.rows[: len(taught.cells)].numpy())
        own = drop_undefined({f"train_{config.score}": score(config.score, seen)})
    own |= halting(found, config) | at_test(network, test, config)
    assert isinstance(config.data, Puzzles)
    ids = None if test.split.ids is None else test.split.ids[told.rows]
    verdict, shown = config.data.verdict(told, found.sure.double().cpu().numpy(), ids, data.identifiers)
    # those of generated puzzles are classes, not copies
    groups = None if config.data.synthetic else told.groups
    draws = {} if groups is None else {"draws": len(np.unique(groups))}
    draws |= {"repeated": more.scored(len(told))} if more.repeats else {}
    judged["metrics"] |= own | verdict
    judged["answers"] |= draws
    judged["depths"] = {
        **by_depth(found, config),
        "residual": drop_undefined(watch.residual) if config.model.recursive else {},
    }
    return judged, {**files, "thinking.npz": watch.kept(test, config), **shown}


def answered(task: "Grid", network: Network, test: Batches, data: DataSet) -> Answers:
    """Return what metrics of the test set are computed from.

    Raises:
        DivergenceError: a loss is not finite.
    """
    return _told(task, solve(task, network, test), test)


def _told(task: "Grid", found: Solved, test: Batches) -> Answers:
    if not torch.isfinite(found.loss).all():
        raise DivergenceError("the loss of the test set is not finite")
    return collect_answers(task, {"cells": found.cells}, test)


def by_depth(found: Solved, config: RunConfig) -> dict[str, dict[str, float]]:
    """Return in percent, after 1, 2, ... segments of the same weights: exact and cell accuracy, and the
    puzzles that were right after fewer and are not any more; none without recursion."""
    depths = range(1, config.train.evaluation_depths + 1) if config.model.recursive else ()
    names = {"exact_accuracy": "exact", "cell_accuracy": "cells", "lost_puzzles": "lost"}
    shares = {name: (100 * (found.sums[part] / len(found.right))).tolist() for name, part in names.items()}
    return {name: {str(depth): values[depth - 1] for depth in depths} for name, values in shares.items()}


def halting(found: Solved, config: RunConfig) -> dict[str, float]:
    """Return what the halting head is worth; nothing of models that never halt by themselves.

    Exact accuracy in percent where each puzzle ends at the first segment after which the model would halt,
    the last of `evaluation_steps` at the latest, and how many segments that takes; the same, by
    `METRIC.THRESHOLD`, where its halting probability is first above each of `train.at_test.halts`. And the
    AUROC in percent of its logit after `evaluation_steps` as a verifier of the answer, where some answers are
    right and others are not.
    """
    if not config.model.halts or not config.model.recursive:
        return {}
    rules = ["", *(f".{threshold}" for threshold in config.train.at_test.halts)]
    halted, used = ((found.sums[name] / len(found.right)).tolist() for name in ("halted", "used"))
    told = {f"halted_exact_accuracy{rule}": 100 * share for rule, share in zip(rules, halted, strict=True)}
    told |= {f"halted_steps{rule}": steps for rule, steps in zip(rules, used, strict=True)}
    if 0 < found.right.sum() < len(found.right):
        from sklearn.metrics import roc_auc_score

        told["halting_auroc"] = 100 * float(
            roc_auc_score(found.right.cpu().numpy(), found.sure.cpu().numpy())
        )
    return told


class Watch:
    """What the first test puzzles do from segment to segment, seen while they are solved: the first batch of
    a pass.
    """

    def __init__(self) -> None:
        self.cells: list[Tensor] = []  # (SHOWN, S) after each of the first segments
        self.halt: list[Tensor] = []  # (SHOWN,) how sure the model is then
        # by segment, how far the states move: the mean over some puzzles of
        self.residual: dict[str, float] = {}
        # |z_t - z_(t-1)| / |z_t|, over all states together
        self.given, self.answers = torch.empty(0), torch.empty(0)

    def see(self, batch: Batch, before: Carry, output: Output, carry: Carry) -> None:
        """Take note of one more segment."""
        self.given, self.answers = batch.images[:SHOWN], batch.labels[:SHOWN]
        if len(self.cells) < SEEN:
            self.cells.append(output.logits[:SHOWN].argmax(-1).byte())
        if output.halt is not None and len(self.halt) < SEEN:
            sure = output.halt if output.proceed is None else output.halt - output.proceed
            self.halt.append(sure[:SHOWN].float())
        old, new = _states(before), _states(carry)
        self.residual[str(len(self.residual) + 1)] = ((new - old).norm(dim=1) / new.norm(dim=1)).mean().item()

    def kept(self, test: Batches, config: RunConfig) -> dict[str, Any]:
        """Return the first test puzzles with what stands in their cells after each of the first segments."""
        assert isinstance(config.data, Puzzles)
        return {
            "rows": test.rows[:SHOWN].numpy(),
            "shape": np.array(config.data.shape[1:]),
            "symbols": np.array(config.data.symbols),
            "colours": np.array(config.data.colours, str),
            "boxes": np.array(config.data.boxes),
            "given": self.given.flatten(1).byte().cpu().numpy(),
            "answers": self.answers.byte().cpu().numpy(),
            "cells": torch.stack(self.cells, 1).cpu().numpy(),
            "halt": torch.stack(self.halt, 1).cpu().numpy()
            if self.halt
            else np.empty((len(self.given), 0), np.float32),
        }


def _states(carry: Carry) -> Tensor:
    """Return (N, D) of all states of the puzzles that are watched, in one row a puzzle."""
    return torch.cat([state[:WATCHED].flatten(1).float() for state in carry if state.is_floating_point()], 1)
