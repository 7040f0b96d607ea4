"""The report parts that look inside a captioner (003, Figures 3, 7 and 8).

`AttentionMaps` shows where the model attends, `FeatureMaps` what its vision encoder computes, and
`ExpertPath` and `ExpertLoad` which experts process the tokens.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field

from recstudy.base.errors import ConfigError
from recstudy.base.lazy import go, np, pd, special
from recstudy.records import Json, read_json
from recstudy.records.reading import record_of
from recstudy.records.schema import Number, record
from recstudy.recursive.config.parts import Count
from recstudy.recursive.figures.examples import (
    TRACE,
    CaptionTrace,
    add_images,
    first_runs,
    read_runs,
    read_trace,
)
from recstudy.recursive.figures.tiles import SIDE, TITLE_LOOK, Tiles, tile_figure
from recstudy.report.figures.chosen import run_columns
from recstudy.report.fits import scored_runs
from recstudy.report.look import clipped, folded, share_map
from recstudy.report.names import join_labels
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords

if TYPE_CHECKING:
    from PIL.Image import Image

RUN_COLUMNS = ["variant", "label", "seed", "data", "row"]
SIZE = SIDE, SIDE
WORDS_IN_A_ROW, LETTERS_OF_A_WORD = 6, 8  # tiles in a row, and characters of a word
TOKEN, TITLE, LABELS = 17, 80, 200  # pixels of a token in the grid, and above and below the grid
ORANGE = (230, 159, 0)  # light enough to show the image under it
# opacity of the strongest tint, and brightness of the gray image under it, so that orange shows on white
STRENGTH, DIM = 0.85, 0.75


class CaptionFigure(FigurePart, OfVariants):
    """The trace of one generated caption, of the first variant whose runs saved it.

    Args:
        name: The name of the part and of its files.
        example: Which of the first test images to show, from 0; a run keeps 6.
    """

    run_file = TRACE
    example: int = Field(default=0, ge=0, le=5)
    array: ClassVar[str]  # an array that the trace must have
    array_title: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]  # of `rows`
    shows_image: ClassVar[bool] = True
    shows_words: ClassVar[bool] = True

    @abstractmethod
    def rows(self, trace: CaptionTrace) -> pd.DataFrame:
        """Return the figure's data without the columns of the run."""

    @abstractmethod
    def explanation(self, trace: CaptionTrace, data: pd.DataFrame) -> str:
        """Return how to read the figure, which follows the name of the run in the caption."""

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return the rows of the trace, each with the test image as `_image`."""
        read = partial(read_trace, example=self.example)
        contents, notes = read_runs(records, self.where, TRACE, read, len(records.variants))
        traces = [(run, trace) for run, trace in contents if trace and getattr(trace, self.array) is not None]
        data, texts = pd.DataFrame(), ("", "")
        for run, trace in traces[:1]:
            rows = self.rows(trace).assign(row=trace.row, **run_columns(records, run))
            data, _ = add_images(records, self.where, rows)
            title = f"{run.label}, seed {run.seed}, {data['data'].iloc[0]} test image {trace.row}"
            texts = title + self.explanation(trace, data), " ".join(trace.words) * self.shows_words
            if self.shows_image and data["_image"].isna().all():
                notes.append(f"{run.label}: the image of test row {trace.row} was not saved")
        if not traces:
            place = f" (example {self.example})" if self.example else ""
            labels = join_labels(records.labels(records.chosen(self.where)))
            notes.append(f"no finished run saved the {self.array_title} of a caption{place}: {labels}")
        data = data.reindex(columns=[*RUN_COLUMNS, *self.columns, "synthetic", "_image"])
        data.attrs = {"notes": notes, "caption": texts[0], "words": texts[1]}
        return data


@PARTS.add("attention_maps")
class AttentionMaps(CaptionFigure):
    """The attention of a captioner to one test image, and to earlier words, for each word that it generates.

    The figure shows the first variant whose runs saved their attention.

    Args:
        name: The name of the part and of its files.
        example: Which of the first test images to show, from 0; a run keeps 6.
        layer: The layer, from 1. The default is the mean over layers.
        head: The head, from 1. The default is the mean over heads.
    """

    name: str = "attention"
    layer: Count | None = None
    head: Count | None = None
    default_title = "Attention while generating a caption"
    array, array_title = "cross_attention", "attention"
    columns = ("layer", "head", "place", "word", "of", "at", "seen", "share")

    def rows(self, trace: CaptionTrace) -> pd.DataFrame:
        """Return a row per word and attended position, with the `share` of attention in percent.

        If `of` is `image`, the model generates `word`, and `at` is a position in the image whose row and
        column are in `seen`. If `of` is `caption`, the model reads `word`, and `at` is the position of the
        earlier word `seen`. Positions count from 1.

        Raises:
            ConfigError: The model has no such layer or head.
        """
        side = range(1, trace.side + 1)
        # row by row, the order of the image's positions in the attention arrays
        places = [f"row {row}, column {column}" for row in side for column in side]
        data = self._shares(trace.cross_attention, trace.words[1:], places).assign(of="image")
        if trace.self_attention is not None:
            tokens = self._shares(trace.self_attention, trace.words, trace.words).assign(of="caption")
            # causal attention: a token sees itself and the tokens before it
            data = pd.concat([data, tokens[tokens["at"] <= tokens["place"]]], ignore_index=True)
        return data.assign(layer=str(self.layer or "mean"), head=str(self.head or "mean"))

    def explanation(self, trace: CaptionTrace, data: pd.DataFrame) -> str:
        even, full = _color_range(data)
        layers, heads, *_ = trace.cross_attention.shape
        layer = f"layer {self.layer} of {layers}" if self.layer else f"the mean of all {layers} layers"
        head = f"head {self.head} of {heads}" if self.head else f"the mean of all {heads} heads"
        chosen = f"; {layer} and {head}" if layers * heads > 1 else ""
        grid = "Below: attention of each token (row) to itself and to the tokens before it (columns)."
        return (
            f"{chosen}. The image above each word shows the attention while the model generated the word, at"
            f" {trace.side}x{trace.side} positions. Orange marks more than even attention ({even:.3g} %);"
            f" the strongest orange is {full:.3g} %. {grid if trace.self_attention is not None else ''}"
        ).rstrip()

    def draw(self, data: pd.DataFrame) -> go.Figure:
        figure, grid = tile_figure([_tiles(data)]), data[data["of"] == "caption"]
        return figure if grid.empty else _add_grid(figure, grid)

    def _shares(self, shares: np.ndarray, words: Sequence[str], targets: Sequence[str]) -> pd.DataFrame:
        """Return a row per word and target with the attention of the chosen layer and head, or their mean.

        Args:
            shares: (L, H, T, S) attention of T words to S targets in L layers with H heads; each word's sum
                is 1.
            words: The T words.
            targets: The S words or positions that they attend to.
        """
        for axis, (name, number) in enumerate({"layer": self.layer, "head": self.head}.items()):
            if number and number > shares.shape[axis]:
                raise ConfigError(
                    f"attention {self.name!r}: {name} must be at most {shares.shape[axis]}, but got {number}"
                )
            shares = shares.take([number - 1], axis) if number else shares
        data = _cells(100 * shares.mean((0, 1)), ("place", "at"), "share")
        return data.assign(word=np.array(words)[data["place"] - 1], seen=np.array(targets)[data["at"] - 1])


def _cells(values: np.ndarray, axes: Sequence[str], name: str) -> pd.DataFrame:
    """Return a row per value of an array with its position along each axis, from 1."""
    positions = 1 + np.indices(values.shape).reshape(values.ndim, -1).T
    return pd.DataFrame(positions, columns=list(axes)).assign(**{name: values.ravel()})


def _color_range(data: pd.DataFrame) -> tuple[float, float]:
    """Return even attention and the attention of the strongest orange, both in percent."""
    shares = data[data["of"] == "image"]
    even = 100 / shares["at"].max()
    # at least twice even attention, so that nearly even attention does not look like a peak
    return even, max(shares["share"].max(), 2 * even)


def _test_image(data: pd.DataFrame) -> Image:
    """Return the test image, or a gray tile if it was not saved, in the size of a tile."""
    from PIL import Image

    return (data["_image"].iloc[0] or Image.new("RGB", SIZE, "gray")).resize(SIZE).convert("RGB")


def _tiles(data: pd.DataFrame) -> Tiles:
    """Return the original image, then one image per word: gray, with orange for more than even attention."""
    from PIL import Image

    cells = data[data["of"] == "image"].reset_index(drop=True)
    even, full = _color_range(data)
    image, side = _test_image(data), math.isqrt(cells["at"].max())
    gray = image.convert("L").point(lambda value: DIM * value).convert("RGB")
    orange = Image.new("RGB", SIZE, ORANGE)
    shares = cells["share"].to_numpy().reshape(-1, side, side)
    tints = (255 * STRENGTH * np.clip((shares - even) / (full - even), 0, 1)).astype(np.uint8)
    masks = [Image.fromarray(tint).resize(SIZE, Image.Resampling.NEAREST) for tint in tints]
    peaks = cells.loc[cells.groupby("place")["share"].idxmax()].to_dict("records")
    hover = [
        "the image",
        *(f"{cell['word']}: highest attention at {cell['seen']}, {cell['share']:.3g} %" for cell in peaks),
    ]
    words = ["<i>the image</i>", *(clipped(cell["word"], LETTERS_OF_A_WORD) for cell in peaks)]
    images = [image, *(Image.composite(orange, gray, mask) for mask in masks)]
    return Tiles("Attention to the image, by generated word", images, words, hover, WORDS_IN_A_ROW)


def _add_grid(figure: go.Figure, grid: pd.DataFrame) -> go.Figure:
    """Draw the attention between tokens below the tiles. The cells of later tokens are empty."""
    x, y = (
        grid[number].astype(str) + " " + grid[name].map(lambda word: clipped(word, LETTERS_OF_A_WORD))
        for number, name in (("at", "seen"), ("place", "word"))
    )
    shares = share_map(x, y, grid["share"], "% of attention")
    rows = LABELS + TOKEN * y.nunique()
    heights = [figure.layout.height, rows]
    height = sum(heights) + TITLE
    # the first token attends to itself alone, so that its 100 % would dim all other cells
    top, maximum = rows / height, grid.loc[grid["place"] > 1, "share"].max()
    figure.set_subplots(2, 1, row_heights=heights, vertical_spacing=TITLE / height)
    figure.add_trace(shares.data[0], 2, 1)
    figure.update_xaxes(shares.layout.xaxis, row=2, type="category", tickangle=-90)
    figure.update_yaxes(shares.layout.yaxis, row=2, type="category")
    text = "<b>Attention of each token<br>to those before it</b>"
    figure.add_annotation(text=text, xref="paper", y=top, yref="paper", showarrow=False, **TITLE_LOOK)
    # the colour bar uses the empty upper triangle
    bar = {"x": 1, "xanchor": "right", "y": top, "yanchor": "top", "len": top / 2}
    return figure.update_layout(
        height=height, coloraxis={**shares.layout.coloraxis.to_plotly_json(), "cmax": maximum}
    ).update_coloraxes(colorbar=bar)


COARSEST = 5  # C5 is the last stage of a ResNet
DARK, MIDDLE, LIGHT = "#00204C", "#7C7B78", "#FFE945"  # cividis, which color-blind readers see alike
MAPS_IN_A_ROW = 3


@PARTS.add("feature_maps")
class FeatureMaps(CaptionFigure):
    """Feature maps of a multiscale vision encoder for one test image.

    Each map is the mean over channels. There is a map for each pyramid level, enlarged to the size of the
    finest level, and one for their fusion F. The figure shows the first variant whose runs saved the maps.

    Args:
        name: The name of the part and of its files.
        example: Which of the first test images to show, from 0; a run saves 6.
    """

    name: str = "features"
    default_title = "Feature maps of the vision encoder"
    array, array_title = "features", "feature maps"
    columns = ("map", "least", "mean", "largest", "where", "_map")
    shows_words = False

    def rows(self, trace: CaptionTrace) -> pd.DataFrame:
        """Return a row per map with its least, mean and largest value, and the position of the largest.

        The column `where` has the row and the column of the position, counted from 1.
        """
        maps = trace.features
        # the last map is the fusion F; the pyramid levels before it end at P5
        levels = [f"P{level}" for level in range(COARSEST + 2 - len(maps), COARSEST + 1)]
        data = pd.DataFrame({"map": [*levels, "F"]})
        peaks = [np.unravel_index(values.argmax(), values.shape) for values in maps]
        places = [f"row {row + 1}, column {column + 1}" for row, column in peaks]
        data = data.assign(where=places, _map=pd.Series([*maps]))
        return data.assign(least=maps.min((1, 2)), mean=maps.mean((1, 2)), largest=maps.max((1, 2)))

    def explanation(self, trace: CaptionTrace, data: pd.DataFrame) -> str:
        coarsest = data["map"].iloc[-2]
        height, width = trace.features.shape[1:]
        return (
            f". Each map is the mean over channels at {height}x{width} positions, from its least"
            f" value (dark) to its largest (light). {coarsest} is the coarsest level. F is the fusion of all"
            " levels, which the decoder reads."
        )

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw the image, then each map."""
        from PIL import Image, ImageOps

        images = [_test_image(data)]
        for values in data["_map"]:
            # a constant map has no range to divide by
            shares = (values - values.min()) / max(np.ptp(values), np.finfo(float).tiny)
            gray = Image.fromarray((255 * shares).astype(np.uint8)).resize(SIZE, Image.Resampling.NEAREST)
            images.append(ImageOps.colorize(gray, DARK, LIGHT, MIDDLE))
        line = "{map}: mean {mean:.3g}, largest {largest:.3g} at {where}"
        hover = ["the image", *map(line.format_map, data.to_dict("records"))]
        words = ["<i>the image</i>", *data["map"]]
        return tile_figure([Tiles(self.heading, images, words, hover, MAPS_IN_A_ROW)])


LETTERS = 14  # characters of a token, and in a line of a variant's name
ROW_HEIGHT, COLUMN_WIDTH, LABEL_WIDTH = 18, 16, 170  # pixels of a token's row, of an expert, of the labels


@record
class Routing:
    """The routing of a mixture of experts, one entry per layer.

    `load` has the number of tokens of each expert, `entropy` the mean entropy of the router, and `dropped`
    the number of dropped assignments.
    """

    load: tuple[tuple[Number, ...], ...]
    entropy: tuple[float, ...]
    dropped: tuple[Number, ...]


class OfExperts(OfVariants):
    """A part about the experts of a mixture, which reports of single runs have if the run has experts."""

    run_file = TRACE
    name: str = "experts"

    @classmethod
    def of_run(cls, config: Json) -> Self | None:
        return cls() if config.get("model.experts") else None


@PARTS.add("expert_path")
class ExpertPath(CaptionFigure, OfExperts):
    """The experts that process each token of one generated caption, by layer.

    The figure shows the first variant that has experts.

    Args:
        name: The name of the part and of its files.
        example: Which of the first test images to show, from 0; a run keeps 6.
    """

    name: str = "experts"
    default_title = "Experts of each token of a generated caption"
    array, array_title = "router", "experts"
    columns = ("place", "token", "layer", "expert", "probability", "choice")
    shows_image = False

    def rows(self, trace: CaptionTrace) -> pd.DataFrame:
        """Return a row per token, layer and expert with the router's `probability`.

        `choice` is the rank of the expert if it processed the token, and missing if it did not. Places,
        layers, experts and choices count from 1.
        """
        # the rank of each chosen expert, from 1; 0 for all others
        choice = np.zeros(trace.router.shape, int)
        np.put_along_axis(choice, trace.chosen, 1 + np.arange(trace.chosen.shape[-1]), -1)
        choices = pd.Series(choice.ravel(), dtype="Int64")
        data = _cells(trace.router, ("layer", "place", "expert"), "probability")
        return data.assign(token=np.array(trace.words)[data["place"] - 1], choice=choices.where(choices > 0))

    def explanation(self, trace: CaptionTrace, data: pd.DataFrame) -> str:
        count = data["choice"].max()
        numbers = f"1 {'and' if count == 2 else 'to'} {count}"
        marks = f"{numbers} mark the experts that processed the token, in the order of their probability"
        if count == 1:
            marks = "1 marks the expert that processed the token"
        return f". Each row is a token of the caption that the model generated; {marks}."

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw a row per token and a column per layer and expert."""
        tokens = data["place"].astype(str) + " " + data["token"].map(lambda token: clipped(token, LETTERS))
        experts = ["layer " + data["layer"].astype(str), data["expert"]]
        figure = share_map(experts, tokens, 100 * data["probability"], "probability, %")
        figure.update_traces(text=data["choice"].astype(object).fillna(""), texttemplate="%{text}")
        # a narrower screen scrolls sideways
        min_width = LABEL_WIDTH + COLUMN_WIDTH * len(data.drop_duplicates(["layer", "expert"]))
        return figure.update_layout(
            height=140 + ROW_HEIGHT * int(data["place"].max()), meta={"rows": True, "min_width": min_width}
        )


LOAD = [
    *RUN_COLUMNS[:3],
    "layer",
    "expert",
    "tokens",
    "share",
    "even",
    "entropy",
    "dropped",
    "synthetic",
]
MAX_PRINTED_EXPERTS = 12  # with more experts, the shares do not fit into their cells
LAYER_HEIGHT = 44  # pixels


@PARTS.add("expert_load")
class ExpertLoad(FigurePart, OfExperts):
    """The share of the test set's tokens that each expert of a mixture processes, by layer.

    There is a panel for each variant, with one of its seeds.

    Args:
        name: The name of the part and of its files.
        example: Which of the first generated captions to count, from 0; a run keeps 6. The default is the
            whole test set.
    """

    name: str = "load"
    example: int | None = Field(default=None, ge=0, le=5)
    default_title = "Share of the test tokens per expert"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per layer and expert, for the first finished seed of the best variants with experts.

        `tokens` counts the tokens that the expert processed. `share`, and `even` for an even load, are in
        percent of the layer's tokens. `entropy` is the mean router entropy of the layer in nats, and
        `dropped` counts its dropped choices. Layers and experts count from 1.
        """
        variants = records.chosen(self.where)
        runs = {
            index: run
            for index in variants
            for run in scored_runs(records.by_variant[index], "expert_load_peak")[:1]
        }
        file = "result.json"
        if self.example is not None:
            file, traced_runs = TRACE, first_runs(records, self.where, TRACE)
            runs = {index: run for index, run in traced_runs.items() if index in runs}
        without_experts = records.labels(index for index in variants if index not in runs)
        read = partial(_read_load, example=self.example)
        loads, notes = read_runs(records, self.where, file, read, runs=runs)
        if without_experts:
            notes.append(
                "without an expert load, because they have one expert or no finished run:"
                f" {join_labels(without_experts)}"
            )
        rows = [load.assign(**run_columns(records, run)) for run, load in loads if load is not None]
        # the empty frame has the columns if no run can be read
        data = pd.concat(rows or [pd.DataFrame(columns=LOAD)], ignore_index=True)[LOAD]
        data.attrs["notes"] = notes
        return data

    def caption(self, data: pd.DataFrame) -> str:
        # entropy and dropped choices belong to the layer and are the same in the rows of its experts
        layers = data.drop_duplicates(["variant", "layer"])
        dropped = layers["dropped"].sum()
        dropped_words = f"{dropped:,} choices were dropped" if dropped else "no token was dropped"
        experts = sorted(data.groupby("variant")["expert"].max().unique())
        counts = ", ".join(f"{math.log(count):.2f} of {count}" for count in experts)
        captions = "the reference captions" if self.example is None else f"its own caption {self.example}"
        return (
            "Percent of the tokens of a layer; a token counts once for each expert that processes it. The"
            f" model reads {captions}, PAD does not count, and {dropped_words}. Each layer has"
            f" its mean router entropy in nats; without any preference it would be {counts} experts. Experts"
            " of different seeds or layers share only their number."
        )

    def finding(self, data: pd.DataFrame) -> str:
        top = data.sort_values("share").iloc[-1]
        return f"at most {top['share']:.3g} % of a layer's tokens; an even load is {top['even']:.3g} %"

    def draw(self, data: pd.DataFrame) -> go.Figure:
        names = data["label"] + ", seed " + data["seed"].astype(str)
        variants = [folded(name, LETTERS) for name in names]
        layers = "layer " + data["layer"].astype(str) + data["entropy"].map(":<br>{:.2f} nats".format)
        figure = share_map(data["expert"], [variants, layers], data["share"], "% of tokens")
        if data["expert"].max() <= MAX_PRINTED_EXPERTS:
            figure.update_traces(texttemplate="%{z:.1f}")
        height = 140 + LAYER_HEIGHT * len(data.drop_duplicates(["variant", "layer"]))
        return figure.update_xaxes(title="expert", type="category").update_layout(height=height)


def _read_load(path: Path, example: int | None) -> pd.DataFrame | None:
    """Read a row per layer and expert from a run's result, or of one caption from its trace.

    Returns None if the run saved fewer captions.

    Raises:
        ValueError: A layer has no tokens.
    """
    if example is None:
        routing = record_of(Routing, (read_json(path) or {})["routing"])
        if not all(map(sum, routing.load)):
            raise ValueError("routing: a layer without tokens")
        layers = pd.DataFrame(
            {"tokens": routing.load, "entropy": routing.entropy, "dropped": routing.dropped}
        )
    else:
        trace = read_trace(path, example)
        if trace is None:
            return None
        tokens = [np.bincount(layer.ravel(), minlength=trace.router.shape[-1]) for layer in trace.chosen]
        entropy = special.entr(trace.router).sum(-1).mean(-1)
        layers = pd.DataFrame({"tokens": tokens, "entropy": entropy, "dropped": 0})
    data = (
        layers.assign(layer=layers.index + 1)
        .explode("tokens", ignore_index=True)
        .astype({"tokens": int, "dropped": int})
    )
    experts = data.groupby("layer")["tokens"]
    share = 100 * data["tokens"] / experts.transform("sum")
    return data.assign(expert=experts.cumcount() + 1, share=share, even=100 / experts.transform("size"))
