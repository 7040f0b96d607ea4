"""The report parts `HeatMap` and `Interactions`: a metric at the levels of two axes.

`HeatMap` shows coloured cells. `Interactions` shows lines, which are parallel if the axes do not interact.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from recstudy.base.errors import ConfigError
from recstudy.base.lazy import go, pd, px
from recstudy.evidence import Estimate, contrast
from recstudy.report.caveats import leaky_notes
from recstudy.report.cell_text import cell_text
from recstudy.report.cells import cell, missing_reason
from recstudy.report.figures.curve import comparable, point_row
from recstudy.report.fits import weighted_mean
from recstudy.report.look import escape, line_style, metric_label, ordered, panels, share_map
from recstudy.report.names import axis_title, level_words, metric, quantity, value_text
from recstudy.report.parts import PARTS, FigurePart, OfMetric, OfVariants
from recstudy.report.study_records import StudyRecords

COLUMNS = ["x", "y", "value", "low", "high", "n", "expected", "said", "run_ids", "synthetic"]
CAPTION = "Each cell shows the mean over seeds{}. Cells without colour have no finished run"
ROW, PLAIN_ROW = 75, 32  # pixels of a cell's height: with four lines of text, and without
MAX_TEXT_COLUMNS = 8  # in a wider map, the cells have no room for text
Cells = dict[tuple[Any, Any], list[int]]  # (level of x, level of y) -> variants


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
        variants = comparable(records, self.where)
        rows = []
        for (x, y), pooled in crossed(records, variants, self.x, self.y).items():
            mean = cell(records, pooled, self.metric)
            rows.append({"x": x, "y": y, "said": cell_text(mean), **point_row(mean)})
        data = pd.DataFrame(rows, columns=COLUMNS)
        notes = list(leaky_notes(records, records.chosen(self.where), is_shown=False))
        if len(variants) > len(data):
            notes.append(f"each cell pools {len(variants) / len(data):.3g} variants")
        if unfinished_cells := data["value"].isna().sum():
            notes.append(f"{unfinished_cells} of {len(data)} cells have no finished run")
        details = ", its 95 % interval and the number of runs" * (data["x"].nunique() <= MAX_TEXT_COLUMNS)
        data.attrs = {"notes": notes, "caption": CAPTION.format(details)}
        return data

    def finding(self, data: pd.DataFrame) -> str:
        means = data.dropna(subset="value").sort_values(
            "value", ascending=metric(self.metric).sign > 0, kind="stable"
        )
        if means.empty:
            return ""
        value, x, y = means[["value", "x", "y"]].iloc[-1]
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
        figure = share_map(cells["x"], cells["y"], data["value"], metric_label(self.metric))
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


def crossed(records: StudyRecords, variants: Sequence[int], x: str, y: str) -> Cells:
    """Return the variants at each pair of levels, row by row."""
    cells = Cells()
    for index in variants:
        cells.setdefault((records.level(index, x), records.level(index, y)), []).append(index)
    columns, rows = (ordered(levels[axis] for levels in cells) for axis in (0, 1))
    return {(column, row): cells[column, row] for row in rows for column in columns if (column, row) in cells}


MEAN_COLUMNS = [
    "x_axis",
    "by_axis",
    "x",
    "by",
    "value",
    "low",
    "high",
    "n",
    "expected",
    "missing",
    "run_ids",
    "synthetic",
]
PARALLEL = (
    "Parallel lines mean no interaction. Bars: 95 % intervals of the means, with variances pooled over cells"
)


@PARTS.add("interactions")
class Interactions(FigurePart, OfMetric, OfVariants):
    """Interaction plots: means at the levels of two axes as lines, which are parallel without interaction.

    Args:
        name: The name of the part and of its files.
        metric: The metric to show.
        x: The axis along x. Without `x` and `by`, there is a panel for each pair of axes.
        by: The axis whose levels are the lines.
    """

    name: str = "interactions"
    x: str | None = None
    by: str | None = None
    axes_in = ("x", "by")

    def __post_init__(self) -> None:
        if (self.x is None) != (self.by is None):
            raise ConfigError(
                f"interactions {self.name!r}: x and by need each other, but only one of them is given"
            )

    @property
    def heading(self) -> str:
        question = "which axes interact"
        if self.x:
            question = f"do {axis_title(self.x)} and {axis_title(self.by)} interact"
        return self.title or f"{metric(self.metric).title}: {question}?"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per point: its mean over the seeds that are complete, and the runs that it lacks.

        A seed is complete if all variants of the point have finished. Its value is their mean. Models that
        were given the answer are left out.

        Raises:
            ConfigError: An axis is unknown, or fewer than two axes vary.
        """
        variants = comparable(records, self.where)
        axes = [axis for axis in (self.x, self.by) if axis is not None]
        for axis in () if axes else records.plan.axes:
            if len({value_text(records.level(index, axis)) for index in variants}) > 1:
                axes.append(axis)
        if len(axes) < 2:
            raise ConfigError(
                f"interactions {self.name!r} needs two axes that vary, but this study has"
                f" {', '.join(axes) or 'none'}"
            )
        rows = []
        for pair in combinations(axes, 2):
            for pair_levels, pooled in crossed(records, variants, *pair).items():
                rows.append([*pair, *pair_levels, *self._point(records, pooled)])
        data = pd.DataFrame(rows, columns=MEAN_COLUMNS).astype({"value": float, "low": float, "high": float})
        notes = list(leaky_notes(records, records.chosen(self.where), is_shown=False))
        if unfinished_points := data["value"].isna().sum():
            notes.append(f"{unfinished_points} of {len(data)} points have no finished seed")
        if partial := ((data["n"] > 0) & (data["n"] < data["expected"])).sum():
            notes.append(f"{partial} of {len(data)} points lack some seeds")
        data.attrs = {"notes": notes, "caption": PARALLEL}
        return data

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw a panel for each pair of axes, in which a level always has the same line style."""
        points = data.assign(
            pair=data["x_axis"].map(axis_title)
            + " \N{MULTIPLICATION SIGN} "
            + data["by_axis"].map(axis_title),
            line=list(map(level_words, data["by_axis"], data["by"])),
            level=data["x"].map(value_text),
            above=data["high"] - data["value"],
            below=data["value"] - data["low"],
        )
        figure = panels(
            px.line,
            points,
            "pair",
            x="level",
            y="value",
            error_y="above",
            error_y_minus="below",
            labels={"value": metric_label(self.metric), "level": ""},
            hover_data=["low", "high", "n", "expected"],
            **line_style("line", points["line"].unique()),
        )
        figure.update_traces(connectgaps=True, error_y={"thickness": 1, "width": 4})
        return figure.update_xaxes(type="category", matches=None)

    def _point(self, records: StudyRecords, variants: Sequence[int]) -> list[Any]:
        """Return the columns of a row from `value` on."""
        runs = [run for index in variants for run in records.by_variant[index]]
        seeds = sorted({run.seed for run in runs})
        finished, missing_seeds = [], []
        for seed in seeds:
            cells = [run for run in runs if run.seed == seed]
            gaps = [f"{run.label} {reason}" for run in cells if (reason := missing_reason(run, self.metric))]
            # a seed with a gap would average over other variants than the rest
            if gaps:
                missing_seeds.append(f"seed {seed}: {', '.join(gaps)}")
            elif len(cells) == len(variants):
                finished += cells
        terms = [(1 / len(variants), weighted_mean(records, index, self.metric)) for index in variants]
        mean = contrast(terms) if finished else Estimate(None)
        counts = [len(finished) // len(variants), len(seeds)]
        texts = ["; ".join(missing_seeds), " ".join(run.id for run in finished)]
        return [mean.value, mean.low, mean.high, *counts, *texts, not records.synthetic.isdisjoint(variants)]
