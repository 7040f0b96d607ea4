"""Printed tables: heads and lines of typed entries, with notes.

`tables.render` makes a `PrintedTable` of a part's cells, and `recstudy.report.writers` formats it. Numbers
stay numbers until then.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from recstudy.report.names import DASH, formatted

PUBLISHED = "published"  # the head of a column of published values, or the label of a line of them


@dataclass(frozen=True, slots=True)
class Number:
    """A number and its format (`.1f`, `+.2f`)."""

    value: float
    form: str = ".1f"

    def __str__(self) -> str:
        return formatted(self.value, self.form)


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval with the format of its bounds."""

    low: float
    high: float
    form: str = ".1f"

    def __str__(self) -> str:
        return f"[{formatted(self.low, self.form)}, {formatted(self.high, self.form)}]"


Piece = str | Number | Interval


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One entry of a table.

    Args:
        content: Words, a number, an interval, or several of these.
        bold: Whether no other entry is significantly better.
        hint: The text of the tooltip.
        origin: The runs behind the number, in words.
        runs: The ids of these runs.
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
class PrintedTable:
    """A table that all writers accept. A line with one entry is the heading of the lines below it.

    Args:
        name: The name of the part and of its files.
        title: The title.
        heads: The column heads. The first column has the labels.
        lines: The entries of each line.
        caption: The kind of numbers in the table.
        study_notes: Facts of the study that the caption needs outside of the page, which states them once.
        warnings: Warnings about the numbers.
        notes: The notes below the table.
        prose: The indices of columns with sentences.
        settings: The number of columns with settings after the labels.
    """

    name: str
    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[TableEntry]]
    caption: str = ""
    study_notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    prose: frozenset[int] = frozenset()
    settings: int = 0

    @property
    def whole_caption(self) -> str:
        """The caption outside of the page, with the facts of the study."""
        return "; ".join(filter(None, [*self.study_notes, self.caption]))

    @property
    def small_print(self) -> list[str]:
        """The caption and the notes."""
        return [*([f"{self.whole_caption}."] if self.whole_caption else []), *self.notes]

    def without_notes(self, stated_notes: Collection[str]) -> PrintedTable:
        """Return the table without the warnings and facts that a page states once for all parts."""

        def left(notes: Sequence[str]) -> list[str]:
            return [note for note in notes if note not in stated_notes]

        return replace(self, warnings=left(self.warnings), study_notes=left(self.study_notes))

    @property
    def rows(self) -> list[Sequence[TableEntry]]:
        """The lines without the headings."""
        return [line for line in self.lines if len(line) > 1]

    def texts(self, column: int) -> list[str]:
        return [row[column].text for row in self.rows]

    @property
    def column_groups(self) -> list[list[int]]:
        """The columns after the labels, each in a group with the published values after it."""
        groups: list[list[int]] = []
        for column, head in enumerate(self.heads[1:], 1):
            if head != PUBLISHED or not groups:
                groups.append([])
            groups[-1].append(column)
        return groups

    def is_text(self, column: int) -> bool:
        """Return whether a column has words and is aligned on the left."""
        return column <= self.settings or column in self.prose

    def widths(self) -> list[int]:
        """Return the width of each column in characters: its longest entry or word of its head."""
        return [
            max(map(len, [*head.split(), *self.texts(column)]), default=0)
            for column, head in enumerate(self.heads)
        ]

    def select(self, columns: Sequence[int]) -> PrintedTable:
        """Return the table with these columns, without lines of published values that are then empty."""
        lines = []
        for line in self.lines:
            entries = line if len(line) == 1 else [line[column] for column in columns]
            if (
                len(line) == 1
                or line[0].text != PUBLISHED
                or any(not entry.is_empty for entry in entries[1:])
            ):
                lines.append(entries)
        prose = frozenset(position for position, column in enumerate(columns) if column in self.prose)
        settings = sum(1 <= column <= self.settings for column in columns)
        return replace(
            self,
            heads=[self.heads[column] for column in columns],
            lines=lines,
            prose=prose,
            settings=settings,
        )

    def drop_columns(self, patterns: Sequence[str]) -> PrintedTable:
        """Return the table without empty columns and columns whose head matches a pattern.

        Columns of published values are removed with their column.
        """
        filled_columns = {
            column for row in self.rows for column, entry in enumerate(row) if not entry.is_empty
        }
        columns = [0]
        for first, *published in self.column_groups:
            if first in filled_columns and not matches(self.heads[first], patterns):
                columns += [first, *sorted(filled_columns.intersection(published))]
        return self.select(columns)

    def drop_constants(self) -> PrintedTable:
        """Return the table without columns of a single value; the caption states these values."""
        columns, facts = [0], [self.caption] if self.caption else []
        for column, *published in self.column_groups:
            texts = self.texts(column)
            # A column of words that are no settings stays, for example the verdicts.
            can_leave = column <= self.settings or all(
                isinstance(row[column].pieces[-1], Number) for row in self.rows
            )
            if can_leave and not published and len(set(texts)) == 1 < len(texts):
                facts.append(f"{self.heads[column]}: {texts[0]}")
            else:
                columns += [column, *published]
        return replace(self.select(columns), caption="; ".join(facts)) if len(columns) > 1 else self

    def blocks(self, widths: Sequence[int], room: int) -> list[list[int]]:
        """Return the columns in as few blocks as possible.

        Each block begins with the labels. Published values stay in the block of their column.

        Args:
            widths: The width of each column.
            room: The width of a block.
        """
        blocks: list[list[int]] = []
        used_width = room
        for group in self.column_groups:
            width = sum(widths[column] for column in group)
            if used_width + width > room:
                blocks.append([0])
                used_width = widths[0]
            blocks[-1] += group
            used_width += width
        return blocks or [[0]]


def matches(head: str, patterns: Sequence[str]) -> bool:
    """Return whether the head of a column matches one of these globs, in any case of letters."""
    return any(fnmatchcase(head.lower(), pattern.lower()) for pattern in patterns)
