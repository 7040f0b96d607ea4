"""A metric against a swept field: the data of the curve, then its drawing.

The published points stand in the same data, marked as such, so that the CSV beside a figure says all that it shows.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.caveats import leaky_notes, warnings
from recstudy.analysis.cells import Cell, cell
from recstudy.analysis.figures import panels
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.drops import HOW, from_best
from recstudy.analysis.figures.ends import MOST, End, name_ends
from recstudy.analysis.figures.theme import SCREEN, Size, band, dress, shown, style, tint
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.headlines import of_curve
from recstudy.analysis.rows import Row
from recstudy.analysis.stats import mean_interval
from recstudy.analysis.targets import Placed, place
from recstudy.report import Curve
from recstudy.report.names import at_depth, axis_title, metric, plain, plural, registered

# What tells points of the same run apart: the steps at test, or the class or level of the images.
WITHIN = {"eval.depth": "supervision steps at test", "eval.part": "level or class of the images"}
MOST_TICKS = 24  # labelled levels of an axis; where there are more, Plotly chooses
COLUMNS = ["line", "x", "value", "low", "high", "n", "expected", "published", "source", "verdict", "reasons", "run_ids"]
COLUMNS += ["synthetic", "seeds"]
MOST_PANELS = 30  # small multiples that a reader still looks at
BAND = 3  # seeds from which on an interval is drawn: that of two says more of its own spread than of the mean
DOTS = "Small dots: the seeds. Shaded: 95 % intervals, from three seeds on"
HOLLOW = "Hollow: published, with its margin"
Points = dict[tuple[Any, Any, str], list[int]]  # line, x and what is measured there -> variants


def drawn(records: StudyRecords, spec: Curve) -> Drawn:
    data = curve_data(records, spec)
    notes = curve_notes(records, spec, data)
    figure = partial(curve_figure, data, spec, notes, order=lines(records, spec))
    return Drawn(figure, data, spec.heading, notes, curve_caption(data, spec), finding=of_curve(data, spec))


def curve_data(records: StudyRecords, spec: Curve) -> pd.DataFrame:
    """One row a point: ours (`published` is False; mean, 95 % interval and n) and the published ones (True).

    `x` may name an axis, a config field or a cost such as `gflops` (then each variant stands at its own mean cost).
    With `eval.depth`, every variant gives a point for each depth that its runs were scored at; with `eval.part`, for each
    class or level of images that its metric is of.
    Variants at the same line and x are pooled; those that leak are left out. Points without a finished run have no value,
    but keep their row.

    Raises:
        ConfigError: `x`, `by` or `where` name what the study does not have.
    """
    return points_data(records, spec, curve_points(records, spec))


def curve_points(records: StudyRecords, spec: Curve) -> Points:
    """Which variants stand at each point."""
    points: Points = {}
    for index in (index for index in records.chosen(spec.where) if not records.leaks(index)):
        line = None if spec.by is None else records.level(index, spec.by)
        for x, measured in _xs(records, index, spec):
            points.setdefault((line, x, measured), []).append(index)
    return points


def lines(records: StudyRecords, spec: Curve) -> list[str]:
    """The lines of the whole study in its order, whichever of them this curve has: each looks the same in all figures."""
    if spec.by is None:
        return []
    return list(dict.fromkeys(_line(records.level(index, spec.by), spec) for index in range(len(records.variants))))


def points_data(records: StudyRecords, spec: Curve, points: Points) -> pd.DataFrame:
    """A row a point, line by line; of a point's variants those are pooled whose metric is shown there."""
    placement = place(records, spec.targets, sorted({index for pooled in points.values() for index in pooled}), [spec.y])
    rows: list[dict[str, Any]] = []
    for (line, x, measured), pooled in points.items():
        name = _line(line, spec)
        ours = cell(records, pooled, measured, placement)
        rows += [{"line": name, "x": x, **point} for point in (_ours(ours), *_published(ours))]
    order = {name: rank for rank, name in enumerate(dict.fromkeys(row["line"] for row in rows))}
    rows.sort(key=lambda row: (order[row["line"]], row["published"], _rank(row["x"])))
    data = pd.DataFrame(rows, columns=COLUMNS)
    return from_best(records, data, spec) if spec.drop else data


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
            panels.place(figure, since, panel)
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
        panels.name(figure, panel, name)
    figure.update_xaxes(automargin=False).update_yaxes(automargin=False, title=None)
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


def curve_notes(records: StudyRecords, spec: Curve, data: pd.DataFrame) -> tuple[str, ...]:
    """What a reader must know before the curve: smoke, synthetic data, pooled variants, points missing or not comparable."""
    together = {len(variants) for variants in curve_points(records, spec).values()} - {1}
    points = int((~data["published"].astype(bool)).sum())
    missing = int((~data["published"].astype(bool) & data["value"].isna()).sum())
    many = f"points pool up to {max(together, default=0)} variants; intervals go by the spread of seeds within them"
    leaky = leaky_notes(records, records.chosen(spec.where), shown=False)
    gaps = [f"{missing} of {points} points not run yet"] if missing else []
    verdicts = data.loc[data["published"].astype(bool), "verdict"].tolist()
    apart = verdicts.count("not comparable")
    apart_note = f"{apart} of {plural(len(verdicts), 'published point')} not comparable"
    return (*warnings(records), *leaky, *([many] if together else []), *gaps, *([apart_note] if apart else []))


def _ours(ours: Cell) -> dict[str, Any]:
    known = {"value": ours.value, "low": ours.low, "high": ours.high, "n": ours.n, "expected": ours.expected}
    said = {"verdict": ours.verdict, "reasons": ours.reasons, "run_ids": " ".join(ours.run_ids), "synthetic": ours.synthetic}
    return {**known, "published": False, **said, "seeds": " ".join(map(repr, ours.values))}


def _published(ours: Cell) -> list[dict[str, Any]]:
    """A row each published value, whatever number of places in the papers, or of pooled variants, it is given for."""
    placed: dict[float, list[Placed]] = {}
    for target in ours.placed:
        placed.setdefault(target.value, []).append(target)
    return [
        {
            "value": value,
            "low": value - max(target.margin for target in same),
            "high": value + max(target.margin for target in same),
            "published": True,
            "source": _each(target.target.source for target in same),
            "verdict": _each(target.verdict(ours.values, ours.spread, ours.lost) for target in same),
            "reasons": _each(reason for target in same for reason in [*target.reasons, target.assumed] if reason),
            "synthetic": False,
            "seeds": "",
        }
        for value, same in placed.items()
    ]


def _each(words: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(words))


def _line(level: Any, spec: Curve) -> str:
    """What the line of this level is called."""
    if spec.by is None:
        return metric(spec.y).title
    return level if isinstance(level, str) else f"{axis_title(spec.by)} {plain(level)}"


def _xs(records: StudyRecords, index: int, spec: Curve) -> list[tuple[Any, str]]:
    """Where a variant stands on the x-axis, and which metric is measured there; within a run, where one that has not finished
    would stand, too."""
    if spec.x in WITHIN:
        within = _depths if spec.x == "eval.depth" else _parts
        return within(records.by_variant[index], spec.y) or within(records.rows, spec.y)
    return [(_x(records, index, spec.x), spec.y)]


def _depths(runs: Iterable[Row], name: str) -> list[tuple[Any, str]]:
    scored = {int(depth) for run in runs for depth in run.found.depths.get(name, ())}
    return [(depth, at_depth(name, depth)) for depth in sorted(scored)]


def _parts(runs: Iterable[Row], name: str) -> list[tuple[Any, str]]:
    parts = dict.fromkeys(one for run in runs for one in run.found.metrics if one.startswith(f"{name}."))
    return [(_part(one.removeprefix(f"{name}.")), one) for one in parts]


def _part(name: str) -> int | str:
    """A level is a number, a class a word."""
    return int(name) if name.isdecimal() else name.replace("_", " ")


def _x(records: StudyRecords, index: int, name: str) -> Any:
    if not registered(name) or name in records.variants[index].levels:
        return records.level(index, name)
    known = [run.number(name) for run in records.by_variant[index] if run.done and run.value(name) is not None]
    return mean_interval(known).mean


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
        marker={"symbol": "circle", "size": 5, "color": tint(look["color"], 0.7)},
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
    figure.update_yaxes(title=shown(heading), **({"type": "log"} if spec.log else {"range": y_range(data, ends)}))
    figure.update_xaxes(title=shown(_across(spec)))
    levels = sorted({value for value in data["x"] if _is_number(value)})
    if len(levels) < data["x"].nunique() or not levels:
        figure.update_xaxes(type="category")
    elif not registered(spec.x):
        if powers_of_two(levels):
            figure.update_xaxes(type="log")
        if len(levels) <= MOST_TICKS:
            figure.update_xaxes(tickmode="array", tickvals=levels, ticktext=[f"{level:g}" for level in levels])


def _across(spec: Curve) -> str:
    return metric(spec.x).heading if registered(spec.x) else WITHIN.get(spec.x) or axis_title(spec.x)


def powers_of_two(levels: Sequence[float]) -> bool:
    """Whether the levels ask for a log2 axis: three or more, all of them powers of two."""
    return len(levels) > 2 and all(level > 0 and float(np.log2(level)).is_integer() for level in levels)


def y_range(data: pd.DataFrame, bounds: tuple[float, float] | None = None) -> list[float] | None:
    """The axis follows the points and their seeds: a band of two (t = 12.7) may leave it, or it would flatten every line. Beyond
    the metric's bounds it has room for a marker alone."""
    seeds = [float(value) for own in data.get("seeds", ()) for value in own.split()]
    values = [*data["value"].dropna().astype(float), *seeds]
    if not values:
        return None
    low, high = min(values), max(values)
    room = max(high - low, 0.02 * abs(high)) or 10.0
    bands = data[["low", "high"]].astype(float)
    below, above = (max(0.0, float(np.nan_to_num(edge))) for edge in (low - bands["low"].min(), bands["high"].max() - high))
    ends = (low - min(below, room) - 0.1 * room, high + min(above, room) + 0.1 * room)
    least, most = bounds or (-np.inf, np.inf)
    inner = max(ends[0], least), min(ends[1], most)
    marker = 0.04 * (inner[1] - inner[0])
    return [max(ends[0], least - marker), min(ends[1], most + marker)]


def _tick(value: Any) -> Any:
    return value if _is_number(value) else shown(plain(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _rank(value: Any) -> tuple[int, float]:
    """Numbers in their order, then words in the study's."""
    return (0, float(value)) if _is_number(value) else (1, 0.0)
