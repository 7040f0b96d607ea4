"""Turn the cells of a table into entries for every writer, and into the CSV.

Tables call `table_shown`. `outcome_words` also serves the findings and the section of published values.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from recstudy.base.lazy import pd
from recstudy.base.terminal import scaled_unit
from recstudy.evidence import ALPHA, Answer, Reason, Verdict
from recstudy.papers import passage
from recstudy.records.runs import Row
from recstudy.report.cell_text import (
    Content,
    cell_content,
    imported_mark,
    is_measured,
    number_content,
    seeds_counted,
)
from recstudy.report.cells import UNTESTED, Cell, commit_words, rank_rows
from recstudy.report.family import published_answers
from recstudy.report.names import (
    DASH,
    at_alpha,
    axis_title,
    formatted,
    inline,
    join_labels,
    join_texts,
    level_words,
    metric,
    number,
    plural,
    value_text,
    varied_axes,
)
from recstudy.report.shown import RenderedPart
from recstudy.report.table import Interval, Number, Piece, TableData, TableEntry, TableRow
from recstudy.report.targets import MatchedTarget, deviation_text

LEADERS = 2  # variants that a heading names; it counts the others
WIDEST = 9  # columns that fit a page; in a wider table, published values become lines below ours
NUMBER = re.compile(r"-?[\d,]+(\.\d+)?")  # at the start of a published value such as `3.6 M`
NUMERIC = re.compile(r"-?[\d,.]+(e-?\d+)?")  # a setting that is a number
COUNT = re.compile(r"[1-9]\d{4,}")
LISTED_SEEDS = 5  # a tooltip lists the values of at most so many seeds


# ---------------------------------------------------------------------------------------------- lines


def lay_out(table: TableData) -> TableData:
    """Return the table with entries in place of cells, settings and counts of seeds.

    If a number of seeds, a setting or a count is the same in every row, the caption states it instead of a
    column.
    """
    seeds = [dict.fromkeys(map(seeds_counted, filter(is_measured, row.cells))) for row in table.rows]
    all_counts = list(dict.fromkeys(chain(*seeds)))
    # n: in the caption if it is one for all, in a column if it is one for each row, else in each cell
    by_row = len(all_counts) > 1 and all(len(counts) <= 1 for counts in seeds)
    content = cell_content if len(all_counts) > 1 and not by_row else number_content
    # each set of reasons has one number and one note
    reasons = list(dict.fromkeys(cell.reasons for cell in table.cells if cell.reasons))
    rows = []
    factors, columns, expendable = _readable_units(table)
    for row, counts in zip(table.rows, seeds, strict=True):
        # several settings in one column, such as the cycles 2/0/2
        words = [DASH if {*values} == {DASH} else "/".join(values) for values in row.settings]
        # a long count such as the number of parameters, but no year and no name such as 007
        words = [f"{int(word):,}" if COUNT.fullmatch(word) else word for word in words]
        entries = list(map(TableEntry, words))
        for cell, factor in zip(row.cells, factors, strict=bool(row.cells)):
            entry = cell_entry(cell, content(cell, factor))
            entries.append(replace(entry, published=_published_entry(cell, reasons)))
        if by_row and row.cells:
            entries.append(TableEntry(next(iter(counts), DASH)))
        label = row.label if table.has_labels or not entries else entries.pop(0).text
        rows.append(TableRow(label, entries))
    corner, *settings = [*[table.corner] * table.has_labels, *map(settings_title, table.settings)]
    notes = [f"[{position}] not comparable: {'; '.join(why)}" for position, why in enumerate(reasons, 1)]
    kinds = {}
    for position, title in enumerate(settings):
        texts = {row.cells[position].text for row in rows if row.cells} - {DASH}
        kinds[title] = "number" if all(map(NUMERIC.fullmatch, texts)) else "setting"
    page = replace(
        table,
        corner=corner,
        columns=(*settings, *columns, *["n"] * by_row),
        rows=rows,
        notes=(*table.notes, *margin_notes(table.cells), *notes),
        kinds=kinds,
        expendable=expendable,
    )
    is_wide = 1 + len(page.columns) + sum(page.are_published) > WIDEST
    count = f"n={all_counts[0]}" if len(all_counts) == 1 else ""
    caption = join_texts(table.caption, count)
    return replace(page, beneath=table.beneath or is_wide, caption=caption).state_constants()


def split_labels(table: TableData) -> TableData:
    """Return the table with a column for each factor in place of labels that state the levels of several.

    The caption states the levels that all variants share.
    """
    rows = [row for row in table.rows if row.cells]
    if len(rows) < 2 or any(len({cell.variants for cell in row.cells}) > 1 for row in rows):
        return table
    records, positions = rows[0].cells[0].records, [row.cells[0].variants[0] for row in rows]
    variants = [records.variants[position] for position in positions]
    varied = varied_axes(variants)
    common = [level_words(axis, level) for axis, level in variants[0].levels.items() if axis not in varied]
    table = replace(table, caption=join_texts(table.caption, ", ".join(common)))
    axes = [axis for axis in varied if level_words(axis, variants[0].levels.get(axis)) in rows[0].label]
    words = [[level_words(axis, variant.levels.get(axis)) for axis in axes] for variant in variants]
    if (
        len(axes) < 2
        or table.settings
        or [", ".join(parts) for parts in words] != [row.label for row in rows]
    ):
        return table
    levels = iter([[[value_text(variant.levels[axis])] for axis in axes] for variant in variants])
    split_rows = [replace(row, settings=next(levels)) if row.cells else row for row in table.rows]
    return replace(table, rows=split_rows, settings=[[axis] for axis in axes], has_labels=False)


def _readable_units(table: TableData) -> tuple[list[float], list[str], list[str]]:
    """Return a factor and the head of each column, and the heads of the costs.

    FLOPs get a unit that gives 1 to 1,000, unless the column has published values.
    """
    factors, heads, costs = [], [], list[str]()
    for position, head in enumerate(table.columns):
        cells: list[Cell] = [row.cells[position] for row in table.rows if row.cells]
        definition, factor = metric(cells[0].metric if cells else ""), 1.0
        has_published = any(cell.matches for cell in cells)
        if definition.computed and head == definition.heading and not has_published:
            factor, unit = scaled_unit(definition.unit, max(abs(cell.value or 0.0) for cell in cells))
            head = head.replace(definition.unit, unit)
        factors.append(factor)
        heads.append(head)
        # costs without published values are left out first, the last one before the others
        if definition.computed or definition.timed:
            costs.insert(len(costs) * has_published, head)
    return factors, heads, costs


def cell_entry(cell: Cell, content: Content) -> TableEntry:
    """Return the entry of a cell with this content, and its intervals, seeds and runs in the tooltip."""
    base = cell.ours.counted if cell.ours else []
    intervals = {"95 % interval": cell.estimate, "over seeds and items": cell.items}
    hint = []
    for words, estimate in intervals.items():
        hint += [f"{words} {Interval(*estimate.interval, '.6g')}"] if estimate.interval else []
    if 1 < cell.n <= LISTED_SEEDS and not base and is_measured(cell):
        interval = cell.estimate.interval
        hint.append(f"seeds {', '.join(number(cell.metric, value, interval) for value in cell.values)}")
    against = f" against {' '.join(run.id for run in base)}" * bool(base)
    origin = ""
    if cell.counted:
        origin = f"{' '.join(cell.run_ids)}{against}; {seeds_text([*cell.counted, *base])}"
    hint.append(f"{cell.n} of {plural(cell.expected, 'run')}: {origin or 'none'}")
    runs = tuple(run.id for run in (*cell.runs, *base))
    return TableEntry(content, cell.best, "; ".join(hint), f"runs {origin}" if origin else "", runs)


def seeds_text(runs: Sequence[Row]) -> str:
    """Return the seeds of the runs and the commits of the code that they ran."""
    seeds = dict.fromkeys(str(run.seed) for run in runs)
    commits = dict.fromkeys(map(commit_words, runs))
    return "; ".join([f"seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}", *commits])


def settings_title(fields: Sequence[str]) -> str:
    """Return the head of a column of settings: `high/middle/low cycles`, or `weights/tuned`.

    If the names of several fields end in the same word, it is written once, at the end.
    """
    titles = [axis_title(path).split() for path in fields]
    share_last_word = len({title[-1] for title in titles}) == 1 and len(fields) > 1
    words = "/".join(" ".join(title[:-1] if share_last_word else title) for title in titles)
    return f"{words} {titles[0][-1]}" if share_last_word else words


def _published_entry(cell: Cell, reasons: Sequence[tuple[str, ...]]) -> TableEntry:
    """Return the published values of a cell with their verdict: `92.6, differs`.

    If they are not comparable, the entry has the number of the note with the reasons: `94.0 [1]`. The tooltip
    has the whole verdict.
    """
    if not cell.matches:
        return TableEntry(DASH)
    values = ", ".join(dict.fromkeys(match.text for match in cell.matches))
    first = NUMBER.match(values)
    pieces: tuple[Piece, ...] = (values,)
    if first:
        form = f",.{len(first[0].partition('.')[2])}f"
        pieces = (Number(float(first[0].replace(",", "")), form), values[first.end() :])
    verdict = f" [{reasons.index(cell.reasons) + 1}]" if cell.reasons else f", {', '.join(verdicts(cell))}"
    outcomes = dict.fromkeys(outcome_words(*answer) for answer in published_answers(cell))
    passages = dict.fromkeys(passage(match.target) for match in cell.matches)
    hints = [_sources(cell), *passages, *(cell.reasons or outcomes), _deviations(cell)]
    return TableEntry((*pieces, verdict), hint=join_texts(*hints))


def outcome_words(match: MatchedTarget, answer: Answer) -> str:
    """Return the verdict on a published value in words, with its margin and what it assumes."""
    name, margin = match.target.metric, answer.question.half_width or 0.0
    words: str = answer.verdict
    smallest = answer.shown_difference
    if answer.verdict is Verdict.AGREES and not metric(name).computed:
        words = f"agrees within {formatted(margin, '.3g')}"
    elif answer.verdict is Verdict.UNDECIDED:
        explanations = [*answer.reasons]
        if answer.p is not None and smallest is not None:
            explanations.append(f"these seeds detect differences of {formatted(smallest, '.2g')} or more")
        words = f"undecided: {'; '.join(explanations)}".removesuffix(": ")
    if match.late and answer.adjusted is not None:
        words += f" ({Reason.POST_HOC})"
    if answer.p is not None and answer.question.alpha != ALPHA:
        words += f" ({at_alpha(answer.question.alpha)})"
    if match.assumed and answer.verdict is not Verdict.NOT_RUN:
        words += f" ({match.assumed})"
    return words


def verdicts(cell: Cell) -> tuple[Verdict, ...]:
    """Return the distinct verdicts on the published values of a cell."""
    return tuple(dict.fromkeys(answer.verdict for _, answer in published_answers(cell)))


def margin_notes(cells: Sequence[Cell]) -> list[str]:
    """Return a note with the reason of each margin that decides a verdict."""
    notes: dict[str, None] = {}
    for match, answer in chain.from_iterable(map(published_answers, cells)):
        target, margin = match.target, answer.question.half_width
        is_measured = not metric(target.metric).computed
        if answer.adjusted is not None and margin and target.margin_reason and is_measured:
            notes[
                f"margin of {formatted(margin, '.3g')} {metric(target.metric).unit}: {target.margin_reason}"
            ] = None
    return list(notes)


def _sources(cell: Cell) -> str:
    return "; ".join(dict.fromkeys(match.target.cited for match in cell.matches))


def _deviations(cell: Cell) -> str:
    """Return the stated deviations of our settings from those of the comparable published values."""
    return "; ".join(
        dict.fromkeys(deviation_text(deviation) for match in cell.matches for deviation in match.deviations)
    )


# ---------------------------------------------------------------------------------------------- whole table


def table_shown(table: TableData) -> RenderedPart:
    """Return the rendered part: the table, its finding and its CSV."""
    page = table if table.has_order else replace(table, rows=rank_rows(table.rows))
    return RenderedPart(table.name, finding(table), table=lay_out(split_labels(page)), csv=csv_text(table))


def csv_text(table: TableData) -> str:
    """Return the CSV: a line for each cell in full precision, and a column for each field of the settings."""
    lines, group = [], ""
    counts = Counter(row.label for row in table.rows if row.cells)
    for row in table.rows:
        group = group if row.cells else row.label
        # groups may repeat a label; the CSV has no group headings to tell such rows apart
        label = f"{group}, {row.label}" if counts[row.label] > 1 else row.label
        fields = [field for fields in table.settings for field in fields]
        settings = dict(zip(fields, chain.from_iterable(row.settings), strict=bool(row.cells)))
        for column, cell in zip(table.columns, row.cells, strict=bool(row.cells)):
            lines.append({"row": label, "column": column} | _fields(cell) | settings)
    return pd.DataFrame(lines, columns=None if lines else ["row", "column"], dtype=object).to_csv(index=False)


def _fields(cell: Cell) -> dict[str, Any]:
    base = cell.ours.run_ids if cell.ours else ()
    assumed = dict.fromkeys([*(match.assumed for match in cell.matches), imported_mark(cell)])
    return {
        "metric": cell.metric,
        "unit": metric(cell.metric).unit,
        "mean": cell.value,
        "low": cell.low,
        "high": cell.high,
        "n": cell.n,
        "expected": cell.expected,
        "failed": cell.count("failed"),
        "diverged": cell.count("diverged"),
        "published": " ".join(dict.fromkeys(f"{match.value!r}" for match in cell.matches)),
        "sources": _sources(cell),
        "verdict": ", ".join(verdicts(cell)),
        "reasons": "; ".join(cell.reasons),
        "run_ids": " ".join([*cell.run_ids, *base]),
        "synthetic": cell.synthetic,
        "unavailable": "; ".join(cell.unavailable),
        "deviations": _deviations(cell),
        "assumed": join_texts(*assumed),
        "low_items": cell.items.low,
        "high_items": cell.items.high,
    }


def leaders(table: TableData) -> tuple[list[tuple[str, Cell]], bool]:
    """Return the marked cells of the first measured metric that ranks variants, and whether they are compared
    with each other.

    A label names the variant, and the column or group within which it is compared. Cells that are compared
    with each other are in the order of their values, the best first.
    """
    group, marked = "", list[tuple[list[str], Cell]]()
    for row in table.rows:
        group = group if row.cells else row.label
        for column, cell in zip(table.columns, row.cells, strict=False):
            if cell.mark and not metric(cell.metric).computed:
                heads = ("", metric(cell.metric).heading)
                marked.append(([part for part in (row.label, column, group) if part not in heads], cell))
    metrics = {cell.metric for _, cell in marked}
    name = next((cell.metric for cell in table.cells if cell.metric in metrics), "")
    cells = [
        (" (".join(parts) + ")" * (len(parts) - 1), cell) for parts, cell in marked if cell.metric == name
    ]
    is_single = all(len(parts) == 1 for parts, _ in marked)
    if is_single:
        cells.sort(key=lambda entry: entry[1].score, reverse=True)
    return cells, is_single


def finding(table: TableData) -> str:
    """Return the best variants by the first measured metric that ranks variants; empty without one."""
    cells, is_single = leaders(table)
    if not cells:
        return ""
    name = cells[0][1].metric
    best = [label for label, cell in cells if cell.best]
    if not best and not any(cell.has_spread for _, cell in cells):
        return ""  # nothing is tested
    if not best:
        return f"no significant difference by {inline(name)}"
    tie = f" ({'not all tested' if UNTESTED in {cell.mark for _, cell in cells} else 'tie'})" * (
        is_single and len(best) > 1
    )
    return f"best by {inline(name)}: {join_labels(best, ' and ', LEADERS)}{tie}"
