"""Writing a caption token by token: what captioners share, and what goes in and out of a recursive one (000).

    E_v = W_v V                               V: features of the image; with `image_norm` E_v / rms(E_v)      (1)
    x_t = sqrt(D) E[token t] + E_v            at every token; E of deviation D^-1/2                           (2)
    logits_t = W_o z_t                        z: the highest state; what comes after tokens 0 to t            (3)
    halt, proceed = W_q r + b_q               in float32, W_q = 0 and b_q = -5 at the start                   (4)
    r = mean of z_t over tokens that are not PAD, or z at the last of them (`halt_read`)                      (5)
    x_t = W_f f_t                             in place of (2): FuseLIP's feature of the image and the caption so far   (7)
    layer: s <- rms(s + Attn(s)),  s <- rms(s + SwiGLU(s)),  as in HRM, but every attention is causal         (6)

By (6) nothing at a token depends on a later one, in any update of any supervision step, and each state starts as one
vector that is the same at every place. So a longer sequence leaves all that was computed as it is, and the next token
needs the keys and values of the earlier ones and nothing else, in FuseLIP's encoder too: decoding with a cache is exact.
Only f_t of the mode `leaky` depends on what follows; there every token is computed anew for each one that is written.

Shapes: B captions, T tokens, D width, F features, V vocabulary.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.config import PAD
from recstudy.models.backbone import CaptionModel
from recstudy.models.image_hrm import RecursiveCaptionModel
from recstudy.models.networks.backbones import BackboneNetwork
from recstudy.models.networks.contract import Carry, Network, Output
from recstudy.models.networks.fuselip import FuseLIPNetwork, Injection
from recstudy.models.networks.layers import Attention, Past, PostNorm, Rotary, Stack, SwiGLU, lecun_normal, truncated_normal
from recstudy.models.sequence import hidden_width

Cache = tuple[Tensor, ...]  # what `Captioner.next` hands on, each with the batch first


class Captioner(Network):
    """A network that gives, at every token of a caption, the logits of the next one."""

    def start(self, images: Tensor, tokens: Tensor | None = None) -> Carry:
        """Return the tokens (B, T), which begin with BOS; a recursion adds the states before the first supervision step.

        Args:
            images: pixels of 0 to 255 (B, 3, H, W); a frozen backbone's features (B, F), or (B, P, F) of the places of a grid,
                where the config `reads_features`.
            tokens: int64 ids.
        """
        assert tokens is not None, "a captioner starts with tokens"
        return (tokens,)

    @abstractmethod
    def next(self, images: Tensor, tokens: Tensor, steps: int, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        """Return the logits (B, V) of the token that follows, after `steps` supervision steps, and what makes the next cheap.

        Args:
            images: as in `start`; not looked at with a cache.
            tokens: (B, T) int64, all of them.
            cache: of the call with the same tokens but the last.
        """


def reorder(cache: Cache, rows: Tensor) -> Cache:
    """Return the cache of the captions `rows`, which may repeat."""
    return tuple(part.index_select(0, rows) for part in cache)


class PlainCaptioner(Captioner):
    """A captioner without a recursion over supervision steps: it reads a caption from left to right, once."""

    answer: nn.Module  # (B, T, D) -> (B, T, V)

    @abstractmethod
    def begin(self, images: Tensor) -> Cache:
        """Return what the first token is read with."""

    @abstractmethod
    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Return states (B, T, D) of the tokens that follow those of the cache, and what the next are read with. With a cache
        of `begin` any number may follow, later one a call."""

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        z_BTD, _ = self.read(carry[0], self.begin(images))
        return Output(self.answer(z_BTD)), carry

    def next(self, images: Tensor, tokens: Tensor, steps: int, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        new, cache = (tokens, self.begin(images)) if cache is None else (tokens[:, -1:], cache)
        z_BTD, cache = self.read(new, cache)
        return self.answer(z_BTD[:, -1]), cache


class CaptionCore(Protocol):
    """A causal recursion over states of the caption, of which the last is read: one segment."""

    def start(self, x_BTD: Tensor) -> Sequence[Tensor]: ...

    def __call__(self, x_BTD: Tensor, states: Sequence[Tensor], past: Past | None = None) -> Sequence[Tensor]: ...


class VisionProjection(nn.Module):
    """Equation (1): images (B, 3, H, W) or features (B, F) -> (B, D); on a grid (B, P, F) -> (B, P, D)."""

    kept = 0  # tensors of the tokens before: it sees none

    def __init__(self, config: CaptionModel, width: int, bias: bool, norm: bool = False) -> None:
        super().__init__()
        self.backbone = BackboneNetwork(config.backbone, config.weights, config.grid) if config.tuned else None
        self.project = nn.Linear(config.features, width, bias=bias)
        self.norm = norm
        lecun_normal(self.project)

    def forward(self, images: Tensor) -> Tensor:
        features = images if self.backbone is None else self.backbone(images)
        e = self.project(features)
        return F.rms_norm(e, e.shape[-1:], eps=1e-5) if self.norm else e


class FusedProjection(nn.Module):
    """Equation (7): codes (B, K) and tokens -> (B, T, D). The encoder is frozen; its weights come from its own training."""

    def __init__(self, config: CaptionModel, width: int) -> None:
        super().__init__()
        assert config.fuselip is not None
        self.injection = Injection(FuseLIPNetwork(config.fuselip.aligner.encoder), config.fuselip.mode).requires_grad_(False)
        self.project = nn.Linear(config.features, width, bias=False)
        lecun_normal(self.project)
        self.scale = math.sqrt(config.features) if config.fuselip.mode == "image_only" else 1.0  # from length 1 to unit size

    @property
    def kept(self) -> int:
        """Tensors that the past of `fused` holds."""
        return self.injection.kept

    def forward(self, images: Tensor) -> Tensor:
        """Return what is looked at with the tokens."""
        with torch.no_grad():
            return self.injection.see(images.long())

    def fused(self, seen: Tensor, tokens: Tensor, first: int = 0, past: Past | None = None) -> Tensor:
        """Return (B, T - first, D): of the tokens from `first` on, which with a past must be the last."""
        with torch.no_grad():
            f_BTW = self.injection(seen, tokens, past)[:, first - tokens.shape[1] :]
        return self.project(self.scale * f_BTW)


class RecursiveCaptioner(Captioner):
    """Equations (1)-(5) around a core."""

    core: CaptionCore

    def __init__(self, config: RecursiveCaptionModel, classes: int, core: nn.Module) -> None:
        super().__init__()
        self.config = config
        width, norm = config.width, config.image_norm
        self.eyes = FusedProjection(config, width) if config.fuselip else VisionProjection(config, width, bias=False, norm=norm)
        fused = config.fuselip is not None and config.fuselip.mode != "image_only"
        self.embed = None if fused else nn.Embedding(classes, config.width)
        self.core = core  # type: ignore[assignment]
        self.answer = nn.Linear(config.width, classes, bias=False)
        self.q_head = nn.Linear(config.width, 2)
        truncated_normal(self.answer.weight, 1 / math.sqrt(config.width))
        if self.embed is not None:
            truncated_normal(self.embed.weight, 1 / math.sqrt(config.width))
        nn.init.zeros_(self.q_head.weight)
        nn.init.constant_(self.q_head.bias, -5.0)

    def start(self, images: Tensor, tokens: Tensor | None = None) -> Carry:
        (tokens,) = super().start(images, tokens)
        return tokens, *self.core.start(self.answer.weight.new_empty(*tokens.shape, self.config.width))

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        tokens, *states = carry
        states = list(self.core(self.inputs(self.eyes(images), tokens), states))
        return self.read(states[-1], tokens), (tokens, *states)

    def next(self, images: Tensor, tokens: Tensor, steps: int, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        seen, *kept = cache if cache is not None else (self.eyes(images),)
        told, past = Past(tuple(kept[: self.eyes.kept])), Past(tuple(kept[self.eyes.kept :]))
        x_BTD = self.inputs(seen, tokens, past.length, told)
        states = self.core.start(x_BTD)
        for _ in range(steps):
            states = self.core(x_BTD, states, past)
        return self.answer(states[-1][:, -1]), (seen,) if self.config.leaks else (seen, *told.now, *past.now)

    def inputs(self, seen: Tensor, tokens: Tensor, first: int = 0, past: Past | None = None) -> Tensor:
        """Equation (2), or (7), of the tokens from `first` on; `past` is that of the encoder in (7)."""
        words = 0 if self.embed is None else math.sqrt(self.config.width) * self.embed(tokens[:, first:])
        if isinstance(self.eyes, FusedProjection):
            return words + self.eyes.fused(seen, tokens, first, past)
        return words + seen[:, None]

    def read(self, z_BTD: Tensor, tokens: Tensor) -> Output:
        """Give what equations (3)-(5) say."""
        valid_BT = tokens != PAD
        if self.config.halt_read == "mean":
            r_BD = (z_BTD.float() * valid_BT[..., None]).sum(1) / valid_BT.sum(1, keepdim=True).clamp(min=1)
        else:
            r_BD = z_BTD[torch.arange(len(tokens), device=tokens.device), valid_BT.sum(1).clamp(min=1) - 1].float()
        q_B2 = (r_BD[:, None] * self.q_head.weight).sum(-1) + self.q_head.bias  # float32 under autocast too
        halt, proceed = q_B2.unbind(-1)
        return Output(self.answer(z_BTD), halt, proceed if self.config.bootstraps else None)


def make_stack(config: RecursiveCaptionModel, layers: int, rotary: Rotary) -> Stack:
    """Make layers of equation (6)."""
    made = []
    for _ in range(layers):
        attention = Attention(config.width, config.heads, qkv_bias=False, out_bias=False, rotary=rotary, causal=True)
        ffn = SwiGLU(config.width, hidden_width(config.width, config.expansion), bias=False)
        made.append(PostNorm(attention, ffn, config.width, eps=1e-5, scale=False))
    return Stack(made)
