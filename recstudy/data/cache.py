"""Decoded data sets, once a machine, as memory-mapped arrays: all trials of a node share their pages, with no copy a trial.

    RECSTUDY_CACHE/NAME-DIGEST/{train_images,train_labels,test_images,test_labels}.npy
                               {train_groups,test_groups,train_held}.npy    where the set has patients, a validation split
                               {train_captions,test_captions,tokenizer}.json       where the images have captions
                               {train,test}_{puzzles,ids}.npy    where puzzles have several examples, or ids
                                identifiers.json                  where ids have names
                               meta.json     checksum, notes, mean and deviation of the training images
                               seal.json     by which the entry is known to be what was decoded (cache_folder.py)

The digest covers what decides the decoded bytes: the fields that are read, the place, size and time of every source file,
and the reader's code. So a changed source or reader is a new entry, and a warm one is opened without looking into a single
image.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from recstudy.config import DataConfig, canonical
from recstudy.data.cache_folder import Meta, alone, cached, entry_of, listing, making, meta_of
from recstudy.data.images import Labels, Pixels, Tokens
from recstudy.data.reader import Decoded
from recstudy.data.splits import hold_out as held_out
from recstudy.data.splits import limit
from recstudy.data.text import restore
from recstudy.data.tokenizers import Tokenizer
from recstudy.errors import DataError, RecstudyError, raised_at
from recstudy.metrics import TASKS
from recstudy.records.reading import dumped

T = TypeVar("T")


class Texts(Sequence[T]):
    """The captions of each image of an official split, by row, or names; read from the cache when the first is asked for."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __getitem__(self, row: Any) -> Any:
        return self._texts[row]

    def __len__(self) -> int:
        return len(self._texts)

    @cached_property
    def _texts(self) -> list[T]:
        return list(json.loads(self.file.read_bytes()))


@dataclass(frozen=True)
class Split:
    """Some images of one official split."""

    images: Pixels  # (N, C, H, W), memory-mapped: all images of the official split
    labels: Labels | Tokens  # (N,); (N, K) of 1, 0 and -1 (unknown) where there are several an image; or (N, T) or (N, S) tokens
    rows: Labels  # which of the N belong to this split
    source: str  # checksum and official split: equal sources hold equal images
    groups: Labels | None = None  # (N,) the patient of each image; None for sets without patients
    captions: Texts[list[str]] | None = None  # N lists of texts, the references of an image; None for sets without captions
    puzzles: Labels | None = None  # (N,) of several examples of a puzzle which it is; None where each is one of its own
    ids: Labels | None = None  # (N,) a puzzle's row in a table of embeddings; None for sets without such

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class DataSet:
    """The three splits, and what standardises their images: mean and deviation a channel, on a scale of 0 to 1."""

    train: Split
    validation: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]
    checksum: str  # sha256 of all decoded images and labels, before any limit
    classes: int
    notes: tuple[str, ...] = ()  # what the reader changed or left out
    group_count: int = 0  # patients, or ids of puzzles, of both official splits together, which are numbered from 0
    tokenizer: Tokenizer | None = None  # what made the labels of the captions; None for sets without captions
    identifiers: Texts[str] | None = None  # what each id stands for; None where ids have no names

    def selection(self, by: str) -> Split:
        """Return the split that selects epochs, by `train.selection`."""
        return self.validation if by == "validation" else self.test


def load(config: DataConfig, folder: Path, *, download: bool = False, hold_out: bool = True) -> DataSet:
    """Return the data set of `config`, from the cache or decoded from below `folder` into it.

    `hold_out=False` leaves the validation split empty and trains on everything. No patient is in two splits. The statistics
    are those of the full training set, whatever the limit, so that runs with and without one see the same pixel values.

    Raises:
        DataError: sources missing or damaged, or a cache folder that cannot be written.
    """
    entry = _entry(config, folder, download)
    meta = meta_of(entry)
    train, test = (_split(entry, part, meta.checksum) for part in ("train", "test"))
    held, kept = held_out(train.labels, train.groups, _optional(entry, "train_held"), config, hold_out)
    numbered = [split.ids if "ids" in TASKS[config.task].takes else split.groups for split in (train, test)]
    mean, std = config.moments or (meta.mean, meta.std)
    tokenizer, names = entry / "tokenizer.json", entry / "identifiers.json"
    return DataSet(
        train=replace(train, rows=kept),
        validation=replace(train, rows=held),
        test=replace(test, rows=limit(test.labels, test.groups, config)),
        mean=mean,
        std=std,
        checksum=meta.checksum,
        classes=config.classes,
        notes=meta.notes,
        group_count=1 + max((int(numbers.max()) for numbers in numbered if numbers is not None), default=-1),
        tokenizer=restore(json.loads(tokenizer.read_bytes())) if tokenizer.exists() else None,
        identifiers=Texts(names) if names.exists() else None,
    )


def _entry(config: DataConfig, folder: Path, download: bool) -> Path:
    """Return the folder of this set's entry, built first where it is missing or not whole."""
    reader = config.reader()
    if download and reader.missing(folder):
        with alone(config.name):
            if reader.missing(folder):  # another process may have fetched it while this one waited
                reader.fetch(folder)
    with listing(config):
        reader.check(folder)
        entry = entry_of(reader, folder)

    def build(path: Path) -> None:
        try:
            decoded = reader.read(folder)
        except (RecstudyError, MemoryError):
            raise
        except Exception as error:  # of whatever kind: it may be a user's code, and a user's file
            raise DataError(f"the reader of {config.title} failed: {raised_at(error)}") from error
        _build(path, decoded)

    return cached(entry, build, config.name)


def _build(entry: Path, decoded: Decoded) -> None:
    """Write the files of an entry; its checksum is over all arrays, then all texts."""
    arrays = {name: part for name, part in decoded._asdict().items() if isinstance(part, np.ndarray)}
    named = {name: getattr(decoded, name) for name in ("train_captions", "test_captions", "tokenizer", "identifiers")}
    texts = {name: canonical(values) + "\n" for name, values in named.items() if values is not None}
    with making(entry) as folder:
        folder.mkdir()
        hashed = hashlib.sha256()
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
            hashed.update(f"{name} {array.dtype} {array.shape}".encode())
            hashed.update(array.data)
        for name, text in texts.items():
            (folder / f"{name}.json").write_text(text)
            hashed.update(f"{name} {text}".encode())
        mean, std = _moments(decoded.train_images)
        counts = {"train": len(decoded.train_labels), "test": len(decoded.test_labels)}
        meta = Meta(checksum=hashed.hexdigest(), counts=counts, mean=mean, std=std, notes=decoded.notes)
        (folder / "meta.json").write_text(json.dumps(dumped(meta), indent=1) + "\n")


def _moments(images_NCHW: Pixels) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation a channel, 0..1 scale, float64 from exact counts of the 256 values."""
    channels = images_NCHW.shape[1]
    counts = np.zeros((channels, 256), np.int64)
    for start in range(0, len(images_NCHW), 1024):  # bincount widens to 8 bytes a pixel
        for channel in range(channels):
            counts[channel] += np.bincount(images_NCHW[start : start + 1024, channel].ravel(), minlength=256)
    shares = counts / counts.sum(1, keepdims=True)
    values = np.arange(256) / 255
    mean = shares @ values
    variance = (shares * (values - mean[:, None]) ** 2).sum(1)
    return tuple(mean.tolist()), tuple(np.sqrt(variance).tolist())


def _split(entry: Path, part: str, checksum: str) -> Split:
    """Return all of an official split. Copy-on-write maps: pages are shared, and torch does not warn about read-only memory."""
    images, labels = (np.load(entry / f"{part}_{what}.npy", mmap_mode="c") for what in ("images", "labels"))
    groups, puzzles, ids = (_optional(entry, f"{part}_{what}") for what in ("groups", "puzzles", "ids"))
    file = entry / f"{part}_captions.json"
    captions: Texts[list[str]] | None = Texts(file) if file.exists() else None
    return Split(images, np.asarray(labels), np.arange(len(labels)), f"{checksum}/{part}", groups, captions, puzzles, ids)


def _optional(entry: Path, name: str) -> npt.NDArray[Any] | None:
    file = entry / f"{name}.npy"
    return np.load(file) if file.exists() else None
