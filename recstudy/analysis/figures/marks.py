"""What stands in a panel: lines, points, bands, error bars and cells, and how far its axes reach."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from recstudy.analysis.figures.theme import shown
from recstudy.report.names import metric

STEPS = (1, 2, 5)  # ticks within a decade, where a logarithmic range has fewer than three


def scatter(
    x: Iterable[Any], y: Iterable[Any], hover: Iterable[str] | None = None, name: str = "", **look: Any
) -> dict[str, Any]:
    """Make a trace of lines, markers or words; without `hover` it answers to no pointer, without a name to no legend."""
    words = {"hoverinfo": "skip"} if hover is None else {"hovertext": list(map(shown, hover)), "hoverinfo": "text"}
    return {"x": list(x), "y": list(y), **words, **({"name": shown(name)} if name else {"showlegend": False}), **look}


def marked(look: Mapping[str, str]) -> dict[str, Any]:
    """Give a line with markers this look."""
    line = {"color": look["color"], "dash": look["dash"]}
    return {"line": line, "marker": {"symbol": look["symbol"], "size": 9}}


def band(x: Sequence[Any], points: pd.DataFrame, fill: str) -> dict[str, Any]:
    """Fill the area from `low` to `high` of the points."""
    ends = [*points["high"], *points["low"][::-1]]
    return scatter([*x, *reversed(x)], ends, mode="lines", fill="toself", fillcolor=fill, line={"width": 0})


def whiskers(values: Iterable[float], low: Iterable[float], high: Iterable[float], **look: Any) -> dict[str, Any]:
    """Make the error bars of points, from `low` to `high`."""
    places = list(values)
    up, down = ([abs(end - value) for end, value in zip(ends, places, strict=True)] for ends in (high, low))
    return {"array": up, "arrayminus": down, "symmetric": False, **look}


def heat(x: Iterable[Any], y: Iterable[Any], z: Any, hover: Sequence[str], gap: int = 0, **look: Any) -> dict[str, Any]:
    """Make the cells of a heat map, `gap` pixels apart; `hover` goes row by row."""
    columns, said = list(x), list(map(shown, hover))
    rows = [said[start : start + len(columns)] for start in range(0, len(said), len(columns) or 1)]
    return {"x": columns, "y": list(y), "z": z, "hovertext": rows, "hoverinfo": "text", "xgap": gap, "ygap": gap, **look}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def ordered(levels: Sequence[Any]) -> list[Any]:
    """Each level once: numbers in their order, words in the study's."""
    known = list(dict.fromkeys(levels))
    return sorted(known) if all(map(is_number, known)) else known


def powers_of_two(levels: Sequence[float]) -> bool:
    """Whether the levels ask for a log2 axis: three or more, all of them powers of two."""
    return len(levels) > 2 and all(level > 0 and float(np.log2(level)).is_integer() for level in levels)


def y_range(*columns: pd.Series | Sequence[float]) -> list[float] | None:
    """Reach from the lowest to the highest of all these values with some room: no interval and no seed is cut off."""
    values = [float(value) for column in columns for value in column if pd.notna(value)]
    if not values:
        return None
    low, high = min(values), max(values)
    room = 0.05 * (high - low) or 0.02 * abs(high) or 1.0
    return [low - room, high + room]


def bounded(name: str) -> dict[str, Any]:
    """End the axis of a metric where the metric does."""
    low, high = metric(name).bounds or (-math.inf, math.inf)
    ends = {"clipmin": low, "clipmax": high}
    return {"autorangeoptions": {end: value for end, value in ends.items() if math.isfinite(value)}}


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of two between two of them, else decades, or 1, 2, 5 where there are fewer than three, or else both ends."""
    doubled = [low * 2**step for step in range(int(math.log2(high / low)) + 1)]
    if powers_of_two(doubled) and doubled[-1] == high and len(doubled) <= 10:
        return doubled
    decades = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    fine = [step * 10.0**decade for decade in decades for step in STEPS]
    steps = [tick for tick in fine if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
    whole = [tick for tick in steps if math.isclose(math.log10(tick), round(math.log10(tick)), abs_tol=1e-9)]
    return whole if len(whole) > 2 else steps if len(steps) > 1 else sorted({low, high})
