r"""A table in LaTeX: rules by booktabs, numbers aligned at their decimal point by siunitx, run ids as comments.

It stands in a column of the paper, or across its text where it needs that, or in numbered parts where that is too narrow, too.
What has room is told by counting characters; columns of many words are broken into lines by tabularx. A column of numbers becomes
two where words or an interval follow some of them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, isfinite
from textwrap import wrap

from recstudy.analysis.page import titled
from recstudy.analysis.tables.entries import PUBLISHED, Note, Number, Piece, Printed, Said, TableEntry, on_paper
from recstudy.report.names import DASH
from recstudy.report.venues import ARTICLE, POINTS, Paper

NUMBERED = re.compile(r"^(?:table|figure)[ _]?(?:\d+|[ivxlc]+)\b\W*", re.IGNORECASE)  # of another paper: LaTeX numbers this one
BROKEN = re.compile(r"((?:\\_|\\textgreater\{\}|[=/@]|,(?!\d))(?=[^\s{}]))")  # a name may be broken after these
PACKAGES = "booktabs,graphicx,siunitx,tabularx"
SETUP = r"\sisetup{group-digits=integer,group-separator={,},group-minimum-digits=4,retain-explicit-plus,detect-weight,mode=text}"
SIZES = {r"\small": 1, r"\footnotesize": 2}  # points less than the class's own letters
MEAN = 0.53  # em, a letter: a digit of Latin Modern at 8 points; words are narrower
GAP, BETWEEN = 4, 2  # points at each side of a column; characters that those of two columns take
LINE = 24  # characters: words or numbers that have more are broken into lines where room is scarce
HEAD = 8  # characters: a head may be so wide whatever stands below it
SHARE = 0.8  # of a page's height, that a table and its notes take at most
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
    "[": "{[}",  # after \\ a bracket would be read as its argument
}


@dataclass(frozen=True)
class TexColumn:
    """How `tabular` sets a column: `form`, and whether its words are broken into lines, or it has numbers, and words after."""

    form: str
    width: float  # characters
    lines: bool = False
    numbers: bool = False
    after: bool = False


def latex(page: Printed, paper: Paper = ARTICLE, finding: str = "") -> str:
    """Write the table's floats; under each line comments say which runs each of its numbers comes from."""
    parts = list(_parts(page.without(paper.without), paper))
    short = [str(note) for note in page.notes if isinstance(note, Note) and note.on_paper != str(note)]
    lines = [rf"% needs \usepackage{{{PACKAGES}}}", *(f"% {_line(words)}" for words in (*page.unmatched_targets, *short))]
    for at, (kind, body) in enumerate(parts):
        last, of = at == len(parts) - 1, f", part {at + 1} of {len(parts)}" if len(parts) > 1 else ""
        lines += [rf"\begin{{{kind}}}", r"\centering\sloppy"]
        lines += [rf"\caption{{{breakable(sentence(page.title + of, finding if at == 0 else ''))}}}"]
        lines += [rf"\label{{tab:{label(page.name)}{f'-{at + 1}' if at else ''}}}", r"\medskip", *body]
        lines += [*notes_under([page.caption, *page.notes] if last else [], page.warnings), rf"\end{{{kind}}}"]
    return "\n".join(lines) + "\n"


def sentence(title: str, finding: str = "") -> str:
    """Make a caption of a title, without the number of another paper's table, and of what was found."""
    named = NUMBERED.sub("", title.strip()).rstrip(". ") or finding or title
    named = named[:1].upper() + named[1:]
    finding = "" if named[1:] == finding[1:] else finding
    return _ended(f"{named} ({finding})" if ": " in finding else titled(named, finding))


def notes_under(notes: Sequence[Said], warnings: Sequence[str] = ()) -> list[str]:
    """Set what stands small below a table or a figure; what must be known before any number in bold, first."""
    said = [rf"\textbf{{{breakable(_ended(one))}}}" for one in warnings]
    said += [breakable(_ended(one)) for one in map(on_paper, notes) if one]
    if not said:
        return []
    start = r"\begin{minipage}{\linewidth}\footnotesize\raggedright"
    return [r"\par\smallskip", start, *(rf"{one}\par" for one in said), r"\end{minipage}"]


def tex(text: str) -> str:
    """Write LaTeX that shows the text as it is; two hyphens stay two."""
    text = re.sub(r'(^|[\s(\[])"', "\\1\N{LEFT DOUBLE QUOTATION MARK}", text).replace('"', "\N{RIGHT DOUBLE QUOTATION MARK}")
    shown = " ".join("".join(TEX.get(character, character) for character in text).split())
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", re.sub("-(?=-)", "-{}", shown))


def breakable(text: str, longer: int = 20) -> str:
    """Write the same, with names such as `model.latent_steps=3` broken after their marks where a line ends, if so long."""
    return " ".join(BROKEN.sub(r"\1\\penalty500 ", word) if len(word) > longer else word for word in tex(text).split(" "))


def label(name: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in name)


def _ended(note: str) -> str:
    first = note.partition(" ")[0]
    note = first.capitalize() + note[len(first) :] if re.fullmatch("[a-z]{2,}[,:]?", first) else note  # no p, and no field's name
    return note if note.endswith((".", "?", "!")) else f"{note}."


def _parts(page: Printed, paper: Paper) -> Iterator[tuple[str, list[str]]]:
    """Cut the table into floats: the first place and size in which all columns have room, or blocks of them in the widest."""
    widths, said = page.widths(), [len(on_paper(one)) for one in (*page.warnings, page.caption, *page.notes)]
    places = [("table", paper.column), ("table*", paper.text)][: paper.columns]
    for place in product(places, SIZES):
        (kind, inches), size = place
        letters = paper.letters - SIZES[size]
        room = int(inches * POINTS / (MEAN * letters))
        blocks = page.blocks([min(LINE, width) + BETWEEN for width in widths], room + BETWEEN)
        high, notes = int(SHARE * paper.height * POINTS / (1.2 * letters)), sum(ceil(one / room) for one in said)
        if len(blocks) == 1 and (inches == paper.text or 2 * notes < high):
            break
    for block in blocks:
        shown = page.only(block)
        columns = _columns(shown, [widths[at] for at in block], room)
        for lines in _floats(shown, columns, max(10, high - notes)):
            yield kind, list(_tabular(replace(shown, lines=lines), columns, size))


def _columns(page: Printed, widths: Sequence[int], room: int) -> list[TexColumn]:
    """Set columns side by side. Where not all have room, those of many words share what the others leave, as they need it."""
    room -= BETWEEN * (len(widths) - 1)
    line = LINE if sum(min(LINE, width) for width in widths) <= room else room // len(widths)
    least = [min(line, width) for width in widths] if sum(widths) > room else widths
    share = (room - sum(least)) / max(1, sum(widths) - sum(least))
    given = [own + share * (width - own) for own, width in zip(least, widths, strict=True)]
    broken = [width for width, own, asked in zip(given, least, widths, strict=True) if own < asked]
    columns = []
    for at, width in enumerate(given):
        entries = [entries[at] for entries in page.lines if len(entries) > 1]
        numbers = [text for entry in entries if (text := _number(entry.pieces[0]))]
        if least[at] < widths[at]:
            part = width * len(broken) / sum(broken)
            form = rf">{{\hsize={part:.3f}\hsize\raggedright\arraybackslash\hspace{{0pt}}}}X"
            columns.append(TexColumn(form, width, lines=True))
        elif numbers and not page.words(at):
            after = any(_number(entry.pieces[0]) and entry.pieces[1:] for entry in entries)
            digits = [text.lstrip("+-").partition(".") for text in numbers]
            sign = "+" if any(text[0] in "+-" for text in numbers) else ""
            form = rf"S[table-format={sign}{max(len(one[0]) for one in digits)}.{max(len(one[2]) for one in digits)}]"
            columns.append(TexColumn(form + "@{}l" * after, width, numbers=True, after=after))
        else:
            columns.append(TexColumn("l" if page.words(at) else "r", width))
    return columns


def _number(piece: Piece) -> str:
    """Write a number as siunitx reads it in a column; empty for all else, and for one that has no digits to align."""
    text = str(piece).replace(",", "")
    return text if isinstance(piece, Number) and isfinite(piece.value) and "e" not in text else ""


def _floats(page: Printed, columns: Sequence[TexColumn], most: int) -> Iterator[list[Sequence[TableEntry]]]:
    """Cut the lines where a page ends: a line of published values stays below ours, and a group has its heading again."""
    lines: list[Sequence[TableEntry]] = []
    heading: Sequence[TableEntry] | None = None
    used = 0
    for entries in page.lines:
        pairs = zip(entries, columns, strict=False)
        own = max(ceil(1.15 * len(entry.text) / column.width) if column.lines else 1 for entry, column in pairs)
        if used + own > most and lines and entries[0].text != PUBLISHED:
            yield lines
            lines = [heading] if heading and len(entries) > 1 else []
            used = len(lines)
        heading = entries if len(entries) == 1 else heading
        lines.append(entries)
        used += own
    yield lines


def _tabular(page: Printed, columns: Sequence[TexColumn], size: str) -> Iterator[str]:
    kind, width = ("tabularx", r"{\linewidth}") if any(column.lines for column in columns) else ("tabular", "")
    yield rf"{size}\setlength{{\tabcolsep}}{{{GAP}pt}}{SETUP}"
    yield rf"\begin{{{kind}}}{width}{{@{{}}{''.join(column.form for column in columns)}@{{}}}}"
    yield r"\toprule"
    yield " & ".join(map(_head, page.heads, columns)) + r" \\"
    yield r"\midrule"
    for entries in page.lines:
        if len(entries) == 1:
            count = sum(1 + column.after for column in columns)
            yield rf"\addlinespace \multicolumn{{{count}}}{{@{{}}l}}{{\textit{{{tex(entries[0].text)}}}}} \\"
        else:
            yield " & ".join(map(_cell, entries, columns)) + r" \\"
        origins: dict[str, list[str]] = {}
        for head, entry in zip(page.heads, entries, strict=False):
            origins.setdefault(entry.origin, []).append(head)
        yield from (f"% {_line('; '.join(heads))}: {_line(origin)}" for origin, heads in origins.items() if origin)
    yield r"\bottomrule"
    yield rf"\end{{{kind}}}"


def _head(text: str, column: TexColumn) -> str:
    """Set words of a broken column as they come; others in several lines where one would make the column wide."""
    if column.lines:
        return breakable(text, 0)
    lines = [tex(line) for line in wrap(text, max(HEAD, int(column.width)), break_long_words=False)]
    side, words = "" if column.numbers else f"[{column.form}]", r"\\".join(lines)
    return _across(rf"\shortstack{side}{{{words}}}" if len(lines) > 1 else words, column)


def _cell(entry: TableEntry, column: TexColumn) -> str:
    number, others = _number(entry.pieces[0]), "".join(map(str, entry.pieces[1:]))
    if column.numbers and number:
        after = f" & {'~' if others.startswith(' ') else ''}{tex(others)}" if column.after else ""
        return (r"\bfseries " if entry.bold else "") + number + after
    words = breakable(entry.text, 0) if column.lines else tex(entry.text)
    return _across(rf"\textbf{{{words}}}" if entry.bold else words, column)


def _across(text: str, column: TexColumn) -> str:
    """Set words in this column: in the middle of one of numbers."""
    return rf"\multicolumn{{2}}{{c}}{{{text}}}" if column.after else f"{{{text}}}" if column.numbers else text


def _line(text: str) -> str:
    """Write one line of a comment, whatever the words are."""
    return " ".join(text.split())
