"""Settings of the models that read an image or a grid as tokens: HRM, TRM and the plain transformer.

Inputs, outputs and the transformer's layers are in `networks/sequence.py`. The recursions are in
`networks/hrm.py` (HRM, and its form for chest X-rays, HRM-ChestXRay) and `networks/trm.py`.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field

from recstudy.base.errors import ConfigError
from recstudy.plugins import import_object
from recstudy.programs.settings import Range
from recstudy.recursive.config.parts import FAMILIES, DataConfig, ModelConfig, Shape
from recstudy.recursive.config.tasks import TASKS

if TYPE_CHECKING:
    from torch import nn


class SequenceModel(ModelConfig):
    """Input, output and puzzle embeddings.

    Defaults: HRM-ChestXRay, which answers with one token about 8-bit pixels, without a puzzle embedding.
    """

    recursive: ClassVar[bool] = True
    halts: ClassVar[bool] = True
    outputs: ClassVar[tuple[str, ...]] = ("image", "cells")

    tokens: Literal["pixel", "patch", "cell"] = Field(
        "pixel",
        description=(
            "tokens of the input: pixels, by their grey level; linear patches; or the cells of a puzzle, in"
            " which the answer is read too"
        ),
    )
    patch: int = Field(4, ge=1, description="side of a square patch, in pixels, with patch tokens")
    vocabulary: int = Field(
        256,
        ge=2,
        le=256,
        description="V: grey levels of a pixel, and tokens of an answer; puzzles have their own vocabulary",
    )
    width: int = Field(512, ge=2, description="d: dimensions of a token")
    heads: int = Field(
        8,
        ge=1,
        description="attention heads, of d / heads dimensions each, rounded down: 12 heads of 512 read 504",
    )
    expansion: int = Field(
        4,
        ge=1,
        description="the SwiGLU's hidden width is 2/3 x expansion x width, rounded up by `multiple`",
    )
    multiple: int = Field(
        256, ge=1, description="divisor of the hidden widths; 256 is large for a small width"
    )
    mixing: Literal["attention", "mlp"] = Field(
        "attention",
        description=(
            "how tokens mix: attention, or TRM-MLP's SwiGLU over the sequence, which needs no positions"
        ),
    )
    positions: Literal["rotary", "learned"] = Field("rotary", description="position encoding of the tokens")
    prefix: int = Field(
        1,
        ge=1,
        le=64,
        description="positions before the image, filled with the puzzle embedding or zeros",
    )
    head: Literal["single_token", "multilabel"] = Field(
        "single_token",
        description=(
            "output: a token of the vocabulary (HRM-ChestXRay), or one logit per class for multilabel data"
        ),
    )
    puzzle_emb: Literal["none", "pathology_query", "patient", "puzzle"] = Field(
        "none",
        description=(
            "content of the prefix: nothing; the finding in question, with one pass per finding; the patient;"
            " or the puzzle"
        ),
    )
    identifiers: int = Field(
        0, ge=0, description="rows of the puzzle table: at least the number of patients or puzzles"
    )
    halt_bias: float = Field(
        -5.0, description="initial bias of the halting head, the logit of a correct answer"
    )
    start: Literal["fixed", "random"] = Field(
        "fixed",
        description=(
            "initial states: one vector at every position; or, in training, Gaussian noise for each puzzle"
            " and position (EqR), and that vector at test"
        ),
    )
    noise: float = Field(
        0.0,
        ge=0,
        description="standard deviation of Gaussian noise on the lower state before each training segment",
    )
    feedback: float = Field(
        0.0, description="puzzles: weight of the current answer, which each segment adds to its input"
    )
    halves: Literal["whole", "carry", "no_carry"] = Field(
        "whole",
        description=(
            "how the image is read: whole; or the left half before the right half, with the states carried"
            " over or reset"
        ),
    )
    half_steps: int = Field(1, ge=1, le=64, description="supervision steps on the left half")
    half_loss: Literal["last", "both"] = Field(
        "last", description="with halves: whether only the answer after the right half has a loss, or both"
    )

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

    network: ClassVar[str] = "recstudy.recursive.models.networks.sequence:TransformerCore"

    family: Literal["transformer"] = "transformer"
    layers: int = Field(8, ge=1, le=48, description="layers, each with its own weights")


@FAMILIES.add("hrm")
class HRM(SequenceModel):
    """HRM v1. Defaults: the published network, on 8-bit pixels.

    The core has 27,262,976 parameters, and the whole network has 27,526,146.
    """

    network: ClassVar[str] = "recstudy.recursive.models.networks.hrm:HRMCore"
    bootstraps: ClassVar[bool] = True

    family: Literal["hrm"] = "hrm"
    high_layers: Annotated[int, Range(1, 6)] = Field(4, ge=1, le=48, description="layers of f_H")
    low_layers: Annotated[int, Range(1, 6)] = Field(4, ge=1, le=48, description="layers of f_L")
    high_cycles: Annotated[int, Range(1, 4)] = Field(2, ge=1, le=64, description="N: H-updates per segment")
    low_cycles: Annotated[int, Range(1, 4)] = Field(
        2, ge=1, le=64, description="T: L-updates before each H-update"
    )
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "one_step",
        description=(
            "updates with gradient: the last L- and the last H-update (paper); those of the last high cycle;"
            " or all"
        ),
    )

    def counts(self, shape: Shape, classes: int) -> dict[str, int]:
        """Return the number of parameters of each part; `core` is both modules (HRM-ChestXRay, section 3)."""
        length, inner = self.length(shape), self.width // self.heads * self.heads
        if self.mixing == "mlp":
            mixing = 3 * length * hidden_width(length, self.expansion, self.multiple)  # SwiGLU: u, g, down
        else:
            mixing = 4 * self.width * inner  # q, k, v, out
        layer = mixing + 3 * self.width * self.hidden_width
        inputs = {"pixel": self.vocabulary, "patch": shape[0] * self.patch**2, "cell": classes}[self.tokens]
        if self.tokens == "cell":
            outputs = classes
        elif self.head == "single_token":
            outputs = self.vocabulary
        else:
            outputs = 1 if self.puzzle_emb == "pathology_query" else classes
        return {
            "core": (self.high_layers + self.low_layers) * layer,
            "embedding": inputs * self.width,
            "head": outputs * self.width,
            "q_head": 2 * self.width + 2,
            "puzzle": self.puzzles(classes) * self.width,
            "positions": length * self.width if self.positions == "learned" else 0,
        }


@FAMILIES.add("trm")
class TRM(SequenceModel):
    """TRM. Defaults: the published network for Sudoku, on 8-bit pixels.

    With attention, the core has 6,815,744 parameters.
    """

    network: ClassVar[str] = "recstudy.recursive.models.networks.trm:TRMCore"

    family: Literal["trm"] = "trm"
    prefix: int = Field(
        16,
        ge=1,
        le=64,
        description="positions before the image, of which the puzzle embedding fills one",
    )
    layers: Annotated[int, Range(1, 4)] = Field(2, ge=1, le=48, description="layers of the network")
    cycles: Annotated[int, Range(1, 4)] = Field(3, ge=1, le=64, description="T: cycles per segment")
    latent_steps: Annotated[int, Range(1, 8)] = Field(
        6, ge=1, le=64, description="n: z-updates per cycle; 6 for Sudoku, 4 for ARC and mazes"
    )
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "last_cycle",
        description=(
            "updates with gradient: those of the last cycle (the authors' code); all; or the last z- and the"
            " last y-update"
        ),
    )

    networks: Literal[1, 2] = Field(
        1, description="one network for z and y, or one for each, as in HRM (TRM, Table 1)"
    )
    states: Literal["answer and latent", "single", "multi-scale"] = Field(
        "answer and latent",
        description=(
            "states: y and z; a single state; or y and a separate z for each of the n updates (TRM, Table 2)"
        ),
    )
    act: Literal["halt only", "continue"] = Field(
        "halt only",
        description=(
            "what the halting head learns: whether the answer is correct; or also HRM's value of continuing"
            " (TRM, Table 1)"
        ),
    )
    curriculum: Literal["none", "thirds"] = Field(
        "none",
        description=(
            "depth curriculum: T and n are a third of their values in the first 30 % of the updates, two"
            " thirds up to 60 %, and full after that (CGAR)"
        ),
    )

    @property
    def bootstraps(self) -> bool:
        return self.act == "continue"

    @property
    def stages(self) -> tuple[tuple[float, Self], ...]:
        if self.curriculum == "none":
            return super().stages
        # CGAR: T and n are a third of their values, rounded up, then two thirds, then whole.
        thirds = []
        for k in (1, 2, 3):
            depth = {"cycles": -(-self.cycles * k // 3), "latent_steps": -(-self.latent_steps * k // 3)}
            thirds.append(self.model_copy(update=depth))
        return tuple(zip((0.3, 0.3, 0.4), thirds, strict=True))

    @property
    def revised(self) -> int:
        """The revision of what this model computes, which is part of the run id."""
        # In revision 1, the norm after the mixing of `mlp` was over the width, and the last update of
        # `single` read the image.
        return self.revision + (self.mixing == "mlp") + (self.states == "single")


def hidden_width(width: int, expansion: int, multiple: int = 256) -> int:
    """Return 2/3 x expansion x width, rounded up to a multiple of `multiple`: a width of 512 gives 1,536."""
    return -(-round(expansion * width * 2 / 3) // multiple) * multiple


def parameter_growth(old: HRM, new: HRM, old_shape: Shape, new_shape: Shape) -> dict[str, float]:
    """Return the parameters, tokens and growth of `001_parameter_arithmetic` (HRM-ChestXRay, section 3).

    Args:
        old: The original model.
        new: The enlarged model.
        old_shape: The image shape of the old model.
        new_shape: The image shape of the new model.
    """
    # As in the paper: the growth in percent refers to the old size in whole millions (27 M), and the puzzle
    # table is left out of every count (HRM-ChestXRay-5).

    old_counts, new_counts = old.counts(old_shape, old.vocabulary), new.counts(new_shape, new.vocabulary)
    size = sum(old_counts.values()) - old_counts["puzzle"]
    increase = new_counts["embedding"] + new_counts["head"] - old_counts["embedding"] - old_counts["head"]
    length = new.length(new_shape) - new.prefix
    return {
        "hidden_size": new.width,
        "vocab_old": old.vocabulary,
        "vocab_new": new.vocabulary,
        "seq_len_old": old.length(old_shape) - old.prefix,
        "seq_len_new": length,
        "seq_len_patch": length // 2,
        "embed_old": old_counts["embedding"],
        "embed_new": new_counts["embedding"],
        "lm_head_old": old_counts["head"],
        "lm_head_new": new_counts["head"],
        "total_increase": increase,
        "total_increase_exact": increase,
        "growth_percent": 100 * increase / (round(size / 1e6) * 1e6),
        "params_model": size,
    }
