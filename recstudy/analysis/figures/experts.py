"""Which experts the tokens of one generated caption go to (003, Figure 8a and 8c): a panel a layer, a column a token."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.heat import Panel, numbered, shade, short, stack
from recstudy.analysis.figures.theme import SCREEN, Size, dress, shown
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.traces import Inside, first_inside
from recstudy.records import Json
from recstudy.report import ExpertPath

LINE = 40  # tokens side by side on a screen, and as wide ones in print; a longer caption goes on below
EXPERT, LOW, HIGH = 17, 70, 340  # points: of an expert's row, and the least and the most of a panel
GAP, TICKS, LAST = 14, 92, 24  # points below a layer, below a line's last, for its tokens, and below the last of all
PRINTED = 30  # the last in print, where margins are smaller
COLUMNS = ["variant", "label", "seed", "data", "row", "place", "token", "layer", "expert", "probability", "choice", "synthetic"]


@dataclass(frozen=True)
class Route:
    """One row of `frame` a token, layer and expert: its `probability`, and as which `choice` the token went there, if it did.

    Places, layers, experts and choices count from 1. `named` says which run and image, `said` the caption.
    """

    frame: pd.DataFrame
    named: str
    said: str
    notes: tuple[str, ...]


def drawn(records: StudyRecords, spec: ExpertPath) -> Drawn:
    data = path_data(records, spec)
    label = f"{spec.heading}. {data.said}".strip()
    return Drawn(partial(path_figure, data, spec), data.frame, label, data.notes, path_caption(data))


def path_data(records: StudyRecords, spec: ExpertPath) -> Route:
    """Of the first variant that has kept its experts."""
    found, notes = first_inside(records, spec.where, spec.example, experts=True)
    if found is None:
        return Route(pd.DataFrame(columns=COLUMNS), "", "", notes)
    frame = pd.DataFrame(_rows(found)).assign(**found.columns)[COLUMNS].astype({"choice": "Int64"})
    return Route(frame, found.named, " ".join(found.trace.words), notes)


def path_figure(data: Route, spec: ExpertPath, size: Size = SCREEN) -> go.Figure:
    """Lines of tokens, in each a panel a layer."""
    figure, frame = go.Figure(), data.frame
    panels: list[Panel] = []
    across, last_foot = LINE * size.inner // SCREEN.inner, PRINTED if size.printed else LAST
    length = 0 if frame.empty else int(frame["place"].max())
    layers, height = range(1, 1 + frame["layer"].nunique()), min(HIGH, max(LOW, EXPERT * frame["expert"].nunique()))
    for start in range(1, length + 1, across):
        line = frame[frame["place"].between(start, start + across - 1)]
        for layer in layers:
            last = layer == layers[-1]
            _draw(figure, len(panels), line[line["layer"] == layer], (start, min(across, length)), named=last)
            panels.append(Panel(height, 0, GAP if not last else TICKS if start + across <= length else last_foot))
    dress(figure, spec.heading, data.notes, caption=path_caption(data), size=size)
    figure.update_xaxes(showgrid=False, ticks="", tickangle=-90, tickfont={"size": 11})
    figure.update_yaxes(showgrid=False, ticks="", tickfont={"size": 11})
    if not panels:
        return figure
    most, even = 100 * float(frame["probability"].max()), 100 / frame["expert"].nunique()
    figure.update_layout(coloraxis=shade(max(most, even), "probability, %", [even]))
    return stack(figure, panels, size)


def path_caption(data: Route) -> str:
    if data.frame.empty:
        return ""
    count = int(data.frame["choice"].max())
    numbers = f"1 {'and' if count == 2 else 'to'} {count}"
    chosen = "1 marks the expert that ran on it" if count == 1 else f"{numbers} mark the experts that ran on it, by preference"
    return f"{data.named}. A column is a token that the model reads of its own caption; {chosen}."


def _rows(found: Inside) -> list[Json]:
    router, chosen = found.trace.router, found.trace.chosen
    assert router is not None
    assert chosen is not None
    rows = []
    for (layer, place, expert), probability in np.ndenumerate(router):
        choice = np.flatnonzero(chosen[layer, place] == expert)
        rows.append(
            {
                "place": place + 1,
                "token": found.trace.words[place],
                "layer": layer + 1,
                "expert": expert + 1,
                "probability": probability,
                "choice": int(choice[0]) + 1 if len(choice) else None,
            }
        )
    return rows


def _draw(figure: go.Figure, at: int, part: pd.DataFrame, places: tuple[int, int], named: bool) -> None:
    """One layer of one line of tokens, experts from the top down; the tokens stand below if they are to be `named`."""
    grid = part.pivot(index="expert", columns="place", values=["probability", "choice"])
    tokens = part.drop_duplicates("place")["token"].map(short).tolist()
    said = [_hover(row) for row in part.sort_values(["expert", "place"]).to_dict("records")]
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
        xaxis=f"x{numbered(at)}",
        yaxis=f"y{numbered(at)}",
    )
    below = {"tickvals": list(range(start, start + len(tokens))), "ticktext": tokens, "showticklabels": named}
    figure.update_layout({f"xaxis{numbered(at)}": {"tickmode": "array", "range": [start - 0.5, start + wide - 0.5], **below}})
    upright = {"title": {"text": f"layer {part['layer'].iloc[0]}", "standoff": 6, "font": {"size": 13}}, "autorange": "reversed"}
    figure.update_layout({f"yaxis{numbered(at)}": {"dtick": 1 if len(grid) * EXPERT <= HIGH else None, **upright}})


def _hover(row: dict[Hashable, Any]) -> str:
    went = f", choice {row['choice']}" if pd.notna(row["choice"]) else ""
    place = f"token {row['place']}, {row['token']!r}"
    return shown(f"{place}, layer {row['layer']}, expert {row['expert']}: {100 * row['probability']:.1f} %{went}")
