"""From records to the fit of each metric: whose seeds are judged together, on which scale, and what tables
say of it.

The scores of each test item are from the answers that runs have kept. Shapes: n runs, M test items.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from recstudy.errors import StorageError
from recstudy.evidence import Estimate, Fit, Scale, Weighted, Why, at_level, contrast, independent_share
from recstudy.lazy import np
from recstudy.programs.base import Program
from recstudy.programs.metric import METRICS, NotAvailable
from recstudy.records.runs import Row
from recstudy.report.caveats import join_labels
from recstudy.report.names import metric
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import AT_TEST

if TYPE_CHECKING:
    import numpy.typing as npt

MAX_RUNS = 100  # whose answers are read for one table or fit: 2 s


class ItemScores(NamedTuple):
    """Scores of the items of one test set.

    Args:
        rows: (M,) of the test set.
        scores: (n, M), or (M,) of one run.
        clusters: (M,) the patient of each item, whose items are one draw; None without patients.
    """

    rows: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]
    clusters: npt.NDArray[np.int64] | None


def item_scores(
    records: StudyRecords, runs: Sequence[Row], name: str
) -> tuple[ItemScores | None, tuple[str, ...]]:
    """Return the scores of all runs on each test item, and why saved answers cannot be read.

    There are none if the metric is no mean over items, or if the runs did not keep their answers to the same,
    whole test set.
    """
    if name not in METRICS or METRICS[name].each is None or not runs:
        return None, ()
    files = [records.results.run(run.id).answers for run in runs]
    program = records.program
    reads = [
        _read_scores(program, file, file.lstat().st_mtime_ns, name) if os.path.lexists(file) else None
        for file in files
    ]
    damages = tuple(damage for damage in reads if isinstance(damage, str))
    scores = [read for read in reads if isinstance(read, ItemScores)]
    checksums = {run.provenance.data_checksum for run in runs} - {""}
    if (
        len(checksums) > 1
        or len(scores) < len(reads)
        or any(not np.array_equal(score.rows, scores[0].rows) for score in scores)
    ):
        return None, damages
    return scores[0]._replace(scores=np.array([score.scores for score in scores], dtype=np.float64)), ()


@lru_cache(maxsize=256)
def _read_scores(program: Program, file: Path, changed: int, name: str) -> ItemScores | str | None:
    """Return a run's scores; None if its file is cut or its task has other answers; the reason if it is
    damaged.
    """
    score = METRICS[name].each
    try:
        saved = program.answers(file)
        if saved is None or saved.cut or score is None:
            return None
        return ItemScores(saved.answers.rows, score(saved.answers).astype(np.float32), saved.answers.groups)
    except NotAvailable:
        return None
    except Exception as error:  # arrays that do not go together raise nearly anything
        why = f"{type(error).__name__}: {error}" if not isinstance(error, StorageError) else str(error)
        return " ".join(why.replace(f"{file.parents[2]}/", "").split())


UNKNOWN = 1000  # questions of a test split whose size no run states
SPLIT = (
    "some seeds learned and others did not, so there is no interval over both; in brackets the exact interval"
    " of the share"
)
MAY_SPLIT = "seeds of other variants split, so these few seeds may all be of one kind"
WHY_NOTES: dict[Why | None, str] = {Why.SPLIT: SPLIT, Why.MAY_SPLIT: MAY_SPLIT}
WIDE_SPREAD = "spread several times that of the others"
SHARED = "the seeds share {}, so intervals leave out what it adds: {}"
Fits = Mapping[int, tuple[Fit[int], int]]  # variant -> its fit, and the variant that stands for it there


def scale_of(name: str, runs: Sequence[Row]) -> Scale:
    """Return the scale of a metric: angles for a share of right answers, logarithms for losses and times.

    A share is one of independent draws: copies and trajectories of a puzzle are one.
    """
    definition = metric(name.partition("@")[0])
    low, high = definition.bounds or (-inf, inf)
    if definition.share:
        repeated = name.partition(".")[0] in AT_TEST
        items = definition.items or max((_questions(run, repeated) for run in runs), default=0) or UNKNOWN
        return Scale(low, high, "share", items)
    smaller = (definition.better == "lower" or definition.timed) and not definition.bounds
    positive = bool(runs) and all((run.value(name) or 0.0) > 0 for run in runs)
    return Scale(low, high, "log" if smaller and positive else "linear")


def _questions(run: Row, repeated: bool) -> int:
    """Return how many independent questions a run's shares are of; 0 where it states none.

    No generated puzzle is a copy of another: the groups of their sets are classes, which keep training and
    test apart.
    """
    answers = run.found.answers
    if answers is not None and run.found.provenance.synthetic:
        answers = replace(answers, draws=None)  # which records before 2026-11-26 counted
    return 0 if answers is None else answers.count(repeated)


def scored_runs(runs: Sequence[Row], name: str) -> list[Row]:
    """Return those that count in a mean of this metric: finished, and with it. What is computed a diverged
    one has too.
    """
    statuses = ("done", "diverged") if metric(name).computed else ("done",)
    return [run for run in runs if run.status in statuses and run.value(name) is not None]


def seeds_of(records: StudyRecords, index: int, name: str) -> list[Row]:
    """Return the runs of a variant whose values are one another's repetitions: of a search the fresh seeds
    alone.
    """
    return scored_runs(records.by_variant[index][1 if records.plan.search is not None else 0 :], name)


def fits_of(records: StudyRecords, name: str) -> Fits:
    """Return the fit of a metric for each variant, one over all of the same data and protocol.

    What follows from the config has none. Variants with the same runs, such as an ablation that changes
    nothing, count once.
    """

    def fitted() -> Fits:
        groups: dict[object, dict[int, list[Row]]] = {}
        for index in range(0 if metric(name).computed else len(records.variants)):
            if runs := seeds_of(records, index, name):
                groups.setdefault(protocol(records, index), {})[index] = runs
        fits: dict[int, tuple[Fit[int], int]] = {}
        for group in groups.values():
            first: dict[tuple[str, ...], int] = {}
            keys = {
                index: first.setdefault(_ids(variant_runs), index) for index, variant_runs in group.items()
            }
            distinct_runs = {key: group[key] for key in dict.fromkeys(keys.values())}
            scores = {
                key: [run.number(name) for run in variant_runs] for key, variant_runs in distinct_runs.items()
            }
            scale = scale_of(name, [run for variant_runs in group.values() for run in variant_runs])
            floor = _floor(records, name, scale, list(distinct_runs.values()))
            fit: Fit[int] = Fit(
                scores, scale, records.plan.success_threshold.get(name.partition("@")[0]), floor
            )
            fits |= {index: (fit, key) for index, key in keys.items()}
        return fits

    return records.compute_once(("fits", name), fitted)


def _floor(records: StudyRecords, name: str, scale: Scale, groups: Sequence[Sequence[Row]]) -> float:
    """Return the least variance of one run on the scale, from the kept answers of the first variants; 0
    without any.
    """
    if scale.kind != "share":
        return 0.0
    scores, count = [], 0
    for runs in (runs for runs in groups if len(runs) > 1):
        count += len(runs)
        if count > MAX_RUNS:
            break
        items, _ = item_scores(records, runs, name)
        if items is not None:
            scores.append((items.scores - scale.low) / (scale.high - scale.low))
    return independent_share(scores) / (4 * scale.items) if scores else 0.0


def protocol(records: StudyRecords, index: int) -> object:
    """Return what variants must share for their seeds to be judged together."""
    selection = repr(records.configs[index].get("train.selection"))
    return records.variants[index].data, records.leaks(index), selection, records.data_settings[index]


def weighted_mean(records: StudyRecords, index: int, name: str, margin: float = 0.0) -> Weighted | None:
    """Return a variant's mean as a contrast takes it, of a question of no difference with its margin; None
    without a value.
    """
    fit, key = fits_of(records, name).get(index, (None, index))
    return fit.weighted(key, margin) if fit else None


def estimates_of(records: StudyRecords, runs: Sequence[Row], name: str) -> tuple[Estimate, Estimate]:
    """Return the mean of some runs with its interval, and where one more run would lie.

    The seeds of one variant go by the metric's fit. Of several variants the mean goes by the seeds within
    them, for how far variants are apart is no error of their mean. Other runs (a search's own, values that
    follow from others) stand alone.
    """
    values: dict[int, list[Row]] = {}
    for run in runs:
        values.setdefault(run.variant, []).append(run)
    # a count has no spread
    if metric(name).computed and runs and len({run.number(name) for run in runs}) == 1:
        estimate = Estimate(runs[0].number(name), n=len(runs), why=Why.NO_SPREAD)
        return estimate, estimate
    fits = fits_of(records, name)
    fitted_variants = [
        index
        for index in values
        if index in fits and _ids(values[index]) == _ids(seeds_of(records, index, name))
    ]
    if (
        not runs
        or metric(name).computed
        or any(name in run.added for run in runs)
        or len(fitted_variants) < len(values)
    ):
        fit_of_runs: Fit[int] = Fit({0: [run.number(name) for run in runs]}, scale_of(name, runs))
        return fit_of_runs.estimate(0), fit_of_runs.prediction(0)
    if len(values) == 1:
        fit, key = fits[fitted_variants[0]]
        return fit.estimate(key), fit.prediction(key)
    terms = [(len(values[index]) / len(runs), weighted_mean(records, index, name)) for index in values]
    mean = replace(contrast(terms), n=len(runs))
    error = None if mean.error is None else mean.error * sqrt(len(runs) + 1)
    return mean, at_level(replace(mean, error=error), mean.level)


def spread_notes(records: StudyRecords, variants: Sequence[int], names: Sequence[str]) -> tuple[str, ...]:
    """Return which seeds split, which variant's spread stands apart, and what the seeds share, so that no
    interval has it.
    """
    notes: dict[tuple[str, str], list[str]] = {}  # (words, variants) -> metrics
    names = [name for name in names if not metric(name).computed]
    for name in names:
        labels: dict[str, list[str]] = {}
        for index, (fit, key) in fits_of(records, name).items():
            words = WHY_NOTES.get(fit.why(key)) or (WIDE_SPREAD if fit.stands_apart(key) else "")
            if words and index in variants:
                labels.setdefault(words, []).append(records.variants[index].label)
        for words, marked in labels.items():
            notes.setdefault((words, join_labels(marked, "; ", 4)), []).append(metric(name).title)
    shared: dict[str, list[str]] = {}  # what is trained once for all seeds of a variant
    for index in variants if names else ():
        config = records.configs[index]
        if any(path.startswith("model.fuselip.") for path in config):
            shared.setdefault("one FuseLIP encoder on one image tokenizer", []).append(
                records.variants[index].label
            )
        elif "model.tokenizer_epochs" in config and not config.get("model.files"):
            shared.setdefault("one image tokenizer", []).append(records.variants[index].label)
    return (
        *(f"{words}: {labels} ({join_labels(titles, '; ', 4)})" for (words, labels), titles in notes.items()),
        *(SHARED.format(component, join_labels(labels, "; ", 4)) for component, labels in shared.items()),
    )


def _ids(runs: Sequence[Row]) -> tuple[str, ...]:
    return tuple(run.id for run in runs)
