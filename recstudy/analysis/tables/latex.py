r"""A table of words in LaTeX: rules by booktabs, numbers aligned at their decimal point by siunitx, run ids as comments.

Where it stands and how wide its columns are, `fitting.py` says. A column in which some entries begin with a number becomes two:
the number, and what is said after it.
"""

import re
from collections.abc import Iterable, Sequence

from recstudy.analysis.caveats import on_paper
from recstudy.analysis.page import titled
from recstudy.analysis.tables.fitting import GAPS, NOTES, NUMBER, Column, Part, folded, parts_of, without_columns
from recstudy.analysis.tables.markup import PUBLISHED, Entry, Printed
from recstudy.report.names import DASH
from recstudy.report.venues import ARTICLE, Paper

NUMBERED = re.compile(r"^(?:table|figure)[ _]?(?:\d+|[ivxlc]+)\b\W*", re.IGNORECASE)  # of another paper: LaTeX numbers this one
SETUP = r"\sisetup{group-digits=integer, group-separator={,}, group-minimum-digits=4, retain-explicit-plus}"
BROKEN = re.compile(r"((?:\\_|[=/@,])(?=[^\s{}]))")  # after the marks of `widths.BREAKS`: rather at a space
PACKAGES = "array,booktabs,graphicx,siunitx"
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


def latex(page: Printed, paper: Paper = ARTICLE, finding: str = "") -> str:
    """Its floats; under each line comments say which runs each of its numbers comes from."""
    page = without_columns(page, paper.without)
    parts = list(parts_of(page, paper))
    notes = [on_paper(note) for note in (page.caption, *page.notes)]
    short = [note for note in page.notes if on_paper(note) != note]
    lines = [rf"% needs \usepackage{{{PACKAGES}}}", *(f"% {_line(words)}" for words in (*page.homeless, *short))]
    for at, part in enumerate(parts):
        kind = "table*" if part.wide else "table"
        of = f", part {at + 1} of {len(parts)}" if len(parts) > 1 else ""
        lines += [rf"\begin{{{kind}}}", r"\centering\sloppy"]
        lines += [rf"\caption{{{breakable(sentence(page.title + of, finding if at == 0 else ''))}}}"]
        lines += [rf"\label{{tab:{label(page.name)}{f'-{at + 1}' if at else ''}}}", r"\medskip"]
        lines += _tabular(page, part)
        lines += notes_under([*(notes if at == len(parts) - 1 else ())], page.warnings)
        lines += [rf"\end{{{kind}}}"]
    return "\n".join(lines) + "\n"


def sentence(title: str, finding: str = "") -> str:
    """A caption: the title without the number of another paper's table, and what was found."""
    named = NUMBERED.sub("", title.strip()).rstrip(". ") or finding or title
    named = named[:1].upper() + named[1:]
    finding = "" if named[1:] == finding[1:] else finding
    return _ended(f"{named} ({finding})" if ": " in finding else titled(named, finding))


def notes_under(notes: Sequence[str], warnings: Sequence[str] = ()) -> list[str]:
    """What stands small below a table or a figure; what must be known before any number in bold, first."""
    said = [rf"\textbf{{{breakable(_ended(one))}}}" for one in warnings] + [breakable(_ended(one)) for one in notes if one]
    if not said:
        return []
    start = rf"\begin{{minipage}}{{\linewidth}}\fontsize{{{NOTES}}}{{{NOTES + 1.5}}}\selectfont\raggedright"
    return [r"\par\smallskip", start, *(rf"{one}\par" for one in said), r"\end{minipage}"]


def tex(text: str) -> str:
    """LaTeX that shows the text as it is; two hyphens stay two."""
    text = re.sub(r'(^|[\s(\[])"', "\\1\N{LEFT DOUBLE QUOTATION MARK}", text).replace('"', "\N{RIGHT DOUBLE QUOTATION MARK}")
    shown = " ".join("".join(TEX.get(character, character) for character in text).split())
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", re.sub("-(?=-)", "-{}", shown))


def breakable(text: str, longer: int = 20) -> str:
    """The same, with names such as `model.latent_steps=3` broken after their marks where a line ends, if so long."""
    return " ".join(BROKEN.sub(r"\1\\penalty500 ", word) if len(word) > longer else word for word in tex(text).split(" "))


def label(name: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in name)


def _ended(note: str) -> str:
    first = note.partition(" ")[0]
    note = first.capitalize() + note[len(first) :] if re.fullmatch("[a-z]{2,}[,:]?", first) else note  # no p, and no field's name
    return note if note.endswith((".", "?", "!")) else f"{note}."


def _tabular(page: Printed, part: Part) -> list[str]:
    forms = "".join(_form(column) for _, column in part.columns)
    lines = [
        rf"\fontsize{{{part.size}}}{{{part.size * 1.2:.1f}}}\selectfont\setlength{{\tabcolsep}}{{{GAPS[part.size]:g}pt}}{SETUP}"
    ]
    lines += [rf"\begin{{tabular}}{{@{{}}{forms}@{{}}}}", r"\toprule", _heads(page, part), r"\midrule"]
    for entries in part.lines:
        if entries[0].text == PUBLISHED and not any(entries[at].text.strip(DASH) for at, _ in part.columns[1:]):
            continue  # they stand in another part
        lines.append(_heading(entries[0], part) if len(entries) == 1 else _entries(entries, part))
        lines += _comments(page, entries, part)
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _form(column: Column) -> str:
    """What `tabular` is told of it."""
    if column.width:
        return rf">{{\raggedright\arraybackslash}}p{{{column.width:.1f}pt}}"
    if not column.whole:
        return column.side
    return rf"S[table-format={column.sign}{column.whole}.{column.decimals}]" + "@{}l" * column.after


def _heads(page: Printed, part: Part) -> str:
    return " & ".join(_head(page.heads[at], column) for at, column in part.columns) + r" \\"


def _head(text: str, column: Column) -> str:
    """Words of a broken column as they come; above numbers in several lines where one would make the column wide."""
    if column.width:
        return breakable(text, 0)
    lines = [tex(line) for line in folded(text, column.room.natural)]
    side = "" if column.whole else f"[{column.side}]"
    words = r"\\".join(lines)
    return _across(rf"\shortstack{side}{{{words}}}" if len(lines) > 1 else words, column)


def _heading(entry: Entry, part: Part) -> str:
    """The words above a group of lines."""
    count = sum(column.span for _, column in part.columns)
    return rf"\addlinespace \multicolumn{{{count}}}{{@{{}}l}}{{\textit{{{tex(entry.text)}}}}} \\"


def _entries(entries: Sequence[Entry], part: Part) -> str:
    return " & ".join(_cell(entries[at], column) for at, column in part.columns) + r" \\"


def _cell(entry: Entry, column: Column) -> str:
    match = NUMBER.match(entry.text)
    if match is None or not column.whole:
        return _across(_marked(breakable(entry.text, 0) if column.width else tex(entry.text), entry), column)
    after = entry.text[match.end() :]
    number = _padded(match, entry, column) if entry.bold else match[0].replace(",", "")
    return number + (f" & {'~' if after.startswith(' ') else ''}{tex(after)}" if column.after else "")


def _padded(match: re.Match[str], entry: Entry, column: Column) -> str:
    """A marked number, which siunitx does not read: set by hand, as wide as the others of its column."""
    whole, room = f"{int(match[2].replace(',', '')):,}", f"{10**column.whole - 1:,}"
    before = room[: len(room) - len(whole)] if len(room) > len(whole) else ""
    lacking = column.decimals - len(match[3] or "")
    behind = ("" if match[3] else ".") * bool(lacking) + "0" * lacking
    sign = {"": r"\phantom{+}" if column.sign else "", "-": "$-$", "+": "$+$"}[match[1]]
    digits = whole + (f".{match[3]}" if match[3] else "")
    return f"{{{_phantom(before)}{sign}{_marked(digits, entry)}{_phantom(behind)}}}"


def _phantom(text: str) -> str:
    return rf"\phantom{{{text}}}" if text else ""


def _across(text: str, column: Column) -> str:
    """Words as they stand in this column: in the middle of one of numbers."""
    return rf"\multicolumn{{2}}{{c}}{{{text}}}" if column.after else f"{{{text}}}" if column.whole else text


def _marked(text: str, entry: Entry) -> str:
    return rf"\textbf{{{text}}}" if entry.bold else text


def _comments(page: Printed, entries: Sequence[Entry], part: Part) -> Iterable[str]:
    """Heads and origin of the cells that say theirs, those of one origin together."""
    heads: dict[str, list[str]] = {}
    for at, _ in part.columns:
        if at < len(entries) and entries[at].origin:
            heads.setdefault(entries[at].origin, []).append(page.heads[at])
    return [f"% {_line('; '.join(names))}: {_line(origin)}" for origin, names in heads.items()]


def _line(text: str) -> str:
    """One line of a comment, whatever the words are."""
    return " ".join(text.split())
