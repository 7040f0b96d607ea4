"""Results on an object store: a local folder that is made equal to the store's, and sent back.

An object is there whole or as it was before, as a file that `write_whole` writes; nothing is appended to or
renamed. The store is the truth: a local copy is worth no more than the time it takes to fetch it again. A
file that was fetched or sent has the object's time, so that any process sees by size and time whether it is
still the same. Stores count in seconds: what was fetched so soon after its time that it could change within
it keeps its own, and is fetched again; and what is sent again is sent until its time is another.
"""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from recstudy.errors import StorageError
from recstudy.files import cache_folder, sha
from recstudy.opened import size_limit, too_large
from recstudy.records.files import retried, write_whole
from recstudy.records.locks import locked
from recstudy.records.stores import PROBE, ask, filesystem, first_line, write_object

T = TypeVar("T")

RECORDS = ("*.json", "*.jsonl", "*.npz")  # what a report is made of; a checkpoint is a hundred times as large
ON_DEMAND = ("answers.npz",)  # up to 4 MB a run, which few reports read: fetched by their names alone
LOCAL = ("lock", "hang-*.log", ".*")  # never sent: they speak of processes here
LATE = ("*.pt", "failure.json", "stopped.json", "result.json")  # sent in this order, after all else
YOUNG_S = 5.0  # after an object's time, in which it may change within that second; clocks differ by some
CONNECTIONS = 16  # objects on their way: a small one takes some 30 ms, most of it waiting


def scratch(uri: str) -> Path:
    """Return where this machine keeps what it has fetched from `uri`; `RECSTUDY_SCRATCH`, or `mirrors` in the
    cache folder.
    """
    setting = os.environ.get("RECSTUDY_SCRATCH")
    root = Path(setting).expanduser() if setting else cache_folder() / "mirrors"
    return root.absolute() / sha([uri.rstrip("/")])


class Mirror:
    """A folder here that mirrors one of a store.

    Args:
        uri: the store's, such as `s3://bucket/folder`.
        root: the folder here.
        prefix: a folder below the URI's.

    Raises:
        ConfigError: the URI's scheme is not supported, or the URI holds a secret.
        StorageError: the store cannot be reached.
    """

    def __init__(self, uri: str, root: Path, prefix: str = "") -> None:
        self.uri, self.root = uri, root
        self.fs, base = filesystem(uri)
        self.base = f"{base.rstrip('/')}/{prefix}".rstrip("/")
        # size and time of the files that are equal to their objects
        self._equal: dict[Path, tuple[int, int]] = {}

    def key(self, path: Path) -> str:
        return f"{self.base}/{path.relative_to(self.root).as_posix()}".removesuffix("/.")

    def read(self, key: str) -> bytes | None:
        """Return an object's content; None where there is none.

        pyarrow asks for its size and then for as many bytes, so that one replaced in between comes cut off:
        it is read again.
        """

        def fetch() -> bytes:
            with self.fs.open_input_stream(key, compression=None) as stream:
                content = bytes(stream.read())
            if len(content) != self.fs.get_file_info(key).size:
                raise OSError("it changes while it is read")
            return content

        try:
            return self._patiently(fetch, key)
        except FileNotFoundError:
            return None

    def listed(self, key: str, recursive: bool = False) -> list[Any]:
        """Return what the store has in a folder, or also in all below it."""
        from pyarrow import fs

        selector = fs.FileSelector(key, allow_not_found=True, recursive=recursive)
        return self._patiently(lambda: self.fs.get_file_info(selector), key)

    def pull(self, names: Sequence[str] = RECORDS, under: str = "") -> None:
        """Make the files of these names equal to the store's; those that it does not have are removed
        here.
        """
        infos = self.listed(f"{self.base}/{under}".rstrip("/"), recursive=True)
        objects = [info for info in infos if info.is_file and _travels(info.base_name, names)]
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            fetched_files = set(pool.map(self._fetch, objects))
        for path in (self.root / under).rglob("*"):
            if path not in fetched_files and _travels(path.name, names) and path.is_file():
                path.unlink(missing_ok=True)
                self._equal.pop(path, None)

    def _fetch(self, info: Any) -> Path:
        path = self.root / info.path.removeprefix(f"{self.base}/")
        if ".." in path.parts or not path.is_relative_to(self.root):
            raise StorageError(
                f"the results' store has an object {info.path!r}, which is in no folder of results."
                " Remove it."
            )
        # weights and pages may be larger
        if _travels(path.name, RECORDS) and (info.size or 0) > size_limit(path):
            raise too_large(info.path, info.size, size_limit(path))
        if not path.exists() or _state(path) != (info.size, info.mtime_ns):
            now, content = time.time_ns(), self.read(info.path)
            if content is not None:
                write_whole(path, content)
                if info.mtime_ns is not None and now - info.mtime_ns > YOUNG_S * 1e9:
                    _date(path, info)
        if path.exists():
            self._equal[path] = _state(path)
        return path

    def push(self, *places: Path) -> None:
        """Send those files, or all below a folder, that changed since they were fetched or sent; a result
        after all else.
        """
        paths = (path for place in places for path in (place.rglob("*") if place.is_dir() else (place,)))
        files = [path for path in paths if path.is_file() and _travels(path.name)]
        for path in sorted(files, key=_order):
            if self._equal.get(path) != _state(path):
                _date(path, self._patiently(partial(self._send, path), self.key(path)))
                self._equal[path] = _state(path)

    def _send(self, path: Path) -> Any:
        write_object(self.fs, self.key(path), path.read_bytes())
        info = self.fs.get_file_info(self.key(path))
        if (info.size, info.mtime_ns) == self._equal.get(path):
            raise OSError(
                "it has the size and the second of the object before, so that no reader would see the change"
            )
        return info

    def forget(self) -> None:
        """Remove from the store what was fetched or sent and is gone here."""
        for path in [path for path in self._equal if not path.exists()]:
            key = self.key(path)
            with suppress(FileNotFoundError):
                self._patiently(partial(self.fs.delete_file, key), key)
            del self._equal[path]

    @property
    def empty(self) -> bool:
        """Whether the store's folder holds nothing but the probe of another driver that begins."""
        return all(info.base_name.startswith(PROBE) for info in self.listed(self.base))

    def still(self) -> AbstractContextManager[None]:
        """Keep other processes of this machine from reading the store while a file is changed and sent."""
        return locked(self.root.with_suffix(".lock"), wait=True)

    def check(self) -> None:
        """Refuse a store that this process cannot write, read and delete in (StorageError)."""
        token = uuid4().bytes
        key = f"{self.base}/{PROBE}{token.hex()}"

        def probe() -> None:
            write_object(self.fs, key, token)
            with self.fs.open_input_stream(key) as stream:
                if bytes(stream.read()) != token:
                    raise OSError("what was written is not what is read")
            self.fs.delete_file(key)

        ask(self.uri, probe)

    def _patiently(self, call: Callable[[], T], key: str) -> T:
        """Return what `call` returns, tried again for ten seconds: a store that fails may come back."""
        return retried(
            call,
            may_pass=lambda error: not isinstance(error, FileNotFoundError),
            failure=lambda error: (
                f"the results' store fails at {key}: {first_line(error)}. The same command goes on from what"
                " it holds."
            ),
        )


def _travels(name: str, patterns: Sequence[str] = ("*",)) -> bool:
    """Return whether a file of this name is sent, or fetched with the files of these names."""
    if any(fnmatch(name, pattern) for pattern in LOCAL) or (
        name in ON_DEMAND and not {name, "*"} & {*patterns}
    ):
        return False
    return any(fnmatch(name, pattern) for pattern in patterns)


def _order(path: Path) -> tuple[int, str]:
    """Order what is sent: a resumed run drops log lines that its checkpoint does not know, but cannot make up
    missing ones.
    """
    return (
        max((rank for rank, pattern in enumerate(LATE, 1) if fnmatch(path.name, pattern)), default=0),
        path.name,
    )


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _date(path: Path, info: Any) -> None:
    if info.mtime_ns is not None:
        os.utime(path, ns=(info.mtime_ns, info.mtime_ns))
