"""Write files atomically, append to logs, and retry while storage fails.

A crash leaves at most one incomplete line at the end of a log. Readers drop it, and the next writer cuts it
off. Errors that may pass, such as a full disk or a mount that went away, are retried for ten seconds. Then a
StorageError tells the user what to do.
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

from recstudy.base import opened
from recstudy.base.errors import StorageError
from recstudy.base.files import atomic_write, encoded

Json = dict[str, Any]
T = TypeVar("T")

# Seconds between five tries: enough for a server to restart or for a user to free some space.
PAUSES = (0.5, 1.5, 3.0, 5.0)
FULL_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT)
READ_ONLY_ERRORS = (errno.EROFS, errno.EACCES)  # a network mount turns read-only while its server restarts
# The disk was unplugged or unmounted, or its server does not answer.
LOST_MOUNT_ERRORS = (errno.EIO, errno.ESTALE, errno.ENOENT, errno.ENOTCONN, errno.ETIMEDOUT)
TRANSIENT_ERRORS = (*FULL_DISK_ERRORS, *READ_ONLY_ERRORS, *LOST_MOUNT_ERRORS)
MARKER = "recstudy.json"  # in the root of every results folder


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically: after a crash it has the old or the new content.

    Args:
        path: The file. Its folder must exist and must not be a link.
        content: The new content.

    Raises:
        StorageError: The file could not be written, after retries if the error may pass.
    """
    values = encoded(content) if isinstance(content, str) else content
    opened.refuse_link(path.parent)

    def write() -> None:
        with atomic_write(path) as temporary:
            temporary.write_bytes(values)

    try:
        persistently(write, path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}. Use a writable folder.") from error


def write_json(path: Path, values: Any) -> None:
    write_whole(path, json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def append_line(path: Path, values: Json) -> None:
    """Append one JSON line to a log, after cutting off an incomplete last line.

    Raises:
        StorageError: The file could not be written, after retries if the error may pass.
    """
    line = encoded(json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n")
    lengths: list[int] = []  # of the whole lines at each try

    def append() -> None:
        with open(
            path, "ab+", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666)
        ) as file:
            end = file.seek(0, os.SEEK_END)
            lengths.append(_whole_length(file, end))
            file.seek(min(lengths))
            later_lines = file.read()  # of a failed try, and of other processes since then
            length = min(lengths) if line.startswith(later_lines) else lengths[-1]
            if length < end:  # otherwise this could cut a line of another process
                file.truncate(length)
            if line not in later_lines or line == later_lines:
                file.write(line)
            file.flush()
            os.fsync(file.fileno())

    opened.check_written(path)
    persistently(append, path)


def whole_lines(path: Path) -> list[bytes]:
    """Return the complete lines of a log; an empty list if there is no file.

    Raises:
        StorageError: The file cannot be read, or a line is too long.
    """
    try:
        content = opened.contents(path)
    except FileNotFoundError:
        return []
    lines = content[: content.rfind(b"\n") + 1].splitlines()
    if any(len(line) > opened.LINE for line in lines):
        raise StorageError(
            f"{path} is damaged: a line is larger than {opened.LINE / opened.MB:g} MB. Remove that line."
        )
    return lines


def persistently(call: Callable[[], T], path: Path) -> T:
    """Return the result of `call`, and retry for ten seconds if it raises an error that may pass.

    Raises:
        StorageError: All calls failed. The message tells how to fix the storage at `path`.
        OSError: The error does not pass by itself, such as a folder in the place of a file.
    """
    return retried(
        call,
        may_pass=lambda error: error.errno in TRANSIENT_ERRORS,
        failure=lambda error: f"cannot write {path}: {error.strerror}. {_remedy(path, error)}",
    )


def retried(
    call: Callable[[], T], may_pass: Callable[[OSError], bool], failure: Callable[[OSError], str]
) -> T:
    """Return the result of `call`, and retry with growing pauses while its errors may pass.

    Args:
        call: The function to call.
        may_pass: Whether an error may pass by itself.
        failure: The message after the last try.

    Raises:
        StorageError: All calls failed. The message is that of `failure`.
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
    if error.errno in READ_ONLY_ERRORS:
        return "Make it writable, or use another folder."
    if error.errno in LOST_MOUNT_ERRORS:
        return "Mount its file system again, then run the same command to resume."
    with suppress(OSError):
        advice = (
            f"{megabytes(shutil.disk_usage(next(folder for folder in path.parents if folder.exists())).free)}"
            " are free on this disk. "
        )
        for root in (folder for folder in path.parents if (folder / MARKER).exists()):
            checkpoints = root.glob("runs/*/checkpoint-*.pt")
            size = megabytes(sum(file.stat().st_size for file in checkpoints))
            advice += (
                f"Checkpoints of unfinished runs take {size}; `recstudy clean {root}` lists removable files. "
            )
        return f"{advice}Free some space, then run the same command to resume."
    return "Free some space, then run the same command to resume."


def _whole_length(file: IO[bytes], end: int) -> int:
    """Return the length of a log up to and including its last newline."""
    # Read one byte first: the whole log is needed only if its last line is incomplete.
    file.seek(max(0, end - 1))
    if file.read(1) == b"\n":
        return end
    file.seek(0)
    return file.read(end).rfind(b"\n") + 1
