"""A table as Markdown, HTML, terminal text and CSV, and how each of them shows any text as it is (`latex.py`: LaTeX)."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from rich.console import Console, ConsoleOptions, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from recstudy.analysis.page import Html, escape, fold, table, warning_lines
from recstudy.analysis.tables.entries import Entry, Printed

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

    def html(entry: Entry) -> tuple[Html, str]:
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
