"""The questions of a report's parts (claims, differences from a base, effects of a factorial) with estimates.

`ask` tests each question alone. `family.py` then adjusts the verdicts for all questions of the study.
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
from recstudy.report.registration import marks_of, post_hoc
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables.table import best_by
from recstudy.report.targets import MatchedTarget, Placement, match_targets, unmatched_notes

Direction = tuple[tuple[str, float], ...]  # metrics, each with its weight; the first weight is 1
SETTLED = ("done", "diverged", "failed", "stopped")


@dataclass(frozen=True)
class Term:
    """A variant's term in a contrast: `weight` times the mean of its runs' `values`.

    Args:
        variant: The index of the variant.
        label: Its label.
        weight: Its weight in the contrast.
        direction: The metrics whose weighted sum is a run's value. There are several if the contrast compares
            the metric at several depths of the same weights.
        runs: The runs with a value.
        values: A value per run.
        fit: The fit of the values; None if there are none.
        key: The variant's key in the fit.
    """

    variant: int
    label: str
    weight: float
    direction: Direction
    runs: tuple[Row, ...]
    values: tuple[float, ...]
    fit: Fit[int] | None
    key: int


@dataclass(frozen=True)
class PublishedDifference:
    """The difference of two published numbers. Papers print no paired difference."""

    ours: MatchedTarget
    theirs: MatchedTarget

    @property
    def value(self) -> float:
        """The first minus the second."""
        return round(self.ours.value - self.theirs.value, 9)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the difference is not comparable with ours; empty if it is."""
        return tuple(dict.fromkeys([*self.ours.reasons, *self.theirs.reasons]))


@dataclass(frozen=True)
class QuestionRow:
    """A question of a report and its answer.

    Args:
        label: The claim's sentence, the variant or the effect.
        contrast: The comparison and the tested range, in words.
        metric: The metric of the contrast.
        answer: The answer to the question.
        terms: The term of each variant in the contrast.
        left: The number of unfinished runs.
        lost_runs: Runs that ended without a value.
        group: The base of a difference.
        published: The differences of published numbers that belong to a difference.
        items: The estimate over seeds and test items, if all runs have saved their answers.
        over_items_alone: The p value of McNemar's test.
        marks: Notes on the question, for example that it was stated after the runs.
        words: The contrast of a claim without the settings that all variants have.
        side_words: The metric and the settings of each side of a claim, in words.
        margin: The claimed margin in words.
        has_difference_terms: Whether a side of the contrast is a difference itself and thus not a mean.
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
    has_difference_terms: bool = False

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
    def loss_reasons(self) -> tuple[str, ...]:
        """Why each of the lost runs has no value."""
        reasons = (
            missing_reason(run, self.metric) or "without a value at that depth" for run in self.lost_runs
        )
        return tuple(
            f"{run.label}, seed {run.seed}: {reason}"
            for run, reason in zip(self.lost_runs, reasons, strict=True)
        )

    @property
    def sides(self) -> tuple[float, float] | None:
        """The metric on both sides of the contrast; None if a side is a difference itself."""
        if self.has_difference_terms or not self.terms or not all(term.runs for term in self.terms):
            return None
        sides = [0.0, 0.0]
        for term in self.terms:
            for name, metric_weight in term.direction:
                weight = term.weight * metric_weight
                mean = float(np.mean([run.number(name) for run in term.runs]))
                is_negative = weight < 0
                sides[is_negative] += abs(weight) * mean
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
        """The smallest true difference that the test detects with a power of 80 %."""
        estimate = self.estimate
        return (
            detectable(estimate.error, estimate.df, self.answer.alpha)
            if estimate.error and estimate.df
            else None
        )

    @property
    def better(self) -> bool | None:
        """Whether a significant difference is an improvement.

        None if the difference is not significant or the metric has no better direction.
        """
        direction = metric(self.metric).better
        if self.verdict not in (Verdict.HIGHER, Verdict.LOWER) or direction is None:
            return None
        return (self.verdict is Verdict.HIGHER) == (direction == "higher")


@dataclass(frozen=True)
class Family:
    """The questions of one part.

    Args:
        rows: The questions with their answers.
        unmatched: Notes on published values that belong to no variant.
        levels: Axis of a factorial -> its two levels.
        adjusted_for: The number of questions for which p values are adjusted.
    """

    rows: tuple[QuestionRow, ...]
    unmatched: Sequence[str] = ()
    levels: Mapping[str, tuple[Any, Any]] | None = None
    adjusted_for: int = 0


def ask(records: StudyRecords, part: QuestionPart) -> Family:
    """Return a part's questions, each tested alone.

    Raises:
        ConfigError: The part names an unknown axis, variant or metric, or its variants cannot be compared.
    """
    match part:
        case Claims():
            return Family(tuple(_claim(records, claim) for claim in part.claims))
        case Differences():
            return _differences(records, part)
        case Effects():
            return _effects(records, part)
    raise TypeError(f"{type(part).__name__} is no part with questions")


# --- claims


def _claim(records: StudyRecords, claim: Claim) -> QuestionRow:
    """Ask a claim. If it has several contrasts, return the contrast with the most evidence against it.

    A claim on each of several variants is supported only if all of its contrasts are (intersection-union
    test, Berger 1982).
    """

    def tuned(matching_variants: Sequence[int]) -> int:
        best = best_by(records, f"selection_{claim.metric}", matching_variants)
        return matching_variants[0] if best is None else best

    def room(row: QuestionRow) -> float:
        """Return the distance to the edge of the claimed range, in standard errors."""
        if row.answer.room is None or not row.estimate.error:
            return -inf
        return row.answer.room / row.estimate.error

    # The claim waits for all variants among which a setting is tuned, not only for the chosen one.
    waiting_variants = list(weights(claim, records.variants, records.configs))
    rows = []
    question = (
        partial(Question, lower_bound=claim.margin)
        if claim.within is None
        else partial(Question, half_width=claim.within)
    )
    for term_weights in weights_each(claim, records.variants, records.configs, tuned):
        rows.append(
            _ask(
                records,
                by_name(claim.text),
                claim.contrast,
                claim.metric,
                question,
                term_weights,
                waiting_variants,
            )
        )
    weakest_row = min(rows, key=room)
    # A supporting p value is the largest of the contrasts and needs no correction. The smallest p value
    # against the claim is selected among all contrasts, hence the Bonferroni factor.
    if weakest_row.answer.p is not None and room(weakest_row) < 0:
        weakest_row = replace(
            weakest_row, answer=replace(weakest_row.answer, p=min(1.0, weakest_row.answer.p * len(rows)))
        )
    has_difference_terms = not isinstance(claim.lower, dict) or isinstance(claim.higher, Interaction)
    late = [str(Reason.POST_HOC)] * post_hoc(records, claim, waiting_variants)
    marks = tuple(dict.fromkeys([*late, *weakest_row.marks]))
    return replace(
        weakest_row,
        words=claim.words(partial(_setting_words, records)),
        side_words=_side_words(records, claim, weakest_row),
        margin=claim.margin_words,
        has_difference_terms=has_difference_terms,
        marks=marks,
    )


def _side_words(records: StudyRecords, claim: Claim, row: QuestionRow) -> tuple[tuple[str, str], ...]:
    """Return the metric and the settings of each side; if the claim is on each variant, their labels."""
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


# --- differences


def _differences(records: StudyRecords, part: Differences) -> Family:
    name = part.metric
    if metric(name).computed:
        raise ConfigError(
            f"{name} follows from the config, so its differences need no test: show it in a Table"
        )
    bases = _bases(records, part)
    placement = match_targets(records, part.targets, list(dict.fromkeys([*bases, *bases.values()])), [name])
    rows = [_difference(records, name, index, base, placement) for index, base in bases.items()]
    # Reading the answers of 100 runs takes 2 s, so larger parts have no tests over items.
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
        # Published differences are taken only within one table of a paper.
        if first.target.table == second.target.table
    ]
    fewest_reasons = min((len(difference.reasons) for difference in differences), default=0)
    published = tuple(difference for difference in differences if len(difference.reasons) == fewest_reasons)
    return replace(row, group=theirs, published=published)


def _refused(records: StudyRecords, index: int, base: int) -> str:
    """Return why the two variants are not compared; empty if they are."""
    if records.leaks(index) or records.leaks(base):
        return f"not compared: {'' if records.leaks(index) else 'the base '}{LEAK}"
    if records.variants[index].data != records.variants[base].data:
        return "not compared: the data sets differ"
    shared_runs = {run.id for run in records.by_variant[index]} & {run.id for run in records.by_variant[base]}
    return "the base itself: it changes nothing" if shared_runs else ""


def _with_items(records: StudyRecords, row: QuestionRow) -> QuestionRow:
    """Add the tests over test items, if all runs have the same items."""
    runs = [run for term in row.terms for run in term.runs]
    items, _ = item_scores(records, runs, row.metric) if row.estimate.error is not None else (None, ())
    if items is None:
        return row
    n = len(row.terms[0].runs)
    ours, theirs = items.scores[:n], items.scores[n:]
    wide = over_items(row.estimate, [ours, theirs], [1.0, -1.0], items.clusters)
    return replace(row, items=wide, over_items_alone=mcnemar(ours, theirs, items.clusters))


# --- effects


def _effects(records: StudyRecords, part: Effects) -> Family:
    cells = records.chosen(part.where)
    if leaky := [records.variants[index].label for index in cells if records.leaks(index)]:
        raise ConfigError(
            f"effects {part.name!r}: {', '.join(leaky)} leaks the answer, so that effects are meaningless"
        )
    levels: dict[str, tuple[Any, Any]] = {}  # of the axes that vary between these cells
    for axis in records.plan.axes:
        axis_levels = list(dict.fromkeys(records.level(index, axis) for index in cells))
        if len(axis_levels) > 2:
            have = f"{axis!r} has {', '.join(map(value_text, axis_levels))}"
            raise ConfigError(
                f"effects {part.name!r} needs two levels per axis, but {have}. Select two levels with where."
            )
        if len(axis_levels) == 2:
            levels[axis] = (axis_levels[0], axis_levels[1])
    if not levels:
        raise ConfigError(f"effects {part.name!r}: no axis has two levels among its variants")
    columns = {
        axis: np.array([1 if records.level(index, axis) == high else -1 for index in cells])
        for axis, (_, high) in levels.items()
    }
    effects = estimable(columns)
    if effects is None:
        raise ConfigError(f"effects {part.name!r}: the variants are not a complete two-level factorial")
    rows = []
    for effect in effects:
        label = " \N{MULTIPLICATION SIGN} ".join(map(axis_title, effect.axes))
        term_weights = {
            index: {part.metric: weight} for index, weight in zip(cells, effect.weights, strict=True)
        }
        rows.append(
            _ask(
                records,
                label,
                "",
                part.metric,
                partial(Question, other_than=0.0, kind=Kind.EFFECT),
                term_weights,
            )
        )
    return Family(tuple(rows), levels=levels)


# --- all questions


def _ask(
    records: StudyRecords,
    label: str,
    contrast_words: str,
    name: str,
    make_question: Callable[[dict[int, float]], Question[int]],
    term_weights: Weights,
    waiting_variants: Sequence[int] = (),
) -> QuestionRow:
    """Answer a question alone, with all runs of its variants that have a value.

    Args:
        records: The study's records.
        label: The claim's sentence, the variant or the effect.
        contrast_words: The comparison in words.
        name: The metric.
        make_question: Returns the question from variant -> weight.
        term_weights: Variant -> metric -> weight.
        waiting_variants: The variants for whose runs the answer waits; by default those of the contrast.
    """
    terms = tuple(_term(records, index, weights) for index, weights in term_weights.items())
    planned = [row for term in terms for row in records.by_variant[term.variant]]
    runs = [run.id for term in terms for run in term.runs]
    lost_rows = tuple(row for row in planned if row.status in SETTLED and row.id not in runs)
    waits = [row for index in waiting_variants for row in records.by_variant[index]] or planned
    left = sum(row.status not in SETTLED for row in waits)
    question = make_question({term.variant: term.weight for term in terms})
    # A question about equivalence is tested at the edge of its margin (docs/statistics.md).
    estimate, edge = _contrast(terms), _contrast(terms, question.half_width) if question.half_width else None
    # A paired contrast needs two variants with values.
    is_paired = records.plan.paired and len(terms) > 1 and estimate.why in (None, Why.NO_SPREAD)
    if is_paired:
        estimate, edge = _paired_contrast(terms), None
    tested = answer(question, estimate, left, len(lost_rows), runs, edge)
    wide = any(term.fit.has_wide_spread(term.key) for term in terms if term.fit)
    tested = replace(tested, reasons=(*tested.reasons, *[Reason.WIDE] * wide))
    names = {metric_name for weights in term_weights.values() for metric_name in weights}
    marks = marks_of(records, names, waiting_variants or [*term_weights])
    return QuestionRow(label, contrast_words, name, tested, terms, left, lost_rows, marks=marks)


def _contrast(terms: Sequence[Term], margin: float = 0.0) -> Estimate:
    return contrast(
        [(term.weight, term.fit.weighted(term.key, margin) if term.fit else None) for term in terms]
    )


def _paired_contrast(terms: Sequence[Term]) -> Estimate:
    """Return the mean over common seeds of the contrast within a seed, with its t interval."""
    values: list[dict[int, float]] = []
    for term in terms:
        seeds_of_runs = (run.seed for run in term.runs)
        values.append(dict(zip(seeds_of_runs, term.values, strict=True)))
    common_seeds = set(values[0]).intersection(*values[1:])
    differences = []
    for seed in sorted(common_seeds):
        pairs = zip(terms, values, strict=True)
        differences.append(sum(term.weight * value_by_seed[seed] for term, value_by_seed in pairs))
    return Fit({0: differences}).estimate(0)


def _term(records: StudyRecords, index: int, metric_weights: Mapping[str, float]) -> Term:
    """Return a variant's term with the fit of its metric, or of a weighted sum of metrics."""
    # Dividing by the first weight lets equal directions share a fit.
    first = next(iter(metric_weights.values()))
    direction = tuple((name, weight / first) for name, weight in metric_weights.items())
    fits = (
        fits_of(records, direction[0][0])
        if len(direction) == 1
        else records.compute_once(("direction", direction), lambda: _sum_fits(records, direction))
    )
    runs = _valued_runs(records, index, direction)
    values = tuple(_value(run, direction) for run in runs)
    return Term(
        index,
        records.variants[index].label,
        first,
        direction,
        tuple(runs),
        values,
        *fits.get(index, (None, index)),
    )


def _sum_fits(records: StudyRecords, direction: Direction) -> Fits:
    low = high = 0.0
    for name, weight in direction:
        scale = scale_of(name, ())
        bounds = sorted((weight * scale.low, weight * scale.high))
        low, high = low + bounds[0], high + bounds[1]
    groups: dict[object, dict[int, list[float]]] = {}
    for index in range(len(records.variants)):
        if runs := _valued_runs(records, index, direction):
            groups.setdefault(protocol(records, index), {})[index] = [_value(run, direction) for run in runs]
    fits = [(scores, Fit(scores, Scale(low, high))) for scores in groups.values()]
    return {index: (fit, index) for scores, fit in fits for index in scores}


def _valued_runs(records: StudyRecords, index: int, direction: Direction) -> list[Row]:
    if len(direction) == 1:
        return seeds_of(records, index, direction[0][0])
    return [
        row
        for row in records.by_variant[index]
        if row.done and all(row.value(name) is not None for name, _ in direction)
    ]


def _value(row: Row, direction: Direction) -> float:
    return sum(weight * row.number(name) for name, weight in direction)
