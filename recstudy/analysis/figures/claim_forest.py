"""Claims as a forest plot: the difference of each with its interval, over the shade of what is claimed."""

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from recstudy.analysis.caveats import warnings
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.theme import PALETTE, SCREEN, SMALL, Size, clipped, dress, letters, shown, tint
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.tables.claims import Judged
from recstudy.report import Claims
from recstudy.report.names import metric

COLUMNS = ["claim", "contrast", "metric", "value", "low", "high", "level", "n", "verdict", "by", "within"]
HOW = "Shaded: what is claimed. Filled circles: supported; crosses: contradicted; hollow: undecided"
SYMBOLS = {"supported": "circle", "contradicted": "x"}
PHONE = 330  # pixels: the widest line of a claim, whatever the page's width
LINES = 2  # of a claim's words: the table has them all
ROW, AXIS = 66, 80  # pixels a claim, with its words above its interval; between two panels
MARK, BAND = 0.25, 0.16  # of a row: how far below its middle the interval lies, and half its shade


def drawn(records: StudyRecords, part: Claims, judged: Sequence[Judged]) -> Drawn:
    frame, notes = claims_frame(judged), warnings(records)
    return Drawn(partial(claims_figure, frame, part.heading, notes), frame, part.heading, notes, HOW)


def claims_frame(judged: Sequence[Judged]) -> pd.DataFrame:
    """A row a claim that has a difference."""
    rows = [_row(one) for one in judged if one.found is not None and one.found.value is not None]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"low": float, "high": float, "within": float})


def claims_figure(data: pd.DataFrame, title: str, notes: Sequence[str] = (), size: Size = SCREEN) -> go.Figure:
    """A panel a metric, the first claim on top."""
    panels = [(str(name), own.to_dict("records")) for name, own in data.groupby("metric", sort=False)]
    heights = [ROW * len(rows) for _, rows in panels]
    high = sum(heights) + AXIS * (len(panels) - 1)
    figure = make_subplots(rows=len(panels), cols=1, row_heights=heights, vertical_spacing=AXIS / high if len(panels) > 1 else 0)
    for at, (name, rows) in enumerate(panels, 1):
        _draw(figure, rows, at, letters((size.width - 60) if size.printed else PHONE, SMALL))
        figure.update_xaxes(title=shown(f"{metric(name).title}: difference ({metric(name).unit or 'no unit'})"), row=at, col=1)
    figure.update_layout(showlegend=False)
    dress(figure, title, notes, high / size.panel, HOW, size)
    return figure.update_yaxes(showticklabels=False, ticks="", showgrid=False).update_layout(margin_l=12)


def _draw(figure: go.Figure, rows: Sequence[dict[Hashable, Any]], panel: int, line: int) -> None:
    low, high = _ends(rows)
    place: dict[str, Any] = {"row": panel, "col": 1}
    for at, one in enumerate(rows):
        claimed = (-one["within"], one["within"]) if pd.notna(one["within"]) else (one["by"], high)
        shade = {"fillcolor": tint(PALETTE[0], 0.18), "line": {"width": 0}, "layer": "below"}
        figure.add_shape(type="rect", x0=claimed[0], x1=claimed[1], y0=at + MARK - BAND, y1=at + MARK + BAND, **shade, **place)
        figure.add_annotation(
            x=low, y=at, text=clipped(one["claim"], line, LINES), showarrow=False, align="left", xanchor="left", yanchor="middle",
            yshift=ROW * 0.16, font={"size": SMALL}, **place,
        )  # fmt: skip
    up, down = ([abs(one[end] - one["value"]) if pd.notna(one[end]) else None for one in rows] for end in ("high", "low"))
    figure.add_scatter(
        x=[one["value"] for one in rows],
        y=[at + MARK for at in range(len(rows))],
        mode="markers",
        marker={"symbol": [SYMBOLS.get(one["verdict"], "circle-open") for one in rows], "size": 11, "color": PALETTE[0],
                "line": {"width": 2, "color": PALETTE[0]}},
        error_x={"array": up, "arrayminus": down, "symmetric": False, "thickness": 2, "width": 5, "color": PALETTE[0]},
        hovertext=[shown(_hover(one)) for one in rows],
        hoverinfo="text",
        **place,
    )  # fmt: skip
    figure.add_vline(x=0, line={"color": "gray", "width": 1}, layer="below", **place)
    figure.update_xaxes(range=[low, high], **place).update_yaxes(range=[len(rows) - 0.5, -0.5], **place)


def _ends(rows: Sequence[dict[Hashable, Any]]) -> tuple[float, float]:
    """Of the axis: every interval and every margin, with some room on both sides."""
    known = [0.0, *(value for one in rows for value in (one["value"], one["low"], one["high"], one["by"], one["within"]))]
    known += [-one["within"] for one in rows]
    low, high = min(value for value in known if pd.notna(value)), max(value for value in known if pd.notna(value))
    room = 0.08 * (high - low) or 1.0
    return low - room, high + room


def _hover(one: dict[Hashable, Any]) -> str:
    interval = f", {one['level']:.1%} interval {one['low']:+.6g} to {one['high']:+.6g}" if pd.notna(one["low"]) else ""
    return f"{one['contrast']}: {one['value']:+.6g} {metric(one['metric']).unit}{interval} (n={one['n']}): {one['verdict']}"


def _row(one: Judged) -> dict[str, Any]:
    low, high = one.interval or (None, None)
    stated = {"claim": one.claim.text, "contrast": one.claim.contrast, "metric": one.claim.metric}
    found = {"value": one.found.value if one.found else None, "low": low, "high": high, "level": 1 - one.alpha}
    return {**stated, **found, "n": one.seeds, "verdict": one.verdict, "by": one.claim.by, "within": one.claim.within}
