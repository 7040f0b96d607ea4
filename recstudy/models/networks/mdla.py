"""Multihead dual-branch latent attention, MDLA (003, section III-D): each head has a branch with positions and one without.

    q = up rms(down x), and so k and v       down: D -> D/H, up: D/H -> L; `fused`: one down, rms and up for several   (1)
    q_h = [q_n; q_r],  k_h = [k_n; k_r]      halves of a head; of q_r and k_r the first `rope_dims` turn by position   (2)
    A_h = softmax((q_n k_n' + q_r k_r') / sqrt(scale))      scale: L/H (published code) or L (paper)                   (3)
    Z = [A_1 v_1; ...; A_H v_H] W_out                                                                                  (4)

Fused, self-attention has one bottleneck of 3 D/H, and cross-attention one for q (text) and one for k and v (image). By (2)
the two products of (3) are one product of whole heads.

Shapes: B sequences, S tokens that ask, K that are seen, D width, L latent width, H heads, E = L/H.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.models.micar import EPS, MicarVLMoE
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
        """q, k and v of a sequence that attends to itself, whose first token stands at `start`."""
        q, k, v = (part for bottleneck in self.bottlenecks for part in bottleneck(x_BSD))
        return self.turned(q, start), self.turned(k, start), v

    def asked(self, x_BSD: Tensor, start: int = 0) -> Tensor:
        """q of a sequence that attends to another one."""
        return self.turned(self.bottlenecks[0](x_BSD)[0], start)

    def seen(self, x_BKD: Tensor) -> tuple[Tensor, Tensor]:
        """k and v of that other one."""
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
