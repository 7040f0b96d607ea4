"""Generated data are the same bits on every machine. Who changes them on purpose raises the version in their reader too."""

import hashlib
from pathlib import Path

import pytest

from recstudy.recursive import Dominoes, Maze, PhantomCaptions, PhantomXray, Sudoku
from recstudy.recursive.data.reading import read_data

SMALL = {"test_puzzles": 16, "drawing_seed": 1}


@pytest.mark.parametrize(
    ("config", "digest"),
    [
        (Dominoes(), "fed9da0c8f9c6cf2"),
        (Maze(puzzles=24, **SMALL), "ef7928b05fc29bd4"),
        (Maze(puzzles=24, test_puzzles=16), "ba3e3a0449a5cafa"),
        (Sudoku(side=4, puzzles=16, **SMALL), "9bbe1566300f72e4"),
        (Sudoku(side=6, puzzles=16, **SMALL), "d02b911ae32e0896"),
        (Sudoku(side=9, puzzles=16, **SMALL), "5eb5a1e3fb504546"),
        (Sudoku(side=9, puzzles=16, test_puzzles=16), "86031a883d148ac7"),
        (PhantomXray(), "2fc37ac69e1ddaaa"),
        (PhantomCaptions(), "9942d526438b3101"),
    ],
    ids=lambda value: getattr(value, "title", value),
)
def test_generated_data_are_the_same_bits_on_every_machine(config, digest):
    decoded = read_data(config.reader(), Path())
    arrays = (decoded.train_images, decoded.train_labels, decoded.test_images, decoded.test_labels)
    captions = repr((decoded.train_captions, decoded.test_captions)).encode()

    assert hashlib.sha256(b"".join(array.tobytes() for array in arrays) + captions).hexdigest()[:16] == digest
