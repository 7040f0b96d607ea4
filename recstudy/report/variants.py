"""Which variants a figure shows where there are too many, and the columns that name them."""

from __future__ import annotations

from collections.abc import Iterable

from recstudy.lazy import pd
from recstudy.programs.metric import METRICS
from recstudy.records import Json
from recstudy.records.runs import Row
from recstudy.report.names import inline
from recstudy.report.study_records import StudyRecords

MOST = 30  # lines that a reader still looks at


def add_labels(records: StudyRecords, data: pd.DataFrame) -> pd.DataFrame:
    """Return the data with each variant's `label`, and whether it is `synthetic`."""
    labels = {index: records.variants[index].label for index in data["variant"].unique()}
    return data.assign(label=data["variant"].map(labels), synthetic=data["variant"].isin(records.synthetic))


def run_columns(records: StudyRecords, run: Row) -> Json:
    """Return the columns that name a run in a figure's data."""
    columns = {"variant": run.variant, "label": run.label, "seed": run.seed, "synthetic": run.variant in records.synthetic}
    return {**columns, "data": records.variants[run.variant].data}


def shown_variants(records: StudyRecords, most: int = MOST, among: Iterable[int] | None = None) -> list[int]:
    """Return the best variants in the study's order; a variant that leaks is the worst.

    Args:
        records: of the study.
        most: the number of variants.
        among: the variants to choose from; by default all.
    """
    name = _ranking_metric(records)

    def rank(index: int) -> tuple[bool, float]:
        scores = [run.number(name) for run in records.by_variant[index] if run.done and run.value(name) is not None]
        mean = METRICS[name].sign * sum(scores) / len(scores) if scores else float("-inf")
        return not records.leaks(index), mean

    candidates = range(len(records.variants)) if among is None else among
    return sorted(sorted(candidates, key=rank, reverse=True)[:most])


def cut_note(records: StudyRecords, count: int, most: int = MOST) -> tuple[str, ...]:
    """Say so where `shown_variants` leaves some of `count` variants out."""
    return (f"the {most} best of {count:,} variants by {inline(_ranking_metric(records))}",) if count > most else ()


def _ranking_metric(records: StudyRecords) -> str:
    scores = [name for name, score in METRICS.items() if score.ranks]
    return next((name for name in scores if any(run.value(name) is not None for run in records.rows)), "top1_accuracy")
