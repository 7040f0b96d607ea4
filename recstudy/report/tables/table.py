"""The table of a study's variants: its rows and columns, its metrics, and what must be said of them.

Rows may stand in groups, of the variants at one level of an axis or of those that cost about the same, and
behind settings that say what a variant is, as the papers' tables do. A `Tuned` table has in each cell the
variant that is best on the selection split.
"""

import fnmatch
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Self

from pydantic import Field

from recstudy.errors import ConfigError, NotYetError, choices
from recstudy.evidence import mean_of
from recstudy.report.caveats import caption_facts, leaky_notes, text_notes, undefined_notes, warnings
from recstudy.report.cells import TableData, TableRow, cell, damage_notes, with_items
from recstudy.report.fits import spread_notes
from recstudy.report.names import (
    DASH,
    NAMING,
    axis_title,
    find_metric,
    improved_metric,
    inline,
    level_words,
    metric,
    number,
    setting_name,
    value_text,
)
from recstudy.report.parts import PARTS, BesidePublished, OfVariants, TablePart
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables.comparisons import improvement_cell, improvement_notes, marked, tied_notes
from recstudy.report.targets import MatchedTarget, Placement, deviation_notes, match_targets, unmatched_notes

SECOND_BEST = "underlined: the best of those that are significantly worse than the best"
BAND = 0.1  # a cost within a tenth of a band's least counts as equal to it


@PARTS.add("tuned")
class Tuned(TablePart, OfVariants):
    """The paper's layout of one metric, in each cell at the level of `over` with the best score on the
    selection split.

    So a learning rate can be tuned for every model and batch size without a look at the test set.
    """

    name: str = "tuned"
    metric: str = "top1_accuracy"
    rows: str = "model"
    columns: str = "batch_size"
    over: str = "learning_rate"
    by: str = "selection_top1_accuracy"
    axes_in = ("rows", "columns", "over")
    metrics_in = ("metric",)
    reads_in = ("by",)

    @property
    def heading(self) -> str:
        return self.title or f"{metric(self.metric).title}, {axis_title(self.over)} tuned in each cell"

    def of_metrics(self, metrics: Sequence[str]) -> Self:
        if self.by not in metrics:
            names = choices(metrics)
            raise ConfigError(
                f"tuned {self.name!r}: by must be a metric of data that no other metric is of: there are"
                f" {names}"
            )
        return super().of_metrics(metrics)

    def cells(self, records: StudyRecords) -> TableData:
        """Return the table of the chosen variants; cells without a finished run stay open.

        Raises:
            ConfigError: `rows`, `columns`, `over` or `where` name what the study does not have.
        """
        fields = (self.rows, self.columns, self.over)
        levels = {
            index: [value_text(records.level(index, axis)) for axis in fields]
            for index in records.chosen(self.where)
        }
        places: dict[str, list[int]] = {}
        for index, (row, column, _) in levels.items():
            if not records.leaks(index):
                places.setdefault(f"{row}, {column}", []).append(index)
        best = {place: best_by(records, self.by, variants) for place, variants in places.items()}
        chosen = {place: index for place, index in best.items() if index is not None}
        positions = {index: position for position, index in enumerate(chosen.values())}
        plan = replace(records.plan, variants=tuple(records.variants[index] for index in positions), runs=())
        rows = [
            replace(row, variant=positions[row.variant]) for row in records.rows if row.variant in positions
        ]
        table = Table(
            self.name, metrics=(self.metric,), rows=self.rows, columns=self.columns, title=self.heading
        )
        data = table_data(StudyRecords(records.results, plan, rows, trust=records.trust), table)
        notes = [
            f"in each cell the {axis_title(self.over)} with the best {metric(self.by).title}",
            *data.notes,
        ]
        words = "; ".join(f"{place}: {levels[index][2]}" for place, index in chosen.items())
        notes += [f"{axis_title(self.over)} of each cell: {words}"] if chosen else []
        unfinished = "; ".join(place for place in places if place not in chosen)
        notes += [f"no run has finished yet: {unfinished}"] if unfinished else []
        return replace(data, notes=tuple(notes))


def best_by(records: StudyRecords, by: str, variants: Sequence[int]) -> int | None:
    """Return the variant with the best mean score on the selection split, the first of equals; None if no
    variant has one.
    """
    scores = {}
    for index in variants:
        values = [
            value
            for run in records.by_variant[index]
            if run.done and (value := run.objective(by)) is not None
        ]
        if values:
            scores[index] = mean_of(values)
    return max(scores, key=lambda index: metric(by).sign * scores[index], default=None)


@PARTS.add("table")
class Table(TablePart, OfVariants, BesidePublished):
    """Mean, 95 % interval and n of each metric, beside the published value and a verdict.

    One row a variant; or, with `rows` and `columns` (names of axes), the paper's layout of one metric; or,
    with `across`, one row a metric and one column a variant, without the metrics that no run has. `auroc.*`
    stands for all metrics of that beginning which the runs have. `group` puts the rows of each level of an
    axis (`data`) under a heading, or, by the name of a cost (`gflops`, `params`), those within a tenth of
    each other; the best is then that of its group.

    `settings` are config fields that stand as columns before the metrics, several in one column where they
    are a tuple (`2/0/2` cycles of an HRM's levels). `improvement` names a variant by its levels (`{"model":
    "MicarVLMoE"}`): a metric `avg_bleu_delta` is by how much its `avg_bleu` is better than the row's, in
    percent of it, paired by seed.

    `published_only` names models of the targets, as the paper calls them, that have no run here: each has a
    row of published values below the variants on the same data set. `second_best` underlines the best of the
    cells that are worse than the best.
    """

    metrics: tuple[str, ...] = ("top1_accuracy", "params", "gflops")
    rows: str | None = None
    columns: str | None = None
    across: bool = False
    group: str | None = None
    settings: tuple[str | tuple[str, ...], ...] = ()
    improvement: dict[str, Any] = Field(default_factory=dict)  # axis -> level
    published_only: tuple[str, ...] = ()
    second_best: bool = False
    axes_in = ("rows", "columns", "group", "settings", "improvement")
    metrics_in = ("metrics",)

    @property
    def heading(self) -> str:
        """The title, or what is measured and by what: `Top-1 accuracy by model and batch size`, `AUROC of
        each variant`.
        """
        names = [name.removesuffix(".*") for name in self.metrics]
        measured = [name for name in names if not metric(name).computed] or names
        titles = [metric(measured[0]).title, *map(inline, measured[1:])] if measured else [self.name]
        several = [*titles[:2], "other metrics"] if len(titles) > 3 else titles
        words = " and ".join(filter(None, (", ".join(several[:-1]), several[-1])))
        axes = " and ".join(axis_title(axis) for axis in (self.rows, self.columns) if axis)
        return self.title or f"{words} {f'by {axes}' if axes else 'of each variant'}"

    def __post_init__(self) -> None:
        crossed = self.rows is not None or self.columns is not None
        for field in (field for field in ("group", "settings", "improvement") if getattr(self, field)):
            if self.across or crossed:
                raise ConfigError(
                    f"table {self.name!r}: {field} goes with one row a variant, so with neither rows, columns"
                    " nor across"
                )
        if self.across and crossed:
            raise ConfigError(
                f"table {self.name!r}: across puts metrics in rows, so it takes neither rows nor columns"
            )
        if self.published_only and self.group != "data":
            raise ConfigError(
                f"table {self.name!r}: published_only goes with group='data', which says where its rows"
                " belong"
            )
        if bool(self.improvement) != any(map(improved_metric, self.metrics)):
            raise ConfigError(
                f"table {self.name!r}: improvement={{AXIS: LEVEL}} and a metric such as top1_accuracy_delta"
                " go together, but only one of them is given"
            )

    def cells(self, records: StudyRecords) -> TableData:
        return table_data(records, self)


def table_data(records: StudyRecords, spec: Table) -> TableData:
    """Return the rows and notes of a table.

    Raises:
        ConfigError: `rows`, `columns` or `where` name what the study does not have.
    """
    variants = records.chosen(spec.where)
    metrics, warned = metrics_of(records, spec, variants)
    spec = replace(spec, metrics=metrics)
    notes = [*improvement_notes(spec)]
    crossed = spec.rows is not None and spec.columns is not None
    if spec.across:
        variants, without = with_any(records, variants, metrics)
        notes += without
    placement = match_targets(records, spec.targets, variants, metrics)
    warned = [*warnings(records), *leaky_notes(records, variants, is_shown=not crossed), *warned]
    if crossed:  # a cell would average over them and their neighbours
        variants = [index for index in variants if not records.leaks(index)]
        warned += _pooled(records, spec, variants)
        columns, rows = _crossed(records, spec, variants, placement)
        corner = f"{axis_title(spec.rows)}, by {axis_title(spec.columns)}"
    elif spec.across:
        columns, corner = tuple(records.variants[index].label for index in variants), "metric"
        cells = {
            name: tuple(cell(records, [index], name, placement) for index in variants) for name in metrics
        }
        rows = [TableRow(metric(name).heading, of_metric) for name, of_metric in cells.items()]
    else:
        columns, corner = (
            tuple(metric(name).heading for name in metrics),
            corner_of(records, variants, spec.group or ""),
        )
        rows = (_grouped if spec.group else _listed)(records, spec, variants, placement)
    rows = rows if spec.group else marked(records, spec, variants, rows)
    if find_metric(spec.group or ""):
        bands = (
            f"grouped by {metric(spec.group or '').heading}, at most {100 * BAND:g} % above the least of a"
            " group"
        )
        notes.insert(0, f"{bands}; the best is that of a group")
    data = TableData(
        name=spec.name,
        title=spec.heading,
        corner=corner,
        columns=columns,
        rows=with_items(records, rows),
        beneath=crossed or spec.across,
        warnings=tuple(warned),
        settings=tuple(tuple(map(setting_name, _fields(setting))) for setting in spec.settings),
        **caption_facts(records, variants),
    )
    if crossed:
        title = f"{metric(metrics[0]).heading} by {axis_title(spec.columns)}"
        data = replace(data, caption="; ".join(filter(None, [title, data.caption])))
    placed = [value for cell in data.cells for value in cell.matches]
    own_rows = {value.target.row for row in data.rows for value in row.published if value} - {""}
    unmatched = tuple(pair for pair in placement.unmatched_targets if pair[0].row not in own_rows)
    notes += [
        *undefined_notes(records, variants, metrics),
        *text_notes(records, variants, metrics),
        *deviation_notes(placed),
        *tied_notes(data.cells),
        *spread_notes(records, variants, metrics),
        *damage_notes(data.cells),
        *dict.fromkeys(
            f"± of published values: {value.target.note}" for value in placed if value.target.std is not None
        ),
        *[SECOND_BEST] * any(cell.second for cell in data.cells),
        *unmatched_notes(replace(placement, unmatched_targets=unmatched)),
    ]
    return replace(data, notes=tuple(notes))


def metrics_of(
    records: StudyRecords, spec: Table, variants: Sequence[int]
) -> tuple[tuple[str, ...], list[str]]:
    """Return the metrics with `auroc.*` written out, and a warning for each pattern that nothing matches
    yet.
    """
    runs = [run for index in variants for run in records.by_variant[index]]
    measured = [*records.measured(variants), *dict.fromkeys(name for run in runs for name in run.unavailable)]
    matches = {name: fnmatch.filter(measured, name) if "*" in name else [name] for name in spec.metrics}
    names = dict.fromkeys(chain(*matches.values()))
    shown = [name for name in names if name in measured] if spec.across and measured else list(names)
    unmatched = [f"no run has a metric {name} yet" for name, columns in matches.items() if not columns]
    if not shown and spec.rows is not None and spec.columns is not None:
        raise NotYetError(f"table {spec.name!r} has nothing to show: {', '.join(unmatched)}")
    return tuple(shown), unmatched


def with_any(
    records: StudyRecords, variants: Sequence[int], metrics: Sequence[str]
) -> tuple[list[int], list[str]]:
    """Return the variants without those whose finished runs have none of the metrics, and a note that names
    the others.
    """
    without, others = list[int](), list[int]()
    for index in variants:
        runs = [run for run in records.by_variant[index] if run.done]
        has_any = any(
            run.value(name) is not None or name in run.unavailable for run in runs for name in metrics
        )
        (others if has_any or not runs else without).append(index)
    labels = ", ".join(records.variants[index].label for index in without)
    return others, [f"left out, without these metrics: {labels}"] if without else []


def _pooled(records: StudyRecords, spec: Table, variants: Sequence[int]) -> list[str]:
    """Return a warning if a cell averages over variants that differ in more than the table's two axes."""
    axes = (spec.rows or "", spec.columns or "")
    places = Counter(tuple(records.level(index, axis) for axis in axes) for index in variants)
    others = [axis for axis in records.plan.axes if axis not in (*axes, *spec.where)]
    pools = max(places.values(), default=1) > 1
    return [f"each cell pools the levels of {', '.join(others) or 'several variants'}"] * pools


# -------------------------------------------------------------------------------------------------------------- layouts


def _listed(
    records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement
) -> list[TableRow]:
    """Return one row a variant, one column a metric."""
    rows = []
    for index in variants:
        cells = [
            (
                improvement_cell(records, spec, index, name, placement)
                if improved_metric(name)
                else cell(records, [index], name, placement)
            )
            for name in spec.metrics
        ]
        settings = [
            tuple(_setting_word(records, index, path) for path in _fields(setting))
            for setting in spec.settings
        ]
        rows.append(TableRow(label_within(records, index, spec.group or ""), tuple(cells), tuple(settings)))
    return rows


def _setting_word(records: StudyRecords, index: int, path: str) -> str:
    """Return a variant's value of a field; a dash if its model has no such field (ConfigError: no variant has
    it).
    """
    value = records.level(index, path)
    return value_text(value) if value is not None or records.has(index, path) else DASH


def _fields(setting: str | tuple[str, ...]) -> tuple[str, ...]:
    return (setting,) if isinstance(setting, str) else setting


def _grouped(
    records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement
) -> list[TableRow]:
    """Return the rows under a heading for each group. The best is that of its group, on one data set."""
    rows: list[TableRow] = []
    for heading, group in groups(records, variants, spec.group or ""):
        rows += [
            TableRow(heading, ()),
            *marked(records, spec, group, _listed(records, spec, group, placement)),
        ]
        data = {records.configs[index].get("data.name") for index in group}
        for model in spec.published_only:
            own = [
                target
                for target in spec.targets
                if target.model == model and target.where.get("data.name") in data
            ]
            values = {target.metric: MatchedTarget(target, ()) for target in own}
            if values:
                published = tuple(values.get(name) for name in spec.metrics)
                rows.append(TableRow(f"{model} (published, not run here)", (), published=published))
    return rows


def _crossed(
    records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement
) -> tuple[tuple[str, ...], list[TableRow]]:
    """Return the paper's layout: the first metric by two axes, then the other metrics of each row
    (parameters, FLOPs).
    """
    first, *others = spec.metrics
    rows: dict[Any, dict[Any, list[int]]] = {}  # level of the rows -> level of the columns -> variants
    for index in variants:
        row, column = (records.level(index, axis or "") for axis in (spec.rows, spec.columns))
        rows.setdefault(row, {}).setdefault(column, []).append(index)
    columns = list(dict.fromkeys(records.level(index, spec.columns or "") for index in variants))
    lines = []
    for row, places in rows.items():
        cells = [cell(records, places.get(column, []), first, placement) for column in columns]
        across = sorted(chain(*places.values()))
        lines.append(
            TableRow(value_text(row), (*cells, *(cell(records, across, name, placement) for name in others)))
        )
    return (*map(value_text, columns), *(metric(name).heading for name in others)), lines


# --------------------------------------------------------------------------------------------------------------- groups


def groups(records: StudyRecords, variants: Sequence[int], by: str) -> list[tuple[str, list[int]]]:
    """Return heading and variants of each group, by an axis or config field in the study's order, or by a
    cost from the least up.

    Raises:
        ConfigError: no axis, field or metric has that name.
    """
    if find_metric(by) and not any(by in records.variants[index].levels for index in variants):
        return _bands(records, variants, by)
    variants_of: dict[str, list[int]] = {}
    for index in variants:
        level = records.level(index, by)
        variants_of.setdefault(
            level if isinstance(level, str) else f"{axis_title(by)} {value_text(level)}", []
        ).append(index)
    return list(variants_of.items())


def _bands(records: StudyRecords, variants: Sequence[int], name: str) -> list[tuple[str, list[int]]]:
    costs: dict[int, float] = {}
    for index in variants:
        if values := [
            run.number(name) for run in records.by_variant[index] if run.done and run.value(name) is not None
        ]:
            costs[index] = mean_of(values)
    bands: list[list[int]] = []
    for index in sorted(costs, key=costs.__getitem__):
        if not bands or costs[index] > (1 + BAND) * costs[bands[-1][0]]:
            bands.append([])
        bands[-1].append(index)
    title, headed_bands = metric(name).title, []
    for band in bands:
        ends = dict.fromkeys(number(name, costs[index]) for index in (band[0], band[-1]))
        headed_bands.append((f"{title} {' to '.join(ends)} {metric(name).unit}".strip(), band))
    unknown = [index for index in variants if index not in costs]
    return [*headed_bands, *([(f"{title}: no run has finished", unknown)] if unknown else [])]


def label_within(records: StudyRecords, index: int, group: str) -> str:
    """Return a variant's label without the level that the heading of its group states."""
    label, levels = records.variants[index].label, records.variants[index].levels
    heading = level_words(group, levels[group]) if group in levels else ""
    return ", ".join(part for part in label.split(", ") if part != heading) or label


def corner_of(records: StudyRecords, variants: Sequence[int], group: str) -> str:
    """Return the head of the labels: `model` or `data` if these are names of models or data sets."""
    labels = [label_within(records, index, group) for index in variants]
    axes = (axis for axis in NAMING if axis != group)
    return next(
        (axis for axis in axes if labels == [records.variants[index].levels.get(axis) for index in variants]),
        "variant",
    )
