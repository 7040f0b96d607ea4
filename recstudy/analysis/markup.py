"""A table of words as Markdown, LaTeX and HTML, and how each of them shows any text as it is."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recstudy.analysis.names import DASH


@dataclass(frozen=True)
class Entry:
    """The words of one place in a printed table; `hint` is what a tooltip adds."""

    text: str
    bold: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Printed:
    """A table in words: heads, lines of entries (the first is the label) and the run ids behind each line.

    `warnings` come before the numbers, `caption` and `notes` after them, `homeless` (published values without a place)
    last. `prose` names the columns that hold sentences.
    """

    name: str
    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[Entry]]
    run_ids: Sequence[Sequence[str]]
    caption: str
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    homeless: Sequence[str] = ()
    prose: frozenset[int] = frozenset()


def markdown(page: Printed) -> str:
    """GitHub's Markdown: title, table, caption, notes."""
    lines = [f"### {_md(page.title)}", ""]
    lines += [f"**{_md(note)}**\n" for note in page.warnings]
    sides = ["---" if at in page.prose else "---:" for at in range(1, len(page.heads))]
    lines += ["| " + " | ".join(map(_md, page.heads)) + " |", " | ".join(["| ---", *sides]) + " |"]
    for entries in page.lines:
        lines.append("| " + " | ".join(f"**{_md(entry.text)}**" if entry.bold else _md(entry.text) for entry in entries) + " |")
    lines += ["", f"{_md(page.caption)}."]
    lines += [f"\n{_md(note)}" for note in [*page.notes, *page.homeless]]
    return "\n".join(lines) + "\n"


def latex(page: Printed) -> str:
    r"""A `table` float in booktabs style, each line followed by a comment with the run ids behind it."""
    notes = ". ".join([page.caption, *page.warnings, *page.notes]) + "."
    lines = [r"% needs \usepackage{booktabs}", *(f"% {' '.join(line.split())}" for line in page.homeless)]
    lines += [r"\begin{table}", r"\centering"]
    lines += [rf"\caption{{{_tex(page.title)}. {_tex(notes)}}}", rf"\label{{tab:{_label(page.name)}}}"]
    sides = "".join("p{4cm}" if at in page.prose else "r" for at in range(1, len(page.heads)))
    lines += [rf"\begin{{tabular}}{{l{sides}}}", r"\toprule", " & ".join(map(_tex, page.heads)) + r" \\", r"\midrule"]
    for entries, run_ids in zip(page.lines, page.run_ids, strict=True):
        lines.append(
            " & ".join(rf"\textbf{{{_tex(entry.text)}}}" if entry.bold else _tex(entry.text) for entry in entries) + r" \\"
        )
        lines += [f"% runs: {' '.join(run_ids)}"] if run_ids else []
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def html_table(page: Printed) -> str:
    """The table in a box that scrolls on its own, with the caption and notes under it."""
    heads = "".join(f'<th scope="col"{_prose(page, at)}>{html.escape(head)}</th>' for at, head in enumerate(page.heads))
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


def _html_entries(page: Printed, entries: Sequence[Entry]) -> Iterator[str]:
    yield f'<th scope="row">{html.escape(entries[0].text)}</th>'
    for at, entry in enumerate(entries[1:], 1):
        hint = f' title="{html.escape(entry.hint)}"' if entry.hint else ""
        text = html.escape(entry.text)
        yield f"<td{hint}{_prose(page, at)}>{f'<strong>{text}</strong>' if entry.bold else text}</td>"


def _prose(page: Printed, column: int) -> str:
    return ' class="prose"' if column in page.prose else ""


def _md(text: str) -> str:
    """Markdown that shows the text as it is, in one table cell."""
    escaped = "".join("\\" + character if character in "\\`*_[]|~#$!" else character for character in text)
    return " ".join(escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").split())


TEX = {character: "\\" + character for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "±": r"$\pm$",
    DASH: "--",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "\N{MINUS SIGN}": "$-$",
    "\N{RIGHTWARDS ARROW}": r"$\rightarrow$",
    "\N{LESS-THAN OR EQUAL TO}": r"$\leq$",
    "\N{GREATER-THAN OR EQUAL TO}": r"$\geq$",
    "[": "{[}",  # after \\ a bracket would be read as its argument
}


def _tex(text: str) -> str:
    return " ".join("".join(TEX.get(character, character) for character in text).split())


def _label(name: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in name)
