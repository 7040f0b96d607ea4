"""Which updates of a recursion carry gradient.

A supervision step runs `cycles` cycles of `steps` inner updates and one outer update. The gradient modes:

    full_bptt    through every update
    last_cycle   through the last cycle's updates (TRM)
    one_step     through the last inner and the last outer update (HRM)

Without gradient an update keeps no activations, so that memory does not grow with the recursion.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch

GradientMode = Literal["full_bptt", "last_cycle", "one_step"]


def updating(mode: GradientMode, *, last_cycle: bool, last_step: bool) -> AbstractContextManager[object]:
    """The context in which to run one update: with gradient where the mode wants it."""
    wanted = mode == "full_bptt" or (last_cycle and (mode == "last_cycle" or last_step))
    return nullcontext() if wanted else torch.no_grad()
