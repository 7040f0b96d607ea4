"""Draws attention: the image once for each word, tinted where the model looked, and a grid of words by words."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from recstudy.analysis.figures.attention import Attention, attention_caption, attention_data
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.heat import Panel, head, numbered, shade, short, stack
from recstudy.analysis.figures.mosaic import Pixels, mosaic, picture_uri, side_of
from recstudy.analysis.figures.theme import SCREEN, Size, dress, shown
from recstudy.analysis.frame import StudyRecords
from recstudy.report import AttentionMaps

GAP, ROOM = 1 / 16, 1 / 4  # beside a tile, and under it for its word, as shares of it
FEW, WIDE, NARROW = 36, 6, 8  # up to so many tiles there are 6 in a row, else 8
PLACE = 76  # pixels of a tile in print, and of its word
HEAD, BETWEEN, FOOT = 30, 26, 30  # pixels: of a panel's label, under the tiles, and in print under the grid
TOKEN, LOW = {False: 17, True: 13}, 220  # pixels: of a token's row in the grid, by whether it is printed; the least of the grid
ORANGE = (230, 159, 0)  # light enough for the image under it
STRENGTH, DIM = 0.85, 0.75  # of the tint where most is attended to, and of the gray, so that orange shows on white


def drawn(records: StudyRecords, spec: AttentionMaps) -> Drawn:
    data = attention_data(records, spec)
    label = f"{spec.heading}. {' '.join(data.words)}".strip()
    return Drawn(partial(attention_figure, data, spec), data.frame, label, data.notes, attention_caption(data))


def attention_figure(data: Attention, spec: AttentionMaps, size: Size = SCREEN) -> go.Figure:
    """Tiles above, the grid below; a network without self-attention has the tiles alone."""
    figure = go.Figure()
    panels: list[Panel] = []
    if len(data.cross):
        height = _tiles(figure, data, size)
        more = head(figure, 0, "Attention to the image, by the word that was written", size)
        panels.append(Panel(height, HEAD + more, BETWEEN if data.own is not None else 0))
    if data.own is not None:
        height = _grid(figure, data.own, data.words[:-1], size)
        more = head(figure, 1, "Attention of each token to those before it", size)
        panels.append(Panel(height, HEAD + more, FOOT * size.printed))
    dress(figure, spec.heading, data.notes, caption=attention_caption(data), size=size)
    figure.update_xaxes(showgrid=False, ticks="")
    figure.update_yaxes(showgrid=False, ticks="")
    figure.update_layout({"xaxis": {"visible": False}, "yaxis": {"visible": False}})
    if not panels:
        return figure
    stack(figure, panels, size)
    if data.own is not None:
        figure.layout.coloraxis.colorbar.update(x=1, xanchor="right", y=figure.layout.yaxis2.domain[1])  # where the grid is empty
    return figure


def tinted(image: Pixels, shares: npt.NDArray[np.float64], even: float, full: float) -> Pixels:
    """The image in darker gray, with a block of orange at each place of the (side, side) `shares` that is more than `even`."""
    height, width = image.shape[:2]
    gray = DIM * image.astype(float).mean(-1, keepdims=True)
    rows, columns = (np.arange(pixels) * len(shares) // pixels for pixels in (height, width))
    depth = STRENGTH * np.clip((shares[np.ix_(rows, columns)][..., None] - even) / (full - even), 0, 1)
    return np.asarray(gray * (1 - depth) + depth * np.array(ORANGE), dtype=np.uint8)


def _tiles(figure: go.Figure, data: Attention, size: Size) -> float:
    """The image as it is, then once for each word; the height in points."""
    image = np.full((data.side, data.side, 1), 128, dtype=np.uint8) if data.image is None else data.image
    side = side_of(image)
    image = _grown(image, side)
    maps = data.cross.reshape(-1, data.side, data.side)
    images = [image, *(tinted(image, shares, data.even, data.full) for shares in maps)]
    columns = size.inner // PLACE if size.printed else WIDE if len(images) <= FEW else NARROW
    gap, room = round(GAP * side), round(ROOM * side)
    rows, across, down = -(-len(images) // columns), side + gap, side + room
    picture = mosaic(images, columns, side, gap, room)
    figure.add_image(source=picture_uri(picture, max(picture.shape)), hoverinfo="skip", xaxis="x", yaxis="y")
    x = [at % columns * across + side / 2 for at in range(len(images))]
    top = [at // columns * down for at in range(len(images))]
    words = ["the image", *data.words[1:]]
    said = [words[0], *(_most(word, shares) for word, shares in zip(words[1:], maps, strict=True))]
    points: dict[str, Any] = {"x": x, "showlegend": False, "xaxis": "x", "yaxis": "y", "hovertext": [shown(one) for one in said]}
    middle, under = [y + side / 2 for y in top], [y + side + room / 2 for y in top]
    figure.add_scatter(y=middle, mode="markers", marker={"opacity": 0, "size": 40}, hoverinfo="text", **points)
    text = [f"<i>{words[0]}</i>", *map(short, words[1:])]
    figure.add_scatter(y=under, mode="text", text=text, textfont={"size": 11}, cliponaxis=False, hoverinfo="text", **points)
    wide, high = columns * across, rows * down
    figure.update_layout(
        xaxis={"range": [-0.5, wide - 0.5], "constrain": "domain", "constraintoward": "left"},
        yaxis={"range": [high - 0.5, -0.5], "scaleanchor": "x", "constrain": "domain", "constraintoward": "top"},
    )
    return size.inner * high / wide


def _grid(figure: go.Figure, own: npt.NDArray[np.float64], words: list[str], size: Size) -> float:
    """Tokens by tokens, those that come later left empty; the height in points."""
    count, names, token = len(own), [short(word) for word in words], TOKEN[size.printed]
    hidden = np.triu(np.ones_like(own, dtype=bool), 1)
    said = [[_pair(words, row, column, own) for column in range(count)] for row in range(count)]
    figure.add_heatmap(
        x=list(range(count)),
        y=list(range(count)),
        z=np.where(hidden, np.nan, 100 * own).tolist(),
        hovertext=said,
        hoverinfo="text",
        hoverongaps=False,
        coloraxis="coloraxis",
        xaxis=f"x{numbered(1)}",
        yaxis=f"y{numbered(1)}",
    )
    ticks = {"tickmode": "array", "tickvals": list(range(count)), "ticktext": names}
    small = max(8, size.inner / count) if size.printed else 8  # in print as large as they are apart
    letters = {"tickfont": {"size": 11 if count * token <= size.inner else small}, "constrain": "domain"}
    figure.update_layout(
        xaxis2={**ticks, **letters, "tickangle": -90, "constraintoward": "left", "range": [-0.5, count - 0.5]},
        yaxis2={**ticks, **letters, "range": [count - 0.5, -0.5], "scaleanchor": "x2", "constraintoward": "top"},
        coloraxis=shade(100 * float(own[1:].max(initial=1 / count)), "% of attention"),  # the first has itself alone: 100 %
    )
    return min(size.inner, max(LOW, token * count))


def _grown(image: Pixels, side: int) -> Pixels:
    """A small image at its tile's size, in which the blocks of a grid are sharp."""
    times = side // max(image.shape[:2])
    return image.repeat(times, axis=0).repeat(times, axis=1) if times > 1 else image


def _most(word: str, shares: npt.NDArray[np.float64]) -> str:
    row, column = np.unravel_index(int(shares.argmax()), shares.shape)
    return f"{word}: most at row {row + 1}, column {column + 1}, {100 * shares.max():.3g} %"


def _pair(words: list[str], row: int, column: int, own: npt.NDArray[np.float64]) -> str:
    return shown(f"token {row + 1}, {words[row]}, to token {column + 1}, {words[column]}: {100 * own[row, column]:.3g} %")
