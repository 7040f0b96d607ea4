"""A two-way sweep as a heat map: a metric at every two levels, with its interval and runs in each cell."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.caveats import leaky_notes, warnings
from recstudy.analysis.cells import Cell, cell
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.heat import BAR, CELL, SHADES, Panel, stack
from recstudy.analysis.figures.theme import SCREEN, Size, dress, letters, shown
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.tables.render import cell_text
from recstudy.analysis.targets import place
from recstudy.report import HeatMap
from recstudy.report.names import axis_title, metric, number, plain, spread

COLUMNS = ["x", "y", "value", "low", "high", "n", "expected", "said", "run_ids", "synthetic"]
ROW = 52  # points of a cell's height: two lines of words
FITS = 8  # cells side by side that have room for words
BESIDE = {"thickness": 12, "lenmode": "pixels", "len": BAR, "y": 1, "yanchor": "top"}
HOW = "In each cell the mean over seeds, the half-width of its 95 % interval and the number of runs; empty: no finished run"


def drawn(records: StudyRecords, spec: HeatMap) -> Drawn:
    data = heat_map_data(records, spec)
    notes = heat_map_notes(records, spec, data)
    return Drawn(partial(heat_map_figure, data, spec, notes), data, spec.heading, notes, HOW)


def heat_map_data(records: StudyRecords, spec: HeatMap) -> pd.DataFrame:
    """One row a cell: mean, interval, counts, and `said`, the words of a table. Variants that leak are left out.

    Raises:
        ConfigError: the study has no such axis or level.
    """
    variants = [index for index in records.chosen(spec.where) if not records.leaks(index)]
    places: dict[tuple[Any, Any], list[int]] = {}
    for index in variants:
        places.setdefault((records.level(index, spec.x), records.level(index, spec.y)), []).append(index)
    nothing = place(records, (), variants, (spec.metric,))
    found = {at: cell(records, pooled, spec.metric, nothing) for at, pooled in places.items()}
    xs, ys = (_order([at[axis] for at in found]) for axis in (0, 1))
    rows = [_row(x, y, found[x, y]) for y in ys for x in xs if (x, y) in found]
    return pd.DataFrame(rows, columns=COLUMNS)


def heat_map_figure(data: pd.DataFrame, spec: HeatMap, notes: Sequence[str] = (), size: Size = SCREEN) -> go.Figure:
    """Columns are the levels of `x`, rows those of `y` from the top down; darker is more."""
    figure = go.Figure()
    xs, ys = (list(dict.fromkeys(data[axis])) for axis in ("x", "y"))
    cells = {(row["x"], row["y"]): row for row in data.to_dict("records")}
    grid = [[cells.get((x, y)) for x in xs] for y in ys]
    figure.add_heatmap(
        x=[shown(plain(x)) for x in xs],
        y=[shown(plain(y)) for y in ys],
        z=[[None if one is None or pd.isna(one["value"]) else one["value"] for one in line] for line in grid],
        **_in_cells([[_words(one, spec) for one in line] for line in grid], size),
        hovertext=[[_hover(one, spec) for one in line] for line in grid],
        hoverinfo="text",
        colorscale=list(SHADES),
        colorbar=BESIDE | {"title": {"text": shown(metric(spec.metric).heading), "side": "right", "font": {"size": 13}}},
        xgap=2,
        ygap=2,
    )
    dress(figure, spec.heading, notes, caption=HOW, size=size)
    figure.update_xaxes(title={"text": shown(axis_title(spec.x)), "standoff": 2}, type="category", showgrid=False, ticks="")
    figure.update_yaxes(title=shown(axis_title(spec.y)), type="category", autorange="reversed", showgrid=False, ticks="")
    return stack(figure, [Panel(ROW * len(ys)) if size.printed else Panel(max(BAR + 30, ROW * len(ys)), 0, 30)], size)


def heat_map_notes(records: StudyRecords, spec: HeatMap, data: pd.DataFrame) -> tuple[str, ...]:
    """What a reader must know first: smoke, synthetic data, pooled variants, cells without a number."""
    chosen = records.chosen(spec.where)
    variants = sum(not records.leaks(index) for index in chosen)
    pooled = [f"each cell pools {variants / len(data):.3g} variants"] if len(data) and variants > len(data) else []
    absent = int(data["value"].isna().sum())
    gaps = [f"{absent} of {len(data)} cells have no finished run"] if absent else []
    return (*warnings(records), *leaky_notes(records, chosen, shown=False), *pooled, *gaps)


def _row(x: Any, y: Any, one: Cell) -> dict[str, Any]:
    known = {"value": one.value, "low": one.low, "high": one.high, "n": one.n, "expected": one.expected}
    return {"x": x, "y": y, **known, "said": cell_text(one), "run_ids": " ".join(one.run_ids), "synthetic": one.synthetic}


def _order(levels: Sequence[Any]) -> list[Any]:
    """Numbers in their order, words in the study's."""
    known = list(dict.fromkeys(levels))
    numbers = all(isinstance(level, int | float) and not isinstance(level, bool) for level in known)
    return sorted(known) if numbers else known


def _words(one: dict[Any, Any] | None, spec: HeatMap) -> str:
    if one is None or pd.isna(one["value"]):
        return ""
    half = (
        f"±{spread(spec.metric, max(one['high'] - one['value'], one['value'] - one['low']))}, " if pd.notna(one["high"]) else ""
    )
    return f"{number(spec.metric, one['value'])}<br>{half}n={one['n']}"


def _in_cells(words: list[list[str]], size: Size) -> dict[str, Any]:
    """What is written in cells that have room for it: on a screen in letters that Plotly fits, in print in two lines or three."""
    wide = max(map(len, words), default=1)
    if not size.printed:
        return {"text": words, "texttemplate": "%{text}" if wide <= FITS else None}
    for tried in (words, [[one.replace(", ", "<br>") for one in line] for line in words]):
        longest = max((len(part) for line in tried for one in line for part in one.split("<br>")), default=0)
        if longest <= letters(size.inner / wide, CELL):
            return {"text": tried, "texttemplate": "%{text}", "textfont": {"size": CELL}}
    return {}


def _hover(one: dict[Any, Any] | None, spec: HeatMap) -> str:
    if one is None:
        return "not planned"
    where = f"{axis_title(spec.x)} {plain(one['x'])}, {axis_title(spec.y)} {plain(one['y'])}"
    return shown(f"{where}: {one['said']}")
