"""The recursions of the model families, and the updates that have a gradient.

A supervision step runs `cycles` cycles of `steps` inner updates and one outer update. The gradient modes:

    full_bptt    gradient through every update
    last_cycle   gradient through the updates of the last cycle (TRM)
    one_step     gradient through the last inner and the last outer update (HRM)

An update without gradient keeps no activations, so memory does not grow with the recursion.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from recstudy.recursive.config.parts import GradientMode

Update = Callable[[Tensor], Tensor]
TopDown = Literal["literal", "chain", "full"]


def updating(mode: GradientMode, *, last_cycle: bool, last_step: bool) -> AbstractContextManager[object]:
    """Return the context of one update, with or without gradient."""
    has_gradient = mode == "full_bptt" or (last_cycle and (mode == "last_cycle" or last_step))
    return nullcontext() if has_gradient else torch.no_grad()


class Turn(NamedTuple):
    """One update of a hierarchy of any number of levels."""

    level: int  # 0 is the lowest
    last_cycle: bool  # in the last cycle of the highest level
    last_step: bool  # the last update of its level


def schedule(cycles: Sequence[int]) -> Iterator[Turn]:
    """Yield the updates of one segment in order.

    All cycles of a level run before each update of the next higher level.

    Args:
        cycles: Number of cycles of each level, the lowest level first.
    """
    *lower_cycles, top = cycles
    for cycle in range(top):
        last = cycle == top - 1
        for turn in schedule(lower_cycles) if lower_cycles else ():
            yield Turn(turn.level, last, last and turn.last_step)
        yield Turn(len(lower_cycles), last, last)


def nested(
    updates: Sequence[Update],
    turns: Sequence[Turn],
    x: Tensor,
    states: Sequence[Tensor],
    top_down: TopDown,
    mode: GradientMode,
) -> tuple[Tensor, ...]:
    """Run one segment of a hierarchy with any number of levels and return its states.

    All sequences start with the lowest level.

    z_0 <- f_0(z_0 + TD_0 + x)          (1)
    z_k <- f_k(z_k + TD_k + z_k-1)      for k > 0; in the order of `schedule`    (2)
    TD_k = 0 (`literal`), z_k+1 (`chain`), z_k+1 + z_k+2 + ... (`full`); the highest level has none    (3)

    Two levels with `chain` are HRM: z_L <- f_L(z_L + z_H + x), z_H <- f_H(z_H + z_L).
    """
    z = list(states)
    for level, last_cycle, last_step in turns:
        higher_states = {"literal": [], "chain": z[level + 1 : level + 2], "full": z[level + 1 :]}[top_down]
        with updating(mode, last_cycle=last_cycle, last_step=last_step):
            # The higher states are TD_k of (3); the last input is x of (1) or z_k-1 of (2).
            inputs = [*higher_states, z[level - 1] if level else x]
            z[level] = updates[level](sum(inputs, start=z[level]))  # Eqs. 1 and 2
    return tuple(z)
