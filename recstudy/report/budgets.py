"""The ways to spend FLOPs on a puzzle at test, with the same weights, what each brings: as a table and as a figure."""

from collections.abc import Sequence
from math import nan
from typing import NamedTuple

import pandas as pd

from recstudy.programs.settings import doubled
from recstudy.records import Json
from recstudy.report import Budgets, Effort
from recstudy.report.caveats import caption, leaky_notes, warnings
from recstudy.report.cells import TableData, TableRow, cell, cell_of_values
from recstudy.report.figures.curve import Points, draw_points
from recstudy.report.figures.layout import Drawn
from recstudy.report.figures.learning import comparable
from recstudy.report.figures.theme import log_ticks
from recstudy.report.fits import spread_notes
from recstudy.report.names import at_depth, metric
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import deviation_notes, place

SEGMENTS, TRAJECTORIES, COPIES, HALTED = "segments", "surest of noisy trajectories", "vote of copies", "halting by itself"
SCORE = "exact_accuracy"


class TestBudget(NamedTuple):
    """So many segments, trajectories or copies of a puzzle; how many varies where it halts by itself."""

    way: str
    many: int | None
    gflops: float  # a puzzle; not a number before a run has finished
    metric: str


def budgets(records: StudyRecords, index: int) -> Sequence[TestBudget]:
    """Return all budgets that a variant's runs are scored with."""
    config = records.configs[index]
    done = [run for run in records.by_variant[index] if run.done and run.value("halted_steps") is not None]
    last = config["train.evaluation_steps"]
    segment = done[0].number("gflops") / last if done else nan
    wide = segment * config.get("train.at_test.segments", 0)
    trajectories, copies = (doubled(config.get(f"train.at_test.{name}", 0)) for name in ("trajectories", "copies"))
    halted = sum(run.number("halted_steps") for run in done) / len(done) if done else nan
    return [
        *(
            TestBudget(SEGMENTS, depth, segment * depth, SCORE if depth == last else at_depth(SCORE, depth))
            for depth in sorted({*doubled(config["train.evaluation_depths"]), last})
        ),
        *(TestBudget(TRAJECTORIES, count, wide * count, f"noisy_exact_accuracy.{count}") for count in trajectories),
        *(TestBudget(COPIES, count, wide * count, f"voted_exact_accuracy.{count}") for count in copies),
        TestBudget(HALTED, None, segment * halted, "halted_exact_accuracy"),
    ]


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


def draw_effort(records: StudyRecords, spec: Effort) -> Drawn:
    """Draw a line for each way to spend FLOPs; each doubling is as far from the last."""
    variants, points = comparable(records, spec.where), Points()
    for index in variants:
        for way, _, gflops, measured in budgets(records, index):
            points[way if len(variants) == 1 else f"{records.variants[index].label}, {way}", gflops, measured] = [index]

    def axis(data: pd.DataFrame) -> Json:
        ticks = log_ticks(data["x"].min(), data["x"].max())  # few: Plotly's own are every digit of a decade
        words = {"tickmode": "array", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
        return {"type": "log", **words, "title": "Forward at test (GFLOP/puzzle)"}

    return draw_points(records, spec, points, axis=axis)
