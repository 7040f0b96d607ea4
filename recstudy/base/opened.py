"""Open files of a results folder that unknown authors may have made: only regular files of bounded size, no
links.

The results folder itself, and folders above it, may be links. Below it, links are refused, and no FIFO,
socket or device is opened. Types are checked before a file is opened, and it is opened without following
links and without waiting. Whoever can write to the folder can still swap a folder for a link between the
check and the opening, so share a folder only with people who may read your files.
"""

import io
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recstudy.base.errors import StorageError

if TYPE_CHECKING:
    import numpy.typing as npt

StrPath = Path | str
MB = 10**6
# Maximum bytes of files. A plan of 10,000 runs has 1.5 MB, a result 1 kB.
PLAN, LOG, ARCHIVE, RECORD = 32 * MB, 64 * MB, 32 * MB, 4 * MB
LINE = MB  # maximum bytes of a line of a log
ARRAYS = 256 * MB  # maximum bytes of all arrays of an archive, unpacked
MEMBERS = 1000  # maximum number of arrays in an archive
SPECIAL = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
LINKED = (
    "{} is a link, and links below a results folder are not followed. Remove it. If it is yours, replace it"
    " by its target, or move the whole results folder: the results folder itself may be a link."
)
# Seconds between two checks of a folder of folders. Without this, the folder of 10,000 runs would be checked
# for each of their files.
SAME_S = 1.0
_roots: set[str] = set()
_real: dict[str, float] = {}  # folder of folders -> when it was last checked


def protect(root: Path) -> None:
    """Refuse links below this results folder from now on, in this process."""
    _roots.add(os.fspath(root))


def safe_lstat(path: StrPath) -> os.stat_result:
    """Return the `lstat` of a path after a check of its folders for links.

    Raises:
        StorageError: A folder below a results folder is a link, or the path is invalid.
        FileNotFoundError: There is no such file.
    """
    name, time_now = os.fspath(path), time.monotonic()
    parent, folders = name.rpartition("/")[0], []
    while parent not in _roots and len(parent) > 1:
        folders.append(parent)
        parent = parent.rpartition("/")[0]
    try:
        for folder in reversed(folders if parent in _roots else ()):
            if time_now - _real.get(folder, -SAME_S) < SAME_S:
                continue
            if stat.S_ISLNK(os.lstat(folder).st_mode):
                raise StorageError(LINKED.format(folder))
            if folder != folders[0]:
                _real[folder] = time_now
        return os.lstat(name)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # such as for a name with NUL or a name that is too long
        printable_name = name.removesuffix("/.") if name.isprintable() else repr(name)
        may = " Its folder belongs to another user. Use a folder of your own." * isinstance(
            error, PermissionError
        )
        raise StorageError(
            f"cannot read {printable_name}: {getattr(error, 'strerror', None) or error}.{may}"
        ) from error


def regular_status(path: StrPath) -> os.stat_result:
    """Return the `lstat` of a regular file.

    Raises:
        StorageError: It is a link or a special file, or lies below a link.
        FileNotFoundError: There is no such file.
    """
    status = safe_lstat(path)
    if stat.S_ISLNK(status.st_mode):
        raise StorageError(LINKED.format(path))
    if not stat.S_ISREG(status.st_mode):
        kind = SPECIAL.get(stat.S_IFMT(status.st_mode), "a folder")
        raise StorageError(f"cannot read {path}: it is {kind} and not a file. Remove it.")
    return status


def is_regular_file(path: StrPath) -> bool:
    """Return whether there is a regular file. A refused path counts as none.

    Raises:
        StorageError: This user may not enter its folder.
    """
    try:
        return stat.S_ISREG(safe_lstat(path).st_mode)
    except FileNotFoundError:
        return False
    except StorageError as error:
        if isinstance(error.__cause__, PermissionError):
            raise
        return False


@contextmanager
def _reading(path: StrPath) -> Iterator[None]:
    """Raise StorageError if the block cannot read this path. FileNotFoundError stays what it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}.") from error


def descriptor(path: StrPath, flags: int = os.O_RDONLY) -> int:
    """Open a regular file, and return its descriptor. It can be the `opener` of `open`.

    Raises:
        StorageError: It is a link or a special file, or cannot be opened.
        FileNotFoundError: There is no such file.
    """
    regular_status(path)
    with _reading(path):
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def contents(path: StrPath, max_bytes: int = 0) -> bytes:
    """Return the content of a file.

    Args:
        path: The file.
        max_bytes: The maximum size. By default it depends on the name (`size_limit`).

    Raises:
        StorageError: It is a link, a special file, or too large.
        FileNotFoundError: There is no such file.
    """
    limit = max_bytes or size_limit(path)
    with os.fdopen(descriptor(path), "rb") as file, _reading(path):
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise too_large(path, size, limit)
        return file.read(size)


def size_limit(path: StrPath) -> int:
    """Return the maximum number of bytes of a file with this name."""
    name = os.fspath(path).rpartition("/")[2]
    if name.endswith(".jsonl"):
        return LOG
    return PLAN if name.startswith(("plan", "imported")) else ARCHIVE if name.endswith(".npz") else RECORD


def too_large(path: StrPath, size: int, limit: int) -> StorageError:
    return StorageError(
        f"{path} is damaged: it has {size / MB:,.1f} MB, but a file of its kind has at most"
        f" {limit / MB:,.0f} MB. Remove it."
    )


def refuse_link(folder: StrPath) -> None:
    """Raise StorageError if a folder is a link or lies below one. The folder need not exist."""
    with suppress(FileNotFoundError):
        safe_lstat(f"{os.fspath(folder)}/.")


def check_written(path: StrPath) -> None:
    """Check that a file can be written. It need not exist.

    Raises:
        StorageError: It is a link or no regular file, or lies below a link.
    """
    with suppress(FileNotFoundError):
        regular_status(path)


def entries(path: StrPath) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, sorted by name; an empty list if there is no folder.

    Raises:
        StorageError: It is a link, or cannot be read.
    """
    refuse_link(path)
    with suppress(FileNotFoundError), _reading(path):
        return sorted(os.scandir(path), key=lambda entry: entry.name)
    return []


def folders(path: StrPath) -> Iterator[Path]:
    """Return the folders in a folder, without links. Raises StorageError like `entries`."""
    return (Path(entry.path) for entry in entries(path) if entry.is_dir(follow_symlinks=False))


def arrays(path: Path) -> "dict[str, npt.NDArray[Any]]":
    """Return the arrays of an `.npz` file by name, after a check of their sizes.

    Raises:
        StorageError: It is a link, no regular file, or too large.
        ValueError: It is damaged, or has arrays that are too large or of objects.
        FileNotFoundError: There is no such file.
    """
    import numpy as np

    try:
        content = contents(path)
        if content.count(b"PK\1\2") > MEMBERS:  # checked first, because each member takes an object in memory
            raise ValueError(f"more than {MEMBERS:,} arrays")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            if sum(member.file_size for member in archive.zip.infolist()) > ARRAYS:
                raise ValueError(f"its arrays have more than {ARRAYS // MB} MB")
            return dict(archive)
    except (StorageError, FileNotFoundError):
        raise
    except Exception as error:  # a damaged archive can raise almost any exception
        raise ValueError(" ".join(f"{type(error).__name__}: {error}".split())) from None
