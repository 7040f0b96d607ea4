"""Which files of a report's folder the report wrote itself: those it may remove, and no other.

`files.json` there names them with digests of what was written. What somebody else put there, or changed since, stays; so does
whatever is a link, as nothing is written or removed through one.
"""

import hashlib
import logging
import re
from contextlib import suppress
from pathlib import Path

from recstudy.errors import StorageError, choices
from recstudy.opened import ARCHIVE, contents, entries, refuse_link
from recstudy.records import read_json, write_json, write_whole

MANIFEST = "files.json"
OWN = re.compile(r"(tables|figures)/[^/\0]+")  # what a manifest may name, whoever wrote it
log = logging.getLogger(__name__)


class ReportFiles:
    """The files of one report while it is written.

    Args:
        folder: the report's.

    Raises:
        StorageError: it, or a folder in it, is a link, or its manifest is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for own in (folder, folder / "tables", folder / "figures"):
            refuse_link(own)
        known = read_json(folder / MANIFEST)
        self.first = known is None
        self.before = {name: digest for name, digest in (known or {}).items() if OWN.fullmatch(name)}
        self.written: dict[str, str] = {}

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file, named from the report's folder on, in place of what has its name."""
        values = content.encode() if isinstance(content, str) else content
        write_whole(self.folder / name, values)
        self.written[name] = _digest(values)

    def keep(self, name: str, content: bytes) -> None:
        """Write a file that changes with versions alone, unless it is there already."""
        if name in self.written:
            return
        if self.before.get(name) == _digest(content) and self._is(name, self.before[name]):
            self.written[name] = self.before[name]
        else:
            self.write(name, content)

    def finish(self) -> None:
        """Remove what earlier reports wrote and this one did not, so that nothing here shows older numbers; note what is left."""
        for name in self.before.keys() - self.written.keys():
            if self._is(name, self.before[name]):
                (self.folder / name).unlink()
            elif (self.folder / name).exists():
                log.warning("%s is of an earlier report and was changed since, so it stays", self.folder / name)
        there = {f"{own}/{file.name}" for own in ("tables", "figures") for file in entries(self.folder / own)}
        if self.first and (others := sorted(there - self.written.keys())):
            log.warning("in %s, %s are of no part of this report, and stay", self.folder, choices(others, 5))
        write_json(self.folder / MANIFEST, dict(sorted(self.written.items())))

    def _is(self, name: str, digest: str) -> bool:
        """Tell whether the file is still what was written."""
        with suppress(FileNotFoundError, StorageError):
            return _digest(contents(self.folder / name, ARCHIVE)) == digest
        return False


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
