"""The report part `Table`: the metrics of a study's variants, with notes.

It has a row per variant, or the layouts of the papers' tables: two axes, groups of rows, and columns of
settings. It returns `TableData`, which `tables/render.py` formats.
"""

import fnmatch
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from pydantic import Field

from recstudy.base.errors import ConfigError, NotYetError
from recstudy.base.values import is_number
from recstudy.evidence import mean_of
from recstudy.report.caveats import caption_facts, leaky_notes, text_notes, undefined_notes
from recstudy.report.cells import cell, damage_notes, rank_rows, with_items
from recstudy.report.claims import QuestionPart
from recstudy.report.fits import spread_notes
from recstudy.report.names import (
    DASH,
    NAMING,
    SPLITS,
    axis_title,
    find_metric,
    improved_metric,
    inline,
    join_texts,
    level_words,
    metric,
    number,
    setting_name,
    value_text,
    varied_axes,
)
from recstudy.report.parts import PARTS, BesidePublished, OfVariants, TablePart, parts_of
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import TableData, TableRow
from recstudy.report.tables.comparisons import (
    improvement_cell,
    improvement_notes,
    mark_best_cells,
    tied_notes,
)
from recstudy.report.targets import Placement, deviation_notes, match_targets

BAND = 0.1  # costs up to a tenth above the least of a group count as equal to it


@PARTS.add("table")
class Table(TablePart, OfVariants, BesidePublished):
    """A table with the mean, 95 % interval and n of each metric, and the published value with a verdict.

    Without `rows`, `columns` and `across`, it has a row per variant and a column per metric.

    Args:
        name: The name of the part and of its files.
        metrics: The metrics to show. `auroc.*` means all recorded metrics whose names begin with `auroc.`.
        rows: With `columns`: the axis of the rows of a table of one metric by two axes.
        columns: The axis of the columns of that table.
        across: Whether to show a row per metric and a column per variant, without metrics that no run has.
        group: An axis such as `data`, whose levels become headings; or a cost such as `gflops` or `params`,
            which groups variants within a tenth of each other. The best is then marked in each group.
        settings: Config fields that become columns before the metrics. The fields of a tuple share a column,
            such as `2/0/2` for the cycles of an HRM's levels.
        split: Whether the columns of `settings` take the place of the variants' labels.
        ranked: Whether the rows are sorted by the first metric, the best first, in each group. By default
            they are, unless the report has claims, differences, effects or published values, or the rows are
            the levels of a number.
        improvement: The levels of the variant that a metric such as `avg_bleu_delta` is about, for example
            `{"model": "MicarVLMoE"}`. The metric is its improvement over the row, in percent of the row's
            `avg_bleu`. Both are means over all runs.
    """

    metrics: tuple[str, ...] = ("top1_accuracy", "params", "gflops")
    rows: str | None = None
    columns: str | None = None
    across: bool = False
    group: str | None = None
    settings: tuple[str | tuple[str, ...], ...] = ()
    improvement: dict[str, Any] = Field(default_factory=dict)  # axis -> level
    split: bool = False
    ranked: bool | None = None
    axes_in = ("rows", "columns", "group", "settings", "improvement")
    metrics_in = ("metrics",)

    @property
    def heading(self) -> str:
        """The title, or the metrics and axes: `Top-1 accuracy by model and batch size`."""
        names = [name.removesuffix(".*") for name in self.metrics]
        results = [name for name in names if not (metric(name).computed or metric(name).timed)]
        # the training score beside the test score has the same name
        splits = {prefix + name for prefix in SPLITS for name in results}
        measured = [name for name in results if name not in splits] or results or names
        titles = [metric(measured[0]).title, *map(inline, measured[1:])] if measured else [self.name]
        several = [*titles[:2], "other metrics"] if len(titles) > 3 else titles
        words = join_texts(", ".join(several[:-1]), several[-1], separator=" and ")
        axes = " and ".join(axis_title(axis) for axis in (self.rows, self.columns) if axis)
        layout = f"by {axes}" if axes else "of each variant"
        return self.title or f"{words} {layout}"

    @property
    def is_crossed(self) -> bool:
        """Whether it shows one metric by two axes."""
        return self.rows is not None and self.columns is not None

    def __post_init__(self) -> None:
        crossed = self.rows is not None or self.columns is not None
        for field in ("group", "settings", "improvement", "ranked"):
            if getattr(self, field) and (self.across or crossed):
                raise ConfigError(
                    f"table {self.name!r}: {field} needs one row per variant, so it cannot be combined with"
                    " rows, columns or across"
                )
        if self.across and crossed:
            raise ConfigError(
                f"table {self.name!r}: across puts metrics in rows, so it cannot be combined with rows or"
                " columns"
            )
        if bool(self.improvement) != any(map(improved_metric, self.metrics)):
            raise ConfigError(
                f"table {self.name!r}: improvement={{AXIS: LEVEL}} and a metric such as top1_accuracy_delta"
                " need each other, but only one of them is given"
            )

    def cells(self, records: StudyRecords) -> TableData:
        """Return the rows and notes of the table.

        Raises:
            ConfigError: `rows`, `columns` or `where` names an axis or level that the study lacks.
            NotYetError: The table has two axes, and no run has any of its metrics yet.
        """
        variants = records.chosen(self.where)
        metrics, warned = metrics_of(records, self, variants)
        spec = replace(self, metrics=metrics)
        notes = improvement_notes(metrics, spec.improvement)
        if cost := find_metric(spec.group or ""):
            limit = f"at most {100 * BAND:g} % above the least of the group"
            notes.insert(0, f"grouped by {cost.heading}: {limit}; the best is marked in each group")
        if spec.across:
            variants, unmeasured_notes = select_measured(records, variants, metrics)
            notes += unmeasured_notes
        placement = match_targets(records, spec.targets, variants, metrics)
        warned = [*leaky_notes(records, variants, is_shown=not spec.is_crossed), *warned]
        if spec.is_crossed:
            # a cell averages its variants, and a leaky one must not enter a mean
            variants = [index for index in variants if not records.leaks(index)]
            warned += _pooling_warning(records, spec, variants)
            columns, rows = _cross_axes(records, spec, variants, placement)
            corner = f"{axis_title(spec.rows)}, by {axis_title(spec.columns)}"
        elif spec.across:
            columns, corner = records.labels(variants), "metric"
            rows = []
            for name in metrics:
                metric_cells = [cell(records, [index], name, placement) for index in variants]
                rows.append(TableRow(metric(name).heading, metric_cells))
        else:
            columns = [metric(name).heading for name in metrics]
            corner = corner_of(records, variants, spec.group or "")
            rows = (_group_rows if spec.group else _list_rows)(records, spec, variants, placement)
        rows = rows if spec.group else mark_best_rows(records, spec, variants, rows)
        rows_with_items = with_items(records, rows)
        facts = caption_facts(records, variants)
        if spec.is_crossed:
            title = f"{metric(metrics[0]).heading} by {axis_title(spec.columns)}"
            facts["caption"] = join_texts(title, facts["caption"])
        cells = [cell for row in rows_with_items for cell in row.cells]
        matches = [match for cell in cells for match in cell.matches]
        spread_texts = [match.target.note for match in matches if match.target.std is not None]
        notes += [
            *undefined_notes(records, variants, metrics),
            *text_notes(records, variants, metrics),
            *deviation_notes(matches),
            *tied_notes(cells),
            *spread_notes(records, variants, metrics),
            *damage_notes(cells),
            *dict.fromkeys(f"± of published values: {note}" for note in spread_texts),
            *placement.notes,
        ]
        return TableData(
            spec.name,
            spec.heading,
            columns,
            rows_with_items,
            corner,
            beneath=spec.is_crossed or spec.across,
            warnings=warned,
            notes=notes,
            settings=[[*map(setting_name, _fields(setting))] for setting in spec.settings],
            has_labels=not (spec.split and spec.settings),
            has_order=spec.is_crossed
            or spec.across
            or spec.ranked is not None
            or has_order(records, spec, variants),
            **facts,
        )


def metrics_of(
    records: StudyRecords, spec: Table, variants: Sequence[int]
) -> tuple[tuple[str, ...], list[str]]:
    """Return the metrics with patterns such as `auroc.*` expanded, and warnings.

    A warning names each pattern that matches no recorded metric yet.

    Raises:
        NotYetError: The table has two axes, and no metric is left to show.
    """
    runs = list(records.rows_of(variants))
    measured = [*records.measured(variants), *dict.fromkeys(name for run in runs for name in run.unavailable)]
    matches = {name: fnmatch.filter(measured, name) if "*" in name else [name] for name in spec.metrics}
    names = dict.fromkeys(chain(*matches.values()))
    names_shown = [name for name in names if name in measured] if spec.across and measured else list(names)
    unmatched = [f"no run has a metric {name} yet" for name, columns in matches.items() if not columns]
    if not names_shown and spec.is_crossed:
        raise NotYetError(f"table {spec.name!r} has nothing to show: {', '.join(unmatched)}")
    return tuple(names_shown), unmatched


def select_measured(
    records: StudyRecords, variants: Sequence[int], metrics: Sequence[str]
) -> tuple[list[int], list[str]]:
    """Return the variants whose finished runs have any of the metrics, and a note on the excluded variants.

    A variant without finished runs is included.
    """
    included = []
    for index in variants:
        runs = [run for run in records.by_variant[index] if run.done]
        names = {
            name for run in runs for name in metrics if run.value(name) is not None or name in run.unavailable
        }
        if names or not runs:
            included.append(index)
    labels = records.labels(index for index in variants if index not in included)
    return included, [f"left out, because they lack these metrics: {', '.join(labels)}"] * bool(labels)


def _pooling_warning(records: StudyRecords, spec: Table, variants: Sequence[int]) -> list[str]:
    """Return a warning if a cell averages over variants that differ in more than the table's two axes."""
    axes = (spec.rows or "", spec.columns or "")
    places = {tuple(records.level(index, axis) for axis in axes) for index in variants}
    pooled_axes = [axis for axis in records.plan.axes if axis not in (*axes, *spec.where)]
    pools = len(places) < len(variants)
    return [f"each cell pools the levels of {', '.join(pooled_axes) or 'several variants'}"] * pools


# ---------------------------------------------------------------------------------------------- layouts


def _list_rows(
    records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement
) -> list[TableRow]:
    """Return one row per variant with a cell per metric."""
    rows = []
    for index in variants:
        cells = [
            (
                improvement_cell(records, spec.improvement, spec.targets, index, name, placement)
                if improved_metric(name)
                else cell(records, [index], name, placement)
            )
            for name in spec.metrics
        ]
        settings = [
            [_setting_word(records, index, path) for path in _fields(setting)] for setting in spec.settings
        ]
        label = label_in_group(records, index, spec.group or "")
        rows.append(TableRow(label, cells, settings))
    return rank_rows(rows) if spec.ranked else rows


def has_order(records: StudyRecords, spec: Table, variants: Sequence[int]) -> bool:
    """Return whether questions, published values or a number order the variants, besides their scores."""
    axes = varied_axes([records.variants[index] for index in variants])
    is_sweep = len(axes) == 1 and all(is_number(records.level(index, axes[0])) for index in variants)
    has_questions = any(isinstance(part, QuestionPart) for part in parts_of(records))
    has_best = bool(spec.metrics) and metric(spec.metrics[0]).better is not None
    return is_sweep or bool(spec.targets) or has_questions or not has_best


def _setting_word(records: StudyRecords, index: int, path: str) -> str:
    """Return a variant's value of a config field, or a dash if its model has no such field.

    Raises:
        ConfigError: No variant has the field.
    """
    value = records.level(index, path)
    return value_text(value) if value is not None or records.has(index, path) else DASH


def _fields(setting: str | tuple[str, ...]) -> tuple[str, ...]:
    return (setting,) if isinstance(setting, str) else setting


def _group_rows(
    records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement
) -> list[TableRow]:
    """Return the rows under a heading for each group, with the best of each group marked."""
    rows: list[TableRow] = []
    for heading, group in groups(records, variants, spec.group or ""):
        group_rows = _list_rows(records, spec, group, placement)
        rows += [TableRow(heading, ()), *mark_best_rows(records, spec, group, group_rows)]
    return rows


def _cross_axes(
    records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement
) -> tuple[list[str], list[TableRow]]:
    """Return the columns and rows of the papers' layout.

    The first metric is shown by two axes. The other metrics, such as parameters and FLOPs, follow for each
    row.
    """
    first_metric, *other_metrics = spec.metrics
    rows: dict[Any, dict[Any, list[int]]] = {}  # level of the rows -> level of the columns -> variants
    for index in variants:
        row, column = (records.level(index, axis or "") for axis in (spec.rows, spec.columns))
        rows.setdefault(row, {}).setdefault(column, []).append(index)
    columns = list(dict.fromkeys(records.level(index, spec.columns or "") for index in variants))
    table_rows = []
    for row, places in rows.items():
        cells = [cell(records, places.get(column, []), first_metric, placement) for column in columns]
        row_variants = sorted(chain(*places.values()))
        cells += [cell(records, row_variants, name, placement) for name in other_metrics]
        table_rows.append(TableRow(value_text(row), cells))
    return [*map(value_text, columns), *(metric(name).heading for name in other_metrics)], table_rows


# ---------------------------------------------------------------------------------------------- best cells


def mark_best_rows(
    records: StudyRecords, spec: Table, variants: Sequence[int], rows: Sequence[TableRow]
) -> list[TableRow]:
    """Mark the best cells of each column, or of each row with `across` or if only the rows share a data set.

    Scores on different data are not compared, so a table can stay without marks.
    """
    if not spec.across and _share_data(records, variants, spec.columns):
        columns = [mark_best_cells(column) for column in zip(*(row.cells for row in rows), strict=True)]
        # rows without cells give no columns to transpose back, so that zip cannot be strict
        cells_by_row = zip(*columns, strict=True)
        return [replace(row, cells=cells) for row, cells in zip(rows, cells_by_row, strict=bool(columns))]
    if (spec.across or spec.rows) and _share_data(records, variants, spec.rows):
        return [replace(row, cells=mark_best_cells(row.cells)) for row in rows]
    return list(rows)


def _share_data(records: StudyRecords, variants: Sequence[int], axis: str | None) -> bool:
    """Return whether the variants at each level of the axis are in the same block, such as a data set.

    Without an axis, all variants must be.
    """
    data = {
        (records.blocks[index], value_text(records.level(index, axis)) if axis else None)
        for index in variants
    }
    return len(data) == len({level for _, level in data})


# ---------------------------------------------------------------------------------------------- groups


def groups(records: StudyRecords, variants: Sequence[int], by: str) -> list[tuple[str, list[int]]]:
    """Return the heading and the variants of each group.

    Args:
        records: The study's records.
        variants: The indices of the variants to group.
        by: An axis or config field, whose levels keep the study's order; or a cost, whose groups are sorted
            from the lowest up.

    Raises:
        ConfigError: No axis, field or metric has that name.
    """
    if find_metric(by) and not any(by in records.variants[index].levels for index in variants):
        return _cost_groups(records, variants, by)
    variants_of: dict[str, list[int]] = {}
    for index in variants:
        level = records.level(index, by)
        heading = level if isinstance(level, str) else f"{axis_title(by)} {value_text(level)}"
        variants_of.setdefault(heading, []).append(index)
    return list(variants_of.items())


def _cost_groups(records: StudyRecords, variants: Sequence[int], name: str) -> list[tuple[str, list[int]]]:
    costs: dict[int, float] = {}
    for index in variants:
        runs = [run for run in records.by_variant[index] if run.done and run.value(name) is not None]
        if runs:
            costs[index] = mean_of([run.number(name) for run in runs])
    cost_groups: list[list[int]] = []
    # from the lowest cost up: a variant opens a new group if it exceeds the least of the last one by a tenth
    for index in sorted(costs, key=costs.__getitem__):
        if not cost_groups or costs[index] > (1 + BAND) * costs[cost_groups[-1][0]]:
            cost_groups.append([])
        cost_groups[-1].append(index)
    definition, headed_groups = metric(name), []
    for group in cost_groups:
        limits = dict.fromkeys(number(name, costs[index]) for index in (group[0], group[-1]))
        headed_groups.append((f"{definition.title} {' to '.join(limits)} {definition.unit}".strip(), group))
    if unfinished := [index for index in variants if index not in costs]:
        headed_groups.append((f"{definition.title}: no run has finished", unfinished))
    return headed_groups


def label_in_group(records: StudyRecords, index: int, group: str) -> str:
    """Return a variant's label without the level that the heading of its group states."""
    label, levels = records.variants[index].label, records.variants[index].levels
    heading = level_words(group, levels[group]) if group in levels else ""
    return ", ".join(part for part in label.split(", ") if part != heading) or label


def corner_of(records: StudyRecords, variants: Sequence[int], group: str) -> str:
    """Return the head of the label column: `model` or `data` if all labels name models or data sets."""
    labels = [label_in_group(records, index, group) for index in variants]
    axes = (axis for axis in NAMING if axis != group)
    return next(
        (axis for axis in axes if labels == [records.variants[index].levels.get(axis) for index in variants]),
        "variant",
    )
