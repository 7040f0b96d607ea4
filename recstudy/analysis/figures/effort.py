"""What more thinking at test costs and brings: the ways to spend FLOPs on a puzzle with the same weights, a line each."""

from collections.abc import Iterator, Sequence
from functools import partial

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.figures.curve import Points, curve_figure, curve_notes, points_data
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.theme import SCREEN, Size
from recstudy.analysis.frame import StudyRecords
from recstudy.report import Effort
from recstudy.report.names import at_depth, metric

SEGMENTS = "more segments"
WIDE = {"noisy_exact_accuracy": "the surest of noisy trajectories", "voted_exact_accuracy": "the vote of copies"}
HALTED = "halting by itself"


def drawn(records: StudyRecords, spec: Effort) -> Drawn:
    variants = [index for index in records.chosen(spec.where) if not records.leaks(index)]
    points: Points = {}
    for index in variants:
        for way, gflops, measured in budgets(records, index, spec.y):
            line = way if len(variants) == 1 else f"{records.variants[index].label}, {way}"
            points.setdefault((line, gflops, measured), []).append(index)
    data = points_data(records, spec, points)
    return Drawn(partial(effort_figure, data, spec, curve_notes(records, spec, data)), data, spec.heading)


def budgets(records: StudyRecords, index: int, score: str) -> Iterator[tuple[str, float, str]]:
    """Each way to spend FLOPs on a puzzle, how many GFLOP, and the metric that says what they bring."""
    runs = [run for run in records.by_variant[index] if run.done]
    if not runs:
        return
    config, found = records.configs[index], runs[0].found
    segment = runs[0].number("gflops") / config["train.evaluation_steps"]
    for depth in found.depths.get(score, ()):
        yield SEGMENTS, segment * int(depth), at_depth(score, depth)
    for name, way in WIDE.items():
        for measured in (one for one in found.metrics if one.startswith(f"{name}.")):
            count = int(measured.rpartition(".")[2])
            yield way, segment * config["train.at_test.segments"] * count, measured
    if runs[0].value("halted_steps") is not None:
        steps = sum(run.number("halted_steps") for run in runs) / len(runs)
        yield HALTED, segment * steps, "halted_exact_accuracy"


def effort_figure(data: pd.DataFrame, spec: Effort, notes: Sequence[str] = (), size: Size = SCREEN) -> go.Figure:
    """Over powers of ten: each doubling is as far from the last."""
    figure = curve_figure(data, spec, notes, size)
    return figure.update_xaxes(type="log", title=f"At test ({metric('gflops').unit.replace('image', 'puzzle')})")
