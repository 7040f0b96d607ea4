"""A table of words as Markdown, HTML and terminal text, and how each of them shows any text as it is (`latex.py`: LaTeX)."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table as RichTable
from rich.text import Text

from recstudy.analysis.page import Html, escape, fold, table, warning_lines


@dataclass(frozen=True)
class Entry:
    """The words of one place in a printed table: `bold` where nothing can be told from the best.

    `hint` is what a tooltip adds, `origin` the runs that a number comes from.
    """

    text: str
    bold: bool = False
    hint: str = ""
    origin: str = ""


@dataclass(frozen=True)
class Printed:
    """A table in words: heads and lines of entries. The first is the label, then come `settings` columns of words.

    A line of one entry is the heading of those below it.

    `warnings` come before the numbers, `caption` and `notes` after them, `homeless` (published values without a place)
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


def html_table(page: Printed) -> str:
    """The table in a box that scrolls on its own, with the caption and notes under it."""
    classes = dict.fromkeys(range(1, page.settings + 1), "setting") | dict.fromkeys(page.prose, "prose")
    rows = [[_html(entry) for entry in entries] for entries in page.lines]
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in page.notes)
    lines = "".join(f'<p class="note">{escape(line)}</p>' for line in page.homeless)
    notes += fold("Published values without a place here", lines) if lines else ""
    shown = table(page.title, page.heads, rows, classes)
    return f'{warning_lines(page.warnings)}{shown}<p class="caption">{escape(page.caption)}.</p>{notes}'


def csv_lines(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Numbers in full precision."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([heads, *rows])
    return out.getvalue()


def terminal(page: Printed) -> RichTable:
    """For `rich.print`."""
    words = Text("\n".join([*page.warnings, f"{page.caption}.", *page.notes, *page.homeless]))
    shown = RichTable(title=Text(page.title), caption=words, caption_justify="left")
    for at, head in enumerate(page.heads):
        least = None if at else len("published")  # of the labels
        shown.add_column(Text(head), justify="left" if page.words(at) else "right", overflow="fold", min_width=least)
    for line in page.lines:
        style = "italic" if len(line) == 1 else ""
        shown.add_row(*(Text(entry.text, "bold" if entry.bold else style) for entry in line))
    return shown


def _html(entry: Entry) -> tuple[Html, str]:
    text = escape(entry.text)
    return Html(f"<strong>{text}</strong>") if entry.bold else text, entry.hint


def _md_entries(entries: Sequence[Entry], columns: int) -> list[str]:
    """As many as there are columns."""
    if len(entries) == 1:
        return [f"*{md(entries[0].text)}*", *[""] * (columns - 1)]
    return [f"**{md(entry.text)}**" if entry.bold else md(entry.text) for entry in entries]


def md(text: str) -> str:
    """Markdown that shows the text as it is, in one line."""
    escaped = "".join("\\" + character if character in "\\`*_[]|~#$!" else character for character in text)
    return " ".join(escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").split())
