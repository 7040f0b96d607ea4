"""The questions of a report's parts (claims, differences from a base, effects of a factorial) with estimates.

`ask` tests each question alone. `family.py` then adjusts the verdicts for all questions of the study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.lazy import np
from recstudy.base.values import canonical
from recstudy.evidence import (
    ALPHA,
    Estimate,
    Fit,
    Kind,
    Question,
    Reason,
    Scale,
    Verdict,
    answer,
    contrast,
    estimable,
    exact_sum,
    holm,
    mcnemar,
    mean_of,
    over_items,
)
from recstudy.papers import by_name
from recstudy.records.runs import FINAL_STATUSES, Row
from recstudy.report.blocks import block_words, differ, other_blocks, scope
from recstudy.report.claims import (
    METRIC,
    Claim,
    Claims,
    Differences,
    Effects,
    QuestionPart,
)
from recstudy.report.contrasts import Contrasts, Weights, average, variants_of, weights_each
from recstudy.report.fits import (
    MAX_RUNS,
    Fits,
    fits_of,
    is_within_seeds,
    item_scores,
    protocol,
    scale_of,
    seeds_of,
    with_shared_seeds,
    within_seeds,
)
from recstudy.report.margins import ask_margins, mark_differing
from recstudy.report.names import (
    at_alpha,
    axis_title,
    difference_form,
    level_of,
    level_words,
    metric,
    value_text,
)
from recstudy.report.question_rows import Direction, Family, PublishedDifference, QuestionRow, Side, Term
from recstudy.report.reasons import LEAK
from recstudy.report.registration import marks_of, post_hoc
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import match_targets, nearest_matches, unmatched_notes

# the fields of a `Question` on a difference and on an effect
DIFFERENCE, EFFECT = {"kind": Kind.DIFFERENCE}, {"kind": Kind.EFFECT}


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

    stated_claim, claim = claim, claim.with_labels(records.label_of)
    study = records.variants, records.configs, records.blocks
    # The claim waits for all variants among which a setting is tuned, not only for the chosen one.
    waiting_variants = variants_of(claim, *study)
    contrasts = weights_each(claim, *study, partial(best_by, records, f"selection_{claim.metric}"))
    low, high = claim.bounds
    region = {"lower_bound": low, "upper_bound": high, "half_width": claim.within}
    region |= {"alpha": claim.alpha} if claim.alpha else {}
    row = _ask(records, claim.metric, region, contrasts, waiting_variants, claim.over == "blocks", claim.each)
    are_levels = all(isinstance(side, Mapping) for side in claim.sides)
    if are_levels and not claim.each and len(contrasts) == 1 == len(claim.sides) - 1:
        pairs = _pairs_of_settings(records, claim, contrasts[0][1])
        row = mark_differing(
            row, [_ask_contrast(records, claim.metric, region, pair).estimate for pair in pairs]
        )
    late = [str(Reason.POST_HOC)] * post_hoc(records, stated_claim, waiting_variants)
    return replace(
        row,
        label=by_name(claim.text),
        contrast=claim.contrast,
        words=claim.words(partial(_setting_words, records)),
        sides=_sides(records, claim, row),
        margin=claim.margin_words,
        marks=tuple(dict.fromkeys([*late, *row.marks])),
    )


def _pairs_of_settings(records: StudyRecords, claim: Claim, weights: Weights) -> list[Weights]:
    """Return the difference of a claim's sides in each setting that it does not name; empty for one."""
    named = {name for _, selector in claim.selectors for name in selector}
    settings: dict[str, Weights] = {}
    for index, terms in weights.items():
        levels = {name: level for name, level in records.variants[index].levels.items() if name not in named}
        signs = {name: 1.0 if weight > 0 else -1.0 for name, weight in terms.items()}
        settings.setdefault(canonical(levels), {})[index] = signs
    pairs = list(settings.values())
    are_pairs = all(sorted(sum(terms.values()) for terms in pair.values()) == [-1.0, 1.0] for pair in pairs)
    return pairs if are_pairs and len(pairs) > 1 else []


def _sides(records: StudyRecords, claim: Claim, row: QuestionRow) -> tuple[Side, ...]:
    """Return both sides with the mean of their runs; empty if a side is a difference itself or has no run."""
    words = claim.side_words(partial(_setting_words, records))
    if not words or not all(term.runs for term in row.terms):
        return ()
    if (claim.each or row.in_blocks) and len(row.terms) == len(words):
        # One contrast of several decides, so its variants are named by their labels.
        words = tuple((name, term.label) for (name, _), term in zip(words, row.terms, strict=True))
    values = [0.0, 0.0]
    for term in row.terms:
        for name, metric_weight in term.direction:
            weight = term.weight * metric_weight
            mean = float(np.mean([run.number(name) for run in term.runs]))
            values[weight < 0] += abs(weight) * mean
    return tuple(Side(*side_words, value) for side_words, value in zip(words, values, strict=True))


def _setting_words(records: StudyRecords, name: str, level: Any) -> str:
    """Return a setting of a claim in words; nothing if all variants have it."""
    if name == METRIC:
        return metric(level).title
    if isinstance(level, list | tuple):
        return f"{axis_title(name)} {' or '.join(map(value_text, level))}"
    pairs = zip(records.variants, records.configs, strict=True)
    levels = {value_text(level_of(*pair, name)) for pair in pairs}
    return "" if levels == {value_text(level)} else level_words(name, level)


# --- differences


def _differences(records: StudyRecords, part: Differences) -> Family:
    """Ask how much each variant differs from its base, and each method on average over the blocks."""
    name = part.metric
    if metric(name).computed:
        raise ConfigError(
            f"{name} follows from the config, so its differences need no test: show it in a Table"
        )
    bases = _bases(records, part)
    placement = match_targets(records, part.targets, list(dict.fromkeys([*bases, *bases.values()])), [name])
    by_method: dict[tuple[str, str], Contrasts] = {}
    rows, averages = [], []
    for index, base in bases.items():
        in_block = records.blocks[index], {index: {name: 1.0}, base: {name: -1.0}}
        row = _ask(records, name, DIFFERENCE, [in_block])
        if refused := _refused(records, index, base):
            reasons = (*row.answer.reasons, refused)
            refusal = replace(
                row.answer, verdict=Verdict.NOT_COMPARABLE, p=None, estimate=Estimate(None), reasons=reasons
            )
            row = replace(row, answer=refusal, terms=())
        else:
            methods = records.methods[index], records.methods[base]
            by_method.setdefault(methods, []).append(in_block)
        differences = [
            PublishedDifference(first, second)
            for first in placement.matches.get((index, name), ())
            for second in placement.matches.get((base, name), ())
            # Published differences are taken only within one table of a paper.
            if first.target.table == second.target.table
        ]
        ours, theirs = records.variants[index].label, records.variants[base].label
        row = replace(row, group=theirs, published=nearest_matches(differences))
        rows.append(replace(row, label=ours, contrast=f"{ours} minus {theirs}"))
    for (ours, theirs), contrasts in by_method.items():
        if len(contrasts) > 1:
            row = _ask(records, name, DIFFERENCE, contrasts)
            relation = "on average over" if len(row.terms) > 2 else "in each of"
            group = f"{theirs}, {relation} {scope([block for block, _ in contrasts])}"
            averages.append(replace(row, group=group, label=ours, contrast=f"{ours} minus {theirs}"))
    base_labels = [row.group for row in rows]
    rows = [*averages, *sorted(rows, key=lambda row: base_labels.index(row.group))]
    return Family(_with_items(records, rows), unmatched_notes(placement))


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
        given_base = labels.index(label)
        methods = enumerate(records.methods)
        same_method = [index for index, method in methods if method == records.methods[given_base]]
        in_blocks = {records.blocks[index]: index for index in same_method}
        # A variant whose block lacks the base is shown as not comparable.
        bases = {index: in_blocks.get(records.blocks[index], given_base) for index in chosen}
        return {index: base for index, base in bases.items() if index != base}
    variants = ((index, records.variants[index].base) for index in chosen)
    bases = {index: base for index, base in variants if base is not None}
    if not bases:
        raise ConfigError(
            f"differences {part.name!r}: no variant has a base. Name one with base=LABEL, or use"
            " leave_one_out."
        )
    return bases


def _refused(records: StudyRecords, index: int, base: int) -> str:
    """Return why the two variants are not compared; empty if they are."""
    if records.leaks(index) or records.leaks(base):
        return f"not compared: {'' if records.leaks(index) else 'the base '}{LEAK}"
    if records.blocks[index] != records.blocks[base]:
        return f"not compared: the base is in {block_words(records.blocks[base])}"
    shared_runs = {run.id for run in records.by_variant[index]} & {run.id for run in records.by_variant[base]}
    return "the base itself: it changes nothing" if shared_runs else ""


def _with_items(records: StudyRecords, rows: Sequence[QuestionRow]) -> tuple[QuestionRow, ...]:
    """Add the tests over test items to differences of two variants that have results on the same items."""
    # Reading the answers of 100 runs takes 2 s, so larger parts have no tests over items.
    if len({run_id for row in rows for run_id in row.run_ids}) > MAX_RUNS:
        return tuple(rows)
    tested_rows = []
    for row in rows:
        runs = [run for term in row.terms for run in term.runs]
        has_seeds = row.estimate.error is not None and not row.estimate.is_over_items
        is_difference = len(row.terms) == 2 and not row.in_blocks and has_seeds
        items, _ = item_scores(records, runs, row.metric) if is_difference else (None, ())
        if items is not None:
            n = len(row.terms[0].runs)
            ours, theirs = items.scores[:n], items.scores[n:]
            wide = over_items(row.estimate, [ours, theirs], [1.0, -1.0], items.clusters)
            row = replace(row, items=wide, over_items_alone=mcnemar(ours, theirs, items.clusters))
        tested_rows.append(row)
    return tuple(tested_rows)


# --- effects


def _effects(records: StudyRecords, part: Effects) -> Family:
    cells = records.chosen(part.where)
    if leaky := [records.variants[index].label for index in cells if records.leaks(index)]:
        raise ConfigError(
            f"effects {part.name!r}: {', '.join(leaky)} leaks the answer, so that effects are meaningless"
        )
    block_axes = {name for index in cells for name, _ in records.blocks[index]}
    levels: dict[str, list[Any]] = {}  # of the axes that vary between these cells
    for axis in part.axes or records.plan.axes:
        axis_levels = list(dict.fromkeys(records.level(index, axis) for index in cells))
        if axis not in block_axes and len(axis_levels) > 1:
            levels[axis] = axis_levels
    if not levels:
        raise ConfigError(f"effects {part.name!r}: no axis has two levels among its variants")
    if part.base is not None or any(len(axis_levels) > 2 for axis_levels in levels.values()):
        ask_difference = partial(_ask, records, part.metric, DIFFERENCE)
        blocks_and_levels = {
            index: {**dict(records.blocks[index]), **{axis: records.level(index, axis) for axis in levels}}
            for index in cells
        }
        margins = ask_margins(records, part, blocks_and_levels, list(levels), ask_difference)
        return replace(margins, rows=_with_items(records, margins.rows))
    contrasts: dict[tuple[str, ...], Contrasts] = {}
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
        for axes, cell_weights in effects.items():
            pairs = zip(block_cells, cell_weights, strict=True)
            effect_weights = {index: {part.metric: weight} for index, weight in pairs}
            contrasts.setdefault(axes, []).append((block, effect_weights))
    rows = []
    for axes, in_blocks in contrasts.items():
        label = " \N{MULTIPLICATION SIGN} ".join(map(axis_title, axes))
        rows.append(replace(_ask(records, part.metric, EFFECT, in_blocks), label=label))
    return Family(tuple(rows), levels=levels)


# --- one path for all questions


def _ask(
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
    rows = [_ask_contrast(records, name, region, weights, waiting) for _, weights in contrasts]
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
        row = _ask_contrast(records, name, region, average([weights for _, weights in contrasts]), waiting)
    if has_block_test:
        estimate = other_blocks(estimates)
        tested = answer(row.answer.question, estimate, row.runs_left, len(row.lost_runs), row.run_ids)
        tested = replace(tested, reasons=(*tested.reasons, Reason.OVER_BLOCKS))
        row, mark = replace(row, answer=tested), f"other blocks like {mark}"
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


def _ask_contrast(
    records: StudyRecords,
    name: str,
    region: Mapping[str, Any],
    weights: Weights,
    waiting: Sequence[int] = (),
) -> QuestionRow:
    """Answer a question about one contrast, with all runs of its variants that have a value.

    The arguments are those of `_ask`.
    """
    terms = tuple(_term(records, index, metric_weights) for index, metric_weights in weights.items())
    run_ids = [run.id for term in terms for run in term.runs]
    valued_ids = {*run_ids}
    ended_rows = (row for row in records.rows_of(weights) if row.status in FINAL_STATUSES)
    lost_rows = tuple(row for row in ended_rows if row.id not in valued_ids)
    waiting = waiting or [*weights]
    runs_left = sum(row.status not in FINAL_STATUSES for row in records.rows_of(waiting))
    is_mean = all(term.weight > 0 and len(term.direction) == 1 for term in terms)
    fields = {"alpha": records.plan.alpha, "is_mean": is_mean, **region}
    question = Question({term.variant: term.weight for term in terms}, **fields)
    estimate, edge = contrast([term.weighted() for term in terms]), None
    sides = [(term.weight, term.by_seed) for term in terms]
    mean = terms[0].fit.estimate(terms[0].key) if is_mean and len(terms) == 1 and terms[0].fit else None
    if mean and mean.scale and terms[0].weight == 1:
        estimate = mean
    elif len(terms) > 1 and is_within_seeds(records, estimate):
        terms = _with_common_seeds(terms)
        run_ids = [run.id for term in terms for run in term.runs]
        estimate = within_seeds(records, sides, estimate.why)
    else:
        # equivalence is tested at the edge of its margin (docs/statistics.md)
        margin = question.half_width
        edge = contrast([term.weighted(margin) for term in terms]) if margin else None
        estimate = with_shared_seeds(records, sides, estimate)
        edge = edge and with_shared_seeds(records, sides, edge)
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
    return QuestionRow(name, tested, terms, runs_left, lost_rows, tuple(marks))


def _with_common_seeds(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Return the terms with the runs of the seeds that all of them have."""
    common_seeds = set.intersection(*(set(term.by_seed) for term in terms))
    common_terms = []
    for term in terms:
        runs = tuple(run for run in term.runs if run.seed in common_seeds)
        values = tuple(term.by_seed[run.seed] for run in runs)
        common_terms.append(replace(term, runs=runs, values=values))
    return tuple(common_terms)


def _term(records: StudyRecords, index: int, metric_weights: Mapping[str, float]) -> Term:
    """Return a variant's term with the fit of its metric, or of a weighted sum of metrics."""
    # Dividing by the first weight lets equal directions share a fit.
    first = next(iter(metric_weights.values()))
    direction = tuple((name, weight / first) for name, weight in metric_weights.items())
    if len(direction) == 1:
        fits = fits_of(records, direction[0][0])
    else:
        fits = records.compute_once(("direction", direction), lambda: _sum_fits(records, direction))
    runs = tuple(_valued_runs(records, index, direction))
    values = tuple(_value(run, direction) for run in runs)
    fit, key = fits.get(index, (None, index))
    return Term(index, records.variants[index].label, first, direction, runs, values, fit, key)


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
    fits = [
        (scores, Fit(scores, Scale(low, high), overlap=records.plan.overlap)) for scores in groups.values()
    ]
    return {index: (fit, index) for scores, fit in fits for index in scores}


def _valued_runs(records: StudyRecords, index: int, direction: Direction) -> list[Row]:
    runs = seeds_of(records, index, direction[0][0])
    return [run for run in runs if all(run.value(name) is not None for name, _ in direction)]


def _value(row: Row, direction: Direction) -> float:
    return exact_sum(weight * row.number(name) for name, weight in direction)


def best_by(records: StudyRecords, by: str, variants: Sequence[int]) -> int:
    """Return the index of the variant with the best mean score on the selection split.

    Args:
        records: The study's records.
        by: The metric that is the score.
        variants: The indices to choose from.

    Returns:
        The first of equally good variants, or the first of all if no variant has a score.
    """
    scores = {}
    for index in variants:
        objectives = [run.objective(by) for run in records.by_variant[index] if run.done]
        if values := [value for value in objectives if value is not None]:
            scores[index] = mean_of(values)
    return max(scores, key=lambda index: metric(by).sign * scores[index], default=variants[0])
