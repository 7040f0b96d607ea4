"""Small panels in rows, as many in each as the width has room for."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from recstudy.analysis.figures.theme import Size, clipped, letters
from recstudy.records import Json

BAR, EDGE, HEAD = 64, 12, 66  # pixels: what stands below all panels, the figure's edges, the heading of a group of panels
LINES = 2  # of a panel's name


class Grid(NamedTuple):
    """Pixels: the least of a panel, its height, what its ticks and its name need."""

    narrow: int
    high: int
    left: int
    below: int


GRIDS = {False: Grid(280, 240, 48, 64), True: Grid(180, 170, 40, 54)}  # by whether it is printed; the first in style.SCRIPT too


def axes(panel: int) -> dict[str, str]:
    """Of a trace in this panel, the first of which is 1."""
    number = str(panel) if panel > 1 else ""
    return {"xaxis": f"x{number}", "yaxis": f"y{number}"}


def layout(panel: int, across: Json | None = None, upwards: Json | None = None) -> dict[str, Json]:
    """Of a panel's two axes, each at the other's end, with what else is said of them; `GRIDS` has the room for their labels."""
    number = str(panel) if panel > 1 else ""
    return {
        f"xaxis{number}": {"anchor": f"y{number}", "automargin": False, **(across or {})},
        f"yaxis{number}": {"anchor": f"x{number}", "automargin": False, **(upwards or {})},
    }


def named(words: str) -> Json:
    """An axis whose title is the panel's name."""
    text = clipped(words, letters(GRIDS[False].narrow - EDGE, 13), LINES)
    return {"title": {"text": text, "standoff": 6, "font": {"size": 13}}}


def head(figure: go.Figure, words: Sequence[str]) -> go.Figure:
    """Markup over each group of panels, of which all have as many."""
    for text in words:
        figure.add_annotation(name="head", text=text, align="left", x=0, xref="paper", xanchor="left", yref="paper",
                              yanchor="top", yshift=-8, showarrow=False)  # fmt: skip
    return figure.update_layout(meta={**figure.layout.meta, "slices": True})


def arrange(figure: go.Figure, size: Size) -> go.Figure:
    """Give every panel its place, at once: one by one takes Plotly 0.1 s for 30; `style.SCRIPT` does the same in the page."""
    heads = [one for one in figure.layout.annotations if one.name == "head"]
    panels, grid = figure.layout.meta["panels"] // max(1, len(heads)), GRIDS[size.printed]
    inner = size.width - 2 * EDGE
    across = min(panels, max(1, inner // grid.narrow))
    side, down = inner / across, math.ceil(panels / across)
    group = grid.high * down + HEAD * bool(heads)
    high, places = group * max(1, len(heads)), dict[str, Json]()
    for at in range(figure.layout.meta["panels"]):
        of, own = divmod(at, panels)
        left, above = own % across * side, of * group + HEAD * bool(heads) + own // across * grid.high
        axis = str(at + 1) if at else ""
        low = max(0.0, 1 - (above + grid.high - grid.below) / high)
        places[f"xaxis{axis}"] = {"domain": [(left + grid.left) / inner, (left + side - EDGE) / inner]}
        places[f"yaxis{axis}"] = {"domain": [low, 1 - (above + EDGE) / high]}
    for of, words in enumerate(heads):
        words.y = 1 - of * group / high
    top = figure.layout.margin.t
    return figure.update_layout(places, height=high + top + BAR, margin={"l": EDGE, "r": EDGE, "t": top, "b": BAR})
