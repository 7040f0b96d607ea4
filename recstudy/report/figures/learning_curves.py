"""The report parts `LearningCurves` and `LossTrace`: metrics by epoch, and the loss by optimiser update.

The board draws the same figures while runs are in progress.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from itertools import cycle
from typing import Any, Self

from pydantic import Field

from recstudy.base.lazy import go, np, pd
from recstudy.records import Json, LossLine, read_log
from recstudy.records.runs import Row
from recstudy.report.figures.chosen import (
    MAX_LINES,
    cut_note,
    named_variants,
    run_columns,
    shown_variants,
)
from recstudy.report.look import (
    DASHES,
    GREY,
    PALETTE,
    SCREEN,
    folded,
    integer_ticks,
    metric_label,
    name_ends,
    tint,
    without_common,
)
from recstudy.report.names import find_metric, inline, join_labels, metric, plural
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords

COLUMNS = [
    "variant",
    "label",
    "metric",
    "epoch",
    "mean",
    "low",
    "high",
    "n",
    "average",
    "selected",
    "synthetic",
]
GREY_LINES = "Colours: variants of the claims, and the best. Grey: the others"
NO_METRICS = ("variant", "seed", "id", "epoch", "seconds")
SELECTION = "selection_"
PANELS = 6  # maximum number of metrics of a user's own program
CIRCLE = {"symbol": "circle-open", "line": {"width": 2}}
OTHER_LINE = {"color": GREY, "width": 1}
PANEL_TITLE = 24  # characters of a line of a panel's title


@PARTS.add("learning_curves")
class LearningCurves(FigurePart):
    """Metrics by epoch: the mean over the seeds of each variant, with the range of the seeds.

    Args:
        name: The name of the part and of its files.
        metrics: The metrics to show. Empty means all metrics that a user's own program reports.
        window: Number of epochs of the moving average; 1 means no average.
    """

    name: str = "learning_curves"
    metrics: tuple[str, ...] = ("train_loss", "selection_top1_accuracy")
    window: int = Field(default=1, ge=1)
    reads_in = ("metrics",)
    live = True
    default_title = "Learning curves"

    @property
    def is_per_step(self) -> bool:
        return not self.metrics

    def of_metrics(self, metrics: Sequence[str]) -> Self:
        return replace(self, metrics=()) if self.metrics == LearningCurves.metrics else self

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per variant, metric and epoch, for the best variants.

        `mean`, `low` and `high` are over `n` seeds, and `average` is the moving average. `selected` counts
        the seeds that selected the epoch. For a user's own program, `step` replaces `epoch`.
        """
        bright_variants = named_variants(records, records.indices)
        frame = records.epochs(sorted({*bright_variants, *shown_variants(records)}))
        reported = [name for name in map(str, frame) if name not in NO_METRICS][:PANELS]
        names = [name for name in self.metrics or reported if name in frame and frame[name].notna().any()]
        if not names:
            return pd.DataFrame(columns=COLUMNS)
        epochs = frame.groupby(["variant", "epoch"])
        tables = {name: epochs[name].agg(mean="mean", low="min", high="max", n="count") for name in names}
        data = pd.concat(tables, names=["metric"]).reset_index().dropna(subset="mean")
        data["average"] = data.groupby(["metric", "variant"])["mean"].transform(moving_average, self.window)
        selected = Counter((row.variant, row.selected.number) for row in records.rows if row.done)
        data["selected"] = [selected[key] for key in zip(data["variant"], data["epoch"], strict=True)]
        data["label"] = records.labels(data["variant"])
        data["synthetic"] = data["variant"].isin(records.synthetic)
        data["_named"] = data["variant"].isin(bright_variants)
        return data[[*COLUMNS, "_named"]].rename(columns={"epoch": records.program.step_name})

    def notes(self, records: StudyRecords, data: pd.DataFrame) -> Sequence[str]:
        """Return notes on damaged logs, on variants that are not shown, and on metrics that no run has."""
        # a crash or a full disk can damage lines of a log
        lost_epochs = [
            f"{row.label}, seed {row.seed} ({plural(count, 'epoch')})"
            for row in records.rows
            if (count := row.provenance.lost_epochs)
        ]
        notes = [f"damaged logs, so that epochs are missing: {join_labels(lost_epochs)}"] * bool(lost_epochs)
        notes += cut_note(records, len(records.variants))
        for name in self.metrics:
            if len(data) and not find_metric(name) and name not in set(data["metric"]):
                notes.append(f"no run recorded a metric {name!r}")
        return notes

    def caption(self, data: pd.DataFrame) -> str:
        axis, (_, common) = axis_of(data), without_common(data["label"])
        sentences = {
            "Lines: means over seeds. Shading: range of the seeds": (data["n"] > 1).any(),
            f"All variants: {common}": common,
            GREY_LINES: not data["_named"].all(),
            f"Light: each {axis}. Dark: centred moving average over {self.window} {axis}s": self.window > 1,
            "Circles: selected epochs": is_selected(data).any(),
        }
        return ". ".join(sentence for sentence, is_needed in sentences.items() if is_needed)

    def finding(self, data: pd.DataFrame) -> str:
        """Return the range over the variants of the last value of the first score, or of the first metric."""
        names = list(data["metric"].unique())
        name = next((name for name in names if name.startswith(SELECTION)), names[0])
        score = "selection " * name.startswith(SELECTION) + inline(name.removeprefix(SELECTION))
        last_values = span(data[data["metric"] == name].groupby("variant")["mean"].last(), metric(name).form)
        return f"{score} ends at {last_values} {metric(name).unit}".strip()

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw a panel per metric, with the names of the variants at the ends of their lines."""
        from plotly.subplots import make_subplots

        # plotly.express would take ten times as long to make the traces of 30 variants
        axis, variants = axis_of(data), data.drop_duplicates("variant").set_index("variant")
        bright_variants = variants.index[variants["_named"]]
        names = variants["label"].map(without_common(variants["label"])[0]).to_dict()
        panels: list[Any] = list(data["metric"].unique())
        figure = make_subplots(len(panels), shared_xaxes=True)
        bands, light_lines, lines = list[Json](), list[Json](), list[Json]()
        colors = dict(zip(bright_variants, cycle(PALETTE), strict=False))
        dashes = dict(zip(bright_variants, cycle(DASHES), strict=False))
        line_ends: dict[Any, dict[str, tuple[float, str]]] = {name: {} for name in panels}
        for (name, variant), points in data.groupby(["metric", "variant"], sort=False):
            panel, x, color = panels.index(name) + 1, points[axis], colors.get(variant, GREY)
            trace = {"x": x, "name": names[variant], "showlegend": False}
            trace |= {"xaxis": f"x{panel}", "yaxis": f"y{panel}"}
            if variant not in colors:
                light_lines.append({**trace, "y": points["average"], "mode": "lines", "line": OTHER_LINE})
                continue
            line_ends[name][names[variant]] = points["average"].iloc[-1], color
            # bands and light lines have no tooltip
            silent = trace | {"mode": "lines", "hoverinfo": "skip"}
            if (points["n"] > 1).any():
                y = [*points["high"], *points["low"][::-1]]
                outline = {"x": [*x, *x[::-1]], "y": y, "line_width": 0, "fill": "toself"}
                bands.append(silent | outline | {"fillcolor": tint(color, 0.16)})
            if self.window > 1:
                light = {"color": tint(color, max(0.1, 0.7 / (1 + len(bright_variants)))), "width": 1}
                light_lines.append(silent | {"y": points["mean"], "line": light})
            # a circle marks a selected epoch, and makes a line of one point visible
            circles = np.where(is_selected(points) | (len(points) == 1), 9, 0)
            marker = {**CIRCLE, "size": circles, "color": color}
            mode = "lines+markers" if circles.any() else "lines"
            line = {"color": color, "dash": dashes[variant]}
            lines.append(trace | {"mode": mode, "line": line, "marker": marker, "y": points["average"]})
        figure.add_traces([*bands, *light_lines, *lines])
        figure.update_yaxes(rangemode="nonnegative" if data["low"].min() >= 0 else "normal")
        figure.update_xaxes(**integer_ticks(data[axis]), showticklabels=True)
        figure.update_xaxes(title=axis, row=len(panels))
        for panel, name in enumerate(panels, 1):
            figure.update_yaxes(title=folded(metric_label(unescape(name)), PANEL_TITLE), row=panel)
            if len(names) > 1:
                values = data.loc[data["metric"] == name, "average"]
                name_ends(figure, line_ends[name], data[axis].max(), values, panel, len(panels))
        figure.update_layout(height=120 + 230 * len(panels), template=SCREEN, showlegend=False)
        return figure.update_layout(meta={**(figure.layout.meta or {}), "across": axis})


def axis_of(data: pd.DataFrame) -> str:
    """Return the column of the x-axis: `step` for a user's own program, `update` for losses, else `epoch`."""
    return next(axis for axis in ("step", "update", "epoch") if axis in data)


def moving_average(values: pd.Series, window: int) -> pd.Series:
    """Return the centred moving average.

    An even window has one more value before the centre than after it. At both ends, the average is over the
    values that exist.
    """
    return values.rolling(window, min_periods=1, center=True).mean()


def span(values: pd.Series, form: str) -> str:
    """Return the smallest and the largest value, `89.6 to 90.1`, or one number if both print alike."""
    return " to ".join(dict.fromkeys(format(value, form) for value in (values.min(), values.max())))


def is_selected(data: pd.DataFrame) -> pd.Series[bool]:
    """Return which points are selected epochs, on the curves of the score that selected them."""
    return data["metric"].str.startswith(SELECTION) & (data["selected"] > 0)


LOSS_COLUMNS = ["variant", "label", "seed", "update", "loss", "average", "synthetic"]
LOSSES = "losses.jsonl"
# points per variant: two for each pixel of a printed figure's width; 30 variants take 1 MB in a page
POINTS = 1_500
THINNED = (
    "The figure shows the lowest and the highest point of each short stretch; the CSV file has all points."
)


@PARTS.add("loss_trace")
class LossTrace(FigurePart, OfVariants):
    """The training loss by optimiser update, with its moving average, for one seed of each variant.

    Args:
        name: The name of the part and of its files.
        window: Number of recorded losses in the moving average.
    """

    run_file = LOSSES
    name: str = "loss_trace"
    window: int = Field(default=50, ge=1)
    live = True
    default_title = "Training loss by update"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per recorded loss of one seed of each variant.

        The seed is the first finished or running one, or else the first that diverged. `update` counts from
        the start of training, and `average` is the moving average.
        """
        runs: dict[int, Row] = {}
        for index in records.chosen(self.where):
            run = records.first_run(index, LOSSES, ("done", "unfinished"))
            if run := run or records.first_run(index, LOSSES, ("diverged",)):
                runs[index] = run
        rows, bright_variants = [], named_variants(records, [*runs])
        for index in sorted({*bright_variants, *shown_variants(records, MAX_LINES, runs)}):
            columns = {**run_columns(records, runs[index]), "_named": index in bright_variants}
            lines = read_log(records.results.run(runs[index].id).losses, LossLine)
            # a resumed run repeats an epoch: the last line of each epoch counts
            for line in {line.epoch: line for line in lines}.values():
                updates = line.first + line.every * np.arange(len(line.losses))
                rows.append({**columns, "update": updates, "loss": line.losses})
        data = pd.DataFrame(rows, columns=[*LOSS_COLUMNS, "_named"]).explode(
            ["update", "loss"], ignore_index=True
        )
        data = data.dropna(subset="update").astype({"update": int, "loss": float})
        data["average"] = data.groupby("variant")["loss"].transform(moving_average, self.window)
        return data

    def notes(self, records: StudyRecords, data: pd.DataFrame) -> Sequence[str]:
        return cut_note(records, len(records.chosen(self.where)))

    def finding(self, data: pd.DataFrame) -> str:
        last_averages = span(data.drop_duplicates("variant", keep="last")["average"], ".3g")
        return f"ends at {last_averages} {metric('train_loss').unit}".strip()

    def caption(self, data: pd.DataFrame) -> str:
        words = f"{GREY_LINES}. " * (not data["_named"].all()) + (
            f"Light: recorded losses. Dark: their centred moving average over {plural(self.window, 'point')}."
            " One seed per variant."
        )
        is_thinned = data["variant"].value_counts().max() > POINTS
        return f"{words} {THINNED}" if is_thinned else words

    def draw(self, data: pd.DataFrame) -> go.Figure:
        parts = [
            part.iloc[thin(part["loss"].to_numpy(), POINTS)]
            for _, part in data.groupby("variant", sort=False)
        ]
        # Plotly packs arrays of these types as binary, a fifth of the size of digits
        types = {"update": "int32", "loss": "float32", "average": "float32"}
        points = pd.concat(parts).astype(types).rename(columns={"loss": "mean"})
        points = points.assign(metric="train_loss", low=points["mean"], n=1, selected=0)
        return LearningCurves(window=self.window).draw(points).update_xaxes(title="optimiser updates")


def thin(losses: np.ndarray, max_points: int) -> np.ndarray:
    """Return the positions of about `max_points` losses that represent a trace.

    They are the lowest and the highest loss of each of `max_points / 2` equal stretches.
    """
    # a mean of each stretch would hide how widely the losses scatter
    positions = np.arange(len(losses))
    if len(losses) <= max_points:
        return positions
    stretches = np.array_split(positions, max(1, max_points // 2))
    return np.unique(
        [stretch[end(losses[stretch])] for stretch in stretches for end in (np.argmin, np.argmax)]
    )
