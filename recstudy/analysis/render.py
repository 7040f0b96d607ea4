"""A table's data as Markdown, LaTeX, CSV, HTML and terminal text: one set of words, five ways to escape them."""

import csv
import html
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table as RichTable
from rich.text import Text

from recstudy.analysis.names import DASH, metric, number, spread
from recstudy.analysis.tables import Cell, TableData

CSV_HEADS = ["row", "column", "metric", "unit", "mean", "low", "high", "n", "expected", "failed", "diverged"]
CSV_HEADS += ["published", "sources", "verdict", "reasons", "run_ids"]


@dataclass(frozen=True)
class Entry:
    """The words of one place in a printed table; `hint` is what a tooltip adds."""

    text: str
    bold: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Layout:
    """Heads, lines of entries (the first is the label), the run ids behind each line, numbered notes, unplaced targets."""

    heads: list[str]
    lines: list[list[Entry]]
    run_ids: list[list[str]]
    notes: list[str]
    homeless: list[str]
    reasons: list[str]


def cell_text(cell: Cell) -> str:
    """`94.2 ±0.8 (n=3)`; what is missing or failed is said in the same breath."""
    lost = [f"{cell.failed.count(kind)} failed: {kind}" for kind in dict.fromkeys(cell.failed)]
    lost += [f"{cell.diverged} diverged"] if cell.diverged else []
    if cell.value is None:
        return DASH + " " + ("; ".join(lost) or "not run")
    if metric(cell.metric).computed:
        return _computed(cell)
    half = f" ±{spread(cell.metric, cell.high - cell.value)}" if cell.high is not None else ""
    of = f" of {cell.expected}" if cell.n < cell.expected else ""
    return f"{number(cell.metric, cell.value)}{half} ({'; '.join([f'n={cell.n}{of}', *lost])})"


def layout(table: TableData) -> Layout:
    """The table as lines of words, the same for every format."""
    notes = list(table.warnings)
    reasons = list(dict.fromkeys(cell.reasons for row in table.rows for cell in row.cells if cell.reasons))
    heads, lines, run_ids = [table.corner], [], []
    published = [any(row.cells[column].placed for row in table.rows) for column in range(len(table.columns))]
    for head, beside in zip(table.columns, published, strict=True):
        heads += [head, "published", "verdict"] if beside and not table.crossed else [head]
    for row in table.rows:
        line = [Entry(row.label)]
        for cell, beside in zip(row.cells, published, strict=True):
            line.append(_entry(cell))
            line += [_published(cell), _verdict(cell, reasons)] if beside and not table.crossed else []
        lines.append(line)
        run_ids.append(list(dict.fromkeys(run for cell in row.cells for run in cell.run_ids)))
        if table.crossed and any(cell.placed for cell in row.cells):
            lines.append([Entry(f"{row.label}, published"), *(_beneath(cell, reasons) for cell in row.cells)])
            run_ids.append([])
    notes += [f"[{number_}] not comparable: {reason}" for number_, reason in enumerate(reasons, 1)]
    return Layout(heads, lines, run_ids, notes, homeless(table), reasons)


def markdown(table: TableData) -> str:
    """GitHub's Markdown: title, table, caption, notes."""
    page = layout(table)
    lines = [f"### {_md(table.title)}", ""]
    lines += [f"**{_md(note)}**\n" for note in table.warnings]
    lines += ["| " + " | ".join(map(_md, page.heads)) + " |", "| --- |" + " ---: |" * (len(page.heads) - 1)]
    for entries in page.lines:
        lines.append("| " + " | ".join(f"**{_md(entry.text)}**" if entry.bold else _md(entry.text) for entry in entries) + " |")
    lines += ["", f"{_md(table.caption)}."]
    lines += [f"\n{_md(note)}" for note in [*page.notes[len(table.warnings) :], *page.homeless]]
    return "\n".join(lines) + "\n"


def latex(table: TableData) -> str:
    r"""A `table` float in booktabs style, each line followed by a comment with the run ids behind it."""
    page = layout(table)
    notes = ". ".join([table.caption, *page.notes]) + "."
    lines = [r"% needs \usepackage{booktabs}", *(f"% {' '.join(line.split())}" for line in page.homeless)]
    lines += [r"\begin{table}", r"\centering"]
    lines += [rf"\caption{{{_tex(table.title)}. {_tex(notes)}}}", rf"\label{{tab:{_label(table.name)}}}"]
    lines += [
        rf"\begin{{tabular}}{{l{'r' * (len(page.heads) - 1)}}}",
        r"\toprule",
        " & ".join(map(_tex, page.heads)) + r" \\",
        r"\midrule",
    ]
    for entries, run_ids in zip(page.lines, page.run_ids, strict=True):
        lines.append(
            " & ".join(rf"\textbf{{{_tex(entry.text)}}}" if entry.bold else _tex(entry.text) for entry in entries) + r" \\"
        )
        lines += [f"% runs: {' '.join(run_ids)}"] if run_ids else []
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def csv_text(table: TableData) -> str:
    """One line a cell, in full precision."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_HEADS)
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            numbers = [cell.value, cell.low, cell.high, cell.n, cell.expected, len(cell.failed), cell.diverged]
            published = " ".join(dict.fromkeys(f"{target.value!r}" for target in cell.placed))
            words = [published, _sources(cell), cell.verdict, cell.reasons, " ".join(cell.run_ids)]
            writer.writerow([row.label, column, cell.metric, metric(cell.metric).unit, *numbers, *words])
    return out.getvalue()


def html_table(table: TableData) -> str:
    """The table in a box that scrolls on its own, with the caption and notes under it."""
    page = layout(table)
    heads = "".join(f'<th scope="col">{html.escape(head)}</th>' for head in page.heads)
    body = "\n".join(f"<tr>{''.join(_html_entries(entries))}</tr>" for entries in page.lines)
    notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in page.notes[len(table.warnings) :])
    lines = "".join(f'<p class="note">{html.escape(line)}</p>' for line in page.homeless)
    notes += f"<details><summary>Published values without a place here</summary>{lines}</details>" if lines else ""
    warned = "".join(f'<p class="warning">{html.escape(note)}</p>' for note in table.warnings)
    label = html.escape(table.title)
    return (
        f'{warned}<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table><thead><tr>{heads}</tr></thead>\n'
        f'<tbody>\n{body}\n</tbody></table></div>\n<p class="caption">{html.escape(table.caption)}.</p>{notes}'
    )


def terminal(table: TableData, most: int | None = None) -> RichTable:
    """For `rich.print`: narrow, with the published value and the verdict under ours; the first `most` rows."""
    page = layout(table)
    told = [f"{len(table.homeless)} published values have no place here"] if table.homeless else []
    told += [f"the first {most} of {len(table.rows)} rows; all are in {table.name}.md"] if most and len(table.rows) > most else []
    words = Text("\n".join([f"{table.caption}.", *page.notes, *told]))
    shown = RichTable(title=Text(table.title), caption=words, caption_justify="left")
    for index, head in enumerate((table.corner, *table.columns)):
        shown.add_column(Text(head), justify="right" if index else "left", overflow="fold")
    for row in table.rows[:most]:
        shown.add_row(Text(row.label), *(_stacked(cell, page.reasons) for cell in row.cells))
    return shown


def _stacked(cell: Cell, reasons: Sequence[str]) -> Text:
    text = Text(cell_text(cell), style="bold" if cell.best else "")
    return text.append(f"\npublished {cell.published}: {_verdict(cell, reasons).text}", style="not bold") if cell.placed else text


def _computed(cell: Cell) -> str:
    """A count that follows from the config needs no interval; over several configs, its range."""
    low, high = number(cell.metric, min(cell.values)), number(cell.metric, max(cell.values))
    return low if low == high else f"{low}{DASH}{high}"


def _entry(cell: Cell) -> Entry:
    interval = f"95 % interval {cell.low:.6g} to {cell.high:.6g}; " if cell.low is not None else ""
    return Entry(cell_text(cell), cell.best, f"{interval}{cell.n} of {cell.expected} runs: {' '.join(cell.run_ids) or 'none'}")


def _published(cell: Cell) -> Entry:
    return Entry(cell.published or DASH, hint=_sources(cell))


def _verdict(cell: Cell, reasons: Sequence[str]) -> Entry:
    note = f" [{reasons.index(cell.reasons) + 1}]" if cell.reasons else ""
    return Entry((cell.verdict or DASH) + note, hint=cell.reasons)


def _beneath(cell: Cell, reasons: Sequence[str]) -> Entry:
    if not cell.placed:
        return Entry(DASH)
    return Entry(
        f"{cell.published}, {_verdict(cell, reasons).text}", hint="; ".join(filter(None, [_sources(cell), cell.reasons]))
    )


def _sources(cell: Cell) -> str:
    return "; ".join(dict.fromkeys(target.target.source for target in cell.placed))


def homeless(table: TableData) -> list[str]:
    """The published values without a place in this table: one line a source and reason, values by model and metric."""
    groups: dict[tuple[str, str], dict[tuple[str, str, str], list[str]]] = {}
    for target, reason in table.homeless:
        group = groups.setdefault((target.source.partition(" (")[0], reason), {})
        key = (str(target.where.get("model") or ""), metric(target.metric).title, target.unit)
        group.setdefault(key, []).append(f"{target.value:g}")
    return [
        f"Published without a place here, {source} ({reason}): "
        + "; ".join(f"{model} {title} {', '.join(values)} {unit}".strip() for (model, title, unit), values in group.items())
        for (source, reason), group in groups.items()
    ]


def _html_entries(entries: Sequence[Entry]) -> Iterator[str]:
    yield f'<th scope="row">{html.escape(entries[0].text)}</th>'
    for entry in entries[1:]:
        hint = f' title="{html.escape(entry.hint)}"' if entry.hint else ""
        text = html.escape(entry.text)
        yield f"<td{hint}>{f'<strong>{text}</strong>' if entry.bold else text}</td>"


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
