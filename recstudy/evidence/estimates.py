"""Estimates with confidence intervals, and the scales on which the variance over seeds is stable.

The variance of a value should not depend on the value. Each kind of metric has its own transformation:

    share of N items   a = arcsin(sqrt(p)): new random items give a variance of 1/(4N) at every p   (1)
    a loss             log(v)                                                                        (2)
    anything else      v itself, clipped to its bounds                                               (3)

The test items are a sample, too. `over_items` widens an interval over seeds to seeds and items, and `mcnemar`
compares two variants on the same items. Shapes: n runs, M items. Items that belong together (augmented copies
of one puzzle, test inputs of one ARC task) form a cluster. The scores of a cluster count as one draw
(Miller, arXiv:2411.00640).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import asin, exp, inf, log, pi, sin, sqrt
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from recstudy.base.lazy import np, special

if TYPE_CHECKING:
    import numpy.typing as npt


LEVEL = 0.95


class Why(StrEnum):
    """The reason why an estimate has no plain t interval."""

    CEILING = "ceiling"  # every seed is at the upper bound, so the seeds show no variance
    FLOOR = "floor"  # every seed is at the lower bound
    EQUAL = "equal seeds"  # every seed has the same value, which is no share of a few items
    ONE_AT_BOUND = "one side at its bound"  # one side of a contrast is at a bound, or its seeds are equal
    SPLIT = "split"  # some seeds learned and others did not
    MAY_SPLIT = "may split"  # seeds of another variant split, and a few seeds may all be of one kind
    # The denominator of the ratio does not differ significantly from 0: no bounded interval (Fieller 1954).
    NEAR_ZERO = "near zero"
    NO_SPREAD = "no spread"  # one run and no variance to borrow, or runs with equal values
    NO_RUN = "no run"


AT_BOUND = (Why.CEILING, Why.FLOOR, Why.EQUAL, Why.ONE_AT_BOUND)  # seeds that show no variance


@dataclass(frozen=True, slots=True)
class SplitSeeds:
    """Seeds of two kinds, such as successful and failed training.

    Args:
        learned: The number of seeds on the better side of the gap or the threshold.
        total: The number of all seeds.
        low: Lower end of the exact (Clopper-Pearson) interval of the share of seeds that learn, from 0 to 1.
        high: Its upper end.
        success_mean: The mean of the seeds that learned, in the metric's unit.
    """

    learned: int
    total: int
    low: float
    high: float
    success_mean: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its confidence interval over seeds, in the metric's own unit.

    Args:
        value: The mean, or a weighted sum of means. None if there are no runs.
        low: Lower end of the interval. None if there is no interval; `why` names the reason.
        high: Upper end of the interval.
        level: Confidence level of the interval.
        n: The number of seeds. For a contrast, the smallest number among its variants.
        df: Degrees of freedom. None if the variance is unknown.
        error: Standard error in the metric's unit.
        reach: The smallest and the largest possible value. Intervals are clipped to it.
        why: The reason why the interval is missing or needs care.
        split: The two kinds of seeds if `why` is SPLIT. If all seeds are at a bound, the number of seeds that
            exceed the study's threshold of success.
        items: For single runs, the number of test items over which the interval is; 0 if it is unknown. None
            for an interval over seeds.
        overlap: The `overlap` of its fit.
        blocks: The number of blocks if the interval is over the differences of blocks, else 0.
        df_per_seed: The degrees of freedom that one more seed adds; 0 if each variant of a contrast adds one.
        scale: For a mean over seeds, the scale of its interval and its tests; None if that is linear.
        n_at_bound: For a contrast, the fewest seeds of a variant whose seeds are all equal; else 0.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    level: float = LEVEL
    n: int = 0
    df: float | None = None
    error: float | None = None
    reach: tuple[float, float] = (-inf, inf)
    why: Why | None = None
    split: SplitSeeds | None = None
    items: int | None = None
    overlap: float = 0.0
    blocks: int = 0
    df_per_seed: int = 0
    scale: Scale | None = None
    n_at_bound: int = 0

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends, or None if there is no interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def distance(self, number: float) -> float:
        """Return the distance of a number from the value on the scale, in the metric's unit at the value.

        It is infinite if the number is not within the bounds of the scale.
        """
        value, scale = self.value or 0.0, self.scale
        if scale is None:
            return abs(value - number)
        if not (0.0 if scale.kind == "log" else scale.low) < number < scale.high:
            return inf
        return abs(scale.transform(value) - scale.transform(number)) * scale.slope(value)

    @property
    def is_over_items(self) -> bool:
        """Whether the interval is over test items, so that it says nothing about other seeds."""
        return self.items is not None

    @property
    def sample(self) -> str:
        """The sample of the interval: `n=3` seeds, or `over 500 test items`."""
        if self.items is None:
            return f"n={self.n}"
        return f"over {self.items:,} test items" if self.items else "over test items"


TINY = 1e-12  # smallest loss on the log scale (2), because log(0) does not exist


@dataclass(frozen=True)
class Scale:
    """The scale of a metric, with its transformation (1), (2) or (3).

    Args:
        low: The metric's lower bound.
        high: The metric's upper bound.
        kind: `linear`, `share` (a share of correct answers) or `log`.
        items: For a share, the number of distinct test items.
        sign: +1 if higher is better, -1 if lower.
        are_items_known: Whether the number of items is stated. Otherwise equal shares show no variance.
    """

    low: float = -inf
    high: float = inf
    kind: Literal["linear", "share", "log"] = "linear"
    items: int = 0
    sign: int = 1
    are_items_known: bool = True

    def is_better(self, value: float, threshold: float) -> bool:
        """Return whether a value is better than a threshold."""
        return self.sign * value > self.sign * threshold

    def share(self, value: float) -> float:
        """Map a value between the bounds to a number from 0 to 1."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def transform(self, value: float) -> float:
        """Transform a value to the scale. A value outside of the bounds counts as the nearest bound."""
        if self.kind == "share":
            return asin(sqrt(self.share(value)))
        if self.kind == "log":
            return log(max(value, TINY))
        return min(max(value, self.low), self.high)

    def inverse(self, transformed: float) -> float:
        """Transform a value on the scale back to the metric's unit, within the bounds."""
        if self.kind == "share":
            return self.low + (self.high - self.low) * sin(min(max(transformed, 0.0), pi / 2)) ** 2
        if self.kind == "log":
            return exp(min(transformed, 700.0))  # exp overflows above 709
        return min(max(transformed, self.low), self.high)

    def slope(self, value: float) -> float:
        """Return the derivative of the value by its transformed value, for the delta method.

        A share counts as at least half an item away from its bounds, because the derivative is 0 at a bound.
        """
        if self.kind == "share":
            half_item = 1 / (2 * self.items)
            share = min(max(self.share(value), half_item), 1 - half_item)
            return (self.high - self.low) * 2 * sqrt(share * (1 - share))
        return max(value, TINY) if self.kind == "log" else 1.0

    def items_from_bound(self, value: float) -> float:
        """Return the distance of a share from the nearest bound, in items. It is infinite on other scales."""
        if self.kind != "share":
            return inf
        share = self.share(value)
        return min(share, 1 - share) * self.items


class ItemResult(NamedTuple):
    """The result of a single run on test items, for an interval over items: other items, this run.

    Args:
        error: The standard error of the mean over items, in the metric's unit.
        items: The number of items; 0 if it is unknown.
        scores: Item -> score; empty if only the error is known.
    """

    error: float
    items: int = 0
    scores: Mapping[str, float] = MappingProxyType({})

    @property
    def df(self) -> float:
        """Degrees of freedom of the error."""
        return self.items - 1 if self.items > 1 else UNKNOWN_ITEMS


LINEAR = Scale()
UNKNOWN_ITEMS = 1e6  # degrees of freedom of a standard error over an unknown number of items


def items_error(scores: Sequence[Mapping[str, float]], weights: Sequence[float]) -> float:
    """Return the standard error over items of a weighted sum of means, paired by item.

    Each item moves the sum by the sum of weight (score - mean) / M over the means that contain it. Items of
    one mean alone are independent of the others.

    Args:
        scores: Item -> score of each mean, M items each.
        weights: The weight of each mean.
    """
    influences: dict[str, float] = {}
    for item_scores, weight in zip(scores, weights, strict=True):
        mean = fmean(item_scores.values())
        for item, score in item_scores.items():
            influences[item] = influences.get(item, 0.0) + weight * (score - mean) / len(item_scores)
    items = len(influences)
    squares = sum(influence**2 for influence in influences.values())
    return sqrt(squares * items / (items - 1)) if items > 1 else 0.0


Scores: TypeAlias = "npt.NDArray[np.float64]"


def over_items(
    estimate: Estimate,
    scores: Sequence[Scores],
    weights: Sequence[float],
    clusters: npt.NDArray[np.int64] | None = None,
    scale: Scale = LINEAR,
) -> Estimate:
    """Widen an interval over seeds to seeds and test items, as crossed random effects.

    The total variance is the sum of the variances over seeds and over items, minus the variance of single
    answers, which both contain. The degrees of freedom are Satterthwaite's.

    Args:
        estimate: The contrast over seeds, with its standard error in the scores' unit.
        scores: Array (n, M) of each variant in the contrast.
        weights: Weight of each variant in the contrast.
        clusters: Array (M,) with the cluster of each item. By default each item is its own cluster.
        scale: For a single mean, the scale of its metric.

    Returns:
        The estimate with the wider interval. It is never narrower than the interval over seeds alone.
    """
    if estimate.value is None or estimate.error is None or estimate.df is None:
        return estimate
    weighted_scores = list(zip(scores, weights, strict=True))
    means = np.sum([weight * variant_scores.mean(0) for variant_scores, weight in weighted_scores], axis=0)
    item_variance, draws = variance_of_mean(means, clusters)
    seed_variance, residual_variance = estimate.error**2, 0.0
    for variant_scores, weight in weighted_scores:
        runs, items = variant_scores.shape
        if runs < 2:
            continue
        # Single answers vary beyond the effects of runs and items: the residuals of the two-way layout.
        residuals = variant_scores - variant_scores.mean(0) - variant_scores.mean(1, keepdims=True)
        residuals = residuals + variant_scores.mean()
        squares = weight**2 * float((residuals**2).sum())
        residual_variance += squares / ((runs - 1) * (items - 1)) / variant_scores.size
    # The difference of estimated variances can be too small or negative, so each part is a lower limit.
    total = max(seed_variance, item_variance, seed_variance + item_variance - residual_variance)
    df = total**2 / (seed_variance**2 / estimate.df + item_variance**2 / max(1, draws - 1))
    middle = scale.transform(estimate.value)
    half = float(special.stdtrit(df, (1 + estimate.level) / 2)) * sqrt(total) / scale.slope(estimate.value)
    low, high = (
        max(scale.inverse(middle - half), estimate.reach[0]),
        min(scale.inverse(middle + half), estimate.reach[1]),
    )
    widened_estimate = replace(estimate, low=low, high=high, error=sqrt(total), df=df)
    if estimate.low is None or estimate.high is None:
        return widened_estimate
    return widened_estimate if high - low > estimate.high - estimate.low else estimate


def variance_of_mean(values: Scores, clusters: npt.NDArray[np.int64] | None = None) -> tuple[float, int]:
    """Return the variance of the mean of values over items or clusters, and the number of draws."""
    if clusters is None:
        return float(values.var(ddof=1)) / len(values), len(values)
    _, cluster_indices = np.unique(clusters, return_inverse=True)
    sums = np.bincount(cluster_indices, weights=values - values.mean())
    draws = len(sums)
    return float((sums**2).sum()) / len(values) ** 2 * draws / max(1, draws - 1), draws


def independent_share(groups: Sequence[Scores]) -> float:
    """Return the share of the variance of answers that is due to the seed.

    It is 0 if all runs of a variant give the same answers. Items that are hard for every run add nothing to
    the differences between runs.

    Args:
        groups: Array (n, M) of each variant with scores from 0 to 1, n at least 2.
    """
    between_seeds = sum(float(scores.var(0, ddof=1).sum()) for scores in groups)
    means = [scores.mean(0) for scores in groups]
    total_variance = sum(len(mean) * float(mean.mean() * (1 - mean.mean())) for mean in means)
    return min(1.0, between_seeds / total_variance) if total_variance else 0.0


def mcnemar(ours: Scores, theirs: Scores, clusters: npt.NDArray[np.int64] | None = None) -> float | None:
    """Return the p value of McNemar's test: do two trained variants differ on new items of this kind?

    The test holds the trained weights fixed. If there are several runs, the items or their clusters are the
    clusters of Durkalski (2003): chi^2 = (sum of differences)^2 / sum of their squares.

    Args:
        ours: Array (n, M) of scores of one variant.
        theirs: Array (n, M) of scores of the other variant on the same items.
        clusters: Array (M,) with the cluster of each item. By default each item is its own cluster.

    Returns:
        The p value, or None if no item differs.
    """
    differences = ours.mean(0) - theirs.mean(0)
    if clusters is not None:
        differences = np.bincount(np.unique(clusters, return_inverse=True)[1], weights=differences)
    squares = float(differences @ differences)
    return float(special.chdtrc(1, float(differences.sum()) ** 2 / squares)) if squares else None
