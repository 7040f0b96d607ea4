"""Contrasts of variants: against scipy where one test is the same, and by drawing studies whose truth is known."""

import numpy as np
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from recstudy.analysis.contrasts import Contrast, contrast, detectable, factors, holm, pairing, seeds_to_show
from recstudy.analysis.stats import Scale, Spread, own, pool

A, B, C = [93.0, 93.4, 93.1, 92.8], [92.1, 93.2, 92.9, 92.9], [90.0, 90.2, 90.9, 90.4]


def test_of_two_variants_alone_it_is_the_two_sample_t_test():
    spreads = pool({"a": A, "b": B})

    found = contrast([A, B], [1, -1], [spreads["a"], spreads["b"]])

    test = scipy_stats.ttest_ind(A, B)
    assert (found.p, found.df) == pytest.approx((test.pvalue, 6))
    assert (found.low, found.high) == pytest.approx(tuple(test.confidence_interval()))


def test_with_a_spread_each_it_is_welchs():
    found = contrast([A, B], [1, -1], [own(A), own(B)])

    test = scipy_stats.ttest_ind(A, B, equal_var=False)
    assert (found.p, found.df) == pytest.approx((test.pvalue, test.df))


def test_a_pool_of_three_lends_its_degrees_of_freedom():
    """(a + b) / 2 - c by hand: error s sqrt(1/16 + 1/16 + 1/4)."""
    spread = pool({"a": A, "b": B, "c": C})["a"]

    found = contrast([A, B, C], [0.5, 0.5, -1], [spread] * 3)

    assert found.value == pytest.approx((np.mean(A) + np.mean(B)) / 2 - np.mean(C))
    assert (found.error, found.df) == pytest.approx((spread.sd * 0.375**0.5, 9))


def test_logits_become_points_at_each_mean():
    """At 50 % a logit is worth 25 points, at 90 % 9: the same spread is another there."""
    spread = Spread(0.1, 8, Scale(0.0, 100.0, items=10**9), 4)

    found = contrast([[50.0], [90.0]], [1, -1], [spread, spread])

    assert found.error == pytest.approx(0.1 * (25**2 + 9**2) ** 0.5, rel=1e-6)


def test_no_difference_of_shares_reaches_beyond_100_points():
    """99 - 1 of three seeds each, s = 10, df = 4: 98 ± 2.78 * 10 * sqrt(2/3) = 98 ± 22.7."""
    spread = Spread(10.0, 4, Scale(0.0, 100.0), 2)

    found = contrast([[99.0] * 3, [1.0] * 3], [1, -1], [spread, spread])

    assert (found.low, found.high) == (pytest.approx(75.3, abs=0.1), 100.0)
    assert found.p == pytest.approx(2 * scipy_stats.t.sf(98 / found.error, 4))


def test_without_a_spread_there_is_no_test():
    assert contrast([[93.0], [92.6]], [1, -1], [None, None]) == Contrast(0.4)


@pytest.mark.parametrize("shared", [0.0, 2.0])
def test_seeds_pair_where_they_matter(shared):
    """Six variants of five seeds, each seed with an effect of its own: the correlation is shared^2 / (shared^2 + 1)."""
    effects = shared * np.array([-1.26, -0.63, 0.0, 0.63, 1.26])  # their standard deviation is `shared`
    drawn = effects + np.random.default_rng(0).normal(0, 1, (6, 5))

    found = pairing({at: dict(enumerate(values)) for at, values in enumerate(drawn.tolist())})

    assert found.helps == (shared > 0)
    assert found.correlation == pytest.approx(shared**2 / (shared**2 + 1), abs=0.15)
    left = drawn - drawn.mean(0) - drawn.mean(1)[:, None] + drawn.mean()
    assert (found.spread.sd, found.spread.df) == (pytest.approx(((left**2).sum() / 20) ** 0.5), 20)


def test_pairs_of_two_variants_are_the_paired_t_test():
    found = pairing({"a": dict(enumerate(A)), "b": dict(enumerate(B))})

    tested = contrast([A, B], [1, -1], [found.spread, found.spread])

    assert (tested.p, tested.df) == pytest.approx((scipy_stats.ttest_rel(A, B).pvalue, 3))


@pytest.mark.parametrize("groups", [{}, {"a": {0: 1.0}}, {"a": {0: 1.0, 1: 2.0}}, {"a": {0: 1.0, 1: 2.0}, "b": {0: 2.0, 1: 3.0}}])
def test_without_a_degree_of_freedom_left_nothing_is_paired(groups):
    assert pairing(groups) is None


def test_holm_by_hand():
    """Holm (1979): 0.01 x 3, then 0.02 x 2, and 0.04 x 1 no less than that before it; what was not tested takes no share."""
    assert holm([0.04, None, 0.01, 0.02]) == [pytest.approx(0.04), None, pytest.approx(0.03), pytest.approx(0.04)]
    assert holm([]) == []
    assert holm([None]) == [None]


def test_holm_is_statsmodels():
    p_values = list(np.random.default_rng(0).uniform(0, 0.2, 9))

    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]))


@pytest.mark.parametrize(("n", "alpha"), [(2, 0.05), (5, 0.05), (5, 0.05 / 8), (20, 0.05 / 8)])
def test_detectable_is_the_power_of_the_t_test_at_its_level(n, alpha):
    least = detectable(1 / n**0.5, n - 1, alpha)

    assert TTestPower().power(least, n, alpha, alternative="two-sided") == pytest.approx(0.8, abs=1e-4)


def test_power_as_stated_is_power_as_drawn():
    """Eight variants against a base, three seeds, one of them better by what is detectable at 0.05 / 8.

    At 0.05 the stated effect would be shown in a quarter of the studies.
    """
    rng, rows = np.random.default_rng(3), 8
    drawn = rng.normal(0, 1, (800, rows + 1, 3))
    drawn[:, 1] += detectable((2 / 3) ** 0.5, (rows + 1) * 2, 0.05 / rows)

    def shown(study):
        spread = Spread(((study - study.mean(1, keepdims=True)) ** 2).sum() ** 0.5 / 18**0.5, 18, variants=9)
        p = [contrast([row, study[0]], [1, -1], [spread] * 2).p for row in study[1:]]
        return holm(p)[0] < 0.05

    assert np.mean([shown(study) for study in drawn]) == pytest.approx(0.8, abs=0.04)


def test_the_uncertainty_of_a_standard_deviation():
    low, high = factors(10)

    assert (low, high) == pytest.approx(tuple((10 / scipy_stats.chi2.ppf([0.975, 0.025], 10)) ** 0.5))


@pytest.mark.parametrize("mean", [0.3, 0.5, 1.0])
def test_seeds_to_show_is_the_power_analysis_of_the_difference_and_spread_seen(mean):
    values = [mean - 1.0, mean, mean + 1.0]  # standard deviation 1

    needed = TTestPower().solve_power(mean, None, alpha=0.05, power=0.8, alternative="two-sided")

    assert seeds_to_show(contrast([values], [1], [own(values)]), 3, 1) + 3 == np.ceil(needed)


def test_seeds_where_none_are_needed_or_none_help():
    spread = Spread(0.1, 10, variants=4)

    assert seeds_to_show(contrast([A, C], [1, -1], [spread, spread]), 4, 4) == 0
    assert seeds_to_show(contrast([A, A], [1, -1], [spread, spread]), 4, 4) is None
    assert seeds_to_show(Contrast(0.4), 4, 4) is None
