import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from recstudy.analysis.stats import bootstrap_interval, equivalent, mean_interval, verdict

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


def test_bootstrap_repeats_with_its_generator_and_agrees_with_scipy():
    values = list(np.random.default_rng(1).normal(90, 2, 40))

    ours = bootstrap_interval(values, np.random.default_rng(0))

    theirs = scipy_stats.bootstrap((values,), np.mean, method="percentile", rng=np.random.default_rng(3)).confidence_interval
    assert ours == bootstrap_interval(values, np.random.default_rng(0))
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.05)


@given(samples)
def test_intervals_contain_the_mean(values):
    for interval in (mean_interval(values), bootstrap_interval(values, np.random.default_rng(0), resamples=50)):
        assert interval.low <= interval.mean <= interval.high


@given(samples, st.floats(-1e3, 1e3), st.floats(0.01, 10))
def test_equivalence_is_symmetric(values, target, margin):
    mirrored = [-value for value in values]

    assert equivalent(values, target, margin) == equivalent(mirrored, -target, margin)


@given(samples, st.floats(-1e3, 1e3), st.floats(0.01, 10))
def test_a_wider_margin_never_loses_equivalence(values, target, margin):
    assert equivalent(values, target, 2 * margin) or not equivalent(values, target, margin)
