import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from scipy.special import stdtrit
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import DescrStatsW

from recstudy.analysis.stats import (
    detectable,
    differences,
    equivalent,
    holm,
    mean_interval,
    more_seeds,
    paired_p,
    verdict,
)

samples = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12)


def test_interval_is_students_t():
    values = [93.0, 93.1, 93.2, 92.7]

    interval = mean_interval(values)

    low, high = scipy_stats.t.interval(0.95, 3, loc=np.mean(values), scale=scipy_stats.sem(values))
    assert (interval.mean, interval.low, interval.high, interval.n) == pytest.approx((93.0, low, high, 4))


def test_interval_by_hand():
    """93.0 93.1 93.2: standard error 0.1 / sqrt(3), and the 97.5 % quantile of t with 2 degrees is 4.302653."""
    interval = mean_interval([93.0, 93.1, 93.2])

    assert interval.high == pytest.approx(93.1 + 4.302653 * 0.1 / 3**0.5)


def test_one_value_or_none_has_no_interval():
    assert mean_interval([5.0]) == (5.0, None, None, 1)
    assert mean_interval([]) == (None, None, None, 0)


def test_equivalence_is_two_one_sided_tests():
    values = [93.0, 93.1, 93.2]

    above = scipy_stats.ttest_1samp(values, 93.0 - 0.5, alternative="greater").pvalue
    below = scipy_stats.ttest_1samp(values, 93.0 + 0.5, alternative="less").pvalue

    assert max(above, below) == pytest.approx(DescrStatsW(values).ttost_mean(92.5, 93.5)[0])
    for alpha in (0.001, 0.01, 0.05, 0.2):
        assert equivalent(values, 93.0, 0.5, alpha) == (max(above, below) < alpha)


@pytest.mark.parametrize(
    ("values", "target", "expected"),
    [
        ([93.0, 93.1, 93.2], 93.0, "reproduced"),
        ([93.0, 93.1, 93.2], 92.0, "differs"),
        ([92.9, 93.3], 93.1, "undecided"),  # two seeds cannot show it
        ([93.1], 93.1, "undecided"),
        ([93.1], 50.0, "undecided"),
        ([93.0, 93.0], 93.1, "reproduced"),  # no spread at all
        ([93.0, 93.0], 94.0, "differs"),
        ([93.29, 93.30, 93.31], 93.1, "reproduced"),  # the interval excludes it, but the margin holds it
    ],
)
def test_verdict(values, target, expected):
    assert verdict(values, target, margin=0.5) == expected


@given(samples)
def test_intervals_contain_the_mean(values):
    interval = mean_interval(values)

    assert interval.low <= interval.mean <= interval.high


@given(samples, st.floats(-1e3, 1e3), st.floats(0.01, 10))
def test_equivalence_is_symmetric(values, target, margin):
    mirrored = [-value for value in values]

    assert equivalent(values, target, margin) == equivalent(mirrored, -target, margin)


@given(samples, st.floats(-1e3, 1e3), st.floats(0.01, 10))
def test_a_wider_margin_never_loses_equivalence(values, target, margin):
    assert equivalent(values, target, 2 * margin) or not equivalent(values, target, margin)


def test_five_seeds_cover_the_mean_as_often_as_the_interval_says():
    """Ours against the vectorised formula on 20 samples; the formula on 100,000 (standard error 0.07 points)."""
    drawn = np.random.default_rng(0).normal(90.0, 2.0, (100_000, 5))
    means, half = drawn.mean(axis=1), stdtrit(4, 0.975) * drawn.std(axis=1, ddof=1) / 5**0.5

    for at in range(20):
        interval = mean_interval(drawn[at])
        assert (interval.low, interval.high) == pytest.approx((means[at] - half[at], means[at] + half[at]))
    assert 0.93 < (abs(means - 90.0) <= half).mean() < 0.97


def test_a_paired_test_is_scipys_on_the_pairs():
    ours, base = [93.0, 93.4, 93.1, 92.8], [92.1, 93.2, 92.9, 92.9]

    values = differences(ours, base)

    assert values == [0.9, 0.2, 0.2, -0.1]
    assert paired_p(values) == pytest.approx(scipy_stats.ttest_rel(ours, base).pvalue)
    assert mean_interval(values)[1:3] == pytest.approx(scipy_stats.ttest_rel(ours, base).confidence_interval(0.95))


@pytest.mark.parametrize("values", [[], [0.3], [0.3, 0.3], [0.0, 0.0, 0.0]])
def test_pairs_without_spread_give_no_test(values):
    assert (paired_p(values), detectable(values)) == (None, None)


def test_rounding_is_no_spread():
    """0.3 - 0.1 and 0.4 - 0.2 differ in their last bit."""
    values = differences([0.3, 0.4], [0.1, 0.2])

    assert (0.3 - 0.1) != (0.4 - 0.2)
    assert values == [0.2, 0.2]


def test_holm_by_hand():
    """Holm (1979): 0.01 x 3, then 0.02 x 2, and 0.04 x 1 no less than that before it; what was not tested takes no share."""
    assert holm([0.04, None, 0.01, 0.02]) == [pytest.approx(0.04), None, pytest.approx(0.03), pytest.approx(0.04)]
    assert holm([]) == []
    assert holm([None]) == [None]


def test_holm_is_statsmodels():
    p_values = list(np.random.default_rng(0).uniform(0, 0.2, 9))

    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]))


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_what_is_detectable_is_detected_in_four_of_five(n):
    """By the power of the t test at that size, and for five pairs by drawing 20,000 studies."""
    pairs = np.random.default_rng(n).normal(0, 1.7, n)

    least = detectable(list(pairs))

    effect = least / pairs.std(ddof=1)
    assert TTestPower().power(effect, n, 0.05, alternative="two-sided") == pytest.approx(0.8, abs=1e-6)
    drawn = np.random.default_rng(0).normal(effect, 1.0, (20_000, n))
    assert (scipy_stats.ttest_1samp(drawn, 0.0, axis=1).pvalue < 0.05).mean() == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("mean", [0.3, 0.5, 1.0])
def test_more_seeds_is_the_power_analysis_of_the_mean_and_spread_seen(mean):
    """Within one seed of statsmodels, whose solver has the noncentral t."""
    values = [mean - 1.0, mean, mean + 1.0]  # standard deviation 1

    needed = TTestPower().solve_power(mean, None, alpha=0.05, power=0.8, alternative="two-sided")

    assert more_seeds(values) + 3 == pytest.approx(np.ceil(needed), abs=1)


@pytest.mark.parametrize(
    ("values", "target", "margin", "expected"),
    [
        ([93.1], 93.1, 0.5, None),  # no spread known
        ([93.0, 93.1, 93.2], 93.0, 0.5, 0),  # reproduced
        ([93.0, 93.1, 93.2], 92.0, 0.5, 0),  # differs
        ([1.0, -1.0], 0.0, 0.0, None),  # nothing to show, and no margin to hold it
        ([1.0, -1.001], 0.0, 0.0, None),  # over a thousand seeds
    ],
)
def test_more_seeds_where_none_help(values, target, margin, expected):
    assert more_seeds(values, target, margin) == expected


def test_with_so_many_seeds_the_verdict_comes_in_four_of_five():
    """Mean 0.1 and spread 0.5 around a target with margin 0.5: 5,000 studies of the advised size."""
    values = [93.1 - 0.5, 93.1, 93.1 + 0.5]
    n = more_seeds(values, 93.0, 0.5) + 3

    drawn = np.random.default_rng(0).normal(93.1, 0.5, (5000, n))

    reached = np.mean([verdict(list(sample), 93.0, 0.5) == "reproduced" for sample in drawn])
    assert 0.78 < reached < 0.86
