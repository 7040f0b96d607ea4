"""Figures of a search: trial by trial, importance of fields, score against cost, and the settings of every trial.

Parallel coordinates are plain lines: Plotly's own have no hover text, and the second of two in one figure stays empty.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.colors import sample_colorscale

from recstudy.errors import ConfigError
from recstudy.evidence import mean_of
from recstudy.records.plans import ranges_of, short_names
from recstudy.records.study_schema import FEWEST_TRIALS, ImportanceRecord, Range, SearchRecord
from recstudy.report.caveats import is_synthetic, leaky_notes, some, warnings
from recstudy.report.figure_fields import History, Importance, ParallelCoordinates, Pareto, Slices
from recstudy.report.figures.layout import Drawn, axes_at, facets, small_multiples
from recstudy.report.figures.theme import (
    PALETTE,
    SCREEN,
    SPECTRUM,
    Size,
    folded,
    scatter,
    shown,
    whiskers,
    y_range,
)  # fmt: skip
from recstudy.report.names import metric, plain, plural
from recstudy.report.study_records import StudyRecords
from recstudy.report.trials import TRIAL, direction_of, front, score_text, search_of, trial_table

HISTORY = ["trial", "label", "state", "objective", "value", "best", "reached", "seed", "id", "synthetic"]
LOOKS = {  # state -> its name, symbol and color, in the order of the legend
    "done": ("finished", "circle", PALETTE[0]),
    "stopped": ("stopped early", "diamond-open", PALETTE[4]),
    "diverged": ("diverged", "x-open", PALETTE[1]),
    "failed": ("failed", "cross-open", PALETTE[3]),
}
SHARES = ["objective", "method", "field", "importance", "low", "high"]
METHODS = (
    "PED-ANOVA: how far the best trials' settings stand out from all others. "
    "fANOVA: how much of the objective's variance a field explains on its own."
)
COSTLY = 20  # ratio of the largest to the least cost from which the axis is logarithmic


def draw_history(records: StudyRecords, spec: History) -> Drawn:
    """Draw each objective of the trials: `value` of a finished trial, `best` of the trials so far.

    `reached` is the score at which a trial was stopped. It belongs to the first objective and is never the best.
    """
    search = search_of(records, spec.name)
    table = trial_table(records, search)
    first = next(iter(search.objectives))
    stops = [records.by_variant[int(index)][0].stopped for index in table["variant"]]
    scores = pd.Series([stop.score if stop else None for stop in stops], index=table.index, dtype=float)
    parts = [
        table.assign(
            objective=name,
            value=table[name],
            best=running_best(table[name], direction),
            reached=scores if name == first else math.nan,
        )
        for name, direction in search.objectives.items()
    ]
    data = pd.concat(parts, ignore_index=True)[HISTORY]
    best = _best_trial(table, search)
    finding = "" if best is None else f"best {score_text(first, best[first])}, by trial {best['trial']}"
    caption = (
        "Line: the best of the finished trials so far. A trial that was stopped early stands at the score that it had reached, "
        "which does not count. A trial without a value stands at the bottom."
    )
    return Drawn(partial(_history_figure, data), data, spec.heading, warnings(records), caption, finding=finding)


def running_best(values: Sequence[float | None] | pd.Series, direction: str) -> pd.Series:
    """Return the best of all values so far; empty until there is one."""
    known = pd.Series(values, dtype=float)
    return (known.cummax() if direction == "max" else known.cummin()).ffill()


def _best_trial(table: pd.DataFrame, search: SearchRecord) -> pd.Series | None:
    """Return the row of the first trial that is best by the first objective; None if no trial has a value."""
    name, direction = next(iter(search.objectives.items()))
    finished = table.dropna(subset=[name]).sort_values(name, ascending=direction == "min", kind="stable")
    return finished.iloc[0] if len(finished) else None


def _history_figure(data: pd.DataFrame, size: Size = SCREEN) -> go.Figure:
    """Draw a panel for each objective, with a point for each trial that has ended."""
    names = list(dict.fromkeys(data["objective"]))
    figure = facets(len(names), 0.1, shared_xaxes=True)
    for panel, name in enumerate(names, 1):
        trials, place = data[data["objective"] == name], {"row": panel, "col": 1}
        line: dict[str, Any] = {"mode": "lines", "line": {"shape": "hv", "color": PALETTE[2]}, "showlegend": panel == 1}
        figure.add_scatter(**scatter(trials["trial"], trials["best"], name="best so far", **line), **place)
        bottom = trials[["value", "reached"]].min(axis=None)
        for state, (words, symbol, color) in LOOKS.items():
            ended = trials[trials["state"] == state]
            scores = ended["value"].fillna(ended["reached"])
            texts = ["no value" if math.isnan(score) else score_text(name, score) for score in scores]
            rows = zip(ended["trial"], texts, ended["label"], strict=True)
            hover = [f"trial {trial}: {words}, {text}, {label}" for trial, text, label in rows]
            marker = {"symbol": symbol, "color": color, "size": 9, "line": {"width": 1.5, "color": color}}
            points = scatter(ended["trial"], scores.fillna(bottom), hover, words, mode="markers", marker=marker)
            figure.add_scatter(**points | {"legendgroup": words, "showlegend": panel == 1 and len(ended) > 0}, **place)
        figure.update_yaxes(title=shown(metric(name).heading), **place)
    return figure.update_xaxes(title="trial", row=max(1, len(names)), col=1)


def draw_importance(records: StudyRecords, spec: Importance) -> Drawn:
    """Draw how much each field matters: `importance` is a share of one with its interval, `trials` their number."""
    record = search_of(records, spec.name).importance or ImportanceRecord(importance={})
    has_enough = record.trials >= FEWEST_TRIALS
    rows = [
        (objective, method, path, share, *record.intervals.get(objective, {}).get(method, {}).get(path, (None, None)))
        for objective, methods in (record.importance.items() if has_enough else ())
        for method, shares in methods.items()
        for path, share in shares.items()
    ]
    data = pd.DataFrame(rows, columns=SHARES).astype({"low": float, "high": float}).assign(trials=record.trials)
    notes = [f"{method} is missing: {reason}" for method, reason in record.missing.items() if has_enough]
    if not has_enough:
        notes = [f"too few trials: the importance of a field takes {FEWEST_TRIALS} finished ones"]
    elif rows and data["low"].isna().all():
        notes += ["no intervals: the search's command adds them, and trains nothing for it"]
    caption = f"Rests on {plural(record.trials, 'finished trial')}; whiskers: 95 % intervals over the trials. {METHODS}"
    finding = _most_important(data[data["objective"] == rows[0][0]]) if rows else ""
    figure = partial(_importance_figure, data)
    return Drawn(figure, data, spec.heading, (*warnings(records), *notes), caption if rows else "", finding=finding)


def _most_important(shares: pd.DataFrame) -> str:
    """Name the field that matters most by the mean of the methods, unless the interval of another reaches as high."""
    mean = shares.groupby("field", sort=False)["importance"].mean()
    first = str(mean.idxmax())
    for _, rows in shares.groupby("method", sort=False):
        others = rows.loc[rows["field"] != first, "high"].max()
        if not rows.loc[rows["field"] == first, "low"].max() > others and pd.notna(others):
            return "no field stands out from all others"
    return f"{short_names(map(str, mean.index))[first].replace('_', ' ')} first, {mean.max():.0%}"


def _importance_figure(data: pd.DataFrame, size: Size = SCREEN) -> go.Figure:
    """Draw a panel for each objective, with the bars of all methods side by side and the most important field on top."""
    names, words = list(dict.fromkeys(data["objective"])), short_names(data["field"])
    figure = facets(len(names), 0.3, subplot_titles=[shown(metric(name).heading) for name in names])
    figure.update_annotations(x=0, xanchor="left", font_size=14)
    colors = dict(zip(dict.fromkeys(data["method"]), PALETTE, strict=False))
    for (name, method), shares in data.groupby(["objective", "method"], sort=False):
        panel, fields = names.index(name), [shown(words[path].replace("_", " ")) for path in shares["field"]]
        hover = [f"{method}, {path}: {share:.1%}" for path, share in zip(shares["field"], shares["importance"], strict=True)]
        bars = scatter(shares["importance"], fields, hover, str(method)) | {"showlegend": panel == 0}
        error = whiskers(shares["importance"], shares["low"], shares["high"], thickness=1.5, width=4)
        figure.add_bar(**bars, orientation="h", marker={"color": colors[method]}, error_x=error, row=panel + 1, col=1)
    figure.update_yaxes(type="category", categoryorder="total ascending")
    figure.update_xaxes(rangemode="tozero", tickformat=".0%")
    figure.update_xaxes(title="share of the importance", row=max(1, len(names)), col=1)
    return figure.update_layout(barmode="group", bargap=0.3, legend={"traceorder": "reversed"})


def draw_pareto(records: StudyRecords, spec: Pareto) -> Drawn:
    """Draw the points that have both values, `n` runs each: trials of a search at its own seed, else means of variants.

    Raises:
        ConfigError: the study is no search, and `y` is not named.
    """
    search = records.plan.search
    objectives = search.objectives if search else {}
    if spec.y is None and search is None:
        raise ConfigError(f"{spec.name!r} needs y: {records.plan.study} is no search, whose first objective it could show")
    names, points = [spec.x, spec.y or next(iter(objectives))], []
    proposals = sorted(search.trials, key=lambda trial: -trial.number) if search else ()
    trials = {trial.variant: trial.number for trial in proposals}  # the lowest number if a setting was proposed twice
    for index, variant in enumerate(records.variants):
        runs = [run for run in records.by_variant[index][: 1 if search else None] if run.done]
        scores = [[run.objective(name) for name in names] for run in runs]
        pairs = [[value for value in pair if value is not None] for pair in scores if None not in pair]
        means = [mean_of([pair[axis] for pair in pairs]) if pairs else None for axis in (0, 1)]
        facts = len(pairs), is_synthetic(records, [index]), records.leaks(index)
        points.append((trials.get(index), variant.label, *means, *facts))
    data = pd.DataFrame(points, columns=["trial", "label", *names, "n", "synthetic", "leaks"]).dropna(subset=names)
    honest, directions = data[~data["leaks"].astype(bool)], [direction_of(name, objectives) for name in names]
    best = honest[front(honest[names].to_numpy(dtype=float), directions)]
    data = data.drop(columns="leaks").assign(front=data.index.isin(best.index))
    finished = [run for run in records.rows if run.done]
    absent = [name for name in names if finished and all(run.objective(name) is None for run in finished)]
    leaky = leaky_notes(records, range(len(records.variants)))
    notes = (*warnings(records), *leaky, *(f"no run recorded a metric {name!r}" for name in absent))
    better = f"{'up' if directions[1] == 'max' else 'down'} and to the {'right' if directions[0] == 'max' else 'left'}"
    point = "a finished trial, at the search's one seed" if search else "a variant, the mean of its finished runs"
    labels = "" if search or best.empty else f", from the left: {some(best.sort_values(spec.x)['label'].tolist(), '; ', 6)}"
    caption = (
        f"One point is {point}; {len(data)} of {len(records.variants)} drawn. Better: {better}. "
        f"The front is what no other point beats in both{labels}."
    )
    finding = f"{len(best)} of {len(data)} on the front" if len(data) > 1 else ""
    return Drawn(partial(_pareto_figure, data, names[0], names[1]), data, spec.heading, notes, caption, finding=finding)


def _pareto_figure(data: pd.DataFrame, x: str, y: str, size: Size = SCREEN) -> go.Figure:
    """Draw all points, and a line through the front; a search's front carries its trial numbers."""
    figure, best = go.Figure(), data[data["front"].astype(bool)].sort_values(x)
    others = data.drop(best.index)
    for name, points, mode, color, symbol in (
        ("others", others, "markers", PALETTE[0], "circle"),
        ("front", best, "lines+markers+text", PALETTE[1], "diamond"),
    ):
        numbers = ["" if pd.isna(trial) else f"{trial:.0f}" for trial in points["trial"]]
        hover = [
            f"{number} {row['label']}: {score_text(y, row[y])}, {score_text(x, row[x])} (n={row['n']})".lstrip()
            for number, row in zip(numbers, points.to_dict("records"), strict=True)
        ]
        look = {"mode": mode, "text": numbers, "textposition": "top center", "cliponaxis": False}
        marker = {"size": 9, "color": color, "symbol": symbol}
        figure.add_scatter(**scatter(points[x], points[y], hover, name, marker=marker, **look))
    costs = data[x].astype(float)
    is_wide = costs.min() > 0 and costs.max() > COSTLY * costs.min()
    axis = {"type": "log", "dtick": "D2"} if is_wide else {"range": y_range(costs)}
    figure.update_xaxes(title=shown(metric(x).heading), **axis)
    return figure.update_yaxes(title=shown(metric(y).heading), range=y_range(data[y].astype(float)))


# ----------------------------------------------------------------------------------------------------- settings of every trial


def draw_parallel_coordinates(records: StudyRecords, spec: ParallelCoordinates) -> Drawn:
    """Draw a line for each finished trial through its settings to the score that it reached."""
    return _draw_settings(records, spec, _parallel_figure, "One line per finished trial, to its score; orange is better.")


def draw_slices(records: StudyRecords, spec: Slices) -> Drawn:
    """Draw the first objective of every finished trial against each field."""
    goal = metric(next(iter(search_of(records, spec.name).objectives))).heading
    caption = f"Upwards: {goal}. One point per finished trial: early ones blue, late ones orange."
    return _draw_settings(records, spec, _slices_figure, caption)


def _draw_settings(records: StudyRecords, spec: ParallelCoordinates | Slices, figure: Any, caption: str) -> Drawn:
    """Draw a table of the finished trials: settings by field (empty if the family has no such field), first objective."""
    search = search_of(records, spec.name)
    name = next(iter(search.objectives))
    table = trial_table(records, search).dropna(subset=[name]).reset_index(drop=True)
    params = {trial.number: trial.params for trial in search.trials}
    words = short_names(path for ranges in search.space.values() for path in ranges)
    fields = {path: pd.Series([params[number].get(path) for number in table["trial"]], dtype=object) for path in words}
    data = pd.concat([table[TRIAL], pd.DataFrame(fields), table[[name]]], axis=1)
    best, finding = _best_trial(data, search), ""
    if best is not None:
        chosen = [f"{words[path].replace('_', ' ')} {plain(best[path])}" for path in words if best[path] is not None]
        finding = f"best {score_text(name, best[name])} at {', '.join(chosen)}"
    caption += f" {len(data)} of {len(search.trials)} trials have finished."
    return Drawn(partial(figure, data, search), data, spec.heading, warnings(records), caption, finding=finding)


def _axis_places(ranges: Sequence[Range], values: Sequence[Any]) -> tuple[list[Any], dict[float, str]]:
    """Return the place (0 to 1) of each value on the axis of a field, and the labels of the axis by their places."""
    known = [value for value in values if value is not None]
    choices = [choice for stated in ranges for choice in stated.choices]
    if choices:
        names = list(dict.fromkeys(map(plain, [*choices, *known])))
        step = 1 / max(1, len(names) - 1)
        labels = {step * number: name for number, name in enumerate(names)}
        return [None if value is None else step * names.index(plain(value)) for value in values], labels
    low = min([stated.low for stated in ranges] + known)
    high = max([stated.high for stated in ranges] + known)
    position = math.log10 if low > 0 and all(stated.log for stated in ranges) else float
    width = position(high) - position(low) or 1.0
    places = [None if value is None else (position(value) - position(low)) / width for value in values]
    return places, {0.0: f"{low:g}", 1.0: f"{high:g}"}


def _parallel_figure(data: pd.DataFrame, search: SearchRecord, size: Size = SCREEN) -> go.Figure:
    """Draw better lines in orange above the others; a line passes over a field that its family lacks."""
    name, direction = next(iter(search.objectives.items()))
    data = data.sort_values(name, ascending=direction == "max", kind="stable")
    axes, figure, columns = ranges_of(search.space), go.Figure(), []
    words = {**short_names(axes), name: metric(name).heading}
    ends = [Range(low=data[name].min(), high=data[name].max()) if len(data) else Range(low=0.0, high=1.0)]
    for position, (path, ranges) in enumerate({**axes, name: ends}.items()):
        places, labels = _axis_places(ranges, data[path].tolist())
        columns.append(places)
        for place, label in labels.items():
            text = {"text": shown(label), "xanchor": "right", "xshift": -4, "showarrow": False}
            figure.add_annotation(**text, x=position, y=place)
    for row, heights in zip(data.to_dict("records"), zip(*columns, strict=True), strict=True):
        share = heights[-1] if direction == "max" else 1 - heights[-1]
        hover = [f"trial {row['trial']}: {score_text(name, row[name])}, {row['label']}"] * len(columns)
        line = {"color": sample_colorscale(list(SPECTRUM), share)[0]}
        trace = scatter(range(len(columns)), heights, hover, mode="lines+markers", line=line, connectgaps=True)
        figure.add_scatter(**trace, cliponaxis=False)
    titles = [folded(shown(word.replace("_", " ")), 14) for word in words.values()]
    figure.update_xaxes(tickvals=[*range(len(titles))], ticktext=titles, side="top", range=[-0.3, len(titles) - 0.7])
    figure.update_yaxes(showticklabels=False, showgrid=False, range=[-0.05, 1.05])
    return figure.update_layout(meta={"panels": 1, "axes": len(titles), "above": 50})


def _slices_figure(data: pd.DataFrame, search: SearchRecord, size: Size = SCREEN) -> go.Figure:
    """Colour points by trial number, so that a reader sees where the sampler went."""
    name, ranges = next(iter(search.objectives)), ranges_of(search.space)
    words = short_names(ranges)
    figure = small_multiples(go.Figure(), [words[path].replace("_", " ") for path in ranges], size)
    for panel, (path, stated) in enumerate(ranges.items()):
        trials, place = data[data[path].notna()], axes_at(panel)
        choices = [shown(plain(value)) for part in stated for value in part.choices]
        axis: dict[str, Any] = {"type": "log" if all(part.log for part in stated) else None}
        if choices:
            axis = {"type": "category", "categoryorder": "array", "categoryarray": list(dict.fromkeys(choices))}
        figure.update_layout({place["xaxis"].replace("x", "xaxis"): axis})
        hover = [f"trial {row['trial']}: {score_text(name, row[name])}, {row['label']}" for row in trials.to_dict("records")]
        x = [shown(plain(value)) for value in trials[path]] if choices else trials[path]
        marker = {"color": trials["trial"].tolist(), "coloraxis": "coloraxis"}
        figure.add_scatter(**scatter(x, trials[name], hover, marker=marker), **place, mode="markers")
    figure.update_yaxes(range=y_range(data[name]))
    bar = {"orientation": "h", "thickness": 10, "yref": "container", "y": 0, "yanchor": "bottom", "title": "trial"}
    return figure.update_layout(coloraxis={"colorscale": list(SPECTRUM), "colorbar": bar})
