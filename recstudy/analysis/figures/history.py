"""A search trial by trial: what each one reached, how it ended, and the best so far."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from recstudy.analysis.caveats import warnings
from recstudy.analysis.figures.axes import y_range
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.theme import PALETTE, SCREEN, Size, dress, shown
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.trials import running_best, scored, search_of, trial_table
from recstudy.report import History
from recstudy.report.names import metric, plural

COLUMNS = ["trial", "label", "state", "objective", "value", "best", "reached", "seed", "id", "synthetic"]
LOOKS = {  # state -> how its points look, in the order of the legend
    "done": {"name": "finished", "symbol": "circle", "color": PALETTE[0]},
    "stopped": {"name": "stopped early", "symbol": "diamond-open", "color": PALETTE[4]},
    "diverged": {"name": "diverged", "symbol": "x-open", "color": PALETTE[1]},
    "failed": {"name": "failed", "symbol": "cross-open", "color": PALETTE[3]},
}


def drawn(records: StudyRecords, spec: History) -> Drawn:
    data, notes = history_data(records, spec), warnings(records)
    return Drawn(partial(history_figure, data, spec, notes), data, spec.heading, notes, history_caption(data))


def history_data(records: StudyRecords, spec: History) -> pd.DataFrame:
    """One row a trial and objective: `value` of a finished trial, `best` of those so far.

    `reached` is the score at which a trial was stopped; it stands with the first objective and counts for nothing.

    Raises:
        ConfigError: the study is no search.
    """
    search = search_of(records, spec.name)
    table = trial_table(records, search)
    first = next(iter(search.objectives))
    reached = [_reached(records, int(index)) for index in table["variant"]]
    parts = [
        table.assign(
            objective=name,
            value=table[name],
            best=running_best(table[name], direction),
            reached=pd.Series(reached if name == first else None, index=table.index, dtype=float),
        )
        for name, direction in search.objectives.items()
    ]
    return pd.concat(parts, ignore_index=True)[COLUMNS]


def _reached(records: StudyRecords, index: int) -> float | None:
    stopped = records.by_variant[index][0].stopped
    return None if stopped is None else stopped.score


def history_figure(data: pd.DataFrame, spec: History, notes: Sequence[str] = (), size: Size = SCREEN) -> go.Figure:
    """A panel an objective; a trial without a value stands at the bottom, marked by how it ended."""
    names = list(dict.fromkeys(data["objective"]))
    panels = max(1, len(names))
    figure = make_subplots(rows=panels, cols=1, shared_xaxes=True, vertical_spacing=0.1 / panels)
    said: set[str] = set()  # states that the legend has
    for panel, name in enumerate(names, 1):
        points = data[data["objective"] == name]
        low, high = _range(points)
        _draw_best(figure, points, panel)
        for state, look in LOOKS.items():
            some = points[points["state"] == state]
            if len(some):
                _draw(figure, some, look, panel, low, state not in said)
                said.add(state)
        figure.update_yaxes(title=shown(metric(name).heading), range=[low - 0.06 * (high - low), high], row=panel, col=1)
    figure.update_xaxes(title="trial", row=panels, col=1)
    if 0 < data["trial"].nunique() <= 12:
        figure.update_xaxes(tick0=0, dtick=1)  # no half trials
    return dress(figure, spec.heading, notes, panels, history_caption(data), size)


def history_caption(data: pd.DataFrame) -> str:
    """How to read the points without a value; trials under way are counted here, and not drawn."""
    waiting = int(data.drop_duplicates("trial")["state"].isin(["unfinished", "not run"]).sum())
    ended = data[data["state"].isin(LOOKS)]
    lost = bool((ended["value"].isna() & ended["reached"].isna()).any())
    stopped = bool(ended["reached"].notna().any())
    return (
        "Line: the best of the finished trials so far."
        + " A trial stopped early stands at the score it had reached, which does not count." * stopped
        + " At the bottom: trials without a value." * lost
        + (f" Not drawn: {plural(waiting, 'trial')} not finished yet." if waiting else "")
    )


def _range(points: pd.DataFrame) -> tuple[float, float]:
    known = pd.concat([points["value"], points["reached"]])
    low, high = y_range(pd.DataFrame({"value": known, "low": known, "high": known})) or (0.0, 1.0)
    return low, high


def _draw(figure: go.Figure, points: pd.DataFrame, look: dict[str, str], panel: int, bottom: float, legend: bool) -> None:
    figure.add_scatter(
        x=points["trial"].tolist(),
        y=points["value"].fillna(points["reached"]).fillna(bottom).tolist(),
        mode="markers",
        name=look["name"],
        legendgroup=look["name"],
        showlegend=legend,
        marker={"symbol": look["symbol"], "color": look["color"], "size": 9, "line": {"width": 1.5, "color": look["color"]}},
        cliponaxis=False,
        hovertext=[_hover(row) for row in points.to_dict("records")],
        hoverinfo="text",
        row=panel,
        col=1,
    )


def _draw_best(figure: go.Figure, points: pd.DataFrame, panel: int) -> None:
    known = points.dropna(subset=["best"])
    figure.add_scatter(
        x=known["trial"].tolist(),
        y=known["best"].tolist(),
        mode="lines",
        line={"shape": "hv", "color": PALETTE[2], "width": 2},
        name="best so far",
        legendgroup="best so far",
        showlegend=panel == 1,
        hoverinfo="skip",
        row=panel,
        col=1,
    )


def _hover(row: dict[Any, Any]) -> str:
    name, state = row["objective"], LOOKS[row["state"]]["name"]
    what = state if pd.isna(row["value"]) else scored(name, row["value"])
    at = "" if pd.isna(row["reached"]) else f" at {scored(name, row['reached'])}"
    return shown(f"trial {row['trial']}: {what}{at}, {row['label']}")
