"""Learning curves: what each variant measured epoch by epoch, its mean over the seeds and the range between them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from recstudy.analysis.caveats import is_synthetic, some, warnings
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.theme import SCREEN, Size, band, bounded, dress, shown, style, tint
from recstudy.analysis.frame import StudyRecords
from recstudy.metrics import METRICS
from recstudy.report import LearningCurves
from recstudy.report.names import inline, metric, plural, registered

BAND = 3  # seeds from which on the range between them is drawn
MOST = 30  # lines that a reader can still tell apart in one figure
COLUMNS = ["variant", "label", "metric", "epoch", "mean", "low", "high", "n", "average", "selected", "synthetic"]


def drawn(records: StudyRecords, spec: LearningCurves) -> Drawn:
    data = learning_data(records, spec)
    notes = learning_notes(records, spec, data)
    return Drawn(partial(learning_figure, data, spec, notes), data, spec.heading, notes, learning_caption(data, spec))


def learning_data(records: StudyRecords, spec: LearningCurves, most: int = MOST) -> pd.DataFrame:
    """One row a variant, metric and epoch: `mean`, `low` and `high` (smallest and largest seed) and `n` seeds; `selected` of
    them have selected it.

    `average` is the mean over the `window` epochs around it; without a window the mean itself.
    Only the `most` best variants are read (`shown_variants`).
    """
    frame = records.epochs(shown_variants(records, most))
    parts = [_spread(frame, name, spec.window) for name in spec.metrics if name in frame and frame[name].notna().any()]
    if not parts:
        return pd.DataFrame(columns=COLUMNS)
    chosen = Counter((row.variant, row.selected.number) for row in records.rows if row.done)
    data = pd.concat(parts, ignore_index=True)
    data["selected"] = [chosen[place] for place in zip(data["variant"], data["epoch"], strict=True)]
    return labelled(records, data)[COLUMNS]


def labelled(records: StudyRecords, data: pd.DataFrame) -> pd.DataFrame:
    """The data with each variant's `label`, and whether it is `synthetic`."""
    labels = [variant.label for variant in records.variants]
    synthetic = [is_synthetic(records, [index]) for index in range(len(labels))]
    return data.assign(label=data["variant"].map(labels.__getitem__), synthetic=data["variant"].map(synthetic.__getitem__))


def shown_variants(records: StudyRecords, most: int = MOST, among: Iterable[int] | None = None) -> list[int]:
    """The `most` best of all variants, or of those `among` which to choose, in the study's order; one that leaks is the worst."""
    known = range(len(records.variants)) if among is None else among
    name = _ranked_by(records)
    order = sorted(known, key=lambda index: (not records.leaks(index), _score(records, index, name)), reverse=True)
    return sorted(order[:most])


def cut_note(records: StudyRecords, count: int, most: int = MOST) -> tuple[str, ...]:
    """Says so where `shown_variants` leaves some of `count` variants out."""
    return (f"the {most} best of {count:,} variants by {inline(_ranked_by(records))}",) if count > most else ()


def learning_notes(records: StudyRecords, spec: LearningCurves, data: pd.DataFrame, most: int = MOST) -> tuple[str, ...]:
    """What a reader must know before the curves; a metric that nothing calls by that name may be misspelt."""
    unknown = [] if data.empty else [name for name in spec.metrics if not registered(name) and name not in set(data["metric"])]
    absent = [f"no run recorded a metric {name!r}" for name in unknown]
    return (*warnings(records), *cut_note(records, len(records.variants), most), *lost_notes(records), *absent)


def lost_notes(records: StudyRecords) -> tuple[str, ...]:
    """Names the runs whose logs lack epochs: a crash or a disk has damaged them."""
    lost = [(row, row.provenance.lost_epochs) for row in records.rows if row.provenance.lost_epochs]
    named = [f"{row.label}, seed {row.seed} ({plural(count, 'epoch')})" for row, count in lost]
    return (f"damaged logs, so that epochs are missing: {some(named)}",) if named else ()


def learning_figure(data: pd.DataFrame, spec: LearningCurves, notes: Sequence[str] = (), size: Size = SCREEN) -> go.Figure:
    """One panel a metric that was recorded; a click on a name in the legend hides or shows that variant in all of them."""
    metrics = [name for name in spec.metrics if name in set(data["metric"])]
    panels = max(1, len(metrics))
    figure = make_subplots(rows=panels, cols=1, shared_xaxes=True, vertical_spacing=0.1 / panels)
    for panel, name in enumerate(metrics, 1):
        for variant in dict.fromkeys(data["variant"]):
            points = data[(data["variant"] == variant) & (data["metric"] == name)]
            if len(points):
                _draw(figure, points, int(variant), panel, spec.window)
                _draw_selected(figure, points, panel)
        figure.update_yaxes(title=shown(metric(name).heading), **bounded(name), row=panel, col=1)
    figure.update_xaxes(title="epoch", row=panels, col=1)
    if 0 < data["epoch"].nunique() <= 12:
        figure.update_xaxes(tick0=1, dtick=1)  # no half epochs
    return dress(figure, spec.heading, notes, panels, learning_caption(data, spec), size)


def learning_caption(data: pd.DataFrame, spec: LearningCurves) -> str:
    """What is light and what is dark, where anything is, and what a circle is."""
    light = f"Light: each epoch. Dark: moving average, centred, over {spec.window} epochs. " if spec.window > 1 else ""
    circled = data["metric"].str.startswith("selection_") & (data["selected"].fillna(0).astype(float) > 0)
    return light + "Circles: the epochs that were selected" * bool(circled.any())


def _draw_selected(figure: go.Figure, points: pd.DataFrame, panel: int) -> None:
    """Where epochs were selected, on the curves that they were selected by."""
    chosen = points[points["selected"].fillna(0).astype(float) > 0]
    if chosen.empty or not str(chosen["metric"].iloc[0]).startswith("selection_"):
        return
    variant = int(chosen["variant"].iloc[0])
    figure.add_scatter(
        x=chosen["epoch"].tolist(),
        y=chosen["mean"].tolist(),
        mode="markers",
        marker={"symbol": "circle-open", "size": 9, "color": style(variant)["color"], "line": {"width": 2}},
        legendgroup=str(variant),
        showlegend=False,
        hovertext=[
            shown(f"{row['label']}: epoch {row['epoch']} selected by {plural(int(row['selected']), 'seed')}")
            for row in chosen.to_dict("records")
        ],
        hoverinfo="text",
        row=panel,
        col=1,
    )


def _spread(frame: pd.DataFrame, name: str, window: int) -> pd.DataFrame:
    grouped = frame.dropna(subset=[name]).groupby(["variant", "epoch"], sort=True)[name]
    table = grouped.agg(["mean", "min", "max", "count"]).reset_index()
    average = table.groupby("variant")["mean"].rolling(window, min_periods=1, center=True).mean().reset_index(level=0, drop=True)
    return table.rename(columns={"min": "low", "max": "high", "count": "n"}).assign(metric=name, average=average)


def _ranked_by(records: StudyRecords) -> str:
    scores = [name for name, known in METRICS.items() if known.ranks]
    return next((name for name in scores if any(run.value(name) is not None for run in records.rows)), "top1_accuracy")


def _score(records: StudyRecords, index: int, name: str) -> float:
    known = [run.number(name) for run in records.by_variant[index] if run.done and run.value(name) is not None]
    return METRICS[name].sign * sum(known) / len(known) if known else float("-inf")


def _draw(figure: go.Figure, points: pd.DataFrame, index: int, panel: int, window: int) -> None:
    look, label = style(index), str(points["label"].iloc[0])
    group = str(points["variant"].iloc[0])
    epochs = points["epoch"].tolist()
    if (points["n"] >= BAND).any():
        figure.add_scatter(**band(epochs, points, tint(look["color"], 0.12)), legendgroup=group, row=panel, col=1)
    if window > 1:
        light = {"color": tint(look["color"], 0.35), "width": 1}
        figure.add_scatter(
            x=epochs, y=points["mean"].tolist(), mode="lines", line=light, hoverinfo="skip", legendgroup=group, showlegend=False,
            row=panel, col=1,
        )  # fmt: skip
    figure.add_scatter(
        x=epochs,
        y=points["average" if window > 1 else "mean"].tolist(),
        mode="lines" if len(epochs) > 1 else "markers",
        name=shown(label),
        legendgroup=group,
        showlegend=panel == 1,
        line={"color": look["color"], "dash": look["dash"]},
        hovertext=[
            shown(f"{label}, epoch {row['epoch']}: {row['mean']:.6g} (n={row['n']})") for row in points.to_dict("records")
        ],
        hoverinfo="text",
        row=panel,
        col=1,
    )
