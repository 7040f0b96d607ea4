"""What lies in a results folder, opened as what a stranger may have made: only regular files in real folders,
of a bounded size.

The results folder itself may be a link, and so may what lies above it. Below it nothing is read or written
through a link, and no FIFO, socket or device is opened: links and kinds are looked at before a file is
opened, and it is opened in a way that follows none and waits for nobody. A folder of folders is looked at
once a second. Whoever can write to the folder while it is read may still swap a folder for a link in between;
so who shares one shares it with those who may.
"""

import io
import math
import os
import stat
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recstudy.errors import StorageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MB = 10**6
# bytes; a plan of 10,000 runs has 1.5 MB, a result 1 kB
PLAN, LOG, ARCHIVE, RECORD = 32 * MB, 64 * MB, 32 * MB, 4 * MB
LINE = MB  # bytes of a line of a log
ARRAYS = 256 * MB  # bytes of all arrays of an archive, unpacked
MEMBERS = 1000  # arrays in an archive
KINDS = "biufUS"  # of an array's values, by NumPy's letters: none that holds Python objects or fields
SPECIAL = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
LINKED = (
    "{} is a link, and below a results folder none is followed. Remove it; if it is yours, put what it leads"
    " to in its place, or have the whole results folder elsewhere: that one may be a link."
)
# seconds for which a folder of folders is as it was seen: that of 10,000 runs is asked for each of their
# files
SAME_S = 1.0
_roots: set[str] = set()
_real: dict[str, float] = {}  # folder of folders -> when it was seen to be no link


def protect(root: Path) -> None:
    """Have links refused below this results folder from now on, in this process."""
    _roots.add(os.fspath(root))


def safe_lstat(path: Path | str) -> os.stat_result:
    """Return what `lstat` says of a path, none of whose folders below a results folder is a link.

    Raises:
        StorageError: a folder is a link, or the path cannot be one.
        FileNotFoundError: nothing is there.
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
    except (OSError, ValueError) as error:  # such as a name with a NUL, or one that is too long
        printable_name = name.removesuffix("/.") if name.isprintable() else repr(name)
        may = " Its folder is another user's: take one of yours." * isinstance(error, PermissionError)
        raise StorageError(
            f"cannot read {printable_name}: {getattr(error, 'strerror', None) or error}.{may}"
        ) from error


def regular_status(path: Path | str) -> os.stat_result:
    """Return the same of a regular file, which may be opened (StorageError, FileNotFoundError)."""
    status = safe_lstat(path)
    if stat.S_ISLNK(status.st_mode):
        raise StorageError(LINKED.format(path))
    if not stat.S_ISREG(status.st_mode):
        kind = SPECIAL.get(stat.S_IFMT(status.st_mode), "a folder")
        raise StorageError(f"cannot read {path}: it is {kind}, where a file should be. Remove it.")
    return status


def is_regular_file(path: Path | str) -> bool:
    """Return whether a regular file is there; what is refused is not.

    Raises:
        StorageError: this user may not enter its folder.
    """
    try:
        return stat.S_ISREG(safe_lstat(path).st_mode)
    except FileNotFoundError:
        return False
    except StorageError as error:
        if isinstance(error.__cause__, PermissionError):
            raise
        return False


def descriptor(path: Path | str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file, which is no link (StorageError, FileNotFoundError)."""
    regular_status(path)
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}.") from error


def contents(path: Path | str, max_bytes: int = 0) -> bytes:
    """Return what a file holds.

    Args:
        path: the file.
        most: bytes that it may have; by its name where it is 0.

    Raises:
        StorageError: it is a link, no regular file, or larger.
        FileNotFoundError: there is none.
    """
    limit = max_bytes or size_limit(path)
    with os.fdopen(descriptor(path), "rb") as file:
        try:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise too_large(path, size, limit)
            return file.read(size)
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}.") from error


def size_limit(path: Path | str) -> int:
    """Return how many bytes a file of this name may have."""
    name = os.fspath(path).rpartition("/")[2]
    if name.endswith(".jsonl"):
        return LOG
    return PLAN if name.startswith(("plan", "imported")) else ARCHIVE if name.endswith(".npz") else RECORD


def too_large(path: Path | str, size: int, limit: int) -> StorageError:
    return StorageError(
        f"{path} is damaged: it has {size / MB:,.1f} MB, and a file of its kind {limit / MB:,.0f} MB at most."
        " Remove it."
    )


def refuse_link(folder: Path | str) -> None:
    """Refuse a folder that is a link below a results folder, or lies below one (StorageError); it may not be
    there yet.
    """
    with suppress(FileNotFoundError):
        safe_lstat(f"{os.fspath(folder)}/.")


def check_written(path: Path | str) -> None:
    """Refuse to write into what is a link or no regular file, or lies below a link (StorageError); it may not
    be there yet.
    """
    with suppress(FileNotFoundError):
        regular_status(path)


def entries(path: Path | str) -> list[os.DirEntry[str]]:
    """Return what a folder has, by name; nothing where there is none (StorageError: it is a link, or cannot
    be read).
    """
    refuse_link(path)
    try:
        return sorted(os.scandir(path), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}.") from error


def folders(path: Path | str) -> Iterator[Path]:
    """Yield the folders in a folder that are no links (StorageError)."""
    return (Path(entry.path) for entry in entries(path) if entry.is_dir(follow_symlinks=False))


def arrays(path: Path) -> "dict[str, npt.NDArray[Any]]":
    """Return the arrays of an `.npz` file by name, once it is known how large they are.

    Raises:
        StorageError: it is a link, no regular file, or larger than such a file may be.
        ValueError: it is damaged, or its arrays are larger than they may be, of another size than they say,
            or of objects.
        FileNotFoundError: there is none.
    """
    try:
        content = contents(path)
        if content.count(b"PK\1\2") > MEMBERS:  # before each has an object in memory
            raise ValueError(f"more than {MEMBERS:,} arrays")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > ARRAYS:
                raise ValueError(f"its arrays have more than {ARRAYS // MB} MB")
            values = {}
            for member in members:
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError("compressed as NumPy does not")
                # read as a whole, it is unpacked whatever size that comes to
                with archive.open(member) as file:
                    values[member.filename.removesuffix(".npy")] = _array(file.read(member.file_size + 1))
            return values
    except (StorageError, FileNotFoundError):
        raise
    except Exception as error:  # a damaged archive raises nearly anything
        raise ValueError(" ".join(f"{type(error).__name__}: {error}".split())) from None


def _array(content: bytes) -> "npt.NDArray[Any]":
    """Return the array of an `.npy` file, whose header says no more than is there."""
    import numpy as np

    shape, by_columns, kind, offset = _header(content[: 10 + int.from_bytes(content[8:10], "little")])
    count = math.prod(shape)
    if count * kind.itemsize != len(content) - offset:
        raise ValueError(f"an array of {kind} {shape} in {len(content) - offset:,} bytes")
    values = np.frombuffer(content, kind, count, offset) if count else np.empty(0, kind)
    return values.reshape(shape, order="F" if by_columns else "C").copy()


@lru_cache(256)  # of a study few are different; a header has 10 kB at most
def _header(content: bytes) -> "tuple[tuple[int, ...], bool, np.dtype[Any], int]":
    """Return shape, order, type and place of an array by its file's beginning: to read one takes longer than
    its values.
    """
    from numpy.lib import format as npy

    file = io.BytesIO(content)
    if npy.read_magic(file) != (1, 0):  # later ones are of arrays with fields
        raise ValueError("an array of another format than NumPy's first")
    shape, by_columns, kind = npy.read_array_header_1_0(file)
    if kind.kind not in KINDS or any(not 0 <= side <= ARRAYS for side in shape):
        raise ValueError(f"an array of {kind} {shape}")
    return shape, by_columns, kind, file.tell()
