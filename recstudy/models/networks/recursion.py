"""The recursions that families share, and which of their updates carry gradient.

A supervision step runs `cycles` cycles of `steps` inner updates and one outer update. The gradient modes:

    full_bptt    through every update
    last_cycle   through the last cycle's updates (TRM)
    one_step     through the last inner and the last outer update (HRM)

Without gradient an update keeps no activations, so that memory does not grow with the recursion.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor

Update = Callable[[Tensor], Tensor]
GradientMode = Literal["full_bptt", "last_cycle", "one_step"]


def updating(mode: GradientMode, *, last_cycle: bool, last_step: bool) -> AbstractContextManager[object]:
    """The context in which to run one update: with gradient where the mode wants it."""
    wanted = mode == "full_bptt" or (last_cycle and (mode == "last_cycle" or last_step))
    return nullcontext() if wanted else torch.no_grad()


def hierarchy(
    f_low: Update, f_high: Update, x: Tensor, z_high: Tensor, z_low: Tensor, *, cycles: int, steps: int, mode: GradientMode
) -> tuple[Tensor, Tensor]:
    """One segment of a hierarchical reasoning model, z_H and z_L after it.

    z_L <- f_L(z_L + z_H + x)    `steps` times    (1)
    z_H <- f_H(z_H + z_L)        once; (1)-(2) make one cycle, `cycles` of them a segment    (2)
    """
    for cycle in range(cycles):
        last = cycle == cycles - 1
        for step in range(steps):
            with updating(mode, last_cycle=last, last_step=step == steps - 1):
                z_low = f_low(z_low + z_high + x)  # (1)
        with updating(mode, last_cycle=last, last_step=True):
            z_high = f_high(z_high + z_low)  # (2)
    return z_high, z_low
