"""The first objective against each searched field, one small panel a field."""

import math
from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.figures.curve import y_range
from recstudy.analysis.figures.parallel import count_words
from recstudy.analysis.figures.scales import scale
from recstudy.analysis.figures.theme import SPECTRUM, SYMBOLS, WIDTH, dress, shown
from recstudy.analysis.names import metric, plain
from recstudy.analysis.search import FAMILY, ranges_of, short_names
from recstudy.analysis.spec import Slices
from recstudy.analysis.trials import scored
from recstudy.records import Json

# In points, and again in style.SCRIPT: the least of a panel, its height, what its ticks and names need, the colour bar.
NARROW, HIGH, LEFT, BELOW, BAR, EDGE = 280, 240, 48, 64, 64, 12


def slices_figure(data: pd.DataFrame, spec: Slices, search: Json, notes: Sequence[str] = ()) -> go.Figure:
    """Coloured by trial number, so that a reader sees where the sampler went; a symbol for each family."""
    name = next(iter(search["objectives"]))
    ranges = ranges_of(search["space"])
    words = short_names(ranges)
    figure = go.Figure()
    for panel, (path, stated) in enumerate(ranges.items(), 1):
        number = str(panel) if panel > 1 else ""
        trials = data[data[path].notna()]
        axis = scale(stated, trials[path])
        for family, points in trials.groupby(FAMILY, sort=False):
            places = [axis.at(value) for value in points[path]]
            _draw(figure, points, places, (path, name), _symbol(search, str(family)), number)
        figure.update_layout(
            {
                f"xaxis{number}": {
                    **axis.axis,
                    "title": {"text": shown(words[path].replace("_", " ")), "standoff": 6, "font": {"size": 13}},
                }
            }
        )
        figure.update_layout({f"xaxis{number}": {"anchor": f"y{number}"}, f"yaxis{number}": {"anchor": f"x{number}"}})
    dress(figure, slices_title(spec), notes, max(1, len(ranges)), slices_caption(data, search))
    low_high = y_range(pd.DataFrame({"value": data[name], "low": data[name], "high": data[name]}))
    figure.update_yaxes(range=low_high, automargin=False)
    figure.update_xaxes(automargin=False)
    bar = {
        "orientation": "h",
        "thickness": 10,
        "yref": "container",
        "y": 0,
        "yanchor": "bottom",
        "title": "trial",
        "tickformat": "d",
    }
    figure.update_layout(coloraxis={"colorscale": list(SPECTRUM), "colorbar": bar}, meta={**figure.layout.meta, "slices": True})
    return arrange(figure)


def arrange(figure: go.Figure, width: int = WIDTH) -> go.Figure:
    """Give every panel its place in a figure of this width; `style.SCRIPT` does the same in the page."""
    panels = figure.layout.meta["panels"]
    inner = width - 2 * EDGE
    across = min(panels, max(1, inner // NARROW))
    side, down = inner / across, math.ceil(panels / across)
    for at in range(panels):
        left, above = at % across * side, at // across * HIGH
        axis = str(at + 1) if at else ""
        figure.layout[f"xaxis{axis}"].domain = [(left + LEFT) / inner, (left + side - EDGE) / inner]
        figure.layout[f"yaxis{axis}"].domain = [
            max(0.0, 1 - (above + HIGH - BELOW) / (HIGH * down)),
            1 - (above + EDGE) / (HIGH * down),
        ]
    top = figure.layout.margin.t
    return figure.update_layout(height=HIGH * down + top + BAR, margin={"l": EDGE, "r": EDGE, "t": top, "b": BAR})


def slices_title(spec: Slices) -> str:
    return spec.title or "The score against each field"


def slices_caption(data: pd.DataFrame, search: Json) -> str:
    """What stands upwards, and what the colours and the symbols are."""
    goal, families = metric(next(iter(search["objectives"]))).heading, list(search["space"])
    symbols = f" Symbols: {', '.join(f'{family} {_symbol(search, family)}' for family in families)}." if families[1:] else ""
    points = f"One point a finished trial: early ones blue, late ones orange. {count_words(data, search)}"
    return f"Upwards: {goal}. {points}{symbols}"


def _symbol(search: Json, family: str) -> str:
    """Empty is the family of a search that has only one."""
    families = list(search["space"])
    return SYMBOLS[families.index(family) % len(SYMBOLS) if family in families else 0]


def _draw(figure: go.Figure, points: pd.DataFrame, places: list[float], names: tuple[str, str], symbol: str, number: str) -> None:
    path, name = names
    figure.add_scatter(
        x=places,
        y=points[name].tolist(),
        xaxis=f"x{number}",
        yaxis=f"y{number}",
        mode="markers",
        showlegend=False,
        marker={"symbol": symbol, "size": 8, "color": points["trial"].tolist(), "coloraxis": "coloraxis"},
        hovertext=[
            shown(f"trial {row['trial']}: {scored(name, row[name])} at {plain(row[path])}, {row['label']}")
            for row in points.to_dict("records")
        ],
        hoverinfo="text",
    )
