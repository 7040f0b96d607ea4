"""Where a captioner looks as it writes (003, Figure 7), of what a run kept of its inside (`trace.npz`), read with every check.

The image stands once for each word, tinted where the model looked, over a grid of words by words.

Shapes: n captions, L layers, H heads, T tokens, P places of the image, E experts, k experts a token.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from recstudy.errors import ConfigError, StorageError
from recstudy.records import Json
from recstudy.report.caveats import is_synthetic, some, warnings
from recstudy.report.figure_fields import AttentionMaps
from recstudy.report.figures.images import image_grid, picture_uri, side_of
from recstudy.report.figures.layout import Drawn, Panel, axes_at, head, shade, stack
from recstudy.report.figures.theme import SCREEN, Size, heat, short
from recstudy.report.kept import IMAGES, Pixels, read_archive, read_images
from recstudy.report.names import plural
from recstudy.report.rows import Row
from recstudy.report.study_records import StudyRecords

TRACE = "trace.npz"
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CaptionTrace:
    """One caption's, of T tokens that were read."""

    row: int  # in the test set
    words: list[str]  # T + 1: the tokens that were read, then the one that was written last
    cross: Numbers  # (L, H, T, P)
    own: Numbers | None  # (L, H, T, T)
    router: Numbers | None  # (L, T, E)
    chosen: npt.NDArray[np.int64] | None  # (L, T, k), the likeliest first


@dataclass(frozen=True)
class Inside:
    """The trace of one run of one variant, and its image where that is kept."""

    label: str
    data: str
    run: Row
    trace: CaptionTrace
    image: Pixels | None
    synthetic: bool

    @property
    def named(self) -> str:
        return f"{self.label}, seed {self.run.seed}, {self.data} test image {self.trace.row}"

    @property
    def columns(self) -> Json:
        """Return what every row of a figure's numbers says of the run."""
        own = {"label": self.label, "seed": self.run.seed, "data": self.data, "row": self.trace.row}
        return {"variant": self.run.variant, **own, "synthetic": self.synthetic}


def first_inside(records: StudyRecords, where: Json, example: int, experts: bool) -> tuple[Inside | None, tuple[str, ...]]:
    """Return the kept caption `example`, from 0, of the first variant at these levels that has one, and what must be said first.

    Args:
        records: of the study.
        where: axis -> level.
        example: which of the captions that a run keeps.
        experts: whether it must be of a mixture of experts.
    """
    notes, lacking = list(warnings(records)), []
    for index in records.chosen(where):
        variant, run = records.variants[index], records.first_run(index, TRACE, ("done",))
        folder = None if run is None else records.results.run(run.id).path
        try:
            trace = None if folder is None else read_trace(folder / TRACE, example)
        except StorageError as damage:
            notes.append(f"{variant.label}: {damage}")
            continue
        if run is None or folder is None or trace is None or (experts and trace.router is None):
            lacking.append(variant.label)
            continue
        image = None
        if (folder / IMAGES).exists():
            with suppress(StorageError):  # the maps are still good
                image = read_images(folder / IMAGES).get(trace.row)
        return Inside(variant.label, variant.data, run, trace, image, is_synthetic(records, [index])), tuple(notes)
    if lacking:
        what = f"the {'experts' if experts else 'attention'} of a caption{f' (example {example})' if example else ''}"
        notes.append(f"no finished run has kept {what}: {some(lacking)}")
    return None, tuple(notes)


def read_trace(path: Path, example: int) -> CaptionTrace | None:
    """Read the caption `example` of a run's file; None where it has fewer.

    Raises:
        StorageError: the file is damaged. The message names it.
    """

    def caption(archive: Mapping[str, Any]) -> CaptionTrace | None:
        kept = dict(archive)
        if example >= len(kept["rows"]):
            return None
        length = int(kept["lengths"][example])
        words = [str(word) for word in kept["words"][example][: length + 1]]
        cross, own, router = (  # of the caption's own tokens: the last dimension but one
            kept[name][example][..., :length, :].astype(np.float64) if name in kept else None
            for name in ("cross_attention", "self_attention", "router")
        )
        if cross is None:
            raise ValueError("it has no cross_attention")
        chosen = None if router is None else kept["chosen"][example][:, :length].astype(np.int64)
        own = None if own is None else own[..., :length]
        return _checked(CaptionTrace(int(kept["rows"][example]), words, cross, own, router, chosen))

    return read_archive(path, caption)


def _checked(trace: CaptionTrace) -> CaptionTrace:
    """Return the trace, if its parts go together."""
    layers, heads, length, places = trace.cross.shape
    if length < 1 or len(trace.words) != length + 1:
        raise ValueError(f"{plural(len(trace.words), 'word')} with the attention of {plural(length, 'token')}")
    if math.isqrt(places) ** 2 != places:
        raise ValueError(f"{places} places are no square grid")
    if trace.own is not None and trace.own.shape != (layers, heads, length, length):
        raise ValueError(f"self_attention of {trace.own.shape}")
    for part in (trace.cross, trace.own, trace.router):
        if part is not None and not (np.isfinite(part).all() and part.min() >= 0 and np.allclose(part.sum(-1), 1, atol=0.05)):
            raise ValueError("a row does not sum to 1")
    if trace.router is not None and trace.chosen is not None:
        expected, experts = (layers, length), trace.router.shape[-1]
        if trace.router.shape[:2] != expected or trace.chosen.shape[:2] != expected or not trace.chosen.shape[2]:
            raise ValueError(f"router of {trace.router.shape}, chosen of {trace.chosen.shape}")
        if trace.chosen.min() < 0 or trace.chosen.max() >= experts:
            raise ValueError(f"a token has an expert that is none of {experts}")
    return trace


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
    found, notes = first_inside(records, spec.where, spec.example, experts=False)
    if found is None:
        hidden = {"xaxis": {"visible": False}, "yaxis": {"visible": False}}
        return Drawn(lambda size: go.Figure(layout=hidden), pd.DataFrame(columns=ATTENDED), spec.heading, notes)

    def chosen(part: Numbers) -> Numbers:
        """Take (L, H, T, S) -> (T, S) of one layer and head, or the mean."""
        for at, (name, asked) in enumerate({"layer": spec.layer, "head": spec.head}.items()):
            if asked is not None and asked > part.shape[at]:
                raise ConfigError(f"attention {spec.name!r}: {name} must be at most {part.shape[at]}, but got {asked}")
        layers = part if spec.layer is None else part[[spec.layer - 1]]
        return np.asarray((layers if spec.head is None else layers[:, [spec.head - 1]]).mean((0, 1)))

    trace = found.trace
    data = CaptionAttention(chosen(trace.cross), None if trace.own is None else chosen(trace.own), trace.words, found.image)

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
        for name, asked, count in zip(("layer", "head"), (spec.layer, spec.head), trace.cross.shape, strict=False)
    ]
    named = found.named if trace.cross.shape[:2] == (1, 1) else f"{found.named}; {' and '.join(which)}"
    none = () if found.image is not None else (f"{found.label}: the image of test row {trace.row} was not kept",)
    frame = pd.DataFrame(rows).assign(**of, **found.columns)[ATTENDED]
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
