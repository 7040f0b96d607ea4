"""Drawn boards on which each further step of reasoning answers harder images, for quick presets, demonstrations and tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from recstudy.config import DATASETS, DataConfig, Shape
from recstudy.data.decoded import Decoded
from recstudy.data.reader import Reader

if TYPE_CHECKING:
    from recstudy.data.images import Labels

COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255)}
DOMINO = 6  # pixels a side


@DATASETS.add("dominoes")
class Dominoes(DataConfig):
    """10,000 + 2,000 generated boards: which colour ends the chain that begins at the marked domino? Synthetic.

    A domino has a sign of its own in its upper half, and in its lower half the sign of the domino that comes next, or, where a
    chain ends, one of two colours. All chains end in a colour, and each of the two has one.
    From the mark it is `least_steps` to `most_steps` steps, each number equally often: the level of an image. Every step is by
    the same rule, which a weight-tied recursion can repeat.
    """

    synthetic: ClassVar[bool] = True
    title: ClassVar[str] = "Dominoes (synthetic)"
    classes: ClassVar[int] = len(COLOURS)
    class_names: ClassVar[tuple[str, ...]] = tuple(COLOURS)
    train_size: ClassVar[int | None] = 10_000

    name: Literal["dominoes"] = "dominoes"
    columns: int = Field(3, ge=3, le=9, description="of the board, which has two rows; a domino is 6x6 pixels, for one patch")
    least_steps: int = Field(0, ge=0, description="from the marked domino to the colour")
    most_steps: int = Field(3, ge=0)
    noise: float = Field(0.0, ge=0, lt=0.5, description="share of the pixels that are inverted, so that signs are misread")
    drawing_seed: int = Field(0, ge=0, description="draws the boards")

    @model_validator(mode="after")
    def _chains_fit(self) -> Self:
        most = 2 * self.columns - len(COLOURS) - 1  # one more leads to the other colour
        if not self.least_steps <= self.most_steps <= most:
            raise ValueError(
                f"least_steps <= most_steps <= {most} must hold on {2 * self.columns} dominoes, but got {self.least_steps} and "
                f"{self.most_steps}"
            )
        return self

    @property
    def shape(self) -> Shape:
        return (3, 2 * DOMINO, self.columns * DOMINO)

    def levels(self, rows: "Labels") -> "Labels":
        return self.least_steps + rows % (self.most_steps - self.least_steps + 1)

    def reader(self) -> "DominoesReader":
        return DominoesReader(self)


class DominoesReader(Reader):
    """Reads no file."""

    def sources(self, folder: Path) -> Sequence[str]:
        return ()

    def program(self) -> Sequence[str | int]:
        from recstudy.data import dominoes_drawing

        return "dominoes", dominoes_drawing.DRAWING

    def decode(self, folder: Path) -> Decoded:
        from recstudy.data.dominoes_drawing import draw_set

        return draw_set(self.config)
