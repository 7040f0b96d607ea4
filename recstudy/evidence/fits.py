"""The spread of seeds: one fit for everything that is shown of a metric.

Each variant keeps its own variance s^2 with d = n - 1 degrees of freedom and borrows d0 from the others
(moderated variance, Smyth 2004, as in limma), so that three seeds are not judged as if their two degrees of
freedom were all that is known:

    e     = log s^2 - special.digamma(d/2) + log(d/2)            what the log of a variance says, without its bias         (1)
    d0    from var(e) = trigamma(d/2) + trigamma(d0/2); endless where the logs vary no more than by chance           (2)
    s0^2  = exp(mean(e) + special.digamma(d0/2) - log(d0/2))                                                                 (3)
    s~^2  = (d0 s0^2 + d s^2) / (d0 + d), with d0 + d degrees of freedom, where d0 counts as at most 2, and as
    at
            most what the others have                                                                                (4)

Two runs on the same test items differ at least by the noise of independent answers. From the kept answers of
the runs it is the mean over items of s_i^2 / N, where s_i^2 is the variance of an item's result between
seeds. It is the `floor` of (4), as a share of 1/(4N) on the angular scale (`independent_share`). Without kept
answers there is no floor: 1/(4N) itself, which holds for items that are drawn anew for each run, makes
intervals twice too wide.

To cap d0 in (3), too, would put s0^2 at 0.56 of what equal variances have: intervals of four variants on an
unbounded scale then cover 91 to 93 %, and 94 to 96 % as it is.

A variant whose seeds all lie within two items of a bound says nothing of the others' spread: its weight in
(1) to (3) grows from 0 there to 1 at 22 items, so that no single item moves another variant's interval by
much. A variant whose seeds all lie at a bound, or split into two kinds, has no interval.
`tests/benchmarks/evidence.py` prints what these intervals cover.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, inf, log, sqrt
from typing import Generic, NamedTuple, TypeVar

from recstudy.evidence.estimates import LEVEL, LINEAR, Estimate, Scale, SplitSeeds, Why
from recstudy.lazy import np, special

Key = TypeVar("Key")
# degrees of freedom: that a variant borrows at most, (4); that stand for no end, (2)
BORROWED, ENDLESS = 2.0, 1e6
NEAR_BOUND, FULL_WEIGHT = 2.0, 22.0  # items
LEAST = 0.1  # of the floor: what a smaller s^2 counts as in (1), for seeds that agree by chance
# seeds split at one gap over a fifth of the metric's range and three times the range on either side
GAP, RATIO = 0.2, 3.0
# times the spread of the others: such a variant's differences are covered less well, and it is marked
WIDE = 4.0


class Variance(NamedTuple):
    """The variance of one run on the metric's scale, and the degrees of freedom that it is known with."""

    value: float
    df: float


class Weighted(NamedTuple):
    """A mean as a contrast takes it: in the metric's unit, with the variance that its seeds leave, None where
    that is unknown.
    """

    value: float
    variance: float | None
    df: float
    n: int
    low: float = -inf
    high: float = inf
    why: Why | None = None


@dataclass(frozen=True)
class Fit(Generic[Key]):
    """The seeds' values of a metric by variant, and all that follows from them together.

    Args:
        scores: variant -> a value a seed, all of one data set and protocol.
        scale: the metric's.
        success_threshold: The value above which a seed has learned. None if the study states no threshold.
        floor: the least variance of one run on the scale, from the answers that the runs kept; 0 without any.
    """

    scores: Mapping[Key, Sequence[float]]
    scale: Scale = LINEAR
    success_threshold: float | None = None
    floor: float = 0.0

    @cached_property
    def own(self) -> dict[Key, Variance]:
        """s^2 of the seeds alone, of every variant with two or more."""
        found = {}
        for key, values in ((key, values) for key, values in self.scores.items() if len(values) > 1):
            apart = np.array([self.scale.transform(value) for value in values])
            apart -= apart[0]  # exactly 0 where all are the same
            found[key] = Variance(
                float(((apart - apart.mean()) ** 2).sum()) / (len(values) - 1), len(values) - 1.0
            )
        return found

    @cached_property
    def splits(self) -> dict[Key, SplitSeeds]:
        """The variants whose seeds are of two kinds."""
        found = {
            key: split(values, self.scale, self.success_threshold) for key, values in self.scores.items()
        }
        return {key: one for key, one in found.items() if one}

    @cached_property
    def _weights(self) -> dict[Key, float]:
        """How much each variant says of the others' spread, from 0 to 1."""
        told = {}
        for key, own in self.own.items():
            away = max(map(self.scale.items_from_bound, self.scores[key]))
            weight = min(max((away - NEAR_BOUND) / (FULL_WEIGHT - NEAR_BOUND), 0.0), 1.0)
            if key not in self.splits and weight > 0 and max(own.value, LEAST * self.floor) > 0:
                told[key] = weight
        return told

    @cached_property
    def prior(self) -> Variance | None:
        """s0^2 and d0 of (2) and (3), before d0 is cut; None where no variance tells."""
        if not self._weights:
            return None
        weights = np.array(list(self._weights.values()))
        s2, d = np.array([self.own[key] for key in self._weights]).T
        e = np.log(np.maximum(s2, LEAST * self.floor)) - special.digamma(d / 2) + np.log(d / 2)  # (1)
        mean, effective = np.average(e, weights=weights), weights.sum() ** 2 / (weights**2).sum()
        d0 = ENDLESS
        if effective > 1 + 1e-9:
            between = np.average((e - mean) ** 2, weights=weights) * effective / (effective - 1)
            between -= np.average(special.polygamma(1, d / 2), weights=weights)
            d0 = min(ENDLESS, 2 * _trigamma_inverse(between)) if between > 0 else ENDLESS  # (2)
        return Variance(exp(mean + special.digamma(d0 / 2) - log(d0 / 2)), d0)  # (3)

    @cached_property
    def _spreads(self) -> list[float]:
        """s^2 of all that tells, the smallest first."""
        return sorted(self.own[key].value for key in self._weights)

    @cached_property
    def _variances(self) -> dict[Key, Variance | None]:
        """s~^2 (4) of each variant."""
        told = sum(weight * self.own[key].df for key, weight in self._weights.items())
        found: dict[Key, Variance | None] = dict.fromkeys(self.splits)
        for key in (key for key in self.scores if key not in self.splits):
            own = self.own.get(key, Variance(0.0, 0.0))
            others = told - self._weights.get(key, 0.0) * own.df
            d0 = min(self.prior.df, BORROWED, others) if self.prior else 0.0
            if self.prior is None or d0 < 1e-9:
                known = own.df > 0 and (own.value > 0 or self.floor > 0)
                found[key] = Variance(max(own.value, self.floor), own.df) if known else None
            else:
                value = (d0 * self.prior.value + own.df * own.value) / (d0 + own.df)
                found[key] = Variance(max(value, self.floor), d0 + own.df)
        return found

    def variance(self, key: Key) -> Variance | None:
        """Return s~^2 (4); None where nothing is known of the spread, or where the seeds split."""
        return self._variances.get(key)

    def stands_apart(self, key: Key) -> bool:
        """Return whether a variant's spread is several times that of the others: differences with it are
        covered less well.
        """
        own, others = self.own.get(key), list(self._spreads)
        if own is None or key in self.splits:
            return False
        if key in self._weights:
            others.pop(bisect_left(others, own.value))
        if len(others) < 2:
            return False
        middle = (others[(len(others) - 1) // 2] + others[len(others) // 2]) / 2
        return own.value > WIDE**2 * middle > 0

    def estimate(self, key: Key, level: float = LEVEL) -> Estimate:
        """Return the mean of a variant's seeds with its interval."""
        return self._around(key, level, lambda n: 1 / sqrt(n))

    def prediction(self, key: Key, level: float = LEVEL) -> Estimate:
        """Return where one more run would lie: mean ± t s sqrt(1 + 1/n)."""
        return self._around(key, level, lambda n: sqrt(1 + 1 / n))

    def weighted(self, key: Key, margin: float = 0.0) -> Weighted | None:
        """Return the mean as a contrast takes it, its spread in the metric's unit (delta method); None
        without a value.

        Args:
            key: The variant.
            margin: Of a question of no difference, whose test is at the edge of its region: there the mean is
                half a margin away from the bound, and the same spread of angles is a wider spread of shares.
        """
        values, spread = self.scores.get(key, ()), self.variance(key)
        if not values:
            return None
        mean = mean_of(values)
        tested = mean
        if margin and self.scale.kind == "share":
            tested += margin / 2 if self.scale.share(mean) < 0.5 else -margin / 2
        variance = self.scale.slope(tested) ** 2 * spread.value / len(values) if spread else None
        df = spread.df if spread else 0.0
        return Weighted(mean, variance, df, len(values), self.scale.low, self.scale.high, self.why(key))

    def why(self, key: Key) -> Why | None:
        """Return what a reader must know of this variant's interval."""
        values = self.scores.get(key, ())
        if not values:
            return Why.NO_RUN
        if key in self.splits:
            return Why.SPLIT
        if self.scale.kind == "share" and all(self.scale.items_from_bound(value) == 0 for value in values):
            ends = {self.scale.share(value) for value in values}
            if len(ends) == 1:
                return Why.CEILING if ends == {1.0} else Why.FLOOR
        if not self.variance(key):
            return Why.NO_SPREAD
        return Why.MAY_SPLIT if self.splits else None

    def _around(self, key: Key, level: float, factor: Callable[[int], float]) -> Estimate:
        values, why = self.scores.get(key, ()), self.why(key)
        if not values:
            return Estimate(None, level=level, why=why)
        mean, n, scale, spread = mean_of(values), len(values), self.scale, self.variance(key)
        if why in (Why.CEILING, Why.FLOOR):
            return Estimate(mean, level=level, n=n, why=why, split=self._successes(values))
        if spread is None:
            return Estimate(mean, level=level, n=n, why=why, split=self.splits.get(key))
        middle, half = (
            scale.transform(mean),
            float(special.stdtrit(spread.df, (1 + level) / 2)) * sqrt(spread.value) * factor(n),
        )
        low, high = scale.inverse(middle - half), scale.inverse(middle + half)
        error = scale.slope(mean) * sqrt(spread.value) * factor(n)
        low, high = min(low, mean), max(high, mean)  # what rounding leaves of the way back
        return Estimate(mean, low, high, level, n, spread.df, error, (scale.low, scale.high), why)

    def _successes(self, values: Sequence[float]) -> SplitSeeds | None:
        """Count the seeds of a variant at a bound that are above a stated threshold of success: all or
        none.
        """
        if self.success_threshold is None:
            return None
        count = len(values) * (values[0] > self.success_threshold)
        return SplitSeeds(count, len(values), *share_interval(count, len(values)), given=values[0])


def split(values: Sequence[float], scale: Scale, success_threshold: float | None = None) -> SplitSeeds | None:
    """Return both kinds of seeds, where some learned and others did not: by a stated threshold, or by one
    wide gap among three or more. False alarms of the gap at three normal seeds: 0.01 % at a standard
    deviation of 4 points, 0.6 % at 6."""
    ordered = sorted(values)
    if success_threshold is None:
        if len(ordered) < 3 or not (scale.high - scale.low) < inf:
            return None
        gaps = np.diff(ordered)
        at = int(gaps.argmax())
        most = max(ordered[at] - ordered[0], ordered[-1] - ordered[at + 1])
        if gaps[at] <= GAP * (scale.high - scale.low) or gaps[at] <= RATIO * most:
            return None
        above = ordered[at + 1 :]
    else:
        above = [value for value in ordered if value > success_threshold]
        if len(above) in (0, len(ordered)):
            return None
    low, high = share_interval(len(above), len(ordered))
    return SplitSeeds(len(above), len(ordered), low, high, mean_of(above))


def share_interval(count: int, of: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) interval of a share."""
    tail = (1 - level) / 2
    low = float(special.betaincinv(count, of - count + 1, tail)) if count else 0.0
    high = float(special.betaincinv(count + 1, of - count, 1 - tail)) if count < of else 1.0
    return low, high


def mean_of(values: Sequence[float]) -> float:
    """Return the mean; exactly the value where all are the same."""
    return float(values[0] + np.mean(np.asarray(values, dtype=float) - values[0]))


def _trigamma_inverse(value: float) -> float:
    """Return y with trigamma(y) = value, by Newton's method (Smyth 2004, appendix)."""
    if value > 1e7:
        return 1 / sqrt(value)
    y = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(special.polygamma(1, y))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, y))
        y += step
        if -step / y < 1e-8:
            break
    return y
