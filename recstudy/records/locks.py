"""File locks that name their holder: one writer for each run folder and each study folder.

The system frees the lock of a process that died. A lock file may be removed with its folder while another
process waits: filelock then locks the new file.
"""

import errno
import fcntl
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from recstudy import opened
from recstudy.errors import StorageError
from recstudy.records.files import persistently

POLL = 0.2  # seconds between two tries to get a lock
TEMPORARY = "recstudy-"  # what the names of our temporary folders begin with
UNKNOWN = "a process that has not said its name yet"
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


class Held(StorageError):
    """Another process holds the lock, and the caller does not wait."""

    def __init__(self, place: object, holder: str) -> None:
        super().__init__(f"{place} is in use by {holder}. Wait for it or stop it.")
        self.holder = holder


@contextmanager
def locked(path: Path, wait: bool = False, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the lock while the block runs.

    Args:
        path: The lock file, which names this process from now on. It stays when the lock is released.
        wait: Wait until the lock is free. If false, raise `Held` at once.
        on_wait: Called once, with the holder's name, before a wait.

    Raises:
        Held: Another process holds the lock and `wait` is false.
        StorageError: The file cannot be written, or its file system has no locks.
    """
    line = json.dumps({"holder": f"process {os.getpid()} on {socket.gethostname()}"}).encode() + b"\n"

    def write_holder(file: int) -> None:
        with suppress(OSError):  # on a full disk the lock is held all the same
            os.ftruncate(file, 0)
            os.pwrite(file, line, 0)

    lock = FileLock(path, mode=0o666, thread_local=False, preserve_lock_file=True, on_acquired=write_holder)
    try:
        _acquire(lock, path, timeout=0)
    except Timeout:
        holder = holder_of(path)
        if not wait:
            raise Held(path.parent, holder) from None
        if on_wait is not None:
            on_wait(holder)
        _acquire(lock, path, timeout=-1)
    try:
        yield
    finally:
        lock.release()


def _acquire(lock: FileLock, path: Path, timeout: float) -> None:
    def acquire() -> None:
        opened.check_written(path)
        while True:
            try:
                lock.acquire(timeout=timeout, poll_interval=POLL)  # it makes the folder
                return
            except (FileNotFoundError, FileExistsError):  # the last holder has removed the folder meanwhile
                if path.parent.exists() and not path.parent.is_dir():
                    raise

    try:
        persistently(acquire, path)
    except Timeout:
        raise
    except OSError as error:
        why = f"{error.strerror}. Use a folder that can be written"
        if error.errno in NO_LOCKS:
            why = "its file system has no locks. Mount it with locks, or give another folder with --results"
        raise StorageError(f"cannot lock {path}: {why}.") from error


@contextmanager
def temporary(folder: Path | None = None) -> Iterator[Path]:
    """Give a folder of ours below `folder`, by default the system's temporary one, for as long as the block
    runs.

    One that a killed process has left is known by its lock, which nobody holds: `recstudy clean` lists it.
    """
    own = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=folder))
    try:
        with locked(own / "lock"):
            (own / "files").mkdir()
            yield own / "files"
    finally:
        shutil.rmtree(own, ignore_errors=True)


def held(path: Path) -> bool:
    """Return whether some process holds the lock. A missing file is free; a file that cannot be opened counts
    as held.
    """
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8") as file:
            # shared: two that look at once do not take each other for a holder
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def holder_of(path: Path) -> str:
    """Return the name in a lock file. Files of version 0.1 contain nothing but the name."""
    try:
        content = path.read_text(encoding="utf-8", errors="replace")
        return str(json.loads(content)["holder"]) if content.startswith("{") else content.strip() or UNKNOWN
    except (OSError, ValueError, KeyError):
        return UNKNOWN
