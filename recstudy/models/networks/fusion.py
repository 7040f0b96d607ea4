"""How an image enters the text in 003 (section III-F, equation 5): cross-attention, and a gate between what it sees and the text.

    I_n = rms(I),  X_n = rms(X)
    A = MDLA(X_n, I_n) + X                                                                    (1)
    G = W_g [mean(I_n); max(I_n)] + b_g          over the places                              (2)
    g = sigmoid(MLP([rms(A); X_n]))                                                           (3)
    F = g rms(A) + (1 - g) X_n                                                                (4)
    Z = drop(MLP([F; A'; G])) + A                A' = rms(A) (published code) or A (paper)    (5)

The decoder adds X to Z once more. `attention` has MDLA(X_n, I_n) in place of Z.

Shapes: B captions, T tokens, P places of the image, D width, H heads, E width of a head.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from recstudy.models.micar import EPS, MicarVLMoE
from recstudy.models.networks.experts import ACTIVATIONS
from recstudy.models.networks.layers import Rotary
from recstudy.models.networks.mdla import MDLA


class Seen(NamedTuple):
    """What a layer keeps of an image, however many tokens follow."""

    keys: Tensor  # (B, H, P, E)
    values: Tensor  # (B, H, P, E)
    context: Tensor  # (B, D) G of equation (2); (B, 0) without a gate


class Fusion(nn.Module):
    """Equations (1)-(5), or cross-attention alone."""

    def __init__(self, config: MicarVLMoE, rotary: Rotary) -> None:
        super().__init__()
        self.norm_image, self.norm_text = (nn.RMSNorm(config.width, eps=EPS) for _ in range(2))
        self.attention = MDLA(config, rotary, 1, 2)
        self.gate = Gate(config) if config.fusion == "gated" else None

    def see(self, image_BPD: Tensor) -> Seen:
        i_BPD = self.norm_image(image_BPD)
        context = self.gate.context(i_BPD) if self.gate is not None else i_BPD.new_zeros(len(i_BPD), 0)
        return Seen(*self.attention.seen(i_BPD), context)

    def forward(self, x_BTD: Tensor, seen: Seen, start: int = 0) -> Tensor:
        """What is added to tokens whose first one stands at `start`."""
        x_n = self.norm_text(x_BTD)
        looked_BTD = self.attention(self.attention.asked(x_n, start), seen.keys, seen.values)
        return looked_BTD if self.gate is None else self.gate(looked_BTD + x_BTD, x_n, seen.context)

    def maps(self, x_BTD: Tensor, seen: Seen) -> Tensor:
        """Where in the image each token looks, (B, H, T, P)."""
        return self.attention.maps(self.attention.asked(self.norm_text(x_BTD)), seen.keys)


class Gate(nn.Module):
    """Equations (2)-(5), given A and X_n."""

    def __init__(self, config: MicarVLMoE) -> None:
        super().__init__()
        d, activation = config.width, ACTIVATIONS[config.activation]
        self.plain = config.fusion_reads == "plain"
        self.norm = nn.RMSNorm(d, eps=EPS)
        self.summary = nn.Linear(2 * d, d)
        self.opening = nn.Sequential(nn.Linear(2 * d, d), activation(), nn.Linear(d, d))
        first, last = (nn.Dropout(config.dropout) for _ in range(2))
        self.fuse = nn.Sequential(nn.Linear(3 * d, d), activation(), first, nn.Linear(d, d), last)

    def context(self, i_BPD: Tensor) -> Tensor:
        return self.summary(torch.cat([i_BPD.mean(1), i_BPD.amax(1)], dim=-1))  # (2)

    def forward(self, a_BTD: Tensor, x_n: Tensor, context_BD: Tensor) -> Tensor:
        a_n = self.norm(a_BTD)
        g_BTD = self.opening(torch.cat([a_n, x_n], dim=-1)).sigmoid()  # (3)
        f_BTD = g_BTD * a_n + (1 - g_BTD) * x_n  # (4)
        context = context_BD[:, None].expand_as(f_BTD)
        return self.fuse(torch.cat([f_BTD, a_BTD if self.plain else a_n, context], dim=-1)) + a_BTD  # (5)
