"""The table of a study's variants: its rows and columns, its metrics, and what must be said of them.

Rows may stand in groups, of the variants at one level of an axis or of those that cost about the same, and behind settings that
say what a variant is, as the papers' tables do. A `Tuned` table has in each cell the variant that is best on the selection split.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from math import sqrt
from typing import Any, ClassVar, Self

from pydantic import Field

from recstudy.errors import ConfigError, NotYetError, choices
from recstudy.evidence import ALPHA, mean_of
from recstudy.evidence.replications import agreement
from recstudy.papers import by_name
from recstudy.report.caveats import caption, leaky_notes, left_out, text_notes, to_evaluate, warnings
from recstudy.report.cells import Cell, TableData, TableRow, cell, damaged_notes, items_note, with_items
from recstudy.report.fits import spread_notes
from recstudy.report.names import (
    DASH,
    NAMING,
    axis_title,
    improved,
    inline,
    level_words,
    metric,
    number,
    plain,
    plural,
    registered,
    same,
    setting_name,
)
from recstudy.report.parts import PARTS, BesidePublished, OfVariants, TablePart
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables.comparisons import improvement_cell, improvement_notes, marked, tied_notes
from recstudy.report.targets import Placement, deviation_notes, place

BAND = 0.1  # a cost within a tenth of a band's least counts as equal to it

Layout = tuple[tuple[str, ...], list[TableRow]]


@PARTS.add("tuned")
class Tuned(TablePart, OfVariants):
    """The paper's layout of one metric, in each cell at the level of `over` with the best score on the selection split.

    So a learning rate can be tuned for every model and batch size without a look at the test set.
    """

    name: str = "tuned"
    metric: str = "top1_accuracy"
    rows: str = "model"
    columns: str = "batch_size"
    over: str = "learning_rate"
    by: str = "selection_top1_accuracy"
    axes_in: ClassVar[tuple[str, ...]] = ("rows", "columns", "over")
    metrics_in: ClassVar[tuple[str, ...]] = ("metric",)
    reads_in: ClassVar[tuple[str, ...]] = ("by",)

    @property
    def heading(self) -> str:
        return self.title or f"{metric(self.metric).title}, {axis_title(self.over)} tuned in each cell"

    def of_metrics(self, metrics: Sequence[str]) -> Self:
        if self.by not in metrics:
            known = choices(metrics)
            raise ConfigError(f"tuned {self.name!r}: by must be a metric of data that no other metric is of: there are {known}")
        return super().of_metrics(metrics)

    def cells(self, records: StudyRecords) -> TableData:
        return tuned_data(records, self)


@PARTS.add("table")
class Table(TablePart, OfVariants, BesidePublished):
    """Mean, 95 % interval and n of each metric, beside the published value and a verdict.

    One row a variant; or, with `rows` and `columns` (names of axes), the paper's layout of one metric; or, with `across`,
    one row a metric and one column a variant, without the metrics that no run has. `auroc.*` stands for all metrics of
    that beginning which the runs have. `group` puts the rows of each level of an axis (`data`) under a heading, or, by the
    name of a cost (`gflops`, `params`), those within a tenth of each other; the best is then that of its group.

    `settings` are config fields that stand as columns before the metrics, several in one column where they are a tuple
    (`2/0/2` cycles of an HRM's levels). `improvement` names a variant by its levels (`{"model": "MicarVLMoE"}`): a metric
    `avg_bleu_delta` is by how much its `avg_bleu` is better than the row's, in percent of it, paired by seed.
    """

    metrics: tuple[str, ...] = ("top1_accuracy", "params", "gflops")
    rows: str | None = None
    columns: str | None = None
    across: bool = False
    group: str | None = None
    settings: tuple[str | tuple[str, ...], ...] = ()
    improvement: dict[str, Any] = Field(default_factory=dict)  # axis -> level
    axes_in: ClassVar[tuple[str, ...]] = ("rows", "columns", "group", "settings", "improvement")
    metrics_in: ClassVar[tuple[str, ...]] = ("metrics",)

    @property
    def heading(self) -> str:
        """The title, or what is measured and by what: `Top-1 accuracy by model and batch size`, `AUROC of each variant`."""
        names = [name.removesuffix(".*") for name in self.metrics]
        measured = [name for name in names if not metric(name).computed] or names
        titles = [metric(measured[0]).title, *map(inline, measured[1:])] if measured else [self.name]
        several = [*titles[:2], "other metrics"] if len(titles) > 3 else titles
        said = " and ".join(filter(None, (", ".join(several[:-1]), several[-1])))
        axes = " and ".join(axis_title(axis) for axis in (self.rows, self.columns) if axis)
        return self.title or (f"{said} by {axes}" if axes else f"{said} of each variant")

    def __post_init__(self) -> None:
        given = {"group": self.group is not None, "settings": bool(self.settings), "improvement": bool(self.improvement)}
        for field in (field for field, used in given.items() if used):
            if self.across or self.rows is not None or self.columns is not None:
                raise ConfigError(
                    f"table {self.name!r}: {field} goes with one row a variant, so with neither rows, columns nor across"
                )
        if self.across and (self.rows is not None or self.columns is not None):
            raise ConfigError(f"table {self.name!r}: across puts metrics in rows, so it takes neither rows nor columns")
        if bool(self.improvement) != any(improved(name) for name in self.metrics):
            raise ConfigError(
                f"table {self.name!r}: improvement={{AXIS: LEVEL}} and a metric such as top1_accuracy_delta go together, "
                "but only one of them is given"
            )

    def cells(self, records: StudyRecords) -> TableData:
        return table_data(records, self)


def table_data(records: StudyRecords, spec: Table) -> TableData:
    """Return everything that the table of `spec` says.

    Raises:
        ConfigError: `rows`, `columns` or `where` name what the study does not have.
    """
    variants = records.chosen(spec.where)
    metrics, unmatched = metrics_of(records, spec, variants)
    spec = replace(spec, metrics=metrics)
    variants, without = with_any(records, variants, metrics) if spec.across else (variants, ())
    placement = place(records, spec.targets, variants, metrics)
    crossed = spec.rows is not None and spec.columns is not None
    leaky = leaky_notes(records, variants, shown=not crossed)
    if crossed:  # a cell would average over them and their neighbours
        variants = [index for index in variants if not records.leaks(index)]
        corner = f"{axis_title(spec.rows)}, by {axis_title(spec.columns)}"
    else:
        corner = "metric" if spec.across else corner_of(records, variants, spec.group or "")
    arrange = _crossed if crossed else _across if spec.across else _grouped if spec.group else _listed
    columns, plain_rows = arrange(records, spec, variants, placement)
    rows = with_items(records, plain_rows if spec.group else marked(records, spec, variants, plain_rows))
    within = f"grouped by {metric(spec.group or '').heading}, at most {100 * BAND:g} % above the least of a group"
    cells = [one for row in rows for one in row.cells]
    return TableData(
        name=spec.name,
        title=spec.heading,
        corner=corner,
        columns=columns,
        rows=rows,
        beneath=crossed or spec.across,
        caption=caption(records, variants, f"{metric(metrics[0]).heading} by {axis_title(spec.columns)}" if crossed else ""),
        warnings=(*warnings(records), *leaky, *unmatched, *(pooled(records, spec, variants) if crossed else ())),
        notes=(
            *([f"{within}; the best is that of a group"] if registered(spec.group or "") else []),
            *improvement_notes(spec),
            *left_out(records, variants, metrics),
            *text_notes(records, variants, metrics),
            *to_evaluate(records, variants, metrics),
            *deviation_notes(beside for one in cells for beside in one.placed),
            *without,
            *tied_notes(cells),
            *spread_notes(records, variants, metrics),
            *items_note(cells),
            *damaged_notes(cells),
            *agreement_notes(cells),
        ),
        unmatched_targets=placement.unmatched_targets,
        settings=tuple(tuple(map(setting_name, _fields(setting))) for setting in spec.settings),
    )


def metrics_of(records: StudyRecords, spec: Table, variants: Sequence[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the metrics with `auroc.*` written out, and a warning for each pattern that nothing matches yet."""
    runs = [run for index in variants for run in records.by_variant[index]]
    measured = [*records.measured(variants), *dict.fromkeys(name for run in runs for name in run.unavailable)]
    names: list[str] = []
    unmatched = []
    for name in spec.metrics:
        found = [known for known in measured if fnmatchcase(known, name)] if "*" in name else [name]
        names += found
        unmatched += [] if found else [f"no run has a metric {name} yet"]
    if spec.across and measured:
        names = [name for name in names if name in measured]
    if not names and spec.rows is not None and spec.columns is not None:
        raise NotYetError(f"table {spec.name!r} has nothing to show: {', '.join(unmatched)}")
    return tuple(dict.fromkeys(names)), tuple(unmatched)


def with_any(records: StudyRecords, variants: Sequence[int], metrics: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    """Return the variants without those whose finished runs have none of the metrics, and a note that names the others."""
    finished = {index: [run for run in records.by_variant[index] if run.done] for index in variants}
    none = [
        index
        for index, runs in finished.items()
        if runs and not any(run.value(name) is not None or name in run.unavailable for run in runs for name in metrics)
    ]
    labels = ", ".join(records.variants[index].label for index in none)
    return [index for index in variants if index not in none], ((f"left out, without these metrics: {labels}",) if none else ())


def pooled(records: StudyRecords, spec: Table, variants: Sequence[int]) -> tuple[str, ...]:
    """Say so when a cell averages over variants that differ in more than the table's two axes."""
    places = Counter((records.level(index, spec.rows or ""), records.level(index, spec.columns or "")) for index in variants)
    if max(places.values(), default=1) == 1:
        return ()
    others = [axis for axis in records.plan.axes if axis not in (spec.rows, spec.columns) and axis not in spec.where]
    return (f"each cell pools the levels of {', '.join(others) or 'several variants'}",)


# -------------------------------------------------------------------------------------------------------------- layouts


def _listed(records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement) -> Layout:
    """Return one row a variant, one column a metric."""
    rows = []
    for index in variants:
        cells = [
            improvement_cell(records, spec, index, name, placement) if improved(name) else cell(records, [index], name, placement)
            for name in spec.metrics
        ]
        label = label_within(records, index, spec.group or "")
        rows.append(TableRow(label, tuple(cells), settings_of(records, index, spec)))
    return tuple(metric(name).heading for name in spec.metrics), rows


def _grouped(records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement) -> Layout:
    """List them under a heading for each group. The best is that of its group, on one data set."""
    rows: list[TableRow] = []
    for heading, group in groups(records, variants, spec.group or ""):
        rows += [TableRow(heading, ()), *marked(records, spec, group, _listed(records, spec, group, placement)[1])]
    return tuple(metric(name).heading for name in spec.metrics), rows


def _across(records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement) -> Layout:
    """Return one row a metric, one column a variant: for many metrics of few models."""
    rows = [
        TableRow(metric(name).heading, tuple(cell(records, [index], name, placement) for index in variants))
        for name in spec.metrics
    ]
    return tuple(records.variants[index].label for index in variants), rows


def _crossed(records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement) -> Layout:
    """Return the paper's layout: the first metric by two axes, then the other metrics of each row (parameters, FLOPs)."""
    places = {index: (records.level(index, spec.rows or ""), records.level(index, spec.columns or "")) for index in variants}
    columns = list(dict.fromkeys(column for _, column in places.values()))
    rows = []
    for row in dict.fromkeys(row for row, _ in places.values()):
        across = [index for index in variants if places[index][0] == row]
        cells = [
            cell(records, [index for index in across if places[index][1] == column], spec.metrics[0], placement)
            for column in columns
        ]
        rows.append(TableRow(plain(row), (*cells, *(cell(records, across, name, placement) for name in spec.metrics[1:]))))
    return (*map(plain, columns), *(metric(name).heading for name in spec.metrics[1:])), rows


# ---------------------------------------------------------------------------------------------------------------- notes


def agreement_notes(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Say how many values chance alone would let differ, and whether a published table is as far from ours as single runs.

    Both are of the values that a cell's spread over seeds is held against.
    """
    count = 0
    tables: dict[str, list[tuple[float, float, int, float, float]]] = {}
    for its in (one for one in cells if not metric(one.metric).computed):
        ours = its.estimate
        tested = [placed for placed, answer in its.answers if answer.verdict.tested]
        count += len(tested)
        for placed in tested:
            if ours.value is not None and ours.error and ours.df:
                values = ours.value, ours.error * sqrt(ours.n), ours.n, placed.value, ours.df
                tables.setdefault(placed.target.table, []).append(values)
    expected = f"{count * ALPHA:.2g} of {plural(count, 'comparable value')}"
    notes = [f"differs: outside the 95 % prediction interval, as chance alone puts {expected}"] if count else []
    for table, columns in ((table, zip(*found, strict=True)) for table, found in tables.items() if len(found) > 1):
        whole = agreement(*columns)
        said = (
            f"Q={whole.q:.1f} of {whole.df} values (p={whole.p:.2g}), mean z {whole.mean_z:+.1f}, above 0 where ours are higher"
        )
        notes.append(f"{by_name(table)} as a whole: {said}")
    return tuple(notes)


# --------------------------------------------------------------------------------------------------------------- labels


def groups(records: StudyRecords, variants: Sequence[int], by: str) -> list[tuple[str, list[int]]]:
    """Return heading and variants of each group, by an axis or config field in the study's order, or by a cost from the least up.

    Raises:
        ConfigError: no axis, field or metric has that name.
    """
    if registered(by) and not any(by in records.variants[index].levels for index in variants):
        return _bands(records, variants, by)
    found: list[tuple[object, list[int]]] = []
    for index in variants:
        level = records.level(index, by)
        group = next((known for other, known in found if same(other, level)), None)
        if group is None:
            found.append((level, group := []))
        group.append(index)
    return [(level if isinstance(level, str) else f"{axis_title(by)} {plain(level)}", group) for level, group in found]


def _bands(records: StudyRecords, variants: Sequence[int], name: str) -> list[tuple[str, list[int]]]:
    known: dict[int, float] = {}
    for index in variants:
        runs = [run for run in records.by_variant[index] if run.done and run.value(name) is not None]
        if runs:
            known[index] = mean_of([run.number(name) for run in runs])
    bands: list[list[int]] = []
    for index in sorted(known, key=known.__getitem__):
        if bands and known[index] <= (1 + BAND) * known[bands[-1][0]]:
            bands[-1].append(index)
        else:
            bands.append([index])
    found = []
    for band in bands:
        ends = dict.fromkeys(number(name, known[index]) for index in (band[0], band[-1]))
        found.append((f"{metric(name).title} {' to '.join(ends)} {metric(name).unit}".strip(), band))
    unknown = [index for index in variants if index not in known]
    return [*found, *([(f"{metric(name).title}: no run has finished", unknown)] if unknown else [])]


def label_within(records: StudyRecords, index: int, group: str) -> str:
    """Return a variant's label without the level that the heading of its group states."""
    label, levels = records.variants[index].label, records.variants[index].levels
    heading = level_words(group, levels[group]) if group in levels else ""
    return ", ".join(part for part in label.split(", ") if part != heading) or label


def corner_of(records: StudyRecords, variants: Sequence[int], group: str) -> str:
    """Return the head of the labels: `model` or `data` if these are names of models or data sets."""
    labels = [label_within(records, index, group) for index in variants]
    axes = (axis for axis in NAMING if axis != group)
    named = (axis for axis in axes if labels == [records.variants[index].levels.get(axis) for index in variants])
    return next(named, "variant")


def settings_of(records: StudyRecords, index: int, spec: Table) -> tuple[tuple[str, ...], ...]:
    """Return a variant's value of each field of each setting, in words; a dash where its model has no such field.

    Raises:
        ConfigError: no variant has such a field or axis.
    """

    def word(path: str) -> str:
        value = records.level(index, path)
        return plain(value) if value is not None or records.has(index, path) else DASH

    return tuple(tuple(map(word, _fields(setting))) for setting in spec.settings)


def _fields(setting: str | tuple[str, ...]) -> tuple[str, ...]:
    return (setting,) if isinstance(setting, str) else setting


# ---------------------------------------------------------------------------------------------------------------- tuned


def tuned_data(records: StudyRecords, spec: Tuned) -> TableData:
    """Return the table of the chosen variants, with notes on what was chosen; cells without a finished run stay open.

    Raises:
        ConfigError: `rows`, `columns`, `over` or `where` name what the study does not have.
    """
    tuned = {index: plain(records.level(index, spec.over)) for index in records.chosen(spec.where)}
    places: dict[tuple[str, str], list[int]] = {}
    for index in tuned:
        place = plain(records.level(index, spec.rows)), plain(records.level(index, spec.columns))
        if not records.leaks(index):
            places.setdefault(place, []).append(index)
    best = {place: best_by(records, spec.by, variants) for place, variants in places.items()}
    chosen = {place: index for place, index in best.items() if index is not None}
    at = {old: new for new, old in enumerate(chosen.values())}
    plan = replace(records.plan, variants=tuple(records.variants[index] for index in at), runs=())
    rows = [replace(row, variant=at[row.variant]) for row in records.rows if row.variant in at]
    table = Table(spec.name, metrics=(spec.metric,), rows=spec.rows, columns=spec.columns, title=spec.heading)
    data = table_data(StudyRecords(records.results, plan, rows, trust=records.trust), table)
    words = "; ".join(f"{', '.join(place)}: {tuned[index]}" for place, index in chosen.items())
    notes = [f"{axis_title(spec.over)} of each cell: {words}"] if chosen else []
    left = "; ".join(", ".join(place) for place in places if place not in chosen)
    notes += [f"no run has finished yet: {left}"] if left else []
    how = f"in each cell the {axis_title(spec.over)} with the best {metric(spec.by).title}"
    return replace(data, notes=(how, *data.notes, *notes))


def best_by(records: StudyRecords, by: str, variants: Sequence[int]) -> int | None:
    """Return the variant with the best mean score on the selection split, the first of equals; None where none has one."""
    scores = {}
    for index in variants:
        values = [value for run in records.by_variant[index] if run.done and (value := run.objective(by)) is not None]
        if values:
            scores[index] = mean_of(values)
    return max(scores, key=lambda index: metric(by).sign * scores[index], default=None)
