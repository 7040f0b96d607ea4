"""The epochs of a run under way, read as they come."""

from contextlib import suppress
from dataclasses import dataclass, field

from recstudy.errors import StorageError
from recstudy.records import EpochLine
from recstudy.records.files import Log
from recstudy.records.reading import parsed_line


@dataclass
class Epochs:
    """The lines of `epochs.jsonl` by their epoch: of one that stands there twice, the last."""

    log: Log
    lines: dict[int, EpochLine] = field(default_factory=dict)

    @property
    def offset(self) -> int:
        return self.log.offset

    def look(self) -> float:
        """Read what is new. Returns when the log last changed, 0 where there is none."""
        with suppress(OSError):  # the next look finds it, or that it is gone
            found = self.log.whole()
            if self.log.begun:
                self.lines = {}
            for line in found:
                self._add(line)
        return self.log.changed

    def _add(self, line: bytes) -> None:
        with suppress(StorageError):  # a figure that reads the log says what is damaged
            read = parsed_line(line, EpochLine, self.log.path)
            self.lines[read.epoch] = read
