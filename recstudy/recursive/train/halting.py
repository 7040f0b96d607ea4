"""Halt each sample on its own (adaptive computation time of HRM, simplified in TRM).

A batch is a row of slots. If the sample of a slot has halted, the slot takes the sample at its position in
the next batch, with new states. The other slots continue with their samples, and the new samples at their
positions are dropped. Each batch has one supervision step and one optimiser step.

    steps <- steps + 1
    halted = steps >= M  or  (halt > proceed  and  steps >= M_min)                       (1)  TRM: halt > 0
    M_min = U{2, ..., M} with probability e, else 0                                      (2)  exploration
    proceed's target = sigmoid(halt')                      where steps >= M              (3)
                       sigmoid(max(halt', proceed'))       elsewhere

(3) is the bootstrap of HRM, where halt' and proceed' are those of one step more.

Shapes: B slots.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recstudy.recursive.config.train import TrainConfig
from recstudy.recursive.data.batches import Batch
from recstudy.recursive.models.networks.contract import Carry, Network, Output


@dataclass(frozen=True)
class Slots:
    """The current samples, their states, their numbers of steps, and which of them have halted."""

    batch: Batch
    carry: Carry
    steps: Tensor  # (B,) int64
    halted: Tensor  # (B,) bool


def refill_slots(slots: Slots | None, batch: Batch, network: Network) -> Slots:
    """Return the slots after the halted ones took their sample of a batch.

    Args:
        slots: The slots so far; None at the start, where every slot takes its sample.
        batch: The next batch.
        network: The network, which gives the initial states.
    """
    initial_states = network.start(batch.images, batch.context)
    if slots is None:
        all_slots = torch.ones(len(batch.images), dtype=torch.bool, device=batch.images.device)
        return Slots(batch, initial_states, torch.zeros_like(all_slots, dtype=torch.int64), all_slots)

    def take(new: Any, current: Any) -> Any:
        if not isinstance(new, Tensor) or current is None:
            return new
        return torch.where(slots.halted.view(-1, *[1] * (new.dim() - 1)), new, current)

    pairs = zip(batch, slots.batch, strict=True)
    return Slots(
        batch=Batch._make(take(new, current) for new, current in pairs),
        carry=tuple(take(new, current) for new, current in zip(initial_states, slots.carry, strict=True)),
        steps=slots.steps.masked_fill(slots.halted, 0),
        halted=slots.halted,
    )


def find_halted(output: Output, steps: Tensor, config: TrainConfig, unseen: int = 0) -> Tensor:
    """Return which samples halt, by Eqs. 1 and 2, (B,) bool.

    Args:
        output: The network's output.
        steps: Supervision steps of each sample so far (B,).
        config: The settings of training.
        unseen: Number of first steps in which no sample halts, because the network has not seen all of its
            image.
    """
    assert output.halt is not None, "RunConfig refuses halting 'sample' for a model without a halting head"
    max_steps = config.supervision_steps
    if max_steps == 1:
        return torch.ones_like(steps, dtype=torch.bool)
    wants_to_halt = output.halt > (0 if output.proceed is None else output.proceed)  # Eq. 1; TRM: halt > 0
    # Eq. 2: with probability e a sample makes at least M_min steps.
    explores = torch.rand(steps.shape, device=steps.device) < config.exploration
    min_steps = torch.randint(2, max_steps + 1, steps.shape, device=steps.device) * explores
    return (steps >= max_steps) | (wants_to_halt & (steps >= min_steps) & (steps > unseen))


def proceed_target(following: Output, steps: Tensor, max_steps: int) -> Tensor:
    """Return the target of `proceed`, Eq. 3, (B,).

    Args:
        following: The network's output after one more step.
        steps: Supervision steps of each sample so far (B,).
        max_steps: M, the maximum number of supervision steps.
    """
    assert following.halt is not None
    assert following.proceed is not None
    halt, proceed = following.halt.float(), following.proceed.float()
    # At the last step, only halting is left.
    return torch.where(steps >= max_steps, halt, torch.maximum(halt, proceed)).sigmoid()
