"""A table of what more thinking at test costs and brings: a row for each way to spend FLOPs on a puzzle, and each count."""

from recstudy.analysis.budgets import Budget, budgets
from recstudy.analysis.caveats import caption, leaky_notes, warnings
from recstudy.analysis.cells import TableData, TableRow, cell, cell_of_values
from recstudy.analysis.fits import spread_notes
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.targets import Placement, deviation_notes, place
from recstudy.report import Budgets
from recstudy.report.names import metric


def budgets_data(records: StudyRecords, spec: Budgets) -> TableData:
    variants = records.chosen(spec.where)
    spent = {index: budgets(records, index) for index in variants}
    metrics = list(dict.fromkeys(one.metric for of in spent.values() for one in of))
    placement = place(records, spec.targets, variants, metrics)
    rows = tuple(_row(records, index, one, placement, len(variants) > 1) for index, of in spent.items() for one in of)
    return TableData(
        name=spec.name,
        title=spec.heading,
        columns=("GFLOP/puzzle", metric("exact_accuracy").heading),
        rows=rows,
        corner="way",
        caption=caption(records, variants),
        warnings=(*warnings(records), *leaky_notes(records, variants, shown=True)),
        notes=(
            *deviation_notes(beside for row in rows for one in row.cells for beside in one.placed),
            *spread_notes(records, variants, metrics),
        ),
        unmatched_targets=placement.unmatched_targets,
    )


def _row(records: StudyRecords, index: int, one: Budget, placement: Placement, several: bool) -> TableRow:
    cost = {run.id: one.gflops for run in records.by_variant[index] if run.done}
    label = one.way if one.many is None else f"{one.way}, {one.many}"
    return TableRow(
        f"{records.variants[index].label}, {label}" if several else label,
        (cell_of_values(records, [index], "gflops", cost), cell(records, [index], one.metric, placement)),
    )
