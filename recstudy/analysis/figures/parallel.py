"""Parallel coordinates: each finished trial as a line through its settings to what it reached.

Drawn as plain lines: Plotly's own parallel coordinates have no hover text and no line width, and of two in one figure the
second stays empty.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from recstudy.analysis.caveats import warnings
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.fit import Beside, beside
from recstudy.analysis.figures.scales import Scale, scale
from recstudy.analysis.figures.theme import GRID, SCREEN, Size, blend, dress, folded, shown
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.trials import TRIAL, scored, search_of, trial_table
from recstudy.records.plans import short_names
from recstudy.records.study_schema import Range, SearchRecord
from recstudy.report import ParallelCoordinates, Slices
from recstudy.report.names import metric, plain

MOST = 200  # lines that do not yet cover each other
LETTERS = 14  # in a line of an axis's name
LEFT, RIGHT = 80, 70  # pixels beside the first and the last axis


def drawn(records: StudyRecords, spec: ParallelCoordinates) -> Drawn:
    search, data, notes = search_of(records, spec.name), settings_data(records, spec), warnings(records)
    return Drawn(partial(parallel_figure, data, spec, search, notes), data, spec.heading, notes, parallel_caption(data, search))


def settings_data(records: StudyRecords, spec: ParallelCoordinates | Slices) -> pd.DataFrame:
    """One row a finished trial: its settings by field (empty where its family has no such field), then the first objective.

    Raises:
        ConfigError: the study is no search.
    """
    search = search_of(records, spec.name)
    name = next(iter(search.objectives))
    table = trial_table(records, search).dropna(subset=[name]).reset_index(drop=True)
    params = {trial.number: trial.params for trial in search.trials}
    fields = dict.fromkeys(path for ranges in search.space.values() for path in ranges)
    settings = {path: pd.Series([params[number].get(path) for number in table["trial"]], dtype=object) for path in fields}
    return pd.concat([table[TRIAL], pd.DataFrame(settings), table[[name]]], axis=1)


def parallel_figure(
    data: pd.DataFrame, spec: ParallelCoordinates, search: SearchRecord, notes: Sequence[str] = (), size: Size = SCREEN
) -> go.Figure:
    """A panel a family. Better lines are orange and lie above the others."""
    name, direction = next(iter(search.objectives.items()))
    kept = data.sort_values(name, ascending=direction == "max", kind="stable").tail(MOST)  # the best is drawn last
    families = [family for family in search.space if (kept["family"] == family).any()] or [""]
    ends = [(float(kept[name].min()), float(kept[name].max()))] if len(kept) else [(0.0, 1.0)]
    goal = scale([Range(low=low, high=high) for low, high in ends], [])
    figure = make_subplots(rows=len(families), cols=1, vertical_spacing=0.25 / len(families))
    above = [0]
    for panel, family in enumerate(families, 1):
        trials = kept[kept["family"] == family]
        ranges = search.space[family or next(iter(search.space))]
        axes = {path: scale([stated], trials[path]) for path, stated in ranges.items()} | {name: goal}
        for row in trials.to_dict("records"):
            share = _height(goal, row[name])
            _draw(figure, row, axes, name, blend(share if direction == "max" else 1 - share), panel)
        above.append(_name_axes(figure, axes, name, panel, size))
        figure.update_yaxes(title=shown(family), row=panel, col=1)
    dress(figure, spec.heading, notes, len(families), parallel_caption(data, search), size)
    figure.update_yaxes(range=[-0.03, 1.03], showticklabels=False, showgrid=False, ticks="", showline=False)
    figure.update_xaxes(showline=False, ticks="")
    most = max(len(search.space[family]) for family in search.space) + 1
    margin = {"l": LEFT, "r": RIGHT, "t": figure.layout.margin.t + (max(above) + 8 if size.printed else 50), "b": 30}
    return figure.update_layout(meta={**figure.layout.meta, "axes": most}, margin=margin)


def parallel_caption(data: pd.DataFrame, search: SearchRecord) -> str:
    """How to read the lines, and how many trials there are."""
    cut = f" Drawn are the {MOST} best." if len(data) > MOST else ""
    return f"One line per finished trial, to its score; orange is better. {count_words(data, search)}{cut}"


def count_words(data: pd.DataFrame, search: SearchRecord) -> str:
    return f"{len(data)} of {len(search.trials)} trials have finished."


def _height(axis: Scale, value: Any) -> float:
    low, high = axis.ends
    return (axis.at(value) - low) / (high - low)


def _draw(figure: go.Figure, row: dict[Any, Any], axes: dict[str, Scale], name: str, color: str, panel: int) -> None:
    head = f"trial {row['trial']}: {scored(name, row[name])}"
    figure.add_scatter(
        x=list(range(len(axes))),
        y=[_height(axis, row[path]) for path, axis in axes.items()],
        mode="lines+markers",
        line={"color": color, "width": 1.8},
        marker={"size": 5},
        showlegend=False,
        cliponaxis=False,
        hovertext=[shown(head if path == name else f"{head}, {path} = {plain(row[path])}") for path in axes],
        hoverinfo="text",
        row=panel,
        col=1,
    )


def _name_axes(figure: go.Figure, axes: dict[str, Scale], name: str, panel: int, size: Size) -> int:
    """Each axis's name above it and its ticks to its left, those of the last one to its right; the height of the names."""
    words = short_names(path for path in axes if path != name)
    titles = [words[path].replace("_", " ") if path != name else metric(name).heading for path in axes]
    heads = Beside([folded(shown(title), LETTERS) for title in titles], 0, 0)
    if size.printed:
        heads = beside(list(map(shown, titles)), min(2 * RIGHT, (size.width - LEFT - RIGHT) / max(1, len(axes) - 1)))
    ticks = {"tickmode": "array", "tickvals": list(range(len(axes))), "ticktext": heads.words, "tickangle": heads.angle}
    look = {
        "tickfont": {"size": 12},
        "side": "top",
        "range": [-0.01, len(axes) - 0.99],
        "showgrid": True,
        "gridcolor": GRID,
        "gridwidth": 2,
    }
    figure.update_xaxes(**ticks, **look, row=panel, col=1)
    for at, (path, axis) in enumerate(axes.items()):
        low, high = axis.ends
        side = {"xanchor": "left", "xshift": 6} if path == name else {"xanchor": "right", "xshift": -4}
        for position, text in axis.ticks.items():
            place = {"x": at, "y": (position - low) / (high - low), "row": panel, "col": 1}
            figure.add_annotation(
                text=text, showarrow=False, font={"size": 11}, bgcolor="rgba(255,255,255,0.75)", **side, **place
            )
    return heads.height
