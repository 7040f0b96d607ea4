"""Inputs and outputs of recursions that read an image or a grid as a sequence of tokens (HRM, TRM).

    x = [sqrt(D) puzzle; sqrt(D) E[grey level]]     pixel tokens; E of deviation D^-1/2                  (1)
    x = [sqrt(D) puzzle; patch W]                   patch tokens, which are of unit size as they are     (2)
    x = [sqrt(D) puzzle; sqrt(D) E[token]]          cells                                                (7)
    x <- (x + sqrt(D) P) / sqrt(2)                  learned positions                                    (3)
    answer token = lm_head z_H[first image token]   `single_token`                                       (4)
    logits = W_c z_H[0]                             `multilabel`; one a pass where findings are asked    (5)
    halt, proceed = W_q z_H[0] + b_q                in float32, at first W_q = 0, b_q = (halt_bias, -5)  (6)
    logits of a cell = lm_head z_H[its token]       cells                                                (8)
    z_H, z_L ~ N(0, 1) at the start      `start` random (EqR), in training; at test and else one vector   (9)
    z_L <- z_L + noise N(0, 1)           before each segment in training (EqR)                            (10)
    x <- x + feedback sqrt(D) p E        cells; p = softmax(8) of z_H before the segment                  (11)

The puzzle embedding fills the prefix, padded with zeros. It is that of the finding in question (K passes over
an image, one per finding), of the patient, of the puzzle, or zero. It is initialised with zeros, so that a
patient or puzzle outside the training data has a zero embedding.

An image in halves is read from the left: the first `half_steps` supervision steps read the left half, and the
others the right half, with the same positions. The states are carried over or reset. The number of steps of
an image is part of its carry.

(9)-(11) follow descriptions of EqR (arXiv:2605.21488) and of readout feedback (arXiv:2608.24136); their exact
forms are recstudy's. A model with a single state gets the noise on that state.

The layers of HRM, TRM and the plain transformer, by the mixing of tokens. The layers have no biases, and the
norms have no scales:

    attention:    s <- rms(s + Attn(s)),       s <- rms(s + SwiGLU(s))                                  (L1)
    mlp:          s' <- rms(s' + SwiGLU(s')),  s <- rms(s + SwiGLU(s))                                  (L2)
                  with rms(s) = s / sqrt(mean(s^2) + 1e-5)

s' is s transposed. Its SwiGLU mixes the tokens of each dimension and needs no positions. Its rms is over the
tokens, not over the width, as in TRM's published code. The core of (L2) has the tokens as first dimension
(S, B, D): the mixing is then a product W s of two matrices without any transposition.

A plain transformer in place of a recursion has layers of (L1), each with its own weights, and no second
state. z_H starts at one truncated-normal vector, which is the same at every position and is not trained:

    z_H <- f(z_H + x)    once per segment                                                               (T1)

Shapes: B images, Q passes, S tokens, N of them cells, D width, K classes, V vocabulary.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from recstudy.recursive.config.parts import Shape
from recstudy.recursive.models.networks.contract import Carry, Network, Output
from recstudy.recursive.models.networks.layers import (
    PuzzleTable,
    QHead,
    RMSNorm,
    Rotary,
    Stack,
    SwiGLU,
    flat_patches,
    lecun_normal,
    rms,
    truncated_normal,
)
from recstudy.recursive.models.sequence import SequenceModel, Transformer, hidden_width


class SequenceCore(nn.Module):
    """A recursion over two states: it maps x and both states (B, S, D) to the states after one segment."""

    z_high: Tensor  # (D,) initial states
    z_low: Tensor

    def initialise(self, high_width: int, low_width: int) -> None:
        """Draw the initial weights and the initial states, which are not trained."""
        lecun_normal(self)
        for name, width in (("z_high", high_width), ("z_low", low_width)):
            self.register_buffer(name, truncated_normal(torch.empty(width), 1.0))

    def deepen(self, share: float) -> None:
        """See `Network.deepen`."""


class SequenceNetwork(Network):
    """The common part of `ImageNetwork` and `CellNetwork` around a recursion: Eqs. 3, 6, 9 and 10.

    Args:
        config: The model's settings.
        shape: Channels, height and width of an image or a grid.
        classes: Number of classes of the data.
        core: The recursion.
        embed: The embedding of a token.
        outputs: K or V, the number of outputs of the answer's head.
    """

    def __init__(
        self,
        config: SequenceModel,
        shape: Shape,
        classes: int,
        core: SequenceCore,
        embed: nn.Embedding | nn.Linear,
        outputs: int,
    ) -> None:
        super().__init__()
        self.config = config
        self.length, self.queries = config.length(shape), config.queries(classes)
        self.core = core
        self.embed = embed
        count, is_whole = config.puzzles(classes), config.identifiers <= 1
        self.puzzle = PuzzleTable(count, config.width, sparse=not is_whole) if count else None
        self.places = (
            nn.Parameter(torch.empty(self.length, config.width)) if config.positions == "learned" else None
        )
        self.answer = nn.Linear(config.width, outputs, bias=False)
        self.q_head = QHead(config.width, config.halt_bias)
        for weight in (self.embed.weight, self.answer.weight, self.places):
            if weight is not None:
                truncated_normal(weight, 1 / math.sqrt(weight.shape[1]))
        if self.puzzle is not None:
            nn.init.zeros_(self.puzzle.weight)

    @abstractmethod
    def tokens(self, images: Tensor) -> Tensor:
        """Return the embedded tokens (B, N, D) after the prefix."""

    @abstractmethod
    def logits(self, z_BQSD: Tensor) -> Tensor:
        """Return the answer's logits from z_H."""

    def start(self, images: Tensor, groups: Tensor | None = None) -> Carry:
        """Return z_H and z_L (B, Q, S, D), and of each image its number of steps (B,) and its group (B,).

        The group is the patient or the puzzle.
        """
        size = (len(images) * self.queries, self.length, -1)
        steps = torch.zeros(len(images), dtype=torch.int64, device=images.device)
        # An empty state has the strides that `forward` gives it, for which a graph is compiled.
        initial = (self.core.z_high, self.core.z_low)
        states = [z_D.expand(*size).unflatten(0, (len(images), -1)) for z_D in initial]
        if self.config.start == "random" and self.training:
            # Eq. 9: random initial states in training (EqR).
            states = [torch.randn_like(z_BQSD) for z_BQSD in states]
        # Not `steps` itself: a graph for one tensor in two places would not fit the next step.
        return *states, steps, torch.zeros_like(steps) if groups is None else groups

    def deepen(self, share: float) -> None:
        self.core.deepen(share)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        z_high_BQSD, z_low_BQSD, steps, groups = carry
        if self.config.noise and self.training and z_low_BQSD.numel():
            # Eq. 10: noise on the lower state in training (EqR).
            z_low_BQSD = z_low_BQSD + self.config.noise * torch.randn_like(z_low_BQSD)
        elif self.config.noise and self.training:
            z_high_BQSD = z_high_BQSD + self.config.noise * torch.randn_like(z_high_BQSD)
        # The sum of input and states has the precision of the states.
        x_BQSD = self.inputs(images, z_high_BQSD, groups).to(z_high_BQSD.dtype)
        states = [tensor.flatten(0, 1) for tensor in (x_BQSD, z_high_BQSD, z_low_BQSD)]
        new_states = in_chunks(self.segment, states, self.config.chunk)
        z_high_BQSD, z_low_BQSD = (z.unflatten(0, (len(images), -1)) for z in new_states)
        return self.read(z_high_BQSD), (z_high_BQSD, z_low_BQSD, steps + 1, groups)

    def segment(self, *states_BSD: Tensor) -> tuple[Tensor, ...]:
        """Return the states z_H and z_L after one segment, from x, z_H and z_L."""
        if self.config.mixing != "mlp":
            return self.core(*states_BSD)
        states_SBD = self.core(*(state.transpose(0, 1).contiguous() for state in states_BSD))
        return tuple(state.transpose(0, 1).contiguous() for state in states_SBD)

    def inputs(self, images: Tensor, z_BQSD: Tensor, groups: Tensor) -> Tensor:
        """Return x (B, Q, S, D) of a segment that starts with z_H; feedback reads it (Eq. 11)."""
        return self.sequence(images, groups)

    def sequence(self, images: Tensor, groups: Tensor) -> Tensor:
        """Return x (B, Q, S, D): the prefix and the tokens, with positions by Eq. 3."""
        width, scale = self.config.width, math.sqrt(self.config.width)
        # (B or 1, Q, D). It comes first, because a look-up splits a compiled graph.
        prefix = scale * self.prompt(groups)
        tokens_BND = self.tokens(images)
        empty = prefix.new_zeros(*prefix.shape[:2], self.config.prefix - 1, width)
        front = torch.cat([prefix[:, :, None], empty], dim=2).expand(len(images), -1, -1, -1)
        x_BQSD = torch.cat([front, tokens_BND[:, None].expand(-1, self.queries, -1, -1)], dim=2)
        return x_BQSD if self.places is None else (x_BQSD + scale * self.places) * math.sqrt(0.5)  # Eq. 3

    def prompt(self, groups: Tensor) -> Tensor:
        """Return the puzzle embedding of each pass (B, Q, D), or (1, Q, D) if all images share it."""
        if self.puzzle is None:
            return self.answer.weight.new_zeros(1, 1, self.config.width)
        if self.puzzle.sparse:
            return look_up(self.puzzle, groups)[:, None]
        return self.puzzle.weight[None]  # every batch reads all rows: those of the findings, or the only one

    def read(self, z_BQSD: Tensor) -> Output:
        """Return the answer and Eq. 6. The halting logits are means over the passes of an image."""
        q_BQ2 = self.q_head(z_BQSD[:, :, 0])  # Eq. 6
        halt, proceed = q_BQ2.mean(1).unbind(-1)
        return Output(self.logits(z_BQSD), halt, proceed if self.config.bootstraps else None)


class ImageNetwork(SequenceNetwork):
    """A recursion over the tokens of an image: Eqs. 1, 2, 4 and 5, and images in halves."""

    def __init__(self, config: SequenceModel, shape: Shape, classes: int, core: SequenceCore) -> None:
        embed: nn.Embedding | nn.Linear
        if config.tokens == "patch":
            embed = nn.Linear(shape[0] * config.patch**2, config.width, bias=False)
        else:
            embed = nn.Embedding(config.vocabulary, config.width)
        outputs = 1 if config.puzzle_emb == "pathology_query" else classes
        if config.head == "single_token":
            outputs = config.vocabulary
        super().__init__(config, shape, classes, core, embed, outputs)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        config = self.config
        if config.halves == "whole":
            return super().forward(images, carry)
        z_high_BQSD, z_low_BQSD, steps, groups = carry
        left, right = images.chunk(2, dim=3)
        half = torch.where((steps < config.half_steps).view(-1, 1, 1, 1), left, right)
        if config.halves == "no_carry":
            is_reset = (steps == config.half_steps).view(-1, 1, 1, 1)  # the first step on the right half
            z_high_BQSD = torch.where(is_reset, self.core.z_high.to(z_high_BQSD.dtype), z_high_BQSD)
            z_low_BQSD = torch.where(is_reset, self.core.z_low.to(z_low_BQSD.dtype), z_low_BQSD)
        return super().forward(half, (z_high_BQSD, z_low_BQSD, steps, groups))

    def tokens(self, images: Tensor) -> Tensor:
        """Return the tokens of an image, Eq. 1 or 2, (B, N, D)."""
        if self.config.tokens == "patch":
            return self.embed(flat_patches(images, self.config.patch))
        levels = images.long() * self.config.vocabulary // 256
        return math.sqrt(self.config.width) * self.embed(levels.flatten(1))  # Eq. 1

    def logits(self, z_BQSD: Tensor) -> Tensor:
        """Return the logits, Eq. 4 (B, V) or Eq. 5 (B, K)."""
        position = self.config.prefix if self.config.head == "single_token" else 0
        return self.answer(z_BQSD[:, :, position]).flatten(1)


class CellNetwork(SequenceNetwork):
    """A recursion over the cells of a puzzle: Eqs. 7, 8 and 11."""

    def __init__(self, config: SequenceModel, shape: Shape, classes: int, core: SequenceCore) -> None:
        super().__init__(config, shape, classes, core, nn.Embedding(classes, config.width), classes)

    def inputs(self, images: Tensor, z_BQSD: Tensor, groups: Tensor) -> Tensor:
        x_BQSD = super().inputs(images, z_BQSD, groups)
        if not self.config.feedback:
            return x_BQSD
        p_BNV = self.logits(z_BQSD).softmax(-1)
        answer_BND = math.sqrt(self.config.width) * p_BNV @ self.embed.weight
        answer_BSD = nn.functional.pad(answer_BND, (0, 0, self.config.prefix, 0))
        # Eq. 11: the current answer is fed back to the input.
        return x_BQSD + self.config.feedback * answer_BSD[:, None]

    def tokens(self, images: Tensor) -> Tensor:
        """Return the tokens of the cells, Eq. 7, (B, N, D)."""
        return math.sqrt(self.config.width) * self.embed(images.long().flatten(1))

    def logits(self, z_BQSD: Tensor) -> Tensor:
        """Return the logits of each cell, Eq. 8, (B, N, V)."""
        return self.answer(z_BQSD[:, 0, self.config.prefix :])


@torch.compiler.disable  # type: ignore[untyped-decorator]  # inductor (torch 2.15) cannot compile sparse gradients
def look_up(table: nn.Embedding, ids: Tensor) -> Tensor:
    """Look up rows of a table with sparse gradients, outside of a compiled graph."""
    return table(ids)


def in_chunks(
    segment: Callable[..., tuple[Tensor, ...]], states: list[Tensor], size: int
) -> tuple[Tensor, ...]:
    """Return the states after one segment, computed for `size` sequences at a time; 0 means all at once.

    The backward pass computes every chunk but the last again, so that one chunk's activations are in memory.
    The result and its gradient are those of all sequences at once, up to rounding.
    """
    if not size or size >= len(states[0]):
        return segment(*states)
    *chunks, last = zip(*(state.split(size) for state in states), strict=True)
    # Without a gradient there is no backward pass. Reentrant, because `counting.saved` sees these inputs.
    recomputed = partial(checkpoint, segment, use_reentrant=True, preserve_rng_state=False)
    run = recomputed if states[0].requires_grad else segment
    parts = [*(run(*chunk) for chunk in chunks), segment(*last)]
    return tuple(torch.cat(parts) for parts in zip(*parts, strict=True))


def make_layers(config: SequenceModel, length: int, count: int) -> nn.Module:
    """Return `count` layers, Eq. L1 or L2, for sequences of `length` tokens."""
    if config.mixing == "mlp":
        return nn.Sequential(*(MixLayer(config, length) for _ in range(count)))
    rotary = Rotary(length, config.width // config.heads) if config.positions == "rotary" else None
    return Stack(count, config.width, config.heads, config.hidden_width, rotary)  # Eq. L1


class MixLayer(nn.Module):
    """The layer of TRM-MLP, Eq. L2, on the sequences (S, B, D)."""

    def __init__(self, config: SequenceModel, length: int) -> None:
        super().__init__()
        self.mix = SwiGLU(length, hidden_width(length, config.expansion, config.multiple), bias=False)
        self.ffn = SwiGLU(config.width, config.hidden_width, bias=False)
        self.norm = RMSNorm(config.width, eps=1e-5, elementwise_affine=False)

    def forward(self, s_SBD: Tensor) -> Tensor:
        s_SBD = rms(s_SBD + self.mix.on_rows(s_SBD.flatten(1)).view_as(s_SBD), dim=0)  # over the tokens
        return self.norm(s_SBD + self.ffn(s_SBD)).to(s_SBD.dtype)


class TransformerCore(SequenceCore):
    """A plain transformer in place of a recursion, Eq. T1."""

    def __init__(self, config: Transformer, length: int) -> None:
        super().__init__()
        self.f = make_layers(config, length, config.layers)
        self.initialise(config.width, 0)

    def forward(self, x_BSD: Tensor, z_high_BSD: Tensor, z_low_BSD: Tensor) -> tuple[Tensor, Tensor]:
        return self.f(z_high_BSD + x_BSD), z_low_BSD  # Eq. T1; z_low is empty
