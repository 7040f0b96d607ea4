"""Questions as a forest plot: the estimate of each with its interval, over the shade of what is asked."""

from collections.abc import Hashable, Sequence
from functools import partial
from math import isinf
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from recstudy.analysis.caveats import warnings
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.theme import PALETTE, SCREEN, SMALL, Size, clipped, dress, letters, shown, tint
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.headlines import of_family
from recstudy.analysis.questions import Asked, Family, Part
from recstudy.analysis.tables.question_table import verdict_words
from recstudy.report import Claims
from recstudy.report.names import metric

COLUMNS = [
    "question",
    "contrast",
    "metric",
    "value",
    "low",
    "high",
    "level",
    "n",
    "verdict",
    "decided",
    "region_low",
    "region_high",
]
COLUMNS += ["published"]
CLAIMED = "Shaded: what is claimed. Filled circles: supported; crosses: contradicted; hollow: undecided"
HOW = "Filled circles: a significant difference. Diamonds: of two published values"
PHONE = 330  # pixels: the widest line of a question, whatever the page's width
LINES = 2  # of a question's words: the table has them all
ROW, AXIS = 66, 80  # pixels a question, with its words above its interval; between two panels
MARK, BAND = 0.25, 0.16  # of a row: how far below its middle the interval lies, and half its shade


def drawn(records: StudyRecords, part: Part, family: Family) -> Drawn:
    """The figure over a table of questions; without data where none has an estimate."""
    frame, notes = forest_data(family), warnings(records)
    how = CLAIMED if isinstance(part, Claims) else HOW
    return Drawn(
        partial(forest_figure, frame, part.heading, how, notes), frame, part.heading, notes, how, finding=of_family(family)
    )


def forest_data(family: Family) -> pd.DataFrame:
    """A row a question that has an estimate."""
    rows = [_row(one) for one in family.rows if one.estimate.value is not None]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"low": float, "high": float, "published": float})


def forest_figure(data: pd.DataFrame, title: str, how: str, notes: Sequence[str] = (), size: Size = SCREEN) -> go.Figure:
    """A panel a metric, the first question on top."""
    panels = [(str(name), own.to_dict("records")) for name, own in data.groupby("metric", sort=False)]
    heights = [ROW * len(rows) for _, rows in panels]
    high = sum(heights) + AXIS * (len(panels) - 1)
    figure = make_subplots(rows=len(panels), cols=1, row_heights=heights, vertical_spacing=AXIS / high if len(panels) > 1 else 0)
    for at, (name, rows) in enumerate(panels, 1):
        _draw(figure, rows, at, letters((size.width - 60) if size.printed else PHONE, SMALL))
        figure.update_xaxes(title=shown(f"{metric(name).title}: difference ({metric(name).unit or 'no unit'})"), row=at, col=1)
    figure.update_layout(showlegend=False)
    dress(figure, title, notes, high / size.panel, how, size)
    return figure.update_yaxes(showticklabels=False, ticks="", showgrid=False).update_layout(margin_l=12)


def _draw(figure: go.Figure, rows: Sequence[dict[Hashable, Any]], panel: int, line: int) -> None:
    low, high = _ends(rows)
    place: dict[str, Any] = {"row": panel, "col": 1}
    for at, one in enumerate(rows):
        start, end = max(one["region_low"], low), min(one["region_high"], high)
        if start < end:
            shade = {"fillcolor": tint(PALETTE[0], 0.18), "line": {"width": 0}, "layer": "below"}
            figure.add_shape(type="rect", x0=start, x1=end, y0=at + MARK - BAND, y1=at + MARK + BAND, **shade, **place)
        figure.add_annotation(
            x=low, y=at, text=clipped(one["question"], line, LINES), showarrow=False, align="left", xanchor="left",
            yanchor="middle", yshift=ROW * 0.16, font={"size": SMALL}, **place,
        )  # fmt: skip
    up, down = ([abs(one[end] - one["value"]) if pd.notna(one[end]) else None for one in rows] for end in ("high", "low"))
    symbols = [
        "x" if one["verdict"].startswith("contradicted") else "circle" if one["decided"] else "circle-open" for one in rows
    ]
    ys = [at + MARK for at in range(len(rows))]
    figure.add_scatter(
        x=[one["value"] for one in rows],
        y=ys,
        mode="markers",
        marker={"symbol": symbols, "size": 11, "color": PALETTE[0], "line": {"width": 2, "color": PALETTE[0]}},
        error_x={"array": up, "arrayminus": down, "symmetric": False, "thickness": 2, "width": 5, "color": PALETTE[0]},
        hovertext=[shown(_hover(one)) for one in rows],
        hoverinfo="text",
        **place,
    )
    published = [(one["published"], y) for one, y in zip(rows, ys, strict=True) if pd.notna(one["published"])]
    if published:
        x, y = zip(*published, strict=True)
        mark = {"symbol": "diamond-open", "size": 11, "color": PALETTE[1], "line": {"width": 2}}
        figure.add_scatter(x=x, y=y, mode="markers", marker=mark, hovertext=["published"] * len(x), hoverinfo="x+text", **place)
    figure.add_vline(x=0, line={"color": "gray", "width": 1}, layer="below", **place)
    figure.update_xaxes(range=[low, high], **place).update_yaxes(range=[len(rows) - 0.5, -0.5], **place)


def _ends(rows: Sequence[dict[Hashable, Any]]) -> tuple[float, float]:
    """Of the axis: every interval and every region's end, with some space on both sides."""
    names = ("value", "low", "high", "region_low", "region_high", "published")
    known = [0.0, *(one[name] for one in rows for name in names if pd.notna(one[name]) and not isinf(one[name]))]
    space = 0.08 * (max(known) - min(known)) or 1.0
    return min(known) - space, max(known) + space


def _hover(one: dict[Hashable, Any]) -> str:
    interval = f", {one['level']:.1%} interval [{one['low']:+.6g}, {one['high']:+.6g}]" if pd.notna(one["low"]) else ""
    said = f"{one['value']:+.6g} {metric(one['metric']).unit}{interval} (n={one['n']}): {one['verdict']}"
    return f"{one['contrast'] or one['question']}: {said}"


def _row(one: Asked) -> dict[str, Any]:
    found = one.estimate
    low, high = one.answer.question.region
    stated = {"question": one.label, "contrast": one.contrast, "metric": one.metric, "region_low": low, "region_high": high}
    known = {"value": found.value, "low": found.low, "high": found.high, "level": found.level, "n": found.n}
    published = next((each.value for each in one.published), None)
    return {**stated, **known, "verdict": verdict_words(one), "decided": one.verdict.decided, "published": published}
