"""A table's cells in words, the same for every format, and as CSV."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from recstudy.analysis import caveats
from recstudy.analysis.cells import Cell, TableData
from recstudy.analysis.stats import LINEAR
from recstudy.analysis.tables.labels import settings_text, settings_title
from recstudy.analysis.tables.markup import PUBLISHED, Entry, Printed, csv_lines
from recstudy.report.names import DASH, metric, number, spread

CSV_HEADS = ["row", "column", "metric", "unit", "mean", "low", "high", "n", "expected", "failed", "diverged"]
CSV_HEADS += ["published", "sources", "verdict", "reasons", "run_ids", "synthetic", "unavailable", "deviations", "assumed"]
CSV_HEADS += ["low_items", "high_items"]
WIDEST = 9  # columns that a page has room for: where published ones would make them more, those values stand beneath ours


def cell_text(cell: Cell) -> str:
    """`94.2 ±0.8 (n=3)`; what is missing or failed is said in the same breath."""
    said = "" if cell.value is None or metric(cell.metric).computed else f" (n={seeds_counted(cell)})"
    return number_text(cell) + said


def number_text(cell: Cell) -> str:
    """`94.2 ±0.8`, or why there is no number."""
    why = "; ".join(cell.unavailable)
    if cell.value is None and why:
        return f"not available ({'; '.join([why, *_lost(cell)])})"
    if cell.value is None:
        return f"{DASH} {'; '.join(_lost(cell)) or ('' if cell.lacking else 'not run')}".strip()
    if metric(cell.metric).computed:
        return _computed(cell)
    return f"{number(cell.metric, cell.value)}{interval_text(cell)}"


def seeds_counted(cell: Cell) -> str:
    """`3`, or `2 of 3; 1 failed: code`."""
    of = f" of {cell.expected}" if cell.n < cell.expected else ""
    why = "; ".join(cell.unavailable)
    return "; ".join([f"{cell.n}{of}", *_lost(cell), *([f"{cell.lacking} not available: {why}"] if why else [])])


def _lost(cell: Cell) -> list[str]:
    lost = [f"{cell.failed.count(kind)} failed: {kind}" for kind in dict.fromkeys(cell.failed)]
    return lost + [f"{count} {state}" for count, state in ((cell.diverged, "diverged"), (cell.stopped, "stopped early")) if count]


def interval_text(cell: Cell) -> str:
    """` ±0.8`, by the wider side; `, 99.1 to 100.0` where that would leave the metric's bounds."""
    if cell.value is None or cell.low is None or cell.high is None:
        return ""
    half, scale = max(cell.high - cell.value, cell.value - cell.low), cell.spread.scale if cell.spread else LINEAR
    if scale.low <= cell.value - half and cell.value + half <= scale.high:
        return f" ±{spread(cell.metric, half)}"
    return f", {number(cell.metric, cell.low)} to {number(cell.metric, cell.high)}"


def printed(table: TableData) -> Printed:
    """The table as lines of words, the same for every format."""
    return _printed(table, cell_text)


def on_paper(table: TableData) -> Printed:
    """The table in the words of a paper: how many seeds is said once, or in a column or a line where rows or columns differ."""
    rows = [_counts(row.cells) for row in table.rows]
    across = [_counts(cells) for cells in zip(*(row.cells for row in table.rows if row.cells), strict=True)]
    every = list(dict.fromkeys(count for row in rows for count in row))
    if len(every) <= 1:
        page = _printed(table, number_text)
        return replace(page, caption=caveats.on_paper(page.caption) + "".join(f" (n={count})" for count in every))
    if all(len(row) <= 1 for row in rows):
        return _printed(table, number_text, [next(iter(row), DASH) for row in rows])
    if all(len(column) <= 1 for column in across):
        page = _printed(table, number_text)
        blank = [Entry("")] * len(table.settings)
        if len(page.heads) == 1 + len(blank) + len(across):
            return replace(
                page, lines=[*page.lines, [Entry("n"), *blank, *(Entry(next(iter(column), DASH)) for column in across)]]
            )
    return _printed(table, cell_text)


def _counts(cells: Iterable[Cell]) -> list[str]:
    """What is said of the seeds of these cells, each once."""
    measured = [cell for cell in cells if cell.value is not None and not metric(cell.metric).computed]
    return list(dict.fromkeys(map(seeds_counted, measured)))


def _printed(table: TableData, words: Callable[[Cell], str], seeds: Sequence[str] = ()) -> Printed:
    reasons = _reasons(table)
    rows = [row.cells for row in table.rows if row.cells]
    published = [any(cells[column].placed for cells in rows) for column in range(len(table.columns))]
    beneath = table.beneath or 1 + len(table.settings) + len(published) + sum(published) > WIDEST
    heads, lines = [table.corner, *map(settings_title, table.settings)], []
    for head, beside in zip(table.columns, published, strict=True):
        heads += [head, PUBLISHED] if beside and not beneath else [head]
    heads += ["n"] * bool(seeds)
    for at, row in enumerate(table.rows):
        line = [Entry(row.label), *(Entry(settings_text(words)) for words in row.settings)]
        for cell, beside in zip(row.cells, published, strict=bool(row.cells)):
            line += [entry(cell, words), _published(cell, reasons)] if beside and not beneath else [entry(cell, words)]
        lines.append([*line, *([Entry(seeds[at])] if seeds and row.cells else [])])
        if beneath and any(cell.placed for cell in row.cells):
            blank = [Entry("")] * len(table.settings)
            lines.append(
                [Entry(PUBLISHED), *blank, *(_published(cell, reasons) for cell in row.cells), *[Entry("")] * bool(seeds)]
            )
    return Printed(
        name=table.name,
        title=table.title,
        heads=heads,
        lines=lines,
        caption=table.caption,
        warnings=table.warnings,
        notes=[*table.notes, *(f"[{at}] not comparable: {reason}" for at, reason in enumerate(reasons, 1))],
        homeless=homeless(table),
        settings=len(table.settings),
    )


def csv_text(table: TableData) -> str:
    """One line a cell, in full precision; a column for each field of the settings."""
    lines = []
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=bool(row.cells)):
            numbers = [cell.value, cell.low, cell.high, cell.n, cell.expected, len(cell.failed), cell.diverged]
            published = " ".join(dict.fromkeys(f"{target.value!r}" for target in cell.placed))
            words = [published, _sources(cell), cell.verdict, cell.reasons, " ".join([*cell.run_ids, *cell.against])]
            named = [row.label, column, cell.metric, metric(cell.metric).unit]
            settings = [word for words in row.settings for word in words]
            behind = [cell.synthetic, "; ".join(cell.unavailable), cell.deviations, cell.assumed]
            items = cell.items[1:3] if cell.items else (None, None)
            lines.append([*named, *numbers, *words, *behind, *items, *settings])
    return csv_lines([*CSV_HEADS, *(path for fields in table.settings for path in fields)], lines)


def narrow(table: TableData, most: int | None = None) -> Printed:
    """For a terminal: what is published in a line under ours; the first `most` rows."""
    page = printed(replace(table, rows=table.rows[:most], beneath=True))
    told = [f"{len(table.homeless)} published values with no matching variant"] if table.homeless else []
    told += [f"the first {most} of {len(table.rows)} rows; all are in {table.name}.md"] if most and len(table.rows) > most else []
    return replace(page, homeless=told)


def _reasons(table: TableData) -> list[str]:
    """Why published values are not comparable: each reason once, numbered in the notes."""
    return list(dict.fromkeys(cell.reasons for row in table.rows for cell in row.cells if cell.reasons))


def _computed(cell: Cell) -> str:
    """A count that follows from the config needs no interval; over several configs, its range."""
    low, high = number(cell.metric, min(cell.values)), number(cell.metric, max(cell.values))
    return low if low == high else f"{low}{DASH}{high}"


def entry(cell: Cell, words: Callable[[Cell], str] = cell_text) -> Entry:
    """The number as it stands in a table, with its interval and its runs."""
    interval = f"95 % interval {cell.low:.6g} to {cell.high:.6g}; " if cell.low is not None else ""
    interval += f"over seeds and images {cell.items.low:.6g} to {cell.items.high:.6g}; " if cell.items else ""
    behind = origin(cell)
    hint = f"{interval}{cell.n} of {cell.expected} runs: {behind or 'none'}"
    return Entry(words(cell), cell.best, hint, f"runs {behind}" if behind else "", (*cell.planned, *cell.against))


def origin(cell: Cell) -> str:
    """Which runs are behind the number, their seeds, and the code that made them; empty where there are none."""
    if not cell.run_ids:
        return ""
    runs = " ".join(cell.run_ids) + (f" against {' '.join(cell.against)}" if cell.against else "")
    return "; ".join([runs, seeds_text(cell.seeds), *cell.commits])


def seeds_text(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def _published(cell: Cell, reasons: Sequence[str]) -> Entry:
    """`92.6, differs`; where it is not comparable, `94.0 [1]` with the number of the note that says why."""
    if not cell.placed:
        return Entry(DASH)
    verdict = f" [{reasons.index(cell.reasons) + 1}]" if cell.reasons else f", {cell.outcome}"
    return Entry(f"{cell.published}{verdict}", hint="; ".join(filter(None, [_sources(cell), cell.reasons, cell.deviations])))


def _sources(cell: Cell) -> str:
    return "; ".join(dict.fromkeys(target.target.cited for target in cell.placed))


def homeless(table: TableData) -> list[str]:
    """The published values with no matching variant: one line a source and reason, values by model and metric."""
    groups: dict[tuple[str, str], dict[tuple[str, str, str], list[str]]] = {}
    for target, reason in table.homeless:
        group = groups.setdefault((target.cited.partition(" (")[0], reason), {})
        key = (target.model or str(target.where.get("model") or ""), metric(target.metric).title, target.unit)
        group.setdefault(key, []).append(f"{target.value:g}")
    return [
        f"Published with no matching variant, {source} ({reason}): "
        + "; ".join(f"{model} {title} {', '.join(values)} {unit}".strip() for (model, title, unit), values in group.items())
        for (source, reason), group in groups.items()
    ]
