"""Transformer layers that the model families share.

A layer can be limited to the tokens that will be read. It then computes queries and the feed-forward network
only for these. Attention mixes tokens only through keys and values, so the result for these tokens is the
same.

With causal attention, nothing at a token depends on later tokens. Keys and values therefore stay valid when
the sequence grows, and a further token costs one token (`Past`), however often a recursion passes over the
sequence.

There are three kinds of layers: `TransformerLayer` (ViTRM, ViT, encoders of captioners), `PostNorm` (HRM, TRM
and their captioners) and `ClipLayer` (FuseLIP, TiTok). Names of parameters, such as `qkv`, `out`, `up` and
`down`, must not change: saved weights have them, and so have the digests of imported weights in run ids.

Shapes: B images, S tokens, R tokens that are read, D width, H heads, E width of a head, M hidden width.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ALL = slice(None)
TRUNCATED = 0.87962566103423978  # standard deviation of a standard normal cut at -2 and 2


class Rotary(nn.Module):
    """Rotary position embedding (RoPE): pairs rotate by position x theta^(-2i/E), with theta = 10,000.

    Pair i is (i, i + E/2), from the two halves of a head. The tokens have the positions 0 to S-1.
    """

    cos: Tensor  # (S, E)
    sin: Tensor

    def __init__(self, positions: int, head_width: int) -> None:
        super().__init__()
        angles_SE = position_angles(positions, head_width).repeat(1, 2)
        self.register_buffer("cos", angles_SE.cos(), persistent=False)
        self.register_buffer("sin", angles_SE.sin(), persistent=False)

    def forward(self, x_BHSE: Tensor, start: int = 0) -> Tensor:
        """Rotate the S tokens of a sequence; the first token has the position `start`."""
        positions = slice(start, start + x_BHSE.shape[2])
        first, second = x_BHSE.chunk(2, dim=-1)
        rotated_BHSE = torch.cat([-second, first], dim=-1)
        # As in the code of HRM and TRM, tokens in bfloat16 are rotated in float32.
        turned_BHSE = x_BHSE * self.cos[positions] + rotated_BHSE * self.sin[positions]
        return turned_BHSE.to(x_BHSE.dtype)


def position_angles(positions: int, width: int) -> Tensor:
    """Return the angles position x theta^(-2i/width), with theta = 10,000, for i < width/2."""
    rates_F = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
    return torch.outer(torch.arange(positions, dtype=torch.float32), rates_F)


class Past:
    """Keys and values (B, H, S, E) of earlier tokens, for each attention call of a forward pass, in order.

    A pass always makes the same calls. It reads `cache`, which is the `new_cache` of the pass before, adds
    the keys and values of its own tokens, and stores all of them in `new_cache`. The first pass may have any
    number of tokens, and each later pass has one.
    """

    def __init__(self, cache: tuple[Tensor, ...] = ()) -> None:
        self.cache = cache
        self.new_cache: list[Tensor] = []  # keys of call 0, values of call 0, keys of call 1, ...

    @property
    def length(self) -> int:
        """The number of tokens before this pass."""
        return self.cache[0].shape[2] if self.cache else 0

    def extend(self, k_BHSE: Tensor, v_BHSE: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of all tokens for the next call, from those of the new tokens."""
        if self.cache:
            old_k, old_v = self.cache[len(self.new_cache) : len(self.new_cache) + 2]
            k_BHSE, v_BHSE = torch.cat([old_k, k_BHSE], dim=2), torch.cat([old_v, v_BHSE], dim=2)
        self.new_cache += [k_BHSE, v_BHSE]
        return k_BHSE, v_BHSE


def by_head(x_BSD: Tensor, heads: int) -> Tensor:
    """Split each token into heads: (B, S, D) -> (B, H, S, E)."""
    return x_BSD.unflatten(-1, (heads, -1)).transpose(1, 2)


def attend(q_BHSE: Tensor, k_BHKE: Tensor, v_BHKE: Tensor, **options: Any) -> Tensor:
    """Return the mixed values of each token with its heads side by side, (B, S, D); options are torch's."""
    mixed_BHSE = F.scaled_dot_product_attention(q_BHSE, k_BHKE, v_BHKE, **options)
    return mixed_BHSE.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Multi-head self-attention, with the parameters of `torch.nn.MultiheadAttention` by default.

    With `causal`, a token attends to itself and to earlier tokens. A head has `width // heads` dimensions: 12
    heads of a width of 512 have 504 dimensions together.
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
        self.rotary = rotary  # only if all tokens are read: positions are counted from the first token

    def forward(self, x_BSD: Tensor, read: slice = ALL, past: Past | None = None) -> Tensor:
        q_BHRE, k_BHSE, v_BHSE = (by_head(part, self.heads) for part in self._project(x_BSD, read))
        if self.rotary is not None:
            start = 0 if past is None else past.length
            q_BHRE, k_BHSE = self.rotary(q_BHRE, start), self.rotary(k_BHSE, start)
        if past is not None:
            k_BHSE, v_BHSE = past.extend(k_BHSE, v_BHSE)
        dropout = self.dropout if self.training else 0.0
        # A single token is the last one, which attends to all tokens.
        causal = self.causal and q_BHRE.shape[2] > 1
        return self.out(attend(q_BHRE, k_BHSE, v_BHSE, dropout_p=dropout, is_causal=causal))

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

    def on_rows(self, x_DN: Tensor) -> Tensor:
        """Apply it along the first dimension, without biases: (D, N) -> (D, N)."""
        # Tensor cores are slow if the rows of a factor are no multiples of 16 bytes, as those of `up` for 97
        # tokens. The rows of its transpose are, and a product may have any number of terms.
        up_DM = self.up.weight.t().contiguous()
        u_MN, g_MN = (up_DM.t() @ x_DN).chunk(2)
        return self.down.weight @ (u_MN * self.gate(g_MN))


class GEGLU(SwiGLU):
    """down(u * gelu(g)), with the tanh form of GELU."""

    def gate(self, g_BSM: Tensor) -> Tensor:
        return F.gelu(g_BSM, approximate="tanh")


class GeluMLP(nn.Module):
    """down(dropout(gelu(up(x)))): D -> M -> D, with biases."""

    def __init__(self, width: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BSD: Tensor) -> Tensor:
        return self.down(self.dropout(F.gelu(self.up(x_BSD))))


class QHead(nn.Linear):
    """The halting logits W_q r + b_q of HRM and TRM, (..., D) -> (..., 2), in float32.

    At first W_q = 0 and b_q = (`halt_bias`, -5).
    """

    def __init__(self, width: int, halt_bias: float = -5.0) -> None:
        super().__init__(width, 2)
        nn.init.zeros_(self.weight)
        self.bias.data = torch.tensor([halt_bias, -5.0])

    def forward(self, r: Tensor) -> Tensor:
        # A product and a sum, because autocast would compute a linear layer in bfloat16.
        return (r.float().unsqueeze(-2) * self.weight).sum(-1) + self.bias


class TransformerLayer(nn.Module):
    """Attention and feed-forward network as residual branches, with a layer norm before or after each."""

    def __init__(
        self, attention: Attention, ffn: nn.Module, width: int, norm: Literal["pre", "post"], dropout: float
    ) -> None:
        super().__init__()
        self.attention, self.ffn, self.pre = attention, ffn, norm == "pre"
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BSD: Tensor, read: slice = ALL) -> Tensor:
        residual_BRD = x_BSD if read == ALL else x_BSD[:, read]
        if self.pre:
            x_BRD = residual_BRD + self.dropout(self.attention(self.norm1(x_BSD), read))
            return x_BRD + self.dropout(self.ffn(self.norm2(x_BRD)))
        x_BRD = self.norm1(residual_BRD + self.dropout(self.attention(x_BSD, read)))
        return self.norm2(x_BRD + self.dropout(self.ffn(x_BRD)))


class RMSNorm(nn.RMSNorm):
    """x / sqrt(mean(x^2) + eps), optionally times a trained scale."""

    def forward(self, x: Tensor) -> Tensor:
        if not (x.is_cpu and x.dtype == torch.float32):
            return super().forward(x)
        # On a CPU, torch's own norm (2.14) takes twice as long.
        normed = rms(x, -1, self.eps or torch.finfo(x.dtype).eps)
        return normed if self.weight is None else normed * self.weight


def rms(x: Tensor, dim: int, eps: float = 1e-5) -> Tensor:
    """Return x / sqrt(mean(x^2) + eps), computed in float32 if x is in bfloat16."""
    wide = x.float() if x.dtype == torch.bfloat16 else x
    return (wide * torch.rsqrt(wide.pow(2).mean(dim, keepdim=True) + eps)).to(x.dtype)


class PuzzleTable(nn.Embedding):
    """A table of puzzle embeddings, which SignSGD trains.

    Its gradients are sparse, unless every batch reads all rows.
    """


class PostNorm(nn.Module):
    """The layer of HRM and TRM: s <- RMS(s + mix(s)), s <- RMS(s + ffn(s)). The scale of RMS is optional."""

    def __init__(self, mix: Attention, ffn: nn.Module, width: int, eps: float, scale: bool) -> None:
        super().__init__()
        self.mix, self.ffn = mix, ffn
        self.norm1, self.norm2 = (RMSNorm(width, eps=eps, elementwise_affine=scale) for _ in range(2))

    def forward(self, s_BSD: Tensor, past: Past | None = None) -> Tensor:
        # Autocast computes norms in float32. The residual stream keeps the precision of the states.
        s_BSD = self.norm1(s_BSD + self.mix(s_BSD, past=past)).to(s_BSD.dtype)
        return self.norm2(s_BSD + self.ffn(s_BSD)).to(s_BSD.dtype)


class Stack(nn.ModuleList):
    """Post-norm layers with attention, one after the other, which share one `Past`. No layer has biases."""

    def __init__(
        self,
        count: int,
        width: int,
        heads: int,
        hidden: int,
        rotary: Rotary | None,
        ffn: type[SwiGLU] = SwiGLU,
        causal: bool = False,
        eps: float = 1e-5,
        scale: bool = False,
    ) -> None:
        super().__init__()
        for _ in range(count):
            attention = Attention(width, heads, qkv_bias=False, out_bias=False, rotary=rotary, causal=causal)
            self.append(PostNorm(attention, ffn(width, hidden, bias=False), width, eps, scale))

    def forward(self, s_BSD: Tensor, past: Past | None = None) -> Tensor:
        for layer in self:
            s_BSD = layer(s_BSD, past)
        return s_BSD


class Block(nn.Module):
    """A stack of layers, of which the last computes only the tokens that are read."""

    skip_unread = True  # False: every token of every layer, which is how the papers count FLOPs

    def __init__(self, layers: list[TransformerLayer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x_BSD: Tensor, read: slice = ALL) -> Tensor:
        *first_layers, last_layer = self.layers
        for layer in first_layers:
            x_BSD = layer(x_BSD)
        if self.skip_unread:
            return last_layer(x_BSD, read)
        return last_layer(x_BSD)[:, read]


class ClipLayer(nn.Module):
    """The layer of CLIP, FuseLIP and TiTok: s <- s + Attn(LN(s)), s <- s + MLP(LN(s)), with biases.

    It takes an attention mask, and a `Past` if later tokens do not change earlier ones.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ffn = GeluMLP(width, 4 * width)

    def forward(self, x_BSD: Tensor, mask: Tensor | None = None, past: Past | None = None) -> Tensor:
        """Apply the layer. `mask` is True where a token (row) attends to another (column); None for all."""
        q_BHSE, k_BHSE, v_BHSE = (
            by_head(part, self.heads) for part in self.qkv(self.norm1(x_BSD)).chunk(3, dim=-1)
        )
        if past is not None:
            k_BHSE, v_BHSE = past.extend(k_BHSE, v_BHSE)
        x_BSD = x_BSD + self.out(attend(q_BHSE, k_BHSE, v_BHSE, attn_mask=mask))
        return x_BSD + self.ffn(self.norm2(x_BSD))


def init_as_clip(layers: nn.ModuleList | nn.Sequential) -> None:
    """Initialise layers as CLIP does, with smaller values at the end of a branch, by depth."""
    # The biases of the MLPs keep torch's initial values.
    for layer in layers:
        assert isinstance(layer, ClipLayer)
        width = layer.out.in_features
        branch = width**-0.5 * (2 * len(layers)) ** -0.5
        for linear, deviation in ((layer.qkv, width**-0.5), (layer.out, branch)):
            nn.init.normal_(linear.weight, std=deviation)
            nn.init.zeros_(linear.bias)
        nn.init.normal_(layer.ffn.up.weight, std=(2 * width) ** -0.5)
        nn.init.normal_(layer.ffn.down.weight, std=branch)


def prepend(token: Tensor, tokens_BND: Tensor) -> Tensor:
    """Put a token (1, D) or (1, 1, D) before the tokens of each image: (B, N, D) -> (B, 1 + N, D)."""
    return torch.cat([token.expand(len(tokens_BND), -1, -1), tokens_BND], dim=1)


def flat_patches(images: Tensor, patch: int) -> Tensor:
    """Return the pixels of square patches side by side: (B, C, height, width) -> (B, N, C patch^2)."""
    return F.pixel_unshuffle(images, patch).flatten(2).transpose(1, 2)


class PatchEmbedding(nn.Module):
    """Linear projection of square patches: (B, C, height, width) -> (B, N, D)."""

    def __init__(self, channels: int, patch: int, width: int) -> None:
        super().__init__()
        self.project = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)

    def forward(self, images: Tensor) -> Tensor:
        return self.project(images).flatten(2).transpose(1, 2)


def own_precision(like: Tensor) -> AbstractContextManager[object]:
    """Return a context without autocast, in which products have the precision of their factors."""
    # The device `meta` has no autocast.
    return nullcontext() if like.is_meta else torch.autocast(like.device.type, enabled=False)


def in_float64(values: Tensor) -> Tensor:
    """Return values in float64."""
    # Apple's GPU has no float64, so the values move to the CPU.
    return values.cpu().double() if values.device.type == "mps" else values.double()


def learned(*shape: int) -> nn.Parameter:
    """Return a parameter with Xavier-normal initial values."""
    return nn.Parameter(nn.init.xavier_normal_(torch.empty(shape)))


def truncated_normal(tensor: Tensor, std: float) -> Tensor:
    """Fill a tensor with normal numbers truncated at two standard deviations.

    As in JAX, the numbers are scaled so that `std` is the standard deviation after the truncation.
    """
    return nn.init.trunc_normal_(tensor, std=std / TRUNCATED, a=-2 * std / TRUNCATED, b=2 * std / TRUNCATED)


def lecun_normal(module: nn.Module) -> None:
    """Initialise the linear layers and convolutions of a module: LeCun-normal weights, zero biases.

    The weights are truncated normal with the standard deviation fan_in^-1/2.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            truncated_normal(layer.weight, 1 / math.sqrt(layer.weight[0].numel()))
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
