"""The first objective against each searched field, one small panel a field."""

from collections.abc import Sequence
from functools import partial

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.caveats import warnings
from recstudy.analysis.figures import panels
from recstudy.analysis.figures.axes import y_range
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.heat import CELL
from recstudy.analysis.figures.parallel import count_words, settings_data
from recstudy.analysis.figures.scales import scale
from recstudy.analysis.figures.theme import SCREEN, SMALL, SPECTRUM, SYMBOLS, Size, dress, shown
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.trials import scored, search_of
from recstudy.records.plans import FAMILY, ranges_of, short_names
from recstudy.records.study_schema import SearchRecord
from recstudy.report import Slices
from recstudy.report.names import metric, plain

FEW = 12  # trials, of which none stands between two


def drawn(records: StudyRecords, spec: Slices) -> Drawn:
    search, data, notes = search_of(records, spec.name), settings_data(records, spec), warnings(records)
    return Drawn(partial(slices_figure, data, spec, search, notes), data, spec.heading, notes, slices_caption(data, search))


def slices_figure(
    data: pd.DataFrame, spec: Slices, search: SearchRecord, notes: Sequence[str] = (), size: Size = SCREEN
) -> go.Figure:
    """Coloured by trial number, so that a reader sees where the sampler went; a symbol for each family."""
    name = next(iter(search.objectives))
    ranges = ranges_of(search.space)
    words = short_names(ranges)
    figure = go.Figure()
    for panel, (path, stated) in enumerate(ranges.items(), 1):
        number = str(panel) if panel > 1 else ""
        trials = data[data[path].notna()]
        axis = scale(stated, trials[path])
        for family, points in trials.groupby(FAMILY, sort=False):
            places = [axis.at(value) for value in points[path]]
            _draw(figure, points, places, (path, name), _symbol(search, str(family)), number)
        figure.update_layout(panels.layout(panel, {**axis.axis, **panels.named(words[path].replace("_", " "))}))
    dress(figure, spec.heading, notes, max(1, len(ranges)), slices_caption(data, search), size)
    low_high = y_range(pd.DataFrame({"value": data[name], "low": data[name], "high": data[name]}))
    figure.update_yaxes(range=low_high)
    bar = {
        "orientation": "h",
        "thickness": 10,
        "yref": "container",
        "y": 0,
        "yanchor": "bottom",
        "title": "trial",
        "tickformat": "d",
        **({"dtick": 1} if data["trial"].nunique() <= FEW else {}),
    }
    figure.update_layout(coloraxis={"colorscale": list(SPECTRUM), "colorbar": bar}, meta={**figure.layout.meta, "slices": True})
    if size.printed:
        upwards = f"Upwards: {shown(metric(name).heading)}"
        top_left = {"x": 0, "y": 1, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
        figure.add_annotation(text=upwards, font={"size": SMALL}, showarrow=False, **top_left)
        figure.update_xaxes(tickfont={"size": CELL})
        figure.update_yaxes(tickfont={"size": CELL})
    return panels.arrange(figure, size)


def slices_caption(data: pd.DataFrame, search: SearchRecord) -> str:
    """What stands upwards, and what the colours and the symbols are."""
    goal, families = metric(next(iter(search.objectives))).heading, list(search.space)
    symbols = f" Symbols: {', '.join(f'{family} {_symbol(search, family)}' for family in families)}." if families[1:] else ""
    points = f"One point a finished trial: early ones blue, late ones orange. {count_words(data, search)}"
    return f"Upwards: {goal}. {points}{symbols}"


def _symbol(search: SearchRecord, family: str) -> str:
    """Empty is the family of a search that has only one."""
    families = list(search.space)
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
