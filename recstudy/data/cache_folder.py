"""One process makes what is in the machine's cache folder, then all read it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from recstudy.files import cache_folder, caching, sweep, whole
from recstudy.records.locks import locked, this_process

IMAGES = "decoded images"


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
