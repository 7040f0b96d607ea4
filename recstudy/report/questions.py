"""What a study's report asks, as one kind of question: claims, differences from a base and effects of a factorial.

Each part gives rows of `QuestionRow`, whose answers come from `recstudy.evidence`; table, forest, `explain`, findings, CSV read
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from recstudy.errors import ConfigError, choices, nearest
from recstudy.evidence import (
    ALPHA,
    Answer,
    Estimate,
    Fit,
    Kind,
    Question,
    Reason,
    Scale,
    Verdict,
    asked,
    contrast,
    detectable,
    estimable,
    judged,
    mcnemar,
    over_items,
)
from recstudy.lazy import np
from recstudy.papers import by_name
from recstudy.report.caveats import LEAK
from recstudy.report.cells import MOST_RUNS, Cell, cell, gap, item_scores
from recstudy.report.claims import Claim, Claims, Differences, Effects, Gain, QuestionPart, weights, weights_each
from recstudy.report.fits import Fits, fits_of, protocol, scale_of, seeds_of
from recstudy.report.names import axis_title, metric, plain
from recstudy.report.registration import Statement, post_hoc
from recstudy.report.rows import Row
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables.table import best_by
from recstudy.report.targets import Placed, Placement, place

Direction = tuple[tuple[str, float], ...]  # metrics, each with its weight; the first has 1
SETTLED = ("done", "diverged", "failed", "stopped")


@dataclass(frozen=True)
class Term:
    """What one variant adds to a contrast: `weight` times the mean of its runs' `values`.

    A value is the metric, or, where the contrast has it at several depths, their weighted sum in that run: of the same weights.
    """

    variant: int
    label: str
    weight: float
    of: Direction
    runs: tuple[Row, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class PublishedDifference:
    """Of two published numbers, in the metric's own unit: papers print no paired difference."""

    ours: Placed
    theirs: Placed

    @property
    def value(self) -> float:
        """The first minus the second."""
        return round(self.ours.value - self.theirs.value, 9)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the difference is not comparable with ours; empty where it is."""
        return tuple(dict.fromkeys([*self.ours.reasons, *self.theirs.reasons]))


@dataclass(frozen=True)
class QuestionRow:
    """A question as a report asks it, and its answer.

    Args:
        label: the claim's sentence, the variant or the effect.
        contrast: what is compared, in words, with the region that is asked.
        metric: that the contrast is of.
        answer: what is found.
        terms: what each variant adds.
        left: runs to do.
        lost: why each other run gives no value.
        ended: how many of these ended how.
        group: of a difference its base.
        cell: of a difference the variant's own cell, and that of its base.
        refused: why the two are not compared at all.
        published: of a difference the differences of published numbers.
        items: over seeds and test items, where all runs have kept their answers; `over_items_alone` is McNemar's p.
        marks: what a reader must know of the question, such as that it was stated after the runs.
        margin: what is claimed, in words.
    """

    label: str
    contrast: str
    metric: str
    answer: Answer[int]
    terms: tuple[Term, ...]
    left: int = 0
    lost: tuple[str, ...] = ()
    ended: Mapping[str, int] = field(default_factory=dict)
    group: str = ""
    cell: tuple[Cell, Cell] | None = None
    refused: str = ""
    published: tuple[PublishedDifference, ...] = ()
    items: Estimate | None = None
    over_items_alone: float | None = None
    marks: tuple[str, ...] = ()
    margin: str = ""
    apart: bool = False  # a term is a difference itself, so that its sides are no means

    @property
    def verdict(self) -> Verdict:
        return self.answer.verdict

    @property
    def estimate(self) -> Estimate:
        """Of the contrast, at the level that its answer is read at."""
        return self.answer.estimate

    @property
    def sides(self) -> tuple[float, float] | None:
        """The metric on both sides of the contrast; None where a side is a difference itself."""
        if self.apart or not self.terms or not all(term.runs for term in self.terms):
            return None
        means = [
            (term.weight * weight, float(np.mean([run.number(name) for run in term.runs])))
            for term in self.terms
            for name, weight in term.of
        ]
        return sum(weight * own for weight, own in means if weight > 0), sum(-weight * own for weight, own in means if weight < 0)

    @property
    def alone(self) -> bool:
        """Whether it is of one metric of one variant, and of no difference."""
        return len(self.terms) == 1 and len(self.terms[0].of) == 1

    @property
    def run_ids(self) -> tuple[str, ...]:
        return tuple(run.id for term in self.terms for run in term.runs)

    @property
    def detectable(self) -> float | None:
        """The least true difference that a test at its level shows 4 times in 5."""
        found = self.estimate
        return detectable(found.error, found.df, self.answer.alpha) if found.error and found.df else None

    @property
    def better(self) -> bool | None:
        """Whether a significant difference is for the better; None of other answers, and of metrics without a direction."""
        if self.verdict not in (Verdict.HIGHER, Verdict.LOWER) or metric(self.metric).better is None:
            return None
        return (self.verdict is Verdict.HIGHER) == (metric(self.metric).better == "higher")


@dataclass(frozen=True)
class Family:
    """The questions of one part, judged together; `unmatched` published values have no place among them.

    `levels`: of the axes of a factorial.
    """

    rows: tuple[QuestionRow, ...]
    unmatched: int = 0
    levels: Mapping[str, tuple[Any, Any]] | None = None

    @property
    def tested(self) -> int:
        """Questions with a p."""
        return sum(row.answer.p is not None for row in self.rows)


def family(records: StudyRecords, part: QuestionPart) -> Family:
    """Answer what a part asks, once.

    Raises:
        ConfigError: it names what the study has not, or what cannot be compared.
    """

    def answered() -> Family:
        match part:
            case Claims():
                return Family(_judged(records, [_claim(records, claim) for claim in part.claims]))
            case Differences():
                return _differences(records, part)
            case Effects():
                return _effects(records, part)
        raise TypeError(f"{type(part).__name__} asks no question that is known here")

    return records.once(("family", repr(part)), answered)


# --------------------------------------------------------------------------------------------------------------- claims


def _claim(records: StudyRecords, claim: Claim) -> QuestionRow:
    """Ask a claim, or, of each of several variants, the contrast that speaks most against it.

    The claim holds where all of them do (intersection-union, Berger 1982). Inside, its p is the largest of them; outside, its own
    times their number, for it is the least of so many.
    """

    def tuned(fitting: Sequence[int]) -> int:
        best = best_by(records, f"selection_{claim.metric}", fitting)
        return fitting[0] if best is None else best

    def standing(row: QuestionRow) -> float:
        return -inf if row.answer.room is None or not row.estimate.error else row.answer.room / row.estimate.error

    among = list(weights(claim, records.variants, records.configs))  # those, too, among which a setting is tuned
    rows = []
    for stated in weights_each(claim, records.variants, records.configs, tuned):
        terms = _terms(records, stated)
        by = {term.variant: term.weight for term in terms}
        question = Question(by, above=claim.by) if claim.within is None else Question(by, within=claim.within)
        rows.append(_asked(records, by_name(claim.text), claim.contrast, claim.metric, question, terms, among))
    least = min(rows, key=standing)
    if least.answer.p is not None and standing(least) < 0:
        least = replace(least, answer=replace(least.answer, p=min(1.0, least.answer.p * len(rows))))
    apart = not isinstance(claim.less, dict) or isinstance(claim.than, Gain)
    judged_by: list[Statement] = [claim, *(one for one in records.plan.learned.items() if one[0] == claim.metric)]
    marks = (str(Reason.POST_HOC),) if any(post_hoc(records, one, among) for one in judged_by) else ()
    return replace(least, margin=claim.margin, apart=apart, marks=marks)


# ---------------------------------------------------------------------------------------------------------- differences


def _differences(records: StudyRecords, part: Differences) -> Family:
    name = part.metric
    if metric(name).computed:
        raise ConfigError(f"{name} follows from the config, so its differences need no test: show it in a Table")
    bases = _bases(records, part)
    placement = place(records, part.targets, list(dict.fromkeys([*bases, *bases.values()])), [name])
    rows = [_difference(records, name, index, base, placement) for index, base in bases.items()]
    many = len({run_id for row in rows for run_id in row.run_ids}) > MOST_RUNS
    found = _judged(records, rows)
    return Family(found if many else tuple(_with_items(records, row) for row in found), len(placement.unmatched_targets))


def _bases(records: StudyRecords, part: Differences) -> dict[int, int]:
    """Return variant -> its base."""
    chosen = records.chosen(part.where)
    if part.base:
        labels = [variant.label for variant in records.variants]
        label = records.label_of(part.base)
        if label not in labels:
            raise ConfigError(f"no variant {part.base!r}: there are {choices(labels, most=6)}.{nearest(part.base, labels)}")
        base = labels.index(label)
        return {index: base for index in chosen if index != base}
    bases = {index: own for index in chosen if (own := records.variants[index].base) is not None}
    if not bases:
        raise ConfigError(f"differences {part.name!r}: no variant has a base. Name one with base=LABEL, or use leave_one_out.")
    return bases


def _difference(records: StudyRecords, name: str, index: int, base: int, placement: Placement) -> QuestionRow:
    ours, theirs = records.variants[index].label, records.variants[base].label
    terms = _terms(records, {index: {name: 1.0}, base: {name: -1.0}})
    question = Question({index: 1.0, base: -1.0}, other_than=0.0, kind=Kind.DIFFERENCE)
    row = _asked(records, ours, f"{ours} minus {theirs}", name, question, terms)
    if refused := _refused(records, index, base):
        reasons = (*row.answer.reasons, refused)
        answer = replace(row.answer, verdict=Verdict.NOT_COMPARABLE, p=None, estimate=Estimate(None), reasons=reasons)
        row = replace(row, answer=answer, terms=(), refused=refused)
    cells = cell(records, [index], name, placement), cell(records, [base], name, placement)
    found = [  # of every two published numbers from one table and data set
        PublishedDifference(one, other)
        for one in placement.placed.get((index, name), ())
        for other in placement.placed.get((base, name), ())
        if one.target.table == other.target.table and one.target.where.get("data.name") == other.target.where.get("data.name")
    ]
    least = min((len(difference.reasons) for difference in found), default=0)
    published = tuple(difference for difference in found if len(difference.reasons) == least)
    return replace(row, group=theirs, cell=cells, published=published)


def _refused(records: StudyRecords, index: int, base: int) -> str:
    """Say why the two are not compared; empty where they are."""
    if records.leaks(index) or records.leaks(base):
        return f"not compared: {'' if records.leaks(index) else 'the base '}{LEAK}"
    if records.variants[index].data != records.variants[base].data:
        return "not compared: other data"
    same = {run.id for run in records.by_variant[index]} & {run.id for run in records.by_variant[base]}
    return "the base itself: it changes nothing" if same else ""


def _with_items(records: StudyRecords, row: QuestionRow) -> QuestionRow:
    """Add the tests over the test items, if they are the same for all runs."""
    known = not row.refused and row.estimate.error is not None
    found = item_scores(records, row.run_ids, row.metric) if known else None
    if found is None:
        return row
    n = len(row.terms[0].runs)
    ours, theirs = found.each[:n], found.each[n:]
    wide = over_items(row.estimate, [ours, theirs], [1.0, -1.0], found.clusters)
    return replace(row, items=wide, over_items_alone=mcnemar(ours, theirs, found.clusters))


# -------------------------------------------------------------------------------------------------------------- effects


def _effects(records: StudyRecords, part: Effects) -> Family:
    cells = records.chosen(part.where)
    if leaky := [records.variants[index].label for index in cells if records.leaks(index)]:
        raise ConfigError(f"effects {part.name!r}: {', '.join(leaky)} leaks, so that no effect means anything")
    levels: dict[str, tuple[Any, Any]] = {}  # of the axes that vary among these cells, the first one first
    for axis in records.plan.axes:
        found = list(dict.fromkeys(records.level(index, axis) for index in cells))
        if len(found) > 2:
            have = f"{axis!r} has {', '.join(map(plain, found))}"
            raise ConfigError(f"effects {part.name!r} needs two levels an axis, but {have}; narrow it by where")
        if len(found) == 2:
            levels[axis] = (found[0], found[1])
    if not levels:
        raise ConfigError(f"effects {part.name!r}: no axis has two levels here")
    columns = {
        axis: np.array([1 if records.level(index, axis) == high else -1 for index in cells]) for axis, (_, high) in levels.items()
    }
    effects = estimable(columns)
    if effects is None:
        raise ConfigError(f"effects {part.name!r}: the cells are not a whole two-level factorial")
    rows = []
    for effect in effects:
        by = dict(zip(cells, effect.weights, strict=True))
        question = Question(by, other_than=0.0, kind=Kind.EFFECT)
        terms = _terms(records, {index: {part.metric: weight} for index, weight in by.items()})
        rows.append(_asked(records, crossed(effect.axes), "", part.metric, question, terms))
    return Family(_judged(records, rows), levels=levels)


def crossed(axes: Sequence[str]) -> str:
    """Return what an effect is called."""
    return " \N{MULTIPLICATION SIGN} ".join(map(axis_title, axes))


# ---------------------------------------------------------------------------------------------------------- all of them


def _terms(records: StudyRecords, stated: Mapping[int, Mapping[str, float]]) -> tuple[Term, ...]:
    terms = []
    for index, own in stated.items():
        first = next(iter(own.values()))
        of = tuple((name, weight / first) for name, weight in own.items())
        runs = _having(records, index, of)
        values = tuple(_value(run, of) for run in runs)
        terms.append(Term(index, records.variants[index].label, first, of, tuple(runs), values))
    return tuple(terms)


def _asked(
    records: StudyRecords,
    label: str,
    words: str,
    name: str,
    question: Question[int],
    terms: tuple[Term, ...],
    among: Sequence[int] = (),
) -> QuestionRow:
    """Answer the question alone; a variant counts with all of its runs that have a value.

    `among`: variants whose runs it waits for, too.
    """
    mine = [row for term in terms for row in records.by_variant[term.variant]]
    rows = [row for at in among for row in records.by_variant[at]] or mine
    valued = {run.id for term in terms for run in term.runs}
    lost = [row for row in mine if row.status in SETTLED and row.id not in valued]
    left = sum(row.status not in SETTLED for row in rows)
    fits = [_fit(records, term) for term in terms]
    means = [(term.weight, fit.weighted(key) if fit else None) for term, (fit, key) in zip(terms, fits, strict=True)]
    wide = any(fit.stands_apart(key) for fit, key in fits if fit)
    runs = [run.id for term in terms for run in term.runs]
    answer = asked(question, contrast(means), left, len(lost), runs)
    answer = replace(answer, reasons=(*answer.reasons, *[Reason.WIDE] * wide))
    why = tuple(f"{row.label}, seed {row.seed}: {gap(row, name) or 'without a value at that depth'}" for row in lost)
    ended = Counter(row.status for row in lost)
    return QuestionRow(label, words, name, answer, terms, left, why, ended)


def _judged(records: StudyRecords, rows: Sequence[QuestionRow]) -> tuple[QuestionRow, ...]:
    """Add the verdicts of all of them together, at the level of this look."""
    levels = [records.looks.level(row.estimate.n) if row.estimate.n else ALPHA for row in rows]
    pooled = max((len(fit.own) for row in rows for term in row.terms for fit, _ in [_fit(records, term)] if fit), default=2)
    answers = judged([row.answer for row in rows], levels, max(1, pooled))
    return tuple(replace(row, answer=answer) for row, answer in zip(rows, answers, strict=True))


def _fit(records: StudyRecords, term: Term) -> tuple[Fit[int] | None, int]:
    """Return the fit that a term goes by: of one metric the one that tables have; of a sum likewise, over the same variants."""
    of = term.of
    fits = fits_of(records, of[0][0]) if len(of) == 1 else records.once(("direction", of), lambda: _direction(records, of))
    return fits.get(term.variant, (None, term.variant))


def _direction(records: StudyRecords, of: Direction) -> Fits:
    ends = [sorted((weight * scale.low, weight * scale.high)) for name, weight in of for scale in [scale_of(name, ())]]
    scale = Scale(sum(low for low, _ in ends), sum(high for _, high in ends))
    groups: dict[object, dict[int, list[float]]] = {}
    for index in range(len(records.variants)):
        if runs := _having(records, index, of):
            groups.setdefault(protocol(records, index), {})[index] = [_value(run, of) for run in runs]
    fits = [(scores, Fit(scores, scale)) for scores in groups.values()]
    return {index: (fit, index) for scores, fit in fits for index in scores}


def _having(records: StudyRecords, index: int, of: Direction) -> list[Row]:
    if len(of) == 1:
        return seeds_of(records, index, of[0][0])
    return [row for row in records.by_variant[index] if row.done and all(row.value(name) is not None for name, _ in of)]


def _value(row: Row, of: Direction) -> float:
    return sum(weight * row.number(name) for name, weight in of)
