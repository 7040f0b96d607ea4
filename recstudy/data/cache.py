"""Decoded data sets, once a machine, as memory-mapped arrays: all trials of a node share their pages, with no copy a trial.

    RECSTUDY_CACHE/NAME-DIGEST/{train_images,train_labels,test_images,test_labels}.npy
                               meta.json     checksum, sizes, mean and deviation of the training images

The digest covers what decides the decoded bytes: the fields that are read, and the place, size and time of every source
file. So a changed source is a new entry, and a warm one is opened without looking into a single image.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heappop, heappush
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from recstudy.config import DataConfig, canonical
from recstudy.data import readers
from recstudy.data.readers import Decoded, Labels, Pixels
from recstudy.errors import DataError

FORMAT = 1  # of an entry; raise it when the same sources decode to other bytes
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # as published, and in the code of 002


@dataclass(frozen=True)
class Split:
    """Some images of one official split."""

    images: Pixels  # (N, C, H, W), memory-mapped: all images of the official split
    labels: Labels  # (N,)
    rows: Labels  # which of the N belong to this split
    source: str  # checksum and official split: equal sources hold equal images

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


def load(config: DataConfig, folder: Path, *, download: bool = False, hold_out: bool = True) -> DataSet:
    """The data set of `config`, from the cache or decoded from below `folder` into it.

    `hold_out=False` leaves the validation split empty and trains on everything. The statistics are those of the full
    training set, whatever the limit, so that runs with and without one see the same pixel values.

    Raises:
        DataError: sources missing or damaged, or a cache folder that cannot be written.
    """
    entry = _entry(config, folder, download)
    meta = _meta(entry)
    train, test = (_split(entry, part, meta["checksum"]) for part in ("train", "test"))
    held, kept = _hold_out(train.labels, config, hold_out)
    mean, std = _statistics(config, meta)
    return DataSet(
        train=_take(train, kept),
        validation=_take(train, held),
        test=_take(test, np.sort(stratified_order(test.labels, config.split_seed, config.limit)) if config.limit else test.rows),
        mean=mean,
        std=std,
        checksum=meta["checksum"],
        classes=config.classes,
    )


def stratified_order(labels: Labels, seed: int, most: int | None = None) -> Labels:
    """A seeded permutation of the rows, any prefix of which holds the classes in proportion; only its first `most` rows.

    In a prefix of k of N rows, a class of n rows has k n / N of them, give or take less than one. A merge by position
    cannot promise that for unequal classes; Tijdeman's chairman assignment does (Discrete Mathematics 32, 1980): the j-th
    row of a class may come from step (j + 1/m) N / n on and has to by step (j + 1 - 1/m) N / n, m = 2 (classes - 1);
    of those that may come, the most urgent does.
    """
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    rows = shuffled[np.argsort(labels[shuffled], kind="stable")]
    sizes = np.bincount(labels)
    n = np.repeat(sizes, sizes)
    j = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    m = max(2 * int(np.count_nonzero(sizes)) - 2, 1)
    first = -(-(j * m + 1) * len(labels) // (m * n))
    last = ((j + 1) * m - 1) * len(labels) // (m * n)
    return rows[_most_urgent_first(first, last, len(labels) if most is None else min(most, len(labels)))]


def _most_urgent_first(first: Labels, last: Labels, count: int) -> list[int]:
    """Items by step: at each step, of those whose first step has come, the one whose last step is nearest."""
    arrivals = np.argsort(first, kind="stable")
    items, steps, urgency = arrivals.tolist(), first[arrivals].tolist(), last.tolist()
    waiting: list[tuple[int, int]] = []
    order: list[int] = []
    arrived = 0
    for step in range(1, count + 1):
        while arrived < len(items) and steps[arrived] <= step:
            heappush(waiting, (urgency[items[arrived]], items[arrived]))
            arrived += 1
        order.append(heappop(waiting)[1])
    return order


def _hold_out(labels: Labels, config: DataConfig, hold_out: bool) -> tuple[Labels, Labels]:
    """Rows of the validation and of the training split, each in file order."""
    count = min(config.limit or len(labels), len(labels))
    held = min(max(1, round(config.validation * count)), count - 1) if hold_out else 0
    if count == len(labels):
        prefix = stratified_order(labels, config.split_seed, held)
        return np.sort(prefix), np.setdiff1d(np.arange(count), prefix, assume_unique=True)
    order = stratified_order(labels, config.split_seed, count)
    return np.sort(order[:held]), np.sort(order[held:])


def _entry(config: DataConfig, folder: Path, download: bool) -> Path:
    """The folder of this set's entry, built first where it is missing or not whole."""
    readers.check(config, folder, download)
    root = Path(os.environ.get("RECSTUDY_CACHE") or "~/.cache/recstudy").expanduser()
    if readers.absent(config, folder):
        with _alone(root, config.name):
            readers.fetch(config, folder)
    entry = root / f"{config.name}-{_digest(config, folder)}"
    if not _whole(entry):
        with _alone(root, config.name):
            if not _whole(entry):  # another process may have built it while this one waited
                _build(entry, readers.read(config, folder))
    return entry


def _digest(config: DataConfig, folder: Path) -> str:
    fields = config.model_dump(mode="json", exclude={*DataConfig.model_fields, "statistics"})
    files = readers.sources(config, folder)
    stats = [(name, (stat := (folder / name).stat()).st_size, stat.st_mtime_ns) for name in files]
    place = [str(folder.resolve()), stats] if files else ["scikit-learn", version("scikit-learn")]
    return hashlib.sha256(canonical([FORMAT, config.name, fields, place]).encode()).hexdigest()[:16]


@contextmanager
def _alone(root: Path, name: str) -> Iterator[None]:
    """Wait until no other process fetches or builds this set. The system frees the lock of a process that died."""
    with _writing(root):
        root.mkdir(parents=True, exist_ok=True)
        lock = open(root / f".{name}.lock", "w")  # noqa: SIM115
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _writing(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot keep decoded images in {root}: {error.strerror}. Set RECSTUDY_CACHE to a folder that can be written."
        ) from None


def _build(entry: Path, decoded: Decoded) -> None:
    """Write the entry under a temporary name, then rename it, so that it is there whole or not at all."""
    temporary = entry.with_name(f".{entry.name}.tmp")
    with _writing(entry.parent):
        for leftover in (temporary, entry):
            shutil.rmtree(leftover, ignore_errors=True)
        temporary.mkdir()
        for name, array in decoded._asdict().items():
            np.save(temporary / f"{name}.npy", array)
        sizes = {file.name: file.stat().st_size for file in temporary.iterdir()}
        (temporary / "meta.json").write_text(json.dumps({**_describe(decoded), "sizes": sizes}, indent=1) + "\n")
        temporary.rename(entry)


def _describe(decoded: Decoded) -> dict[str, Any]:
    digest = hashlib.sha256()
    for name, array in decoded._asdict().items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.data)
    mean, std = _moments(decoded.train_images)
    counts = {"train": len(decoded.train_labels), "test": len(decoded.test_labels)}
    return {"checksum": digest.hexdigest(), "counts": counts, "mean": mean, "std": std}


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
    return Split(images, np.asarray(labels), np.arange(len(labels)), f"{checksum}/{part}")


def _take(split: Split, rows: Labels) -> Split:
    return Split(split.images, split.labels, rows, split.source)


def _statistics(config: DataConfig, meta: dict[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if getattr(config, "statistics", "own") == "cifar10":
        return CIFAR10_MEAN, CIFAR10_STD
    return tuple(meta["mean"]), tuple(meta["std"])
