"""Models that read an image or a grid as a sequence of tokens: HRM, TRM and the plain transformer: what can
be set.

What goes in and out, and the transformer's layers, stand in `networks/sequence.py`, the recursions in
`networks/hrm.py` (HRM, and its chest X-ray form HRM-ChestXRay) and `networks/trm.py`.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field

from recstudy.config import FAMILIES, DataConfig, ModelConfig, Shape
from recstudy.errors import ConfigError
from recstudy.metrics import TASKS
from recstudy.plugins import named
from recstudy.programs.settings import Range

if TYPE_CHECKING:
    from torch import nn


class SequenceModel(ModelConfig):
    """Input, output and puzzle embeddings. Defaults: a one-token answer about 8-bit pixels, no embedding
    (HRM-ChestXRay).
    """

    recursive: ClassVar[bool] = True
    halts: ClassVar[bool] = True
    outputs: ClassVar[tuple[str, ...]] = ("image", "cells")

    tokens: Literal["pixel", "patch", "cell"] = Field(
        "pixel",
        description=(
            "a token a pixel, by its grey level; a linear patch each; or, of puzzles, a cell each, in which"
            " an answer is read as well, from the tokens of the data"
        ),
    )
    patch: int = Field(4, ge=1, description="side of a square patch, in pixels, with patch tokens")
    vocabulary: int = Field(
        256,
        ge=2,
        le=256,
        description="V: grey levels of a pixel, and tokens an answer is chosen from; puzzles have their own",
    )
    width: int = Field(512, ge=2, description="d: dimensions of a token")
    heads: int = Field(
        8, ge=1, description="attention heads, of d / heads dimensions each, rounded down: 12 of 512 read 504"
    )
    expansion: int = Field(
        4, ge=1, description="the SwiGLU's hidden width is 2/3 of so many widths, rounded up by `multiple`"
    )
    multiple: int = Field(
        256, ge=1, description="hidden widths are multiples of it; 256 is large for a small width"
    )
    mixing: Literal["attention", "mlp"] = Field(
        "attention",
        description=(
            "how tokens mix; 'mlp' is TRM-MLP's SwiGLU over the sequence, which knows places by itself"
        ),
    )
    positions: Literal["rotary", "learned"] = Field("rotary", description="how a token knows its place")
    prefix: int = Field(
        1,
        ge=1,
        le=64,
        description="positions in front of the image, filled by the puzzle embedding or by zeros",
    )
    head: Literal["single_token", "multilabel"] = Field(
        "single_token",
        description=(
            "the class is a token of the vocabulary (HRM-ChestXRay), or one logit a class for data of several"
            " labels"
        ),
    )
    puzzle_emb: Literal["none", "pathology_query", "patient", "puzzle"] = Field(
        "none",
        description=(
            "what the prefix knows: nothing; which finding is asked for, one pass a finding; whose image it"
            " is; or which puzzle it is"
        ),
    )
    identifiers: int = Field(
        0, ge=0, description="rows of the puzzle table: at least the patients or puzzles of the data"
    )
    halt_bias: float = Field(
        -5.0, description="of the halting head at the start: the logit of an answer that is right"
    )
    start: Literal["fixed", "random"] = Field(
        "fixed",
        description=(
            "where states start: at one vector, the same everywhere; or, in training, at Gaussian ones, drawn"
            " anew for each puzzle and place (EqR), and at test at that vector"
        ),
    )
    noise: float = Field(
        0.0,
        ge=0,
        description="of the Gaussian noise on the lower state before each segment in training, the deviation",
    )
    feedback: float = Field(
        0.0, description="puzzles: how much of the answer so far each segment reads beside the input"
    )
    halves: Literal["whole", "carry", "no_carry"] = Field(
        "whole",
        description=(
            "read the image whole; or its left half, then its right half, with the states carried over or"
            " started anew"
        ),
    )
    half_steps: int = Field(1, ge=1, le=64, description="supervision steps on the left half")
    half_loss: Literal["last", "both"] = Field(
        "last", description="with halves: train the answer after the right one, or each"
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
        core = named(self.network)(self, self.length(shape))
        kind = "CellNetwork" if self.tokens == "cell" else "ImageNetwork"
        return named(f"recstudy.models.networks.sequence:{kind}")(self, shape, classes, core)

    def queries(self, classes: int) -> int:
        """Return how many passes an image takes: one, or one a finding that is asked for."""
        return classes if self.puzzle_emb == "pathology_query" else 1

    def puzzles(self, classes: int) -> int:
        """Return how many rows the puzzle table has."""
        return classes if self.puzzle_emb == "pathology_query" else self.identifiers

    def length(self, shape: Shape) -> int:
        """Return S, the tokens of the image, or of a half, and of the prefix."""
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
                f"model.feedback must be 0 for {data.title} ({data.task}): an answer is no input there"
            )
        if (self.tokens == "cell") != cells:
            wanted = "must be 'cell'" if cells else "must be 'pixel' or 'patch'"
            raise ValueError(f"model.tokens {wanted} for {data.title} ({data.task}), but got {self.tokens!r}")
        self._check_shapes(data.shape)
        if cells and self.halves != "whole":
            raise ValueError(f"model.halves must be 'whole' for {data.title}: a puzzle is read whole")
        if cells and self.puzzle_emb in ("pathology_query", "patient"):
            raise ValueError(
                f"model.puzzle_emb must be 'none' or 'puzzle' for {data.title}, but got {self.puzzle_emb!r}"
            )
        if cells:
            return
        if (self.head == "multilabel") != (data.task == "multilabel"):
            wanted = "multilabel" if data.task == "multilabel" else "single_token"
            raise ValueError(
                f"model.head must be {wanted!r} for {data.title} ({data.task}), but got {self.head!r}"
            )
        if self.head == "single_token" and self.vocabulary < data.classes:
            raise ValueError(
                f"model.vocabulary must hold a token for each of the {data.classes} classes of {data.title}, "
                f"but got {self.vocabulary}"
            )

    def check_groups(self, count: int, data: str) -> None:
        if self.puzzle_emb not in ("patient", "puzzle"):
            return
        if not count and self.puzzle_emb == "patient":
            raise ConfigError(f"model.puzzle_emb must not be 'patient' for {data}, which names no patients")
        if self.identifiers < count:
            raise ConfigError(
                f"model.identifiers must be at least {count:,}, the {self.puzzle_emb}s of {data}, but got"
                f" {self.identifiers:,}"
            )

    def _check_shapes(self, shape: Shape) -> None:
        if self.puzzle_emb == "pathology_query" and self.head == "single_token":
            raise ValueError(
                "model.puzzle_emb 'pathology_query' with model.head 'single_token' leaks the label: the"
                " finding's id at the input is the answer (001-3). Use model.head 'multilabel', which asks"
                " about each finding in turn"
            )
        if (self.puzzle_emb in ("patient", "puzzle")) != (self.identifiers > 0):
            raise ValueError(
                "model.identifiers must be the number of patients or puzzles with model.puzzle_emb 'patient'"
                f" or 'puzzle', and 0 otherwise, but got {self.identifiers} with {self.puzzle_emb!r}"
            )
        if not (own := self.width // self.heads) or own % 2:
            given = f"{self.width} // {self.heads} = {own}"
            raise ValueError(
                f"model.width // model.heads, a head's dimensions, must be even and not 0, but got {given}"
            )
        height, width = shape[1], shape[2] if self.halves == "whole" else shape[2] // 2
        if self.halves != "whole" and shape[2] % 2:
            raise ValueError(
                f"model.halves must be 'whole' for images {shape[2]} pixels wide, which have no middle"
            )
        if self.tokens == "patch" and (height % self.patch or width % self.patch):
            raise ValueError(
                f"model.patch must divide the {height}x{width} pixels that are read at once, but got"
                f" {self.patch}"
            )
        if self.tokens == "pixel" and shape[0] != 1:
            raise ValueError(
                f"model.tokens must be 'patch' for images of {shape[0]} channels: a grey level is one token"
            )


@FAMILIES.add("transformer")
class Transformer(SequenceModel):
    """One pass through `layers` layers of HRM's kind (27 M parameters with the defaults): what the papers
    call direct prediction.

    With several supervision steps it is the transformer in HRM's outer loop, which ARC Prize compared HRM
    with.
    """

    network: ClassVar[str] = "recstudy.models.networks.sequence:TransformerCore"

    family: Literal["transformer"] = "transformer"
    layers: int = Field(8, ge=1, le=48, description="layers, each with its own weights")


@FAMILIES.add("hrm")
class HRM(SequenceModel):
    """HRM v1. Defaults: the published net (27,262,976 parameters of the core) on 8-bit pixels
    (27,526,146).
    """

    network: ClassVar[str] = "recstudy.models.networks.hrm:HRMCore"
    bootstraps: ClassVar[bool] = True

    family: Literal["hrm"] = "hrm"
    high_layers: Annotated[int, Range(1, 6)] = Field(4, ge=1, le=48, description="layers of f_H")
    low_layers: Annotated[int, Range(1, 6)] = Field(4, ge=1, le=48, description="layers of f_L")
    high_cycles: Annotated[int, Range(1, 4)] = Field(2, ge=1, le=64, description="N: H-updates a segment")
    low_cycles: Annotated[int, Range(1, 4)] = Field(
        2, ge=1, le=64, description="T: L-updates before each H-update"
    )
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "one_step",
        description=(
            "through the last L- and the last H-update (the paper); the last high cycle; every update"
        ),
    )

    def counts(self, shape: Shape, classes: int) -> dict[str, int]:
        """Return parameters by part, as the arithmetic of HRM-ChestXRay asks for them; `core` is both
        modules.
        """
        length, inner = self.length(shape), self.width // self.heads * self.heads
        mixing = (
            3 * length * hidden_width(length, self.expansion, self.multiple)
            if self.mixing == "mlp"
            else 4 * self.width * inner
        )
        layer = mixing + 3 * self.width * self.hidden_width
        inputs = {"pixel": self.vocabulary, "patch": shape[0] * self.patch**2, "cell": classes}[self.tokens]
        outputs = (
            self.vocabulary
            if self.head == "single_token"
            else 1
            if self.puzzle_emb == "pathology_query"
            else classes
        )
        outputs = classes if self.tokens == "cell" else outputs
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
    """TRM. Defaults: the published net for Sudoku (6,815,744 parameters of the core with attention), on 8-bit
    pixels.
    """

    network: ClassVar[str] = "recstudy.models.networks.trm:TRMCore"

    family: Literal["trm"] = "trm"
    prefix: int = Field(
        16,
        ge=1,
        le=64,
        description="positions in front of the image, of which the puzzle embedding fills one",
    )
    layers: Annotated[int, Range(1, 4)] = Field(2, ge=1, le=48, description="layers of the one net")
    cycles: Annotated[int, Range(1, 4)] = Field(3, ge=1, le=64, description="T: cycles a segment")
    latent_steps: Annotated[int, Range(1, 8)] = Field(
        6, ge=1, le=64, description="n: z-updates a cycle; 6 for Sudoku, 4 for ARC and mazes"
    )
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "last_cycle",
        description="through the last cycle (the code); every update; the last z- and the last y-update",
    )

    networks: Literal[1, 2] = Field(
        1, description="one net for z and y, or one each, as HRM has (TRM, Table 1)"
    )
    states: Literal["answer and latent", "single", "multi-scale"] = Field(
        "answer and latent",
        description=(
            "y and z; one state that is both; or y and a z of its own for each of the n updates (Table 2)"
        ),
    )
    act: Literal["halt only", "continue"] = Field(
        "halt only",
        description=(
            "what the halting head learns: whether the answer is right; also HRM's value of going on"
            " (Table 1)"
        ),
    )
    curriculum: Literal["none", "thirds"] = Field(
        "none",
        description=(
            "recursion deepens in training: T and n are a third of theirs, from 30 % of the updates on two"
            " thirds, from 60 % on whole (CGAR)"
        ),
    )

    @property
    def bootstraps(self) -> bool:
        return self.act == "continue"

    @property
    def stages(self) -> tuple[tuple[float, Self], ...]:
        if self.curriculum == "none":
            return super().stages
        thirds = [self.model_copy(update={"cycles": -(-self.cycles * k // 3), "latent_steps": -(-self.latent_steps * k // 3)})
                  for k in (1, 2, 3)]  # fmt: skip
        return tuple(zip((0.3, 0.3, 0.4), thirds, strict=True))

    @property
    def revised(self) -> int:
        """One more for `mlp`, whose norm after mixing ran over the width, and for `single`, whose last update
        read the image.
        """
        return self.revision + (self.mixing == "mlp") + (self.states == "single")


def hidden_width(width: int, expansion: int, multiple: int = 256) -> int:
    """Return two thirds of `expansion` widths, rounded up to a multiple of 256 (HRM, TRM) or less: 512 gives
    1,536.
    """
    return -(-round(expansion * width * 2 / 3) // multiple) * multiple


def parameter_growth(old: HRM, new: HRM, old_shape: Shape, new_shape: Shape) -> dict[str, float]:
    """Count the quantities of `001_parameter_arithmetic` (HRM-ChestXRay, section 3): parameters, tokens,
    growth in percent.

    The growth is over the old size in whole millions, as the paper has it (27 M). The puzzle table is left
    out of every count, as there (HRM-ChestXRay-5).
    """
    before, after = old.counts(old_shape, old.vocabulary), new.counts(new_shape, new.vocabulary)
    size = sum(before.values()) - before["puzzle"]
    more = after["embedding"] + after["head"] - before["embedding"] - before["head"]
    length = new.length(new_shape) - new.prefix
    return {
        "hidden_size": new.width,
        "vocab_old": old.vocabulary,
        "vocab_new": new.vocabulary,
        "seq_len_old": old.length(old_shape) - old.prefix,
        "seq_len_new": length,
        "seq_len_patch": length // 2,
        "embed_old": before["embedding"],
        "embed_new": after["embedding"],
        "lm_head_old": before["head"],
        "lm_head_new": after["head"],
        "total_increase": more,
        "total_increase_exact": more,
        "growth_percent": 100 * more / (round(size / 1e6) * 1e6),
        "params_model": size,
    }
