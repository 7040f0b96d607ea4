"""MicarVLMoE (003, section III): an encoder of the image's places and a decoder of the report, with a mixture of experts.

    I = rms(MSVE(image)) W + b                                                                            (1)
    I <- I + MDLA(rms(I)),  I <- I + FFN(rms(I))          in each layer of the latent encoder             (2)
    X = drop(sqrt(D) E[tokens] + sinusoids)                                                               (3)
    X <- X + MDLA(rms(X)), causal                                                                         (4)
    X <- X + fusion(X, I)                                                                                 (5)
    X <- X + MoE(rms(X))                                  (4)-(6) in each layer of the decoder            (6)
    logits_t = W_o rms(X_t),   loss + alpha mean of L_b over the decoder's layers                         (7)

MDLA and (5) stand in `micar_attention.py`, MoE and L_b in `experts.py`. Matrices start Xavier-uniform, but for MSVE's. No token
sees PAD or a later one, so each needs the keys and values of those before it and, of the image, what fusion keeps: decoding with
a cache is exact. There is no recursion; the carry is the tokens.

MSVE (section III-C), the multiscale vision encoder: a feature pyramid over a backbone's stages C2 to C5.

    P_5 = phi(C_5),   P_i = phi(C_i) + up(P_i+1)      phi: 1x1 convolution, batch norm, ReLU; one for each stage    (V1)
    F = Psi(P_2 + up(P_3) + up(P_4) + up(P_5))        Psi: 3x3 convolution, batch norm, ReLU, at the size of C_2    (V2)
    V = F pooled to 7x7                               49 places                                                     (V3)

up is bilinear. `one_scale` is (V1)-(V2) with C_5 alone, F = Psi(up(phi(C_5))): Psi costs 236.8 GFLOP at 224x224 pixels, 15 times
the ResNet-101, so that leaving the pyramid out takes 94 % of the image's FLOPs with it (contradiction 003-9). With one scale
only three of the four phi are missing, 5.8 of 258.6 GFLOP. `off` pools C_5 itself.

Shapes: B captions or images, C channels of a stage, T tokens, P places, W channels of the pyramid, D width, H heads, E experts,
k experts a token, V vocabulary.
"""

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.config import PAD
from recstudy.models.backbone import LONGEST
from recstudy.models.micar import EPS, MicarVLMoE
from recstudy.models.networks.backbones import POOLING, BackboneNetwork
from recstudy.models.networks.caption import Cache, Captioner
from recstudy.models.networks.contract import Carry, Output, VisionEncoder
from recstudy.models.networks.experts import GatedFFN, MixtureOfExperts, TokenRouting, wanted
from recstudy.models.networks.layers import Past, Rotary
from recstudy.models.networks.micar_attention import MDLA, Fusion, SeenImage
from recstudy.models.networks.transformer_captioners import sinusoids


class MicarTrace(NamedTuple):
    """What happened inside, for a batch; layers are the decoder's, first to last."""

    self_attention: Tensor  # (layers, B, H, T, T) rows sum to 1
    cross_attention: Tensor  # (layers, B, H, T, P) rows sum to 1; places row by row
    router: Tensor  # (layers, B, T, E) probabilities
    chosen: Tensor  # (layers, B, T, k) int64, the likeliest first; E, which is no expert, for PAD
    load: Tensor  # (layers, E) int64: tokens that each expert ran on, PAD left out
    entropy: Tensor  # (layers, B, T) of the router's probabilities, in nats
    dropped: Tensor  # (layers,) int64: choices of tokens that no expert ran on


class MicarNetwork(Captioner):
    """Equations (1)-(7)."""

    sinusoids: Tensor  # (LONGEST, D)

    def __init__(self, config: MicarVLMoE, classes: int) -> None:
        super().__init__()
        self.config = config
        rotary = Rotary(LONGEST, config.rope_dims)
        self.eyes = MultiscaleEncoder(config)
        self.project = nn.Sequential(nn.RMSNorm(config.seen_width, eps=EPS), nn.Linear(config.seen_width, config.width))
        self.encoder = nn.Sequential(*(LatentEncoderLayer(config, rotary) for _ in range(config.encoder_layers)))
        self.embed = nn.Embedding(classes, config.width)
        self.register_buffer("sinusoids", sinusoids(LONGEST, config.width), persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.decoder = nn.ModuleList(ExpertDecoderLayer(config, rotary) for _ in range(config.decoder_layers))
        self.norm = nn.RMSNorm(config.width, eps=EPS)
        self.answer = nn.Linear(config.width, classes, bias=False)
        for part in (self.project, self.encoder, self.embed, self.decoder, self.answer):
            xavier_uniform(part)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        (tokens,) = carry
        x_BTD, balance = self.decode(tokens, self.see(images))
        extra = self.config.balance * balance if self.config.balance and self.config.experts > 1 else None
        return Output(self.answer(x_BTD), extra=extra), carry

    def next(self, images: Tensor, tokens: Tensor, steps: int, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        if cache is None:
            past, seen = Past(), self.see(images)
        else:
            own, size = 2 * len(self.decoder), len(SeenImage._fields)
            past, seen = Past(cache[:own]), [SeenImage(*cache[at : at + size]) for at in range(own, len(cache), size)]
        x_BTD, _ = self.decode(tokens[:, past.length :], seen, past)
        return self.answer(x_BTD[:, -1]), (*past.now, *(part for one in seen for part in one))

    def see(self, images: Tensor) -> list[SeenImage]:
        """Equations (1)-(2), and what each layer of the decoder keeps of them."""
        i_BPD = self.encoder(self.project(self.eyes(images)))
        return [layer.fusion.see(i_BPD) for layer in self._layers()]

    def decode(self, tokens: Tensor, seen: list[SeenImage], past: Past | None = None) -> tuple[Tensor, Tensor]:
        """Equations (3)-(7) without W_o, (B, T, D), for tokens that follow those of `past`; and the mean of L_b, ()."""
        start, losses = 0 if past is None else past.length, []
        x_BTD, mask_BTT = self.inputs(tokens, start), None if start else earlier(tokens)
        for layer, one in zip(self._layers(), seen, strict=True):
            x_BTD, loss = layer(x_BTD, one, mask_BTT, past)
            losses.append(loss)
        return self.norm(x_BTD), torch.stack(losses).mean()

    def inputs(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Equation (3) for tokens whose first one stands at `start`."""
        words_BTD = math.sqrt(self.config.width) * self.embed(tokens)
        return self.dropout(words_BTD + self.sinusoids[start : start + tokens.shape[1]].to(words_BTD.dtype))

    @torch.no_grad()
    def trace(self, images: Tensor, tokens: Tensor) -> MicarTrace:
        """Compute again what happens inside a forward pass; for a network in evaluation mode.

        Args:
            images: as in `start`.
            tokens: (B, T) int64.
        """
        x_BTD, mask_BTT, found = self.inputs(tokens), earlier(tokens), []
        for layer, one in zip(self._layers(), self.see(images), strict=True):
            found.append(layer.trace(x_BTD, one, mask_BTT, tokens != PAD))
            x_BTD, _ = layer(x_BTD, one, mask_BTT)
        return MicarTrace(*(torch.stack(parts) for parts in zip(*found, strict=True)))

    def _layers(self) -> list["ExpertDecoderLayer"]:
        return [layer for layer in self.decoder if isinstance(layer, ExpertDecoderLayer)]


class LatentEncoderLayer(nn.Module):
    """Equation (2)."""

    def __init__(self, config: MicarVLMoE, rotary: Rotary) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.RMSNorm(config.width, eps=EPS) for _ in range(2))
        self.attention, self.ffn = MDLA(config, rotary, 3), GatedFFN(config)

    def forward(self, i_BPD: Tensor) -> Tensor:
        i_BPD = i_BPD + self.attention(*self.attention.whole(self.norm1(i_BPD)))
        return i_BPD + self.ffn(self.norm2(i_BPD))


class ExpertDecoderLayer(nn.Module):
    """Equations (4)-(6)."""

    def __init__(self, config: MicarVLMoE, rotary: Rotary) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.RMSNorm(config.width, eps=EPS) for _ in range(2))
        self.attention, self.fusion, self.moe = MDLA(config, rotary, 3), Fusion(config, rotary), MixtureOfExperts(config)

    def forward(self, x_BTD: Tensor, seen: SeenImage, mask_BTT: Tensor | None, past: Past | None = None) -> tuple[Tensor, Tensor]:
        start = 0 if past is None else past.length
        x_BTD = x_BTD + self.attend(x_BTD, mask_BTT, past)  # (4)
        x_BTD = x_BTD + self.fusion(x_BTD, seen, start)  # (5)
        y_BTD, loss = self.moe(self.norm2(x_BTD))
        return x_BTD + y_BTD, loss  # (6)

    def attend(self, x_BTD: Tensor, mask_BTT: Tensor | None, past: Past | None = None) -> Tensor:
        q, k, v = self.attention.whole(self.norm1(x_BTD), 0 if past is None else past.length)
        if past is not None:
            k, v = past.extend(k, v)
        return self.attention(q, k, v, mask_BTT)

    def trace(self, x_BTD: Tensor, seen: SeenImage, mask_BTT: Tensor, valid_BT: Tensor) -> MicarTrace:
        """Trace one layer, without the first dimension."""
        q, k, _ = self.attention.whole(self.norm1(x_BTD))
        own = self.attention.maps(q, k, mask_BTT)
        x_BTD = x_BTD + self.attend(x_BTD, mask_BTT)
        cross = self.fusion.maps(x_BTD, seen)
        x_BTD = x_BTD + self.fusion(x_BTD, seen)
        return MicarTrace(own, cross, *routed(self.moe.route(self.norm2(x_BTD).flatten(0, 1)), valid_BT))


def routed(routing: TokenRouting, valid_BT: Tensor) -> tuple[Tensor, ...]:
    """Return the last five parts of a layer's trace."""
    scores, chosen = (part.unflatten(0, valid_BT.shape) for part in (routing.scores, routing.chosen))
    experts, dropped = scores.shape[-1], chosen.numel() - routing.sizes.sum()
    chosen = chosen.masked_fill(~valid_BT[..., None], experts)
    return scores, chosen, wanted(chosen, experts), torch.special.entr(scores).sum(-1), dropped


def earlier(tokens: Tensor) -> Tensor:
    """Return what each token sees, (B, T, T): itself and those before it, and no PAD."""
    count = tokens.shape[1]
    return (tokens != PAD)[:, None] & torch.ones(count, count, dtype=torch.bool, device=tokens.device).tril()


def xavier_uniform(part: nn.Module) -> None:
    """Draw every matrix of a part; the experts draw their own so."""
    for module in part.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.xavier_uniform_(module.weight)


class MultiscaleEncoder(VisionEncoder):
    """Equations (V1)-(V3): pixels of 0 to 255 (B, 3, height, width), or a frozen backbone's features (B, P, F) -> (B, P, W)."""

    def __init__(self, config: MicarVLMoE) -> None:
        super().__init__()
        self.grid = config.grid
        self.backbone = BackboneNetwork(config.backbone, config.weights, config.grid) if config.tuned else None
        self.pyramid = Pyramid(config.scales, config.pyramid_width) if config.scales else None

    def forward(self, images: Tensor) -> Tensor:
        if self.backbone is None:
            return images
        if self.pyramid is None:
            return self.backbone(images)
        fused = self.pyramid(stages(self.backbone, images))
        return F.adaptive_avg_pool2d(fused, self.grid).flatten(2).transpose(1, 2)


class Pyramid(nn.Module):
    """Equations (V1)-(V2): C_2 to C_5 -> F (B, W, height, width) at the size of C_2.

    Args:
        channels: of the stages that are read: all, or the last ones.
        width: W.
    """

    def __init__(self, channels: Sequence[int], width: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(_convolution(inputs, width, 1) for inputs in channels)
        self.fuse = _convolution(width, width, 3)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        levels: list[Tensor] = []
        for phi, map_ in zip(reversed(self.lateral), reversed(maps), strict=False):
            level = phi(map_)
            levels.append(level + enlarged(levels[-1], map_) if levels else level)  # (V1)
        return self.fuse(reduce(torch.add, [enlarged(level, maps[0]) for level in levels]))  # (V2)


def stages(backbone: BackboneNetwork, images: Tensor) -> list[Tensor]:
    """Return C_2 to C_5 of pixels of 0 to 255."""
    images = (images / 255 - backbone.mean) / backbone.deviation
    net: Any = backbone.net
    if not isinstance(net, nn.Sequential):
        return net.forward_intermediates(images, indices=4, intermediates_only=True)
    found: list[Tensor] = []
    for module in net[:-POOLING]:
        images = module(images)
        found += [images] if isinstance(module, nn.ReLU) else []
    return found


def enlarged(map_: Tensor, like: Tensor) -> Tensor:
    """Enlarge a map to another one's height and width."""
    if map_.shape[-2:] == like.shape[-2:]:
        return map_
    return F.interpolate(map_, size=like.shape[-2:], mode="bilinear", align_corners=False)


def _convolution(inputs: int, outputs: int, side: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, side, padding=side // 2), nn.BatchNorm2d(outputs), nn.ReLU())
