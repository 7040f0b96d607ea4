"""A table of words as Markdown, HTML and terminal text, and how each of them shows any text as it is (`latex.py`: LaTeX)."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from recstudy.analysis.page import Html, escape, fold, table, warning_lines
from recstudy.analysis.tables.entries import Entry as Entry
from recstudy.analysis.tables.widths import Room, split
from recstudy.report.names import DASH

FRAME, BETWEEN, LINE = 4, 3, 30  # characters in a terminal: around a table, between two columns, of a column of words
PUBLISHED = "published"  # over a column, or before a line, of published values beside ours


@dataclass(frozen=True)
class Printed:
    """A table in words: heads and lines of entries. The first is the label, then come `settings` columns of words.

    A line of one entry is the heading of those below it.

    `warnings` come before the numbers, `caption` and `notes` after them, `homeless` (published values with no matching variant)
    last. `prose` names the columns that hold sentences.
    """

    name: str
    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[Entry]]
    caption: str
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    homeless: Sequence[str] = ()
    prose: frozenset[int] = frozenset()
    settings: int = 0

    def words(self, column: int) -> bool:
        """Whether it reads from the left, as words do."""
        return column <= self.settings or column in self.prose


def markdown(page: Printed) -> str:
    """GitHub's Markdown: title, table, caption, notes."""
    lines = [f"### {md(page.title)}", ""]
    lines += [f"**{md(note)}**\n" for note in page.warnings]
    sides = ["---" if page.words(at) else "---:" for at in range(len(page.heads))]
    lines += ["| " + " | ".join(map(md, page.heads)) + " |", "| " + " | ".join(sides) + " |"]
    for entries in page.lines:
        lines.append("| " + " | ".join(_md_entries(entries, len(page.heads))) + " |")
    lines += ["", f"{md(page.caption)}."]
    lines += [f"\n{md(note)}" for note in [*page.notes, *page.homeless]]
    return "\n".join(lines) + "\n"


def html_table(page: Printed, to: Callable[[Sequence[str]], str] | None = None) -> str:
    """The table in a box that scrolls on its own, with the caption and notes under it.

    Args:
        page: the table.
        to: the address of some runs, which an entry that is about them then leads to.
    """
    classes = dict.fromkeys(range(1, page.settings + 1), "setting") | dict.fromkeys(page.prose, "prose")
    rows = [[_html(entry, to) for entry in entries] for entries in page.lines]
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in page.notes)
    lines = "".join(f'<p class="note">{escape(line)}</p>' for line in page.homeless)
    notes += fold("Published values with no matching variant", lines) if lines else ""
    shown = table(page.title, page.heads, rows, classes, "stack" if page.prose else "")
    return f'{warning_lines(page.warnings)}{shown}<p class="caption">{escape(page.caption)}.</p>{notes}'


def csv_lines(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Numbers in full precision."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([heads, *rows])
    return out.getvalue()


@dataclass(frozen=True)
class Terminal:
    """A table for `rich.print`: columns that find no room beside the others stand in a block below, each with the labels."""

    page: Printed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text | RichTable]:
        page = self.page
        rooms = [_room(page, at) for at in range(len(page.heads))]
        yield Text(page.title, "italic", justify="center")
        for columns in split(rooms, options.max_width - FRAME, BETWEEN) or [[]]:
            yield _block(page, rooms, [0, *columns])
        yield Text("\n".join([*page.warnings, f"{page.caption}.", *page.notes, *page.homeless]))


def terminal(page: Printed) -> Terminal:
    """For `rich.print`."""
    return Terminal(page)


def _block(page: Printed, rooms: Sequence[Room], columns: Sequence[int]) -> RichTable:
    shown = RichTable()
    for at in columns:
        words, least = at == 0 or page.words(at), round(rooms[at].least)
        head = page.heads[at] if words else "\n".join(wrap(page.heads[at], max(1, least)))
        side: JustifyMethod = "left" if words else "right"
        shown.add_column(Text(head), justify=side, overflow="fold", min_width=least, no_wrap=not words)
    for line in page.lines:
        if len(line) == 1:
            shown.add_row(Text(line[0].text, "italic"))
        elif line[0].text != PUBLISHED or len(columns) == len(page.heads) or any(line[at].text.strip(DASH) for at in columns[1:]):
            shown.add_row(*(Text(line[at].text, "bold" if line[at].bold else "") for at in columns))
    return shown


def _room(page: Printed, at: int) -> Room:
    """What a column asks for, in characters: words may be broken into lines, numbers not."""
    texts = [line[at].text for line in page.lines if len(line) > 1]
    natural = max(map(cell_len, texts), default=0)
    longest = max(map(cell_len, page.heads[at].split()), default=0)
    if at and not page.words(at) and natural <= LINE:
        return Room(max(natural, longest), max(natural, longest), glued=page.heads[at] == PUBLISHED)
    word = max((cell_len(word) for text in texts for word in text.split()), default=0)
    least = min(LINE, max(longest, word, min(natural, LINE)))
    return Room(max(natural, longest), least)


def _html(entry: Entry, to: Callable[[Sequence[str]], str] | None) -> tuple[Html, str]:
    text = escape(entry.text)
    shown = Html(f"<strong>{text}</strong>") if entry.bold else text
    return Html(f'<a href="{escape(to(entry.runs))}">{shown}</a>') if to and entry.runs else shown, entry.hint


def _md_entries(entries: Sequence[Entry], columns: int) -> list[str]:
    """As many as there are columns."""
    if len(entries) == 1:
        return [f"*{md(entries[0].text)}*", *[""] * (columns - 1)]
    return [f"**{md(entry.text)}**" if entry.bold else md(entry.text) for entry in entries]


def md(text: str) -> str:
    """Markdown that shows the text as it is, in one line."""
    escaped = "".join("\\" + character if character in "\\`*_[]|~#$!" else character for character in text)
    return " ".join(escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").split())
