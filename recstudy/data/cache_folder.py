"""One process makes what is in the machine's cache folder, then all read it, and none what has been damaged since.

    RECSTUDY_CACHE/NAME                        a file or a folder
                   NAME.seal, NAME/seal.json   the digests of its files, and their stamps when those were last seen to hold

Files with these stamps are taken for what they were. Where a stamp is another - a file was written to, or the cache was copied
to another machine - the file's bytes are read through, once.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from pydantic import Field
from pydantic.dataclasses import dataclass

from recstudy.errors import StorageError
from recstudy.files import cache_folder, caching, sweep, whole
from recstudy.records import locked, read_record
from recstudy.records.locks import this_process
from recstudy.records.reading import dumped
from recstudy.records.schema import STRICT

log = logging.getLogger(__name__)

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
    """A file or folder of the cache, made first where it is not there as it was made.

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
    """Whether a file or folder of the cache is there as it was made."""
    with suppress(OSError, StorageError):
        seal = read_record(_seal_of(path), Seal)
        return seal is not None and _holds(path, seal)
    return False


def _holds(path: Path, seal: Seal) -> bool:
    """Whether its files are those that were sealed. What they had to be read for is kept, where the cache can be written."""
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
    """Other ones once anybody has written to a file, and for a copy of it."""
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
    """No other process fetches or makes what is called `name`, as long as the block runs.

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
    """Where to make a file or folder of the cache, under its lock; it is there whole when the block ends (DataError)."""
    with caching(IMAGES, path.parent):
        sweep(path)
        with whole(path) as temporary:
            yield temporary
