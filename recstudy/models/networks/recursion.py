"""The recursions that families share, and which of their updates carry gradient.

A supervision step runs `cycles` cycles of `steps` inner updates and one outer update. The gradient modes:

    full_bptt    through every update
    last_cycle   through the last cycle's updates (TRM)
    one_step     through the last inner and the last outer update (HRM)

Without gradient an update keeps no activations, so that memory does not grow with the recursion.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Update = Callable[[Tensor], Tensor]
GradientMode = Literal["full_bptt", "last_cycle", "one_step"]
TopDown = Literal["literal", "chain", "full"]


def updating(mode: GradientMode, *, last_cycle: bool, last_step: bool) -> AbstractContextManager[object]:
    """Return the context in which to run one update: with gradient where the mode wants it."""
    wanted = mode == "full_bptt" or (last_cycle and (mode == "last_cycle" or last_step))
    return nullcontext() if wanted else torch.no_grad()


class Turn(NamedTuple):
    """One update of a hierarchy of any number of levels."""

    level: int  # 0 is the lowest
    last_cycle: bool  # in the last cycle of the highest level
    last_step: bool  # the last update of its level


def schedule(cycles: Sequence[int]) -> Iterator[Turn]:
    """Yield the updates of one segment in their order: all cycles of a level come before each update of the
    next higher one.

    Args:
        cycles: of each level, the lowest first.
    """
    *below, top = cycles
    for cycle in range(top):
        last = cycle == top - 1
        for turn in schedule(below) if below else ():
            yield Turn(turn.level, last, last and turn.last_step)
        yield Turn(len(below), last, last)


def nested(
    updates: Sequence[Update],
    turns: Sequence[Turn],
    x: Tensor,
    states: Sequence[Tensor],
    top_down: TopDown,
    mode: GradientMode,
) -> tuple[Tensor, ...]:
    """Run one segment of a reasoning model of any number of levels and return its states; everything the
    lowest level first.

    z_0 <- f_0(z_0 + TD_0 + x)          (1)
    z_k <- f_k(z_k + TD_k + z_k-1)      for k > 0; in the order of `schedule`    (2)
    TD_k = 0 (`literal`), z_k+1 (`chain`), z_k+1 + z_k+2 + ... (`full`); the highest level has none    (3)

    Two levels with `chain` are HRM: z_L <- f_L(z_L + z_H + x), z_H <- f_H(z_H + z_L).
    """
    z = list(states)
    for level, last_cycle, last_step in turns:
        above = {"literal": [], "chain": z[level + 1 : level + 2], "full": z[level + 1 :]}[top_down]
        with updating(mode, last_cycle=last_cycle, last_step=last_step):
            z[level] = updates[level](sum([*above, z[level - 1] if level else x], start=z[level]))  # (1)-(3)
    return tuple(z)
