"""Halting by sample (adaptive computation time of HRM, simplified in TRM): a batch is a row of slots.

A slot whose sample has halted takes the sample that the next batch has in its place, with fresh states; the
others go on with theirs, and what the batch had for them is dropped. One supervision step, and one optimiser
step, a batch.

    steps <- steps + 1
    halted = steps >= M  or  (halt > proceed  and  steps >= M_min)                       (1)  TRM: halt > 0
    M_min = U{2, ..., M} with probability e, else 0                                      (2)  exploration
    proceed's target = sigmoid(halt')                      where steps >= M              (3)  the bootstrap of HRM: halt'
                       sigmoid(max(halt', proceed'))       elsewhere                          and proceed' of one step more

Shapes: B slots.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recstudy.config import TrainConfig
from recstudy.data.batches import Batch
from recstudy.models.networks.contract import Carry, Network, Output


@dataclass(frozen=True)
class Slots:
    """The samples in work, their states, how many steps each has had, and which of them are done."""

    batch: Batch
    carry: Carry
    steps: Tensor  # (B,) int64
    halted: Tensor  # (B,) bool


def refilled(slots: Slots | None, batch: Batch, network: Network) -> Slots:
    """Return the slots after those that halted took their sample of `batch`; all of them at the start."""
    fresh = network.start(batch.images, batch.context)
    if slots is None:
        every = torch.ones(len(batch.images), dtype=torch.bool, device=batch.images.device)
        return Slots(batch, fresh, torch.zeros_like(every, dtype=torch.int64), every)

    def take(new: Any, kept: Any) -> Any:
        if not isinstance(new, Tensor) or kept is None:
            return new
        return torch.where(slots.halted.view(-1, *[1] * (new.dim() - 1)), new, kept)

    pairs = zip(batch, slots.batch, strict=True)
    return Slots(
        batch=Batch._make(take(new, kept) for new, kept in pairs),
        carry=tuple(take(new, kept) for new, kept in zip(fresh, slots.carry, strict=True)),
        steps=slots.steps.masked_fill(slots.halted, 0),
        halted=slots.halted,
    )


def halted(output: Output, steps: Tensor, config: TrainConfig, unseen: int = 0) -> Tensor:
    """Return by (1)-(2) which samples halt, (B,). None halts within its first `unseen` steps, before all of
    its image is seen.
    """
    assert output.halt is not None, "the config lets no model without a halting head come here"
    most = config.supervision_steps
    if most == 1:
        return torch.ones_like(steps, dtype=torch.bool)
    sure = output.halt > (0 if output.proceed is None else output.proceed)
    explores = torch.rand(steps.shape, device=steps.device) < config.exploration
    least = torch.randint(2, most + 1, steps.shape, device=steps.device) * explores
    return (steps >= most) | (sure & (steps >= least) & (steps > unseen))


def proceed_target(following: Output, steps: Tensor, most: int) -> Tensor:
    """Return (3), (B,), from the outputs of one step more."""
    assert following.halt is not None
    assert following.proceed is not None
    halt, proceed = following.halt.float(), following.proceed.float()
    return torch.where(steps >= most, halt, torch.maximum(halt, proceed)).sigmoid()
