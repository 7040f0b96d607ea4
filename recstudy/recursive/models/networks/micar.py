"""MicarVLMoE (section III): an encoder of the image's positions and a decoder of the report, with experts.

    I = rms(MSVE(image)) W + b                                                                    (III-C)
    I <- I + MDLA(rms(I)),  I <- I + FFN(rms(I))          in each layer of the latent encoder     (1)
    X = drop(sqrt(D) E[tokens] + sinusoids)                                                       (III-E)
    X <- X + MDLA(rms(X)), causal                                                                 (4a)
    X <- X + fusion(X, I)                                                                         (4b)
    X <- X + MoE(rms(X))                                  (4a)-(4c) in each layer of the decoder  (4c)
    logits_t = W_o rms(X_t),   loss + alpha mean of L_b over the decoder's layers                 (7)

Numbers are the paper's. A letter denotes a line of one of its equations, and a section denotes its equations
without a number. MoE and L_b are Eq. 6, in `experts.py`. Initial weights are Xavier-uniform, except in MSVE.
No token attends to PAD or to a later token, so decoding with a cache is exact: a token needs the keys and
values of the earlier ones and the image's part of fusion. There is no recursion; the carry is the tokens.

MSVE (section III-C), the multiscale vision encoder: a feature pyramid over a backbone's stages C2 to C5.

    P_5 = phi(C_5),   P_i = phi(C_i) + up(P_i+1)      phi: 1x1 convolution, batch norm, ReLU per stage    (V1)
    F = Psi(P_2 + up(P_3) + up(P_4) + up(P_5))        Psi: 3x3 convolution, batch norm, ReLU at C_2       (V2)
    V = F pooled to 7x7                               49 positions                                        (V3)

up is bilinear. `one_scale` is (V1)-(V2) with C_5 alone, F = Psi(up(phi(C_5))). Psi costs 236.8 GFLOP at
224x224 pixels, 15 times the ResNet-101, so a model without the pyramid also lacks 94 % of the image's FLOPs
(contradiction MicarVLMoE-9). With one scale, only three of the four phi are missing, 5.8 of 258.6 GFLOP.
`off` pools C_5 itself.

MDLA (section III-D), multihead dual-branch latent attention: each head has a branch with positions and one
without.

    q = up rms(down x), likewise k and v     down: D -> D/H, up: D/H -> L                                 (2)
    q_h = [q_n; q_r],  k_h = [k_n; k_r]      halves of a head; RoPE on `rope_dims` of q_r and k_r         (3a)
    A_h = softmax((q_n k_n' + q_r k_r') / sqrt(scale))      scale: L/H (published code) or L (paper)      (3b)
    Z = [A_1 v_1; ...; A_H v_H] W_out                                                                     (3c)

With `fused` projections, several of q, k and v share down, rms and up: self-attention has one bottleneck of
3 D/H, and cross-attention has one for q (text) and one for k and v (image). By (3a), the two products of (3b)
are one product of whole heads.

Fusion (section III-F, Eq. 5): cross-attention, and a gate between its result and the text.

    I_n = rms(I),  X_n = rms(X)
    A = MDLA(X_n, I_n) + X                                                                    (5a)
    G = W_g [mean(I_n); max(I_n)] + b_g          over the positions                           (5b)
    g = sigmoid(MLP([rms(A); X_n]))                                                           (5c)
    F = g rms(A) + (1 - g) X_n                                                                (5d)
    Z = drop(MLP([F; A'; G])) + A                A' = rms(A) (published code) or A (paper)    (5e)

By (4b), the decoder adds X to Z a second time. `attention` has MDLA(X_n, I_n) in place of Z.

Shapes: B captions or images, C channels of a stage, T tokens, P positions, W channels of the pyramid, D
width, L latent width, H heads, E experts or the width L/H of a head, S query tokens, K key tokens, k experts
per token, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.recursive.config.parts import PAD, Shape
from recstudy.recursive.models.caption import LONGEST
from recstudy.recursive.models.micar import MicarVLMoE
from recstudy.recursive.models.networks.caption import (
    POOLING,
    BackboneNetwork,
    Cache,
    PlainCaptioner,
    tuned_backbone,
)
from recstudy.recursive.models.networks.contract import Carry, Output, VisionEncoder
from recstudy.recursive.models.networks.experts import (
    ACTIVATIONS,
    GatedFFN,
    MixtureOfExperts,
    TokenRouting,
    count_choices,
)
from recstudy.recursive.models.networks.layers import Past, Rotary, attend
from recstudy.recursive.models.networks.transformer_captioners import sinusoids

rms_norm = partial(nn.RMSNorm, eps=1e-6)


class MicarTrace(NamedTuple):
    """Attention maps and routing of a batch, for each decoder layer, first to last."""

    self_attention: Tensor  # (layers, B, H, T, T) rows sum to 1
    cross_attention: Tensor  # (layers, B, H, T, P) rows sum to 1; positions row by row
    router: Tensor  # (layers, B, T, E) probabilities
    chosen: Tensor  # (layers, B, T, k) int64 experts, the most likely first; E, which is no expert, for PAD
    load: Tensor  # (layers, E) int64: number of tokens of each expert, without PAD
    entropy: Tensor  # (layers, B, T) entropy of the router's probabilities, in nats
    dropped: Tensor  # (layers,) int64: number of choices without an expert's result


class MicarNetwork(PlainCaptioner):
    """MicarVLMoE, Eqs. III-C to 7."""

    sinusoids: Tensor  # (LONGEST, D)

    def __init__(self, config: MicarVLMoE, shape: Shape, classes: int) -> None:
        super().__init__()
        self.config = config
        rotary = Rotary(LONGEST, config.rope_dims)
        self.eyes = MultiscaleEncoder(config)
        self.project = nn.Sequential(rms_norm(config.seen_width), nn.Linear(config.seen_width, config.width))
        self.encoder = nn.Sequential(
            *(LatentEncoderLayer(config, rotary) for _ in range(config.encoder_layers))
        )
        self.embed = nn.Embedding(classes, config.width)
        self.register_buffer("sinusoids", sinusoids(LONGEST, config.width), persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.decoder = nn.ModuleList(ExpertDecoderLayer(config, rotary) for _ in range(config.decoder_layers))
        self.norm = rms_norm(config.width)
        self.answer = nn.Linear(config.width, classes, bias=False)
        for part in (self.project, self.encoder, self.embed, self.decoder, self.answer):
            for module in part.modules():  # the experts initialise their own matrices in the same way
                if isinstance(module, nn.Linear | nn.Embedding):
                    nn.init.xavier_uniform_(module.weight)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        (tokens,) = carry
        x_BTD, balance = self.decode(tokens, self.see(images), Past())
        has_balance = self.config.balance and self.config.experts > 1
        extra = self.config.balance * balance if has_balance else None  # Eq. 7: alpha mean of L_b
        return Output(self.answer(x_BTD), extra=extra), carry

    def begin(self, images: Tensor) -> Cache:
        """Return the parts of the image that the decoder layers read."""
        return tuple(part for image in self.see(images) for part in image)

    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        size = len(SeenImage._fields)
        end = size * len(self.decoder)  # of the image; then come keys and values of self-attention
        layer_images = [SeenImage(*cache[start : start + size]) for start in range(0, end, size)]
        past = Past(cache[end:])
        x_BTD, _ = self.decode(tokens, layer_images, past)
        return x_BTD, (*cache[:end], *past.new_cache)

    def see(self, images: Tensor) -> list[SeenImage]:
        """Return each decoder layer's part of the encoded images, Eqs. III-C and 1."""
        i_BPD = self.encoder(self.project(self.eyes(images)))
        return [layer.fusion.see(i_BPD) for layer in self._layers()]

    def decode(
        self,
        tokens: Tensor,
        layer_images: list[SeenImage],
        past: Past,
        traces: list[MicarTrace] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the decoder's states, Eqs. III-E to 7 without W_o, and the balance loss.

        Args:
            tokens: Tokens after those of `past` (B, T).
            layer_images: Each layer's part of the image.
            past: Keys and values of earlier tokens.
            traces: If given, gets the trace of each layer.

        Returns:
            States (B, T, D), and the mean of L_b over the layers, a scalar.
        """
        losses = []
        # A single new token attends to all earlier ones and needs no mask.
        x_BTD, mask_BTT = self.inputs(tokens, past.length), None if past.length else causal_mask(tokens)
        for layer, image in zip(self._layers(), layer_images, strict=True):
            x_BTD, loss = layer(x_BTD, image, mask_BTT, past, traces)  # Eqs. 4a to 4c
            losses.append(loss)
        return self.norm(x_BTD), torch.stack(losses).mean()

    def inputs(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Return the embedded tokens, Eq. III-E; the first token has the position `start`."""
        words_BTD = math.sqrt(self.config.width) * self.embed(tokens)
        places_TD = self.sinusoids[start : start + tokens.shape[1]].to(words_BTD.dtype)
        return self.dropout(words_BTD + places_TD)  # Eq. III-E

    @torch.no_grad()
    def trace(self, images: Tensor, tokens: Tensor) -> MicarTrace:
        """Return attention maps and routing of a forward pass. The network must be in evaluation mode.

        Args:
            images: Images as in `start`.
            tokens: Tokens (B, T), int64.
        """
        traces: list[MicarTrace] = []
        self.decode(tokens, self.see(images), Past(), traces)
        return MicarTrace(*(torch.stack(parts) for parts in zip(*traces, strict=True)))

    def _layers(self) -> list[ExpertDecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, ExpertDecoderLayer)]


class LatentEncoderLayer(nn.Module):
    """A layer of the latent encoder, Eq. 1."""

    def __init__(self, config: MicarVLMoE, rotary: Rotary) -> None:
        super().__init__()
        self.norm1, self.norm2 = (rms_norm(config.width) for _ in range(2))
        self.attention, self.ffn = MDLA(config, rotary, 3), GatedFFN(config)

    def forward(self, i_BPD: Tensor) -> Tensor:
        # Eq. 1: attention, then the feed-forward network.
        i_BPD = i_BPD + self.attention(*self.attention.project(self.norm1(i_BPD)))
        return i_BPD + self.ffn(self.norm2(i_BPD))


class ExpertDecoderLayer(nn.Module):
    """A decoder layer with experts, Eqs. 4a to 4c."""

    def __init__(self, config: MicarVLMoE, rotary: Rotary) -> None:
        super().__init__()
        self.norm1, self.norm2 = (rms_norm(config.width) for _ in range(2))
        self.attention, self.fusion, self.moe = (
            MDLA(config, rotary, 3),
            Fusion(config, rotary),
            MixtureOfExperts(config),
        )

    def forward(
        self,
        x_BTD: Tensor,
        image: SeenImage,
        mask_BTT: Tensor | None,
        past: Past,
        traces: list[MicarTrace] | None = None,
    ) -> tuple[Tensor, Tensor]:
        q, k, v = self.attention.project(self.norm1(x_BTD), past.length)
        # Eq. 4a: causal self-attention.
        x_BTD = x_BTD + self.attention(q, *past.extend(k, v), mask_BTT)
        # Eq. 4b: the fusion of text and image.
        fused_BTD = x_BTD + self.fusion(x_BTD, image, past.length)
        normed_BTD = self.norm2(fused_BTD)
        y_BTD, loss = self.moe(normed_BTD)
        if traces is not None and mask_BTT is not None:
            maps = self.attention.maps(q, k, mask_BTT), self.fusion.maps(x_BTD, image)
            routing = self.moe.route(normed_BTD.flatten(0, 1))
            # Every token but PAD attends to itself.
            is_token_BT = mask_BTT.diagonal(dim1=1, dim2=2)
            traces.append(MicarTrace(*maps, *trace_routing(routing, is_token_BT)))
        # Eq. 4c: the mixture of experts replaces the feed-forward network.
        return fused_BTD + y_BTD, loss


def trace_routing(routing: TokenRouting, valid_BT: Tensor) -> tuple[Tensor, ...]:
    """Return the last five fields of a layer's trace; `valid_BT` is False for PAD."""
    scores, chosen = (part.unflatten(0, valid_BT.shape) for part in (routing.scores, routing.chosen))
    experts, dropped = scores.shape[-1], chosen.numel() - routing.sizes.sum()
    chosen = chosen.masked_fill(~valid_BT[..., None], experts)
    return scores, chosen, count_choices(chosen, experts), torch.special.entr(scores).sum(-1), dropped


def causal_mask(tokens: Tensor) -> Tensor:
    """Return the tokens (column) that each token (row) attends to: itself and earlier ones, but no PAD.

    Returns:
        A mask (B, T, T), bool.
    """
    count = tokens.shape[1]
    return (tokens != PAD)[:, None] & torch.ones(count, count, dtype=torch.bool, device=tokens.device).tril()


class Bottleneck(nn.Module):
    """The latent projection of `parts` of q, k and v, Eq. 2: (B, S, D) -> (B, H, S, E) for each part."""

    def __init__(self, config: MicarVLMoE, parts: int) -> None:
        super().__init__()
        self.parts, self.heads = parts, config.heads
        narrow = parts * config.narrow
        self.down = nn.Linear(config.width, narrow, bias=False)
        self.norm = rms_norm(narrow)
        self.up = nn.Linear(narrow, parts * config.latent, bias=False)

    def forward(self, x_BSD: Tensor) -> tuple[Tensor, ...]:
        latent = self.up(self.norm(self.down(x_BSD))).unflatten(-1, (self.parts, self.heads, -1))
        return latent.permute(2, 0, 3, 1, 4).unbind(0)


class MDLA(nn.Module):
    """Multihead dual-branch latent attention, Eqs. 2 to 3c.

    Args:
        config: The model's settings.
        rotary: The rotary positions of `rope_dims` dimensions.
        *fused: For each bottleneck, how many of q, k and v it gives with `fused` projections.
    """

    def __init__(self, config: MicarVLMoE, rotary: Rotary, *fused: int) -> None:
        super().__init__()
        parts = fused if config.projections == "fused" else (1, 1, 1)
        self.bottlenecks = nn.ModuleList(Bottleneck(config, n) for n in parts)
        self.out = nn.Linear(config.latent, config.width, bias=False)
        self.rotary, self.dropout = rotary, config.attention_dropout
        head = config.latent // config.heads
        self.branches = [head // 2, config.rope_dims, head - head // 2 - config.rope_dims]  # of a head: (3a)
        self.scale = 1 / math.sqrt(head if config.scale == "head" else config.latent)

    def project(self, x_BSD: Tensor, start: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k and v of self-attention; the first token has the position `start`."""
        q, k, v = (part for bottleneck in self.bottlenecks for part in bottleneck(x_BSD))
        return self.rotate(q, start), self.rotate(k, start), v

    def project_queries(self, x_BSD: Tensor, start: int = 0) -> Tensor:
        """Return q of cross-attention; the first token has the position `start`."""
        return self.rotate(self.bottlenecks[0](x_BSD)[0], start)

    def project_keys_values(self, x_BKD: Tensor) -> tuple[Tensor, Tensor]:
        """Return k and v of cross-attention."""
        k, v = (part for bottleneck in list(self.bottlenecks)[1:] for part in bottleneck(x_BKD))
        return self.rotate(k), v

    def rotate(self, x_BHSE: Tensor, start: int = 0) -> Tensor:
        """Apply rotary positions to the first `rope_dims` of a head's second half, Eq. 3a."""
        unrotated, rotated, rest = x_BHSE.split(self.branches, dim=-1)
        return torch.cat([unrotated, self.rotary(rotated, start), rest], dim=-1)

    def forward(
        self, q_BHSE: Tensor, k_BHKE: Tensor, v_BHKE: Tensor, mask_BSK: Tensor | None = None
    ) -> Tensor:
        """Return the attention's output (B, S, D), Eqs. 3b and 3c; a mask is True for keys that count."""
        mask = None if mask_BSK is None else mask_BSK[:, None]
        dropout = self.dropout if self.training else 0.0
        return self.out(attend(q_BHSE, k_BHKE, v_BHKE, attn_mask=mask, dropout_p=dropout, scale=self.scale))

    def maps(self, q_BHSE: Tensor, k_BHKE: Tensor, mask_BSK: Tensor | None = None) -> Tensor:
        """Return the attention maps A_h, Eq. 3b, (B, H, S, K). `forward` does not materialise them."""
        scores_BHSK = self.scale * q_BHSE @ k_BHKE.transpose(-2, -1)
        if mask_BSK is not None:
            scores_BHSK = scores_BHSK.masked_fill(~mask_BSK[:, None], -torch.inf)
        return scores_BHSK.softmax(-1)


class SeenImage(NamedTuple):
    """A decoder layer's part of an image, which does not depend on the tokens."""

    keys: Tensor  # (B, H, P, E)
    values: Tensor  # (B, H, P, E)
    context: Tensor  # (B, D) G of Eq. 5b; (B, 0) without a gate


class Fusion(nn.Module):
    """Fusion of image and text, Eqs. 5a to 5e, or cross-attention alone."""

    def __init__(self, config: MicarVLMoE, rotary: Rotary) -> None:
        super().__init__()
        self.norm_image, self.norm_text = (rms_norm(config.width) for _ in range(2))
        self.attention = MDLA(config, rotary, 1, 2)
        self.gate = Gate(config) if config.fusion == "gated" else None

    def see(self, image_BPD: Tensor) -> SeenImage:
        i_BPD = self.norm_image(image_BPD)
        context = self.gate.context(i_BPD) if self.gate is not None else i_BPD.new_zeros(len(i_BPD), 0)
        return SeenImage(*self.attention.project_keys_values(i_BPD), context)

    def forward(self, x_BTD: Tensor, image: SeenImage, start: int = 0) -> Tensor:
        """Return the update of the tokens (B, T, D); the first token has the position `start`."""
        x_n = self.norm_text(x_BTD)
        attended_BTD = self.attention(self.attention.project_queries(x_n, start), image.keys, image.values)
        if self.gate is None:
            return attended_BTD
        return self.gate(attended_BTD + x_BTD, x_n, image.context)  # Eq. 5a

    def maps(self, x_BTD: Tensor, image: SeenImage) -> Tensor:
        """Return the attention of each token to the image's positions, (B, H, T, P)."""
        return self.attention.maps(self.attention.project_queries(self.norm_text(x_BTD)), image.keys)


class Gate(nn.Module):
    """The gate of fusion, Eqs. 5b to 5e, from A and X_n."""

    def __init__(self, config: MicarVLMoE) -> None:
        super().__init__()
        d, activation = config.width, ACTIVATIONS[config.activation]
        self.reads_plain = (
            config.fusion_reads == "plain"
        )  # A' of (5e) is A (paper), not rms(A) (published code)
        self.norm = rms_norm(d)
        self.summary = nn.Linear(2 * d, d)
        self.opening = nn.Sequential(nn.Linear(2 * d, d), activation(), nn.Linear(d, d))
        first, last = (nn.Dropout(config.dropout) for _ in range(2))
        self.fuse = nn.Sequential(nn.Linear(3 * d, d), activation(), first, nn.Linear(d, d), last)

    def context(self, i_BPD: Tensor) -> Tensor:
        # Eq. 5b: G summarises the image by the mean and the maximum over its positions.
        return self.summary(torch.cat([i_BPD.mean(1), i_BPD.amax(1)], dim=-1))

    def forward(self, a_BTD: Tensor, x_n: Tensor, context_BD: Tensor) -> Tensor:
        a_n = self.norm(a_BTD)
        # Eq. 5c: the gate g, from the attended image and the text.
        g_BTD = self.opening(torch.cat([a_n, x_n], dim=-1)).sigmoid()
        # Eq. 5d: F blends image and text by g.
        f_BTD = g_BTD * a_n + (1 - g_BTD) * x_n
        context = context_BD[:, None].expand_as(f_BTD)
        fused = torch.cat([f_BTD, a_BTD if self.reads_plain else a_n, context], dim=-1)
        # Eq. 5e: the fused update, with A as the residual.
        return self.fuse(fused) + a_BTD


class MultiscaleEncoder(VisionEncoder):
    """The multiscale vision encoder MSVE, Eqs. V1 to V3.

    It maps pixels from 0 to 255 (B, 3, height, width) to (B, P, W), and returns the features (B, P, F) of a
    frozen backbone unchanged.
    """

    def __init__(self, config: MicarVLMoE) -> None:
        super().__init__()
        self.grid = config.grid
        self.backbone = tuned_backbone(config)
        self.pyramid = Pyramid(config.scales, config.pyramid_width) if config.scales else None

    def forward(self, images: Tensor) -> Tensor:
        if self.backbone is None:
            return images
        if self.pyramid is None:
            return self.backbone(images)
        fused = self.pyramid(stages(self.backbone, images))
        # Eq. V3: 7x7 positions.
        return F.adaptive_avg_pool2d(fused, self.grid).flatten(2).transpose(1, 2)

    def feature_maps(self, images: Tensor) -> Tensor | None:
        """Return the maps of Figure 3: the levels that (V2) adds, the finest first, and F.

        Returns:
            Means over the channels (B, S, height, width) at the size of C_2; None without a pyramid.
        """
        if self.backbone is None or self.pyramid is None:
            return None
        maps = stages(self.backbone, images)
        levels = [upsample(level, maps[0]) for level in reversed(self.pyramid.levels(maps))]
        return torch.stack([map_.mean(1) for map_ in (*levels, self.pyramid(maps))], dim=1)


class Pyramid(nn.Module):
    """The feature pyramid, Eqs. V1 and V2: C_2 to C_5 -> F (B, W, height, width) at the size of C_2.

    Args:
        channels: Channels of the stages that are read: all of them, or the last ones.
        width: W.
    """

    def __init__(self, channels: Sequence[int], width: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(_convolution(inputs, width, 1) for inputs in channels)
        self.fuse = _convolution(width, width, 3)

    def levels(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """Return the levels P_5 to P_2, Eq. V1."""
        levels: list[Tensor] = []
        for phi, map_ in zip(reversed(self.lateral), reversed(maps), strict=False):
            level = phi(map_)
            levels.append(level + upsample(levels[-1], map_) if levels else level)
        return levels

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        """Return F, Eq. V2."""
        return self.fuse(reduce(torch.add, [upsample(level, maps[0]) for level in self.levels(maps)]))


def stages(backbone: BackboneNetwork, images: Tensor) -> list[Tensor]:
    """Return the stages C_2 to C_5 of a backbone for pixels from 0 to 255."""
    images = (images / 255 - backbone.mean) / backbone.deviation
    net: Any = backbone.net
    if not isinstance(net, nn.Sequential):
        return net.forward_intermediates(images, indices=4, intermediates_only=True)
    maps: list[Tensor] = []
    for module in net[:-POOLING]:
        images = module(images)
        if isinstance(module, nn.ReLU):  # the end of a stage of the small CNN
            maps.append(images)
    return maps


def upsample(map_: Tensor, like: Tensor) -> Tensor:
    """Enlarge a map to the height and width of another one, bilinearly."""
    if map_.shape[-2:] == like.shape[-2:]:
        return map_
    return F.interpolate(map_, size=like.shape[-2:], mode="bilinear", align_corners=False)


def _convolution(inputs: int, outputs: int, side: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, side, padding=side // 2), nn.BatchNorm2d(outputs), nn.ReLU()
    )
