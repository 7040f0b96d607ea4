"""Locks with a sign of life: who waits sees that the holder is alive, and never waits for one that is not.

The system frees the lock of a process that died. Where it cannot - the holder hangs, or its node was cut off from the
file server - the beat tells: the holder counts up a number in the lock's file, and a waiter that sees no new number for
`PATIENCE` gives up. Each side looks at its own monotonic clock alone, so that nodes need not agree about the time.

A lock's file may be removed, with the folder it lies in (clean.py) or by hand. A lock on a file that is not the path's any
more is nobody's, so whoever gets one tries again.
"""

import errno
import fcntl
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from recstudy import opened
from recstudy.errors import StorageError
from recstudy.records.files import persistently

PATIENCE = 60.0  # seconds without a sign of life
BEAT = 5.0  # seconds between two signs: a lock that is held for less shows none
POLL = 0.2  # seconds between two tries to get a lock
TEMPORARY = "recstudy-"  # what the names of our temporary folders begin with
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


def this_process() -> str:
    """Say who we are, for those who wait."""
    return f"process {os.getpid()} on {socket.gethostname()}"


class Held(StorageError):
    """Somebody else holds it, and we do not wait."""

    def __init__(self, place: object, holder: str) -> None:
        super().__init__(f"{place} is in use by {holder}. Wait for it or stop it.")
        self.holder = holder


@contextmanager
def locked(
    path: Path,
    holder: str,
    wait: bool = False,
    on_wait: Callable[[str], None] | None = None,
    patience: float = PATIENCE,
) -> Iterator[None]:
    """Hold `path` as a lock.

    Args:
        path: the lock's file, which stays.
        holder: who we are, for those who wait.
        wait: as long as the present holder shows that it lives; else say at once who it is.
        on_wait: called once, with the holder's name, when there is a wait.
        patience: seconds without a sign of life.

    Raises:
        Held: it is held and we do not wait.
        StorageError: its holder is silent, or the file system has no locks.
    """
    with _acquired(path, wait, on_wait, patience) as file:
        ended = threading.Event()
        _sign(file, holder, 0)
        thread = threading.Thread(target=_beat, args=(file, holder, ended), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@contextmanager
def temporary(folder: Path | None = None) -> Iterator[Path]:
    """Give a folder of ours below `folder`, by default the system's temporary one, for as long as the block runs.

    One that a killed process has left is known by its lock, which nobody holds: `recstudy clean` lists it.
    """
    own = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=folder))
    try:
        with locked(own / "lock", this_process()):
            (own / "files").mkdir()
            yield own / "files"
    finally:
        shutil.rmtree(own, ignore_errors=True)


def held(path: Path) -> bool:
    """Return whether some process holds the lock. One that nobody ever made is free; one that cannot be asked counts as held."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # of two that ask at once, neither is a holder
            return not _stands(file, path) and held(path)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _acquired(path: Path, wait: bool, on_wait: Callable[[str], None] | None, patience: float) -> IO[str]:
    """Return the lock's file, opened and locked. Each time anew: else a network file system shows old content."""
    seen, since = "", time.monotonic()
    while True:
        file = _open(path)
        ours = _try(file, path)
        if ours and _stands(file, path):
            return file
        with file:
            content = file.readline()
        if ours:
            continue
        name = _holder(content)
        if not wait:
            raise Held(path.parent, name)
        if on_wait is not None:
            on_wait(name)
            on_wait = None
        if content != seen:
            seen, since = content, time.monotonic()
        if time.monotonic() - since > patience:
            raise StorageError(
                f"{path.parent} is held by {name}, which has shown no sign of life for {patience:.0f} s. "
                f"Stop that process; if it or its node is gone, remove {path}. Then give the same command again."
            )
        time.sleep(POLL)


def _open(path: Path) -> IO[str]:
    def lock() -> int:
        opened.check_written(path)
        with suppress(FileExistsError):  # another made the folder, and has removed it before pathlib saw that it is one
            path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)

    try:
        return os.fdopen(persistently(lock, path), "r+", encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot lock {path}: {error.strerror}. Use a folder that can be written.") from error


def _try(file: IO[str], path: Path) -> bool:
    """Return whether the lock is now ours."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        file.close()
        why = "its file system has no locks" if error.errno in NO_LOCKS else error.strerror
        raise StorageError(f"cannot lock {path}: {why}. Mount it with locks, or give another folder with --results.") from error
    return True


def _stands(file: IO[str], path: Path) -> bool:
    """Return whether the path still names the file that was opened."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _holder(content: str) -> str:
    """Return the holder's name in a lock's file; those of version 0.1 hold nothing else."""
    try:
        return str(json.loads(content)["holder"])
    except (ValueError, TypeError, KeyError):
        return content.strip() or "a process that has not said its name yet"


def _beat(file: IO[str], holder: str, ended: threading.Event) -> None:
    count = 1
    while not ended.wait(BEAT):
        _sign(file, holder, count)
        count += 1


def _sign(file: IO[str], holder: str, count: int) -> None:
    """Say who holds the lock and that it still does. The first line counts: what follows is of an earlier holder."""
    line = json.dumps({"holder": holder, "beat": count}).encode() + b"\n"
    with suppress(OSError):  # on a full disk the lock is held all the same
        os.pwrite(file.fileno(), line, 0)
        os.ftruncate(file.fileno(), len(line))
        if count:  # other nodes see it then; most locks are held for less, and this takes milliseconds
            os.fsync(file.fileno())
