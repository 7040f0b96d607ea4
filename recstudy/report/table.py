"""A table between a part and a writer: heads and lines of typed entries, with notes.

A number stays a number until a writer of `recstudy.report.writers` formats it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from recstudy.report.names import DASH

PUBLISHED = "published"  # the head of a column, or the label of a line, of published values
REASONS = 4  # of a note, on paper


@dataclass(frozen=True, slots=True)
class Number:
    """A number and its format (`.1f`, `+.2f`)."""

    value: float
    form: str = ".1f"

    def __str__(self) -> str:
        return format(self.value, self.form)


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval, in the format of its number."""

    low: float
    high: float
    form: str = ".1f"

    def __str__(self) -> str:
        return f"[{format(self.low, self.form)}, {format(self.high, self.form)}]"


Piece = str | Number | Interval


@dataclass(frozen=True, slots=True)
class TableEntry:
    """The content of one place in a table.

    Args:
        content: Words, a number, an interval, or several of these.
        bold: Whether nothing is significantly better.
        hint: What a tooltip adds.
        origin: The runs behind a number, in words.
        runs: Their ids.
    """

    content: Piece | tuple[Piece, ...]
    bold: bool = False
    hint: str = ""
    origin: str = ""
    runs: tuple[str, ...] = ()

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return self.content if isinstance(self.content, tuple) else (self.content,)

    @property
    def text(self) -> str:
        return "".join(map(str, self.pieces))

    @property
    def is_empty(self) -> bool:
        return self.text in ("", DASH)


@dataclass(frozen=True)
class Note:
    """A sentence under a table, with its reasons. `screen` follows where a reader can act on it, such as a command."""

    text: str
    reasons: tuple[str, ...] = ()
    screen: str = ""

    def __str__(self) -> str:
        return ". ".join(filter(None, [_with_reasons(self.text, self.reasons), self.screen]))

    @property
    def on_paper(self) -> str:
        """The sentence with its first reasons, and how many more a page has."""
        more = len(self.reasons) - REASONS
        shown = self.reasons[:REASONS] + ((f"{more} more",) if more > 0 else ())
        return _with_reasons(self.text, shown)


def _with_reasons(text: str, reasons: Sequence[str]) -> str:
    return f"{text}: {'; '.join(reasons)}" if reasons else text


@dataclass(frozen=True)
class PrintedTable:
    """A table as all writers take it. A line with one entry is the heading of the lines below it.

    Args:
        name: Of the part, and of its files.
        title: Stands over the table.
        heads: Of the columns; the first column has the labels.
        lines: The entries of each line.
        caption: What the numbers are.
        warnings: What a reader must know before the numbers.
        notes: What stands under the table.
        unmatched_targets: Published values that belong to no line.
        prose: Columns that hold sentences.
        settings: How many columns of words follow the labels.
    """

    name: str
    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[TableEntry]]
    caption: str | Note = ""
    warnings: Sequence[str] = ()
    notes: Sequence[str | Note] = ()
    unmatched_targets: Sequence[str] = ()
    prose: frozenset[int] = frozenset()
    settings: int = 0

    @property
    def rows(self) -> list[Sequence[TableEntry]]:
        """The lines that are no headings."""
        return [line for line in self.lines if len(line) > 1]

    def is_text(self, column: int) -> bool:
        """Return whether a column is set from the left."""
        return column <= self.settings or column in self.prose

    def widths(self) -> list[int]:
        """Return the characters of each column: of its longest entry, or of the longest word of its head."""
        texts = [[line[at].text for line in self.rows] for at in range(len(self.heads))]
        return [max(map(len, [*head.split(), *column]), default=0) for head, column in zip(self.heads, texts, strict=True)]

    def select(self, columns: Sequence[int]) -> PrintedTable:
        """Return the table with these columns. Lines of published values that are empty in them are left out."""
        lines = [
            line if len(line) == 1 else [line[at] for at in columns]
            for line in self.lines
            if len(line) == 1 or line[0].text != PUBLISHED or any(not line[at].is_empty for at in columns[1:])
        ]
        prose = frozenset(place for place, at in enumerate(columns) if at in self.prose)
        settings = sum(1 <= at <= self.settings for at in columns)
        return replace(self, heads=[self.heads[at] for at in columns], lines=lines, prose=prose, settings=settings)

    def without(self, patterns: Sequence[str]) -> PrintedTable:
        """Return the table without empty columns and those whose head a pattern matches, each with its published values."""
        columns = [0]
        for at, head in enumerate(self.heads[1:], 1):
            belongs = head != PUBLISHED or columns[-1] == at - 1
            if belongs and not matches(head, patterns) and any(not line[at].is_empty for line in self.rows):
                columns.append(at)
        return self.select(columns)

    def blocks(self, widths: Sequence[int], room: int) -> list[list[int]]:
        """Return the columns in as few blocks as have room, each with the labels; published values stay with their column."""
        groups: list[list[int]] = []
        for at in range(1, len(widths)):
            if self.heads[at] == PUBLISHED and groups:
                groups[-1].append(at)
            else:
                groups.append([at])
        blocks: list[list[int]] = []
        used = room
        for group in groups:
            width = sum(widths[at] for at in group)
            if used + width > room:
                blocks.append([0])
                used = widths[0]
            blocks[-1] += group
            used += width
        return blocks or [[0]]


def matches(head: str, patterns: Sequence[str]) -> bool:
    """Return whether one of these globs is the head of a column."""
    return any(fnmatchcase(head.lower(), pattern.lower()) for pattern in patterns)
