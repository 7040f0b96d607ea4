"""ImageHRM and ImageTRM: recursions over the states of a caption.

ImageHRM has one transformer per level; higher levels are slower. It has two or three levels, or any number.

    z_L <- f_L(z_L + TD_L + x)      C_L times                                                             (1)
    z_M <- f_M(z_M + TD_M + z_L)    once; (1)-(2) are one middle cycle, C_M of them                       (2)
    z_H <- f_H(z_H + z_M)           once; (1)-(3) are one high cycle, C_H of them a segment               (3)
    TD_L, TD_M = 0, 0               `literal`: Algorithm 1 as printed (contradiction ImageHRM/ImageTRM-8) (4)
                 z_M, z_H           `chain`: as in the paper's text
                 z_M + z_H, z_H     `full`

Without a middle level, (2) is left out, z_L takes the place of z_M in (3), and TD_L = z_H: this is HRM's
loop. As in HRM, each state starts at one truncated-normal vector, which is initialised with the weights and
not trained. In the paper's gradient mode, everything before the last update of each level runs without
gradient.

ImageTRM has one small network, which updates the caption's answer y and its latent z repeatedly.

    z <- f(z + y + x)     n times                                                  (T1)
    y <- f(y + z)         once; (T1)-(T2) are one cycle, T of them a segment       (T2)

This is ImageHRM's loop with two levels and the same f in both. The paper trains it through every update;
TRM's code runs the first T-1 cycles without gradient (contradiction ImageHRM/ImageTRM-9).

Inputs and outputs of both recursions; E_v is (4) of `caption.py`, RMS-normalised with `image_norm`:

    x_t = sqrt(D) E[token t] + E_v            at every token; E has the standard deviation D^-1/2         (C1)
    logits_t = W_o z_t                        for the token after tokens 0 to t; z: the highest state     (C2)
    halt, proceed = W_q r + b_q               in float32; initial W_q = 0 and b_q = -5                    (C3)
    r = mean of z_t over tokens other than PAD, or z at the last of them (`halt_read`)                    (C4)
    x_t = W_f f_t                             in place of (C1), with FuseLIP                              (C5)
    layer: s <- rms(s + Attn(s)),  s <- rms(s + SwiGLU(s)),  as in HRM, but with causal attention         (C6)

f_t is FuseLIP's feature of the image and the caption so far (`fuselip.py`).

By (C6), nothing at a token depends on a later token in any update of any supervision step, and each state
starts at one vector for all positions. A longer sequence therefore does not change earlier results: the next
token only needs the keys and values of the earlier ones, also in FuseLIP's encoder, and decoding with a cache
is exact. Only f_t of the mode `leaky` depends on later tokens; there, every token is computed again for each
new one.

Shapes: B captions, T tokens, D width, F features, V vocabulary.
"""

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from recstudy.recursive.config.parts import PAD, Shape
from recstudy.recursive.models.caption import LONGEST, CaptionModel
from recstudy.recursive.models.image_hrm import ImageHRM, ImageTRM, RecursiveCaptionModel
from recstudy.recursive.models.networks.caption import Cache, Captioner, VisionProjection
from recstudy.recursive.models.networks.contract import Carry, Output
from recstudy.recursive.models.networks.fuselip import FuseLIPNetwork, Injection
from recstudy.recursive.models.networks.layers import (
    Past,
    QHead,
    Rotary,
    Stack,
    lecun_normal,
    truncated_normal,
)
from recstudy.recursive.models.networks.recursion import TopDown, nested, schedule
from recstudy.recursive.models.sequence import hidden_width


class FusedProjection(nn.Module):
    """The projection of FuseLIP's features, Eq. C5: codes (B, K) and tokens -> (B, T, D).

    The encoder starts with the weights of its alignment. Its head for masked tokens and its contrastive scale
    are not used and not trained.
    """

    def __init__(self, config: CaptionModel, width: int) -> None:
        super().__init__()
        assert config.fuselip is not None
        encoder = FuseLIPNetwork(config.fuselip.aligner.encoder).requires_grad_(False)
        for part in (encoder.embed, encoder.layers, encoder.norm):
            part.requires_grad_(config.tuned)
        encoder.places.requires_grad_(config.tuned)
        self.injection = Injection(encoder, config.fuselip.mode)
        self.project = nn.Linear(config.features, width, bias=False)
        lecun_normal(self.project)
        # A feature of length 1 gets a root mean square of 1.
        self.scale = math.sqrt(config.features) if config.fuselip.mode == "image_only" else 1.0

    @property
    def cache_size(self) -> int:
        """The number of cached tensors in the past of `fused`."""
        return self.injection.cache_size

    def forward(self, images: Tensor) -> Tensor:
        """Return the part of the image that `fused` reads."""
        return self.injection.see(images.long())

    def fused(self, image: Tensor, tokens: Tensor, first: int = 0, past: Past | None = None) -> Tensor:
        """Return the features (B, T - first, D) of the tokens from `first` on.

        With a past, `first` must be the last token.
        """
        return self.project(self.scale * self.injection(image, tokens, past)[:, first - tokens.shape[1] :])


class RecursiveCaptioner(Captioner):
    """Inputs and outputs around a recursion: Eqs. C1 to C5, and Eq. 4 of `caption.py`."""

    def __init__(self, config: RecursiveCaptionModel, classes: int, core: "LevelsCore") -> None:
        super().__init__()
        self.config = config
        width, norm = config.width, config.image_norm
        self.eyes = (
            FusedProjection(config, width)
            if config.fuselip
            else VisionProjection(config, width, bias=False, norm=norm)
        )
        fused = config.fuselip is not None and config.fuselip.mode != "image_only"
        self.embed = None if fused else nn.Embedding(classes, config.width)
        self.core = core
        self.answer = nn.Linear(config.width, classes, bias=False)
        self.q_head = QHead(config.width)
        truncated_normal(self.answer.weight, 1 / math.sqrt(config.width))
        if self.embed is not None:
            truncated_normal(self.embed.weight, 1 / math.sqrt(config.width))

    def start(self, images: Tensor, tokens: Tensor | None = None) -> Carry:
        (tokens,) = super().start(images, tokens)
        return tokens, *self.core.start(self.answer.weight.new_empty(*tokens.shape, self.config.width))

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        tokens, *states = carry
        states = list(self.core(self.inputs(self.eyes(images), tokens), states))
        return self.read(states[-1], tokens), (tokens, *states)

    def next(
        self, images: Tensor, tokens: Tensor, steps: int, cache: Cache | None = None
    ) -> tuple[Tensor, Cache]:
        # The cache: the image, keys and values of FuseLIP's encoder, then those of the recursion.
        image, *keys_values = cache if cache is not None else (self.eyes(images),)
        size = self.eyes.cache_size
        encoder_past, past = Past(tuple(keys_values[:size])), Past(tuple(keys_values[size:]))
        x_BTD = self.inputs(image, tokens, past.length, encoder_past)
        states = self.core.start(x_BTD)
        for _ in range(steps):
            states = self.core(x_BTD, states, past)
        logits_BV = self.answer(states[-1][:, -1])  # Eq. C2
        if self.config.leaks:  # later tokens change earlier ones, so only the image is cached
            return logits_BV, (image,)
        return logits_BV, (image, *encoder_past.new_cache, *past.new_cache)

    def inputs(self, image: Tensor, tokens: Tensor, first: int = 0, past: Past | None = None) -> Tensor:
        """Return x of the tokens from `first` on, Eq. C1 or C5; `past` is that of the encoder in (C5)."""
        words = 0 if self.embed is None else math.sqrt(self.config.width) * self.embed(tokens[:, first:])
        if isinstance(self.eyes, FusedProjection):
            # Eq. C5: FuseLIP's feature has read the image and the tokens.
            return words + self.eyes.fused(image, tokens, first, past)
        return words + image[:, None]  # Eq. C1

    def read(self, z_BTD: Tensor, tokens: Tensor) -> Output:
        """Return the output, Eqs. C2 to C4."""
        valid_BT = tokens != PAD
        counts_B = valid_BT.sum(1).clamp(min=1)
        if self.config.halt_read == "mean":
            # Eq. C4: the mean over the tokens, without PAD.
            r_BD = (z_BTD.float() * valid_BT[..., None]).sum(1) / counts_B[:, None]
        else:
            r_BD = z_BTD[torch.arange(len(tokens), device=tokens.device), counts_B - 1]
        halt, proceed = self.q_head(r_BD).unbind(-1)  # Eq. C3
        return Output(self.answer(z_BTD), halt, proceed if self.config.bootstraps else None)


def make_stack(config: RecursiveCaptionModel, layers: int, rotary: Rotary) -> Stack:
    """Return a stack of causal layers, Eq. C6."""
    hidden = hidden_width(config.width, config.expansion)
    return Stack(layers, config.width, config.heads, hidden, rotary, causal=True)


class LevelsCore(nn.Module):
    """The recursion of ImageHRM, Eqs. 1 to 4, or of ImageTRM, Eqs. T1 and T2.

    Args:
        config: The model's settings.
        f: The stack of each level, the lowest first; or one stack for all levels.
        cycles: The number of cycles of each level, the lowest first.
        top_down: The input of a level from higher levels, Eq. 4.
    """

    starts: Tensor  # (levels, D)

    def __init__(
        self, config: ImageHRM | ImageTRM, f: nn.Module, cycles: Sequence[int], top_down: TopDown
    ) -> None:
        super().__init__()
        self.config, self.f, self.top_down = config, f, top_down
        self.turns = tuple(schedule(cycles))
        lecun_normal(self)
        self.register_buffer("starts", truncated_normal(torch.empty(len(cycles), config.width), 1.0))

    def start(self, x_BTD: Tensor) -> tuple[Tensor, ...]:
        return tuple(start_D.expand_as(x_BTD) for start_D in self.starts)

    def forward(
        self, x_BTD: Tensor, states: Sequence[Tensor], past: Past | None = None
    ) -> tuple[Tensor, ...]:
        stacks = self.f.values() if isinstance(self.f, nn.ModuleDict) else [self.f] * len(states)
        updates = [partial(stack, past=past) for stack in stacks]
        return nested(updates, self.turns, x_BTD, states, self.top_down, self.config.gradient)


def image_hrm(config: ImageHRM, shape: Shape, classes: int) -> RecursiveCaptioner:
    rotary = Rotary(LONGEST, config.width // config.heads)
    f = nn.ModuleDict(
        {name: make_stack(config, layers, rotary) for name, (_, layers) in config.levels.items()}
    )
    core = LevelsCore(config, f, [cycles for cycles, _ in config.levels.values()], config.top_down)
    return RecursiveCaptioner(config, classes, core)


def image_trm(config: ImageTRM, shape: Shape, classes: int) -> RecursiveCaptioner:
    f = make_stack(config, config.layers, Rotary(LONGEST, config.width // config.heads))
    return RecursiveCaptioner(
        config, classes, LevelsCore(config, f, [config.latent_steps, config.cycles], "chain")
    )
