"""Where a captioner looks while it writes (003, Figure 7): cross-attention over the image, self-attention over its own words.

The image stands once for each word, tinted where the model looked, over a grid of words by words.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.figures.layout import Drawn, Panel, axes_at, head, shade, stack
from recstudy.analysis.figures.mosaic import Pixels, mosaic, picture_uri, side_of
from recstudy.analysis.figures.theme import SCREEN, Size, short, shown
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.traces import Numbers, first_inside
from recstudy.errors import ConfigError
from recstudy.records import Json
from recstudy.report import AttentionMaps

COLUMNS = ["variant", "label", "seed", "data", "row", "layer", "head", "place", "word", "of", "at", "seen", "share", "synthetic"]
GAP, SPACE = 1 / 16, 1 / 4  # beside a tile, and under it for its word, as shares of it
FEW, WIDE, NARROW = 36, 6, 8  # up to so many tiles there are 6 in a row, else 8
TILE = 76  # pixels of a tile in print, and of its word
TOKEN, LOW = {False: 17, True: 13}, 220  # pixels: of a token's row in the grid, by whether it is printed; the least of the grid
ORANGE = (230, 159, 0)  # light enough for the image under it
STRENGTH, DIM = 0.85, 0.75  # of the tint where most is attended to, and of the gray, so that orange shows on white


@dataclass(frozen=True)
class Attention:
    """What one caption of T tokens attends to, of one layer and head or of the mean over them.

    One row of `frame` a word and what it attends to, in percent (`share`). Where `of` is `image`, `word` is the one that is
    written and `at` a place of the image (`seen`: its row and column); where it is `caption`, `word` is the token that is read
    and `at` the place of an earlier one (`seen`). Places count from 1.
    """

    frame: pd.DataFrame
    cross: Numbers  # (T, P) sums to one
    own: Numbers | None  # (T, T)
    words: list[str]  # T + 1: read, then written last
    image: Pixels | None
    named: str
    notes: tuple[str, ...]

    @property
    def side(self) -> int:
        """Places a side of the image's grid."""
        return math.isqrt(self.cross.shape[1])

    @property
    def even(self) -> float:
        """A place's share where all are looked at alike."""
        return 1 / self.cross.shape[1]

    @property
    def full(self) -> float:
        """The share that is tinted most: the largest, or twice the even one, so that hardly uneven attention looks so."""
        return max(float(self.cross.max()), 2 * self.even)


def drawn(records: StudyRecords, spec: AttentionMaps) -> Drawn:
    data = attention_data(records, spec)
    words, caption = " ".join(data.words), attention_caption(data)
    return Drawn(partial(attention_figure, data), data.frame, spec.heading, data.notes, caption, words=words)


def attention_data(records: StudyRecords, spec: AttentionMaps) -> Attention:
    """Of the first variant that has kept attention maps.

    Raises:
        ConfigError: it has no such layer or head.
    """
    found, notes = first_inside(records, spec.where, spec.example, experts=False)
    if found is None:
        return Attention(pd.DataFrame(columns=COLUMNS), np.empty((0, 0)), None, [], None, "", notes)

    def chosen(part: Numbers) -> Numbers:
        """(L, H, T, S) -> (T, S) of one layer and head, or the mean."""
        for at, (name, asked) in enumerate({"layer": spec.layer, "head": spec.head}.items()):
            if asked is not None and asked > part.shape[at]:
                raise ConfigError(f"attention {spec.name!r}: {name} must be at most {part.shape[at]}, but got {asked}")
        layers = part if spec.layer is None else part[[spec.layer - 1]]
        return np.asarray((layers if spec.head is None else layers[:, [spec.head - 1]]).mean((0, 1)))

    trace, cross = found.trace, chosen(found.trace.cross)
    own, side = None if trace.own is None else chosen(trace.own), math.isqrt(cross.shape[1])
    rows: list[Json] = [
        {"place": token + 1, "word": trace.words[token + 1], "of": "image", "at": at + 1, "share": 100 * share,
         "seen": f"row {at // side + 1}, column {at % side + 1}"}
        for (token, at), share in np.ndenumerate(cross)
    ]  # fmt: skip
    rows += [
        {
            "place": token + 1,
            "word": trace.words[token],
            "of": "caption",
            "at": at + 1,
            "share": 100 * share,
            "seen": trace.words[at],
        }
        for (token, at), share in np.ndenumerate(np.empty((0, 0)) if own is None else own)
        if at <= token
    ]
    of = {name: "mean" if asked is None else str(asked) for name, asked in (("layer", spec.layer), ("head", spec.head))}
    which = [
        f"the mean of all {count} {name}s" if asked is None else f"{name} {asked} of {count}"
        for name, asked, count in zip(("layer", "head"), (spec.layer, spec.head), trace.cross.shape, strict=False)
    ]
    named = found.named if trace.cross.shape[:2] == (1, 1) else f"{found.named}; {' and '.join(which)}"
    none = () if found.image is not None else (f"{found.label}: the image of test row {trace.row} was not kept",)
    frame = pd.DataFrame(rows).assign(**of, **found.columns)[COLUMNS]
    return Attention(frame, cross, own, trace.words, found.image, named, (*notes, *none))


def attention_caption(data: Attention) -> str:
    """How to read the tiles and the grid."""
    if data.frame.empty:
        return ""
    tiles = (
        f"Over each word: where the model looked as it wrote it, {data.side}x{data.side} places; orange where it is more than "
        f"even attention, which is {100 * data.even:.3g} %, and full at {100 * data.full:.3g} %."
    )
    grid = " Below: how much each token (row) attends to itself and to the tokens before it (columns)."
    return f"{data.named}. {tiles}{grid if data.own is not None else ''}"


def attention_figure(data: Attention, size: Size = SCREEN) -> go.Figure:
    """Tiles above, the grid below; a network without self-attention has the tiles alone."""
    figure = go.Figure()
    panels: list[Panel] = []
    if len(data.cross):
        height = _tiles(figure, data, size)
        more = head(figure, 0, "Attention to the image, by the word that was written", size)
        panels.append(Panel(height, 30 + more, 26 if data.own is not None else 0))
    if data.own is not None:
        height = _grid(figure, data.own, data.words[:-1], size)
        more = head(figure, 1, "Attention of each token to those before it", size)
        panels.append(Panel(height, 30 + more, 30 * size.printed))
    figure.update_xaxes(showgrid=False, ticks="").update_yaxes(showgrid=False, ticks="")
    figure.update_layout({"xaxis": {"visible": False}, "yaxis": {"visible": False}})
    if panels:
        stack(figure, panels, size)
    if data.own is not None:
        figure.layout.coloraxis.colorbar.update(x=1, xanchor="right", y=figure.layout.yaxis2.domain[1])  # where the grid is empty
    return figure


def tinted(image: Pixels, shares: Numbers, even: float, full: float) -> Pixels:
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
    if (times := side // max(image.shape[:2])) > 1:  # at its tile's size the blocks of a grid are sharp
        image = image.repeat(times, axis=0).repeat(times, axis=1)
    maps = data.cross.reshape(-1, data.side, data.side)
    images = [image, *(tinted(image, shares, data.even, data.full) for shares in maps)]
    columns = size.inner // TILE if size.printed else WIDE if len(images) <= FEW else NARROW
    gap, room = round(GAP * side), round(SPACE * side)
    rows, across, down = -(-len(images) // columns), side + gap, side + room
    picture = mosaic(images, columns, side, gap, room)
    figure.add_image(source=picture_uri(picture, max(picture.shape)), hoverinfo="skip", xaxis="x", yaxis="y")
    x = [at % columns * across + side / 2 for at in range(len(images))]
    top = [at // columns * down for at in range(len(images))]
    words, said = ["the image", *data.words[1:]], ["the image"]
    for word, shares in zip(words[1:], maps, strict=True):
        row, column = np.unravel_index(int(shares.argmax()), shares.shape)
        said.append(f"{word}: most at row {row + 1}, column {column + 1}, {100 * shares.max():.3g} %")
    points: dict[str, Any] = {"x": x, "showlegend": False, "xaxis": "x", "yaxis": "y", "hovertext": list(map(shown, said))}
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


def _grid(figure: go.Figure, own: Numbers, words: list[str], size: Size) -> float:
    """Tokens by tokens, those that come later left empty; the height in points."""
    count, names, token = len(own), [short(word) for word in words], TOKEN[size.printed]

    def pair(row: int, column: int) -> str:
        share = 100 * own[row, column]
        return shown(f"token {row + 1}, {words[row]}, to token {column + 1}, {words[column]}: {share:.3g} %")

    figure.add_heatmap(
        x=list(range(count)),
        y=list(range(count)),
        z=np.where(np.triu(np.ones_like(own, dtype=bool), 1), np.nan, 100 * own).tolist(),
        hovertext=[[pair(row, column) for column in range(count)] for row in range(count)],
        hoverinfo="text",
        hoverongaps=False,
        coloraxis="coloraxis",
        **axes_at(1),
    )
    ticks = {"tickmode": "array", "tickvals": list(range(count)), "ticktext": names}
    small = max(8, size.inner / count) if size.printed else 8  # in print as large as they are apart
    look = {"tickfont": {"size": 11 if count * token <= size.inner else small}, "constrain": "domain"}
    figure.update_layout(
        xaxis2={**ticks, **look, "tickangle": -90, "constraintoward": "left", "range": [-0.5, count - 0.5]},
        yaxis2={**ticks, **look, "range": [count - 0.5, -0.5], "scaleanchor": "x2", "constraintoward": "top"},
        coloraxis=shade(100 * float(own[1:].max(initial=1 / count)), "% of attention"),  # the first has itself alone: 100 %
    )
    return min(size.inner, max(LOW, token * count))
