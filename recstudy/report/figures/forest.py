"""Forest plots: a row per estimate with its interval, under its label, so that labels have room on a phone."""

from __future__ import annotations

from math import inf, nan
from typing import Any, ClassVar

from recstudy.lazy import go, np, pd
from recstudy.report.look import PALETTE, clipped, tint, whiskers
from recstudy.report.parts import FigurePart

ENDS, REGION = ["low_95", "high_95"], ["region_low", "region_high"]
COLUMNS = ["label", "group", "estimate", *ENDS, *REGION, "verdict", "n", "about", "mark"]
SYMBOLS = {"yes": "circle", "no": "x", "open": "circle-open"}
SYMBOLS |= {"published": "diamond", "ours": "square", "retrained": "circle", "apart": "circle-open"}
SYMBOLS |= {"mean": "diamond-wide", "prediction": "diamond-wide-open"}
MARKS = {"yes": "Filled circles", "no": "Crosses", "open": "Hollow circles"}
SHADE = "Shaded: the values that would bear out the claim, or that lie within the margin of the published one"
WIDTH = 44  # characters of a label's line, which fit a phone
ROW, LINE, AXIS = 18, 16, 100  # pixels of an interval, of a line of its label, of an x-axis with its title


class Forest(FigurePart):
    """Estimates with intervals, each over the shade of the region that is asked about.

    The data have a row per question. `group` is the title of its x-axis: the rows of a group have one unit. An
    end of a region may be infinite. `mark` is `yes` (decided as asked, or shown to differ), `no` (decided against
    it) or `open`. `about` is shown under the pointer. `data.attrs["verdicts"]` counts the verdicts in words.
    """

    origin: ClassVar[float] = 0.0  # a value that each x-axis includes
    lines: ClassVar[int] = 3  # of a label at most: the table has the whole label

    def caption(self, data: pd.DataFrame) -> str:
        verdicts = {words: data.loc[data["mark"] == mark, "verdict"].unique() for mark, words in MARKS.items()}
        sentences = [f"{words}: {', '.join(names)}" for words, names in verdicts.items() if len(names)]
        return ". ".join([*sentences, SHADE] if data["region_low"].notna().any() else sentences)

    def finding(self, data: pd.DataFrame) -> str:
        return str(data.attrs["verdicts"])

    def draw(self, data: pd.DataFrame) -> go.Figure:
        from plotly.subplots import make_subplots

        labels = data["label"].map(lambda label: clipped(label, WIDTH, self.lines))
        groups = [rows for _, rows in data.assign(text=labels).groupby("group", sort=False)]
        height = (ROW + LINE * (1 + labels.str.count("<br>").max())) * len(data) + AXIS * len(groups)
        figure = make_subplots(len(groups), row_heights=[*map(len, groups)], vertical_spacing=AXIS / height)
        for row, rows in enumerate(groups, 1):
            self._draw_group(figure, rows, {"row": row, "col": 1})
        return figure.update_layout(height=int(height), showlegend=False, margin={"l": 12}, meta={"rows": True})

    def _draw_group(self, figure: go.Figure, rows: pd.DataFrame, place: dict[str, Any]) -> None:
        """Draw the rows of one unit, the first on top."""
        numbers = rows[["estimate", *ENDS, *REGION]].replace([inf, -inf], nan).to_numpy()
        left, right = (float(end([self.origin, *numbers.flat])) for end in (np.nanmin, np.nanmax))
        margin = 0.08 * (right - left) or 1.0
        left, right = left - margin, right + margin
        region, y = rows[REGION].clip(left, right), np.arange(len(rows))
        shade = {"marker_color": tint(PALETTE[0], 0.18), "hoverinfo": "skip", "orientation": "h", "width": 0.36}
        figure.add_bar(base=region["region_low"], x=region.diff(axis=1)["region_high"], y=y, **shade, **place)
        marker = {"symbol": rows["mark"].map(SYMBOLS), "size": 10, "color": PALETTE[0], "line": {"width": 2, "color": PALETTE[0]}}
        words = rows["label"] + ": " + rows["verdict"] + ". " + rows["about"]
        hover = {"text": words, "hovertemplate": "%{x:.6g}, %{text}<extra></extra>"}
        bars = whiskers(rows["estimate"], *(rows[end] for end in ENDS), width=0)
        figure.add_scatter(x=rows["estimate"], y=y, mode="markers", marker=marker, error_x=bars, **hover, **place)
        label = {"text": rows["text"], "textposition": "top right", "textfont": {"size": 12}, "hoverinfo": "skip"}
        figure.add_scatter(x=[left] * len(y), y=y - 0.2, mode="text", cliponaxis=False, **label, **place)
        title = clipped(rows["group"].iloc[0], WIDTH, 2)
        figure.update_xaxes(title=title, range=[left, right], zeroline=True, zerolinecolor="gray", **place)
        figure.update_yaxes(range=[len(y) - 0.6, -0.9], showticklabels=False, ticks="", showgrid=False, **place)
