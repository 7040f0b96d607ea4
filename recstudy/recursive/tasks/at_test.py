"""More computation on test puzzles with the same weights: noisy trajectories, and votes of symmetric copies.

    z <- z + sigma N(0, 1)     before each of D segments                                              (1)
    the answer with the highest halting logit of the first 1, 2, 4, ..., K trajectories               (2)
    the answer, transformed back, that most of the first 1, 2, 4, ..., C copies give; ties go to the
    highest mean halting logit; the first copy is the puzzle itself                                   (3)
    pass@k = 1 - C(K - c, k) / C(K, k)      where c of a puzzle's K trajectories are right            (4)

(1)-(2) are PTRM (arXiv:2605.19943), which needs no training of its own. z is the last of a network's states:
the latent state of TRM, the low-level state of HRM. Further metrics count how often any of the same
trajectories or copies is right. (4) is the unbiased estimator (arXiv:2107.03374), from all trajectories for
every k. A puzzle is flipped if some of its copies solve it and others do not.

Every metric is a mean over puzzles: each puzzle counts once. `solving.findings` calls `at_test`.

Shapes: B puzzles, K trajectories or copies, S cells.
"""

import math
from collections.abc import Iterator
from copy import copy
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from recstudy.programs.settings import doubling_counts
from recstudy.programs.watchdog import heartbeat
from recstudy.recursive.config.reader import Labels
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.train import AtTest
from recstudy.recursive.data.batches import Batch, Batches
from recstudy.recursive.data.puzzles import Puzzles, numbers
from recstudy.recursive.models.networks.contract import Carry, Network
from recstudy.recursive.models.networks.layers import in_float64
from recstudy.recursive.train.evaluate import end_update, take_step, worker_batch_size
from recstudy.recursive.train.process import draw


@torch.no_grad()
def at_test(network: Network, batches: Batches, config: RunConfig) -> dict[str, float]:
    """Return the shares of solved puzzles in percent, by `METRIC.COUNT`.

    The result is empty if `train.at_test` has neither trajectories nor copies.
    """
    if not config.train.at_test.repeats:
        return {}
    network.eval()
    batches = sample_puzzles(batches, config.train.at_test)
    size = worker_batch_size(config)
    solved: dict[str, list[Tensor]] = {}
    for number, batch in enumerate(batches.evaluation_batches(size)):
        first = number * size
        rows = batches.rows[first : first + len(batch.images)].numpy()
        trajectories = score_trajectories(network, batch, config, number)
        votes = score_votes(network, batch, config, rows)
        for name, solved_B in chain(trajectories, votes):
            solved.setdefault(name, []).append(solved_B)
    return {name: 100 * in_float64(torch.cat(parts)).mean().item() for name, parts in solved.items()}


def sample_puzzles(batches: Batches, config: AtTest) -> Batches:
    """Return at most `train.at_test.puzzles` of the puzzles."""
    sample = copy(batches)
    # Evenly over the whole set, because a file may be sorted.
    sample.rows = batches.rows[:: config.stride(len(batches.rows))]
    return sample


def score_trajectories(
    network: Network, batch: Batch, config: RunConfig, number: int
) -> Iterator[tuple[str, Tensor]]:
    """Yield each metric of (1), (2) and (4) with its value for each puzzle, (B,).

    Args:
        network: a network with a halting head.
        batch: the puzzles.
        config: of the run.
        number: number of the batch, which its noise depends on.
    """
    count = config.train.at_test.trajectories
    device = batch.images.device
    # One generator for all trajectories: the first k are the same for every K, so that counts are comparable.
    noise = torch.Generator(device).manual_seed(draw(config.seed, "trajectories", number))
    answers = [think(network, batch.images, batch, config, noise) for _ in range(count)]
    solved = [is_exact(cells, batch.labels) for cells, _ in answers]
    for size in doubling_counts(count):
        right_BK = torch.stack(solved[:size], 1)
        sure_BK = torch.stack([halt for _, halt in answers[:size]], 1)
        surest_B1 = sure_BK.argmax(1, keepdim=True)
        yield f"noisy_exact_accuracy.{size}", right_BK.gather(1, surest_B1)[:, 0]
        yield f"any_exact_accuracy.{size}", right_BK.any(1)
    right_counts = torch.stack(solved, 1).sum(1).tolist() if solved else []
    for size in doubling_counts(count):
        yield f"pass_at.{size}", torch.tensor([pass_at(size, right, count) for right in right_counts])


def score_votes(
    network: Network, batch: Batch, config: RunConfig, rows: Labels
) -> Iterator[tuple[str, Tensor]]:
    """Yield each metric of (3) with its value for each puzzle, (B,)."""
    assert isinstance(config.data, Puzzles)
    count = config.train.at_test.copies
    puzzles = batch.images.flatten(1).long()
    answers, sure = [], []
    for turn in range(count):
        # The symmetries depend on the run's seed and the puzzle's row only, not on the batch.
        turns = np.full(len(rows), turn)
        draws = torch.from_numpy(numbers(config.seed, rows, turns, config.data.draws))
        turned = config.data.apply_symmetry(puzzles, puzzles, draws)[0] if turn else puzzles
        images = turned.to(batch.images.dtype).view_as(batch.images)
        cells, halt = think(network, images, batch, config)
        answers.append(config.data.undo_symmetry(cells, draws) if turn else cells)
        sure.append(halt)
    for size in doubling_counts(count):
        answer = elect_answers(torch.stack(answers[:size], 1), torch.stack(sure[:size], 1))
        yield f"voted_exact_accuracy.{size}", is_exact(answer, batch.labels)
        if size > 1:
            right_BK = torch.stack([is_exact(cells, batch.labels) for cells in answers[:size]], 1)
            yield f"any_copy_exact_accuracy.{size}", right_BK.any(1)
            yield f"flipped_puzzles.{size}", right_BK.any(1) & ~right_BK.all(1)


def think(
    network: Network, images: Tensor, batch: Batch, config: RunConfig, noise: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Return the answers after D segments, (B, S) uint8, and their halting logits, (B,)."""
    carry = network.start(images, batch.context)
    for _ in range(config.train.at_test.segments):
        heartbeat()
        if noise is not None:
            carry = add_noise(carry, config.train.at_test, noise)
        end_update(network)
        output, carry = take_step(network, images, carry, config.train)
    assert output.halt is not None, "Grid.check refuses models without a halting head"
    return output.logits.float().argmax(-1).byte(), output.halt.float()


def add_noise(carry: Carry, config: AtTest, noise: torch.Generator) -> Carry:
    """Return the states with the noise of (1) on the last one."""
    new = list(carry)
    latent = max(index for index, state in enumerate(carry) if state.is_floating_point() and state.numel())
    state = carry[latent]
    deviations = torch.randn(state.shape, generator=noise, device=state.device, dtype=state.dtype)
    new[latent] = state + config.noise * deviations
    return tuple(new)


def pass_at(count: int, right: int, trajectories: int) -> float:
    """Return (4): the probability that a sample of `count` trajectories contains one of the `right` ones."""
    return 1 - math.comb(trajectories - right, count) / math.comb(trajectories, count)


def elect_answers(answers_BKS: Tensor, sure_BK: Tensor) -> Tensor:
    """Return the answer of each puzzle by (3), (B, S)."""
    # Answers are compared in all cells, because the labels tell which cells are scored and are unknown at
    # test.
    same_BKK = torch.stack(
        [(answers_BKS == answer_BS[:, None]).all(-1) for answer_BS in answers_BKS.unbind(1)], 1
    )
    votes_BK = same_BKK.sum(2)
    mean_BK = (same_BKK * sure_BK[:, None]).sum(2) / votes_BK
    has_fewer_votes = votes_BK < votes_BK.amax(1, keepdim=True)
    most_B = mean_BK.masked_fill(has_fewer_votes, -torch.inf).argmax(1)
    return answers_BKS[torch.arange(len(most_B), device=most_B.device), most_B]


def is_exact(cells: Tensor, labels: Tensor) -> Tensor:
    """Return whether every scored cell is right, (B,)."""
    # Label 0 marks cells that are not scored.
    return ((cells == labels) | (labels == 0)).all(1)
