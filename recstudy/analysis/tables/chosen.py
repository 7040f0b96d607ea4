"""What a table shows of a study: its metrics, its variants, and whether their numbers may stand beside each other."""

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase

from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.names import plain
from recstudy.analysis.spec import Table
from recstudy.errors import ConfigError


def metrics_of(records: StudyRecords, spec: Table, variants: Sequence[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The metrics with `auroc.*` written out, and a warning for each pattern that nothing matches yet."""
    measured = [*records.measured(variants), *_unavailable(records, variants)]
    names: list[str] = []
    unmatched = []
    for name in spec.metrics:
        found = [known for known in measured if fnmatchcase(known, name)] if "*" in name else [name]
        names += found
        unmatched += [] if found else [f"no run has a metric {name} yet"]
    if spec.across and measured:
        names = [name for name in names if name in measured]
    if not names and spec.rows is not None and spec.columns is not None:
        raise ConfigError(f"table {spec.name!r} has nothing to show: {', '.join(unmatched)}")
    return tuple(dict.fromkeys(names)), tuple(unmatched)


def _unavailable(records: StudyRecords, variants: Sequence[int]) -> list[str]:
    """The metrics that some run says it could not have."""
    return list(
        dict.fromkeys(name for index in variants for run in records.by_variant[index] for name in run.get("unavailable", ()))
    )


def with_any(records: StudyRecords, variants: Sequence[int], metrics: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    """The variants without those whose finished runs have none of the metrics, and a note that names the others."""
    finished = {index: [run for run in records.by_variant[index] if run["status"] == "done"] for index in variants}
    none = [
        index
        for index, runs in finished.items()
        if runs and not any(name in run or name in run["unavailable"] for run in runs for name in metrics)
    ]
    labels = ", ".join(records.variants[index]["label"] for index in none)
    return [index for index in variants if index not in none], ((f"left out, without these metrics: {labels}",) if none else ())


def pooled(records: StudyRecords, spec: Table, variants: Sequence[int]) -> tuple[str, ...]:
    """Says so when a cell averages over variants that differ in more than the table's two axes."""
    places = Counter((records.level(index, spec.rows or ""), records.level(index, spec.columns or "")) for index in variants)
    if max(places.values(), default=1) == 1:
        return ()
    others = [axis for axis in records.plan["axes"] if axis not in (spec.rows, spec.columns) and axis not in spec.where]
    return (f"each cell pools the levels of {', '.join(others) or 'several variants'}",)


def one_task(records: StudyRecords, variants: Sequence[int], axis: str | None) -> bool:
    """Whether the variants at each level of the axis (without one: all of them) were measured on the same data."""
    data = {(records.variants[index]["data"], plain(records.level(index, axis)) if axis else None) for index in variants}
    return len(data) == len({level for _, level in data})
