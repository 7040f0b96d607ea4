"""Two axes at once: a heat map with every cell's interval and runs, and cell means as lines, parallel where nothing interacts."""

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from recstudy.errors import ConfigError
from recstudy.evidence import Estimate, contrast
from recstudy.report.caveats import is_synthetic, leaky_notes, warnings
from recstudy.report.cells import cell, gap
from recstudy.report.figure_fields import HeatMap, Interactions
from recstudy.report.figures.curve import comparable
from recstudy.report.figures.layout import SCALE, Drawn, Panel, facets, stack, standing
from recstudy.report.figures.theme import (
    CELL,
    SCREEN,
    SHADES,
    Size,
    heat,
    letters,
    marked,
    ordered,
    scatter,
    shown,
    style,
    whiskers,
    y_range,
)
from recstudy.report.fits import weighted
from recstudy.report.names import axis_title, metric, number, plain, quantity
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables.render import cell_text

COLUMNS = ["x", "y", "value", "low", "high", "n", "expected", "said", "run_ids", "synthetic"]
ROW = 52  # points of a cell's height: two lines of words
FITS = 8  # cells side by side that have room for words
HOW = "In each cell the mean over seeds, its 95 % interval and the number of runs; empty: no finished run"
POINT = ["x_axis", "by_axis", "x", "by", "value", "low", "high", "n", "expected", "missing", "run_ids", "synthetic"]
PARALLEL = "Parallel lines: no interaction. Bars: 95 % intervals of each mean, by the spread of all cells"


def draw_heat_map(records: StudyRecords, spec: HeatMap) -> Drawn:
    """Draw one cell for every two levels, in the data with `said`, the words of a table. Variants that leak are left out."""
    places = _levels(records, comparable(records, spec.where), spec.x, spec.y)
    xs, ys = (ordered([at[axis] for at in places]) for axis in (0, 1))
    rows = []
    for x, y in ((x, y) for y in ys for x in xs if (x, y) in places):
        one = cell(records, places[x, y], spec.metric)
        known = {name: getattr(one, name) for name in ("value", "low", "high", "n", "expected", "synthetic")}
        rows.append({"x": x, "y": y, **known, "said": cell_text(one), "run_ids": " ".join(one.run_ids)})
    data = pd.DataFrame(rows, columns=COLUMNS)
    ranked = sorted((row for row in rows if row["value"] is not None), key=lambda row: metric(spec.metric).sign * row["value"])
    finding = f"best mean {quantity(spec.metric, ranked[-1]['value'])} at {_where(ranked[-1], spec)}" if ranked else ""
    variants, absent = sum(map(len, places.values())), int(data["value"].isna().sum())
    notes = [*warnings(records), *leaky_notes(records, records.chosen(spec.where), shown=False)]
    notes += [f"each cell pools {variants / len(data):.3g} variants"] if len(data) and variants > len(data) else []
    notes += [f"{absent} of {len(data)} cells have no finished run"] if absent else []
    return Drawn(partial(_heat_map_figure, data, spec), data, spec.heading, notes, HOW, finding=finding)


def _heat_map_figure(data: pd.DataFrame, spec: HeatMap, size: Size = SCREEN) -> go.Figure:
    """Draw columns for the levels of `x`, rows those of `y` from the top down; darker is more."""
    xs, ys = (list(dict.fromkeys(data[axis])) for axis in ("x", "y"))
    cells = {(row["x"], row["y"]): row for row in data.to_dict("records")}
    places = [(x, y) for y in ys for x in xs]

    def words(one: dict[Any, Any]) -> str:
        ends = [number(spec.metric, one[end]) for end in ("low", "high") if pd.notna(one[end])]
        return "<br>".join([number(spec.metric, one["value"]), *([f"[{', '.join(ends)}]"] if ends else []), f"n={one['n']}"])

    known = {at: one for at, one in cells.items() if pd.notna(one["value"])}
    values = [[known[x, y]["value"] if (x, y) in known else None for x in xs] for y in ys]
    inside = [[words(known[x, y]) if (x, y) in known else "" for x in xs] for y in ys]
    hover = [f"{_where(cells[at], spec)}: {cells[at]['said']}" if at in cells else "not planned" for at in places]
    columns, lines = ([shown(plain(level)) for level in levels] for levels in (xs, ys))
    look = {"colorscale": list(SHADES), "colorbar": standing(shown(metric(spec.metric).heading))}
    figure = go.Figure()
    figure.add_heatmap(**heat(columns, lines, values, hover, 2, **look, **_fitting(inside, size)))
    figure.update_xaxes(title={"text": shown(axis_title(spec.x)), "standoff": 2}, type="category", showgrid=False, ticks="")
    figure.update_yaxes(title=shown(axis_title(spec.y)), type="category", autorange="reversed", showgrid=False, ticks="")
    return stack(figure, [Panel(ROW * len(ys)) if size.printed else Panel(max(SCALE + 30, ROW * len(ys)), 0, 30)], size)


def _fitting(words: list[list[str]], size: Size) -> dict[str, Any]:
    """Say what is written in cells that have room for it: in letters that Plotly fits; in print the whole, or the mean and n."""
    wide = max(map(len, words), default=1)
    if not size.printed:
        return {"text": words, "texttemplate": "%{text}" if wide <= FITS else None}
    short = [["<br>".join(part for part in one.split("<br>") if "[" not in part) for one in line] for line in words]
    for tried in (words, short):
        longest = max((len(part) for line in tried for one in line for part in one.split("<br>")), default=0)
        if longest <= letters(size.inner / wide, CELL):
            return {"text": tried, "texttemplate": "%{text}", "textfont": {"size": CELL}}
    return {}


def _where(one: Any, spec: HeatMap) -> str:
    return f"{axis_title(spec.x)} {plain(one['x'])}, {axis_title(spec.y)} {plain(one['y'])}"


def _levels(records: StudyRecords, variants: Sequence[int], x: str, y: str) -> dict[tuple[Any, Any], list[int]]:
    """Return the variants at each two levels."""
    found: dict[tuple[Any, Any], list[int]] = {}
    for index in variants:
        found.setdefault((records.level(index, x), records.level(index, y)), []).append(index)
    return found


# ----------------------------------------------------------------------------------------------------------- interactions


def draw_interactions(records: StudyRecords, spec: Interactions) -> Drawn:
    """Draw cell means: in the data a row a point, the mean over seeds of a seed's mean over the cells there, and what it lacks.

    A seed counts where all of these cells have finished. Variants that leak are left out.

    Raises:
        ConfigError: an axis is unknown, or fewer than two of them vary.
    """
    variants = comparable(records, spec.where)
    pairs = [(spec.x, spec.by)] if spec.x is not None and spec.by is not None else []
    if not pairs:
        varied = [axis for axis in records.plan.axes if len({plain(records.level(index, axis)) for index in variants}) > 1]
        if len(varied) < 2:
            raise ConfigError(f"interactions {spec.name!r} needs two axes, but {', '.join(varied) or 'none'} varies here")
        pairs = list(combinations(varied, 2))
    rows = []
    for x, by in pairs:
        cells = _levels(records, variants, x, by)
        xs, lines = (ordered([at[axis] for at in cells]) for axis in (0, 1))
        places = [(across, line) for line in lines for across in xs if (across, line) in cells]
        rows += [
            {"x_axis": x, "by_axis": by, "x": at[0], "by": at[1], **_point(records, spec.metric, cells[at])} for at in places
        ]
    data = pd.DataFrame(rows, columns=POINT)
    absent, part = int(data["value"].isna().sum()), int((data["value"].notna() & (data["n"] < data["expected"])).sum())
    notes = [*warnings(records), *leaky_notes(records, records.chosen(spec.where), shown=False)]
    notes += [f"{absent} of {len(data)} points have no finished seed"] if absent else []
    notes += [f"{part} of {len(data)} points lack some seed"] if part else []
    return Drawn(partial(_interactions_figure, data, spec), data, spec.heading, notes, PARALLEL)


def _interactions_figure(data: pd.DataFrame, spec: Interactions, size: Size = SCREEN) -> go.Figure:
    """Draw a panel for each pair of axes, on one scale; a level keeps its look in all, and stands in the legend once."""
    pairs = list(dict.fromkeys(zip(data["x_axis"], data["by_axis"], strict=True)))
    each = zip(data["by_axis"], data["by"], strict=True)
    levels = list(dict.fromkeys(f"{axis_title(by)} {plain(level)}" for by, level in each))
    figure = facets(len(pairs), 0.3)
    reach = y_range(data["value"], data["low"], data["high"])
    figure.update_yaxes(title=shown(metric(spec.metric).heading), range=reach)
    named: set[str] = set()
    for panel, (x, by) in enumerate(pairs, 1):
        whole = data[(data["x_axis"] == x) & (data["by_axis"] == by)]
        for level in dict.fromkeys(whole["by"]):
            name, points = f"{axis_title(by)} {plain(level)}", whole[(whole["by"] == level) & whole["value"].notna()]
            look = style(levels.index(name))
            value = points["value"].astype(float)
            low, high = (points[end].astype(float).fillna(value) for end in ("low", "high"))
            places, hover = (
                [shown(plain(at)) for at in points["x"]],
                [_hover(row, name, spec) for row in points.to_dict("records")],
            )
            line = scatter(places, value, hover, name, legendgroup=name, showlegend=name not in named, mode="lines+markers")
            bars = whiskers(value, low, high, thickness=1, width=4)
            figure.add_scatter(**line, **marked(look), error_y=bars, row=panel, col=1)
            named.add(name)
        ticks = [shown(plain(level)) for level in dict.fromkeys(whole["x"])]
        axis = {"type": "category", "categoryorder": "array", "categoryarray": ticks, "range": [-0.3, len(ticks) - 0.7]}
        figure.update_xaxes(title=shown(axis_title(x)), **axis, row=panel, col=1)
    return figure


def _point(records: StudyRecords, name: str, cells: Sequence[int]) -> dict[str, Any]:
    """Return mean, interval and counts of the cells at one place."""
    runs = [run for index in cells for run in records.by_variant[index]]
    seeds = {seed: [run for run in runs if run.seed == seed] for seed in sorted({run.seed for run in runs})}
    lost = {seed: [f"{run.label} {why}" for run in own if (why := gap(run, name))] for seed, own in seeds.items()}
    whole = [own for seed, own in seeds.items() if not lost[seed] and len(own) == len(cells)]
    found = contrast([(1 / len(cells), weighted(records, index, name)) for index in cells]) if whole else Estimate(None)
    numbers = {"value": found.value, "low": found.low, "high": found.high, "n": len(whole), "expected": len(seeds)}
    missing = "; ".join(f"seed {seed}: {', '.join(said)}" for seed, said in lost.items() if said)
    run_ids = " ".join(run.id for own in whole for run in own)
    return {**numbers, "missing": missing, "run_ids": run_ids, "synthetic": is_synthetic(records, cells)}


def _hover(row: dict[Any, Any], name: str, spec: Interactions) -> str:
    interval = f" [{row['low']:.6g}, {row['high']:.6g}]" if pd.notna(row["low"]) else ""
    head = f"{axis_title(row['x_axis'])} {plain(row['x'])}, {name}: {row['value']:.6g} {metric(spec.metric).unit}".strip()
    return f"{head}{interval} (n={row['n']} of {row['expected']})"
