"""Sudokus drawn by a program: digits in a grid of boxes, of which few are given and all are asked for."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from recstudy.config import DATASETS, Shape
from recstudy.data.decoded import Decoded
from recstudy.data.puzzles import Puzzles
from recstudy.data.reader import Reader

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

    from recstudy.data.images import Labels

BOXES = {4: (2, 2), 6: (2, 3), 9: (3, 3)}  # rows and columns of a box, by the side of the grid
BLANK = 1
DIGITS = 2  # digit d is token d + 1


class Sudokus(Puzzles):
    """What all sets of Sudokus share: tokens (PAD, blank, digits), rules and symmetries. Their side is that of `shape`.

    The symmetries: digits, bands, rows within bands, stacks, columns within stacks, and rows with columns where boxes are square.
    """

    @property
    def classes(self) -> int:
        return DIGITS + self.shape[1]

    @property
    def class_names(self) -> tuple[str, ...]:
        return "PAD", "blank", *map(str, range(1, self.shape[1] + 1))

    @property
    def symbols(self) -> tuple[str, ...]:
        return " ", ".", *self.class_names[DIGITS:]

    @property
    def spelled(self) -> tuple[str, ...]:
        return ".0", *self.class_names[DIGITS:]

    @property
    def boxes(self) -> tuple[int, int]:
        return BOXES[self.shape[1]]

    @property
    def draws(self) -> int:
        return sum(self._parts)

    @property
    def _parts(self) -> list[int]:
        """How many numbers each kind of symmetry takes."""
        side, (tall, wide) = self.shape[1], self.boxes
        return [side // tall, side, side // wide, side, side, 1]

    def symmetry(self, draws: "Tensor") -> "tuple[Tensor, Tensor]":
        import torch

        side, (tall, wide) = self.shape[1], self.boxes
        bands, rows, stacks, columns, digits, across = draws.split(self._parts, 1)
        source = side * _order(bands, rows)[:, :, None] + _order(stacks, columns)[:, None]
        if tall == wide:
            source = torch.where(across[:, :, None] < 0.5, source.mT, source)
        own = torch.arange(DIGITS, device=draws.device).expand(len(draws), -1)
        return source.flatten(1), torch.cat([own, DIGITS + digits.argsort(1)], 1)

    def lawful(self, given: "npt.NDArray[Any]", answers: "npt.NDArray[Any]") -> "Labels":
        import numpy as np

        side, (tall, wide) = self.shape[1], self.boxes
        rows = answers.reshape(-1, side, side)
        boxes = rows.reshape(-1, side // tall, tall, side // wide, wide).swapaxes(2, 3).reshape(rows.shape)
        units = np.sort(np.concatenate([rows, rows.swapaxes(1, 2), boxes], 1), 2)
        once = (units == np.arange(DIGITS, DIGITS + side)).all((1, 2))
        return np.asarray(once & ((given == BLANK) | (given == answers)).all(1), np.int64)

    def solutions(self, given: "npt.NDArray[Any]") -> int:
        from recstudy.data.sudoku_making import boards, solutions

        side = self.shape[1]
        free = boards([max(token - DIGITS, -1) for token in given.tolist()], side)
        return len(list(islice(solutions(free, side), 2)))


def _order(blocks: "Tensor", lines: "Tensor") -> "Tensor":
    """(B, side): lines in new places, by numbers (B, blocks) that order whole blocks and (B, side) that order lines in them."""
    size = lines.shape[1] // blocks.shape[1]
    within = lines.unflatten(1, (-1, size)).argsort(2)
    return (size * blocks.argsort(1)[:, :, None] + within).flatten(1)


@DATASETS.add("sudoku")
class Sudoku(Sudokus):
    """Sudokus of 4x4, 6x6 or 9x9 cells, each with one solution, drawn by a program: synthetic.

    Two grids are of one class where a symmetry turns one into the other: augmentation shows them all. No class is in both train
    and test. Of the 49 classes of 6x6, one in five tests, and validation holds out whole ones too; no two 9x9 grids here are of
    one class. Draw no conclusions from 4x4: its 288 grids are of two classes, one of which trains and one tests, so
    validation holds out puzzles of the class that trains.
    """

    synthetic: ClassVar[bool] = True

    name: Literal["sudoku"] = "sudoku"
    side: Literal[4, 6, 9] = Field(6, description="cells; boxes are 2x2, 2 rows x 3 columns, 3x3")
    puzzles: int = Field(1000, ge=16, description="that train, those for validation among them")
    test_puzzles: int = Field(500, ge=16)
    givens: int | None = Field(
        None,
        ge=1,
        description="cells that stay given, or more; by default as few as leave one solution when emptied in a random order",
    )
    drawing_seed: int = Field(0, ge=0, description="draws the puzzles, and the classes that test")

    @model_validator(mode="after")
    def _something_is_asked(self) -> Self:
        if self.givens is not None and self.givens >= self.cells:
            raise ValueError(f"givens < {self.cells} must hold on {self.side}x{self.side} cells, but got {self.givens}")
        return self

    @property
    def title(self) -> str:
        return f"Sudoku {self.side}x{self.side} (synthetic)"

    @property
    def shape(self) -> Shape:
        return (1, self.side, self.side)

    @property
    def train_size(self) -> int:
        return self.puzzles

    def reader(self) -> "SudokuReader":
        return SudokuReader(self)


class SudokuReader(Reader):
    """Reads no file."""

    ignores = frozenset(Puzzles.model_fields)

    def sources(self, folder: Path) -> Sequence[str]:
        return ()

    def program(self) -> Sequence[str | int]:
        from recstudy.data import sudoku_making

        return "sudoku", sudoku_making.DRAWING

    def decode(self, folder: Path) -> Decoded:
        from recstudy.data.sudoku_making import make_set

        return make_set(self.config)
