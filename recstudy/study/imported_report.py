"""The report of a study of imported runs: the parts of its page."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from recstudy.base.values import canonical
from recstudy.papers import Target
from recstudy.programs.table import TableProgram
from recstudy.records.study_schema import ImportedRun
from recstudy.report import Curve, Differences, Part, Table
from recstudy.study.design import Variant

TABLE_METRICS = 6  # metrics in the table
MANY_VARIANTS, BEST_VARIANTS = 500, 50  # variants of which the table shows the best 50 alone
FIGURE_POINTS = 1000  # levels along a figure
FEW_VARIANTS = 12  # variants that are compared with the first one, and lines of a figure


def report_of(
    program: TableProgram,
    runs: Iterable[ImportedRun],
    variants: Mapping[str, Variant],
    levels: Mapping[str, Sequence[Any]],
    targets: tuple[Target, ...],
    has_differences: bool,
) -> list[Part]:
    """Return a table of the metrics, figures over one or two settings, and differences."""
    score, metric = next(iter(program.metrics.items()))
    table = Table("results", metrics=tuple(program.metrics)[:TABLE_METRICS], targets=targets)
    if len(variants) > MANY_VARIANTS:
        values: dict[str, list[float]] = {}
        for run in runs:
            if run.status == "done" and (value := run.metrics.get(score)) is not None:
                values.setdefault(canonical(run.settings), []).append(metric.sign * value)
        best = sorted(values, key=lambda key: fmean(values[key]), reverse=True)[:BEST_VARIANTS]
        title = f"{metric.title}: the best {BEST_VARIANTS} of {len(variants):,} variants, by their means"
        table = replace(table, title=title, where={"variant": [variants[key].label for key in best]})
    parts: list[Part] = [table]
    for axis, axis_levels in levels.items() if len(levels) <= 2 else ():
        other_axes = [other_axis for other_axis in levels if other_axis != axis]
        if (
            2 < len(axis_levels) <= FIGURE_POINTS
            and all(map(is_number, axis_levels))
            and all(len(levels[other_axis]) <= FEW_VARIANTS for other_axis in other_axes)
        ):
            parts.append(Curve(f"by_{axis}", x=axis, y=score, by=next(iter(other_axes), None)))
    if has_differences:
        parts.append(Differences(metric=score, base=next(iter(variants.values())).label, targets=targets))
    return parts


def is_number(level: Any) -> bool:
    """Return whether a level is a number."""
    return isinstance(level, int | float) and not isinstance(level, bool)
