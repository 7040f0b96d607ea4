"""Writes drawn puzzles in the layout of the authors of HRM and TRM (`official_layout.py`), whose own code can train on them.

Shapes: N puzzles, A symmetries of each, S cells.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from recstudy.data.images import Labels, Pixels
from recstudy.data.official_layout import ARRAYS, Description
from recstudy.data.puzzles import Puzzles, numbers
from recstudy.errors import ConfigError, StorageError
from recstudy.files import whole

CHUNK = 2**14  # grids that are turned together
SET = "all"


def write_layout(folder: Path, config: Puzzles) -> None:
    """The whole folder or nothing.

    A training puzzle is a group: itself, and so many of its symmetries as `config.augmentations` says, those under which it is
    shown when recstudy itself trains. A test puzzle is alone.

    Raises:
        ConfigError: something is there already.
        StorageError: it cannot be written.
    """
    check_free(folder)
    decoded = config.reader().read(Path())
    try:
        with whole(folder) as temporary:
            _write_split(temporary / "train", decoded.train_images, np.asarray(decoded.train_labels, np.uint8), config, True)
            _write_split(temporary / "test", decoded.test_images, np.asarray(decoded.test_labels, np.uint8), config, False)
            (temporary / "identifiers.json").write_text(json.dumps(["<blank>"]) + "\n")
            check_free(folder)  # drawing takes a while
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror}. Give a folder that can be written.") from None


def check_free(folder: Path) -> None:
    """Refuse (ConfigError) what is there already."""
    if folder.exists():
        raise ConfigError(f"{folder} is there already. Give another name, or remove it first.")


def _write_split(folder: Path, images: Pixels, labels: Pixels, config: Puzzles, turn: bool) -> None:
    count, each = len(images), 1 + (config.augmentations or 0) * turn
    total = count * each
    folder.mkdir(parents=True)
    header = {"descr": "|u1", "fortran_order": False, "shape": (total, config.cells)}
    with open(folder / f"{SET}__inputs.npy", "wb") as inputs, open(folder / f"{SET}__labels.npy", "wb") as answers:
        for file in (inputs, answers):
            np.lib.format.write_array_header_1_0(file, header)
        for given, right in _turned(images.reshape(count, -1), labels, config, each):
            inputs.write(given.tobytes())
            answers.write(right.tobytes())
    indices = np.zeros(total, np.int32), np.arange(total + 1, dtype=np.int32), each * np.arange(count + 1, dtype=np.int32)
    for name, array in zip(ARRAYS[2:], indices, strict=True):
        np.save(folder / f"{SET}__{name}.npy", array)
    about = Description(
        pad_id=0,
        ignore_label_id=0,
        blank_identifier_id=0,
        vocab_size=config.classes,
        seq_len=config.cells,
        num_puzzle_identifiers=1,
        total_groups=count,
        mean_puzzle_examples=1,
        total_puzzles=total,
        sets=[SET],
    )
    (folder / "dataset.json").write_text(about.model_dump_json(indent=1) + "\n")


def _turned(given: Pixels, answers: Pixels, config: Puzzles, each: int) -> Iterator[tuple[Pixels, Pixels]]:
    """Puzzles (N, S) and answers, each as it is and then under its symmetries, a chunk at a time."""
    step = max(CHUNK // each, 1)
    for start in range(0, len(given), step):
        rows = np.repeat(np.arange(start, min(start + step, len(given))), each)
        yield _under(given[rows], answers[rows], rows, np.arange(len(rows)) % each, config)


def _under(given: Pixels, answers: Pixels, rows: Labels, turns: Labels, config: Puzzles) -> tuple[Pixels, Pixels]:
    """Puzzles (B, S) under their symmetry of that number, as `puzzles.symmetries` draws them; 0 leaves one as it is."""
    draws = torch.from_numpy(numbers(config.split_seed, rows, turns, config.draws))
    new, right = config.turned(torch.from_numpy(given), torch.from_numpy(answers), draws)
    same = turns[:, None] == 0
    return np.where(same, given, new.numpy()), np.where(same, answers, right.numpy())
