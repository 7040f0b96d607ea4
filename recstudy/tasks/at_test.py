"""More thinking at test, from the same weights: the surest of noisy trajectories, the vote of copies under
symmetries.

    z <- z + sigma N(0, 1)     before each of D segments                                              (1)
    the answer of the trajectory whose halting head is surest, of the first 1, 2, 4, ..., K           (2)
    the answer, turned back, that most of the first 1, 2, 4, ..., C copies give; of several such,
    that whose copies are surest on average; the first copy is the puzzle itself                      (3)
    pass@k = 1 - C(K - c, k) / C(K, k)      where c of a puzzle's K trajectories are right            (4)

(1)-(2) are PTRM (arXiv:2605.19943), which needs no training of its own. z is the last of a network's states,
TRM's latent and HRM's lower one; on request y, the first of them, is noisy as well, or alone. Beside (2) and
(3) stands how often any of the same trajectories or copies is right; (4) is the estimator without bias
(arXiv:2107.03374), from all trajectories for every k. Copies flip a puzzle where some of them solve it and
others do not.

Every score is a mean over puzzles: however often a puzzle is answered, it counts once.

Shapes: B puzzles, K trajectories or copies, S cells.
"""

import math
from collections.abc import Iterator
from copy import copy

import numpy as np
import torch
from torch import Tensor

from recstudy.config import AtTest, RunConfig
from recstudy.data.batches import Batch, Batches
from recstudy.data.puzzles import Puzzles, numbers
from recstudy.data.reader import Labels
from recstudy.models.networks.contract import Carry, Network
from recstudy.models.networks.layers import in_float64
from recstudy.programs.settings import doubling_counts
from recstudy.programs.watchdog import heartbeat
from recstudy.train.evaluate import autocast, worker_batch_size
from recstudy.train.process import draw


@torch.no_grad()
def at_test(network: Network, batches: Batches, config: RunConfig) -> dict[str, float]:
    """Return shares of the puzzles in percent by `METRIC.COUNT`; nothing where `train.at_test` answers none
    more than once.
    """
    if not config.train.at_test.repeats:
        return {}
    network.eval()
    batches = spread(batches, config.train.at_test)
    right: dict[str, list[Tensor]] = {}
    for number, batch in enumerate(batches.evaluation_batches(worker_batch_size(config))):
        rows = batches.rows[number * worker_batch_size(config) :][: len(batch.images)].numpy()
        for name, solved in (*noisy(network, batch, config, number), *voted(network, batch, config, rows)):
            right.setdefault(name, []).append(solved)
    return {name: 100 * in_float64(torch.cat(solved)).mean().item() for name, solved in right.items()}


def spread(batches: Batches, config: AtTest) -> Batches:
    """Return the puzzles that are scored, evenly over the whole set, which may stand in an order."""
    some = copy(batches)
    some.rows = batches.rows[:: config.stride(len(batches.rows))]
    return some


def noisy(network: Network, batch: Batch, config: RunConfig, number: int) -> Iterator[tuple[str, Tensor]]:
    """Return by (1), (2) and (4), by metric, which puzzles are solved, (B,). More trajectories are those of
    fewer, and others.
    """
    count, device = config.train.at_test.trajectories, batch.images.device
    noise = torch.Generator(device).manual_seed(draw(config.seed, "trajectories", number))
    thought = [think(network, batch.images, batch, config, noise) for _ in range(count)]
    solved = [exact(cells, batch.labels) for cells, _ in thought]
    for many in doubling_counts(count):
        right_BK, sure_BK = (
            torch.stack(solved[:many], 1),
            torch.stack([halt for _, halt in thought[:many]], 1),
        )
        yield f"noisy_exact_accuracy.{many}", right_BK.gather(1, sure_BK.argmax(1, keepdim=True))[:, 0]
        yield f"any_exact_accuracy.{many}", right_BK.any(1)
    right_B = torch.stack(solved, 1).sum(1).tolist() if solved else []
    for many in doubling_counts(count):
        yield f"pass_at.{many}", torch.tensor([pass_at(many, right, count) for right in right_B])


def voted(network: Network, batch: Batch, config: RunConfig, rows: Labels) -> Iterator[tuple[str, Tensor]]:
    """Return by (3), by metric, which puzzles are solved, (B,). Symmetries follow from the run's seed and the
    puzzle's row.
    """
    assert isinstance(config.data, Puzzles)
    count, given = config.train.at_test.copies, batch.images.flatten(1).long()
    answers, sure = [], []
    for turn in range(count):
        draws = torch.from_numpy(numbers(config.seed, rows, np.full(len(rows), turn), config.data.draws))
        turned, _ = config.data.apply_symmetry(given, given, draws) if turn else (given, given)
        cells, halt = think(network, turned.to(batch.images.dtype).view_as(batch.images), batch, config)
        answers.append(config.data.undo_symmetry(cells, draws) if turn else cells)
        sure.append(halt)
    for many in doubling_counts(count):
        answer = elected(torch.stack(answers[:many], 1), torch.stack(sure[:many], 1))
        yield f"voted_exact_accuracy.{many}", exact(answer, batch.labels)
        if many > 1:
            right_BK = torch.stack([exact(cells, batch.labels) for cells in answers[:many]], 1)
            yield f"any_copy_exact_accuracy.{many}", right_BK.any(1)
            yield f"flipped_puzzles.{many}", right_BK.any(1) & ~right_BK.all(1)


def think(
    network: Network, images: Tensor, batch: Batch, config: RunConfig, noise: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Answers (B, S) uint8 and how sure the halting head is of them (B,), after D segments."""
    carry = network.start(images, batch.context)
    for _ in range(config.train.at_test.segments):
        heartbeat()
        carry = carry if noise is None else shaken(carry, config.train.at_test, noise)
        with autocast(images.device, config.train):
            output, carry = network(images, carry)
    assert output.halt is not None, "the config lets no model without a halting head come here"
    return output.logits.float().argmax(-1).byte(), output.halt.float()


def shaken(carry: Carry, config: AtTest, noise: torch.Generator) -> Carry:
    """Return the states by (1). A network of one state has it noisy whichever is asked for."""
    states = [at for at, state in enumerate(carry) if state.is_floating_point() and state.numel()]
    noisy = {"latent": states[-1:], "answer": states[:1], "both": states}[config.noise_on]
    new = list(carry)
    for at in noisy:
        state = carry[at]
        new[at] = state + config.noise * torch.randn(
            state.shape, generator=noise, device=state.device, dtype=state.dtype
        )
    return tuple(new)


def pass_at(count: int, right: int, trajectories: int) -> float:
    """Return (4): the chance that any of `count` is right that are drawn from so many trajectories, `right`
    of which are.
    """
    return 1 - math.comb(trajectories - right, count) / math.comb(trajectories, count)


def elected(answers_BKS: Tensor, sure_BK: Tensor) -> Tensor:
    """Equation (3), (B, S): of all cells, for nobody knows at test which are asked for."""
    same_BKK = torch.stack([(answers_BKS == one[:, None]).all(-1) for one in answers_BKS.unbind(1)], 1)
    votes_BK = same_BKK.sum(2)
    mean_BK = (same_BKK * sure_BK[:, None]).sum(2) / votes_BK
    most_B = mean_BK.masked_fill(votes_BK < votes_BK.amax(1, keepdim=True), -torch.inf).argmax(1)
    return answers_BKS[torch.arange(len(most_B), device=most_B.device), most_B]


def exact(cells: Tensor, labels: Tensor) -> Tensor:
    """Return whether every cell that is asked for is right."""
    return ((cells == labels) | (labels == 0)).all(1)
