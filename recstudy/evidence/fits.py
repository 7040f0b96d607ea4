"""The variance over seeds: one fit per metric, which all tables, figures and tests of the metric share.

Each variant keeps its own variance s^2 with d = n - 1 degrees of freedom and borrows d0 from the other
variants (moderated variance, Smyth 2004, as in limma). Without borrowing, intervals from three seeds would
rest on two degrees of freedom:

    e     = log s^2 - digamma(d/2) + log(d/2)                          unbiased log variance     (1)
    d0    from var(e) = trigamma(d/2) + trigamma(d0/2)                                           (2)
    s0^2  = exp(mean(e) + digamma(d0/2) - log(d0/2))                                             (3)
    s~^2  = (d0 s0^2 + d s^2) / (d0 + d), with d0 + d degrees of freedom                         (4)

In (2), d0 is infinite if the logs vary no more than by chance. In (4), d0 is at most 2, and at most the
degrees of freedom of the other variants. A variant whose own s^2 is larger than (4) uses s^2 with its own d,
because (4) would make the interval of the widest variant too short.

Two runs on the same test items differ at least by the noise of independent answers. The saved answers of the
runs give this noise: the mean over items of s_i^2 / N, where s_i^2 is the variance of an item's result
between seeds. It is the `floor` of (4), as a share of 1/(4N) on the angular scale (`independent_share`).
Without saved answers there is no floor.

A variant whose seeds all are within two items of a bound does not inform the variance of the others. Its
weight in (1) to (3) grows from 0 there to 1 at 22 items, so that no single item moves another variant's
interval by much. If all seeds of a variant are equal or at a bound, or split into two kinds, the variant has
no interval. `tests/benchmarks/evidence.py` prints the coverage of these intervals.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import asin, exp, inf, log, pi, sqrt
from statistics import median
from typing import Any, NamedTuple, TypeAlias

from recstudy.base.lazy import np, special
from recstudy.evidence.estimates import AT_BOUND, LEVEL, LINEAR, Estimate, ItemResult, Scale, SplitSeeds, Why

Key: TypeAlias = Any  # of a variant, such as its index
# Largest d0 in (4), and the value that represents an infinite d0 in (2).
MAX_BORROWED_DF, INFINITE_DF = 2.0, 1e6
# Distance from a bound, in items, at which a variant's weight in (1) to (3) is 0 and 1.
NEAR_BOUND, FULL_WEIGHT = 2.0, 22.0
# Smallest s^2 in (1) as a share of the floor, because seeds can agree by chance.
LEAST_FLOOR_SHARE = 0.1
# Seeds of a bounded metric split at a gap above a fifth of the metric's range and above three times the range
# on either side. Three seeds also need a gap of 19 standard deviations within the sides. False alarms then:
# 0.3 % at a standard deviation of 6 points, 1.2 % at 8.
GAP, RATIO, THREE_SEEDS_GAP = 0.2, 3.0, 19.0
# Seeds of an unbounded metric split at a gap of 24 standard deviations within the sides. Three seeds cannot
# show a split: any such rule has false alarms of 5 to 90 %. From five on: 0 % (normal), 0.7 % (t5). If the
# deviation is 0 but for rounding, they split at a gap above half of the largest value, all of one sign.
UNBOUNDED_GAP, MIN_SEEDS_UNBOUNDED, ROUNDING = 24.0, 5, 1e-9
# Larger variances, such as those of losses of 1e200, are unknown, because their squares are not finite.
MAX_VARIANCE = 1e150
# Standard deviations of the other variants: above it, intervals of differences have lower coverage.
WIDE = 4.0


class Variance(NamedTuple):
    """The variance of one run on the metric's scale, and the degrees of freedom of this variance."""

    value: float
    df: float


class Weighted(NamedTuple):
    """The mean of a variant as a term of a contrast, in the metric's unit."""

    value: float
    variance: float | None  # of the mean; None if it is unknown
    df: float
    n: int
    low: float = -inf
    high: float = inf
    why: Why | None = None
    item_result: ItemResult | None = None  # of a single run whose variance is over test items


@dataclass(frozen=True)
class Fit:
    """The values of a metric by variant, with their variances and intervals.

    Args:
        scores: Variant -> one value per seed. All values share one data set and protocol.
        scale: The metric's scale.
        success_threshold: The value that a successful seed is better than. None if the study states none.
        floor: The smallest variance of one run on the scale, from the saved answers. 0 without saved answers.
        item_results: Variant -> the result of its single run on test items. It gives the variance if no
            variant has two seeds.
        overlap: q / (1 - q) if each seed draws a share q of the data as its test set. The sets overlap, so
            the variance of a mean is s^2 (1/n + overlap) and not s^2 / n (Nadeau and Bengio 2003).
    """

    scores: Mapping[Key, Sequence[float]]
    scale: Scale = LINEAR
    success_threshold: float | None = None
    floor: float = 0.0
    item_results: Mapping[Key, ItemResult] = field(default_factory=dict)
    overlap: float = 0.0

    def item_result(self, key: Key) -> ItemResult | None:
        """Return the result on test items that gives the variance; None if seeds give it."""
        return None if self.own_variances else self.item_results.get(key)

    @cached_property
    def own_variances(self) -> dict[Key, Variance]:
        """s^2 of every variant with two or more seeds, from its own seeds."""
        variances = {}
        for key, values in self.scores.items():
            if len(values) < 2:
                continue
            deviations = np.array([self.scale.transform(value) for value in values])
            deviations -= deviations[0]  # equal values must give a variance of exactly 0
            with np.errstate(over="ignore"):
                squares = float(((deviations - deviations.mean()) ** 2).sum())
            if squares < MAX_VARIANCE:
                variances[key] = Variance(squares / (len(values) - 1), len(values) - 1.0)
        return variances

    @cached_property
    def splits(self) -> dict[Key, SplitSeeds]:
        """The variants whose seeds are of two kinds."""
        splits = {
            key: split(values, self.scale, self.success_threshold) for key, values in self.scores.items()
        }
        return {key: split_seeds for key, split_seeds in splits.items() if split_seeds}

    @cached_property
    def _weights(self) -> dict[Key, float]:
        """The weight of each variant in (1) to (3), from 0 to 1. Variants of weight 0 are left out."""
        weights = {}
        for key, own_variance in self.own_variances.items():
            items_away = max(map(self.scale.items_from_bound, self.scores[key]))
            weight = min(max((items_away - NEAR_BOUND) / (FULL_WEIGHT - NEAR_BOUND), 0.0), 1.0)
            if (
                key not in self.splits
                and weight > 0
                and max(own_variance.value, LEAST_FLOOR_SHARE * self.floor) > 0
            ):
                weights[key] = weight
        return weights

    @cached_property
    def prior(self) -> Variance | None:
        """s0^2 and d0 of (2) and (3). None if no variant has a usable variance."""
        if not self._weights:
            return None
        weights = np.array(list(self._weights.values()))
        s2, d = np.array([self.own_variances[key] for key in self._weights]).T
        e = (
            np.log(np.maximum(s2, LEAST_FLOOR_SHARE * self.floor)) - special.digamma(d / 2) + np.log(d / 2)
        )  # (1)
        mean, effective = np.average(e, weights=weights), weights.sum() ** 2 / (weights**2).sum()
        d0 = INFINITE_DF
        if effective > 1 + 1e-9:
            between = np.average((e - mean) ** 2, weights=weights) * effective / (effective - 1)
            between -= np.average(special.polygamma(1, d / 2), weights=weights)
            d0 = min(INFINITE_DF, 2 * _trigamma_inverse(between)) if between > 0 else INFINITE_DF  # (2)
        # d0 is not capped in (3): a cap would put s0^2 at 0.56 of equal variances, and intervals of four
        # variants on an unbounded scale would cover 91 to 93 % instead of 94 to 96 %.
        return Variance(exp(mean + special.digamma(d0 / 2) - log(d0 / 2)), d0)  # (3)

    @cached_property
    def _known_variances(self) -> list[float]:
        """s^2 of the variants with a weight, in ascending order."""
        return sorted(self.own_variances[key].value for key in self._weights)

    @cached_property
    def _variances(self) -> dict[Key, Variance | None]:
        """s~^2 (4) of each variant. None if it is unknown."""
        total_df = sum(weight * self.own_variances[key].df for key, weight in self._weights.items())
        variances: dict[Key, Variance | None] = dict.fromkeys(self.splits)
        for key in self.scores:
            if key in self.splits:
                continue
            if result := self.item_result(key):
                error = result.error / self.scale.slope(mean_of(self.scores[key]))
                if not error and self.scale.kind == "share":  # all items have the same score
                    tail = (1 - LEVEL) / 2
                    angle = pi / 2 - asin(sqrt(tail ** (1 / self.scale.items)))  # of Clopper and Pearson
                    error = angle / float(special.stdtrit(result.df, 1 - tail))
                variances[key] = Variance(error**2, result.df) if error else None
                continue
            own_variance = self.own_variances.get(key, Variance(0.0, 0.0))
            other_df = total_df - self._weights.get(key, 0.0) * own_variance.df
            d0 = min(self.prior.df, MAX_BORROWED_DF, other_df) if self.prior else 0.0
            # A single run that borrows less than one degree of freedom has no usable interval.
            if self.prior is None or d0 < (1e-9 if own_variance.df else 1.0):
                is_known = own_variance.df > 0 and (own_variance.value > 0 or self.floor > 0)
                value = max(own_variance.value, self.floor)
                variances[key] = Variance(value, own_variance.df) if is_known else None
            else:
                # Without saved answers the floor is 0. The bound 1/(4N), which holds for new random items in
                # each run, would make intervals twice too wide.
                total = d0 + own_variance.df
                value = (d0 * self.prior.value + own_variance.df * own_variance.value) / total  # (4)
                if own_variance.value > value:
                    value, total = own_variance
                variances[key] = Variance(max(value, self.floor), total)
        return variances

    def variance(self, key: Key) -> Variance | None:
        """Return s~^2 (4), or None if the variance is unknown or the seeds split."""
        return self._variances.get(key)

    @cached_property
    def widest_range(self) -> float:
        """The largest difference between two seeds of one variant."""
        return max((max(values) - min(values) for values in self.scores.values() if values), default=0.0)

    def extended_range(self, values: Sequence[float]) -> tuple[float, float]:
        """Return the range of some seeds, extended on both sides by half of the widest range."""
        half = self.widest_range / 2
        return min(values) - half, max(values) + half

    def has_wide_spread(self, key: Key) -> bool:
        """Return whether a variant's standard deviation is more than `WIDE` times the others' median.

        Intervals of differences with such a variant have lower coverage, so reports mark it.
        """
        own_variance, other_variances = self.own_variances.get(key), list(self._known_variances)
        if own_variance is None or key in self.splits:
            return False
        if key in self._weights:
            other_variances.pop(bisect_left(other_variances, own_variance.value))
        if len(other_variances) < 2:
            return False
        return own_variance.value > WIDE**2 * median(other_variances) > 0

    def estimate(self, key: Key) -> Estimate:
        """Return the mean of a variant's seeds with its confidence interval."""
        return self._around(key, lambda n: sqrt(1 + n * self.overlap) / sqrt(n))

    def prediction(self, key: Key) -> Estimate:
        """Return the mean with the prediction interval of one more run: mean ± t s sqrt(1 + 1/n)."""
        if self.item_result(key):
            return Estimate(mean_of(self.scores[key]), n=len(self.scores[key]), why=Why.NO_SPREAD)
        return self._around(key, lambda n: sqrt(1 + 1 / n))

    def weighted(self, key: Key, margin: float = 0.0) -> Weighted | None:
        """Return the mean of a variant as a term of a contrast, its variance by the delta method.

        Args:
            key: The variant.
            margin: The margin of an equivalence test, 0 for other tests.

        Returns:
            The term, or None if the variant has no value.
        """
        values, spread = self.scores.get(key, ()), self.variance(key)
        if not values:
            return None
        mean = mean_of(values)
        tested_mean = mean
        if margin and self.scale.kind == "share":
            # An equivalence test is at the edge of its region. There the mean is half a margin further from
            # its bound, and the same variance of angles is a larger variance of shares.
            tested_mean += margin / 2 if self.scale.share(mean) < 0.5 else -margin / 2
        slope, variance, df = self.scale.slope(tested_mean), None, 0.0
        if spread and slope * slope * spread.value < MAX_VARIANCE:
            variance = slope * slope * spread.value * (1 + len(values) * self.overlap) / len(values)
            df = spread.df
        bounds = self.scale.low, self.scale.high
        return Weighted(mean, variance, df, len(values), *bounds, self.why(key), self.item_result(key))

    def why(self, key: Key) -> Why | None:
        """Return why this variant's interval is missing or needs care. None for a plain t interval."""
        values = self.scores.get(key, ())
        if not values:
            return Why.NO_RUN
        if key in self.splits:
            return Why.SPLIT
        if self.item_result(key) and self.variance(key):
            return None
        if len(set(values)) == 1 and self.scale.items_from_bound(values[0]) == 0:
            return Why.CEILING if self.scale.share(values[0]) == 1.0 else Why.FLOOR
        # Equal shares of a few items can be a coincidence, and other equal values are none.
        is_known_share = (
            self.scale.kind == "share" and self.scale.are_items_known and self.variance(key) is not None
        )
        if len(values) > 1 and len(set(values)) == 1 and not is_known_share:
            return Why.EQUAL
        if not self.variance(key):
            return Why.NO_SPREAD
        return Why.MAY_SPLIT if self.splits else None

    def _around(self, key: Key, factor: Callable[[int], float]) -> Estimate:
        values, why = self.scores.get(key, ()), self.why(key)
        if not values:
            return Estimate(None, why=why)
        mean, n, scale, spread = mean_of(values), len(values), self.scale, self.variance(key)
        if why in AT_BOUND:  # all or no seeds are successful
            threshold = self.success_threshold
            successes = None if threshold is None else count_successes(values, scale, threshold)
            return Estimate(mean, n=n, why=why, split=successes)
        if spread is None:
            return Estimate(mean, n=n, why=why, split=self.splits.get(key))
        middle = scale.transform(mean)
        half = float(special.stdtrit(spread.df, (1 + LEVEL) / 2)) * sqrt(spread.value) * factor(n)
        low, high = scale.inverse(middle - half), scale.inverse(middle + half)
        error = scale.slope(mean) * sqrt(spread.value) * factor(n)
        low, high = min(low, mean), max(high, mean)  # the inverse is rounded and can miss the mean
        reach = scale.low, scale.high
        result = self.item_result(key)
        items = result.items if result else None
        tested_scale = None if scale.kind == "linear" or result else scale
        return Estimate(
            mean, low, high, LEVEL, n, spread.df, error, reach, why, items=items, scale=tested_scale
        )


def split(values: Sequence[float], scale: Scale, success_threshold: float | None = None) -> SplitSeeds | None:
    """Divide seeds into successful and failed ones, by a threshold or by one wide gap among the values.

    Args:
        values: One value per seed.
        scale: The metric's scale.
        success_threshold: The value that a successful seed is better than. None to look for a gap, which
            needs three seeds of a bounded metric or five of an unbounded one.

    Returns:
        Both kinds of seeds, or None if all seeds are of one kind.
    """
    ordered, threshold = sorted(values), success_threshold
    if threshold is None:
        is_bounded = scale.high - scale.low < inf
        if len(ordered) < (3 if is_bounded else MIN_SEEDS_UNBOUNDED):
            return None
        # An unbounded metric is judged on its scale, such as the logarithms of a loss.
        points = np.array(ordered if is_bounded else list(map(scale.transform, ordered)))
        index = int(np.diff(points).argmax()) + 1
        sides = points[:index], points[index:]
        gap = points[index] - points[index - 1]
        deviation = sqrt(sum(float(((side - side.mean()) ** 2).sum()) for side in sides) / (len(points) - 2))
        least_gap = UNBOUNDED_GAP * deviation
        if is_bounded:
            least_gap = max(GAP * (scale.high - scale.low), RATIO * max(map(np.ptp, sides)))
            least_gap = max(least_gap, (len(points) == 3) * THREE_SEEDS_GAP * deviation)
        # the sides of 12, 12, 13, 13, 13 have no deviation, and those of 3, 16, 16, 16, 16 neither
        has_two_signs, largest = ordered[0] < 0 < ordered[-1], max(map(abs, ordered))
        is_small = has_two_signs or ordered[index] - ordered[index - 1] <= largest / 2
        if gap <= least_gap or (deviation <= ROUNDING * gap and not is_bounded and is_small):
            return None
        threshold = (ordered[index - 1] + ordered[index]) / 2
    seeds = count_successes(ordered, scale, threshold)
    return seeds if 0 < seeds.learned < seeds.total else None


def count_successes(values: Sequence[float], scale: Scale, threshold: float) -> SplitSeeds:
    """Count the seeds that are better than a threshold, with the exact interval of their share."""
    successes = [value for value in values if scale.is_better(value, threshold)]
    count, total, tail = len(successes), len(values), (1 - LEVEL) / 2
    low = float(special.betaincinv(count, total - count + 1, tail)) if count else 0.0
    high = float(special.betaincinv(count + 1, total - count, 1 - tail)) if count < total else 1.0
    return SplitSeeds(count, total, low, high, mean_of(successes or values))


def mean_of(values: Sequence[float]) -> float:
    """Return the mean. If all values are equal, it is exactly this value."""
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
