"""Draws misclassified images: a panel a variant, side by side where there is room, its label above it."""

from collections.abc import Sequence
from functools import partial
from textwrap import wrap

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.mistakes import (
    MistakesData,
    in_words,
    mistakes_caption,
    mistakes_data,
    short_names,
    tile_words,
)
from recstudy.analysis.figures.mosaic import Pixels, data_uri, mosaic, side_of
from recstudy.analysis.figures.theme import SCREEN, Size, dress, shown
from recstudy.analysis.frame import StudyRecords
from recstudy.report import Mistakes

COLUMNS = 5
GAP = 3 / 32  # between neighbours, as a share of a tile
LETTERS = 12  # in a line under a tile: what fits at any width, because the letters grow with the tiles
LINES = {1: 1 / 4, 2: 7 / 16}  # room for so many lines under a tile, as a share of it
# In points, and again in style.SCRIPT: the least and the most of a panel, the space between two, and above each its label.
NARROW, WIDE, SPACE, HEAD, EDGE = 320, 640, 24, 46, 12
PRINTED = 400  # the least of a panel on paper, whose letters then have 6 points


def drawn(records: StudyRecords, spec: Mistakes) -> Drawn:
    data = mistakes_data(records, spec)
    label = f"{spec.heading}. {in_words(data.frame)}".strip()
    return Drawn(partial(mistakes_figure, data, spec), data.frame, label, data.notes, mistakes_caption(data))


def mistakes_figure(data: MistakesData, spec: Mistakes, size: Size = SCREEN) -> go.Figure:
    """One picture a variant, its words as text over it, and each tile's full names under the pointer."""
    figure = go.Figure()
    parts = [part for _, part in data.frame.groupby("variant", sort=False)]
    labels = [tile_labels(part) for part in parts]
    words = LINES[2 if any("<br>" in label for panel in labels for label in panel) else 1]
    rows = max((-(-len(part) // COLUMNS) for part in parts), default=1)
    for panel, (part, panel_labels) in enumerate(zip(parts, labels, strict=True), 1):
        number = str(panel) if panel > 1 else ""
        _draw(figure, number, part, [data.images[at] for at in part.index], panel_labels, rows, words)
        _head(figure, number, part["label"].iloc[0])
    dress(figure, spec.heading, data.notes, max(1, len(parts)), mistakes_caption(data), size)
    figure.update_xaxes(visible=False, fixedrange=True)
    figure.update_yaxes(visible=False, fixedrange=True)
    ratio = rows * (1 + words) / (COLUMNS * (1 + GAP))
    figure.update_layout(meta={**figure.layout.meta, "columns": COLUMNS, "ratio": ratio})
    return arrange(figure, size.width, PRINTED if size.printed else NARROW)


def arrange(figure: go.Figure, width: int, narrow: int = NARROW) -> go.Figure:
    """Give every panel its place in a figure of this width, of which none beside another is narrower than that.

    `style.SCRIPT` does the same in the page.
    """
    panels, columns, ratio = (figure.layout.meta[key] for key in ("panels", "columns", "ratio"))
    across = min(panels, max(1, width // narrow))
    inner, down = width - 2 * EDGE, -(-panels // across)
    side = (inner - SPACE * (across - 1)) / across
    wide = min(side, WIDE)
    line = HEAD + wide * ratio
    for at in range(panels):
        left, above = at % across * (side + SPACE), at // across * line
        axis = str(at + 1) if at else ""
        figure.layout[f"xaxis{axis}"].domain = [left / inner, (left + wide) / inner]
        figure.layout[f"yaxis{axis}"].domain = [max(0.0, 1 - (above + line) / (line * down)), 1 - (above + HEAD) / (line * down)]
    figure.update_traces(selector={"mode": "text"}, textfont={"size": max(9, min(12, wide / columns / 7.5))})
    figure.update_traces(selector={"mode": "markers"}, marker={"size": 0.9 * wide / columns})
    top = figure.layout.margin.t
    return figure.update_layout(height=line * down + top + EDGE, margin={"l": EDGE, "r": EDGE, "t": top, "b": EDGE})


def tile_labels(part: pd.DataFrame) -> list[str]:
    """`T 9, P 4` where all classes are that short, else the two in a line each."""
    short = short_names([*part["true"], *part["predicted"]], LETTERS - 2)
    between = ", " if max(map(len, tile_words(part))) <= LETTERS else "<br>"
    pairs = zip(part["true"], part["predicted"], strict=True)
    return [f"T {shown(short[true])}{between}P {shown(short[predicted])}" for true, predicted in pairs]


def _draw(
    figure: go.Figure, number: str, part: pd.DataFrame, images: list[Pixels], labels: Sequence[str], rows: int, words: float
) -> None:
    """The picture, in its own pixels; over each tile an unseen marker with the words for the pointer, under it its label."""
    side = side_of(images[0])
    gap, room = round(GAP * side), round(words * side)
    axes = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
    across = {"anchor": axes["yaxis"], "range": [-0.5, COLUMNS * (side + gap) - 0.5]}
    down = {"anchor": axes["xaxis"], "range": [rows * (side + room) - 0.5, -0.5]}
    figure.update_layout({f"xaxis{number}": across, f"yaxis{number}": down})
    figure.add_image(source=data_uri(mosaic(images, COLUMNS, side, gap, room)), hoverinfo="skip", **axes)
    points = {"x": [at % COLUMNS * (side + gap) + side / 2 for at in range(len(part))], "showlegend": False, **axes}
    top = [at // COLUMNS * (side + room) for at in range(len(part))]
    named = zip(tile_words(part), part["row"], part["seed"], strict=True)
    hover = [shown(f"{tile}, test image {row}, seed {seed}") for tile, row, seed in named]
    middles, under = [y + side / 2 for y in top], [y + side + room / 2 for y in top]
    figure.add_scatter(y=middles, mode="markers", marker={"opacity": 0}, hovertext=hover, hoverinfo="text", **points)
    figure.add_scatter(y=under, mode="text", text=labels, hoverinfo="skip", cliponaxis=False, **points)


def _head(figure: go.Figure, number: str, label: str) -> None:
    """The variant's label over its panel, in two lines at most."""
    lines = wrap(label, 40, max_lines=2, placeholder=" \N{HORIZONTAL ELLIPSIS}")
    figure.add_annotation(
        text=f"<b>{'<br>'.join(map(shown, lines))}</b>",
        xref=f"x{number}",
        yref=f"y{number}",
        x=0,
        y=0,
        xanchor="left",
        yanchor="bottom",
        align="left",
        showarrow=False,
    )
