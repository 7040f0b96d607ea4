"""Files and folders that are whole or absent, and the machine's cache folder.

A file or a folder is written under a temporary name, flushed to the disk and renamed, so that a reader sees
the old one or the new one.
"""

import hashlib
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from recstudy.errors import ConfigError, DataError, StorageError


def sha(parts: Iterable[str]) -> str:
    """Return a short digest of these texts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


POINTERS = (b"version https://git-lfs.github.com/spec/", b"/annex/objects/")  # of Git LFS and of git-annex


def stand_in(path: Path) -> str:
    """Return what a placeholder file is, such as a Git LFS pointer, and how to get the real file; empty for
    any other file.
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
    """Refuse (DataError) a placeholder, such as a Git LFS pointer, in place of the wanted file."""
    if problem := stand_in(path):
        raise DataError(f"{path} {problem}")


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give a place for a file or a folder that is then flushed and takes `path`'s place; nothing of it stays
    where that fails.

    Two writers at once, on whatever nodes, do not meet; but of a folder that is there, its writer holds a
    lock.
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
    """Refuse to overwrite a file or a folder (ConfigError)."""
    if os.path.lexists(path):
        raise ConfigError(f"{path} is there already. Give another name, or remove it first.")


def read_json(text: str | bytes, source: str) -> Any:
    """Return the values of a JSON document.

    Args:
        text: The document.
        source: Where it is from, which an error names.

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
    """Remove what killed writers left of `path`, whose lock we hold."""
    for leftover in path.parent.glob(f".{path.name}.*tmp"):
        remove(leftover)


def discard(folder: Path) -> None:
    """Remove a folder whose lock, which lies in it, we hold: it is gone at once, and who waits for the lock
    makes it anew.

    Links in it are not followed. A kill leaves it under a name of its own, with a dot before it.
    """
    renamed_folder = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
    folder.rename(renamed_folder)
    remove(renamed_folder)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder, as far as it goes; a link is not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def cache_folder() -> Path:
    """Return what is decoded, computed, trained or unpacked once, by one process, and then read by all.

    An account without a home (no HOME, no entry in passwd: a container under a number) has one among the
    temporary files.

    Raises:
        DataError: another account may write there.
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
    """Say so (DataError) where the block fails because the cache folder cannot be written."""
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
