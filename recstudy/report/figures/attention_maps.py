"""Where a captioner looks as it writes each word (003, Figure 7), and which earlier words it looks back at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from recstudy.errors import ConfigError
from recstudy.lazy import go, np, pd
from recstudy.records import Json
from recstudy.report.look import SHADES, clipped
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords
from recstudy.report.tiles import SIDE, Tiles, image_of, tile_figure
from recstudy.report.traces import first_trace

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

COLUMNS = ["variant", "label", "seed", "data", "row", "layer", "head", "place", "word", "of", "at", "seen", "share", "synthetic"]
ACROSS, LETTERS = 6, 8  # tiles in a row, and letters of a word
TOKEN, LOWEST = 17, 220  # pixels of a token in the grid, and the least height of the grid
ORANGE = (230, 159, 0)  # light enough for the image under it
STRENGTH, DIM = 0.85, 0.75  # of the strongest tint, and of the gray image under it, so that orange shows on white


@PARTS.add("attention_maps")
class AttentionMaps(FigurePart, OfVariants):
    """Where a model looks in one test image as it writes each word, and at which words: of the first variant that has kept it.

    Without `layer` and `head`, which count from 1, the mean over them.
    """

    name: str = "attention"
    example: int = Field(default=0, ge=0, le=5)  # which of the first test images; a run keeps 6
    layer: int | None = Field(default=None, ge=1)
    head: int | None = Field(default=None, ge=1)
    default_title: ClassVar[str] = "Attention while a caption is written"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per word and what it attends to, with the `share` of attention in percent.

        Where `of` is `image`, `word` is written next and `at` is a place of the image (`seen`: its row and column). Where `of` is
        `caption`, `word` is read and `at` is the place of an earlier word (`seen`). Places count from 1.

        Raises:
            ConfigError: The model has no such layer or head.
        """
        trace, notes = first_trace(records, self.where, self.example, experts=False)
        data = pd.DataFrame(columns=COLUMNS)
        if trace is not None:
            side = range(1, trace.side + 1)
            places = [f"row {row}, column {column}" for row in side for column in side]
            rows = _rows(self._selected(trace.cross_attention), trace.words[1:], places, "image")
            if trace.self_attention is not None:
                rows += _rows(self._selected(trace.self_attention), trace.words, trace.words, "caption")
            of = {"layer": str(self.layer or "mean"), "head": str(self.head or "mean")}
            data = pd.DataFrame(rows).assign(**of, **trace.columns)[COLUMNS]
            if trace.image is None:
                notes.append(f"{trace.columns['label']}: the image of test row {trace.row} was not kept")
        data.attrs.update(notes=notes, trace=trace)
        return data

    def caption(self, data: pd.DataFrame) -> str:
        trace, (even, full) = data.attrs["trace"], _scale(data)
        counts = trace.cross_attention.shape
        layers = f"layer {self.layer} of {counts[0]}" if self.layer else f"the mean of all {counts[0]} layers"
        heads = f"head {self.head} of {counts[1]}" if self.head else f"the mean of all {counts[1]} heads"
        caption = f"{trace.title}; {layers} and {heads}" if counts[:2] != (1, 1) else trace.title
        caption += (
            f". Over each word: where the model looked as it wrote it, {trace.side}x{trace.side} places; orange where it is "
        )
        caption += f"more than even attention, which is {even:.3g} %, and full at {full:.3g} %."
        grid = " Below: how much each token (row) attends to itself and to the tokens before it (columns)."
        return caption if trace.self_attention is None else caption + grid

    def describe(self, data: pd.DataFrame) -> str:
        return "" if data.empty else " ".join(data.attrs["trace"].words)

    def draw(self, data: pd.DataFrame) -> go.Figure:
        grid = data[data["of"] == "caption"]
        if grid.empty:
            return tile_figure([_tiles(data)])
        height = max(LOWEST, TOKEN * grid["place"].nunique())
        figure = tile_figure([_tiles(data)], ("Attention of each token to those before it", height))
        _draw_grid(figure, grid)
        return figure

    def _selected(self, shares: Numbers) -> Numbers:
        """Return the shares (L, H, T, S) of one layer and head, or their mean, in percent."""
        for axis, (name, number) in enumerate({"layer": self.layer, "head": self.head}.items()):
            if number and number > shares.shape[axis]:
                raise ConfigError(f"attention {self.name!r}: {name} must be at most {shares.shape[axis]}, but got {number}")
            shares = shares.take([number - 1], axis) if number else shares
        return np.asarray(100 * shares.mean((0, 1)))


def _rows(shares: Numbers, words: Sequence[str], seen: Sequence[str], of: str) -> list[Json]:
    return [
        {"place": token + 1, "word": words[token], "of": of, "at": place + 1, "seen": seen[place], "share": share}
        for (token, place), share in np.ndenumerate(shares)
        if of == "image" or place <= token
    ]


def _scale(data: pd.DataFrame) -> tuple[float, float]:
    """Return even attention to the image, and the share with the strongest tint: at least twice the even one."""
    even = 100 / data.attrs["trace"].side ** 2
    return even, max(float(data.loc[data["of"] == "image", "share"].max()), 2 * even)


def _tiles(data: pd.DataFrame) -> Tiles:
    """Return the image as it is, then once for each word: in darker gray, with orange where the attention is more than even."""
    from PIL import Image

    cells, trace, (even, full) = data[data["of"] == "image"].reset_index(drop=True), data.attrs["trace"], _scale(data)
    size = (SIDE, SIDE)
    image = Image.new("RGB", size, "gray") if trace.image is None else image_of(trace.image).resize(size).convert("RGB")
    gray, orange = image.convert("L").point(lambda value: DIM * value).convert("RGB"), Image.new("RGB", size, ORANGE)
    shares = cells["share"].to_numpy().reshape(-1, trace.side, trace.side)
    tints = (255 * STRENGTH * np.clip((shares - even) / (full - even), 0, 1)).astype(np.uint8)
    masks = [Image.fromarray(tint).resize(size, Image.Resampling.NEAREST) for tint in tints]
    most = cells.loc[cells.groupby("place")["share"].idxmax()].to_dict("records")
    hover = ["the image", *(f"{cell['word']}: most at {cell['seen']}, {cell['share']:.3g} %" for cell in most)]
    words = ["<i>the image</i>", *(clipped(cell["word"], LETTERS) for cell in most)]
    images = [image, *(Image.composite(orange, gray, mask) for mask in masks)]
    return Tiles("Attention to the image, by the word that was written", images, words, hover, ACROSS)


def _draw_grid(figure: go.Figure, grid: pd.DataFrame) -> None:
    """Draw tokens by tokens into the second panel; the places of later tokens are empty, and have the color bar."""
    x, y = (
        grid[number].astype(str) + " " + grid[name].map(lambda word: clipped(word, LETTERS))
        for number, name in (("at", "seen"), ("place", "word"))
    )
    hover = "token %{y}, to token %{x}: %{z:.3g} %<extra></extra>"
    figure.add_heatmap(x=x, y=y, z=grid["share"], hovertemplate=hover, coloraxis="coloraxis", row=2, col=1)
    most = max(float(grid.loc[grid["place"] > 1, "share"].max()), 100 / grid["place"].max())  # the first attends to itself alone
    low, high = figure.layout.yaxis2.domain
    bar = {"title": {"text": "% of attention"}, "x": 1, "xanchor": "right", "y": high, "yanchor": "top", "len": (high - low) / 2}
    figure.update_layout(coloraxis={"colorscale": list(SHADES), "cmin": 0, "cmax": most, "colorbar": bar})
    axes = {"tickfont": {"size": 10}, "showgrid": False, "ticks": "", "type": "category"}
    figure.update_xaxes(**axes, tickangle=-90, row=2).update_yaxes(**axes, autorange="reversed", row=2)
