"""From records to the fit of each metric: which runs share a variance, on which scale, and the notes on it.

Cells, curves and questions use these fits. docs/statistics.md has the reasons.

Scores of test items come from the answers that runs saved. Shapes: n runs, M test items.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf, sqrt
from pathlib import Path
from statistics import variance

from recstudy.base.errors import StorageError
from recstudy.base.lazy import np
from recstudy.evidence import (
    Estimate,
    Fit,
    ItemResult,
    Scale,
    Weighted,
    Why,
    at_level,
    contrast,
    exact_sum,
    independent_share,
    items_error,
)
from recstudy.evidence.fits import MIN_SEEDS_UNBOUNDED
from recstudy.programs.base import ItemScores, Program
from recstudy.programs.metric import METRICS
from recstudy.records.runs import Row, distinct
from recstudy.report.names import join_labels, metric
from recstudy.report.parts import shown_metrics
from recstudy.report.study_records import StudyRecords

MAX_RUNS = 100  # runs whose answers are read for one table or fit: 2 s


def item_scores(
    records: StudyRecords, runs: Sequence[Row], name: str
) -> tuple[ItemScores | None, tuple[str, ...]]:
    """Return the scores of all runs on each test item, and why saved answers cannot be read.

    The scores are None if the metric is not a mean over items, or if the runs did not save their answers to
    the same complete test set.
    """
    if runs and all(name in run.item_scores for run in runs):
        scores_of_runs = [run.item_scores[name] for run in runs]
        shared_items = [
            item for item in scores_of_runs[0] if all(item in scores for scores in scores_of_runs)
        ]
        if len(shared_items) < 2:
            return None, ()
        matrix = np.array([[scores[item] for item in shared_items] for scores in scores_of_runs], dtype=float)
        return ItemScores(np.arange(len(shared_items)), matrix, None), ()
    if name not in METRICS or METRICS[name].each is None or not runs:
        return None, ()
    results: list[ItemScores | str | None] = []
    for run in runs:
        file = records.results.run(run.id).answers
        time = file.lstat().st_mtime_ns if os.path.lexists(file) else None
        results.append(None if time is None else _read_scores(records.program, file, time, name))
    damages = tuple(result for result in results if isinstance(result, str))
    scores = [result for result in results if isinstance(result, ItemScores)]
    if len(scores) < len(results):
        return None, damages
    checksums = {run.provenance.data_checksum for run in runs} - {""}
    # Scores can be paired by item only if all runs were tested on the same items in the same order.
    if len(checksums) > 1 or any(not np.array_equal(score.rows, scores[0].rows) for score in scores):
        return None, damages
    return scores[0]._replace(scores=np.array([score.scores for score in scores], dtype=np.float64)), ()


@lru_cache(maxsize=256)
def _read_scores(program: Program, file: Path, changed: int, name: str) -> ItemScores | str | None:
    """Return a run's scores, None if its answers are incomplete or of another task, or the damage in words.

    `changed` is the file's time of modification, so that a changed file is not taken from the cache.
    """
    try:
        return program.item_scores(file, name)
    except Exception as error:  # a damaged archive raises nearly any error
        text = str(error) if isinstance(error, StorageError) else f"{type(error).__name__}: {error}"
        return " ".join(text.replace(f"{file.parents[2]}/", "").split())


AT_TEST = (  # metrics that depend on `train.at_test`; no other metric does
    "noisy_exact_accuracy",
    "any_exact_accuracy",
    "pass_at",
    "voted_exact_accuracy",
    "any_copy_exact_accuracy",
    "flipped_puzzles",
)
DEFAULT_ITEMS = 1000  # size of a test split if no run states it
SPLIT = (
    "some seeds learned and others did not, so the mean has no interval; brackets have the exact interval of"
    " the share of seeds that learned"
)
MAY_SPLIT = "some seeds of other variants did not learn, so these few seeds may all be of one kind"
WHY_NOTES: dict[Why | None, str] = {Why.SPLIT: SPLIT, Why.MAY_SPLIT: MAY_SPLIT}
WIDE_SPREAD = "standard deviation several times that of the other variants"
UNSEEN_SPLIT = (
    "Fewer than five seeds of a metric without bounds cannot show that some runs fail. State"
    " success_threshold"
)
SHARED = "all seeds share {}, so intervals do not include its variance: {}"
Fits = Mapping[int, tuple[Fit, int]]  # variant -> its fit, and its key there


def scale_of(name: str, runs: Sequence[Row]) -> Scale:
    """Return the scale of a metric: angles for a share of correct answers, logarithms for losses and times.

    The number of independent items of a share counts copies and trajectories of a puzzle as one.
    """
    definition = metric(name.partition("@")[0])
    low, high = definition.bounds or (-inf, inf)
    if definition.share:
        # Copies and trajectories of a puzzle are no independent items and count as one.
        repeated = name.partition(".")[0] in AT_TEST
        items = max((len(run.item_scores.get(name, ())) for run in runs), default=0) or definition.items
        items = items or max((_questions(run, repeated) for run in runs), default=0)
        return Scale(low, high, "share", items or DEFAULT_ITEMS, definition.sign, items > 0)
    smaller = (definition.better == "lower" or definition.timed) and not definition.bounds
    positive = bool(runs) and all((run.value(name) or 0.0) > 0 for run in runs)
    return Scale(low, high, "log" if smaller and positive else "linear", sign=definition.sign)


def _questions(run: Row, repeated: bool) -> int:
    """Return the number of independent items of a run's shares; 0 if the run does not state it.

    Generated puzzles are never copies of each other: the groups of their data sets are classes that keep
    training and test apart.
    """
    answers = run.result_or_empty.answers
    if answers is not None and run.result_or_empty.provenance.synthetic:
        answers = replace(answers, draws=None)  # records before 2026-11-26 counted them
    return 0 if answers is None else answers.count(repeated)


def scored_runs(runs: Sequence[Row], name: str) -> list[Row]:
    """Return the runs that count in a mean of this metric: finished runs with a value.

    A diverged run also counts if the metric follows from the config.
    """
    statuses = ("done", "diverged") if metric(name).computed else ("done",)
    return [run for run in runs if run.status in statuses and run.value(name) is not None]


def seeds_of(records: StudyRecords, index: int, name: str) -> list[Row]:
    """Return the runs of a variant that repeat each other. In a search, these are the fresh seeds alone."""
    return scored_runs(records.split_runs(index)[1], name)


def fits_of(records: StudyRecords, name: str) -> Fits:
    """Return the fit of a metric for each variant: one fit over all variants of the same data and protocol.

    A metric that follows from the config has no fit. Variants with the same runs, such as an ablation that
    changes nothing, count once.
    """

    def fit_variants() -> Fits:
        groups: dict[object, dict[int, list[Row]]] = {}
        for index in range(0 if metric(name).computed else len(records.variants)):
            if runs := seeds_of(records, index, name):
                groups.setdefault(protocol(records, index), {})[index] = runs
        threshold = records.plan.success_threshold.get(name.partition("@")[0])
        fits: dict[int, tuple[Fit, int]] = {}
        for group in groups.values():
            first_with_runs: dict[tuple[str, ...], int] = {}
            # Variants with the same runs share a key, so that their runs count once.
            keys = {index: first_with_runs.setdefault(_ids(runs), index) for index, runs in group.items()}
            distinct_runs = {key: group[key] for key in dict.fromkeys(keys.values())}
            scores = {key: [run.number(name) for run in runs] for key, runs in distinct_runs.items()}
            scale = scale_of(name, [run for runs in group.values() for run in runs])
            floor = _floor(records, name, scale, list(distinct_runs.values()))
            results = {key: _item_result(runs, name) for key, runs in distinct_runs.items()}
            item_results = {key: result for key, result in results.items() if result}
            fit = Fit(scores, scale, threshold, floor, item_results, records.plan.overlap)
            fits |= {index: (fit, key) for index, key in keys.items()}
        return fits

    return records.compute_once(("fits", name), fit_variants)


def _item_result(runs: Sequence[Row], name: str) -> ItemResult | None:
    """Return the result of a single imported run on test items; None for several runs or without items."""
    if len(runs) > 1:
        return None
    if len(scores := runs[0].item_scores.get(name, {})) > 1:
        return ItemResult(items_error([scores], [1.0]), len(scores), scores)
    error = runs[0].errors.get(name)
    return ItemResult(error, metric(name).items or 0) if error else None


def _floor(records: StudyRecords, name: str, scale: Scale, groups: Sequence[Sequence[Row]]) -> float:
    """Return the least variance of one run on the scale: the noise of independent answers.

    It is estimated from the saved answers of the first variants, and 0 without any.
    """
    if scale.kind != "share":
        return 0.0
    scores, count = [], 0
    for runs in groups:
        if len(runs) == 1:
            continue
        count += len(runs)
        if count > MAX_RUNS:
            break
        items, _ = item_scores(records, runs, name)
        if items is not None:
            scores.append((items.scores - scale.low) / (scale.high - scale.low))
    # On the angle scale, the share of correct answers among N independent items has the variance 1 / (4 N).
    return independent_share(scores) / (4 * scale.items) if scores else 0.0


def protocol(records: StudyRecords, index: int) -> object:
    """Return what variants must have in common to share a fit: block, leaks, selection and data settings."""
    selection = repr(records.configs[index].get("train.selection"))
    return records.blocks[index], records.leaks(index), selection, records.data_settings[index]


def weighted_mean(records: StudyRecords, index: int, name: str) -> Weighted | None:
    """Return a variant's mean for a contrast; None without a value."""
    fit, key = fits_of(records, name).get(index, (None, index))
    return fit.weighted(key) if fit else None


def estimates_of(records: StudyRecords, runs: Sequence[Row], name: str) -> tuple[Estimate, Estimate]:
    """Return the mean of some runs with its interval, and the interval of one more run.

    - The seeds of one variant use the fit of the metric.
    - The mean of several variants uses the variances within them, because the distance between variants is no
      error of their mean.
    - Other runs, such as those of a search or with values from outside, have a fit of their own.
    """
    values: dict[int, list[Row]] = {}
    for run in runs:
        values.setdefault(run.variant, []).append(run)
    # a number such as a parameter count has no variance
    if metric(name).computed and runs and len({run.number(name) for run in runs}) == 1:
        estimate = Estimate(runs[0].number(name), n=len(runs), why=Why.NO_SPREAD)
        return estimate, estimate
    fits = fits_of(records, name)

    def has_fit(index: int) -> bool:
        return index in fits and _ids(values[index]) == _ids(seeds_of(records, index, name))

    if not runs or any(name in run.added for run in runs) or not all(map(has_fit, values)):
        scores = {0: [run.number(name) for run in runs]}
        own_fit = Fit(scores, scale_of(name, runs), overlap=records.plan.overlap)
        return own_fit.estimate(0), own_fit.prediction(0)
    if len(values) == 1:
        fit, key = fits[runs[0].variant]
        return fit.estimate(key), fit.prediction(key)
    mean = mean_over_variants(
        records, runs, name, {index: len(values[index]) / len(runs) for index in values}
    )
    # one more run has the variance of a run plus that of the mean: n + 1 times the latter
    error = None if mean.error is None else mean.error * sqrt(len(runs) + 1)
    return mean, at_level(replace(mean, error=error), mean.level)


def mean_over_variants(
    records: StudyRecords, runs: Sequence[Row], name: str, weights: Mapping[int, float]
) -> Estimate:
    """Return the weighted mean over variants of some runs, with the variances within the variants."""
    terms = []
    for index, weight in weights.items():
        by_seed = {run.seed: run.number(name) for run in runs if run.variant == index}
        terms.append((weight, weighted_mean(records, index, name), by_seed))
    return replace(contrast_of(records, terms), n=len(runs))


def is_within_seeds(records: StudyRecords, estimate: Estimate) -> bool:
    """Return whether a contrast, given that of the means, is taken within the seeds, as in a paired study."""
    # why the contrast of means needs care, or has no interval, although there is one within the seeds
    whys = (None, Why.NO_SPREAD, Why.MAY_SPLIT, Why.ONE_AT_BOUND)
    return records.plan.paired and not estimate.is_over_items and estimate.why in whys


def within_seeds(
    records: StudyRecords, terms: Sequence[tuple[float, Mapping[int, float]]], why: Why | None
) -> Estimate:
    """Return the mean of a contrast within each seed that all variants have.

    Args:
        records: The study's records.
        terms: Weight and value by seed of each variant.
        why: Why the contrast of the means needs care.
    """
    seeds = set.intersection(*(set(by_seed) for _, by_seed in terms))
    sums = [exact_sum(weight * by_seed[seed] for weight, by_seed in terms) for seed in sorted(seeds)]
    estimate = replace(Fit({0: sums}, overlap=records.plan.overlap).estimate(0), df_per_seed=1)
    if estimate.why is Why.EQUAL:  # equal differences of seeds that differ
        return replace(estimate, why=Why.NO_SPREAD)
    return estimate if estimate.error is None else replace(estimate, why=why)


def contrast_of(
    records: StudyRecords, terms: Sequence[tuple[float, Weighted | None, Mapping[int, float]]]
) -> Estimate:
    """Return the weighted sum of the means of variants.

    An average over several variants of a table is wider if the values of one seed vary together. A table may
    have several lines of one trained model, such as its scores on several benchmarks. The sum of each side
    within a seed has a variance that holds whether or not the lines are of one model. It counts if it is
    larger than that of independent runs.

    Args:
        records: The study's records.
        terms: Weight, mean, and value by seed of each variant.
    """
    estimate = contrast([(weight, mean) for weight, mean, _ in terms])
    sides = [[term for term in terms if sign * term[0] > 0] for sign in (1, -1)]
    if not records.plan.imported or max(map(len, sides)) < 2:
        return estimate
    parts = []
    for side in filter(None, sides):
        seeds = set.intersection(*(set(by_seed) for *_, by_seed in side))
        sums = [sum(weight * by_seed[seed] for weight, _, by_seed in side) for seed in sorted(seeds)]
        if len(sums) > 1:
            parts.append((variance(sums) / len(sums), len(sums) - 1))
    total = sum(side_variance for side_variance, _ in parts)
    if estimate.error is None or total <= estimate.error**2:
        return estimate
    df = total**2 / sum(side_variance**2 / df for side_variance, df in parts)
    return at_level(replace(estimate, error=sqrt(total), df=df), estimate.level)


def are_over_items(records: StudyRecords) -> bool:
    """Return whether intervals are over test items: single runs with their errors over items."""
    runs = distinct(records.rows)
    has_items = any(run.item_scores or run.errors for run in runs)
    return has_items and len({run.variant for run in runs}) == len(runs)


def spread_notes(records: StudyRecords, variants: Sequence[int], names: Sequence[str]) -> list[str]:
    """Return notes on intervals: seeds of two kinds, unusually high variance, and what all seeds share."""
    notes: dict[tuple[str, str], list[str]] = {}  # (text, variants) -> metrics
    names = [name for name in names if not metric(name).computed]
    for name in names:
        labels: dict[str, list[str]] = {}
        for index, (fit, key) in fits_of(records, name).items():
            text = WHY_NOTES.get(fit.why(key)) or (WIDE_SPREAD if fit.has_wide_spread(key) else "")
            if text and index in variants:
                labels.setdefault(text, []).append(records.variants[index].label)
        for text, marked in labels.items():
            notes.setdefault((text, join_labels(marked, "; ", 4)), []).append(metric(name).title)
    shared: dict[str, list[str]] = {}  # a component that is trained once for all seeds -> variants
    for index in variants if names else ():
        config, label = records.configs[index], records.variants[index].label
        if any(path.startswith("model.fuselip.") for path in config):
            shared.setdefault("one FuseLIP encoder on one image tokenizer", []).append(label)
        elif "model.tokenizer_epochs" in config and not config.get("model.files"):
            shared.setdefault("one image tokenizer", []).append(label)
    lines = [f"{text}: {marked} ({join_labels(titles, '; ', 4)})" for (text, marked), titles in notes.items()]
    return lines + [SHARED.format(part, join_labels(labels, "; ", 4)) for part, labels in shared.items()]


def unseen_split_notes(records: StudyRecords) -> list[str]:
    """Return the note that a few seeds of an unbounded metric cannot show that some runs fail."""
    titles = []
    for name in shown_metrics(records):
        definition, fits = metric(name), fits_of(records, name)
        is_unbounded = definition.better and not definition.bounds and not definition.timed
        counts = [len(fit.scores[key]) for fit, key in fits.values() if fit.success_threshold is None]
        if is_unbounded and any(1 < count < MIN_SEEDS_UNBOUNDED for count in counts):
            titles.append(definition.title)
    return [f"{UNSEEN_SPLIT} ({join_labels(titles, '; ', 4)})."] if titles else []


def _ids(runs: Sequence[Row]) -> tuple[str, ...]:
    return tuple(run.id for run in runs)
