"""The cache folder of a machine: decoded data sets as memory-mapped arrays, and other files that one process
writes and all processes read.

    RECSTUDY_CACHE/NAME-DIGEST/
        {train_images,train_labels,test_images,test_labels}.npy
        {train_groups,test_groups,train_held}.npy       with patients; with a validation split
        {train_captions,test_captions,tokenizer}.json   with captions
        test_names.json                                 with files of images
        {train,test}_{puzzles,ids}.npy                  with several examples per puzzle; with ids
        identifiers.json                                with names of the ids
        meta.json                                       checksum, notes, mean and deviation of training images
    RECSTUDY_CACHE/NAME                                 a file or a folder
    RECSTUDY_CACHE/.NAME.stamp                          size and modification time of each of its files

All trials of a node share the memory pages of the arrays. The digest covers everything that determines the
decoded bytes: the reader's settings, the path, size and modification time of every source file, recstudy's
version, and the files of the config, the reader and the user modules that they import. A changed source or
reader therefore gets a new entry, and an existing entry is opened without reading a single image. An entry is
rebuilt if the sizes or times of its files differ from its stamp.

The checksum of the decoded bytes is in `meta.json` and in each run's result. Planning a study needs only the
checksum, so NumPy is imported when an array is loaded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from recstudy.base.errors import ConfigError, DataError, RecstudyError, raised_at
from recstudy.base.files import atomic_write, cache_folder, caching, sweep
from recstudy.base.values import canonical, digest
from recstudy.plugins.files import code_key
from recstudy.programs.watchdog import heartbeat
from recstudy.records import locked, read_record
from recstudy.records.reading import dumped
from recstudy.records.schema import record
from recstudy.recursive.config.parts import DataConfig
from recstudy.recursive.config.reader import Array, Labels, Pixels, Reader, Tokens, np
from recstudy.recursive.config.tasks import TASKS
from recstudy.recursive.data.reading import read_data
from recstudy.recursive.data.splits import limit_split, split_validation
from recstudy.recursive.data.text import Tokenizer, restore

FORMAT = 2  # version of the entries; raise it if the same sources decode to other bytes
IMAGES = "decoded images"
BATCH = 64  # images of `cached_results`; 224x224 pixels in float32 are 37 MiB


class Texts(Sequence[Any]):
    """The captions of each image of an official split, or the names of ids, read from the cache on first
    use."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __getitem__(self, row: Any) -> Any:
        return self._texts[row]

    def __len__(self) -> int:
        return len(self._texts)

    @cached_property
    def _texts(self) -> list[Any]:
        return list(json.loads(self.file.read_bytes()))


@dataclass(frozen=True)
class Split:
    """A subset of the N images of an official split."""

    images: Pixels  # (N, C, H, W) uint8 or float32, memory-mapped: all images of the official split
    # (N,) classes; (N, K) of 1, 0 and -1 (unknown) for several findings per image; or (N, T) or (N, S) tokens
    labels: Labels | Tokens
    rows: Labels  # rows of the images that belong to this split
    source: str  # checksum and official split: equal sources have equal images
    groups: Labels | None = None  # (N,) the patient of each image; None for sets without patients
    # N lists of reference texts; None for sets without captions
    captions: Texts | None = None
    names: Texts | None = None  # file of each image; None if unknown
    # (N,) the puzzle of each example; None if every example is a puzzle of its own
    puzzles: Labels | None = None
    ids: Labels | None = None  # (N,) a puzzle's row in the table of embeddings; None for sets without ids

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class DataSet:
    """The three splits of a data set.

    Mean and standard deviation per channel standardize the images. They refer to values from 0 to 1, or to
    the unit of float32 images.
    """

    train: Split
    validation: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]
    checksum: str  # SHA-256 of all decoded images and labels, before `limit` applies
    notes: tuple[str, ...] = ()  # changes and omissions of the reader
    # 1 + the largest patient number or puzzle id in both official splits
    group_count: int = 0
    tokenizer: Tokenizer | None = None  # tokenizer of the captions; None for sets without captions
    identifiers: Texts | None = None  # name of each id; None if ids have no names
    folder: Path = Path()  # the data folder, to which paths of the settings are relative

    def selection(self, by: str) -> Split:
        """Return the split that selects epochs.

        Args:
            by: `train.selection`, "validation" or "test".
        """
        return self.validation if by == "validation" else self.test


def load(config: DataConfig, folder: Path, *, download: bool = False, hold_out: bool = True) -> DataSet:
    """Load a data set from the cache, decoding its files first if needed.

    No patient is in two splits. Mean and deviation are those of the full training set, so runs with and
    without `limit` see the same pixel values.

    Args:
        config: The run's `data`.
        folder: The data folder.
        download: Whether missing files may be downloaded.
        hold_out: Whether to hold out a validation split. If false, the validation split is empty.

    Raises:
        DataError: If source files are missing or damaged, or the cache folder cannot be written.
    """
    entry = _entry(config, folder, download)
    meta = read_meta(entry)
    train, test = (_split(entry, part, meta.checksum) for part in ("train", "test"))
    held_mask = _array(entry / "train_held.npy")
    validation_rows, train_rows = split_validation(train.labels, train.groups, held_mask, config, hold_out)
    numbered = [split.ids if "ids" in TASKS[config.task].takes else split.groups for split in (train, test)]
    mean, std = config.moments or (meta.mean, meta.std)
    tokenizer = entry / "tokenizer.json"
    return DataSet(
        train=replace(train, rows=train_rows),
        validation=replace(train, rows=validation_rows),
        test=replace(test, rows=limit_split(test.labels, test.groups, config)),
        mean=mean,
        std=std,
        checksum=meta.checksum,
        notes=meta.notes,
        group_count=1 + max((int(numbers.max()) for numbers in numbered if numbers is not None), default=-1),
        tokenizer=restore(json.loads(tokenizer.read_bytes())) if tokenizer.exists() else None,
        identifiers=_texts(entry / "identifiers.json"),
        folder=folder,
    )


def _entry(config: DataConfig, folder: Path, download: bool) -> Path:
    """Return the folder of the set's entry. A missing or damaged entry is built first."""
    reader = config.reader()
    if download and reader.find_missing(folder):
        with build_lock(config.name):
            # Another process may have downloaded the files while this one waited for the lock.
            if reader.find_missing(folder):
                reader.fetch(folder)
    with listing_errors(config):
        reader.check(folder)
        entry = entry_folder(reader, folder)

    return ensure_cached(entry, partial(_build, reader, folder), config.name)


def _build(reader: Reader, data_folder: Path, entry: Path) -> None:
    """Decode a data set and write the files of its entry."""
    try:
        decoded = read_data(reader, data_folder)
    except (RecstudyError, MemoryError):
        raise
    except Exception as error:  # a user's reader may raise anything
        raise DataError(f"the reader of {reader.config.title} failed: {raised_at(error)}") from error
    with write_entry(entry) as folder:
        folder.mkdir()
        # The checksum covers all arrays, then all texts, each with its name.
        hashed = hashlib.sha256()
        for name, array in decoded._asdict().items():
            if isinstance(array, np.ndarray):
                np.save(folder / f"{name}.npy", array)
                hashed.update(f"{name} {array.dtype} {array.shape}".encode())
                hashed.update(array.data)
        for name in ("train_captions", "test_captions", "tokenizer", "identifiers", "test_names"):
            if (content := getattr(decoded, name)) is not None:
                text = canonical(content) + "\n"
                (folder / f"{name}.json").write_text(text, encoding="utf-8")
                # Names decide no number. The checksum is older than they are.
                hashed.update(f"{name} {text}".encode() * (name != "test_names"))
        mean, std = _moments(decoded.train_images)
        counts = {"train": len(decoded.train_labels), "test": len(decoded.test_labels)}
        meta = Meta(checksum=hashed.hexdigest(), counts=counts, mean=mean, std=std, notes=decoded.notes)
        (folder / "meta.json").write_text(json.dumps(dumped(meta), indent=1) + "\n", encoding="utf-8")


def _moments(images_NCHW: Pixels) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation per channel, computed in float64; uint8 counts as 0 to 1."""
    if images_NCHW.dtype != np.uint8:
        mean = images_NCHW.mean((0, 2, 3), dtype=np.float64)
        pieces = (images_NCHW[start : start + 1024] for start in range(0, len(images_NCHW), 1024))
        squares = sum(((piece - mean[:, None, None]) ** 2).sum((0, 2, 3)) for piece in pieces)
        return tuple(mean.tolist()), tuple(np.sqrt(squares / (images_NCHW[:, 0].size)).tolist())
    channels = images_NCHW.shape[1]
    # Counts of the 256 values are exact, so the moments do not depend on the order of a sum.
    counts = np.zeros((channels, 256), np.int64)
    for start in range(0, len(images_NCHW), 1024):  # in pieces: bincount needs 8 bytes per pixel
        for channel in range(channels):
            counts[channel] += np.bincount(images_NCHW[start : start + 1024, channel].ravel(), minlength=256)
    shares = counts / counts.sum(1, keepdims=True)
    values = np.arange(256) / 255
    mean = shares @ values
    variance = (shares * (values - mean[:, None]) ** 2).sum(1)
    return tuple(mean.tolist()), tuple(np.sqrt(variance).tolist())


def _split(entry: Path, part: str, checksum: str) -> Split:
    """Return all images of an official split, `part`."""
    # Copy-on-write maps share their pages between processes, and torch does not warn about read-only memory.
    images, labels = (np.load(entry / f"{part}_{name}.npy", mmap_mode="c") for name in ("images", "labels"))
    return Split(
        images=images,
        labels=np.asarray(labels),
        rows=np.arange(len(labels)),
        source=f"{checksum}/{part}",
        captions=_texts(entry / f"{part}_captions.json"),
        names=_texts(entry / f"{part}_names.json"),
        **{name: _array(entry / f"{part}_{name}.npy") for name in ("groups", "puzzles", "ids")},
    )


def _array(file: Path) -> Array | None:
    return np.load(file) if file.exists() else None


def _texts(file: Path) -> Texts | None:
    return Texts(file) if file.exists() else None


@record
class Meta:
    """Content of `meta.json`."""

    checksum: str  # SHA-256 of all decoded images and labels
    counts: dict[str, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    notes: tuple[str, ...] = ()


def known_checksum(config: DataConfig, folder: Path) -> str:
    """Return the checksum of the current files in `folder`, or "" if they have not been decoded here.

    Nothing is decoded or written. Sources are listed, which may read tables of the set.
    """
    with suppress(DataError, OSError), listing_errors(config):
        entry = entry_folder(config.reader(), folder)
        if _intact(entry):
            return read_meta(entry).checksum
    return ""


def needs_decoding(config: DataConfig, folder: Path) -> bool:
    """Return whether the set's current files are in `folder` but have not been decoded here."""
    reader = config.reader()
    with suppress(DataError, OSError), listing_errors(config):
        return (
            not reader.find_missing(folder)
            and bool(reader.sources(folder))
            and not known_checksum(config, folder)
        )
    return False


def entry_folder(reader: Reader, folder: Path) -> Path:
    """Return the folder of the set's entry, whose name has a digest of everything that decides its bytes."""
    config, files, program = reader.config, reader.sources(folder), reader.program()
    if not files and not program:
        raise DataError(
            f"the reader of {config.title} names no source file. Return the files in `sources`, or the name"
            " and version of the generating program in `program`."
        )
    fields = config.model_dump(mode="json", exclude={*DataConfig.model_fields, *reader.ignores})
    # Size and time of a file are cheaper than its content, which may be many gigabytes.
    stats = [(name, (stat := (folder / name).stat()).st_size, stat.st_mtime_ns) for name in files]
    place = [str(folder.resolve()), stats] if files else []
    code = code_key(type(config), type(reader))
    key = digest([FORMAT, config.name, config.revised, fields, place, program, code], 16)
    return cache_folder() / f"{config.name}-{key}"


def read_meta(entry: Path) -> Meta:
    """Read the `meta.json` of an entry."""
    meta = read_record(entry / "meta.json", Meta)
    if meta is None:
        raise DataError(f"{entry} was removed while it was opened. Run the command again.")
    return meta


@contextmanager
def listing_errors(config: DataConfig) -> Iterator[None]:
    """Turn errors of the file system into a DataError: a loop of links, or an invalid or too long name."""
    try:
        yield
    except (UnicodeEncodeError, ConfigError) as error:
        cause = error.__context__ or error
        if not isinstance(cause, UnicodeEncodeError):
            raise
        name = next(word for word in cause.object.split('"') if not word.isprintable())
        raise DataError(
            f"{config.title} has a file whose name is not valid UTF-8: {name!a}. Rename it."
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"the files of {config.title!r} cannot be listed: {error}") from None


def ensure_cached(path: Path, make: Callable[[Path], None], lock: str = "") -> Path:
    """Return a file or folder of the cache, building it first if it is missing or was changed.

    Args:
        path: Path in the cache folder.
        make: Builds the file or folder at `path`. Other processes that need it wait.
        lock: Name of the lock. Entries with the same lock are built one at a time.

    Raises:
        DataError: If the cache folder cannot be written.
    """
    if not _intact(path):
        with build_lock(lock or path.stem):
            if not _intact(path):  # another process may have built it while this one waited
                make(path)
                with caching(IMAGES, path.parent), atomic_write(_stamp_of(path)) as temporary:
                    temporary.write_text(json.dumps(_stamps(path)) + "\n", encoding="utf-8")
    return path


def cached_results(file: Path, split: Split, compute: Callable[[Array], Array]) -> Array:
    """Return what `compute` returns for each image of an official split, from a file of the cache.

    Args:
        file: Path in the cache folder.
        split: Any part of the official split.
        compute: Maps a batch of images (B, C, H, W) to results (B, ...).

    Raises:
        DataError: If the cache folder cannot be written.
    """

    def save(path: Path) -> None:
        # Batch by batch, because the results of all images may be larger than memory.
        with write_entry(path) as temporary:
            for start in range(0, len(split.images), BATCH):
                heartbeat()
                part = compute(split.images[start : start + BATCH])
                if start == 0:
                    shape = (len(split.images), *part.shape[1:])
                    results = np.lib.format.open_memmap(temporary, mode="w+", dtype=part.dtype, shape=shape)
                results[start : start + BATCH] = part
            results.flush()

    return np.asarray(np.load(ensure_cached(file, save), mmap_mode="c"))


def _intact(path: Path) -> bool:
    """Return whether a file or folder of the cache has the sizes and times of its stamp."""
    with suppress(OSError, ValueError):
        return bool(json.loads(_stamp_of(path).read_bytes()) == _stamps(path))
    return False


def _stamp_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.stamp")


def _stamps(path: Path) -> dict[str, list[int]]:
    stats = {file.name: file.stat() for file in (path.iterdir() if path.is_dir() else [path])}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}


@contextmanager
def build_lock(name: str) -> Iterator[None]:
    """Hold the lock for downloading or building `name` while the block runs.

    Raises:
        DataError: If the cache folder cannot be written.
        StorageError: If the process that holds the lock does not respond.
    """
    lock = cache_folder() / f".{name}.lock"
    with ExitStack() as stack:
        with caching(IMAGES, lock.parent):
            stack.enter_context(locked(lock, wait=True))
        yield


@contextmanager
def write_entry(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` in the cache when the block ends without an error.

    The caller holds the lock. The cache never has a half-written file or folder.

    Raises:
        DataError: If the cache folder cannot be written.
    """
    with caching(IMAGES, path.parent):
        sweep(path)
        with atomic_write(path) as temporary:
            yield temporary
