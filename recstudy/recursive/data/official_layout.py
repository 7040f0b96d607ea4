"""Reader of the layout in which the authors of HRM and TRM store puzzles.

    DIR/{train,test}/dataset.json                           a `SplitDescription`
    DIR/{train,test}/SET__inputs.npy, SET__labels.npy       (N, S) tokens, for each of its sets
                     SET__puzzle_identifiers.npy            (P,) row of the table of embeddings, 0 for none
                     SET__puzzle_indices.npy                (P + 1,) examples of puzzle i are [p[i], p[i + 1])
                     SET__group_indices.npy                 (G + 1,) puzzles of group i are [g[i], g[i + 1])
    DIR/identifiers.json                                    name of each row of the table

Shapes: N examples, S cells, P puzzles, G groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, ValidationError

from recstudy.base.errors import DataError
from recstudy.base.files import refuse_stand_in
from recstudy.records.reading import fault
from recstudy.recursive.config.reader import Arrays, Labels, Pixels, np
from recstudy.recursive.data.puzzles import Puzzles
from recstudy.recursive.data.splits import utf8

if TYPE_CHECKING:
    import numpy.typing as npt

PARTS = ("train", "test")
ARRAYS = ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices")
FIX = "Build the folder again with its build script."
PIECE = 2**16  # rows that are checked at a time, so that a memory map is not read as a whole


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
    total_puzzles: int | None = None  # only in TRM's files, whose build scripts count groups here
    sets: list[str]


class PuzzleSet(NamedTuple):
    """One split, or one of its sets. Puzzles and groups are numbered from 0."""

    inputs: Pixels  # (N, S)
    labels: Pixels  # (N, S), 0 in cells that are not scored
    ids: Labels  # (N,)
    puzzles: Labels  # (N,)
    groups: Labels  # (N,)


def read_description(folder: Path) -> SplitDescription:
    """Read and validate the `dataset.json` in `folder`."""
    file = folder / "dataset.json"
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


def is_layout(folder: Path) -> bool:
    """Return whether `folder` seems to be in this layout. No file is read."""
    return (folder / "train").is_dir()


def files(folder: Path) -> Iterator[str]:
    """Yield the paths, relative to `folder`, of all required files that are known without the arrays."""
    for part in PARTS:
        yield f"{part}/dataset.json"
        if (folder / part / "dataset.json").exists():
            yield from (
                f"{part}/{name}__{array}.npy"
                for name in read_description(folder / part).sets
                for array in ARRAYS
            )


def read(folder: Path, config: Puzzles) -> Arrays:
    """Read both splits. Tokens stay memory maps of their files if they need no conversion.

    Raises:
        DataError: If a file is missing or damaged, contradicts another file, or has other puzzles than the
            config says.
    """
    train, test = (_part(folder / part, config) for part in PARTS)
    # Without several examples per group, the numbers of the puzzles are not needed.
    single_examples = all(part.groups.max() + 1 == len(part.groups) for part in (train, test))
    return Arrays(
        train.inputs.reshape(-1, *config.shape),
        train.labels,
        test.inputs.reshape(-1, *config.shape),
        test.labels,
        train_groups=train.groups,
        test_groups=test.groups + 1 + train.groups.max(),  # each split numbers its groups from 0
        train_puzzles=None if single_examples else train.puzzles,
        test_puzzles=None if single_examples else test.puzzles,
        train_ids=train.ids,
        test_ids=test.ids,
    )


def _part(folder: Path, config: Puzzles) -> PuzzleSet:
    """Read one split and join its sets."""
    about = read_description(folder)
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
    rows, columns = config.shape[1:]
    if about.vocab_size != config.classes:
        fix = (
            f"Set it to {about.vocab_size}."
            if "vocabulary" in type(config).model_fields
            else "The folder has other puzzles."
        )
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


def _set(folder: Path, name: str, about: SplitDescription) -> PuzzleSet:
    """Read and check one set of a split."""
    paths = {array: folder / f"{name}__{array}.npy" for array in ARRAYS}
    maps = {array: open_array(path) for array, path in paths.items()}
    count = len(maps["inputs"])
    for array in ("inputs", "labels"):
        if maps[array].shape != (count, about.seq_len):
            raise DataError(
                f"{paths[array]} must be ({count:,}, {about.seq_len}), but is {maps[array].shape}. {FIX}"
            )
    puzzles = _members(paths["puzzle_indices"], maps["puzzle_indices"], count, paths["inputs"])
    identifiers, puzzle_count = (
        np.asarray(maps["puzzle_identifiers"], np.int64),
        len(maps["puzzle_indices"]) - 1,
    )
    file = paths["puzzle_identifiers"]
    if len(identifiers) != puzzle_count:
        raise DataError(
            f"{file} has {len(identifiers):,} rows, but there are {puzzle_count:,} puzzles. {FIX}"
        )
    if not 0 <= identifiers.min() <= identifiers.max() < about.num_puzzle_identifiers:
        id_range = f"from {identifiers.min()} to {identifiers.max()}"
        raise DataError(
            f"{file} has ids {id_range}, but num_puzzle_identifiers is {about.num_puzzle_identifiers}. {FIX}"
        )
    groups = _members(paths["group_indices"], maps["group_indices"], puzzle_count, file)
    inputs = _tokens(paths["inputs"], maps["inputs"], about.vocab_size)
    labels = _tokens(paths["labels"], maps["labels"], about.vocab_size, about.ignore_label_id, is_answer=True)
    return PuzzleSet(inputs, labels, identifiers[puzzles], puzzles, groups[puzzles])


def open_array(path: Path) -> npt.NDArray[Any]:
    """Open a file of integers as a memory map."""
    refuse_stand_in(path)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{path} is damaged or missing ({' '.join(str(error).split())}). {FIX}") from None
    if array.dtype.kind not in "iu":
        raise DataError(f"{path} must have integers, but has {array.dtype}. {FIX}")
    return np.asarray(array)


def _members(path: Path, bounds: npt.NDArray[Any], count: int, of: Path) -> Labels:
    """Return the number of the part that each row is in, (count,).

    Args:
        path: File of the bounds, for messages.
        bounds: (parts + 1,). Part i has the rows [bounds[i], bounds[i + 1]).
        count: Number of rows.
        of: File of the rows, for messages.
    """
    bounds = bounds.astype(np.int64)
    # Bounds must begin with 0, rise strictly and end with the number of rows.
    is_wrong = np.diff(bounds, prepend=-1) <= 0
    is_wrong[:1] |= bounds[:1] != 0
    is_wrong[-1:] |= bounds[-1:] != count
    if len(bounds) < 2 or is_wrong.any():
        problem = "has no rows"
        if len(bounds):
            row = int(is_wrong.argmax())
            problem = f"row {row} is {bounds[row]}"
        raise DataError(f"{path} must rise from 0 to {count:,}, the rows of {of.name}, but {problem}. {FIX}")
    return np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))


def _tokens(
    path: Path, array: npt.NDArray[Any], vocabulary: int, ignored: int | None = 0, is_answer: bool = False
) -> Pixels:
    """Check tokens and convert them to uint8 (N, S), with 0 for the `ignored` token.

    The memory map itself is returned if it needs no conversion.
    """
    is_stored_form = array.dtype == np.uint8 and ignored in (0, None)
    tokens = array if is_stored_form else np.empty(array.shape, np.uint8)
    minimum = 1 if is_answer and ignored != 0 else 0
    for start in range(0, len(array), PIECE):
        part = array[start : start + PIECE]
        wrong = (part < minimum) | (part >= vocabulary)
        wrong &= part != ignored if ignored is not None else True
        if wrong.any():
            row, cell = np.argwhere(wrong)[0]
            raise DataError(
                f"{path}, row {start + row}: token {part[row, cell]} of cell {cell} must be from {minimum}"
                f" to {vocabulary - 1}. {FIX}"
            )
        if not is_stored_form:
            tokens[start : start + PIECE] = part if ignored is None else np.where(part == ignored, 0, part)
    return tokens
