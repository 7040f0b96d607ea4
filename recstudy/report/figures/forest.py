"""A forest plot of any questions: each estimate with its interval, over the shade of the region that is asked about.

Claims, differences and published values are rows of one kind; whoever asks makes `ForestRow`s of its answers. What others got
for a published number is a forest of its own: random effects over the retrainings, and ours beside them.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite, isnan, nan
from typing import Any, Literal

import pandas as pd
import plotly.graph_objects as go

from recstudy.evidence.replications import Combined, combine
from recstudy.papers import published
from recstudy.papers.replications import CELLS, replications
from recstudy.report.caveats import warnings
from recstudy.report.figure_fields import Replications
from recstudy.report.figures.layout import Drawn, facets
from recstudy.report.figures.theme import PALETTE, SCREEN, SMALL, SOFT, Size, clipped, letters, scatter, shown, tint, whiskers
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import place

COLUMNS = ["label", "group", "estimate", "low", "high", "region_low", "region_high", "verdict", "n", "about", "mark"]
Mark = Literal["yes", "no", "open"]  # decided as asked, or shown to differ; decided against it; neither
SYMBOLS = {"yes": "circle", "no": "x", "open": "circle-open"}
MARKS = {"yes": "Filled circles", "no": "Crosses", "open": "Hollow circles"}
SHADE = "Shaded: the values that would bear out the claim, or that lie within the margin of the published one"
PHONE = 330  # pixels: the widest line of a label, whatever the page's width
LINES = 4  # of a label: the table has the whole of it
ROW, TEXT, AXIS = 34, 16, 80  # pixels: of an interval with the space around it; of a line of its label; between two panels
BAND = 9  # pixels: half a shade's height


@dataclass(frozen=True)
class ForestRow:
    """One question. `region`, which may be open at an end (inf), is what the estimate is held against; `group` has an axis."""

    label: str
    estimate: float
    low: float | None
    high: float | None
    region: tuple[float, float] | None
    verdict: str
    group: str  # the axis's title: rows of one group have one unit
    n: int | None = None
    about: str = ""  # what else is said of it under the pointer and in the CSV file
    mark: Mark = "open"


def draw_forest(title: str, rows: Sequence[ForestRow], notes: Sequence[str] = (), finding: str = "") -> Drawn:
    """Draw these rows, with a vertical line where there is no difference."""
    told = [{**vars(row), "region_low": (row.region or (nan,))[0], "region_high": (row.region or (nan,))[-1]} for row in rows]
    numbers = dict.fromkeys(("estimate", "low", "high", "region_low", "region_high"), float)
    data, said = pd.DataFrame(told, columns=COLUMNS).astype({**numbers, "n": "Int64"}), list[str]()
    for mark, words in MARKS.items():
        own = dict.fromkeys(data.loc[data["mark"] == mark, "verdict"])
        said += [f"{words}: {', '.join(filter(None, own))}"] if any(own) else []
    caption = ". ".join([*said, *([SHADE] if data["region_low"].notna().any() else [])])
    return Drawn(partial(_forest_figure, data), data, title, notes, caption, finding=finding)


def _forest_figure(data: pd.DataFrame, size: Size = SCREEN) -> go.Figure:
    """Draw a panel a group, the first row on top; each label above its interval, so that it has room on a phone."""
    wide = letters((size.width - 60) if size.printed else PHONE, SMALL)
    panels = [(str(group), own.to_dict("records")) for group, own in data.groupby("group", sort=False)] or [("", [])]
    texts = [[clipped(one["label"], wide, LINES) for one in rows] for _, rows in panels]
    heights = [[ROW + TEXT * (1 + text.count("<br>")) for text in own] for own in texts]
    high = sum(map(sum, heights)) + AXIS * (len(panels) - 1) or ROW
    gap = AXIS / high * len(panels) if len(panels) > 1 else 0
    figure = facets(len(panels), gap, row_heights=[sum(own) or 1 for own in heights])
    for at, ((group, rows), own, tall) in enumerate(zip(panels, texts, heights, strict=True), 1):
        known = [one[name] for one in rows for name in ("estimate", "low", "high", "region_low", "region_high")]
        reach = [0.0, *(value for value in known if isfinite(value))]
        space = 0.08 * (max(reach) - min(reach)) or 1.0
        ends, above = (min(reach) - space, max(reach) + space), 0
        middles = []
        for one, text, height in zip(rows, own, tall, strict=True):
            middle = above + height - ROW / 2
            middles.append(middle)
            if not isnan(one["region_low"]):
                low, end = max(one["region_low"], ends[0]), min(one["region_high"], ends[1])
                figure.add_shape(
                    type="rect", x0=low, x1=end, y0=middle - BAND, y1=middle + BAND, fillcolor=tint(PALETTE[0], 0.18),
                    line={"width": 0}, layer="below", row=at, col=1,
                )  # fmt: skip
            figure.add_annotation(
                x=ends[0], y=middle - BAND, text=text, showarrow=False, align="left", xanchor="left", yanchor="bottom",
                font={"size": SMALL}, borderpad=0, row=at, col=1,
            )  # fmt: skip
            above += height
        value, lower, upper = ([one[name] for one in rows] for name in ("estimate", "low", "high"))
        marker = {"symbol": [SYMBOLS[one["mark"]] for one in rows], "size": 11, "color": PALETTE[0]}
        marker |= {"line": {"width": 2, "color": PALETTE[0]}}
        bars = whiskers(value, lower, upper, thickness=2, width=5, color=PALETTE[0])
        trace = scatter(value, middles, map(_hover, rows), mode="markers", marker=marker)
        figure.add_scatter(**trace, error_x=bars, row=at, col=1)
        figure.add_vline(x=0.0, line={"color": "gray", "width": 1}, layer="below", row=at, col=1)
        figure.update_xaxes(title=shown(group), range=ends, row=at, col=1)
        figure.update_yaxes(range=[above, 0], row=at, col=1)
    figure.update_yaxes(showticklabels=False, ticks="", showgrid=False)
    return figure.update_layout(meta={"panels": high / size.panel})


def _hover(one: dict[Hashable, Any]) -> str:
    interval = f" [{one['low']:+.6g}, {one['high']:+.6g}]" if pd.notna(one["low"]) else ""
    asked = [one["region_low"], one["region_high"]]
    side = "at least " if asked[1] == inf else "at most " if asked[0] == -inf else ""
    region = "" if pd.isna(asked[0]) else f"; asked: {side}" + " to ".join(f"{end:+.6g}" for end in asked if isfinite(end))
    runs = f" (n={one['n']})" if pd.notna(one["n"]) else ""
    return f"{one['label']}: {one['estimate']:+.6g}{interval}{runs}: {one['verdict']}{region}. {one['about']}".rstrip(". ")


# ------------------------------------------------------------------------------------------------------------------ replications
REPLICATED = ["kind", "who", "setting", "value", "low", "high", "apart", "source"]
HOW = (
    "Filled circles: independent retrainings, the values of the mean; hollow: not in it, and why. Bars: 95 % by test items and "
    "printed digits alone. Dark band: the mean's 95 % interval; light: where one more retraining would fall"
)
Z = 1.96
LINE_HEIGHT, LEAST = 22, 160  # pixels a row and of all rows at least
LOOKS = {
    "published": ("diamond", PALETTE[1]), "ours": ("square", PALETTE[2]), "retrained": ("circle", PALETTE[0]),
    "apart": ("circle-open", SOFT),
}  # fmt: skip


def draw_replications(records: StudyRecords, part: Replications) -> Drawn:
    """Draw what others got, beside the study's finished runs that compare with the published number."""
    row = CELLS[part.cell].row
    targets = [target for target in published(row.partition("#")[0]) if target.row == row]
    placement = place(records, targets, range(len(records.variants)), [target.metric for target in targets])
    ours = [
        (f"{run.label}, seed {run.seed}", float(value))
        for (index, name), ones in placement.placed.items()
        if not any(one.reasons for one in ones)
        for run in records.by_variant[index]
        if run.done and (value := run.value(name)) is not None
    ]
    data, words = replications_data(part.cell, ours), said(combined(part.cell))
    figure = partial(_replications_figure, data)
    return Drawn(figure, data, part.heading, warnings(records), f"{words}. {HOW}", finding=words)


def combined(cell: str) -> Combined | None:
    """Return random effects over a cell's retrainings; None where there is none."""
    counting = [one for one in replications(cell) if one.counts and one.value is not None]
    return combine([one.value or 0.0 for one in counting], [one.error for one in counting]) if counting else None


def said(mean: Combined | None) -> str:
    """Say `Random effects over 7 independent retrainings ...: 83.3 % [79.4, 87.3], tau 4.3; one more would find 71.6 to 95.1`."""
    if mean is None:
        return "No independent retraining is known"
    if mean.interval is None:
        return f"One independent retraining: {mean.mean:.1f} %"
    low, high = percent(*mean.interval)
    more = "; one more would find {:.1f} to {:.1f}".format(*percent(*mean.predicted)) if mean.predicted else ""
    return (
        f"Random effects over {mean.k} independent retrainings, without the published run and ours: {mean.mean:.1f} % "
        f"[{low:.1f}, {high:.1f}], tau {mean.tau:.1f}{more}"
    )


def percent(low: float, high: float) -> tuple[float, float]:
    """Return both ends, no further than a share goes."""
    return max(low, 0.0), min(high, 100.0)


def replications_data(cell: str, own: Sequence[tuple[str, float]] = ()) -> pd.DataFrame:
    """Return the published number, ours, the retrainings and the others, each by its value; last the mean and the prediction."""
    row, found = CELLS[cell].row, combined(cell)
    (target,) = (one for one in published(row.partition("#")[0]) if one.row == row)
    rows = [("published", "the paper", target.model, target.value, nan, nan, "", target.cited)]
    rows += [("ours", "here", label, value, nan, nan, "", "here") for label, value in own]
    for one in sorted(replications(cell), key=lambda one: (one.value is None, not one.counts, -(one.value or 0.0))):
        low, high = percent(one.value - Z * one.error, one.value + Z * one.error) if one.counts and one.value else (nan, nan)
        kind = "retrained" if one.counts else "apart"
        rows.append((kind, one.who, one.setting, nan if one.value is None else one.value, low, high, one.why_not, one.source))
    if found:
        for kind, ends in (("mean", found.interval), ("prediction", found.predicted)):
            rows.append((kind, "", "", found.mean, *(percent(*ends) if ends else (nan, nan)), "", ""))
    return pd.DataFrame(rows, columns=REPLICATED)


def _replications_figure(data: pd.DataFrame, size: Size = SCREEN) -> go.Figure:
    """Draw the first row on top, over the bands of the mean and of the prediction."""
    rows, figure = data[data["kind"].isin(LOOKS) & data["value"].notna()].reset_index(drop=True), go.Figure()
    for kind, (symbol, color) in LOOKS.items():
        points = rows[rows["kind"] == kind]
        hover = [
            f"{row['who']}, {row['setting']}: {row['value']:g} %; {row['apart'] and row['apart'] + '; '}{row['source']}"
            for row in points.to_dict("records")
        ]
        marker = {"symbol": symbol, "size": 9, "color": color, "line": {"width": 2, "color": color}}
        bars = whiskers(points["value"], points["low"], points["high"], thickness=2, width=4, color=color)
        figure.add_scatter(**scatter(points["value"], points.index, hover, mode="markers", marker=marker), error_x=bars)
    for kind, alpha in (("mean", 0.22), ("prediction", 0.10)):
        for low, high in data.loc[(data["kind"] == kind) & data["low"].notna(), ["low", "high"]].to_numpy():
            figure.add_vrect(x0=low, x1=high, fillcolor=tint(PALETTE[0], alpha), line_width=0, layer="below")
    figure.update_layout(meta={"panels": max(LEAST, LINE_HEIGHT * len(rows)) / size.panel})
    most = letters((size.width - 80) / 4, 11) - 2 if size.printed else letters(0.42 * size.inner, 11)  # `_fitted` folds
    details = "" if size.printed else ": " + rows["apart"].where(rows["apart"] != "", rows["setting"])
    labels = [clipped(name, most, 1) for name in rows["who"] + details]
    figure.update_xaxes(title="%")
    return figure.update_yaxes(
        tickvals=list(rows.index), ticktext=labels, range=[len(rows) - 0.5, -0.5], showgrid=False, tickfont={"size": 11}
    )
