"""The ways to spend FLOPs on a puzzle at test, with the same weights, and what each brings, as a table."""

from typing import ClassVar

from recstudy.report.caveats import caption, leaky_notes, warnings
from recstudy.report.cells import TableData, TableRow, cell, cell_of_values
from recstudy.report.figures.effort import SCORE, budgets
from recstudy.report.fits import spread_notes
from recstudy.report.names import metric
from recstudy.report.parts import PARTS, BesidePublished, OfVariants, TablePart
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import deviation_notes, place


@PARTS.add("budgets")
class Budgets(TablePart, OfVariants, BesidePublished):
    """Of puzzles: FLOPs at test and exact accuracy, from the same weights, a row for each way to think more and each count."""

    name: str = "budgets"
    default_title: ClassVar[str] = "Exact accuracy by FLOPs at test, same weights"

    def cells(self, records: StudyRecords) -> TableData:
        return budgets_data(records, self)


def budgets_data(records: StudyRecords, spec: Budgets) -> TableData:
    """Return the table: a row for each budget of each variant, with its cost and its accuracy."""
    variants = records.chosen(spec.where)
    spent = [(index, one) for index in variants for one in budgets(records, index)]
    metrics = list(dict.fromkeys(one.metric for _, one in spent))
    placement = place(records, spec.targets, variants, metrics)
    rows = []
    for index, one in spent:
        label = one.way if one.many is None else f"{one.way}, {one.many}"
        cost = cell_of_values(records, [index], "gflops", {run.id: one.gflops for run in records.by_variant[index] if run.done})
        score = cell(records, [index], one.metric, placement)
        rows.append(TableRow(f"{records.variants[index].label}, {label}" if len(variants) > 1 else label, (cost, score)))
    return TableData(
        name=spec.name,
        title=spec.heading,
        columns=("GFLOP/puzzle", metric(SCORE).heading),
        rows=tuple(rows),
        corner="way",
        caption=caption(records, variants),
        warnings=(*warnings(records), *leaky_notes(records, variants, shown=True)),
        notes=(
            *deviation_notes(beside for row in rows for one in row.cells for beside in one.placed),
            *spread_notes(records, variants, metrics),
        ),
        unmatched_targets=placement.unmatched_targets,
    )
