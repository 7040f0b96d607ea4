"""The machine's cache folder: decoded data sets as memory-mapped arrays, and what else one process makes and
all read.

    RECSTUDY_CACHE/NAME-DIGEST/{train_images,train_labels,test_images,test_labels}.npy
                               {train_groups,test_groups,train_held}.npy    where the set has patients, a validation split
                               {train_captions,test_captions,tokenizer}.json       where the images have captions
                               {train,test}_{puzzles,ids}.npy    where puzzles have several examples, or ids
                                identifiers.json                  where ids have names
                               meta.json     checksum, notes, mean and deviation of the training images
    RECSTUDY_CACHE/NAME          a file or a folder
                   .NAME.stamp   size and modification time of each of its files

All trials of a node share the pages of the arrays, with no copy a trial. The digest covers what decides the
decoded bytes: the fields that are read, the place, size and time of every source file, recstudy's version and
the reader's file. So a changed source or reader is a new entry, and a warm one is opened without looking into
a single image. An entry whose files have other sizes or times than its stamp is made again. The checksum of
the decoded bytes is in `meta.json` and in each run's result. A plan asks for that alone, so NumPy is imported
where an array is loaded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recstudy.config import DataConfig
from recstudy.data.reader import Labels, Pixels, Reader, Tokens, np
from recstudy.data.splits import limit_split, split_validation
from recstudy.data.text import Tokenizer, restore
from recstudy.errors import DataError, RecstudyError, raised_at
from recstudy.files import atomic_write, cache_folder, caching, sweep
from recstudy.metrics import TASKS
from recstudy.plugins.files import code_key
from recstudy.programs.settings import canonical, digest
from recstudy.records import locked, read_record
from recstudy.records.reading import dumped
from recstudy.records.schema import record

if TYPE_CHECKING:
    import numpy.typing as npt

FORMAT = 2  # of a data set's entry; raise it when the same sources decode to other bytes
IMAGES = "decoded images"


class Texts(Sequence[Any]):
    """The captions of each image of an official split, by row, or names; read from the cache when the first
    is asked for.
    """

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
    """Some images of one official split."""

    images: Pixels  # (N, C, H, W) uint8 or float32, memory-mapped: all images of the official split
    # (N,); (N, K) of 1, 0 and -1 (unknown) where there are several an image; or (N, T) or (N, S) tokens
    labels: Labels | Tokens
    rows: Labels  # which of the N belong to this split
    source: str  # checksum and official split: equal sources hold equal images
    groups: Labels | None = None  # (N,) the patient of each image; None for sets without patients
    # N lists of texts, the references of an image; None for sets without captions
    captions: Texts | None = None
    # (N,) of several examples of a puzzle which it is; None where each is one of its own
    puzzles: Labels | None = None
    ids: Labels | None = None  # (N,) a puzzle's row in a table of embeddings; None for sets without such

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class DataSet:
    """The three splits, and what standardises their images: mean and deviation a channel, on a scale of 0 to
    1 or in the unit of float32 images."""

    train: Split
    validation: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]
    checksum: str  # sha256 of all decoded images and labels, before any limit
    classes: int
    notes: tuple[str, ...] = ()  # what the reader changed or left out
    # patients, or ids of puzzles, of both official splits together, which are numbered from 0
    group_count: int = 0
    tokenizer: Tokenizer | None = None  # what made the labels of the captions; None for sets without captions
    identifiers: Texts | None = None  # what each id stands for; None where ids have no names

    def selection(self, by: str) -> Split:
        """Return the split that selects epochs, by `train.selection`."""
        return self.validation if by == "validation" else self.test


def load(config: DataConfig, folder: Path, *, download: bool = False, hold_out: bool = True) -> DataSet:
    """Return the data set of `config`, from the cache or decoded from below `folder` into it.

    `hold_out=False` leaves the validation split empty and trains on everything. No patient is in two splits.
    The statistics are those of the full training set, whatever the limit, so that runs with and without one
    see the same pixel values.

    Raises:
        DataError: sources missing or damaged, or a cache folder that cannot be written.
    """
    entry = _entry(config, folder, download)
    meta = read_meta(entry)
    train, test = (_split(entry, part, meta.checksum) for part in ("train", "test"))
    validation_rows, train_rows = split_validation(
        train.labels, train.groups, _optional(entry, "train_held"), config, hold_out
    )
    numbered = [split.ids if "ids" in TASKS[config.task].takes else split.groups for split in (train, test)]
    mean, std = config.moments or (meta.mean, meta.std)
    tokenizer, names = entry / "tokenizer.json", entry / "identifiers.json"
    return DataSet(
        train=replace(train, rows=train_rows),
        validation=replace(train, rows=validation_rows),
        test=replace(test, rows=limit_split(test.labels, test.groups, config)),
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
    if download and reader.find_missing(folder):
        with build_lock(config.name):
            if reader.find_missing(folder):  # another process may have fetched it while this one waited
                reader.fetch(folder)
    with listing_errors(config):
        reader.check(folder)
        entry = entry_folder(reader, folder)

    return ensure_cached(entry, partial(_build, reader, folder), config.name)


def _build(reader: Reader, data_folder: Path, entry: Path) -> None:
    """Write the files of an entry; its checksum is over all arrays, then all texts."""
    try:
        decoded = reader.read(data_folder)
    except (RecstudyError, MemoryError):
        raise
    except Exception as error:  # of whatever kind: it may be a user's code, and a user's file
        raise DataError(f"the reader of {reader.config.title} failed: {raised_at(error)}") from error
    parts = decoded._asdict()
    arrays = {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}
    texts = {
        name: canonical(parts[name]) + "\n"
        for name in ("train_captions", "test_captions", "tokenizer", "identifiers")
        if parts[name] is not None
    }
    with write_entry(entry) as folder:
        folder.mkdir()
        hashed = hashlib.sha256()
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
            hashed.update(f"{name} {array.dtype} {array.shape}".encode())
            hashed.update(array.data)
        for name, text in texts.items():
            (folder / f"{name}.json").write_text(text, encoding="utf-8")
            hashed.update(f"{name} {text}".encode())
        mean, std = _moments(decoded.train_images)
        counts = {"train": len(decoded.train_labels), "test": len(decoded.test_labels)}
        meta = Meta(checksum=hashed.hexdigest(), counts=counts, mean=mean, std=std, notes=decoded.notes)
        (folder / "meta.json").write_text(json.dumps(dumped(meta), indent=1) + "\n", encoding="utf-8")


def _moments(images_NCHW: Pixels) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation a channel in float64: of 8 bits from 0 to 1, from exact counts of the 256
    values.
    """
    if images_NCHW.dtype != np.uint8:
        mean = images_NCHW.mean((0, 2, 3), dtype=np.float64)
        pieces = (images_NCHW[start : start + 1024] for start in range(0, len(images_NCHW), 1024))
        squares = sum(((piece - mean[:, None, None]) ** 2).sum((0, 2, 3)) for piece in pieces)
        return tuple(mean.tolist()), tuple(np.sqrt(squares / (images_NCHW[:, 0].size)).tolist())
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
    """Return all of an official split. Copy-on-write maps: pages are shared, and torch does not warn about
    read-only memory.
    """
    images, labels = (np.load(entry / f"{part}_{name}.npy", mmap_mode="c") for name in ("images", "labels"))
    groups, puzzles, ids = (_optional(entry, f"{part}_{name}") for name in ("groups", "puzzles", "ids"))
    file = entry / f"{part}_captions.json"
    captions = Texts(file) if file.exists() else None
    return Split(
        images,
        np.asarray(labels),
        np.arange(len(labels)),
        f"{checksum}/{part}",
        groups,
        captions,
        puzzles,
        ids,
    )


def _optional(entry: Path, name: str) -> npt.NDArray[Any] | None:
    file = entry / f"{name}.npy"
    return np.load(file) if file.exists() else None


@record
class Meta:
    """`meta.json`: what is told of the images beside themselves."""

    checksum: str  # sha256 of all decoded images and labels
    counts: dict[str, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    notes: tuple[str, ...] = ()


def known_checksum(config: DataConfig, folder: Path) -> str:
    """Return the checksum of the set as it lies below `folder` now, if it was decoded before; only the cache
    is read.
    """
    with suppress(DataError, OSError), listing_errors(config):
        entry = entry_folder(config.reader(), folder)
        if _intact(entry):
            return read_meta(entry).checksum
    return ""


def needs_decoding(config: DataConfig, folder: Path) -> bool:
    """Return whether the set's files lie below `folder` and have not been decoded here as they are now;
    nothing is decoded.
    """
    reader = config.reader()
    with suppress(DataError, OSError), listing_errors(config):
        return (
            not reader.find_missing(folder)
            and bool(reader.sources(folder))
            and not known_checksum(config, folder)
        )
    return False


def entry_folder(reader: Reader, folder: Path) -> Path:
    """Return the folder of the set's entry, named by all that decides its bytes."""
    config, files, program = reader.config, reader.sources(folder), reader.program()
    if not files and not program:
        raise DataError(
            f"the reader of {config.title} names no source file. Name them in `sources`, or in `program` what"
            " draws the images and its version."
        )
    fields = config.model_dump(mode="json", exclude={*DataConfig.model_fields, *reader.ignores})
    stats = [(name, (stat := (folder / name).stat()).st_size, stat.st_mtime_ns) for name in files]
    place = [str(folder.resolve()), stats] if files else []
    decides = [
        FORMAT,
        config.name,
        config.revised,
        fields,
        place,
        program,
        code_key(type(config), type(reader)),
    ]
    return cache_folder() / f"{config.name}-{digest(decides, 16)}"


def read_meta(entry: Path) -> Meta:
    """Return what an entry tells of its images."""
    meta = read_record(entry / "meta.json", Meta)
    if meta is None:
        raise DataError(f"{entry} was removed while it was opened. Give the same command again.")
    return meta


@contextmanager
def listing_errors(config: DataConfig) -> Iterator[None]:
    """Raise DataError for what the file system refuses: a loop of links, a name that is no text, one that is
    too long.
    """
    try:
        yield
    except UnicodeEncodeError as error:
        name = next(word for word in error.object.split('"') if not word.isprintable())
        raise DataError(
            f"{config.title} has a file whose name is no text in UTF-8: {name!a}. Rename it."
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"the files of {config.title!r} cannot be listed: {error}") from None


def ensure_cached(path: Path, make: Callable[[Path], None], lock: str = "") -> Path:
    """Return a file or folder of the cache, made first where it is not there as it was made.

    Args:
        path: in the cache folder.
        make: makes it there; another process that wants it waits.
        lock: what else is made by one process at a time has the same.

    Raises:
        DataError: the cache folder cannot be written.
    """
    if not _intact(path):
        with build_lock(lock or path.stem):
            if not _intact(path):  # another process may have made it while this one waited
                make(path)
                with caching(IMAGES, path.parent), atomic_write(_stamp_of(path)) as temporary:
                    temporary.write_text(json.dumps(_stamps(path)) + "\n", encoding="utf-8")
    return path


def _intact(path: Path) -> bool:
    """Return whether a file or folder of the cache has the sizes and times that it was written with."""
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
    """Let no other process fetch or make what is called `name`, as long as the block runs.

    Raises:
        DataError: the cache folder cannot be written.
        StorageError: the process that makes it is silent.
    """
    lock = cache_folder() / f".{name}.lock"
    with ExitStack() as stack:
        with caching(IMAGES, lock.parent):
            stack.enter_context(locked(lock, wait=True))
        yield


@contextmanager
def write_entry(path: Path) -> Iterator[Path]:
    """Yield where to make a file or folder of the cache, under its lock; it is there whole when the block
    ends (DataError).
    """
    with caching(IMAGES, path.parent):
        sweep(path)
        with atomic_write(path) as temporary:
            yield temporary
