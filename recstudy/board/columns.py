"""What a list of runs can show, sort, filter and group by: columns by name, and which runs the filters of an address leave."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import Any

from recstudy.analysis.figures.theme import is_number
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row, origin
from recstudy.board.markup import Address
from recstudy.board.sources import main_metric
from recstudy.errors import ConfigError, choices, nearest
from recstudy.report.names import axis_title, level_of, metric, number, plain
from recstudy.terminal import duration

GROUPED = ("group.x", "group.y", "group.colour", "group.facet")  # what the query says of `grouped.py`
ASKED = ("find", "sort", "columns", "ticked", "runs", *GROUPED)  # what it says beside the filters
MADE = ("host", "gpu", "commit", "finished")


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
    return records.once(("columns", frozenset(live)), lambda: _columns(records, live))


def _columns(records: StudyRecords, live: set[str]) -> dict[str, RunColumn]:
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
    return (0, float(value), "") if is_number(value) else (1, 0.0, plain(value))


def condition(asked: str) -> Callable[[Any], bool]:
    """Return the test whether a value is one that a filter asks for."""
    ways = {one.strip().lower() for one in asked.split("|")}
    exact = {read for one in ways if (read := _read(one, None)) is not None}
    ends = [(_read(start, -inf), _read(end, inf)) for start, dots, end in (one.partition("..") for one in ways) if dots]
    spans = [(low, high) for low, high in ends if low is not None and high is not None]

    def fits(value: Any) -> bool:
        if isinstance(value, tuple):  # tags
            return any(map(fits, value))
        if not is_number(value):
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


def filters(address: Address) -> dict[str, str]:
    """Return column -> what its values must be like."""
    return {name: asked for name, asked in address.query if name not in ASKED and asked}


def chosen_rows(records: StudyRecords, columns: Mapping[str, RunColumn], address: Address) -> list[Row]:
    """Return the runs that the words and filters of an address leave (ConfigError: it names a column that there is not)."""
    words = address.get("find").lower().split()
    rows = [row for row in records.rows if all(word in row.label.lower() or word in row.id for word in words)]
    for name, value in filters(address).items():
        own, fits = known(columns, name).value, condition(value)
        rows = [row for row in rows if fits(own(row))]
    return rows


def groupings(records: StudyRecords, columns: Mapping[str, RunColumn]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings that runs are told apart by, and their metrics and costs, each with what it is called."""
    settings = {one.name: one.title for one in columns.values() if one.kind == "setting"}
    for name in ("model", "data"):
        if len({getattr(one, name) for one in records.variants}) > 1:
            settings.setdefault(name, name)
    return settings, {one.name: one.title for one in columns.values() if one.kind == "number"}
