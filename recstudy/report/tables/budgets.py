"""The ways to spend FLOPs on a puzzle at test, with the same weights, and what each brings, as a table."""

from typing import ClassVar

from recstudy.report.caveats import captions, leaky_notes, warnings
from recstudy.report.cells import TableData, TableRow, cell, cell_of_values
from recstudy.report.figures.effort import SCORE, budgets
from recstudy.report.fits import spread_notes
from recstudy.report.names import metric
from recstudy.report.parts import PARTS, BesidePublished, OfVariants, TablePart
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import deviation_notes, place, unmatched_notes


@PARTS.add("budgets")
class Budgets(TablePart, OfVariants, BesidePublished):
    """Of puzzles: FLOPs at test and exact accuracy, from the same weights, a row for each way to think more and each count."""

    name: str = "budgets"
    default_title: ClassVar[str] = "Exact accuracy by FLOPs at test, same weights"

    def cells(self, records: StudyRecords) -> TableData:
        variants = records.chosen(self.where)
        spent = [(index, budget) for index in variants for budget in budgets(records, index)]
        metrics = list(dict.fromkeys(budget.metric for _, budget in spent))
        placement = place(records, self.targets, variants, metrics)
        rows = []
        for index, budget in spent:
            label = budget.way if budget.amount is None else f"{budget.way}, {budget.amount}"
            label = f"{records.variants[index].label}, {label}" if len(variants) > 1 else label
            flops = {run.id: budget.gflops for run in records.by_variant[index] if run.done}
            score = cell(records, [index], budget.metric, placement)
            rows.append(TableRow(label, (cell_of_values(records, [index], "gflops", flops), score)))
        placed = (one for row in rows for one in row.cells[1].placed)
        return TableData(
            name=self.name,
            title=self.heading,
            columns=("GFLOP/puzzle", metric(SCORE).heading),
            rows=tuple(rows),
            corner="way",
            warnings=(*warnings(records), *leaky_notes(records, variants)),
            notes=(*deviation_notes(placed), *spread_notes(records, variants, metrics), *unmatched_notes(placement)),
            **captions(records, variants),
        )
