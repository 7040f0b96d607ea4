"""An axis for each searched field: linear, logarithmic or one place a choice, the same wherever the field is drawn."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from recstudy.analysis.figures.axes import powers_of_two
from recstudy.analysis.figures.theme import shown
from recstudy.records import Json
from recstudy.records.study_schema import Range
from recstudy.report.levels import same
from recstudy.report.names import plain

FEW = 10  # whole numbers that can each have a tick
STEPS = (1, 2, 5)  # ticks within a decade, where a logarithmic range has fewer than three


@dataclass(frozen=True)
class Scale:
    """Where a field's values stand: `ticks` is position -> words, `ends` the lowest and highest position."""

    ends: tuple[float, float]
    ticks: dict[float, str]
    log: bool = False
    choices: tuple[Any, ...] = ()

    def at(self, value: Any) -> float:
        """The position of a value: its rank among the choices, its logarithm, or itself."""
        if self.choices:
            return float(_place(value, self.choices))
        return math.log10(value) if self.log else float(value)

    @property
    def axis(self) -> Json:
        """For a Plotly axis with a little room at both ends."""
        room = 0.5 if self.choices else 0.06 * (self.ends[1] - self.ends[0])
        return {
            "range": [self.ends[0] - room, self.ends[1] + room],
            "tickmode": "array",
            "tickvals": list(self.ticks),
            "ticktext": list(self.ticks.values()),
        }


def scale(ranges: Iterable[Range], values: Iterable[Any]) -> Scale:
    """The axis of a field that families search in these `ranges`, and whose trials have these `values`."""
    stated, seen = list(ranges), list(values)
    if any(one.choices for one in stated):
        return _categories([*(value for one in stated for value in one.choices), *seen])
    low, high = min([*seen, *(one.low for one in stated)]), max([*seen, *(one.high for one in stated)])
    if low == high:
        return Scale((low - 1, low + 1), {float(low): plain(low)})
    if low > 0 and all(one.log for one in stated):
        return Scale(
            (math.log10(low), math.log10(high)), {math.log10(tick): f"{tick:g}" for tick in log_ticks(low, high)}, log=True
        )
    whole = all(isinstance(value, int) for value in (low, high, *seen))
    return Scale((low, high), {float(tick): f"{tick:g}" for tick in _ticks(low, high, whole)})


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of two between two of them, else decades, or 1, 2, 5 where there are fewer than three, or else both ends."""
    doubled = [low * 2**step for step in range(int(math.log2(high / low)) + 1)]
    if powers_of_two(doubled) and doubled[-1] == high and len(doubled) <= FEW:
        return doubled
    decades = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    fine = [step * 10.0**decade for decade in decades for step in STEPS]
    steps = [tick for tick in fine if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
    whole = [tick for tick in steps if math.isclose(math.log10(tick), round(math.log10(tick)), abs_tol=1e-9)]
    return whole if len(whole) > 2 else steps if len(steps) > 1 else sorted({low, high})


def _ticks(low: float, high: float, whole: bool) -> list[float]:
    """Every whole number where there are few, else round steps of which three to seven fit."""
    if whole and high - low < FEW:
        return [float(value) for value in range(int(low), int(high) + 1)]
    rough = (high - low) / 5
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(step * decade for step in (1, 2, 5, 10) if step * decade >= rough)
    return [round(step * count, 12) for count in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def _categories(values: Sequence[Any]) -> Scale:
    known: list[Any] = []
    for value in values:
        if not any(same(value, other) for other in known):
            known.append(value)
    ends = (0.0, float(len(known) - 1)) if len(known) > 1 else (-0.5, 0.5)
    return Scale(ends, {float(at): shown(plain(value)) for at, value in enumerate(known)}, choices=tuple(known))


def _place(value: Any, known: Sequence[Any]) -> int:
    return next(at for at, other in enumerate(known) if same(value, other))
