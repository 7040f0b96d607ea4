"""Spread, intervals and verdicts: pure functions of the values that the seeds gave.

scipy.stats is not imported: it takes over a second to load, which every command would pay. What is needed goes by
scipy.special alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log, sqrt
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc, stdtr, stdtrit

Verdict = Literal["reproduced", "consistent", "differs", "undecided"]
Key = TypeVar("Key")
LEVEL, ALPHA, POWER = 0.95, 0.05, 0.8
MOST_SEEDS = 1000  # where a verdict needs more than these, seeds are not what it lacks
WIDE = "it is several times that of the others"
UNEQUAL = "the variants' spreads differ (Brown-Forsythe, p < 0.05)"


@dataclass(frozen=True)
class Scale:
    """Where the values of a metric spread alike, high or low: the metric's own unit between its bounds, or logits.

    `items` is for a metric that is a share of right answers, to so many questions: it goes by logits. Half an answer right
    and half a one wrong are added, so that 0 and 100 % have a place.
    """

    low: float = -inf
    high: float = inf
    items: int = 0

    def there(self, value: float) -> float:
        """The place of a value on the scale; that of the nearest bound for one outside."""
        value = min(max(value, self.low), self.high)
        if not self.items:
            return value
        share = self._share(value)
        return log(share / (1 - share))

    def back(self, place: float) -> float:
        """The value at a place, within the bounds."""
        if self.items:
            share = 1 / (1 + exp(-place)) if place > 0 else exp(place) / (1 + exp(place))
            place = self.low + (self.high - self.low) * (share * (self.items + 1) - 0.5) / self.items
        return min(max(place, self.low), self.high)

    def slope(self, value: float) -> float:
        """How much a value changes with its place: turns a small spread there into one of values (delta method)."""
        if not self.items:
            return 1.0
        share = self._share(value)
        return share * (1 - share) * (self.high - self.low) * (self.items + 1) / self.items

    def _share(self, value: float) -> float:
        return ((value - self.low) / (self.high - self.low) * self.items + 0.5) / (self.items + 1)


LINEAR = Scale()


class Interval(NamedTuple):
    """A mean and its confidence interval; without bounds where no spread is known, or no value."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


class Spread(NamedTuple):
    """The standard deviation over seeds on a metric's scale, from the seeds of so many `variants`.

    `why`: why a variant goes by its own, where others are pooled.
    """

    sd: float
    df: float
    scale: Scale = LINEAR
    variants: int = 1
    why: str = ""


def own(values: Sequence[float], scale: Scale = LINEAR, why: str = "") -> Spread | None:
    """The spread of one variant's values; None of one value, and of equal ones: that two runs agree shows no spread of 0."""
    places = _places(values, scale)
    squares = _squares(places)
    return Spread(sqrt(squares / (len(places) - 1)), len(places) - 1, scale, why=why) if squares else None


def within(spreads: Sequence[Spread]) -> Spread | None:
    """The spread of seeds over several variants: the one that they share, or the mean of their variances by the fewest seeds."""
    if not spreads:
        return None
    mean = sqrt(sum(spread.sd**2 for spread in spreads) / len(spreads))
    return spreads[0] if len(set(spreads)) == 1 else spreads[0]._replace(sd=mean, df=min(spread.df for spread in spreads), why="")


def pool(groups: Mapping[Key, Sequence[float]], scale: Scale = LINEAR) -> dict[Key, Spread]:
    """The spread of each variant, from the seeds of all: the residual of a one-way analysis of variance, df = N - k.

    A variant whose spread is several times that of the others (F test of it against theirs, Bonferroni) goes by its own. All do
    where the spreads of three seeds or more differ (Brown and Forsythe 1974). A variant without a spread is left out.
    """
    together = {key: _places(values, scale) for key, values in groups.items() if len(values) > 1}
    wide = _wide(together)
    for key in wide:
        del together[key]
    apart = list(together) if _unequal(list(together.values())) else []
    owns = {key: own(groups[key], scale, UNEQUAL if key in apart else WIDE) for key in [*wide, *apart]}
    shared = None if apart else _shared(list(together.values()), scale)
    found = {key: owns.get(key, shared) for key in groups}
    return {key: spread for key, spread in found.items() if spread is not None}


def interval(values: Sequence[float], spread: Spread | None, level: float = LEVEL) -> Interval:
    """Student's t interval of the mean, on the scale of its spread and back: it stays within the metric's bounds."""
    return _around(values, spread, level, lambda n: 1 / sqrt(n))


def prediction_interval(values: Sequence[float], spread: Spread | None, level: float = LEVEL) -> Interval:
    """Where one more run would lie: mean ± t s sqrt(1 + 1/n)."""
    return _around(values, spread, level, lambda n: sqrt(1 + 1 / n))


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Of values that stand alone, by their own spread."""
    return interval(values, own(values), level)


def equivalent(values: Sequence[float], target: float, margin: float, spread: Spread | None, alpha: float = ALPHA) -> bool:
    """Two one-sided t tests (Schuirmann 1987): is the mean within `margin` of `target`? Without a spread nothing shows it."""
    if not values or spread is None:
        return False
    error = spread.sd / sqrt(len(values))
    return bool(stdtr(spread.df, -min(_rooms(values, target, margin, spread)) / error) < alpha)


def verdict(values: Sequence[float], target: float, margin: float, spread: Spread | None) -> Verdict:
    """`reproduced`: the mean is equivalent within the margin; `consistent`: one more run could well give the target, which
    lies in the 95 % prediction interval; `differs`: it lies outside; `undecided`: no spread is known to judge by."""
    if not values or spread is None:
        return "undecided"
    if equivalent(values, target, margin, spread):
        return "reproduced"
    _, low, high, _ = prediction_interval(values, spread)
    assert low is not None
    assert high is not None
    return "consistent" if low <= target <= high else "differs"


def more_seeds(values: Sequence[float], target: float, margin: float, spread: Spread | None) -> int | None:
    """How many more seeds `reproduced` needs, if mean and spread stay as they are: it is then reached 4 times in 5.

    The power of both tests by the shifted t distribution (Julious 2004), a seed or so off the noncentral one. 0 where it is
    reached, or the target differs; None without a spread, and where over `MOST_SEEDS` would be needed.
    """
    found = verdict(values, target, margin, spread)
    if spread is None or found == "undecided":
        return None
    if found != "consistent":
        return 0
    n = np.arange(len(values) + 1, MOST_SEEDS + 1)
    df, errors = spread.df + n - len(values), spread.sd / np.sqrt(n)
    ends = [stdtr(df, room / errors - stdtrit(df, 1 - ALPHA)) for room in _rooms(values, target, margin, spread)]
    enough = n[ends[0] + ends[1] - 1 >= POWER]
    return int(enough[0]) - len(values) if len(enough) else None


def mean_of(values: Sequence[float]) -> float:
    """Exactly the value where all are the same."""
    return float(values[0] + np.mean(np.asarray(values, dtype=float) - values[0]))


def _around(values: Sequence[float], spread: Spread | None, level: float, factor: Callable[[int], float]) -> Interval:
    n = len(values)
    mean = mean_of(values) if n else None
    if mean is None or spread is None:
        return Interval(mean, None, None, n)
    middle, half = spread.scale.there(mean), float(stdtrit(spread.df, (1 + level) / 2)) * spread.sd * factor(n)
    low, high = spread.scale.back(middle - half), spread.scale.back(middle + half)
    return Interval(mean, min(low, mean), max(high, mean), n)  # what rounding leaves of the way back


def _rooms(values: Sequence[float], target: float, margin: float, spread: Spread) -> tuple[float, float]:
    """From the mean to both ends of the margin, on the scale; endless where an end is beyond the metric's bounds."""
    scale, middle = spread.scale, spread.scale.there(mean_of(values))
    low, high = target - margin, target + margin
    return middle - (scale.there(low) if low >= scale.low else -inf), (scale.there(high) if high <= scale.high else inf) - middle


def _places(values: Sequence[float], scale: Scale) -> npt.NDArray[np.float64]:
    return np.array([scale.there(value) for value in values])


def _squares(places: npt.NDArray[np.float64]) -> float:
    """The sum of squared distances from the mean; exactly 0 for values that are all the same."""
    if not len(places):
        return 0.0
    apart = places - places[0]
    return float(((apart - apart.mean()) ** 2).sum())


def _shared(places: Sequence[npt.NDArray[np.float64]], scale: Scale) -> Spread | None:
    df, squares = sum(len(one) - 1 for one in places), sum(map(_squares, places))
    return Spread(sqrt(squares / df), df, scale, len(places)) if squares else None


def _wide(groups: Mapping[Key, npt.NDArray[np.float64]]) -> list[Key]:
    """The variants whose spread is several times that of the others, taken out one by one."""
    keys, wide = list(groups), []
    squares = np.array([_squares(groups[key]) for key in keys])
    df = np.array([len(groups[key]) - 1 for key in keys])
    left = np.ones(len(keys), dtype=bool)
    while left.sum() > 1:
        others, rest = squares[left].sum() - squares, df[left].sum() - df
        judged = left & (others > 1e-12 * squares)  # of others that all agree nothing is known
        ratio = np.divide(squares * rest, others * df, out=np.zeros(len(keys)), where=judged)
        p = np.where(judged, fdtrc(df, np.maximum(rest, 1), ratio), 1.0)
        at = int(p.argmin())
        if p[at] * left.sum() >= ALPHA:
            break
        wide.append(keys[at])
        left[at] = False
    return wide


def _unequal(places: Sequence[npt.NDArray[np.float64]]) -> bool:
    """Brown and Forsythe's test of equal spreads, where every variant has three values: of two it knows nothing."""
    if len(places) < 2 or min(map(len, places)) < 3:
        return False
    away = [abs(one - np.median(one)) for one in places]
    middle, df = np.concatenate(away).mean(), sum(map(len, away)) - len(away)
    between = sum(len(one) * (one.mean() - middle) ** 2 for one in away) / (len(away) - 1)
    within = sum(((one - one.mean()) ** 2).sum() for one in away) / df
    return bool(within > 0 and fdtrc(len(away) - 1, df, between / within) < ALPHA)
