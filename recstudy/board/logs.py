"""A growing log of JSON lines, read from where the last look ended."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from recstudy.records import Json


@dataclass
class Log:
    """The lines of `epochs.jsonl` by their epoch: of one that stands there twice, the last."""

    path: Path
    lines: dict[int, Json] = field(default_factory=dict)
    offset: int = 0
    _file: int = 0  # inode: a log that was rewritten is another file
    _damaged: bool = False

    def look(self) -> float:
        """Read what is new. Returns when the log last changed, 0 where there is none."""
        try:
            found = self.path.lstat()
        except OSError:
            return 0.0
        if found.st_ino != self._file or found.st_size < self.offset:
            self.lines, self.offset, self._file, self._damaged = {}, 0, found.st_ino, False
        if found.st_size > self.offset and not self._damaged:
            self._read()
        return found.st_mtime

    def _read(self) -> None:
        try:
            with open(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                file.seek(self.offset)
                content = file.read()
        except OSError:
            return  # the next look finds it, or that it is gone
        whole = content[: content.rfind(b"\n") + 1]
        self.offset += len(whole)
        for line in whole.splitlines():
            try:
                values = json.loads(line)
                self.lines[int(values["epoch"])] = values
            except (ValueError, TypeError, KeyError):
                self._damaged = True
                return
