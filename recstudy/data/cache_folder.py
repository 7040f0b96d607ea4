"""The machine's cache folder: one process makes what is in it, then all read it, and none what has been damaged since.

    RECSTUDY_CACHE/NAME                        a file or a folder
                   NAME.seal, NAME/seal.json   the digests of its files, and their stamps when those were last seen to hold

Files with these stamps are taken for what they were. Where a stamp is another - a file was written to, or the cache was copied
to another machine - the file's bytes are read through, once.

What is known of a data set without opening it is its entry here and the checksum that this states. A plan asks for no more; so
no array is loaded here, nor NumPy.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from pydantic import Field
from pydantic.dataclasses import dataclass

from recstudy.config import DataConfig, digest
from recstudy.data.reader import Reader
from recstudy.errors import DataError, StorageError
from recstudy.files import cache_folder, caching, sweep, whole
from recstudy.records import locked, read_record
from recstudy.records.locks import this_process
from recstudy.records.reading import dumped
from recstudy.records.schema import STRICT
from recstudy.source import code_of

log = logging.getLogger(__name__)

FORMAT = 1  # of a data set's entry; raise it when the same sources decode to other bytes
IMAGES = "decoded images"
SEAL = "seal.json"
Stamps = dict[str, tuple[int, ...]]
_seen: dict[Path, Stamps] = {}  # what this process has read through


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Seal:
    """The sha256 of each file by its name in the folder, `.` for what is no folder; and its size, times and inode."""

    digests: dict[str, str] = Field(min_length=1)
    stamps: Stamps


def cached(path: Path, make: Callable[[Path], None], lock: str = "") -> Path:
    """Return a file or folder of the cache, made first where it is not there as it was made.

    Args:
        path: in the cache folder.
        make: makes it there; another process that wants it waits.
        lock: what else is made by one process at a time has the same.

    Raises:
        DataError: the cache folder cannot be written.
    """
    if not unharmed(path):
        with alone(lock or path.stem):
            if not unharmed(path):  # another process may have made it while this one waited
                make(path)
                with caching(IMAGES, path.parent):
                    _keep(path, Seal(stamps=_stamps(path, _files(path)), digests=_digests(path, _files(path))))
    return path


def unharmed(path: Path) -> bool:
    """Return whether a file or folder of the cache is there as it was made."""
    with suppress(OSError, StorageError):
        seal = read_record(_seal_of(path), Seal)
        return seal is not None and _holds(path, seal)
    return False


def _holds(path: Path, seal: Seal) -> bool:
    """Return whether its files are those sealed; keep the stamps of what had to be read, if the cache can be written."""
    stamps = _stamps(path, seal.digests)
    if stamps in (seal.stamps, _seen.get(path)):
        return True
    if _digests(path, seal.digests) != seal.digests:
        log.warning("%s is damaged: it is made again", path)
        return False
    _seen[path] = stamps
    with suppress(OSError):
        _keep(path, replace(seal, stamps=stamps))
    return True


def _keep(path: Path, seal: Seal) -> None:
    with whole(_seal_of(path)) as temporary:
        temporary.write_text(json.dumps(dumped(seal), indent=1) + "\n")


def _seal_of(path: Path) -> Path:
    return path / SEAL if path.is_dir() else path.with_name(f"{path.name}.seal")


def _files(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir()) if path.is_dir() else ["."]


def _stamps(path: Path, names: Iterable[str]) -> Stamps:
    """Return stamps that are others once anybody has written to a file, and for a copy of it."""
    stats = {name: (path / name).stat() for name in names}
    return {name: (one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_ino) for name, one in stats.items()}


def _digests(path: Path, names: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in names:
        with open(path / name, "rb") as file:
            found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Let no other process fetch or make what is called `name`, as long as the block runs.

    Raises:
        DataError: the cache folder cannot be written.
        StorageError: the process that makes it is silent.
    """
    lock = cache_folder() / f".{name}.lock"
    with ExitStack() as stack:
        with caching(IMAGES, lock.parent):
            stack.enter_context(locked(lock, this_process(), wait=True))
        yield


@contextmanager
def making(path: Path) -> Iterator[Path]:
    """Yield where to make a file or folder of the cache, under its lock; it is there whole when the block ends (DataError)."""
    with caching(IMAGES, path.parent):
        sweep(path)
        with whole(path) as temporary:
            yield temporary


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Meta:
    """`meta.json`: what is told of the images beside themselves."""

    checksum: str  # sha256 of all decoded images and labels
    counts: dict[str, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    notes: tuple[str, ...] = ()


def known_checksum(config: DataConfig, folder: Path) -> str:
    """Return the checksum of the set as it lies below `folder` now, if it was decoded before; only the cache is read."""
    with suppress(DataError, OSError), listing(config):
        entry = entry_of(config.reader(), folder)
        if unharmed(entry):
            return meta_of(entry).checksum
    return ""


def unread(config: DataConfig, folder: Path) -> bool:
    """Return whether the set's files lie below `folder` and have not been decoded here as they are now; nothing is decoded."""
    reader = config.reader()
    with suppress(DataError, OSError), listing(config):
        return not reader.missing(folder) and bool(reader.sources(folder)) and not known_checksum(config, folder)
    return False


def entry_of(reader: Reader, folder: Path) -> Path:
    """Return the folder of the set's entry, named by all that decides its bytes."""
    config, files, program = reader.config, reader.sources(folder), reader.program()
    if not files and not program:
        raise DataError(
            f"the reader of {config.title} names no source file. Name them in `sources`, or in `program` what draws the images "
            "and its version."
        )
    fields = config.model_dump(mode="json", exclude={*DataConfig.model_fields, *reader.ignores})
    code = code_of(type(config), type(reader))
    # Nobody knows the code of what is defined at a prompt, so another process reads anew.
    read_by = code.digest or f"process {os.getpid()}, class {id(type(reader))}"
    stats = [(name, (stat := (folder / name).stat()).st_size, stat.st_mtime_ns) for name in files]
    place = [str(folder.resolve()), stats] if files else []
    decides = [FORMAT, config.name, config.revised, fields, place, program, read_by]
    return cache_folder() / f"{config.name}-{digest(decides, 16)}"


def meta_of(entry: Path) -> Meta:
    """Return what an entry tells of its images."""
    meta = read_record(entry / "meta.json", Meta)
    if meta is None:
        raise DataError(f"{entry} was removed while it was opened. Give the same command again.")
    return meta


@contextmanager
def listing(config: DataConfig) -> Iterator[None]:
    """Raise DataError for what the file system refuses: a loop of links, a name that is no text, one that is too long."""
    try:
        yield
    except UnicodeEncodeError as error:
        name = next(word for word in error.object.split('"') if not word.isprintable())
        raise DataError(f"{config.title} has a file whose name is no text in UTF-8: {name!a}. Rename it.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"the files of {config.title!r} cannot be listed: {error}") from None
