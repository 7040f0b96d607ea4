"""One kind of question: a contrast of means, and the region that it is held against.

    a claim         at least 0.5 above:  Question({"n=3": +1, "n=1": -1}, above=0.5)
    a difference    other than none:     Question({"n=3": +1, "n=1": -1}, other_than=0)
    an effect       likewise, of the cells of a factorial, each with its sign
    a published value                    Question({"n=3": +1}, near=93.1, within=0.5, kind=Kind.PUBLISHED)

`room` is how far inside of the region the estimate lies, negative outside. p is of the two-sided t test that
the truth lies on the region's edge, so that the interval at level 1 - a lies wholly inside or wholly outside
just where p < a. All questions of a study are one family, its published values included: of m questions Holm
(1979) tests the j-th least p at a / (m - j + 1), where `a` is the level of the question's present look
(`seeds.py`).

A published value is tested as our mean against its margin (an equivalence test) if the mean lies within it,
and else as one more run of ours: a mean of n runs and one run differ by a standard error of s sqrt(1 + 1/n).

The effects of a two-level design of N cells: a column of signs stands for each, an axis is -1 at its first
level and +1 at its second, an interaction is the product of its axes' columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations
from math import inf, prod, sqrt
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from recstudy.evidence.estimates import LEVEL, Estimate, Why
from recstudy.evidence.fits import Weighted
from recstudy.evidence.seeds import ALPHA, Looks, PowerAnalysis
from recstudy.lazy import np, special

if TYPE_CHECKING:
    import numpy.typing as npt

Key = TypeVar("Key")
FEWEST = 3  # seeds from which a prediction interval means anything: with two it spans most of any metric
FEWEST_OF_KINDS = 5  # seeds from which a variant is judged, if the seeds of another variant are of two kinds


class Kind(StrEnum):
    """What a question is asked for, which decides the words of its verdict and nothing else but
    PUBLISHED's.
    """

    CLAIM = "claim"
    DIFFERENCE = "difference"
    EFFECT = "effect"
    PUBLISHED = "published value"


class Verdict(StrEnum):
    """What an answer says."""

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
    GIVEN = "given"

    @property
    def is_decided(self) -> bool:
        """Whether the verdict is final."""
        return self in DECIDED


DECIDED = (
    Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.SMALLER, Verdict.HIGHER, Verdict.LOWER, Verdict.AGREES, Verdict.DIFFERS,
    Verdict.NOT_COMPARABLE, Verdict.GIVEN,
)  # fmt: skip


# questions that can never be tested, and do not count in a family
NO_TESTS = (Verdict.NOT_COMPARABLE, Verdict.GIVEN)


class Reason(StrEnum):
    """Why an answer is open, or what it is worth less for."""

    RUNS_LEFT = "runs are left to do"
    RUNS_LOST = "runs failed or diverged, and the rest may be the lucky ones"
    NO_SPREAD = "no spread over seeds is known"
    TOO_FEW_SEEDS = "too few seeds"
    SPLIT = "some seeds learned and others did not"
    MAY_SPLIT = "seeds of this study split, and fewer than five may all be of one kind"
    CEILING = "ceiling"
    NO_MARGIN = "no margin is stated"
    WIDE = "one side's spread is several times that of the others"
    POST_HOC = "post hoc"


@dataclass(frozen=True)
class Question(Generic[Key]):
    """A contrast and its region: one of `above`, `within` (of `near`) or `other_than`.

    Args:
        weights: variant -> its weight in the contrast.
        above: the contrast is at least this.
        near: with `within`, the middle of the region.
        within: the region's half width; 0 where none is stated.
        other_than: the contrast is not this.
        kind: what it is asked for.
    """

    weights: Mapping[Key, float]
    above: float | None = None
    near: float = 0.0
    within: float | None = None
    other_than: float | None = None
    kind: Kind = Kind.CLAIM

    @property
    def region(self) -> tuple[float, float]:
        """What is asked, as an interval of the contrast; of `other_than` the point that is to be excluded."""
        if self.within is not None:
            return self.near - self.within, self.near + self.within
        if self.other_than is not None:
            return self.other_than, self.other_than
        return (-inf if self.above is None else self.above), inf

    def room(self, value: float) -> float:
        """Return the distance from a value to the region's edge; below 0 outside. Of `other_than` the
        distance from the point.
        """
        low, high = self.region
        return abs(value - low) if self.other_than is not None else min(value - low, high - value)


@dataclass(frozen=True)
class Answer(Generic[Key]):
    """The answer to a question.

    Args:
        question: The question.
        estimate: The contrast with its 95 % interval.
        verdict: The verdict among the questions of the study.
        p: Of this question alone; None if it is not tested.
        adjusted: p after Holm and the look, which is below 0.05 if the question is decided.
        alpha: The level at which Holm tests the question at this look.
        prediction: Of a published value, the interval of one more run.
        reasons: Why the answer is open or worth less: of this package, or sentences on why two numbers do not
            compare.
        seeds_needed: Further seeds of each variant that decide the question 4 times in 5, for the estimate
            and for the lower quartile of the effect; None if no number of seeds is known to decide it.
        chance: The chance of a decision at the study's maximum if the true effect is the estimate plus one
            standard error.
        maximum: The study's maximum number of seeds.
        runs: Ids of the runs behind the estimate.
    """

    question: Question[Key]
    estimate: Estimate
    verdict: Verdict = Verdict.UNDECIDED
    p: float | None = None
    adjusted: float | None = None
    alpha: float = ALPHA
    prediction: Estimate | None = None
    reasons: tuple[str, ...] = ()
    seeds_needed: tuple[int, int] | None = None
    chance: float = 0.0
    maximum: int = 0
    runs: tuple[str, ...] = field(default=(), repr=False)

    @property
    def room(self) -> float | None:
        """From the estimate to the edge of the question's region; None without an estimate."""
        return None if self.estimate.value is None else self.question.room(self.estimate.value)

    @property
    def adjusted_interval(self) -> tuple[float, float] | None:
        """The interval at the level of Holm's test."""
        return None if self.estimate.error is None else at_level(self.estimate, 1 - self.alpha).interval

    @property
    def shown_difference(self) -> float | None:
        """Of a published value: the smallest difference from our mean with which the verdict would be
        `differs`.
        """
        prediction = self.prediction
        if prediction is None or prediction.error is None or prediction.df is None:
            return None
        half = float(special.stdtrit(prediction.df, 1 - self.alpha / 2)) * prediction.error
        return max(half, self.question.within or 0.0)


def contrast(terms: Sequence[tuple[float, Weighted | None]], level: float = LEVEL) -> Estimate:
    """Return a weighted sum of means in the metric's unit, within its reach; degrees of freedom by
    Satterthwaite (1946).
    """
    known = [(weight, term) for weight, term in terms if term is not None]
    if len(known) < len(terms) or not known:
        return Estimate(None, level=level, why=Why.NO_RUN)
    n = min(term.n for _, term in known)
    value = round(sum(weight * term.value for weight, term in known), 9)  # the rest is rounding
    whys = {term.why for _, term in known}
    if Why.SPLIT in whys:
        return Estimate(value, level=level, n=n, why=Why.SPLIT)
    doubt = Why.MAY_SPLIT if Why.MAY_SPLIT in whys else None
    parts = [(weight**2 * term.variance, term.df) for weight, term in known if term.variance is not None]
    total = sum(variance for variance, _ in parts)
    if len(parts) < len(known) or not total:
        return Estimate(value, level=level, n=n, why=Why.NO_SPREAD)
    df = total**2 / sum(variance**2 / df for variance, df in parts)
    ends = [sorted((weight * term.low, weight * term.high)) for weight, term in known]
    reach = sum(low for low, _ in ends), sum(high for _, high in ends)
    bound = Why.CEILING if whys <= {Why.CEILING} else Why.FLOOR if whys <= {Why.FLOOR} else doubt
    return at_level(
        Estimate(value, level=level, n=n, df=df, error=sqrt(total), reach=reach, why=bound), level
    )


def at_level(found: Estimate, level: float) -> Estimate:
    """Return an estimate of a contrast with its t interval at another level."""
    if found.value is None or found.error is None or found.df is None:
        return replace(found, level=level)
    half = float(special.stdtrit(found.df, (1 + level) / 2)) * found.error
    low, high = max(found.value - half, found.reach[0]), min(found.value + half, found.reach[1])
    return replace(found, low=low, high=high, level=level)


def ratio(ours: Weighted | None, theirs: Weighted | None, sign: float = 1.0) -> Estimate:
    """Return by how many percent of `theirs` the first is higher, or, with a `sign` of -1, lower (delta
    method).

    There is no interval where that of `theirs` reaches 0.
    """
    if ours is None or theirs is None or not theirs.value:
        return Estimate(None, why=Why.NO_RUN)
    share = ours.value / theirs.value
    free = [one._replace(low=-inf, high=inf) for one in (ours, theirs)]
    found = contrast([(sign * 100 / theirs.value, free[0]), (-sign * 100 * share / theirs.value, free[1])])
    value, row = round(sign * 100 * (share - 1), 9), contrast([(1.0, free[1])])
    if found.interval and row.interval and row.interval[0] <= 0 <= row.interval[1]:
        return Estimate(value, n=found.n, why=Why.NEAR_ZERO)
    return at_level(replace(found, value=value), found.level)


def answer(
    question: Question[Key],
    estimate: Estimate,
    left: int = 0,
    lost: int = 0,
    runs: Sequence[str] = (),
    edge: Estimate | None = None,
) -> Answer[Key]:
    """Test a question alone. `judge` adds the verdict among the questions of its study.

    Args:
        question: The question.
        estimate: Of its contrast.
        left: The number of its runs that have not ended.
        lost: The number of its runs that failed or diverged.
        runs: Ids of the runs behind the estimate.
        edge: The contrast with its standard error at the edge of the region, if that is another.
    """
    few = estimate.n < FEWEST_OF_KINDS
    both_at_bound = estimate.why in (Why.CEILING, Why.FLOOR) and question.within is not None
    holds = {
        Reason.RUNS_LEFT: left,
        Reason.RUNS_LOST: lost,
        Reason.SPLIT: estimate.why is Why.SPLIT,
        Reason.MAY_SPLIT: estimate.why is Why.MAY_SPLIT and few,
        Reason.NO_SPREAD: estimate.why is Why.NO_SPREAD,
        Reason.CEILING: both_at_bound,
    }
    reasons = tuple(reason for reason, is_true in holds.items() if is_true)
    untested = Answer(question, estimate, reasons=reasons, runs=tuple(runs))
    if estimate.value is None:
        return replace(untested, verdict=Verdict.NOT_RUN)
    tested = edge or estimate
    if reasons or tested.error is None or tested.df is None:
        return untested
    room = abs(question.room(estimate.value))
    return replace(untested, p=_two_sided(room, tested.error, tested.df))


def answer_published(
    value: float,
    margin: float | None,
    estimate: Estimate,
    prediction: Estimate,
    left: int = 0,
    lost: int = 0,
    runs: Sequence[str] = (),
    edge: Estimate | None = None,
) -> Answer[str]:
    """Test a published value against a variant's seeds. `judge` adds the verdict:

    agrees       our mean lies within the margin of the value, by an equivalence test
    differs      our mean lies outside of the margin, and one more run of ours would not give the value
    undecided    neither

    Args:
        value: The published value, in the metric's own unit.
        margin: The distance that still counts as equal; None if none is stated.
        estimate: Our mean.
        prediction: One more run of ours.
        left: The number of runs that have not ended.
        lost: The number of runs that failed or diverged.
        runs: Ids of the runs behind the estimate.
        edge: Our mean with its standard error at the edge of the margin, if that is another.
    """
    question = Question({"ours": 1.0}, near=value, within=margin or 0.0, kind=Kind.PUBLISHED)
    tested = replace(answer(question, estimate, left, lost, runs, edge), prediction=prediction)
    if tested.p is None or (tested.room or 0.0) > 0:
        return tested
    if estimate.n < FEWEST:
        return replace(tested, p=None, reasons=(*tested.reasons, Reason.TOO_FEW_SEEDS))
    if prediction.error is None or prediction.df is None or estimate.value is None:
        return replace(tested, p=None)
    p = _two_sided(abs(estimate.value - value), prediction.error, prediction.df)
    return replace(tested, p=p, reasons=(*tested.reasons, *([Reason.NO_MARGIN] if margin is None else [])))


def _two_sided(distance: float, error: float, df: float) -> float:
    return 2 * float(special.stdtr(df, -distance / error)) if error else 0.0


def judge(answers: Sequence[Answer[Key]], looks: Sequence[Looks] = (), dropped: int = 0) -> list[Answer[Key]]:
    """Return the verdicts of a study's questions: Holm over all of them, each at the level of its look.

    Args:
        answers: Of `answer` and `answer_published`.
        looks: Of each question; by default one look.
        dropped: The number of questions that the study has dropped since its first run finished, which count
            as tests.
    """
    looks = looks or [Looks()] * len(answers)
    levels = [
        ALPHA if answer.p is None else look.level(answer.estimate.n)
        for look, answer in zip(looks, answers, strict=True)
    ]
    p_values = [
        min(1.0, answer.p * ALPHA / level) if answer.p is not None and level else 1.0
        for answer, level in zip(answers, levels, strict=True)
    ]
    tests = [index for index, answer in enumerate(answers) if answer.verdict not in NO_TESTS]
    adjusted = dict(zip(tests, holm([*(p_values[index] for index in tests), *[1.0] * dropped]), strict=False))
    count = len(tests) + dropped
    decided = sum(p < ALPHA for p in adjusted.values())
    ranks = {index: rank for rank, index in enumerate(sorted(tests, key=p_values.__getitem__))}
    judged = list(answers)
    for index in tests:
        share = 1 / (count - min(ranks[index], decided))
        tested = replace(
            answers[index],
            alpha=levels[index] * share,
            maximum=looks[index].maximum or answers[index].estimate.n,
        )
        tested = tested if tested.p is None else replace(tested, adjusted=adjusted[index])
        tested = replace(tested, verdict=_verdict(tested))
        if tested.p is not None and not tested.verdict.is_decided:
            tested = _with_power(tested, looks[index], share)
        judged[index] = tested
    return judged


def _verdict(answer: Answer[Key]) -> Verdict:
    if answer.verdict is not Verdict.UNDECIDED or Reason.RUNS_LEFT in answer.reasons:
        return Verdict.INTERIM if answer.verdict is Verdict.UNDECIDED else answer.verdict
    is_significant = answer.adjusted is not None and answer.adjusted < ALPHA
    value, question = answer.estimate.value or 0.0, answer.question
    is_inside = (answer.room or 0.0) > 0
    if question.other_than is not None:
        open_verdict = Verdict.UNDECIDED if answer.p is None else Verdict.NO_DIFFERENCE
        higher_or_lower = Verdict.HIGHER if value > question.other_than else Verdict.LOWER
        return higher_or_lower if is_significant else open_verdict
    if not is_significant:
        return Verdict.UNDECIDED
    if question.kind is Kind.PUBLISHED:
        return Verdict.AGREES if is_inside else Verdict.DIFFERS
    if is_inside:
        return Verdict.SUPPORTED
    _, high = answer.adjusted_interval or (-inf, inf)
    has_sign = (question.above or 0.0) > 0 and high > 0
    return Verdict.SMALLER if has_sign else Verdict.CONTRADICTED


def _with_power(answer: Answer[Key], looks: Looks, share: float) -> Answer[Key]:
    """Add the seeds that an open question needs, and its chance at the maximum.

    If our mean lies outside of a published value's margin, more seeds bring it no nearer. Then the question
    is whether one more run would give the value, and the spread of that run does not shrink with more seeds.
    """
    estimate, room, prediction = answer.estimate, answer.room, answer.prediction
    if estimate.error is None or estimate.df is None or room is None:
        return answer
    variants, later = len(answer.question.weights), looks.later(estimate.n)
    if prediction is not None and prediction.error is not None and room <= 0:
        distance = estimate.error + abs((estimate.value or 0.0) - answer.question.near)
        analysis = PowerAnalysis(distance, prediction.error, estimate.df, estimate.n, variants)
        chance = analysis.power(distance, estimate.n, share * later[looks.maximum]) if later else 0.0
        return replace(answer, chance=float(chance))
    analysis = PowerAnalysis(abs(room), estimate.error, estimate.df, estimate.n, variants)
    return replace(
        answer, seeds_needed=analysis.seeds_needed(looks, share), chance=analysis.chance(looks, share)
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p values for their number (Holm 1979): the chance of any false finding among them stays below
    the level.
    """
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = largest
    return adjusted


Signs: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True)
class Effect:
    """A main effect, or the interaction of several axes, and its column of signs (N,)."""

    axes: tuple[str, ...]
    column: Signs

    @property
    def weights(self) -> list[float]:
        """Of the cells: the mean where the column is +1 minus the mean where it is -1."""
        return [float(sign) / (len(self.column) / 2) for sign in self.column]


def estimable(columns: Mapping[str, Signs]) -> list[Effect] | None:
    """Return all effects of a factorial by order, or None if the cells are not every combination of the
    levels, once each.
    """
    cells = set(zip(*columns.values(), strict=True))
    if not len(cells) == len(next(iter(columns.values()))) == 2 ** len(columns):
        return None
    terms = (axes for size in range(1, len(columns) + 1) for axes in combinations(columns, size))
    return [Effect(axes, np.asarray(prod(columns[axis] for axis in axes))) for axes in terms]
