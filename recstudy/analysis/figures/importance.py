"""How much each searched field matters for each objective, as two methods see it."""

from collections.abc import Sequence
from functools import partial

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from recstudy.analysis.caveats import warnings
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.theme import PALETTE, SCREEN, Size, dress, shown
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.trials import search_of
from recstudy.records.plans import short_names
from recstudy.records.study_schema import Importance as Found
from recstudy.report import Importance
from recstudy.report.names import metric, plural

COLUMNS = ["objective", "method", "field", "importance", "trials"]


def drawn(records: StudyRecords, spec: Importance) -> Drawn:
    data, notes = importance_data(records, spec), importance_notes(records, spec)
    return Drawn(partial(importance_figure, data, spec, notes), data, spec.heading, notes, importance_caption(data))


def importance_data(records: StudyRecords, spec: Importance) -> pd.DataFrame:
    """One row an objective, method and field; `importance` is a share of one, `trials` how many it rests on.

    Raises:
        ConfigError: the study is no search.
    """
    found = search_of(records, spec.name).importance or Found(importance={})
    rows = [
        {"objective": objective, "method": method, "field": path, "importance": share, "trials": found.trials}
        for objective, methods in found.importance.items()
        for method, shares in methods.items()
        for path, share in shares.items()
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def importance_figure(data: pd.DataFrame, spec: Importance, notes: Sequence[str] = (), size: Size = SCREEN) -> go.Figure:
    """Bars of all methods side by side, the field that matters most on top; a panel an objective."""
    names = list(dict.fromkeys(data["objective"]))
    methods = list(dict.fromkeys(data["method"]))
    panels = max(1, len(names))
    titles = [shown(metric(name).heading) for name in names] if len(names) > 1 else None
    figure = make_subplots(rows=panels, cols=1, vertical_spacing=0.3 / panels, subplot_titles=titles)
    figure.update_annotations(x=0, xanchor="left", font_size=14)
    for panel, name in enumerate(names, 1):
        shares = data[data["objective"] == name]
        order = shares.groupby("field", sort=False)["importance"].mean().sort_values(kind="stable").index.tolist()
        for at, method in enumerate(methods):
            _draw(figure, shares[shares["method"] == method], method, PALETTE[at], panel)
        words = short_names(order)
        ticks = [shown(words[path].replace("_", " ")) for path in order]
        axis = {"type": "category", "categoryorder": "array", "categoryarray": order, "tickvals": order, "ticktext": ticks}
        figure.update_yaxes(**axis, row=panel, col=1)
    figure.update_xaxes(range=[0, 1.02 * max(data["importance"], default=1.0)], tickformat=".0%")
    figure.update_xaxes(title="share of the importance", row=panels, col=1)
    figure.update_layout(barmode="group", bargap=0.3, legend={"traceorder": "reversed"})
    return dress(figure, spec.heading, notes, panels, importance_caption(data), size)


def importance_notes(records: StudyRecords, spec: Importance) -> tuple[str, ...]:
    """Why there are no bars yet, or none of a method."""
    found = search_of(records, spec.name).importance
    if found is None:
        return (*warnings(records), "importance is computed once enough trials have finished")
    missing = [f"{method} is missing: {reason}" for method, reason in found.missing.items()]
    return (*warnings(records), *missing)


def importance_caption(data: pd.DataFrame) -> str:
    """How many trials the bars rest on, and what the two methods measure."""
    if data.empty:
        return ""
    words = {
        "PED-ANOVA": "PED-ANOVA: how far the best trials' settings stand out from all others.",
        "fANOVA": "fANOVA: how much of the objective's variance a field explains on its own.",
    }
    rests = f"Rests on {plural(int(data['trials'].iloc[0]), 'finished trial')}."
    return " ".join([rests, *(words[method] for method in words if method in set(data["method"]))])


def _draw(figure: go.Figure, shares: pd.DataFrame, method: str, color: str, panel: int) -> None:
    figure.add_bar(
        y=shares["field"].tolist(),
        x=shares["importance"].tolist(),
        orientation="h",
        name=shown(method),
        legendgroup=method,
        showlegend=panel == 1,
        marker={"color": color},
        hovertext=[
            shown(f"{method}, {path}: {share:.1%}") for path, share in zip(shares["field"], shares["importance"], strict=True)
        ],
        hoverinfo="text",
        row=panel,
        col=1,
    )
