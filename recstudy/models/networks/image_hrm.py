"""ImageHRM and ImageTRM (000), recursions over a caption's states.

ImageHRM: one transformer a level, the slower the higher; two or three levels, or any number of them.

    z_L <- f_L(z_L + TD_L + x)      C_L times                                                         (1)
    z_M <- f_M(z_M + TD_M + z_L)    once; (1)-(2) make one middle cycle, C_M of them                  (2)
    z_H <- f_H(z_H + z_M)           once; (1)-(3) make one high cycle, C_H of them a segment          (3)
    TD_L, TD_M = 0, 0               `literal`: Algorithm 1 as printed (contradiction 000-8)           (4)
                 z_M, z_H           `chain`: what its text asks for
                 z_M + z_H, z_H     `full`

Without a middle level (2) is gone and z_H takes z_L in (3), TD_L = z_H: HRM's own loop. States start as HRM's do, each as
one truncated-normal vector, drawn with the weights and never trained. In the paper's gradient mode everything before the
last update of each level runs without gradient.

ImageTRM: one small net, applied again and again to the caption's answer y and its latent z.

    z <- f(z + y + x)     n times                                                  (T1)
    y <- f(y + z)         once; (T1)-(T2) make one cycle, T of them a segment      (T2)

That is ImageHRM's loop of two levels with the same f in both. 000 trains it through every update; TRM's code runs the
first T-1 cycles without gradient (contradiction 000-9).

Shapes: B captions, T tokens, D width.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from recstudy.models.backbone import LONGEST
from recstudy.models.image_hrm import ImageHRM, ImageTRM
from recstudy.models.networks.caption import RecursiveCaptioner, make_stack
from recstudy.models.networks.layers import Past, Rotary, lecun_normal, truncated_normal
from recstudy.models.networks.recursion import hierarchy, nested, schedule


class ImageHRMCore(nn.Module):
    """Equations (1)-(4); levels and states the lowest first."""

    starts: Tensor  # (levels, D)

    def __init__(self, config: ImageHRM) -> None:
        super().__init__()
        self.config = config
        rotary = Rotary(LONGEST, config.width // config.heads)
        self.f = nn.ModuleDict({name: make_stack(config, layers, rotary) for name, (_, layers) in config.levels.items()})
        self.turns = tuple(schedule([cycles for cycles, _ in config.levels.values()]))
        lecun_normal(self)
        self.register_buffer("starts", truncated_normal(torch.empty(len(self.f), config.width), 1.0))

    def start(self, x_BTD: Tensor) -> tuple[Tensor, ...]:
        return tuple(start_D.expand_as(x_BTD) for start_D in self.starts)

    def forward(self, x_BTD: Tensor, states: Sequence[Tensor], past: Past | None = None) -> tuple[Tensor, ...]:
        updates = [partial(f, past=past) for f in self.f.values()]
        return nested(updates, self.turns, x_BTD, states, self.config.top_down, self.config.gradient)  # (1)-(4)


def image_hrm(config: ImageHRM, classes: int) -> RecursiveCaptioner:
    return RecursiveCaptioner(config, classes, ImageHRMCore(config))


class ImageTRMCore(nn.Module):
    """Equations (T1)-(T2); the states are z and y, of which y is read."""

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
        y_BTD, z_BTD = hierarchy(f, f, x_BTD, y_BTD, z_BTD, cycles=c.cycles, steps=c.latent_steps, mode=c.gradient)  # (T1)-(T2)
        return z_BTD, y_BTD


def image_trm(config: ImageTRM, classes: int) -> RecursiveCaptioner:
    return RecursiveCaptioner(config, classes, ImageTRMCore(config))
