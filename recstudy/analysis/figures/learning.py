"""Learning curves: what each variant measured epoch by epoch, its mean over the seeds and the range between them."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from recstudy.analysis.caveats import is_synthetic, some, warnings
from recstudy.analysis.figures import panels
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.ends import End, brief, name_ends
from recstudy.analysis.figures.learning_lines import traces, whole_range
from recstudy.analysis.figures.theme import PALETTE, SCREEN, SMALL, Size, bounded, dress, shown, style
from recstudy.analysis.frame import StudyRecords
from recstudy.metrics import METRICS
from recstudy.report import LearningCurves
from recstudy.report.names import inline, metric, plural, registered

MOST = 30  # lines that a reader still looks at
MOST_TOGETHER = len(PALETTE)  # in one panel
WHOLE = "Gray: from the lowest to the highest variant"
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


def learning_figure(
    data: pd.DataFrame, spec: LearningCurves, notes: Sequence[str] = (), size: Size = SCREEN, log: Collection[str] = ()
) -> go.Figure:
    """One panel a metric that was recorded; a click on a name in the legend hides or shows that variant in all of them.

    On a screen, of more variants than have a colour each, one panel a variant and metric: paper has no room for so many. Metrics
    in `log` have logarithmic axes.
    """
    metrics = [name for name in spec.metrics if name in set(data["metric"])]
    apart = data["variant"].nunique() > MOST_TOGETHER and not size.printed
    figure = (_apart if apart else _together)(data, spec.window, metrics, log)
    if 0 < data["epoch"].nunique() <= 12:
        figure.update_xaxes(tick0=1, dtick=1)  # no half epochs
    count = max(1, len(metrics)) * (data["variant"].nunique() if apart else 1)
    dress(figure, spec.heading, notes, count, learning_caption(data, spec), size)
    return _arranged(figure, metrics, size) if apart else _named(figure, data, spec.window, metrics, log)


def _together(data: pd.DataFrame, window: int, metrics: Sequence[str], log: Collection[str]) -> go.Figure:
    rows = max(1, len(metrics))
    figure = make_subplots(rows=rows, cols=1, shared_xaxes=True, vertical_spacing=0.1 / rows)
    for panel, name in enumerate(metrics, 1):
        for points in _of(data, name):
            for trace in traces(points, window):
                figure.add_scatter(**{"showlegend": panel == 1, **trace}, row=panel, col=1)
        figure.update_yaxes(title=shown(metric(name).heading), **_axis(name, log), row=panel, col=1)
    return figure.update_xaxes(title="epoch", row=rows, col=1)


def _apart(data: pd.DataFrame, window: int, metrics: Sequence[str], log: Collection[str]) -> go.Figure:
    """Panels of a metric have the same axes."""
    variants, found, layout = list(data["variant"].unique()), list[dict[str, Any]](), dict[str, Any]()
    names = brief(data.drop_duplicates("variant")["label"])
    for at, name in enumerate(metrics):
        whole, first = data[data["metric"] == name], 1 + at * len(variants)
        gray, by_variant = whole_range(whole), dict(list(whole.groupby("variant", sort=False)))
        for panel, (variant, words) in enumerate(zip(variants, names, strict=True), first):
            own = traces(by_variant[variant], window) if variant in by_variant else []
            found += [{**trace, **panels.axes(panel), "showlegend": False} for trace in [gray, *own]]
            alike = {"matches": f"y{first}"} if panel > first else {}  # of two that match, one decides
            across = panels.named(words) | ({"matches": "x"} if panel > 1 else {})
            layout |= panels.layout(panel, across, {**_axis(name, log), **alike})
    return go.Figure(found, layout)  # at once: one by one, Plotly takes a second for hundreds


def _axis(name: str, log: Collection[str]) -> dict[str, Any]:
    return {**bounded(name), **({"type": "log"} if name in log else {})}


def _arranged(figure: go.Figure, metrics: Sequence[str], size: Size) -> go.Figure:
    gray = f'<br><span style="font-size:{SMALL}px">{WHOLE}</span>'
    return panels.arrange(panels.head(figure, [f"<b>{shown(metric(name).heading)}</b> by epoch{gray}" for name in metrics]), size)


def _named(figure: go.Figure, data: pd.DataFrame, window: int, metrics: Sequence[str], log: Collection[str]) -> go.Figure:
    """The names where lines end."""
    names = dict(zip(data["variant"].unique(), brief(data.drop_duplicates("variant")["label"]), strict=True))
    for panel, name in enumerate(metrics, 1):
        lines = {int(own["variant"].iloc[0]): own["average" if window > 1 else "mean"] for own in _of(data, name)}
        known = pd.concat(lines.values())
        ends = [End(names[at], float(values.iloc[-1]), style(at)["color"]) for at, values in lines.items()]
        name_ends(figure, ends, name in log, panel, (float(known.min()), float(known.max())))
    return figure


def _of(data: pd.DataFrame, name: str) -> list[pd.DataFrame]:
    """The points of each variant that has this metric."""
    return [points for _, points in data[data["metric"] == name].groupby("variant", sort=False)]


def learning_caption(data: pd.DataFrame, spec: LearningCurves) -> str:
    """What is light and what is dark, where anything is, and what a circle is."""
    light = f"Light: each epoch. Dark: moving average, centred, over {spec.window} epochs. " if spec.window > 1 else ""
    circled = data["metric"].str.startswith("selection_") & (data["selected"].fillna(0).astype(float) > 0)
    return light + "Circles: the epochs that were selected" * bool(circled.any())


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
