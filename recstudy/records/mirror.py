"""Mirror results on an object store in a local folder.

`Results` pulls records from the store before it reads them, and pushes changed files. The store is the
authority; the local copy only saves transfers. Objects are replaced as a whole, never appended to or renamed.

A local file gets the time of its object, so any process can compare both by size and time. Stores count in
seconds, so two versions can have the same time. A file fetched within `YOUNG_S` of its object's time
therefore keeps its local time and is fetched again. A file is sent again until its object has a new time.
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

from recstudy.base.errors import StorageError
from recstudy.base.files import cache_folder
from recstudy.base.opened import size_limit, too_large
from recstudy.base.values import hashed
from recstudy.records.files import retried, write_whole
from recstudy.records.locks import locked
from recstudy.records.stores import PROBE, ask, filesystem, first_line, write_object

T = TypeVar("T")

RECORDS = ("*.json", "*.jsonl", "*.npz")  # all files that a report reads; a checkpoint is 100 times larger
ON_DEMAND = ("answers.npz",)  # up to 4 MB a run, and few reports read it: fetched only by name
LOCAL = ("lock", "hang-*.log", ".*")  # never sent: they describe processes on this machine
LATE = ("*.pt", "failure.json", "stopped.json", "result.json")  # sent in this order, after all other files
YOUNG_S = 5.0  # an object this young may change within the same second; clocks may also differ
CONNECTIONS = 16  # parallel transfers: a small object takes about 30 ms, mostly waiting


def scratch(uri: str) -> Path:
    """Return the local folder for the files of a store.

    It is below `RECSTUDY_SCRATCH` if that variable is set, otherwise below `mirrors` in the cache folder.
    """
    setting = os.environ.get("RECSTUDY_SCRATCH")
    root = Path(setting).expanduser() if setting else cache_folder() / "mirrors"
    return root.absolute() / hashed(uri.rstrip("/"), 16)


class Mirror:
    """A local folder that mirrors a folder of an object store.

    Args:
        uri: The URI of the store, such as `s3://bucket/folder`.
        root: The local folder.
        prefix: A folder below the URI.

    Raises:
        ConfigError: The scheme of the URI is not supported, or the URI contains a secret.
        StorageError: The store cannot be reached.
    """

    def __init__(self, uri: str, root: Path, prefix: str = "") -> None:
        self.uri, self.root = uri, root
        self.fs, base = filesystem(uri)
        self.base = f"{base.rstrip('/')}/{prefix}".rstrip("/")
        # local file -> its size and time when it was equal to its object
        self._equal: dict[Path, tuple[int, int]] = {}

    def key(self, path: Path) -> str:
        return f"{self.base}/{path.relative_to(self.root).as_posix()}".removesuffix("/.")

    def read(self, key: str) -> bytes | None:
        """Return the content of an object, or None if there is no such object."""

        def fetch() -> bytes:
            with self.fs.open_input_stream(key, compression=None) as stream:
                content = bytes(stream.read())
            # pyarrow asks for the size first, so an object replaced in between arrives truncated.
            if len(content) != self.fs.get_file_info(key).size:
                raise OSError("it changed while it was read")
            return content

        try:
            return self._patiently(fetch, key)
        except FileNotFoundError:
            return None

    def listed(self, key: str, recursive: bool = False) -> list[Any]:
        """Return the pyarrow file infos of a folder in the store; with `recursive` also of its subfolders."""
        from pyarrow import fs

        selector = fs.FileSelector(key, allow_not_found=True, recursive=recursive)
        return self._patiently(lambda: self.fs.get_file_info(selector), key)

    def pull(self, names: Sequence[str] = RECORDS, subfolder: str = "") -> None:
        """Fetch changed files from the store, and remove local files that it does not have.

        Args:
            names: Patterns of the file names.
            subfolder: The folder below `root`. By default all.
        """
        infos = self.listed(f"{self.base}/{subfolder}".rstrip("/"), recursive=True)
        objects = [info for info in infos if info.is_file and _travels(info.base_name, names)]
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            fetched_files = set(pool.map(self._fetch, objects))
        for path in (self.root / subfolder).rglob("*"):
            if path not in fetched_files and _travels(path.name, names) and path.is_file():
                path.unlink(missing_ok=True)
                self._equal.pop(path, None)

    def pull_file(self, path: Path) -> None:
        """Fetch a file if it has changed in the store, and remove it if the store does not have it."""
        self.pull((path.name,), path.parent.relative_to(self.root).as_posix())

    def _fetch(self, info: Any) -> Path:
        path = self.root / info.path.removeprefix(f"{self.base}/")
        if ".." in path.parts or not path.is_relative_to(self.root):
            raise StorageError(
                f"the results store has an object {info.path!r} outside of the results folder. Remove it."
            )
        # Only records have a size limit, because weights and pages may be larger.
        if _travels(path.name, RECORDS) and (info.size or 0) > size_limit(path):
            raise too_large(info.path, info.size, size_limit(path))
        if not path.exists() or _state(path) != (info.size, info.mtime_ns):
            fetch_time, content = time.time_ns(), self.read(info.path)
            if content is not None:
                write_whole(path, content)
                if info.mtime_ns is not None and fetch_time - info.mtime_ns > YOUNG_S * 1e9:
                    _date(path, info)
        if path.exists():
            self._equal[path] = _state(path)
        return path

    def push(self, *places: Path) -> None:
        """Send changed files to the store, results last.

        Args:
            places: Files, and folders whose files are sent.
        """
        paths = (path for place in places for path in (place.rglob("*") if place.is_dir() else (place,)))
        files = [path for path in paths if path.is_file() and _travels(path.name)]
        for path in sorted(files, key=upload_order):
            if self._equal.get(path) != _state(path):
                _date(path, self._patiently(partial(self._send, path), self.key(path)))
                self._equal[path] = _state(path)

    def _send(self, path: Path) -> Any:
        write_object(self.fs, self.key(path), path.read_bytes())
        info = self.fs.get_file_info(self.key(path))
        if (info.size, info.mtime_ns) == self._equal.get(path):
            raise OSError(
                "it has the size and time of the previous object, so readers would not notice the change"
            )
        return info

    def forget(self) -> None:
        """Remove from the store the objects whose local files were removed."""
        for path in [path for path in self._equal if not path.exists()]:
            key = self.key(path)
            with suppress(FileNotFoundError):
                self._patiently(partial(self.fs.delete_file, key), key)
            del self._equal[path]

    @property
    def empty(self) -> bool:
        """Whether the store's folder has no objects. Probes of other drivers do not count."""
        return all(info.base_name.startswith(PROBE) for info in self.listed(self.base))

    def still(self) -> AbstractContextManager[None]:
        """Lock the mirror, so that no other process of this machine pulls while files are changed and
        sent."""
        return locked(self.root.with_suffix(".lock"), wait=True)

    def check(self) -> None:
        """Raise StorageError unless this process can write, read and delete objects."""
        token = uuid4().bytes
        key = f"{self.base}/{PROBE}{token.hex()}"

        def probe() -> None:
            write_object(self.fs, key, token)
            with self.fs.open_input_stream(key) as stream:
                if bytes(stream.read()) != token:
                    raise OSError("an object was read back with other content")
            self.fs.delete_file(key)

        ask(self.uri, probe)

    def _patiently(self, call: Callable[[], T], key: str) -> T:
        """Return the result of `call`, and retry for ten seconds, because a store may recover."""
        return retried(
            call,
            may_pass=lambda error: not isinstance(error, FileNotFoundError),
            failure=lambda error: (
                f"the results store fails at {key}: {first_line(error)}. Once it works again, run the same"
                " command to resume."
            ),
        )


def _travels(name: str, patterns: Sequence[str] = ("*",)) -> bool:
    """Return whether files of this name are transferred with these patterns."""
    if any(fnmatch(name, pattern) for pattern in LOCAL) or (
        name in ON_DEMAND and not {name, "*"} & {*patterns}
    ):
        return False
    return any(fnmatch(name, pattern) for pattern in patterns)


def upload_order(path: Path) -> tuple[int, str]:
    """Return a sort key that sends the logs before the checkpoint."""
    # A resumed run can drop log lines that are newer than its checkpoint, but cannot restore missing ones.
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
