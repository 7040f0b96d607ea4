"""HRM for small images (HRM-Small-Images): the recursion of `hrm.py`, Eqs. 1 and 2, over patch tokens.

    x = [CLS; patches W]                                                                           (I1)
    layer: s <- RMS(s + Attn(s)),  s <- RMS(s + GEGLU(s)),  RMS with a trained scale               (I2)
    logits = W_c z_H[CLS]                                                                          (I3)

The attention has rotary positions, with CLS at 0, and there are no other position encodings. z_L and z_H each
start at one fixed tensor. Initial weights: LeCun truncated normal (standard deviation fan_in^-1/2); CLS is
standard normal.

Shapes: B images, N patches, S = N + 1 tokens, D width.
"""

import torch
from torch import Tensor, nn

from recstudy.recursive.config.parts import Shape
from recstudy.recursive.models.hrm_image import HRMImage
from recstudy.recursive.models.networks.contract import Carry, Network, Output
from recstudy.recursive.models.networks.layers import (
    GEGLU,
    TRUNCATED,
    Rotary,
    Stack,
    flat_patches,
    lecun_normal,
    prepend,
    truncated_normal,
)
from recstudy.recursive.models.networks.recursion import nested, schedule


class HRMImageNetwork(Network):
    """HRM for small images: Eqs. 1 and 2 of HRM, and Eqs. I1 to I3."""

    z_low: Tensor
    z_high: Tensor

    def __init__(self, config: HRMImage, shape: Shape, classes: int) -> None:
        super().__init__()
        channels, height, width = shape
        self.config = config
        tokens = (height // config.patch) * (width // config.patch) + 1
        self.embed = nn.Linear(channels * config.patch**2, config.width, bias=False)
        self.class_token = nn.Parameter(torch.randn(1, 1, config.width))
        rotary = Rotary(tokens, config.width // config.heads)
        sizes = config.width, config.heads, config.expansion * config.width
        self.f_low, self.f_high = (
            Stack(layers, *sizes, rotary, GEGLU, eps=1e-6, scale=True)  # Eq. I2
            for layers in (config.low_layers, config.high_layers)
        )
        self.turns = tuple(schedule([config.low_cycles, config.high_cycles]))
        self.classify = nn.Linear(config.width, classes, bias=False)
        lecun_normal(self)
        for name in ("z_low", "z_high"):
            self.register_buffer(name, truncated_normal(torch.empty(1, tokens, config.width), TRUNCATED))

    def start(self, images: Tensor, groups: Tensor | None = None) -> Carry:
        """Return z_H and z_L (B, S, D) before the first segment."""
        return self.z_high.expand(len(images), -1, -1), self.z_low.expand(len(images), -1, -1)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        z_high_BSD, z_low_BSD = carry
        patches_BND = self.embed(flat_patches(images, self.config.patch))
        x_BSD = prepend(self.class_token, patches_BND)  # Eq. I1
        updates, states = (self.f_low, self.f_high), (z_low_BSD, z_high_BSD)
        # Eqs. 1 and 2 of `hrm.py`
        z_low_BSD, z_high_BSD = nested(updates, self.turns, x_BSD, states, "chain", self.config.gradient)
        return Output(self.classify(z_high_BSD[:, 0])), (z_high_BSD, z_low_BSD)  # Eq. I3
