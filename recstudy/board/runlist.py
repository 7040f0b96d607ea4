"""`/runs/NAME/PRESET`: every run of a study, sorted, filtered and ticked to be compared; all of it stands in the address.

`sort=NAME` or `sort=-NAME`, `find=WORDS`, `columns=NAME,NAME`, `ticked=ID,ID`, and `NAME=...` for a filter of any column:
`NAME=64`, `NAME=64|128` or `NAME=1..3`, where an end that is left out is open. Columns are called as `StudyRecords.runs` calls
them, axes by their own names. Above the list, parallel coordinates lead a line through each run's settings to its score; what a
reader brushes there (`brush.js`) is a filter as any other.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf, log10
from typing import Any

from plotly.io.json import to_json_plotly

from recstudy.analysis.figures.theme import blend
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import Html, escape, fold
from recstudy.analysis.rows import STATUSES, Row, origin
from recstudy.board.markup import Address, Page, Recipe, Same, choice, href, link, page_of, run_link, state, study_link, text
from recstudy.board.sources import Sources, main_metric
from recstudy.errors import ConfigError, choices, nearest
from recstudy.records import Json
from recstudy.report.names import DASH, axis_title, level_of, metric, number, plain, plural
from recstudy.terminal import duration

ASKED = ("find", "sort", "columns", "ticked", "runs")  # what the query says beside the filters
FEWEST, MOST = 2, 12  # runs that are compared
OPTIONS = 30  # values of a filter that are proposed
USUAL = 6  # axes that are shown where nobody has chosen
MADE = ("host", "gpu", "commit", "finished")


# -------------------------------------------------------------------------------------------------------------- columns


@dataclass(frozen=True)
class RunColumn:
    """`value` of a run is None where it has none. `kind`: `setting`, `number`, or of the run itself."""

    name: str
    title: str
    value: Callable[[Row], Any]
    words: Callable[[Any], str] = plain
    kind: str = ""


def columns_of(records: StudyRecords, live: set[str]) -> dict[str, RunColumn]:
    """Return what a list of runs can show, sort by and filter by, by name; `live` are the runs under way."""

    def number_of(name: str) -> RunColumn:
        if name == "seconds":
            return RunColumn(name, "wall time", lambda row: row.value(name), lambda value: duration(float(value)), "number")
        return RunColumn(name, metric(name).heading, lambda row: row.value(name), lambda value: number(name, value), "number")

    def setting(name: str) -> RunColumn:
        values = [level_of(variant, config, name) for variant, config in zip(records.variants, records.configs, strict=True)]
        title = axis_title(name) if name in records.plan.axes else name
        return RunColumn(name, title, lambda row: values[row.variant], kind="setting")

    def origin_of(name: str) -> RunColumn:
        return RunColumn(
            f"provenance.{name}", axis_title(name), lambda row: origin(row.provenance).get(name) if row.result else None
        )

    own = [
        RunColumn("run", "run", lambda row: row.label),
        RunColumn("status", "status", lambda row: "running" if row.id in live else row.status),
        RunColumn("seed", "seed", lambda row: row.seed),
        RunColumn("attempts", "attempts", lambda row: row.attempts),
        RunColumn("variant", "variant", lambda row: row.variant),
        RunColumn("tags", "tags", lambda row: row.notes.tags or None, ", ".join, kind="tags"),
        RunColumn("notes", "notes", lambda row: "; ".join(row.notes.words) or None),
    ]
    names = dict.fromkeys(name for names in dict.fromkeys(row.measured for row in records.rows) for name in names)
    numbers = map(number_of, dict.fromkeys(filter(None, [main_metric(records), *names])))
    axes = [axis for axis in records.plan.axes if any(axis in one.levels for one in records.variants)]
    fields = dict.fromkeys(path for config in records.configs for path in config)
    varied = records.design.varied - {"model"} - {records.plan.axes[axis] for axis in axes}  # and is not what an axis sets
    settings = map(setting, [*axes, *(path for path in fields if path in varied)])
    return {one.name: one for one in [*map(origin_of, MADE), *numbers, *settings, *own]}


def known(columns: Mapping[str, RunColumn], name: str) -> RunColumn:
    """Return the column of that name (ConfigError: there is none)."""
    if name not in columns:
        raise ConfigError(f"the runs have no {name!r}: there are {choices(list(columns))}.{nearest(name, list(columns))}")
    return columns[name]


def levels(column: RunColumn, rows: Iterable[Row]) -> list[Any]:
    """Return its values, each once, in order; None is left out."""
    values = (value for row in rows if (value := column.value(row)) is not None)
    found = {plain(one): one for value in values for one in (value if isinstance(value, tuple) else (value,))}
    return sorted(found.values(), key=place)


def ordered(rows: Sequence[Row], column: RunColumn, down: bool) -> list[Row]:
    """Sort by a column; those without a value are last, whichever way."""
    values = [(column.value(row), row) for row in rows]
    there = [(value, row) for value, row in values if value is not None and value == value]  # no NaN
    lacking = [row for value, row in values if value is None or value != value]
    return [row for _, row in sorted(there, key=lambda one: place(one[0]), reverse=down)] + lacking


def place(value: Any) -> tuple[int, float, str]:
    """Return where a value stands among others: numbers by their size, before words."""
    return (0, float(value), "") if _is_number(value) else (1, 0.0, plain(value))


def condition(asked: str) -> Callable[[Any], bool]:
    """Return the test whether a value is one that a filter asks for."""
    ways = {one.strip().lower() for one in asked.split("|")}
    exact = {read for one in ways if (read := _read(one, None)) is not None}
    ends = [(_read(start, -inf), _read(end, inf)) for start, dots, end in (one.partition("..") for one in ways) if dots]
    spans = [(low, high) for low, high in ends if low is not None and high is not None]

    def fits(value: Any) -> bool:
        if isinstance(value, tuple):  # tags
            return any(map(fits, value))
        if not _is_number(value):
            return plain(value).lower() in ways
        return value in exact or any(low <= value <= high for low, high in spans)

    return fits


def ranges(numbers: Iterable[int]) -> str:
    """Return the filter that asks for these whole numbers: `0..2|5`."""
    steps = groupby(enumerate(sorted(set(numbers))), key=lambda one: one[1] - one[0])  # equal along a run of neighbours
    runs = [[one for _, one in group] for _, group in steps]
    return "|".join(str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs)


def _read(text: str, empty: float | None) -> float | None:
    """Return a number; `empty` where there is no text, None where it is none."""
    try:
        return float(text) if text.strip() else empty
    except ValueError:
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# ------------------------------------------------------------------------------------------------- parallel coordinates

AXES, LINES = 7, 1000  # settings, and lines
FEW, TICKS = 12, 6  # values that stand in even steps, and words on an axis that has more
WIDE = 100  # from such a ratio on an axis is logarithmic
HOW = (
    "One line per scored run; orange is better. Drag along an axis, or move the marks at its ends by the "
    "arrow keys, and the list below has the runs within; a click on the axis, or Delete, takes all of them again."
)


def brush_html(records: StudyRecords) -> str:
    """Write a box that `brush.js` fills, and how to use it: a line a scored run, and axes that have the values of all runs."""
    columns, rows = columns_of(records, set()), scored(records)
    score = columns[main_metric(records)]
    sign = metric(score.name).sign
    best = sorted(rows, key=lambda row: sign * row.number(score.name))[-LINES:]  # the best is drawn last
    settings = [columns[axis] for axis in records.plan.axes if axis in columns] or list(columns.values())
    known = {one.name: levels(one, records.rows) for one in settings if one.kind == "setting"}
    axes = [*[columns[name] for name, values in known.items() if len(values) > 1][:AXES], score]
    known[score.name] = sorted({row.number(score.name) for row in rows})
    at = {name: {plain(value): place for place, value in enumerate(values)} for name, values in known.items()}
    low, high = known[score.name][0], known[score.name][-1]
    lines = []
    for row in best:
        share = (row.number(score.name) - low) / (high - low) if high > low else 0.5
        lines.append({
            "at": [at[one.name].get(plain(one.value(row)), -1) for one in axes],  # -1: it has no such setting
            "color": blend(share if sign > 0 else 1 - share),
            "words": f"{row.label}, seed {row.seed}: {score.words(row.number(score.name))}",
        })  # fmt: skip
    shown = to_json_plotly({"axes": [_axis(one, known[one.name]) for one in axes], "lines": lines})
    cut = f" Drawn are the {LINES:,} best of {len(rows):,}." if len(rows) > LINES else ""
    box = '<div class="brush" role="group" aria-label="Settings and score of the runs"></div>'
    return f'{box}<script type="application/json">{shown}</script><p class="caption">{escape(HOW + cut)}</p>'


def scored(records: StudyRecords) -> list[Row]:
    name = main_metric(records)
    return [row for row in records.rows if row.value(name) is not None]


def _axis(column: RunColumn, values: Sequence[Any]) -> Json:
    """Return its values in order, as filters and in words, and where on it they stand, from 0 to 1."""
    last, numbers = len(values) - 1, all(map(_is_number, values))
    heights = [float(at) for at in range(last + 1)]  # even steps, where words or few values are all that there are
    if numbers and (column.kind != "setting" or last >= FEW):
        log = values[0] > 0 and values[-1] / values[0] >= WIDE
        heights = [log10(value) if log else float(value) for value in values]
    low, wide = heights[0], heights[-1] - heights[0]
    return {
        "name": column.name,
        "title": column.title if column.kind == "setting" else metric(column.name).title,
        "numbers": numbers,
        "values": [repr(value) if _is_number(value) else plain(value) for value in values],
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
    words = address.get("find").lower().split()
    rows = [row for row in records.rows if all(word in row.label.lower() or word in row.id for word in words)]
    for name, value in filters(address).items():
        own, fits = known(columns, name).value, condition(value)
        rows = [row for row in rows if fits(own(row))]
    if sort := address.get("sort"):
        rows = ordered(rows, known(columns, sort.removeprefix("-")), sort.startswith("-"))
    ticked = [run_id for run_id in address.get("ticked").split(",") if run_id][:MOST]
    shown = [known(columns, name) for name in names if name != "run"]
    asked = RunList(address, columns, usual, shown, records.rows, rows, ticked)
    where, pages = page_of(address, "runs", len(rows))
    told = _table(asked, rows[where]) if rows[where] else "<p>No run is like this.</p>"
    return _states(asked) + _find(asked) + _filtered(asked, records) + _columns(asked) + told + pages


def filters(address: Address) -> dict[str, str]:
    """Return column -> what its values must be like."""
    return {name: asked for name, asked in address.query if name not in ASKED and asked}


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
    return _form(asked, {"find", "runs", *(one.name for one in fields)}, f"{words}{button}{unfolded}")


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
    return fold("Columns", _form(asked, {"columns"}, f'<div class="fields">{boxes}</div>{button}'))


def _form(asked: RunList, own: set[str], content: str) -> Html:
    """Return a form with fields of its `own`, which leaves the rest of the query as it is."""
    kept = "".join(
        f'<input type="hidden" name="{text(name)}" value="{text(value)}">'
        for name, value in asked.address.query
        if name not in own
    )
    return Html(f'<form action="{escape(href(*asked.address.path))}" method="get">{kept}{content}</form>')


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
