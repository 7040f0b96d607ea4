"""Panels of one figure under each other, in sizes of their own, and the scale of colours that shares are drawn in."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from recstudy.analysis.figures.theme import PALETTE, SCREEN, Size, folded, letters, room, shown

# Of shares, none to most: lighter to darker blue, so that it is read without colours too, on white and on black.
SHADES = ((0, "#EEF4F9"), (0.7, PALETTE[0]), (1, "#003F66"))
BAR = 160  # pixels of a scale's length
LETTERS = 12  # of a word at a tick or under a tile
HEAVY = 16  # pixels: bold letters are as wide as plain ones of this size
CELL = 11  # pixels of the letters in a cell and at a token


class Panel(NamedTuple):
    """Pixels: of the panel itself, of its label above and of its ticks below."""

    height: float
    head: float = 0
    foot: float = 0


def stack(figure: go.Figure, panels: Sequence[Panel], size: Size = SCREEN) -> go.Figure:
    """Give each axis its place, from the top down, and the figure its height. For a figure that is dressed."""
    whole = math.ceil(sum(map(sum, panels)))
    above = 0.0
    for at, panel in enumerate(panels):
        top, number = above + panel.head, numbered(at)
        domain = [max(0.0, 1 - (top + panel.height) / whole), 1 - top / whole]
        figure.update_layout({f"yaxis{number}": {"domain": domain, "anchor": f"x{number}"}})
        figure.update_layout({f"xaxis{number}": {"anchor": f"y{number}"}})
        above = top + panel.height + panel.foot
    figure.update_layout(meta={**figure.layout.meta, "panels": whole / size.panel})
    sized = room(figure, size)
    return figure.update_layout(**sized | {"height": round(float(str(sized["height"])))})


def numbered(at: int) -> str:
    """What Plotly's names of the axes at this place, from 0, end in."""
    return str(at + 1) if at else ""


def head(figure: go.Figure, at: int, words: str, size: Size = SCREEN) -> int:
    """A panel's label, above it on the left, in print in lines; the pixels that it needs beyond one."""
    number = numbered(at)
    lines = folded(shown(words), letters(size.inner, HEAVY)) if size.printed else shown(words)
    figure.add_annotation(
        text=f"<b>{lines}</b>", xref=f"x{number} domain", yref=f"y{number} domain", x=0, y=1, yshift=4,
        xanchor="left", yanchor="bottom", align="left", showarrow=False,
    )  # fmt: skip
    return 18 * lines.count("<br>")


def short(word: str) -> str:
    """A token under a figure: what is too long is cut, and a space is made visible."""
    word = " ".join(word.split()) or "\N{OPEN BOX}"
    return shown(word if len(word) <= LETTERS else word[: LETTERS - 1] + "\N{HORIZONTAL ELLIPSIS}")


def shade(most: float, title: str, even: Sequence[float] = ()) -> dict[str, Any]:
    """A colour axis in percent from 0 to `most`, with marks where the load or the attention would be `even`."""
    marks = {0.0: "0", **{value: f"{value:.3g} even" for value in even if value <= most}}
    marks |= {} if any(most - value < 0.12 * most for value in marks) else {most: f"{most:.3g}"}
    bar = {"title": {"text": title, "side": "right", "font": {"size": 13}}, "thickness": 12, "lenmode": "pixels", "len": BAR}
    bar |= {"y": 1, "yanchor": "top", "tickmode": "array", "tickvals": list(marks), "ticktext": list(marks.values())}
    return {"colorscale": list(SHADES), "cmin": 0, "cmax": most, "colorbar": bar}
