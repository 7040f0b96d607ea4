"""What more thinking at test costs and brings: a line for each way to spend FLOPs on a puzzle with the same weights."""

from collections.abc import Sequence
from functools import partial

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.budgets import budgets
from recstudy.analysis.figures.curve import curve_figure
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.points import Points, curve_notes, points_data
from recstudy.analysis.figures.scales import log_ticks
from recstudy.analysis.figures.theme import SCREEN, Size
from recstudy.analysis.frame import StudyRecords
from recstudy.report import Effort


def drawn(records: StudyRecords, spec: Effort) -> Drawn:
    variants = [index for index in records.chosen(spec.where) if not records.leaks(index)]
    points: Points = {}
    for index in variants:
        for way, _, gflops, measured in budgets(records, index):
            line = way if len(variants) == 1 else f"{records.variants[index].label}, {way}"
            points[line, gflops, measured] = [index]
    data = points_data(records, spec, points)
    return Drawn(partial(effort_figure, data, spec, curve_notes(records, spec, data)), data, spec.heading)


def effort_figure(data: pd.DataFrame, spec: Effort, notes: Sequence[str] = (), size: Size = SCREEN) -> go.Figure:
    """Each doubling is as far from the last; the ticks are few, since Plotly's own are every digit of a decade."""
    ticks = log_ticks(data["x"].min(), data["x"].max())
    figure = curve_figure(data, spec, notes, size).update_xaxes(
        type="log", tickmode="array", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks]
    )
    return figure if figure.layout.meta.get("slices") else figure.update_xaxes(title="Forward at test (GFLOP/puzzle)")
