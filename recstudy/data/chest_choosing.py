"""Reads `ChestXray14`: which images there are, which split they belong to, and their pixels.

Everything that can be wrong with the table, the splits or the folder is found by `choose`, before an image is opened and
before a run starts; on a set as large as NIH's (112,120 images) that takes about a second, most of it the table.

Shapes: N images, H height and width.
"""

import os
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recstudy.data.chest_table import LISTS, Table, read_table, table_files
from recstudy.data.chest_xray14 import FINDINGS, ChestXray14
from recstudy.data.decoded import Decoded
from recstudy.data.images import Labels, Mask, Pixels, decode_grey, images_are, in_threads
from recstudy.data.splits import Texts, check_filled, check_whole, numbered, whole_groups
from recstudy.errors import DataError

TEST_SHARE = 0.2  # of the images, where no split is given; drawn with seed 0, the same for every `split_seed`


class Chosen(NamedTuple):
    """The images that are read, training images first, each split in the table's order."""

    files: list[str]  # below PATH
    labels: Labels  # (N, 18), or (N,) for single findings
    groups: Labels  # (N,) patients, numbered as they come
    splits: Texts  # (N,) train, val or test
    notes: tuple[str, ...]
    sources: list[str]  # below the data folder: the table, the lists of splits and the images


def decode_chosen(config: ChestXray14, folder: Path, chosen: Chosen) -> Decoded:
    """Decode what `choose` chose. Memory: the uint8 images, and what the threads have open."""
    images, kinds = _decode_all(folder / config.path, chosen.files, config.size)
    train = int(np.count_nonzero(chosen.splits != "test"))
    held = chosen.splits[:train] == "val"
    return Decoded(
        train_images=images[:train],
        train_labels=chosen.labels[:train],
        test_images=images[train:],
        test_labels=chosen.labels[train:],
        train_groups=chosen.groups[:train],
        test_groups=chosen.groups[train:],
        train_held=held if held.any() else None,
        notes=(*chosen.notes, *_conversions(kinds)),
    )


def choose(config: ChestXray14, folder: Path) -> Chosen:
    """Choose the images of each split. Opens the table and lists the image folders, but opens no image.

    Raises:
        DataError: a missing or broken table, missing images, a label that is none, a patient in two splits, an empty split.
    """
    place = folder / config.path
    table = read_table(_table_file(config, folder))
    found = _images(place)
    _check_missing(config, table, found)
    splits = np.array(table.splits or _drawn(table))
    check_whole("patient", table.patients, splits, f"{place}: by {table.split_files}, ")
    there = np.array([name in found for name in table.images])
    single = config.findings == "single"
    kept = there & ((table.labels == 1).sum(1) == 1) if single else there
    check_filled(splits, splits[kept], place, f"none is named in {table.split_files}")
    rows = np.concatenate([np.flatnonzero(kept & (splits != "test")), np.flatnonzero(kept & (splits == "test"))])
    files = [found[table.images[row]] for row in rows]
    lists = [name for name in LISTS if (place / name).exists()]
    return Chosen(
        files=files,
        labels=table.labels[rows].argmax(1) if single else table.labels[rows],
        groups=numbered([table.patients[row] for row in rows]),
        splits=splits[rows],
        notes=tuple(_notes(table, there, kept)),
        sources=[f"{config.path}/{name}" for name in (table.file.name, *lists, *files)],
    )


def _table_file(config: ChestXray14, folder: Path) -> Path:
    place = folder / config.path
    files = table_files(place)
    if not files:
        missing = f"{config.path}/labels.csv or Data_Entry_2017*.csv" if place.is_dir() else config.path
        raise DataError(
            f"{config.title} not found under {folder} ({missing} is missing). Pass --data DIR, set RECSTUDY_DATA or data.path."
        )
    if len(files) > 1:
        raise DataError(f"{place} has {' and '.join(file.name for file in files)}. Keep the one that counts.")
    return files[0]


def _images(place: Path) -> dict[str, str]:
    """Return file name to path below `place`; each folder is listed once, as looking for each of 112,120 files takes long."""
    found: dict[str, str] = {}
    for below in _image_folders(place):
        with os.scandir(place / below) as entries:
            here = {entry.name: f"{below}/{entry.name}" for entry in entries if entry.is_file()}
        if twice := sorted(here.keys() & found.keys()):
            raise DataError(f"{place} has {twice[0]} twice: {found[twice[0]]} and {here[twice[0]]}. Keep one of the two.")
        found |= here
    return found


def _image_folders(place: Path) -> list[str]:
    folders = ["images", *sorted(f"{part.name}/images" for part in place.glob("images_*"))]
    return [below for below in folders if (place / below).is_dir()]


def _check_missing(config: ChestXray14, table: Table, found: dict[str, str]) -> None:
    missing = [name for name in table.images if name not in found]
    if not missing or config.allow_missing:
        return
    of = f"{len(missing):,} of {len(table.images):,} images named in {table.file.name}"
    first = f"{(_image_folders(table.file.parent) or ['images'])[0]}/{missing[0]}"
    are, them = ("is missing:", "it") if len(missing) == 1 else ("are missing, the first is", "them")
    raise DataError(f"{table.file.parent}: {of} {are} {first}. Put {them} there, or go on without {them} with --allow-missing.")


def _drawn(table: Table) -> list[str]:
    """Draw a split by patient, where none is given; `load` holds the validation split out of the training images."""
    groups = numbered(table.patients)
    if groups.max() == 0:
        raise DataError(f"{table.file} has one patient only, who cannot be in both train and test. Add others, or a split.")
    test = whole_groups(groups, max(1, round(TEST_SHARE * len(groups))), seed=0)
    return ["test" if out else "train" for out in test]


def _notes(table: Table, there: Mask, kept: Mask) -> Iterable[str]:
    missing, others = np.count_nonzero(~there), np.count_nonzero(there & ~kept)
    if missing:
        yield f"{images_are(missing)} named in {table.file.name} and missing: left out"
    if others:
        yield f"{images_are(others)} without exactly one known finding: left out"
    if table.splits is None:
        yield "no splits are given: drawn by patient, 20 % of the images for test"
    if unknown := [name for name, column in zip(FINDINGS, table.labels[kept].T, strict=True) if (column == -1).all()]:
        yield f"no image has a label of {', '.join(unknown)}"


def _conversions(kinds: Counter[str]) -> Iterable[str]:
    if kinds["colour"]:
        yield f"{images_are(kinds['colour'])} in colour: converted to grey"
    if kinds["16-bit"]:
        yield f"{images_are(kinds['16-bit'])} of 16 bits: scaled to 8 by value / 257"


def _decode_all(place: Path, files: list[str], size: int) -> tuple[Pixels, Counter[str]]:
    """Decode (N, 1, size, size), and count how many files were of which kind."""
    images = np.empty((len(files), 1, size, size), np.uint8)
    kinds: Counter[str] = Counter()
    decoded = in_threads(partial(decode_grey, size=size), [place / file for file in files])
    for row, (pixels, kind) in enumerate(decoded):
        images[row] = pixels
        kinds[kind] += 1
    return images, kinds
