"""A finished figure for print: what stands at its axes is folded to their lengths, and scales of colours lie below it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from recstudy.analysis.figures.theme import LARGE, SMALL, WIDE, folded, letters

WORD, LINE = 11, 14  # pixels: the letters of a category, and a line of them
UPRIGHT = 20  # letters of a line that stands upright
BAR, BEFORE, MARK = 40, 130, 60  # pixels of a scale of colours that lies: its height, its title, and between two of its marks


class Beside(NamedTuple):
    """Words next to each other: their lines, their angle, and the pixels of their height."""

    words: list[str]
    angle: int
    height: int


def beside(words: Sequence[str], place: float) -> Beside:
    """Each in a place of so many pixels, in lines; all upright where a single word is longer than that."""
    most = letters(place, WORD)
    flat, tall = ([folded(word, line) for word in words] for line in (most, UPRIGHT))
    if _longest(flat) <= most:
        return Beside(flat, 0, LINE * max((word.count("<br>") + 1 for word in flat), default=1))
    return Beside(tall, -90, round(WIDE * WORD * _longest(tall)))


def fitted(figure: go.Figure) -> go.Figure:
    """The figure grows by what stands below its last panel in more than a line."""
    margin = figure.layout.margin
    wide, high = figure.layout.width - margin.l - margin.r, figure.layout.height - margin.t - margin.b
    for axis in figure.select_yaxes():
        _fold_title(axis, _share(axis) * high)
        if axis.ticktext or axis.type == "category":
            values, words = _ticks(figure, axis)
            axis.update(tickmode="array", tickvals=values, ticktext=[folded(word, letters(wide / 4, WORD)) for word in words])
            axis.tickfont = {"size": axis.tickfont.size or WORD}
    more = 0
    for axis in figure.select_xaxes():
        _fold_title(axis, _share(axis) * wide)
        if axis.type == "category":
            values, words = _ticks(figure, axis)
            fit = beside(words, _share(axis) * wide / max(1, len(words)))
            axis.update(tickmode="array", tickvals=values, ticktext=fit.words, tickangle=fit.angle, tickfont={"size": WORD})
            more = max(more, fit.height - LINE)
    more += sum(_lay(bar, MARK / (wide - BEFORE)) for bar in _bars(figure))
    return figure.update_layout(height=figure.layout.height + more, margin={"b": margin.b + more})


def _share(axis: Any) -> float:
    low, high = axis.domain or (0.0, 1.0)
    return float(high - low)


def _fold_title(axis: Any, length: float) -> None:
    if axis.title.text:
        axis.title.text = folded(axis.title.text, letters(length, LARGE))


def _ticks(figure: go.Figure, axis: Any) -> tuple[list[Any], list[str]]:
    """Where an axis has words, and these; of categories those that the traces name."""
    if axis.ticktext:
        return list(axis.tickvals), list(axis.ticktext)
    name = axis.plotly_name.replace("axis", "")  # x2, as a trace calls it
    traces = [trace for trace in figure.data if (trace[f"{name[0]}axis"] or name[0]) == name]
    values = list(dict.fromkeys(value for trace in traces for value in trace[name[0]]))
    return values, [str(value) for value in values]


def _bars(figure: go.Figure) -> list[Any]:
    """The scales of colours that stand."""
    own = [trace.colorbar for trace in figure.data if trace.type == "heatmap" and trace.coloraxis is None]
    return [bar for bar in (figure.layout.coloraxis.colorbar, *own) if bar.thickness and bar.orientation != "h"]


def _lay(bar: Any, apart: float) -> int:
    """Under all panels, after its title, with marks that are `apart`, as a share of it; its height."""
    bar.update(orientation="h", lenmode="fraction", len=1, x=0, xanchor="left", yref="container", y=0, yanchor="bottom")
    bar.title.update(side="right", text=folded(bar.title.text or "", UPRIGHT), font={"size": SMALL})  # it is put before the bar
    bar.tickfont = {"size": SMALL}
    if bar.ticktext:
        bar.tickvals, bar.ticktext = zip(*_apart(dict(zip(bar.tickvals, bar.ticktext, strict=True)), apart), strict=True)
    return BAR


def _apart(marks: dict[float, str], least: float) -> list[tuple[float, str]]:
    """Marks of a scale that have room beside the longest, which says most."""
    main = max(marks, key=lambda value: len(marks[value]))
    return [(value, text) for value, text in marks.items() if value == main or abs(value - main) > least * max(marks)]


def _longest(words: Sequence[str]) -> int:
    return max((len(line) for word in words for line in word.split("<br>")), default=0)
