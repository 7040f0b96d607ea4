"""Sudoku-Extreme and Maze-Hard, the benchmarks of HRM and TRM, and any folder of puzzles in their layout.

Sets with known rules are read from CSV files or from the authors' layout, and checked against their rules.

Shapes: N puzzles, S cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from recstudy.base.errors import DataError
from recstudy.recursive.config.parts import DATASETS, Shape
from recstudy.recursive.config.reader import Arrays, Pixels, Reader, np
from recstudy.recursive.data.maze import Mazes
from recstudy.recursive.data.official_layout import PARTS, PIECE, files, is_layout, read
from recstudy.recursive.data.puzzles import Puzzles
from recstudy.recursive.data.splits import csv_rows, find_column, line_of
from recstudy.recursive.data.sudoku import Sudokus

# Columns of the authors' CSV files -> their names in other public files, such as Kaggle's sets of 1, 3 and 9
# million Sudokus.
COLUMNS = {
    "question": ("questions", "quizzes", "quiz", "puzzle", "puzzles"),
    "answer": ("answers", "solutions", "solution"),
}
SAMPLE = 100  # puzzles per split that are checked for a unique solution


class PuzzleFiles(Puzzles):
    """A set in the two CSV files of its authors, or in the layout of their build scripts.

    The files `PATH/train.csv` and `PATH/test.csv` have the columns `question` and `answer`, `quizzes` and
    `solutions`, or `puzzle` and `solution`, separated by commas, semicolons or tabs. If `PATH/train` exists,
    the layout is that of `PuzzleFolder`. If its groups have several puzzles, no further symmetries are
    applied.
    """

    path: str
    train_puzzles: int | None = Field(
        None,
        ge=16,
        description=(
            "number of training puzzles, a fixed random subset; the papers use 1,000; null uses all puzzles"
        ),
    )
    drawing_seed: int = Field(0, ge=0, description="random seed of the subset of training puzzles")

    @property
    def train_size(self) -> int | None:
        return self.train_puzzles

    def reader(self) -> PuzzleReader:
        return PuzzleReader(self)


@DATASETS.add("sudoku_extreme")
class SudokuExtreme(PuzzleFiles, Sudokus):
    """Hard Sudokus: 3.8 million for training, 423 thousand for test (sapientinc/sudoku-extreme).

    All cells are scored.
    """

    title: ClassVar[str] = "Sudoku-Extreme"
    shape: ClassVar[Shape] = (1, 9, 9)

    name: Literal["sudoku_extreme"] = "sudoku_extreme"
    path: str = Field("sudoku-extreme", description="folder of the set, relative to the data folder")


@DATASETS.add("maze_hard")
class MazeHard(PuzzleFiles, Mazes):
    """Mazes of 30x30 cells with long paths: 1,000 for training, 1,000 for test.

    The source is sapientinc/maze-30x30-hard-1k.
    """

    title: ClassVar[str] = "Maze-Hard"
    shape: ClassVar[Shape] = (1, 30, 30)

    name: Literal["maze_hard"] = "maze_hard"
    path: str = Field("maze-30x30-hard-1k", description="folder of the set, relative to the data folder")


@DATASETS.add("puzzle_folder")
class PuzzleFolder(Puzzles):
    """Any folder written by the build scripts of HRM and TRM: `PATH/{train,test}/dataset.json` and arrays.

    An epoch takes one puzzle per group and shows all examples of that puzzle. The files already have the
    symmetries, so none are applied.
    """

    name: Literal["puzzle_folder"] = "puzzle_folder"
    path: str = Field(
        description="folder of the set, relative to the data folder, such as `sudoku-extreme-1k-aug-1000`"
    )
    vocabulary: int = Field(
        ge=2, le=256, description="V: number of tokens, including PAD; must match the folder"
    )
    rows: int = Field(ge=1, le=100, description="rows of a grid; rows x columns must match the folder")
    columns: int = Field(ge=1, le=100, description="columns of a grid")

    @property
    def title(self) -> str:
        return self.path

    @property
    def shape(self) -> Shape:
        return (1, self.rows, self.columns)

    @property
    def classes(self) -> int:
        return self.vocabulary

    def reader(self) -> PuzzleReader:
        return PuzzleReader(self)


class PuzzleReader(Reader):
    """Reader of puzzles in CSV files or in the authors' layout. It refuses puzzles that break known rules."""

    config: PuzzleFiles | PuzzleFolder
    ignores = frozenset(Puzzles.model_fields)

    def sources(self, folder: Path) -> Sequence[str]:
        place = folder / self.config.path
        layout = isinstance(self.config, PuzzleFolder) or is_layout(place)
        return [
            f"{self.config.path}/{file}" for file in (files(place) if layout else ("train.csv", "test.csv"))
        ]

    def decode(self, folder: Path) -> Arrays:
        """Read both splits and check their rules, if they are known.

        Raises:
            DataError: If a file is damaged or has other puzzles, an answer breaks a rule, or a puzzle of the
                checked sample has more than one solution.
        """
        config, place = self.config, folder / self.config.path
        if isinstance(config, PuzzleFolder):
            return read(place, config)
        has_layout, train_puzzles = is_layout(place), config.train_puzzles
        decoded = read(place, config) if has_layout else _read_tables(place, config)
        _check_rules(decoded, config, place, has_layout)
        if train_puzzles is None:
            return decoded
        if has_layout:
            if (groups := len(np.unique(np.asarray(decoded.train_groups)))) != train_puzzles:
                raise DataError(
                    f"{place / 'train'} has {groups:,} groups of puzzles, but data.train_puzzles is"
                    f" {train_puzzles:,}. Set it to {groups}, or build the folder with that number."
                )
            return decoded
        if train_puzzles > (count := len(decoded.train_labels)):
            raise DataError(
                f"{place / 'train.csv'} has {count:,} puzzles, but data.train_puzzles is {train_puzzles:,}."
                f" Set it to at most {count}."
            )
        rows = np.sort(np.random.default_rng(config.drawing_seed).choice(count, train_puzzles, replace=False))
        return decoded.taking("train", rows)


def _read_tables(folder: Path, config: Puzzles) -> Arrays:
    """Read `train.csv` and `test.csv`."""
    columns: dict[str, Any] = {}
    for part in PARTS:
        questions, columns[f"{part}_labels"] = _table(folder / f"{part}.csv", config)
        columns[f"{part}_images"] = questions.reshape(-1, *config.shape)
        # Every puzzle is its own group, and none has an id of its own.
        columns[f"{part}_ids"] = np.zeros(len(questions), np.int64)
    return Arrays(**columns)


def _check_rules(decoded: Arrays, config: Puzzles, folder: Path, has_layout: bool) -> None:
    """Check all answers and, in a sample of each split, that the solution is unique.

    Raises:
        DataError: If a puzzle is wrong. The message names its line or row.
    """
    for part in PARTS:
        answers: Any = getattr(decoded, f"{part}_labels")
        inputs = getattr(decoded, f"{part}_images").reshape(answers.shape)
        for row, fault in _faults(inputs, answers, config):
            file = folder / f"{part}.csv"
            place = f"{folder / part}, example {row}" if has_layout else f"{file}, line {line_of(file, row)}"
            raise DataError(f"{place}: {fault}. Correct or remove it.")


def _faults(inputs: Pixels, answers: Pixels, config: Puzzles) -> Iterator[tuple[int, str]]:
    """Yield the row and the fault of each wrong puzzle."""
    for start in range(0, len(inputs), PIECE):
        lawful: Any = config.check_answers(inputs[start : start + PIECE], answers[start : start + PIECE])
        for row in (start + np.flatnonzero(lawful == 0)).tolist():
            contradicts = config.count_solutions(inputs[row]) == 0
            yield (
                row,
                (
                    "the puzzle has no solution"
                    if contradicts
                    else "the answer breaks a rule or changes a given cell"
                ),
            )
    for row in np.linspace(0, len(inputs) - 1, SAMPLE).astype(int).tolist():
        if config.count_solutions(inputs[row]) == 2:
            yield row, "the puzzle has more than one solution"


def _table(file: Path, config: Puzzles) -> tuple[Pixels, Pixels]:
    """Read questions and answers (N, S) of a CSV file as tokens."""
    # The token of each character; 0 for characters that are not allowed.
    tokens_by_byte = bytearray(256)
    for token, characters in enumerate(config.spelled, 1):
        for character in characters:
            tokens_by_byte[ord(character)] = token
    rows = csv_rows(file)
    header = [title.strip().lower() for title in next(rows, (1, []))[1]]
    columns = {name: find_column(file, header, name, aliases) for name, aliases in COLUMNS.items()}
    grids = {name: bytearray() for name in COLUMNS}
    for line, row in rows:
        for name, column in columns.items():
            text = row[column] if column < len(row) else ""
            # A space may be a cell of a maze, so it is stripped only if the length is wrong.
            if len(text) != config.cells:
                text = text.strip()
            tokens = text.encode("latin-1", "replace").translate(tokens_by_byte)
            if len(tokens) != config.cells or 0 in tokens:
                problem = f"{len(text)} characters, but {config.title} has {config.cells} cells"
                if len(text) == config.cells:
                    allowed, cell = " ".join(map(repr, "".join(config.spelled))), tokens.index(0)
                    problem = f"{text[cell]!r} in cell {cell}, but cells are one of {allowed}"
                raise DataError(f"{file}, line {line}: the {name} has {problem}. Correct or remove the line.")
            grids[name] += tokens
    if not grids["question"]:
        raise DataError(f"{file} has no puzzles. Download it again.")
    questions, answers = (np.frombuffer(grid, np.uint8).reshape(-1, config.cells) for grid in grids.values())
    return questions, answers
