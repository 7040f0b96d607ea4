"""Exact accuracy of puzzles against FLOPs at test, from the same weights: as a figure and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import NamedTuple

from recstudy.lazy import go, pd
from recstudy.programs.settings import doubling_counts
from recstudy.report.caveats import caption_facts, leaky_notes, warnings
from recstudy.report.cells import TableData, TableRow, cell, cell_of_values
from recstudy.report.figures.curve import Curve, Points, comparable
from recstudy.report.fits import spread_notes
from recstudy.report.names import at_depth, metric
from recstudy.report.parts import PARTS, BesidePublished, OfVariants, TablePart
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import deviation_notes, match_targets, unmatched_notes

SEGMENTS, TRAJECTORIES, COPIES, HALTED = (
    "segments",
    "surest of noisy trajectories",
    "vote of copies",
    "halting by itself",
)
SCORE = "exact_accuracy"


class TestBudget(NamedTuple):
    """So many segments, trajectories or copies of a puzzle; the amount varies where it halts by itself."""

    way: str
    amount: int | None
    gflops: float  # a puzzle; not a number before a run has finished
    metric: str


def budgets(records: StudyRecords, index: int) -> Sequence[TestBudget]:
    """Return all budgets that a variant's runs are scored with."""
    config = records.configs[index]
    done = [run for run in records.by_variant[index] if run.done and run.value("halted_steps") is not None]
    last = config["train.evaluation_steps"]
    segment = done[0].number("gflops") / last if done else nan
    wide = segment * config.get("train.at_test.segments", 0)
    trajectories, copies = (
        doubling_counts(config.get(f"train.at_test.{name}", 0)) for name in ("trajectories", "copies")
    )
    halted = sum(run.number("halted_steps") for run in done) / len(done) if done else nan
    return [
        *(
            TestBudget(SEGMENTS, depth, segment * depth, SCORE if depth == last else at_depth(SCORE, depth))
            for depth in sorted({*doubling_counts(config["train.evaluation_depths"]), last})
        ),
        *(
            TestBudget(TRAJECTORIES, count, wide * count, f"noisy_exact_accuracy.{count}")
            for count in trajectories
        ),
        *(TestBudget(COPIES, count, wide * count, f"voted_exact_accuracy.{count}") for count in copies),
        TestBudget(HALTED, None, segment * halted, "halted_exact_accuracy"),
    ]


@PARTS.add("effort")
class Effort(Curve):
    """Exact accuracy of puzzles against FLOPs at test, from the same weights: a line for each way to think
    more.

    More segments, the surest of noisy trajectories, the vote of copies under symmetries (`train.at_test`),
    and as a point where each puzzle halts by itself. `Budgets` is the table of it.
    """

    name: str = "effort"
    x: str = "gflops"
    y: str = "exact_accuracy"
    by: str | None = "variant"
    default_title = "Exact accuracy against FLOPs at test, same weights"

    def points(self, records: StudyRecords) -> Points:
        variants, points = comparable(records, self.where), Points()
        for index in variants:
            for way, _, gflops, measured in budgets(records, index):
                line = way if len(variants) == 1 else f"{records.variants[index].label}, {way}"
                points[line, gflops, measured] = [index]
        return points

    def draw(self, data: pd.DataFrame) -> go.Figure:
        return super().draw(data).update_xaxes(type="log", dtick="D2", title="Forward at test (GFLOP/puzzle)")


@PARTS.add("budgets")
class Budgets(TablePart, OfVariants, BesidePublished):
    """Of puzzles: FLOPs at test and exact accuracy, from the same weights, a row for each way to think more
    and each count.
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
        matches = (match for row in rows for match in row.cells[1].matches)
        return TableData(
            name=self.name,
            title=self.heading,
            columns=("GFLOP/puzzle", metric(SCORE).heading),
            rows=tuple(rows),
            corner="way",
            warnings=(*warnings(records), *leaky_notes(records, variants)),
            notes=(
                *deviation_notes(matches),
                *spread_notes(records, variants, metrics),
                *unmatched_notes(placement),
            ),
            **caption_facts(records, variants),
        )
