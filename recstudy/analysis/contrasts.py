"""Differences between variants: weighted sums of their means, tested together, and what they could have shown."""

from collections.abc import Mapping, Sequence
from math import inf, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import chdtri, fdtrc, nctdtr, nctdtrinc, stdtr, stdtrit

from recstudy.analysis.stats import ALPHA, LEVEL, LINEAR, MOST_SEEDS, POWER, Key, Scale, Spread, mean_of


class Contrast(NamedTuple):
    """A weighted sum of means in the metric's own unit, its interval, and the two-sided t test that it is 0.

    `error` is its standard error, with `df` degrees of freedom. Where no spread is known, all but the value are None; without
    runs that is, too. `within`: the least and the largest that it can be, beyond which no interval reaches.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    error: float | None = None
    df: float | None = None
    within: tuple[float, float] = (-inf, inf)


class Pairing(NamedTuple):
    """What the seeds have in common: the spread that is left beside their effect, the F test of it, and the correlation of
    two variants' values of one seed."""

    spread: Spread
    p: float
    correlation: float

    @property
    def helps(self) -> bool:
        return self.p < ALPHA


def contrast(
    groups: Sequence[Sequence[float]], weights: Sequence[float], spreads: Sequence[Spread | None], level: float = LEVEL
) -> Contrast:
    """The sum of `weights` times the means of `groups`, each of at least one value.

    A spread on another scale is turned into the metric's unit at each mean (delta method). Variants that share a spread share
    its degrees of freedom; with several spreads these are Satterthwaite's.
    """
    means = [mean_of(values) for values in groups]
    value = round(sum(weight * mean for weight, mean in zip(weights, means, strict=True)), 9)  # the rest is rounding
    parts: dict[int, tuple[float, float]] = {}
    for values, weight, mean, spread in zip(groups, weights, means, spreads, strict=True):
        if spread is None:
            return Contrast(value)
        variance = (weight * spread.scale.slope(mean) * spread.sd) ** 2 / len(values)
        parts[id(spread)] = parts.get(id(spread), (0.0, 0.0))[0] + variance, spread.df  # one object where it is shared
    total = sum(variance for variance, _ in parts.values())
    if not total:
        return Contrast(value)
    df = total**2 / sum(variance**2 / df for variance, df in parts.values())
    return around(value, sqrt(total), df, level, reach(weights, [spread.scale for spread in spreads if spread]))


def around(value: float, error: float, df: float, level: float = LEVEL, within: tuple[float, float] = (-inf, inf)) -> Contrast:
    """A value with its standard error."""
    half = float(stdtrit(df, (1 + level) / 2)) * error
    low, high = max(value - half, within[0]), min(value + half, within[1])
    return Contrast(value, low, high, 2 * float(stdtr(df, -abs(value) / error)), error, df, within)


def reach(weights: Sequence[float], scales: Sequence[Scale]) -> tuple[float, float]:
    """The least and the largest that a weighted sum of values can be: a percentage less another, from -100 to 100."""
    ends = [sorted((weight * scale.low, weight * scale.high)) for weight, scale in zip(weights, scales, strict=True) if weight]
    return sum(low for low, _ in ends), sum(high for _, high in ends)


def pairing(groups: Mapping[Key, Mapping[int, float]], scale: Scale = LINEAR) -> Pairing | None:
    """Whether runs of one seed are high or low together: values by variant and seed, with an effect of each.

    None where no degree of freedom is left beside both effects, or no spread.
    """
    known = [own for own in groups.values() if len(own) > 1]
    seeds = sorted({seed for own in known for seed in own})
    if not known:
        return None
    of_seed = np.concatenate([_centred(np.array([[seed == one for one in seeds] for seed in own], dtype=float)) for own in known])
    places = np.concatenate([_centred(np.array([scale.there(value) for value in own.values()])) for own in known])
    effects, _, rank, _ = np.linalg.lstsq(of_seed, places, rcond=None)
    whole, left = float(places @ places), float(((places - of_seed @ effects) ** 2).sum())
    df = len(places) - len(known) - int(rank)
    if df < 1 or not rank or left <= 1e-12 * whole:
        return None
    of_seeds, residual = (whole - left) / int(rank), left / df
    shared = max(0.0, (of_seeds - residual) * len(seeds) / len(places))
    spread = Spread(sqrt(residual), df, scale, len(known))
    return Pairing(spread, float(fdtrc(rank, df, of_seeds / residual)), shared / (shared + residual))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted for their number (Holm 1979): the chance of any false finding among them stays below 5 %. None stays None."""
    tested = sorted((p, at) for at, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    least = 0.0
    for step, (p, at) in enumerate(tested):
        least = max(least, min(1.0, p * (len(tested) - step)))
        adjusted[at] = least
    return adjusted


def detectable(error: float, df: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """The least true difference that such a test at level `alpha` shows 4 times in 5."""
    return error * float(nctdtrinc(df, 1 - power, stdtrit(df, 1 - alpha / 2)))


def factors(df: float, level: float = LEVEL) -> tuple[float, float]:
    """By what a standard deviation with so many degrees of freedom may be too large or too small (chi-square interval)."""
    return sqrt(df / float(chdtri(df, (1 - level) / 2))), sqrt(df / float(chdtri(df, (1 + level) / 2)))


def seeds_to_show(found: Contrast, n: int, variants: int, alpha: float = ALPHA, power: float = POWER) -> int | None:
    """How many more seeds, beside `n` of each of so many variants, show a true difference of this size 4 times in 5.

    0 where they do already; None without a spread, and where over `MOST_SEEDS` would be needed.
    """
    if found.value is None or found.error is None or found.df is None:
        return None
    seeds = np.arange(n, MOST_SEEDS + 1)
    df = found.df + variants * (seeds - n)
    reached = nctdtr(df, abs(found.value) / found.error * np.sqrt(seeds / n), stdtrit(df, 1 - alpha / 2)) <= 1 - power
    return int(seeds[reached][0]) - n if reached.any() else None


def _centred(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Less their mean; exactly 0 where all are the same."""
    apart = rows - rows[0]
    return np.asarray(apart - apart.mean(0))
