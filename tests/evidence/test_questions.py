"""Questions and their answers: contrasts, Holm, published values, looks, power, items, replications' neighbours."""

import numpy as np
import pytest
from scipy.stats import ttest_ind
from statsmodels.stats.contingency_tables import mcnemar as referee
from statsmodels.stats.multitest import multipletests

from recstudy.evidence import (
    Estimate,
    Fit,
    Kind,
    Looks,
    Question,
    Reason,
    Scale,
    Verdict,
    Why,
    asked,
    contrast,
    detectable,
    estimable,
    holm,
    judged,
    mcnemar,
    more_seeds,
    over_items,
    published,
    ratio,
)

SHARE = Scale(0.0, 100.0, "share", 2000)
A, B = [10.0, 11.0, 12.0], [14.0, 16.0, 18.0]


def estimate(fit, **weights):
    return contrast([(weight, fit.weighted(key)) for key, weight in weights.items()])


def test_a_contrast_of_two_alone_is_welchs_test():
    """Each side by a fit of its own, so that nothing is borrowed: scipy's t test with unequal variances."""
    alone = [(1.0, Fit({"b": B}).weighted("b")), (-1.0, Fit({"a": A}).weighted("a"))]
    found, theirs = contrast(alone), ttest_ind(B, A, equal_var=False)

    assert found.df == pytest.approx(theirs.df)
    assert asked(Question({"b": 1.0, "a": -1.0}, other_than=0.0), found).p == pytest.approx(theirs.pvalue)
    assert found.interval == pytest.approx(tuple(theirs.confidence_interval()))


def test_a_contrast_reaches_no_further_than_its_metric():
    fit = Fit({"a": [99.0, 90.0, 85.0], "b": [2.0, 18.0, 12.0]}, Scale(0.0, 100.0))
    found = contrast([(1.0, fit.weighted("a")), (-1.0, fit.weighted("b"))], level=0.9999)

    assert found.high == 100.0


@pytest.mark.parametrize(
    ("question", "verdict"),
    [
        (Question({"b": 1.0, "a": -1.0}, above=0.5), Verdict.SUPPORTED),
        (Question({"b": -1.0, "a": 1.0}, above=0.5), Verdict.CONTRADICTED),
        (Question({"b": 1.0, "a": -1.0}, above=12.0), Verdict.SMALLER),
        (Question({"b": 1.0, "a": -1.0}, above=4.5), Verdict.UNDECIDED),
        (Question({"b": 1.0, "a": -1.0}, within=30.0), Verdict.SUPPORTED),
        (Question({"b": 1.0, "a": -1.0}, other_than=0.0), Verdict.HIGHER),
        (Question({"b": -1.0, "a": 1.0}, other_than=0.0), Verdict.LOWER),
    ],
)
def test_verdicts_by_region(question, verdict):
    """The difference is 5 with a standard error near 1.3."""
    found = estimate(Fit({"a": A, "b": B}), **dict(question.weights))

    (answer,) = judged([asked(question, found)])
    assert answer.verdict is verdict
    low, high = answer.estimate.interval
    inside = question.region[0] <= low and high <= question.region[1]
    assert inside == (verdict is Verdict.SUPPORTED)


def test_holm_is_statsmodels_and_takes_all_that_was_asked():
    p_values = [0.04, 0.001, 0.03, 1.0]
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1])

    found = estimate(Fit({"a": A, "b": B}), b=1.0, a=-1.0)
    one = asked(Question({"b": 1.0, "a": -1.0}, above=1.0), found)
    waiting = asked(Question({"b": 1.0}, above=0.0), Estimate(None, why=Why.NO_RUN))
    alone, among = judged([one])[0], judged([one, waiting, waiting])[0]
    assert among.adjusted == pytest.approx(min(1.0, 3 * alone.p))
    assert judged([waiting])[0].verdict is Verdict.NOT_RUN


def test_open_answers_say_why():
    found = estimate(Fit({"a": A, "b": B}), b=1.0, a=-1.0)
    question = Question({"b": 1.0, "a": -1.0}, above=0.5)

    assert judged([asked(question, found, left=1)])[0].verdict is Verdict.INTERIM
    lost = judged([asked(question, found, lost=1)])[0]
    assert (lost.verdict, lost.reasons) == (Verdict.UNDECIDED, (Reason.RUNS_LOST,))
    split = Fit({"a": [51.0, 92.0, 95.0], "b": [92.0, 92.5, 91.0]}, SHARE)
    assert asked(question, estimate(split, b=1.0, a=-1.0)).reasons == (Reason.SPLIT,)


def test_no_difference_between_two_ceilings_is_undecided():
    """ "Moderate depth yields the best" was supported by 100.0 against 100.0."""
    fit = Fit({"a": [100.0] * 3, "b": [100.0, 99.95, 99.9]}, SHARE)
    answer = judged([asked(Question({"a": 1.0, "b": -1.0}, within=0.5), estimate(fit, a=1.0, b=-1.0))])[0]

    assert (answer.verdict, answer.reasons) == (Verdict.UNDECIDED, (Reason.CEILING,))


OURS = [90.0, 90.5, 90.2, 90.1, 90.4]


@pytest.mark.parametrize(
    ("values", "target", "margin", "more", "verdict", "reasons"),
    [
        (OURS, 90.2, 2.0, {}, Verdict.REPRODUCED, None),
        (OURS, 90.2, 0.1, {}, Verdict.CONSISTENT, None),
        (OURS, 90.2, None, {}, Verdict.CONSISTENT, (Reason.NO_MARGIN,)),
        (OURS, 95.0, 1.0, {}, Verdict.DIFFERS, None),
        (OURS, 90.2, 2.0, {"left": 1}, Verdict.INTERIM, None),
        (OURS, 90.2, 2.0, {"lost": 1}, Verdict.UNDECIDED, None),
        # Within the margin, but outside of the prediction interval: HRM on MNIST was called reproduced so.
        ([97.70, 97.80, 97.85, 97.78, 97.77, 97.81], 98.9, 2.0, {}, Verdict.WITHIN_MARGIN, None),
    ],
)
def test_published_values(values, target, margin, more, verdict, reasons):
    fit = Fit({"a": values, "b": [v + 0.3 for v in values], "c": [80.0, 80.4, 80.1]}, SHARE)
    answer = published(target, margin, fit.estimate("a"), fit.prediction("a"), **more)

    assert answer.verdict is verdict
    assert reasons in (None, answer.reasons)
    assert answer.question == Question({"ours": 1.0}, near=target, within=margin or 0.0, kind=Kind.PUBLISHED)


def test_two_seeds_are_too_few_to_be_consistent():
    """72.2 against 88.0 was called consistent at n=2."""
    fit = Fit({"a": [65.0, 79.4]}, SHARE)
    answer = published(88.0, 0.5, fit.estimate("a"), fit.prediction("a"))

    assert (answer.verdict, answer.reasons) == (Verdict.UNDECIDED, (Reason.TOO_FEW_SEEDS,))


def test_an_improvement_is_a_ratio():
    """12 against 10 is 20 percent more; with a sign of -1, of a metric that is better low, 20 percent less."""
    fit = Fit({"ours": [11.0, 12.0, 13.0], "row": [9.0, 10.0, 11.0]})
    found = ratio(fit.weighted("ours"), fit.weighted("row"))

    assert found.value == pytest.approx(20.0)
    variance = fit.variance("ours").value / 3
    assert found.error == pytest.approx(np.sqrt((100 / 10) ** 2 * variance + (100 * 12 / 10**2) ** 2 * variance))
    assert ratio(fit.weighted("ours"), fit.weighted("row"), -1.0).value == pytest.approx(-20.0)


def test_looks_spend_what_there_is_once():
    """alpha(t) = 0.05 ln(1 + (e - 1) t) by hand at 3, 5 and 10 of 10."""
    looks = Looks((3, 5, 10), 10)
    levels = [looks.level(n) for n in looks.taken]

    assert levels[0] == pytest.approx(0.05 * np.log(1 + (np.e - 1) * 0.3))
    assert sum(levels) == pytest.approx(0.05)
    assert Looks((3,)).level(3) == pytest.approx(0.05)  # who looks once, as planned, loses nothing
    assert Looks((3,)).level(5) == Looks((3, 5)).level(5)  # of a variant that is ahead of the others
    assert Looks((3, 5)).level(5) == pytest.approx(0.05 * (1 - np.log(1 + (np.e - 1) * 0.8)))  # undeclared: every seed was one
    question = Question({"b": 1.0, "a": -1.0}, above=1.0)
    found = estimate(Fit({"a": A, "b": B}), b=1.0, a=-1.0)
    full, spent = (judged([asked(question, found)], [level])[0] for level in (0.05, 0.01))
    assert spent.adjusted == pytest.approx(5 * full.adjusted)
    assert spent.estimate.level == pytest.approx(0.99)


@pytest.mark.whole
def test_a_claim_on_its_margin_is_seldom_decided_at_any_look():
    """Simulated: at most 5.5 % over all looks, where naive looks decide 9 to 18 %. Four variants that spread alike.

    The plans look at the same studies: each fit is made once. What 5 % do not decide, no look does, for none has more to spend.
    """
    plans = [Looks((3, 5), 5), Looks((3, 5, 10), 10), Looks(tuple(range(3, 11)), 10)]
    levels = [{n: looks.level(n) for n in looks.taken} for looks in plans]
    assert max(level for plan in levels for level in plan.values()) < 0.05
    question, studies = Question({0: 1.0, 1: -1.0}, other_than=0.0), 1500
    wrong, naive = np.zeros((2, studies, len(plans)), bool)
    rng = np.random.default_rng(7)
    for study in range(studies):
        values = rng.standard_normal((4, 10))
        for n in range(3, 11):
            fit = Fit(dict(enumerate(values[:, :n].tolist())))
            one = asked(question, contrast([(1.0, fit.weighted(0)), (-1.0, fit.weighted(1))]))
            if judged([one])[0].verdict is Verdict.NO_DIFFERENCE:
                continue
            for at, plan in enumerate(levels):
                if n in plan:
                    naive[study, at] = True
                    wrong[study, at] |= judged([one], [plan[n]])[0].verdict is not Verdict.NO_DIFFERENCE
    assert (wrong.mean(0) <= 0.055 + 2 * np.sqrt(0.055 * 0.945 / studies)).all()
    assert (naive.mean(0) > wrong.mean(0)).all()


def test_seeds_needed_grow_with_what_is_not_known():
    near, far = more_seeds(0.5, 0.5, 4, 3), more_seeds(2.0, 0.5, 4, 3)

    assert near > far >= 1
    assert more_seeds(-1.0, 0.5, 4, 3) is None
    assert more_seeds(0.001, 1.0, 400, 400) is None
    assert detectable(1.0, 1e6) == pytest.approx(2.80, abs=0.01)  # 1.96 + 0.84 standard errors


def test_over_items_is_wider_and_clusters_wider_still():
    rng = np.random.default_rng(0)
    right = np.tile((rng.random(300) < 0.8).astype(float) * 100, (3, 1))
    right[0, :3], right[1, :2] = 100.0, 0.0  # seeds that agree but for a few: the items weigh more
    doubled = np.repeat(right, 4, axis=1)
    found = Fit({"a": right.mean(1).tolist()}, Scale(0.0, 100.0)).estimate("a")
    items = over_items(found, [doubled], [1.0])
    clustered = over_items(found, [doubled], [1.0], np.repeat(np.arange(300), 4))

    assert clustered.error > items.error >= found.error


def test_mcnemar_is_statsmodels_without_correction():
    ours, theirs = np.array([[1, 1, 1, 0, 1, 0, 1, 1.0]]), np.array([[1, 0, 0, 0, 0, 1, 1, 0.0]])
    table = [[2, 4], [1, 1]]

    assert mcnemar(ours, theirs) == pytest.approx(referee(table, exact=False, correction=False).pvalue)


def test_effects_of_a_whole_factorial():
    a, b = np.array([-1, -1, 1, 1]), np.array([-1, 1, -1, 1])
    effects = estimable({"A": a, "B": b})

    assert effects is not None
    assert [effect.axes for effect in effects] == [("A",), ("B",), ("A", "B")]
    assert [effect.weights for effect in effects] == [[-0.5, -0.5, 0.5, 0.5], [-0.5, 0.5, -0.5, 0.5], [0.5, -0.5, -0.5, 0.5]]
    assert estimable({"A": a[:3], "B": b[:3]}) is None
    assert estimable({"A": a, "B": np.array([-1, -1, -1, 1])}) is None
    assert estimable({"A": np.array([-1, 1, -1, 1]), "B": np.array([-1, -1, 1, 1]), "C": np.array([1, -1, -1, 1])}) is None
