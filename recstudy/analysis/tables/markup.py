"""A table of words as Markdown, HTML and terminal text, and how each of them shows any text as it is (`latex.py`: LaTeX)."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table as RichTable
from rich.text import Text


@dataclass(frozen=True)
class Entry:
    """The words of one place in a printed table: `bold` where it is the best, underlined where it is the `second`.

    `hint` is what a tooltip adds, `origin` the runs that a number comes from.
    """

    text: str
    bold: bool = False
    hint: str = ""
    second: bool = False
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
    lines = [f"### {_md(page.title)}", ""]
    lines += [f"**{_md(note)}**\n" for note in page.warnings]
    sides = ["---" if page.words(at) else "---:" for at in range(len(page.heads))]
    lines += ["| " + " | ".join(map(_md, page.heads)) + " |", "| " + " | ".join(sides) + " |"]
    for entries in page.lines:
        lines.append("| " + " | ".join(_md_entries(entries, len(page.heads))) + " |")
    lines += ["", f"{_md(page.caption)}."]
    lines += [f"\n{_md(note)}" for note in [*page.notes, *page.homeless]]
    return "\n".join(lines) + "\n"


def html_table(page: Printed) -> str:
    """The table in a box that scrolls on its own, with the caption and notes under it."""
    heads = "".join(f'<th scope="col"{_class(page, at)}>{html.escape(head)}</th>' for at, head in enumerate(page.heads))
    body = "\n".join(f"<tr>{''.join(_html_entries(page, entries))}</tr>" for entries in page.lines)
    notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in page.notes)
    lines = "".join(f'<p class="note">{html.escape(line)}</p>' for line in page.homeless)
    notes += f"<details><summary>Published values without a place here</summary>{lines}</details>" if lines else ""
    warned = "".join(f'<p class="warning">{html.escape(note)}</p>' for note in page.warnings)
    label = html.escape(page.title)
    return (
        f'{warned}<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table><thead><tr>{heads}</tr></thead>\n'
        f'<tbody>\n{body}\n</tbody></table></div>\n<p class="caption">{html.escape(page.caption)}.</p>{notes}'
    )


def terminal(page: Printed) -> RichTable:
    """For `rich.print`."""
    words = Text("\n".join([*page.warnings, f"{page.caption}.", *page.notes, *page.homeless]))
    shown = RichTable(title=Text(page.title), caption=words, caption_justify="left")
    for at, head in enumerate(page.heads):
        least = None if at else len("published")  # of the labels
        shown.add_column(Text(head), justify="left" if page.words(at) else "right", overflow="fold", min_width=least)
    for line in page.lines:
        style = "italic" if len(line) == 1 else ""
        shown.add_row(*(Text(entry.text, "bold" if entry.bold else "underline" if entry.second else style) for entry in line))
    return shown


def _html_entries(page: Printed, entries: Sequence[Entry]) -> Iterator[str]:
    if len(entries) == 1:
        yield f'<th scope="rowgroup" colspan="{len(page.heads)}">{html.escape(entries[0].text)}</th>'
        return
    yield f'<th scope="row">{html.escape(entries[0].text)}</th>'
    for at, entry in enumerate(entries[1:], 1):
        hint = f' title="{html.escape(entry.hint)}"' if entry.hint else ""
        text = html.escape(entry.text)
        marked = f"<strong>{text}</strong>" if entry.bold else f"<u>{text}</u>" if entry.second else text
        yield f"<td{hint}{_class(page, at)}>{marked}</td>"


def _class(page: Printed, column: int) -> str:
    if column in page.prose:
        return ' class="prose"'
    return ' class="setting"' if 0 < column <= page.settings else ""


def _md_entries(entries: Sequence[Entry], columns: int) -> list[str]:
    """As many as there are columns; GitHub underlines what is inserted."""
    if len(entries) == 1:
        return [f"*{_md(entries[0].text)}*", *[""] * (columns - 1)]
    texts = [_md(entry.text) for entry in entries]
    return [
        f"**{text}**" if entry.bold else f"<ins>{text}</ins>" if entry.second else text
        for entry, text in zip(entries, texts, strict=True)
    ]


def _md(text: str) -> str:
    """Markdown that shows the text as it is, in one table cell."""
    escaped = "".join("\\" + character if character in "\\`*_[]|~#$!" else character for character in text)
    return " ".join(escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").split())
