"""One fit for everything that is shown of a metric: by hand, by the cases that the rule before it failed, and
by its properties.
"""

from math import exp, log, pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import digamma, polygamma, stdtrit
from statsmodels.stats.proportion import proportion_confint

from recstudy.evidence import Fit, Scale, Why, independent_share

SHARE = Scale(0.0, 100.0, "share", 2000)
# what `recstudy new` gave beside saturated variants, and was printed as 79.4, 9.5 to 99.3
NEW_STUDY = [82.1, 76.8, 79.3]


def test_scales_go_there_and_back():
    """An angle by hand: 25 % is arcsin(1/2) = pi/6."""
    assert SHARE.transform(25.0) == pytest.approx(pi / 6)
    assert SHARE.inverse(pi / 6) == pytest.approx(25.0)
    assert (SHARE.inverse(-1.0), SHARE.inverse(9.0)) == (0.0, 100.0)
    assert Scale(kind="log").transform(exp(2.0)) == pytest.approx(2.0)
    assert Scale(0.0, 1.0).transform(1.5) == 1.0


@given(st.floats(0.0, 100.0), st.floats(0.1, 50.0))
def test_slope_is_the_derivative_away_from_the_bounds(value, width):
    value = min(max(value, 1.0), 99.0)
    step = 1e-6
    numeric = (
        SHARE.inverse(SHARE.transform(value) + step) - SHARE.inverse(SHARE.transform(value) - step)
    ) / (2 * step)
    assert SHARE.slope(value) == pytest.approx(numeric, rel=1e-4)


def test_two_variants_by_hand():
    """Equations (1) to (4) of `fits.py` on a linear scale: variances 1 and 4, d = 2 each.

    e = log s^2 - digamma(1) + log(1): the logs are 0 and log 4 apart from the bias 0.5772. Their variance,
    0.961, is below trigamma(1) = 1.645, so they vary no more than by chance: d0 is endless and s0^2 =
    exp(mean e) = 2 exp(0.5772) = 3.562.
    """
    fit = Fit({"a": [9.0, 10.0, 11.0], "b": [8.0, 10.0, 12.0]})

    assert fit.prior is not None
    s0 = exp(log(4) / 2 - digamma(1.0))
    assert fit.prior.value == pytest.approx(s0, rel=1e-5)
    assert fit.variance("a") == pytest.approx(((2 * s0 + 2 * 1) / 4, 4.0), rel=1e-5)
    assert fit.variance("b") == (4.0, 2.0)  # larger than (4), so that it stands for itself
    estimate = fit.estimate("a")
    half = stdtrit(4, 0.975) * sqrt((s0 + 1) / 2 / 3)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx(
        (10.0, 10 - half, 10 + half), rel=1e-5
    )


def test_a_variant_alone_has_its_own_t_interval():
    fit = Fit({"a": [9.0, 10.0, 11.0]})

    assert fit.variance("a") == (1.0, 2.0)
    assert fit.estimate("a").high == pytest.approx(10 + stdtrit(2, 0.975) / sqrt(3))


def test_saturated_variants_say_nothing_of_the_others():
    """The front page's case: 79.4 was printed as 9.5 to 99.3 because another variant was near 100 %."""
    single_fit = Fit({"a": NEW_STUDY}, SHARE).estimate("a")
    joint_fit = Fit({"a": NEW_STUDY, "b": [100.0, 100.0, 99.95], "c": [100.0] * 3}, SHARE).estimate("a")

    assert joint_fit.interval == pytest.approx(single_fit.interval)
    assert 71 < joint_fit.low < 74
    assert 84 < joint_fit.high < 87


@pytest.mark.parametrize("bound_index", range(3))
def test_one_item_moves_no_other_interval_by_a_tenth(bound_index):
    """From the bound to 30 items away from it, item by item."""
    width = None
    for items in range(31):
        near = [100.0 - items / 20, 100.0 - items / 20, 100.0]
        near = [*near[bound_index:], *near[:bound_index]]
        fit = Fit({"a": NEW_STUDY, "b": near, "c": [90.1, 91.0, 90.6]}, SHARE)
        new_width = fit.estimate("a").high - fit.estimate("a").low
        assert width is None or abs(new_width - width) <= 0.1 * width
        width = new_width


def test_bands_of_neighbouring_depths_are_of_one_fit():
    """The README's hero figure had bands that jump from 87-93 to 0-100 between neighbouring depths."""
    depths = {
        1: [1.1, 0.8, 1.2],
        2: [16.0, 15.1, 17.0],
        4: [76.2, 77.5, 77.0],
        8: [92.0, 92.3, 92.1],
        16: [93.9, 93.6, 93.7],
    }
    fit = Fit(depths, SHARE)
    widths = [fit.estimate(depth).high - fit.estimate(depth).low for depth in depths]

    assert max(widths) < 10
    places = [
        (SHARE.transform(estimate.high) - SHARE.transform(estimate.low))
        for estimate in map(fit.estimate, depths)
    ]
    assert max(places) / min(places) < 4  # on the scale of the fit they differ by the seeds alone


def test_seeds_at_a_bound_show_no_spread():
    """`100.0 (>= 99.8)` was printed where four of five seeds reach 100 and the others 40. With a threshold: 3
    of 3, >= 29 %.
    """
    top, bottom = (Fit({"a": [bound] * 3}, SHARE).estimate("a") for bound in (100.0, 0.0))
    with_threshold = Fit({"a": [100.0] * 3, "b": [40.0, 95.0, 96.0]}, SHARE, success_threshold=90.0).estimate(
        "a"
    )

    assert (top.why, top.interval, bottom.why) == (Why.CEILING, None, Why.FLOOR)
    assert (with_threshold.split.learned, with_threshold.split.low) == (
        3,
        pytest.approx(proportion_confint(3, 3, method="beta")[0]),
    )


def test_few_seeds_may_be_of_one_kind_if_another_variant_splits():
    fit = Fit({"a": [51.0, 92.0, 95.0], "b": [91.0, 92.5, 92.0], "c": [100.0] * 3}, SHARE)

    assert [fit.estimate(key).why for key in "abc"] == [Why.SPLIT, Why.MAY_SPLIT, Why.CEILING]
    assert fit.estimate("b").interval is not None


def test_the_floor_is_the_noise_of_independent_answers():
    """By hand: two runs, four items. One item differs between the runs, s_i^2 = 1/2; shares of 1, 1/2, 1, 0
    have p = 5/8.

    Items drawn anew would have 4 * 5/8 * 3/8 = 15/16, so that the floor is 8/15 of 1/(4N).
    """
    answers = np.array([[1, 1, 1, 0], [1, 0, 1, 0.0]])

    assert independent_share([answers]) == pytest.approx(8 / 15)
    assert independent_share([np.tile([1.0, 0.0], (3, 1))]) == 0.0  # all runs answer alike
    constant_fit = Fit({"a": [75.0] * 3}, Scale(0.0, 100.0, "share", 4), floor=1 / 16)
    assert constant_fit.estimate("a").why is None
    assert Fit({"a": [75.0] * 3}, Scale(0.0, 100.0, "share", 4)).estimate("a").why is Why.EQUAL


def test_seeds_of_two_kinds_have_no_interval_over_both():
    estimate = Fit({"a": [51.0, 92.0, 95.0]}, SHARE).estimate("a")

    assert estimate.why is Why.SPLIT
    assert estimate.interval is None
    assert estimate.split is not None
    assert (estimate.split.learned, estimate.split.total, estimate.split.success_mean) == (2, 3, 93.5)
    assert (estimate.split.low, estimate.split.high) == pytest.approx(proportion_confint(2, 3, method="beta"))


@pytest.mark.parametrize(
    ("values", "split"),
    [
        ([51.0, 92.0, 95.0], True),
        ([51.0, 70.0, 72.0], False),  # a gap of 19 points
        ([40.0, 62.0, 72.0], False),  # 22 points, but not three times the range above it
        ([40.0, 92.0], False),  # of two nothing is known
        ([64.7, 67.0, 34.8], False),  # 30 points, but 18 times the deviation of the upper two
    ],
)
def test_a_gap_splits_seeds_where_it_is_wide_and_alone(values, split):
    assert bool(Fit({"a": values}, SHARE).splits) is split


@pytest.mark.parametrize("sign", [1, -1])
def test_five_seeds_of_an_unbounded_metric_split_at_a_lonely_gap(sign):
    """A loss of 2.3 beside 0.1: a t interval over both covers 48 to 66 %. Three seeds cannot show it."""
    losses = [0.100, 0.104, 0.098, 0.102, 2.3]
    scale = Scale(kind="log", sign=sign)

    split_seeds = Fit({"a": losses}, scale).splits["a"]
    assert (split_seeds.learned, split_seeds.total) == ((1, 5) if sign == 1 else (4, 5))
    assert Fit({"a": losses}, scale).estimate("a").interval is None
    assert not Fit({"a": losses[2:]}, scale).splits
    assert not Fit({"a": [0.1, 0.2, 0.3, 0.5, 1.0]}, scale).splits


def test_counts_of_two_values_do_not_split():
    """Each side of 12 and 13 epochs has no deviation, so that any gap was wider than 24 times it."""
    assert not Fit({"a": [12.0, 12.0, 13.0, 13.0, 12.0], "b": [10.0, 10.0, 10.0, 10.0, 11.0]}).splits
    assert not Fit({"a": [0.1, 0.1, 0.1, 0.2, 0.2], "b": [-0.5, 0.5, 0.5, -0.5, 0.5]}).splits
    assert not Fit({"a": [6.0, 6.0, 6.0, 7.0, 7.0]}, Scale(kind="log")).splits
    assert Fit({"a": [0.0, 0.0, 0.0, 500.0, 500.0]}).splits
    assert Fit({"a": [16.0, 16.0, 16.0, 16.0, 3.5]}, Scale(kind="log")).splits


def test_seeds_that_agree_show_no_spread():
    """On a scale without items, no bound is known, but equal values to the last digit are no coincidence."""
    fit = Fit({"a": [100.0] * 3, "b": [93.0, 93.4, 92.8]})

    assert (fit.estimate("a").why, fit.estimate("a").interval) == (Why.EQUAL, None)
    assert fit.weighted("a").variance is not None  # borrowed, for a contrast of five seeds


def test_equal_shares_are_a_coincidence_only_of_a_known_number_of_items():
    scores = {"a": [80.0] * 3, "b": [81.0, 83.0, 82.0], "c": [70.0, 72.0, 71.0]}

    reasons = [
        Fit(scores, Scale(0.0, 100.0, "share", 100, are_items_known=is_known)).estimate("a").why
        for is_known in (True, False)
    ]

    assert reasons == [None, Why.EQUAL]


def test_losses_near_overflow_have_no_interval_and_no_error():
    values = {"a": [2.0e200, 2.2e200, 2.4e200], "b": [4.0e200, 4.4e200, 4.8e200]}

    assert Fit(values, Scale(kind="log")).weighted("a").variance is None
    assert Fit(values).estimate("a").interval is None


def test_a_stated_threshold_splits_by_itself():
    assert Fit({"a": [60.0, 66.0, 72.0]}, SHARE, success_threshold=65.0).splits["a"].learned == 2
    assert not Fit({"a": [66.0, 72.0]}, SHARE, success_threshold=65.0).splits


def test_estimate_without_variance_has_no_interval():
    assert Fit({"a": [5.0]}).estimate("a").why is Why.NO_SPREAD
    assert Fit({"a": [5.0, 5.0]}).estimate("a").interval is None  # that two runs agree shows no spread of 0
    assert Fit({"a": []}).estimate("a").why is Why.NO_RUN
    small_fit = Fit({"a": [90.0], "b": [91.0, 92.0, 90.0], "c": [80.0, 81.5, 82.0]}, SHARE)
    assert small_fit.estimate("a").df == 2.0  # a single run borrows all that it has


def test_a_single_run_needs_a_degree_of_freedom_of_the_others():
    """Variances that have nothing in common lend 0.06 degrees of freedom, of which SciPy computes no power."""
    scores = {"a": [0.0, 1e-9], "b": [0.0, 1e9], "c": [0.0, 1.0], "single": [5.0]}
    fit = Fit(scores)

    assert 0 < fit.prior.df < 1
    assert (fit.estimate("single").why, fit.estimate("single").interval) == (Why.NO_SPREAD, None)


def test_unusually_high_variance_is_marked():
    scores = {index: [90.0 + 0.3 * index, 90.5, 91.0] for index in range(4)} | {"wide": [70.0, 75.0, 82.0]}
    fit = Fit(scores, SHARE)

    assert [key for key in scores if fit.has_wide_spread(key)] == ["wide"]


@given(st.lists(st.lists(st.floats(0, 100), min_size=1, max_size=5), min_size=1, max_size=5), st.booleans())
def test_intervals_hold_their_estimate_and_stay_within_the_bounds(groups, share):
    scale = SHARE if share else Scale(0.0, 100.0)
    fit = Fit(dict(enumerate(groups)), scale)
    for key in fit.scores:
        for estimate in (fit.estimate(key), fit.prediction(key)):
            if estimate.interval:
                assert 0.0 <= estimate.low <= estimate.value <= estimate.high <= 100.0


@given(st.permutations(range(4)))
def test_the_order_of_variants_and_seeds_does_not_matter(order):
    scores = {0: [90.0, 91.0, 92.5], 1: [80.0, 80.5, 79.0], 2: [99.0, 99.2, 99.1], 3: [50.0, 55.0, 51.0]}
    fit, reversed_fit = Fit(scores, SHARE), Fit({key: scores[key][::-1] for key in order}, SHARE)
    for key in scores:
        assert reversed_fit.estimate(key).low == pytest.approx(fit.estimate(key).low)


def test_trigamma_is_inverted():
    """Very unequal variances give few borrowed degrees of freedom: d0 solves var(e) = trigamma(d/2) +
    trigamma(d0/2).
    """
    fit = Fit({0: [0.0, 1.0, 2.0], 1: [0.0, 100.0, 200.0], 2: [0.0, 0.01, 0.02]})
    e = np.log([1.0, 100.0**2, 0.01**2])  # apart from the bias, which is the same at equal d

    assert fit.prior is not None
    assert polygamma(1, fit.prior.df / 2) == pytest.approx(np.var(e, ddof=1) - polygamma(1, 1.0))
