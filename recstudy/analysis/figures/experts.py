"""Experts of a captioner (003, Figure 8): which of them each token of one caption goes to, and how even their load is."""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.caveats import some, warnings
from recstudy.analysis.examples import damaged
from recstudy.analysis.figures.layout import Drawn, Panel, axes_at, head, numbered, shade, stack
from recstudy.analysis.figures.learning import cut_note, labelled, shown_variants
from recstudy.analysis.figures.theme import CELL, SCREEN, Size, letters, short, shown
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.analysis.traces import Inside, first_inside
from recstudy.errors import StorageError
from recstudy.records import Json
from recstudy.records.reading import record_of
from recstudy.records.schema import Routing
from recstudy.report import ExpertLoad, ExpertPath

ROUTES = ["variant", "label", "seed", "data", "row", "place", "token", "layer", "expert", "probability", "choice", "synthetic"]
LINE = 40  # tokens side by side on a screen, and as wide ones in print; a longer caption goes on below
EXPERT, LEAST, HIGH = 17, 70, 340  # points: of an expert's row, and the least and the most of a panel
TICKS = 92  # points below a line's last layer, for its tokens
LOADS = ["variant", "label", "seed", "layer", "expert", "tokens", "share", "even", "entropy", "dropped", "synthetic"]
MOST = 6  # variants: more do not fit on a page
FITS = 20  # experts whose numbers fit into their cells


@dataclass(frozen=True)
class Route:
    """One row of `frame` a token, layer and expert: its `probability`, and as which `choice` the token went there, if it did.

    Places, layers, experts and choices count from 1. `named` says which run and image, `said` the caption.
    """

    frame: pd.DataFrame
    named: str
    said: str
    notes: tuple[str, ...]


def path(records: StudyRecords, spec: ExpertPath) -> Drawn:
    data = path_data(records, spec)
    return Drawn(partial(path_figure, data), data.frame, spec.heading, data.notes, path_caption(data), words=data.said)


def path_data(records: StudyRecords, spec: ExpertPath) -> Route:
    """Of the first variant that has kept its experts."""
    found, notes = first_inside(records, spec.where, spec.example, experts=True)
    if found is None:
        return Route(pd.DataFrame(columns=ROUTES), "", "", notes)
    frame = pd.DataFrame(_choices(found)).assign(**found.columns)[ROUTES].astype({"choice": "Int64"})
    return Route(frame, found.named, " ".join(found.trace.words), notes)


def _choices(found: Inside) -> list[Json]:
    router, chosen = found.trace.router, found.trace.chosen
    assert router is not None
    assert chosen is not None
    rows = []
    for (layer, place, expert), probability in np.ndenumerate(router):
        choice = np.flatnonzero(chosen[layer, place] == expert)
        known = {"place": place + 1, "token": found.trace.words[place], "layer": layer + 1, "expert": expert + 1}
        rows.append(known | {"probability": probability, "choice": int(choice[0]) + 1 if len(choice) else None})
    return rows


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
    said = [_routed(row) for row in part.sort_values(["expert", "place"]).to_dict("records")]
    start, wide = places
    figure.add_heatmap(
        x=list(grid["probability"].columns),
        y=list(grid.index),
        z=(100 * grid["probability"].astype(float)).values.tolist(),
        text=[["" if pd.isna(choice) else str(int(choice)) for choice in row] for row in grid["choice"].values],
        texttemplate="%{text}",
        textfont={"size": 10},
        hovertext=[said[first : first + len(tokens)] for first in range(0, len(said), len(tokens))],
        hoverinfo="text",
        coloraxis="coloraxis",
        xgap=1,
        ygap=1,
        **axes_at(at),
    )
    below = {"tickvals": list(range(start, start + len(tokens))), "ticktext": tokens, "showticklabels": named}
    upright = {"title": {"text": f"layer {part['layer'].iloc[0]}", "standoff": 6, "font": {"size": 13}}, "autorange": "reversed"}
    figure.update_layout(
        {
            f"xaxis{numbered(at)}": {"tickmode": "array", "range": [start - 0.5, start + wide - 0.5], **below},
            f"yaxis{numbered(at)}": {"dtick": 1 if len(grid) * EXPERT <= HIGH else None, **upright},
        }
    )


def _routed(row: dict[Hashable, Any]) -> str:
    went = f", choice {row['choice']}" if pd.notna(row["choice"]) else ""
    place = f"token {row['place']}, {row['token']!r}"
    return shown(f"{place}, layer {row['layer']}, expert {row['expert']}: {100 * row['probability']:.1f} %{went}")


# -------------------------------------------------------------------------------------------------- the load of experts


@dataclass(frozen=True)
class Loads:
    """One row of `frame` an expert: `tokens` it ran on, its `share` and the `even` one in percent of the layer's; of
    the layer the mean router `entropy` in nats and the choices `dropped`. Layers and experts count from 1."""

    frame: pd.DataFrame
    notes: tuple[str, ...]


def loads(records: StudyRecords, spec: ExpertLoad) -> Drawn:
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
            shown(f"{row['label']}, layer {row['layer']}, expert {row['expert']}: {row['tokens']:,} tokens, {row['share']:.2f} % "
                  f"(even: {row['even']:.3g} %)") for row in part.to_dict("records")
        ]  # fmt: skip
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
            **axes_at(at),
        )
        names = [f"layer {layer}: {entropies[layer]:.2f} nats" for layer in shares.index]
        layers = {"tickmode": "array", "tickvals": list(shares.index), "ticktext": names, "autorange": "reversed"}
        figure.update_layout({f"yaxis{numbered(at)}": layers, f"xaxis{numbered(at)}": {"dtick": 1 if fits else None}})
        more = head(figure, at, f"{part['label'].iloc[0]}, seed {part['seed'].iloc[0]}", size)
        panels.append(Panel(max(60, 34 * part["layer"].nunique()), 34 + more, 40 if at < len(parts) - 1 else 0))
    figure.update_xaxes(title={"text": "expert", "standoff": 2}, showgrid=False, ticks="").update_yaxes(showgrid=False, ticks="")
    if not parts:
        return figure
    even = sorted({float(value) for value in data.frame["even"]})
    figure.update_layout(coloraxis=shade(max(float(data.frame["share"].max()), even[-1]), "% of tokens", even))
    return stack(figure, panels, size)
