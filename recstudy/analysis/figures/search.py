"""What a search found, as figures: trial by trial, by field, by cost, and every trial's settings with what they reached.

Parallel coordinates are drawn as plain lines: Plotly's own have no hover text and no line width, and of two in one figure the
second stays empty.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.caveats import is_synthetic, leaky_notes, warnings
from recstudy.analysis.figures.layout import Drawn, axes_at, beside, facets, small_multiples
from recstudy.analysis.figures.theme import (
    CELL,
    GRID,
    PALETTE,
    SCREEN,
    SMALL,
    SPECTRUM,
    STEPS,
    SYMBOLS,
    Size,
    above_zero,
    blend,
    folded,
    log_ticks,
    scatter,
    shown,
    whiskers,
    y_range,
)
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.search import TRIAL, direction_of, front, score_text, search_of, trial_table
from recstudy.errors import ConfigError
from recstudy.evidence import mean_of
from recstudy.records import Json
from recstudy.records.plans import FAMILY, ranges_of, short_names
from recstudy.records.study_schema import FEWEST_TRIALS, ImportanceRecord, Range, SearchRecord
from recstudy.report import History, Importance, ParallelCoordinates, Pareto, Slices
from recstudy.report.names import metric, plain, plural, same

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
LETTERS = 14  # in a line of an axis's name
BESIDE = 80, 70  # pixels beside the first and the last axis, as layout.dress leaves them
FEW = 12  # trials, of which none stands between two
WHOLE = 10  # whole numbers that can each have a tick


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


@dataclass(frozen=True)
class FieldScale:
    """Where a field's values stand: `ticks` is position -> words, `ends` the lowest and highest position."""

    ends: tuple[float, float]
    ticks: dict[float, str]
    log: bool = False
    choices: tuple[Any, ...] = ()

    def at(self, value: Any) -> float:
        """Return the position of a value: its rank among the choices, its logarithm, or itself."""
        if self.choices:
            return float(next(at for at, other in enumerate(self.choices) if same(value, other)))
        return math.log10(value) if self.log else float(value)

    def height(self, value: Any) -> float:
        """Return how far up a value stands, from 0 to 1."""
        return (self.at(value) - self.ends[0]) / (self.ends[1] - self.ends[0])

    @property
    def axis(self) -> Json:
        """Describe a Plotly axis with a little space at both ends."""
        space = 0.5 if self.choices else 0.06 * (self.ends[1] - self.ends[0])
        ticks = {"tickmode": "array", "tickvals": list(self.ticks), "ticktext": list(self.ticks.values())}
        low = self.ends[0] - space
        begin = low if self.choices or self.log else above_zero(self.ends[0], low)
        return {"range": [begin, self.ends[1] + space], **ticks}


def scale(ranges: Iterable[Range], values: Iterable[Any]) -> FieldScale:
    """Return the axis of a field that families search in these `ranges`, and whose trials have these `values`."""
    stated, seen = list(ranges), list(values)
    if any(one.choices for one in stated):
        known: list[Any] = []
        for value in [*(value for one in stated for value in one.choices), *seen]:
            if not any(same(value, other) for other in known):
                known.append(value)
        ends = (0.0, float(len(known) - 1)) if len(known) > 1 else (-0.5, 0.5)
        return FieldScale(ends, {float(at): shown(plain(value)) for at, value in enumerate(known)}, choices=tuple(known))
    low, high = min([*seen, *(one.low for one in stated)]), max([*seen, *(one.high for one in stated)])
    if low == high:
        return FieldScale((low - 1, low + 1), {float(low): plain(low)})
    if low > 0 and all(one.log for one in stated):
        ticks = {math.log10(tick): f"{tick:g}" for tick in log_ticks(low, high)}
        return FieldScale((math.log10(low), math.log10(high)), ticks, log=True)
    whole = all(isinstance(value, int) for value in (low, high, *seen))
    return FieldScale((low, high), {float(tick): f"{tick:g}" for tick in _ticks(low, high, whole)})


def _ticks(low: float, high: float, whole: bool) -> list[float]:
    """Return every whole number where there are few, else round steps of which three to seven fit."""
    if whole and high - low < WHOLE:
        return [float(value) for value in range(int(low), int(high) + 1)]
    rough = (high - low) / 5
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(step * decade for step in (*STEPS, 10) if step * decade >= rough)
    return [round(step * count, 12) for count in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def _parallel_figure(data: pd.DataFrame, search: SearchRecord, size: Size = SCREEN) -> go.Figure:
    """Draw a panel a family. Better lines are orange and lie above the others."""
    name, direction = next(iter(search.objectives.items()))
    kept = data.sort_values(name, ascending=direction == "max", kind="stable").tail(MOST)  # the best is drawn last
    families = [family for family in search.space if (kept["family"] == family).any()] or [""]
    low, high = (float(kept[name].min()), float(kept[name].max())) if len(kept) else (0.0, 1.0)
    goal = scale([Range(low=low, high=high)], [])
    figure = facets(len(families), 0.25)
    above = [0]
    for panel, family in enumerate(families, 1):
        trials = kept[kept["family"] == family]
        ranges = search.space[family or next(iter(search.space))]
        axes = {path: scale([stated], trials[path]) for path, stated in ranges.items()} | {name: goal}
        for row in trials.to_dict("records"):
            share, told = goal.height(row[name]), f"trial {row['trial']}: {score_text(name, row[name])}"
            heights = [axis.height(row[path]) for path, axis in axes.items()]
            hover = [told if path == name else f"{told}, {path} = {plain(row[path])}" for path in axes]
            line = {"color": blend(share if direction == "max" else 1 - share), "width": 1.8}
            trace = scatter(range(len(axes)), heights, hover, mode="lines+markers", line=line, marker={"size": 5})
            figure.add_scatter(**trace, cliponaxis=False, row=panel, col=1)
        above.append(_name_axes(figure, axes, name, panel, size))
        figure.update_yaxes(title=shown(family), row=panel, col=1)
    figure.update_yaxes(range=[-0.03, 1.03], showticklabels=False, showgrid=False, ticks="", showline=False)
    figure.update_xaxes(showline=False, ticks="")
    most, height = max(map(len, search.space.values())) + 1, max(above) + 8 if size.printed else 50
    return figure.update_layout(meta={"panels": len(families), "axes": most, "above": height})


def _name_axes(figure: go.Figure, axes: dict[str, FieldScale], name: str, panel: int, size: Size) -> int:
    """Write the axes' names above them, their ticks to the left, of the last one to the right; return the height of the names."""
    words = short_names(path for path in axes if path != name)
    titles = [words[path].replace("_", " ") if path != name else metric(name).heading for path in axes]
    heads, angle, height = [folded(shown(title), LETTERS) for title in titles], 0, 0
    if size.printed:
        room = min(2 * BESIDE[1], (size.width - sum(BESIDE)) / max(1, len(axes) - 1))
        heads, angle, height = beside(list(map(shown, titles)), room)
    ticks = {"tickmode": "array", "tickvals": list(range(len(axes))), "ticktext": heads, "tickangle": angle}
    look = {"tickfont": {"size": 12}, "side": "top", "range": [-0.01, len(axes) - 0.99]}
    figure.update_xaxes(**ticks, **look, showgrid=True, gridcolor=GRID, gridwidth=2, row=panel, col=1)
    for at, (path, axis) in enumerate(axes.items()):
        low, high = axis.ends
        side = {"xanchor": "left", "xshift": 6} if path == name else {"xanchor": "right", "xshift": -4}
        for position, text in axis.ticks.items():
            figure.add_annotation(
                text=text, showarrow=False, font={"size": 11}, bgcolor="rgba(255,255,255,0.75)", **side,
                x=at, y=(position - low) / (high - low), row=panel, col=1,
            )  # fmt: skip
    return height


def _slices_figure(data: pd.DataFrame, search: SearchRecord, size: Size = SCREEN) -> go.Figure:
    """Colour points by trial number, so that a reader sees where the sampler went; a symbol for each family."""
    name, ranges = next(iter(search.objectives)), ranges_of(search.space)
    words = short_names(ranges)
    figure = small_multiples(go.Figure(), [words[path].replace("_", " ") for path in ranges], size)
    for at, (path, stated) in enumerate(ranges.items()):
        trials = data[data[path].notna()]
        axis = scale(stated, trials[path])
        figure.update_layout({axes_at(at)["xaxis"].replace("x", "xaxis"): axis.axis})
        for family, points in trials.groupby(FAMILY, sort=False):
            hover = [
                f"trial {row['trial']}: {score_text(name, row[name])} at {plain(row[path])}, {row['label']}"
                for row in points.to_dict("records")
            ]
            marker = {"symbol": _symbol(search, str(family)), "size": 8, "color": points["trial"].tolist()}
            trace = scatter(map(axis.at, points[path]), points[name], hover, marker={**marker, "coloraxis": "coloraxis"})
            figure.add_scatter(**trace, **axes_at(at), mode="markers")
    figure.update_yaxes(range=y_range(data[name]))
    bar = {"orientation": "h", "thickness": 10, "yref": "container", "y": 0, "yanchor": "bottom", "title": "trial"}
    bar |= {"tickformat": "d", **({"dtick": 1} if data["trial"].nunique() <= FEW else {})}
    figure.update_layout(coloraxis={"colorscale": list(SPECTRUM), "colorbar": bar})
    if size.printed:
        top_left = {"x": 0, "y": 1, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
        upwards = f"Upwards: {shown(metric(name).heading)}"
        figure.add_annotation(text=upwards, font={"size": SMALL}, showarrow=False, **top_left)
        figure.update_xaxes(tickfont={"size": CELL}).update_yaxes(tickfont={"size": CELL})
    return figure
