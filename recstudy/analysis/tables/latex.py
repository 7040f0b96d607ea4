"""A table of words in LaTeX: rules by booktabs, numbers aligned at their decimal point by siunitx, run ids as comments.

A column in which some entries begin with a number becomes two: the number, and what is said after it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recstudy.analysis.tables.markup import Entry, Printed
from recstudy.report.names import DASH

NUMBER = re.compile(r"([+-]?)(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?(?!\w|\.\w|,\d)")
NARROW = 12  # characters of a head in one line
SETUP = r"\sisetup{group-digits=integer, group-separator={,}, group-minimum-digits=4, retain-explicit-plus}"
FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"  # a wide table is set smaller, as wide as the text
TEX = {character: "\\" + character for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
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
class Column:
    """How one column is set: `whole` and `decimals` digits at most, with a sign or not; words stand from this `side`."""

    whole: int = 0
    decimals: int = 0
    sign: str = ""
    after: bool = False
    side: str = "r"

    @property
    def form(self) -> str:
        """What `tabular` is told."""
        if not self.whole:
            return self.side
        return rf"S[table-format={self.sign}{self.whole}.{self.decimals}]" + "@{}l" * self.after

    @property
    def span(self) -> int:
        return 2 if self.after else 1


def latex(page: Printed) -> str:
    r"""A `table` float; under each line comments say which runs each of its numbers comes from."""
    columns = [_column(page, at) for at in range(1, len(page.heads))]
    facts = ". ".join([page.title, page.caption, *page.warnings]) + "."
    notes = [rf"{tex(note)}.\par" for note in page.notes]
    lines = [r"% needs \usepackage{booktabs,graphicx,siunitx}", *(f"% {_line(words)}" for words in page.homeless)]
    lines += [r"\begin{table}", r"\centering", SETUP]
    lines += [rf"\caption{{{tex(facts)}}}", rf"\label{{tab:{_label(page.name)}}}", r"\medskip"]
    lines += [FITTED, rf"\begin{{tabular}}{{l{''.join(column.form for column in columns)}}}", r"\toprule", _heads(page, columns)]
    lines += [r"\midrule"]
    for entries in page.lines:
        lines.append(_heading(entries[0], columns) if len(entries) == 1 else _entries(entries, columns))
        lines += _comments(page, entries)
    lines += [r"\bottomrule", r"\end{tabular}}"]
    lines += [r"\par\smallskip", r"\begin{minipage}{\linewidth}\footnotesize", *notes, r"\end{minipage}"] if notes else []
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def tex(text: str) -> str:
    """LaTeX that shows the text as it is; two hyphens stay two."""
    shown = " ".join("".join(TEX.get(character, character) for character in text).split())
    return re.sub("-(?=-)", "-{}", shown)


def _column(page: Printed, at: int) -> Column:
    if page.words(at):
        return Column(side="p{4cm}" if at in page.prose else "l")
    texts = [line[at].text for line in page.lines if len(line) > 1]
    found = [match for text in texts if (match := NUMBER.match(text))]
    if not found:
        return Column()
    return Column(
        whole=max(len(match[2].replace(",", "")) for match in found),
        decimals=max(len(match[3] or "") for match in found),
        sign="+" if any(match[1] for match in found) else "",
        after=any(match.end() < len(match.string) for match in found),
    )


def _heads(page: Printed, columns: Sequence[Column]) -> str:
    heads = [_across(_head(head, column), column) for head, column in zip(page.heads[1:], columns, strict=True)]
    return " & ".join([tex(page.heads[0]), *heads]) + r" \\"


def _head(text: str, column: Column) -> str:
    """In two lines where it is long, cut at the space that leaves them most alike: else it makes its column wide."""
    spaces = [at for at, character in enumerate(text) if character == " "]
    if len(text) <= NARROW or not spaces:
        return tex(text)
    at = min(spaces, key=lambda space: max(space, len(text) - space))
    side = "" if column.whole else "[r]" if column.side == "r" else "[l]"
    return rf"\shortstack{side}{{{tex(text[:at])}\\{tex(text[at + 1 :])}}}"


def _heading(entry: Entry, columns: Sequence[Column]) -> str:
    """The words above a group of lines."""
    return rf"\addlinespace \multicolumn{{{1 + sum(column.span for column in columns)}}}{{l}}{{\textit{{{tex(entry.text)}}}}} \\"


def _entries(entries: Sequence[Entry], columns: Sequence[Column]) -> str:
    cells = [_cell(entry, column) for entry, column in zip(entries[1:], columns, strict=True)]
    return " & ".join([_marked(tex(entries[0].text), entries[0]), *cells]) + r" \\"


def _cell(entry: Entry, column: Column) -> str:
    match = NUMBER.match(entry.text)
    if match is None or not column.whole:
        return _across(_marked(tex(entry.text), entry), column)
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


def _comments(page: Printed, entries: Sequence[Entry]) -> Iterable[str]:
    """Heads and origin of the cells that say theirs, those of one origin together."""
    heads: dict[str, list[str]] = {}
    for head, entry in zip(page.heads, entries, strict=False):
        if entry.origin:
            heads.setdefault(entry.origin, []).append(head)
    return [f"% {_line('; '.join(names))}: {_line(origin)}" for origin, names in heads.items()]


def _line(text: str) -> str:
    """One line of a comment, whatever the words are."""
    return " ".join(text.split())


def _label(name: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in name)
