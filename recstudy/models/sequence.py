"""Models that read an image as a sequence of tokens (HRM, TRM): what they share in what can be set."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from recstudy.config import DataConfig, ModelConfig, Shape
from recstudy.errors import ConfigError
from recstudy.plugins import named

if TYPE_CHECKING:
    from torch import nn


class SequenceModel(ModelConfig):
    """Input, output and puzzle embeddings. Defaults: a one-token answer about 8-bit pixels, no embedding (001)."""

    recursive: ClassVar[bool] = True
    halts: ClassVar[bool] = True

    tokens: Literal["pixel", "patch"] = Field("pixel", description="a token a pixel, by its grey level, or a linear patch each")
    patch: int = Field(4, ge=1, description="side of a square patch, in pixels, with patch tokens")
    vocabulary: int = Field(256, ge=2, le=256, description="V: grey levels of a pixel, and tokens an answer is chosen from")
    width: int = Field(512, ge=2, description="d: dimensions of a token")
    heads: int = Field(8, ge=1, description="attention heads")
    expansion: int = Field(4, ge=1, description="the SwiGLU's hidden width is 2/3 of so many widths, rounded up to 256s")
    positions: Literal["rotary", "learned"] = Field("rotary", description="how a token knows its place")
    prefix: int = Field(1, ge=1, le=64, description="positions in front of the image, filled by the puzzle embedding or by zeros")
    head: Literal["single_token", "multilabel"] = Field(
        "single_token",
        description="the class is a token of the vocabulary (001 as written), or one logit a class for data of several labels",
    )
    puzzle_emb: Literal["none", "pathology_query", "patient"] = Field(
        "none",
        description="what the prefix knows: nothing; which finding is asked for, one pass a finding; or whose image it is",
    )
    identifiers: int = Field(0, ge=0, description="rows of the puzzle table with 'patient': at least the patients of the data")
    halves: Literal["whole", "carry", "no_carry"] = Field(
        "whole",
        description="read the image whole; or its left half, then its right half, with the states carried over or started anew",
    )
    half_steps: int = Field(1, ge=1, le=64, description="supervision steps on the left half")
    half_loss: Literal["last", "both"] = Field("last", description="with halves: train the answer after the right one, or each")

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
        return named("recstudy.models.networks.sequence:SequenceNetwork")(self, shape, classes, core)

    def queries(self, classes: int) -> int:
        """Passes an image: one, or one a finding that is asked for."""
        return classes if self.puzzle_emb == "pathology_query" else 1

    def puzzles(self, classes: int) -> int:
        """Rows of the puzzle table."""
        return {"none": 0, "pathology_query": classes, "patient": self.identifiers}[self.puzzle_emb]

    def length(self, shape: Shape) -> int:
        """S: tokens of the image, or of a half, and of the prefix."""
        side = 1 if self.tokens == "pixel" else self.patch
        halves = 1 if self.halves == "whole" else 2
        return self.prefix + shape[1] * shape[2] // side**2 // halves

    @property
    def hidden_width(self) -> int:
        return hidden_width(self.width, self.expansion)

    def check(self, data: DataConfig) -> None:
        self._check_shapes(data.shape)
        if (self.head == "multilabel") != (data.task == "multilabel"):
            wanted = "multilabel" if data.task == "multilabel" else "single_token"
            raise ValueError(f"model.head must be {wanted!r} for {data.title} ({data.task}), but got {self.head!r}")
        if self.head == "single_token" and self.vocabulary < data.classes:
            raise ValueError(
                f"model.vocabulary must hold a token for each of the {data.classes} classes of {data.title}, "
                f"but got {self.vocabulary}"
            )

    def check_groups(self, count: int, data: str) -> None:
        if self.puzzle_emb != "patient":
            return
        if not count:
            raise ConfigError(f"model.puzzle_emb must not be 'patient' for {data}, which names no patients")
        if self.identifiers < count:
            raise ConfigError(
                f"model.identifiers must be at least {count:,}, the patients of {data}, but got {self.identifiers:,}"
            )

    def _check_shapes(self, shape: Shape) -> None:
        if self.puzzle_emb == "pathology_query" and self.head == "single_token":
            raise ValueError(
                "model.puzzle_emb 'pathology_query' with model.head 'single_token' leaks the label: the finding's id at the "
                "input is the answer (001-3). Use model.head 'multilabel', which asks about each finding in turn"
            )
        if (self.puzzle_emb == "patient") != (self.identifiers > 0):
            raise ValueError(
                "model.identifiers must be the number of patients with model.puzzle_emb 'patient' and 0 otherwise, "
                f"but got {self.identifiers} with {self.puzzle_emb!r}"
            )
        if self.width % self.heads or self.width // self.heads % 2:
            raise ValueError(f"model.width must be an even multiple of model.heads, but got {self.width} and {self.heads}")
        height, width = shape[1], shape[2] if self.halves == "whole" else shape[2] // 2
        if self.halves != "whole" and shape[2] % 2:
            raise ValueError(f"model.halves must be 'whole' for images {shape[2]} pixels wide, which have no middle")
        if self.tokens == "patch" and (height % self.patch or width % self.patch):
            raise ValueError(f"model.patch must divide the {height}x{width} pixels that are read at once, but got {self.patch}")
        if self.tokens == "pixel" and shape[0] != 1:
            raise ValueError(f"model.tokens must be 'patch' for images of {shape[0]} channels: a grey level is one token")


def hidden_width(width: int, expansion: int) -> int:
    """Two thirds of `expansion` widths, rounded up to a multiple of 256 (HRM, TRM): 512 gives 1,536."""
    return -(-round(expansion * width * 2 / 3) // 256) * 256
