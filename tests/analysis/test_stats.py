"""Spread, intervals and verdicts: by hand, against scipy, and by drawing studies whose truth is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from statsmodels.stats.weightstats import DescrStatsW

from recstudy.analysis.stats import (
    LINEAR,
    UNEQUAL,
    WIDE,
    Scale,
    Spread,
    equivalent,
    interval,
    mean_interval,
    more_seeds,
    own,
    pool,
    prediction_interval,
    verdict,
)

PERCENT = Scale(0.0, 100.0)
DIGITS = Scale(0.0, 100.0, items=360)
samples = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12).filter(lambda values: np.ptp(values) > 1e-6)
scores = st.lists(st.integers(0, 360).map(lambda right: right / 3.6), min_size=1, max_size=6)


def test_interval_is_students_t():
    values = [93.0, 93.1, 93.2, 92.7]

    found = mean_interval(values)

    low, high = scipy_stats.t.interval(0.95, 3, loc=np.mean(values), scale=scipy_stats.sem(values))
    assert (found.mean, found.low, found.high, found.n) == pytest.approx((93.0, low, high, 4))


def test_interval_by_hand():
    """93.0 93.1 93.2: standard error 0.1 / sqrt(3), and the 97.5 % quantile of t with 2 degrees is 4.302653."""
    assert mean_interval([93.0, 93.1, 93.2]).high == pytest.approx(93.1 + 4.302653 * 0.1 / 3**0.5)


def test_no_spread_seen_is_no_interval():
    """That two runs agree does not show that a third would."""
    assert mean_interval([5.0]) == (5.0, None, None, 1)
    assert mean_interval([]) == (None, None, None, 0)
    assert mean_interval([93.1, 93.1]) == (93.1, None, None, 2)


def test_pooled_spread_by_hand():
    """Squares 2 * 0.1^2 and 2 * 0.5^2 with 1 and 1 degrees: s = sqrt(0.52 / 2); a lone value takes part in the interval alone."""
    spreads = pool({"a": [93.0, 93.2], "b": [90.0, 91.0], "c": [92.0]})

    assert all(spreads[key] == Spread(pytest.approx((0.52 / 2) ** 0.5), 2, LINEAR, 2) for key in "abc")
    found = interval([92.0], spreads["c"])
    assert found.high - 92.0 == pytest.approx(4.302653 * 0.26**0.5)
    wide = prediction_interval([93.0, 93.2], spreads["a"])
    assert wide.high - 93.1 == pytest.approx(4.302653 * 0.26**0.5 * 1.5**0.5)


def test_a_variant_several_times_as_wide_goes_by_its_own():
    spreads = pool({"a": [93.0, 93.4], "b": [92.0, 92.5], "c": [91.0, 91.3], "diverging": [60.0, 90.0], "lone": [92.0]})

    assert spreads["diverging"] == Spread(pytest.approx(30 / 2**0.5), 1, LINEAR, 1, WIDE)
    assert {spreads[key].df for key in ("a", "b", "c", "lone")} == {3}


def test_unequal_spreads_of_many_seeds_are_not_pooled():
    """Half of the variants have twice the spread of the others: none stands out, but Brown and Forsythe's test sees it."""
    drawn = np.random.default_rng(0).normal(0, [[1.0], [2.0]] * 6, (12, 12))
    assert scipy_stats.levene(*drawn, center="median").pvalue < 0.05

    spreads = pool(dict(enumerate(drawn.tolist())))

    assert {spread.why for spread in spreads.values()} == {UNEQUAL}
    assert spreads[0].sd == pytest.approx(drawn[0].std(ddof=1))


@pytest.mark.parametrize("groups", [{}, {"a": [1.0], "b": [2.0]}, {"a": [1.0, 1.0], "b": [2.0, 2.0, 2.0]}])
def test_without_any_spread_there_is_none(groups):
    assert pool(groups) == {}


def test_variants_that_agree_are_not_held_against_one_that_does_not():
    """On a small test set two runs often agree: that shows no spread of 0 that the third would be outside of."""
    spreads = pool({"a": [95.0, 95.0], "b": [94.0, 94.0], "c": [93.0, 94.0]})

    assert {(spread.df, spread.why) for spread in spreads.values()} == {(3, "")}


def test_logits_by_hand():
    """359 of 360 right, with half an answer on both sides: ln(359.5 / 1.5)."""
    assert DIGITS.there(100 * 359 / 360) == pytest.approx(np.log(359.5 / 1.5))
    assert DIGITS.back(np.log(359.5 / 1.5)) == pytest.approx(100 * 359 / 360)
    share = 359.5 / 361
    assert DIGITS.slope(100 * 359 / 360) == pytest.approx(100 * share * (1 - share) * 361 / 360)


@given(st.sampled_from([LINEAR, PERCENT, DIGITS]), st.floats(0, 100))
def test_a_scale_leads_back(scale, value):
    assert scale.back(scale.there(value)) == pytest.approx(value, abs=1e-9)


@given(st.dictionaries(st.integers(0, 5), scores, min_size=1), st.sampled_from([PERCENT, DIGITS]))
def test_intervals_hold_the_mean_and_stay_within_the_bounds(groups, scale):
    spreads = pool(groups, scale)

    for key, values in groups.items():
        for found in (interval(values, spreads.get(key)), prediction_interval(values, spreads.get(key))):
            assert (found.low is None) == (key not in spreads)
            assert found.low is None or 0 <= found.low <= found.mean <= found.high <= 100


def test_equivalence_is_two_one_sided_tests():
    values = [93.0, 93.1, 93.2]

    above = scipy_stats.ttest_1samp(values, 93.0 - 0.5, alternative="greater").pvalue
    below = scipy_stats.ttest_1samp(values, 93.0 + 0.5, alternative="less").pvalue

    assert max(above, below) == pytest.approx(DescrStatsW(values).ttost_mean(92.5, 93.5)[0])
    for alpha in (0.001, 0.01, 0.05, 0.2):
        assert equivalent(values, 93.0, 0.5, own(values), alpha) == (max(above, below) < alpha)


@pytest.mark.parametrize(
    ("values", "target", "expected"),
    [
        ([93.0, 93.1, 93.2], 93.0, "reproduced"),
        ([93.29, 93.30, 93.31], 93.1, "reproduced"),  # outside the interval, but the margin holds it
        ([92.9, 93.3], 93.1, "consistent"),  # two seeds cannot show equivalence
        ([92.0, 93.0, 94.0], 90.0, "consistent"),  # one more run could be there: 93 - 4.97
        ([92.0, 93.0, 94.0], 88.0, "differs"),
        ([93.0, 93.1, 93.2], 92.0, "differs"),
        ([93.1], 93.1, "undecided"),
        ([93.1], 50.0, "undecided"),
        ([93.0, 93.0], 93.1, "undecided"),  # two runs agreed: no spread is known
        ([93.0, 93.0], 93.6, "undecided"),
        ([], 93.6, "undecided"),
    ],
)
def test_verdict_by_the_values_own_spread(values, target, expected):
    assert verdict(values, target, 0.5, own(values)) == expected


def test_a_pool_decides_where_a_run_alone_cannot():
    """s = 0.2 with 11 degrees of freedom: one more run lies within 2.2 * 0.2 * sqrt(2) = 0.62 of a single one."""
    spread = Spread(0.2, 11, PERCENT, 12)

    assert verdict([93.0, 93.0], 93.1, 0.5, spread) == "reproduced"
    assert [verdict([93.0], target, 0.5, spread) for target in (93.6, 93.7)] == ["consistent", "differs"]


def test_a_margin_that_reaches_beyond_a_bound_ends_there():
    spread = Spread(0.4, 20, DIGITS, 12)

    assert verdict([100.0, 100.0, 99.72], 99.9, 0.5, spread) == "reproduced"


@pytest.mark.parametrize(("sd", "n"), [(0.25, 3), (0.25, 10), (0.8, 2), (0.8, 5)])
def test_an_exact_replication_seldom_differs(sd, n):
    """The published value is one run of the same training. By the interval of the mean, 10 % at n = 3 and 44 % at n = 10 differed."""
    drawn = np.random.default_rng(n).normal(93.0, sd, (400, n + 1)).tolist()

    found = [verdict(values, published, 0.5, own(values)) for published, *values in drawn]

    assert found.count("differs") / 400 < 0.075


@given(samples, st.floats(-1e3, 1e3), st.floats(0.01, 10))
def test_equivalence_is_symmetric(values, target, margin):
    mirrored = [-value for value in values]

    assert equivalent(values, target, margin, own(values)) == equivalent(mirrored, -target, margin, own(mirrored))


@given(samples, st.floats(-1e3, 1e3), st.floats(0.01, 10))
def test_a_wider_margin_never_loses_equivalence(values, target, margin):
    spread = own(values)

    assert equivalent(values, target, 2 * margin, spread) or not equivalent(values, target, margin, spread)


@pytest.mark.parametrize(
    ("values", "target", "margin", "expected"),
    [
        ([93.1], 93.1, 0.5, None),  # no spread known
        ([93.0, 93.1, 93.2], 93.0, 0.5, 0),  # reproduced
        ([93.0, 93.1, 93.2], 92.0, 0.5, 0),  # differs
        ([1.0, -1.0], 0.0, 0.0, None),  # no margin that could hold it
        ([93.0, 94.0, 95.0], 93.0, 0.5, None),  # the mean is outside the margin
    ],
)
def test_more_seeds_where_none_help(values, target, margin, expected):
    assert more_seeds(values, target, margin, own(values)) == expected


def test_with_so_many_seeds_the_verdict_comes_in_four_of_five():
    """Mean 0.1 and spread 0.5 around a target with margin 0.5: 2,000 studies of the advised size."""
    values = [93.1 - 0.5, 93.1, 93.1 + 0.5]
    n = more_seeds(values, 93.0, 0.5, own(values)) + 3

    drawn = np.random.default_rng(0).normal(93.1, 0.5, (2000, n))

    reached = np.mean([verdict(sample, 93.0, 0.5, own(sample)) == "reproduced" for sample in drawn.tolist()])
    assert 0.78 < reached < 0.86
