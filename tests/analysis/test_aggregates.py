"""What Agarwal et al. (2021) ask for, against scipy and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from recstudy.analysis.aggregates import bootstrap_interval, interquartile_mean, performance_profile

tasks = st.lists(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=6), min_size=1, max_size=4)


def skewed(count, seed=0):
    return list(np.random.default_rng(seed).gamma(1.0, 2.0, count))


def test_interquartile_mean_by_hand():
    """Of eight scores the two best and the two worst do not count."""
    assert interquartile_mean([0, 1, 2, 3, 4, 5, 100, 1000]) == 3.5
    assert list(interquartile_mean(np.array([[1, 2, 3, 4], [5, 5, 5, 9]]))) == [2.5, 5.0]


def test_one_task_is_scipys_bca():
    values = skewed(30)

    ours = bootstrap_interval([values], np.random.default_rng(0), np.mean)

    theirs = scipy_stats.bootstrap((values,), np.mean, method="BCa", rng=np.random.default_rng(0)).confidence_interval
    assert (ours.mean, ours.n) == (pytest.approx(np.mean(values)), 30)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs))


def test_resampling_stays_within_each_task():
    """Two tasks far apart, without much spread in either: drawn together the mean would wander by 4 points, within by 0.01."""
    near, far = [10.0, 10.01, 10.02], [90.0, 90.01, 90.02]

    interval = bootstrap_interval([near, far], np.random.default_rng(0), np.mean)

    assert interval.mean == pytest.approx(50.01)
    assert interval.high - interval.low < 0.03


def test_bca_follows_the_skew():
    """To the right of a right-skewed sample's mean there is more room than to its left."""
    interval = bootstrap_interval([skewed(40)], np.random.default_rng(0), np.mean)

    assert interval.high - interval.mean > interval.mean - interval.low


def test_it_covers_a_skewed_mean_nearly_as_often_as_it_says():
    """100 samples of 40 of a gamma with mean 2; three standard errors below 95 % is 88 %."""
    found = [bootstrap_interval([skewed(40, seed)], np.random.default_rng(0), np.mean, resamples=500) for seed in range(100)]

    assert np.mean([interval.low <= 2.0 <= interval.high for interval in found]) > 0.88


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], (None, None, None, 0)),
        ([[5.0]], (5.0, None, None, 1)),
        ([[5.0, 7.0], [6.0]], (6.0, None, None, 3)),
        ([[5.0, 5.0], [7.0, 7.0]], (6.0, 6.0, 6.0, 4)),
    ],
)
def test_what_cannot_be_drawn_from_has_no_interval(runs, expected):
    assert bootstrap_interval(runs, np.random.default_rng(0), np.mean, resamples=99) == expected


@given(tasks)
def test_intervals_contain_the_statistic_and_repeat_with_their_generator(runs):
    first, again = (bootstrap_interval(runs, np.random.default_rng(0), resamples=50) for _ in range(2))

    assert first == again
    assert first.low <= first.mean <= first.high


def test_performance_profile_by_hand():
    """Above 1.5: one of two runs of the first task, all three of the second; each task counts the same."""
    profile = performance_profile([[1.0, 2.0], [2.0, 3.0, 4.0]], [0.0, 1.5, 3.5, 9.0], np.random.default_rng(0))

    assert list(profile.shares) == pytest.approx([1.0, 0.75, 1 / 6, 0.0])
    assert (profile.low[0], profile.high[0]) == (1.0, 1.0)
    assert (profile.low <= profile.shares).all()
    assert (profile.shares <= profile.high).all()
    assert (profile.low[1], profile.high[1]) == (0.5, 1.0)  # of the first task none, one or both
