"""How figures look: colours that colour-blind readers tell apart, and a dash and a marker of its own for each line."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from recstudy.report.names import metric

# Near those of Okabe and Ito (2008), and to the colour-blind as far apart as theirs, but each at a contrast of 3 to the paper at
# least (WCAG 1.4.11; their orange has 2.2). `DARK` are the same on a dark page, where `style.SCRIPT` puts them.
PALETTE = ("#0072B2", "#D55E00", "#005C43", "#B9668F", "#6B5000", "#5B1DD0")
DARK = ("#28A4E3", "#D55E00", "#04D48D", "#CC79A7", "#E69F00", "#BCE3F2")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down")
SPECTRUM = PALETTE[0], PALETTE[3], PALETTE[1]  # of a scale of colours: blue to orange
ALARM, SOFT = "#9A4A00", "#57606A"  # of small letters on white paper
GRID = "rgba(128,128,128,0.25)"  # readable on white and on black


@dataclass(frozen=True)
class Size:
    """What a figure is laid out for, in pixels of its drawing.

    In print a pixel is 0.6 points (`export.SCALE`): axes are lettered in 8.4 points, what is smaller in 6.6 or 7.2. There the
    figure has neither a title nor words on how to read it, which LaTeX's caption says, but keeps its notes.
    """

    width: int
    panel: int = 300  # a panel's height
    printed: bool = True

    @property
    def inner(self) -> int:
        """What panels have beside the labels of their rows."""
        return self.width - 110


SCREEN = Size(700, printed=False)  # at first: a page gives a figure its own width
INCH = 120  # pixels of a printed figure
LINE = 110  # characters of a note on a screen
SMALL, LARGE = 12, 14  # pixels: letters of notes and, in print, of legends; letters of axes
BUTTONS_OUT = ("sendChartToCloud", "select2d", "lasso2d")  # one would send the numbers elsewhere, two choose points for nothing
WIDE = 0.58  # of a letter's size its mean width in DejaVu, the widest of the usual fonts
_TITLE = {"font": {"size": LARGE}, "standoff": 8}
_BAR = {"colorbar": {"title": {"font": {"size": SMALL}}, "tickfont": {"size": SMALL}}}
# No prefix such as 2µ, which would stand before a % as well, and no small exponents.
_AXIS = {"gridcolor": GRID, "zeroline": False, "linecolor": "gray", "ticks": "outside", "automargin": True, "exponentformat": "e"}
LOOK = go.layout.Template(layout={"xaxis": _AXIS, "yaxis": _AXIS})  # of every axis at once: one by one, of 60, takes 0.2 s
PRINT = go.layout.Template(layout={"xaxis": _AXIS | {"title": _TITLE}, "yaxis": _AXIS | {"title": _TITLE}, "coloraxis": _BAR})


def on_paper(inches: float) -> Size:
    """At most so wide, in whole pixels of Chrome, of which there are 4 to 5; panels are higher where there is more room."""
    width = int(inches * INCH / 5 + 1e-6) * 5
    return Size(width, panel=170 + round(width / 10.5))


def style(index: int) -> dict[str, str]:
    """Colour, dash and symbol of the line at `index`. They have different periods: 210 lines before two look alike."""
    return {
        "color": PALETTE[index % len(PALETTE)],
        "dash": DASHES[index % len(DASHES)],
        "symbol": SYMBOLS[index % len(SYMBOLS)],
    }


def bounded(name: str) -> dict[str, Any]:
    """For an axis of a metric: it ends where the metric does."""
    low, high = metric(name).bounds or (-math.inf, math.inf)
    ends = {"clipmin": low, "clipmax": high}
    return {"autorangeoptions": {end: value for end, value in ends.items() if math.isfinite(value)}}


def tint(color: str, alpha: float) -> str:
    """`#0072B2` as an `rgba(...)` of that opacity."""
    return f"{channels(color)}{alpha})"


def channels(color: str) -> str:
    """How its `tint` begins, whatever the opacity."""
    red, green, blue = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},"


def blend(share: float) -> str:
    """The colour at this share, from 0 to 1, of `SPECTRUM`."""
    at = min(int(share * (len(SPECTRUM) - 1)), len(SPECTRUM) - 2)
    ends = [[int(color[start : start + 2], 16) for start in (1, 3, 5)] for color in SPECTRUM[at : at + 2]]
    far = share * (len(SPECTRUM) - 1) - at
    return "#" + "".join(f"{round(low + (high - low) * far):02X}" for low, high in zip(*ends, strict=True))


def shown(text: object) -> str:
    """Text that Plotly shows as it is: its labels read a kind of HTML."""
    return html.escape(str(text), quote=False)


def letters(pixels: float, size: int) -> int:
    """How many letters of this size fit side by side."""
    return max(1, int(pixels / (WIDE * size)))


def folded(markup: str, most: int) -> str:
    """What Plotly is to show, in lines of at most so many letters, unless a word is longer."""
    lines = [line for part in markup.split("<br>") for line in wrap(html.unescape(part), most, break_long_words=False)]
    return "<br>".join(map(shown, lines))


def clipped(words: str, most: int, lines: int) -> str:
    """What Plotly is to show, in at most so many lines of so many letters, with an ellipsis where that is not all."""
    found = wrap(words, most)
    return "<br>".join(map(shown, found[:lines])) + " \N{HORIZONTAL ELLIPSIS}" * (len(found) > lines)


def dress(
    figure: go.Figure, title: str, notes: Sequence[str] = (), panels: float = 1, caption: str = "", size: Size = SCREEN
) -> go.Figure:
    """The common layout, with room for the heading and a legend below; `style.SCRIPT` redoes it for a page's own width."""
    words = heading(title, notes, caption, size)
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
        template=LOOK,
        font={"family": "system-ui, sans-serif", "size": LARGE},
        meta={"panels": panels},
        hovermode="closest",
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": "gray", "activecolor": PALETTE[0], "remove": BUTTONS_OUT},
        colorway=list(PALETTE),
    )
    if size.printed:
        _for_print(figure, size)
    return figure.update_layout(**room(figure, size))


def heading(title: str, notes: Sequence[str], caption: str = "", size: Size = SCREEN) -> str:
    """The title, under it what a reader must know first, in orange, and how to read the figure, in gray; in print the orange."""
    line = letters(size.width - 24, SMALL) if size.printed else LINE
    said = [(ALARM, note) for note in notes] + [(SOFT, caption)] * (not size.printed)
    lines = [(color, part) for color, text in said for part in wrap(text, line)]
    spans = [f'<span style="font-size:{SMALL}px;color:{color}">{shown(part)}</span>' for color, part in lines]
    return "<br>".join([shown(title)] * (not size.printed) + spans)


def room(figure: go.Figure, size: Size = SCREEN) -> dict[str, object]:
    """Height and margins: the panels', and what the heading's and the legend's lines need."""
    words = str(figure.layout.title.text)
    names = [trace.name for trace in figure.data if trace.name and trace.showlegend is not False]
    longest = max((len(name) for name in names), default=0)
    lines = math.ceil(len(names) / max(1, (size.width - 80) // (longest * 8 + 60))) if len(names) > 1 else 0
    top, bottom = 30 + 20 * (1 + words.count("<br>")), 70 + 22 * lines
    if size.printed:
        top, bottom = 22 + 16 * (words.count("<br>") + 1 if words else 0), 50 + _legend_height(figure, size)
    legend = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "xanchor": "left"}
    margin = {"l": 60, "r": 20, "t": top, "b": bottom}
    return {"height": size.panel * figure.layout.meta["panels"] + top + bottom, "margin": margin, "legend": legend}


def _for_print(figure: go.Figure, size: Size) -> None:
    """White paper, smaller letters, and names in the legend that are folded to its width."""
    figure.update_layout(
        template=PRINT,
        font={"family": "Arial, Helvetica, sans-serif"},  # of a paper's other figures
        width=size.width,
        paper_bgcolor="white",
        plot_bgcolor="white",
        title={"pad": {"t": 20 if "<br>" in figure.layout.title.text else 10}, "font": {"size": SMALL}},
        legend={"font": {"size": SMALL}, "xref": "container", "tracegroupgap": 0, "maxheight": 1},
    )
    for trace in figure.data:
        if trace.name:
            trace.name = folded(trace.name, letters(size.width - 60, SMALL))


def _legend_height(figure: go.Figure, size: Size) -> int:
    """Of the groups of a legend, side by side as Plotly sets them: the width of each is that of its longest line."""
    groups: dict[str, list[str]] = {}
    for at, trace in enumerate(figure.data):
        if trace.name and trace.showlegend is not False:
            groups.setdefault(trace.legendgroup or str(at), []).append(trace.name)
    if len(groups) < 2 and not figure.layout.showlegend:
        return 0
    height, high, used = 0, 0, 0.0
    for names in groups.values():
        lines = "<br>".join(names).split("<br>")
        wide = WIDE * SMALL * max(map(len, lines)) + 45
        if used and used + wide > size.width - 80:
            height, high, used = height + high, 0, 0.0
        high, used = max(high, 16 * len(lines) + 3 * len(names)), used + wide
    return height + high + 8


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
