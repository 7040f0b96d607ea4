"""One kind of question: a contrast of means, and the region that it is held against.

    a claim         at least 0.5 above:  Question({"n=3": +1, "n=1": -1}, above=0.5)
    a difference    other than none:     Question({"n=3": +1, "n=1": -1}, other_than=0)
    an effect       likewise, of the cells of a factorial, each with its sign
    an improvement  likewise, in percent of the second
    a published value                    Question({"n=3": +1}, near=93.1, within=0.5, kind=Kind.PUBLISHED)

`room` is how far inside of the region the estimate lies, negative outside. p is of the two-sided t test that the truth lies on
the region's edge, so that the interval at level 1 - a lies wholly inside or wholly outside just where p < a. Of a family of m
questions Holm (1979) tests the j-th least p at a / (m - j + 1); `a` is what the present look may spend (`seeds.py`).

The effects of a two-level design of N cells: a column of signs stands for each, an axis is -1 at its first level and +1 at its
second, an interaction is the product of its axes' columns.
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
from recstudy.evidence.seeds import ALPHA, more_seeds
from recstudy.lazy import np, special

if TYPE_CHECKING:
    import numpy.typing as npt

Key = TypeVar("Key")
FEWEST = 3  # seeds of which a prediction interval says anything: at two it spans most of any metric


class Kind(StrEnum):
    """What a question is asked for, which decides the words of its verdict and nothing else but PUBLISHED's."""

    CLAIM = "claim"
    DIFFERENCE = "difference"
    EFFECT = "effect"
    IMPROVEMENT = "improvement"
    PUBLISHED = "published value"


class Verdict(StrEnum):
    """What an answer says."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    SMALLER = "contradicted: smaller than claimed"
    HIGHER = "higher"
    LOWER = "lower"
    NO_DIFFERENCE = "no significant difference"
    REPRODUCED = "reproduced"
    WITHIN_MARGIN = "within the margin"
    CONSISTENT = "consistent"
    DIFFERS = "differs"
    UNDECIDED = "undecided"
    INTERIM = "interim"
    NOT_COMPARABLE = "not comparable"
    NOT_RUN = "not run"
    GIVEN = "given"

    @property
    def decided(self) -> bool:
        """Whether more seeds are not needed."""
        return self in DECIDED

    @property
    def tested(self) -> bool:
        """Of a published value: whether the verdict is that of a test, which may err."""
        return self in (Verdict.REPRODUCED, Verdict.WITHIN_MARGIN, Verdict.CONSISTENT, Verdict.DIFFERS)


DECIDED = (
    Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.SMALLER, Verdict.HIGHER, Verdict.LOWER, Verdict.REPRODUCED,
    Verdict.WITHIN_MARGIN, Verdict.DIFFERS, Verdict.NOT_COMPARABLE, Verdict.GIVEN,
)  # fmt: skip


class Reason(StrEnum):
    """Why an answer is open, or what it is worth less for."""

    RUNS_LEFT = "runs are left to do"
    RUNS_LOST = "runs failed or diverged, and the rest may be the lucky ones"
    NO_SPREAD = "no spread over seeds is known"
    TOO_FEW_SEEDS = "too few seeds"
    SPLIT = "some seeds learned and others did not"
    CEILING = "ceiling"
    NO_MARGIN = "no margin is stated"
    WIDE = "one side's spread is several times that of the others"
    POST_HOC = "post hoc"


@dataclass(frozen=True)
class Question(Generic[Key]):
    """A contrast and its region: one of `above`, `below`, `within` (of `near`) or `other_than`.

    Args:
        weights: variant -> its weight in the contrast.
        above: the contrast is at least this.
        below: it is at most this.
        near: with `within`, the middle of the region.
        within: the region's half width; 0 where none is stated.
        other_than: the contrast is not this.
        kind: what it is asked for.
    """

    weights: Mapping[Key, float]
    above: float | None = None
    below: float | None = None
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
        return (-inf if self.above is None else self.above), (inf if self.below is None else self.below)

    def room(self, value: float) -> float:
        """Return the distance from a value to the region's edge; below 0 outside. Of `other_than` the distance from the point."""
        low, high = self.region
        return abs(value - low) if self.other_than is not None else min(value - low, high - value)


@dataclass(frozen=True)
class Answer(Generic[Key]):
    """What comes of a question.

    Args:
        question: the question.
        estimate: the contrast, with its interval at the level that the answer is read at.
        verdict: what it says.
        p: of this question alone; None where it is not tested.
        adjusted: p after Holm and the look, to be held against 0.05.
        alpha: the level of its step.
        prediction: of a published value, where one more run would lie.
        reasons: why it is open or worth less: of this package, or sentences of why two numbers do not compare.
        seeds_needed: more seeds of each variant that decide it 4 times in 5; None where none can be told.
        runs: ids of the runs behind it.
    """

    question: Question[Key]
    estimate: Estimate
    verdict: Verdict = Verdict.UNDECIDED
    p: float | None = None
    adjusted: float | None = None
    alpha: float = ALPHA
    prediction: Estimate | None = None
    reasons: tuple[str, ...] = ()
    seeds_needed: int | None = None
    runs: tuple[str, ...] = field(default=(), repr=False)

    @property
    def room(self) -> float | None:
        """From the estimate to the edge of what is asked; None without one."""
        return None if self.estimate.value is None else self.question.room(self.estimate.value)


def contrast(terms: Sequence[tuple[float, Weighted | None]], level: float = LEVEL) -> Estimate:
    """Return a weighted sum of means in the metric's unit, within its reach; degrees of freedom by Satterthwaite (1946)."""
    known = [(weight, term) for weight, term in terms if term is not None]
    if len(known) < len(terms) or not known:
        return Estimate(None, level=level, why=Why.NO_RUN)
    n = min(term.n for _, term in known)
    value = round(sum(weight * term.value for weight, term in known), 9)  # the rest is rounding
    whys = {term.why for _, term in known}
    if Why.SPLIT in whys:
        return Estimate(value, level=level, n=n, why=Why.SPLIT)
    parts = [(weight**2 * term.variance, term.df) for weight, term in known if term.variance is not None]
    total = sum(variance for variance, _ in parts)
    if len(parts) < len(known) or not total:
        return Estimate(value, level=level, n=n, why=Why.NO_SPREAD)
    df = total**2 / sum(variance**2 / df for variance, df in parts)
    ends = [sorted((weight * term.low, weight * term.high)) for weight, term in known]
    reach = sum(low for low, _ in ends), sum(high for _, high in ends)
    bound = Why.CEILING if whys <= {Why.CEILING} else Why.FLOOR if whys <= {Why.FLOOR} else None
    return at_level(Estimate(value, level=level, n=n, df=df, error=sqrt(total), reach=reach, why=bound), level)


def at_level(found: Estimate, level: float) -> Estimate:
    """Return an estimate of a contrast with its t interval at another level."""
    if found.value is None or found.error is None or found.df is None:
        return replace(found, level=level)
    half = float(special.stdtrit(found.df, (1 + level) / 2)) * found.error
    low, high = max(found.value - half, found.reach[0]), min(found.value + half, found.reach[1])
    return replace(found, low=low, high=high, level=level)


def ratio(ours: Weighted | None, theirs: Weighted | None, sign: float = 1.0) -> Estimate:
    """Return by how many percent of `theirs` the first is higher, or, with a `sign` of -1, lower (delta method).

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


def asked(question: Question[Key], estimate: Estimate, left: int = 0, lost: int = 0, runs: Sequence[str] = ()) -> Answer[Key]:
    """Return a question with its estimate, tested alone; `judged` gives the verdict among its family.

    Args:
        question: the question.
        estimate: of its contrast.
        left: its runs that have not ended.
        lost: those that failed or diverged.
        runs: ids of those behind the estimate.
    """
    reasons = [Reason.RUNS_LEFT] if left else []
    reasons += [Reason.RUNS_LOST] if lost else []
    reasons += [Reason.SPLIT] if estimate.why is Why.SPLIT else []
    reasons += [Reason.NO_SPREAD] if estimate.why is Why.NO_SPREAD else []
    ceiling = estimate.why in (Why.CEILING, Why.FLOOR) and question.within is not None
    reasons += [Reason.CEILING] if ceiling else []
    answer = Answer(question, estimate, reasons=tuple(reasons), runs=tuple(runs))
    if estimate.value is None:
        return replace(answer, verdict=Verdict.NOT_RUN)
    if reasons or estimate.error is None or estimate.df is None:
        return answer
    room = abs(question.room(estimate.value))
    p = 2 * float(special.stdtr(estimate.df, -room / estimate.error)) if estimate.error else 0.0
    return replace(answer, p=p)


def judged(answers: Sequence[Answer[Key]], levels: Sequence[float] = (), pooled: int = 2) -> list[Answer[Key]]:
    """Return the verdicts of a family of questions: Holm over all of them, tested or not, at what each one's look may spend.

    Args:
        answers: of `asked`.
        levels: `Looks.level` of the seeds that each has; 0.05 where nothing is given.
        pooled: variants whose further seeds make the spread better known.
    """
    levels = levels or [ALPHA] * len(answers)
    tested = [1.0 if one.p is None else min(1.0, one.p * ALPHA / level) for one, level in zip(answers, levels, strict=True)]
    adjusted = holm(tested)
    decided = sum(p < ALPHA for p in adjusted)
    order = sorted(range(len(answers)), key=lambda at: tested[at])
    found = []
    for at, (one, level) in enumerate(zip(answers, levels, strict=True)):
        alpha = level / (len(answers) - min(order.index(at), decided))
        estimate = at_level(one.estimate, 1 - alpha) if one.estimate.error is not None else one.estimate
        one = replace(one, estimate=estimate, alpha=alpha, adjusted=None if one.p is None else adjusted[at])
        verdict = _verdict(one)
        open_ = one.p is not None and verdict in (Verdict.UNDECIDED, Verdict.NO_DIFFERENCE)  # what is not tested lacks no seeds
        more = _more(one, level / len(answers), pooled) if open_ else None
        found.append(replace(one, verdict=verdict, seeds_needed=more))
    return found


def _verdict(one: Answer[Key]) -> Verdict:
    if one.verdict is not Verdict.UNDECIDED or Reason.RUNS_LEFT in one.reasons:
        return Verdict.INTERIM if one.verdict is Verdict.UNDECIDED else one.verdict
    tested = one.adjusted is not None and one.adjusted < ALPHA
    value, question = one.estimate.value or 0.0, one.question
    if question.other_than is not None:
        open_ = Verdict.UNDECIDED if one.p is None else Verdict.NO_DIFFERENCE
        return open_ if not tested else Verdict.HIGHER if value > question.other_than else Verdict.LOWER
    if not tested:
        return Verdict.UNDECIDED
    if (one.room or 0.0) > 0:
        return Verdict.SUPPORTED
    reached = (one.estimate.high or 0.0) > 0 if question.above else (one.estimate.low or 0.0) < 0 if question.below else False
    return Verdict.SMALLER if reached else Verdict.CONTRADICTED


def published(
    value: float, margin: float | None, estimate: Estimate, prediction: Estimate, left: int = 0, lost: int = 0, pooled: int = 1
) -> Answer[str]:
    """Return a published value against a variant's seeds.

    reproduced     our 95 % interval lies within the margin of it, and it lies in our prediction interval
    within margin  the first and not the second
    consistent     not the first; one more run of ours could well have given it
    differs        it lies outside of the prediction interval

    Args:
        value: what is published, in the metric's own unit.
        margin: how far off still counts as equal; None where nobody has stated it.
        estimate: of our mean.
        prediction: of one more run of ours.
        left: runs that have not ended.
        lost: runs that failed or diverged.
        pooled: variants whose further seeds make the spread better known.
    """
    question = Question({"ours": 1.0}, near=value, within=margin or 0.0, kind=Kind.PUBLISHED)
    answer = replace(asked(question, estimate, left, lost), prediction=prediction)
    reasons = [one for one in answer.reasons if one is not Reason.CEILING]
    if estimate.value is None or left or lost or estimate.interval is None or prediction.interval is None:
        verdict = Verdict.NOT_RUN if estimate.value is None else Verdict.INTERIM if left else Verdict.UNDECIDED
        return replace(answer, verdict=verdict, reasons=tuple(reasons))
    (low, high), (least, most) = estimate.interval, prediction.interval
    likely = least <= value <= most
    if margin is not None and value - margin <= low and high <= value + margin:
        return replace(answer, verdict=Verdict.REPRODUCED if likely else Verdict.WITHIN_MARGIN, reasons=tuple(reasons))
    if not likely:
        return replace(answer, verdict=Verdict.DIFFERS, reasons=tuple(reasons))
    few = estimate.n < FEWEST
    reasons += [Reason.TOO_FEW_SEEDS] * few + [Reason.NO_MARGIN] * (margin is None)
    more = _more(answer, ALPHA, pooled) if margin is not None else None
    verdict = Verdict.UNDECIDED if few else Verdict.CONSISTENT
    return replace(answer, verdict=verdict, reasons=tuple(reasons), seeds_needed=more)


def _more(one: Answer[Key], alpha: float, pooled: int) -> int | None:
    found = one.estimate
    if found.error is None or found.df is None or found.value is None or one.room is None:
        return None
    room = one.room if one.question.kind is Kind.PUBLISHED else abs(one.room)  # a mean outside of the margin comes no nearer
    return more_seeds(room, found.error, found.df, found.n, alpha, pooled)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted for their number (Holm 1979): the chance of any false finding among them stays below the level."""
    adjusted, least = [1.0] * len(p_values), 0.0
    for step, at in enumerate(sorted(range(len(p_values)), key=lambda at: p_values[at])):
        least = max(least, min(1.0, p_values[at] * (len(p_values) - step)))
        adjusted[at] = least
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
    """Return all effects of a factorial by order, or None if the cells are not every combination of the levels, once each."""
    cells = set(zip(*columns.values(), strict=True))
    if not len(cells) == len(next(iter(columns.values()))) == 2 ** len(columns):
        return None
    terms = (axes for size in range(1, len(columns) + 1) for axes in combinations(columns, size))
    return [Effect(axes, np.asarray(prod(columns[axis] for axis in axes))) for axes in terms]
