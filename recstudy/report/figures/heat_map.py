"""A metric at every two levels of a sweep, as coloured cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from recstudy.lazy import go, pd, px
from recstudy.report.caveats import leaky_notes
from recstudy.report.cells import cell
from recstudy.report.figures.curve import comparable, point_row
from recstudy.report.look import SCREEN, SHADES, escape, metric_label, ordered
from recstudy.report.names import axis_title, metric, plain, quantity
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords

COLUMNS = ["x", "y", "value", "low", "high", "n", "expected", "said", "run_ids", "synthetic"]
CAPTION = "In each cell the mean over seeds, its 95 % interval and the number of runs; without colour: no finished run"
ROW = 75  # pixels of a cell's height: four lines of text
MOST_COLUMNS = 8  # whose cells have room for text
Cells = dict[tuple[Any, Any], list[int]]  # (level of x, level of y) -> variants


@PARTS.add("heat_map")
class HeatMap(FigurePart, OfVariants):
    """A metric at every two levels of a sweep, as coloured cells with mean, interval and n. Darker is more."""

    x: str
    y: str
    metric: str = "top1_accuracy"
    axes_in: ClassVar[tuple[str, ...]] = ("x", "y")
    metrics_in: ClassVar[tuple[str, ...]] = ("metric",)

    @property
    def heading(self) -> str:
        return self.title or f"{metric(self.metric).title} by {axis_title(self.x)} and {axis_title(self.y)}"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per cell; `said` is its text in a table. Variants that leak are left out."""
        from recstudy.report.tables.render import cell_text

        variants = comparable(records, self.where)
        rows = []
        for (x, y), pooled in crossed(records, variants, self.x, self.y).items():
            mean = cell(records, pooled, self.metric)
            rows.append({"x": x, "y": y, "said": cell_text(mean), **point_row(mean)})
        data = pd.DataFrame(rows, columns=COLUMNS)
        notes = list(leaky_notes(records, records.chosen(self.where), shown=False))
        if len(variants) > len(data):
            notes.append(f"each cell pools {len(variants) / len(data):.3g} variants")
        if missing := data["value"].isna().sum():
            notes.append(f"{missing} of {len(data)} cells have no finished run")
        data.attrs = {"notes": notes, "caption": CAPTION}
        return data

    def finding(self, data: pd.DataFrame) -> str:
        means = data.dropna(subset="value").sort_values("value", ascending=metric(self.metric).sign > 0, kind="stable")
        if means.empty:
            return ""
        value, x, y = means[["value", "x", "y"]].iloc[-1]
        return f"best mean {quantity(self.metric, value)} at {axis_title(self.x)} {plain(x)}, {axis_title(self.y)} {plain(y)}"

    def draw(self, data: pd.DataFrame) -> go.Figure:
        columns, rows = (list(map(plain, ordered(data[axis]))) for axis in ("x", "y"))
        text = data["said"].str.replace(r" \((n=\d+).*", r"<br>\1", regex=True)
        text = text.str.replace(r" (?=\[)|(?<=,) ", "<br>", regex=True)  # narrow: a line for each end of the interval
        cells = data.assign(x=data["x"].map(plain), y=data["y"].map(plain), text=text).pivot(index="y", columns="x").loc[rows]
        figure = px.imshow(
            cells["value"][columns],
            labels={"x": escape(axis_title(self.x)), "y": escape(axis_title(self.y)), "color": metric_label(self.metric)},
            color_continuous_scale=SHADES,
            aspect="auto",
            height=150 + ROW * len(rows),
            template=SCREEN,
        )
        text = cells["text"][columns].fillna("")
        figure.update_traces(text=text, hovertemplate="%{y}, %{x}: %{text}<extra></extra>")
        figure.update_traces(texttemplate="%{text}" if len(columns) <= MOST_COLUMNS else None)
        figure.update_xaxes(type="category", showgrid=False).update_yaxes(type="category", showgrid=False)
        return figure.update_layout(meta={"rows": True})


def crossed(records: StudyRecords, variants: Sequence[int], x: str, y: str) -> Cells:
    """Return the variants at every two levels, row by row."""
    cells = Cells()
    for index in variants:
        cells.setdefault((records.level(index, x), records.level(index, y)), []).append(index)
    columns, rows = (ordered(levels[axis] for levels in cells) for axis in (0, 1))
    return {(column, row): cells[column, row] for row in rows for column in columns if (column, row) in cells}
