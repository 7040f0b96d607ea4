"""Ask a question of one contrast, of its average over blocks, or of each of several contrasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from recstudy.evidence import (
    ALPHA,
    Fit,
    Kind,
    Question,
    Reason,
    Scale,
    answer,
    exact_sum,
    holm,
)
from recstudy.records.runs import FINAL_STATUSES, Row
from recstudy.report.blocks import block_words, differ, other_blocks, scope
from recstudy.report.contrasts import Contrasts, Weights, average
from recstudy.report.fits import (
    Fits,
    contrast_of,
    fits_of,
    is_within_seeds,
    protocol,
    scale_of,
    seeds_of,
    within_seeds,
)
from recstudy.report.names import (
    at_alpha,
    difference_form,
)
from recstudy.report.question_rows import Direction, QuestionRow, Term
from recstudy.report.registration import marks_of
from recstudy.report.study_records import StudyRecords

# the fields of a `Question` on a difference and on an effect
DIFFERENCE, EFFECT = {"kind": Kind.DIFFERENCE}, {"kind": Kind.EFFECT}


def ask_contrasts(
    records: StudyRecords,
    name: str,
    region: Mapping[str, Any],
    contrasts: Contrasts,
    waiting: Sequence[int] = (),
    has_block_test: bool = False,
    is_each_tested: bool = False,
) -> QuestionRow:
    """Ask a question alone: of one contrast, of its average over blocks, or of each contrast.

    If the blocks differ, the question is asked in each block.

    Args:
        records: The study's records.
        name: The metric.
        region: The fields of the `Question` apart from its weights.
        contrasts: The weights in each block, or with `is_each_tested` those of each contrast.
        waiting: The variants for whose runs the answer waits; by default those of the contrast.
        has_block_test: Whether a t test over the differences of the blocks decides.
        is_each_tested: Whether each contrast must be in the region.
    """
    rows = [ask_contrast(records, name, region, weights, waiting) for _, weights in contrasts]
    if is_each_tested:
        return weakest(rows)
    if len(rows) == 1:
        return rows[0]
    blocks, estimates = [block for block, _ in contrasts], [row.estimate for row in rows]
    mark = scope(blocks)
    # Blocks differ in difficulty, so a mean over them is one statement.
    if not (has_block_test or rows[0].answer.question.is_mean) and differ(estimates):
        row, values = weakest(rows), []
        for estimate, block in zip(estimates, blocks, strict=True):
            if estimate.value is not None:
                form = difference_form(name, estimate.interval)
                values.append((estimate.value, f"{estimate.value:{form}} ({block_words(block)})"))
        extremes = [words for _, words in (min(values), max(values))]
        mark = f"differs between {mark}, from {' to '.join(extremes)}"
    else:
        row = ask_contrast(records, name, region, average([weights for _, weights in contrasts]), waiting)
    if has_block_test:
        estimate = other_blocks(estimates)
        tested = answer(row.answer.question, estimate, row.runs_left, len(row.lost_runs), row.run_ids)
        tested = replace(tested, reasons=(*tested.reasons, Reason.OVER_BLOCKS))
        row, mark = replace(row, answer=tested), f"other blocks like {mark}"
    adjusted = holm([1.0 if block_row.answer.p is None else block_row.answer.p for block_row in rows])
    in_blocks = []
    for block, block_row, p in zip(blocks, rows, adjusted, strict=True):
        in_blocks.append((block_words(block), replace(block_row.answer, adjusted=p)))
    return replace(row, marks=[*row.marks, mark], in_blocks=in_blocks)


def weakest(rows: Sequence[QuestionRow]) -> QuestionRow:
    """Return the contrast that decides a question about all contrasts (intersection-union, Berger 1982).

    A contrast that cannot be tested leaves the question open. The p value in favour is the largest one. The
    smallest p value against is selected among all contrasts, hence the Bonferroni factor.
    """

    def distance(row: QuestionRow) -> float:
        """Return the distance to the edge of the claimed range, in standard errors."""
        return (row.answer.room or 0.0) / (row.estimate.error or inf)

    for row in rows:
        if row.answer.p is None:
            return row
    weakest_row = min(rows, key=distance)
    if distance(weakest_row) < 0:
        p = min(1.0, len(rows) * (weakest_row.answer.p or 0.0))
        return replace(weakest_row, answer=replace(weakest_row.answer, p=p))
    weakest_row = max(rows, key=lambda row: row.answer.p or 0.0)
    is_two_sided = weakest_row.answer.question.is_two_sided
    alpha = weakest_row.answer.question.alpha
    significant = [row.estimate.value or 0.0 for row in rows if (row.answer.p or 0.0) < alpha]
    if is_two_sided and len({value > 0 for value in significant}) > 1:
        reasons = (Reason.SIGNS_DIFFER, *weakest_row.answer.reasons)
        return replace(weakest_row, answer=replace(weakest_row.answer, p=None, reasons=reasons))
    return weakest_row


def ask_contrast(
    records: StudyRecords,
    name: str,
    region: Mapping[str, Any],
    weights: Weights,
    waiting: Sequence[int] = (),
) -> QuestionRow:
    """Answer a question about one contrast, with all runs of its variants that have a value.

    The arguments are those of `ask_contrasts`.
    """
    terms = [_term(records, index, metric_weights) for index, metric_weights in weights.items()]
    run_ids = [run.id for term in terms for run in term.runs]
    valued_ids = {*run_ids}
    ended_rows = (row for row in records.rows_of(weights) if row.status in FINAL_STATUSES)
    lost_rows = [row for row in ended_rows if row.id not in valued_ids]
    waiting = waiting or [*weights]
    runs_left = sum(row.status not in FINAL_STATUSES for row in records.rows_of(waiting))
    is_mean = all(term.weight > 0 and len(term.direction) == 1 for term in terms)
    fields = {"alpha": records.plan.alpha, "is_mean": is_mean, **region}
    question = Question({term.variant: term.weight for term in terms}, **fields)
    estimate, edge = contrast_of(records, [term.weighted() for term in terms]), None
    mean = terms[0].fit.estimate(terms[0].key) if is_mean and len(terms) == 1 and terms[0].fit else None
    if mean and mean.scale and terms[0].weight == 1:
        estimate = mean
    elif len(terms) > 1 and is_within_seeds(records, estimate):
        terms = _with_common_seeds(terms)
        run_ids = [run.id for term in terms for run in term.runs]
        estimate = within_seeds(records, [(term.weight, term.by_seed) for term in terms], estimate.why)
    else:
        # equivalence is tested at the edge of its margin (docs/statistics.md)
        margin = question.half_width
        edge = contrast_of(records, [term.weighted(margin) for term in terms]) if margin else None
    estimate = replace(estimate, overlap=records.plan.overlap)
    tested = answer(question, estimate, runs_left, len(lost_rows), run_ids, edge)
    wide = any(term.fit.has_wide_spread(term.key) for term in terms if term.fit)
    tested = replace(tested, reasons=(*tested.reasons, *[Reason.WIDE] * wide))
    names = {metric_name for metric_weights in weights.values() for metric_name in metric_weights}
    over_items = ["over test items"] * estimate.is_over_items
    marks = [*over_items, *marks_of(records, names, waiting)]
    if tested.p is not None and question.alpha != ALPHA:
        marks.append(at_alpha(question.alpha))
    if tested.unseen_failures:
        marks.append(f"up to {100 * tested.unseen_failures:.0f} % of seeds may fail unseen")
    return QuestionRow(name, tested, terms, runs_left, lost_rows, marks)


def _with_common_seeds(terms: Sequence[Term]) -> list[Term]:
    """Return the terms with the runs of the seeds that all of them have."""
    common_seeds = set.intersection(*(set(term.by_seed) for term in terms))
    common_terms = []
    for term in terms:
        runs = [run for run in term.runs if run.seed in common_seeds]
        values = [term.by_seed[run.seed] for run in runs]
        common_terms.append(replace(term, runs=runs, values=values))
    return common_terms


def _term(records: StudyRecords, index: int, metric_weights: Mapping[str, float]) -> Term:
    """Return a variant's term with the fit of its metric, or of a weighted sum of metrics."""
    # Dividing by the first weight lets equal directions share a fit.
    first = next(iter(metric_weights.values()))
    direction = tuple((name, weight / first) for name, weight in metric_weights.items())
    if len(direction) == 1:
        fits = fits_of(records, direction[0][0])
    else:
        fits = records.compute_once(("direction", direction), lambda: _sum_fits(records, direction))
    runs = _valued_runs(records, index, direction)
    values = [_value(run, direction) for run in runs]
    fit, key = fits.get(index, (None, index))
    return Term(index, records.variants[index].label, first, direction, runs, values, fit, key)


def _sum_fits(records: StudyRecords, direction: Direction) -> Fits:
    low = high = 0.0
    for name, weight in direction:
        scale = scale_of(name, ())
        bounds = sorted((weight * scale.low, weight * scale.high))
        low, high = low + bounds[0], high + bounds[1]
    groups: dict[object, dict[int, list[float]]] = {}
    for index in records.indices:
        if runs := _valued_runs(records, index, direction):
            groups.setdefault(protocol(records, index), {})[index] = [_value(run, direction) for run in runs]
    fits = [
        (scores, Fit(scores, Scale(low, high), overlap=records.plan.overlap)) for scores in groups.values()
    ]
    return {index: (fit, index) for scores, fit in fits for index in scores}


def _valued_runs(records: StudyRecords, index: int, direction: Direction) -> list[Row]:
    runs = seeds_of(records, index, direction[0][0])
    return [run for run in runs if all(run.value(name) is not None for name, _ in direction)]


def _value(row: Row, direction: Direction) -> float:
    return exact_sum(weight * row.number(name) for name, weight in direction)
