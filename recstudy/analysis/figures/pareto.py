"""What a score costs: two metrics against each other, and the front that no other point beats in both."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.caveats import is_synthetic, leaky_notes, warnings
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.theme import PALETTE, SCREEN, Size, dress, shown
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.trials import direction_of, front, scored
from recstudy.errors import ConfigError
from recstudy.evidence import mean_of
from recstudy.report import Pareto
from recstudy.report.names import metric, plural

WIDE = 20  # times the least cost that the largest must be for a logarithmic axis
NAMED = 12  # points of a front whose trial numbers do not yet overlap


def drawn(records: StudyRecords, spec: Pareto) -> Drawn:
    data = pareto_data(records, spec)
    notes, caption = pareto_notes(records, spec), pareto_caption(records, spec, data)
    return Drawn(partial(pareto_figure, data, spec, y_of(records, spec), notes, caption), data, spec.heading, notes, caption)


def pareto_data(records: StudyRecords, spec: Pareto) -> pd.DataFrame:
    """One row a point that has both values: the variant (in a search, its trial), `x` and `y` by their names, `n` runs, `front`.

    Of a search only its own runs count, at its own seed: all points are alike. In other studies a point is a mean.

    Raises:
        ConfigError: the study is no search, and `y` is not named.
    """
    y, objectives = y_of(records, spec), _objectives(records)
    points = [_point(records, index, (spec.x, y)) for index in range(len(records.variants))]
    columns = ["trial", "label", spec.x, y, "n", "synthetic", "leaks"]
    data = pd.DataFrame(points, columns=columns).dropna(subset=[spec.x, y])
    directions = [direction_of(name, objectives) for name in (spec.x, y)]
    honest = data[~data["leaks"].astype(bool)]
    ahead = honest.index[front(honest[[spec.x, y]].to_numpy(dtype=float), directions)]
    return data.drop(columns="leaks").assign(front=data.index.isin(ahead))


def pareto_figure(
    data: pd.DataFrame, spec: Pareto, y: str, notes: Sequence[str] = (), caption: str = "", size: Size = SCREEN
) -> go.Figure:
    """All points, and a line through the front; a search's front carries its trial numbers."""
    figure = go.Figure()
    best = data[data["front"].astype(bool)].sort_values(spec.x)
    _draw(figure, data[~data["front"].astype(bool)], spec, y, {"name": "others", "mode": "markers"})
    named = best["trial"].notna().all() and len(best) <= NAMED
    trials = [f"{trial:.0f}" for trial in best["trial"]] if named else []
    words = {"mode": "lines+markers+text", "text": trials, "textposition": "top center"}
    _draw(figure, best, spec, y, {"name": "front", **(words if named else {"mode": "lines+markers"})})
    costs = data[spec.x].astype(float)
    wide = len(costs) > 0 and costs.min() > 0 and costs.max() > WIDE * costs.min()
    figure.update_xaxes(title=shown(metric(spec.x).heading), **({"type": "log", "dtick": "D2"} if wide else {}))
    figure.update_yaxes(title=shown(metric(y).heading))
    return dress(figure, spec.heading, notes, caption=caption, size=size)


def pareto_notes(records: StudyRecords, spec: Pareto) -> tuple[str, ...]:
    """What a reader must know first: names that no finished run knows."""
    finished = [row for row in records.rows if row.done]
    known = [spec.x, y_of(records, spec)]
    absent = [name for name in known if finished and all(row.objective(name) is None for row in finished)]
    leaky = leaky_notes(records, range(len(records.variants)))
    return (*warnings(records), *leaky, *(f"no run recorded a metric {name!r}" for name in absent))


def pareto_caption(records: StudyRecords, spec: Pareto, data: pd.DataFrame) -> str:
    """What a point is, and which way is better."""
    y, objectives = y_of(records, spec), _objectives(records)
    across = "right" if direction_of(spec.x, objectives) == "max" else "left"
    better = f"{'up' if direction_of(y, objectives) == 'max' else 'down'} and to the {across}"
    point = "a finished trial, at the search's one seed" if objectives else "a variant, the mean of its finished runs"
    count = f"{len(data)} of {plural(len(records.variants), 'trial' if objectives else 'variant')} drawn."
    return f"One point is {point}; {count} Better: {better}. The front is what no other point beats in both."


def y_of(records: StudyRecords, spec: Pareto) -> str:
    """The metric on the y-axis.

    Raises:
        ConfigError: neither the part nor a search names it.
    """
    if spec.y is None and records.plan.search is None:
        raise ConfigError(f"{spec.name!r} needs y: {records.plan.study} is no search, whose first objective it could show")
    return spec.y or next(iter(_objectives(records)))


def _objectives(records: StudyRecords) -> Mapping[str, str]:
    return records.plan.search.objectives if records.plan.search is not None else {}


def _point(records: StudyRecords, index: int, names: tuple[str, str]) -> dict[str, Any]:
    search = records.plan.search
    rows = records.by_variant[index][: 1 if search else None]
    values = [[row.objective(name) for name in names] for row in rows if row.done]
    both = [pair for pair in values if None not in pair]
    means = [mean_of([pair[at] or 0.0 for pair in both]) if both else None for at in (0, 1)]
    numbers = [trial.number for trial in search.trials if trial.variant == index] if search else [None]
    known = {"trial": min(numbers, key=lambda number: number or 0), "label": records.variants[index].label}
    said = {"n": len(both), "synthetic": is_synthetic(records, [index]), "leaks": records.leaks(index)}
    return known | dict(zip(names, means, strict=True)) | said


def _draw(figure: go.Figure, points: pd.DataFrame, spec: Pareto, y: str, look: dict[str, Any]) -> None:
    color = PALETTE[0] if look["name"] == "others" else PALETTE[1]
    figure.add_scatter(
        x=points[spec.x].tolist(),
        y=points[y].tolist(),
        marker={"size": 9, "color": color, "symbol": "circle" if look["name"] == "others" else "diamond"},
        line={"color": color},
        hovertext=[_hover(row, spec, y) for row in points.to_dict("records")],
        hoverinfo="text",
        cliponaxis=False,
        **look,
    )


def _hover(row: dict[Any, Any], spec: Pareto, y: str) -> str:
    who = f"trial {row['trial']:.0f}, " if pd.notna(row["trial"]) else ""
    return shown(f"{who}{row['label']}: {scored(y, row[y])}, {scored(spec.x, row[spec.x])} (n={row['n']})")
