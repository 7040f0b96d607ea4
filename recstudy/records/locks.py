"""File locks for run and study folders, so that each has one writer.

A lock file names the process that holds it. The operating system releases the lock of a process that died. If
a lock file is removed with its folder while another process waits, filelock locks the new file.
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

from recstudy.base import opened
from recstudy.base.errors import StorageError
from recstudy.records.files import persistently

POLL = 0.2  # seconds between two tries to get a lock
TEMPORARY = "recstudy-"  # prefix of the names of temporary folders
UNKNOWN = "an unknown process"
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


class LockedError(StorageError):
    """Raised if another process holds a lock and the caller does not wait."""

    def __init__(self, place: object, holder: str) -> None:
        super().__init__(f"{place} is in use by {holder}. Wait for it or stop it.")
        self.holder = holder


@contextmanager
def locked(path: Path, wait: bool = False, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the lock while the block runs.

    Args:
        path: The lock file. The name of this process is written into it. It stays when the lock is released.
        wait: Wait until the lock is free. If false, raise `LockedError` at once.
        on_wait: Called once, with the holder's name, before a wait.

    Raises:
        LockedError: Another process holds the lock and `wait` is false.
        StorageError: The file cannot be written, or its file system has no locks.
    """
    line = json.dumps({"holder": f"process {os.getpid()} on {socket.gethostname()}"}).encode() + b"\n"

    def write_holder(file: int) -> None:
        with suppress(OSError):  # the lock also works on a full disk
            os.ftruncate(file, 0)
            os.pwrite(file, line, 0)

    lock = FileLock(path, mode=0o666, thread_local=False, preserve_lock_file=True, on_acquired=write_holder)
    try:
        _acquire(lock, path, timeout=0)
    except Timeout:
        holder = holder_of(path)
        if not wait:
            raise LockedError(path.parent, holder) from None
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
                lock.acquire(timeout=timeout, poll_interval=POLL)  # this also makes the folder
                return
            except (FileNotFoundError, FileExistsError):  # the last holder removed the folder meanwhile
                if path.parent.exists() and not path.parent.is_dir():
                    raise

    try:
        persistently(acquire, path)
    except Timeout:
        raise
    except OSError as error:
        why = f"{error.strerror}. Use a writable folder"
        if error.errno in NO_LOCKS:
            why = "its file system does not support locks. Mount it with locks, or use another folder"
        raise StorageError(f"cannot lock {path}: {why}.") from error


@contextmanager
def temporary(folder: Path | None = None) -> Iterator[Path]:
    """Make a temporary folder and remove it after the block.

    A killed process leaves its folder with a released lock, by which `recstudy clean` recognises it.

    Args:
        folder: Where to make it. By default the temporary folder of the system.
    """
    scratch = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=folder))
    try:
        with locked(scratch / "lock"):
            (scratch / "files").mkdir()
            yield scratch / "files"
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock.

    A missing file is not locked. A file that cannot be opened counts as locked.
    """
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8") as file:
            # A shared lock, because two processes that check at once must not see each other as the holder.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def holder_of(path: Path) -> str:
    """Return the name of the process in a lock file."""
    try:
        return str(json.loads(path.read_bytes())["holder"])
    except (OSError, ValueError, KeyError, TypeError):
        return UNKNOWN
