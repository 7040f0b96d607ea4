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
from recstudy.models.networks.layers import Attention, PostNorm, Rotary, SwiGLU, lecun_normal, truncated_normal
from recstudy.models.networks.recursion import hierarchy
from recstudy.models.sequence import SequenceModel


class HRMCore(nn.Module):
    """Equations (1)-(3)."""

    z_high: Tensor
    z_low: Tensor

    def __init__(self, config: HRM, length: int) -> None:
        super().__init__()
        self.config = config
        rotary = Rotary(length, config.width // config.heads) if config.positions == "rotary" else None
        self.f_high = nn.Sequential(*(make_layer(config, rotary) for _ in range(config.high_layers)))
        self.f_low = nn.Sequential(*(make_layer(config, rotary) for _ in range(config.low_layers)))
        lecun_normal(self)
        for name in ("z_high", "z_low"):
            self.register_buffer(name, truncated_normal(torch.empty(config.width), 1.0))

    def forward(self, x_BSD: Tensor, z_high_BSD: Tensor, z_low_BSD: Tensor) -> tuple[Tensor, Tensor]:
        c = self.config
        return hierarchy(
            self.f_low, self.f_high, x_BSD, z_high_BSD, z_low_BSD, cycles=c.high_cycles, steps=c.low_cycles, mode=c.gradient
        )  # (1)-(2)


def make_layer(config: SequenceModel, rotary: Rotary | None) -> PostNorm:
    """Equation (3)."""
    attention = Attention(config.width, config.heads, qkv_bias=False, out_bias=False, rotary=rotary)
    ffn = SwiGLU(config.width, config.hidden_width, bias=False)
    return PostNorm(attention, ffn, config.width, eps=1e-5, scale=False)
