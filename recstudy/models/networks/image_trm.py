"""ImageTRM (000): one small net, applied again and again to the caption's answer y and its latent z.

    z <- f(z + y + x)     n times                                                  (1)
    y <- f(y + z)         once; (1)-(2) make one cycle, T of them a segment        (2)

That is ImageHRM's loop of two levels with the same f in both. 000 trains it through every update; TRM's code runs the
first T-1 cycles without gradient (contradiction 000-9).

Shapes: B captions, T tokens, D width.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from recstudy.models.backbone import LONGEST
from recstudy.models.image_trm import ImageTRM
from recstudy.models.networks.caption import RecursiveCaptioner, make_stack
from recstudy.models.networks.layers import Past, Rotary, lecun_normal, truncated_normal
from recstudy.models.networks.recursion import hierarchy


class ImageTRMCore(nn.Module):
    """Equations (1)-(2); the states are z and y, of which y is read."""

    starts: Tensor  # (2, D)

    def __init__(self, config: ImageTRM) -> None:
        super().__init__()
        self.config = config
        self.f = make_stack(config, config.layers, Rotary(LONGEST, config.width // config.heads))
        lecun_normal(self)
        self.register_buffer("starts", truncated_normal(torch.empty(2, config.width), 1.0))

    def start(self, x_BTD: Tensor) -> tuple[Tensor, ...]:
        return tuple(start_D.expand_as(x_BTD) for start_D in self.starts)

    def forward(self, x_BTD: Tensor, states: Sequence[Tensor], past: Past | None = None) -> tuple[Tensor, Tensor]:
        z_BTD, y_BTD = states
        c, f = self.config, partial(self.f, past=past)
        y_BTD, z_BTD = hierarchy(f, f, x_BTD, y_BTD, z_BTD, cycles=c.cycles, steps=c.latent_steps, mode=c.gradient)  # (1)-(2)
        return z_BTD, y_BTD


def image_trm(config: ImageTRM, classes: int) -> RecursiveCaptioner:
    return RecursiveCaptioner(config, classes, ImageTRMCore(config))
