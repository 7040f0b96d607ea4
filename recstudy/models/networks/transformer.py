"""A plain transformer in the place of a recursion.

    z_H <- f(z_H + x)    once a segment, f of L post-norm layers of HRM (`hrm.py`, equation 3), each with its own weights    (1)

There is no second state. z_H starts at one truncated-normal vector, the same at every position, which is never trained.

Shapes: B sequences, S tokens, D width.
"""

import torch
from torch import Tensor, nn

from recstudy.models.networks.layers import lecun_normal, truncated_normal
from recstudy.models.networks.mixing import make_layers
from recstudy.models.transformer import Transformer


class TransformerCore(nn.Module):
    """Equation (1)."""

    z_high: Tensor
    z_low: Tensor

    def __init__(self, config: Transformer, length: int) -> None:
        super().__init__()
        self.f = make_layers(config, length, config.layers)
        lecun_normal(self)
        self.register_buffer("z_high", truncated_normal(torch.empty(config.width), 1.0))
        self.register_buffer("z_low", torch.empty(0))

    def forward(self, x_BSD: Tensor, z_high_BSD: Tensor, z_low_BSD: Tensor) -> tuple[Tensor, Tensor]:
        return self.f(z_high_BSD + x_BSD), z_low_BSD
