"""HRM for small images (004): two transformer modules, a fast one and a slow one, over patch tokens.

    x = [CLS; patches W]                                                            (1)
    z_L <- f_L(z_L + z_H + x)      T times                                          (2)
    z_H <- f_H(z_H + z_L)          once; (2)-(3) make one high cycle, N of them a segment    (3)
    layer: s <- RMS(s + Attn(s)),  s <- RMS(s + GEGLU(s)),  RMS with a trained scale         (4)
    logits = W_c z_H[CLS]                                                           (5)

Attention has rotary positions, CLS at 0; nothing else tells a token its place. No layer has a bias. z_L and z_H start
at one fixed truncated-normal tensor each, drawn with the weights and never trained. In the paper's gradient mode
everything before the last L- and the last H-update of a segment runs without gradient.

Initial weights: LeCun truncated normal (standard deviation fan_in^-1/2); CLS standard normal.

Shapes: B images, N patches, S = N + 1 tokens, D width.
"""

import math

import torch
from torch import Tensor, nn

from recstudy.config import Shape
from recstudy.models.hrm_image import HRMImage
from recstudy.models.networks.contract import Carry, Network, Output
from recstudy.models.networks.layers import GEGLU, Attention, Rotary
from recstudy.models.networks.recursion import updating

TRUNCATED = 0.87962566103423978  # standard deviation of a standard normal cut at -2 and 2


class HRMImageNetwork(Network):
    """Equations (1)-(5)."""

    z_low: Tensor
    z_high: Tensor

    def __init__(self, config: HRMImage, shape: Shape, classes: int) -> None:
        super().__init__()
        channels, height, width = shape
        self.config = config
        tokens = (height // config.patch) * (width // config.patch) + 1
        self.patches = nn.PixelUnshuffle(config.patch)
        self.embed = nn.Linear(channels * config.patch**2, config.width, bias=False)
        self.class_token = nn.Parameter(torch.randn(1, 1, config.width))
        rotary = Rotary(tokens, config.width // config.heads)
        self.f_low = nn.Sequential(*(HRMLayer(config, rotary) for _ in range(config.low_layers)))
        self.f_high = nn.Sequential(*(HRMLayer(config, rotary) for _ in range(config.high_layers)))
        self.classify = nn.Linear(config.width, classes, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                truncated_normal(module.weight, 1 / math.sqrt(module.in_features))
        for name in ("z_low", "z_high"):
            self.register_buffer(name, truncated_normal(torch.empty(1, tokens, config.width), TRUNCATED))

    def start(self, images: Tensor) -> Carry:
        """z_H and z_L (B, S, D) before the first segment."""
        return self.z_high.expand(len(images), -1, -1), self.z_low.expand(len(images), -1, -1)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        z_high_BSD, z_low_BSD = carry
        patches_BND = self.embed(self.patches(images).flatten(2).transpose(1, 2))
        x_BSD = torch.cat([self.class_token.expand(len(images), -1, -1), patches_BND], dim=1)  # (1)
        for cycle in range(self.config.high_cycles):
            last = cycle == self.config.high_cycles - 1
            z_high_BSD, z_low_BSD = self.cycle(x_BSD, z_high_BSD, z_low_BSD, last)
        return Output(self.classify(z_high_BSD[:, 0])), (z_high_BSD, z_low_BSD)  # (5)

    def cycle(self, x_BSD: Tensor, z_high_BSD: Tensor, z_low_BSD: Tensor, last: bool) -> Carry:
        steps, mode = self.config.low_cycles, self.config.gradient
        for step in range(steps):
            with updating(mode, last_cycle=last, last_step=step == steps - 1):
                z_low_BSD = self.f_low(z_low_BSD + z_high_BSD + x_BSD)  # (2)
        with updating(mode, last_cycle=last, last_step=True):
            z_high_BSD = self.f_high(z_high_BSD + z_low_BSD)  # (3)
        return z_high_BSD, z_low_BSD


class HRMLayer(nn.Module):
    """Equation (4)."""

    def __init__(self, config: HRMImage, rotary: Rotary) -> None:
        super().__init__()
        self.attention = Attention(config.width, config.heads, qkv_bias=False, out_bias=False, rotary=rotary)
        self.ffn = GEGLU(config.width, config.expansion * config.width, bias=False)
        self.norm1, self.norm2 = nn.RMSNorm(config.width, eps=1e-6), nn.RMSNorm(config.width, eps=1e-6)

    def forward(self, s_BSD: Tensor) -> Tensor:
        s_BSD = self.norm1(s_BSD + self.attention(s_BSD))
        return self.norm2(s_BSD + self.ffn(s_BSD))


def truncated_normal(tensor: Tensor, std: float) -> Tensor:
    """Normal numbers cut at two of their deviations, scaled so that `std` holds after the cut (as JAX does)."""
    return nn.init.trunc_normal_(tensor, std=std / TRUNCATED, a=-2 * std / TRUNCATED, b=2 * std / TRUNCATED)
