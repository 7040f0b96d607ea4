"""The questions of a report's parts: claims, differences from a base and effects of a factorial, each with
its estimate.

`ask` tests each question alone. `family.py` adds the verdicts of the whole study.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

from recstudy.errors import ConfigError, choices, nearest
from recstudy.evidence import (
    Answer,
    Estimate,
    Fit,
    Kind,
    Question,
    Reason,
    Scale,
    Verdict,
    Why,
    answer,
    contrast,
    detectable,
    estimable,
    mcnemar,
    over_items,
)
from recstudy.lazy import np
from recstudy.papers import by_name
from recstudy.records.runs import Row
from recstudy.report.caveats import LEAK
from recstudy.report.cells import missing_reason
from recstudy.report.claims import (
    METRIC,
    Claim,
    Claims,
    Differences,
    Effects,
    Interaction,
    QuestionPart,
    Weights,
    weights,
    weights_each,
)
from recstudy.report.fits import MAX_RUNS, Fits, fits_of, item_scores, protocol, scale_of, seeds_of
from recstudy.report.names import axis_title, level_of, level_words, metric, value_text
from recstudy.report.registration import PAIRED, post_hoc
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables.table import best_by
from recstudy.report.targets import MatchedTarget, Placement, match_targets, unmatched_notes

Direction = tuple[tuple[str, float], ...]  # metrics, each with its weight; the first has 1
SETTLED = ("done", "diverged", "failed", "stopped")


@dataclass(frozen=True)
class Term:
    """What one variant adds to a contrast: `weight` times the mean of its runs' `values`.

    A value is the metric, or, where the contrast has it at several depths, their weighted sum in that run: of
    the same weights. `fit` is that of the values, in which `key` stands for the variant.
    """

    variant: int
    label: str
    weight: float
    of: Direction
    runs: tuple[Row, ...]
    values: tuple[float, ...]
    fit: Fit[int] | None
    key: int


@dataclass(frozen=True)
class PublishedDifference:
    """Of two published numbers, in the metric's own unit: papers print no paired difference."""

    ours: MatchedTarget
    theirs: MatchedTarget

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
        label: The claim's sentence, the variant or the effect.
        contrast: What is compared, with the region that is asked.
        metric: Of the contrast.
        answer: To the question.
        terms: What each variant adds to the contrast.
        left: The number of runs that have not ended.
        lost_runs: Runs that ended without a value.
        group: Of a difference its base.
        published: Of a difference the differences of published numbers.
        items: The estimate over seeds and test items, if all runs have kept their answers.
        over_items_alone: McNemar's p.
        marks: What a reader must know of the question, such as that it was stated after the runs.
        words: Of a claim, the contrast without settings that all variants have.
        side_words: Of a claim with two sides, the metric and the settings of each in words.
        margin: What is claimed, in words.
        apart: Whether a term is a difference itself, so that the sides of the contrast are no means.
    """

    label: str
    contrast: str
    metric: str
    answer: Answer[int]
    terms: tuple[Term, ...]
    left: int = 0
    lost_runs: tuple[Row, ...] = ()
    group: str = ""
    published: tuple[PublishedDifference, ...] = ()
    items: Estimate | None = None
    over_items_alone: float | None = None
    marks: tuple[str, ...] = ()
    words: str = ""
    side_words: tuple[tuple[str, str], ...] = ()
    margin: str = ""
    apart: bool = False

    @property
    def verdict(self) -> Verdict:
        return self.answer.verdict

    @property
    def estimate(self) -> Estimate:
        """The contrast with its 95 % interval."""
        return self.answer.estimate

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the contrast."""
        return self.estimate.interval

    @property
    def lost(self) -> tuple[str, ...]:
        """Why each run that ended gives no value."""
        reasons = (
            missing_reason(run, self.metric) or "without a value at that depth" for run in self.lost_runs
        )
        return tuple(
            f"{run.label}, seed {run.seed}: {reason}"
            for run, reason in zip(self.lost_runs, reasons, strict=True)
        )

    @property
    def sides(self) -> tuple[float, float] | None:
        """The metric on both sides of the contrast; None where a side is a difference itself."""
        if self.apart or not self.terms or not all(term.runs for term in self.terms):
            return None
        sides = [0.0, 0.0]
        for term in self.terms:
            for name, of in term.of:
                mean = float(np.mean([run.number(name) for run in term.runs]))
                sides[term.weight * of < 0] += abs(term.weight * of) * mean
        return sides[0], sides[1]

    @property
    def variants(self) -> tuple[int, ...]:
        """The variants of the contrast."""
        return tuple(term.variant for term in self.terms)

    @property
    def run_ids(self) -> tuple[str, ...]:
        return tuple(run.id for term in self.terms for run in term.runs)

    @property
    def detectable(self) -> float | None:
        """The least true difference that a test at its level shows 4 times in 5."""
        estimate = self.estimate
        return (
            detectable(estimate.error, estimate.df, self.answer.alpha)
            if estimate.error and estimate.df
            else None
        )

    @property
    def better(self) -> bool | None:
        """Whether a significant difference is for the better; None of other answers, and of metrics without a
        direction.
        """
        if self.verdict not in (Verdict.HIGHER, Verdict.LOWER) or metric(self.metric).better is None:
            return None
        return (self.verdict is Verdict.HIGHER) == (metric(self.metric).better == "higher")


@dataclass(frozen=True)
class Family:
    """The questions of one part, with notes on `unmatched` published values.

    `levels`: of the axes of a factorial. `adjusted_for`: the number of questions that p values are adjusted
    for.
    """

    rows: tuple[QuestionRow, ...]
    unmatched: Sequence[str] = ()
    levels: Mapping[str, tuple[Any, Any]] | None = None
    adjusted_for: int = 0


def ask(records: StudyRecords, part: QuestionPart) -> Family:
    """Return a part's questions, each tested alone.

    Raises:
        ConfigError: The part names what the study does not have, or cannot be compared.
    """
    match part:
        case Claims():
            return Family(tuple(_claim(records, claim) for claim in part.claims))
        case Differences():
            return _differences(records, part)
        case Effects():
            return _effects(records, part)
    raise TypeError(f"{type(part).__name__} is no part with questions")


# --------------------------------------------------------------------------------------------------------------- claims


def _claim(records: StudyRecords, claim: Claim) -> QuestionRow:
    """Ask a claim, or, of each of several variants, the contrast that speaks most against it.

    The claim holds if all of them do (intersection-union, Berger 1982). Inside, its p is the largest of them;
    outside, its own times their number, for it is the least of so many.
    """

    def tuned(fitting: Sequence[int]) -> int:
        best = best_by(records, f"selection_{claim.metric}", fitting)
        return fitting[0] if best is None else best

    def room(row: QuestionRow) -> float:
        return (
            -inf
            if row.answer.room is None or not row.estimate.error
            else row.answer.room / row.estimate.error
        )

    # with the variants among which a setting is tuned
    among = list(weights(claim, records.variants, records.configs))
    rows = []
    question = (
        partial(Question, above=claim.margin)
        if claim.within is None
        else partial(Question, within=claim.within)
    )
    for stated in weights_each(claim, records.variants, records.configs, tuned):
        rows.append(_ask(records, by_name(claim.text), claim.contrast, claim.metric, question, stated, among))
    least = min(rows, key=room)
    if least.answer.p is not None and room(least) < 0:
        least = replace(least, answer=replace(least.answer, p=min(1.0, least.answer.p * len(rows))))
    apart = not isinstance(claim.lower, dict) or isinstance(claim.higher, Interaction)
    thresholds = [
        threshold for threshold in records.plan.success_threshold.items() if threshold[0] == claim.metric
    ]
    late = post_hoc(records, claim, among) or any(
        post_hoc(records, threshold, among) for threshold in thresholds
    )
    marks = (*least.marks, *([str(Reason.POST_HOC)] if late else []))
    return replace(
        least,
        words=claim.words(partial(_setting_words, records)),
        side_words=_side_words(records, claim, least),
        margin=claim.margin_words,
        apart=apart,
        marks=marks,
    )


def _side_words(records: StudyRecords, claim: Claim, row: QuestionRow) -> tuple[tuple[str, str], ...]:
    """Return metric and settings of each side; of a claim on each of several variants, the variant's label."""
    sides = claim.side_words(partial(_setting_words, records))
    if claim.each and len(row.terms) == len(sides):
        return tuple((name, term.label) for (name, _), term in zip(sides, row.terms, strict=True))
    return sides


def _setting_words(records: StudyRecords, name: str, level: Any) -> str:
    """Return a setting of a claim in words; nothing if all variants have it."""
    if name == METRIC:
        return metric(level).title
    levels = {
        value_text(level_of(*variant, name))
        for variant in zip(records.variants, records.configs, strict=True)
    }
    if isinstance(level, list | tuple):
        return f"{axis_title(name)} {' or '.join(map(value_text, level))}"
    return "" if levels == {value_text(level)} else level_words(name, level)


# ----------------------------------------------------------------------------------------------------------
# differences


def _differences(records: StudyRecords, part: Differences) -> Family:
    name = part.metric
    if metric(name).computed:
        raise ConfigError(
            f"{name} follows from the config, so its differences need no test: show it in a Table"
        )
    bases = _bases(records, part)
    placement = match_targets(records, part.targets, list(dict.fromkeys([*bases, *bases.values()])), [name])
    rows = [_difference(records, name, index, base, placement) for index, base in bases.items()]
    if len({run_id for row in rows for run_id in row.run_ids}) <= MAX_RUNS:
        rows = [_with_items(records, row) for row in rows]
    return Family(tuple(rows), unmatched_notes(placement))


def _bases(records: StudyRecords, part: Differences) -> dict[int, int]:
    """Return variant -> its base."""
    chosen = records.chosen(part.where)
    if part.base:
        labels = [variant.label for variant in records.variants]
        label = records.label_of(part.base)
        if label not in labels:
            raise ConfigError(
                f"no variant {part.base!r}: there are {choices(labels, limit=6)}.{nearest(part.base, labels)}"
            )
        base = labels.index(label)
        return {index: base for index in chosen if index != base}
    variants = ((index, records.variants[index].base) for index in chosen)
    bases = {index: reference for index, reference in variants if reference is not None}
    if not bases:
        raise ConfigError(
            f"differences {part.name!r}: no variant has a base. Name one with base=LABEL, or use"
            " leave_one_out."
        )
    return bases


def _difference(records: StudyRecords, name: str, index: int, base: int, placement: Placement) -> QuestionRow:
    ours, theirs = records.variants[index].label, records.variants[base].label
    question = partial(Question, other_than=0.0, kind=Kind.DIFFERENCE)
    row = _ask(
        records, ours, f"{ours} minus {theirs}", name, question, {index: {name: 1.0}, base: {name: -1.0}}
    )
    if refused := _refused(records, index, base):
        reasons = (*row.answer.reasons, refused)
        refusal = replace(
            row.answer, verdict=Verdict.NOT_COMPARABLE, p=None, estimate=Estimate(None), reasons=reasons
        )
        row = replace(row, answer=refusal, terms=())
    differences = [
        PublishedDifference(first, second)
        for first in placement.matches.get((index, name), ())
        for second in placement.matches.get((base, name), ())
        if first.target.table == second.target.table
    ]
    least = min((len(difference.reasons) for difference in differences), default=0)
    published = tuple(difference for difference in differences if len(difference.reasons) == least)
    return replace(row, group=theirs, published=published)


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
    runs = [run for term in row.terms for run in term.runs]
    items, _ = item_scores(records, runs, row.metric) if row.estimate.error is not None else (None, ())
    if items is None:
        return row
    n = len(row.terms[0].runs)
    ours, theirs = items.scores[:n], items.scores[n:]
    wide = over_items(row.estimate, [ours, theirs], [1.0, -1.0], items.clusters)
    return replace(row, items=wide, over_items_alone=mcnemar(ours, theirs, items.clusters))


# -------------------------------------------------------------------------------------------------------------- effects


def _effects(records: StudyRecords, part: Effects) -> Family:
    cells = records.chosen(part.where)
    if leaky := [records.variants[index].label for index in cells if records.leaks(index)]:
        raise ConfigError(
            f"effects {part.name!r}: {', '.join(leaky)} leaks, so that no effect means anything"
        )
    levels: dict[str, tuple[Any, Any]] = {}  # of the axes that vary among these cells, the first one first
    for axis in records.plan.axes:
        axis_levels = list(dict.fromkeys(records.level(index, axis) for index in cells))
        if len(axis_levels) > 2:
            have = f"{axis!r} has {', '.join(map(value_text, axis_levels))}"
            raise ConfigError(
                f"effects {part.name!r} needs two levels an axis, but {have}; narrow it by where"
            )
        if len(axis_levels) == 2:
            levels[axis] = (axis_levels[0], axis_levels[1])
    if not levels:
        raise ConfigError(f"effects {part.name!r}: no axis has two levels here")
    columns = {
        axis: np.array([1 if records.level(index, axis) == high else -1 for index in cells])
        for axis, (_, high) in levels.items()
    }
    effects = estimable(columns)
    if effects is None:
        raise ConfigError(f"effects {part.name!r}: the cells are not a whole two-level factorial")
    rows = []
    for effect in effects:
        label = " \N{MULTIPLICATION SIGN} ".join(map(axis_title, effect.axes))
        stated = {index: {part.metric: weight} for index, weight in zip(cells, effect.weights, strict=True)}
        rows.append(
            _ask(records, label, "", part.metric, partial(Question, other_than=0.0, kind=Kind.EFFECT), stated)
        )
    return Family(tuple(rows), levels=levels)


# ----------------------------------------------------------------------------------------------------------
# all of them


def _ask(
    records: StudyRecords,
    label: str,
    contrast_words: str,
    name: str,
    make_question: Callable[[dict[int, float]], Question[int]],
    stated: Weights,
    among: Sequence[int] = (),
) -> QuestionRow:
    """Answer a question alone; a variant counts with all of its runs that have a value.

    `among`: variants whose runs it waits for, too.
    """
    terms = tuple(_term(records, index, weights) for index, weights in stated.items())
    planned = [row for term in terms for row in records.by_variant[term.variant]]
    runs = [run.id for term in terms for run in term.runs]
    lost = tuple(row for row in planned if row.status in SETTLED and row.id not in runs)
    waits = [row for index in among for row in records.by_variant[index]] or planned
    left = sum(row.status not in SETTLED for row in waits)
    question = make_question({term.variant: term.weight for term in terms})
    estimate, edge = _contrast(terms), _contrast(terms, question.within) if question.within else None
    is_paired = records.plan.paired and len(terms) > 1 and estimate.why in (None, Why.NO_SPREAD)
    if is_paired:
        estimate, edge = _paired_contrast(terms), None
    tested = answer(question, estimate, left, len(lost), runs, edge)
    wide = any(term.fit.stands_apart(term.key) for term in terms if term.fit)
    tested = replace(tested, reasons=(*tested.reasons, *[Reason.WIDE] * wide))
    marks = (f"{PAIRED}, {Reason.POST_HOC}",) if is_paired and post_hoc(records, PAIRED) else ()
    return QuestionRow(label, contrast_words, name, tested, terms, left, lost, marks=marks)


def _contrast(terms: Sequence[Term], margin: float = 0.0) -> Estimate:
    return contrast(
        [(term.weight, term.fit.weighted(term.key, margin) if term.fit else None) for term in terms]
    )


def _paired_contrast(terms: Sequence[Term]) -> Estimate:
    """Return the mean of the contrast within each seed that all variants have, with its t interval."""
    values = [{run.seed: value for run, value in zip(term.runs, term.values, strict=True)} for term in terms]
    seeds = set(values[0]).intersection(*values[1:])
    differences = [
        sum(term.weight * of_seed[seed] for term, of_seed in zip(terms, values, strict=True))
        for seed in sorted(seeds)
    ]
    return Fit({0: differences}).estimate(0)


def _term(records: StudyRecords, index: int, stated: Mapping[str, float]) -> Term:
    """Return a variant's term, with the fit of its metric, or of a sum of metrics over the same variants."""
    first = next(iter(stated.values()))
    of = tuple((name, weight / first) for name, weight in stated.items())
    fits = (
        fits_of(records, of[0][0])
        if len(of) == 1
        else records.compute_once(("direction", of), lambda: _sum_fits(records, of))
    )
    runs = _valued_runs(records, index, of)
    values = tuple(_value(run, of) for run in runs)
    return Term(
        index, records.variants[index].label, first, of, tuple(runs), values, *fits.get(index, (None, index))
    )


def _sum_fits(records: StudyRecords, of: Direction) -> Fits:
    low = high = 0.0
    for name, weight in of:
        scale = scale_of(name, ())
        ends = sorted((weight * scale.low, weight * scale.high))
        low, high = low + ends[0], high + ends[1]
    groups: dict[object, dict[int, list[float]]] = {}
    for index in range(len(records.variants)):
        if runs := _valued_runs(records, index, of):
            groups.setdefault(protocol(records, index), {})[index] = [_value(run, of) for run in runs]
    fits = [(scores, Fit(scores, Scale(low, high))) for scores in groups.values()]
    return {index: (fit, index) for scores, fit in fits for index in scores}


def _valued_runs(records: StudyRecords, index: int, of: Direction) -> list[Row]:
    if len(of) == 1:
        return seeds_of(records, index, of[0][0])
    return [
        row
        for row in records.by_variant[index]
        if row.done and all(row.value(name) is not None for name, _ in of)
    ]


def _value(row: Row, of: Direction) -> float:
    return sum(weight * row.number(name) for name, weight in of)
