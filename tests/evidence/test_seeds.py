"""Looks: the levels of a schedule, the error of studies that are read at each of them, and the seeds that are
needed.
"""

import numpy as np
import pytest
from scipy import stats

from recstudy.evidence import Fit, Looks, PowerAnalysis, Question, answer, contrast, detectable, judge
from recstudy.evidence import seeds as module
from recstudy.evidence.seeds import boundaries, schedule


@pytest.mark.parametrize(
    ("looks", "maximum", "levels"),
    [
        ((5,), 5, [5.0]),
        ((3, 5, 10), 10, [0.8, 1.12, 3.72]),
        ((3, 5, 8, 12, 16, 20), 20, [0.28, 0.37, 0.76, 1.38, 2.06, 2.78]),
    ],
)
def test_levels_are_those_that_were_simulated_from_outside(looks, maximum, levels):
    assert [100 * level for level in boundaries(looks, maximum)] == pytest.approx(levels, rel=0.08)


def test_a_study_without_a_difference_is_decided_in_one_of_twenty_over_all_looks():
    generator = np.random.default_rng(1)
    looks = Looks((3, 5, 10), 10)
    ours, theirs = generator.standard_normal((2, 20_000, 10))
    p_values = {n: stats.ttest_ind(ours[:, :n], theirs[:, :n], axis=1).pvalue for n in looks.seed_counts}

    levels = boundaries(looks.seed_counts, 10)
    decided = np.any(
        [p_values[n] < level for n, level in zip(looks.seed_counts, levels, strict=True)], axis=0
    )

    assert decided.mean() == pytest.approx(0.05, abs=0.005)


@pytest.mark.parametrize("alpha", [0.01, 0.001])
def test_a_stricter_level_has_looks_of_its_own_that_keep_its_error(alpha):
    """A fifth and a fiftieth of the levels at 5 % would err more: the looks then overlap less."""
    levels = boundaries((3, 5, 10), 10, alpha)
    generator, decided = np.random.default_rng(1), 0
    for _ in range(10):
        ours, theirs = generator.standard_normal((2, 40_000, 10))
        p_values = [stats.ttest_ind(ours[:, :n], theirs[:, :n], axis=1).pvalue for n in (3, 5, 10)]
        decided += int(np.any(np.array(p_values) < np.array(levels)[:, None], axis=0).sum())

    assert decided / 400_000 == pytest.approx(alpha, rel=0.12)
    assert Looks((3, 5), 10, alpha).level(10) == levels[-1]
    assert Looks((), 3, alpha).level(3) == alpha
    assert Looks((3,), 3, alpha).level(5) == alpha / 2


def test_the_smallest_level_may_leave_nothing_to_an_early_look():
    first, *later = boundaries((2, 50), 50, 1e-4)

    assert (first, 0 < later[0] < 2e-4) == (0.0, True)


def test_looks_follow_a_schedule_up_to_the_maximum():
    assert list(schedule(20)) == [3, 5, 8, 12, 16, 20]
    assert list(schedule(3)) == [3]
    assert [*Looks((3,), 10).later_levels(3)] == [5, 8, 10]
    assert Looks((3,), 10).later_levels(10) == {}


def test_a_look_in_between_is_inserted_and_changes_no_earlier_level():
    looks = Looks((3,), 10)

    assert looks.level(3) == pytest.approx(boundaries((3, 5, 8, 10), 10)[0])
    assert looks.level(4) == pytest.approx(boundaries((3, 4, 5, 8, 10), 10)[1])


def test_looks_beyond_the_maximum_have_half_of_the_error_each_time():
    looks = Looks((3, 5, 8), 3)

    assert [looks.level(n) for n in looks.seed_counts] == [0.05, 0.025, 0.0125]
    assert Looks((3, 5)).level(5) == 0.025  # nothing stated: the first look is the maximum


def test_a_maximum_that_is_stated_after_the_first_look_has_looks_with_a_chance():
    looks = Looks((3,), extended_to=10)

    assert list(schedule(10, stated_maximum=3)) == [3, 10]
    assert list(schedule(20, stated_maximum=10)) == [3, 5, 8, 10, 20]
    assert looks.later_levels(3) == {10: 0.025}
    assert Looks((3, 5), extended_to=10).later_levels(5) == {10: 0.0125}
    assert Looks((), 5, extended_to=8).later_levels(5) == {8: 0.025}
    assert PowerAnalysis(1.0, 0.5, 4.0, 3).chance(looks) > 0.9
    assert PowerAnalysis(2.0, 0.5, 4.0, 3).seeds_needed(looks) == (7, 7)
    assert PowerAnalysis(1.0, 0.5, 4.0, 3).chance(Looks((3,))) == 0


def test_levels_are_kept_for_the_next_command(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path))
    boundaries.cache_clear()
    first = boundaries((3, 4), 4)
    boundaries.cache_clear()
    monkeypatch.setattr(module, "_simulated_levels", None)

    assert boundaries((3, 4), 4) == first
    assert [file.name for file in tmp_path.iterdir()] == ["looks-3-4-of-4.json"]


def test_a_look_spends_a_part_of_the_level_and_holm_divides_it():
    fit = Fit({"a": [10.0, 11.0, 12.0], "b": [14.0, 16.0, 18.0]})
    test = answer(
        Question({"b": 1.0, "a": -1.0}, lower_bound=1.0),
        contrast([(1.0, fit.weighted("b")), (-1.0, fit.weighted("a"))]),
    )
    final_answer, early = judge([test])[0], judge([test], [Looks((), 10)])[0]

    assert early.adjusted == pytest.approx(final_answer.adjusted * 0.05 / Looks((), 10).level(3))
    assert early.alpha == pytest.approx(Looks((), 10).level(3))


def test_seeds_needed_are_a_range_and_grow_with_what_is_not_known():
    looks = Looks((3,), 10)
    near, far = (PowerAnalysis(room, 0.5, 4.0, 3).seeds_needed(looks) for room in (0.5, 2.0))

    assert near[0] > far[0] >= 1
    tiny = PowerAnalysis(0.1, 0.5, 4.0, 3).seeds_needed(looks)  # below its lower quartile
    assert all(low <= high for low, high in (near, far, tiny))
    assert PowerAnalysis(0.0, 0.5, 4.0, 3).seeds_needed(looks) is None
    assert PowerAnalysis(0.001, 1.0, 400.0, 400).seeds_needed(looks) is None
    assert detectable(1.0, 1e6) == pytest.approx(2.80, abs=0.01)  # 1.96 + 0.84 standard errors


def test_overlapping_test_sets_leave_a_part_of_the_error_to_every_number_of_seeds():
    """With q = 0.2 the variance falls from 1/3 + 1/4 to 1/100 + 1/4, and never below 1/4."""
    plain = PowerAnalysis(1.0, 1.0, 4.0, 3)
    overlapping = PowerAnalysis(1.0, 1.0, 4.0, 3, overlap=0.25)
    shift = ((1 / 3 + 1 / 4) / (1 / 100 + 1 / 4)) ** 0.5
    critical = stats.t.ppf(0.975, 4 + 2 * 97)

    assert overlapping.power(1.0, 100, 0.05) == pytest.approx(stats.nct.sf(critical, 4 + 2 * 97, shift))
    assert plain.seeds_needed(Looks((3,), 10)) is not None
    assert PowerAnalysis(0.5, 1.0, 4.0, 3, overlap=0.25).seeds_needed(Looks((3,), 10)) is None


def test_a_true_effect_is_not_given_up_early():
    """A difference of one error has a fair chance at 10 seeds; far from its edge, or at the maximum, there is
    none.
    """
    looks = Looks((3,), 10)

    assert PowerAnalysis(1.0, 1.0, 6.0, 3).chance(looks) > 0.5
    assert PowerAnalysis(0.0, 1.0, 6.0, 3).chance(looks) < 0.5
    assert PowerAnalysis(9.0, 1.0, 20.0, 10).chance(looks) == 0.0
