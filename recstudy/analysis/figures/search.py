"""What a search found, as figures: trial by trial, by field, by cost, and every trial's settings with what they reached.

Parallel coordinates are drawn as plain lines: Plotly's own have no hover text and no line width, and of two in one figure the
second stays empty.
"""

import math
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.caveats import is_synthetic, leaky_notes, warnings
from recstudy.analysis.figures.layout import Drawn, axes_at, facets, small_multiples
from recstudy.analysis.figures.theme import (
    PALETTE,
    SCREEN,
    SPECTRUM,
    SYMBOLS,
    Size,
    above_zero,
    blend,
    folded,
    scatter,
    shown,
    whiskers,
    y_range,
)
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.search import TRIAL, direction_of, front, score_text, search_of, trial_table
from recstudy.errors import ConfigError
from recstudy.evidence import mean_of
from recstudy.records.plans import FAMILY, ranges_of, short_names
from recstudy.records.study_schema import FEWEST_TRIALS, ImportanceRecord, Range, SearchRecord
from recstudy.report import History, Importance, ParallelCoordinates, Pareto, Slices
from recstudy.report.names import metric, plain, plural

HISTORY = ["trial", "label", "state", "objective", "value", "best", "reached", "seed", "id", "synthetic"]
LOOKS = {  # state -> how its points look, in the order of the legend
    "done": {"name": "finished", "symbol": "circle", "color": PALETTE[0]},
    "stopped": {"name": "stopped early", "symbol": "diamond-open", "color": PALETTE[4]},
    "diverged": {"name": "diverged", "symbol": "x-open", "color": PALETTE[1]},
    "failed": {"name": "failed", "symbol": "cross-open", "color": PALETTE[3]},
}
SHARES = ["objective", "method", "field", "importance", "low", "high", "trials"]
METHODS = {
    "PED-ANOVA": "PED-ANOVA: how far the best trials' settings stand out from all others.",
    "fANOVA": "fANOVA: how much of the objective's variance a field explains on its own.",
}
COSTLY = 20  # times the least cost that the largest must be for a logarithmic axis
NAMED = 12  # points of a front whose trial numbers do not yet overlap
MOST = 200  # lines that do not yet cover each other


def draw_history(records: StudyRecords, spec: History) -> Drawn:
    """Draw each objective of the trials: `value` of a finished one, `best` of those so far.

    `reached` is the score at which a trial was stopped; it stands with the first objective and counts for nothing.
    """
    search = search_of(records, spec.name)
    table = trial_table(records, search)
    first = next(iter(search.objectives))
    stopped = [records.by_variant[int(index)][0].stopped for index in table["variant"]]
    reached = pd.Series([one.score if one else None for one in stopped], index=table.index, dtype=float)
    parts = []
    for name, direction in search.objectives.items():
        own = table.assign(objective=name, value=table[name], best=running_best(table[name], direction))
        parts.append(own.assign(reached=reached if name == first else float("nan")))
    data = pd.concat(parts, ignore_index=True)[HISTORY]
    known = data[(data["objective"] == first) & data["value"].notna()]
    best = known[known["value"] == known["best"].iloc[-1]].iloc[0] if len(known) else None
    finding = "" if best is None else f"best {score_text(first, best['value'])}, by trial {best['trial']}"
    waiting, ended = int(table["state"].isin(["unfinished", "not run"]).sum()), data[data["state"].isin(LOOKS)]
    early = " A trial stopped early stands at the score it had reached, which does not count."
    early *= bool(ended["reached"].notna().any())
    lost = " At the bottom: trials without a value." * bool((ended["value"].isna() & ended["reached"].isna()).any())
    left = f" Not drawn: {plural(waiting, 'trial')} not finished yet." if waiting else ""
    caption = f"Line: the best of the finished trials so far.{early}{lost}{left}"
    return Drawn(partial(_history_figure, data), data, spec.heading, warnings(records), caption, finding=finding)


def running_best(values: Sequence[float | None] | pd.Series, direction: str) -> pd.Series:
    """Return the best of all values so far; empty until there is one."""
    known = pd.Series(values, dtype=float)
    return (known.cummax() if direction == "max" else known.cummin()).ffill()


def _history_figure(data: pd.DataFrame, size: Size = SCREEN) -> go.Figure:
    """Draw a panel an objective; a trial without a value stands at the bottom, marked by how it ended."""
    names = list(dict.fromkeys(data["objective"]))
    figure = facets(len(names), 0.1, shared_xaxes=True)
    said: set[str] = set()  # states that the legend has
    for panel, name in enumerate(names, 1):
        own, place = data[data["objective"] == name], {"row": panel, "col": 1}
        low, high = y_range(own["value"], own["reached"]) or (0.0, 1.0)
        best = own[own["best"].notna()]
        steps = scatter(best["trial"], best["best"], name="best so far", legendgroup="best so far", showlegend=panel == 1)
        figure.add_scatter(**steps, mode="lines", line={"shape": "hv", "color": PALETTE[2], "width": 2}, **place)
        for state, look in LOOKS.items():
            some = own[own["state"] == state]
            if some.empty:
                continue
            y, hover = some["value"].fillna(some["reached"]).fillna(low), map(_tried, some.to_dict("records"))
            points = scatter(some["trial"], y, hover, look["name"], legendgroup=look["name"], showlegend=state not in said)
            marker = {"symbol": look["symbol"], "color": look["color"], "size": 9}
            marker |= {"line": {"width": 1.5, "color": look["color"]}}
            figure.add_scatter(**points, mode="markers", marker=marker, cliponaxis=False, **place)
            said.add(state)
        begin = above_zero(low, low - 0.06 * (high - low))
        figure.update_yaxes(title=shown(metric(name).heading), range=[begin, high], **place)
    figure.update_xaxes(title="trial", row=max(1, len(names)), col=1)
    if 0 < data["trial"].nunique() <= 12:
        figure.update_xaxes(tick0=0, dtick=1)  # no half trials
    return figure


def _tried(row: dict[Any, Any]) -> str:
    what = LOOKS[row["state"]]["name"] if pd.isna(row["value"]) else score_text(row["objective"], row["value"])
    at = "" if pd.isna(row["reached"]) else f" at {score_text(row['objective'], row['reached'])}"
    return f"trial {row['trial']}: {what}{at}, {row['label']}"


def draw_importance(records: StudyRecords, spec: Importance) -> Drawn:
    """Draw how much each field matters: `importance` is a share of one with its interval, `trials` how many it rests on."""
    told = search_of(records, spec.name).importance
    found = told or ImportanceRecord(importance={})
    few = f"too few trials: {found.trials} finished, and the importance of a field takes {FEWEST_TRIALS}"
    rows = [
        {"objective": objective, "method": method, "field": path, "importance": share, "low": low, "high": high}
        for objective, methods in found.importance.items()
        for method, shares in methods.items()
        for path, share in shares.items()
        for low, high in [found.intervals.get(objective, {}).get(method, {}).get(path, (None, None))]
        if found.trials >= FEWEST_TRIALS
    ]
    data = pd.DataFrame(rows, columns=SHARES[:-1]).assign(trials=found.trials)
    early = ["importance is computed once enough trials have finished"] if told is None else []
    early += [few] if told is not None and found.trials < FEWEST_TRIALS else []
    known = bool(data["low"].notna().any())
    early += [] if known or not rows else ["no intervals: the search's command adds them, and trains nothing for it"]
    absent = [f"{method} is missing: {reason}" for method, reason in found.missing.items() if found.trials >= FEWEST_TRIALS]
    caption = finding = ""
    if rows:
        finding = _first(data[data["objective"] == rows[0]["objective"]])
        rests = f"Rests on {plural(int(found.trials), 'finished trial')}{'; whiskers: 95 % intervals over the trials' * known}."
        caption = " ".join([rests, *(words for method, words in METHODS.items() if method in set(data["method"]))])
    notes = (*warnings(records), *early, *absent)
    return Drawn(partial(_importance_figure, data), data, spec.heading, notes, caption, finding=finding)


def _first(shares: pd.DataFrame) -> str:
    """Say which field matters most by the mean of the methods, or that intervals of others reach as high."""
    mean = shares.groupby("field", sort=False)["importance"].mean()
    first = str(mean.idxmax())
    for _, own in shares.groupby("method", sort=False):
        others = own.loc[own["field"] != first, "high"].max()
        if not own.loc[own["field"] == first, "low"].max() > others and pd.notna(others):
            return "no field stands out from all others"
    return f"{short_names(map(str, mean.index))[first].replace('_', ' ')} first, {mean.max():.0%}"


def _importance_figure(data: pd.DataFrame, size: Size = SCREEN) -> go.Figure:
    """Draw bars of all methods side by side, the field that matters most on top; a panel an objective."""
    names = list(dict.fromkeys(data["objective"]))
    titles = [shown(metric(name).heading) for name in names] if len(names) > 1 else None
    figure = facets(len(names), 0.3, subplot_titles=titles)
    figure.update_annotations(x=0, xanchor="left", font_size=14)
    for panel, name in enumerate(names, 1):
        shares = data[data["objective"] == name]
        order = shares.groupby("field", sort=False)["importance"].mean().sort_values(kind="stable").index.tolist()
        for at, method in enumerate(dict.fromkeys(data["method"])):
            own = shares[shares["method"] == method]
            hover = [f"{method}, {one['field']}: {one['importance']:.1%}{_reach(one)}" for one in own.to_dict("records")]
            bars = scatter(own["importance"], own["field"], hover, method, legendgroup=method, showlegend=panel == 1)
            ends = [own[end].fillna(own["importance"]).astype(float) for end in ("low", "high")]
            error = whiskers(own["importance"], *ends, thickness=1.5, width=4, visible=bool(own["low"].notna().any()))
            figure.add_bar(**bars, orientation="h", marker={"color": PALETTE[at]}, error_x=error, row=panel, col=1)
        words = short_names(order)
        ticks = [shown(words[path].replace("_", " ")) for path in order]
        axis = {"type": "category", "categoryorder": "array", "categoryarray": order, "tickvals": order, "ticktext": ticks}
        figure.update_yaxes(**axis, row=panel, col=1)
    most = max([*data["importance"], *data["high"].dropna()], default=1.0)
    figure.update_xaxes(range=[0, 1.02 * most], tickformat=".0%")
    figure.update_xaxes(title="share of the importance", row=max(1, len(names)), col=1)
    return figure.update_layout(barmode="group", bargap=0.3, legend={"traceorder": "reversed"})


def _reach(share: dict[Hashable, Any]) -> str:
    return f" [{share['low']:.1%}, {share['high']:.1%}]" if pd.notna(share["low"]) else ""


def draw_pareto(records: StudyRecords, spec: Pareto) -> Drawn:
    """Draw the points that have both values, `n` runs each: of a search its trials at its own seed, else means of variants.

    Raises:
        ConfigError: the study is no search, and `y` is not named.
    """
    search = records.plan.search
    objectives = search.objectives if search else {}
    if spec.y is None and search is None:
        raise ConfigError(f"{spec.name!r} needs y: {records.plan.study} is no search, whose first objective it could show")
    y = spec.y or next(iter(objectives))
    names, points = (spec.x, y), []
    for index in range(len(records.variants)):
        rows = [row for row in records.by_variant[index][: 1 if search else None] if row.done]
        both = [pair for row in rows if None not in (pair := [row.objective(name) for name in names])]
        means = {name: mean_of([pair[at] or 0.0 for pair in both]) if both else None for at, name in enumerate(names)}
        trial = min((one.number for one in search.trials if one.variant == index), default=None) if search else None
        known = {"trial": trial, "label": records.variants[index].label, "n": len(both)}
        points.append(known | means | {"synthetic": is_synthetic(records, [index]), "leaks": records.leaks(index)})
    data = pd.DataFrame(points, columns=["trial", "label", *names, "n", "synthetic", "leaks"]).dropna(subset=list(names))
    honest, directions = data[~data["leaks"].astype(bool)], [direction_of(name, objectives) for name in names]
    ahead = honest.index[front(honest[list(names)].to_numpy(dtype=float), directions)]
    data = data.drop(columns="leaks").assign(front=data.index.isin(ahead))
    finished = [row for row in records.rows if row.done]
    absent = [name for name in names if finished and all(row.objective(name) is None for row in finished)]
    leaky = leaky_notes(records, range(len(records.variants)))
    notes = (*warnings(records), *leaky, *(f"no run recorded a metric {name!r}" for name in absent))
    better = f"{'up' if directions[1] == 'max' else 'down'} and to the {'right' if directions[0] == 'max' else 'left'}"
    point = "a finished trial, at the search's one seed" if objectives else "a variant, the mean of its finished runs"
    count = f"{len(data)} of {plural(len(records.variants), 'trial' if objectives else 'variant')} drawn."
    best = data[data["front"].astype(bool)].sort_values(spec.x)["label"].tolist()
    named = f", from the left: {'; '.join(best)}" if not objectives and 0 < len(best) <= NAMED // 2 else ""
    caption = f"One point is {point}; {count} Better: {better}. The front is what no other point beats in both{named}."
    finding = f"{len(best)} of {len(data)} on the front" if len(data) > 1 else ""
    return Drawn(partial(_pareto_figure, data, spec, y), data, spec.heading, notes, caption, finding=finding)


def _pareto_figure(data: pd.DataFrame, spec: Pareto, y: str, size: Size = SCREEN) -> go.Figure:
    """Draw all points, and a line through the front; a search's front carries its trial numbers."""

    def paid(row: dict[Any, Any]) -> str:
        who = f"trial {row['trial']:.0f}, " if pd.notna(row["trial"]) else ""
        return f"{who}{row['label']}: {score_text(y, row[y])}, {score_text(spec.x, row[spec.x])} (n={row['n']})"

    figure, ahead = go.Figure(), data["front"].astype(bool)
    best = data[ahead].sort_values(spec.x)
    named = best["trial"].notna().all() and len(best) <= NAMED
    words = {"text": [f"{trial:.0f}" for trial in best["trial"]], "textposition": "top center"} if named else {}
    mode = "lines+markers+text" if named else "lines+markers"
    others: tuple[Any, ...] = ("others", data[~ahead], {"mode": "markers"}, PALETTE[0], "circle")
    for name, points, look, color, symbol in (others, ("front", best, {"mode": mode, **words}, PALETTE[1], "diamond")):
        hover = map(paid, points.to_dict("records"))
        marker = {"size": 9, "color": color, "symbol": symbol}
        trace = scatter(points[spec.x], points[y], hover, name, marker=marker, line={"color": color}, cliponaxis=False)
        figure.add_scatter(**trace, **look)
    costs = data[spec.x].astype(float)
    wide = len(costs) > 0 and costs.min() > 0 and costs.max() > COSTLY * costs.min()
    across = {"type": "log", "dtick": "D2"} if wide else {"range": y_range(costs)}
    figure.update_xaxes(title=shown(metric(spec.x).heading), **across)
    return figure.update_yaxes(title=shown(metric(y).heading), range=y_range(data[y].astype(float)))


# ------------------------------------------------------------------------------------------------------ every trial's settings


def draw_parallel_coordinates(records: StudyRecords, spec: ParallelCoordinates) -> Drawn:
    """Draw a line a finished trial through its settings to what it reached."""
    search = search_of(records, spec.name)
    data, finding = _settings(records, search)
    cut = f" Drawn are the {MOST} best." if len(data) > MOST else ""
    finished = f"{len(data)} of {len(search.trials)} trials have finished."
    caption = f"One line per finished trial, to what it reached; orange is better. {finished}{cut}"
    figure = partial(_parallel_figure, data, search)
    return Drawn(figure, data, spec.heading, warnings(records), caption, finding=finding)


def draw_slices(records: StudyRecords, spec: Slices) -> Drawn:
    """Draw the first objective of every finished trial against each field."""
    search = search_of(records, spec.name)
    data, finding = _settings(records, search)
    families = list(search.space)
    symbols = f" Symbols: {', '.join(f'{family} {_symbol(search, family)}' for family in families)}." if families[1:] else ""
    goal = metric(next(iter(search.objectives))).heading
    points = "One point per finished trial: early ones blue, late ones orange"
    caption = f"Upwards: {goal}. {points}. {len(data)} of {len(search.trials)} trials have finished.{symbols}"
    return Drawn(partial(_slices_figure, data, search), data, spec.heading, warnings(records), caption, finding=finding)


def _settings(records: StudyRecords, search: SearchRecord) -> tuple[pd.DataFrame, str]:
    """Return a row a finished trial, its settings by field (empty where its family has no such field), then the first objective;
    and which settings are best."""
    name, direction = next(iter(search.objectives.items()))
    table = trial_table(records, search).dropna(subset=[name]).reset_index(drop=True)
    params = {trial.number: trial.params for trial in search.trials}
    words = short_names(path for ranges in search.space.values() for path in ranges)
    fields = {path: pd.Series([params[number].get(path) for number in table["trial"]], dtype=object) for path in words}
    data = pd.concat([table[TRIAL], pd.DataFrame(fields), table[[name]]], axis=1)
    if data.empty:
        return data, ""
    best = data.sort_values(name, ascending=direction == "max", kind="stable").iloc[-1]
    chosen = [f"{words[path].replace('_', ' ')} {plain(best[path])}" for path in words if best[path] is not None]
    return data, f"best {score_text(name, best[name])} at {', '.join(chosen)}"


def _symbol(search: SearchRecord, family: str) -> str:
    """Return the symbol of a family, which is empty in a search that has only one."""
    families = list(search.space)
    return SYMBOLS[families.index(family) % len(SYMBOLS) if family in families else 0]


def field_heights(stated: Range, values: Sequence[Any]) -> tuple[list[float], dict[float, str]]:
    """Return the height (0 to 1) of each value on the axis of a field, and the axis's labels by their heights."""
    if stated.choices:
        names = list(dict.fromkeys(map(plain, [*stated.choices, *values])))
        step = 1 / max(1, len(names) - 1)
        return [step * names.index(plain(value)) for value in values], {step * n: name for n, name in enumerate(names)}
    low, high = min([stated.low, *values]), max([stated.high, *values])
    position = math.log10 if stated.log and low > 0 else float
    width = position(high) - position(low) or 1.0
    return [(position(value) - position(low)) / width for value in values], {0.0: f"{low:g}", 1.0: f"{high:g}"}


def _parallel_figure(data: pd.DataFrame, search: SearchRecord, size: Size = SCREEN) -> go.Figure:
    """Draw a panel for each family, and a line for each trial. Better lines are orange and lie above the others."""
    name, direction = next(iter(search.objectives.items()))
    kept = data.sort_values(name, ascending=direction == "max", kind="stable").tail(MOST)  # the best is drawn last
    families = [family for family in search.space if (kept["family"] == family).any()] or [""]
    low, high = (float(kept[name].min()), float(kept[name].max())) if len(kept) else (0.0, 1.0)
    figure = facets(len(families), 0.25)
    for panel, family in enumerate(families, 1):
        trials = kept[kept["family"] == family]
        axes = search.space[family or next(iter(search.space))] | {name: Range(low=low, high=high)}
        place = {"row": panel, "col": 1}
        heights, words = {}, short_names(path for path in axes if path != name)
        for position, (path, stated) in enumerate(axes.items()):
            heights[path], labels = field_heights(stated, trials[path].tolist())
            for height, label in labels.items():
                figure.add_annotation(
                    text=shown(label), x=position, y=height, xanchor="right", xshift=-4, showarrow=False, **place
                )
        for number, row in enumerate(trials.to_dict("records")):
            share = heights[name][number]
            hover = [f"trial {row['trial']}: {score_text(name, row[name])}, {path} = {plain(row[path])}" for path in axes]
            line = {"color": blend(share if direction == "max" else 1 - share), "width": 1.8}
            trace = scatter(range(len(axes)), [heights[path][number] for path in axes], hover, line=line)
            figure.add_scatter(**trace, mode="lines+markers", marker={"size": 5}, cliponaxis=False, **place)
        titles = [metric(name).heading if path == name else words[path].replace("_", " ") for path in axes]
        ticks = {
            "tickmode": "array",
            "tickvals": list(range(len(axes))),
            "ticktext": [folded(shown(title), 14) for title in titles],
        }
        figure.update_xaxes(**ticks, side="top", showgrid=True, range=[-0.3, len(axes) - 0.7], **place)
        figure.update_yaxes(title=shown(family), range=[-0.05, 1.05], showticklabels=False, showgrid=False, **place)
    figure.update_yaxes(ticks="", showline=False).update_xaxes(ticks="", showline=False)
    most = max(map(len, search.space.values())) + 1
    return figure.update_layout(meta={"panels": len(families), "axes": most, "above": 50})


def _slices_figure(data: pd.DataFrame, search: SearchRecord, size: Size = SCREEN) -> go.Figure:
    """Colour points by trial number, so that a reader sees where the sampler went; each family has its symbol."""
    name, ranges = next(iter(search.objectives)), ranges_of(search.space)
    words = short_names(ranges)
    figure = small_multiples(go.Figure(), [words[path].replace("_", " ") for path in ranges], size)
    for panel, (path, stated) in enumerate(ranges.items()):
        trials = data[data[path].notna()]
        is_choice, is_log = any(part.choices for part in stated), all(part.log for part in stated)
        axis: dict[str, Any] = {"type": "log" if is_log and not is_choice else None}
        if is_choice:
            order = dict.fromkeys(shown(plain(value)) for part in stated for value in part.choices)
            axis = {"type": "category", "categoryorder": "array", "categoryarray": list(order)}
        figure.update_layout({axes_at(panel)["xaxis"].replace("x", "xaxis"): axis})
        for family, points in trials.groupby(FAMILY, sort=False):
            hover = [
                f"trial {row['trial']}: {score_text(name, row[name])} at {plain(row[path])}, {row['label']}"
                for row in points.to_dict("records")
            ]
            x = [shown(plain(value)) for value in points[path]] if is_choice else points[path]
            marker = {"symbol": _symbol(search, str(family)), "color": points["trial"].tolist(), "coloraxis": "coloraxis"}
            figure.add_scatter(**scatter(x, points[name], hover, marker=marker), **axes_at(panel), mode="markers")
    figure.update_yaxes(range=y_range(data[name]))
    bar = {"orientation": "h", "thickness": 10, "yref": "container", "y": 0, "yanchor": "bottom", "title": "trial"}
    return figure.update_layout(coloraxis={"colorscale": list(SPECTRUM), "colorbar": bar})
