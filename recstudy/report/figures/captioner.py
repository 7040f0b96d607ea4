"""The report parts that look inside a captioner (003, Figures 3, 7 and 8).

`AttentionMaps` shows where the model attends, `FeatureMaps` what its vision encoder computes, and
`ExpertPath` and `ExpertLoad` which experts process the tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from recstudy.errors import ConfigError
from recstudy.lazy import go, np, pd
from recstudy.records.reading import record_of
from recstudy.records.runs import Row
from recstudy.records.schema import Routing
from recstudy.report.caveats import join_labels
from recstudy.report.examples import (
    CaptionTrace,
    cut_note,
    describe_damage,
    first_trace,
    run_columns,
    shown_variants,
)
from recstudy.report.look import clipped, folded, share_map
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords
from recstudy.report.tiles import SIDE, Tiles, tile_figure

SHARES = [
    "variant",
    "label",
    "seed",
    "data",
    "row",
    "layer",
    "head",
    "place",
    "word",
    "of",
    "at",
    "seen",
    "share",
    "synthetic",
]
WORDS_IN_A_ROW, LETTERS_OF_A_WORD = 6, 8  # tiles in a row, and characters of a word
TOKEN, TITLE, LABELS = 17, 80, 200  # pixels of a token in the grid, and above and below the grid
ORANGE = (230, 159, 0)  # light enough to show the image under it
# opacity of the strongest tint, and brightness of the gray image under it, so that orange shows on white
STRENGTH, DIM = 0.85, 0.75


@PARTS.add("attention_maps")
class AttentionMaps(FigurePart, OfVariants):
    """The attention of a captioner to one test image, and to earlier words, for each word that it generates.

    The figure shows the first variant whose runs saved their attention.

    Args:
        name: The name of the part and of its files.
        example: Which of the first test images to show, from 0; a run keeps 6.
        layer: The layer, from 1. The default is the mean over layers.
        head: The head, from 1. The default is the mean over heads.
    """

    name: str = "attention"
    example: int = Field(default=0, ge=0, le=5)
    layer: int | None = Field(default=None, ge=1)
    head: int | None = Field(default=None, ge=1)
    default_title = "Attention while generating a caption"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per word and attended position, with the `share` of attention in percent.

        If `of` is `image`, the model generates `word`, and `at` is a position in the image whose row and
        column are in `seen`. If `of` is `caption`, the model reads `word`, and `at` is the position of the
        earlier word `seen`. Positions count from 1.

        Raises:
            ConfigError: The model has no such layer or head.
        """
        trace, notes = first_trace(records, self.where, self.example, "cross_attention")
        data = pd.DataFrame(columns=SHARES)
        if trace is not None:
            side = range(1, trace.side + 1)
            # row by row, the order of the image's positions in the attention arrays
            places = [f"row {row}, column {column}" for row in side for column in side]
            parts = [self._shares(trace.cross_attention, trace.words[1:], places).assign(of="image")]
            if trace.self_attention is not None:
                tokens = self._shares(trace.self_attention, trace.words, trace.words).assign(of="caption")
                # causal attention: a token sees itself and the tokens before it
                parts.append(tokens[tokens["at"] <= tokens["place"]])
            selection = {"layer": str(self.layer or "mean"), "head": str(self.head or "mean")}
            data = _with_trace(pd.concat(parts, ignore_index=True).assign(**selection), trace, SHARES)
            if trace.image is None:
                notes.append(f"{trace.columns['label']}: the image of test row {trace.row} was not saved")
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
            (
                "The image above each word shows the attention while the model generated the word, at"
                f" {trace.side}x{trace.side} positions. Orange marks more than even attention ({even:.3g} %);"
                f" the strongest orange is {full:.3g} %"
            ),
        ]
        if trace.self_attention is not None:
            sentences.append(
                "Below: attention of each token (row) to itself and to the tokens before it (columns)"
            )
        return ". ".join(sentences) + "."

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
        means = 100 * shares.mean((0, 1))
        place, target = np.indices(means.shape).reshape(2, -1)
        texts = {"word": np.array(words)[place], "seen": np.array(targets)[target]}
        return pd.DataFrame({"place": place + 1, "at": target + 1, **texts, "share": means.ravel()})


def _with_trace(data: pd.DataFrame, trace: CaptionTrace, columns: list[str]) -> pd.DataFrame:
    """Return these columns with the run's label and seed, and the trace itself for `draw`."""
    return data.assign(**trace.columns)[columns].assign(_trace=pd.Series([trace] * len(data), dtype=object))


def _color_range(data: pd.DataFrame) -> tuple[float, float]:
    """Return even attention and the attention of the strongest orange, both in percent."""
    shares = data[data["of"] == "image"]
    even = 100 / shares["at"].max()
    # at least twice even attention, so that nearly even attention does not look like a peak
    return even, max(shares["share"].max(), 2 * even)


def _tiles(data: pd.DataFrame) -> Tiles:
    """Return the original image, then one image per word: gray, with orange for more than even attention."""
    from PIL import Image

    cells, size = data[data["of"] == "image"].reset_index(drop=True), (SIDE, SIDE)
    trace, (even, full) = data["_trace"].iloc[0], _color_range(data)
    image = (trace.image or Image.new("RGB", size, "gray")).resize(size).convert("RGB")
    gray, orange = (
        image.convert("L").point(lambda value: DIM * value).convert("RGB"),
        Image.new("RGB", size, ORANGE),
    )
    shares = cells["share"].to_numpy().reshape(-1, trace.side, trace.side)
    tints = (255 * STRENGTH * np.clip((shares - even) / (full - even), 0, 1)).astype(np.uint8)
    masks = [Image.fromarray(tint).resize(size, Image.Resampling.NEAREST) for tint in tints]
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
    height = figure.layout.height + TITLE + rows
    # the first token attends to itself alone, so that its 100 % would dim all other cells
    top, maximum = rows / height, grid.loc[grid["place"] > 1, "share"].max()
    title = {
        "text": "<b>Attention of each token<br>to those before it</b>",
        "align": "left",
        "font_size": 13,
        "xanchor": "left",
    }
    figure.add_annotation(x=0, xref="paper", y=top, yref="paper", yanchor="bottom", showarrow=False, **title)
    # the colour bar uses the empty upper triangle
    bar = {"x": 1, "xanchor": "right", "y": top, "yanchor": "top", "len": top / 2}
    axis: dict[str, Any] = {**shares.layout.xaxis.to_plotly_json(), "type": "category"}
    figure.add_traces(shares.data[0].update(xaxis="x2", yaxis="y2")).update_layout(
        coloraxis=shares.layout.coloraxis
    )
    return figure.update_layout(
        height=height,
        coloraxis={"cmax": maximum, "colorbar": bar},
        xaxis2={**axis, "anchor": "y2", "tickangle": -90},
        yaxis2={**axis, "anchor": "x2", "autorange": "reversed", "domain": [0, top]},
        yaxis_domain=[(TITLE + rows) / height, 1],
    )


MAPS = ["variant", "label", "seed", "data", "row", "map", "least", "mean", "largest", "where", "synthetic"]
COARSEST = 5  # C5 is the last stage of a ResNet
DARK, MIDDLE, LIGHT = "#00204C", "#7C7B78", "#FFE945"  # cividis, which color-blind readers see alike
MAPS_IN_A_ROW = 3


@PARTS.add("feature_maps")
class FeatureMaps(FigurePart, OfVariants):
    """Feature maps of a multiscale vision encoder for one test image.

    Each map is the mean over channels. There is a map for each pyramid level, enlarged to the size of the
    finest level, and one for their fusion F. The figure shows the first variant whose runs saved the maps.

    Args:
        name: The name of the part and of its files.
        example: Which of the first test images to show, from 0; a run saves 6.
    """

    name: str = "features"
    example: int = Field(default=0, ge=0, le=5)
    default_title = "Feature maps of the vision encoder"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per map with its least, mean and largest value, and the position of the largest.

        The column `where` has the row and the column of the position, counted from 1.
        """
        trace, notes = first_trace(records, self.where, self.example, "features")
        data = pd.DataFrame(columns=MAPS)
        if trace is not None and trace.features is not None:
            # the last map is the fusion F; the pyramid levels before it end at P5
            levels = [f"P{level}" for level in range(COARSEST + 2 - len(trace.features), COARSEST + 1)]
            peaks = [np.unravel_index(values.argmax(), values.shape) for values in trace.features]
            statistics = {
                "map": [*levels, "F"],
                "least": trace.features.min((1, 2)),
                "mean": trace.features.mean((1, 2)),
                "largest": trace.features.max((1, 2)),
                "where": [f"row {row + 1}, column {column + 1}" for row, column in peaks],
            }
            data = _with_trace(pd.DataFrame(statistics), trace, MAPS)
            if trace.image is None:
                notes.append(f"{trace.columns['label']}: the image of test row {trace.row} was not saved")
        data.attrs["notes"] = notes
        return data

    def caption(self, data: pd.DataFrame) -> str:
        trace, coarsest = data["_trace"].iloc[0], data["map"].iloc[-2]
        height, width = trace.features.shape[1:]
        return (
            f"{trace.title}. Each map is the mean over channels at {height}x{width} positions, from its least"
            f" value (dark) to its largest (light). {coarsest} is the coarsest level. F is the fusion of all"
            " levels, which the decoder reads."
        )

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw the image, then each map."""
        from PIL import Image, ImageOps

        size, trace = (SIDE, SIDE), data["_trace"].iloc[0]
        images = [(trace.image or Image.new("RGB", size, "gray")).resize(size).convert("RGB")]
        for values in trace.features:
            # a constant map has no range to divide by
            shares = (values - values.min()) / max(np.ptp(values), np.finfo(float).tiny)
            gray = Image.fromarray((255 * shares).astype(np.uint8)).resize(size, Image.Resampling.NEAREST)
            images.append(ImageOps.colorize(gray, DARK, LIGHT, MIDDLE))
        rows = data.to_dict("records")
        hover = [
            f"{row['map']}: mean {row['mean']:.3g}, largest {row['largest']:.3g} at {row['where']}"
            for row in rows
        ]
        words = ["<i>the image</i>", *data["map"]]
        return tile_figure([Tiles(self.heading, images, words, ["the image", *hover], MAPS_IN_A_ROW)])


PATH = [
    "variant",
    "label",
    "seed",
    "data",
    "row",
    "place",
    "token",
    "layer",
    "expert",
    "probability",
    "choice",
    "synthetic",
]
LETTERS = 14  # characters of a token, and in a line of a variant's name
ROW_HEIGHT, COLUMN_WIDTH, LABEL_WIDTH = 18, 16, 170  # pixels of a token's row, of an expert, of the labels


@PARTS.add("expert_path")
class ExpertPath(FigurePart, OfVariants):
    """The experts that process each token of one generated caption, by layer.

    The figure shows the first variant that has experts.

    Args:
        name: The name of the part and of its files.
        example: Which of the first test images to show, from 0; a run keeps 6.
    """

    name: str = "experts"
    example: int = Field(default=0, ge=0, le=5)
    default_title = "Experts of each token of a generated caption"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per token, layer and expert with the router's `probability`.

        `choice` is the rank of the expert if it processed the token, and missing if it did not. Places,
        layers, experts and choices count from 1.
        """
        trace, notes = first_trace(records, self.where, self.example, "router")
        data = pd.DataFrame(columns=PATH)
        if trace is not None and trace.router is not None and trace.chosen is not None:
            layer, place, expert = 1 + np.indices(trace.router.shape).reshape(3, -1)
            # the rank of each chosen expert, from 1; 0 for all others
            choice = np.zeros(trace.router.shape, int)
            np.put_along_axis(choice, trace.chosen, 1 + np.arange(trace.chosen.shape[-1]), -1)
            route = {
                "place": place,
                "token": np.array(trace.words)[place - 1],
                "layer": layer,
                "expert": expert,
            }
            route |= {"probability": trace.router.ravel(), "choice": choice.ravel()}
            data = _with_trace(pd.DataFrame(route).astype({"choice": "Int64"}), trace, PATH)
            data["choice"] = data["choice"].where(data["choice"] > 0)
            data.attrs["words"] = " ".join(trace.words)
        data.attrs["notes"] = notes
        return data

    def caption(self, data: pd.DataFrame) -> str:
        count = data["choice"].max()
        numbers = f"1 {'and' if count == 2 else 'to'} {count}"
        marks = f"{numbers} mark the experts that processed the token, in the order of their probability"
        if count == 1:
            marks = "1 marks the expert that processed the token"
        title = data["_trace"].iloc[0].title
        return f"{title}. Each row is a token of the caption that the model generated; {marks}."

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
    "variant",
    "label",
    "seed",
    "layer",
    "expert",
    "tokens",
    "share",
    "even",
    "entropy",
    "dropped",
    "synthetic",
]
MAX_VARIANTS = 6  # more variants do not fit on a page
MAX_PRINTED_EXPERTS = 12  # with more experts, the shares do not fit into their cells
LAYER_HEIGHT = 44  # pixels


@PARTS.add("expert_load")
class ExpertLoad(FigurePart, OfVariants):
    """The share of the test set's tokens that each expert of a mixture processes, by layer.

    There is a panel for each variant, with one of its seeds.
    """

    name: str = "load"
    default_title = "Share of the test tokens per expert"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per layer and expert, for the first finished seed of the best variants with experts.

        `tokens` counts the tokens that the expert processed. `share`, and `even` for an even load, are in
        percent of the layer's tokens. `entropy` is the mean router entropy of the layer in nats, and
        `dropped` counts its dropped choices. Layers and experts count from 1.
        """
        variants = records.chosen(self.where)
        # reversed, so that the first finished seed of a variant overwrites the others
        runs = {
            run.variant: run
            for run in reversed(records.rows)
            if run.done and "expert_load_peak" in run.measured
        }
        routed = [index for index in variants if index in runs]
        without_experts = [records.variants[index].label for index in variants if index not in runs]
        notes = [*cut_note(records, len(routed), MAX_VARIANTS)]
        if without_experts:
            notes.append(
                "without an expert load, because they have one expert or no finished run:"
                f" {join_labels(without_experts)}"
            )
        # the empty frame keeps the columns if no run can be read
        loads = [pd.DataFrame(columns=LOAD)]
        for run in (runs[index] for index in shown_variants(records, MAX_VARIANTS, routed)):
            try:
                loads.append(_read_load(run).assign(**run_columns(records, run))[LOAD])
            except ValueError as error:
                path = records.results.run(run.id).result
                notes.append(f"{run.label}: {describe_damage(path, error)}")
        data = pd.concat(loads[-len(runs) :], ignore_index=True)
        data.attrs["notes"] = notes
        return data

    def caption(self, data: pd.DataFrame) -> str:
        # entropy and dropped choices belong to the layer and are the same in the rows of its experts
        layers = data.drop_duplicates(["variant", "layer"])
        dropped = layers["dropped"].sum()
        dropped_words = f"{dropped:,} choices were dropped" if dropped else "no token was dropped"
        experts = sorted(data.groupby("variant")["expert"].max().unique())
        counts = ", ".join(f"{math.log(count):.2f} of {count}" for count in experts)
        return (
            "Percent of the tokens of a layer; a token counts once for each expert that processes it. The"
            f" model reads the reference captions, PAD does not count, and {dropped_words}. Each layer has"
            f" its mean router entropy in nats; without any preference it would be {counts} experts. Experts"
            " of different seeds or layers share only their number."
        )

    def finding(self, data: pd.DataFrame) -> str:
        top = data.sort_values("share").iloc[-1]
        return f"at most {top['share']:.3g} % of a layer's tokens; an even load is {top['even']:.3g} %"

    def draw(self, data: pd.DataFrame) -> go.Figure:
        variants = [
            folded(f"{label}, seed {seed}", LETTERS) for label, seed in data[["label", "seed"]].to_numpy()
        ]
        layers = "layer " + data["layer"].astype(str) + data["entropy"].map(":<br>{:.2f} nats".format)
        figure = share_map(data["expert"], [variants, layers], data["share"], "% of tokens")
        if data["expert"].max() <= MAX_PRINTED_EXPERTS:
            figure.update_traces(texttemplate="%{z:.1f}")
        height = 140 + LAYER_HEIGHT * len(data.drop_duplicates(["variant", "layer"]))
        return figure.update_xaxes(title="expert", type="category").update_layout(height=height)


def _read_load(run: Row) -> pd.DataFrame:
    """Read a row per layer and expert from the run's routing.

    Raises:
        ValueError: A layer has no tokens.
    """
    routing = record_of(Routing, run.result_or_empty.routing)
    if not all(map(sum, routing.load)):
        raise ValueError("routing: a layer without tokens")
    layers = pd.DataFrame({"tokens": routing.load, "entropy": routing.entropy, "dropped": routing.dropped})
    data = (
        layers.assign(layer=layers.index + 1)
        .explode("tokens", ignore_index=True)
        .astype({"tokens": int, "dropped": int})
    )
    experts = data.groupby("layer")["tokens"]
    share = 100 * data["tokens"] / experts.transform("sum")
    return data.assign(expert=experts.cumcount() + 1, share=share, even=100 / experts.transform("size"))
