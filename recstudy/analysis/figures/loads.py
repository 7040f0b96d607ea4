"""How evenly a mixture of experts shares its tokens (003, Figure 8b): each expert's share, layer by layer."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.caveats import some, warnings
from recstudy.analysis.examples import damaged
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.heat import CELL, Panel, head, numbered, shade, stack
from recstudy.analysis.figures.learning import cut_note, labelled, shown_variants
from recstudy.analysis.figures.theme import SCREEN, Size, dress, letters, shown
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.errors import StorageError
from recstudy.records import Json
from recstudy.records.reading import record_of
from recstudy.records.schema import Number, Routing
from recstudy.report import ExpertLoad

MOST = 6  # variants: more do not fit on a page
FITS = 20  # experts whose numbers fit into their cells
LAYER, HEAD, FOOT = 34, 34, 40  # points: of a layer, of a panel's label and of its ticks
COLUMNS = ["variant", "label", "seed", "layer", "expert", "tokens", "share", "even", "entropy", "dropped", "synthetic"]


@dataclass(frozen=True)
class Loads:
    """One row of `frame` an expert: `tokens` it ran on, its `share` and the `even` one in percent of the layer's; of
    the layer the mean router `entropy` in nats and the choices `dropped`. Layers and experts count from 1."""

    frame: pd.DataFrame
    notes: tuple[str, ...]


def drawn(records: StudyRecords, spec: ExpertLoad) -> Drawn:
    data = loads_data(records, spec)
    return Drawn(partial(loads_figure, data, spec), data.frame, spec.heading, data.notes, loads_caption(data))


def loads_data(records: StudyRecords, spec: ExpertLoad, most: int = MOST) -> Loads:
    """Of the first finished seed of each of the `most` best variants that have experts."""
    chosen = records.chosen(spec.where)
    found = {index: run for index in chosen if (run := _first(records, index)) is not None}
    lacking = [records.variants[index].label for index in chosen if index not in found]
    notes = [*warnings(records), *cut_note(records, len(found), most)]
    notes += [f"without an expert load, because they have one expert or no finished run: {some(lacking)}"] if lacking else []
    rows: list[Json] = []
    for index in shown_variants(records, most, found):
        try:
            rows += [{"variant": index, "seed": found[index].seed, **row} for row in _read(records, found[index])]
        except StorageError as damage:
            notes.append(f"{records.variants[index].label}: {damage}")
    frame = labelled(records, pd.DataFrame(rows))[COLUMNS] if rows else pd.DataFrame(columns=COLUMNS)
    return Loads(frame, tuple(notes))


def loads_figure(data: Loads, spec: ExpertLoad, size: Size = SCREEN) -> go.Figure:
    """A panel a variant, on one scale."""
    figure, panels = go.Figure(), []
    parts = [part for _, part in data.frame.groupby("variant", sort=False)]
    for at, part in enumerate(parts):
        _draw(figure, at, part, size)
        more = head(figure, at, f"{part['label'].iloc[0]}, seed {part['seed'].iloc[0]}", size)
        panels.append(Panel(max(60, LAYER * part["layer"].nunique()), HEAD + more, FOOT if at < len(parts) - 1 else 0))
    dress(figure, spec.heading, data.notes, caption=loads_caption(data), size=size)
    figure.update_xaxes(title={"text": "expert", "standoff": 2}, showgrid=False, ticks="")
    figure.update_yaxes(showgrid=False, ticks="")
    if not parts:
        return figure
    even = sorted({float(value) for value in data.frame["even"]})
    figure.update_layout(coloraxis=shade(max(float(data.frame["share"].max()), even[-1]), "% of tokens", even))
    return stack(figure, panels, size)


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


def _first(records: StudyRecords, index: int) -> Row | None:
    runs = (run for run in records.by_variant[index] if run.done)
    return next((run for run in runs if "expert_load_peak" in run.measured), None)


def _read(records: StudyRecords, run: Row) -> list[Json]:
    """The rows of one run's result (StorageError)."""
    try:
        routing = record_of(Routing, run.found.routing)
        layers = enumerate(zip(routing.load, routing.entropy, routing.dropped, strict=True), 1)
        return [row for at, (load, entropy, dropped) in layers for row in _layer(at, load, entropy, dropped)]
    except (ValueError, ZeroDivisionError) as error:
        raise damaged(records.results.run(run.id).result, f"routing: {type(error).__name__}: {error}") from None


def _layer(layer: int, load: Sequence[Number], entropy: float, dropped: Number) -> list[Json]:
    of_layer = {"even": 100 / len(load), "entropy": float(entropy), "dropped": int(dropped)}
    return [
        {"layer": layer, "expert": at, "tokens": int(tokens), "share": 100 * tokens / sum(load), **of_layer}
        for at, tokens in enumerate(load, 1)
    ]


def _draw(figure: go.Figure, at: int, part: pd.DataFrame, size: Size) -> None:
    """Layers from the top down, experts from left to right."""
    shares = part.pivot(index="layer", columns="expert", values="share")
    entropies = part.drop_duplicates("layer").set_index("layer")["entropy"]
    said = [_hover(row) for row in part.to_dict("records")]
    experts = len(shares.columns)
    fits = letters(size.inner / experts, CELL) >= len("12.5") if size.printed else experts <= FITS
    figure.add_heatmap(
        x=list(shares.columns),
        y=list(shares.index),
        z=shares.values.tolist(),
        text=[[f"{share:.1f}" for share in row] for row in shares.values],
        texttemplate="%{text}" if fits else None,
        textfont={"size": CELL} if size.printed else None,
        hovertext=[said[start : start + experts] for start in range(0, len(said), experts)],
        hoverinfo="text",
        coloraxis="coloraxis",
        xgap=2,
        ygap=2,
        xaxis=f"x{numbered(at)}",
        yaxis=f"y{numbered(at)}",
    )
    names = [f"layer {layer}: {entropies[layer]:.2f} nats" for layer in shares.index]
    layers = {"tickmode": "array", "tickvals": list(shares.index), "ticktext": names}
    figure.update_layout({f"yaxis{numbered(at)}": {"autorange": "reversed", **layers}})
    figure.update_layout({f"xaxis{numbered(at)}": {"dtick": 1 if fits else None}})


def _hover(row: dict[Hashable, Any]) -> str:
    named = f"{row['label']}, layer {row['layer']}, expert {row['expert']}"
    return shown(f"{named}: {row['tokens']:,} tokens, {row['share']:.2f} % (even: {row['even']:.3g} %)")
