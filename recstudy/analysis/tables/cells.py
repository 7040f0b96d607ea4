"""A table as data: what every cell holds, how many runs are behind it, and what stands beside it in the literature.

`render.py` turns it into text. Nothing here depends on the time or the machine, so the same records give the same table.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from recstudy.analysis.captions import caption, is_synthetic, leaky_notes, left_out, text_notes, warnings
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.names import METRICS, axis_title, metric, plain
from recstudy.analysis.spec import Table
from recstudy.analysis.stats import mean_interval
from recstudy.analysis.tables.groups import BAND, groups, label_within
from recstudy.analysis.tables.ranks import with_ranks
from recstudy.analysis.targets import Placed, Placement, place
from recstudy.errors import ConfigError
from recstudy.papers import Target
from recstudy.records import Json


@dataclass(frozen=True)
class Cell:
    """One metric of one variant (or of the variants that share a place in the table).

    `value` is the mean over the `n` finished runs of the `expected` planned ones, with its 95 % interval; all in the
    metric's own unit. Diverged runs and those that a search stopped early are counted, never averaged. `run_ids` are those
    behind `value`, of these `seeds`, made by these `commits`. `lacking`: finished runs without this metric, such as an AUROC
    of data with one label an image; `unavailable`: why some of them could not have it, such as a METEOR without Java.
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
    """A label and its cells, in the order of the table's columns; without cells, the heading of the rows below it."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class TableData:
    """A whole table. `beneath`: published values stand in a line under ours, not in columns beside them."""

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


def table_data(records: StudyRecords, spec: Table) -> TableData:
    """Everything that the table of `spec` says.

    Raises:
        ConfigError: `rows`, `columns` or `where` name what the study does not have.
    """
    variants = records.chosen(spec.where)
    metrics, unmatched = _metrics(records, spec, variants)
    spec = replace(spec, metrics=metrics)
    variants, without = _with_any(records, variants, metrics) if spec.across else (variants, ())
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
        corner=f"{axis_title(spec.rows)}, by {axis_title(spec.columns)}" if crossed else "metric" if spec.across else "variant",
        columns=columns,
        rows=tuple(rows) if spec.group else _ranked(records, spec, variants, rows),
        beneath=crossed or spec.across,
        caption=(f"{metric(metrics[0]).heading} by {axis_title(spec.columns)}; " if crossed else "") + caption(records, variants),
        warnings=(*warnings(records), *leaky, *unmatched, *(_pooled(records, spec, variants) if crossed else ())),
        notes=(*_how_grouped(spec), *left_out(records, variants, metrics), *text_notes(records, variants, metrics), *without),
        homeless=placement.homeless,
    )


def _metrics(records: StudyRecords, spec: Table, variants: Sequence[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
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


def cell(records: StudyRecords, variants: Sequence[int], name: str, placement: Placement) -> Cell:
    """The cell of one metric over all runs of these variants."""
    runs = [run for index in variants for run in records.by_variant[index]]
    placed = _nearest([target for index in variants for target in placement.placed.get((index, name), ())])
    return replace(cell_of(records, variants, name, runs), placed=placed)


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
        commits=tuple(dict.fromkeys(_commit(run) for run in done)),
        synthetic=is_synthetic(records, variants),
        leaks=any(records.leaks(index) for index in variants),
    )


def _commit(run: Json) -> str:
    return f"commit {run.get('provenance.commit') or 'unknown'}" + " with changes" * bool(run.get("provenance.dirty"))


def _nearest(placed: Sequence[Placed]) -> tuple[Placed, ...]:
    """Those with the least against them: the comparable ones, or those of the same data set before others."""
    least = min((len(target.reasons) for target in placed), default=0)
    return tuple(target for target in placed if len(target.reasons) == least)


Layout = tuple[tuple[str, ...], list[TableRow]]


def _listed(records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement) -> Layout:
    """One row a variant, one column a metric."""
    labels = [label_within(records, index, spec.group or "") for index in variants]
    rows = [
        TableRow(label, tuple(cell(records, [index], name, placement) for name in spec.metrics))
        for label, index in zip(labels, variants, strict=True)
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


def _with_any(records: StudyRecords, variants: Sequence[int], metrics: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    """The variants without those whose finished runs have none of the metrics, and a note that names the others."""
    finished = {index: [run for run in records.by_variant[index] if run["status"] == "done"] for index in variants}
    none = [
        index
        for index, runs in finished.items()
        if runs and not any(name in run or name in run["unavailable"] for run in runs for name in metrics)
    ]
    labels = ", ".join(records.variants[index]["label"] for index in none)
    return [index for index in variants if index not in none], ((f"left out, without these metrics: {labels}",) if none else ())


def _across(records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement) -> Layout:
    """One row a metric, one column a variant: for many metrics of few models."""
    rows = [
        TableRow(metric(name).heading, tuple(cell(records, [index], name, placement) for index in variants))
        for name in spec.metrics
    ]
    return tuple(records.variants[index]["label"] for index in variants), rows


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


def _pooled(records: StudyRecords, spec: Table, variants: Sequence[int]) -> tuple[str, ...]:
    """Says so when a cell averages over variants that differ in more than the table's two axes."""
    places = Counter((records.level(index, spec.rows or ""), records.level(index, spec.columns or "")) for index in variants)
    if max(places.values(), default=1) == 1:
        return ()
    others = [axis for axis in records.plan["axes"] if axis not in (spec.rows, spec.columns) and axis not in spec.where]
    return (f"each cell pools the levels of {', '.join(others) or 'several variants'}",)


def _ranked(records: StudyRecords, spec: Table, variants: Sequence[int], rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """Best and second marked where values were measured on the same data: in each column, or else in each row."""
    if spec.across:
        return with_ranks(rows, across=True) if _one_task(records, variants, None) else tuple(rows)
    if _one_task(records, variants, spec.columns):
        return with_ranks(rows)
    return with_ranks(rows, across=True) if spec.rows and _one_task(records, variants, spec.rows) else tuple(rows)


def _one_task(records: StudyRecords, variants: Sequence[int], axis: str | None) -> bool:
    """Whether the variants at each level of the axis (without one: all of them) were measured on the same data."""
    data = {(records.variants[index]["data"], plain(records.level(index, axis)) if axis else None) for index in variants}
    return len(data) == len({level for _, level in data})
