"""Writers of tables as HTML, Markdown, LaTeX and for the terminal.

Each writer takes a `TableData`, escapes its words and formats its numbers. `RenderedPart` calls them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import ceil, isfinite
from textwrap import wrap
from typing import TYPE_CHECKING

from markupsafe import Markup

from recstudy.report.names import DASH, capitalized
from recstudy.report.page import render
from recstudy.report.table import BLANK, NUMBERS, Number, Piece, TableData, TableRow
from recstudy.report.venues import ARTICLE, POINTS_PER_INCH, Paper

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

PACKAGES = "array,booktabs,graphicx,siunitx"
BETWEEN_COLUMNS = 2  # width of the gap between columns in characters, for a \tabcolsep of 4 points
LETTER = 0.53  # mean width of a letter in LaTeX, as a share of the font size
PROSE_WIDTH = NUMBERS  # maximum characters of a line in a column of words, in LaTeX
PROSE_WIDTHS = (PROSE_WIDTH, 20, 16)  # the same in a table that is too wide, one after the other
NARROWEST_HEAD = 8  # heads are not wrapped below this number of characters
LINE_BREAK = r"\\"
SHRINKAGE = 1.05  # a table that is so much wider than its place is scaled to fit it
PAGE_SHARE = 0.7  # maximum share of a page's height for the lines of one float
FEWEST_LINES = 10  # of a float, however many notes follow
FILLED = 0.8  # of a line of words or of a page: words are not broken, and a caption needs room
NUMBERED = re.compile(
    r"^(?:table|figure)[ _]?(?:\d+|[ivxlc]+)\b\W*", re.IGNORECASE
)  # the number of a table in another paper
COUNT = re.compile(r"(?<![\w.,-])[1-9]\d{4,}(?![\w.-])")  # a long count, which gets grouped thousands
BREAKABLE = re.compile(r"((?:\\_|\\textgreater\{\}|[=/@]|,(?!\d))(?=[^\s{}]))")
TEX = {character: "\\" + character for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{LEFT DOUBLE QUOTATION MARK}": "``",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
    "±": r"$\pm$",
    DASH: r"\textendash{}",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "\N{MINUS SIGN}": "$-$",
    "\N{RIGHTWARDS ARROW}": r"$\rightarrow$",
    "\N{LESS-THAN OR EQUAL TO}": r"$\leq$",
    "\N{GREATER-THAN OR EQUAL TO}": r"$\geq$",
    "[": "{[}",  # after \\ LaTeX reads a bracket as an argument
    "\N{MICRO SIGN}": r"$\mu$",
}
RELATIONS = {"≈": "approx", "≠": "neq", "∞": "infty", "√": "surd", "∑": "sum", "∈": "in", "⇒": "Rightarrow"}
TEX |= {character: rf"$\{name}$" for character, name in RELATIONS.items()}
GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi"
    " chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)
TEX |= {
    letter: rf"$\{name}$"
    for letter, name in zip("αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ", GREEK.split(), strict=True)
}
TEX_TABLE = {ord(character): text for character, text in TEX.items()}


def html(table: TableData, link: Callable[[Sequence[str]], str] | None = None) -> Markup:
    """Return the table as HTML.

    Args:
        table: The table.
        link: Returns the address of the page of some runs.
    """
    return Markup(render("table.html.jinja", printed=table, link=link))


def markdown(table: TableData) -> str:
    """Return the table in GitHub's Markdown."""
    return render("table.md.jinja", printed=table, md=md)


def md(words: object) -> str:
    """Return Markdown that shows the words as they are, in one line."""
    escaped = re.sub(r"[\\`*_\[\]|~#$!]", r"\\\g<0>", str(words))
    return " ".join(escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").split())


# --- terminal


class TerminalTable:
    """A table for `rich.print`. On a narrow terminal it has several blocks, each with the labels."""

    WIDEST = 30  # characters of a column of words
    FRAME = 3  # characters around a column
    MOST_ROWS = 40  # one screen

    def __init__(self, table: TableData) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.table import Table
        from rich.text import Text

        table = replace(self.table, rows=self.table.rows[: self.MOST_ROWS])
        yield Text(table.title, "italic", justify="center")
        for block in table.blocks(self.WIDEST, self.FRAME, options.max_width - 1):
            rich_table = Table()
            for column, (head, width) in enumerate(zip(block.heads, block.widths(self.WIDEST), strict=True)):
                is_text = block.is_text(column)
                rich_table.add_column(
                    Text(head if is_text else "\n".join(wrap(head, max(1, width)))),
                    justify="left" if is_text else "right",
                    overflow="fold",
                    min_width=width,
                )
            for line in block.lines:
                rich_table.add_row(*(Text(entry.text, "bold" * entry.bold) for entry in line))
            yield rich_table
        notes = [*table.warnings, *table.small_print]
        if len(table.rows) < len(self.table.rows):
            notes.append(
                f"the first {len(table.lines)} of {len(self.table.lines)} lines; all are in {table.name}.md"
            )
        yield Text("\n".join(notes))


# --- LaTeX


def latex(table: TableData, paper: Paper = ARTICLE, finding: str = "") -> str:
    """Return the table as LaTeX floats, with comments that name the runs behind each number.

    A table that is too large for a page is split into parts.

    Args:
        table: The table.
        paper: The page.
        finding: The main result in a few words, for the caption.
    """
    whole = table.drop_columns(paper.hidden_columns)
    letters = paper.letters - 1
    places = [("table", paper.column), ("table*", paper.text)][: paper.columns]
    for kind, inches in places:  # noqa: B007  # the last one or the first that is wide enough is used below
        room = int(SHRINKAGE * inches * POINTS_PER_INCH / (LETTER * letters))
        if _width(whole) <= room:
            break
    table, limit = _fitted(whole, room)
    missing_titles = tuple(title for title in whole.columns if title not in table.columns)
    blocks = [table]
    if "verdict" not in table.columns:  # a verdict stays beside its difference
        blocks = table.blocks(limit, BETWEEN_COLUMNS, room)
    notes = [table.whole_caption, *(note for note in table.notes if not note.startswith(missing_titles))]
    height = paper.height * POINTS_PER_INCH / (1.2 * letters)
    note_count = sum(ceil(len(note) / room) for note in (*table.warnings, *notes))
    lines = int(min(PAGE_SHARE * height, max(FEWEST_LINES, FILLED * height - note_count)))
    parts = [part for block in blocks for part in _pages(block, limit, lines)]
    floats = []
    for number, part in enumerate(parts, 1):
        of = f", part {number} of {len(parts)}" if len(parts) > 1 else ""
        caption = breakable(sentence(table.title + of, finding if number == 1 else ""))
        name = label(table.name) + (f"-{number}" if number > 1 else "")
        floats.append(
            {"caption": caption, "label": name, "tabular": _tabular(part, limit), "comments": _origins(part)}
        )
    return render(
        "table.tex.jinja",
        packages=PACKAGES,
        kind=kind,
        parts=floats,
        notes=note_lines(notes, table.warnings),
        left_out=", ".join(missing_titles),
        csv=f"{table.name}.csv",
    )


def _width(table: TableData, limit: int = PROSE_WIDTH) -> int:
    return sum(width + BETWEEN_COLUMNS for width in table.widths(limit))


def _fitted(table: TableData, room: int) -> tuple[TableData, int]:
    """Return the table in as little room as it can have, and the most characters of a line of words.

    Published values move below ours, then expendable columns are left out. Words get shorter lines first.
    """
    candidates = [table, replace(table, beneath=True)]
    for title in table.expendable:
        kept_columns = [index for index, column in enumerate(candidates[-1].columns) if column != title]
        if len(kept_columns) > 1:
            candidates.append(candidates[-1].select(kept_columns))
    for candidate, limit in product(candidates, PROSE_WIDTHS):
        if _width(candidate, limit) <= room:
            break
    return candidate, limit


def _pages(table: TableData, limit: int, lines: int) -> list[TableData]:
    """Return the rows in parts of at most so many lines. A row keeps its line of published values."""
    parts: list[list[TableRow]] = [[]]
    used_lines = 0
    for row in table.rows:
        cells = zip(row.cells, table.columns, strict=bool(row.cells))
        texts = [row.label, *(cell.text for cell, title in cells if title in table.kinds)]
        height = max(ceil(len(text) / (FILLED * limit)) for text in texts) or 1
        height += table.beneath and any(cell.is_published for cell in row.cells)
        if used_lines + height > lines and parts[-1]:
            parts.append([])
            used_lines = 0
        parts[-1].append(row)
        used_lines += height
    return [replace(table, rows=rows) for rows in parts]


def sentence(title: str, finding: str = "") -> str:
    """Return the caption of a float: the title, without a table number of another paper, and the finding."""
    name = NUMBERED.sub("", title.strip()).rstrip(". ") or finding or title
    finding = "" if name[1:] == finding[1:] else finding
    if not finding:
        return _finished_sentence(name)
    # A finding with a colon of its own is in brackets.
    return _finished_sentence(f"{name} ({finding})" if ": " in finding else f"{name}: {finding}")


def note_lines(notes: Sequence[str], warnings: Sequence[str] = ()) -> list[str]:
    """Return the small print below a float as LaTeX, with the warnings first and in bold."""
    lines = [rf"\textbf{{{breakable(_finished_sentence(warning))}}}" for warning in warnings]
    return lines + [breakable(_finished_sentence(note)) for note in notes if note]


def tex(text: str) -> str:
    """Return LaTeX that prints the text literally."""
    text = re.sub(r'(^|[\s(\[])"', "\\1\N{LEFT DOUBLE QUOTATION MARK}", text).replace(
        '"', "\N{RIGHT DOUBLE QUOTATION MARK}"
    )
    text = COUNT.sub(lambda count: f"{int(count[0]):,}", text)
    escaped = " ".join(text.translate(TEX_TABLE).split())
    escaped = re.sub(r"(?<![\w-])-(?=\d)", "$-$", re.sub("-(?=-)", "-{}", escaped))
    return re.sub(r"(?<![\w.])(\d(?:\.\d+)?)e(-?)0*(\d{1,3})\b", r"\1$\\times10^{\2\3}$", escaped)


def breakable(text: str, longest: int = 20) -> str:
    """Return LaTeX that may break words of more than `longest` characters, such as `model.latent_steps=3`."""
    return " ".join(
        BREAKABLE.sub(r"\1\\penalty500 ", word) if len(word) > longest else word
        for word in tex(text).split(" ")
    )


def label(name: str) -> str:
    return re.sub(r"[\W_]", "-", name)


def _finished_sentence(note: str) -> str:
    note = capitalized(note)
    return note if note.endswith((".", "?", "!")) else f"{note}."


def _number(piece: Piece) -> str:
    """Return a number for siunitx; empty for other pieces, and for numbers without digits to align."""
    text = str(piece).replace(",", "")
    return text if isinstance(piece, Number) and isfinite(piece.value) and "e" not in text else ""


def _tabular(table: TableData, limit: int) -> str:
    """Return the `tabular` of a table with at most so many characters in a line of words."""
    formats, heads, columns = "", [], []
    for column, (title, width) in enumerate(zip(table.heads, table.widths(limit), strict=True)):
        entries = [line[column] if column < len(line) else BLANK for line in table.lines]
        is_text = table.is_text(column)
        numbers = ["" if is_text else _number(entry.pieces[0]) for entry in entries]
        pairs = list(zip(entries, numbers, strict=True))
        words = ["".join(map(str, entry.pieces[bool(number) :])).strip(" ,") for entry, number in pairs]
        has_numbers = any(numbers)
        if has_numbers:
            parts = [number.lstrip("+-").partition(".") for number in numbers]
            digits = (max(len(part[position]) for part in parts) for position in (0, 2))
            sign = "+" * any(number.startswith(("+", "-")) for number in numbers)
            formats += f"S[table-format={sign}{'.'.join(map(str, digits))}]"
            columns.append(
                [rf"\bfseries {number}" if entry.bold and number else number for entry, number in pairs]
            )
        # siunitx aligns only bare numbers, so words and intervals after them get a column of their own.
        has_words = any(words) or not has_numbers
        if has_words:
            formats += "@{~}" * has_numbers + _text_format(
                words, "l" if is_text or has_numbers else "r", limit if is_text else PROSE_WIDTH
            )
            is_bold = [entry.bold and not has_numbers for entry in entries]
            texts = [breakable(text, 0) for text in words]
            columns.append(
                [rf"\textbf{{{text}}}" if bold else text for text, bold in zip(texts, is_bold, strict=True)]
            )
        head = _head(title, width)
        heads.append(rf"\multicolumn{{2}}{{c}}{{{head}}}" if has_numbers and has_words else f"{{{head}}}")
    for position, line in enumerate(table.lines):
        if len(line) == 1:
            columns[0][position] = rf"\textit{{{tex(line[0].text)}}}"
    rows, gap = zip(*columns, strict=True), r"\addlinespace[2pt]" * ("raggedright" in formats)
    return render("tabular.tex.jinja", formats=formats, heads=heads, rows=rows, gap=gap)


def _text_format(words: Sequence[str], side: str, limit: int) -> str:
    """Return the format of a column of words. Long words are set in lines of a fixed width."""
    if max(map(len, words), default=0) <= limit:
        return side
    return rf">{{\raggedright\arraybackslash}}p{{{limit * 0.5:.1f}em}}"


def _head(head: str, width: int) -> str:
    lines = list(map(tex, wrap(head, max(width, NARROWEST_HEAD), break_long_words=False)))
    return rf"\shortstack{{{LINE_BREAK.join(lines)}}}" if len(lines) > 1 else lines[0]


def _origins(table: TableData) -> list[str]:
    """Return a LaTeX comment for each line of the table, with its runs."""
    comments: dict[tuple[str, str], list[str]] = {}
    settings = [
        column for column, head in enumerate(table.heads) if table.kinds.get(head, "prose") != "prose"
    ]
    for line in table.lines:
        row = ", ".join(line[column].text for column in dict.fromkeys((0, *settings)) if column < len(line))
        for head, entry in zip(table.heads, line, strict=False):
            if entry.origin:
                comments.setdefault((row, entry.origin), []).append(head)
    return [
        " ".join(f"% {row}: {'; '.join(heads)}: {origin}".split())
        for (row, origin), heads in comments.items()
    ]
