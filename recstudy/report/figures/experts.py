"""Which experts a captioner's tokens go to (003, Figure 8): along one caption, and by the load of the whole test set."""

import math
from functools import partial

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from recstudy.errors import StorageError
from recstudy.records import Json
from recstudy.records.reading import record_of
from recstudy.records.schema import Routing
from recstudy.report.caveats import some, warnings
from recstudy.report.figure_fields import ExpertLoad, ExpertPath
from recstudy.report.figures.layout import Drawn, Panel, axes_at, head, joined, shade, stack
from recstudy.report.figures.theme import CELL, SCREEN, Size, heat, letters, short
from recstudy.report.kept import damaged
from recstudy.report.rows import Row
from recstudy.report.study_records import StudyRecords
from recstudy.report.traces import first_trace
from recstudy.report.variants import add_labels, cut_note, shown_variants

ROUTES = ["variant", "label", "seed", "data", "row", "place", "token", "layer", "expert", "probability", "choice", "synthetic"]
LINE = 40  # tokens side by side on a screen, and as wide ones in print; a longer caption goes on below
EXPERT, LEAST, HIGH = 17, 70, 340  # points: of an expert's row, and the least and the most of a panel
TICKS = 92  # points below a line's last layer, for its tokens
LOADS = ["variant", "label", "seed", "layer", "expert", "tokens", "share", "even", "entropy", "dropped", "synthetic"]
MOST = 6  # variants: more do not fit on a page
FITS = 20  # experts whose numbers fit into their cells


def draw_expert_path(records: StudyRecords, spec: ExpertPath) -> Drawn:
    """Draw the experts of the first variant that has kept some.

    In the data a row a token, layer and expert: its `probability`, and as which `choice` the token went there, if it did. Places,
    layers, experts and choices count from 1.
    """
    trace, notes = first_trace(records, spec.where, spec.example, experts=True)
    if trace is None:
        none = pd.DataFrame(columns=ROUTES)
        return Drawn(partial(_path_figure, none), none, spec.heading, notes)
    rows = list[Json]()
    assert trace.router is not None
    assert trace.chosen is not None
    for (layer, place, expert), probability in np.ndenumerate(trace.router):
        choice = np.flatnonzero(trace.chosen[layer, place] == expert)
        known = {"place": place + 1, "token": trace.words[place], "layer": layer + 1, "expert": expert + 1}
        rows.append(known | {"probability": probability, "choice": int(choice[0]) + 1 if len(choice) else None})
    data = pd.DataFrame(rows).assign(**trace.columns)[ROUTES].astype({"choice": "Int64"})
    count = int(data["choice"].max())
    numbers = f"1 {'and' if count == 2 else 'to'} {count}"
    chosen = "1 marks the expert that ran on it" if count == 1 else f"{numbers} mark the experts that ran on it, by preference"
    caption = f"{trace.title}. A column is a token that the model reads of its own caption; {chosen}."
    return Drawn(partial(_path_figure, data), data, spec.heading, notes, caption, words=" ".join(trace.words))


def _path_figure(frame: pd.DataFrame, size: Size = SCREEN) -> go.Figure:
    """Draw lines of tokens, in each a panel a layer."""
    figure = go.Figure()
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
    """Draw one layer of one line of tokens, experts from the top down; the tokens stand below if they are to be `named`."""
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


def draw_expert_load(records: StudyRecords, spec: ExpertLoad) -> Drawn:
    """Draw the loads of the first finished seed of each of the best variants that have experts.

    In the data a row an expert: `tokens` it ran on, its `share` and the `even` one in percent of the layer's; of the layer the
    mean router `entropy` in nats and the choices `dropped`. Layers and experts count from 1.
    """
    chosen, found = records.chosen(spec.where), dict[int, Row]()
    for index in chosen:
        runs = (run for run in records.by_variant[index] if run.done and "expert_load_peak" in run.measured)
        if run := next(runs, None):
            found[index] = run
    lacking = [records.variants[index].label for index in chosen if index not in found]
    notes = [*warnings(records), *cut_note(records, len(found), MOST)]
    notes += [f"without an expert load, because they have one expert or no finished run: {some(lacking)}"] if lacking else []
    rows: list[Json] = []
    for index in shown_variants(records, MOST, found):
        try:
            rows += [{"variant": index, "seed": found[index].seed, **row} for row in _shares(records, found[index])]
        except StorageError as damage:
            notes.append(f"{records.variants[index].label}: {damage}")
    if not rows:
        none = pd.DataFrame(columns=LOADS)
        return Drawn(partial(_loads_figure, none), none, spec.heading, notes)
    data = add_labels(records, pd.DataFrame(rows))[LOADS]
    top, first = data.loc[data.sort_values("share").index[-1]], data.drop_duplicates(["variant", "layer"])
    dropped = int(first["dropped"].sum())
    lost = f"{dropped:,} choices were dropped" if dropped else "no token was dropped"
    counts = ", ".join(f"{math.log(count):.2f} of {count}" for count in sorted({round(100 / even) for even in first["even"]}))
    caption = (
        "Percent of the tokens that a layer's experts ran on, each as often as it has experts; true captions are read, no PAD; "
        f"{lost}. Beside each layer: the router's mean entropy in nats; no preference would be {counts} experts. "
        "Experts of two seeds or layers have nothing in common but their number."
    )
    finding = f"at most {top['share']:.3g} % of a layer's tokens, {top['even']:.3g} % if even"
    return Drawn(partial(_loads_figure, data), data, spec.heading, notes, caption, finding=finding)


def _shares(records: StudyRecords, run: Row) -> list[Json]:
    """Return the rows of one run's result (StorageError)."""
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


def _loads_figure(frame: pd.DataFrame, size: Size = SCREEN) -> go.Figure:
    """Draw a panel a variant, on one scale: layers from the top down, experts from left to right."""
    figure, panels = go.Figure(), []
    parts = [part for _, part in frame.groupby("variant", sort=False)]
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
    even = sorted({float(value) for value in frame["even"]})
    figure.update_layout(coloraxis=shade(max(float(frame["share"].max()), even[-1]), "% of tokens", even))
    return stack(figure, panels, size)
