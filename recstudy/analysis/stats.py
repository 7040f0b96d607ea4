"""Intervals, equivalence and verdicts: pure functions of the values that the seeds gave."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

Verdict = Literal["reproduced", "differs", "undecided"]


class Interval(NamedTuple):
    """A mean and its confidence interval; without bounds where one value or none is known."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


def mean_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Student's t interval of the mean: exact for normal values, and honest for the few seeds that studies have."""
    n = len(values)
    if n == 0:
        return Interval(None, None, None, 0)
    mean, error = _moments(values)
    if error is None:
        return Interval(mean, None, None, n)
    half = float(stdtrit(n - 1, (1 + level) / 2)) * error
    return Interval(mean, mean - half, mean + half, n)


def bootstrap_interval(values: Sequence[float], rng: np.random.Generator, level: float = 0.95, resamples: int = 9999) -> Interval:
    """Percentile bootstrap of the mean, for many seeds of a skewed metric; too narrow for fewer than about ten."""
    n = len(values)
    if n < 2:
        return mean_interval(values, level)
    sample = np.asarray(values, dtype=float)
    means = rng.choice(sample, size=(resamples, n)).mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    mean = float(sample.mean())
    return Interval(mean, min(float(low), mean), max(float(high), mean), n)


def equivalent(values: Sequence[float], target: float, margin: float, alpha: float = 0.05) -> bool:
    """Two one-sided t tests (Schuirmann 1987): is the mean within `margin` of `target`? One value never shows it."""
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


def _moments(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and its standard error; no error for one value, and exactly 0 for values that are all the same."""
    sample = np.asarray(values, dtype=float)
    if len(sample) == 1 or (sample == sample[0]).all():
        return float(sample[0]), None if len(sample) == 1 else 0.0
    return float(sample.mean()), float(sample.std(ddof=1) / np.sqrt(len(sample)))
