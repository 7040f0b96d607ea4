"""Test items are a sample, too: intervals over seeds and items together, and the test of two variants on the same items.

Shapes: n runs, M items. Items that belong together (augmented copies of one puzzle, test inputs of one ARC task) are given as
clusters: their scores count as one draw (Miller, arXiv:2411.00640).
"""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc, stdtrit

from recstudy.evidence.estimates import Estimate
from recstudy.evidence.scales import LINEAR, Scale

Scores = npt.NDArray[np.float64]


def over_items(
    found: Estimate,
    scores: Sequence[Scores],
    weights: Sequence[float],
    clusters: npt.NDArray[np.int64] | None = None,
    scale: Scale = LINEAR,
) -> Estimate:
    """An estimate as if the items were drawn anew, too: seeds and items as crossed random effects.

    The variance over seeds and that over items, less what both contain of single answers; Satterthwaite's degrees of freedom.
    Never narrower than over seeds alone.

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
    of_seeds, both = found.error**2, sum(weight**2 * _single(one) for one, weight in zip(scores, weights, strict=True))
    total = max(of_seeds, of_items, of_seeds + of_items - both)
    df = total**2 / (of_seeds**2 / found.df + of_items**2 / max(1, drawn - 1))
    middle = scale.transform(found.value)
    half = float(stdtrit(df, (1 + found.level) / 2)) * sqrt(total) / scale.slope(found.value)
    low, high = max(scale.inverse(middle - half), found.reach[0]), min(scale.inverse(middle + half), found.reach[1])
    wide = replace(found, low=low, high=high, error=sqrt(total), df=df)
    return wide if width(wide) > width(found) else found


def variance_of_mean(values: Scores, clusters: npt.NDArray[np.int64] | None = None) -> tuple[float, int]:
    """The variance of the mean over items or clusters of them, and how many draws there are."""
    if clusters is None:
        return float(values.var(ddof=1)) / len(values), len(values)
    _, which = np.unique(clusters, return_inverse=True)
    sums = np.bincount(which, weights=values - values.mean())
    drawn = len(sums)
    return float((sums**2).sum()) / len(values) ** 2 * drawn / max(1, drawn - 1), drawn


def mcnemar(ours: Scores, theirs: Scores, clusters: npt.NDArray[np.int64] | None = None) -> float | None:
    """p of McNemar's test that two variants are as often right on other items like these, their trained weights as they are.

    Of several runs each, the items or their clusters are the clusters of Durkalski (2003): chi^2 = (sum of differences)^2 / sum
    of their squares.
    """
    apart = ours.mean(0) - theirs.mean(0)
    if clusters is not None:
        apart = np.bincount(np.unique(clusters, return_inverse=True)[1], weights=apart)
    squares = float(apart @ apart)
    return float(chdtrc(1, float(apart.sum()) ** 2 / squares)) if squares else None


def width(found: Estimate) -> float:
    """Of an interval; 0 where there is none."""
    return found.high - found.low if found.low is not None and found.high is not None else 0.0


def _single(scores: Scores) -> float:
    """The variance of the mean that is due to single answers, beside effects of runs and of items."""
    n, items = scores.shape
    if n < 2:
        return 0.0
    left = scores - scores.mean(0) - scores.mean(1, keepdims=True) + scores.mean()
    return float((left**2).sum()) / ((n - 1) * (items - 1)) / (n * items)
