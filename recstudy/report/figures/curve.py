"""A metric against a swept field: lines, seeds, intervals and published values, and what stands behind each point.

The published points stand in the same data, marked as such, so that the CSV beside a figure says all that it shows. Each of our
points is a table's cell (`cells.cell`), also of a metric after so many supervision steps: both ask the same fit for the interval.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import log10
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from recstudy.evidence import Answer, Verdict, contrast, mean_of
from recstudy.records import Json
from recstudy.report import Curve
from recstudy.report.caveats import leaky_notes, warnings
from recstudy.report.cells import Cell, cell
from recstudy.report.figures.layout import Drawn, along
from recstudy.report.figures.learning import comparable
from recstudy.report.figures.theme import (
    Size,
    band,
    brief,
    is_number,
    marked,
    powers_of_two,
    scatter,
    shown,
    style,
    tint,
    y_range,
)
from recstudy.report.fits import Fits, fits_of
from recstudy.report.names import at_depth, axis_title, metric, number, plain, plural, registered
from recstudy.report.rows import Row
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import Placed, place

WITHIN = {"eval.depth": "supervision steps at test", "eval.part": "level or class of the images"}  # tell points of one run apart
COLUMNS = ["line", "x", "value", "low", "high", "n", "expected", "published", "source", "verdict", "reasons", "run_ids"]
COLUMNS += ["synthetic", "seeds"]
MOST_TICKS = 24  # labelled levels of an axis; where there are more, Plotly chooses
BAND = 3  # seeds from which on an interval is drawn: that of two says more of its own spread than of the mean
DOTS = "Small dots: the seeds. Shaded: 95 % intervals, from three seeds on"
HOLLOW = "Hollow: published, with its margin"
DROP = (
    "Each point minus the best one of its line, with its 95 % interval; of published points, of two numbers. The best is "
    "chosen from the same runs, so drops are a little too large"
)
Points = dict[tuple[Any, Any, str], list[int]]  # line, x and what is measured there -> variants


def draw_curve(records: StudyRecords, spec: Curve) -> Drawn:
    """Draw a metric over an axis, a config field or a cost such as `gflops` (then each variant stands at its own mean cost).

    With `eval.depth`, every variant gives a point for each depth that its runs were scored at; with `eval.part`, for each
    class or level of images that its metric is of. Variants at the same line and x are pooled; those that leak are left out.

    Raises:
        ConfigError: `x`, `by` or `where` name what the study does not have.
    """
    points = Points()
    for index in comparable(records, spec.where):
        level = None if spec.by is None else records.level(index, spec.by)
        for x, measured in places(records, index, spec):
            points.setdefault((level, x, measured), []).append(index)
    levels = [records.level(index, spec.by) for index in range(len(records.variants)) if spec.by is not None]
    return draw_points(records, spec, points, [line_name(level, spec) for level in levels])


def draw_points(
    records: StudyRecords,
    spec: Curve,
    points: Points,
    order: Sequence[str] = (),
    axis: Callable[[pd.DataFrame], Json] | None = None,
) -> Drawn:
    """Draw what is measured at these points, a row each: ours (`published` is False; mean, 95 % interval, n) and the published.

    Points without a finished run have no value, but keep their row. `order` gives the looks of lines, `axis` what is else said of
    the x-axis.
    """
    data = _points_data(records, spec, points)
    ours, published = _split(data)
    at = {run.id: run.variant for run in records.rows}
    many = max((len({at[run] for run in runs.split()}) for runs in ours["run_ids"].fillna("")), default=0)
    missing, apart = int(ours["value"].isna().sum()), published["verdict"].tolist().count(Verdict.NOT_COMPARABLE)
    notes = [
        f"points pool up to {many} variants; intervals go by the spread of seeds within them" if many > 1 else "",
        f"{missing} of {len(ours)} points not run yet" if missing else "",
        f"{apart} of {plural(len(published), 'published point')} not comparable" if apart else "",
    ]
    leaky = leaky_notes(records, records.chosen(spec.where), shown=False)
    _, alike = brief(list(dict.fromkeys(map(str, data["line"]))))
    said = {
        DROP: spec.drop,
        f"All lines: {alike}": bool(alike),
        DOTS: bool(ours["seeds"].str.contains(" ").any()),
        HOLLOW: len(published) > 0 and not spec.drop,
    }
    caption = ". ".join(words for words, needed in said.items() if needed)

    def figure(size: Size) -> go.Figure:
        return _figure(data, spec, size, order).update_xaxes(axis(data) if axis else {})

    told = (*warnings(records), *leaky, *filter(None, notes))
    return Drawn(figure, data, spec.heading, told, caption, finding=_finding(data, spec))


def _finding(data: pd.DataFrame, spec: Curve) -> str:
    """Return `1.0 % at 1, 93.9 % at 16`: the ends of the line that gets best, where their intervals are apart."""
    ours = data[~data["published"].astype(bool) & data["value"].notna() & data["low"].notna()]
    if spec.drop or metric(spec.y).better is None or ours.empty or not ours["x"].map(lambda x: isinstance(x, int | float)).all():
        return ""
    points = ours.to_dict("records")
    line = max(points, key=lambda point: metric(spec.y).sign * point["value"])["line"]
    own = [point for point in points if point["line"] == line]
    first, last = own[0], own[-1]
    if first["high"] >= last["low"] and last["high"] >= first["low"]:
        return ""
    unit = f" {metric(spec.y).unit}".rstrip()
    ends = ", ".join(f"{number(spec.y, end['value'])}{unit} at {plain(end['x'])}" for end in (first, last))
    return ends + (f" ({line})" if ours["line"].nunique() > 1 else "")


def _split(data: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return ours and the published ones."""
    published = data["published"].astype(bool)
    return data[~published], data[published]


def line_name(level: Any, spec: Curve) -> str:
    """Name the line of this level."""
    if spec.by is None:
        return metric(spec.y).title
    return level if isinstance(level, str) else f"{axis_title(spec.by)} {plain(level)}"


def places(records: StudyRecords, index: int, spec: Curve) -> list[tuple[Any, str]]:
    """Return where a variant stands on the x-axis, and which metric is measured there; within a run, where one that has not
    finished would stand, too."""
    runs = records.by_variant[index]
    if spec.x in WITHIN:
        return _within(runs, spec) or _within(records.rows, spec)
    if not registered(spec.x) or spec.x in records.variants[index].levels:
        return [(records.level(index, spec.x), spec.y)]
    costs = [run.number(spec.x) for run in runs if run.done and run.value(spec.x) is not None]
    return [(mean_of(costs) if costs else None, spec.y)]


def _within(runs: Iterable[Row], spec: Curve) -> list[tuple[Any, str]]:
    """Find the depths that runs were scored at, or their parts: a level is a number, a class a word."""
    if spec.x == "eval.depth":
        scored = {int(depth) for run in runs for depth in run.found.depths.get(spec.y, ())}
        return [(depth, at_depth(spec.y, depth)) for depth in sorted(scored)]
    whole = dict.fromkeys(one for run in runs for one in run.found.metrics if one.startswith(f"{spec.y}."))
    named = [(one.removeprefix(f"{spec.y}."), one) for one in whole]
    return [(int(part) if part.isdecimal() else part.replace("_", " "), one) for part, one in named]


def _points_data(records: StudyRecords, spec: Curve, points: Points) -> pd.DataFrame:
    """Return a row a point, line by line; of a point's variants those are pooled whose metric is shown there."""
    placement = place(records, spec.targets, sorted({index for pooled in points.values() for index in pooled}), [spec.y])
    rows: list[dict[str, Any]] = []
    for (line, x, measured), pooled in points.items():
        ours = cell(records, pooled, measured, placement)
        told = {name: getattr(ours, name) for name in ("value", "low", "high", "n", "expected", "synthetic")}
        told |= {"verdict": ", ".join(ours.verdicts), "reasons": "; ".join(ours.reasons)}
        told |= {"published": False, "run_ids": " ".join(ours.run_ids), "seeds": " ".join(map(repr, ours.values))}
        rows += [{"line": line_name(line, spec), "x": x, **point} for point in (told, *_published(ours))]
    order = {name: rank for rank, name in enumerate(dict.fromkeys(row["line"] for row in rows))}

    def rank(row: Any) -> tuple[int, bool, bool, float]:
        """Return numbers in their order, then words in the study's."""
        return order[row["line"]], row["published"], not is_number(row["x"]), float(row["x"]) if is_number(row["x"]) else 0.0

    data = pd.DataFrame(sorted(rows, key=rank), columns=COLUMNS)
    if not spec.drop:
        return data
    runs, fits = {row.id: row for row in records.rows}, fits_of(records, spec.y)
    parts = [_from_best(part, runs, fits, spec) for _, part in data.groupby(["line", "published"], sort=False)]
    return pd.concat(parts).sort_index() if parts else data.assign(best=None)


def _published(ours: Cell) -> list[dict[str, Any]]:
    """Return a row each published value, whatever number of places in the papers, or of pooled variants, it is given for."""
    placed: dict[float, list[tuple[Placed, Answer[str]]]] = {}
    for target, answer in ours.answers:
        placed.setdefault(target.value, []).append((target, answer))

    def each(words: Iterable[str]) -> str:
        return "; ".join(dict.fromkeys(words))

    rows = []
    for value, same in placed.items():
        margin = max(target.margin for target, _ in same)
        reasons = each(reason for target, _ in same for reason in [*target.reasons, target.assumed] if reason)
        told = {"source": each(target.target.cited for target, _ in same), "verdict": each(answer.verdict for _, answer in same)}
        numbers = {"value": value, "low": value - margin, "high": value + margin}
        rows.append({**numbers, **told, "reasons": reasons, "published": True, "synthetic": False, "seeds": ""})
    return rows


def _from_best(part: pd.DataFrame, runs: Mapping[str, Row], fits: Fits, spec: Curve) -> pd.DataFrame:
    """Return a line's rows as differences to its best point: what robustness to a batch size means in numbers.

    `best` is where that point stands; it has a difference of 0 and no interval.
    """
    values = part["value"].astype(float)
    if values.isna().all():
        return part.assign(best=None)
    best = part.iloc[int((np.nanargmin if metric(spec.y).better == "lower" else np.nanargmax)(values))]
    told = part.assign(best=best["x"], seeds="")  # of a difference no seed has a part
    if best["published"]:
        return told.assign(value=values - float(best["value"]), low=None, high=None)

    def side(row: Any) -> dict[int, list[float]]:
        """Return the values of each variant that the point pools."""
        found: dict[int, list[float]] = {}
        for run in (runs[name] for name in str(row["run_ids"]).split()):
            found.setdefault(run.variant, []).append(run.number(spec.y))
        return found

    for at in part.index[values.notna()]:
        sides = [(1, side(told.loc[at])), (-1, side(best))]
        terms = [
            (sign * len(own) / sum(map(len, by.values())), fit.weighted(key))
            for sign, by in sides
            for variant, own in by.items()
            for fit, key in [fits[variant]]
        ]
        found = contrast(terms)
        bounds = (None, None) if at == best.name else (found.low, found.high)
        told.loc[at, ["value", "low", "high"]] = [found.value, *bounds]
    return told


def _figure(data: pd.DataFrame, spec: Curve, size: Size, order: Sequence[str]) -> go.Figure:
    """Draw lines with interval bands and a dot a seed; published points as open markers with their margins.

    Each line is named by what the others do not have too; `order` gives the looks.
    """
    figure = go.Figure(layout={"showlegend": spec.by is not None})  # also for one line: its name says whose it is
    names = list(dict.fromkeys(data["line"]))
    looks = {name: style(at) for at, name in enumerate(dict.fromkeys([*order, *names]))}
    short = dict(zip(names, brief(names)[0], strict=True)) if names else {}
    for name in names:
        ours, published = _split(data[data["line"] == name])
        ours = ours[ours["value"].notna()]
        traces = [*line_traces(ours, short[name], looks[name], spec), *_published_trace(published, short[name], looks[name])]
        figure.add_traces([go.Scatter(trace) for trace in traces])
    set_axes(figure, data, spec)
    return along(figure, spec.x)


def line_traces(points: pd.DataFrame, name: str, look: dict[str, str], spec: Curve) -> Iterator[dict[str, Any]]:
    if spec.log:  # zero is nowhere on such an axis: an interval that reaches it ends a little below the lowest point
        points = points[points["value"] > 0]
        points = points.assign(low=points["low"].astype(float).clip(lower=points["value"].min() / 2))
    x = [_tick(value) for value in points["x"]]
    known = (points["low"].notna() & (points["n"].astype(float) >= BAND)).tolist()
    for has, group in groupby(enumerate(known), key=lambda pair: pair[1]):  # no band bridges a point without an interval
        if has:
            stretch = [at for at, _ in group]
            area = band([x[at] for at in stretch], points.iloc[stretch], tint(look["color"], 0.16))
            yield {**area, "legendgroup": name}
    each = zip(points["x"], points["seeds"], strict=True)
    seeds = [(x, float(value)) for x, own in each for value in own.split() if " " in own]  # where a point has several
    if seeds:
        dot = {"symbol": "circle", "size": 5, "color": look["color"]}
        x_seeds, y_seeds = zip(*seeds, strict=True)
        yield scatter(map(_tick, x_seeds), y_seeds, legendgroup=name, mode="markers", marker=dot)
    hover = (_hover(row, spec) for row in points.to_dict("records"))
    yield scatter(x, points["value"], hover, name, legendgroup=name, mode="lines+markers", **marked(look))


def _published_trace(points: pd.DataFrame, name: str, look: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Draw the margin as a shade as high as ours may be off and still be reproduced; differences have none."""
    if points.empty:
        return
    rows = points.to_dict("records")
    said = [f"published: {row['value']:g}, {row['source']}: {row['verdict']}. {row['reasons']}" for row in rows]
    half = (points["high"].astype(float) - points["value"].astype(float)).tolist()
    margin = {"array": half, "thickness": 12, "width": 0, "color": tint(look["color"], 0.25)}
    hollow = {"symbol": look["symbol"] + "-open", "size": 12, "color": look["color"], "line": {"width": 2}}
    x, title = map(_tick, points["x"]), f"{name}, published"
    trace = scatter(x, points["value"], said, title, legendgroup=name, mode="markers", marker=hollow)
    yield trace if points["low"].isna().any() else {**trace, "error_y": margin}


def _hover(row: dict[Hashable, Any], spec: Curve) -> str:
    interval = f" [{row['low']:.6g}, {row['high']:.6g}]" if pd.notna(row["low"]) else ""
    head = f"{row['line']}, {axis_title(spec.x)} {plain(row['x'])}: {row['value']:.6g} {metric(spec.y).unit}"
    return f"{head}{interval} (n={row['n']:.0f} of {row['expected']:.0f})"


def set_axes(figure: go.Figure, data: pd.DataFrame, spec: Curve) -> None:
    """Set titles with units; base-2 ticks where the levels are powers of two; categories where they are no numbers."""
    figure.update_yaxes(title=shown(metric(spec.y).heading + ", minus the best" * spec.drop))
    across = metric(spec.x).heading if registered(spec.x) else WITHIN.get(spec.x) or axis_title(spec.x)
    figure.update_xaxes(title=shown(across))
    ours, published = _split(data)
    bands = ours[ours["n"].astype(float) >= BAND] if not spec.drop else ours
    seeds = [float(value) for own in ours["seeds"] for value in own.split()]
    known = [*data["value"], *bands["low"], *bands["high"], *published["low"], *published["high"], *seeds]
    if spec.log:
        figure.update_yaxes(
            type="log", range=y_range([log10(value) for value in known if pd.notna(value) and value > 0], log=True)
        )
    else:
        figure.update_yaxes(range=y_range(known))
    levels = sorted({value for value in data["x"] if is_number(value)})
    if len(levels) < data["x"].nunique() or not levels:
        figure.update_xaxes(type="category")
    elif not registered(spec.x):
        if powers_of_two(levels):
            figure.update_xaxes(type="log")
        if len(levels) <= MOST_TICKS:
            figure.update_xaxes(tickmode="array", tickvals=levels, ticktext=[f"{level:g}" for level in levels])


def _tick(value: Any) -> Any:
    return value if is_number(value) else shown(plain(value))
