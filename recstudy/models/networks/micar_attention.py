"""Attention of 003: multihead dual-branch latent attention (MDLA), and how an image enters the text by it.

MDLA (section III-D): each head has a branch with positions and one without.

    q = up rms(down x), and so k and v       down: D -> D/H, up: D/H -> L; `fused`: one down, rms and up for several   (1)
    q_h = [q_n; q_r],  k_h = [k_n; k_r]      halves of a head; of q_r and k_r the first `rope_dims` turn by position   (2)
    A_h = softmax((q_n k_n' + q_r k_r') / sqrt(scale))      scale: L/H (published code) or L (paper)                   (3)
    Z = [A_1 v_1; ...; A_H v_H] W_out                                                                                  (4)

Fused, self-attention has one bottleneck of 3 D/H, and cross-attention one for q (text) and one for k and v (image). By (2)
the two products of (3) are one product of whole heads.

Fusion (section III-F, equation 5): cross-attention, and a gate between what it sees and the text.

    I_n = rms(I),  X_n = rms(X)
    A = MDLA(X_n, I_n) + X                                                                    (F1)
    G = W_g [mean(I_n); max(I_n)] + b_g          over the places                              (F2)
    g = sigmoid(MLP([rms(A); X_n]))                                                           (F3)
    F = g rms(A) + (1 - g) X_n                                                                (F4)
    Z = drop(MLP([F; A'; G])) + A                A' = rms(A) (published code) or A (paper)    (F5)

The decoder adds X to Z once more. `attention` has MDLA(X_n, I_n) in place of Z.

Shapes: B sequences or captions, S tokens that ask, K that are seen, T tokens, P places of the image, D width, L latent width,
H heads, E = L/H.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.models.micar import EPS, MicarVLMoE
from recstudy.models.networks.experts import ACTIVATIONS
from recstudy.models.networks.layers import Rotary


class Bottleneck(nn.Module):
    """Equation (1): (B, S, D) -> so many `parts` (B, H, S, E)."""

    def __init__(self, config: MicarVLMoE, parts: int) -> None:
        super().__init__()
        self.parts, self.heads = parts, config.heads
        narrow = parts * config.narrow
        self.down = nn.Linear(config.width, narrow, bias=False)
        self.norm = nn.RMSNorm(narrow, eps=EPS)
        self.up = nn.Linear(narrow, parts * config.latent, bias=False)

    def forward(self, x_BSD: Tensor) -> tuple[Tensor, ...]:
        latent = self.up(self.norm(self.down(x_BSD))).unflatten(-1, (self.parts, self.heads, -1))
        return latent.permute(2, 0, 3, 1, 4).unbind(0)


class MDLA(nn.Module):
    """Equations (1)-(4).

    Args:
        config: sizes and layout.
        rotary: turns `rope_dims` dimensions.
        fused: how many of q, k and v each bottleneck gives, where they are fused.
    """

    def __init__(self, config: MicarVLMoE, rotary: Rotary, *fused: int) -> None:
        super().__init__()
        parts = fused if config.projections == "fused" else (1, 1, 1)
        self.bottlenecks = nn.ModuleList(Bottleneck(config, n) for n in parts)
        self.out = nn.Linear(config.latent, config.width, bias=False)
        self.rotary, self.dropout = rotary, config.attention_dropout
        head = config.latent // config.heads
        self.branches = [head // 2, config.rope_dims, head - head // 2 - config.rope_dims]  # of a head: (2)
        self.scale = 1 / math.sqrt(head if config.scale == "head" else config.latent)

    def whole(self, x_BSD: Tensor, start: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k and v of a sequence that attends to itself, whose first token stands at `start`."""
        q, k, v = (part for bottleneck in self.bottlenecks for part in bottleneck(x_BSD))
        return self.turned(q, start), self.turned(k, start), v

    def asked(self, x_BSD: Tensor, start: int = 0) -> Tensor:
        """Return q of a sequence that attends to another one."""
        return self.turned(self.bottlenecks[0](x_BSD)[0], start)

    def seen(self, x_BKD: Tensor) -> tuple[Tensor, Tensor]:
        """Return k and v of that other one."""
        k, v = (part for bottleneck in list(self.bottlenecks)[1:] for part in bottleneck(x_BKD))
        return self.turned(k), v

    def turned(self, x_BHSE: Tensor, start: int = 0) -> Tensor:
        """Equation (2)."""
        still, turning, rest = x_BHSE.split(self.branches, dim=-1)
        return torch.cat([still, self.rotary(turning, start), rest], dim=-1)

    def forward(self, q_BHSE: Tensor, k_BHKE: Tensor, v_BHKE: Tensor, mask_BSK: Tensor | None = None) -> Tensor:
        """Equations (3)-(4), (B, S, D); with a mask a token sees what is True."""
        mixed_BHSE = F.scaled_dot_product_attention(
            q_BHSE, k_BHKE, v_BHKE,
            attn_mask=None if mask_BSK is None else mask_BSK[:, None],
            dropout_p=self.dropout if self.training else 0.0, scale=self.scale,
        )  # fmt: skip
        return self.out(mixed_BHSE.transpose(1, 2).flatten(2))

    def maps(self, q_BHSE: Tensor, k_BHKE: Tensor, mask_BSK: Tensor | None = None) -> Tensor:
        """Equation (3), (B, H, S, K): what `forward` does not keep."""
        scores_BHSK = self.scale * q_BHSE @ k_BHKE.transpose(-2, -1)
        if mask_BSK is not None:
            scores_BHSK = scores_BHSK.masked_fill(~mask_BSK[:, None], -torch.inf)
        return scores_BHSK.softmax(-1)


class SeenImage(NamedTuple):
    """What a layer keeps of an image, however many tokens follow."""

    keys: Tensor  # (B, H, P, E)
    values: Tensor  # (B, H, P, E)
    context: Tensor  # (B, D) G of equation (F2); (B, 0) without a gate


class Fusion(nn.Module):
    """Equations (F1)-(F5), or cross-attention alone."""

    def __init__(self, config: MicarVLMoE, rotary: Rotary) -> None:
        super().__init__()
        self.norm_image, self.norm_text = (nn.RMSNorm(config.width, eps=EPS) for _ in range(2))
        self.attention = MDLA(config, rotary, 1, 2)
        self.gate = Gate(config) if config.fusion == "gated" else None

    def see(self, image_BPD: Tensor) -> SeenImage:
        i_BPD = self.norm_image(image_BPD)
        context = self.gate.context(i_BPD) if self.gate is not None else i_BPD.new_zeros(len(i_BPD), 0)
        return SeenImage(*self.attention.seen(i_BPD), context)

    def forward(self, x_BTD: Tensor, seen: SeenImage, start: int = 0) -> Tensor:
        """Return what is added to tokens whose first one stands at `start`."""
        x_n = self.norm_text(x_BTD)
        looked_BTD = self.attention(self.attention.asked(x_n, start), seen.keys, seen.values)
        return looked_BTD if self.gate is None else self.gate(looked_BTD + x_BTD, x_n, seen.context)

    def maps(self, x_BTD: Tensor, seen: SeenImage) -> Tensor:
        """Return where in the image each token looks, (B, H, T, P)."""
        return self.attention.maps(self.attention.asked(self.norm_text(x_BTD)), seen.keys)


class Gate(nn.Module):
    """Equations (F2)-(F5), given A and X_n."""

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
        return self.summary(torch.cat([i_BPD.mean(1), i_BPD.amax(1)], dim=-1))  # (F2)

    def forward(self, a_BTD: Tensor, x_n: Tensor, context_BD: Tensor) -> Tensor:
        a_n = self.norm(a_BTD)
        g_BTD = self.opening(torch.cat([a_n, x_n], dim=-1)).sigmoid()  # (F3)
        f_BTD = g_BTD * a_n + (1 - g_BTD) * x_n  # (F4)
        context = context_BD[:, None].expand_as(f_BTD)
        return self.fuse(torch.cat([f_BTD, a_BTD if self.plain else a_n, context], dim=-1)) + a_BTD  # (F5)
