"""The columns that a list of runs can show, sort by and filter by: settings, metrics, costs and where a run was made.

They are called as `StudyRecords.runs` calls them, axes by their own names. A filter is `NAME=64`, `NAME=64|128` or
`NAME=1..3`, where an end that is left out is open.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan
from typing import Any

from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row, origin
from recstudy.errors import ConfigError, choices, nearest
from recstudy.report import TablePart
from recstudy.report.names import axis_title, level_of, metric, number, plain
from recstudy.terminal import duration

MADE = ("host", "gpu", "commit", "finished")
Value = Callable[[Row], Any]


@dataclass(frozen=True)
class Column:
    """`value` of a run is None where it has none. `kind`: `setting`, `number`, or of the run itself."""

    name: str
    title: str
    value: Value
    words: Callable[[Any], str] = plain
    kind: str = ""


def columns_of(records: StudyRecords, live: set[str]) -> dict[str, Column]:
    """By name; `live` are the runs under way."""
    own = [
        Column("run", "run", lambda row: row.label),
        Column("status", "status", lambda row: "running" if row.id in live else row.status),
        Column("seed", "seed", lambda row: row.seed),
        Column("attempts", "attempts", lambda row: row.attempts),
        Column("variant", "variant", lambda row: row.variant),
    ]
    names = dict.fromkeys(name for names in dict.fromkeys(row.measured for row in records.rows) for name in names)
    numbers = [_number(name) for name in dict.fromkeys([first_metric(records), *names])]
    made = [Column(f"provenance.{name}", axis_title(name), _made(name)) for name in MADE]
    settings = [_setting(records, name) for name in _varied(records)]
    return {one.name: one for one in [*made, *numbers, *settings, *own]}


def usual(records: StudyRecords, columns: Mapping[str, Column], most: int = 6) -> list[str]:
    """The names of those that are shown where nobody has chosen."""
    axes = [name for name in records.plan.axes if name in columns and columns[name].kind == "setting"]
    return ["status", first_metric(records), *axes[:most], "seed", "attempts", *(["seconds"] if "seconds" in columns else [])]


def known(columns: Mapping[str, Column], name: str) -> Column:
    """The column of that name (ConfigError: there is none)."""
    if name not in columns:
        raise ConfigError(f"the runs have no {name!r}: there are {choices(list(columns))}.{nearest(name, list(columns))}")
    return columns[name]


def first_metric(records: StudyRecords) -> str:
    """By which the study is judged: the first metric of its first table."""
    return next((part.shows[0] for part in records.parts if isinstance(part, TablePart) and part.shows), "top1_accuracy")


def levels(column: Column, rows: Iterable[Row]) -> list[Any]:
    """Its values, each once, in order; None is left out."""
    found = {plain(value): value for row in rows if (value := column.value(row)) is not None}
    return sorted(found.values(), key=place)


def ordered(rows: Sequence[Row], column: Column, down: bool) -> list[Row]:
    """Sorted by a column; those without a value are last, whichever way."""
    values = [column.value(row) for row in rows]
    there = [at for at, value in enumerate(values) if not _missing(value)]
    lacking = [row for row, value in zip(rows, values, strict=True) if _missing(value)]
    keys = [place(value) for value in values]
    return [rows[at] for at in sorted(there, key=keys.__getitem__, reverse=down)] + lacking


def place(value: Any) -> tuple[int, float, str]:
    """Where a value stands among others: numbers by their size, before words."""
    counted = _counted(value)
    return (0, counted, "") if counted is not None else (1, 0.0, plain(value))


def condition(asked: str) -> Callable[[Any], bool]:
    """Whether a value is one that a filter asks for."""
    ways = {one.strip().lower() for one in asked.split("|")}
    spans = [span for one in ways if (span := _span(one)) is not None]
    exact = {read for one in ways if (read := _read(one, None)) is not None}

    def fits(value: Any) -> bool:
        counted = _counted(value)
        if counted is None:
            return plain(value).lower() in ways
        return counted in exact or any(low <= counted <= high for low, high in spans)

    return fits


def ranges(numbers: Iterable[int]) -> str:
    """The filter that asks for these whole numbers: `0..2|5`."""
    runs: list[list[int]] = []
    for one in sorted(set(numbers)):
        if runs and runs[-1][1] == one - 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return "|".join(str(low) if low == high else f"{low}..{high}" for low, high in runs)


def _span(asked: str) -> tuple[float, float] | None:
    """The ends of a range; None where it is none."""
    start, dots, end = asked.partition("..")
    low, high = _read(start, -inf), _read(end, inf)
    return (low, high) if dots and low is not None and high is not None else None


def _read(text: str, empty: float | None) -> float | None:
    """A number; `empty` where there is no text, None where it is none."""
    if not text.strip():
        return empty
    try:
        return float(text)
    except ValueError:
        return None


def _counted(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def _varied(records: StudyRecords) -> list[str]:
    """The axes, and the fields that differ between variants and are not what an axis sets."""
    axes = [axis for axis in records.plan.axes if any(axis in one.levels for one in records.variants)]
    fields = dict.fromkeys(path for config in records.configs for path in config)
    varied = records.design.varied - {"model"} - {records.plan.axes[axis] for axis in axes}
    return [*axes, *(path for path in fields if path in varied)]


def _setting(records: StudyRecords, name: str) -> Column:
    values = [level_of(variant, config, name) for variant, config in zip(records.variants, records.configs, strict=True)]
    return Column(name, axis_title(name) if name in records.plan.axes else name, lambda row: values[row.variant], kind="setting")


def _number(name: str) -> Column:
    if name == "seconds":
        return Column(name, "wall time", lambda row: row.value(name), lambda value: duration(float(value)), "number")
    return Column(name, metric(name).heading, lambda row: row.value(name), lambda value: number(name, value), "number")


def _made(name: str) -> Value:
    return lambda row: origin(row.provenance).get(name) if row.result else None
