"""Mazes drawn by a program: walls, a start, a goal, and the one shortest path between them to be marked."""

from collections.abc import Sequence
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

    from recstudy.data.images import Labels, Mask

WALL, SPACE, START, GOAL, PATH = range(1, 6)


class Mazes(Puzzles):
    """What all sets of square mazes share: tokens (PAD, `#`, space, `S`, `G`, `o`), rules, and the symmetries of a square.

    A path goes from cell to cell upwards, downwards or sideways. Every cell of the answer is asked for, walls too.
    """

    classes: ClassVar[int] = 6
    class_names: ClassVar[tuple[str, ...]] = ("PAD", "wall", "space", "start", "goal", "path")
    symbols: ClassVar[tuple[str, ...]] = (" ", "#", " ", "S", "G", "o")
    spelled: ClassVar[tuple[str, ...]] = tuple("# SGo")
    colours: ClassVar[tuple[str, ...]] = ("#FFFFFF", "#3A424B", "#FFFFFF", "#009E73", "#D55E00", "#56B4E9")
    draws: ClassVar[int] = 1

    def symmetry(self, draws: "Tensor") -> "tuple[Tensor, Tensor]":
        import torch

        cells = torch.arange(self.cells, device=draws.device).view(self.shape[1:])
        eight = torch.stack([one.rot90(turns).flatten() for one in (cells, cells.mT) for turns in range(4)])
        return eight[(8 * draws[:, 0]).long()], torch.arange(self.classes, device=draws.device).expand(len(draws), -1)

    def lawful(self, given: "npt.NDArray[Any]", answers: "npt.NDArray[Any]") -> "Labels":
        import numpy as np

        kept = (np.where(answers == PATH, SPACE, answers) == given).all(1)
        mazes, marked = given.reshape(-1, *self.shape[1:]), (answers == PATH).reshape(-1, *self.shape[1:])
        start, goal = mazes == START, mazes == GOAL
        shortest, along = _steps(mazes > WALL, start, goal), _steps(marked | start | goal, start, goal)
        return np.asarray(kept & (along == shortest) & (marked.sum((1, 2)) == shortest - 1), np.int64)


def _steps(free: "Mask", start: "Mask", goal: "Mask") -> "Labels":
    """(N,) from the start to the goal over free cells, all (N, rows, columns); 0 where there is no way."""
    import numpy as np

    steps, reached, before = np.zeros(len(free), np.int64), start, 0
    while before < (count := int(reached.sum())):
        steps += ~(reached & goal).any((1, 2))
        around = np.pad(reached, ((0, 0), (1, 1), (1, 1)))
        spread = around[:, 2:, 1:-1] | around[:, :-2, 1:-1] | around[:, 1:-1, 2:] | around[:, 1:-1, :-2]
        reached, before = reached | free & spread, count
    return np.where((reached & goal).any((1, 2)), steps, 0)


@DATASETS.add("maze")
class Maze(Mazes):
    """Square mazes, each with one shortest path, drawn by a program: synthetic.

    Rooms stand at every other cell, so that sides are odd; the edge is a wall. A random tree joins all rooms, `openings` make
    detours. No two mazes have the same walls, nor walls that a symmetry makes the same: train, validation and test share none.
    """

    synthetic: ClassVar[bool] = True

    name: Literal["maze"] = "maze"
    side: int = Field(9, ge=5, le=61, description="cells, odd: rooms and the walls between them")
    puzzles: int = Field(1000, ge=16, description="that train, those for validation among them")
    test_puzzles: int = Field(500, ge=16)
    openings: float = Field(0.2, ge=0, le=0.5, description="share of the walls open that no room needs to be reached")
    least_steps: int = Field(12, ge=2, description="from the start to the goal, by cells")
    drawing_seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _paths_fit(self) -> Self:
        if not self.side % 2:
            raise ValueError(f"side must be odd, but got {self.side}")
        most = 2 * (self.side - 1)  # from corner to corner with no detour
        if self.least_steps > most:
            raise ValueError(f"least_steps <= {most} must hold on {self.side}x{self.side} cells, but got {self.least_steps}")
        return self

    @property
    def title(self) -> str:
        return f"Maze {self.side}x{self.side} (synthetic)"

    @property
    def shape(self) -> Shape:
        return (1, self.side, self.side)

    @property
    def train_size(self) -> int:
        return self.puzzles

    def reader(self) -> "MazeReader":
        return MazeReader(self)


class MazeReader(Reader):
    """Reads no file."""

    ignores = frozenset(Puzzles.model_fields)

    def sources(self, folder: Path) -> Sequence[str]:
        return ()

    def program(self) -> Sequence[str | int]:
        from recstudy.data import maze_making

        return "maze", maze_making.DRAWING

    def decode(self, folder: Path) -> Decoded:
        from recstudy.data.maze_making import make_set

        return make_set(self.config)
