"""The report parts `Effort` and `Budgets`: exact accuracy of puzzles against compute at test.

All points of a variant come from the same trained weights. They differ in the number of segments, noisy
trajectories or symmetric copies per puzzle. `Effort` is the figure and `Budgets` the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import NamedTuple

from recstudy.base.lazy import go, pd
from recstudy.programs.settings import doubling_counts
from recstudy.report.caveats import caption_facts, leaky_notes
from recstudy.report.cells import cell, cell_of_values
from recstudy.report.figures.curve import Curve, Points
from recstudy.report.fits import scored_runs, spread_notes
from recstudy.report.names import at_depth, metric
from recstudy.report.parts import PARTS, BesidePublished, OfVariants, TablePart
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import TableData, TableRow
from recstudy.report.targets import deviation_notes, match_targets

TRAJECTORIES, COPIES = "most confident of noisy trajectories", "vote of symmetric copies"
SCORE = "exact_accuracy"


class TestBudget(NamedTuple):
    """The compute that is spent on a test puzzle, and the metric that scores it."""

    way: str
    amount: int | None  # segments, trajectories or copies; None if the network decides when to halt
    gflops: float  # per puzzle; NaN before a run has finished
    metric: str


def budgets(records: StudyRecords, index: int) -> Sequence[TestBudget]:
    """Return all budgets that the runs of a variant are scored with."""
    config = records.configs[index]
    done = scored_runs(records.by_variant[index], "halted_steps")
    last = config["train.evaluation_steps"]
    # a run records the FLOPs of all its segments, which cost the same
    segment = done[0].number("gflops") / last if done else nan
    # each trajectory and each copy runs for all segments of at_test
    full_run = segment * config.get("train.at_test.segments", 0)
    halted = sum(run.number("halted_steps") for run in done) / len(done) if done else nan
    result = []
    for depth in sorted({*doubling_counts(config["train.evaluation_depths"]), last}):
        score = SCORE if depth == last else at_depth(SCORE, depth)
        result.append(TestBudget("segments", depth, segment * depth, score))
    for way, setting, prefix in ((TRAJECTORIES, "trajectories", "noisy"), (COPIES, "copies", "voted")):
        for count in doubling_counts(config.get(f"train.at_test.{setting}", 0)):
            result.append(TestBudget(way, count, full_run * count, f"{prefix}_{SCORE}.{count}"))
    result.append(TestBudget("adaptive halting", None, segment * halted, "halted_exact_accuracy"))
    return result


@PARTS.add("effort")
class Effort(Curve):
    """Exact accuracy of puzzles against FLOPs at test, from the same weights.

    The figure has a line for each way to spend more compute: more segments, the most confident of noisy
    trajectories, and the vote of symmetric copies (`train.at_test`). A single point shows the accuracy if the
    network halts by itself. `Budgets` shows the same numbers as a table.
    """

    name: str = "effort"
    x: str = "gflops"
    y: str = "exact_accuracy"
    by: str | None = "variant"
    default_title = "Exact accuracy against FLOPs at test, same weights"

    def points(self, records: StudyRecords) -> Points:
        variants, points = self.comparable(records), Points()
        for index in variants:
            for way, _, gflops, measured in budgets(records, index):
                line = way if len(variants) == 1 else f"{records.variants[index].label}, {way}"
                points[line, gflops, measured] = [index]
        return points

    def draw(self, data: pd.DataFrame) -> go.Figure:
        return super().draw(data).update_xaxes(type="log", dtick="D2", title="Forward at test (FLOP/puzzle)")


@PARTS.add("budgets")
class Budgets(TablePart, OfVariants, BesidePublished):
    """FLOPs at test and exact accuracy of puzzles, from the same weights.

    The table has a row for each way to spend more compute and each amount.
    """

    name: str = "budgets"
    default_title = "Exact accuracy by FLOPs at test, same weights"

    def cells(self, records: StudyRecords) -> TableData:
        variants = records.chosen(self.where)
        variant_budgets = [(index, budget) for index in variants for budget in budgets(records, index)]
        metrics = list(dict.fromkeys(budget.metric for _, budget in variant_budgets))
        placement = match_targets(records, self.targets, variants, metrics)
        rows = []
        for index, budget in variant_budgets:
            label = budget.way if budget.amount is None else f"{budget.way}, {budget.amount}"
            label = f"{records.variants[index].label}, {label}" if len(variants) > 1 else label
            flops = {run.id: budget.gflops for run in records.by_variant[index] if run.done}
            score = cell(records, [index], budget.metric, placement)
            rows.append(TableRow(label, (cell_of_values(records, [index], "gflops", flops), score)))
        # the first cell of a row has the FLOPs, the second the score
        matches = (match for row in rows for match in row.cells[1].matches)
        spread = spread_notes(records, variants, metrics)
        return TableData(
            name=self.name,
            title=self.heading,
            columns=("GFLOP/puzzle", metric(SCORE).heading),
            rows=rows,
            corner="method",
            warnings=leaky_notes(records, variants),
            notes=(*deviation_notes(matches), *spread, *placement.notes),
            **caption_facts(records, variants),
        )
