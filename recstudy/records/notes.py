"""Notes and tags that readers give to runs, in a log beside the run's records: it is appended to, and nothing in it is changed.

Tags are given and taken off again; where two folders were merged, the later of two lines counts.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from recstudy.errors import ConfigError, StorageError, choices
from recstudy.records.reading import append_record, read_log
from recstudy.records.results import Results
from recstudy.records.run_folder import RunFolder
from recstudy.records.schema import NoteLine, now
from recstudy.terminal import printable

TAG = re.compile(r"[\w.:+-]{1,40}")
LONGEST = 2000  # characters of a note
SHORT = 6  # of a run's id that name it where no other begins so


@dataclass(frozen=True)
class Notes:
    """What readers wrote about a run, in order, and the tags that it has now, sorted."""

    lines: tuple[NoteLine, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """Each note with its day, and who wrote it where that is known."""
        return [f"{line.date[:10]}{f', {plain(line.by)}' if line.by else ''}: {plain(line.text)}" for line in self.lines]


NONE = Notes()


def notes_of(run: RunFolder) -> Notes:
    """Return a run's notes and tags; none where nobody wrote any, or where the log is damaged."""
    try:
        lines = sorted(read_log(run.notes, NoteLine), key=lambda line: line.date)
    except StorageError:
        return NONE
    tags = dict[str, bool]()
    for line in lines:
        tags |= dict.fromkeys(line.tags, True) | dict.fromkeys(line.removed, False)
    kept = (tag for tag, given in tags.items() if given and TAG.fullmatch(tag))
    return Notes(tuple(line for line in lines if line.text), tuple(sorted(kept)))


def note(results: Results, run: str, text: str, by: str = "") -> str:
    """Add a note to a run, and return the run's whole id.

    Raises:
        ConfigError: there is no such run, or the note is empty or too long.
        StorageError: it cannot be written.
    """
    words = plain(text)
    if not words or len(words) > LONGEST:
        raise ConfigError(f"a note has 1 to {LONGEST:,} characters, but this one has {len(words):,}")
    return _add(results, run, NoteLine(date=now(), text=words, by=plain(by)))


def tag(results: Results, run: str, tags: Sequence[str], remove: bool = False, by: str = "") -> str:
    """Give tags to a run or take them off, and return the run's whole id.

    Raises:
        ConfigError: there is no such run; a tag is none; or one that is taken off is not there.
        StorageError: they cannot be written.
    """
    for one in tags:
        if not TAG.fullmatch(one):
            raise ConfigError(f"a tag has up to 40 letters, digits and . _ : + -, but got {plain(one)!r}")
    whole = found(results, run)
    have = notes_of(results.run(whole)).tags
    if remove and (missing := [one for one in tags if one not in have]):
        raise ConfigError(f"run {whole} has no tag {missing[0]!r}: it has {choices(have) or 'none'}")
    line = NoteLine(date=now(), tags=() if remove else tuple(tags), removed=tuple(tags) if remove else (), by=plain(by))
    return _add(results, whole, line)


def found(results: Results, run: str) -> str:
    """Return the id of the run that begins so.

    Raises:
        ConfigError: none does, or several do.
    """
    known = sorted(folder.name for folder in results.run_folders())
    begin = [one for one in known if one.startswith(run)] if len(run) >= SHORT else []
    if run in known:
        return run
    if len(begin) != 1:
        many = f"matches {len(begin)} runs; be more specific" if begin else f"there is none in {results.store or results.root}"
        raise ConfigError(f"no run {plain(run)!r}: {many}. Its page and `recstudy explain` name runs")
    return begin[0]


def plain(text: str) -> str:
    """Return a text in one line, without control characters."""
    return " ".join(printable(text).split())


def _add(results: Results, run: str, line: NoteLine) -> str:
    whole = found(results, run)
    log = results.run(whole).notes
    with results.changing(log):
        append_record(log, line)
        os.utime(log.parent)  # the board looks at a run again when its folder has changed
    return whole
