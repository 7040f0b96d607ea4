"""How figures look: colours that colour-blind readers tell apart, and a dash and a marker of its own for each line."""

import html
import math
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import pandas as pd
import plotly.graph_objects as go

# Okabe and Ito (2008); the yellow is left out because it vanishes on white, and black because it does on black.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down")
LINE = 110  # characters of a note in a printed figure
WIDTH = 700  # points of a printed figure; on a screen it is as wide as its page
SPECTRUM = ("#0072B2", "#CC79A7", "#E69F00")  # of a scale of colours: its ends are seen on white and on black
GRID = "rgba(128,128,128,0.25)"  # readable on white and on black


def style(index: int) -> dict[str, str]:
    """Colour, dash and symbol of the line at `index`. They have different periods: 210 lines before two look alike."""
    return {
        "color": PALETTE[index % len(PALETTE)],
        "dash": DASHES[index % len(DASHES)],
        "symbol": SYMBOLS[index % len(SYMBOLS)],
    }


def tint(color: str, alpha: float) -> str:
    """`#0072B2` as an `rgba(...)` of that opacity."""
    red, green, blue = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def blend(share: float) -> str:
    """The colour at this share, from 0 to 1, of `SPECTRUM`."""
    at = min(int(share * (len(SPECTRUM) - 1)), len(SPECTRUM) - 2)
    ends = [[int(color[start : start + 2], 16) for start in (1, 3, 5)] for color in SPECTRUM[at : at + 2]]
    far = share * (len(SPECTRUM) - 1) - at
    return "#" + "".join(f"{round(low + (high - low) * far):02X}" for low, high in zip(*ends, strict=True))


def shown(text: object) -> str:
    """Text that Plotly shows as it is: its labels read a kind of HTML."""
    return html.escape(str(text), quote=False)


def dress(figure: go.Figure, title: str, notes: Sequence[str] = (), panels: int = 1, caption: str = "") -> go.Figure:
    """The common layout, with room for the title, the notes and a legend below; `style.SCRIPT` redoes it for other widths."""
    words = heading(title, notes, caption)
    axis = {"gridcolor": GRID, "zeroline": False, "linecolor": "gray", "ticks": "outside", "automargin": True}
    figure.update_layout(
        title={
            "text": words,
            "x": 0,
            "pad": {"l": 12, "t": 25 if "<br>" in words else 14},  # Plotly sets a title of several lines 11 points higher
            "y": 1,
            "yanchor": "top",
            "yref": "container",
            "font": {"size": 16},
        },
        template="none",
        font={"family": "system-ui, sans-serif", "size": 14},
        meta={"panels": panels},
        hovermode="closest",
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": "gray", "activecolor": PALETTE[0]},
        colorway=list(PALETTE),
    )
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    return figure.update_layout(**room(figure))


def heading(title: str, notes: Sequence[str], caption: str = "") -> str:
    """The title, under it what a reader must know first, in orange, and how to read the figure, in gray."""
    lines = [("#D55E00", line) for note in notes for line in wrap(note, LINE)] + [("gray", line) for line in wrap(caption, LINE)]
    return shown(title) + "".join(f'<br><span style="font-size:12px;color:{color}">{shown(line)}</span>' for color, line in lines)


def room(figure: go.Figure) -> dict[str, object]:
    """Height and margins at `WIDTH`: 300 points a panel, and what the title's and the legend's lines need."""
    names = [trace.name for trace in figure.data if trace.name and trace.showlegend is not False]
    longest = max((len(name) for name in names), default=0)
    lines = math.ceil(len(names) / max(1, (WIDTH - 80) // (longest * 8 + 60))) if len(names) > 1 else 0
    top, bottom = 30 + 20 * (1 + str(figure.layout.title.text).count("<br>")), 70 + 22 * lines
    legend = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "xanchor": "left"}
    margin = {"l": 60, "r": 20, "t": top, "b": bottom}
    return {"height": 300 * figure.layout.meta["panels"] + top + bottom, "margin": margin, "legend": legend}


def band(x: Sequence[Any], points: pd.DataFrame, fill: str) -> dict[str, Any]:
    """A filled area from `low` to `high` of the points, which answers to no pointer and no legend."""
    return {
        "x": [*x, *reversed(x)],
        "y": [*points["high"], *points["low"][::-1]],
        "mode": "lines",
        "fill": "toself",
        "fillcolor": fill,
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }
