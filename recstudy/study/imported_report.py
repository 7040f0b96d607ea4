"""The report of a study of imported runs: the parts of its page."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.values import canonical, is_number
from recstudy.papers import Target
from recstudy.programs.table import TableProgram
from recstudy.records.study_schema import ImportedRun
from recstudy.report import Differences, Effects, Part, Ranks, Table
from recstudy.report.figures.lead import figure_by
from recstudy.report.figures.ranks import MIN_RANKED_BLOCKS
from recstudy.report.margins import find_margins
from recstudy.report.names import is_selected, value_text
from recstudy.study.design import Variant

TABLE_METRICS = 6  # metrics in the table
MANY_VARIANTS, BEST_VARIANTS = 500, 50  # variants of which the table shows the best 50 alone
FEW_VARIANTS = 12  # variants that are compared with one of them
Levels = Mapping[str, Sequence[Any]]  # axis -> its levels


def report_of(
    program: TableProgram,
    runs: Iterable[ImportedRun],
    variants: Mapping[str, Variant],
    levels: Levels,
    blocks: Collection[str],
    base: Mapping[str, Any],
    targets: tuple[Target, ...],
) -> list[Part]:
    """Return a table of the metrics, a figure over one or two settings, and the comparison of the settings.

    Args:
        program: The program of the runs.
        runs: The imported runs.
        variants: Canonical settings -> the variant.
        levels: The axes that do not follow from other axes.
        blocks: The axes that are blocks.
        base: Axis -> the level with which its other levels are compared; by default the best.
        targets: Published values.
    """
    score, metric = next(iter(program.metrics.items()))
    groups = [axis for axis in levels if axis in blocks]
    group = groups[0] if len(groups) == 1 < len(levels) else None
    axes = [axis for axis in next(iter(variants.values())).levels if axis != group]
    metrics = tuple(program.metrics)[:TABLE_METRICS]
    table = Table(
        "results",
        metrics=metrics,
        group=group,
        settings=tuple(axes),
        split=True,
        ranked=True,
        targets=targets,
    )
    if len(variants) > MANY_VARIANTS:
        values: dict[str, list[float]] = {}
        for run in runs:
            if run.status == "done" and (value := run.metrics.get(score)) is not None:
                values.setdefault(canonical(run.settings), []).append(metric.sign * value)
        best = sorted(values, key=lambda key: fmean(values[key]), reverse=True)[:BEST_VARIANTS]
        title = f"{metric.title}: the best {BEST_VARIANTS} of {len(variants):,} variants, by their means"
        table = replace(table, title=title, where={"variant": [variants[key].label for key in best]})
    # the factors come before the blocks, and numbers first
    order = sorted(levels, key=lambda axis: (axis in blocks, not all(map(is_number, levels[axis]))))
    places = [{axis: variant.levels[axis] for axis in order} for variant in variants.values()]
    figures = [figure_by("by_factor", score, places, blocks=blocks)] if len(variants) > 1 else []
    comparison = _comparison(score, list(variants.values()), levels, blocks, base)
    return [table, *figures, *comparison]


def _comparison(
    score: str,
    variants: Sequence[Variant],
    levels: Levels,
    blocks: Collection[str],
    base: Mapping[str, Any],
) -> list[Part]:
    """Return the differences between the levels of a grid, or of a few variants from one of them."""
    axes = [axis for axis in levels if axis not in blocks]
    places = {i: {axis: variant.levels[axis] for axis in levels} for i, variant in enumerate(variants)}
    is_grid = len(variants) <= MANY_VARIANTS and any(find_margins(places, axis)[1] for axis in axes)
    if is_grid and (len(axes) > 1 or not blocks):
        return [Effects("differences", metric=score, axes=tuple(axes), base=dict(base))]
    methods = {canonical([variant.levels[axis] for axis in axes]) for variant in variants}
    if not 1 < len(methods) <= FEW_VARIANTS:
        return []
    labels = [variant.label for variant in variants if is_selected(base, variant.levels.get)]
    if not labels:
        stated_levels = [f"{axis}={value_text(level)}" for axis, level in base.items()]
        raise ConfigError(f"--base must be levels of one variant, but none has {choices(stated_levels)}")
    block_levels = {canonical([variant.levels[axis] for axis in blocks]) for variant in variants}
    ranks = [Ranks(metric=score)] * (len(block_levels) >= MIN_RANKED_BLOCKS)
    return [Differences(metric=score, base=labels[0]), *ranks]


def base_levels(levels: Levels, stated_levels: Sequence[str]) -> dict[str, Any]:
    """Return axis -> the level with which its other levels are compared: as stated, or such as `baseline`.

    Raises:
        ConfigError: A stated level, such as `sgd` or `lr=0.001`, is no level of one axis.
    """
    words: dict[str, list[tuple[str, Any]]] = {}  # a level in words -> the axes that have it
    base: dict[str, Any] = {}
    for axis, axis_levels in levels.items():
        for level in axis_levels:
            base |= {axis: level} if str(level).lower().startswith("baseline") else {}
            for text in (value_text(level), f"{axis}={value_text(level)}"):
                words.setdefault(text, []).append((axis, level))
    for text in stated_levels:
        if len(words.get(text, ())) != 1:
            have = [name for name in words if "=" in name]
            raise ConfigError(f"--base {text!r} must be one of {choices(have)}.{nearest(text, have)}")
        base |= dict(words[text])
    return base
