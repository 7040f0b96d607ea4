"""The questions of a report's parts (claims, differences from a base, effects of a factorial) with estimates.

`ask` tests each question alone. `family.py` then adjusts the verdicts for all questions of the study.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.lazy import np
from recstudy.evidence import (
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
    estimable,
    holm,
    mcnemar,
    over_items,
)
from recstudy.papers import by_name
from recstudy.records.runs import Row
from recstudy.report.blocks import Block, block_words, differ, other_blocks, scope
from recstudy.report.claims import (
    METRIC,
    Claim,
    Claims,
    Differences,
    Effects,
    Interaction,
    QuestionPart,
    Weights,
    average,
    weights,
    weights_each,
)
from recstudy.report.fits import MAX_RUNS, Fits, fits_of, item_scores, protocol, scale_of, seeds_of
from recstudy.report.names import axis_title, difference_form, level_of, level_words, metric, value_text
from recstudy.report.question_rows import Direction, Family, PublishedDifference, QuestionRow, Term
from recstudy.report.reasons import LEAK
from recstudy.report.registration import marks_of, post_hoc
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables.table import best_by
from recstudy.report.targets import Placement, match_targets, unmatched_notes

SETTLED = ("done", "diverged", "failed", "stopped")


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
    """Ask a claim: one contrast, its average over blocks, or with `each` all of its contrasts."""

    def tuned(matching_variants: Sequence[int]) -> int:
        best = best_by(records, f"selection_{claim.metric}", matching_variants)
        return matching_variants[0] if best is None else best

    # The claim waits for all variants among which a setting is tuned, not only for the chosen one.
    waiting_variants = list(weights(claim, records.variants, records.configs, records.blocks))
    question = (
        partial(Question, lower_bound=claim.margin)
        if claim.within is None
        else partial(Question, half_width=claim.within)
    )
    make_row = partial(
        _ask, records, by_name(claim.text), claim.contrast, claim.metric, question, waiting=waiting_variants
    )
    contrasts = weights_each(claim, records.variants, records.configs, records.blocks, tuned)
    if claim.each:
        row = weakest([make_row(contrast_weights) for _, contrast_weights in contrasts])
    else:
        row = _ask_in_blocks(make_row, contrasts, claim.over)
    has_difference_terms = not isinstance(claim.lower, dict) or isinstance(claim.higher, Interaction)
    late = [str(Reason.POST_HOC)] * post_hoc(records, claim, waiting_variants)
    marks = tuple(dict.fromkeys([*late, *row.marks]))
    return replace(
        row,
        words=claim.words(partial(_setting_words, records)),
        side_words=_side_words(records, claim, row),
        margin=claim.margin_words,
        has_difference_terms=has_difference_terms,
        marks=marks,
    )


def _ask_in_blocks(
    make_row: Callable[[Weights], QuestionRow],
    contrasts: Sequence[tuple[Block, Weights]],
    over: str = "seeds",
) -> QuestionRow:
    """Ask one question in several blocks: of their average, or in each block if the blocks differ.

    Args:
        make_row: Asks the question of one contrast.
        contrasts: Each block with the contrast in it.
        over: `blocks` for a t test over the differences of the blocks.
    """
    rows = [make_row(block_weights) for _, block_weights in contrasts]
    if len(rows) == 1:
        return rows[0]
    blocks = [block for block, _ in contrasts]
    estimates = [row.estimate for row in rows]
    row = make_row(average([block_weights for _, block_weights in contrasts]))
    mark = scope(blocks)
    if over == "blocks":
        estimate = other_blocks(estimates)
        tested = answer(row.answer.question, estimate, row.left, len(row.lost_runs), row.run_ids)
        tested = replace(tested, reasons=(*tested.reasons, Reason.OVER_BLOCKS))
        row, mark = replace(row, answer=tested), f"other blocks like {mark}"
    elif differ(estimates):
        row, form = weakest(rows), difference_form(row.metric)
        known = [
            (estimate.value, block)
            for estimate, block in zip(estimates, blocks, strict=True)
            if estimate.value is not None
        ]
        ends = [f"{value:{form}} ({block_words(block)})" for value, block in (min(known), max(known))]
        mark = f"differs between {mark}, from {' to '.join(ends)}"
    adjusted = holm([1.0 if block_row.answer.p is None else block_row.answer.p for block_row in rows])
    in_blocks = []
    for block, block_row, p in zip(blocks, rows, adjusted, strict=True):
        in_blocks.append((block_words(block), replace(block_row.answer, adjusted=p)))
    return replace(row, marks=(*row.marks, mark), in_blocks=tuple(in_blocks))


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
        return _with_p(weakest_row, len(rows) * (weakest_row.answer.p or 0.0))
    weakest_row = max(rows, key=lambda row: row.answer.p or 0.0)
    is_two_sided = weakest_row.answer.question.other_than is not None
    signs = {(row.estimate.value or 0.0) > 0 for row in rows}
    return _with_p(weakest_row, 1.0) if is_two_sided and len(signs) > 1 else weakest_row


def _with_p(row: QuestionRow, p: float) -> QuestionRow:
    return replace(row, answer=replace(row.answer, p=min(1.0, p)))


def _side_words(records: StudyRecords, claim: Claim, row: QuestionRow) -> tuple[tuple[str, str], ...]:
    """Return the metric and the settings of each side; if one contrast of several decides, its labels."""
    sides = claim.side_words(partial(_setting_words, records))
    if (claim.each or row.in_blocks) and len(row.terms) == len(sides):
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
    rows = _average_differences(records, name, bases)
    rows += [_difference(records, name, index, base, placement) for index, base in bases.items()]
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
        method = records.methods[labels.index(label)]
        in_blocks = {
            records.blocks[index]: index for index, name in enumerate(records.methods) if name == method
        }
        # A variant whose block lacks the base is shown as not comparable.
        bases = {index: in_blocks.get(records.blocks[index], labels.index(label)) for index in chosen}
        return {index: base for index, base in bases.items() if index != base}
    variants = ((index, records.variants[index].base) for index in chosen)
    bases = {index: reference for index, reference in variants if reference is not None}
    if not bases:
        raise ConfigError(
            f"differences {part.name!r}: no variant has a base. Name one with base=LABEL, or use"
            " leave_one_out."
        )
    return bases


def _average_differences(records: StudyRecords, name: str, bases: Mapping[int, int]) -> list[QuestionRow]:
    """Ask for each method how much it differs from its base on average over the blocks."""
    contrasts: dict[tuple[str, str], list[tuple[Block, Weights]]] = {}
    for index, base in bases.items():
        if not _refused(records, index, base):
            pair = records.methods[base], records.methods[index]
            contrast_weights = {index: {name: 1.0}, base: {name: -1.0}}
            contrasts.setdefault(pair, []).append((records.blocks[index], contrast_weights))
    question = partial(Question, other_than=0.0, kind=Kind.DIFFERENCE)
    rows = []
    for (theirs, ours), in_blocks in contrasts.items():
        if len(in_blocks) > 1:
            make_row = partial(_ask, records, ours, f"{ours} minus {theirs}", name, question)
            row = _ask_in_blocks(make_row, in_blocks)
            how = "on average over" if len(row.terms) > 2 else "in each of"
            group = f"{theirs}, {how} {scope([block for block, _ in in_blocks])}"
            rows.append(replace(row, group=group))
    return rows


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
    if records.blocks[index] != records.blocks[base]:
        return f"not compared: the base is in {block_words(records.blocks[base])}"
    shared_runs = {run.id for run in records.by_variant[index]} & {run.id for run in records.by_variant[base]}
    return "the base itself: it changes nothing" if shared_runs else ""


def _with_items(records: StudyRecords, row: QuestionRow) -> QuestionRow:
    """Add the tests over test items, if all runs have the same items."""
    if row.in_blocks:
        return row
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
    block_axes = {name for index in cells for name, _ in records.blocks[index]}
    for axis in (axis for axis in records.plan.axes if axis not in block_axes):
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
    contrasts: dict[tuple[str, ...], list[tuple[Block, Weights]]] = {}
    for block in dict.fromkeys(records.blocks[index] for index in cells):
        block_cells = [index for index in cells if records.blocks[index] == block]
        columns = {
            axis: np.array([1 if records.level(index, axis) == high else -1 for index in block_cells])
            for axis, (_, high) in levels.items()
        }
        effects = estimable(columns)
        if effects is None:
            raise ConfigError(
                f"effects {part.name!r}: the variants are not a complete two-level factorial"
                f"{f' in {block_words(block)}' if block else ''}"
            )
        for effect in effects:
            cell_weights = zip(block_cells, effect.weights, strict=True)
            effect_weights = {index: {part.metric: weight} for index, weight in cell_weights}
            contrasts.setdefault(effect.axes, []).append((block, effect_weights))
    question, rows = partial(Question, other_than=0.0, kind=Kind.EFFECT), []
    for axes, in_blocks in contrasts.items():
        label = " \N{MULTIPLICATION SIGN} ".join(map(axis_title, axes))
        rows.append(_ask_in_blocks(partial(_ask, records, label, "", part.metric, question), in_blocks))
    return Family(tuple(rows), levels=levels)


# --- all questions


def _ask(
    records: StudyRecords,
    label: str,
    contrast_words: str,
    name: str,
    make_question: Callable[[dict[int, float]], Question[int]],
    term_weights: Weights,
    waiting: Sequence[int] = (),
) -> QuestionRow:
    """Answer a question alone, with all runs of its variants that have a value.

    Args:
        records: The study's records.
        label: The claim's sentence, the variant or the effect.
        contrast_words: The comparison in words.
        name: The metric.
        make_question: Returns the question from variant -> weight.
        term_weights: Variant -> metric -> weight.
        waiting: The variants for whose runs the answer waits; by default those of the contrast.
    """
    terms = tuple(_term(records, index, weights) for index, weights in term_weights.items())
    planned = [row for term in terms for row in records.by_variant[term.variant]]
    runs = [run.id for term in terms for run in term.runs]
    lost_rows = tuple(row for row in planned if row.status in SETTLED and row.id not in runs)
    waits = [row for index in waiting for row in records.by_variant[index]] or planned
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
    marks = [*marks_of(records, names, waiting or [*term_weights])]
    if tested.unseen_failures:
        marks.append(f"up to {100 * tested.unseen_failures:.0f} % of seeds may fail unseen")
    return QuestionRow(label, contrast_words, name, tested, terms, left, lost_rows, marks=tuple(marks))


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
