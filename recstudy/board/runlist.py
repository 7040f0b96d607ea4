"""`/runs/NAME/PRESET`: every run of a study, sorted, filtered and ticked to be compared; all of it stands in the address.

`sort=NAME` or `sort=-NAME`, `find=WORDS`, `columns=NAME,NAME`, `ticked=ID,ID`, and `NAME=...` for a filter of any column:
`NAME=64`, `NAME=64|128` or `NAME=1..3`, where an end that is left out is open. Columns are called as `StudyRecords.runs` calls
them, axes by their own names; `group.x` and its like draw the runs that the filters leave (`grouped.py`). Above the list,
parallel coordinates lead a line through each run's settings to its score; what a reader brushes there (`brush.js`) is a filter
as any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any

from plotly.io.json import to_json_plotly

from recstudy.analysis.figures.theme import blend, is_number
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import Html, escape, fold
from recstudy.analysis.rows import STATUSES, Row
from recstudy.board.columns import ASKED, GROUPED, RunColumn, chosen_rows, columns_of, filters, groupings, known, levels, ordered
from recstudy.board.grouped import group_html, group_of
from recstudy.board.markup import (
    Address,
    Page,
    Recipe,
    Same,
    choice,
    href,
    link,
    page_of,
    run_link,
    state,
    study_link,
    text,
)
from recstudy.board.sources import Sources, main_metric
from recstudy.records import Json
from recstudy.report.names import DASH, metric, plain, plural

FEWEST, MOST = 2, 12  # runs that are compared
OPTIONS = 30  # values of a filter that are proposed
USUAL = 6  # axes that are shown where nobody has chosen


# ------------------------------------------------------------------------------------------------- parallel coordinates

AXES, LINES = 7, 1000  # settings, and lines, beside those of values that no other line has
FEW, TICKS = 12, 6  # values that stand in even steps, and words on an axis that has more
WIDE = 100  # from such a ratio on an axis is logarithmic
HOW = (
    "One line per scored run; orange is better. Drag along an axis, or move the marks at its ends by the "
    "arrow keys, and the list below has the runs within; a click on the axis, or Delete, takes all of them again."
)
SAMPLED = "by lot, and where one of a setting's few values had none of these, its first; axes and list have all runs"


def brush_html(records: StudyRecords) -> str:
    """Write a box that `brush.js` fills, and how to use it: a line a scored run, and axes that have the values of all runs."""
    columns, rows = columns_of(records, set()), scored(records)
    score = columns[main_metric(records)]
    sign = metric(score.name).sign
    settings = [columns[axis] for axis in records.plan.axes if axis in columns] or list(columns.values())
    known = {one.name: levels(one, records.rows) for one in settings if one.kind == "setting"}
    axes = [*[columns[name] for name, values in known.items() if len(values) > 1][:AXES], score]
    known[score.name] = sorted({row.number(score.name) for row in rows})
    at = {name: {plain(value): place for place, value in enumerate(values)} for name, values in known.items()}
    low, high = known[score.name][0], known[score.name][-1]
    lines = []
    drawn = sample(rows, {one.name: (one, len(known[one.name])) for one in axes[:-1]})
    for row in sorted(drawn, key=lambda row: sign * row.number(score.name)):  # the best is drawn last
        share = (row.number(score.name) - low) / (high - low) if high > low else 0.5
        lines.append({
            "at": [at[one.name].get(plain(one.value(row)), -1) for one in axes],  # -1: it has no such setting
            "color": blend(share if sign > 0 else 1 - share),
            "words": f"{row.label}, seed {row.seed}: {score.words(row.number(score.name))}",
        })  # fmt: skip
    shown = to_json_plotly({"axes": [_axis(one, known[one.name]) for one in axes], "lines": lines})
    cut = f" Drawn are {len(drawn):,} of {len(rows):,} runs, {SAMPLED}." if len(drawn) < len(rows) else ""
    box = '<div class="brush" role="group" aria-label="Settings and score of the runs"></div>'
    return f'{box}<script type="application/json">{shown}</script><p class="caption">{escape(HOW + cut)}</p>'


def sample(rows: Sequence[Row], settings: Mapping[str, tuple[RunColumn, int]]) -> list[Row]:
    """Return all of few runs, else `LINES` of them by the order of their ids, which are digests: as good as by lot, and the same
    each time; and where none of these has one of a setting's few values, the first run that has it.

    `settings` have how many values each has.
    """
    if len(rows) <= LINES:
        return list(rows)
    order = sorted(rows, key=lambda row: row.id)
    found = order[:LINES]
    for one, count in (few for few in settings.values() if few[1] <= OPTIONS):
        seen = {plain(one.value(row)) for row in found}
        for row in order[LINES:] if len(seen) < count else ():
            if (value := plain(one.value(row))) not in seen:
                seen.add(value)
                found.append(row)
    return found


def scored(records: StudyRecords) -> list[Row]:
    name = main_metric(records)
    return [row for row in records.rows if row.value(name) is not None]


def _axis(column: RunColumn, values: Sequence[Any]) -> Json:
    """Return its values in order, as filters and in words, and where on it they stand, from 0 to 1."""
    last, numbers = len(values) - 1, all(map(is_number, values))
    heights = [float(at) for at in range(last + 1)]  # even steps, where words or few values are all that there are
    if numbers and (column.kind != "setting" or last >= FEW):
        log = values[0] > 0 and values[-1] / values[0] >= WIDE
        heights = [log10(value) if log else float(value) for value in values]
    low, wide = heights[0], heights[-1] - heights[0]
    return {
        "name": column.name,
        "title": column.title if column.kind == "setting" else metric(column.name).title,
        "numbers": numbers,
        "values": [repr(value) if is_number(value) else plain(value) for value in values],
        "words": [column.words(value) for value in values],
        "heights": [round((height - low) / wide, 4) if wide else 0.5 for height in heights],
        "ticks": [*range(0, last + 1, 1 if last < FEW else max(1, last // TICKS))],
    }


# ----------------------------------------------------------------------------------------------------------------- list


@dataclass(frozen=True)
class RunList:
    """The runs that an address asks for, and the columns that it shows."""

    address: Address
    columns: Mapping[str, RunColumn]
    usual: Sequence[str]  # columns where nobody has chosen
    shown: Sequence[RunColumn]
    rows: Sequence[Row]  # of the study
    chosen: Sequence[Row]
    ticked: Sequence[str]


def runs_page(sources: Sources, address: Address) -> Page:
    """Return the page of the study that the address names.

    Raises:
        ConfigError: there is none.
    """
    _, name, preset = address.path
    records = sources.records((name, preset))
    live = sources.poller.live(sources.poller.studies[name, preset])
    under_way = {run_id for run_id, _ in live}
    head = f"<h1>Runs of {text(name)} ({text(preset)})</h1><p>{study_link(name, preset)}</p>"
    brush = Recipe("brush", "Settings and score", Same(records), lambda: brush_html(records))
    apart = len(records.variants) > 1 and len(scored(records)) > 1  # two runs have a score, and settings that differ
    return Page(
        f"Runs of {name} ({preset})",
        [
            Recipe("head", "", (), lambda: head),
            *([brush] if apart else []),
            *([Recipe("group", "Grouped", (Same(records), live, address), lambda: _group(records, address, under_way))] * apart),
            Recipe("runs", "Runs", (Same(records), live, address), lambda: run_list(records, address, under_way)),
        ],
    )


def run_list(records: StudyRecords, address: Address, live: set[str]) -> str:
    """Show what the list's own address asks for; `live` are the runs under way.

    Raises:
        ConfigError: it names a column that there is not.
    """
    columns = columns_of(records, live)
    axes = [name for name in records.plan.axes if name in columns and columns[name].kind == "setting"]
    usual = ["status", main_metric(records), *axes[:USUAL], "seed", "attempts", "seconds"]
    usual += ["tags"] * any(row.notes.tags for row in records.rows)
    usual = [name for name in usual if name in columns]
    names = [name for name in address.get("columns").split(",") if name] or usual
    rows = chosen_rows(records, columns, address)
    if sort := address.get("sort"):
        rows = ordered(rows, known(columns, sort.removeprefix("-")), sort.startswith("-"))
    ticked = [run_id for run_id in address.get("ticked").split(",") if run_id][:MOST]
    shown = [known(columns, name) for name in names if name != "run"]
    asked = RunList(address, columns, usual, shown, records.rows, rows, ticked)
    where, pages = page_of(address, "runs", len(rows))
    told = _table(asked, rows[where]) if rows[where] else "<p>No run is like this.</p>"
    return _states(asked) + _find(asked) + _filtered(asked, records) + _columns(asked) + told + pages


def _group(records: StudyRecords, address: Address, live: set[str]) -> str:
    """Write the form that asks for a grouping of the runs of the list, and what it asks for."""
    columns = columns_of(records, live)
    settings, numbers = groupings(records, columns)
    group = group_of(address, main_metric(records), list(settings), list(numbers))
    titles = dict(zip(GROUPED, (settings | numbers, numbers, settings, settings), strict=True))
    chosen = chosen_rows(records, columns, address) if group else ()
    fields, drawn = group_html(records, chosen, address, group, titles)
    return _form(address, set(GROUPED), f'{fields}<button type="submit">Draw</button>') + drawn


def _states(asked: RunList) -> Html:
    """Return a link a status, with its count; the one that is shown is marked."""
    found = [asked.columns["status"].value(row) for row in asked.rows]
    links = [("all", "", len(found)), *((word, word, found.count(word)) for word in ("running", *STATUSES) if word in found)]
    now = asked.address.get("status")
    items = [choice(asked.address.changed(status=one, runs=""), f"{name} {count:,}", one == now) for name, one, count in links]
    return Html(f'<nav class="pages" aria-label="Runs by status">{" ".join(items)}</nav>')


def _find(asked: RunList) -> Html:
    """Words to find, and a filter for each column that is shown; what else the address asks for stays."""
    fields = [one for one in asked.shown if one.kind and one.name not in ASKED]
    find = f'<input type="text" name="find" value="{text(asked.address.get("find"))}">'
    words = f"<label>find in label or run id {find}</label>"
    own = "".join(f"<label>{text(one.title)} {_field(one, asked)}</label>" for one in fields)
    note = '<p class="note">Of numbers, a value, some as 64|128, or a range as 1..3, 90.. or ..0.5.</p>'
    button = '<button type="submit">Show</button>'
    unfolded = fold("Filters", f'<div class="fields">{own}</div>{note}') if own else ""
    return _form(asked.address, {"find", "runs", *(one.name for one in fields)}, f"{words}{button}{unfolded}")


def _field(column: RunColumn, asked: RunList) -> str:
    """Return a choice among few values, else a text."""
    own = asked.address.get(column.name)
    values = [plain(value) for value in levels(column, asked.rows)] if column.kind in ("setting", "tags") else []
    if not 0 < len(values) <= OPTIONS:
        return f'<input type="text" name="{text(column.name)}" value="{text(own)}">'
    more = [own] if own and own not in values else []
    options = [("any", ""), *((value, value) for value in [*more, *values])]
    chosen = "".join(
        f'<option value="{text(value)}"{" selected" * (value == own)}>{text(words)}</option>' for words, value in options
    )
    return f'<select name="{text(column.name)}">{chosen}</select>'


def _columns(asked: RunList) -> str:
    """Return which columns are shown, to be chosen from all."""
    now = {one.name for one in asked.shown}
    names = [*asked.usual, *(name for name in asked.columns if name not in (*asked.usual, "run", "variant"))]
    boxes = "".join(
        f'<label class="choice"><input type="checkbox" name="columns" value="{text(name)}"{" checked" * (name in now)}>'
        f"{text(asked.columns[name].title)}</label>"
        for name in names
    )
    button = '<button type="submit">Show these columns</button>'
    return fold("Columns", _form(asked.address, {"columns"}, f'<div class="fields">{boxes}</div>{button}'))


def _form(address: Address, own: set[str], content: str) -> Html:
    """Return a form with fields of its `own`, which leaves the rest of the query as it is."""
    kept = "".join(
        f'<input type="hidden" name="{text(name)}" value="{text(value)}">' for name, value in address.query if name not in own
    )
    return Html(f'<form action="{escape(href(*address.path))}" method="get">{kept}{content}</form>')


def _filtered(asked: RunList, records: StudyRecords) -> str:
    """Return how many runs there are of all, and each filter with a link that takes it away."""
    told = {name: f"{asked.columns[name].title} {value}" for name, value in filters(asked.address).items()}
    one = asked.address.get("variant")  # by its label
    if one.isascii() and one.isdigit() and int(one) < len(records.variants):
        told["variant"] = f"variant {records.variants[int(one)].label}"
    if words := asked.address.get("find").strip():
        told["find"] = f"with “{words}”"
    links = [
        f'<a class="chip" href="{escape(asked.address.changed(**{name: "", "runs": ""}))}" '
        f'aria-label="without the filter: {text(said)}">{text(said)} \N{MULTIPLICATION SIGN}</a>'
        for name, said in told.items()
    ]
    return f'<p role="status">{len(asked.chosen):,} of {plural(len(asked.rows), "run")} {" ".join(links)}</p>'


def _table(asked: RunList, rows: Sequence[Row]) -> str:
    """Return the rows with a box to tick each, in a form that compares those that are ticked."""
    count = len(asked.ticked)
    ready = count >= FEWEST
    none = link(asked.address.changed(ticked=""), "untick all") if count else ""
    words = f"Compare {plural(count, 'run')}" if ready else f"Compare: tick {FEWEST} to {MOST} runs"
    button = f'<button type="submit"{"" if ready else " disabled"}>{words}</button>'
    bar = f'<div class="ticked">{button} <span role="status">{count} ticked</span> {none}</div>'
    left = {one.name: ' class="setting"' for one in asked.shown if _of_words(one, asked.rows)}
    sides = [left.get(one.name, "") for one in asked.shown]
    run = asked.columns["run"]
    top = "".join(
        _head(one, asked.address, side) for one, side in zip([run, *asked.shown], [' class="setting"', *sides], strict=True)
    )
    heads = [f' data-head="{text(one.title)}"{side}' for one, side in zip(asked.shown, sides, strict=True)]
    body = "\n".join(f"<tr>{_row(row, asked, heads)}</tr>" for row in rows)
    box = '<div class="scroll" tabindex="0" role="region" aria-label="Runs">'
    table = f'{box}<table class="stack runs"><thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'
    kept = f'<input type="hidden" name="runs" value="{text(",".join(asked.ticked))}">'
    return f'<form action="/compare" method="get" class="whole">{kept}{bar}{table}</form>'


def _of_words(column: RunColumn, rows: Sequence[Row]) -> bool:
    """Return whether a column has words, which stand on the left."""
    return isinstance(next((value for row in rows if (value := column.value(row)) is not None), 0), str)


def _head(column: RunColumn, address: Address, side: str) -> str:
    """Return a column's name, which sorts by it, or the other way round where it does already."""
    now = address.get("sort")
    up, down = now == column.name, now == f"-{column.name}"
    first, then = (f"-{column.name}", column.name) if column.kind == "number" else (column.name, f"-{column.name}")
    target = address.changed(sort=then if now == first else first, runs="")
    sorted_ = f' aria-sort="{"ascending" if up else "descending"}"' if up or down else ""
    arrow = " ▲" if up else " ▼" if down else ""
    return f'<th scope="col"{side}{sorted_}><a href="{escape(target)}">{text(column.title)}{arrow}</a></th>'


def _row(row: Row, asked: RunList, heads: Sequence[str]) -> str:
    ticked = row.id in asked.ticked
    off = " checked" if ticked else " disabled" if len(asked.ticked) >= MOST else ""
    box = f'<input type="checkbox" class="tick" value="{text(row.id)}" aria-label="tick {text(row.label)}, seed {row.seed}"{off}>'
    entries = ""
    for column, head in zip(asked.shown, heads, strict=True):
        value = column.value(row)
        words = state(value) if column.name == "status" else text("" if value is None else column.words(value) or DASH)
        entries += f"<td{head}>{words}</td>"
    return f'<th scope="row">{box} {run_link(row.id, row.label)}</th>{entries}'
