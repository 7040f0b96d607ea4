"""What others got for a published number, as a forest: random effects over the retrainings, and ours beside them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.caveats import warnings
from recstudy.analysis.figures.layout import Drawn
from recstudy.analysis.figures.marks import scatter, whiskers
from recstudy.analysis.figures.theme import PALETTE, SCREEN, SOFT, Size, clipped, letters, tint
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.targets import place
from recstudy.evidence.replications import Combined, combine
from recstudy.papers import published
from recstudy.papers.replications import CELLS, Replication, replications
from recstudy.report import Replications

COLUMNS = ["kind", "who", "setting", "value", "low", "high", "apart", "source"]
HOW = (
    "Filled circles: independent retrainings, the values of the mean; hollow: not in it, and why. Bars: 95 % by test items and "
    "printed digits alone. Dark band: the mean's 95 % interval; light: where one more retraining would fall"
)
Z = 1.96
LINE, LEAST = 22, 160  # pixels a row and of all rows at least
LOOKS = {
    "published": ("diamond", PALETTE[1]), "ours": ("square", PALETTE[2]), "retrained": ("circle", PALETTE[0]),
    "apart": ("circle-open", SOFT),
}  # fmt: skip


def drawn(records: StudyRecords, part: Replications) -> Drawn:
    data, found = forest_data(part.cell, ours(records, part.cell)), combined(part.cell)
    notes, words = warnings(records), said(found)
    return Drawn(partial(forest_figure, data), data, part.heading, notes, f"{words}. {HOW}", finding=words)


def ours(records: StudyRecords, cell: str) -> list[tuple[str, float]]:
    """Label and value of the study's finished runs that compare with the published number."""
    row = CELLS[cell].row
    targets = [target for target in published(row.partition("#")[0]) if target.row == row]
    placement = place(records, targets, range(len(records.variants)), [target.metric for target in targets])
    return [
        (f"{run.label}, seed {run.seed}", float(value))
        for (index, name), ones in placement.placed.items()
        if not any(one.reasons for one in ones)
        for run in records.by_variant[index]
        if run.done and (value := run.value(name)) is not None
    ]


def combined(cell: str) -> Combined | None:
    """Random effects over a cell's retrainings; None where there is none."""
    counting = [one for one in replications(cell) if one.counts and one.value is not None]
    return combine([one.value or 0.0 for one in counting], [one.error for one in counting]) if counting else None


def said(found: Combined | None) -> str:
    """`Random effects over 7 independent retrainings ...: 83.3 % [79.4, 87.3], tau 4.3; one more would find 71.6 to 95.1`."""
    if found is None:
        return "No independent retraining is known"
    if found.low is None or found.high is None:
        return f"One independent retraining: {found.mean:.1f} %"
    low, high = percent(found.low, found.high)
    more = "; one more would find {:.1f} to {:.1f}".format(*percent(*found.predicted)) if found.predicted else ""
    return (
        f"Random effects over {found.k} independent retrainings, without the published run and ours: {found.mean:.1f} % "
        f"[{low:.1f}, {high:.1f}], tau {found.tau:.1f}{more}"
    )


def percent(low: float, high: float) -> tuple[float, float]:
    """Both ends, no further than a share goes."""
    return max(low, 0.0), min(high, 100.0)


def forest_data(cell: str, own: Sequence[tuple[str, float]] = ()) -> pd.DataFrame:
    """The published number, ours, the retrainings and then the others, each by its value; last the mean and the prediction."""
    row, found = CELLS[cell].row, combined(cell)
    (target,) = (one for one in published(row.partition("#")[0]) if one.row == row)
    rows = [{"kind": "published", "who": "the paper", "setting": target.model, "value": target.value, "source": target.cited}]
    rows += [{"kind": "ours", "who": "here", "setting": label, "value": value, "source": "here"} for label, value in own]
    measured = [one for one in replications(cell) if one.value is not None]
    rows += [_row(one) for one in sorted(measured, key=lambda one: (not one.counts, -(one.value or 0.0)))]
    rows += [_row(one) for one in replications(cell) if one.value is None]
    if found:
        last = {"who": "", "setting": "", "source": "", "value": found.mean}
        ends = {"mean": (found.low, found.high), "prediction": found.predicted or (None, None)}
        limited = {kind: (low, high) if low is None or high is None else percent(low, high) for kind, (low, high) in ends.items()}
        rows += [{**last, "kind": kind, "low": low, "high": high} for kind, (low, high) in limited.items()]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"value": float, "low": float, "high": float}).fillna({"apart": ""})


def _row(one: Replication) -> dict[str, Any]:
    low, high = percent(one.value - Z * one.error, one.value + Z * one.error) if one.counts and one.value else (None, None)
    known = {"who": one.who, "setting": one.setting, "value": one.value, "low": low, "high": high, "source": one.source}
    return {**known, "kind": "retrained" if one.counts else "apart", "apart": one.why_not}


def forest_figure(data: pd.DataFrame, size: Size = SCREEN) -> go.Figure:
    """The first row on top, over the bands of the mean and of the prediction."""
    rows = [one for one in data.to_dict("records") if one["kind"] in LOOKS and pd.notna(one["value"])]
    figure = go.Figure()
    for kind, (symbol, color) in LOOKS.items():
        at = [place for place, one in enumerate(rows) if one["kind"] == kind]
        points = [rows[place] for place in at]
        value, low, high = ([one[name] for one in points] for name in ("value", "low", "high"))
        marker = {"symbol": symbol, "size": 9, "color": color, "line": {"width": 2, "color": color}}
        bars = whiskers(value, low, high, thickness=2, width=4, color=color) if kind == "retrained" else None
        figure.add_scatter(**scatter(value, at, map(_hover, points), mode="markers", marker=marker), error_x=bars)
    bands = data[data["kind"].isin(["mean", "prediction"]) & data["low"].notna()]
    for kind, low, high in zip(bands["kind"], bands["low"], bands["high"], strict=True):
        alpha = 0.22 if kind == "mean" else 0.10
        figure.add_vrect(x0=low, x1=high, fillcolor=tint(PALETTE[0], alpha), line_width=0, layer="below")
    figure.update_layout(meta={"panels": max(LEAST, LINE * len(rows)) / size.panel})
    most = letters((size.width - 80) / 4, 11) - 2 if size.printed else letters(0.42 * size.inner, 11)  # `fitted` folds
    names = [one["who"] if size.printed else f"{one['who']}: {one['apart'] or one['setting']}" for one in rows]
    labels = [clipped(name, most, 1) for name in names]
    values = [value for one in rows for value in (one["low"], one["value"], one["high"]) if pd.notna(value)]
    room = 0.05 * (max(values) - min(values)) or 1.0
    figure.update_xaxes(title="%", range=[min(values) - room, max(values) + room])
    return figure.update_yaxes(
        tickvals=list(range(len(rows))), ticktext=labels, range=[len(rows) - 0.5, -0.5], showgrid=False, tickfont={"size": 11}
    )


def _hover(one: dict[Any, Any]) -> str:
    apart = f" (not in the mean: {one['apart']})" if one["apart"] else ""
    return f"{one['who']}, {one['setting']}: {one['value']:g} %{apart}; {one['source']}"
