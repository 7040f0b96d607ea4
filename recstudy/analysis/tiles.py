"""Draws misclassified images: a panel a variant, side by side where there is room, its label above it."""

from textwrap import wrap

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.mistakes import MistakesData, mistakes_caption, mistakes_title, short_names, tile_words
from recstudy.analysis.mosaic import GAP, TILE, Pixels, data_uri, mosaic
from recstudy.analysis.spec import Mistakes
from recstudy.analysis.theme import WIDTH, dress, shown

COLUMNS = 5
LETTERS = 12  # in a line under a tile: what fits at any width, because the letters grow with the tiles
ONE_LINE, TWO_LINES = 32, 56  # pixels of the picture under a tile
# In points, and again in style.SCRIPT: the least and the most of a panel, the space between two, and above each its label.
NARROW, WIDE, SPACE, HEAD, EDGE = 320, 640, 24, 46, 12


def mistakes_figure(data: MistakesData, spec: Mistakes) -> go.Figure:
    """One picture a variant, its words as text over it, and each tile's full names under the pointer."""
    figure = go.Figure()
    parts = [part for _, part in data.frame.groupby("variant", sort=False)]
    rows = max((-(-len(part) // COLUMNS) for part in parts), default=1)
    labels = {part["variant"].iloc[0]: _labels(part) for part in parts}
    words = TWO_LINES if any("<br>" in label for lines in labels.values() for label in lines) else ONE_LINE
    for panel, part in enumerate(parts, 1):
        images = [data.images[at] for at in part.index]
        _draw(figure, panel, part, images, labels[part["variant"].iloc[0]], words)
    dress(figure, mistakes_title(spec), data.notes, max(1, len(parts)), mistakes_caption(data))
    height, width = rows * (TILE + words), COLUMNS * (TILE + GAP)
    figure.update_xaxes(visible=False, fixedrange=True, range=[-0.5, width - 0.5])
    figure.update_yaxes(visible=False, fixedrange=True, range=[height - 0.5, -0.5])
    return arrange(figure.update_layout(meta={**figure.layout.meta, "columns": COLUMNS, "ratio": height / width}))


def arrange(figure: go.Figure, width: int = WIDTH) -> go.Figure:
    """Give every panel its place in a figure of this width; `style.SCRIPT` does the same in the page."""
    panels, columns, ratio = (figure.layout.meta[key] for key in ("panels", "columns", "ratio"))
    across = min(panels, max(1, width // NARROW))
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


def _labels(part: pd.DataFrame) -> list[str]:
    """`T 9, P 4` where all classes are that short, else the two in a line each."""
    longest = max(len(words) for words in tile_words(part))
    short = short_names([*part["true"], *part["predicted"]], LETTERS - 2)
    between = ", " if longest <= LETTERS else "<br>"
    return [
        f"T {shown(short[true])}{between}P {shown(short[predicted])}"
        for true, predicted in zip(part["true"], part["predicted"], strict=True)
    ]


def _draw(figure: go.Figure, panel: int, part: pd.DataFrame, images: list[Pixels], labels: list[str], words: int) -> None:
    number = str(panel) if panel > 1 else ""
    axes = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
    figure.update_layout({f"xaxis{number}": {"anchor": f"y{number}"}, f"yaxis{number}": {"anchor": f"x{number}"}})
    figure.add_image(source=data_uri(mosaic(images, COLUMNS, words)), hoverinfo="skip", **axes)
    left = [at % COLUMNS * (TILE + GAP) + TILE / 2 for at in range(len(part))]
    top = [at // COLUMNS * (TILE + words) for at in range(len(part))]
    points = {"x": left, "showlegend": False, **axes}
    named = zip(tile_words(part), part["row"], part["seed"], strict=True)
    hover = [shown(f"{tile}, test image {row}, seed {seed}") for tile, row, seed in named]
    middles = [y + TILE / 2 for y in top]
    figure.add_scatter(y=middles, mode="markers", marker={"opacity": 0}, hovertext=hover, hoverinfo="text", **points)
    under = [y + TILE + words / 2 for y in top]
    figure.add_scatter(y=under, mode="text", text=labels, hoverinfo="skip", cliponaxis=False, **points)
    _head(figure, part["label"].iloc[0], number)


def _head(figure: go.Figure, label: str, number: str) -> None:
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
