"""A table's cells in words, the same for every format, and as CSV; and what is behind each number, of which `explain` tells."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from recstudy.evidence import Answer, Reason, Verdict, Why
from recstudy.report.caveats import IMPORTED
from recstudy.report.cells import Cell, TableData
from recstudy.report.names import DASH, axis_title, inline, metric, number, plural
from recstudy.report.shown import Shown
from recstudy.report.table import PUBLISHED, Interval, Note, Number, Piece, PrintedTable, TableEntry
from recstudy.report.targets import Placed
from recstudy.report.writers import csv_file

CSV_HEADS = ["row", "column", "metric", "unit", "mean", "low", "high", "n", "expected", "failed", "diverged"]
CSV_HEADS += ["published", "sources", "verdict", "reasons", "run_ids", "synthetic", "unavailable", "deviations", "assumed"]
CSV_HEADS += ["low_items", "high_items"]
LEADERS = 2  # that a heading names
WIDEST = 9  # columns that a page has room for: where published ones would make them more, those values stand beneath ours

Content = tuple[Piece, ...]


def cell_text(cell: Cell) -> str:
    """Return `94.2 [93.4, 95.0] (n=3)`; what is missing or failed is said in the same breath."""
    return "".join(map(str, cell_content(cell)))


def cell_content(cell: Cell) -> Content:
    """Return a cell with the number of its seeds."""
    said = "" if cell.value is None or metric(cell.metric).computed else f" (n={seeds_counted(cell)})"
    return (*number_content(cell), *([said] if said else []))


def number_content(cell: Cell) -> Content:
    """Return `94.2 [93.4, 95.0]`, `2 of 3 learned (9 to 99 %): 93.5`, the mean of those, or why there is no number."""
    known, form = metric(cell.metric), metric(cell.metric).form
    why = "; ".join(cell.unavailable)
    if cell.value is None and why:
        return (f"not available ({'; '.join([why, *_lost(cell)])})",)
    if cell.value is None:
        return (f"{DASH} {'; '.join(_lost(cell)) or ('' if cell.lacking else 'not run')}".strip(),)
    if known.computed:  # a count that follows from the config needs no interval; over several configs, its range
        least, most = min(cell.values), max(cell.values)
        same = number(cell.metric, least) == number(cell.metric, most)
        return (Number(least, form),) if same else (Number(least, form), DASH, Number(most, form))
    return (*_measured(cell, cell.value, form), *([" (imported)"] if cell.imported == IMPORTED else []))


def _measured(cell: Cell, value: float, form: str) -> Content:
    found = cell.estimate
    if found.split:
        share = f"({100 * found.split.low:.0f} to {100 * found.split.high:.0f} %)"
        return f"{found.split.learned} of {found.split.of} learned {share}: ", Number(found.split.given, form)
    if found.why in (Why.CEILING, Why.FLOOR) and found.interval:
        above = found.why is Why.CEILING
        sign = "\N{GREATER-THAN OR EQUAL TO}" if above else "\N{LESS-THAN OR EQUAL TO}"
        return Number(value, form), f" ({sign} {format((found.low if above else found.high) or 0.0, form)})"
    return (Number(value, form), " ", Interval(*found.interval, form)) if found.interval else (Number(value, form),)


def seeds_counted(cell: Cell) -> str:
    """Count `3`, or `2 of 3; 1 failed: code`."""
    of = f" of {cell.expected}" if cell.n < cell.expected else ""
    why = "; ".join(cell.unavailable)
    return "; ".join([f"{cell.n}{of}", *_lost(cell), *([f"{cell.lacking} not available: {why}"] if why else [])])


def _lost(cell: Cell) -> list[str]:
    lost = [f"{cell.failed.count(kind)} failed: {kind}" for kind in dict.fromkeys(cell.failed)]
    lost += [f"{len(cell.damaged)} with damaged answers"] if cell.damaged else []
    return lost + [f"{count} {state}" for count, state in ((cell.diverged, "diverged"), (cell.stopped, "stopped early")) if count]


def printed(table: TableData) -> PrintedTable:
    """Return the table as lines of entries, the same for every format.

    How many seeds is said once, or in a column or a line where rows or columns differ.
    """

    def counts(cells: Iterable[Cell]) -> list[str]:
        measured = [cell for cell in cells if cell.value is not None and not metric(cell.metric).computed]
        return list(dict.fromkeys(map(seeds_counted, measured)))

    rows = [counts(row.cells) for row in table.rows]
    across = [counts(cells) for cells in zip(*(row.cells for row in table.rows if row.cells), strict=True)]
    every = list(dict.fromkeys(count for row in rows for count in row))
    if len(every) <= 1:
        page = _printed(table, number_content)
        note = page.caption if isinstance(page.caption, Note) else Note(page.caption)
        return replace(page, caption=replace(note, text=note.text + "".join(f", n={count}" for count in every)))
    if all(len(row) <= 1 for row in rows):
        return _printed(table, number_content, [next(iter(row), DASH) for row in rows])
    if all(len(column) <= 1 for column in across):
        page = _printed(table, number_content)
        blank = [TableEntry("")] * len(table.settings)
        if len(page.heads) == 1 + len(blank) + len(across):
            last = [TableEntry("n"), *blank, *(TableEntry(next(iter(column), DASH)) for column in across)]
            return replace(page, lines=[*page.lines, last])
    return _printed(table, cell_content)


def _printed(table: TableData, words: Callable[[Cell], Content], seeds: Sequence[str] = ()) -> PrintedTable:
    cells = [cell for row in table.rows for cell in row.cells]
    reasons = list(dict.fromkeys(cell.reasons for cell in cells if cell.reasons))  # each set once, numbered in the notes
    rows = [row.cells for row in table.rows if row.cells]
    published = [any(cells[column].placed for cells in rows) for column in range(len(table.columns))]
    beneath = table.beneath or 1 + len(table.settings) + len(published) + sum(published) + bool(seeds) > WIDEST
    heads, lines = [table.corner, *map(settings_title, table.settings)], []
    for head, beside in zip(table.columns, published, strict=True):
        heads += [head, PUBLISHED] if beside and not beneath else [head]
    heads += ["n"] * bool(seeds)
    for at, row in enumerate(table.rows):
        line = [TableEntry(row.label), *(TableEntry(settings_text(words)) for words in row.settings)]
        for cell, beside in zip(row.cells, published, strict=bool(row.cells)):
            line += [entry(cell, words), _published(cell, reasons)] if beside and not beneath else [entry(cell, words)]
        lines.append([*line, *([TableEntry(seeds[at])] if seeds and row.cells else [])])
        if beneath and any(cell.placed for cell in row.cells):
            blank = [TableEntry("")] * len(table.settings)
            theirs = [_published(cell, reasons) for cell in row.cells]
            lines.append([TableEntry(PUBLISHED), *blank, *theirs, *[TableEntry("")] * bool(seeds)])
    numbered = (Note(f"[{at}] not comparable", why) for at, why in enumerate(reasons, 1))
    return PrintedTable(
        name=table.name,
        title=table.title,
        heads=heads,
        lines=lines,
        caption=table.caption,
        warnings=table.warnings,
        notes=[*table.notes, *margin_notes(cells), *numbered],
        unmatched_targets=unmatched_targets(table),
        settings=len(table.settings),
    )


def csv_text(table: TableData) -> str:
    """Write one line a cell, in full precision; a column for each field of the settings."""
    lines, group, counts = [], "", Counter(row.label for row in table.rows if row.cells)
    for row in table.rows:
        group = group if row.cells else row.label
        label = f"{group}, {row.label}" if counts[row.label] > 1 else row.label  # of one label in several groups
        for column, cell in zip(table.columns, row.cells, strict=bool(row.cells)):
            numbers = [cell.value, cell.low, cell.high, cell.n, cell.expected, len(cell.failed), cell.diverged]
            published = " ".join(dict.fromkeys(f"{target.value!r}" for target in cell.placed))
            verdicts, reasons = ", ".join(cell.verdicts), "; ".join(cell.reasons)
            words = [published, _sources(cell), verdicts, reasons, " ".join([*cell.run_ids, *cell.against])]
            named = [label, column, cell.metric, metric(cell.metric).unit]
            settings = [word for words in row.settings for word in words]
            assumed = "; ".join(filter(None, [cell.assumed, cell.imported]))
            behind = [cell.synthetic, "; ".join(cell.unavailable), cell.deviations, assumed]
            items = (cell.items.low, cell.items.high) if cell.items else (None, None)
            lines.append([*named, *numbers, *words, *behind, *items, *settings])
    return csv_file([*CSV_HEADS, *(path for fields in table.settings for path in fields)], lines)


def entry(cell: Cell, words: Callable[[Cell], Content] = cell_content) -> TableEntry:
    """Return the number as it stands in a table, with its interval and its runs."""
    interval = f"95 % interval {Interval(*cell.estimate.interval, '.6g')}; " if cell.estimate.interval else ""
    interval += f"over seeds and items {Interval(*cell.items.interval, '.6g')}; " if cell.items and cell.items.interval else ""
    seeds = ", ".join(number(cell.metric, value) for value in cell.values[:5])
    interval += f"seeds {seeds}; " if 1 < cell.n <= 5 and not cell.against and not metric(cell.metric).computed else ""
    runs = " ".join(cell.run_ids) + (f" against {' '.join(cell.against)}" if cell.against else "")
    behind = "; ".join([runs, seeds_text(cell.seeds), *cell.commits]) if cell.run_ids else ""
    hint = f"{interval}{cell.n} of {cell.expected} runs: {behind or 'none'}"
    return TableEntry(words(cell), cell.best, hint, f"runs {behind}" if behind else "", (*cell.planned, *cell.against))


def seeds_text(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def settings_title(fields: tuple[str, ...]) -> str:
    """Return `high/middle/low cycles` of three fields that end alike, `weights/tuned` of two that do not."""
    titles = [axis_title(path).split() for path in fields]
    alike = 0
    while len(fields) > 1 and all(len(title) > alike + 1 and title[-alike - 1] == titles[0][-alike - 1] for title in titles):
        alike += 1
    ends = titles[0][len(titles[0]) - alike :]
    return " ".join(["/".join(" ".join(title[: len(title) - alike]) for title in titles), *ends])


def settings_text(words: tuple[str, ...]) -> str:
    """Return `2/0/2`; one dash where there is none of them."""
    return DASH if set(words) == {DASH} else "/".join(words)


def _published(cell: Cell, reasons: Sequence[tuple[str, ...]]) -> TableEntry:
    """Return `92.6, differs`; where it is not comparable, `94.0 [1]` with the number of the note that says why."""
    if not cell.placed:
        return TableEntry(DASH)
    published = ", ".join(dict.fromkeys(placed.text for placed in cell.placed))
    outcomes = ", ".join(dict.fromkeys(outcome_words(*one) for one in cell.answers))
    said = f" [{reasons.index(cell.reasons) + 1}]" if cell.reasons else f", {outcomes}"
    hint = "; ".join(filter(None, [_sources(cell), *cell.reasons, cell.deviations]))
    return TableEntry(f"{published}{said}", hint=hint)


def outcome_words(placed: Placed, answer: Answer[str]) -> str:
    """Say the verdict on a published value: its margin, what it takes for granted, and what it lacks."""
    name, found = placed.target.metric, answer.estimate
    computed, margin = metric(name).computed, answer.question.within or 0.0
    said: str = answer.verdict
    if answer.verdict is Verdict.REPRODUCED and not computed:
        said = f"reproduced within {margin:.3g}"
    elif answer.verdict is Verdict.WITHIN_MARGIN and found.value is not None:
        off = found.value - placed.value
        side = "above" if off > 0 else "below"
        said = f"within {margin:.3g}, and {abs(off):.3g} {side}: outside of the prediction interval"
    elif answer.verdict is Verdict.CONSISTENT and Reason.NO_MARGIN in answer.reasons:
        said = "consistent (no margin stated)"
    elif answer.verdict is Verdict.CONSISTENT and answer.seeds_needed:
        said = f"consistent: about {plural(answer.seeds_needed, 'more seed')} to reproduce within {margin:.3g}"
    elif answer.verdict is Verdict.UNDECIDED and answer.reasons:
        said = f"undecided: {answer.reasons[-1]}"
    said += f" ({Reason.POST_HOC})" if placed.late and answer.verdict.tested and not computed else ""
    return f"{said} ({placed.assumed})" if placed.assumed and answer.verdict is not Verdict.NOT_RUN else said


def margin_notes(cells: Sequence[Cell]) -> list[str]:
    """Say the reason of each margin that a verdict goes by."""
    notes: dict[str, None] = {}
    for placed, answer in (found for cell in cells for found in cell.answers if found[1].verdict.tested):
        target, margin = placed.target, answer.question.within
        if margin and target.margin_reason and not metric(target.metric).computed:
            notes[f"margin of {margin:.3g} {metric(target.metric).unit}: {target.margin_reason}"] = None
    return list(notes)


def _sources(cell: Cell) -> str:
    return "; ".join(dict.fromkeys(target.target.cited for target in cell.placed))


def unmatched_targets(table: TableData) -> list[str]:
    """Return the published values with no matching variant: one line a source and reason, values by model and metric."""
    groups: dict[tuple[str, str], dict[tuple[str, str], list[str]]] = {}
    for target, reason in table.unmatched_targets:
        named = f"{target.model or target.where.get('model') or ''} {metric(target.metric).title}"
        group = groups.setdefault((target.cited.partition(" (")[0], reason), {})
        group.setdefault((named, target.unit), []).append(f"{target.value:g}")
    return [
        f"Published with no matching variant, {source} ({reason}): "
        + "; ".join(f"{named} {', '.join(values)} {unit}".strip() for (named, unit), values in group.items())
        for (source, reason), group in groups.items()
    ]


# ------------------------------------------------------------------------------------- the whole, and what is behind it


def table_shown(table: TableData) -> Shown:
    """Make a table whose every number carries the runs behind it."""
    return Shown(table.name, of_table(table), page=printed(table), csv=csv_text(table))


def of_table(table: TableData) -> str:
    """Say who leads by its first measured metric that two variants have; of several places that are ranked apart, nothing."""
    columns = zip(*(row.cells for row in table.rows if row.cells), strict=False)
    labels = [row.label for row in table.rows if row.cells]
    for head, cells in zip(table.columns, columns, strict=False):
        name = cells[0].metric
        if metric(name).computed or head != metric(name).heading or not any(one.best or one.tied for one in cells):
            continue
        best = [label for label, one in zip(labels, cells, strict=True) if one.best]
        if not best:
            return f"no significant difference by {inline(name)}"
        return f"best by {inline(name)}: {' and '.join(best) if len(best) <= LEADERS else f'{len(best)} of {len(cells)}'}"
    return ""
