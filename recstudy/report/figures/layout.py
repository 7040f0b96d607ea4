"""What all figures share: a heading, panels that have their places, and the same figure on paper."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from textwrap import wrap
from typing import Any, NamedTuple

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from recstudy.report.figures.theme import (
    ALARM,
    CELL,
    FONT,
    LARGE,
    SCREEN,
    SHADES,
    SMALL,
    SOFT,
    TEMPLATE,
    WIDE,
    Size,
    folded,
    letters,
    on_paper,
    shown,
)

LINE = 110  # characters of a note on a screen
EDGE = 12  # pixels beside panels that have places of their own
SCALE = 160  # pixels of a scale of colours


@dataclass(frozen=True)
class Drawn:
    """A figure for any size, the numbers behind it, and its title.

    `draw` gives traces and axes; the common look (`dress`) is put on here. `notes` must be said before the figure, `caption` says
    how to read it, `below` is HTML that follows it on a page, `finding` what it shows in a few words, `words` what stands in a
    picture, for those who cannot see it.
    """

    draw: Callable[[Size], go.Figure]
    data: pd.DataFrame
    label: str
    notes: Sequence[str] = ()
    caption: str = ""
    below: str = ""
    finding: str = ""
    words: str = ""

    @cached_property
    def figure(self) -> go.Figure:
        """As it is on a screen."""
        return dress(self.draw(SCREEN), self.label, self.notes, self.caption)

    def printed(self, inches: float) -> go.Figure:
        """As it is on a paper that has so much room from left to right."""
        size = on_paper(inches)
        return _fitted(dress(self.draw(size), self.label, self.notes, self.caption, size))

    @property
    def standalone(self) -> go.Figure:
        return self.figure

    @property
    def csv(self) -> str:
        return self.data.to_csv(index=False)

    @property
    def alternative(self) -> str:
        """The finding and the words, for a screen reader."""
        said = f"{self.label}: {self.finding}" if self.finding else self.label
        return f"{said}. {self.words}" if self.words else said


def dress(figure: go.Figure, title: str, notes: Sequence[str] = (), caption: str = "", size: Size = SCREEN) -> go.Figure:
    """Put the common look on a figure, with space for the heading and a legend; `page.js` redoes it for a page's own width."""
    line = letters(size.width - 24, SMALL) if size.printed else LINE
    said = [(ALARM, note) for note in notes] + [(SOFT, caption)] * (not size.printed)
    parts = [(color, part) for color, text in said for part in wrap(text, line)]
    spans = [f'<span style="font-size:{SMALL}px;color:{color}">{shown(part)}</span>' for color, part in parts]
    words = "<br>".join([shown(title)] * (not size.printed) + spans)
    pad = {"l": 12, "t": 25 if "<br>" in words else 14}  # Plotly sets a title of several lines 11 points higher
    heading = {"text": words, "x": 0, "pad": pad, "y": 1, "yanchor": "top", "yref": "container", "font": {"size": 16}}
    meta = {"panels": 1, **(figure.layout.meta or {})}
    figure.update_layout(title=heading, meta=meta, template=TEMPLATE[size.printed], font=FONT[size.printed])
    if size.printed:  # white paper, smaller letters, and names in the legend that are folded to its width
        legend = {"font": {"size": SMALL}, "xref": "container", "tracegroupgap": 0, "maxheight": 1}
        smaller = {"pad": {"t": 20 if "<br>" in words else 10}, "font": {"size": SMALL}}
        paper = {"width": size.width, "paper_bgcolor": "white", "plot_bgcolor": "white"}
        figure.update_layout(title=smaller, legend=legend, **paper)
        for trace in figure.data:
            if trace.name:
                trace.name = folded(trace.name, letters(size.width - 60, SMALL))
    return _margins(figure, words, size)


def _margins(figure: go.Figure, words: str, size: Size) -> go.Figure:
    """Set height and margins: the panels', and what the lines of the heading and the legend need."""
    meta = figure.layout.meta
    groups: dict[str, list[str]] = {}
    for at, trace in enumerate(figure.data):
        if trace.name and trace.showlegend is not False:
            groups.setdefault((trace.legendgroup or str(at)) if size.printed else str(at), []).append(trace.name)
    top, bottom = 30 + 20 * (words.count("<br>") + 1), 70
    if size.printed:
        top, bottom = 22 + 16 * (words.count("<br>") + 1 if words else 0), 50
    if figure.layout.showlegend is not False and (len(groups) > 1 or figure.layout.showlegend):
        bottom += _legend_height(list(groups.values()), size)
    margin = {"l": 60, "r": 20, "t": top, "b": bottom}
    if "grid" in meta:
        margin = {"l": EDGE, "r": EDGE, "t": top, "b": meta["grid"]["bottom"]}
    legend = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "xanchor": "left"}
    height = round(size.panel * meta["panels"] if "grid" not in meta else meta["grid"]["whole"]) + margin["t"] + margin["b"]
    return figure.update_layout(height=height, margin=margin, legend=legend)


def _legend_height(groups: Sequence[Sequence[str]], size: Size) -> int:
    """Count the pixels of a legend, whose groups stand side by side: each is as wide as its longest line."""
    if not size.printed:  # all of one width
        longest = max((len(name) for names in groups for name in names), default=0)
        return 22 * math.ceil(len(groups) / max(1, (size.width - 80) // (longest * 8 + 60)))
    height, high, used = 0, 0, 0.0
    for names in groups:
        lines = "<br>".join(names).split("<br>")
        wide = WIDE * SMALL * max(map(len, lines)) + 45
        if used and used + wide > size.width - 80:
            height, high, used = height + high, 0, 0.0
        high, used = max(high, 16 * len(lines) + 3 * len(names)), used + wide
    return height + high + 8


def along(figure: go.Figure, axis: str) -> go.Figure:
    """Name what stands along the x-axis: `page.js` zooms figures of a page together that are along the same."""
    return figure.update_layout(meta={**(figure.layout.meta or {}), "across": axis})


class Panel(NamedTuple):
    """Pixels: of the panel itself, of its label above and of its ticks below."""

    height: float
    head: float = 0
    foot: float = 0


def numbered(at: int) -> str:
    """Return how Plotly's names of the axes at this place, from 0, end."""
    return str(at + 1) if at else ""


def axes_at(at: int) -> dict[str, str]:
    """Return the axes of a trace in the panel at this place, from 0."""
    return {"xaxis": f"x{numbered(at)}", "yaxis": f"y{numbered(at)}"}


def joined(figure: go.Figure, at: int, across: dict[str, Any], upwards: dict[str, Any]) -> None:
    """Anchor the two axes of the panel at this place to each other, with what is said of each."""
    number = numbered(at)
    x, y = {"anchor": f"y{number}", **across}, {"anchor": f"x{number}", **upwards}
    figure.update_layout({f"xaxis{number}": x, f"yaxis{number}": y})


def stack(figure: go.Figure, panels: Sequence[Panel], size: Size = SCREEN) -> go.Figure:
    """Set panels of sizes of their own under each other."""
    whole, above = math.ceil(sum(map(sum, panels))), 0.0
    for at, panel in enumerate(panels):
        top = above + panel.head
        joined(figure, at, {}, {"domain": [max(0.0, 1 - (top + panel.height) / whole), 1 - top / whole]})
        above = top + panel.height + panel.foot
    return figure.update_layout(meta={"panels": whole / size.panel})


def head(figure: go.Figure, at: int, words: str, size: Size = SCREEN) -> int:
    """Put a panel's label above it on the left, in print in lines; the pixels that it needs beyond one."""
    number = numbered(at)
    lines = folded(shown(words), letters(size.inner, 16)) if size.printed else shown(words)  # bold letters are wider
    figure.add_annotation(
        text=f"<b>{lines}</b>", xref=f"x{number} domain", yref=f"y{number} domain", x=0, y=1, yshift=4,
        xanchor="left", yanchor="bottom", align="left", showarrow=False,
    )  # fmt: skip
    return 18 * lines.count("<br>")


def standing(title: str) -> dict[str, Any]:
    """Set a scale of colours beside the top of the panels."""
    place = {"thickness": 12, "lenmode": "pixels", "len": SCALE, "y": 1, "yanchor": "top"}
    return {**place, "title": {"text": title, "side": "right", "font": {"size": 13}}}


def shade(most: float, title: str, even: Sequence[float] = ()) -> dict[str, Any]:
    """Give a colour axis in percent from 0 to `most`, with marks where the load or the attention would be `even`."""
    marks = {0.0: "0", **{value: f"{value:.3g} even" for value in even if value <= most}}
    marks |= {} if any(most - value < 0.12 * most for value in marks) else {most: f"{most:.3g}"}
    ticks = {"tickmode": "array", "tickvals": list(marks), "ticktext": list(marks.values())}
    bar = ticks | standing(title)
    return {"colorscale": list(SHADES), "cmin": 0, "cmax": most, "colorbar": bar}


@dataclass(frozen=True)
class PanelGrid:
    """Small panels in rows, as many in each as the width has room for. Pixels, but for `ratio`: a panel's height by its width."""

    narrow: int  # the least of a panel with what stands beside it
    left: int = 0
    right: int = EDGE
    above: int = EDGE
    below: int = 0
    high: int = 0
    ratio: float = 0.0
    widest: int = 2000
    bottom: int = EDGE
    columns: int = 0  # of tiles in a panel, whose letters grow with it


def facets(panels: int, gap: float, **more: Any) -> go.Figure:
    """Make a figure of panels of one height under each other, with `gap` of a panel between them."""
    rows = max(1, panels)
    figure = make_subplots(rows=rows, cols=1, vertical_spacing=gap / rows, **more)
    return figure.update_layout(meta={"panels": rows})


def arrange(figure: go.Figure, panels: int, grid: PanelGrid, size: Size = SCREEN) -> go.Figure:
    """Give every panel of a grid its place; `page.js` does the same for a page's own width."""
    inner = size.width - 2 * EDGE
    across = min(panels, max(1, inner // grid.narrow))
    side = inner / across
    wide = min(side - grid.left - grid.right, grid.widest)
    high = grid.high or grid.ratio * wide
    row = grid.above + high + grid.below
    whole = row * math.ceil(panels / across)
    for at in range(panels):
        x, y = at % across * side + grid.left, at // across * row + grid.above
        figure.layout[f"xaxis{numbered(at)}"].domain = [x / inner, (x + wide) / inner]
        figure.layout[f"yaxis{numbered(at)}"].domain = [max(0.0, 1 - (y + high) / whole), 1 - y / whole]
    if grid.columns:
        figure.update_traces(selector={"mode": "text"}, textfont={"size": max(9, min(12, wide / grid.columns / 7.5))})
        figure.update_traces(selector={"mode": "markers"}, marker={"size": 0.9 * wide / grid.columns})
    return figure.update_layout(meta={"panels": panels, "grid": {**asdict(grid), "whole": whole}})


UPRIGHT, ROW = 20, 14  # letters of a line that stands upright; pixels of a line of a category's letters
BAR, BEFORE, MARK = 40, 130, 60  # pixels of a scale of colours that lies: its height, its title, and between two of its marks


def beside(words: Sequence[str], place: float) -> tuple[list[str], int, int]:
    """Fold each word to a place of so many pixels; all stand upright where a single word is longer than that.

    Returns their lines, their angle, and the pixels of their height.
    """
    most = letters(place, CELL)
    flat, tall = ([folded(word, line) for word in words] for line in (most, UPRIGHT))
    longest = [max((len(line) for word in own for line in word.split("<br>")), default=0) for own in (flat, tall)]
    if longest[0] <= most:
        return flat, 0, ROW * max((word.count("<br>") + 1 for word in flat), default=1)
    return tall, -90, round(WIDE * CELL * longest[1])


def _fitted(figure: go.Figure) -> go.Figure:
    """Fold what stands at the axes to their lengths, and lay scales of colours below; the figure grows by what that takes."""
    margin, more = figure.layout.margin, 0
    wide, high = figure.layout.width - margin.l - margin.r, figure.layout.height - margin.t - margin.b
    for axis in (*figure.select_yaxes(), *figure.select_xaxes()):
        upwards = axis.plotly_name.startswith("y")
        low, end = axis.domain or (0.0, 1.0)
        length = (end - low) * (high if upwards else wide)
        if axis.title.text:
            axis.title.text = folded(axis.title.text, letters(length, axis.title.font.size or LARGE))
        if axis.type != "category" and not (upwards and axis.ticktext):
            continue
        values, words = _ticks(figure, axis)
        if upwards:
            axis.update(tickmode="array", tickvals=values, ticktext=[folded(word, letters(wide / 4, CELL)) for word in words])
            axis.tickfont = {"size": axis.tickfont.size or CELL}
        else:
            lines, angle, height = beside(words, length / max(1, len(words)))
            axis.update(tickmode="array", tickvals=values, ticktext=lines, tickangle=angle, tickfont={"size": CELL})
            more = max(more, height - ROW)
    own = [trace.colorbar for trace in figure.data if trace.type == "heatmap" and trace.coloraxis is None]
    for bar in (figure.layout.coloraxis.colorbar, *own):
        if not bar.thickness or bar.orientation == "h":
            continue
        bar.update(orientation="h", lenmode="fraction", len=1, x=0, xanchor="left", yref="container", y=0, yanchor="bottom")
        bar.title.update(side="right", text=folded(bar.title.text or "", UPRIGHT), font={"size": SMALL})  # put before the bar
        bar.tickfont = {"size": SMALL}
        if bar.ticktext:  # marks that have room beside the longest, which says most
            marks = dict(zip(bar.tickvals, bar.ticktext, strict=True))
            main, least = max(marks, key=lambda value: len(marks[value])), MARK / (wide - BEFORE) * max(marks)
            kept = {value: text for value, text in marks.items() if value == main or abs(value - main) > least}
            bar.update(tickvals=list(kept), ticktext=list(kept.values()))
        more += BAR
    return figure.update_layout(height=figure.layout.height + more, margin={"b": margin.b + more})


def _ticks(figure: go.Figure, axis: Any) -> tuple[list[Any], list[str]]:
    """Return where an axis has words, and these; of categories those that the traces name."""
    if axis.ticktext:
        return list(axis.tickvals), list(axis.ticktext)
    name = axis.plotly_name.replace("axis", "")  # x2, as a trace calls it
    traces = [trace for trace in figure.data if (trace[f"{name[0]}axis"] or name[0]) == name]
    values = list(dict.fromkeys(value for trace in traces for value in trace[name[0]]))
    return values, [str(value) for value in values]
