import numpy as np
import pytest
from statsmodels.stats.meta_analysis import combine_effects

from recstudy.evidence.replications import combine

# Exact accuracy of TRM-MLP on Sudoku-Extreme as seven groups retrained it, with the standard errors of
# 422,786 puzzles.
RETRAINED = [84.80, 79.37, 75.57, 86.03, 86.65, 87.0, 84.0]
ERRORS = [0.055, 0.062, 0.066, 0.053, 0.052, 0.6, 0.3]


@pytest.mark.parametrize(
    ("values", "errors"),
    [
        (RETRAINED, ERRORS),
        ([1.0, 2.0, 4.0], [0.1, 0.5, 0.2]),
        ([5.0, 5.5, 5.1, 4.8, 5.2], [0.1, 0.2, 0.1, 0.1, 0.3]),
    ],
)
def test_tau_solves_its_equation(values, errors):
    """Equation (2), and the weighted mean with the standard error of (3)."""
    summary = combine(values, errors)
    weights = 1 / (summary.tau**2 + np.square(errors))

    assert np.sum(weights * (np.array(values) - summary.mean) ** 2) == pytest.approx(
        len(values) - 1, rel=1e-4
    )
    assert summary.mean == pytest.approx(np.average(values, weights=weights))
    assert summary.error == pytest.approx(weights.sum() ** -0.5, rel=1e-4)
    assert sum(summary.interval) / 2 == pytest.approx(summary.mean)


def test_random_effects_are_those_of_statsmodels():
    summary, referee = (
        combine(RETRAINED, ERRORS),
        combine_effects(np.array(RETRAINED), np.square(ERRORS), method_re="pm"),
    )

    assert (summary.mean, summary.tau**2) == pytest.approx((referee.mean_effect_re, referee.tau2), rel=1e-9)


def test_random_effects_by_hand():
    """With small errors tau is the values' standard deviation: 2 of 1, 3, 5, so that SE is 2/sqrt(3)."""
    summary = combine([1.0, 3.0, 5.0], [1e-3, 1e-3, 1e-3])

    assert (summary.mean, summary.tau, summary.k) == (pytest.approx(3.0), pytest.approx(2.0, rel=1e-5), 3)
    assert summary.interval[1] - 3 == pytest.approx(4.302653 * 2 / 3**0.5, rel=1e-5)  # t(2)
    assert summary.predicted[1] - 3 == pytest.approx(12.706205 * (4 + 4 / 3) ** 0.5, rel=1e-5)  # t(1)


def test_values_that_agree_have_no_spread_between_them():
    summary = combine([80.0, 80.1, 79.9, 80.0], [0.5, 0.5, 0.5, 0.5])

    assert (summary.tau, summary.error) == (0.0, pytest.approx(0.25))


def test_few_values_have_no_prediction():
    single, two = combine([80.0], [0.5]), combine([80.0, 82.0], [0.1, 0.1])

    assert (single.mean, single.interval, single.predicted, single.error) == (80.0, None, None, 0.5)
    assert two.interval[0] < 81.0 < two.interval[1]
    assert two.predicted is None
