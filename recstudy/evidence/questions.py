"""Questions about contrasts of means, and their tests and verdicts.

A question has a contrast of means and a region. The test decides whether the contrast is in the region:

    a claim of at least 0.5    Question({"n=3": +1, "n=1": -1}, lower_bound=0.5)
    a mean of at most 3.28     Question({"n=3": +1}, upper_bound=3.28)
    a difference               Question({"n=3": +1, "n=1": -1}, kind=Kind.DIFFERENCE)
    an effect                  the same, over the cells of a factorial, each with its sign
    a published value          Question({"n=3": +1}, center=93.1, half_width=0.5, kind=Kind.PUBLISHED)

`room` is the distance from the estimate to the edge of the region, negative outside. The p value belongs to
the two-sided t test that the true contrast is on the edge. So p < a exactly if the interval at level 1 - a is
completely inside or completely outside of the region.

All questions of a study form one family, including its published values. Of m questions, Holm (1979) tests
the j-th smallest p at a / (m - j + 1), where `a` is the level of the question's present look (`seeds.py`).
A question may state a stricter level than the others. Its adjusted p is then compared with its own level.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf, sqrt
from typing import Any

from recstudy.base.lazy import special
from recstudy.evidence.contrasts import at_level
from recstudy.evidence.estimates import AT_BOUND, Estimate, Why
from recstudy.evidence.seeds import ALPHA, Looks, PowerAnalysis

MIN_SEEDS = 3  # of a prediction interval: with two seeds it covers most of the range of any metric
# Fewest seeds of a test if the seeds of a variant split or show no variance: fewer may all be of one kind.
MIN_SEEDS_IF_SPLIT = 5
LARGE = 1e70  # larger values have a variance that is not finite
UNSEEN = 0.05  # chance that none of n seeds fails, at the largest share of failing seeds that goes unseen


class Kind(StrEnum):
    """The kind of a question, which selects its test and the words of its verdict."""

    CLAIM = "claim"
    DIFFERENCE = "difference"
    EFFECT = "effect"
    PUBLISHED = "published value"


class Verdict(StrEnum):
    """The verdict of an answer."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    SMALLER = "smaller than claimed"
    HIGHER = "higher"
    LOWER = "lower"
    NO_DIFFERENCE = "no significant difference"
    AGREES = "agrees"
    DIFFERS = "differs"
    UNDECIDED = "undecided"
    INTERIM = "interim"
    NOT_COMPARABLE = "not comparable"
    NOT_RUN = "not run"
    GIVEN_VALUE = "given"

    @property
    def is_decided(self) -> bool:
        """Whether the verdict is final."""
        return self in DECIDED


DECIDED = (
    Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.SMALLER, Verdict.HIGHER, Verdict.LOWER,
    Verdict.AGREES, Verdict.DIFFERS, Verdict.NOT_COMPARABLE, Verdict.GIVEN_VALUE,
)  # fmt: skip


# Questions with these verdicts cannot be tested, so they do not count in the family of tests.
NO_TESTS = (Verdict.NOT_COMPARABLE, Verdict.GIVEN_VALUE)


class Reason(StrEnum):
    """The reason why an answer is open or needs care."""

    RUNS_LEFT = "runs are left to do"
    RUNS_LOST = "runs failed or diverged, and the rest may be the lucky ones"
    NO_SPREAD = "no spread over seeds is known"
    TOO_LARGE = "the values are too large for a variance"
    TOO_FEW_SEEDS = "too few seeds"
    ONE_SEED = "one side has a single run"
    SPLIT = "some seeds learned and others did not"
    MAY_SPLIT = "seeds of this study split, and fewer than five may all be of one kind"
    CEILING = "ceiling"
    ONE_AT_BOUND = "all seeds of one side have the same value, so their spread is unknown"
    EQUAL_SEEDS = "all seeds gave the same number: does the program use its seed?"
    IN_RANGE = "the published value is close to the range of our seeds"
    BEFORE_MAXIMUM = "a published value differs only at the maximum number of seeds"
    SIGNS_DIFFER = "the sign of the difference is not the same in all blocks"
    OVER_BLOCKS = "more blocks would decide it, and not more seeds"
    NO_MARGIN = "no margin is stated"
    WIDE = "one side's spread is several times that of the others"
    POST_HOC = "post hoc"


@dataclass(frozen=True)
class Question:
    """A contrast and its region, which has bounds or a `half_width`. Differences and effects have neither.

    Args:
        weights: Variant -> its weight in the contrast.
        lower_bound: The contrast is at least this value.
        upper_bound: The contrast is at most this value.
        center: The center of the region, if it has a `half_width`.
        half_width: Half the width of the region; 0 if no margin is stated.
        kind: The kind of the question.
        alpha: The level of the test over all looks, before Holm's correction.
        is_mean: Whether it is about means themselves, and not about a difference.
    """

    weights: Mapping[Any, float]
    lower_bound: float | None = None
    upper_bound: float | None = None
    center: float = 0.0
    half_width: float | None = None
    kind: Kind = Kind.CLAIM
    alpha: float = ALPHA
    is_mean: bool = False

    @property
    def is_two_sided(self) -> bool:
        """Whether both signs answer the question, as for a difference or an effect."""
        return self.kind in (Kind.DIFFERENCE, Kind.EFFECT)

    @property
    def region(self) -> tuple[float, float]:
        """The region as an interval of the contrast. If it is two-sided, both ends are the excluded 0."""
        if self.half_width is not None:
            return self.center - self.half_width, self.center + self.half_width
        if self.is_two_sided:
            return 0.0, 0.0
        low = -inf if self.lower_bound is None else self.lower_bound
        return low, inf if self.upper_bound is None else self.upper_bound

    def room(self, value: float) -> float:
        """Return the distance from a value to the edge of the region, negative outside.

        If the question is two-sided, it is the distance from 0.
        """
        low, high = self.region
        return abs(value) if self.is_two_sided else min(value - low, high - value)


@dataclass(frozen=True)
class Answer:
    """The answer to a question.

    Args:
        question: The question.
        estimate: The contrast with its 95 % interval.
        verdict: The verdict among the questions of the study.
        p: The p value of this question alone. None if it is not tested.
        adjusted: The p value after Holm's correction and the look. A decided question has less than its
            own alpha.
        alpha: The level at which Holm tests the question at this look.
        prediction: For a published value, the prediction interval of one more run.
        edge: The contrast with its standard error at the edge of the region, if it differs from `estimate`.
        reasons: Why the answer is open or needs care: members of `Reason`, or sentences on why two numbers
            are not comparable.
        seeds_needed: Further seeds of each variant that decide the question 4 times in 5, for the estimate
            and for the lower quartile of the effect. None if no number of seeds is known to decide it.
        chance: The chance of a decision at the study's maximum if the true effect is the estimate plus one
            standard error.
        maximum: The study's maximum number of seeds.
        seed_range: For a published value, the extended range of our seeds.
        needs_test: Whether the answer is a test. A number that follows from the config is none.
        runs: Ids of the runs behind the estimate.
    """

    question: Question
    estimate: Estimate
    verdict: Verdict = Verdict.UNDECIDED
    p: float | None = None
    adjusted: float | None = None
    alpha: float = ALPHA
    prediction: Estimate | None = None
    edge: Estimate | None = None
    reasons: tuple[str, ...] = ()
    seeds_needed: tuple[int, int] | None = None
    chance: float = 0.0
    maximum: int = 0
    seed_range: tuple[float, float] | None = None
    needs_test: bool = True
    runs: tuple[str, ...] = field(default=(), repr=False)

    @property
    def is_test(self) -> bool:
        """Whether it counts in the family of tests."""
        return self.needs_test and self.verdict not in NO_TESTS

    @property
    def room(self) -> float | None:
        """Distance from the estimate to the edge of the question's region. None without an estimate."""
        return None if self.estimate.value is None else self.question.room(self.estimate.value)

    @property
    def distance(self) -> float:
        """Distance from the estimate to the nearest edge of the region, on the scale of the estimate."""
        edges = [edge for edge in self.question.region if abs(edge) < inf]
        return min((self.estimate.distance(edge) for edge in edges), default=inf)

    @property
    def adjusted_interval(self) -> tuple[float, float] | None:
        """The interval at the level of Holm's test."""
        return None if self.estimate.error is None else at_level(self.estimate, 1 - self.alpha).interval

    @property
    def unseen_failures(self) -> float | None:
        """The largest share of seeds that may fail unseen if no seed of one side shows a variance."""
        is_at_bound = self.estimate.why in AT_BOUND and self.p is not None
        n = self.estimate.n_at_bound or self.estimate.n
        return 1 - UNSEEN ** (1 / n) if is_at_bound else None

    @property
    def shown_difference(self) -> float | None:
        """For a published value, the distance from our mean beyond which the verdict is `differs`.

        None if it is not possible, such as before the maximum of seeds.
        """
        prediction, mean = self.prediction, self.estimate.value
        if prediction is None or prediction.error is None or prediction.df is None or mean is None:
            return None
        if self.estimate.n < max(MIN_SEEDS, self.maximum):
            return None
        ends = [*(at_level(prediction, 1 - self.alpha).interval or ()), *(self.seed_range or ())]
        return max(self.question.half_width or 0.0, *(abs(end - mean) for end in ends))


def answer(
    question: Question,
    estimate: Estimate,
    runs_left: int = 0,
    lost_runs: int = 0,
    runs: Sequence[str] = (),
    edge: Estimate | None = None,
    prediction: Estimate | None = None,
    seed_range: tuple[float, float] | None = None,
) -> Answer:
    """Test a question alone. `judge` adds the verdict among the questions of its study.

    A published value agrees if our mean is significantly within its margin (an equivalence test). It differs
    if our mean is outside of the margin and the value is outside of the prediction interval of one more run.
    Heavy-tailed seeds would differ from exact replications in 15 % of studies, so the value must also lie
    outside of the range of our seeds, extended on both sides by half of the widest range among the variants,
    and all seeds of the maximum must have run.

    Args:
        question: The question.
        estimate: The estimate of its contrast.
        runs_left: The number of its unfinished runs.
        lost_runs: The number of its runs that failed or diverged.
        runs: Ids of the runs behind the estimate.
        edge: The contrast with its standard error at the edge of the region, if it differs from `estimate`.
        prediction: For a published value, our mean with the prediction interval of one more run.
        seed_range: For a published value, the extended range of our seeds. None if only the prediction
            interval counts.

    Returns:
        The answer with its p value, or with the reasons why it is not tested.
    """
    has_few_seeds = estimate.n < MIN_SEEDS_IF_SPLIT
    has_region = question.half_width is not None or not question.is_mean or estimate.error is None
    both_at_bound = estimate.why in (Why.CEILING, Why.FLOOR) and has_region
    is_at_bound = estimate.why in AT_BOUND and not both_at_bound and estimate.error is not None
    is_large = abs(estimate.value or 0.0) >= LARGE
    is_over_seeds = not (estimate.is_over_items or estimate.blocks)
    is_one_seed = estimate.n == 1 and estimate.error is not None and is_over_seeds
    is_one_run_published = estimate.is_over_items and question.kind is Kind.PUBLISHED
    conditions = {
        Reason.RUNS_LEFT: runs_left,
        Reason.RUNS_LOST: lost_runs,
        Reason.SPLIT: estimate.why is Why.SPLIT,
        Reason.MAY_SPLIT: estimate.why is Why.MAY_SPLIT and has_few_seeds,
        Reason.NO_SPREAD: (estimate.why is Why.NO_SPREAD and not is_large) or is_one_run_published,
        Reason.TOO_LARGE: estimate.why is Why.NO_SPREAD and is_large,
        Reason.EQUAL_SEEDS: estimate.why is Why.EQUAL and estimate.error is None,
        Reason.CEILING: both_at_bound,
        Reason.ONE_AT_BOUND: is_at_bound and has_few_seeds,
        Reason.ONE_SEED: is_one_seed and not (runs_left or lost_runs),
    }
    reasons = tuple(reason for reason, is_true in conditions.items() if is_true)
    untested = Answer(question, estimate, prediction=prediction, edge=edge, reasons=reasons, runs=tuple(runs))
    untested = replace(untested, seed_range=seed_range)
    if estimate.value is None:
        all_lost = lost_runs and not runs_left
        return untested if all_lost else replace(untested, verdict=Verdict.NOT_RUN)
    tested = edge or estimate
    if reasons or tested.error is None or tested.df is None:
        return untested
    room = question.room(estimate.value)
    if question.kind is not Kind.PUBLISHED or room > 0:
        return replace(untested, p=_two_sided_p(untested.distance, tested.error, tested.df))
    if estimate.n < MIN_SEEDS:
        return replace(untested, reasons=(Reason.TOO_FEW_SEEDS,))
    if prediction is None or prediction.error is None or prediction.df is None:
        return untested
    # The published value is one run: it differs from a mean of n runs by a standard error of s sqrt(1 + 1/n).
    value = question.center
    p = _two_sided_p(prediction.distance(value), prediction.error, prediction.df)
    is_in_range = seed_range is not None and seed_range[0] <= value <= seed_range[1]
    cautions = [Reason.NO_MARGIN] * (not question.half_width) + [Reason.IN_RANGE] * is_in_range
    return replace(untested, p=1.0 if is_in_range else p, reasons=tuple(cautions))


def _two_sided_p(distance: float, error: float, df: float) -> float:
    return 2 * float(special.stdtr(df, -distance / error)) if error else 0.0


def judge(
    answers: Sequence[Answer],
    looks: Sequence[Looks] = (),
    dropped: int = 0,
    contrasts: Sequence[Hashable] = (),
) -> list[Answer]:
    """Add the verdicts to a study's answers, by Holm's method over all of them.

    Args:
        answers: Answers from `answer`.
        looks: The looks of each question; by default one look.
        dropped: The number of questions that the study has dropped since its first run finished. They still
            count as tests.
        contrasts: A key for each question. Questions with the same key are one test. By default each question
            is a test.
    """
    looks = looks or [Looks()] * len(answers)
    pairs = zip(answers, looks, strict=True)
    looks = [replace(look, alpha=answer.question.alpha) for answer, look in pairs]
    questions = list(zip(answers, looks, contrasts or range(len(answers)), strict=True))
    p_values: dict[Hashable, float] = {}
    for answer, look, key in questions:
        if answer.is_test:
            level = _level(answer, look)
            # A p value at the level of its look counts as alpha, so that Holm can compare different looks.
            has_p = answer.p is not None and level > 0
            p = min(1.0, (answer.p or 0.0) * look.alpha / level) if has_p else 1.0
            p_values[key] = max(p, p_values.get(key, 0.0))
    adjusted = dict(zip(p_values, holm([*p_values.values(), *[1.0] * dropped]), strict=False))
    ranks = {key: rank for rank, key in enumerate(sorted(p_values, key=p_values.__getitem__))}
    judged = []
    for answer, look, key in questions:
        if answer.is_test:
            # Holm's share of the level: 1 / (m - j + 1) for the j-th smallest p, and for open questions the
            # share of the smallest open p.
            decided = sum(p < look.alpha for p in adjusted.values())
            share = 1 / (len(p_values) + dropped - min(ranks[key], decided))
            answer = _judged(answer, look, share, adjusted[key])
        judged.append(answer)
    return judged


def _level(answer: Answer, look: Looks) -> float:
    return look.alpha if answer.p is None else look.level(answer.estimate.n)


def _judged(answer: Answer, look: Looks, share: float, adjusted: float) -> Answer:
    """Add the verdict, and the seeds that an open question needs.

    Args:
        answer: The answer to the question alone.
        look: The looks of the question.
        share: The share of the level that Holm leaves to the question.
        adjusted: Holm's p value.
    """
    seeds = answer.estimate.n
    if seeds == 1 and answer.p is not None and not _level(answer, look):  # of blocks, before the maximum
        answer = replace(answer, p=None, reasons=(Reason.ONE_SEED,))
    alpha, maximum = _level(answer, look) * share, look.maximum or seeds
    tested = replace(answer, alpha=alpha, maximum=maximum, adjusted=None if answer.p is None else adjusted)
    tested = replace(tested, verdict=_verdict(tested))
    if tested.verdict is Verdict.DIFFERS and seeds < maximum:
        reasons = (*tested.reasons, Reason.BEFORE_MAXIMUM)
        tested = replace(tested, verdict=Verdict.UNDECIDED, reasons=reasons)
    if tested.p is not None and not tested.verdict.is_decided:
        return _with_power(tested, look, share)
    return tested


def _verdict(answer: Answer) -> Verdict:
    if answer.verdict is not Verdict.UNDECIDED or Reason.RUNS_LEFT in answer.reasons:
        return Verdict.INTERIM if answer.verdict is Verdict.UNDECIDED else answer.verdict
    is_significant = answer.adjusted is not None and answer.adjusted < answer.question.alpha
    value, question = answer.estimate.value or 0.0, answer.question
    is_inside = (answer.room or 0.0) > 0
    if question.is_two_sided:
        open_verdict = Verdict.UNDECIDED if answer.p is None else Verdict.NO_DIFFERENCE
        higher_or_lower = Verdict.HIGHER if value > 0 else Verdict.LOWER
        return higher_or_lower if is_significant else open_verdict
    if not is_significant:
        return Verdict.UNDECIDED
    if question.kind is Kind.PUBLISHED:
        return Verdict.AGREES if is_inside else Verdict.DIFFERS
    if is_inside:
        return Verdict.SUPPORTED
    _, high = answer.adjusted_interval or (-inf, inf)
    # The claimed direction of a difference may still be true if the interval has values above 0.
    may_be_positive = not question.is_mean and (question.lower_bound or 0.0) > max(0.0, value) and high > 0
    return Verdict.SMALLER if may_be_positive else Verdict.CONTRADICTED


def _with_power(answer: Answer, looks: Looks, share: float) -> Answer:
    """Add the number of seeds that an open question needs, and its chance of a decision at the maximum."""
    estimate, room, prediction = answer.estimate, answer.room, answer.prediction
    if estimate.error is None or estimate.df is None or room is None:
        return answer
    if estimate.is_over_items or Reason.OVER_BLOCKS in answer.reasons:
        return answer
    variants = estimate.df_per_seed or len(answer.question.weights)
    later_levels = looks.later_levels(estimate.n)
    if prediction is not None and prediction.error is not None and room <= 0:
        # Our mean is outside of the published value's margin, and more seeds do not move it closer. The test
        # compares the value with one more run, so its error shrinks to that of a single run.
        distance = estimate.error + abs((estimate.value or 0.0) - answer.question.center)
        if not later_levels:
            return answer
        seeds, level = max(later_levels.items())
        error = prediction.error * sqrt((1 + 1 / seeds) / (1 + 1 / estimate.n))
        df = estimate.df + variants * (seeds - estimate.n)
        chance = PowerAnalysis(distance, error, df, seeds).power(distance, seeds, share * level)
        return replace(answer, chance=float(chance))
    edge = answer.edge or estimate
    spread = edge.error or estimate.error, edge.df or estimate.df
    analysis = PowerAnalysis(answer.distance, *spread, estimate.n, variants, estimate.overlap)
    seeds_needed, chance = analysis.seeds_needed(looks, share), analysis.chance(looks, share)
    return replace(answer, seeds_needed=seeds_needed, chance=chance)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p values for multiple tests (Holm 1979), which controls the family-wise error rate."""
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = largest
    return adjusted
