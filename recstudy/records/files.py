"""Records as whole files, logs that lose at most a torn last line, and storage that fails for a while.

A log is appended to line by line; a torn last line is dropped by readers and cut off by the next writer. What
may pass by itself - a full disk, a mount that went away or turned read-only - is tried again for ten seconds,
then a StorageError says what to do.
"""

import errno
import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from recstudy import opened
from recstudy.errors import StorageError
from recstudy.files import atomic_write

Json = dict[str, Any]
T = TypeVar("T")

# seconds between five tries: as long as a server takes to come back, or a user to free space
PAUSES = (0.5, 1.5, 3.0, 5.0)
FULL = (errno.ENOSPC, errno.EDQUOT)
BARRED = (errno.EROFS, errno.EACCES)  # a network mount turns read-only while its server restarts
# unplugged, unmounted, server away
GONE = (errno.EIO, errno.ESTALE, errno.ENOENT, errno.ENOTCONN, errno.ETIMEDOUT)
PASSING = (*FULL, *BARRED, *GONE)
MARKER = "recstudy.json"  # in the root of every results folder


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that it is there whole, or as it was before.

    Raises:
        StorageError: it could not be written, several times where that may pass.
    """
    values = content.encode() if isinstance(content, str) else content
    opened.refuse_link(path.parent)

    def write() -> None:
        with atomic_write(path) as temporary:
            temporary.write_bytes(values)

    try:
        persistently(write, path)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror}. Use a folder that can be written."
        ) from error


def write_json(path: Path, values: Any) -> None:
    write_whole(path, json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def append_line(path: Path, values: Json) -> None:
    """Append one line, after cutting off a torn one. Raises StorageError as `write_whole` does."""
    line = (json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n").encode()
    lengths: list[int] = []  # before each try: one that failed may have written the line, whole or in part

    def append() -> None:
        with open(
            path, "ab+", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666)
        ) as file:
            end = file.seek(0, os.SEEK_END)
            lengths.append(_whole_length(file, end))
            if min(lengths) < end:  # only then: another process may append a line at the same time
                file.truncate(min(lengths))
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    opened.check_written(path)
    persistently(append, path)


def whole_lines(path: Path) -> list[bytes]:
    """Return the lines of a log as they are, without a torn last one; none where there is no file
    (StorageError).
    """
    try:
        content = opened.contents(path)
    except FileNotFoundError:
        return []
    lines = content[: content.rfind(b"\n") + 1].splitlines()
    if any(len(line) > opened.LINE for line in lines):
        raise StorageError(
            f"{path} is damaged: a line has more than {opened.LINE / opened.MB:g} MB. Remove that line."
        )
    return lines


def persistently(call: Callable[[], T], path: Path) -> T:
    """Return what `call` returns, called again for ten seconds if it fails and that may pass.

    Raises:
        StorageError: The last call failed, too. The message says what to free or to mend.
        OSError: An error that does not pass by itself, such as a folder in the file's place.
    """
    return retried(
        call,
        may_pass=lambda error: error.errno in PASSING,
        failure=lambda error: f"cannot write {path}: {error.strerror}. {_remedy(path, error)}",
    )


def retried(
    call: Callable[[], T], may_pass: Callable[[OSError], bool], failure: Callable[[OSError], str]
) -> T:
    """Return what `call` returns, called again after growing pauses as long as `may_pass` is true of its
    error.

    Raises:
        StorageError: The last call failed, too; in the words of `failure`.
        OSError: An error that does not pass.
    """
    pauses = iter(PAUSES)
    while True:
        try:
            return call()
        except OSError as error:
            if not may_pass(error):
                raise
            pause = next(pauses, None)
            if pause is None:
                raise StorageError(failure(error)) from error
            time.sleep(pause)


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def _remedy(path: Path, error: OSError) -> str:
    if error.errno in BARRED:
        return "Make it writable again, or give another folder with --results."
    if error.errno in GONE:
        return "Bring its file system back; the same command then goes on from what was kept."
    with suppress(OSError):
        free = (
            f"{megabytes(shutil.disk_usage(next(folder for folder in path.parents if folder.exists())).free)}"
            " are free there. "
        )
        for root in (folder for folder in path.parents if (folder / MARKER).exists()):
            taken = megabytes(sum(file.stat().st_size for file in root.glob("runs/*/checkpoint-*.pt")))
            free += (
                f"Checkpoints of unfinished runs take {taken}; `recstudy clean {root}` shows what can go. "
            )
        return f"{free}Free some space; the same command then goes on."
    return "Free some space; the same command then goes on."


def _whole_length(file: IO[bytes], end: int) -> int:
    """Return the length of a log up to and including its last newline, which is at its end unless a line is
    torn.
    """
    file.seek(max(0, end - 1))
    if file.read(1) == b"\n":
        return end
    file.seek(0)
    return file.read(end).rfind(b"\n") + 1
