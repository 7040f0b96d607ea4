"""What a captioner does inside: where it looks as it writes (003, Figure 7), and which experts its tokens go to (Figure 8).

The image stands once for each word, tinted where the model looked, over a grid of words by words. Experts are shown along one
caption, token by token, and by the load that the whole test set gives them.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.caveats import some, warnings
from recstudy.analysis.figures.images import image_grid, picture_uri, side_of
from recstudy.analysis.figures.layout import Drawn, Panel, axes_at, head, joined, shade, stack
from recstudy.analysis.figures.learning import cut_note, labelled, shown_variants
from recstudy.analysis.figures.theme import CELL, SCREEN, Size, heat, letters, short
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.kept import Pixels, damaged
from recstudy.analysis.rows import Row
from recstudy.analysis.traces import Numbers, first_inside
from recstudy.errors import ConfigError, StorageError
from recstudy.records import Json
from recstudy.records.reading import record_of
from recstudy.records.schema import Routing
from recstudy.report import AttentionMaps, ExpertLoad, ExpertPath

ATTENDED = ["variant", "label", "seed", "data", "row", "layer", "head", "place", "word", "of", "at", "seen", "share", "synthetic"]
GAP, SPACE = 1 / 16, 1 / 4  # beside a tile, and under it for its word, as shares of it
FEW, WIDE, NARROW = 36, 6, 8  # up to so many tiles there are 6 in a row, else 8
TILE = 76  # pixels of a tile in print, and of its word
TOKEN, LOW = {False: 17, True: 13}, 220  # pixels: of a token's row in the grid, by whether it is printed; the least of the grid
ORANGE = (230, 159, 0)  # light enough for the image under it
STRENGTH, DIM = 0.85, 0.75  # of the tint where most is attended to, and of the gray, so that orange shows on white
ROUTES = ["variant", "label", "seed", "data", "row", "place", "token", "layer", "expert", "probability", "choice", "synthetic"]
LINE = 40  # tokens side by side on a screen, and as wide ones in print; a longer caption goes on below
EXPERT, LEAST, HIGH = 17, 70, 340  # points: of an expert's row, and the least and the most of a panel
TICKS = 92  # points below a line's last layer, for its tokens
LOADS = ["variant", "label", "seed", "layer", "expert", "tokens", "share", "even", "entropy", "dropped", "synthetic"]
MOST = 6  # variants: more do not fit on a page
FITS = 20  # experts whose numbers fit into their cells


@dataclass(frozen=True)
class CaptionAttention:
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


def draw_attention_maps(records: StudyRecords, spec: AttentionMaps) -> Drawn:
    data = attention_data(records, spec)
    words, caption = " ".join(data.words), attention_caption(data)
    return Drawn(partial(attention_figure, data), data.frame, spec.heading, data.notes, caption, words=words)


def attention_data(records: StudyRecords, spec: AttentionMaps) -> CaptionAttention:
    """Of the first variant that has kept attention maps.

    Raises:
        ConfigError: it has no such layer or head.
    """
    found, notes = first_inside(records, spec.where, spec.example, experts=False)
    if found is None:
        return CaptionAttention(pd.DataFrame(columns=ATTENDED), np.empty((0, 0)), None, [], None, "", notes)

    def chosen(part: Numbers) -> Numbers:
        """(L, H, T, S) -> (T, S) of one layer and head, or the mean."""
        for at, (name, asked) in enumerate({"layer": spec.layer, "head": spec.head}.items()):
            if asked is not None and asked > part.shape[at]:
                raise ConfigError(f"attention {spec.name!r}: {name} must be at most {part.shape[at]}, but got {asked}")
        layers = part if spec.layer is None else part[[spec.layer - 1]]
        return np.asarray((layers if spec.head is None else layers[:, [spec.head - 1]]).mean((0, 1)))

    trace, cross = found.trace, chosen(found.trace.cross)
    own, side = None if trace.own is None else chosen(trace.own), math.isqrt(cross.shape[1])

    def row(token: int, word: str, of: str, at: int, seen: str, share: float) -> Json:
        return {"place": token + 1, "word": word, "of": of, "at": at + 1, "seen": seen, "share": 100 * share}

    rows = [
        row(token, trace.words[token + 1], "image", at, f"row {at // side + 1}, column {at % side + 1}", share)
        for (token, at), share in np.ndenumerate(cross)
    ]
    rows += [
        row(token, trace.words[token], "caption", at, trace.words[at], share)
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
    frame = pd.DataFrame(rows).assign(**of, **found.columns)[ATTENDED]
    return CaptionAttention(frame, cross, own, trace.words, found.image, named, (*notes, *none))


def attention_caption(data: CaptionAttention) -> str:
    """How to read the tiles and the grid."""
    if data.frame.empty:
        return ""
    tiles = (
        f"Over each word: where the model looked as it wrote it, {data.side}x{data.side} places; orange where it is more than "
        f"even attention, which is {100 * data.even:.3g} %, and full at {100 * data.full:.3g} %."
    )
    grid = " Below: how much each token (row) attends to itself and to the tokens before it (columns)."
    return f"{data.named}. {tiles}{grid if data.own is not None else ''}"


def attention_figure(data: CaptionAttention, size: Size = SCREEN) -> go.Figure:
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


def _tiles(figure: go.Figure, data: CaptionAttention, size: Size) -> float:
    """The image as it is, then once for each word; the height in points."""
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
    """Tokens by tokens, those that come later left empty; the height in points."""
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


@dataclass(frozen=True)
class Route:
    """One row of `frame` a token, layer and expert: its `probability`, and as which `choice` the token went there, if it did.

    Places, layers, experts and choices count from 1. `named` says which run and image, `said` the caption.
    """

    frame: pd.DataFrame
    named: str
    said: str
    notes: tuple[str, ...]


def draw_expert_path(records: StudyRecords, spec: ExpertPath) -> Drawn:
    data = path_data(records, spec)
    return Drawn(partial(path_figure, data), data.frame, spec.heading, data.notes, path_caption(data), words=data.said)


def path_data(records: StudyRecords, spec: ExpertPath) -> Route:
    """Of the first variant that has kept its experts."""
    found, notes = first_inside(records, spec.where, spec.example, experts=True)
    if found is None:
        return Route(pd.DataFrame(columns=ROUTES), "", "", notes)
    trace, rows = found.trace, list[Json]()
    assert trace.router is not None
    assert trace.chosen is not None
    for (layer, place, expert), probability in np.ndenumerate(trace.router):
        choice = np.flatnonzero(trace.chosen[layer, place] == expert)
        known = {"place": place + 1, "token": trace.words[place], "layer": layer + 1, "expert": expert + 1}
        rows.append(known | {"probability": probability, "choice": int(choice[0]) + 1 if len(choice) else None})
    frame = pd.DataFrame(rows).assign(**found.columns)[ROUTES].astype({"choice": "Int64"})
    return Route(frame, found.named, " ".join(trace.words), notes)


def path_caption(data: Route) -> str:
    if data.frame.empty:
        return ""
    count = int(data.frame["choice"].max())
    numbers = f"1 {'and' if count == 2 else 'to'} {count}"
    chosen = "1 marks the expert that ran on it" if count == 1 else f"{numbers} mark the experts that ran on it, by preference"
    return f"{data.named}. A column is a token that the model reads of its own caption; {chosen}."


def path_figure(data: Route, size: Size = SCREEN) -> go.Figure:
    """Lines of tokens, in each a panel a layer."""
    figure, frame = go.Figure(), data.frame
    panels: list[Panel] = []
    across, last_foot = LINE * size.inner // SCREEN.inner, 30 if size.printed else 24
    length = 0 if frame.empty else int(frame["place"].max())
    layers, height = range(1, 1 + frame["layer"].nunique()), min(HIGH, max(LEAST, EXPERT * frame["expert"].nunique()))
    for start in range(1, length + 1, across):
        line = frame[frame["place"].between(start, start + across - 1)]
        for layer in layers:
            last = layer == layers[-1]
            _layer(figure, len(panels), line[line["layer"] == layer], (start, min(across, length)), named=last)
            panels.append(Panel(height, 0, 14 if not last else TICKS if start + across <= length else last_foot))
    figure.update_xaxes(showgrid=False, ticks="", tickangle=-90, tickfont={"size": 11})
    figure.update_yaxes(showgrid=False, ticks="", tickfont={"size": 11})
    if not panels:
        return figure
    most, even = 100 * float(frame["probability"].max()), 100 / frame["expert"].nunique()
    figure.update_layout(coloraxis=shade(max(most, even), "probability, %", [even]))
    return stack(figure, panels, size)


def _layer(figure: go.Figure, at: int, part: pd.DataFrame, places: tuple[int, int], named: bool) -> None:
    """One layer of one line of tokens, experts from the top down; the tokens stand below if they are to be `named`."""
    grid = part.pivot(index="expert", columns="place", values=["probability", "choice"])
    tokens = part.drop_duplicates("place")["token"].map(short).tolist()
    said = [
        f"token {row['place']}, {row['token']!r}, layer {row['layer']}, expert {row['expert']}: {100 * row['probability']:.1f} %"
        + (f", choice {row['choice']}" if pd.notna(row["choice"]) else "")
        for row in part.sort_values(["expert", "place"]).to_dict("records")
    ]
    start, wide = places
    z, choices = (100 * grid["probability"].astype(float)).values.tolist(), grid["choice"].values
    words = [["" if pd.isna(choice) else str(int(choice)) for choice in row] for row in choices]
    text = {"text": words, "texttemplate": "%{text}", "textfont": {"size": 10}}
    cells = heat(grid["probability"].columns, grid.index, z, said, gap=1, coloraxis="coloraxis", **text)
    figure.add_heatmap(**cells, **axes_at(at))
    below = {"tickvals": list(range(start, start + len(tokens))), "ticktext": tokens, "showticklabels": named}
    upright = {"title": {"text": f"layer {part['layer'].iloc[0]}", "standoff": 6, "font": {"size": 13}}, "autorange": "reversed"}
    across = {"tickmode": "array", "range": [start - 0.5, start + wide - 0.5], **below}
    joined(figure, at, across, {"dtick": 1 if len(grid) * EXPERT <= HIGH else None, **upright})


@dataclass(frozen=True)
class Loads:
    """One row of `frame` an expert: `tokens` it ran on, its `share` and the `even` one in percent of the layer's; of
    the layer the mean router `entropy` in nats and the choices `dropped`. Layers and experts count from 1."""

    frame: pd.DataFrame
    notes: tuple[str, ...]


def draw_expert_load(records: StudyRecords, spec: ExpertLoad) -> Drawn:
    data = loads_data(records, spec)
    top = data.frame.sort_values("share").tail(1).to_dict("records")
    finding = f"at most {top[0]['share']:.3g} % of a layer's tokens, {top[0]['even']:.3g} % if even" if top else ""
    return Drawn(partial(loads_figure, data), data.frame, spec.heading, data.notes, loads_caption(data), finding=finding)


def loads_data(records: StudyRecords, spec: ExpertLoad, most: int = MOST) -> Loads:
    """Of the first finished seed of each of the `most` best variants that have experts."""
    chosen, found = records.chosen(spec.where), dict[int, Row]()
    for index in chosen:
        runs = (run for run in records.by_variant[index] if run.done and "expert_load_peak" in run.measured)
        if run := next(runs, None):
            found[index] = run
    lacking = [records.variants[index].label for index in chosen if index not in found]
    notes = [*warnings(records), *cut_note(records, len(found), most)]
    notes += [f"without an expert load, because they have one expert or no finished run: {some(lacking)}"] if lacking else []
    rows: list[Json] = []
    for index in shown_variants(records, most, found):
        try:
            rows += [{"variant": index, "seed": found[index].seed, **row} for row in _shares(records, found[index])]
        except StorageError as damage:
            notes.append(f"{records.variants[index].label}: {damage}")
    frame = labelled(records, pd.DataFrame(rows))[LOADS] if rows else pd.DataFrame(columns=LOADS)
    return Loads(frame, tuple(notes))


def _shares(records: StudyRecords, run: Row) -> list[Json]:
    """The rows of one run's result (StorageError)."""
    try:
        routing = record_of(Routing, run.found.routing)
        return [
            {"layer": at, "expert": expert, "tokens": int(tokens), "share": 100 * tokens / sum(load), "even": 100 / len(load),
             "entropy": float(entropy), "dropped": int(dropped)}
            for at, (load, entropy, dropped) in enumerate(zip(routing.load, routing.entropy, routing.dropped, strict=True), 1)
            for expert, tokens in enumerate(load, 1)
        ]  # fmt: skip
    except (ValueError, ZeroDivisionError) as error:
        raise damaged(records.results.run(run.id).result, f"routing: {type(error).__name__}: {error}") from None


def loads_caption(data: Loads) -> str:
    """How to read the panels, and whether a token was dropped."""
    if data.frame.empty:
        return ""
    first = data.frame.drop_duplicates(["variant", "layer"])
    dropped = int(first["dropped"].sum())
    lost = f"{dropped:,} choices were dropped" if dropped else "no token was dropped"
    none = ", ".join(f"{math.log(count):.2f} of {count}" for count in sorted({round(100 / even) for even in first["even"]}))
    return (
        "Percent of the tokens that a layer's experts ran on, each as often as it has experts; true captions are read, no PAD; "
        f"{lost}. Beside each layer: the router's mean entropy in nats; no preference would be {none} experts. "
        "Experts of two seeds or layers have nothing in common but their number."
    )


def loads_figure(data: Loads, size: Size = SCREEN) -> go.Figure:
    """A panel a variant, on one scale: layers from the top down, experts from left to right."""
    figure, panels = go.Figure(), []
    parts = [part for _, part in data.frame.groupby("variant", sort=False)]
    for at, part in enumerate(parts):
        shares = part.pivot(index="layer", columns="expert", values="share")
        entropies = part.drop_duplicates("layer").set_index("layer")["entropy"]
        said = [
            f"{row['label']}, layer {row['layer']}, expert {row['expert']}: {row['tokens']:,} tokens, {row['share']:.2f} % "
            f"(even: {row['even']:.3g} %)"
            for row in part.to_dict("records")
        ]
        experts = len(shares.columns)
        fits = letters(size.inner / experts, CELL) >= len("12.5") if size.printed else experts <= FITS
        words = [[f"{share:.1f}" for share in row] for row in shares.values]
        text = {"text": words, "texttemplate": "%{text}" if fits else None, "coloraxis": "coloraxis"}
        cells = heat(shares.columns, shares.index, shares.values.tolist(), said, gap=2, **text)
        cells |= {"textfont": {"size": CELL}} if size.printed else {}
        figure.add_heatmap(**cells, **axes_at(at))
        names = [f"layer {layer}: {entropies[layer]:.2f} nats" for layer in shares.index]
        layers = {"tickmode": "array", "tickvals": list(shares.index), "ticktext": names, "autorange": "reversed"}
        joined(figure, at, {"dtick": 1 if fits else None}, layers)
        more = head(figure, at, f"{part['label'].iloc[0]}, seed {part['seed'].iloc[0]}", size)
        panels.append(Panel(max(60, 34 * part["layer"].nunique()), 34 + more, 40 if at < len(parts) - 1 else 0))
    figure.update_xaxes(title={"text": "expert", "standoff": 2}, showgrid=False, ticks="").update_yaxes(showgrid=False, ticks="")
    if not parts:
        return figure
    even = sorted({float(value) for value in data.frame["even"]})
    figure.update_layout(coloraxis=shade(max(float(data.frame["share"].max()), even[-1]), "% of tokens", even))
    return stack(figure, panels, size)
