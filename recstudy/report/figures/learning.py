"""How training went: learning curves (mean over the seeds, range between them) and the loss of single updates.

The loss stands as in Figures 1, 3 and 5 of 004: light where it was recorded, its moving average dark.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from recstudy.records import LossLine, read_log
from recstudy.report.caveats import some, warnings
from recstudy.report.figure_fields import LearningCurves, LossTrace
from recstudy.report.figures.layout import Drawn, along, facets
from recstudy.report.figures.theme import SCREEN, Size, band, bounded, brief, marked, scatter, shown, style, tint
from recstudy.report.names import inline, metric, number, plural, registered
from recstudy.report.rows import Row
from recstudy.report.study_records import StudyRecords
from recstudy.report.variants import MOST, add_labels, cut_note, shown_variants

BAND = 3  # seeds from which on the range between them is drawn
COLUMNS = ["variant", "label", "metric", "epoch", "mean", "low", "high", "n", "average", "selected", "synthetic"]
PANELS = 6  # of values that a user's own program reported
POINTS = 40_000  # of a whole figure of losses, about 1 MB in its page
TRACE = 2_000  # of one variant: three for each point of a printed figure's width
LOSS = ["variant", "label", "seed", "update", "loss", "average", "synthetic"]


def draw_learning_curves(records: StudyRecords, spec: LearningCurves) -> Drawn:
    """Draw a panel a metric; the finding says where the first score, or else the first metric, ends over the variants."""
    data, finding = learning_data(records, spec), ""
    spec = spec if spec.metrics else replace(spec, metrics=tuple(dict.fromkeys(data["metric"])))
    if shown := [name for name in spec.metrics if name in set(data["metric"])]:
        name = next((one for one in shown if one.startswith("selection_")), shown[0])
        last = data[data["metric"] == name].sort_values(axis_of(data)).groupby("variant")["mean"].last()
        ends = " to ".join(dict.fromkeys(number(name, value) for value in (last.min(), last.max())))
        finding = f"{'selection ' * name.startswith('selection_')}{inline(name.removeprefix('selection_'))} ends at {ends}"
        finding = f"{finding} {metric(name).unit}".strip()
    notes, caption = learning_notes(records, spec, data), learning_caption(data, spec)
    return Drawn(partial(learning_figure, data, spec), data, spec.heading, notes, caption, finding=finding)


def learning_data(records: StudyRecords, spec: LearningCurves) -> pd.DataFrame:
    """Return a row a variant, metric and epoch: `mean`, `low` and `high` (smallest and largest seed) and `n` seeds; `selected` of
    them have selected it.

    `average` is the mean over the `window` epochs around it; without a window the mean itself.
    Only the `MOST` best variants are read (`shown_variants`).
    """
    frame = records.epochs(shown_variants(records))
    parts = []
    reported = [str(name) for name in frame if name not in ("variant", "seed", "id", "epoch", "seconds")][:PANELS]
    for name in (name for name in spec.metrics or reported if name in frame and frame[name].notna().any()):
        grouped = frame.dropna(subset=[name]).groupby(["variant", "epoch"], sort=True)[name]
        table = grouped.agg(["mean", "min", "max", "count"]).reset_index()
        rolled = table.groupby("variant")["mean"].rolling(spec.window, min_periods=1, center=True).mean()
        named = table.rename(columns={"min": "low", "max": "high", "count": "n"})
        parts.append(named.assign(metric=name, average=rolled.reset_index(level=0, drop=True)))
    if not parts:
        return pd.DataFrame(columns=COLUMNS)
    chosen = Counter((row.variant, row.selected.number) for row in records.rows if row.done)
    data = pd.concat(parts, ignore_index=True)
    data["selected"] = [chosen[place] for place in zip(data["variant"], data["epoch"], strict=True)]
    data = add_labels(records, data)[COLUMNS]
    return data.rename(columns={"epoch": "step"}) if records.is_own else data


def axis_of(data: pd.DataFrame) -> str:
    """Return what the lines of a log are called: the steps of a user's own program, else epochs."""
    return "step" if "step" in data else "epoch"


def learning_notes(records: StudyRecords, spec: LearningCurves, data: pd.DataFrame) -> tuple[str, ...]:
    """Say what a reader must know before the curves: a metric that nothing calls by that name may be misspelt, and the logs that
    lack epochs were damaged by a crash or a disk."""
    unknown = [] if data.empty else [name for name in spec.metrics if not registered(name) and name not in set(data["metric"])]
    absent = [f"no run recorded a metric {name!r}" for name in unknown]
    lost = [(row, row.provenance.lost_epochs) for row in records.rows if row.provenance.lost_epochs]
    named = [f"{row.label}, seed {row.seed} ({plural(count, 'epoch')})" for row, count in lost]
    damaged = [f"damaged logs, so that epochs are missing: {some(named)}"] if named else []
    return (*warnings(records), *cut_note(records, len(records.variants)), *damaged, *absent)


def learning_caption(data: pd.DataFrame, spec: LearningCurves) -> str:
    """Say what is light and what is dark, where anything is, and what a circle is."""
    _, alike = brief(list(dict.fromkeys(data["label"])))
    circled = data["metric"].str.startswith("selection_") & (data["selected"].fillna(0).astype(float) > 0)
    several = bool((data["n"].fillna(0).astype(int) > 1).any())
    said = {
        "Lines: means over seeds; shaded: the range between them": several,
        f"All variants: {alike}": bool(alike),
        f"Light: each {axis_of(data)}. Dark: moving average, centred, over {spec.window} {axis_of(data)}s": spec.window > 1,
        "Circles: the epochs that were selected": bool(circled.any()),
    }
    return ". ".join(words for words, needed in said.items() if needed)


def learning_figure(data: pd.DataFrame, spec: LearningCurves, size: Size = SCREEN) -> go.Figure:
    """Draw one panel a metric that was recorded; a click on a name in the legend hides or shows that variant in all of them."""
    metrics = [name for name in spec.metrics if name in set(data["metric"])]
    labels = dict(zip(data["variant"], data["label"], strict=True))
    names = dict(zip(labels, brief(list(labels.values()))[0], strict=True))
    figure = facets(len(metrics), 0.1, shared_xaxes=True)
    for panel, name in enumerate(metrics, 1):
        for variant, points in data[data["metric"] == name].groupby("variant", sort=False):
            for trace in _traces(points, spec.window, names[variant]):
                figure.add_scatter(**{"showlegend": panel == 1, **trace}, row=panel, col=1)
        figure.update_yaxes(title=shown(metric(name).heading), **bounded(name), row=panel, col=1)
    axis = axis_of(data)
    figure.update_xaxes(title=axis, row=max(1, len(metrics)), col=1)
    if 0 < data[axis].nunique() <= 12 and (axis == "epoch" or data[axis].max() <= 12):
        figure.update_xaxes(tick0=1, dtick=1)  # no half epochs
    return along(figure, axis)


def _traces(points: pd.DataFrame, window: int, name: str) -> list[dict[str, Any]]:
    """Draw of one variant and metric the range over seeds, the line, and where epochs were selected, on the curve that they were
    selected by."""
    axis = axis_of(points)
    variant, label, epochs = int(points["variant"].iloc[0]), str(points["label"].iloc[0]), points[axis].tolist()
    rows, look, found = points.to_dict("records"), style(variant), list[dict[str, Any]]()
    if (points["n"] >= BAND).any():
        found.append(band(epochs, points, tint(look["color"], 0.12)))
    if window > 1:
        found.append(scatter(epochs, points["mean"], mode="lines", line={"color": tint(look["color"], 0.35), "width": 1}))
    hover = [f"{label}, {axis} {row[axis]}: {row['mean']:.6g} (n={row['n']})" for row in rows]
    mode = "lines" if len(epochs) > 1 else "markers"
    line = points["average" if window > 1 else "mean"]
    found.append(scatter(epochs, line, hover, name, mode=mode, line=marked(look)["line"]))
    chosen = [row for row in rows if row["metric"].startswith("selection_") and pd.notna(row["selected"]) and row["selected"] > 0]
    if chosen:
        hover = [f"{label}: epoch {row['epoch']} selected by {plural(int(row['selected']), 'seed')}" for row in chosen]
        circle = {"symbol": "circle-open", "size": 9, "color": look["color"], "line": {"width": 2}}
        x, y = ([row[axis] for row in chosen] for axis in ("epoch", "mean"))
        found.append(scatter(x, y, hover, mode="markers", marker=circle))
    return [{**one, "legendgroup": str(variant)} for one in found]


def draw_loss_trace(records: StudyRecords, spec: LossTrace) -> Drawn:
    """Draw the losses of the first finished or running seed of each variant that recorded any, else of a diverged one.

    In the data `update` counts from the start of training; `average` is the mean of the `window` recorded losses around it.
    """
    found: dict[int, Row] = {}
    for index in records.chosen(spec.where):
        runs = (records.first_run(index, "losses.jsonl", states) for states in (("done", "unfinished"), ("diverged",)))
        if run := next(filter(None, runs), None):
            found[index] = run
    parts = [_trace(records, found[index], spec.window) for index in shown_variants(records, MOST, found)]
    parts = [add_labels(records, part)[LOSS] for part in parts if len(part)]
    data = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=LOSS)
    last = [float(part["average"].iloc[-1]) for part in parts]
    ends = " to ".join(dict.fromkeys(f"{value:.3g}" for value in (min(last), max(last)))) if last else ""
    finding = f"it ends at {ends} {metric('train_loss').unit}".strip() if ends else ""
    notes = (*warnings(records), *cut_note(records, len(records.chosen(spec.where))))
    caption = _loss_caption(parts, spec)
    return Drawn(partial(_loss_figure, parts), data, spec.heading, notes, caption, finding=finding)


def _trace(records: StudyRecords, run: Row, window: int) -> pd.DataFrame:
    """Read a run's recorded losses; an epoch that stands there twice counts as it was written last."""
    lines = {line.epoch: line for line in read_log(records.results.run(run.id).losses, LossLine)}.values()
    updates = [line.first + line.every * np.arange(len(line.losses)) for line in lines]
    losses = [loss for line in lines for loss in line.losses]
    known = {"variant": run.variant, "seed": run.seed, "update": np.concatenate([np.array([], dtype=int), *updates])}
    return pd.DataFrame({**known, "loss": np.array(losses, dtype=float), "average": moving_average(losses, window)})


def moving_average(losses: Sequence[float], window: int) -> npt.NDArray[np.float64]:
    """Return the mean of the `window` values around each (of an even number, one more before it); of fewer at the two ends."""
    return pd.Series(losses, dtype=float).rolling(window, min_periods=1, center=True).mean().to_numpy()


def thin(losses: npt.NDArray[np.float64], most: int) -> npt.NDArray[np.int64]:
    """Find the lowest and the highest of each of `most / 2` equal stretches: the trace keeps its width."""
    if len(losses) <= most:
        return np.arange(len(losses))
    stretches = np.array_split(np.arange(len(losses)), max(1, most // 2))
    ends = {int(at[end(losses[at])]) for at in stretches for end in (np.argmin, np.argmax)}
    return np.array(sorted(ends), dtype=np.int64)


def _loss_figure(parts: Sequence[pd.DataFrame], size: Size = SCREEN) -> go.Figure:
    """Draw a light and a dark line a variant; a click on its name in the legend hides or shows both."""
    figure, most = go.Figure(), min(TRACE, POINTS // max(1, len(parts)))
    names = brief([str(part["label"].iloc[0]) for part in parts])[0] if parts else []
    drawn = [(style(int(part["variant"].iloc[0])), part.iloc[thin(part["loss"].to_numpy(), most)]) for part in parts]
    light = min(0.35, max(0.1, 0.7 / max(1, len(parts))))  # of many traces each lighter, so that the dark lines stand out
    for column in ("loss", "average"):
        for (look, part), name in zip(drawn, names, strict=True):
            thick = {"color": look["color"], "dash": look["dash"], "width": 2.5}
            figure.add_scatter(
                x=part["update"].to_numpy(dtype=np.int32),  # arrays of 32 bits, which Plotly packs: a fifth of their digits
                y=part[column].to_numpy(dtype=np.float32),
                mode="lines" if len(part) > 1 else "markers",
                name=shown(name),
                legendgroup=str(part["variant"].iloc[0]),
                showlegend=column == "average",
                line=thick if column == "average" else {"color": tint(look["color"], light), "width": 1},
                hovertemplate=f"update %{{x:,}}: {'average ' * (column == 'average')}%{{y:.4g}}, seed {part['seed'].iloc[0]}",
                hoverlabel={"namelength": -1},
            )
    figure.update_xaxes(title="optimiser updates").update_yaxes(title=shown(metric("train_loss").heading))
    return along(figure, "update")


def _loss_caption(parts: Sequence[pd.DataFrame], spec: LossTrace) -> str:
    """Say what is light, what is dark, and over how many updates the average goes."""
    every = [int(part["update"].diff().median()) for part in parts if len(part) > 1]
    if not every:
        return ""

    def span(counts: Sequence[int]) -> str:
        return " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))

    recorded = "each update" if max(every) == 1 else f"one update in {span(every)}"
    average = f"{plural(spec.window, 'point')} ({span([spec.window * step for step in every])} updates)"
    thinned = max(map(len, parts)) > min(TRACE, POINTS // len(parts))
    return (
        f"Light: the loss of {recorded}. Dark: its moving average, centred, over {average}. One seed a variant."
        + " Drawn are the lowest and the highest point of each short stretch; the CSV file has all." * thinned
    )
