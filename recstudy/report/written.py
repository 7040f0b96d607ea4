"""The files that a report owns: those that it wrote itself, which it may replace and remove.

`files.json` in the report's folder names them with their SHA-256. What somebody else put there, or changed since, stays. So does
a link, because nothing is written or removed through one.
"""

import hashlib
import logging
import re
from contextlib import suppress
from pathlib import Path

from recstudy.errors import StorageError
from recstudy.opened import ARCHIVE, contents, refuse_link
from recstudy.records import read_json, write_json, write_whole

MANIFEST = "files.json"
OWN = re.compile(r"(tables|figures)/[^/\0]+")  # what a manifest may name, whoever wrote it
log = logging.getLogger(__name__)


class ReportFiles:
    """The files of one report while it is written.

    Args:
        folder: The report's folder.

    Raises:
        StorageError: The folder, or one in it, is a link, or its manifest is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for path in (folder, folder / "tables", folder / "figures"):
            refuse_link(path)
        manifest = read_json(folder / MANIFEST) or {}
        self.before = {name: checksum for name, checksum in manifest.items() if OWN.fullmatch(name)}
        self.written: dict[str, str] = {}

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file, named relative to the report's folder, unless it has this content already."""
        values = content.encode() if isinstance(content, str) else content
        self.written[name] = hashlib.sha256(values).hexdigest()
        if self._checksum(name) != self.written[name]:
            write_whole(self.folder / name, values)

    def finish(self) -> None:
        """Remove what earlier reports wrote and this one did not, so that no file has older numbers; write the manifest."""
        for name in self.before.keys() - self.written.keys():
            checksum = self._checksum(name)
            if checksum == self.before[name]:
                (self.folder / name).unlink()
            elif checksum:
                log.warning("%s is of an earlier report and was changed since, so it stays", self.folder / name)
        write_json(self.folder / MANIFEST, dict(sorted(self.written.items())))

    def _checksum(self, name: str) -> str:
        """Return the SHA-256 of a file; empty if it cannot be read or is not there."""
        with suppress(FileNotFoundError, StorageError):
            return hashlib.sha256(contents(self.folder / name, ARCHIVE)).hexdigest()
        return ""
