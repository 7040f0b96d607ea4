"""The hierarchical reasoning model (HRM v1): two transformers, a fast one and a slow one.

    z_L <- f_L(z_L + z_H + x)     T times                                                     (1)
    z_H <- f_H(z_H + z_L)         once; (1)-(2) make one high cycle, N of them a segment      (2)
    layer: s <- rms(s + Attn(s)),  s <- rms(s + SwiGLU(s)),  rms(s) = s / sqrt(mean(s^2) + 1e-5)    (3)

No layer has a bias, no norm a scale, and there is no norm at the end. z_H and z_L start at one truncated-normal vector
each, the same at every position, drawn with the weights and never trained. In the paper's gradient mode everything
before the last L- and the last H-update of a segment runs without gradient.

Shapes: B sequences, S tokens, D width.
"""

import torch
from torch import Tensor, nn

from recstudy.models.hrm import HRM
from recstudy.models.networks.layers import lecun_normal, truncated_normal
from recstudy.models.networks.recursion import hierarchy
from recstudy.models.networks.sequence import make_layers


class HRMCore(nn.Module):
    """Equations (1)-(3)."""

    z_high: Tensor
    z_low: Tensor

    def __init__(self, config: HRM, length: int) -> None:
        super().__init__()
        self.config = config
        self.f_high = make_layers(config, length, config.high_layers)
        self.f_low = make_layers(config, length, config.low_layers)
        lecun_normal(self)
        for name in ("z_high", "z_low"):
            self.register_buffer(name, truncated_normal(torch.empty(config.width), 1.0))

    def forward(self, x_BSD: Tensor, z_high_BSD: Tensor, z_low_BSD: Tensor) -> tuple[Tensor, Tensor]:
        c = self.config
        return hierarchy(
            self.f_low, self.f_high, x_BSD, z_high_BSD, z_low_BSD, cycles=c.high_cycles, steps=c.low_cycles, mode=c.gradient
        )  # (1)-(2)
