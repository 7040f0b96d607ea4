"""The table of a study's variants: its metrics, its rows and columns, and what must be said of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from math import sqrt

from recstudy.analysis.caveats import caption, leaky_notes, left_out, text_notes, to_evaluate, warnings
from recstudy.analysis.cells import Cell, TableData, TableRow, cell
from recstudy.analysis.fits import spread_notes
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.items import items_note, with_items
from recstudy.analysis.tables.improvements import improvement_cell, improvement_notes
from recstudy.analysis.tables.labels import BAND, corner, fields_of, groups, label_within, only_axis, settings_of
from recstudy.analysis.tables.ranks import marked, tied_notes
from recstudy.analysis.targets import Placed, Placement, deviation_notes, place
from recstudy.errors import NotYetError
from recstudy.evidence import ALPHA, Answer
from recstudy.evidence.replications import agreement
from recstudy.papers import by_name
from recstudy.report import Table
from recstudy.report.names import axis_title, improved, metric, plain, plural, registered


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
    columns, plain_rows = arrange(records, spec, variants, placement)
    rows = with_items(records, plain_rows if spec.group else marked(records, spec, variants, plain_rows))
    return TableData(
        name=spec.name,
        title=spec.heading,
        corner=_corner(records, spec, variants),
        columns=columns,
        rows=rows,
        beneath=crossed or spec.across,
        caption=caption(records, variants, f"{metric(metrics[0]).heading} by {axis_title(spec.columns)}" if crossed else ""),
        warnings=(*warnings(records), *leaky, *unmatched, *(pooled(records, spec, variants) if crossed else ())),
        notes=(
            *_how_grouped(spec),
            *improvement_notes(spec),
            *left_out(records, variants, metrics),
            *text_notes(records, variants, metrics),
            *to_evaluate(records, variants, metrics),
            *deviation_notes(beside for row in rows for cell in row.cells for beside in cell.placed),
            *without,
            *tied_notes(rows),
            *spread_notes(records, variants, metrics),
            *items_note([cell for row in rows for cell in row.cells]),
            *chance_notes(rows),
            *agreement_notes(rows),
        ),
        unmatched_targets=placement.unmatched_targets,
        settings=tuple(map(fields_of, spec.settings)),
    )


def _corner(records: StudyRecords, spec: Table, variants: Sequence[int]) -> str:
    if spec.rows is not None and spec.columns is not None:
        return f"{axis_title(spec.rows)}, by {axis_title(spec.columns)}"
    return "metric" if spec.across else corner(records, variants, spec.group or "")


Layout = tuple[tuple[str, ...], list[TableRow]]


def _listed(
    records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement, among: Sequence[int] = ()
) -> Layout:
    """One row a variant, one column a metric; labelled as rows `among` these, where there are others."""
    axis = only_axis(records, among or variants, spec.group or "")
    rows = [
        TableRow(
            label_within(records, index, spec.group or "", axis),
            tuple(
                improvement_cell(records, spec, index, name, placement)
                if improved(name)
                else cell(records, [index], name, placement)
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
        rows += [TableRow(heading, ()), *marked(records, spec, group, _listed(records, spec, group, placement, variants)[1])]
    return tuple(metric(name).heading for name in spec.metrics), rows


def _how_grouped(spec: Table) -> tuple[str, ...]:
    """What a group is, where its heading does not say it."""
    within = f"grouped by {metric(spec.group or '').heading}, at most {100 * BAND:g} % above the least of a group"
    return (f"{within}; the best is that of a group",) if registered(spec.group or "") else ()


def judged(its: Cell) -> list[tuple[Placed, Answer[str]]]:
    """The published values that a cell's spread over seeds is held against."""
    return [found for found in its.answers if found[1].verdict.tested and not metric(its.metric).computed]


def chance_notes(rows: Sequence[TableRow]) -> tuple[str, ...]:
    """How many values would differ from the published ones if every training were the paper's."""
    count = sum(len(judged(its)) for row in rows for its in row.cells)
    expected = f"{count * ALPHA:.2g} of {plural(count, 'comparable value')}"
    return (f"differs: outside the 95 % prediction interval, as chance alone puts {expected}",) if count else ()


def agreement_notes(rows: Sequence[TableRow]) -> tuple[str, ...]:
    """Whether the comparable values of a published table, taken together, are as far from ours as single runs would be."""
    tables: dict[str, list[tuple[float, float, int, float, float]]] = {}
    for placed, one in ((placed, its.estimate) for row in rows for its in row.cells for placed, _ in judged(its)):
        if one.value is not None and one.error and one.df:
            found = one.value, one.error * sqrt(one.n), one.n, placed.value, one.df
            tables.setdefault(placed.target.table, []).append(found)
    notes = []
    for table, columns in ((table, zip(*found, strict=True)) for table, found in tables.items() if len(found) > 1):
        means, spreads, ns, theirs, dfs = columns
        whole = agreement(means, spreads, ns, theirs, dfs)
        said = (
            f"Q={whole.q:.1f} of {whole.df} values (p={whole.p:.2g}), mean z {whole.mean_z:+.1f}, above 0 where ours are higher"
        )
        notes.append(f"{by_name(table)} as a whole: {said}")
    return tuple(notes)


def _across(records: StudyRecords, spec: Table, variants: Sequence[int], placement: Placement) -> Layout:
    """One row a metric, one column a variant: for many metrics of few models."""
    rows = [
        TableRow(metric(name).heading, tuple(cell(records, [index], name, placement) for index in variants))
        for name in spec.metrics
    ]
    axis = only_axis(records, variants, "")
    return tuple(label_within(records, index, "", axis) for index in variants), rows


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
        raise NotYetError(f"table {spec.name!r} has nothing to show: {', '.join(unmatched)}")
    return tuple(dict.fromkeys(names)), tuple(unmatched)


def _unavailable(records: StudyRecords, variants: Sequence[int]) -> list[str]:
    """The metrics that some run says it could not have."""
    return list(dict.fromkeys(name for index in variants for run in records.by_variant[index] for name in run.unavailable))


def with_any(records: StudyRecords, variants: Sequence[int], metrics: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    """The variants without those whose finished runs have none of the metrics, and a note that names the others."""
    finished = {index: [run for run in records.by_variant[index] if run.done] for index in variants}
    none = [
        index
        for index, runs in finished.items()
        if runs and not any(run.value(name) is not None or name in run.unavailable for run in runs for name in metrics)
    ]
    labels = ", ".join(records.variants[index].label for index in none)
    return [index for index in variants if index not in none], ((f"left out, without these metrics: {labels}",) if none else ())


def pooled(records: StudyRecords, spec: Table, variants: Sequence[int]) -> tuple[str, ...]:
    """Says so when a cell averages over variants that differ in more than the table's two axes."""
    places = Counter((records.level(index, spec.rows or ""), records.level(index, spec.columns or "")) for index in variants)
    if max(places.values(), default=1) == 1:
        return ()
    others = [axis for axis in records.plan.axes if axis not in (spec.rows, spec.columns) and axis not in spec.where]
    return (f"each cell pools the levels of {', '.join(others) or 'several variants'}",)
