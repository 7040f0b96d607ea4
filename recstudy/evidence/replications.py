"""What several groups measured of one cell, and what a whole table of ours says of the published one.

    y_i = mu + u_i + e_i,   u_i ~ N(0, tau^2),   e_i ~ N(0, SE_i^2)     (1)   random effects
    sum_i (y_i - mu)^2 / (tau^2 + SE_i^2) = k - 1                       (2)   Paule and Mandel (1982), for tau; 0 where less
    mu +- t(k-1) SE(mu),   mu +- t(k-2) sqrt(tau^2 + SE(mu)^2)          (3)   the mean; what one more would find
    z_i = (mean_i - published_i) / (s_i sqrt(1 + 1/n_i))                (4)   a published single run has a run's own noise

The interval of the mean is Hartung and Knapp's: their factor, the left side of (2) over k - 1, is 1 by (2); where tau is 0, it
counts as 1 if it is less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.special import chdtrc, ndtri, stdtr, stdtrit

from recstudy.evidence.estimates import LEVEL

ENOUGH = 3  # values from which a prediction interval has degrees of freedom


@dataclass(frozen=True)
class Combined:
    """Random effects over `k` values: their mean with its interval, the spread `tau` between them, and what one more would find.

    `low` and `high` are None of one value, `predicted` (low, high) of fewer than three.
    """

    mean: float
    tau: float
    k: int
    error: float
    low: float | None = None
    high: float | None = None
    predicted: tuple[float, float] | None = None


def combine(values: Sequence[float], errors: Sequence[float], level: float = LEVEL) -> Combined:
    """Return (1) to (3).

    Args:
        values: what each has measured, one at least.
        errors: the standard error of each, as a measurement of its own run; 0 where it is negligible.
        level: of both intervals.
    """
    y, variances = np.asarray(values, float), np.square(np.asarray(errors, float))
    if y.size == 1:
        return Combined(float(y[0]), 0.0, 1, float(np.sqrt(variances[0])))
    between = _between(y, variances)
    mean, weights = _weighted(y, variances, between)
    k, error = y.size, 1 / sqrt(weights.sum())
    factor = max(1.0, float(np.sum(weights * (y - mean) ** 2)) / (k - 1))
    error *= sqrt(factor)
    half = float(stdtrit(k - 1, (1 + level) / 2)) * error
    reach = float(stdtrit(k - 2, (1 + level) / 2)) * sqrt(between + error**2) if k >= ENOUGH else None
    predicted = None if reach is None else (mean - reach, mean + reach)
    return Combined(mean, sqrt(between), k, error, mean - half, mean + half, predicted)


def _weighted(y: np.ndarray, variances: np.ndarray, between: float) -> tuple[float, np.ndarray]:
    total = np.maximum(variances + between, np.finfo(float).tiny)
    weights = np.minimum(1 / total, 1e300 / y.size)  # of values that agree and are exact
    return float(np.sum(weights * y) / weights.sum()), weights


def _between(y: np.ndarray, variances: np.ndarray) -> float:
    """Return tau^2 of (2), whose left side falls as tau^2 grows: by bisection."""

    def excess(between: float) -> float:
        mean, weights = _weighted(y, variances, between)
        return float(np.sum(weights * (y - mean) ** 2)) - (y.size - 1)

    low, high = 0.0, float(np.sum((y - y.mean()) ** 2))  # there every weight is at most 1/high, and the sum at most 1
    if high == 0.0 or excess(low) <= 0:
        return 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


@dataclass(frozen=True)
class Agreement:
    """Whether a table of ours is the published one: Q, the sum of z^2, against chi-square, and the mean of z, whose standard
    error is 1/sqrt(df): all lower by a little shows there and in no single z.
    """

    q: float
    df: int
    p: float
    mean_z: float


def agreement(
    means: Sequence[float], spreads: Sequence[float], ns: Sequence[int], published: Sequence[float], dfs: Sequence[float] = ()
) -> Agreement:
    """Return (4) over the cells of a table, one at least.

    Args:
        means: ours, over seeds.
        spreads: standard deviation of one of our runs.
        ns: how many seeds of ours.
        published: each from a single run.
        dfs: degrees of freedom of the spreads; given, each z is the normal quantile of its t's probability, for t(2) squared is
            far from chi-square.
    """
    n = np.asarray(ns, float)
    z = (np.asarray(means, float) - np.asarray(published, float)) / (np.asarray(spreads, float) * np.sqrt(1 + 1 / n))
    if len(dfs):
        z = np.sign(z) * -ndtri(stdtr(np.asarray(dfs, float), -np.abs(z)))
    q = float(np.sum(z**2))
    return Agreement(q, z.size, float(chdtrc(z.size, q)), float(z.mean()))
