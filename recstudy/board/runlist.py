"""`/runs/NAME/PRESET`: every run of a study, sorted, filtered and ticked to be compared; all of it stands in the address.

`sort=NAME` or `sort=-NAME`, `find=WORDS`, `columns=NAME,NAME`, `ticked=ID,ID`, and `NAME=...` for a filter of any column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import Html, escape, fold
from recstudy.analysis.rows import STATUSES, Row
from recstudy.board.brush import brush_html, scored
from recstudy.board.columns import Column, columns_of, condition, known, levels, ordered, usual
from recstudy.board.markup import Address, Page, Recipe, Same, choice, href, link, page_of, run_link, state, study_link, text
from recstudy.board.sources import Sources
from recstudy.report.names import DASH, plain, plural

ASKED = ("find", "sort", "columns", "ticked", "runs")  # what the query says beside the filters
FEWEST, MOST = 2, 12  # runs that are compared
OPTIONS = 30  # values of a filter that are proposed


def runs_page(sources: Sources, address: Address) -> Page:
    """The page of the study that the address names.

    Raises:
        ConfigError: there is none.
    """
    _, name, preset = address.path
    records = sources.kept.records((name, preset))
    live = sources.live(sources.watch.studies[name, preset])
    under_way = {run_id for run_id, _ in live}
    head = f"<h1>Runs of {text(name)} ({text(preset)})</h1><p>{study_link(name, preset)}</p>"
    brush = [Recipe("brush", "Settings and score", Same(records), lambda: brush_html(records))] if _brushed(records) else []
    return Page(
        f"Runs of {name} ({preset})",
        [
            Recipe("head", "", (), lambda: head),
            *brush,
            Recipe("runs", "Runs", (Same(records), live, address), lambda: run_list(records, address, under_way)),
        ],
    )


def _brushed(records: StudyRecords) -> bool:
    """Whether two runs have a score, and settings that tell them apart."""
    return len(scored(records)) > 1 and len(records.variants) > 1


@dataclass(frozen=True)
class List:
    """The runs that an address asks for, and the columns that it shows."""

    address: Address
    columns: Mapping[str, Column]
    shown: Sequence[Column]
    rows: Sequence[Row]  # of the study
    chosen: Sequence[Row]
    ticked: Sequence[str]


def run_list(records: StudyRecords, address: Address, live: set[str]) -> str:
    """What the list's own address asks for; `live` are those under way.

    Raises:
        ConfigError: it names a column that there is not.
    """
    asked = chosen(records, address, live)
    where, pages = page_of(asked.address, "runs", len(asked.chosen))
    rows = asked.chosen[where]
    told = _table(asked, rows) if rows else "<p>No run is like this.</p>"
    return (
        _states(asked) + _find(asked) + _filtered(asked, records) + _columns(asked, usual(records, asked.columns)) + told + pages
    )


def chosen(records: StudyRecords, address: Address, live: set[str]) -> List:
    columns = columns_of(records, live)
    names = [name for name in address.get("columns").split(",") if name] or usual(records, columns)
    rows = [row for row in records.rows if _found(row, address.get("find").lower().split())]
    for name, asked in filters(address).items():
        value, fits = known(columns, name).value, condition(asked)
        rows = [row for row in rows if fits(value(row))]
    sort = address.get("sort")
    if sort:
        rows = ordered(rows, known(columns, sort.removeprefix("-")), sort.startswith("-"))
    ticked = [run_id for run_id in address.get("ticked").split(",") if run_id]
    return List(address, columns, [known(columns, name) for name in names if name != "run"], records.rows, rows, ticked[:MOST])


def filters(address: Address) -> dict[str, str]:
    """Column -> what its values must be like."""
    return {name: asked for name, asked in address.query if name not in ASKED and asked}


def _found(row: Row, words: Sequence[str]) -> bool:
    label = row.label.lower()
    return all(word in label or word in row.id for word in words)


def _states(asked: List) -> Html:
    """A link a status, with its count; the one that is shown is marked."""
    status = asked.columns["status"].value
    found = [status(row) for row in asked.rows]
    links = [("all", "", len(found)), *((word, word, found.count(word)) for word in ("running", *STATUSES) if word in found)]
    now = asked.address.get("status")
    items = [choice(asked.address.but(status=value, runs=""), f"{name} {count:,}", value == now) for name, value, count in links]
    return Html(f'<nav class="pages" aria-label="Runs by status">{" ".join(items)}</nav>')


def _find(asked: List) -> Html:
    """Words to find, and a filter for each column that is shown; what else the address asks for stays."""
    fields = [one for one in asked.shown if one.kind and one.name not in ASKED]
    words = _label("find in label or run id", f'<input type="text" name="find" value="{text(asked.address.get("find"))}">')
    own = "".join(_label(one.title, _field(one, asked)) for one in fields)
    gone = {"find", "runs", *(one.name for one in fields)}
    hidden = _hidden({name: value for name, value in asked.address.query if name not in gone})
    button = '<button type="submit">Show</button>'
    note = '<p class="note">Of numbers, a value, some as 64|128, or a range as 1..3, 90.. or ..0.5.</p>'
    return _form(asked, f"{hidden}{words}{button}{fold('Filters', _fields(own) + note) if own else ''}")


def _field(column: Column, asked: List) -> str:
    """A choice among few values, else a text."""
    own = asked.address.get(column.name)
    values = [plain(value) for value in levels(column, asked.rows)] if column.kind == "setting" else []
    if not 0 < len(values) <= OPTIONS:
        return f'<input type="text" name="{text(column.name)}" value="{text(own)}">'
    more = [own] if own and own not in values else []
    options = [("any", ""), *((value, value) for value in [*more, *values])]
    return f'<select name="{text(column.name)}">' + "".join(
        f'<option value="{text(value)}"{" selected" * (value == own)}>{text(words)}</option>' for words, value in options
    ) + "</select>"  # fmt: skip


def _columns(asked: List, usual: Sequence[str]) -> str:
    """Which columns are shown, to be chosen from all."""
    now = {one.name for one in asked.shown}
    names = [*usual, *(name for name in asked.columns if name not in (*usual, "run", "variant"))]
    boxes = "".join(
        f'<label class="choice"><input type="checkbox" name="columns" value="{text(name)}"{" checked" * (name in now)}>'
        f"{text(asked.columns[name].title)}</label>"
        for name in names
    )
    hidden = _hidden({name: value for name, value in asked.address.query if name != "columns"})
    return fold("Columns", _form(asked, f'{hidden}{_fields(boxes)}<button type="submit">Show these columns</button>'))


def _filtered(asked: List, records: StudyRecords) -> str:
    """How many runs there are of all, and each filter with a link that takes it away."""
    count = f"{len(asked.chosen):,} of {plural(len(asked.rows), 'run')}"
    told = [
        (name, f"{asked.columns[name].title} {_said(name, value, records)}") for name, value in filters(asked.address).items()
    ]
    told += [("find", f"with “{words}”")] if (words := asked.address.get("find").strip()) else []
    links = [_chip(asked.address.but(**{name: "", "runs": ""}), said) for name, said in told]
    return f'<p role="status">{text(count)} {" ".join(links)}</p>'


def _chip(target: str, said: str) -> str:
    words = f"{text(said)} \N{MULTIPLICATION SIGN}"
    return f'<a class="chip" href="{escape(target)}" aria-label="without the filter: {text(said)}">{words}</a>'


def _said(name: str, value: str, records: StudyRecords) -> str:
    """A filter's value; one variant by its label."""
    if name == "variant" and value.isascii() and value.isdigit() and int(value) < len(records.variants):
        return records.variants[int(value)].label
    return value


def _table(asked: List, rows: Sequence[Row]) -> str:
    """The rows with a box to tick each, in a form that compares those that are ticked."""
    count = len(asked.ticked)
    ready = count >= FEWEST
    none = link(asked.address.but(ticked=""), "untick all") if count else ""
    words = f"Compare {plural(count, 'run')}" if ready else f"Compare: tick {FEWEST} to {MOST} runs"
    button = f'<button type="submit"{"" if ready else " disabled"}>{words}</button>'
    bar = f'<div class="ticked">{button} <span role="status">{count} ticked</span> {none}</div>'
    heads = [asked.columns["run"], *asked.shown]
    top = "".join(_head(one, asked.address, _side(one, asked)) for one in heads)
    sides = [f' data-head="{text(one.title)}"{_side(one, asked)}' for one in asked.shown]
    body = "\n".join(f"<tr>{_row(row, asked, sides)}</tr>" for row in rows)
    box = '<div class="scroll" tabindex="0" role="region" aria-label="Runs">'
    table = f'{box}<table class="stack runs"><thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'
    kept = f'<input type="hidden" name="runs" value="{text(",".join(asked.ticked))}">'
    return f'<form action="/compare" method="get" class="whole">{kept}{bar}{table}</form>'


def _side(column: Column, asked: List) -> str:
    """Words stand on the left, numbers on the right."""
    value = next((value for row in asked.rows if (value := column.value(row)) is not None), 0)
    return ' class="setting"' if isinstance(value, str) else ""


def _head(column: Column, address: Address, side: str) -> str:
    """A column's name, which sorts by it, or the other way round where it does already."""
    now = address.get("sort")
    up, down = now == column.name, now == f"-{column.name}"
    first, then = (f"-{column.name}", column.name) if column.kind == "number" else (column.name, f"-{column.name}")
    target = address.but(sort=then if now == first else first, runs="")
    sorted_ = f' aria-sort="{"ascending" if up else "descending"}"' if up or down else ""
    arrow = " ▲" if up else " ▼" if down else ""
    return f'<th scope="col"{side}{sorted_}><a href="{escape(target)}">{text(column.title)}{arrow}</a></th>'


def _row(row: Row, asked: List, sides: Sequence[str]) -> str:
    ticked = row.id in asked.ticked
    off = " disabled" * (not ticked and len(asked.ticked) >= MOST)
    box = f'<input type="checkbox" class="tick" value="{text(row.id)}" aria-label="tick {text(row.label)}, seed {row.seed}"'
    entries = [f"<td{side}>{_entry(one, row)}</td>" for one, side in zip(asked.shown, sides, strict=True)]
    return f'<th scope="row">{box}{" checked" * ticked}{off}> {run_link(row.id, row.label)}</th>{"".join(entries)}'


def _entry(column: Column, row: Row) -> Html:
    value: Any = column.value(row)
    if column.name == "status":
        return state(value)
    return text("" if value is None else column.words(value) or DASH)


def _form(asked: List, content: str) -> Html:
    return Html(f'<form action="{escape(href(*asked.address.path))}" method="get">{content}</form>')


def _fields(content: str) -> str:
    return f'<div class="fields">{content}</div>'


def _label(words: str, field: str) -> str:
    return f"<label>{text(words)} {field}</label>"


def _hidden(query: Mapping[str, str]) -> str:
    return "".join(f'<input type="hidden" name="{text(name)}" value="{text(value)}">' for name, value in query.items())
