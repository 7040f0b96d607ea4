"""Choose the variants that a figure shows, rank its rows, and name the runs in its data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recstudy.base.lazy import pd
from recstudy.evidence import Kind
from recstudy.programs.metric import METRICS
from recstudy.records import Json
from recstudy.records.runs import Row
from recstudy.report.family import study_family
from recstudy.report.fits import scored_runs
from recstudy.report.names import inline, metric
from recstudy.report.study_records import StudyRecords

MAX_LINES = 30  # lines of a figure; all but the first `MAX_CURVES` are grey
MAX_CURVES = 8  # lines with a colour and a name


def run_columns(records: StudyRecords, run: Row) -> Json:
    """Return the columns that name a run in a figure's data."""
    return {
        "variant": run.variant,
        "label": run.label,
        "seed": run.seed,
        "synthetic": run.variant in records.synthetic,
        "data": records.variants[run.variant].data,
    }


def ranked(data: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the rows that have a value of this metric, from the best down."""
    return data.dropna(subset="value").sort_values("value", ascending=metric(name).sign < 0, kind="stable")


def shown_variants(
    records: StudyRecords, limit: int = MAX_LINES, subset: Iterable[int] | None = None
) -> list[int]:
    """Return the best variants in the study's order. Variants that leak rank last.

    Args:
        records: The records of the study.
        limit: The number of variants.
        subset: The variants to choose from; by default all.
    """
    name = _ranking_metric(records)

    def rank(index: int) -> tuple[bool, float]:
        scores = [run.number(name) for run in scored_runs(records.by_variant[index], name)]
        mean = METRICS[name].sign * sum(scores) / len(scores) if scores else float("-inf")
        return not records.leaks(index), mean

    candidates = records.indices if subset is None else subset
    return sorted(sorted(candidates, key=rank, reverse=True)[:limit])


def named_variants(records: StudyRecords, variants: Sequence[int]) -> list[int]:
    """Return the variants with a colour and a name: those that claims compare, then the best, at most
    `MAX_CURVES`.
    """
    rows = [row for part in study_family(records).parts.values() for row in part.rows]
    claimed = [index for row in rows if row.kind is Kind.CLAIM for index in row.variants if index in variants]
    named_indices = [*dict.fromkeys(claimed)][:MAX_CURVES]
    other_indices = [index for index in variants if index not in named_indices]
    return [*named_indices, *shown_variants(records, MAX_CURVES - len(named_indices), other_indices)]


def cut_note(records: StudyRecords, count: int, limit: int = MAX_LINES) -> tuple[str, ...]:
    """Return a note if `shown_variants` leaves out some of `count` variants."""
    if count <= limit:
        return ()
    return (f"the {limit} best of {count:,} variants by {inline(_ranking_metric(records))}",)


def _ranking_metric(records: StudyRecords) -> str:
    """Return the first ranking metric that a run has a value of."""
    for name, definition in METRICS.items():
        if definition.ranks and any(run.value(name) is not None for run in records.rows):
            return name
    return "top1_accuracy"
