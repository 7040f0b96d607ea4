"""What several groups measured of one cell.

    y_i = mu + u_i + e_i,   u_i ~ N(0, tau^2),   e_i ~ N(0, SE_i^2)     (1)   random effects
    sum_i (y_i - mu)^2 / (tau^2 + SE_i^2) = k - 1                       (2)   Paule and Mandel (1982), for tau; 0 without a root
    mu +- t(k-1) SE(mu),   mu +- t(k-2) sqrt(tau^2 + SE(mu)^2)          (3)   the mean; what one more would find

The interval of the mean is Hartung and Knapp's: their factor, the left side of (2) over k - 1, is 1 by (2);
where tau is 0, it counts as 1 if it is less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from recstudy.evidence.estimates import LEVEL
from recstudy.lazy import np, special

# of (2), and at most, to solve it: those of statsmodels' combine_effects, whose numbers these are
TOLERANCE, STEPS = 1e-5, 50
ENOUGH = 3  # values from which a prediction interval has degrees of freedom


@dataclass(frozen=True)
class Combined:
    """Random effects over `k` values: their mean with its interval, the spread `tau` between them, and what
    one more would find.

    `interval` is None for one value, `predicted` for fewer than three.
    """

    mean: float
    tau: float
    k: int
    error: float
    interval: tuple[float, float] | None = None
    predicted: tuple[float, float] | None = None


def combine(values: Sequence[float], errors: Sequence[float], level: float = LEVEL) -> Combined:
    """Return (1) to (3).

    Args:
        values: what each has measured, one at least.
        errors: the standard error of each, as a measurement of its own run; above 0.
        level: of both intervals.
    """
    if len(values) == 1:
        return Combined(values[0], 0.0, 1, errors[0])
    y, variances, k, tau2 = np.asarray(values, float), np.square(np.asarray(errors, float)), len(values), 0.0
    for _ in range(STEPS):  # Newton's method for (2), from below (DerSimonian and Kacker 2007)
        weights = 1 / (variances + tau2)
        mean = float(weights @ y / weights.sum())
        squares = np.square(y - mean)
        excess = float(weights @ squares) - (k - 1)
        if excess <= TOLERANCE:
            break
        tau2 += excess / float(np.square(weights) @ squares)
    error = sqrt(max(1.0, float(weights @ squares) / (k - 1)) / float(weights.sum()))
    half = float(special.stdtrit(k - 1, (1 + level) / 2)) * error
    reach = float(special.stdtrit(k - 2, (1 + level) / 2)) * sqrt(tau2 + error**2) if k >= ENOUGH else None
    predicted = None if reach is None else (mean - reach, mean + reach)
    return Combined(mean, sqrt(tau2), k, error, (mean - half, mean + half), predicted)
