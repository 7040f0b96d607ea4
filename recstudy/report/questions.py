"""The questions of a report's parts (claims, differences from a base, effects of a factorial) with estimates.

`ask` tests each question alone. `family.py` then adjusts the verdicts for all questions of the study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.lazy import np
from recstudy.base.values import canonical
from recstudy.evidence import (
    Estimate,
    Reason,
    Verdict,
    estimable,
    mcnemar,
    mean_of,
    over_items,
)
from recstudy.papers import by_name
from recstudy.report.blocks import block_words, scope
from recstudy.report.claims import (
    METRIC,
    Claim,
    Claims,
    Differences,
    Effects,
    QuestionPart,
)
from recstudy.report.contrast_questions import DIFFERENCE, EFFECT, ask_contrast, ask_contrasts
from recstudy.report.contrasts import Comparison, Contrasts, Weights
from recstudy.report.fits import (
    MAX_RUNS,
    item_scores,
)
from recstudy.report.margins import ask_margins, mark_differing
from recstudy.report.names import (
    axis_title,
    level_of,
    level_words,
    metric,
    value_text,
)
from recstudy.report.question_rows import Family, PublishedDifference, QuestionRow, Side
from recstudy.report.reasons import LEAK
from recstudy.report.registration import post_hoc
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import match_targets, nearest_matches


def ask(records: StudyRecords, part: QuestionPart) -> Family:
    """Return a part's questions, each tested alone.

    Raises:
        ConfigError: The part names an unknown axis, variant or metric, or its variants cannot be compared.
    """
    match part:
        case Claims():
            return Family([_claim(records, claim) for claim in part.claims])
        case Differences():
            return _differences(records, part)
        case Effects():
            return _effects(records, part)
    raise TypeError(f"{type(part).__name__} is no part with questions")


# --- claims


def _claim(records: StudyRecords, claim: Claim) -> QuestionRow:
    """Ask a claim: one contrast, its average over blocks, or with `each` all of its contrasts."""

    stated_claim, claim = claim, claim.with_labels(records.label_of)
    comparison = Comparison(claim, records.variants, records.configs, records.blocks)
    # The claim waits for all variants among which a setting is tuned, not only for the chosen one.
    waiting_variants = comparison.compared
    contrasts = comparison.contrasts(partial(best_by, records, f"selection_{claim.metric}"))
    low, high = claim.bounds
    region = {"lower_bound": low, "upper_bound": high, "half_width": claim.within}
    region |= {"alpha": claim.alpha} if claim.alpha else {}
    row = ask_contrasts(
        records, claim.metric, region, contrasts, waiting_variants, claim.over == "blocks", claim.each
    )
    are_levels = all(isinstance(side, Mapping) for side in claim.sides)
    if are_levels and not claim.each and len(contrasts) == 1 == len(claim.sides) - 1:
        pairs = _pairs_of_settings(records, claim, contrasts[0][1])
        row = mark_differing(
            row, [ask_contrast(records, claim.metric, region, pair).estimate for pair in pairs]
        )
    late = [str(Reason.POST_HOC)] * post_hoc(records, stated_claim, waiting_variants)
    return replace(
        row,
        label=by_name(claim.text),
        contrast=claim.contrast,
        words=claim.words(partial(_setting_words, records)),
        sides=_sides(records, claim, row),
        margin=claim.margin_words,
        marks=list(dict.fromkeys([*late, *row.marks])),
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


def _sides(records: StudyRecords, claim: Claim, row: QuestionRow) -> Sequence[Side]:
    """Return both sides with the mean of their runs; empty if a side is a difference itself or has no run."""
    words = claim.side_words(partial(_setting_words, records))
    if not words or not all(term.runs for term in row.terms):
        return ()
    if (claim.each or row.in_blocks) and len(row.terms) == len(words):
        # One contrast of several decides, so its variants are named by their labels.
        words = [(name, term.label) for (name, _), term in zip(words, row.terms, strict=True)]
    values = [0.0, 0.0]
    for term in row.terms:
        for name, metric_weight in term.direction:
            weight = term.weight * metric_weight
            mean = float(np.mean([run.number(name) for run in term.runs]))
            values[weight < 0] += abs(weight) * mean
    return [Side(*side_words, value) for side_words, value in zip(words, values, strict=True)]


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
        row = ask_contrasts(records, name, DIFFERENCE, [in_block])
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
            row = ask_contrasts(records, name, DIFFERENCE, contrasts)
            relation = "on average over" if len(row.terms) > 2 else "in each of"
            group = f"{theirs}, {relation} {scope([block for block, _ in contrasts])}"
            averages.append(replace(row, group=group, label=ours, contrast=f"{ours} minus {theirs}"))
    base_labels = [row.group for row in rows]
    rows = [*averages, *sorted(rows, key=lambda row: base_labels.index(row.group))]
    return Family(_with_items(records, rows), placement.notes)


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


def _with_items(records: StudyRecords, rows: Sequence[QuestionRow]) -> Sequence[QuestionRow]:
    """Add the tests over test items to differences of two variants that have results on the same items."""
    # Reading the answers of 100 runs takes 2 s, so larger parts have no tests over items.
    if len({run_id for row in rows for run_id in row.run_ids}) > MAX_RUNS:
        return rows
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
    return tested_rows


# --- effects


def _effects(records: StudyRecords, part: Effects) -> Family:
    cells = records.chosen(part.where)
    if leaky := records.labels(filter(records.leaks, cells)):
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
        blocks_and_levels = {
            index: {**dict(records.blocks[index]), **{axis: records.level(index, axis) for axis in levels}}
            for index in cells
        }
        margins = ask_margins(records, part, blocks_and_levels, levels)
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
        rows.append(replace(ask_contrasts(records, part.metric, EFFECT, in_blocks), label=label))
    return Family(rows, levels=levels)


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
