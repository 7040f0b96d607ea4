"""An estimate with its interval, why an interval is as it is or is missing, and the scale that values spread
alike on.

    share of N items   a = arcsin(sqrt(p)): items drawn anew give a variance of 1/(4N) wherever p is   (1)
    a loss             log(v)                                                                           (2)
    anything else      v itself, no further than its bounds                                             (3)

Test items are a sample, too: intervals over seeds and items together, and the test of two variants on the
same items. Shapes: n runs, M items. Items that belong together (augmented copies of one puzzle, test inputs
of one ARC task) are given as clusters: their scores count as one draw (Miller, arXiv:2411.00640).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import asin, exp, inf, log, pi, sin, sqrt
from typing import TYPE_CHECKING, Literal, TypeAlias

from recstudy.lazy import np, special

if TYPE_CHECKING:
    import numpy.typing as npt


LEVEL = 0.95


class Why(StrEnum):
    """Why an estimate is no plain t interval."""

    CEILING = "ceiling"  # every seed at the upper bound, which shows no spread
    FLOOR = "floor"  # every seed at the lower bound
    SPLIT = "split"  # some seeds learned and others did not
    MAY_SPLIT = "may split"  # seeds of another variant split, and a few seeds may all be of one kind
    # a ratio to what is not told from 0, which has no bounded interval (Fieller 1954)
    NEAR_ZERO = "near zero"
    NO_SPREAD = "no spread"  # one run and nothing to borrow from, or runs that agree
    NO_RUN = "no run"


@dataclass(frozen=True, slots=True)
class SplitSeeds:
    """Seeds of two kinds: `learned` of `of` lie above the gap.

    `low` and `high` are the exact (Clopper-Pearson) interval of the share that learns, `given` the mean of
    those that did.
    """

    learned: int
    of: int
    low: float
    high: float
    given: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its confidence interval over seeds, in the metric's own unit.

    Args:
        value: the mean, or a weighted sum of means; None without runs.
        low: lower end at `level`; None where `why` says so.
        high: upper end.
        level: of the interval, 0.95 where nothing else is said.
        n: seeds behind it, of a contrast the fewest of its variants.
        df: degrees of freedom; None where no spread is known.
        error: standard error in the metric's unit.
        reach: the least and the largest that it can be, beyond which no interval reaches.
        why: what a reader must know of the interval.
        split: the two kinds of seeds if `why` is SPLIT; at a bound, how many seeds exceed the stated
            threshold of success.
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

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends; None where there is no interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)


TINY = 1e-12  # of a loss, whose logarithm has no place at 0


@dataclass(frozen=True)
class Scale:
    """A metric's scale.

    Args:
        low: the metric's lower bound.
        high: its upper bound.
        kind: `linear`, `share` (of right answers to `items` questions) or `log`.
        items: of a share, the distinct questions that it is a share of.
    """

    low: float = -inf
    high: float = inf
    kind: Literal["linear", "share", "log"] = "linear"
    items: int = 0

    def share(self, value: float) -> float:
        """Return a value between the bounds as a number from 0 to 1."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def transform(self, value: float) -> float:
        """Return the place of a value on the scale; that of the nearest bound for one outside."""
        if self.kind == "share":
            return asin(sqrt(self.share(value)))
        if self.kind == "log":
            return log(max(value, TINY))
        return min(max(value, self.low), self.high)

    def inverse(self, place: float) -> float:
        """Return the value at a place, within the bounds."""
        if self.kind == "share":
            return self.low + (self.high - self.low) * sin(min(max(place, 0.0), pi / 2)) ** 2
        return exp(min(place, 700.0)) if self.kind == "log" else min(max(place, self.low), self.high)

    def slope(self, value: float) -> float:
        """Return how a value changes with its place (delta method); a share counts as half an item from its
        bounds at least.
        """
        if self.kind == "share":
            least = 1 / (2 * self.items)
            share = min(max(self.share(value), least), 1 - least)
            return (self.high - self.low) * 2 * sqrt(share * (1 - share))
        return max(value, TINY) if self.kind == "log" else 1.0

    def items_from_bound(self, value: float) -> float:
        """Return how many items a share is from the nearest bound; endless on other scales."""
        share = self.share(value) if self.kind == "share" else 0.5
        return min(share, 1 - share) * self.items if self.kind == "share" else inf


LINEAR = Scale()

Scores: TypeAlias = "npt.NDArray[np.float64]"


def over_items(
    found: Estimate,
    scores: Sequence[Scores],
    weights: Sequence[float],
    clusters: npt.NDArray[np.int64] | None = None,
    scale: Scale = LINEAR,
) -> Estimate:
    """Return an estimate as if the items were drawn anew, too: seeds and items as crossed random effects.

    The variance over seeds and that over items, less what both contain of single answers; Satterthwaite's
    degrees of freedom. Never narrower than over seeds alone.

    Args:
        found: the contrast over seeds, with its standard error in the scores' unit.
        scores: (n, M) of each variant in the contrast.
        weights: of each.
        clusters: (M,) which items are one draw; each its own by default.
        scale: of a single mean, that of its metric.
    """
    if found.value is None or found.error is None or found.df is None:
        return found
    means = np.sum([weight * one.mean(0) for one, weight in zip(scores, weights, strict=True)], axis=0)
    of_items, drawn = variance_of_mean(means, clusters)
    # the latter is due to single answers, beside effects of runs and items
    of_seeds, both = found.error**2, 0.0
    for one, weight in ((one, weight) for one, weight in zip(scores, weights, strict=True) if len(one) > 1):
        left = one - one.mean(0) - one.mean(1, keepdims=True) + one.mean()
        both += weight**2 * float((left**2).sum()) / ((len(one) - 1) * (one.shape[1] - 1)) / one.size
    total = max(of_seeds, of_items, of_seeds + of_items - both)
    df = total**2 / (of_seeds**2 / found.df + of_items**2 / max(1, drawn - 1))
    middle = scale.transform(found.value)
    half = float(special.stdtrit(df, (1 + found.level) / 2)) * sqrt(total) / scale.slope(found.value)
    low, high = (
        max(scale.inverse(middle - half), found.reach[0]),
        min(scale.inverse(middle + half), found.reach[1]),
    )
    wide = replace(found, low=low, high=high, error=sqrt(total), df=df)
    return wide if found.low is None or found.high is None or high - low > found.high - found.low else found


def variance_of_mean(values: Scores, clusters: npt.NDArray[np.int64] | None = None) -> tuple[float, int]:
    """Return the variance of the mean over items or clusters of them, and how many draws there are."""
    if clusters is None:
        return float(values.var(ddof=1)) / len(values), len(values)
    _, which = np.unique(clusters, return_inverse=True)
    sums = np.bincount(which, weights=values - values.mean())
    drawn = len(sums)
    return float((sums**2).sum()) / len(values) ** 2 * drawn / max(1, drawn - 1), drawn


def independent_share(groups: Sequence[Scores]) -> float:
    """Return the share of the variance of answers that is between the seeds of one variant: 0 if all runs
    answer alike.

    Items that are hard for every run add nothing to the differences between runs.

    Args:
        groups: (n, M) of each variant, each score from 0 to 1, n two or more.
    """
    between = sum(float(scores.var(0, ddof=1).sum()) for scores in groups)
    means = [scores.mean(0) for scores in groups]
    whole = sum(len(mean) * float(mean.mean() * (1 - mean.mean())) for mean in means)
    return min(1.0, between / whole) if whole else 0.0


def mcnemar(ours: Scores, theirs: Scores, clusters: npt.NDArray[np.int64] | None = None) -> float | None:
    """Return p of McNemar's test that two variants are as often right on other such items, their weights as
    they are.

    Of several runs each, the items or their clusters are the clusters of Durkalski (2003): chi^2 = (sum of
    differences)^2 / sum of their squares.
    """
    apart = ours.mean(0) - theirs.mean(0)
    if clusters is not None:
        apart = np.bincount(np.unique(clusters, return_inverse=True)[1], weights=apart)
    squares = float(apart @ apart)
    return float(special.chdtrc(1, float(apart.sum()) ** 2 / squares)) if squares else None
