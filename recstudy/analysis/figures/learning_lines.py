"""The traces of learning curves: a variant's line, the range over its seeds, what it selected, and the range of all variants."""

from typing import Any

import pandas as pd

from recstudy.analysis.figures.theme import band, shown, style, tint
from recstudy.report.names import plural

BAND = 3  # seeds from which on the range between them is drawn


def traces(points: pd.DataFrame, window: int) -> list[dict[str, Any]]:
    """Of one variant and metric; the line is the last but for what was selected."""
    variant, label, epochs = int(points["variant"].iloc[0]), str(points["label"].iloc[0]), points["epoch"].tolist()
    look, found = style(variant), []
    if (points["n"] >= BAND).any():
        found.append(band(epochs, points, tint(look["color"], 0.12)))
    if window > 1:
        light = {"color": tint(look["color"], 0.35), "width": 1}
        found.append(
            {"x": epochs, "y": points["mean"].tolist(), "mode": "lines", "line": light, "hoverinfo": "skip", "showlegend": False}
        )
    line = {
        "x": epochs,
        "y": points["average" if window > 1 else "mean"].tolist(),
        "mode": "lines" if len(epochs) > 1 else "markers",
        "name": shown(label),
        "line": {"color": look["color"], "dash": look["dash"]},
        "hovertext": [
            shown(f"{label}, epoch {row['epoch']}: {row['mean']:.6g} (n={row['n']})") for row in points.to_dict("records")
        ],
        "hoverinfo": "text",
    }
    return [{**one, "legendgroup": str(variant)} for one in [*found, line, *_selected(points, look["color"])]]


def whole_range(points: pd.DataFrame) -> dict[str, Any]:
    """From the lowest to the highest variant's mean, epoch by epoch, of one metric."""
    ends = points.groupby("epoch")["mean"].agg(low="min", high="max").reset_index()
    return band(ends["epoch"].tolist(), ends, "rgba(128,128,128,0.2)")


def _selected(points: pd.DataFrame, color: str) -> list[dict[str, Any]]:
    """Where epochs were selected, on the curve that they were selected by."""
    chosen = points[points["selected"].fillna(0).astype(float) > 0]
    if chosen.empty or not str(chosen["metric"].iloc[0]).startswith("selection_"):
        return []
    marks = {
        "x": chosen["epoch"].tolist(),
        "y": chosen["mean"].tolist(),
        "mode": "markers",
        "marker": {"symbol": "circle-open", "size": 9, "color": color, "line": {"width": 2}},
        "showlegend": False,
        "hovertext": [
            shown(f"{row['label']}: epoch {row['epoch']} selected by {plural(int(row['selected']), 'seed')}")
            for row in chosen.to_dict("records")
        ],
        "hoverinfo": "text",
    }
    return [marks]
