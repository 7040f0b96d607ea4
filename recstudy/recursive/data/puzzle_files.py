"""Sudoku-Extreme and Maze-Hard, the benchmarks of HRM and TRM, and any folder of puzzles in their layout.

Sets with known rules are read from CSV files or from the authors' layout, and checked against their rules.
The layout in which the authors of HRM and TRM store puzzles is

    DIR/{train,test}/dataset.json                           a `SplitDescription`
    DIR/{train,test}/SET__inputs.npy, SET__labels.npy       (N, S) tokens, for each of its sets
                     SET__puzzle_identifiers.npy            (P,) row of the table of embeddings, 0 for none
                     SET__puzzle_indices.npy                (P + 1,) examples of puzzle i are [p[i], p[i + 1])
                     SET__group_indices.npy                 (G + 1,) puzzles of group i are [g[i], g[i + 1])
    DIR/identifiers.json                                    name of each row of the table

Shapes: N puzzles or examples, S cells, P puzzles, G groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, Field, NonNegativeInt, ValidationError

from recstudy.base.errors import DataError
from recstudy.base.files import refuse_stand_in
from recstudy.records.reading import fault
from recstudy.recursive.config.parts import DATASETS, Shape
from recstudy.recursive.config.reader import Array, Arrays, Labels, Pixels, Reader, np
from recstudy.recursive.data.maze import Mazes
from recstudy.recursive.data.puzzles import Puzzles
from recstudy.recursive.data.splits import csv_rows, find_column, line_of, utf8
from recstudy.recursive.data.sudoku import Sudokus

# Columns of the authors' CSV files -> their names in other public files, such as Kaggle's sets of 1, 3 and 9
# million Sudokus.
COLUMNS = {
    "question": ("questions", "quizzes", "quiz", "puzzle", "puzzles"),
    "answer": ("answers", "solutions", "solution"),
}
PARTS = ("train", "test")
ARRAYS = ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices")
FIX = "Build the folder again with its build script."
PIECE = 2**16  # rows that are checked at a time, so that a memory map is not read as a whole
SAMPLE = 100  # puzzles per split that are checked for a unique solution


class PuzzleReader(Reader):
    """Reader of puzzles in CSV files or in the authors' layout. It refuses puzzles that break known rules."""

    ignores = frozenset(Puzzles.model_fields)

    def sources(self, folder: Path) -> Sequence[str]:
        place, names = folder / self.config.path, ["train.csv", "test.csv"]
        if self._has_layout(place):
            names = []
            for part in PARTS:
                names.append(f"{part}/dataset.json")
                if (place / names[-1]).exists():
                    sets = read_description(place / names[-1]).sets
                    names += [f"{part}/{name}__{array}.npy" for name in sets for array in ARRAYS]
        return [f"{self.config.path}/{name}" for name in names]

    def _has_layout(self, place: Path) -> bool:
        return isinstance(self.config, PuzzleFolder) or (place / "train").is_dir()

    def decode(self, folder: Path) -> Arrays:
        """Read both splits and check their rules, if they are known.

        Tokens stay memory maps of their files if they need no conversion.

        Raises:
            DataError: If a file is missing or damaged, contradicts another file or has other puzzles than the
                config says, an answer breaks a rule, or a puzzle of the checked sample has more than one
                solution.
        """
        config, place = self.config, folder / self.config.path
        has_layout = self._has_layout(place)
        files = [place / (part if has_layout else f"{part}.csv") for part in PARTS]
        train, test = ((read_layout if has_layout else read_table)(file, config) for file in files)
        for file, puzzles in zip(files, (train, test), strict=True):
            if fault := find_fault(puzzles, config):
                row, problem = fault
                position = f"example {row}" if has_layout else f"line {line_of(file, row)}"
                raise DataError(f"{file}, {position}: {problem}. Correct or remove it.")
        decoded = Arrays(
            train.inputs.reshape(-1, *config.shape),
            train.labels,
            test.inputs.reshape(-1, *config.shape),
            test.labels,
            train_ids=train.ids,
            test_ids=test.ids,
        )
        train_puzzles = getattr(config, "train_puzzles", None)
        if not has_layout:
            if train_puzzles is None:
                return decoded
            if train_puzzles > (count := len(train.labels)):
                raise DataError(
                    f"{files[0]} has {count:,} puzzles, but data.train_puzzles is {train_puzzles:,}."
                    f" Set it to at most {count}."
                )
            random = np.random.default_rng(config.drawing_seed)
            return decoded.taking("train", np.sort(random.choice(count, train_puzzles, replace=False)))
        groups = int(train.groups[-1]) + 1
        if train_puzzles not in (None, groups):
            raise DataError(
                f"{files[0]} has {groups:,} groups of puzzles, but data.train_puzzles is {train_puzzles:,}."
                f" Set it to {groups}, or build the folder with that number."
            )
        # Each split numbers its groups from 0.
        decoded = decoded._replace(train_groups=train.groups, test_groups=test.groups + groups)
        if all(len(part.groups) == part.groups[-1] + 1 for part in (train, test)):
            return decoded  # without several examples per group, the numbers of the puzzles are not needed
        return decoded._replace(train_puzzles=train.puzzles, test_puzzles=test.puzzles)


class PuzzleFiles(Puzzles):
    """A set in the two CSV files of its authors, or in the layout of their build scripts.

    The files `PATH/train.csv` and `PATH/test.csv` have the columns `question` and `answer`, `quizzes` and
    `solutions`, or `puzzle` and `solution`, separated by commas, semicolons or tabs. If `PATH/train` exists,
    the layout is that of `PuzzleFolder`. If its groups have several puzzles, no further symmetries are
    applied.
    """

    reader_type: ClassVar = PuzzleReader

    path: str
    train_puzzles: int | None = Field(None, ge=16)
    """number of training puzzles, a fixed random subset; the papers use 1,000; null uses all puzzles"""
    drawing_seed: NonNegativeInt = 0
    """random seed of the subset of training puzzles"""

    @property
    def train_size(self) -> int | None:
        return self.train_puzzles


@DATASETS.add("sudoku_extreme")
class SudokuExtreme(PuzzleFiles, Sudokus):
    """Hard Sudokus: 3.8 million for training, 423 thousand for test (sapientinc/sudoku-extreme).

    All cells are scored.
    """

    title: ClassVar = "Sudoku-Extreme"
    test_size: ClassVar = 422_786
    shape: ClassVar = (1, 9, 9)

    name: Literal["sudoku_extreme"] = "sudoku_extreme"
    path: str = "sudoku-extreme"
    """folder of the set, relative to the data folder"""


@DATASETS.add("maze_hard")
class MazeHard(PuzzleFiles, Mazes):
    """Mazes of 30x30 cells with long paths: 1,000 for training, 1,000 for test.

    The source is sapientinc/maze-30x30-hard-1k.
    """

    title: ClassVar = "Maze-Hard"
    test_size: ClassVar = 1000
    shape: ClassVar = (1, 30, 30)

    name: Literal["maze_hard"] = "maze_hard"
    path: str = "maze-30x30-hard-1k"
    """folder of the set, relative to the data folder"""


@DATASETS.add("puzzle_folder")
class PuzzleFolder(Puzzles):
    """Any folder written by the build scripts of HRM and TRM: `PATH/{train,test}/dataset.json` and arrays.

    An epoch takes one puzzle per group and shows all examples of that puzzle. The files already have the
    symmetries, so none are applied.
    """

    reader_type: ClassVar = PuzzleReader

    name: Literal["puzzle_folder"] = "puzzle_folder"
    path: str
    """folder of the set, relative to the data folder, such as `sudoku-extreme-1k-aug-1000`"""
    vocabulary: int = Field(ge=2, le=256)
    """V: number of tokens, including PAD; must match the folder"""
    rows: int = Field(ge=1, le=100)
    """rows of a grid; rows x columns must match the folder"""
    columns: int = Field(ge=1, le=100)
    """columns of a grid"""

    @property
    def title(self) -> str:
        return self.path

    @property
    def shape(self) -> Shape:
        return (1, self.rows, self.columns)

    @property
    def classes(self) -> int:
        return self.vocabulary


class PuzzleSet(NamedTuple):
    """One split, or one of its sets. Puzzles and groups are numbered from 0."""

    inputs: Pixels  # (N, S)
    labels: Pixels  # (N, S), 0 in cells that are not scored
    ids: Labels  # (N,)
    puzzles: Any = None  # (N,) int64; None in CSV files
    groups: Any = None  # (N,) int64; None in CSV files


def find_fault(puzzles: PuzzleSet, config: Puzzles) -> tuple[int, str] | None:
    """Return the row and the fault of a wrong puzzle, or None.

    All answers are checked and, in a sample, that the solution is unique.
    """
    inputs, answers = puzzles.inputs, puzzles.labels
    for start in range(0, len(inputs), PIECE):
        lawful = config.check_answers(inputs[start : start + PIECE], answers[start : start + PIECE])
        if lawful is not None and not lawful.all():
            row = start + int(lawful.argmin())
            if config.count_solutions(inputs[row]) == 0:
                return row, "the puzzle has no solution"
            return row, "the answer breaks a rule or changes a given cell"
    for row in np.linspace(0, len(inputs) - 1, SAMPLE).astype(int).tolist():
        if config.count_solutions(inputs[row]) == 2:
            return row, "the puzzle has more than one solution"
    return None


def read_table(file: Path, config: Puzzles) -> PuzzleSet:
    """Read the puzzles of a CSV file."""
    # The token of each character; 0 for characters that are not allowed.
    tokens_by_byte = bytearray(256)
    for token, characters in enumerate(config.spelled, 1):
        for character in characters:
            tokens_by_byte[ord(character)] = token
    rows = csv_rows(file)
    header = [title.strip().lower() for title in next(rows)[1]]
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
    return PuzzleSet(questions, answers, ids=np.zeros(len(questions), np.int64))


class SplitDescription(BaseModel):
    """The `dataset.json` of one split."""

    pad_id: int
    ignore_label_id: int | None  # label of cells that are not scored
    blank_identifier_id: int
    vocab_size: int
    seq_len: int
    num_puzzle_identifiers: int
    total_groups: int
    mean_puzzle_examples: float
    sets: list[str]


def read_description(file: Path) -> SplitDescription:
    """Read and validate a `dataset.json`."""
    try:
        return SplitDescription.model_validate_json(utf8(file))
    except ValidationError as error:
        if missing_fields := [
            str(entry["loc"][0]) for entry in error.errors() if entry["type"] == "missing" and entry["loc"]
        ]:
            raise DataError(
                f"{file} is not in the layout of HRM's and TRM's authors, but perhaps in nano-trm's: it lacks"
                f" {', '.join(missing_fields)}. Build the folder with the authors' code"
                " (dataset/build_*_dataset.py)."
            ) from None
        raise DataError(f"{file} is damaged: {fault(error)}. {FIX}") from None


def read_layout(folder: Path, config: Puzzles) -> PuzzleSet:
    """Read one split in the authors' layout and join its sets."""
    about = read_description(folder / "dataset.json")
    _check(about, folder / "dataset.json", config)
    # The numbers of puzzles and groups continue from set to set.
    sets, puzzle_count, group_count = [], 0, 0
    for name in about.sets:
        part = _set(folder, name, about)
        sets.append(part._replace(puzzles=part.puzzles + puzzle_count, groups=part.groups + group_count))
        puzzle_count, group_count = int(sets[-1].puzzles[-1]) + 1, int(sets[-1].groups[-1]) + 1
    if group_count != about.total_groups:
        wrong = f"counts {about.total_groups:,} groups, but its sets have {group_count:,}"
        raise DataError(f"{folder / 'dataset.json'} {wrong}. {FIX}")
    if len(sets) == 1:
        return sets[0]
    return PuzzleSet(*(np.concatenate(column) for column in zip(*sets, strict=True)))


def _check(about: SplitDescription, file: Path, config: Puzzles) -> None:
    """Check that the description agrees with the config."""
    _, rows, columns = config.shape
    if about.vocab_size != config.classes:
        can_change = "vocabulary" in type(config).model_fields
        fix = f"Set it to {about.vocab_size}." if can_change else "The folder has other puzzles."
        raise DataError(
            f"{file} has a vocab_size of {about.vocab_size}, but data.vocabulary is {config.classes}. {fix}"
        )
    if about.seq_len != config.cells:
        raise DataError(
            f"{file} has a seq_len of {about.seq_len}, but grids of {rows} rows and {columns} columns have"
            f" {config.cells} cells. Set data.rows and data.columns to the size of its grids."
        )
    if about.pad_id != 0:
        raise DataError(f"{file} has a pad_id of {about.pad_id}, but it must be 0. {FIX}")
    if not about.sets:
        raise DataError(f"{file} names no sets. {FIX}")


class ArrayFile(NamedTuple):
    """An array of integers, and its file for messages."""

    path: Path
    values: Array

    @classmethod
    def open(cls, path: Path) -> ArrayFile:
        """Open a file as a memory map."""
        refuse_stand_in(path)
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, EOFError, ValueError) as error:
            raise DataError(f"{path} is damaged or missing ({' '.join(str(error).split())}). {FIX}") from None
        if array.dtype.kind not in "iu":
            raise DataError(f"{path} must have integers, but has {array.dtype}. {FIX}")
        return cls(path, np.asarray(array))


def _set(folder: Path, name: str, about: SplitDescription) -> PuzzleSet:
    """Read and check one set of a split."""
    inputs, labels, identifiers, puzzle_bounds, group_bounds = (
        ArrayFile.open(folder / f"{name}__{array}.npy") for array in ARRAYS
    )
    expected_shape = (len(inputs.values), about.seq_len)
    for tokens in (inputs, labels):
        if tokens.values.shape != expected_shape:
            expected = f"({expected_shape[0]:,}, {about.seq_len})"
            raise DataError(f"{tokens.path} must be {expected}, but is {tokens.values.shape}. {FIX}")
    puzzles = _members(puzzle_bounds, inputs)
    ids, puzzle_count = identifiers.values.astype(np.int64), int(puzzles[-1]) + 1
    if len(ids) != puzzle_count:
        raise DataError(
            f"{identifiers.path} has {len(ids):,} rows, but there are {puzzle_count:,} puzzles. {FIX}"
        )
    if not 0 <= ids.min() <= ids.max() < about.num_puzzle_identifiers:
        raise DataError(
            f"{identifiers.path} has ids from {ids.min()} to {ids.max()}, but num_puzzle_identifiers is"
            f" {about.num_puzzle_identifiers}. {FIX}"
        )
    groups = _members(group_bounds, identifiers)
    answers = _tokens(labels, about.vocab_size, about.ignore_label_id, is_answer=True)
    return PuzzleSet(_tokens(inputs, about.vocab_size), answers, ids[puzzles], puzzles, groups[puzzles])


def _members(bounds_file: ArrayFile, rows_file: ArrayFile) -> Labels:
    """Return the number of the part that each row is in. Part i has the rows [bounds[i], bounds[i + 1])."""
    bounds, count = bounds_file.values.astype(np.int64), len(rows_file.values)
    # Bounds must begin with 0, rise strictly and end with the number of rows.
    is_wrong = np.diff(bounds, prepend=-1) <= 0
    is_wrong[:1] |= bounds[:1] != 0
    is_wrong[-1:] |= bounds[-1:] != count
    if len(bounds) < 2 or is_wrong.any():
        problem = f"row {is_wrong.argmax()} is {bounds[is_wrong.argmax()]}" if len(bounds) else "has no rows"
        raise DataError(
            f"{bounds_file.path} must rise from 0 to {count:,}, the rows of {rows_file.path.name}, but"
            f" {problem}. {FIX}"
        )
    return np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))


def _tokens(file: ArrayFile, vocabulary: int, ignored: int | None = 0, is_answer: bool = False) -> Pixels:
    """Check tokens and convert them to uint8 (N, S), with 0 for the `ignored` token.

    The memory map itself is returned if it needs no conversion.
    """
    array = file.values
    is_stored_form = array.dtype == np.uint8 and ignored in (0, None)
    tokens = array if is_stored_form else np.empty(array.shape, np.uint8)
    minimum = int(is_answer and ignored != 0)
    for start in range(0, len(array), PIECE):
        part = array[start : start + PIECE]
        is_ignored = np.equal(part, ignored) if ignored is not None else np.zeros(part.shape, bool)
        wrong = ((part < minimum) | (part >= vocabulary)) & ~is_ignored
        if wrong.any():
            row, cell = np.argwhere(wrong)[0]
            raise DataError(
                f"{file.path}, row {start + row}: token {part[row, cell]} of cell {cell} must be from"
                f" {minimum} to {vocabulary - 1}. {FIX}"
            )
        if not is_stored_form:
            tokens[start : start + PIECE] = np.where(is_ignored, 0, part)
    return tokens
