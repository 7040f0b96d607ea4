"""Questions and their answers: contrasts, Holm, published values, items, effects."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.stats import ttest_1samp, ttest_ind, ttest_rel
from statsmodels.stats.contingency_tables import mcnemar as referee
from statsmodels.stats.multitest import multipletests

from recstudy.evidence import (
    Answer,
    Estimate,
    Fit,
    ItemResult,
    Kind,
    Looks,
    Question,
    Reason,
    Scale,
    Verdict,
    Why,
    answer,
    at_level,
    contrast,
    estimable,
    holm,
    items_error,
    judge,
    mcnemar,
    over_items,
    ratio,
)

SHARE = Scale(0.0, 100.0, "share", 2000)
A, B = [10.0, 11.0, 12.0], [14.0, 16.0, 18.0]


def estimate(fit, **weights):
    return contrast([(weight, fit.weighted(key)) for key, weight in weights.items()])


def test_a_contrast_of_two_alone_is_welchs_test():
    """Each side by a fit of its own, so that nothing is borrowed: scipy's t test with unequal variances."""
    separate_fits = [(1.0, Fit({"b": B}).weighted("b")), (-1.0, Fit({"a": A}).weighted("a"))]
    difference, theirs = contrast(separate_fits), ttest_ind(B, A, equal_var=False)

    assert difference.df == pytest.approx(theirs.df)
    assert answer(Question({"b": 1.0, "a": -1.0}, kind=Kind.DIFFERENCE), difference).p == pytest.approx(
        theirs.pvalue
    )
    assert difference.interval == pytest.approx(tuple(theirs.confidence_interval()))


def test_a_contrast_reaches_no_further_than_its_metric():
    fit = Fit({"a": [99.0, 90.0, 85.0], "b": [2.0, 18.0, 12.0]}, Scale(0.0, 100.0))
    difference = at_level(contrast([(1.0, fit.weighted("a")), (-1.0, fit.weighted("b"))]), 0.9999)

    assert difference.high == 100.0


@pytest.mark.parametrize(
    ("question", "verdict"),
    [
        (Question({"b": 1.0, "a": -1.0}, lower_bound=0.5), Verdict.SUPPORTED),
        (Question({"b": -1.0, "a": 1.0}, lower_bound=0.5), Verdict.CONTRADICTED),
        (Question({"b": 1.0, "a": -1.0}, lower_bound=12.0), Verdict.SMALLER),
        (Question({"b": 1.0, "a": -1.0}, lower_bound=4.5), Verdict.UNDECIDED),
        (Question({"b": 1.0, "a": -1.0}, half_width=30.0), Verdict.SUPPORTED),
        (Question({"b": 1.0, "a": -1.0}, kind=Kind.DIFFERENCE), Verdict.HIGHER),
        (Question({"b": -1.0, "a": 1.0}, kind=Kind.DIFFERENCE), Verdict.LOWER),
    ],
)
def test_verdicts_by_region(question, verdict):
    """The difference is 5 with a standard error near 1.3."""
    difference = estimate(Fit({"a": A, "b": B}), **dict(question.weights))

    (judged,) = judge([answer(question, difference)])
    assert judged.verdict is verdict
    low, high = judged.adjusted_interval
    inside = question.region[0] <= low and high <= question.region[1]
    assert inside == (verdict is Verdict.SUPPORTED)


def test_holm_is_statsmodels_and_takes_all_that_was_answer():
    p_values = [0.04, 0.001, 0.03, 1.0]
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1])

    difference = estimate(Fit({"a": A, "b": B}), b=1.0, a=-1.0)
    question_answer = answer(Question({"b": 1.0, "a": -1.0}, lower_bound=1.0), difference)
    waiting = answer(Question({"b": 1.0}, lower_bound=0.0), Estimate(None, why=Why.NO_RUN))
    single, family_member, after_dropping = (
        judge([question_answer])[0],
        judge([question_answer, waiting, waiting])[0],
        judge([question_answer], dropped=2)[0],
    )
    assert family_member.adjusted == after_dropping.adjusted == pytest.approx(min(1.0, 3 * single.p))
    assert judge([waiting])[0].verdict is Verdict.NOT_RUN


def test_open_answers_say_why():
    difference = estimate(Fit({"a": A, "b": B}), b=1.0, a=-1.0)
    question = Question({"b": 1.0, "a": -1.0}, lower_bound=0.5)

    assert judge([answer(question, difference, runs_left=1)])[0].verdict is Verdict.INTERIM
    lost_answer = judge([answer(question, difference, lost_runs=1)])[0]
    assert (lost_answer.verdict, lost_answer.reasons) == (Verdict.UNDECIDED, (Reason.RUNS_LOST,))
    split = Fit({"a": [51.0, 92.0, 95.0], "b": [92.0, 92.5, 91.0]}, SHARE)
    assert answer(question, estimate(split, b=1.0, a=-1.0)).reasons == (Reason.SPLIT,)


def test_no_difference_between_two_ceilings_is_undecided():
    """ "Moderate depth yields the best" was supported by 100.0 against 100.0."""
    fit = Fit({"a": [100.0] * 3, "b": [100.0] * 3, "c": [90.0, 91.0, 90.5]}, SHARE)
    (judged,) = judge([answer(Question({"a": 1.0, "b": -1.0}, half_width=0.5), estimate(fit, a=1.0, b=-1.0))])

    assert (judged.verdict, judged.reasons) == (Verdict.UNDECIDED, (Reason.CEILING,))
    alone = Fit({key: fit.scores[key] for key in "ab"}, SHARE)
    for of in (fit, alone):  # with and without a variance to borrow
        directed = answer(Question({"a": 1.0, "b": -1.0}, lower_bound=0.5), estimate(of, a=1.0, b=-1.0))
        assert directed.reasons == (Reason.CEILING,)


def test_one_side_at_its_bound_is_undecided_below_five_seeds():
    """100, 100, 100 against 93, 93.4, 92.8 was "+6.93 [6.18, 7.69], supported": the spread of one side is
    unknown.
    """
    question = Question({"a": 1.0, "b": -1.0}, lower_bound=0.0)
    for scale in (SHARE, Scale()):
        three, five = (
            Fit({"a": [100.0] * n, "b": [93.0, 93.4, 92.8, 93.1, 93.2][:n]}, scale) for n in (3, 5)
        )
        (early,), (late,) = (judge([answer(question, estimate(fit, a=1.0, b=-1.0))]) for fit in (three, five))

        assert (early.verdict, early.reasons, early.p) == (Verdict.UNDECIDED, (Reason.ONE_AT_BOUND,), None)
        assert (late.verdict, late.unseen_failures) == (Verdict.SUPPORTED, pytest.approx(1 - 0.05**0.2))
    many = Fit({"a": [100.0] * 20, "b": [93.0, 93.4, 92.8, 93.1, 93.2]}, SHARE)
    assert answer(question, estimate(many, a=1.0, b=-1.0)).unseen_failures == pytest.approx(1 - 0.05**0.05)


@pytest.mark.parametrize("score", [94.5, 100.0])
def test_seeds_that_change_nothing_are_asked_about(score):
    fit = Fit({"a": [92.5] * 3, "b": [score] * 3}, Scale(0, 100))
    (judged,) = judge(
        [answer(Question({"a": 1.0, "b": -1.0}, kind=Kind.DIFFERENCE), estimate(fit, a=1.0, b=-1.0))]
    )

    assert (judged.verdict, judged.reasons) == (Verdict.UNDECIDED, (Reason.EQUAL_SEEDS,))


def test_a_claim_whose_runs_are_all_lost_is_undecided():
    question, nothing = Question({"b": 1.0}, lower_bound=0.0), Estimate(None, why=Why.NO_RUN)

    (lost,), (waiting,) = judge([answer(question, nothing, lost_runs=4)]), judge([answer(question, nothing)])
    assert (lost.verdict, lost.reasons) == (Verdict.UNDECIDED, (Reason.RUNS_LOST,))
    assert waiting.verdict is Verdict.NOT_RUN


def test_two_questions_of_one_contrast_are_one_test():
    difference = estimate(Fit({"a": A, "b": B}), b=1.0, a=-1.0)
    claim = answer(Question({"b": 1.0, "a": -1.0}, lower_bound=0.0), difference)
    automatic = answer(Question({"b": 1.0, "a": -1.0}, kind=Kind.DIFFERENCE), difference)

    alone, twice = judge([claim])[0], judge([claim, automatic], contrasts=["b-a", "b-a"])
    assert [judged.adjusted for judged in twice] == [alone.adjusted] * 2
    assert twice[0].alpha == alone.alpha
    assert judge([claim, automatic])[0].adjusted == pytest.approx(2 * alone.adjusted)


def test_each_question_is_decided_at_its_own_level_by_the_p_of_the_family():
    """Three tests with p of 0.002, 0.004 and 0.02 by hand: Holm's p are 0.006, 0.008 and 0.02."""
    p_values, levels = (0.002, 0.004, 0.02), (0.01, 0.005, 0.05)
    base = answer(Question({"a": 1.0}, upper_bound=3.0), Estimate(2.0, n=5, df=4.0, error=0.1))
    answers = []
    for p, alpha in zip(p_values, levels, strict=True):
        answers.append(replace(base, p=p, question=replace(base.question, alpha=alpha)))
    judged = judge(answers)

    assert [answer.adjusted for answer in judged] == pytest.approx([0.006, 0.008, 0.02])
    assert [answer.verdict for answer in judged] == [
        Verdict.SUPPORTED,
        Verdict.UNDECIDED,  # 0.008 is above its 0.005
        Verdict.SUPPORTED,
    ]
    # At 0.005 no question is decided, so that the second one has a third of its level.
    assert [answer.alpha for answer in judged] == pytest.approx([0.01 / 3, 0.005 / 3, 0.05])


def test_a_mean_of_at_most_a_bound_is_a_t_test_at_the_bound():
    losses = [3.27, 3.26, 3.28, 3.265, 3.27]
    fit, referee_test = Fit({"a": losses}), ttest_1samp(losses, 3.28)
    question = Question({"a": 1.0}, upper_bound=3.28)
    (judged,) = judge([answer(question, estimate(fit, a=1.0))])

    assert (question.region, question.room(3.27)) == ((-np.inf, 3.28), pytest.approx(0.01))
    assert judged.p == pytest.approx(referee_test.pvalue)
    assert judged.verdict is Verdict.SUPPORTED
    (refuted,) = judge([answer(replace(question, upper_bound=3.2), estimate(fit, a=1.0))])
    assert refuted.verdict is Verdict.CONTRADICTED


def published(value: float, margin: float, fit: Fit, **options):
    question = Question({"a": 1.0}, center=value, half_width=margin, kind=Kind.PUBLISHED)
    return answer(question, fit.estimate("a"), prediction=fit.prediction("a"), **options)


def test_a_published_value_differs_only_at_the_maximum_and_far_from_our_seeds():
    fit = Fit({"a": [90.0, 90.2, 89.9, 90.1, 90.3], "b": [80.0, 83.0, 81.0, 82.0, 81.5]})
    seed_range = fit.extended_range(fit.scores["a"])
    near, far = (published(value, 0.1, fit, seed_range=seed_range) for value in (91.7, 94.0))

    assert seed_range == pytest.approx((89.9 - 1.5, 90.3 + 1.5))
    (far_judged,), (near_judged,) = judge([far]), judge([near])
    assert (far_judged.verdict, near_judged.verdict) == (Verdict.DIFFERS, Verdict.UNDECIDED)
    assert near_judged.reasons == (Reason.IN_RANGE,)
    (early,) = judge([far], [Looks((), 20)])
    assert (early.verdict, early.reasons) == (Verdict.UNDECIDED, (Reason.BEFORE_MAXIMUM,))


def test_the_chance_of_a_published_value_has_the_error_and_the_seeds_of_the_maximum():
    """At 3 seeds one more run has an error of sqrt(1 + 1/3), at 10 of sqrt(1 + 1/10)."""
    fit = Fit({"a": [90.0, 91.0, 89.0], "b": [80.0, 83.0, 81.0]})
    (early,) = judge([published(95.0, 0.1, fit)], [Looks((), 10)])
    variance, df = fit.variance("a").value, fit.variance("a").df + 7
    shift = (5.0 + (variance / 3) ** 0.5) / (variance * 1.1) ** 0.5
    critical = stats.t.ppf(1 - Looks((), 10).later_levels(3)[10] / 2, df)

    assert early.chance == pytest.approx(stats.nct.sf(critical, df, shift))


def test_near_a_ceiling_no_difference_is_tested_at_the_edge_of_its_margin():
    """One item more or less must not turn a verdict: the p values of neighbouring counts differ by less than
    a half.
    """
    question, p_values = Question({"a": 1.0, "b": -1.0}, half_width=0.5), []
    for items in range(6):
        near = [100.0 - items / 20, 100.0 - items / 20, 99.9]
        fit = Fit({"a": [100.0, 99.95, 100.0], "b": near, "c": [90.0, 91.0, 90.5]}, SHARE)
        means = [
            [(sign, fit.weighted(key, margin)) for key, sign in (("a", 1.0), ("b", -1.0))]
            for margin in (0.0, 0.5)
        ]
        p_values.append(answer(question, contrast(means[0]), edge=contrast(means[1])).p)
        assert contrast(means[1]).error > contrast(means[0]).error

    assert max(abs(next_p - previous_p) for previous_p, next_p in pairwise(p_values)) < 0.5


def test_seeds_needed_are_those_of_the_test_itself():
    """At the edge of a margin near a bound the error is larger; a paired test gains one degree of freedom a seed."""
    near = Fit({"a": [99.7, 99.8, 99.9], "b": [99.75, 99.8, 99.85], "c": [90.0, 91.0, 90.5]}, SHARE)
    question = Question({"a": 1.0, "b": -1.0}, half_width=0.2)
    plain, edge = (
        contrast([(sign, near.weighted(key, margin)) for key, sign in (("a", 1.0), ("b", -1.0))])
        for margin in (0.0, 0.2)
    )
    differences = Fit({0: [0.8, 2.0, -0.3]}).estimate(0)
    several = Question(dict.fromkeys("abcdefgh", 0.125), lower_bound=0.0)
    answers = [answer(question, plain, edge=at_edge) for at_edge in (None, edge)]
    answers += [answer(several, replace(differences, df_per_seed=df)) for df in (0, 1)]
    needed = [judge([tested], [Looks((3,))])[0].seeds_needed for tested in answers]

    assert edge.error > plain.error
    assert needed[0][1] < needed[1][1]
    assert needed[2][1] < needed[3][1]


def test_few_seeds_are_not_judged_where_another_variant_splits():
    """With gaps of 25 and 60 points, intervals of three seeds of one kind covered in 0 to 5 % of studies."""
    three = {"a": [51.0, 92.0, 95.0], "b": [91.0, 92.5, 92.0], "c": [80.0, 81.0, 80.5]}
    five = three | {key: [*three[key], three[key][0] + 0.4, three[key][1] - 0.3] for key in "bc"}
    question = Question({"b": 1.0, "c": -1.0}, lower_bound=0.5)
    three_seeds, five_seeds = (
        judge([answer(question, estimate(Fit(scores, SHARE), b=1.0, c=-1.0))])[0] for scores in (three, five)
    )

    assert (three_seeds.verdict, three_seeds.reasons) == (Verdict.UNDECIDED, (Reason.MAY_SPLIT,))
    assert five_seeds.verdict is Verdict.SUPPORTED


OURS = [90.0, 90.5, 90.2, 90.1, 90.4]


@pytest.mark.parametrize(
    ("values", "target", "margin", "options", "verdict", "reasons"),
    [
        (OURS, 90.2, 2.0, {}, Verdict.AGREES, ()),
        (OURS, 90.2, 0.1, {}, Verdict.UNDECIDED, ()),
        (OURS, 90.2, 0.0, {}, Verdict.UNDECIDED, (Reason.NO_MARGIN,)),
        (OURS, 95.0, 1.0, {}, Verdict.DIFFERS, ()),
        (OURS, 90.2, 2.0, {"runs_left": 1}, Verdict.INTERIM, (Reason.RUNS_LEFT,)),
        (OURS, 90.2, 2.0, {"lost_runs": 1}, Verdict.UNDECIDED, (Reason.RUNS_LOST,)),
        ([97.70, 97.80, 97.85, 97.78, 97.77, 97.81], 98.9, 2.0, {}, Verdict.AGREES, ()),  # the margin decides
        ([65.0, 79.4], 88.0, 0.5, {}, Verdict.UNDECIDED, (Reason.TOO_FEW_SEEDS,)),
    ],
)
def test_published_values(values, target, margin, options, verdict, reasons):
    fit = Fit({"a": values, "b": [v + 0.3 for v in values], "c": [80.0, 80.4, 80.1]}, SHARE)
    (judged,) = judge([published(target, margin, fit, **options)])

    assert (judged.verdict, judged.reasons) == (verdict, reasons)


def test_an_undecided_published_value_says_which_difference_would_have_been_shown():
    """One run more: mean +- t s sqrt(1 + 1/n), here of a variant alone."""
    fit = Fit({"a": OURS})
    (judged,) = judge([published(90.2, 0.01, fit)])
    low, high = fit.prediction("a").interval

    assert judged.shown_difference == pytest.approx((high - low) / 2)
    far = published(90.2, 0.01, fit, seed_range=(85.0, 91.0))
    shown = [judge([far], [Looks((), seeds)])[0].shown_difference for seeds in (5, 10)]
    assert shown == [pytest.approx(90.24 - 85.0), None]  # beyond the range, and never before the maximum


def test_a_mean_is_tested_on_the_scale_of_its_interval():
    """The end of its interval at level 1 - p is the edge, also at the other end of the region."""
    fit = Fit({"a": [1.0, 2.0, 0.5]}, Scale(kind="log"))
    mean = fit.estimate("a")
    for low, high in ((None, 3.2), (0.4, None), (0.4, 3.2)):
        p = answer(Question({"a": 1.0}, low, high, is_mean=True), mean).p
        ends = at_level(mean, 1 - p).interval
        assert min(abs(end - edge) for end in ends for edge in (low, high) if edge) < 1e-9
    share = Fit({"a": [99.9, 99.8, 99.7]}, SHARE).estimate("a")
    assert answer(Question({"a": 1.0}, upper_bound=100.0, is_mean=True), share).p == 0.0


def test_a_number_that_follows_from_the_config_is_no_test():
    fit = Fit({"a": A, "b": B})
    tested = answer(Question({"b": 1.0, "a": -1.0}, lower_bound=0.0), estimate(fit, b=1.0, a=-1.0))
    count = Answer(tested.question, Estimate(3.6e6), Verdict.AGREES, needs_test=False)
    with_count, alone = judge([tested, count])[0], judge([tested])[0]

    assert with_count.adjusted == alone.adjusted == tested.p


def test_an_improvement_is_a_ratio():
    """12 against 10 is 20 percent more; with a sign of -1, of a metric that is better low, 20 percent
    less.
    """
    fit = Fit({"ours": [11.0, 12.0, 13.0], "row": [9.0, 10.0, 11.0]})
    relative_gain = ratio(fit.weighted("ours"), fit.weighted("row"))

    assert relative_gain.value == pytest.approx(20.0)
    variance = fit.variance("ours").value / 3
    assert relative_gain.error == pytest.approx(
        np.sqrt((100 / 10) ** 2 * variance + (100 * 12 / 10**2) ** 2 * variance)
    )
    assert ratio(fit.weighted("ours"), fit.weighted("row"), -1.0).value == pytest.approx(-20.0)


def test_over_items_is_wider_and_clusters_wider_still():
    rng = np.random.default_rng(0)
    right = np.tile((rng.random(300) < 0.8).astype(float) * 100, (3, 1))
    right[0, :3], right[1, :2] = 100.0, 0.0  # seeds that agree but for a few: the items weigh more
    doubled = np.repeat(right, 4, axis=1)
    estimate = Fit({"a": right.mean(1).tolist()}, Scale(0.0, 100.0)).estimate("a")
    items = over_items(estimate, [doubled], [1.0])
    clustered = over_items(estimate, [doubled], [1.0], np.repeat(np.arange(300), 4))

    assert clustered.error > items.error >= estimate.error


def single_runs(results: np.ndarray) -> Fit:
    """The fit of one run for each row of results, on the same items."""
    scores = [{str(item): float(score) for item, score in enumerate(row)} for row in results]
    items = {key: ItemResult(items_error([row], [1.0]), len(row), row) for key, row in enumerate(scores)}
    means = {key: [float(row.mean())] for key, row in enumerate(results)}
    return Fit(means, Scale(0.0, 1.0, "share", results.shape[1]), item_results=items)


def test_single_runs_are_paired_by_item_and_items_of_one_run_alone_are_independent():
    results = np.random.default_rng(1).random((2, 40))
    fit = single_runs(results)
    paired = ttest_rel(results[1], results[0])
    difference = contrast([(1.0, fit.weighted(1)), (-1.0, fit.weighted(0))])
    assert difference.interval == pytest.approx(tuple(paired.confidence_interval()))
    assert difference.items == 40
    first, second = results[0][:20], results[1][20:]
    scores = (
        {f"a{item}": score for item, score in enumerate(first)},
        {f"b{item}": score for item, score in enumerate(second)},
    )
    variance = first.var(ddof=1) / 20 + second.var(ddof=1) / 20
    assert items_error(scores, [1.0, -1.0]) == pytest.approx(variance**0.5, rel=0.02)


@pytest.mark.parametrize(("items", "effect"), [(30, 0.0), (30, 0.1), (200, 0.1)])
def test_intervals_over_items_cover_as_often_as_they_say(items, effect):
    draw, covered = np.random.default_rng(2), np.zeros(2)
    for _ in range(400):
        shares = 0.1 + 0.75 * draw.random(items)  # some items are harder than others
        results = draw.random((2, items)) < [shares, shares + effect]
        fit = single_runs(results.astype(float))
        difference = contrast([(1.0, fit.weighted(1)), (-1.0, fit.weighted(0))])
        for index, (estimate, truth) in enumerate(((difference, effect), (fit.estimate(0), 0.475))):
            covered[index] += estimate.low <= truth <= estimate.high
    assert (covered / 400 > 0.92).all()
    assert (covered / 400 < 0.985).all()


def test_mcnemar_is_statsmodels_without_correction():
    ours, theirs = np.array([[1, 1, 1, 0, 1, 0, 1, 1.0]]), np.array([[1, 0, 0, 0, 0, 1, 1, 0.0]])
    table = [[2, 4], [1, 1]]

    assert mcnemar(ours, theirs) == pytest.approx(referee(table, exact=False, correction=False).pvalue)


def test_effects_of_a_whole_factorial():
    a, b = np.array([-1, -1, 1, 1]), np.array([-1, 1, -1, 1])
    effects = estimable({"A": a, "B": b})

    assert effects == {
        ("A",): [-0.5, -0.5, 0.5, 0.5],
        ("B",): [-0.5, 0.5, -0.5, 0.5],
        ("A", "B"): [0.5, -0.5, -0.5, 0.5],
    }
    assert estimable({"A": a[:3], "B": b[:3]}) is None
    assert estimable({"A": a, "B": np.array([-1, -1, -1, 1])}) is None
    assert (
        estimable(
            {"A": np.array([-1, 1, -1, 1]), "B": np.array([-1, -1, 1, 1]), "C": np.array([1, -1, -1, 1])}
        )
        is None
    )
