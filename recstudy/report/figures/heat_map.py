"""The report part `HeatMap`: a metric at the levels of two axes."""

from __future__ import annotations

from itertools import product
from typing import Any

from recstudy.base.lazy import go, pd
from recstudy.report.caveats import leaky_notes
from recstudy.report.cell_text import cell_text, printed_value
from recstudy.report.cells import cell
from recstudy.report.figures.chosen import ranked
from recstudy.report.figures.curve import point_row
from recstudy.report.look import escape, metric_label, ordered, share_map
from recstudy.report.names import axis_title, metric, quantity, value_text
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords

COLUMNS = ["x", "y", "value", "low", "high", "n", "expected", "said", "run_ids", "synthetic", "_color"]
CAPTION = "Each cell shows the mean over seeds{}. Cells without colour have no finished run"
ROW, PLAIN_ROW = 75, 32  # pixels of a cell's height: with four lines of text, and without
MAX_TEXT_COLUMNS = 8  # in a wider map, the cells have no room for text


@PARTS.add("heat_map")
class HeatMap(FigurePart, OfVariants):
    """A heat map of a metric by two axes, with mean, interval and n in each cell. Darker means higher."""

    x: str
    y: str
    metric: str = "top1_accuracy"
    axes_in = ("x", "y")
    metrics_in = ("metric",)

    @property
    def heading(self) -> str:
        return self.title or f"{metric(self.metric).title} by {axis_title(self.x)} and {axis_title(self.y)}"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per cell, where `said` is the text of the cell in a table.

        Models that were given the answer are left out.
        """
        variants = self.comparable(records)
        cells: dict[tuple[Any, Any], list[int]] = {}  # (level of x, level of y) -> variants
        for index in variants:
            cells.setdefault((records.level(index, self.x), records.level(index, self.y)), []).append(index)
        columns, lines = (ordered(levels[axis] for levels in cells) for axis in (0, 1))
        rows = []
        for y, x in product(lines, columns):
            if (x, y) in cells:
                mean = cell(records, cells[x, y], self.metric)
                numbers = {**point_row(mean), "said": cell_text(mean), "_color": printed_value(mean)}
                rows.append({"x": x, "y": y, **numbers})
        data = pd.DataFrame(rows, columns=COLUMNS)
        notes = leaky_notes(records, records.chosen(self.where), is_shown=False)
        if len(variants) > len(data):
            notes.append(f"each cell pools {len(variants) / len(data):.3g} variants")
        if unfinished_cells := data["value"].isna().sum():
            notes.append(f"{unfinished_cells} of {len(data)} cells have no finished run")
        details = ", its 95 % interval and the number of runs" * (data["x"].nunique() <= MAX_TEXT_COLUMNS)
        data.attrs = {"notes": notes, "caption": CAPTION.format(details)}
        return data

    def finding(self, data: pd.DataFrame) -> str:
        best = ranked(data, self.metric)[:1]
        if best.empty:
            return ""
        value, x, y = best[["value", "x", "y"]].iloc[0]
        return (
            f"best mean {quantity(self.metric, value)} at {axis_title(self.x)} {value_text(x)},"
            f" {axis_title(self.y)} {value_text(y)}"
        )

    def draw(self, data: pd.DataFrame) -> go.Figure:
        levels = [[*map(value_text, ordered(data[axis]))] for axis in ("x", "y")]
        text = data["said"].str.replace(r" \((n=\d+).*", r"<br>\1", regex=True)
        # cells are narrow, so that each end of the interval has its own line
        text = text.str.replace(r" (?=\[)|(?<=,) ", "<br>", regex=True)
        cells = data[["x", "y"]].map(value_text)
        figure = share_map(cells["x"], cells["y"], data["_color"], metric_label(self.metric))
        has_text = len(levels[0]) <= MAX_TEXT_COLUMNS
        figure.update_traces(
            text=text,
            hovertemplate="%{y}, %{x}: %{text}<extra></extra>",
            texttemplate="%{text}" if has_text else None,
        )
        axis = {"type": "category", "tickfont": None}
        figure.update_xaxes(axis, title=escape(axis_title(self.x)), categoryarray=levels[0])
        figure.update_yaxes(axis, title=escape(axis_title(self.y)), categoryarray=levels[1])
        return figure.update_layout(
            height=150 + (ROW if has_text else PLAIN_ROW) * len(levels[1]),
            coloraxis={"cmin": None, "cmax": None},
        )
