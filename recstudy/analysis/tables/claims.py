"""A study's claims as contrasts of means over seeds: interval, p by Holm, verdict, and the seeds that would settle them.

A claim states a set of differences: those above its margin, or those within it either way. `room` is how far inside of that set
the estimate lies, negative outside. p is of the two-sided t test that the true difference lies on the set's edge, so that the
interval at a level of 1 - a lies wholly inside or wholly outside exactly where p < a. Over all m claims, whether run or not, Holm
tests the j-th least p at a = 0.05 / (m - j + 1), up to the first that is not below; the interval of a claim is at the a of its
step, or of that first one.

    supported      the interval lies wholly inside
    contradicted   it lies wholly outside: the difference is smaller than the margin, or goes the other way
    undecided      it holds the edge; or a run failed or diverged, and the rest may be the lucky ones; or no spread is known
    not run        runs are left to do
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from recstudy.analysis.cells import gap
from recstudy.analysis.contrasts import Contrast, around, contrast, factors, holm, reach, seeds_to_show
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.registration import POST_HOC, post_hoc
from recstudy.analysis.rows import Row
from recstudy.analysis.spreads import protocol, scale_of, spreads_of
from recstudy.analysis.stats import ALPHA, POWER, Scale, Spread, mean_of, pool
from recstudy.papers import by_name
from recstudy.report.claims import Claim, Claims, Gain, weights

ClaimVerdict = Literal["supported", "contradicted", "undecided", "not run"]
Direction = tuple[tuple[str, float], ...]  # metrics, each with its weight; the first has 1
SETTLED = ("done", "diverged", "failed")


@dataclass(frozen=True)
class Term:
    """What one variant adds to a contrast: `weight` times the mean of its runs' `values`, and the spread of those over seeds.

    A value is the metric, or, where the contrast has it at several depths, their weighted sum in that run: of the same weights.
    """

    variant: int
    weight: float
    of: Direction
    runs: tuple[Row, ...]
    values: tuple[float, ...]
    spread: Spread | None

    def side(self, sign: int) -> float:
        """What it adds to the side of the contrast that has this sign."""
        own = [(name, sign * self.weight * weight) for name, weight in self.of]
        return sum(weight * mean_of([run.number(name) for run in self.runs]) for name, weight in own if weight > 0)


@dataclass(frozen=True)
class Judged:
    """A claim, what each variant adds, and what comes of it. `left`: runs to do; `lost`: why others give no value."""

    claim: Claim
    terms: tuple[Term, ...]
    left: int
    lost: tuple[str, ...]
    found: Contrast | None  # None where a variant has no value
    alpha: float = ALPHA  # of its Holm step
    adjusted: float | None = None
    post_hoc: bool = False  # first stated when some of these runs had finished

    @property
    def room(self) -> float | None:
        """From the estimate to the edge of what is claimed; below 0 outside."""
        value = self.found.value if self.found else None
        if value is None:
            return None
        return value - self.claim.by if self.claim.within is None else self.claim.within - abs(value)

    @property
    def means(self) -> tuple[float, ...]:
        """The metric on both sides of the claim, `than` first; none where a side is a difference itself."""
        if self.found is None or isinstance(self.claim.less, Gain) or isinstance(self.claim.than, Gain):
            return ()
        return tuple(sum(term.side(sign) for term in self.terms) for sign in (1, -1))

    @property
    def edge(self) -> Contrast | None:
        """`room` with its test; None where no spread is known."""
        if self.found is None or self.found.error is None or self.found.df is None or self.room is None:
            return None
        return around(self.room, self.found.error, self.found.df)

    @property
    def p(self) -> float | None:
        """Of this claim alone; None while runs are left or lost."""
        return self.edge.p if self.edge and not self.left and not self.lost else None

    @property
    def interval(self) -> tuple[float, float] | None:
        found = self.found
        if found is None or found.value is None or found.error is None or found.df is None:
            return None
        _, low, high, *_ = around(found.value, found.error, found.df, 1 - self.alpha, found.within)
        return (low, high) if low is not None and high is not None else None

    @property
    def verdict(self) -> ClaimVerdict:
        if self.left:
            return "not run"
        if self.adjusted is None or self.adjusted >= ALPHA or self.room is None:
            return "undecided"
        return "supported" if self.room > 0 else "contradicted"

    @property
    def outcome(self) -> str:
        """The verdict, and what is wrong with a claim that has the direction, as far as the interval tells."""
        small = self.verdict == "contradicted" and self.claim.within is None and self.interval and self.interval[1] > 0
        return ("contradicted: smaller than claimed" if small else self.verdict) + f" ({POST_HOC})" * self.post_hoc

    @property
    def seeds(self) -> int:
        """Of each variant, about."""
        return round(sum(len(term.values) for term in self.terms) / len(self.terms))


def claims_data(records: StudyRecords, part: Claims) -> list[Judged]:
    """Every claim in its order.

    Raises:
        ConfigError: a claim names what the study has not, or what cannot be compared.
    """
    judged = [_judged(records, replace(claim, text=by_name(claim.text))) for claim in part.claims]
    adjusted = holm([1.0 if one.p is None else one.p for one in judged])
    decided = sum(p is not None and p < ALPHA for p in adjusted)
    order = sorted(range(len(judged)), key=lambda at: (judged[at].p is None, judged[at].p))
    return [
        replace(one, alpha=ALPHA / (len(judged) - min(order.index(at), decided)), adjusted=None if one.p is None else p)
        for at, (one, p) in enumerate(zip(judged, adjusted, strict=True))
    ]


def needed(one: Judged, claims: int) -> tuple[int | None, int | None] | None:
    """How many seeds of each variant the claim's margin needs, at least and at most, as far as the spread is known.

    So many settle it 4 times in 5 where the true difference lies a whole margin inside: at twice `by`, or at none for `within`.
    None where it has no margin, or no spread is known; in place of a number where over `MOST_SEEDS` would be needed.
    """
    margin = one.claim.within or one.claim.by
    alone = [contrast([[mean_of(term.values)]], [term.weight], [term.spread]) for term in one.terms if term.values]
    if not margin or one.edge is None or one.found is None or one.found.df is None:
        return None
    error = sum((each.error or 0.0) ** 2 for each in alone) ** 0.5  # of one seed
    pooled = max(term.spread.variants for term in one.terms if term.spread)
    power = POWER if one.claim.within is None else (1 + POWER) / 2  # there are two edges to be inside of
    low, high = (
        seeds_to_show(Contrast(margin, error=error * factor, df=0), 1, pooled, ALPHA / claims, power)
        for factor in factors(one.found.df)
    )
    return None if low is None else low + 1, None if high is None else high + 1


def more(one: Judged, claims: int) -> int | None:
    """How many more seeds of each variant settle an undecided claim 4 times in 5, if estimate and spread stay as they are.

    None where it is settled or cannot be: no spread is known, or over `MOST_SEEDS` would be needed.
    """
    if one.p is None or one.edge is None or one.verdict != "undecided":
        return None
    pooled = max(term.spread.variants for term in one.terms if term.spread)
    return seeds_to_show(one.edge, one.seeds, pooled, ALPHA / claims)


def _judged(records: StudyRecords, claim: Claim) -> Judged:
    stated = weights(claim, records.variants, records.configs)
    terms = tuple(_term(records, at, own) for at, own in stated.items())
    rows = [row for term in terms for row in records.by_variant[term.variant]]
    valued = {run.id for term in terms for run in term.runs}
    lost = [row for row in rows if row.status in SETTLED and row.id not in valued]
    return Judged(
        claim,
        terms,
        left=sum(row.status not in SETTLED for row in rows),
        lost=tuple(f"{row.label}, seed {row.seed}: {gap(row, claim.metric) or 'without a value at that depth'}" for row in lost),
        found=_contrast(terms) if all(term.values for term in terms) else None,
        post_hoc=post_hoc(records, claim, stated),
    )


def _contrast(terms: Sequence[Term]) -> Contrast:
    return contrast([term.values for term in terms], [term.weight for term in terms], [term.spread for term in terms])


def _term(records: StudyRecords, at: int, own: Mapping[str, float]) -> Term:
    first = next(iter(own.values()))
    of = tuple((name, weight / first) for name, weight in own.items())
    runs = _having(records, at, of)
    return Term(at, first, of, tuple(runs), tuple(_value(row, of) for row in runs), _spread(records, at, of))


def _spread(records: StudyRecords, at: int, of: Direction) -> Spread | None:
    """Of one metric the one that tables have; of a sum likewise, from the seeds of all variants of the same data and protocol."""
    if len(of) == 1:
        return spreads_of(records, of[0][0]).get(at)
    alike = [index for index in range(len(records.variants)) if protocol(records, index) == protocol(records, at)]
    scale = Scale(*reach([weight for _, weight in of], [scale_of(name, ()) for name, _ in of]))
    return pool({index: [_value(row, of) for row in _having(records, index, of)] for index in alike}, scale).get(at)


def _having(records: StudyRecords, at: int, of: Direction) -> list[Row]:
    return [row for row in records.by_variant[at] if row.done and all(row.value(name) is not None for name, _ in of)]


def _value(row: Row, of: Direction) -> float:
    return sum(weight * row.number(name) for name, weight in of)
