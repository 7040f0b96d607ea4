"""Tables: typed rows with their heads and notes, which every writer formats for itself.

A report part returns a `TableData` whose cells are estimates (`recstudy.report.cells`). `tables.render`
replaces each of them by a `TableEntry`, which `recstudy.report.writers` formats. Numbers stay numbers
until then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from recstudy.report.names import DASH, formatted, join_texts

NUMBERS = 24  # characters of a number with its interval
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
        published: The published values for the entry.
    """

    content: Piece | tuple[Piece, ...]
    bold: bool = False
    hint: str = ""
    origin: str = ""
    runs: tuple[str, ...] = ()
    published: TableEntry | None = None

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return self.content if isinstance(self.content, tuple) else (self.content,)

    @property
    def text(self) -> str:
        return "".join(map(str, self.pieces))

    @property
    def is_empty(self) -> bool:
        return self.text in ("", DASH)

    @property
    def is_published(self) -> bool:
        """Whether there are published values for the entry."""
        return self.published is not None and not self.published.is_empty


BLANK = TableEntry("")


@dataclass(frozen=True)
class TableRow:
    """A row of a table. A row without cells is the heading of the rows below it.

    Args:
        label: The row's label.
        cells: A `Cell` or a `TableEntry` for each of the table's columns.
        settings: For each settings column of the table, the value of each of its fields as text.
    """

    label: str
    cells: Sequence[Any]
    settings: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class TableData:
    """A table.

    Args:
        name: The name of the report's part and of its files.
        title: The title.
        columns: The titles of the columns after the labels.
        rows: The rows.
        corner: The title of the column of labels.
        beneath: Whether published values are in a line below ours, and not in columns beside them.
        caption: Facts that only this table needs.
        study_notes: Facts about the whole study, which a page states once for all tables.
        warnings: What a reader must know before the numbers.
        notes: Notes below the table.
        settings: For each settings column, the config fields that it shows.
        kinds: Title of a column of words -> its kind: `setting`, `number` for a setting that is a number, or
            `prose` for sentences.
        has_labels: Whether the labels are shown. Otherwise the first column of settings takes their place.
        has_order: Whether the order of the rows means something. Otherwise the best rows are shown first.
        expendable: Titles of columns that LaTeX leaves out of a table that is too wide, the first one first.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[TableRow]
    corner: str = "variant"
    beneath: bool = False
    caption: str = ""
    study_notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    settings: Sequence[Sequence[str]] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    has_labels: bool = True
    has_order: bool = True
    expendable: Sequence[str] = ()

    @property
    def cells(self) -> list[Any]:
        return [cell for row in self.rows for cell in row.cells]

    @property
    def whole_caption(self) -> str:
        """The caption outside of the page, with the facts of the study."""
        return join_texts(*self.study_notes, self.caption)

    @property
    def small_print(self) -> list[str]:
        """The caption and the notes."""
        return [*([f"{self.whole_caption}."] if self.whole_caption else []), *self.notes]

    def without_notes(self, stated_notes: Collection[str]) -> TableData:
        """Return the table without the warnings and facts that a page states once for all parts."""

        def other_notes(notes: Sequence[str]) -> list[str]:
            return [note for note in notes if note not in stated_notes]

        return replace(self, warnings=other_notes(self.warnings), study_notes=other_notes(self.study_notes))

    # --- the table as writers show it, with published values in columns or lines of their own

    def entries(self, position: int) -> list[TableEntry]:
        """Return the entries of a column."""
        return [row.cells[position] for row in self.rows if row.cells]

    @cached_property
    def are_published(self) -> list[bool]:
        """Whether each column has published values."""
        positions = range(len(self.columns))
        return [any(entry.is_published for entry in self.entries(position)) for position in positions]

    @cached_property
    def heads(self) -> list[str]:
        """The head of each column, the one of the labels first."""
        heads = [self.corner]
        for title, is_published in zip(self.columns, self.are_published, strict=True):
            heads += [title, PUBLISHED] if is_published and not self.beneath else [title]
        return heads

    @cached_property
    def lines(self) -> list[list[TableEntry]]:
        """The entries of each line. A line with one entry is the heading of the lines below it."""
        lines = []
        for row in self.rows:
            line = [TableEntry(row.label)]
            for entry, is_published in zip(row.cells, self.are_published, strict=bool(row.cells)):
                line += [entry, entry.published or BLANK] if is_published and not self.beneath else [entry]
            lines.append(line)
            if self.beneath and any(entry.is_published for entry in row.cells):
                lines.append([TableEntry(PUBLISHED), *(entry.published or BLANK for entry in row.cells)])
        return lines

    def is_text(self, column: int) -> bool:
        """Return whether a column has words and is aligned on the left."""
        return column == 0 or self.kinds.get(self.heads[column], "number") != "number"

    def widths(self, limit: int) -> list[int]:
        """Return the width of each column in characters, at most `limit`, but at least 24 for numbers.

        A column is as wide as its longest entry or word of its head.
        """
        lines = [line for line in self.lines if len(line) > 1]
        widths = []
        for column, head in enumerate(self.heads):
            words = [*head.split(), *(line[column].text for line in lines)]
            most = limit if self.is_text(column) else max(limit, NUMBERS)
            widths.append(min(most, max(map(len, words), default=0)))
        return widths

    def select(self, positions: Sequence[int]) -> TableData:
        """Return the table with these columns, and with their published values."""

        def selected(values: Sequence[Any]) -> list[Any]:
            return [values[position] for position in positions] if values else []

        rows = [replace(row, cells=selected(row.cells)) for row in self.rows]
        return replace(self, columns=selected(self.columns), rows=rows)

    def drop_columns(self, patterns: Sequence[str] = ()) -> TableData:
        """Return the table without empty columns and columns whose title matches a pattern."""
        kept_positions = []
        for position, title in enumerate(self.columns):
            is_published = self.beneath and self.are_published[position]
            is_filled = is_published or not all(entry.is_empty for entry in self.entries(position))
            if is_filled and not matches(title, patterns):
                kept_positions.append(position)
        return self.select(kept_positions)

    def state_constants(self) -> TableData:
        """Return the table without columns of a single value; the caption states these values."""
        varied, facts = [], [self.caption] if self.caption else []
        for position, title in enumerate(self.columns):
            entries = self.entries(position)
            is_published = any(self.are_published) if self.beneath else self.are_published[position]
            # a column of words that are no settings stays, for example the verdicts
            can_leave = title in self.kinds or all(isinstance(entry.pieces[-1], Number) for entry in entries)
            if can_leave and not is_published and len({entry.text for entry in entries}) == 1 < len(entries):
                facts.append(f"{title}: {entries[0].text}")
            else:
                varied.append(position)
        return replace(self.select(varied), caption="; ".join(facts)) if varied else self

    def blocks(self, limit: int, gap: int, room: int) -> list[TableData]:
        """Return the columns in as few blocks as possible. Each block begins with the labels.

        Args:
            limit: The maximum width of a column in characters.
            gap: The width between two columns.
            room: The width of a block.
        """
        blocks: list[list[int]] = []
        # settings that take the place of labels are repeated like labels
        settings = []
        if not self.has_labels:
            settings = [position for position, title in enumerate(self.columns) if title in self.kinds]
        heads = [self.widths(limit)[0], *self.select(settings).widths(limit)[1:]]
        labels, used_width = sum(heads) + gap * len(heads), room
        for position in range(len(self.columns)):
            if position in settings:
                continue
            width = sum(width + gap for width in self.select([position]).widths(limit)[1:])
            if used_width + width > room:
                blocks.append([*settings])
                used_width = labels
            blocks[-1].append(position)
            used_width += width
        return [self.select(block) for block in blocks] or [self]


def matches(head: str, patterns: Sequence[str]) -> bool:
    """Return whether the head of a column matches one of these globs, in any case of letters."""
    return any(fnmatchcase(head.lower(), pattern.lower()) for pattern in patterns)
