"""A printed table: what stands in each of its places, words and numbers, typed until a writer formats them.

Then as Markdown, HTML, terminal text and CSV, and how each of them shows any text as it is (`latex.py`: LaTeX).
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from textwrap import wrap
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from recstudy.report.names import DASH
from recstudy.report.page import Html, escape, fold, table, warning_lines

PUBLISHED = "published"  # over a column, or before a line, of published values beside ours
REASONS = 4  # of a note, on paper


@dataclass(frozen=True, slots=True)
class Number:
    """A number and how it is printed: a format of Python (`.1f`, `+.2f`)."""

    value: float
    form: str = ".1f"

    def __str__(self) -> str:
        return format(self.value, self.form)


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval: `[low, high]`, in the form of its number."""

    low: float
    high: float
    form: str = ".1f"

    def __str__(self) -> str:
        return f"[{format(self.low, self.form)}, {format(self.high, self.form)}]"


Piece = str | Number | Interval


@dataclass(frozen=True, slots=True)
class TableEntry:
    """The content of one place: `bold` where nothing is significantly better.

    `hint` is what a tooltip adds, `origin` the runs that a number comes from in words, `runs` the ids of those that it is about.
    """

    content: Piece | tuple[Piece, ...]
    bold: bool = False
    hint: str = ""
    origin: str = ""
    runs: tuple[str, ...] = ()

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The content, piece by piece."""
        return self.content if isinstance(self.content, tuple) else (self.content,)

    @property
    def text(self) -> str:
        """As pages, Markdown and terminals print it."""
        return "".join(map(str, self.pieces))


@dataclass(frozen=True)
class Note:
    """A sentence beside a table, with the reasons for it. `screen` follows where a reader can act on it, such as a command."""

    text: str
    reasons: tuple[str, ...] = ()
    screen: str = ""

    def __str__(self) -> str:
        return ". ".join(filter(None, [self._with(self.reasons), self.screen]))

    @property
    def on_paper(self) -> str:
        """The sentence with its first reasons, and how many others a page has."""
        more = len(self.reasons) - REASONS
        return self._with((*self.reasons[:REASONS], *([f"{more} more"] if more > 0 else [])))

    def _with(self, reasons: Sequence[str]) -> str:
        return f"{self.text}: {'; '.join(reasons)}" if reasons else self.text


Said = str | Note


def on_paper(said: Said) -> str:
    """Return the words of a note as a paper has them."""
    return said.on_paper if isinstance(said, Note) else said


@dataclass(frozen=True)
class Printed:
    """A table: heads and lines of entries. The first is the label, then come `settings` columns of words.

    A line of one entry is the heading of those below it.

    `warnings` come before the numbers, `caption` and `notes` after them, `unmatched_targets` (published values without a place)
    last. `prose` names the columns that hold sentences.
    """

    name: str
    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[TableEntry]]
    caption: Said
    warnings: Sequence[str] = ()
    notes: Sequence[Said] = ()
    unmatched_targets: Sequence[str] = ()
    prose: frozenset[int] = frozenset()
    settings: int = 0

    def words(self, column: int) -> bool:
        """Tell whether a column reads from the left, as words do."""
        return column <= self.settings or column in self.prose

    def only(self, columns: Sequence[int]) -> "Printed":
        """Return the table of these columns, without lines of published values that say nothing in them."""
        kept = [line for line in self.lines if len(line) == 1 or line[0].text != PUBLISHED or _any(line, columns[1:])]
        return replace(
            self,
            heads=[self.heads[at] for at in columns],
            lines=[line if len(line) == 1 else [line[at] for at in columns] for line in kept],
            prose=frozenset(place for place, at in enumerate(columns) if at in self.prose),
            settings=sum(1 <= at <= self.settings for at in columns),
        )

    def without(self, patterns: Sequence[str]) -> "Printed":
        """Return the table without the columns that these name, each with the published one beside it, nor empty ones."""
        kept = [0]
        for at, head in enumerate(self.heads[1:], 1):
            beside = head != PUBLISHED or kept[-1] == at - 1
            if beside and not named(head, patterns) and any(_any(line, [at]) for line in self.lines if len(line) > 1):
                kept.append(at)
        return self.only(kept)

    def widths(self) -> list[int]:
        """Count the characters of each column: of its longest entry, or of the longest word of its head."""
        bodies = [[line[at].text for line in self.lines if len(line) > 1] for at in range(len(self.heads))]
        return [max(map(cell_len, [*head.split(), *texts]), default=0) for head, texts in zip(self.heads, bodies, strict=True)]

    def blocks(self, widths: Sequence[int], room: int) -> list[list[int]]:
        """Part the columns into as few blocks as fit into the room, as alike as can be, each behind the label.

        Published values stay with the column before them.
        """
        groups: list[list[int]] = []
        for at in range(1, len(widths)):
            if self.heads[at] == PUBLISHED and groups:
                groups[-1].append(at)
            else:
                groups.append([at])
        sizes = [sum(widths[at] for at in group) for group in groups]
        widest = max(sizes, default=0)
        rooms = range(widest, max(widest, room - widths[0]) + 1)
        parts = [_packed(groups, sizes, most) for most in rooms]
        return next(part for part in parts if len(part) == len(parts[-1])) or [[0]]


def named(head: str, patterns: Sequence[str]) -> bool:
    """Tell whether one of these globs is the head of a column."""
    return any(fnmatchcase(head.lower(), pattern.lower()) for pattern in patterns)


def _any(line: Sequence[TableEntry], columns: Sequence[int]) -> bool:
    return any(line[at].text not in ("", DASH) for at in columns)


def _packed(groups: Sequence[Sequence[int]], sizes: Sequence[int], most: int) -> list[list[int]]:
    blocks: list[list[int]] = []
    used = 0
    for group, size in zip(groups, sizes, strict=True):
        if not blocks or used + size > most:
            blocks.append([0])
            used = 0
        blocks[-1] += group
        used += size
    return blocks


FRAME, BETWEEN, LINE = 1, 3, 30  # characters in a terminal: left of a table, around each column, of a column of words


def markdown(page: Printed) -> str:
    """Write GitHub's Markdown: title, table, caption, notes."""
    sides = ["---" if page.words(at) else "---:" for at in range(len(page.heads))]
    rows = [list(map(md, page.heads)), sides]
    for line in page.lines:
        heading = [f"*{md(line[0].text)}*", *[""] * (len(page.heads) - 1)]
        rows.append([f"**{md(one.text)}**" if one.bold else md(one.text) for one in line] if len(line) > 1 else heading)
    lines = [f"### {md(page.title)}", "", *(f"**{md(note)}**\n" for note in page.warnings)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    lines += ["", f"{md(page.caption)}.", *(f"\n{md(note)}" for note in [*page.notes, *page.unmatched_targets])]
    return "\n".join(lines) + "\n"


def html_table(page: Printed, to: Callable[[Sequence[str]], str] | None = None) -> str:
    """Write the table in a box that scrolls on its own, with the caption and notes under it.

    Args:
        page: the table.
        to: the address of some runs, which an entry that is about them then leads to.
    """

    def html(entry: TableEntry) -> tuple[Html, str]:
        text = Html(f"<strong>{escape(entry.text)}</strong>") if entry.bold else escape(entry.text)
        return Html(f'<a href="{escape(to(entry.runs))}">{text}</a>') if to and entry.runs else text, entry.hint

    classes = dict.fromkeys(range(1, page.settings + 1), "setting") | dict.fromkeys(page.prose, "prose")
    shown = table(page.title, page.heads, [list(map(html, line)) for line in page.lines], classes, "stack" if page.prose else "")
    notes, lines = (
        "".join(f'<p class="note">{escape(one)}</p>' for one in some) for some in (page.notes, page.unmatched_targets)
    )
    notes += fold("Published values with no matching variant", lines) if lines else ""
    return f'{warning_lines(page.warnings)}{shown}<p class="caption">{escape(page.caption)}.</p>{notes}'


def csv_lines(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Write numbers in full precision."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([heads, *rows])
    return out.getvalue()


@dataclass(frozen=True)
class Terminal:
    """A table for `rich.print`: columns that find no room beside the others stand in a block below, each with the labels."""

    page: Printed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text | RichTable]:
        page = self.page
        widths = [min(LINE, width) for width in page.widths()]
        yield Text(page.title, "italic", justify="center")
        for columns in page.blocks([width + BETWEEN for width in widths], options.max_width - FRAME):
            shown, block = RichTable(), page.only(columns)
            for at, (head, whole) in enumerate(zip(block.heads, block.widths(), strict=True)):
                side: JustifyMethod = "left" if block.words(at) else "right"
                width = widths[columns[at]]
                folded = Text(head if block.words(at) else "\n".join(wrap(head, max(1, width))))
                one_line = whole <= width and not block.words(at)
                shown.add_column(folded, justify=side, overflow="fold", min_width=width, no_wrap=one_line)
            for line in block.lines:
                heading = [Text(line[0].text, "italic")]
                shown.add_row(*([Text(one.text, "bold" if one.bold else "") for one in line] if len(line) > 1 else heading))
            yield shown
        yield Text("\n".join(map(str, [*page.warnings, f"{page.caption}.", *page.notes, *page.unmatched_targets])))


def md(said: object) -> str:
    """Write Markdown that shows the words as they are, in one line."""
    escaped = "".join("\\" + character if character in "\\`*_[]|~#$!" else character for character in str(said))
    return " ".join(escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").split())
