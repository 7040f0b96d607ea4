"""Learning curves: what each variant measured epoch by epoch, its mean over the seeds and the range between them."""

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.names import metric
from recstudy.analysis.spec import LearningCurves
from recstudy.analysis.tables import warnings
from recstudy.analysis.theme import dress, shown, style, tint

MOST = 30  # lines that a reader can still tell apart in one figure
COLUMNS = ["variant", "label", "metric", "epoch", "mean", "low", "high", "n"]


def learning_data(records: StudyRecords, spec: LearningCurves, most: int = MOST) -> pd.DataFrame:
    """One row a variant, metric and epoch: `mean`, `low` and `high` (smallest and largest seed) and `n` seeds.

    Only the `most` best variants are read (`shown_variants`).
    """
    frame = records.epochs(shown_variants(records, most))
    parts = [_spread(frame, name) for name in spec.metrics if name in frame]
    if not parts:
        return pd.DataFrame(columns=COLUMNS)
    data = pd.concat(parts, ignore_index=True)
    data["label"] = [records.variants[index]["label"] for index in data["variant"]]
    return data[COLUMNS]


def shown_variants(records: StudyRecords, most: int = MOST) -> list[int]:
    """All variants, or the `most` best by their mean top-1 accuracy, in the study's order."""
    known = range(len(records.variants))
    best = sorted(known, key=lambda index: _score(records, index), reverse=True)[:most]
    return sorted(best)


def learning_notes(records: StudyRecords, most: int = MOST) -> tuple[str, ...]:
    """What a reader must know before the curves."""
    count = len(records.variants)
    cut = [f"the {most} best of {count:,} variants by top-1 accuracy"] if count > most else []
    return (*warnings(records), *cut)


def learning_figure(data: pd.DataFrame, spec: LearningCurves, notes: Sequence[str] = ()) -> go.Figure:
    """One panel a metric; a click on a name in the legend hides or shows that variant in all of them."""
    panels = max(1, len(spec.metrics))
    figure = make_subplots(rows=panels, cols=1, shared_xaxes=True, vertical_spacing=0.1 / panels)
    for panel, name in enumerate(spec.metrics, 1):
        for index, variant in enumerate(dict.fromkeys(data["variant"])):
            points = data[(data["variant"] == variant) & (data["metric"] == name)]
            if len(points):
                _draw(figure, points, index, panel)
        figure.update_yaxes(title=shown(metric(name).heading), row=panel, col=1)
    figure.update_xaxes(title="epoch", row=panels, col=1)
    if 0 < data["epoch"].nunique() <= 12:
        figure.update_xaxes(tick0=0, dtick=1)  # no half epochs
    return dress(figure, learning_title(spec), notes, panels)


def learning_title(spec: LearningCurves) -> str:
    return spec.title or "Learning curves: mean over seeds, range between them"


def _spread(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    grouped = frame.dropna(subset=[name]).groupby(["variant", "epoch"], sort=True)[name]
    table = grouped.agg(["mean", "min", "max", "count"]).reset_index()
    return table.rename(columns={"min": "low", "max": "high", "count": "n"}).assign(metric=name)


def _score(records: StudyRecords, index: int) -> float:
    known = [run["top1_accuracy"] for run in records.by_variant[index] if run["status"] == "done" and "top1_accuracy" in run]
    return sum(known) / len(known) if known else float("-inf")


def _draw(figure: go.Figure, points: pd.DataFrame, index: int, panel: int) -> None:
    look, label = style(index), str(points["label"].iloc[0])
    group = str(points["variant"].iloc[0])
    epochs = points["epoch"].tolist()
    if (points["n"] > 1).any():
        figure.add_scatter(
            x=epochs + epochs[::-1],
            y=[*points["high"], *points["low"][::-1]],
            mode="lines",
            fill="toself",
            fillcolor=tint(look["color"], 0.12),
            line={"width": 0},
            hoverinfo="skip",
            legendgroup=group,
            showlegend=False,
            row=panel,
            col=1,
        )
    figure.add_scatter(
        x=epochs,
        y=points["mean"].tolist(),
        mode="lines" if len(epochs) > 1 else "markers",
        name=shown(label),
        legendgroup=group,
        showlegend=panel == 1,
        line={"color": look["color"], "dash": look["dash"]},
        hovertext=[
            shown(f"{label}, epoch {row['epoch']}: {row['mean']:.6g} (n={row['n']})") for row in points.to_dict("records")
        ],
        hoverinfo="text",
        row=panel,
        col=1,
    )
