"""How figures look: colours that colour-blind readers tell apart, a dash and a marker for each line, words that fit; and what
stands in a panel: lines, points, bands, error bars and cells, and how far its axes reach.
"""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from recstudy.report.names import metric

# Near those of Okabe and Ito (2008), and to the colour-blind as far apart as theirs, but each at a contrast of 3 to the paper at
# least (WCAG 1.4.11; their orange has 2.2). `DARK` are the same on a dark page, where `page.js` puts them.
PALETTE = ("#0072B2", "#D55E00", "#005C43", "#B9668F", "#6B5000", "#5B1DD0")
DARK = ("#28A4E3", "#D55E00", "#04D48D", "#CC79A7", "#E69F00", "#BCE3F2")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down")
SPECTRUM = PALETTE[0], PALETTE[3], PALETTE[1]  # of a scale of colours: blue to orange
# Of shares, none to most: lighter to darker blue, so that it is read without colours too, on white and on black.
SHADES = ((0, "#EEF4F9"), (0.7, PALETTE[0]), (1, "#003F66"))
ALARM, SOFT = "#9A4A00", "#57606A"  # of small letters on white paper
GRID = "rgba(128,128,128,0.25)"  # readable on white and on black
INCH = 120  # pixels of a printed figure
CELL, SMALL, LARGE = 11, 12, 14  # pixels of letters: in a cell; of notes and names of lines; of axes
WIDE = 0.58  # of a letter's size its mean width in DejaVu, the widest of the usual fonts

# What every figure has, by whether it is printed; `page.js` sets the colour of a page's letters.
FONT = {
    False: {"family": "system-ui, sans-serif", "size": LARGE},
    True: {"family": "Arial, Helvetica, sans-serif", "size": LARGE},  # of a paper's other figures
}
_AXIS = {"gridcolor": GRID, "zeroline": False, "linecolor": "gray", "ticks": "outside", "automargin": True}
_AXIS["exponentformat"] = "e"  # no prefix such as 2µ, which would stand before a % as well, and no small exponents
_SMALLER = {**_AXIS, "title": {"font": {"size": LARGE}, "standoff": 8}}
_BAR = {"colorbar": {"title": {"font": {"size": SMALL}}, "tickfont": {"size": SMALL}}}
_OUT = ("sendChartToCloud", "select2d", "lasso2d")  # one would send the numbers elsewhere, two choose points for nothing
_BUTTONS = {"bgcolor": "rgba(0,0,0,0)", "color": "gray", "activecolor": PALETTE[0], "remove": _OUT}
_ALL = {"hovermode": "closest", "modebar": _BUTTONS, "colorway": list(PALETTE)}
TEMPLATE = {
    False: go.layout.Template(layout={**_ALL, "xaxis": _AXIS, "yaxis": _AXIS}),
    True: go.layout.Template(layout={**_ALL, "xaxis": _SMALLER, "yaxis": _SMALLER, "coloraxis": _BAR}),
}


@dataclass(frozen=True)
class Size:
    """What a figure is laid out for, in pixels of its drawing.

    In print a pixel is 0.6 points (`shown.SCALE`): axes are lettered in 8.4 points, what is smaller in 6.6 or 7.2. There the
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


def on_paper(inches: float) -> Size:
    """Fit at most so many inches, in whole pixels of Chrome, of which there are 4 to 5; wider figures have higher panels."""
    width = int(inches * INCH / 5 + 1e-6) * 5
    return Size(width, panel=170 + round(width / 10.5))


def style(index: int) -> dict[str, str]:
    """Colour, dash and symbol of the line at `index`. They have different periods: 210 lines before two look alike."""
    return {name: of[index % len(of)] for name, of in (("color", PALETTE), ("dash", DASHES), ("symbol", SYMBOLS))}


def tint(color: str, alpha: float) -> str:
    """Turn `#0072B2` into an `rgba(...)` of that opacity."""
    return f"{channels(color)}{alpha})"


def channels(color: str) -> str:
    """Begin a `tint`, whatever its opacity."""
    red, green, blue = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},"


def shown(text: object) -> str:
    """Escape text so that Plotly shows it as it is: its labels read a kind of HTML."""
    return html.escape(str(text), quote=False)


def letters(pixels: float, size: int) -> int:
    """Count how many letters of this size fit side by side."""
    return max(1, int(pixels / (WIDE * size)))


def folded(markup: str, most: int) -> str:
    """Fold what Plotly is to show into lines of at most so many letters, unless a word is longer."""
    lines = [line for part in markup.split("<br>") for line in wrap(html.unescape(part), most, break_long_words=False)]
    return "<br>".join(map(shown, lines))


def clipped(words: str, most: int, lines: int) -> str:
    """Cut what Plotly is to show to so many lines of so many letters, with an ellipsis where that is not all."""
    found = wrap(words, most)
    return "<br>".join(map(shown, found[:lines])) + " \N{HORIZONTAL ELLIPSIS}" * (len(found) > lines)


def short(word: str, most: int = 12) -> str:
    """Cut a token under a figure that is too long, and make a space visible."""
    word = " ".join(word.split()) or "\N{OPEN BOX}"
    return shown(word if len(word) <= most else word[: most - 1] + "\N{HORIZONTAL ELLIPSIS}")


def brief(labels: Sequence[str]) -> tuple[list[str], str]:
    """Give labels such as `steps=1, width=64` without what all of them have, and that: `width=64`; words without their field."""
    known = [label.split(", ") for label in labels]
    alike = [part for part in known[0] if all(part in own for own in known)] if len(known) > 1 else []
    short = [", ".join(part for part in own if part not in alike) or ", ".join(own) for own in known]
    parts = [name.partition("=") for name in short]
    if len({field for field, _, _ in parts}) == 1 < len(short) and all(value[:1].isalpha() for _, _, value in parts):
        short = [value for _, _, value in parts]
    return short, ", ".join(alike)


def scatter(
    x: Iterable[Any], y: Iterable[Any], hover: Iterable[str] | None = None, name: str = "", **look: Any
) -> dict[str, Any]:
    """Make a trace of lines, markers or words; without `hover` it answers to no pointer, without a name to no legend."""
    words = {"hoverinfo": "skip"} if hover is None else {"hovertext": list(map(shown, hover)), "hoverinfo": "text"}
    return {"x": list(x), "y": list(y), **words, **({"name": shown(name)} if name else {"showlegend": False}), **look}


def marked(look: Mapping[str, str]) -> dict[str, Any]:
    """Give a line with markers this look."""
    line = {"color": look["color"], "dash": look["dash"]}
    return {"line": line, "marker": {"symbol": look["symbol"], "size": 9}}


def band(x: Sequence[Any], points: pd.DataFrame, fill: str) -> dict[str, Any]:
    """Fill the area from `low` to `high` of the points."""
    ends = [*points["high"], *points["low"][::-1]]
    return scatter([*x, *reversed(x)], ends, mode="lines", fill="toself", fillcolor=fill, line={"width": 0})


def whiskers(values: Iterable[float], low: Iterable[float], high: Iterable[float], **look: Any) -> dict[str, Any]:
    """Make the error bars of points, from `low` to `high`."""
    places = list(values)
    up, down = ([abs(end - value) for end, value in zip(ends, places, strict=True)] for ends in (high, low))
    return {"array": up, "arrayminus": down, "symmetric": False, **look}


def heat(x: Iterable[Any], y: Iterable[Any], z: Any, hover: Sequence[str], gap: int = 0, **look: Any) -> dict[str, Any]:
    """Make the cells of a heat map, `gap` pixels apart; `hover` goes row by row."""
    columns, said = list(x), list(map(shown, hover))
    rows = [said[start : start + len(columns)] for start in range(0, len(said), len(columns) or 1)]
    return {"x": columns, "y": list(y), "z": z, "hovertext": rows, "hoverinfo": "text", "xgap": gap, "ygap": gap, **look}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def bounded(name: str) -> dict[str, Any]:
    """End the axis of a metric where the metric does."""
    low, high = metric(name).bounds or (-math.inf, math.inf)
    ends = {"clipmin": low, "clipmax": high}
    return {"autorangeoptions": {end: value for end, value in ends.items() if math.isfinite(value)}}
