"""Compare the cells of a table: mark the best ones and compute relative improvements.

`tables/table.py` calls `mark_best_cells`, and `improvement_cell` for metrics named `..._delta`.
The relative improvement is a column of Table I of MicarVLMoE, in percent of the row's score:

    delta = 100 (ours - row) / row   (1)   if higher is better
    delta = 100 (row - ours) / row   (2)   if lower is better

Both scores are means over all runs of a variant. The paper applies (1) to two printed numbers: 0.638 and
0.600 give 6.33 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from recstudy.evidence import Kind, Question, Weighted, answer, contrast, holm, ratio
from recstudy.papers import Target
from recstudy.records import Json
from recstudy.report.caveats import interim_words
from recstudy.report.cells import BEST, NONE, TIED, UNTESTED, Cell, cell
from recstudy.report.fits import is_within_seeds, weighted_mean, within_seeds
from recstudy.report.names import improved_metric, metric, number, value_text
from recstudy.report.reasons import LEAK
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import Placement, match_targets, nearest_matches

ZERO = "no percentage of a score of 0 or less"
NO_COUNTERPART = "no variant to compare it with"


def mark_best_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Mark the best cells of each metric."""
    result = list(cells)
    # a model that was given the answer leaks, so that its score compares with no other
    comparable = [
        position for position, cell in enumerate(cells) if cell.value is not None and not cell.leaks
    ]
    for name in dict.fromkeys(candidate.metric for candidate in cells):
        compared = [position for position in comparable if cells[position].metric == name]
        if metric(name).better is None or len(compared) < 2:
            continue
        flags, tested = _find_best(name, [cells[position] for position in compared])
        # if all cells are equally good, a note says so (tied_notes); single runs have no test
        are_tied = all(tested) or not any(cells[position].has_spread for position in compared)
        for position, is_best, is_tested in zip(compared, flags, tested, strict=True):
            mark = (BEST if is_tested else UNTESTED) if is_best else ""
            if all(flags):
                mark = TIED if are_tied else ""
            result[position] = replace(cells[position], mark=mark)
    return result


def _find_best(name: str, cells: Sequence[Cell]) -> tuple[list[bool], list[bool]]:
    """Return for each cell whether no other is significantly better, and whether that was tested.

    Measured values are compared with the best by t tests; values that follow from the config, as printed.
    """
    best = max(cells, key=attrgetter("score"))
    if metric(name).computed:
        printed = [number(name, candidate.value or 0.0) for candidate in cells]
        return [value == number(name, best.value or 0.0) for value in printed], [False] * len(cells)
    p_values = [_p_of_difference(best, candidate) for candidate in cells if candidate is not best]
    adjusted, are_tested = iter(holm([1.0 if p is None else p for p in p_values])), iter(p_values)
    looks = best.records.looks.at({index for candidate in cells for index in candidate.variants})
    level = looks.level(min(candidate.n for candidate in cells))
    # Holm's p values are multiplied by k/2, because each of k values could have come out as the best. Without
    # the factor, some of 12 equal variants were marked in 13 % of tables (tests/benchmarks/evidence.py).
    flags = [candidate is best or next(adjusted) * len(cells) / 2 >= level for candidate in cells]
    return flags, [candidate is best or next(are_tested) is not None for candidate in cells]


def _p_of_difference(best: Cell, candidate: Cell) -> float | None:
    """Return the p value of the difference of two cells; None if it cannot be tested.

    In a paired study the difference is within the seeds. Runs that failed or diverged leave it open, because
    the others may be the lucky ones.
    """
    question = Question({0: 1.0, 1: -1.0}, kind=Kind.DIFFERENCE)
    difference = contrast([(1.0, _mean(best)), (-1.0, _mean(candidate))])
    if is_within_seeds(best.records, difference):
        values = [{run.seed: run.number(side.source) for run in side.counted} for side in (best, candidate)]
        sides = list(zip((1.0, -1.0), values, strict=True))
        difference = within_seeds(best.records, sides, difference.why)
    lost_runs = sum(side.count("failed", "diverged") for side in (best, candidate))
    return answer(question, difference, lost_runs=lost_runs).p


def _mean(candidate: Cell) -> Weighted:
    """Return a cell's mean with the variance that a contrast needs."""
    if len(candidate.variants) == 1:
        fitted = weighted_mean(candidate.records, candidate.variants[0], candidate.source)
        # the fit pools variances across variants; it applies only if it saw the same runs as the cell
        if fitted is not None and fitted.n == candidate.n:
            return fitted
    estimate = candidate.estimate
    variance = None if estimate.error is None else estimate.error**2
    return Weighted(
        estimate.value or 0.0, variance, estimate.df or 0.0, candidate.n, *estimate.reach, why=estimate.why
    )


def tied_notes(cells: Sequence[Cell]) -> list[str]:
    """Return a note on the metrics without a significant difference, in the whole table or in a part."""
    best_metrics = {marked_cell.metric for marked_cell in cells if marked_cell.best}
    tied_metrics = dict.fromkeys(cell.metric for cell in cells if cell.mark == TIED and cell.has_spread)
    names = [
        f"{metric(name).title}{' (in a part of the table)' if name in best_metrics else ''}"
        for name in tied_metrics
    ]
    if not names:
        return []
    interim = interim_words(cells[0].records)
    return [f"no significant difference between variants by {'; '.join(names)}{interim and f' ({interim})'}"]


def improvement_cell(
    records: StudyRecords,
    improvement: Json,
    targets: Sequence[Target],
    index: int,
    name: str,
    placement: Placement,
) -> Cell:
    """Return the cell with the relative improvement of our variant over the variant of this row.

    The cell of our own variant is empty.

    Args:
        records: The study's records.
        improvement: The levels of our variant. On every other axis, it has the level of the row.
        targets: The published values of the table.
        index: The variant of the row.
        name: The metric of the improvement, such as `avg_bleu_delta`.
        placement: The published values that belong to the cells.

    Raises:
        ConfigError: The study has no such axis.
    """
    source = improved_metric(name)
    levels = {axis: records.level(index, axis) for axis in records.variants[index].levels}
    our_variants = records.chosen(levels | improvement)
    row = cell(records, [index], source)
    ours = cell(records, our_variants, source) if len(our_variants) == 1 else None
    is_ours = our_variants == [index]
    problem = "" if is_ours else _ratio_problem(row, ours)
    result = replace(row, metric=name, estimate=NONE, prediction=NONE, problem=problem if row.counted else "")
    if not (is_ours or problem or row.value is None):
        means = [weighted_mean(records, position, source) for position in (our_variants[0], index)]
        # a new run scatters by s^2 around the true mean, whose estimate scatters by s^2 / n:
        # together s^2 (n + 1) / n, which is (n + 1) times the variance of the mean
        new_runs = [
            mean and mean._replace(variance=mean.variance and mean.variance * (mean.n + 1)) for mean in means
        ]
        sign = float(metric(source).sign)
        estimate, prediction = (ratio(mean, base, sign) for mean, base in (means, new_runs))
        result = replace(result, estimate=estimate, prediction=prediction, ours=ours)
    matches = nearest_matches(placement.matches.get((index, name), ()))
    doubts = [NO_COUNTERPART]
    if matches and ours:
        published = match_targets(records, targets, our_variants, [source])
        values = cell(records, our_variants, source, published).matches
        our_label = records.variants[our_variants[0]].label
        no_match = f"no published {metric(source).title} has the settings of {our_label}"
        doubts = [reason for value in values for reason in value.reasons] if values else [no_match]
    # a published delta is comparable only if both published scores are
    doubtful_matches = [
        replace(match, reasons=tuple(dict.fromkeys([*match.reasons, *doubts]))) for match in matches
    ]
    return replace(result, matches=tuple(doubtful_matches))


def _ratio_problem(row: Cell, base: Cell | None) -> str:
    """Return why two cells have no ratio; empty if they have one or if the row has no value."""
    if base is None:
        return NO_COUNTERPART
    ours, theirs = (row.records.variants[side.variants[0]] for side in (base, row))
    if row.leaks or base.leaks:
        return f"{'it' if row.leaks else ours.label} {LEAK}"
    if ours.data != theirs.data:
        return "measured on different data"
    if row.value is not None and base.value is None:
        return f"{ours.label} has no value"
    return ZERO if row.value is not None and row.value <= 0 else ""


def improvement_notes(metrics: Sequence[str], improvement: Json) -> list[str]:
    """Return a note that defines the relative improvements of a table, if it has any."""
    titles = [metric(name).title for name in metrics if improved_metric(name)]
    ours = ", ".join(map(value_text, improvement.values()))
    explanation = (
        f"improvement of {ours} over the row, in percent of the row's score; no interval if that score may be"
        " 0"
    )
    return [f"{', '.join(titles)}: {explanation}"] if titles else []
