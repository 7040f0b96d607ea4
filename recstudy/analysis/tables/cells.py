"""A table as data: what every cell holds, how many runs are behind it, and what stands beside it in the literature.

`render.py` turns it into text. Nothing here depends on the time or the machine, so the same records give the same table.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from recstudy.analysis.captions import caption, is_synthetic, leaky_notes, left_out, text_notes, warnings
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.names import METRICS, axis_title, improved, metric, plain
from recstudy.analysis.spec import Table
from recstudy.analysis.stats import mean_interval
from recstudy.analysis.tables.chosen import metrics_of, one_task, pooled, with_any
from recstudy.analysis.tables.deltas import NONE, delta_notes, improvements, improving
from recstudy.analysis.tables.groups import BAND, corner, groups, label_within
from recstudy.analysis.tables.ranks import with_ranks
from recstudy.analysis.tables.settings import fields_of, settings_of
from recstudy.analysis.targets import Placed, Placement, place
from recstudy.papers import Target
from recstudy.records import Json


@dataclass(frozen=True)
class Cell:
    """One metric of one variant (or of the variants that share a place in the table).

    `value` is the mean over the `n` finished runs of the `expected` planned ones, with its 95 % interval; all in the
    metric's own unit. Diverged runs and those that a search stopped early are counted, never averaged. `run_ids` are those
    behind `value`, of these `seeds`, made by these `commits`; `against` those of the other variant, where `value` is by how
    much that one is better. `lacking`: finished runs without this metric, such as an AUROC of data with one label an image;
    `unavailable`: why some of them could not have it, such as a METEOR without Java.
    `synthetic`: on data drawn by a program. `leaks`: by a model that is told the answer, so neither `best` nor `second`.
    """

    metric: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    expected: int
    values: tuple[float, ...]
    lacking: int = 0
    unavailable: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    diverged: int = 0
    stopped: int = 0
    placed: tuple[Placed, ...] = ()
    run_ids: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    commits: tuple[str, ...] = ()
    best: bool = False
    second: bool = False
    synthetic: bool = False
    leaks: bool = False

    @property
    def published(self) -> str:
        return ", ".join(dict.fromkeys(target.text for target in self.placed))

    @property
    def verdict(self) -> str:
        return ", ".join(dict.fromkeys(target.verdict(self.values) for target in self.placed))

    @property
    def outcome(self) -> str:
        """The verdict as a table says it: with what an open one lacks."""
        return ", ".join(dict.fromkeys(target.outcome(self.values) for target in self.placed))

    @property
    def reasons(self) -> str:
        """Why the published value is not comparable; empty where it is."""
        return "; ".join(dict.fromkeys(reason for target in self.placed for reason in target.reasons))


@dataclass(frozen=True)
class TableRow:
    """A label and its cells, in the order of the table's columns; without cells, the heading of the rows below it.

    `settings`: the words of each field of each of the table's settings.
    """

    label: str
    cells: tuple[Cell, ...]
    settings: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class TableData:
    """A whole table. `beneath`: published values stand in a line under ours, not in columns beside them.

    `settings`: the config fields of each column that stands before the `columns` of numbers.
    """

    name: str
    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    beneath: bool
    caption: str
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    homeless: tuple[tuple[Target, str], ...]
    settings: tuple[tuple[str, ...], ...] = ()


def table_data(records: StudyRecords, spec: Table) -> TableData:
    """Everything that the table of `spec` says.

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
    arrange = _crossed if crossed else _across if spec.across else _grouped if spec.group else _listed
    columns, rows = arrange(records, spec, variants, placement)
    return TableData(
        name=spec.name,
        title=spec.title or spec.name.replace("_", " "),
        corner=_corner(records, spec, variants),
        columns=columns,
        rows=tuple(rows) if spec.group else _ranked(records, spec, variants, rows),
        beneath=crossed or spec.across,
        caption=(f"{metric(metrics[0]).heading} by {axis_title(spec.columns)}; " if crossed else "") + caption(records, variants),
        warnings=(*warnings(records), *leaky, *unmatched, *(pooled(records, spec, variants) if crossed else ())),
        notes=(
            *_how_grouped(spec),
            *delta_notes(spec),
            *left_out(records, variants, metrics),
            *text_notes(records, variants, metrics),
            *without,
        ),
        homeless=placement.homeless,
        settings=tuple(map(fields_of, spec.settings)),
    )


def _corner(records: StudyRecords, spec: Table, variants: Sequence[int]) -> str:
    if spec.rows is not None and spec.columns is not None:
        return f"{axis_title(spec.rows)}, by {axis_title(spec.columns)}"
    return "metric" if spec.across else corner(records, variants, spec.group or "")


def cell(records: StudyRecords, variants: Sequence[int], name: str, placement: Placement) -> Cell:
    """The cell of one metric over all runs of these variants."""
    runs = [run for index in variants for run in records.by_variant[index]]
    placed = _nearest([target for index in variants for target in placement.placed.get((index, name), ())])
    return replace(cell_of(records, variants, name, runs), placed=placed)


def delta_cell(records: StudyRecords, spec: Table, index: int, name: str, placement: Placement) -> Cell:
    """The cell of a relative improvement, on pairs of runs. What speaks against either published number does against theirs."""
    ours = improving(records, spec, index)
    made = cell_of(records, [index], name, improvements(records, index, ours, name))
    against = {run["seed"]: run for run in records.by_variant[ours] if run["seed"] in made.seeds} if ours is not None else {}
    placed = _nearest(placement.placed.get((index, name), ()))
    doubts = _doubts(records, spec, ours, improved(name)) if placed else ()
    return replace(
        made,
        placed=tuple(replace(one, reasons=tuple(dict.fromkeys([*one.reasons, *doubts]))) for one in placed),
        against=tuple(against[seed]["id"] for seed in made.seeds),
        commits=tuple(dict.fromkeys([*made.commits, *map(commit, against.values())])),
    )


def _doubts(records: StudyRecords, spec: Table, index: int | None, name: str) -> tuple[str, ...]:
    """Why no published value of this metric compares with the variant's; empty where one does."""
    if index is None:
        return (NONE,)
    found = _nearest(place(records, spec.targets, [index], [name]).placed.get((index, name), ()))
    none = f"no published {metric(name).title} has the settings of {records.variants[index]['label']}"
    return tuple(reason for one in found for reason in one.reasons) if found else (none,)


def cell_of(records: StudyRecords, variants: Sequence[int], name: str, runs: Sequence[Json]) -> Cell:
    """The cell of one metric over some `runs` of these variants, without what is published."""
    valid = ("done", "diverged") if metric(name).computed else ("done",)
    done = [run for run in runs if run["status"] in valid and run.get(name) is not None]
    values = tuple(float(run[name]) for run in done)
    interval = mean_interval(values)
    return Cell(
        metric=name,
        value=interval.mean,
        low=interval.low,
        high=interval.high,
        n=interval.n,
        expected=len(runs),
        values=values,
        lacking=sum(run["status"] == "done" for run in runs) - len(done) if not metric(name).computed else 0,
        unavailable=tuple(dict.fromkeys(str(run["unavailable"][name]) for run in runs if name in run.get("unavailable", ()))),
        failed=tuple(sorted(run["error_class"] for run in runs if run["status"] == "failed")),
        diverged=sum(run["status"] == "diverged" for run in runs),
        stopped=sum(run["status"] == "stopped" for run in runs),
        run_ids=tuple(run["id"] for run in done),
        seeds=tuple(dict.fromkeys(run["seed"] for run in done)),
        commits=tuple(dict.fromkeys(commit(run) for run in done)),
        synthetic=is_synthetic(records, variants),
        leaks=any(records.leaks(index) for index in variants),
    )


def commit(run: Json) -> str:
    """The code that made a run."""
    return f"commit {run.get('provenance.commit') or 'unknown'}" + " with changes" * bool(run.get("provenance.dirty"))


def _nearest(placed: Sequence[Placed]) -> tuple[Placed, ...]:
    """Those with the least against them: the comparable ones, or those of the same data set before others."""
    least = min((len(target.reasons) for target in placed), default=0)
    return tuple(target for target in placed if len(target.reasons) == least)


Layout = tuple[tuple[str, ...], list[TableRow]]


def _listed(records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement) -> Layout:
    """One row a variant, one column a metric."""
    rows = [
        TableRow(
            label_within(records, index, spec.group or ""),
            tuple(
                delta_cell(records, spec, index, name, placement) if improved(name) else cell(records, [index], name, placement)
                for name in spec.metrics
            ),
            settings_of(records, index, spec),
        )
        for index in variants
    ]
    return tuple(metric(name).heading for name in spec.metrics), rows


def _grouped(records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement) -> Layout:
    """As listed, under a heading for each group. The best is that of its group, on one data set."""
    rows: list[TableRow] = []
    for heading, group in groups(records, variants, spec.group or ""):
        rows += [TableRow(heading, ()), *_ranked(records, spec, group, _listed(records, spec, group, placement)[1])]
    return tuple(metric(name).heading for name in spec.metrics), rows


def _how_grouped(spec: Table) -> tuple[str, ...]:
    """What a group is, where its heading does not say it."""
    within = f"grouped by {metric(spec.group or '').heading}, at most {100 * BAND:g} % above the least of a group"
    return (f"{within}; best and second are those of a group",) if spec.group in METRICS else ()


def _across(records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement) -> Layout:
    """One row a metric, one column a variant: for many metrics of few models."""
    rows = [
        TableRow(metric(name).heading, tuple(cell(records, [index], name, placement) for index in variants))
        for name in spec.metrics
    ]
    return tuple(label_within(records, index, "") for index in variants), rows


def _crossed(records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement) -> Layout:
    """The paper's layout: the first metric by two axes, then the other metrics of each row (parameters, FLOPs)."""
    assert spec.rows is not None
    assert spec.columns is not None
    places = {index: (records.level(index, spec.rows), records.level(index, spec.columns)) for index in variants}
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


def _ranked(records: StudyRecords, spec: Table, variants: Sequence[int], rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """Best and second marked where values were measured on the same data: in each column, or else in each row."""
    if spec.across:
        return with_ranks(rows, across=True) if one_task(records, variants, None) else tuple(rows)
    if one_task(records, variants, spec.columns):
        return with_ranks(rows)
    return with_ranks(rows, across=True) if spec.rows and one_task(records, variants, spec.rows) else tuple(rows)
