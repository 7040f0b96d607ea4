"""Where a captioner looks as it writes (003, Figure 7), of what a run kept of its inside (`trace.npz`), read with every check.

The image stands once for each word, tinted where the model looked, over a grid of words by words.

Shapes: n captions, L layers, H heads, T tokens, P places of the image, E experts, k experts a token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from recstudy.errors import ConfigError
from recstudy.records import Json
from recstudy.report.figure_fields import AttentionMaps
from recstudy.report.figures.images import image_grid, picture_uri, side_of
from recstudy.report.figures.layout import Drawn, Panel, axes_at, head, shade, stack
from recstudy.report.figures.theme import SCREEN, Size, heat, short
from recstudy.report.kept import Pixels
from recstudy.report.study_records import StudyRecords
from recstudy.report.traces import first_trace

Numbers = npt.NDArray[np.float64]

# ----------------------------------------------------------------------------------------------------------- attention
ATTENDED = ["variant", "label", "seed", "data", "row", "layer", "head", "place", "word", "of", "at", "seen", "share", "synthetic"]
GAP, SPACE = 1 / 16, 1 / 4  # beside a tile, and under it for its word, as shares of it
FEW, WIDE, NARROW = 36, 6, 8  # up to so many tiles there are 6 in a row, else 8
TILE = 76  # pixels of a tile in print, and of its word
TOKEN, LOW = {False: 17, True: 13}, 220  # pixels: of a token's row in the grid, by whether it is printed; the least of the grid
ORANGE = (230, 159, 0)  # light enough for the image under it
STRENGTH, DIM = 0.85, 0.75  # of the tint where most is attended to, and of the gray, so that orange shows on white


@dataclass(frozen=True)
class CaptionAttention:
    """What one caption of T tokens attends to, of one layer and head or of the mean over them."""

    cross: Numbers  # (T, P) sums to one
    own: Numbers | None  # (T, T)
    words: list[str]  # T + 1: read, then written last
    image: Pixels | None

    @property
    def side(self) -> int:
        """Return places a side of the image's grid."""
        return math.isqrt(self.cross.shape[1])

    @property
    def even(self) -> float:
        """Return a place's share where all are looked at alike."""
        return 1 / self.cross.shape[1]

    @property
    def full(self) -> float:
        """Return the share that is tinted most: the largest, or twice the even one, so that hardly uneven attention looks so."""
        return max(float(self.cross.max()), 2 * self.even)


def draw_attention_maps(records: StudyRecords, spec: AttentionMaps) -> Drawn:
    """Draw the attention of the first variant that has kept some.

    In the data a row a word and what it attends to, in percent (`share`). Where `of` is `image`, `word` is written next and `at`
    is a place of the image (`seen`: row and column); where it is `caption`, `word` is read and `at` is that of an earlier token.
    Places count from 1.

    Raises:
        ConfigError: it has no such layer or head.
    """
    trace, notes = first_trace(records, spec.where, spec.example, experts=False)
    if trace is None:
        hidden = {"xaxis": {"visible": False}, "yaxis": {"visible": False}}
        return Drawn(lambda size: go.Figure(layout=hidden), pd.DataFrame(columns=ATTENDED), spec.heading, notes)

    def chosen(part: Numbers) -> Numbers:
        """Take (L, H, T, S) -> (T, S) of one layer and head, or the mean."""
        for at, (name, asked) in enumerate({"layer": spec.layer, "head": spec.head}.items()):
            if asked is not None and asked > part.shape[at]:
                raise ConfigError(f"attention {spec.name!r}: {name} must be at most {part.shape[at]}, but got {asked}")
        layers = part if spec.layer is None else part[[spec.layer - 1]]
        return np.asarray((layers if spec.head is None else layers[:, [spec.head - 1]]).mean((0, 1)))

    own = None if trace.self_attention is None else chosen(trace.self_attention)
    data = CaptionAttention(chosen(trace.cross_attention), own, trace.words, trace.image)

    def row(token: int, word: str, of: str, at: int, seen: str, share: float) -> Json:
        return {"place": token + 1, "word": word, "of": of, "at": at + 1, "seen": seen, "share": 100 * share}

    rows = [
        row(token, trace.words[token + 1], "image", at, f"row {at // data.side + 1}, column {at % data.side + 1}", share)
        for (token, at), share in np.ndenumerate(data.cross)
    ]
    rows += [
        row(token, trace.words[token], "caption", at, trace.words[at], share)
        for (token, at), share in np.ndenumerate(np.empty((0, 0)) if data.own is None else data.own)
        if at <= token
    ]
    of = {name: "mean" if asked is None else str(asked) for name, asked in (("layer", spec.layer), ("head", spec.head))}
    which = [
        f"the mean of all {count} {name}s" if asked is None else f"{name} {asked} of {count}"
        for name, asked, count in zip(("layer", "head"), (spec.layer, spec.head), trace.cross_attention.shape, strict=False)
    ]
    named = trace.title if trace.cross_attention.shape[:2] == (1, 1) else f"{trace.title}; {' and '.join(which)}"
    none = () if trace.image is not None else (f"{trace.columns['label']}: the image of test row {trace.row} was not kept",)
    frame = pd.DataFrame(rows).assign(**of, **trace.columns)[ATTENDED]
    tiles = (
        f"Over each word: where the model looked as it wrote it, {data.side}x{data.side} places; orange where it is more than "
        f"even attention, which is {100 * data.even:.3g} %, and full at {100 * data.full:.3g} %."
    )
    grid = " Below: how much each token (row) attends to itself and to the tokens before it (columns)."
    caption = f"{named}. {tiles}{grid if data.own is not None else ''}"
    return Drawn(partial(_figure, data), frame, spec.heading, (*notes, *none), caption, words=" ".join(trace.words))


def _figure(data: CaptionAttention, size: Size = SCREEN) -> go.Figure:
    """Draw tiles above, the grid below; a network without self-attention has the tiles alone."""
    figure = go.Figure()
    height = _tiles(figure, data, size)
    more = head(figure, 0, "Attention to the image, by the word that was written", size)
    panels = [Panel(height, 30 + more, 26 if data.own is not None else 0)]
    if data.own is not None:
        height = _grid(figure, data.own, data.words[:-1], size)
        more = head(figure, 1, "Attention of each token to those before it", size)
        panels.append(Panel(height, 30 + more, 30 * size.printed))
    figure.update_xaxes(showgrid=False, ticks="").update_yaxes(showgrid=False, ticks="")
    figure.update_layout({"xaxis": {"visible": False}, "yaxis": {"visible": False}})
    stack(figure, panels, size)
    if data.own is not None:
        figure.layout.coloraxis.colorbar.update(x=1, xanchor="right", y=figure.layout.yaxis2.domain[1])  # where the grid is empty
    return figure


def tinted(image: Pixels, shares: Numbers, even: float, full: float) -> Pixels:
    """Return the image in darker gray, with orange at each place of the (side, side) `shares` that is more than `even`."""
    height, width = image.shape[:2]
    gray = DIM * image.astype(float).mean(-1, keepdims=True)
    rows, columns = (np.arange(pixels) * len(shares) // pixels for pixels in (height, width))
    depth = STRENGTH * np.clip((shares[np.ix_(rows, columns)][..., None] - even) / (full - even), 0, 1)
    return np.asarray(gray * (1 - depth) + depth * np.array(ORANGE), dtype=np.uint8)


def _tiles(figure: go.Figure, data: CaptionAttention, size: Size) -> float:
    """Draw the image as it is, then once for each word; return the height in points."""
    image = np.full((data.side, data.side, 1), 128, dtype=np.uint8) if data.image is None else data.image
    side = side_of(image)
    if (times := side // max(image.shape[:2])) > 1:  # at its tile's size the blocks of a grid are sharp
        image = image.repeat(times, axis=0).repeat(times, axis=1)
    maps = data.cross.reshape(-1, data.side, data.side)
    images = [image, *(tinted(image, shares, data.even, data.full) for shares in maps)]
    columns = size.inner // TILE if size.printed else WIDE if len(images) <= FEW else NARROW
    rows, hover = -(-len(images) // columns), ["the image"]
    for word, shares in zip(data.words[1:], maps, strict=True):
        row, column = np.unravel_index(int(shares.argmax()), shares.shape)
        hover.append(f"{word}: most at row {row + 1}, column {column + 1}, {100 * shares.max():.3g} %")
    words = ["<i>the image</i>", *map(short, data.words[1:])]
    wide, high = image_grid(figure, 0, picture_uri, images, columns, rows, side, (GAP, SPACE), hover, words)
    figure.update_layout(
        xaxis={"constrain": "domain", "constraintoward": "left"},
        yaxis={"scaleanchor": "x", "constrain": "domain", "constraintoward": "top"},
    )
    return size.inner * high / wide


def _grid(figure: go.Figure, own: Numbers, words: list[str], size: Size) -> float:
    """Draw tokens by tokens, those that come later left empty; return the height in points."""
    count, names, token = len(own), [short(word) for word in words], TOKEN[size.printed]

    def pair(row: int, column: int) -> str:
        return f"token {row + 1}, {words[row]}, to token {column + 1}, {words[column]}: {100 * own[row, column]:.3g} %"

    z = np.where(np.triu(np.ones_like(own, dtype=bool), 1), np.nan, 100 * own).tolist()
    hover = [pair(row, column) for row in range(count) for column in range(count)]
    cells = heat(range(count), range(count), z, hover, hoverongaps=False, coloraxis="coloraxis")
    figure.add_heatmap(**cells, **axes_at(1))
    ticks = {"tickmode": "array", "tickvals": list(range(count)), "ticktext": names}
    small = max(8, size.inner / count) if size.printed else 8  # in print as large as they are apart
    look = {"tickfont": {"size": 11 if count * token <= size.inner else small}, "constrain": "domain"}
    figure.update_layout(
        xaxis2={**ticks, **look, "tickangle": -90, "constraintoward": "left", "range": [-0.5, count - 0.5]},
        yaxis2={**ticks, **look, "range": [count - 0.5, -0.5], "scaleanchor": "x2", "constraintoward": "top"},
        coloraxis=shade(100 * float(own[1:].max(initial=1 / count)), "% of attention"),  # the first has itself alone: 100 %
    )
    return min(size.inner, max(LOW, token * count))
