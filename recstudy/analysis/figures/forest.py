"""Differences as a forest plot: each with its interval, the published one beside it, and the margin of that as a shade."""

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.caveats import warnings
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.theme import PALETTE, SCREEN, Size, dress, folded, shown, tint
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.tables.differences import Difference, DifferencesData
from recstudy.report import Differences
from recstudy.report.names import metric

COLUMNS = ["label", "base", "value", "low", "high", "n", "verdict", "published", "source"]
LINE, LEAST, LETTERS = 34, 120, 26  # pixels a row and of all rows at least; letters of a label's line
HOW = "Filled circles: a difference is shown. Diamonds: of two published values, with their margin"
SHORT = 14  # letters of a base that the axis names


def drawn(records: StudyRecords, part: Differences, data: DifferencesData) -> Drawn:
    frame = forest_data(data)
    notes = warnings(records)
    return Drawn(partial(forest_figure, frame, part, notes), frame, part.heading, notes, HOW)


def forest_data(data: DifferencesData) -> pd.DataFrame:
    """A row a difference, ours (`published` is False) and then the published ones, whose `low` and `high` are their margin."""
    rows = [row for one in data.rows if one.found.value is not None for row in (_ours(one), *_published(one))]
    return pd.DataFrame(rows, columns=COLUMNS)


def forest_figure(data: pd.DataFrame, part: Differences, notes: Sequence[str] = (), size: Size = SCREEN) -> go.Figure:
    """The first row on top, with a line where there is no difference."""
    figure = go.Figure()
    labels = [folded(shown(label), LETTERS) for label in data["label"]]
    for published in (True, False):
        own = data["published"].astype(bool) == published
        points, at = data[own].to_dict("records"), [label for label, here in zip(labels, own, strict=True) if here]
        if points:
            figure.add_scatter(**_points(points, at, published, part))
    figure.add_vline(x=0, line={"color": "gray", "width": 1})
    rows = len(dict.fromkeys(labels))
    figure.update_layout(showlegend=False)
    dress(figure, part.heading, notes, max(LEAST, LINE * rows) / size.panel, HOW, size)
    figure.update_xaxes(title=shown(f"minus {_base(data)} ({metric(part.metric).unit or metric(part.metric).title})"))
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)
    return figure


def _points(points: Sequence[dict[Hashable, Any]], labels: Sequence[str], published: bool, part: Differences) -> dict[str, Any]:
    told = [one["verdict"] in ("better", "worse", "higher", "lower") for one in points]
    color = PALETTE[1] if published else PALETTE[0]
    symbols = ["diamond-open" if published else "circle" if filled else "circle-open" for filled in told]
    up = [one["high"] - one["value"] if pd.notna(one["high"]) else None for one in points]
    down = [one["value"] - one["low"] if pd.notna(one["low"]) else None for one in points]
    shade = (
        {"thickness": 14, "width": 0, "color": tint(color, 0.25)} if published else {"thickness": 2, "width": 5, "color": color}
    )
    return {
        "x": [one["value"] for one in points],
        "y": list(labels),
        "mode": "markers",
        "marker": {"symbol": symbols, "size": 11, "color": color, "line": {"width": 2, "color": color}},
        "error_x": {"type": "data", "array": up, "arrayminus": down, "symmetric": False, **shade},
        "hovertext": [shown(_hover(one, published, part)) for one in points],
        "hoverinfo": "text",
        "name": "published" if published else "ours",
    }


def _hover(one: dict[Hashable, Any], published: bool, part: Differences) -> str:
    value = f"{one['label']} minus {one['base']}: {one['value']:+.6g} {metric(part.metric).unit}"
    if published:
        return f"{value}, published: {one['source']}"
    interval = f", 95 % interval {one['low']:+.6g} to {one['high']:+.6g}" if pd.notna(one["low"]) else ""
    return f"{value}{interval} (n={one['n']}): {one['verdict']}"


def _base(data: pd.DataFrame) -> str:
    bases = list(dict.fromkeys(data["base"]))
    return str(bases[0]) if len(bases) == 1 and len(bases[0]) <= SHORT else "its base"


def _ours(one: Difference) -> dict[str, Any]:
    known = {"label": one.label, "base": one.base, "value": one.found.value, "low": one.found.low, "high": one.found.high}
    return {**known, "n": min(one.n), "verdict": one.verdict, "published": False, "source": ""}


def _published(one: Difference) -> list[dict[str, Any]]:
    rows = []
    for found in one.published:
        margin = max(found.ours.margin, found.theirs.margin)
        known = {
            "label": one.label,
            "base": one.base,
            "value": found.value,
            "low": found.value - margin,
            "high": found.value + margin,
        }
        verdict = "not comparable" if found.reasons else ""
        rows.append({**known, "n": None, "verdict": verdict, "published": True, "source": found.sources})
    return rows
