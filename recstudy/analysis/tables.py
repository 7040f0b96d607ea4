"""A table as data: what every cell holds, how many runs are behind it, and what stands beside it in the literature.

`render.py` turns it into text. Nothing here depends on the time or the machine, so the same records give the same table.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.names import axis_title, metric, number, plain, plural
from recstudy.analysis.spec import Table
from recstudy.analysis.stats import mean_interval
from recstudy.analysis.targets import Placed, Placement, place
from recstudy.papers import Target
from recstudy.records import Json

SELECTIONS = {
    "validation": "epoch selected on a validation split",
    "test": "epoch selected on the test set, as in the paper: optimistic",
    "last": "last epoch, no selection",
}


@dataclass(frozen=True)
class Cell:
    """One metric of one variant (or of the variants that share a place in the table).

    `value` is the mean over the `n` finished runs of the `expected` planned ones, with its 95 % interval; all in the
    metric's own unit. Diverged runs are counted, never averaged. `run_ids` are those behind `value`.
    """

    metric: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    expected: int
    values: tuple[float, ...]
    failed: tuple[str, ...] = ()
    diverged: int = 0
    placed: tuple[Placed, ...] = ()
    run_ids: tuple[str, ...] = ()
    best: bool = False

    @property
    def published(self) -> str:
        return ", ".join(dict.fromkeys(target.text for target in self.placed))

    @property
    def verdict(self) -> str:
        return ", ".join(dict.fromkeys(target.verdict(self.values) for target in self.placed))

    @property
    def reasons(self) -> str:
        """Why the published value is not comparable; empty where it is."""
        return "; ".join(dict.fromkeys(reason for target in self.placed for reason in target.reasons))


@dataclass(frozen=True)
class TableRow:
    """A label and its cells, in the order of the table's columns."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class TableData:
    """A whole table. `crossed`: rows x columns of one metric (then other metrics); else one column a metric."""

    name: str
    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    crossed: bool
    caption: str
    warnings: tuple[str, ...]
    homeless: tuple[tuple[Target, str], ...]


def table_data(records: StudyRecords, spec: Table) -> TableData:
    """Everything that the table of `spec` says.

    Raises:
        ConfigError: `rows`, `columns` or `where` name what the study does not have.
    """
    variants = records.chosen(spec.where)
    placement = place(records, spec.targets, variants, spec.metrics)
    crossed = spec.rows is not None and spec.columns is not None
    columns, rows = (_crossed if crossed else _listed)(records, spec, variants, placement)
    return TableData(
        name=spec.name,
        title=spec.title or spec.name.replace("_", " "),
        corner=f"{axis_title(spec.rows)}, by {axis_title(spec.columns)}" if crossed else "variant",
        columns=columns,
        rows=_with_best(rows) if _one_task(records, spec, variants) else tuple(rows),
        crossed=crossed,
        caption=(f"{metric(spec.metrics[0]).heading} by {axis_title(spec.columns)}; " if crossed else "")
        + caption(records, variants),
        warnings=(*warnings(records), *(_pooled(records, spec, variants) if crossed else ())),
        homeless=placement.homeless,
    )


def caption(records: StudyRecords, variants: Sequence[int]) -> str:
    """What the numbers were measured on, how they were selected, and how many runs are in: one line of facts."""
    runs = [run for index in variants for run in records.by_variant[index]]
    data = ", ".join(dict.fromkeys(records.variants[index]["data"] for index in variants))
    chosen = dict.fromkeys(records.configs[index].get("train.selection") for index in variants)
    protocol = "; ".join(SELECTIONS.get(str(selection), f"selection {plain(selection)}") for selection in chosen)
    counts = Counter(run["status"] for run in runs)
    progress = f"{counts['done']:,} of {plural(len(runs), 'run')} done"
    progress += "".join(f", {counts[state]:,} {state}" for state in ("diverged", "failed") if counts[state])
    synthetic = " (synthetic data)" if is_synthetic(runs) else ""
    finish = f". Finish with: {records.plan['command']}" if counts["done"] + counts["diverged"] < len(runs) else ""
    return f"{data}{synthetic}; {protocol}; {progress}. Mean ± 95 % interval over seeds{finish}"


def warnings(records: StudyRecords) -> tuple[str, ...]:
    """What a reader must know before any number."""
    base = records.plan["base"]
    found = []
    if records.plan.get("smoke"):
        found.append(f"smoke run: {_smoke(base)}; the numbers mean nothing")
    if is_synthetic(records.rows):
        found.append("synthetic data: drawn by a program, no measure of the real task")
    return tuple(found)


def is_synthetic(runs: Iterable[Json]) -> bool:
    return any(run.get("provenance.synthetic") for run in runs)


def cell(records: StudyRecords, variants: Sequence[int], name: str, placement: Placement) -> Cell:
    """The cell of one metric over all runs of these variants."""
    runs = [run for index in variants for run in records.by_variant[index]]
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
        failed=tuple(sorted(run["error_class"] for run in runs if run["status"] == "failed")),
        diverged=sum(run["status"] == "diverged" for run in runs),
        placed=tuple(target for index in variants for target in placement.placed.get((index, name), ())),
        run_ids=tuple(run["id"] for run in done),
    )


Layout = tuple[tuple[str, ...], list[TableRow]]


def _listed(records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement) -> Layout:
    """One row a variant, one column a metric."""
    rows = [
        TableRow(records.variants[index]["label"], tuple(cell(records, [index], name, placement) for name in spec.metrics))
        for index in variants
    ]
    return tuple(metric(name).heading for name in spec.metrics), rows


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


def _with_best(rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """Mark the best value of each column whose metric has a better direction; ties as printed are all best."""
    marked = [list(row.cells) for row in rows]
    for column in range(len(marked[0]) if marked else 0):
        name = marked[0][column].metric
        values = [item.value for row in marked if (item := row[column]).value is not None]
        better = metric(name).better
        if better is None or len(values) < 2:
            continue
        best = number(name, (max if better == "higher" else min)(values))
        for row in marked:
            value = row[column].value
            row[column] = replace(row[column], best=value is not None and number(name, value) == best)
    return tuple(TableRow(row.label, tuple(cells)) for row, cells in zip(rows, marked, strict=True))


def _pooled(records: StudyRecords, spec: Table, variants: Sequence[int]) -> tuple[str, ...]:
    """Says so when a cell averages over variants that differ in more than the table's two axes."""
    places = Counter((records.level(index, spec.rows or ""), records.level(index, spec.columns or "")) for index in variants)
    if max(places.values(), default=1) == 1:
        return ()
    others = [axis for axis in records.plan["axes"] if axis not in (spec.rows, spec.columns) and axis not in spec.where]
    return (f"each cell pools the levels of {', '.join(others) or 'several variants'}",)


def _one_task(records: StudyRecords, spec: Table, variants: Sequence[int]) -> bool:
    """Whether the values of a column were measured on the same data, so that one of them is the best."""
    data = {(records.variants[index]["data"], records.level(index, spec.columns) if spec.columns else None) for index in variants}
    return len(data) == len({column for _, column in data})


def _smoke(base: dict[str, dict[str, object]]) -> str:
    epochs, limit = base.get("train", {}).get("epochs"), base.get("data", {}).get("limit")
    return f"{plain(epochs)} epochs on {plain(limit)} images"
