"""Cell means of two axes as lines: where the axes do not interact, the lines are parallel."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from recstudy.analysis.caveats import is_synthetic, leaky_notes, warnings
from recstudy.analysis.cells import gap
from recstudy.analysis.figures.axes import y_range
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.theme import SCREEN, Size, dress, shown, style
from recstudy.analysis.fits import weighted
from recstudy.analysis.frame import StudyRecords
from recstudy.errors import ConfigError
from recstudy.evidence import Estimate, contrast
from recstudy.report import Interactions
from recstudy.report.names import axis_title, metric, plain

COLUMNS = ["x_axis", "by_axis", "x", "by", "value", "low", "high", "n", "expected", "missing", "run_ids", "synthetic"]
PARALLEL = "Parallel lines: no interaction. Bars: 95 % intervals of each mean, by the spread of all cells"


def drawn(records: StudyRecords, spec: Interactions) -> Drawn:
    data = interactions_data(records, spec)
    notes = interactions_notes(records, spec, data)
    return Drawn(partial(interactions_figure, data, spec, notes), data, spec.heading, notes, PARALLEL)


def interactions_data(records: StudyRecords, spec: Interactions) -> pd.DataFrame:
    """One row a point: the mean over seeds of a seed's mean over the cells at these two levels, and what is missing of it.

    A seed counts where all of these cells have finished. Variants that leak are left out.

    Raises:
        ConfigError: an axis is unknown, or fewer than two of them vary.
    """
    variants = [index for index in records.chosen(spec.where) if not records.leaks(index)]
    rows = [
        {"x_axis": x, "by_axis": by, "x": across, "by": line, **_point(records, spec.metric, cells)}
        for x, by in _pairs(records, spec, variants)
        for (across, line), cells in _cells(records, variants, x, by)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def interactions_figure(data: pd.DataFrame, spec: Interactions, notes: Sequence[str] = (), size: Size = SCREEN) -> go.Figure:
    """A panel for each pair of axes, on one scale; a level keeps its look in all of them."""
    pairs = list(dict.fromkeys(zip(data["x_axis"], data["by_axis"], strict=True)))
    lines = list(dict.fromkeys(_line_name(by, level) for by, level in zip(data["by_axis"], data["by"], strict=True)))
    figure = make_subplots(rows=max(1, len(pairs)), cols=1, vertical_spacing=0.3 / max(1, len(pairs)))
    named: set[str] = set()
    for panel, (x, by) in enumerate(pairs, 1):
        points = data[(data["x_axis"] == x) & (data["by_axis"] == by)]
        for level in dict.fromkeys(points["by"]):
            name = _line_name(by, level)
            look = {**style(lines.index(name)), "showlegend": name not in named}
            _draw(figure, points[(points["by"] == level) & points["value"].notna()], name, look, spec, panel)
            named.add(name)
        ticks = [_tick(level) for level in dict.fromkeys(points["x"])]
        axis = {"type": "category", "categoryorder": "array", "categoryarray": ticks, "range": [-0.3, len(ticks) - 0.7]}
        figure.update_xaxes(title=shown(axis_title(x)), **axis, row=panel, col=1)
    dress(figure, spec.heading, notes, max(1, len(pairs)), PARALLEL, size)
    return figure.update_yaxes(title=shown(metric(spec.metric).heading), range=y_range(data, metric(spec.metric).bounds))


def interactions_notes(records: StudyRecords, spec: Interactions, data: pd.DataFrame) -> tuple[str, ...]:
    """What a reader must know first: smoke, synthetic data, variants left out, points without a number."""
    absent = int(data["value"].isna().sum())
    some = int((data["value"].notna() & (data["n"] < data["expected"])).sum())
    gaps = [f"{absent} of {len(data)} points have no finished seed"] if absent else []
    gaps += [f"{some} of {len(data)} points lack some seed"] if some else []
    return (*warnings(records), *leaky_notes(records, records.chosen(spec.where), shown=False), *gaps)


def _pairs(records: StudyRecords, spec: Interactions, variants: Sequence[int]) -> list[tuple[str, str]]:
    """The (x, by) of each panel."""
    if spec.x is not None and spec.by is not None:
        return [(spec.x, spec.by)]
    varied = [axis for axis in records.plan.axes if len({plain(records.level(index, axis)) for index in variants}) > 1]
    if len(varied) < 2:
        raise ConfigError(f"interactions {spec.name!r} needs two axes, but {', '.join(varied) or 'none'} varies here")
    return list(combinations(varied, 2))


def _cells(records: StudyRecords, variants: Iterable[int], x: str, by: str) -> list[tuple[tuple[Any, Any], list[int]]]:
    """The variants at each two levels, numbers in their order and words in the study's."""
    found: dict[tuple[Any, Any], list[int]] = {}
    for index in variants:
        found.setdefault((records.level(index, x), records.level(index, by)), []).append(index)
    order = [list(dict.fromkeys(levels)) for levels in zip(*found, strict=True)]
    return sorted(
        found.items(), key=lambda cell: [_rank(level, known) for level, known in zip(cell[0][::-1], order[::-1], strict=True)]
    )


def _rank(level: Any, known: Sequence[Any]) -> float:
    return float(level) if all(isinstance(one, int | float) for one in known) else float(known.index(level))


def _point(records: StudyRecords, name: str, cells: Sequence[int]) -> dict[str, Any]:
    """Mean, interval and counts of the cells at one place."""
    runs = [run for index in cells for run in records.by_variant[index]]
    seeds = {seed: [run for run in runs if run.seed == seed] for seed in sorted({run.seed for run in runs})}
    lost = {seed: [f"{run.label} {why}" for run in own if (why := gap(run, name))] for seed, own in seeds.items()}
    whole = [own for seed, own in seeds.items() if not lost[seed] and len(own) == len(cells)]
    found = contrast([(1 / len(cells), weighted(records, index, name)) for index in cells]) if whole else Estimate(None)
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "n": len(whole),
        "expected": len(seeds),
        "missing": "; ".join(f"seed {seed}: {', '.join(said)}" for seed, said in lost.items() if said),
        "run_ids": " ".join(run.id for own in whole for run in own),
        "synthetic": is_synthetic(records, cells),
    }


def _line_name(by: str, level: Any) -> str:
    return f"{axis_title(by)} {plain(level)}"


def _draw(figure: go.Figure, points: pd.DataFrame, name: str, look: dict[str, Any], spec: Interactions, panel: int) -> None:
    half = (points["high"].astype(float) - points["value"].astype(float)).fillna(0.0)
    figure.add_scatter(
        x=[_tick(level) for level in points["x"]],
        y=points["value"].tolist(),
        error_y={"array": half.tolist(), "thickness": 1, "width": 4},
        mode="lines+markers",
        name=shown(name),
        legendgroup=name,
        showlegend=look["showlegend"],
        line={"color": look["color"], "dash": look["dash"]},
        marker={"symbol": look["symbol"], "size": 9},
        hovertext=[_hover(row, name, spec) for row in points.to_dict("records")],
        hoverinfo="text",
        row=panel,
        col=1,
    )


def _hover(row: dict[Any, Any], name: str, spec: Interactions) -> str:
    interval = f", 95 % interval {row['low']:.6g} to {row['high']:.6g}" if pd.notna(row["low"]) else ""
    head = f"{axis_title(row['x_axis'])} {plain(row['x'])}, {name}: {row['value']:.6g} {metric(spec.metric).unit}".strip()
    return shown(f"{head}{interval} (n={row['n']} of {row['expected']})")


def _tick(level: Any) -> str:
    return shown(plain(level))
