"""Evaluate puzzles: exact accuracy on the selection split after each epoch, all test scores at the end.

The task `Grid` names this module as its `evaluation`, so the training loop calls `selection_scores`,
`answered` and `findings`. A network answers every cell after each segment of one chain of segments. Only the
loss and the most likely token of each cell are kept of the logits, so a test set of any size streams through.

Shapes: B puzzles of a batch, N puzzles, S cells, T segments, H halting rules.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from recstudy.recursive.config.answers import Answers, Scores
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.data.batches import Batch, Batches
from recstudy.recursive.data.cache import DataSet
from recstudy.recursive.data.puzzles import Puzzles
from recstudy.recursive.models.networks.contract import Carry, Network, Output
from recstudy.recursive.tasks.at_test import at_test
from recstudy.recursive.tasks.grid import Grid
from recstudy.recursive.train.evaluate import (
    DivergenceError,
    collect_answers,
    drop_undefined,
    end_update,
    joint_scores,
    padded_batches,
    summarize_answers,
    take_step,
    training_score,
    worker_batch_size,
)
from recstudy.recursive.train.losses import token_hits
from recstudy.recursive.train.task import Judged

SHOWN_PUZZLES = 12  # test puzzles whose answers after every segment are saved for the board
MAX_SEGMENTS = 64  # at most so many segments of these answers are saved
WATCHED_PUZZLES = 256  # test puzzles whose states are compared from segment to segment
TRAIN_PUZZLES = 1000  # training puzzles that are evaluated at the end


# Sums of several batches are added up, so memory does not grow with puzzles times segments.
Sums = dict[str, Tensor]


@dataclass
class Solution:
    """The answers of one pass over this worker's N puzzles, after `evaluation_steps` segments."""

    cells: Tensor  # (N, S) uint8
    loss: Tensor  # (N,) nats a cell
    right: Tensor  # (N,) bool: every scored cell is right
    sure: Tensor  # (N,) logit of "this answer is right"; 0 if the model has no halting head
    sums: Sums  # over the puzzles, by segment


def sum_segments(hits: Tensor, scored_cells: Tensor, halts: Tensor, last: int) -> Sums:
    """Sum the results of each segment over the puzzles of a batch, in float64.

    Args:
        hits: (B, T) number of right cells after each segment.
        scored_cells: (B,) number of cells with a label other than 0, at least one.
        halts: (H, B, T) whether the model would halt after each segment, by each of H rules.
        last: the segment at which every puzzle halts at the latest.

    Returns:
        By segment, (T,): `exact`, the number of solved puzzles; `cells`, the sum of the shares of right
        cells; `lost`, the number of unsolved puzzles that an earlier segment had solved. By rule, (H,):
        `halted`, the number of puzzles that are solved where they halt; `used`, the segments until then.
    """
    right = hits == scored_cells[:, None]
    would_halt = halts[..., :last].clone()
    # A puzzle that no rule halts ends at `last`.
    would_halt[..., -1] = True
    stops_HB = would_halt.int().argmax(-1)
    right_HB = torch.stack([right.gather(1, stop_B[:, None])[:, 0] for stop_B in stops_HB])
    was_right = right.int().cummax(1).values
    return {
        "exact": right.double().sum(0),
        "cells": (hits.double() / scored_cells[:, None].clamp(min=1)).sum(0),
        "lost": (was_right - right.int()).double().sum(0),
        "halted": right_HB.double().sum(1),
        "used": (stops_HB + 1).double().sum(1),
    }


@torch.no_grad()
def solve(
    task: Grid,
    network: Network,
    batches: Batches,
    segments: int = 0,
    max_puzzles: float = np.inf,
    recorder: "ThinkingRecorder | None" = None,
) -> Solution:
    """Answer the puzzles of this worker's share.

    Args:
        task: the task of the run.
        network: the network; it is set to evaluation mode.
        batches: the puzzles.
        segments: number of segments to sum over, at least `evaluation_steps`.
        max_puzzles: stop after the batch that reaches this number; by default answer all puzzles.
        recorder: records the states and answers of the first batch.
    """
    config = task.config
    last = config.train.evaluation_steps
    segments = max(segments, last)
    size = worker_batch_size(config) * batches.world
    make_column = partial(torch.empty, len(batches.evaluation_rows(size)), device=batches.device)
    # The columns are made before the first batch: small results that are kept between large tensors that are
    # freed took 1 GB for 423,000 puzzles.
    columns = (
        make_column(config.data.cells, dtype=torch.uint8),
        make_column(),
        make_column(dtype=torch.bool),
        make_column(),
    )
    done = 0
    sums = Sums()
    for batch, count in padded_batches(network, batches, config):
        if done >= max_puzzles:
            break
        carry = network.start(batch.images, batch.context)
        device = batch.images.device
        hits = torch.zeros(len(batch.images), segments, dtype=torch.int32, device=device)
        rules = 1 + len(config.train.at_test.halts)
        would_halt = torch.zeros(rules, *hits.shape, dtype=torch.bool, device=device)
        for step in range(1, segments + 1):
            old_carry = carry
            end_update(network)
            output, carry = take_step(network, batch.images, carry, config.train)
            if recorder is not None and not done:
                recorder.record(batch, old_carry, output, carry, count)
            # Free the old states before the scores of the segment take memory.
            del old_carry
            hits[:, step - 1], scored_cells = token_hits(output.logits.float(), batch.labels)
            halt = torch.zeros(len(hits), device=device) if output.halt is None else output.halt.float()
            would_halt[..., step - 1] = halts(halt, output.proceed, config)
            if step == last:
                parts = (
                    task.kept(output, batch)["cells"],
                    task.loss(output, batch),
                    hits[:, step - 1] == scored_cells,
                    halt,
                )
                for column, part in zip(columns, parts, strict=True):
                    column[done : done + count] = part[:count]
        done += count
        batch_sums = sum_segments(
            hits[:count].cpu(), scored_cells[:count].cpu(), would_halt[:, :count].cpu(), last
        )
        for name, value in batch_sums.items():
            sums[name] = sums.get(name, 0) + value
    cells, loss, right, sure = (column[:done] for column in columns)
    return Solution(cells, loss, right, sure, sums)


def halts(halt: Tensor, proceed: Tensor | None, config: RunConfig) -> Tensor:
    """Return whether each rule halts, (H, B).

    The first rule is the model's own. The others compare the halting probability with the thresholds of
    `train.at_test.halts`.
    """
    # HRM compares the values of halting and of going on; TRM has one logit, whose threshold is 0.
    rules = [halt > (0 if proceed is None else proceed)]
    for threshold in config.train.at_test.halts:
        rules.append(halt.sigmoid() > threshold)
    return torch.stack(rules)


def selection_scores(task: Grid, network: Network, batches: Batches, data: DataSet) -> tuple[float, float]:
    """Return the loss in nats a cell and the score that selects epochs, over the shares of all workers."""
    solution = solve(task, network, batches)
    return joint_scores(task, {"cells": solution.cells}, solution.loss, batches)


def findings(task: Grid, network: Network, test: Batches, train: Batches, data: DataSet) -> Judged:
    """Evaluate the test set at the end of a run.

    Returns:
        The fields of the result, and the files of the run's folder by name.

    Raises:
        DivergenceError: a loss is not finite.
    """
    config = task.config
    at_test_config = config.train.at_test
    recorder = ThinkingRecorder()
    solution = solve(task, network, test, max(config.depths, default=0), recorder=recorder)
    answers = collect_test_answers(task, solution, test)
    judged, files = summarize_answers(answers)
    metrics = {}
    if not config.train.imported:  # the training data of imported weights are unknown
        cells = solve(task, network, train, max_puzzles=TRAIN_PUZZLES).cells
        metrics = training_score(task, {"cells": cells}, train)
    metrics |= halting(solution, config) | at_test(network, test, config)
    assert isinstance(config.data, Puzzles)
    ids = None if test.split.ids is None else test.split.ids[answers.rows]
    sure = solution.sure.double().cpu().numpy()
    verdict, verdict_files = config.data.verdict(answers, sure, ids, data.identifiers)
    # The groups of generated puzzles are classes, not copies of one puzzle.
    groups = None if config.data.synthetic else answers.groups
    if groups is not None:
        judged["answers"]["draws"] = len(np.unique(groups))
    if at_test_config.repeats:
        judged["answers"]["repeated"] = at_test_config.scored(len(answers))
    judged["metrics"] |= metrics | verdict
    judged["depths"] = {
        **by_depth(solution, config),
        "residual": drop_undefined(recorder.residual) if config.model.recursive else {},
    }
    return judged, {**files, "thinking.npz": recorder.to_arrays(test, config), **verdict_files}


def answered(task: Grid, network: Network, test: Batches, data: DataSet) -> Answers:
    """Return the answers that the metrics of the test set are computed from.

    Raises:
        DivergenceError: a loss is not finite.
    """
    return collect_test_answers(task, solve(task, network, test), test)


def collect_test_answers(task: Grid, solution: Solution, test: Batches) -> Answers:
    """Return the answers of a solution of the test set.

    Raises:
        DivergenceError: a loss is not finite.
    """
    if not torch.isfinite(solution.loss).all():
        raise DivergenceError("the loss of the test set is not finite")
    return collect_answers(task, {"cells": solution.cells}, test)


def by_depth(solution: Solution, config: RunConfig) -> dict[str, Scores]:
    """Return the scores after 1, 2, ... segments of the same weights, in percent.

    `lost_puzzles` is the share of unsolved puzzles that fewer segments had solved. The scores of a model
    without recursion are empty.
    """
    names = {"exact_accuracy": "exact", "cell_accuracy": "cells", "lost_puzzles": "lost"}
    shares = {name: 100 * (solution.sums[part] / len(solution.right)) for name, part in names.items()}
    return {
        name: {str(depth): share[depth - 1].item() for depth in config.depths}
        for name, share in shares.items()
    }


def halting(solution: Solution, config: RunConfig) -> Scores:
    """Return the metrics of the halting head; empty for models that never halt by themselves.

    Returns:
        `halted_exact_accuracy` in percent and `halted_steps`, if each puzzle ends at the first segment after
        which the model would halt, `evaluation_steps` at the latest. `METRIC.THRESHOLD` is the same for a
        halting probability above each threshold of `train.at_test.halts`. `halting_auroc` is the AUROC in
        percent of the halting logit after `evaluation_steps` as a verifier of the answer.
    """
    if not config.model.halts or not config.model.recursive:
        return {}
    rules = ["", *(f".{threshold}" for threshold in config.train.at_test.halts)]
    count = len(solution.right)
    accuracies = (solution.sums["halted"] / count).tolist()
    step_counts = (solution.sums["used"] / count).tolist()
    metrics = {
        f"halted_exact_accuracy{rule}": 100 * accuracy
        for rule, accuracy in zip(rules, accuracies, strict=True)
    }
    metrics |= {f"halted_steps{rule}": steps for rule, steps in zip(rules, step_counts, strict=True)}
    # The AUROC is undefined if all answers are right or all are wrong.
    if 0 < solution.right.sum() < count:
        auroc = roc_auc_score(solution.right.cpu().numpy(), solution.sure.cpu().numpy())
        metrics["halting_auroc"] = 100 * float(auroc)
    return metrics


class ThinkingRecorder:
    """Record answers and changes of states of the first batch, segment by segment.

    Attributes:
        cells: (n, S) the answer after each of the first segments, n = `SHOWN_PUZZLES`.
        halt: (n,) the halting logit after each of these segments.
        residual: by segment, the mean over puzzles of |z_t - z_(t-1)| / |z_t|, over all states together.
        puzzles: the n puzzles.
        answers: their labels.
    """

    def __init__(self) -> None:
        self.cells: list[Tensor] = []
        self.halt: list[Tensor] = []
        self.residual: Scores = {}
        self.puzzles = torch.empty(0)
        self.answers = torch.empty(0)

    def record(self, batch: Batch, old_carry: Carry, output: Output, carry: Carry, count: int) -> None:
        """Record one more segment of the first `count` puzzles."""
        shown = min(count, SHOWN_PUZZLES)
        self.puzzles, self.answers = batch.images[:shown], batch.labels[:shown]
        if len(self.cells) < MAX_SEGMENTS:
            self.cells.append(output.logits[:shown].argmax(-1).byte())
        if output.halt is not None and len(self.halt) < MAX_SEGMENTS:
            sure = output.halt if output.proceed is None else output.halt - output.proceed
            self.halt.append(sure[:shown].float())
        if any(state.is_floating_point() for state in carry):
            old, new = _flatten_states(old_carry, count), _flatten_states(carry, count)
            changes = (new - old).norm(dim=1) / new.norm(dim=1)
            self.residual[str(len(self.residual) + 1)] = changes.mean().item()

    def to_arrays(self, test: Batches, config: RunConfig) -> dict[str, Any]:
        """Return the arrays of `thinking.npz`: the first test puzzles and their cells after each segment."""
        assert isinstance(config.data, Puzzles)
        # Models without a halting head have no column in `halt`.
        halt = np.empty((len(self.puzzles), 0), np.float32)
        if self.halt:
            halt = torch.stack(self.halt, 1).cpu().numpy()
        return {
            "rows": test.rows[:SHOWN_PUZZLES].numpy(),
            "shape": np.array(config.data.shape[1:]),
            "symbols": np.array(config.data.symbols),
            "colours": np.array(config.data.colours, str),
            "boxes": np.array(config.data.boxes),
            "given": self.puzzles.flatten(1).byte().cpu().numpy(),
            "answers": self.answers.byte().cpu().numpy(),
            "cells": torch.stack(self.cells, 1).cpu().numpy(),
            "halt": halt,
        }


def _flatten_states(carry: Carry, count: int) -> Tensor:
    """Return all states of the watched puzzles in one row a puzzle, (n, D)."""
    # Integer states have no distance.
    states = [state[: min(count, WATCHED_PUZZLES)] for state in carry if state.is_floating_point()]
    return torch.cat([state.flatten(1).float() for state in states], 1)
