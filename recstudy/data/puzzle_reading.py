"""Reads sets of puzzles whose rules are known, from CSV files or the official layout, and looks whether they keep them.

Shapes: N puzzles, S cells.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from recstudy.data import official_layout
from recstudy.data.decoded import Decoded
from recstudy.data.images import Pixels
from recstudy.data.official_layout import PARTS, PIECE
from recstudy.data.puzzle_files import PuzzleFiles
from recstudy.data.puzzles import Puzzles
from recstudy.errors import DataError

SAMPLE = 100  # puzzles of a split whose solutions are counted


def read_files(folder: Path, config: PuzzleFiles) -> Decoded:
    """Both splits.

    Raises:
        DataError: a file is damaged or has other puzzles; an answer breaks a rule, or a puzzle of a sample has another one.
    """
    decoded = read_all(folder, config)
    check_rules(decoded, config, folder, SAMPLE)
    if config.train_puzzles is None:
        return decoded
    return (_counted if official_layout.is_layout(folder) else _drawn)(decoded, config.train_puzzles, folder, config)


def read_all(folder: Path, config: Puzzles) -> Decoded:
    """All of the puzzles in the folder, whatever rules they break."""
    if official_layout.is_layout(folder):
        return official_layout.read(folder, config)
    for part in PARTS:
        if not (folder / f"{part}.csv").is_file():
            raise DataError(f"{folder} has neither train/dataset.json nor {part}.csv. Give the folder that holds the puzzles.")
    return _tables(folder, config)


def check_rules(decoded: Decoded, config: Puzzles, folder: Path, sample: int | None = None) -> None:
    """Refuse (DataError) answers that break a rule and, in a sample of each split or (None) in all, puzzles of two solutions."""
    layout = official_layout.is_layout(folder)
    for part in PARTS:
        answers: Any = getattr(decoded, f"{part}_labels")
        given = getattr(decoded, f"{part}_images").reshape(answers.shape)
        for row, fault in faults(given, answers, config, sample):
            place = f"{folder / part}, example {row}" if layout else f"{folder / part}.csv, line {row + 2}"
            raise DataError(f"{place}: {fault}. Mend or remove it.")


def faults(given: Pixels, answers: Pixels, config: Puzzles, sample: int | None) -> Iterator[tuple[int, str]]:
    """Rows of puzzles (N, S) that are wrong, and what is."""
    for start in range(0, len(given), PIECE):
        lawful = config.lawful(given[start : start + PIECE], answers[start : start + PIECE])
        if lawful is None:
            return
        for row in (start + np.flatnonzero(lawful == 0)).tolist():
            contradicts = config.solutions(given[row]) == 0
            yield row, "what is given has no solution" if contradicts else "the answer breaks a rule, or changes what is given"
    for row in np.unique(np.linspace(0, len(given) - 1, sample or len(given)).astype(int)).tolist():
        if config.solutions(given[row]) == 2:
            yield row, "the puzzle has more than one solution"


def _counted(decoded: Decoded, wanted: int, folder: Path, config: PuzzleFiles) -> Decoded:
    numbers: Any = decoded.train_groups
    if (groups := len(np.unique(numbers))) != wanted:
        raise DataError(
            f"{folder / 'train'} has {groups:,} groups of puzzles, but data.train_puzzles is {wanted:,}. "
            f"Set it to {groups}, or build the folder with so many."
        )
    return decoded


def _drawn(decoded: Decoded, wanted: int, folder: Path, config: PuzzleFiles) -> Decoded:
    known = len(decoded.train_labels)
    if wanted > known:
        raise DataError(f"{folder / 'train.csv'} has {known:,} puzzles, but data.train_puzzles is {wanted:,}. Set it to fewer.")
    rows = np.sort(np.random.default_rng(config.drawing_seed).choice(known, wanted, replace=False))
    own = {name: array[rows] for name, array in decoded._asdict().items() if name.startswith("train_") and array is not None}
    return decoded._replace(**own)


def _tables(folder: Path, config: Puzzles) -> Decoded:
    """One puzzle a group, none of which has an identifier of its own."""
    train, answers = _table(folder / "train.csv", config)
    test, test_answers = _table(folder / "test.csv", config)
    images = [given.reshape(-1, *config.shape) for given in (train, test)]
    blank = [np.zeros(len(given), np.int64) for given in images]
    return Decoded(images[0], answers, images[1], test_answers, train_ids=blank[0], test_ids=blank[1])


def _table(file: Path, config: Puzzles) -> tuple[Pixels, Pixels]:
    """Questions and answers (N, S), as tokens."""
    table, columns = _spelling(config), ("question", "answer")
    grids = [bytearray(), bytearray()]
    with open(file, newline="", encoding="utf-8", errors="replace") as lines:
        rows = csv.reader(lines)
        header = next(rows, [])
        if missing := [name for name in columns if name not in header]:
            raise DataError(f"{file} has no column {missing[0]!r}: its first line must be source,question,answer,rating.")
        at = [header.index(name) for name in columns]
        for row in rows:
            for grid, name, column in zip(grids, columns, at, strict=True):
                text = row[column] if column < len(row) else ""
                tokens = text.encode("latin-1", "replace").translate(table)
                if len(tokens) != config.cells or 0 in tokens:
                    fault = _fault(name, text, tokens, config)
                    raise DataError(f"{file}, line {rows.line_num}: {fault}. Mend or remove the line.")
                grid += tokens
    if not grids[0]:
        raise DataError(f"{file} has no puzzles. Download it again.")
    given, answers = (np.frombuffer(grid, np.uint8).reshape(-1, config.cells) for grid in grids)
    return given, answers


def _spelling(config: Puzzles) -> bytes:
    """The token of every character, 0 of what is none."""
    table = bytearray(256)
    for token, characters in enumerate(config.spelled, 1):
        for character in characters:
            table[ord(character)] = token
    return bytes(table)


def _fault(name: str, text: str, tokens: bytes, config: Puzzles) -> str:
    if len(text) != config.cells:
        return f"the {name} has {len(text)} characters, but {config.title} has {config.cells} cells"
    known = " ".join(map(repr, "".join(config.spelled)))
    return f"the {name} has {text[tokens.index(0)]!r} in cell {tokens.index(0)}, but cells are one of {known}"
