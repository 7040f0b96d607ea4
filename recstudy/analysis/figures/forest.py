"""A forest plot of any questions: each estimate with its interval, over the shade of the region that is asked about.

Claims, differences, published values and replications are rows of one kind; whoever asks makes `ForestRow`s of its answers.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite, isnan, nan
from typing import Any, Literal

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.figures.layout import Drawn, facets
from recstudy.analysis.figures.marks import scatter, whiskers
from recstudy.analysis.figures.theme import PALETTE, SCREEN, SMALL, Size, clipped, letters, shown, tint

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


def drawn(title: str, rows: Sequence[ForestRow], notes: Sequence[str] = (), finding: str = "", line: float | None = 0.0) -> Drawn:
    """The plot of these rows, with a vertical `line` where there is no difference."""
    data, said = forest_data(rows), list[str]()
    for mark, words in MARKS.items():
        own = dict.fromkeys(data.loc[data["mark"] == mark, "verdict"])
        said += [f"{words}: {', '.join(filter(None, own))}"] if any(own) else []
    caption = ". ".join([*said, *([SHADE] if data["region_low"].notna().any() else [])])
    return Drawn(partial(forest_figure, data, line), data, title, notes, caption, finding=finding)


def forest_data(rows: Sequence[ForestRow]) -> pd.DataFrame:
    """A row a question, in the order given."""
    told = [{**vars(row), "region_low": (row.region or (nan,))[0], "region_high": (row.region or (nan,))[-1]} for row in rows]
    numbers = dict.fromkeys(("estimate", "low", "high", "region_low", "region_high"), float)
    return pd.DataFrame(told, columns=COLUMNS).astype({**numbers, "n": "Int64"})


def forest_figure(data: pd.DataFrame, line: float | None = 0.0, size: Size = SCREEN) -> go.Figure:
    """A panel a group, the first row on top; each label above its interval, so that it has room on a phone."""
    wide = letters((size.width - 60) if size.printed else PHONE, SMALL)
    panels = [(str(group), own.to_dict("records")) for group, own in data.groupby("group", sort=False)] or [("", [])]
    texts = [[clipped(one["label"], wide, LINES) for one in rows] for _, rows in panels]
    heights = [[ROW + TEXT * (1 + text.count("<br>")) for text in own] for own in texts]
    high = sum(map(sum, heights)) + AXIS * (len(panels) - 1) or ROW
    gap = AXIS / high * len(panels) if len(panels) > 1 else 0
    figure = facets(len(panels), gap, row_heights=[sum(own) or 1 for own in heights])
    for at, ((group, rows), own, tall) in enumerate(zip(panels, texts, heights, strict=True), 1):
        known = [one[name] for one in rows for name in ("estimate", "low", "high", "region_low", "region_high")]
        reach = [value for value in [*known, *([] if line is None else [line])] if isfinite(value)] or [0.0]
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
        if line is not None:
            figure.add_vline(x=line, line={"color": "gray", "width": 1}, layer="below", row=at, col=1)
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
