"""Sudoku-Extreme and Maze-Hard: the puzzles on which HRM and TRM are known."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import DATASETS, Shape
from recstudy.data.decoded import Decoded
from recstudy.data.maze import Mazes
from recstudy.data.puzzles import Puzzles
from recstudy.data.reader import Reader
from recstudy.data.sudoku import Sudokus


class PuzzleFiles(Puzzles):
    """A set in the two CSV files of its authors, or in the layout that their builders make of these: by what lies in the folder.

    `PATH/train.csv` and `test.csv` have the columns `question` and `answer`. With `PATH/train/dataset.json` see `PuzzleFolder`;
    where that has several puzzles a group, no more symmetries are drawn.
    """

    path: str
    train_puzzles: int | None = Field(
        None, ge=16, description="so many of the training puzzles, drawn once for all; the papers take 1,000. By default all"
    )
    drawing_seed: int = Field(0, ge=0, description="draws them")

    @property
    def train_size(self) -> int | None:
        return self.train_puzzles

    def reader(self) -> "PuzzleFilesReader":
        return PuzzleFilesReader(self)


@DATASETS.add("sudoku_extreme")
class SudokuExtreme(PuzzleFiles, Sudokus):
    """Hard Sudokus, 3.8 million that train and 423 thousand that test (sapientinc/sudoku-extreme). Every cell is asked for."""

    title: ClassVar[str] = "Sudoku-Extreme"
    shape: ClassVar[Shape] = (1, 9, 9)

    name: Literal["sudoku_extreme"] = "sudoku_extreme"
    path: str = Field("sudoku-extreme", description="below the data folder")


@DATASETS.add("maze_hard")
class MazeHard(PuzzleFiles, Mazes):
    """1,000 mazes of 30x30 cells that train and 1,000 that test, with long paths (sapientinc/maze-30x30-hard-1k)."""

    title: ClassVar[str] = "Maze-Hard"
    shape: ClassVar[Shape] = (1, 30, 30)

    name: Literal["maze_hard"] = "maze_hard"
    path: str = Field("maze-30x30-hard-1k", description="below the data folder")


class PuzzleFilesReader(Reader):
    """Opens the one or the other, and refuses puzzles that break their rules."""

    config: PuzzleFiles
    ignores = frozenset(Puzzles.model_fields)

    def sources(self, folder: Path) -> Sequence[str]:
        from recstudy.data.official_layout import files, is_layout

        place = folder / self.config.path
        return [f"{self.config.path}/{file}" for file in (files(place) if is_layout(place) else ("train.csv", "test.csv"))]

    def decode(self, folder: Path) -> Decoded:
        from recstudy.data.puzzle_reading import read_files

        return read_files(folder / self.config.path, self.config)
