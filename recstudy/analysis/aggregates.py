"""One number, and one curve, for several tasks: what Agarwal et al. (2021, "Deep RL at the edge of the statistical precipice")
ask for instead of a mean over few runs. Pure functions; each takes its random generator.

Scores are one sequence of runs a task, on a scale that the tasks share. Resampling is stratified: runs are drawn anew within
each task, and never a task for another.
"""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from recstudy.analysis.stats import LEVEL, Interval

Array = npt.NDArray[np.float64]
Tasks = Sequence[Sequence[float]]


class Statistic(Protocol):
    """Of scores (..., M) along `axis`, as `numpy.mean`."""

    def __call__(self, scores: Any, *, axis: int) -> Any: ...


def interquartile_mean(scores: Any, *, axis: int = -1) -> Any:
    """Mean of the middle half: what a quarter at each end says does not count; scores (..., M) of all tasks' runs."""
    from scipy.stats import trim_mean

    return trim_mean(scores, 0.25, axis=axis)


def bootstrap_interval(
    tasks: Tasks,
    rng: np.random.Generator,
    statistic: Statistic = interquartile_mean,
    level: float = LEVEL,
    resamples: int = 9999,
) -> Interval:
    """Stratified BCa bootstrap (Efron 1987) of a statistic of all runs together; `n` counts them.

    Tasks with more runs weigh more. Without bounds where a task has only one run, as there is nothing to draw from; too narrow
    for fewer than about ten runs in all. Where the acceleration is undefined (most runs alike), the percentile interval.
    """
    from scipy.stats import bootstrap

    samples = [np.asarray(task, dtype=float) for task in tasks]
    together = np.concatenate(samples) if samples else np.empty(0)
    if not len(together):
        return Interval(None, None, None, 0)
    value = float(statistic(together, axis=-1))
    if min(map(len, samples)) < 2:
        return Interval(value, None, None, len(together))

    def pooled(*parts: Array, axis: int) -> Array:
        return statistic(np.concatenate(parts, axis=axis), axis=axis)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of degenerate data, which are seen by their NaN
        found = bootstrap(samples, pooled, n_resamples=resamples, confidence_level=level, method="BCa", vectorized=True, rng=rng)
    low, high = map(float, found.confidence_interval)
    if np.isnan([low, high]).any():
        low, high = map(float, np.quantile(found.bootstrap_distribution, [(1 - level) / 2, (1 + level) / 2]))
    return Interval(value, min(low, value), max(high, value), len(together))


class Profile(NamedTuple):
    """Share of runs above each threshold, and the band around it: (T,) each."""

    shares: Array
    low: Array
    high: Array


def performance_profile(
    tasks: Tasks, thresholds: Sequence[float], rng: np.random.Generator, level: float = LEVEL, resamples: int = 2000
) -> Profile:
    """For each threshold the share of a task's runs above it, averaged over tasks; pointwise stratified percentile band."""
    above = [np.asarray(task, dtype=float)[:, None] > np.asarray(thresholds) for task in tasks]  # (R, T) each
    shares = np.mean([task.mean(axis=0) for task in above], axis=0)
    drawn = [task[rng.integers(len(task), size=(resamples, len(task)))].mean(axis=1) for task in above]
    low, high = np.quantile(np.mean(drawn, axis=0), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Profile(shares, low, high)
