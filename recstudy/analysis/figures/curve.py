"""A metric against a swept field, drawn from its points: lines, seeds, intervals and published values."""

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.figures import panels
from recstudy.analysis.figures.axes import is_number, powers_of_two, y_range
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.drops import HOW
from recstudy.analysis.figures.ends import MOST, End, name_ends
from recstudy.analysis.figures.points import curve_data, curve_notes, lines
from recstudy.analysis.figures.theme import SCREEN, Size, band, dress, shown, style, tint
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.headlines import of_curve
from recstudy.report import Curve
from recstudy.report.names import axis_title, metric, plain, registered

TITLES = {"eval.depth": "supervision steps at test", "eval.part": "level or class of the images"}
MOST_TICKS = 24  # labelled levels of an axis; where there are more, Plotly chooses
MOST_PANELS = 30  # small multiples that a reader still looks at
BAND = 3  # seeds from which on an interval is drawn: that of two says more of its own spread than of the mean
DOTS = "Small dots: the seeds. Shaded: 95 % intervals, from three seeds on"
HOLLOW = "Hollow: published, with its margin"


def drawn(records: StudyRecords, spec: Curve) -> Drawn:
    data = curve_data(records, spec)
    notes = curve_notes(records, spec, data)
    figure = partial(curve_figure, data, spec, notes, order=lines(records, spec))
    return Drawn(figure, data, spec.heading, notes, curve_caption(data, spec), finding=of_curve(data, spec))


def curve_figure(
    data: pd.DataFrame, spec: Curve, notes: Sequence[str] = (), size: Size = SCREEN, order: Sequence[str] = ()
) -> go.Figure:
    """Lines with interval bands and a dot a seed; published points as open markers with their margins.

    `notes` are said under the title, `order` gives the looks.
    """
    figure = go.Figure()
    names = list(dict.fromkeys(data["line"]))
    looks = {name: at for at, name in enumerate(dict.fromkeys([*order, *names]))}
    apart = among_panels(names)
    for panel, name in enumerate(names, 1):
        ours = data[(data["line"] == name) & ~data["published"].astype(bool) & data["value"].notna()]
        published, since = data[(data["line"] == name) & data["published"].astype(bool)], len(figure.data)
        if apart:
            _draw_others(figure, data, name)
        _draw_line(figure, ours, name, style(looks[name]), spec)
        _draw_published(figure, published, name, style(looks[name]))
        if apart:
            for trace in figure.data[since:]:
                trace.update(panels.axes(panel))
            figure.update_layout(panels.layout(panel))
    figure.update_layout(showlegend=spec.by is not None and not apart)  # also for one line: its name says whose it is
    dress(figure, spec.heading, notes, len(names) if apart else 1, curve_caption(data, spec), size)
    _axes(figure, data, spec)
    if apart:
        return _arranged(figure, names, size)
    name_ends(figure, _ends(data, looks), spec.log)
    return figure


def among_panels(names: Sequence[str]) -> bool:
    """Whether there are too many lines for one panel, and few enough for one each."""
    return MOST < len(names) <= MOST_PANELS


def _arranged(figure: go.Figure, names: Sequence[str], size: Size) -> go.Figure:
    """Each line's name under its panel; the caption says what stands upwards and across."""
    for panel, name in enumerate(names, 1):
        figure.update_layout(panels.layout(panel, panels.named(name)))
    figure.update_yaxes(title=None)
    figure.update_layout(meta={**figure.layout.meta, "slices": True})
    return panels.arrange(figure, size)


def _draw_others(figure: go.Figure, data: pd.DataFrame, name: str) -> None:
    """All lines but this one, as thin gray ones behind it."""
    ours = data[(data["line"] != name) & ~data["published"].astype(bool) & data["value"].notna()]
    x: list[Any] = []
    y: list[float | None] = []
    for _, own in ours.groupby("line", sort=False):
        x += [*map(_tick, own["x"]), None]
        y += [*own["value"], None]
    figure.add_scatter(
        x=x, y=y, mode="lines", showlegend=False, hoverinfo="skip", line={"color": "rgba(128,128,128,0.5)", "width": 1}
    )


def curve_caption(data: pd.DataFrame, spec: Curve) -> str:
    """What small dots, shades and hollow points are, where there are any."""
    dots, hollow = data["seeds"].str.contains(" ").any(), data["published"].astype(bool).any()
    axes = f"Upwards: {metric(spec.y).heading}; across: {_across(spec)}. Gray: the other lines"
    apart = among_panels(list(dict.fromkeys(data["line"])))
    return ". ".join([HOW] * spec.drop + [axes] * apart + [DOTS] * bool(dots) + [HOLLOW] * bool(hollow and not spec.drop))


def _draw_line(figure: go.Figure, points: pd.DataFrame, name: str, look: dict[str, str], spec: Curve) -> None:
    if spec.log:  # zero is nowhere on such an axis: an interval that reaches it ends a little below the lowest point
        points = points[points["value"] > 0]
        points = points.assign(low=points["low"].astype(float).clip(lower=points["value"].min() / 2))
    x = [_tick(value) for value in points["x"]]
    for stretch in _stretches(points):
        figure.add_scatter(**band([x[at] for at in stretch], points.iloc[stretch], tint(look["color"], 0.16)), legendgroup=name)
    _draw_seeds(figure, points, name, look)
    figure.add_scatter(
        x=x,
        y=list(points["value"]),
        mode="lines+markers",
        name=shown(name),
        legendgroup=name,
        line={"color": look["color"], "dash": look["dash"]},
        marker={"symbol": look["symbol"], "size": 9},
        hovertext=[_hover(row, spec) for row in points.to_dict("records")],
        hoverinfo="text",
    )


def _draw_published(figure: go.Figure, points: pd.DataFrame, name: str, look: dict[str, str]) -> None:
    if points.empty:
        return
    said = [
        f"published: {row['value']:g}, {row['source']}: {row['verdict']}. {row['reasons']}" for row in points.to_dict("records")
    ]
    figure.add_scatter(
        x=[_tick(value) for value in points["x"]],
        y=list(points["value"]),
        mode="markers",
        name=shown(f"{name}, published"),
        legendgroup=name,
        marker={"symbol": look["symbol"] + "-open", "size": 12, "color": look["color"], "line": {"width": 2}},
        error_y=_margin(points, look),
        hovertext=[shown(text) for text in said],
        hoverinfo="text",
    )


def _margin(points: pd.DataFrame, look: dict[str, str]) -> dict[str, Any] | None:
    """A shade as high as the margin within which ours would be reproduced; none of differences."""
    if points["low"].isna().any():
        return None
    half = (points["high"].astype(float) - points["value"].astype(float)).tolist()
    return {"array": half, "thickness": 12, "width": 0, "color": tint(look["color"], 0.25)}


def _draw_seeds(figure: go.Figure, points: pd.DataFrame, name: str, look: dict[str, str]) -> None:
    """A dot a seed, where a point has several."""
    seeds = [
        (x, float(value)) for x, own in zip(points["x"], points["seeds"], strict=True) for value in own.split() if " " in own
    ]
    if not seeds:
        return
    figure.add_scatter(
        x=[_tick(x) for x, _ in seeds],
        y=[value for _, value in seeds],
        mode="markers",
        legendgroup=name,
        showlegend=False,
        marker={"symbol": "circle", "size": 5, "color": look["color"]},
        hoverinfo="skip",
    )


def _ends(data: pd.DataFrame, looks: Mapping[str, int]) -> list[End]:
    """Where our lines end."""
    last = data[~data["published"].astype(bool) & data["value"].notna()].groupby("line", sort=False).last()
    return [End(str(name), float(value), style(looks[str(name)])["color"]) for name, value in last["value"].items()]


def _stretches(points: pd.DataFrame) -> list[list[int]]:
    """Runs of neighbouring points of enough seeds: a band does not bridge a point without an interval."""
    known = (points["low"].notna() & (points["n"].astype(float) >= BAND)).tolist()
    return [[at for at, _ in group] for has, group in groupby(enumerate(known), key=lambda pair: pair[1]) if has]


def _hover(row: dict[Hashable, Any], spec: Curve) -> str:
    interval = f", 95 % interval {row['low']:.6g} to {row['high']:.6g}" if pd.notna(row["low"]) else ""
    head = f"{row['line']}, {axis_title(spec.x)} {plain(row['x'])}: {row['value']:.6g} {metric(spec.y).unit}"
    return shown(f"{head}{interval} (n={row['n']:.0f} of {row['expected']:.0f})")


def _axes(figure: go.Figure, data: pd.DataFrame, spec: Curve) -> None:
    """Titles with units; base-2 ticks where the levels are powers of two; categories where they are no numbers."""
    heading = f"{metric(spec.y).heading}, minus the best" if spec.drop else metric(spec.y).heading
    ends = None if spec.drop else metric(spec.y).bounds
    figure.update_xaxes(title=shown(_across(spec)))
    figure.update_yaxes(title=shown(heading), **({"type": "log"} if spec.log else {"range": y_range(data, ends)}))
    levels = sorted({value for value in data["x"] if is_number(value)})
    if len(levels) < data["x"].nunique() or not levels:
        figure.update_xaxes(type="category")
    elif not registered(spec.x):
        if powers_of_two(levels):
            figure.update_xaxes(type="log")
        if len(levels) <= MOST_TICKS:
            figure.update_xaxes(tickmode="array", tickvals=levels, ticktext=[f"{level:g}" for level in levels])


def _across(spec: Curve) -> str:
    return metric(spec.x).heading if registered(spec.x) else TITLES.get(spec.x) or axis_title(spec.x)


def _tick(value: Any) -> Any:
    return value if is_number(value) else shown(plain(value))
