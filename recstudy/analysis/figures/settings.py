"""Every trial's settings and what they reached: as lines through all fields, and the score against each field.

Parallel coordinates are drawn as plain lines: Plotly's own have no hover text and no line width, and of two in one figure the
second stays empty.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.caveats import warnings
from recstudy.analysis.figures.layout import Drawn, axes_at, beside, facets, small_multiples
from recstudy.analysis.figures.theme import (
    CELL,
    GRID,
    SCREEN,
    SMALL,
    SPECTRUM,
    STEPS,
    SYMBOLS,
    Size,
    blend,
    folded,
    log_ticks,
    scatter,
    shown,
    y_range,
)
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.search import TRIAL, score_text, search_of, trial_table
from recstudy.records import Json
from recstudy.records.plans import FAMILY, ranges_of, short_names
from recstudy.records.study_schema import Range, SearchRecord
from recstudy.report import ParallelCoordinates, Slices
from recstudy.report.names import metric, plain, same

MOST = 200  # lines that do not yet cover each other
LETTERS = 14  # in a line of an axis's name
BESIDE = 80, 70  # pixels beside the first and the last axis, as layout.dress leaves them
FEW = 12  # trials, of which none stands between two
WHOLE = 10  # whole numbers that can each have a tick


def draw_parallel_coordinates(records: StudyRecords, spec: ParallelCoordinates) -> Drawn:
    search, data = search_of(records, spec.name), settings_data(records, spec)
    cut = f" Drawn are the {MOST} best." if len(data) > MOST else ""
    finished = f"{len(data)} of {len(search.trials)} trials have finished."
    caption = f"One line per finished trial, to what it reached; orange is better. {finished}{cut}"
    figure = partial(parallel_figure, data, search)
    return Drawn(figure, data, spec.heading, warnings(records), caption, finding=_best(data, search))


def draw_slices(records: StudyRecords, spec: Slices) -> Drawn:
    search, data = search_of(records, spec.name), settings_data(records, spec)
    figure, caption = partial(slices_figure, data, search), slices_caption(data, search)
    return Drawn(figure, data, spec.heading, warnings(records), caption, finding=_best(data, search))


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


def _best(data: pd.DataFrame, search: SearchRecord) -> str:
    if data.empty:
        return ""
    name, direction = next(iter(search.objectives.items()))
    best = data.sort_values(name, ascending=direction == "max", kind="stable").iloc[-1]
    words = short_names(path for ranges in search.space.values() for path in ranges)
    chosen = [f"{words[path].replace('_', ' ')} {plain(best[path])}" for path in words if best[path] is not None]
    return f"best {score_text(name, best[name])} at {', '.join(chosen)}"


def slices_caption(data: pd.DataFrame, search: SearchRecord) -> str:
    """What stands upwards, and what the colours and the symbols are."""
    goal, families = metric(next(iter(search.objectives))).heading, list(search.space)
    count = f"{len(data)} of {len(search.trials)} trials have finished."
    symbols = f" Symbols: {', '.join(f'{family} {_symbol(search, family)}' for family in families)}." if families[1:] else ""
    return f"Upwards: {goal}. One point per finished trial: early ones blue, late ones orange. {count}{symbols}"


def _symbol(search: SearchRecord, family: str) -> str:
    """Empty is the family of a search that has only one."""
    families = list(search.space)
    return SYMBOLS[families.index(family) % len(SYMBOLS) if family in families else 0]


@dataclass(frozen=True)
class FieldScale:
    """Where a field's values stand: `ticks` is position -> words, `ends` the lowest and highest position."""

    ends: tuple[float, float]
    ticks: dict[float, str]
    log: bool = False
    choices: tuple[Any, ...] = ()

    def at(self, value: Any) -> float:
        """The position of a value: its rank among the choices, its logarithm, or itself."""
        if self.choices:
            return float(next(at for at, other in enumerate(self.choices) if same(value, other)))
        return math.log10(value) if self.log else float(value)

    def height(self, value: Any) -> float:
        """How far up a value stands, from 0 to 1."""
        return (self.at(value) - self.ends[0]) / (self.ends[1] - self.ends[0])

    @property
    def axis(self) -> Json:
        """For a Plotly axis with a little space at both ends."""
        space = 0.5 if self.choices else 0.06 * (self.ends[1] - self.ends[0])
        ticks = {"tickmode": "array", "tickvals": list(self.ticks), "ticktext": list(self.ticks.values())}
        return {"range": [self.ends[0] - space, self.ends[1] + space], **ticks}


def scale(ranges: Iterable[Range], values: Iterable[Any]) -> FieldScale:
    """The axis of a field that families search in these `ranges`, and whose trials have these `values`."""
    stated, seen = list(ranges), list(values)
    if any(one.choices for one in stated):
        known: list[Any] = []
        for value in [*(value for one in stated for value in one.choices), *seen]:
            if not any(same(value, other) for other in known):
                known.append(value)
        ends = (0.0, float(len(known) - 1)) if len(known) > 1 else (-0.5, 0.5)
        return FieldScale(ends, {float(at): shown(plain(value)) for at, value in enumerate(known)}, choices=tuple(known))
    low, high = min([*seen, *(one.low for one in stated)]), max([*seen, *(one.high for one in stated)])
    if low == high:
        return FieldScale((low - 1, low + 1), {float(low): plain(low)})
    if low > 0 and all(one.log for one in stated):
        ticks = {math.log10(tick): f"{tick:g}" for tick in log_ticks(low, high)}
        return FieldScale((math.log10(low), math.log10(high)), ticks, log=True)
    whole = all(isinstance(value, int) for value in (low, high, *seen))
    return FieldScale((low, high), {float(tick): f"{tick:g}" for tick in _ticks(low, high, whole)})


def _ticks(low: float, high: float, whole: bool) -> list[float]:
    """Every whole number where there are few, else round steps of which three to seven fit."""
    if whole and high - low < WHOLE:
        return [float(value) for value in range(int(low), int(high) + 1)]
    rough = (high - low) / 5
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(step * decade for step in (*STEPS, 10) if step * decade >= rough)
    return [round(step * count, 12) for count in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def parallel_figure(data: pd.DataFrame, search: SearchRecord, size: Size = SCREEN) -> go.Figure:
    """A panel a family. Better lines are orange and lie above the others."""
    name, direction = next(iter(search.objectives.items()))
    kept = data.sort_values(name, ascending=direction == "max", kind="stable").tail(MOST)  # the best is drawn last
    families = [family for family in search.space if (kept["family"] == family).any()] or [""]
    low, high = (float(kept[name].min()), float(kept[name].max())) if len(kept) else (0.0, 1.0)
    goal = scale([Range(low=low, high=high)], [])
    figure = facets(len(families), 0.25)
    above = [0]
    for panel, family in enumerate(families, 1):
        trials = kept[kept["family"] == family]
        ranges = search.space[family or next(iter(search.space))]
        axes = {path: scale([stated], trials[path]) for path, stated in ranges.items()} | {name: goal}
        for row in trials.to_dict("records"):
            share, told = goal.height(row[name]), f"trial {row['trial']}: {score_text(name, row[name])}"
            heights = [axis.height(row[path]) for path, axis in axes.items()]
            hover = [told if path == name else f"{told}, {path} = {plain(row[path])}" for path in axes]
            line = {"color": blend(share if direction == "max" else 1 - share), "width": 1.8}
            trace = scatter(range(len(axes)), heights, hover, mode="lines+markers", line=line, marker={"size": 5})
            figure.add_scatter(**trace, cliponaxis=False, row=panel, col=1)
        above.append(_name_axes(figure, axes, name, panel, size))
        figure.update_yaxes(title=shown(family), row=panel, col=1)
    figure.update_yaxes(range=[-0.03, 1.03], showticklabels=False, showgrid=False, ticks="", showline=False)
    figure.update_xaxes(showline=False, ticks="")
    most, height = max(map(len, search.space.values())) + 1, max(above) + 8 if size.printed else 50
    return figure.update_layout(meta={"panels": len(families), "axes": most, "above": height})


def _name_axes(figure: go.Figure, axes: dict[str, FieldScale], name: str, panel: int, size: Size) -> int:
    """Each axis's name above it and its ticks to its left, those of the last one to its right; the height of the names."""
    words = short_names(path for path in axes if path != name)
    titles = [words[path].replace("_", " ") if path != name else metric(name).heading for path in axes]
    heads, angle, height = [folded(shown(title), LETTERS) for title in titles], 0, 0
    if size.printed:
        room = min(2 * BESIDE[1], (size.width - sum(BESIDE)) / max(1, len(axes) - 1))
        heads, angle, height = beside(list(map(shown, titles)), room)
    ticks = {"tickmode": "array", "tickvals": list(range(len(axes))), "ticktext": heads, "tickangle": angle}
    look = {"tickfont": {"size": 12}, "side": "top", "range": [-0.01, len(axes) - 0.99]}
    figure.update_xaxes(**ticks, **look, showgrid=True, gridcolor=GRID, gridwidth=2, row=panel, col=1)
    for at, (path, axis) in enumerate(axes.items()):
        low, high = axis.ends
        side = {"xanchor": "left", "xshift": 6} if path == name else {"xanchor": "right", "xshift": -4}
        for position, text in axis.ticks.items():
            figure.add_annotation(
                text=text, showarrow=False, font={"size": 11}, bgcolor="rgba(255,255,255,0.75)", **side,
                x=at, y=(position - low) / (high - low), row=panel, col=1,
            )  # fmt: skip
    return height


def slices_figure(data: pd.DataFrame, search: SearchRecord, size: Size = SCREEN) -> go.Figure:
    """Coloured by trial number, so that a reader sees where the sampler went; a symbol for each family."""
    name, ranges = next(iter(search.objectives)), ranges_of(search.space)
    words = short_names(ranges)
    figure = small_multiples(go.Figure(), [words[path].replace("_", " ") for path in ranges], size)
    for at, (path, stated) in enumerate(ranges.items()):
        trials = data[data[path].notna()]
        axis = scale(stated, trials[path])
        figure.update_layout({axes_at(at)["xaxis"].replace("x", "xaxis"): axis.axis})
        for family, points in trials.groupby(FAMILY, sort=False):
            hover = [
                f"trial {row['trial']}: {score_text(name, row[name])} at {plain(row[path])}, {row['label']}"
                for row in points.to_dict("records")
            ]
            marker = {"symbol": _symbol(search, str(family)), "size": 8, "color": points["trial"].tolist()}
            trace = scatter(map(axis.at, points[path]), points[name], hover, marker={**marker, "coloraxis": "coloraxis"})
            figure.add_scatter(**trace, **axes_at(at), mode="markers")
    figure.update_yaxes(range=y_range(data[name]))
    bar = {"orientation": "h", "thickness": 10, "yref": "container", "y": 0, "yanchor": "bottom", "title": "trial"}
    bar |= {"tickformat": "d", **({"dtick": 1} if data["trial"].nunique() <= FEW else {})}
    figure.update_layout(coloraxis={"colorscale": list(SPECTRUM), "colorbar": bar})
    if size.printed:
        top_left = {"x": 0, "y": 1, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
        upwards = f"Upwards: {shown(metric(name).heading)}"
        figure.add_annotation(text=upwards, font={"size": SMALL}, showarrow=False, **top_left)
        figure.update_xaxes(tickfont={"size": CELL}).update_yaxes(tickfont={"size": CELL})
    return figure
