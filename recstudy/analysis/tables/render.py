"""A table's data as Markdown, LaTeX, CSV, HTML and terminal text: one set of words, five ways to show them."""

import csv
import io
from collections.abc import Sequence

from rich.table import Table as RichTable
from rich.text import Text

from recstudy.analysis.names import DASH, metric, number, spread
from recstudy.analysis.tables import latex as tex
from recstudy.analysis.tables import markup
from recstudy.analysis.tables.cells import Cell, TableData
from recstudy.analysis.tables.markup import Entry, Printed, emphasis

CSV_HEADS = ["row", "column", "metric", "unit", "mean", "low", "high", "n", "expected", "failed", "diverged"]
CSV_HEADS += ["published", "sources", "verdict", "reasons", "run_ids", "synthetic", "unavailable"]


def cell_text(cell: Cell) -> str:
    """`94.2 ±0.8 (n=3)`; what is missing or failed is said in the same breath."""
    lost = [f"{cell.failed.count(kind)} failed: {kind}" for kind in dict.fromkeys(cell.failed)]
    lost += [f"{count} {state}" for count, state in ((cell.diverged, "diverged"), (cell.stopped, "stopped early")) if count]
    why = "; ".join(cell.unavailable)
    if cell.value is None and why:
        return f"not available ({'; '.join([why, *lost])})"
    if cell.value is None:
        return f"{DASH} {'; '.join(lost) or ('' if cell.lacking else 'not run')}".strip()
    lost += [f"{cell.lacking} not available: {why}"] if why else []
    if metric(cell.metric).computed:
        return _computed(cell)
    half = f" ±{spread(cell.metric, cell.high - cell.value)}" if cell.high is not None else ""
    of = f" of {cell.expected}" if cell.n < cell.expected else ""
    return f"{number(cell.metric, cell.value)}{half} ({'; '.join([f'n={cell.n}{of}', *lost])})"


def printed(table: TableData) -> Printed:
    """The table as lines of words, the same for every format."""
    reasons = _reasons(table)
    heads, lines = [table.corner], []
    rows = [row.cells for row in table.rows if row.cells]
    published = [any(cells[column].placed for cells in rows) for column in range(len(table.columns))]
    for head, beside in zip(table.columns, published, strict=True):
        heads += [head, "published", "verdict"] if beside and not table.beneath else [head]
    for row in table.rows:
        line = [Entry(row.label)]
        for cell, beside in zip(row.cells, published, strict=bool(row.cells)):
            line.append(_entry(cell))
            line += [_published(cell), _verdict(cell, reasons)] if beside and not table.beneath else []
        lines.append(line)
        if table.beneath and any(cell.placed for cell in row.cells):
            lines.append([Entry(f"{row.label}, published"), *(_beneath(cell, reasons) for cell in row.cells)])
    notes, none = _notes(table, reasons), [()] * len(lines)
    return Printed(table.name, table.title, heads, lines, none, table.caption, table.warnings, notes, homeless(table))


def markdown(table: TableData) -> str:
    return markup.markdown(printed(table))


def latex(table: TableData) -> str:
    return tex.latex(printed(table))


def html_table(table: TableData) -> str:
    return markup.html_table(printed(table))


def csv_text(table: TableData) -> str:
    """One line a cell, in full precision."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_HEADS)
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=bool(row.cells)):
            numbers = [cell.value, cell.low, cell.high, cell.n, cell.expected, len(cell.failed), cell.diverged]
            published = " ".join(dict.fromkeys(f"{target.value!r}" for target in cell.placed))
            words = [published, _sources(cell), cell.verdict, cell.reasons, " ".join(cell.run_ids)]
            named = [row.label, column, cell.metric, metric(cell.metric).unit]
            writer.writerow([*named, *numbers, *words, cell.synthetic, "; ".join(cell.unavailable)])
    return out.getvalue()


def terminal(table: TableData, most: int | None = None) -> RichTable:
    """For `rich.print`: narrow, with the published value and the verdict under ours; the first `most` rows."""
    reasons = _reasons(table)
    told = [f"{len(table.homeless)} published values have no place here"] if table.homeless else []
    told += [f"the first {most} of {len(table.rows)} rows; all are in {table.name}.md"] if most and len(table.rows) > most else []
    words = Text("\n".join([f"{table.caption}.", *table.warnings, *_notes(table, reasons), *told]))
    shown = RichTable(title=Text(table.title), caption=words, caption_justify="left")
    for index, head in enumerate((table.corner, *table.columns)):
        shown.add_column(Text(head), justify="right" if index else "left", overflow="fold")
    for row in table.rows[:most]:
        shown.add_row(Text(row.label, style="" if row.cells else "italic"), *(_stacked(cell, reasons) for cell in row.cells))
    return shown


def _reasons(table: TableData) -> list[str]:
    """Why published values are not comparable: each reason once, numbered in the notes."""
    return list(dict.fromkeys(cell.reasons for row in table.rows for cell in row.cells if cell.reasons))


def _notes(table: TableData, reasons: Sequence[str]) -> list[str]:
    return [*table.notes, *(f"[{at}] not comparable: {reason}" for at, reason in enumerate(reasons, 1))]


def _stacked(cell: Cell, reasons: Sequence[str]) -> Text:
    text = Text(cell_text(cell), style=emphasis(_entry(cell)))
    published = f"\npublished {cell.published}: {_verdict(cell, reasons).text}"
    return text.append(published, style="not bold not underline") if cell.placed else text


def _computed(cell: Cell) -> str:
    """A count that follows from the config needs no interval; over several configs, its range."""
    low, high = number(cell.metric, min(cell.values)), number(cell.metric, max(cell.values))
    return low if low == high else f"{low}{DASH}{high}"


def _entry(cell: Cell) -> Entry:
    interval = f"95 % interval {cell.low:.6g} to {cell.high:.6g}; " if cell.low is not None else ""
    hint = f"{interval}{cell.n} of {cell.expected} runs: {_origin(cell) or 'none'}"
    return Entry(cell_text(cell), cell.best, hint, cell.second, f"runs {_origin(cell)}" if cell.run_ids else "")


def _origin(cell: Cell) -> str:
    """Which runs are behind the number, their seeds, and the code that made them."""
    seeds = f"seed{'s' * (len(cell.seeds) > 1)} {', '.join(map(str, cell.seeds))}"
    return "; ".join(filter(None, [" ".join(cell.run_ids), seeds, *cell.commits])) if cell.run_ids else ""


def _published(cell: Cell) -> Entry:
    return Entry(cell.published or DASH, hint=_sources(cell))


def _verdict(cell: Cell, reasons: Sequence[str]) -> Entry:
    note = f" [{reasons.index(cell.reasons) + 1}]" if cell.reasons else ""
    return Entry((cell.outcome or DASH) + note, hint=cell.reasons)


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
        key = (target.model or str(target.where.get("model") or ""), metric(target.metric).title, target.unit)
        group.setdefault(key, []).append(f"{target.value:g}")
    return [
        f"Published without a place here, {source} ({reason}): "
        + "; ".join(f"{model} {title} {', '.join(values)} {unit}".strip() for (model, title, unit), values in group.items())
        for (source, reason), group in groups.items()
    ]
