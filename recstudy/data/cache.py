"""Decoded data sets, once a machine, as memory-mapped arrays: all trials of a node share their pages, with no copy a trial.

    RECSTUDY_CACHE/NAME-DIGEST/{train_images,train_labels,test_images,test_labels}.npy
                               {train_groups,test_groups,train_held}.npy    where the set has patients, a validation split
                               {train_captions,test_captions,tokenizer}.json       where the images have captions
                               meta.json     checksum, sizes, notes, mean and deviation of the training images

The digest covers what decides the decoded bytes: the fields that are read, and the place, size and time of every source
file. So a changed source is a new entry, and a warm one is opened without looking into a single image.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from recstudy.config import DataConfig, canonical
from recstudy.data import readers
from recstudy.data.images import Decoded, Labels, Pixels, Tokens
from recstudy.data.splits import hold_out as held_out
from recstudy.data.splits import limit
from recstudy.data.text import Tokenizer, restore
from recstudy.errors import DataError

FORMAT = 1  # of an entry; raise it when the same sources decode to other bytes
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # as published, and in the code of 002


class Captions(Sequence[list[str]]):
    """All captions of each image of an official split, by row; read from the cache when the first is asked for."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __getitem__(self, row: Any) -> Any:
        return self._texts[row]

    def __len__(self) -> int:
        return len(self._texts)

    @cached_property
    def _texts(self) -> list[list[str]]:
        return list(json.loads(self.file.read_bytes()))


@dataclass(frozen=True)
class Split:
    """Some images of one official split."""

    images: Pixels  # (N, C, H, W), memory-mapped: all images of the official split
    labels: Labels | Tokens  # (N,); (N, K) of 1, 0 and -1 (unknown) where there are several an image; or (N, T) tokens
    rows: Labels  # which of the N belong to this split
    source: str  # checksum and official split: equal sources hold equal images
    groups: Labels | None = None  # (N,) the patient of each image; None for sets without patients
    captions: Captions | None = None  # N lists of texts, the references of an image; None for sets without captions

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
    group_count: int = 0  # patients of the training and the test images together, who are numbered from 0
    tokenizer: Tokenizer | None = None  # what made the labels of the captions; None for sets without captions


def load(config: DataConfig, folder: Path, *, download: bool = False, hold_out: bool = True) -> DataSet:
    """The data set of `config`, from the cache or decoded from below `folder` into it.

    `hold_out=False` leaves the validation split empty and trains on everything. No patient is in two splits. The statistics
    are those of the full training set, whatever the limit, so that runs with and without one see the same pixel values.

    Raises:
        DataError: sources missing or damaged, or a cache folder that cannot be written.
    """
    entry = _entry(config, folder, download)
    meta = _meta(entry)
    train, test = (_split(entry, part, meta["checksum"]) for part in ("train", "test"))
    held, kept = held_out(train.labels, train.groups, _optional(entry, "train_held"), config, hold_out)
    mean, std = _statistics(config, meta)
    return DataSet(
        train=_take(train, kept),
        validation=_take(train, held),
        test=_take(test, limit(test.labels, test.groups, config)),
        mean=mean,
        std=std,
        checksum=meta["checksum"],
        classes=config.classes,
        notes=tuple(meta.get("notes", ())),
        group_count=0 if test.groups is None else int(test.groups.max()) + 1,
        tokenizer=_tokenizer(entry),
    )


def _entry(config: DataConfig, folder: Path, download: bool) -> Path:
    """The folder of this set's entry, built first where it is missing or not whole."""
    readers.check(config, folder, download)
    root = cache_folder()
    if readers.absent(config, folder):
        with alone(root, config.name):
            readers.fetch(config, folder)
    entry = root / f"{config.name}-{_digest(config, folder)}"
    if not _whole(entry):
        with alone(root, config.name):
            if not _whole(entry):  # another process may have built it while this one waited
                _build(entry, readers.read(config, folder))
    return entry


def _digest(config: DataConfig, folder: Path) -> str:
    fields = config.model_dump(mode="json", exclude={*DataConfig.model_fields, "statistics"})
    files = readers.sources(config, folder)
    stats = [(name, (stat := (folder / name).stat()).st_size, stat.st_mtime_ns) for name in files]
    place = [str(folder.resolve()), stats] if files else readers.program(config)
    return hashlib.sha256(canonical([FORMAT, config.name, fields, place]).encode()).hexdigest()[:16]


def cache_folder() -> Path:
    return Path(os.environ.get("RECSTUDY_CACHE") or "~/.cache/recstudy").expanduser()


@contextmanager
def alone(root: Path, name: str) -> Iterator[None]:
    """Wait until no other process fetches or builds this set. The system frees the lock of a process that died."""
    with writing(root):
        root.mkdir(parents=True, exist_ok=True)
        lock = open(root / f".{name}.lock", "w")  # noqa: SIM115
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def writing(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot keep decoded images in {root}: {error.strerror}. Set RECSTUDY_CACHE to a folder that can be written."
        ) from None


def _build(entry: Path, decoded: Decoded) -> None:
    """Write the entry under a temporary name, then rename it, so that it is there whole or not at all."""
    temporary = entry.with_name(f".{entry.name}.tmp")
    with writing(entry.parent):
        for leftover in (temporary, entry):
            shutil.rmtree(leftover, ignore_errors=True)
        temporary.mkdir()
        for name, array in _arrays(decoded):
            np.save(temporary / f"{name}.npy", array)
        for name, text in _texts(decoded):
            (temporary / f"{name}.json").write_text(text)
        sizes = {file.name: file.stat().st_size for file in temporary.iterdir()}
        (temporary / "meta.json").write_text(json.dumps({**_describe(decoded), "sizes": sizes}, indent=1) + "\n")
        temporary.rename(entry)


def _arrays(decoded: Decoded) -> list[tuple[str, npt.NDArray[Any]]]:
    return [(name, part) for name, part in decoded._asdict().items() if isinstance(part, np.ndarray)]


def _texts(decoded: Decoded) -> list[tuple[str, str]]:
    """What is kept as JSON."""
    named = {name: getattr(decoded, name) for name in ("train_captions", "test_captions", "tokenizer")}
    return [(name, canonical(values) + "\n") for name, values in named.items() if values is not None]


def _describe(decoded: Decoded) -> dict[str, Any]:
    digest = hashlib.sha256()
    for name, array in _arrays(decoded):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.data)
    for name, text in _texts(decoded):
        digest.update(f"{name} {text}".encode())
    mean, std = _moments(decoded.train_images)
    counts = {"train": len(decoded.train_labels), "test": len(decoded.test_labels)}
    notes = {"notes": decoded.notes} if decoded.notes else {}
    return {"checksum": digest.hexdigest(), "counts": counts, "mean": mean, "std": std, **notes}


def _moments(images_NCHW: Pixels) -> tuple[list[float], list[float]]:
    """Mean and deviation a channel, 0..1 scale, float64 from exact counts of the 256 values."""
    channels = images_NCHW.shape[1]
    counts = np.zeros((channels, 256), np.int64)
    for start in range(0, len(images_NCHW), 1024):  # bincount widens to 8 bytes a pixel
        for channel in range(channels):
            counts[channel] += np.bincount(images_NCHW[start : start + 1024, channel].ravel(), minlength=256)
    shares = counts / counts.sum(1, keepdims=True)
    values = np.arange(256) / 255
    mean = shares @ values
    variance = (shares * (values - mean[:, None]) ** 2).sum(1)
    return mean.tolist(), np.sqrt(variance).tolist()


def _whole(entry: Path) -> bool:
    try:
        sizes = _meta(entry)["sizes"]
        return bool(sizes) and all((entry / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError):
        return False


def _meta(entry: Path) -> dict[str, Any]:
    return dict(json.loads((entry / "meta.json").read_bytes()))


def _split(entry: Path, part: str, checksum: str) -> Split:
    """All of one official split. Copy-on-write maps: pages are shared, and torch does not warn about read-only memory."""
    images, labels = (np.load(entry / f"{part}_{what}.npy", mmap_mode="c") for what in ("images", "labels"))
    file = entry / f"{part}_captions.json"
    captions = Captions(file) if file.exists() else None
    groups = _optional(entry, f"{part}_groups")
    return Split(images, np.asarray(labels), np.arange(len(labels)), f"{checksum}/{part}", groups, captions)


def _tokenizer(entry: Path) -> Tokenizer | None:
    file = entry / "tokenizer.json"
    return restore(json.loads(file.read_bytes())) if file.exists() else None


def _optional(entry: Path, name: str) -> npt.NDArray[Any] | None:
    file = entry / f"{name}.npy"
    return np.load(file) if file.exists() else None


def _take(split: Split, rows: Labels) -> Split:
    return replace(split, rows=rows)


def _statistics(config: DataConfig, meta: dict[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if getattr(config, "statistics", "own") == "cifar10":
        return CIFAR10_MEAN, CIFAR10_STD
    return tuple(meta["mean"]), tuple(meta["std"])
