"""What an axis shows: how far it reaches, and whether its levels are numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd


def powers_of_two(levels: Sequence[float]) -> bool:
    """Whether the levels ask for a log2 axis: three or more, all of them powers of two."""
    return len(levels) > 2 and all(level > 0 and float(np.log2(level)).is_integer() for level in levels)


def y_range(data: pd.DataFrame, bounds: tuple[float, float] | None = None) -> list[float] | None:
    """The axis follows the points and their seeds: a band of two (t = 12.7) may leave it, or it would flatten every line. Beyond
    the metric's bounds it has room for a marker alone."""
    seeds = [float(value) for own in data.get("seeds", ()) for value in own.split()]
    values = [*data["value"].dropna().astype(float), *seeds]
    if not values:
        return None
    low, high = min(values), max(values)
    room = max(high - low, 0.02 * abs(high)) or 10.0
    bands = data[["low", "high"]].astype(float)
    below, above = (max(0.0, float(np.nan_to_num(edge))) for edge in (low - bands["low"].min(), bands["high"].max() - high))
    ends = (low - min(below, room) - 0.1 * room, high + min(above, room) + 0.1 * room)
    least, most = bounds or (-np.inf, np.inf)
    inner = max(ends[0], least), min(ends[1], most)
    marker = 0.04 * (inner[1] - inner[0])
    return [max(ends[0], least - marker), min(ends[1], most + marker)]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
