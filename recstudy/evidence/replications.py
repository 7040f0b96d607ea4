"""Random-effects means over the measurements that several groups published of one value.

    y_i = mu + u_i + e_i,   u_i ~ N(0, tau^2),   e_i ~ N(0, SE_i^2)     (1)
    sum_i (y_i - mu)^2 / (tau^2 + SE_i^2) = k - 1                       (2)
    mu +- t(k-1) SE(mu),   mu +- t(k-2) sqrt(tau^2 + SE(mu)^2)          (3)

(1) is the random-effects model. tau is the root of (2) (Paule and Mandel 1982), and 0 if there is no root.
(3) has the confidence interval of the mean and the prediction interval of one more group.

`recstudy.papers.replications` combines published values with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from recstudy.base.lazy import np, special
from recstudy.evidence.estimates import LEVEL

# Tolerance and largest number of steps to solve (2), as in statsmodels' combine_effects, for equal results.
TOLERANCE, STEPS = 1e-5, 50
MIN_VALUES = 3  # a prediction interval has k - 2 degrees of freedom


@dataclass(frozen=True)
class Combined:
    """The random-effects mean of several published values.

    Args:
        mean: The mean mu of (1).
        tau: The standard deviation between groups.
        k: The number of values.
        error: The standard error of the mean.
        interval: The confidence interval of the mean. None for one value.
        predicted: The prediction interval of one more group. None for fewer than three values.
    """

    mean: float
    tau: float
    k: int
    error: float
    interval: tuple[float, float] | None = None
    predicted: tuple[float, float] | None = None


def combine(values: Sequence[float], errors: Sequence[float]) -> Combined:
    """Combine the values of several groups by (1) to (3).

    Args:
        values: One value per group, at least one.
        errors: The standard error of each value, above 0.
    """
    if len(values) == 1:
        return Combined(values[0], 0.0, 1, errors[0])
    y, variances = np.asarray(values, float), np.square(np.asarray(errors, float))
    k, tau2 = len(values), 0.0
    for _ in range(STEPS):  # Newton's method for (2), from below (DerSimonian and Kacker 2007)
        weights = 1 / (variances + tau2)
        mean = float(weights @ y / weights.sum())
        squares = np.square(y - mean)
        excess = float(weights @ squares) - (k - 1)
        if excess <= TOLERANCE:
            break
        tau2 += excess / float(np.square(weights) @ squares)
    # Hartung and Knapp's factor, the left side of (2) over k - 1, is 1 by (2). If tau is 0, it can be smaller
    # and counts as 1.
    error = sqrt(max(1.0, float(weights @ squares) / (k - 1)) / float(weights.sum()))
    half = float(special.stdtrit(k - 1, (1 + LEVEL) / 2)) * error
    predicted = None
    if k >= MIN_VALUES:
        half_width = float(special.stdtrit(k - 2, (1 + LEVEL) / 2)) * sqrt(tau2 + error**2)
        predicted = mean - half_width, mean + half_width
    return Combined(mean, sqrt(tau2), k, error, (mean - half, mean + half), predicted)
