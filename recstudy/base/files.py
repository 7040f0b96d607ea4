"""Write files and folders atomically, and find the cache folder of this machine.

A file or folder is written under a temporary name, flushed to the disk and renamed, so a reader sees the old
one or the new one.
"""

import hashlib
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from recstudy.base.errors import ConfigError, DataError, StorageError


def encoded(text: str) -> bytes:
    """Return a text in UTF-8.

    Raises:
        ConfigError: It has a lone surrogate, such as of a file name in Latin-1.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        part = text[max(0, error.start - 40) : error.end]
        raise ConfigError(f"UTF-8 cannot encode {part!a}. Rename the file, level or setting") from None


POINTERS = (b"version https://git-lfs.github.com/spec/", b"/annex/objects/")  # of Git LFS and of git-annex


def stand_in(path: Path) -> str:
    """Return the kind of a placeholder file, such as a Git LFS pointer, and its fix; empty for any other
    file.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(256).lstrip().lower()
    except OSError:
        return ""
    if head.startswith(POINTERS):
        return (
            "is a pointer of Git LFS or git-annex, not the file itself. Run `git lfs pull` (or `git annex"
            " get`) in its repository, or download the file."
        )
    if head.startswith((b"<!doctype", b"<html")):
        return (
            "is a web page, not the file itself. Download the file from its own address: on huggingface.co"
            " that has `resolve` in place of `blob`, on github.com `raw`."
        )
    return ""


def refuse_stand_in(path: Path) -> None:
    """Raise DataError if a file is a placeholder, such as a Git LFS pointer."""
    if problem := stand_in(path):
        raise DataError(f"{path} {problem}")


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of the content of a file, in hexadecimal digits."""
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give a temporary path for a file or folder, which replaces `path` after the block. If the block fails,
    the temporary file is removed.

    Several writers on any nodes do not disturb each other. A folder that already exists must be locked by its
    writer.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        for file in (*temporary.rglob("*"), temporary):
            _flush(file)
        if temporary.is_dir() and path.is_dir():
            shutil.rmtree(path)  # a folder takes no other's place
        os.replace(temporary, path)
    finally:
        remove(temporary)
    _flush(path.parent)


def refuse_existing(path: Path) -> None:
    """Raise ConfigError if a file or folder exists."""
    if os.path.lexists(path):
        raise ConfigError(f"{path} is there already. Give another name, or remove it first.")


def read_json(text: str | bytes, source: str) -> Any:
    """Return the values of a JSON document.

    Args:
        text: The document.
        source: Its source, for error messages.

    Raises:
        json.JSONDecodeError: It is not JSON.
        ConfigError: An object has a key twice.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        for key in keys:
            if keys.count(key) > 1:
                raise ConfigError(f"{source}: {key!r} is given twice. Keep one of them")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=unique)


def sweep(path: Path) -> None:
    """Remove the temporary files that killed writers left next to `path`. The caller must hold its lock."""
    for leftover in path.parent.glob(f".{path.name}.*tmp"):
        remove(leftover)


def discard(folder: Path) -> None:
    """Remove a folder with its lock, which the caller must hold. A waiting process makes the folder again.

    Links in it are not followed. It is first renamed to a hidden name, under which it stays if the process is
    killed.
    """
    renamed_folder = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
    folder.rename(renamed_folder)
    remove(renamed_folder)


def remove(path: Path) -> None:
    """Remove a file, link or folder as far as possible. Links are not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def cache_folder() -> Path:
    """Return the folder for files that one process computes once and others read, such as decoded data sets.

    An account without a home, such as in a container with a numeric user, has one among the temporary files.

    Raises:
        DataError: Another account may write there.
    """
    if custom_folder := os.environ.get("RECSTUDY_CACHE"):
        return Path(custom_folder).expanduser()
    with suppress(RuntimeError):
        return Path.home() / ".cache/recstudy"
    folder = Path(tempfile.gettempdir(), f".recstudy-cache-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise DataError(
            f"{folder} is open to other accounts. Set RECSTUDY_CACHE, or HOME, to a folder of your own."
        )
    return folder


@contextmanager
def caching(content: str, folder: Path) -> Iterator[None]:
    """Raise DataError if the block fails because the cache folder cannot be written."""
    try:
        yield
    except (OSError, StorageError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        why = cause.strerror or cause  # NumPy's own has no number
        raise DataError(
            f"cannot keep {content} in {folder}: {why}. Set RECSTUDY_CACHE to a folder that can be written."
        ) from None


def _flush(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
