"""Forest plots of estimates with intervals: `Forest` for questions, and the report part `Replications`.

The tables of questions draw a `Forest`. `Replications` shows independent retrainings of a published model,
with their random-effects mean and the prediction for one more retraining.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import Any, ClassVar

from pydantic import Field

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.lazy import go, np, pd
from recstudy.evidence.replications import Combined, combine
from recstudy.papers import Target, published
from recstudy.papers.replications import CELLS, replications
from recstudy.report.look import PALETTE, axis_name, clipped, tint
from recstudy.report.parts import PARTS, FigurePart
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import match_targets

INTERVAL, REGION = ["low_95", "high_95"], ["region_low", "region_high"]
COLUMNS = ["label", "group", "estimate", *INTERVAL, *REGION, "verdict", "n", "about", "mark"]
COLUMNS += ["_size", "_interval", "_outcome"]
TEXTS = ["verdict", "about", "_size", "_interval", "_outcome"]
SYMBOLS = {
    "yes": "circle", "no": "x", "open": "circle-open",
    "published": "diamond", "ours": "square", "retrained": "circle", "apart": "circle-open",
    "mean": "diamond-wide", "prediction": "diamond-wide-open",
}  # fmt: skip
# columns of a part's own data -> columns of a forest
FOREST_NAMES = {"value": "estimate", "low": "low_95", "high": "high_95"}
HEADING = "heading"  # the mark of a row that has a label alone
MARKS = {"yes": "Filled circles", "no": "Crosses", "open": "Hollow circles"}
SHADE = "Shading: values that support the claim, or values within the margin of the published difference"
# smallest width in pixels -> characters of a label and of the words to the right, and lines of a label
FORMS = {0: (19, 13, 6), 540: (32, 22, 4), 900: (56, 44, 3)}
TITLE = {"font": {"size": 13}, "standoff": 6}
ROW, LINE, AXIS, TOP = (
    12,
    16,
    60,
    30,
)  # pixels: gap of rows, line, x-axis with its title, top margin


class Forest(FigurePart):
    """Estimates with intervals over the shaded region of each question, in rows.

    The label of a row is to the left of its interval, and its number with the verdict to the right. The data
    have a row per question:

        group       title of the x-axis; the rows of a group have the same unit
        region_...  ends of the shaded region, which may be infinite
        mark        `yes` (decided as asked, or a significant difference), `no` (decided against) or `open`
        about       text of the tooltip
        _...        number, interval and verdict to the right of the row

    `data.attrs["verdicts"]` counts the verdicts in words.
    """

    origin: ClassVar[float] = 0.0  # a value that each x-axis includes

    def caption(self, data: pd.DataFrame) -> str:
        verdicts = data.groupby("mark")["verdict"].unique()
        sentences = [f"{MARKS[mark]}: {', '.join(verdicts[mark])}" for mark in MARKS if mark in verdicts]
        return ". ".join([*sentences, SHADE] if data["region_low"].notna().any() else sentences)

    def finding(self, data: pd.DataFrame) -> str:
        return str(data.attrs["verdicts"])

    def draw(self, data: pd.DataFrame) -> go.Figure:
        return draw_rows(data, self.origin)


def draw_rows(data: pd.DataFrame, origin: float = nan) -> go.Figure:
    """Draw rows with the columns of a `Forest`, in a panel for each group.

    Labels and words are axis labels, so that Plotly makes room for them. Their line breaks depend on the
    width of the figure, and so does its height: `look.formed` chooses one of the layouts in `meta`.

    Args:
        data: A row per estimate, with the columns of a `Forest` or with `FOREST_NAMES`. Missing columns are
            empty. A row with the mark `HEADING` has a label alone.
        origin: A value that each x-axis includes.
    """
    from plotly.subplots import make_subplots

    rows = data.rename(columns=FOREST_NAMES).reindex(columns=COLUMNS)
    rows[TEXTS] = rows[TEXTS].astype(object).fillna("")
    groups = [rows for _, rows in rows.groupby("group", sort=False)]
    # the second y-axis of a panel has the words to the right
    figure = make_subplots(len(groups), specs=[[{"secondary_y": True}]] * len(groups))
    for panel, rows in enumerate(groups, 1):
        _draw_group(figure, rows, panel, origin)
    forms = [{"width": width, **_form(groups, width)} for width in FORMS]
    margin = {"l": 8, "r": 8, "t": TOP, "b": AXIS}
    figure.update_xaxes(domain=[0, 1])
    return figure.update_layout(showlegend=False, margin=margin, meta={"rows": True, "forms": forms})


def _form(groups: Sequence[pd.DataFrame], width: int) -> dict[str, Any]:
    """Return the labels, the place of each panel and the height of a figure of this width."""
    characters, words, lines = FORMS[width]
    axes: dict[str, Any] = {}
    heights = []
    for panel, rows in enumerate(groups, 1):
        labels = rows["label"].map(lambda text: clipped(text, characters, lines))
        labels = labels.where(rows["mark"] != HEADING, "<b>" + labels + "</b>")
        # a narrow figure has no room for the interval, which is drawn
        sizes = rows["_size"].str.cat(rows["_interval"], " ") if width else rows["_size"]
        outcomes = rows["_outcome"].map(lambda text: clipped(text, words, 2) if text else "")
        sizes = sizes.str.strip().str.cat(outcomes, "<br>").str.removesuffix("<br>")
        most_lines = 1 + max(column.str.count("<br>").max() for column in (labels, sizes))
        heights.append(len(rows) * (ROW + LINE * most_lines))
        title = clipped(rows["group"].iloc[0], characters + words, 2)
        axes[axis_name("x", panel)] = {"title": {"text": title, **TITLE}}
        axes[axis_name("y", 2 * panel - 1)] = {"ticktext": [*labels]}
        axes[axis_name("y", 2 * panel)] = {"ticktext": [*sizes]}
    # the distance between two panels is an x-axis with its title
    total, top = sum(heights) + AXIS * (len(groups) - 1), 1.0
    for panel, height in enumerate(heights, 1):
        axes[axis_name("y", 2 * panel - 1)]["domain"] = [max(0.0, top - height / total), top]
        top -= (height + AXIS) / total
    return {"height": total + AXIS + TOP, **axes}


def _draw_group(figure: go.Figure, rows: pd.DataFrame, panel: int, origin: float) -> None:
    """Draw the rows of one unit, with the first row on top."""
    # an infinite end of a region is drawn to the edge of the axis
    numbers = rows[["estimate", *INTERVAL, *REGION]].replace([inf, -inf], nan).to_numpy(float)
    low_end, high_end = (float(end([origin, *numbers.flat])) for end in (np.nanmin, np.nanmax))
    margin = 0.08 * (high_end - low_end) or 1.0
    low_end, high_end = low_end - margin, high_end + margin
    region, y, color = rows[REGION].clip(low_end, high_end), np.arange(len(rows)), PALETTE[0]
    place = {"row": panel, "col": 1}
    figure.add_bar(
        base=region["region_low"],
        x=region.diff(axis=1)["region_high"],
        y=y,
        marker_color=tint(color, 0.18),
        hoverinfo="skip",
        orientation="h",
        width=0.5,
        **place,
    )
    figure.add_scatter(
        x=rows["estimate"],
        y=y,
        mode="markers",
        marker={"symbol": rows["mark"].map(SYMBOLS).fillna("circle"), "size": 10, "color": color},
        marker_line={"width": 2, "color": color},
        error_x={"symmetric": False, "thickness": 1.5, "width": 0},
        error_x_array=rows["high_95"] - rows["estimate"],
        error_x_arrayminus=rows["estimate"] - rows["low_95"],
        text=rows["label"] + ": " + rows["verdict"] + ". " + rows["about"],
        hovertemplate="%{x:.6g}, %{text}<extra></extra>",
        secondary_y=True,
        **place,
    )
    scale = {"range": [len(y) - 0.4, -0.6], "tickvals": y, "ticks": "", "showgrid": False}
    figure.update_yaxes(**scale, tickfont_size=12, ticklabelstandoff=6, fixedrange=True, **place)
    zero = {"zeroline": origin == 0, "zerolinecolor": "gray"}
    figure.update_xaxes(range=[low_end, high_end], nticks=5, **zero, **place)


RETRAINED_COLUMNS = ["kind", "who", "setting", "value", "low", "high", "apart", "source"]
RETRAINED_CAPTION = (
    "Filled circles: independent retrainings, which enter the mean. Hollow circles: results that do not, with"
    " the reason. Bars: 95 % intervals from test items and printed digits alone. Last rows: the mean with its"
    " 95 % interval, and the range where one more retraining would fall"
)
Z = 1.96  # half-width of a normal 95 % interval in standard errors


@PARTS.add("replications")
class Replications(Forest):
    """A forest plot of a published number, its independent retrainings and the study's comparable runs.

    The last rows show the random-effects mean over the retrainings with tau, and the prediction for one more.

    Args:
        cell: A key of `recstudy.papers.replications.CELLS`, such as `trm_mlp_sudoku_extreme`.
    """

    name: str = "replications"
    cell: str = Field(kw_only=True)
    origin = nan

    def __post_init__(self) -> None:
        if self.cell not in CELLS:
            raise ConfigError(
                f"replications: unknown cell {self.cell!r}. Choose one of {choices(CELLS)}."
                f"{nearest(self.cell, CELLS)}"
            )

    @property
    def heading(self) -> str:
        return self.title or f"Independent retrainings: {CELLS[self.cell].title}"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return the rows of the cell, with the study's finished runs that compare with the published one."""
        target = _published_target(self.cell)
        placement = match_targets(records, [target], records.indices, [target.metric])
        ours = []
        for (index, name), matches in placement.matches.items():
            # reasons say why a variant does not compare with the published number
            is_comparable = not any(match.reasons for match in matches)
            for run in records.by_variant[index] if is_comparable else ():
                if run.done and run.value(name) is not None:
                    ours.append((f"{run.label}, seed {run.seed}", run.number(name)))
        return replication_rows(self.cell, ours)

    def finding(self, data: pd.DataFrame) -> str:
        return summarize(combine_cell(self.cell))

    def caption(self, data: pd.DataFrame) -> str:
        return f"{self.finding(data)}. {RETRAINED_CAPTION}"

    def draw(self, data: pd.DataFrame) -> go.Figure:
        rows = data.dropna(subset="value")
        names = rows["who"].where(rows["who"] != "", rows["kind"])
        details = rows["apart"].where(rows["apart"] != "", rows["setting"])
        return draw_rows(
            rows.assign(
                label=(names + ": " + details).str.removesuffix(": "),
                group="%",
                mark=rows["kind"],
                verdict=rows["setting"],
                about=rows["source"],
                _size=rows["value"].map("{:.1f}".format),
            )
        )


def replication_rows(cell: str, ours: Sequence[tuple[str, float]] = ()) -> pd.DataFrame:
    """Return the rows of a forest of replications.

    Args:
        cell: A key of `CELLS`.
        ours: Label and value of each run of the study.

    Returns:
        The published number, our runs, the retrainings and the other results from the highest value down,
        and last the mean and the prediction.
    """
    target, combined, none = _published_target(cell), combine_cell(cell), (nan, nan)
    rows = [("published", "the paper", target.model, target.value, *none, "", target.cited)]
    rows += [("ours", "here", label, value, *none, "", "here") for label, value in ours]
    for row in sorted(
        replications(cell), key=lambda row: (row.value is None, not row.counts, -(row.value or 0.0))
    ):
        # only a result that enters the mean gets an error bar
        kind, half = ("retrained", Z * row.error) if row.counts else ("apart", nan)
        value = nan if row.value is None else row.value
        limits = clip_percent(value - half, value + half)
        rows.append((kind, row.who, row.setting, value, *limits, row.why_not, row.source))
    for kind, interval in (("mean", combined.interval), ("prediction", combined.predicted)):
        rows.append((kind, "", "", combined.mean, *clip_percent(*(interval or none)), "", ""))
    return pd.DataFrame(rows, columns=RETRAINED_COLUMNS)


def combine_cell(cell: str) -> Combined:
    """Return the random-effects summary of a cell's retrainings. Each cell has at least one."""
    retrainings = [row for row in replications(cell) if row.counts]
    return combine([row.value or 0.0 for row in retrainings], [row.error for row in retrainings])


def summarize(mean: Combined) -> str:
    """Return the summary in words: `Random effects over 7 independent retrainings ...: 83.3 % ...`."""
    if mean.interval is None:
        return f"One independent retraining: {mean.mean:.1f} %"
    low, high = clip_percent(*mean.interval)
    prediction = ""
    if mean.predicted:
        prediction = "; one more would find {:.1f} to {:.1f}".format(*clip_percent(*mean.predicted))
    return (
        f"Random effects over {mean.k} independent retrainings, without the published run and ours:"
        f" {mean.mean:.1f} % [{low:.1f}, {high:.1f}], tau {mean.tau:.1f}{prediction}"
    )


def clip_percent(low: float, high: float) -> tuple[float, float]:
    """Return both ends of an interval, clipped to 0 and 100 %."""
    return max(low, 0.0), min(high, 100.0)


def _published_target(cell: str) -> Target:
    row = CELLS[cell].row
    (target,) = (target for target in published(row.partition("#")[0]) if target.row == row)
    return target
