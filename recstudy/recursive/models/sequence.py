"""Settings of the models that read an image or a grid as tokens, and of the plain transformer.

HRM and TRM are in `hrm.py` and `trm.py`. Inputs, outputs and the transformer's layers are in
`networks/sequence.py`.
"""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, NonNegativeInt

from recstudy.base.errors import ConfigError
from recstudy.plugins import import_object
from recstudy.recursive.config.parts import (
    FAMILIES,
    Count,
    DataConfig,
    Depth,
    ModelConfig,
    Repeats,
    Shape,
    Weight,
)
from recstudy.recursive.config.tasks import TASKS

if TYPE_CHECKING:
    from torch import nn


class SequenceModel(ModelConfig):
    """Input, output and puzzle embeddings.

    Defaults: HRM-ChestXRay, which answers with one token about 8-bit pixels, without a puzzle embedding.
    """

    recursive: ClassVar = True
    halts: ClassVar = True
    casts_states: ClassVar = True
    outputs: ClassVar = ("image", "cells")

    tokens: Literal["pixel", "patch", "cell"] = "pixel"
    """tokens of the input: pixels, by their grey level; linear patches; or the cells of a puzzle, in which
    the answer is read too"""
    patch: Count = 4
    """side of a square patch, in pixels, with patch tokens"""
    vocabulary: int = Field(256, ge=2, le=256)
    """V: grey levels of a pixel, and tokens of an answer; puzzles have their own vocabulary"""
    width: int = Field(512, ge=2)
    """d: dimensions of a token"""
    heads: Count = 8
    """attention heads, of d / heads dimensions each, rounded down: 12 heads of 512 read 504"""
    expansion: Count = 4
    """the SwiGLU's hidden width is 2/3 x expansion x width, rounded up by `multiple`"""
    multiple: Count = 256
    """divisor of the hidden widths; 256 is large for a small width"""
    mixing: Literal["attention", "mlp"] = "attention"
    """how tokens mix: attention, or TRM-MLP's SwiGLU over the sequence, which needs no positions"""
    positions: Literal["rotary", "learned"] = "rotary"
    """position encoding of the tokens"""
    prefix: Repeats = 1
    """positions before the image, filled with the puzzle embedding or zeros"""
    head: Literal["single_token", "multilabel"] = "single_token"
    """output: a token of the vocabulary (HRM-ChestXRay), or one logit per class for multilabel data"""
    puzzle_emb: Literal["none", "pathology_query", "patient", "puzzle"] = "none"
    """content of the prefix: nothing; the finding in question, with one pass per finding; the patient; or the
    puzzle"""
    identifiers: NonNegativeInt = 0
    """rows of the puzzle table: at least the number of patients or puzzles"""
    halt_bias: float = -5.0
    """initial bias of the halting head, the logit of a correct answer"""
    start: Literal["fixed", "random"] = "fixed"
    """initial states: one vector at every position; or, in training, Gaussian noise for each puzzle and
    position (EqR), and that vector at test"""
    noise: Weight = 0.0
    """standard deviation of Gaussian noise on the lower state before each training segment"""
    feedback: float = 0.0
    """puzzles: weight of the current answer, which each segment adds to its input"""
    halves: Literal["whole", "carry", "no_carry"] = "whole"
    """how the image is read: whole; or the left half before the right half, with the states carried over or
    reset"""
    half_steps: Repeats = 1
    """supervision steps on the left half"""
    half_loss: Literal["last", "both"] = "last"
    """with halves: whether only the answer after the right half has a loss, or both"""
    chunk: NonNegativeInt = 0
    """sequences whose activations are in memory at a time, of the images of a batch and of the passes of an
    image; the backward pass computes the others again; 0: all sequences"""

    @property
    def reads_pixels(self) -> bool:
        return self.tokens == "pixel"

    @property
    def unseen_steps(self) -> int:
        return 0 if self.halves == "whole" else self.half_steps

    @property
    def silent_steps(self) -> int:
        return self.unseen_steps if self.half_loss == "last" else 0

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        core = import_object(self.network)(self, self.length(shape))
        kind = "CellNetwork" if self.tokens == "cell" else "ImageNetwork"
        return import_object(f"recstudy.recursive.models.networks.sequence:{kind}")(
            self, shape, classes, core
        )

    def queries(self, classes: int) -> int:
        """Return the number of passes of an image: one, or one per finding in question."""
        return classes if self.puzzle_emb == "pathology_query" else 1

    def puzzles(self, classes: int) -> int:
        """Return the number of rows of the puzzle table."""
        return classes if self.puzzle_emb == "pathology_query" else self.identifiers

    def length(self, shape: Shape) -> int:
        """Return S, the number of tokens of the prefix and of the image or half image."""
        side = self.patch if self.tokens == "patch" else 1
        halves = 1 if self.halves == "whole" else 2
        return self.prefix + shape[1] * shape[2] // side**2 // halves

    @property
    def hidden_width(self) -> int:
        return hidden_width(self.width, self.expansion, self.multiple)

    def check(self, data: DataConfig) -> None:
        cells = TASKS[data.task].output == "cells"
        if self.feedback and not cells:
            raise ValueError(
                f"model.feedback must be 0 for {data.title} ({data.task}), whose answers are no inputs"
            )
        if (self.tokens == "cell") != cells:
            requirement = "must be 'cell'" if cells else "must be 'pixel' or 'patch'"
            raise ValueError(
                f"model.tokens {requirement} for {data.title} ({data.task}), but got {self.tokens!r}"
            )
        self._check_shapes(data.shape)
        if cells and self.halves != "whole":
            raise ValueError(f"model.halves must be 'whole' for {data.title}, because it has puzzles")
        if cells and self.puzzle_emb in ("pathology_query", "patient"):
            raise ValueError(
                f"model.puzzle_emb must be 'none' or 'puzzle' for {data.title}, but got {self.puzzle_emb!r}"
            )
        if cells:
            return
        if (self.head == "multilabel") != (data.task == "multilabel"):
            requirement = "multilabel" if data.task == "multilabel" else "single_token"
            raise ValueError(
                f"model.head must be {requirement!r} for {data.title} ({data.task}), but got {self.head!r}"
            )
        if self.head == "single_token" and self.vocabulary < data.classes:
            raise ValueError(
                f"model.vocabulary must be at least {data.classes}, the number of classes of {data.title},"
                f" but got {self.vocabulary}"
            )

    @property
    def rotates(self) -> bool:
        return self.positions == "rotary" and self.mixing == "attention"

    def check_groups(self, count: int, data: str) -> None:
        if self.puzzle_emb not in ("patient", "puzzle"):
            return
        if not count and self.puzzle_emb == "patient":
            raise ConfigError(
                f"model.puzzle_emb must not be 'patient' for {data}, which does not name the patients"
            )
        if self.identifiers < count:
            raise ConfigError(
                f"model.identifiers must be at least {count:,}, the number of {self.puzzle_emb}s of {data},"
                f" but got {self.identifiers:,}"
            )

    def _check_shapes(self, shape: Shape) -> None:
        if self.puzzle_emb == "pathology_query" and self.head == "single_token":
            raise ValueError(
                "model.puzzle_emb 'pathology_query' with model.head 'single_token' leaks the label: the"
                " finding's id at the input is the answer (HRM-ChestXRay-3). Use model.head 'multilabel',"
                " which asks about each finding in turn"
            )
        if (self.puzzle_emb in ("patient", "puzzle")) != (self.identifiers > 0):
            raise ValueError(
                "model.identifiers must be the number of patients or puzzles with model.puzzle_emb 'patient'"
                f" or 'puzzle', and 0 otherwise, but got {self.identifiers} with {self.puzzle_emb!r}"
            )
        head_width = self.width // self.heads
        if not head_width or head_width % 2:  # rotary positions rotate pairs
            raise ValueError(
                "model.width // model.heads, a head's dimensions, must be even and not 0, but got"
                f" {self.width} // {self.heads} = {head_width}"
            )
        height, width = shape[1], shape[2] if self.halves == "whole" else shape[2] // 2
        if self.halves != "whole" and shape[2] % 2:
            raise ValueError(
                f"model.halves must be 'whole' for images with an odd width, but got {shape[2]} pixels"
            )
        if self.tokens == "patch" and (height % self.patch or width % self.patch):
            raise ValueError(
                f"model.patch must divide the {height}x{width} pixels of the image or half image, but got"
                f" {self.patch}"
            )
        if self.tokens == "pixel" and shape[0] != 1:
            raise ValueError(
                f"model.tokens must be 'patch' for images with {shape[0]} channels, because a pixel token is"
                " one grey level"
            )


@FAMILIES.add("transformer")
class Transformer(SequenceModel):
    """Direct prediction: one pass through layers of HRM's kind (27 M parameters by default).

    With several supervision steps, it is the transformer in HRM's outer loop that ARC Prize compared HRM
    with.
    """

    network: ClassVar = "recstudy.recursive.models.networks.sequence:TransformerCore"

    family: Literal["transformer"] = "transformer"
    layers: Depth = 8
    """layers, each with its own weights"""


def hidden_width(width: int, expansion: int, multiple: int = 256) -> int:
    """Return 2/3 x expansion x width, rounded up to a multiple of `multiple`: a width of 512 gives 1,536."""
    return -(-round(expansion * width * 2 / 3) // multiple) * multiple
