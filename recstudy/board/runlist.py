"""`/runs/NAME/PRESET`: a table of a study's runs. The query may name a column to sort by, a status and variants.

`sort=NAME` sorts upwards and `sort=-NAME` downwards, `status=failed` shows the failed runs, and `variant=0-3,5` the runs of
these variants, as the links of tables and of the overview ask. `load(FOLDER).runs` has the same rows for pandas.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from recstudy.board.markup import Address, Page, PagePart, choice, page_of, run_link, state, study_link, text
from recstudy.board.sources import Sources, main_metric
from recstudy.errors import ConfigError, choices, nearest
from recstudy.report.look import is_number
from recstudy.report.markup import Html, table
from recstudy.report.names import DASH, axis_title, level_of, metric, number, plain
from recstudy.report.rows import STATUSES, Row, origin
from recstudy.report.study_records import StudyRecords
from recstudy.terminal import duration

MAX_AXES = 8  # columns of settings; the report and `load().runs` have all


@dataclass(frozen=True)
class Column:
    """A column of the table: its name in the query, its heading, and its value and text for a run."""

    name: str
    title: str
    value: Callable[[Row], Any]
    format: Callable[[Any], str] = plain


def runs_page(sources: Sources, address: Address) -> Page:
    """Return the page of the study that the address names.

    Raises:
        ConfigError: There is no such study, or no such column.
    """
    _, name, preset = address.path
    records = sources.records((name, preset))
    head = f"<h1>Runs of {text(name)} ({text(preset)})</h1><p>{study_link(name, preset)}</p>"
    runs = run_list(records, address, set(sources.poller.running))
    return Page(f"Runs of {name} ({preset})", [PagePart("head", "", head), PagePart("runs", "Runs", runs)])


def run_list(records: StudyRecords, address: Address, running: set[str]) -> str:
    """Return the table of runs as HTML.

    Args:
        records: The study's records.
        address: The address of the run list, with its query.
        running: The ids of runs in progress.

    Raises:
        ConfigError: The address sorts by an unknown column.
    """
    columns = {column.name: column for column in list_columns(records, running)}
    rows = filter_rows(records.rows, address, running)
    sort = address.get("sort")
    if sort:
        rows = sort_rows(rows, find_column(columns, sort.removeprefix("-")), descending=sort.startswith("-"))
    shown, pages = page_of(address, "runs", len(rows))
    cells = [[_cell(column, row) for column in columns.values()] for row in rows[shown]]
    heads = [column.title for column in columns.values()]
    content = table("Runs", heads, cells, kind="stack") if cells else "<p>No run matches.</p>"
    return _status_links(records, address, running) + _sort_links(columns.values(), address) + content + pages


def list_columns(records: StudyRecords, running: set[str]) -> list[Column]:
    """Return the columns: run, status, main metric, settings that vary, seed, attempts, wall time and origin."""
    score = main_metric(records)
    columns = [
        Column("run", "run", lambda row: row.label),
        Column("status", "status", lambda row: run_status(row, running)),
    ]
    if score:
        title = metric(score).heading
        columns.append(Column(score, title, lambda row: row.value(score), lambda value: number(score, value)))
    axes = [axis for axis in records.plan.axes if any(axis in variant.levels for variant in records.variants)]
    columns += [_axis_column(records, axis) for axis in axes[:MAX_AXES]]
    columns += [
        Column("seed", "seed", lambda row: row.seed),
        Column("attempts", "attempts", lambda row: row.attempts),
        Column("seconds", "wall time", lambda row: row.value("seconds"), lambda value: duration(float(value))),
        Column("host", "host", lambda row: origin(row.provenance).get("host") if row.result else None),
        Column("finished", "finished", lambda row: origin(row.provenance).get("finished") if row.result else None),
    ]
    return columns


def _axis_column(records: StudyRecords, axis: str) -> Column:
    pairs = zip(records.variants, records.configs, strict=True)
    levels = [level_of(variant, config, axis) for variant, config in pairs]
    return Column(axis, axis_title(axis), lambda row: levels[row.variant])


def run_status(row: Row, running: set[str]) -> str:
    return "running" if row.id in running else row.status


def filter_rows(rows: Iterable[Row], address: Address, running: set[str]) -> list[Row]:
    """Return the runs with the status and the variants that the address names."""
    status, variants = address.get("status"), address.get("variant")
    numbers = parse_ranges(variants)
    return [
        row for row in rows if (not status or run_status(row, running) == status) and (not variants or row.variant in numbers)
    ]


def sort_rows(rows: Iterable[Row], column: Column, descending: bool) -> list[Row]:
    """Sort by a column: numbers before words, and runs without a value last in either direction."""
    pairs = [(column.value(row), row) for row in rows]
    present = [(value, row) for value, row in pairs if value is not None and value == value]  # NaN != NaN
    absent = [row for value, row in pairs if value is None or value != value]
    ordered = sorted(present, key=lambda pair: sort_key(pair[0]), reverse=descending)
    return [row for _, row in ordered] + absent


def sort_key(value: Any) -> tuple[int, float, str]:
    return (0, float(value), "") if is_number(value) else (1, 0.0, plain(value))


def find_column(columns: dict[str, Column], name: str) -> Column:
    if name not in columns:
        names = list(columns)
        raise ConfigError(f"the runs have no column {name!r}: there are {choices(names)}.{nearest(name, names)}")
    return columns[name]


def format_ranges(numbers: Iterable[int]) -> str:
    """Write whole numbers as the query has them: `0-2,5`."""
    steps = groupby(enumerate(sorted(set(numbers))), key=lambda pair: pair[1] - pair[0])  # equal along neighbours
    runs = [[value for _, value in group] for _, group in steps]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def parse_ranges(words: str) -> set[int]:
    """Read `0-2,5`; a word that is no number or range matches nothing."""
    numbers: set[int] = set()
    for word in words.split(","):
        low, dash, high = word.partition("-")
        if low.isdecimal() and (high if dash else low).isdecimal() and max(len(low), len(high)) < 9:
            numbers.update(range(int(low), min(int(high if dash else low), int(low) + 100_000) + 1))
    return numbers


def _status_links(records: StudyRecords, address: Address, running: set[str]) -> Html:
    counts = Counter(run_status(row, running) for row in records.rows)
    links = [("all", "", len(records.rows))]
    links += [(word, word, counts[word]) for word in ("running", *STATUSES) if counts[word]]
    current = address.get("status")
    items = [
        choice(address.changed(status=status, runs=""), f"{name} {count:,}", status == current) for name, status, count in links
    ]
    return Html(f'<nav class="pages" aria-label="Runs by status">{" ".join(items)}</nav>')


def _sort_links(columns: Iterable[Column], address: Address) -> Html:
    """Return a link for each column; the link of the column that sorts the table reverses the order."""
    current = address.get("sort")
    items = []
    for column in columns:
        is_sorted = current.removeprefix("-") == column.name
        arrow = " ▼" if current.startswith("-") else " ▲"
        target = f"-{column.name}" if current == column.name else column.name
        items.append(choice(address.changed(sort=target, runs=""), f"{column.title}{arrow * is_sorted}", is_sorted))
    return Html(f'<nav class="pages" aria-label="Sort runs"><span>Sort by</span> {" ".join(items)}</nav>')


def _cell(column: Column, row: Row) -> Html:
    value = column.value(row)
    if column.name == "run":
        return run_link(row.id, row.label)
    if column.name == "status":
        return state(value)
    return text("" if value is None else column.format(value) or DASH)
