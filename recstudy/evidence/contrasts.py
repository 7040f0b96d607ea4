"""Contrasts of means with their intervals, and the effects of a factorial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf, prod, sqrt
from typing import TYPE_CHECKING, TypeAlias

from recstudy.base.lazy import np, special
from recstudy.evidence.estimates import AT_BOUND, LEVEL, Estimate, Why, items_error
from recstudy.evidence.fits import Weighted

if TYPE_CHECKING:
    import numpy.typing as npt


def contrast(terms: Sequence[tuple[float, Weighted | None]]) -> Estimate:
    """Return a weighted sum of means in the metric's unit with its interval.

    Args:
        terms: Weight and mean of each variant; None for a variant without runs.
    """
    known_terms = [(weight, term) for weight, term in terms if term is not None]
    if len(known_terms) < len(terms) or not known_terms:
        return Estimate(None, why=Why.NO_RUN)
    n = min(term.n for _, term in known_terms)
    value = exact_sum(weight * term.value for weight, term in known_terms)
    whys = {term.why for _, term in known_terms}
    if Why.SPLIT in whys:
        return Estimate(value, n=n, why=Why.SPLIT)
    doubt = Why.MAY_SPLIT if Why.MAY_SPLIT in whys else None
    parts = [
        (weight**2 * term.variance, term.df) for weight, term in known_terms if term.variance is not None
    ]
    results = [(weight, term.item_result) for weight, term in known_terms if term.item_result]
    items = min(result.items for _, result in results) if len(results) == len(known_terms) else None
    if len(results) > 1 and all(result.scores for _, result in results) and items is not None:
        scores = [result.scores for _, result in results]
        weights = [weight for weight, _ in results]
        # the error is 0 if all runs have the same score for each item
        if paired_error := items_error(scores, weights):
            parts = [(paired_error**2, items - 1.0)]
    total = sum(variance for variance, _ in parts)
    if any(term.variance is None for _, term in known_terms) or not total:
        is_equal = Why.EQUAL in whys and whys.issubset(AT_BOUND)
        why = Why.EQUAL if is_equal else Why.NO_SPREAD
        return Estimate(value, n=n, why=whys.pop() if whys in ({Why.CEILING}, {Why.FLOOR}) else why)
    df = total**2 / sum(variance**2 / df for variance, df in parts)  # Satterthwaite (1946)
    term_bounds = [sorted((weight * term.low, weight * term.high)) for weight, term in known_terms]
    reach = sum(low for low, _ in term_bounds), sum(high for _, high in term_bounds)
    if len(whys) == 1:
        doubt = whys.pop()
    elif not whys.isdisjoint(AT_BOUND):
        doubt = Why.ONE_AT_BOUND
    n_at_bound = min((term.n for _, term in known_terms if term.why in AT_BOUND), default=0)
    estimate = Estimate(value, n=n, df=df, error=sqrt(total), reach=reach, why=doubt, items=items)
    return at_level(replace(estimate, n_at_bound=n_at_bound), LEVEL)


def exact_sum(values: Iterable[float]) -> float:
    """Return the sum of numbers, without the rounding error of numbers with a few decimals."""
    return round(sum(values), 9)


def interaction_p(estimates: Sequence[Estimate]) -> float | None:
    """Return the p value of Welch's test (1951) that all estimates have the same true value.

    Args:
        estimates: The same contrast in several blocks. None is returned if the variance of one is unknown.
    """
    rows = [(estimate.value, estimate.error, estimate.df) for estimate in estimates]
    if len(rows) < 2 or not all(value is not None and error and df for value, error, df in rows):
        return None
    values, errors, dfs = np.array(rows, dtype=float).T
    k, weights = len(values), 1 / errors**2
    shares = weights / weights.sum()
    between = float(weights @ (values - shares @ values) ** 2) / (k - 1)
    correction = float(((1 - shares) ** 2 / dfs).sum()) / (k**2 - 1)
    return float(special.fdtrc(k - 1, 1 / (3 * correction), between / (1 + 2 * (k - 2) * correction)))


def at_level(estimate: Estimate, level: float) -> Estimate:
    """Return an estimate of a contrast with its t interval at another confidence level."""
    if estimate.value is None or estimate.error is None or estimate.df is None:
        return replace(estimate, level=level)
    half = float(special.stdtrit(estimate.df, (1 + level) / 2)) * estimate.error
    low, high = estimate.value - half, estimate.value + half
    if scale := estimate.scale:
        middle, half = scale.transform(estimate.value), half / scale.slope(estimate.value)
        low, high = scale.inverse(middle - half), scale.inverse(middle + half)
    low, high = max(low, estimate.reach[0]), min(high, estimate.reach[1])
    return replace(estimate, low=low, high=high, level=level)


def ratio(ours: Weighted | None, theirs: Weighted | None, sign: float = 1.0) -> Estimate:
    """Return the relative difference of two means in percent, with an interval by the delta method.

    Args:
        ours: The first mean.
        theirs: The mean that counts as 100 %.
        sign: +1 for how much higher `ours` is, -1 for how much lower.

    Returns:
        The relative difference. It has no interval if the interval of `theirs` contains 0.
    """
    if ours is None or theirs is None or not theirs.value:
        return Estimate(None, why=Why.NO_RUN)
    share = ours.value / theirs.value
    unbounded = [term._replace(low=-inf, high=inf) for term in (ours, theirs)]
    weights = sign * 100 / theirs.value, -sign * 100 * share / theirs.value
    relative_difference = contrast(list(zip(weights, unbounded, strict=True)))
    value = round(sign * 100 * (share - 1), 9)
    denominator = contrast([(1.0, unbounded[1])])
    interval = denominator.interval
    if relative_difference.interval and interval and interval[0] <= 0 <= interval[1]:
        return Estimate(value, n=relative_difference.n, why=Why.NEAR_ZERO)
    return at_level(replace(relative_difference, value=value), relative_difference.level)


Signs: TypeAlias = "npt.NDArray[np.int64]"


def estimable(columns: Mapping[str, Signs]) -> dict[tuple[str, ...], list[float]] | None:
    """Return all effects of a two-level factorial, main effects first.

    Args:
        columns: Axis -> array (N,) of signs of the cells: -1 at its first level, +1 at its second level.

    Returns:
        The axes of an effect -> the weight of each cell in it: the mean over cells of +1 minus the mean over
        cells of -1. The column of an interaction is the product of the columns of its axes. None unless the
        cells are all combinations of the levels, once each.
    """
    cells = list(zip(*columns.values(), strict=True))
    if not len({*cells}) == len(cells) == 2 ** len(columns):
        return None
    effects = {}
    for size in range(1, len(columns) + 1):
        for axes in combinations(columns, size):
            signs = np.asarray(prod(columns[axis] for axis in axes))
            effects[axes] = [float(sign) / (len(cells) / 2) for sign in signs]
    return effects
