"""Transformer layers shared by the families.

A layer may be told which of its tokens will be read: it then computes queries and the feed-forward network
for those alone. Attention mixes tokens only through keys and values, so the tokens that are read come out the
same.

Where attention is causal, nothing at a token depends on later ones: keys and values that were computed once
hold for every longer sequence, and one more token costs one token (`Past`), however often a recursion goes
over the sequence.

Shapes: B images, S tokens, R tokens that are read, D width, H heads, E width of a head, M hidden width.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ALL = slice(None)
TRUNCATED = 0.87962566103423978  # standard deviation of a standard normal cut at -2 and 2


class Rotary(nn.Module):
    """Rotary position embedding (RoPE): query and key pairs turn by position x theta^(-2i/E), theta = 10,000.

    The pairs are the two halves of a head, (i, i + E/2). Positions 0 to S-1 are those of the tokens.
    """

    cos: Tensor  # (S, E)
    sin: Tensor

    def __init__(self, positions: int, head_width: int, theta: float = 10_000.0) -> None:
        super().__init__()
        rates_F = theta ** (-torch.arange(0, head_width, 2, dtype=torch.float32) / head_width)
        angles_SE = torch.outer(torch.arange(positions, dtype=torch.float32), rates_F).repeat(1, 2)
        self.register_buffer("cos", angles_SE.cos(), persistent=False)
        self.register_buffer("sin", angles_SE.sin(), persistent=False)

    def forward(self, x_BHSE: Tensor, start: int = 0) -> Tensor:
        """Turn the S tokens of a sequence from its place `start` on."""
        places = slice(start, start + x_BHSE.shape[2])
        first, second = x_BHSE.chunk(2, dim=-1)
        turned_BHSE = torch.cat([-second, first], dim=-1)
        return x_BHSE * self.cos[places].to(x_BHSE.dtype) + turned_BHSE * self.sin[places].to(x_BHSE.dtype)


class Past:
    """Keys and values (B, H, S, E) of the tokens before, for each attention call of a pass, in the order of
    the calls.

    A pass makes the same calls whatever its length. It finds in `kept` what the pass before it left in `now`,
    adds its own token's, and leaves all of them in `now`. With nothing kept, any number of tokens may come;
    afterwards one a pass.
    """

    def __init__(self, kept: tuple[Tensor, ...] = ()) -> None:
        self.kept = kept
        self.now: list[Tensor] = []  # keys of call 0, values of call 0, keys of call 1, ...

    @property
    def length(self) -> int:
        """Tokens before this pass's."""
        return self.kept[0].shape[2] if self.kept else 0

    def extend(self, k_BHSE: Tensor, v_BHSE: Tensor) -> tuple[Tensor, Tensor]:
        """Return the next call's keys and values of all tokens, from those of the new ones."""
        if self.kept:
            old_k, old_v = self.kept[len(self.now) : len(self.now) + 2]
            k_BHSE, v_BHSE = torch.cat([old_k, k_BHSE], dim=2), torch.cat([old_v, v_BHSE], dim=2)
        self.now += [k_BHSE, v_BHSE]
        return k_BHSE, v_BHSE


def by_head(x_BSD: Tensor, heads: int) -> Tensor:
    """Return (B, H, S, E): the parts of each token's numbers, head by head."""
    return x_BSD.unflatten(-1, (heads, -1)).transpose(1, 2)


class Attention(nn.Module):
    """Multi-head self-attention. With the default biases it has the parameters of
    `torch.nn.MultiheadAttention`.

    With `causal` a token sees itself and those before it. A head has `width // heads` dimensions: 12 of 512
    have 504 in all.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.0,
        qkv_bias: bool = True,
        out_bias: bool = True,
        rotary: Rotary | None = None,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.heads, self.dropout, self.causal = heads, dropout, causal
        inner = width // heads * heads
        self.qkv = nn.Linear(width, 3 * inner, bias=qkv_bias)
        self.out = nn.Linear(inner, width, bias=out_bias)
        self.rotary = rotary  # needs all tokens to be read: a token's position is its place in the sequence

    def init_as_torch(self) -> None:
        """Draw the initial weights of `torch.nn.MultiheadAttention`."""
        nn.init.xavier_uniform_(self.qkv.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.out.bias)

    def forward(self, x_BSD: Tensor, read: slice = ALL, past: Past | None = None) -> Tensor:
        q_BHRE, k_BHSE, v_BHSE = (by_head(part, self.heads) for part in self._project(x_BSD, read))
        if self.rotary is not None:
            start = 0 if past is None else past.length
            q_BHRE, k_BHSE = self.rotary(q_BHRE, start), self.rotary(k_BHSE, start)
        if past is not None:
            k_BHSE, v_BHSE = past.extend(k_BHSE, v_BHSE)
        dropout = self.dropout if self.training else 0.0
        # one token sees all there are: itself and those before it
        causal = self.causal and q_BHRE.shape[2] > 1
        mixed_BHRE = F.scaled_dot_product_attention(
            q_BHRE, k_BHSE, v_BHSE, dropout_p=dropout, is_causal=causal
        )
        return self.out(mixed_BHRE.transpose(1, 2).flatten(2))

    def _project(self, x_BSD: Tensor, read: slice) -> tuple[Tensor, ...]:
        if read == ALL:
            return self.qkv(x_BSD).chunk(3, dim=-1)
        parts = [self.out.in_features, 2 * self.out.in_features]
        w_q, w_kv = self.qkv.weight.split(parts)
        b_q, b_kv = self.qkv.bias.split(parts) if self.qkv.bias is not None else (None, None)
        return F.linear(x_BSD[:, read], w_q, b_q), *F.linear(x_BSD, w_kv, b_kv).chunk(2, dim=-1)


class SwiGLU(nn.Module):
    """down(u * silu(g)) with (u, g) = up(x): D -> 2M -> D."""

    def __init__(self, width: int, hidden: int, bias: bool = True) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)

    def gate(self, g_BSM: Tensor) -> Tensor:
        return F.silu(g_BSM)

    def forward(self, x_BSD: Tensor) -> Tensor:
        u_BSM, g_BSM = self.up(x_BSD).chunk(2, dim=-1)
        return self.down(u_BSM * self.gate(g_BSM))


class GEGLU(SwiGLU):
    """down(u * gelu(g)), with the tanh form of GELU."""

    def gate(self, g_BSM: Tensor) -> Tensor:
        return F.gelu(g_BSM, approximate="tanh")


class GeluMLP(nn.Module):
    """down(gelu(up(x))): D -> M -> D, with biases; `dropout` follows the activation."""

    def __init__(self, width: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BSD: Tensor) -> Tensor:
        return self.down(self.dropout(F.gelu(self.up(x_BSD))))


class TransformerLayer(nn.Module):
    """Attention and feed-forward network, each with a residual branch and a layer norm before or after it."""

    def __init__(
        self, attention: Attention, ffn: nn.Module, width: int, norm: Literal["pre", "post"], dropout: float
    ) -> None:
        super().__init__()
        self.attention, self.ffn, self.pre = attention, ffn, norm == "pre"
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BSD: Tensor, read: slice = ALL) -> Tensor:
        kept_BRD = x_BSD if read == ALL else x_BSD[:, read]
        if self.pre:
            x_BRD = kept_BRD + self.dropout(self.attention(self.norm1(x_BSD), read))
            return x_BRD + self.dropout(self.ffn(self.norm2(x_BRD)))
        x_BRD = self.norm1(kept_BRD + self.dropout(self.attention(x_BSD, read)))
        return self.norm2(x_BRD + self.dropout(self.ffn(x_BRD)))


class RMSNorm(nn.RMSNorm):
    """x / sqrt(mean(x^2) + eps), times a trained scale or not; on a CPU without torch's own (2.14), which
    takes twice as long.
    """

    def forward(self, x: Tensor) -> Tensor:
        if not (x.is_cpu and x.dtype == torch.float32):
            return super().forward(x)
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + (self.eps or torch.finfo(x.dtype).eps))
        return normed if self.weight is None else normed * self.weight


class PostNorm(nn.Module):
    """s <- RMS(s + mix(s)), s <- RMS(s + ffn(s)): the layer of HRM and TRM. RMS has a trained scale or
    none.
    """

    def __init__(self, mix: nn.Module, ffn: nn.Module, width: int, eps: float, scale: bool) -> None:
        super().__init__()
        self.mix, self.ffn = mix, ffn
        self.norm1, self.norm2 = (RMSNorm(width, eps=eps, elementwise_affine=scale) for _ in range(2))

    def forward(self, s_BSD: Tensor, past: Past | None = None) -> Tensor:
        s_BSD = self.norm1(s_BSD + (self.mix(s_BSD) if past is None else self.mix(s_BSD, past=past)))
        return self.norm2(s_BSD + self.ffn(s_BSD))


class Stack(nn.ModuleList):
    """Post-norm layers one after the other, each told of the tokens before."""

    def forward(self, s_BSD: Tensor, past: Past | None = None) -> Tensor:
        for layer in self:
            s_BSD = layer(s_BSD, past)
        return s_BSD


class Block(nn.Module):
    """A stack of layers; the last one computes only the tokens that are read."""

    skip_unread = True  # False: every token of every layer, which is how the papers count FLOPs

    def __init__(self, layers: list[TransformerLayer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x_BSD: Tensor, read: slice = ALL) -> Tensor:
        *below, last = self.layers
        for layer in below:
            x_BSD = layer(x_BSD)
        if self.skip_unread:
            return last(x_BSD, read)
        return last(x_BSD)[:, read]


class ClipLayer(nn.Module):
    """The layer of CLIP, which FuseLIP and TiTok are made of: s <- s + Attn(LN(s)), s <- s + MLP(LN(s)), with
    biases.

    It takes a mask, and goes on from the keys and values of the tokens before where those cannot change.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ffn = GeluMLP(width, 4 * width)

    def forward(self, x_BSD: Tensor, mask: Tensor | None = None, past: Past | None = None) -> Tensor:
        """`mask` is True where a token (row) sees another (column); without one all see all."""
        q_BHSE, k_BHSE, v_BHSE = (
            by_head(part, self.heads) for part in self.qkv(self.norm1(x_BSD)).chunk(3, dim=-1)
        )
        if past is not None:
            k_BHSE, v_BHSE = past.extend(k_BHSE, v_BHSE)
        mixed_BHSE = F.scaled_dot_product_attention(q_BHSE, k_BHSE, v_BHSE, attn_mask=mask)
        x_BSD = x_BSD + self.out(mixed_BHSE.transpose(1, 2).flatten(2))
        return x_BSD + self.ffn(self.norm2(x_BSD))


def init_as_clip(layers: nn.ModuleList | nn.Sequential) -> None:
    """Draw CLIP's initial weights: smaller where a branch ends, by the depth. The MLPs' biases stay
    torch's.
    """
    for layer in layers:
        assert isinstance(layer, ClipLayer)
        width = layer.out.in_features
        branch = width**-0.5 * (2 * len(layers)) ** -0.5
        for linear, deviation in ((layer.qkv, width**-0.5), (layer.out, branch)):
            nn.init.normal_(linear.weight, std=deviation)
            nn.init.zeros_(linear.bias)
        nn.init.normal_(layer.ffn.up.weight, std=(2 * width) ** -0.5)
        nn.init.normal_(layer.ffn.down.weight, std=branch)


class PatchEmbedding(nn.Module):
    """Square patches, linearly projected: (B, C, height, width) -> (B, N, D)."""

    def __init__(self, channels: int, patch: int, width: int) -> None:
        super().__init__()
        self.project = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)

    def forward(self, images: Tensor) -> Tensor:
        return self.project(images).flatten(2).transpose(1, 2)


def own_precision(like: Tensor) -> AbstractContextManager[object]:
    """Return a context without autocast on a tensor's device: products are computed in the precision of their
    factors.
    """
    # `meta` has no autocast
    return nullcontext() if like.is_meta else torch.autocast(like.device.type, enabled=False)


def in_float64(values: Tensor) -> Tensor:
    """Return values in float64: on the CPU where they lie on Apple's GPU, which has no such numbers."""
    return values.cpu().double() if values.device.type == "mps" else values.double()


def learned(*shape: int) -> nn.Parameter:
    """Return a trained tensor, Xavier-normal at the start."""
    return nn.Parameter(nn.init.xavier_normal_(torch.empty(shape)))


def truncated_normal(tensor: Tensor, std: float) -> Tensor:
    """Draw normal numbers cut at two of their deviations, scaled so that `std` holds after the cut (as JAX
    does).
    """
    return nn.init.trunc_normal_(tensor, std=std / TRUNCATED, a=-2 * std / TRUNCATED, b=2 * std / TRUNCATED)


def lecun_normal(module: nn.Module) -> None:
    """Draw all linear layers and convolutions of `module`: truncated normal weights of deviation fan_in^-1/2,
    biases 0.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            truncated_normal(layer.weight, 1 / math.sqrt(layer.weight[0].numel()))
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
