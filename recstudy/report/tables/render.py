"""Formatting rules of tables: a cell in words, the same for every writer, and a table of cells as lines and
as CSV.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from recstudy.evidence import Answer, Reason, Verdict, Why
from recstudy.lazy import pd
from recstudy.records.runs import Row
from recstudy.report.caveats import IMPORTED, IMPORTED_RESULTS
from recstudy.report.cells import Cell, TableData, commit_words
from recstudy.report.family import published_answers
from recstudy.report.names import DASH, axis_title, inline, metric, number, plural
from recstudy.report.shown import RenderedPart
from recstudy.report.table import PUBLISHED, Interval, Number, Piece, PrintedTable, TableEntry
from recstudy.report.targets import MatchedTarget, deviation_text

LEADERS = 2  # that a heading names
WIDEST = 9  # columns that a page has room for: published columns beyond that become lines below ours
FEW = 5  # seeds whose values a tooltip lists

Content = tuple[Piece, ...]


def cell_text(cell: Cell) -> str:
    """Return `94.2 [93.4, 95.0] (n=3)`, with what is missing or failed."""
    return "".join(map(str, cell_content(cell)))


def cell_content(cell: Cell) -> Content:
    """Return a cell with the number of its seeds."""
    return (*number_content(cell), *([f" (n={seeds_counted(cell)})"] if _is_measured(cell) else []))


def number_content(cell: Cell) -> Content:
    """Return `94.2 [93.4, 95.0]`, `2 of 3 learned (9 to 99 %): 93.5`, the mean of those, or why there is no
    number.
    """
    form, why = metric(cell.metric).form, "; ".join([*cell.unavailable, *_lost(cell)])
    if cell.value is None and cell.unavailable:
        return (f"not available ({why})",)
    if cell.value is None:
        return (f"{DASH} {why or ('' if any(run.done for run in cell.runs) else 'not run')}".strip(),)
    # a count that follows from the config needs no interval; over several configs, its range
    if metric(cell.metric).computed:
        ends = {
            number(cell.metric, value): Number(value, form) for value in (min(cell.values), max(cell.values))
        }
        least, *most = ends.values()
        return (least, DASH, *most) if most else (least,)
    return (*_measured(cell, cell.value, form), *([" (imported)"] if _imported(cell) == IMPORTED else []))


def _measured(cell: Cell, value: float, form: str) -> Content:
    estimate, split = cell.estimate, cell.estimate.split
    if estimate.why in (Why.CEILING, Why.FLOOR) and estimate.n > 1:
        seeds = f"{estimate.n} of {plural(estimate.n, 'seed')}"
        if split:
            seeds = (
                f"{split.learned} of {split.of} learned, \N{GREATER-THAN OR EQUAL TO} {100 * split.low:.0f} %"
            )
        return Number(value, form), f" ({seeds})"
    if split and estimate.why is Why.SPLIT:
        share = f"{100 * split.low:.0f} to {100 * split.high:.0f} %"
        return f"{split.learned} of {split.of} learned ({share}): ", Number(split.given, form)
    if estimate.interval is None:
        return (Number(value, form),)
    mark = [" (may split)"] if estimate.why is Why.MAY_SPLIT else []
    return Number(value, form), " ", Interval(*estimate.interval, form), *mark


def _is_measured(cell: Cell) -> bool:
    return cell.value is not None and not metric(cell.metric).computed


def _imported(cell: Cell) -> str:
    """Return what is from elsewhere; empty if the runs were trained here."""
    if cell.records.imported.isdisjoint(cell.variants):
        return ""
    return IMPORTED_RESULTS if cell.records.is_own else IMPORTED


def seeds_counted(cell: Cell) -> str:
    """Return `3`, or `2 of 3; 1 failed: code`."""
    of = f" of {cell.expected}" if cell.n < cell.expected else ""
    unavailable = sum(run.done for run in cell.runs) - len(cell.counted)
    why = [f"{unavailable} not available: {'; '.join(cell.unavailable)}"] if cell.unavailable else []
    return "; ".join([f"{cell.n}{of}", *_lost(cell), *why])


def _lost(cell: Cell) -> list[str]:
    lost = Counter(f"failed: {run.error_class}" for run in cell.all_runs if run.failed)
    lost["with damaged answers"] = len(cell.damages)
    lost["diverged"], lost["stopped early"] = cell.count("diverged"), cell.count("stopped")
    return [f"{count} {state}" for state, count in lost.items() if count]


# -------------------------------------------------------------------------------------------------------- as
# lines


def printed(table: TableData) -> PrintedTable:
    """Return the table as lines of entries, the same for every writer.

    A number of seeds, a setting or a count that is the same in every row is in the caption, not in a column.
    """
    seeds = [list(dict.fromkeys(map(seeds_counted, filter(_is_measured, row.cells)))) for row in table.rows]
    every = list(dict.fromkeys(chain(*seeds)))
    by_row = len(every) > 1 and all(len(counts) <= 1 for counts in seeds)
    content = cell_content if len(every) > 1 and not by_row else number_content
    # each set once, numbered in the notes
    reasons = list(dict.fromkeys(cell.reasons for cell in table.cells if cell.reasons))
    columns = zip(*(row.cells for row in table.rows if row.cells), strict=True)
    published = [any(cell.matches for cell in cells) for cells in columns] or [False] * len(table.columns)
    blank = [TableEntry("")] * len(table.settings)
    beneath = table.beneath or 1 + len(blank) + len(published) + sum(published) + by_row > WIDEST
    heads, lines = [table.corner, *map(settings_title, table.settings)], []
    for head, has_published in zip(table.columns, published, strict=True):
        heads += [head, PUBLISHED] if has_published and not beneath else [head]
    for row, counts in zip(table.rows, seeds, strict=True):
        if row.published:
            line = [TableEntry(row.label), *blank]
            for value, has_published in zip(row.published, published, strict=True):
                entry = TableEntry(value.text, hint=value.target.cited) if value else TableEntry(DASH)
                line += [entry] if beneath or not has_published else [TableEntry(DASH), entry]
            lines.append([*line, *[TableEntry(DASH)] * by_row])
            continue
        # such as `2/0/2`
        settings = [DASH if set(words) == {DASH} else "/".join(words) for words in row.settings]
        line = [TableEntry(row.label), *map(TableEntry, settings)]
        theirs = [_published(cell, reasons) for cell in row.cells]
        for cell, entry, has_published in zip(row.cells, theirs, published, strict=bool(row.cells)):
            line += [cell_entry(cell, content), *([entry] if has_published and not beneath else [])]
        lines.append([*line, *([TableEntry(next(iter(counts), DASH))] if by_row and row.cells else [])])
        if beneath and any(cell.matches for cell in row.cells):
            lines.append([TableEntry(PUBLISHED), *blank, *theirs, *[TableEntry("")] * by_row])
    caption = [table.caption, *(f"n={count}" for count in every if len(every) == 1)]
    page = PrintedTable(
        name=table.name,
        title=table.title,
        heads=heads + ["n"] * by_row,
        lines=lines,
        caption="; ".join(filter(None, caption)),
        study_notes=table.study_notes,
        warnings=table.warnings,
        notes=[
            *table.notes,
            *margin_notes(table.cells),
            *(f"[{position}] not comparable: {'; '.join(why)}" for position, why in enumerate(reasons, 1)),
        ],
        settings=len(table.settings),
    )
    return page.drop_constants()


def cell_entry(cell: Cell, content: Callable[[Cell], Content] = cell_content) -> TableEntry:
    """Return the number as it stands in a table, with its interval and its runs."""
    base = cell.base.counted if cell.base else []
    intervals = {"95 % interval": cell.estimate, "over seeds and items": cell.items}
    hint = []
    for words, estimate in intervals.items():
        hint += [f"{words} {Interval(*estimate.interval, '.6g')}"] if estimate and estimate.interval else []
    if 1 < cell.n <= FEW and not base and _is_measured(cell):
        hint.append(f"seeds {', '.join(number(cell.metric, value) for value in cell.values)}")
    against = f" against {' '.join(run.id for run in base)}" if base else ""
    behind = (
        f"{' '.join(cell.run_ids)}{against}; {seeds_text([*cell.counted, *base])}" if cell.counted else ""
    )
    hint.append(f"{cell.n} of {cell.expected} runs: {behind or 'none'}")
    runs = tuple(run.id for run in (*cell.runs, *base))
    return TableEntry(
        content(cell), cell.best, "; ".join(hint), f"runs {behind}" if behind else "", runs, cell.second
    )


def seeds_text(runs: Sequence[Row]) -> str:
    """Return the seeds of some runs and the code that made them."""
    seeds = dict.fromkeys(str(run.seed) for run in runs)
    return "; ".join(
        [f"seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}", *dict.fromkeys(map(commit_words, runs))]
    )


def settings_title(fields: tuple[str, ...]) -> str:
    """Return `high/middle/low cycles` of three fields that end alike, `weights/tuned` of two that do not."""
    titles = [axis_title(path).split() for path in fields]
    alike = len({title[-1] for title in titles}) == 1 and len(fields) > 1
    words = "/".join(" ".join(title[:-1] if alike else title) for title in titles)
    return f"{words} {titles[0][-1]}" if alike else words


def _published(cell: Cell, reasons: Sequence[tuple[str, ...]]) -> TableEntry:
    """Return `92.6, differs`; if it is not comparable, `94.0 [1]` with the number of the note that says why.

    The section of published values has the verdict in full; here it is in the tooltip.
    """
    if not cell.matches:
        return TableEntry(DASH)
    values = ", ".join(dict.fromkeys(match.text for match in cell.matches))
    verdict = f" [{reasons.index(cell.reasons) + 1}]" if cell.reasons else f", {', '.join(verdicts(cell))}"
    outcomes = dict.fromkeys(outcome_words(*answer) for answer in published_answers(cell))
    hints = [_sources(cell), *(cell.reasons or outcomes), _deviations(cell)]
    return TableEntry(values + verdict, hint="; ".join(filter(None, hints)))


def outcome_words(match: MatchedTarget, answer: Answer[str]) -> str:
    """Return the verdict on a published value: its margin, what it assumes, and what it lacks."""
    name, margin = match.target.metric, answer.question.within or 0.0
    words: str = answer.verdict
    shown = answer.shown_difference
    if answer.verdict is Verdict.AGREES and not metric(name).computed:
        words = f"agrees within {margin:.3g}"
    elif answer.verdict is Verdict.UNDECIDED:
        difference = (
            [f"these seeds show differences from {shown:.2g} on"]
            if answer.p is not None and shown is not None
            else []
        )
        words = f"undecided: {'; '.join([*answer.reasons, *difference])}".removesuffix(": ")
    words += f" ({Reason.POST_HOC})" if match.late and answer.adjusted is not None else ""
    return f"{words} ({match.assumed})" if match.assumed and answer.verdict is not Verdict.NOT_RUN else words


def verdicts(cell: Cell) -> tuple[Verdict, ...]:
    """Return the different verdicts on the published values beside a cell."""
    return tuple(dict.fromkeys(answer.verdict for _, answer in published_answers(cell)))


def margin_notes(cells: Sequence[Cell]) -> list[str]:
    """Return the reason of each margin that a verdict goes by."""
    notes: dict[str, None] = {}
    for match, answer in chain.from_iterable(map(published_answers, cells)):
        target, margin = match.target, answer.question.within
        if (
            answer.adjusted is not None
            and margin
            and target.margin_reason
            and not metric(target.metric).computed
        ):
            notes[f"margin of {margin:.3g} {metric(target.metric).unit}: {target.margin_reason}"] = None
    return list(notes)


def _sources(cell: Cell) -> str:
    return "; ".join(dict.fromkeys(match.target.cited for match in cell.matches))


def _deviations(cell: Cell) -> str:
    """Return how the settings of comparable values differ from the paper, as the study states it."""
    return "; ".join(
        dict.fromkeys(deviation_text(stated) for match in cell.matches for stated in match.deviations)
    )


# -----------------------------------------------------------------------------------------------------------
# whole


def table_shown(table: TableData) -> RenderedPart:
    """Return a table with the runs behind each of its numbers."""
    return RenderedPart(table.name, finding(table), printed_table=printed(table), csv=csv_text(table))


def csv_text(table: TableData) -> str:
    """Return a line for each cell, in full precision, with a column for each field of the settings."""
    lines, group = [], ""
    counts = Counter(row.label for row in table.rows if row.cells)
    for row in table.rows:
        group = group if row.cells or row.published else row.label
        label = f"{group}, {row.label}" if counts[row.label] > 1 else row.label  # groups may repeat a label
        fields = [field for fields in table.settings for field in fields]
        settings = dict(zip(fields, chain.from_iterable(row.settings), strict=bool(row.cells)))
        for column, cell in zip(table.columns, row.cells, strict=bool(row.cells)):
            lines.append({"row": label, "column": column} | _fields(cell) | settings)
        for column, value in zip(table.columns, row.published, strict=bool(row.published)):
            if value:
                source = {
                    "published": repr(value.value),
                    "sources": value.target.cited,
                    "metric": value.target.metric,
                }
                lines.append({"row": f"{group}, {row.label}", "column": column} | source)
    return pd.DataFrame(lines, columns=None if lines else ["row", "column"], dtype=object).to_csv(index=False)


def _fields(cell: Cell) -> dict[str, Any]:
    items, base = cell.items, cell.base.run_ids if cell.base else ()
    assumed = dict.fromkeys([*(match.assumed for match in cell.matches), _imported(cell)])
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
        "assumed": "; ".join(filter(None, assumed)),
        "low_items": items.low if items else None,
        "high_items": items.high if items else None,
    }


def finding(table: TableData) -> str:
    """Return who leads by the first measured metric that is compared within a column; empty if there is
    none.
    """
    rows = [row for row in table.rows if row.cells]
    for head, cells in zip(table.columns, zip(*(row.cells for row in rows), strict=False), strict=False):
        name = cells[0].metric
        best = [row.label for row, cell in zip(rows, cells, strict=True) if cell.best]
        if (
            head != metric(name).heading
            or metric(name).computed
            or not (best or any(cell.tied for cell in cells))
        ):
            continue
        leaders = " and ".join(best) if len(best) <= LEADERS else f"{len(best)} of {len(cells)}"
        return (
            f"best by {inline(name)}: {leaders}" if best else f"no significant difference by {inline(name)}"
        )
    return ""
