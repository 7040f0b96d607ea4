"""Intervals, tests and verdicts: pure functions of the values that the seeds gave.

scipy.stats and statsmodels are imported where they are called: together they take over a second to load, which every command
would pay. What every cell of a table needs goes by scipy.special alone.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

Verdict = Literal["reproduced", "differs", "undecided"]
LEVEL, ALPHA, POWER = 0.95, 0.05, 0.8
MOST_SEEDS = 1000  # where a verdict needs more than these, seeds are not what it lacks


class Interval(NamedTuple):
    """A mean and its confidence interval; without bounds where one value or none is known."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Student's t interval of the mean: exact for normal values, and honest for the few seeds that studies have.

    By hand, because 10,000 cells of a table take 0.13 s so, and 4.5 s by scipy.stats.t.interval.
    """
    n = len(values)
    if n == 0:
        return Interval(None, None, None, 0)
    mean, error = _moments(values)
    if error is None:
        return Interval(mean, None, None, n)
    half = float(stdtrit(n - 1, (1 + level) / 2)) * error
    return Interval(mean, mean - half, mean + half, n)


def equivalent(values: Sequence[float], target: float, margin: float, alpha: float = ALPHA) -> bool:
    """Two one-sided t tests (Schuirmann 1987): is the mean within `margin` of `target`? One value never shows it.

    By hand for the same reason as `mean_interval`.
    """
    if len(values) < 2:
        return False
    mean, error = _moments(values)
    distance = abs(mean - target)
    if not error:
        return distance < margin
    return bool(stdtr(len(values) - 1, (distance - margin) / error) < alpha)


def verdict(values: Sequence[float], target: float, margin: float) -> Verdict:
    """`reproduced`: equivalent within the margin; `differs`: the 95 % interval excludes the target; else `undecided`."""
    if equivalent(values, target, margin):
        return "reproduced"
    interval = mean_interval(values)
    if interval.low is None or interval.high is None or interval.low <= target <= interval.high:
        return "undecided"
    return "differs"


def more_seeds(values: Sequence[float], target: float = 0.0, margin: float = 0.0) -> int | None:
    """How many more seeds a `verdict` needs, if mean and spread stay as they are: it is then reached 4 times in 5.

    The power of both tests by the shifted t distribution (Julious 2004), a seed or so off the noncentral one. 0 where there is
    a verdict; None for fewer than two values, and where over `MOST_SEEDS` would be needed.
    """
    if len(values) < 2 or verdict(values, target, margin) != "undecided":
        return None if len(values) < 2 else 0
    mean, error = _moments(values)
    if not error:
        return None
    n = np.arange(len(values) + 1, MOST_SEEDS + 1)
    errors, distance = error * np.sqrt(len(values) / n), abs(mean - target)
    differs = stdtr(n - 1, distance / errors - stdtrit(n - 1, 1 - ALPHA / 2))
    ends = [stdtr(n - 1, room / errors - stdtrit(n - 1, 1 - ALPHA)) for room in (margin - distance, margin + distance)]
    enough = n[np.maximum(differs, ends[0] + ends[1] - 1) >= POWER]
    return int(enough[0]) - len(values) if len(enough) else None


def differences(values: Sequence[float], base: Sequence[float]) -> list[float]:
    """Value minus base, pair by pair; what subtraction leaves beyond the ninth decimal is rounding, and no spread."""
    return [round(value - other, 9) for value, other in zip(values, base, strict=True)]


def paired_p(differences: Sequence[float]) -> float | None:
    """Two-sided paired t test that their mean is 0; None where there is nothing to test by: one pair, or no spread."""
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(differences, 0.0).pvalue) if _spread(differences) else None


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted for their number (Holm 1979): the chance of any false finding among them stays below 5 %. None stays None."""
    from statsmodels.stats.multitest import multipletests

    tested = [p for p in p_values if p is not None]
    adjusted = iter(multipletests(tested, method="holm")[1] if tested else ())
    return [None if p is None else float(next(adjusted)) for p in p_values]


def detectable(differences: Sequence[float], alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The least true difference that so many pairs of this spread would show 4 times in 5; None as for `paired_p`."""
    from statsmodels.stats.power import TTestPower

    if not _spread(differences):
        return None
    effect = TTestPower().solve_power(None, nobs=len(differences), alpha=alpha, power=power, alternative="two-sided")
    return float(effect * np.std(differences, ddof=1))


def _moments(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and its standard error; no error for one value, and exactly 0 for values that are all the same."""
    sample = np.asarray(values, dtype=float)
    if len(sample) == 1 or (sample == sample[0]).all():
        return float(sample[0]), None if len(sample) == 1 else 0.0
    return float(sample.mean()), float(sample.std(ddof=1) / np.sqrt(len(sample)))


def _spread(values: Sequence[float]) -> bool:
    return len(set(values)) > 1
