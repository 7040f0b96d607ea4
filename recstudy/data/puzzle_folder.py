"""Puzzles in the layout of the authors of HRM and TRM, whatever they are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from recstudy.config import DATASETS, Shape
from recstudy.data.decoded import Decoded
from recstudy.data.puzzles import Puzzles
from recstudy.data.reader import Reader


@DATASETS.add("puzzle_folder")
class PuzzleFolder(Puzzles):
    """A folder as the builders of HRM and TRM write it: `PATH/{train,test}/dataset.json` and its arrays, below the data folder.

    An epoch takes one puzzle of each group, all of whose examples it shows. What symmetries there are is in the files.
    """

    name: Literal["puzzle_folder"] = "puzzle_folder"
    path: str = Field(description="below the data folder, such as `sudoku-extreme-1k-aug-1000`")
    vocabulary: int = Field(ge=2, le=256, description="V: tokens, PAD among them; checked against the folder, as is the next")
    rows: int = Field(ge=1, le=100, description="of a grid")
    columns: int = Field(ge=1, le=100)

    @property
    def title(self) -> str:
        return self.path

    @property
    def shape(self) -> Shape:
        return (1, self.rows, self.columns)

    @property
    def classes(self) -> int:
        return self.vocabulary

    def reader(self) -> "PuzzleFolderReader":
        return PuzzleFolderReader(self)


class PuzzleFolderReader(Reader):
    """Opens the files as they are."""

    config: PuzzleFolder
    ignores = frozenset(Puzzles.model_fields)

    def sources(self, folder: Path) -> Sequence[str]:
        from recstudy.data.official_layout import files

        return [f"{self.config.path}/{file}" for file in files(folder / self.config.path)]

    def decode(self, folder: Path) -> Decoded:
        from recstudy.data.official_layout import read

        return read(folder / self.config.path, self.config)
