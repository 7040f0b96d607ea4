"""What a search found: its trials, the table of the best ones by fresh seeds, and figures by trial, by field and by cost."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.caveats import caption, is_synthetic, leaky_notes, text_notes, warnings
from recstudy.analysis.cells import TableData, TableRow, cell_of
from recstudy.analysis.figures.layout import Drawn, facets
from recstudy.analysis.figures.theme import PALETTE, SCREEN, Size, scatter, shown, y_range
from recstudy.analysis.fits import spread_notes
from recstudy.analysis.frame import StudyRecords
from recstudy.errors import ConfigError
from recstudy.evidence import mean_of
from recstudy.records.plans import FAMILY, short_names
from recstudy.records.study_schema import ImportanceRecord, SearchRecord
from recstudy.report import Best, History, Importance, Pareto
from recstudy.report.names import metric, number, plural, registered

TRIAL = ["trial", "label", "family", "state", "seed", "id", "synthetic", "variant"]
MORE_IS_BETTER = ("images_per_second",)  # among the costs, which have no better direction as a measure of quality
LUCKY = (
    "Scores of fresh seeds leave out the seed that the search used: the best of many trials is also the luckiest of them "
    "(winner's curse). Of several fresh means the best is again a little lucky, so none is marked"
)
PARETO = "Rows are ordered by the first objective, those on the Pareto front before all others"


def search_of(records: StudyRecords, part: str) -> SearchRecord:
    """Return the plan's search, for the part of a report of this name.

    Raises:
        ConfigError: the study is none.
    """
    if records.plan.search is None:
        raise ConfigError(
            f"{part!r} shows a search, but {records.plan.study} is a study of given variants. Take it out of `report`, "
            "or make the study a Search."
        )
    return records.plan.search


def trial_table(records: StudyRecords, search: SearchRecord) -> pd.DataFrame:
    """Return one row a trial, by number: what `TRIAL` names, and each objective; `family` is empty where there is only one.

    An objective has a value only of a finished trial: a score at an early stop cannot be compared with those.
    """
    rows = []
    for trial in sorted(search.trials, key=lambda trial: trial.number):
        row = records.by_variant[trial.variant][0]  # the search's own run; fresh seeds come after it
        known = {"trial": trial.number, "family": trial.params.get(FAMILY, ""), "state": row.status}
        known |= {"label": row.label, "seed": row.seed, "id": row.id, "variant": row.variant}
        values = {name: row.objective(name) if row.done else None for name in search.objectives}
        rows.append(known | {"synthetic": is_synthetic(records, [trial.variant])} | values)
    table = pd.DataFrame(rows, columns=[*TRIAL, *search.objectives])
    return table.astype(dict.fromkeys(search.objectives, float))


def ranked(table: pd.DataFrame, objectives: Mapping[str, str]) -> pd.DataFrame:
    """Sort the finished trials, the best by the first objective first; of several objectives the Pareto front before the others.

    Of trials with the same settings only the first stands here.
    """
    names = list(objectives)
    finished = table.dropna(subset=names).drop_duplicates("id")
    behind = ~front(finished[names].to_numpy(), [objectives[name] for name in names]) if len(names) > 1 else False
    signed = finished[names[0]] * (-1.0 if objectives[names[0]] == "max" else 1.0)
    order = pd.DataFrame({"behind": behind, "score": signed}, index=finished.index)
    return finished.loc[order.sort_values(["behind", "score"], kind="stable").index]


def front(points: npt.NDArray[np.float64], directions: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Tell which points (N, objectives) no other is at least as good as in every objective, and better than in one."""
    costs = points * np.array([-1.0 if direction == "max" else 1.0 for direction in directions])
    worse = [bool(((costs <= point).all(axis=1) & (costs < point).any(axis=1)).any()) for point in costs]
    return ~np.array(worse, dtype=bool)


def running_best(values: Sequence[float | None] | pd.Series, direction: str) -> pd.Series:
    """Return the best of all values so far; empty until there is one."""
    known = pd.Series(values, dtype=float)
    return (known.cummax() if direction == "max" else known.cummin()).ffill()


def direction_of(name: str, objectives: Mapping[str, str]) -> str:
    """Return `max` or `min`: as the search states it, else as tables mark the best; of a cost, less is better."""
    better = metric(name).better
    if name in objectives or better:
        return objectives.get(name) or ("max" if better == "higher" else "min")
    return "min" if registered(name) and name not in MORE_IS_BETTER else "max"


def score_text(name: str, value: float) -> str:
    """Return a value with its unit: `94.1 %`, `0.35 GFLOP/image`."""
    return f"{number(name, value)} {metric(name).unit}".strip()


def best_data(records: StudyRecords, spec: Best) -> TableData:
    """Return one row a trial, the best first: each objective as the search saw it, then the metrics over the fresh seeds.

    Raises:
        ConfigError: the study is no search.
    """
    search = search_of(records, spec.name)
    order = ranked(trial_table(records, search), search.objectives).head(spec.most)
    seen = [name for name in search.objectives if name not in spec.metrics]
    variants = [int(index) for index in order["variant"]]
    rows = []
    for trial, index in zip(order["trial"], variants, strict=True):
        own = records.by_variant[index][0]
        cells = []
        for name in seen:
            value = own.objective(name)
            cells.append(cell_of(records, [index], name, [own if value is None else replace(own, added={name: value})]))
        fresh = records.by_variant[index][1:]
        planned = len(search.confirm.seeds) if index in search.confirmed else 0
        for name in spec.metrics:  # over the fresh seeds; what follows from the config alone is known without them
            one = cell_of(records, [index], name, [own, *fresh] if metric(name).computed else fresh)
            cells.append(one if metric(name).computed else replace(one, expected=max(planned, len(fresh))))
        rows.append(TableRow(f"{trial}: {records.variants[index].label}", tuple(cells)))
    heads = [f"{metric(name).heading}, in the search" for name in seen]
    heads += [metric(name).heading + ("" if metric(name).computed else ", fresh seeds") for name in spec.metrics]
    plan = search.confirm
    seeds = f"{'seeds' if plan.seeds[1:] else 'seed'} {', '.join(map(str, plan.seeds))}"
    luck = f"{LUCKY}. The best {plan.best} are run again with {seeds}"
    return TableData(
        name=spec.name,
        title=spec.heading,
        corner="trial",
        columns=tuple(heads),
        rows=tuple(rows),
        caption=caption(records, range(len(records.variants))),
        warnings=(*warnings(records), *([] if rows else ["no trial has finished yet"])),
        notes=(
            *text_notes(records, variants, spec.metrics),
            *spread_notes(records, variants, spec.metrics),
            *([PARETO] if len(search.objectives) > 1 else []),
            luck if plan.seeds else "No fresh seeds are planned, so no score here is free of luck",
        ),
    )


# ----------------------------------------------------------------------------------------------------------------------- figures
COLUMNS = ["trial", "label", "state", "objective", "value", "best", "reached", "seed", "id", "synthetic"]
LOOKS = {  # state -> how its points look, in the order of the legend
    "done": {"name": "finished", "symbol": "circle", "color": PALETTE[0]},
    "stopped": {"name": "stopped early", "symbol": "diamond-open", "color": PALETTE[4]},
    "diverged": {"name": "diverged", "symbol": "x-open", "color": PALETTE[1]},
    "failed": {"name": "failed", "symbol": "cross-open", "color": PALETTE[3]},
}
SHARES = ["objective", "method", "field", "importance", "trials"]
METHODS = {
    "PED-ANOVA": "PED-ANOVA: how far the best trials' settings stand out from all others.",
    "fANOVA": "fANOVA: how much of the objective's variance a field explains on its own.",
}
WIDE = 20  # times the least cost that the largest must be for a logarithmic axis
NAMED = 12  # points of a front whose trial numbers do not yet overlap


def draw_history(records: StudyRecords, spec: History) -> Drawn:
    data = history_data(records, spec)
    first = data[(data["objective"] == next(iter(data["objective"]), "")) & data["value"].notna()]
    best = first[first["value"] == first["best"].iloc[-1]].iloc[0] if len(first) else None
    finding = "" if best is None else f"best {score_text(best['objective'], best['value'])}, by trial {best['trial']}"
    notes, caption = warnings(records), history_caption(data)
    return Drawn(partial(history_figure, data), data, spec.heading, notes, caption, finding=finding)


def history_data(records: StudyRecords, spec: History) -> pd.DataFrame:
    """One row a trial and objective: `value` of a finished trial, `best` of those so far.

    `reached` is the score at which a trial was stopped; it stands with the first objective and counts for nothing.

    Raises:
        ConfigError: the study is no search.
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
    return pd.concat(parts, ignore_index=True)[COLUMNS]


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


def history_figure(data: pd.DataFrame, size: Size = SCREEN) -> go.Figure:
    """A panel an objective; a trial without a value stands at the bottom, marked by how it ended."""
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
        figure.update_yaxes(title=shown(metric(name).heading), range=[low - 0.06 * (high - low), high], **place)
    figure.update_xaxes(title="trial", row=max(1, len(names)), col=1)
    if 0 < data["trial"].nunique() <= 12:
        figure.update_xaxes(tick0=0, dtick=1)  # no half trials
    return figure


def _tried(row: dict[Any, Any]) -> str:
    what = LOOKS[row["state"]]["name"] if pd.isna(row["value"]) else score_text(row["objective"], row["value"])
    at = "" if pd.isna(row["reached"]) else f" at {score_text(row['objective'], row['reached'])}"
    return f"trial {row['trial']}: {what}{at}, {row['label']}"


def draw_importance(records: StudyRecords, spec: Importance) -> Drawn:
    data, notes = importance_data(records, spec), importance_notes(records, spec)
    mean = data[data["objective"] == next(iter(data["objective"]), "")].groupby("field", sort=False)["importance"].mean()
    first = str(mean.idxmax()) if len(mean) else ""
    finding = f"{short_names(map(str, mean.index))[first].replace('_', ' ')} first, {mean.max():.0%}" if first else ""
    return Drawn(partial(importance_figure, data), data, spec.heading, notes, importance_caption(data), finding=finding)


def importance_data(records: StudyRecords, spec: Importance) -> pd.DataFrame:
    """One row an objective, method and field; `importance` is a share of one, `trials` how many it rests on.

    Raises:
        ConfigError: the study is no search.
    """
    found = search_of(records, spec.name).importance or ImportanceRecord(importance={})
    rows = [
        {"objective": objective, "method": method, "field": path, "importance": share, "trials": found.trials}
        for objective, methods in found.importance.items()
        for method, shares in methods.items()
        for path, share in shares.items()
    ]
    return pd.DataFrame(rows, columns=SHARES)


def importance_notes(records: StudyRecords, spec: Importance) -> tuple[str, ...]:
    """Why there are no bars yet, or none of a method."""
    found = search_of(records, spec.name).importance
    early = ["importance is computed once enough trials have finished"] if found is None else []
    missing = found.missing.items() if found else ()
    return (*warnings(records), *early, *(f"{method} is missing: {reason}" for method, reason in missing))


def importance_caption(data: pd.DataFrame) -> str:
    """How many trials the bars rest on, and what the two methods measure."""
    if data.empty:
        return ""
    rests = f"Rests on {plural(int(data['trials'].iloc[0]), 'finished trial')}."
    return " ".join([rests, *(words for method, words in METHODS.items() if method in set(data["method"]))])


def importance_figure(data: pd.DataFrame, size: Size = SCREEN) -> go.Figure:
    """Bars of all methods side by side, the field that matters most on top; a panel an objective."""
    names = list(dict.fromkeys(data["objective"]))
    titles = [shown(metric(name).heading) for name in names] if len(names) > 1 else None
    figure = facets(len(names), 0.3, subplot_titles=titles)
    figure.update_annotations(x=0, xanchor="left", font_size=14)
    for panel, name in enumerate(names, 1):
        shares = data[data["objective"] == name]
        order = shares.groupby("field", sort=False)["importance"].mean().sort_values(kind="stable").index.tolist()
        for at, method in enumerate(dict.fromkeys(data["method"])):
            own = shares[shares["method"] == method]
            hover = [f"{method}, {one['field']}: {one['importance']:.1%}" for one in own.to_dict("records")]
            bars = scatter(own["importance"], own["field"], hover, method, legendgroup=method, showlegend=panel == 1)
            figure.add_bar(**bars, orientation="h", marker={"color": PALETTE[at]}, row=panel, col=1)
        words = short_names(order)
        ticks = [shown(words[path].replace("_", " ")) for path in order]
        axis = {"type": "category", "categoryorder": "array", "categoryarray": order, "tickvals": order, "ticktext": ticks}
        figure.update_yaxes(**axis, row=panel, col=1)
    figure.update_xaxes(range=[0, 1.02 * max(data["importance"], default=1.0)], tickformat=".0%")
    figure.update_xaxes(title="share of the importance", row=max(1, len(names)), col=1)
    return figure.update_layout(barmode="group", bargap=0.3, legend={"traceorder": "reversed"})


def draw_pareto(records: StudyRecords, spec: Pareto) -> Drawn:
    data, y = pareto_data(records, spec), y_of(records, spec)
    caption, count = pareto_caption(records, spec, data), int(data["front"].sum())
    finding = f"{count} of {len(data)} on the front" if len(data) > 1 else ""
    figure = partial(pareto_figure, data, spec, y)
    return Drawn(figure, data, spec.heading, pareto_notes(records, spec), caption, finding=finding)


def pareto_data(records: StudyRecords, spec: Pareto) -> pd.DataFrame:
    """One row a point that has both values: the variant (in a search, its trial), `x` and `y` by their names, `n` runs, `front`.

    Of a search only its own runs count, at its own seed: all points are alike. In other studies a point is a mean.

    Raises:
        ConfigError: the study is no search, and `y` is not named.
    """
    search, names = records.plan.search, (spec.x, y_of(records, spec))
    points = []
    for index in range(len(records.variants)):
        rows = [row for row in records.by_variant[index][: 1 if search else None] if row.done]
        both = [pair for row in rows if None not in (pair := [row.objective(name) for name in names])]
        means = {name: mean_of([pair[at] or 0.0 for pair in both]) if both else None for at, name in enumerate(names)}
        trial = min((one.number for one in search.trials if one.variant == index), default=None) if search else None
        known = {"trial": trial, "label": records.variants[index].label, "n": len(both)}
        points.append(known | means | {"synthetic": is_synthetic(records, [index]), "leaks": records.leaks(index)})
    columns = ["trial", "label", *names, "n", "synthetic", "leaks"]
    data = pd.DataFrame(points, columns=columns).dropna(subset=list(names))
    honest, directions = data[~data["leaks"].astype(bool)], [direction_of(name, _objectives(records)) for name in names]
    ahead = honest.index[front(honest[list(names)].to_numpy(dtype=float), directions)]
    return data.drop(columns="leaks").assign(front=data.index.isin(ahead))


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
    ahead = data[data["front"].astype(bool)].sort_values(spec.x)["label"].tolist()
    named = f", from the left: {'; '.join(ahead)}" if not objectives and 0 < len(ahead) <= NAMED // 2 else ""
    return f"One point is {point}; {count} Better: {better}. The front is what no other point beats in both{named}."


def pareto_figure(data: pd.DataFrame, spec: Pareto, y: str, size: Size = SCREEN) -> go.Figure:
    """All points, and a line through the front; a search's front carries its trial numbers."""

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
    wide = len(costs) > 0 and costs.min() > 0 and costs.max() > WIDE * costs.min()
    figure.update_xaxes(title=shown(metric(spec.x).heading), **({"type": "log", "dtick": "D2"} if wide else {}))
    return figure.update_yaxes(title=shown(metric(y).heading))


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
