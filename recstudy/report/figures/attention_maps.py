"""Where a captioner looks as it writes each word (003, Figure 7), and which earlier words it looks back at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field

from recstudy.errors import ConfigError
from recstudy.lazy import go, np, pd
from recstudy.report.look import clipped, share_map
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords
from recstudy.report.tiles import SIDE, Tiles, tile_figure
from recstudy.report.traces import first_trace

COLUMNS = ["variant", "label", "seed", "data", "row", "layer", "head", "place", "word", "of", "at", "seen", "share", "synthetic"]
COLUMNS_OF_TILES, LETTERS = 6, 8  # tiles in a row, and letters of a word
TOKEN, TITLE, LABELS = 17, 80, 200  # pixels of a token in the grid, and above and below it
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
        trace, notes = first_trace(records, self.where, self.example, "cross_attention")
        data = pd.DataFrame(columns=COLUMNS)
        if trace is not None:
            side = range(1, trace.side + 1)
            places = [f"row {row}, column {column}" for row in side for column in side]
            parts = [self._shares(trace.cross_attention, trace.words[1:], places).assign(of="image")]
            if trace.self_attention is not None:
                tokens = self._shares(trace.self_attention, trace.words, trace.words).assign(of="caption")
                parts.append(tokens[tokens["at"] <= tokens["place"]])
            selection = {"layer": str(self.layer or "mean"), "head": str(self.head or "mean")}
            data = pd.concat(parts, ignore_index=True).assign(**selection, **trace.columns)[COLUMNS]
            data["_trace"] = pd.Series([trace] * len(data), dtype=object)
            if trace.image is None:
                notes.append(f"{trace.columns['label']}: the image of test row {trace.row} was not kept")
            data.attrs["words"] = " ".join(trace.words)
        data.attrs["notes"] = notes
        return data

    def caption(self, data: pd.DataFrame) -> str:
        trace, (even, full) = data["_trace"].iloc[0], _color_range(data)
        layers, heads, *_ = trace.cross_attention.shape
        layer = f"layer {self.layer} of {layers}" if self.layer else f"the mean of all {layers} layers"
        head = f"head {self.head} of {heads}" if self.head else f"the mean of all {heads} heads"
        sentences = [
            f"{trace.title}; {layer} and {head}" if layers * heads > 1 else trace.title,
            f"Over each word: where the model looked as it wrote it, {trace.side}x{trace.side} places; orange where it is more "
            f"than even attention, which is {even:.3g} %, and full at {full:.3g} %",
        ]
        if trace.self_attention is not None:
            sentences.append("Below: how much each token (row) attends to itself and to the tokens before it (columns)")
        return ". ".join(sentences) + "."

    def draw(self, data: pd.DataFrame) -> go.Figure:
        figure, grid = tile_figure([_tiles(data)]), data[data["of"] == "caption"]
        return figure if grid.empty else _add_grid(figure, grid)

    def _shares(self, shares: np.ndarray, words: Sequence[str], targets: Sequence[str]) -> pd.DataFrame:
        """Return the shares (L, H, T, S) of one layer and head, or their mean, a row per word and what is seen."""
        for axis, (name, number) in enumerate({"layer": self.layer, "head": self.head}.items()):
            if number and number > shares.shape[axis]:
                raise ConfigError(f"attention {self.name!r}: {name} must be at most {shares.shape[axis]}, but got {number}")
            shares = shares.take([number - 1], axis) if number else shares
        means = 100 * shares.mean((0, 1))
        place, target = np.indices(means.shape).reshape(2, -1)
        texts = {"word": np.array(words)[place], "seen": np.array(targets)[target]}
        return pd.DataFrame({"place": place + 1, "at": target + 1, **texts, "share": means.ravel()})


def _color_range(data: pd.DataFrame) -> tuple[float, float]:
    """Return even attention, and that from which on a place is orange: at least twice as much, so that even looks even."""
    shares = data[data["of"] == "image"]
    even = 100 / shares["at"].max()
    return even, max(shares["share"].max(), 2 * even)


def _tiles(data: pd.DataFrame) -> Tiles:
    """Return the image as it is, then once for each word: in darker gray, with orange where the attention is more than even."""
    from PIL import Image

    cells, size = data[data["of"] == "image"].reset_index(drop=True), (SIDE, SIDE)
    trace, (even, full) = data["_trace"].iloc[0], _color_range(data)
    image = (trace.image or Image.new("RGB", size, "gray")).resize(size).convert("RGB")
    gray, orange = image.convert("L").point(lambda value: DIM * value).convert("RGB"), Image.new("RGB", size, ORANGE)
    shares = cells["share"].to_numpy().reshape(-1, trace.side, trace.side)
    tints = (255 * STRENGTH * np.clip((shares - even) / (full - even), 0, 1)).astype(np.uint8)
    masks = [Image.fromarray(tint).resize(size, Image.Resampling.NEAREST) for tint in tints]
    peaks = cells.loc[cells.groupby("place")["share"].idxmax()].to_dict("records")
    hover = ["the image", *(f"{cell['word']}: most at {cell['seen']}, {cell['share']:.3g} %" for cell in peaks)]
    words = ["<i>the image</i>", *(clipped(cell["word"], LETTERS) for cell in peaks)]
    images = [image, *(Image.composite(orange, gray, mask) for mask in masks)]
    return Tiles("Attention to the image, by the word that was written", images, words, hover, COLUMNS_OF_TILES)


def _add_grid(figure: go.Figure, grid: pd.DataFrame) -> go.Figure:
    """Draw tokens by tokens below the tiles; the places of later tokens are empty."""
    x, y = (
        grid[number].astype(str) + " " + grid[name].map(lambda word: clipped(word, LETTERS))
        for number, name in (("at", "seen"), ("place", "word"))
    )
    shares = share_map(x, y, grid["share"], "% of attention")
    rows = LABELS + TOKEN * y.nunique()
    height = figure.layout.height + TITLE + rows
    top, maximum = rows / height, grid.loc[grid["place"] > 1, "share"].max()  # the first token attends to itself alone
    title = {"text": "<b>Attention of each token<br>to those before it</b>", "align": "left", "font_size": 13, "xanchor": "left"}
    figure.add_annotation(x=0, xref="paper", y=top, yref="paper", yanchor="bottom", showarrow=False, **title)
    bar = {"x": 1, "xanchor": "right", "y": top, "yanchor": "top", "len": top / 2}  # where later tokens would be
    axis: dict[str, Any] = {**shares.layout.xaxis.to_plotly_json(), "type": "category"}
    figure.add_traces(shares.data[0].update(xaxis="x2", yaxis="y2")).update_layout(coloraxis=shares.layout.coloraxis)
    return figure.update_layout(
        height=height,
        coloraxis={"cmax": maximum, "colorbar": bar},
        xaxis2={**axis, "anchor": "y2", "tickangle": -90},
        yaxis2={**axis, "anchor": "x2", "autorange": "reversed", "domain": [0, top]},
        yaxis_domain=[(TITLE + rows) / height, 1],
    )
