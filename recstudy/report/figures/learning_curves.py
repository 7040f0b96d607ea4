"""The course of training: what the epochs of each variant measured, a panel a metric, and the loss update by
update.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from typing import Self

from pydantic import Field

from recstudy.lazy import go, np, pd
from recstudy.records import Json, LossLine, read_log
from recstudy.records.runs import Row
from recstudy.report.caveats import join_labels
from recstudy.report.examples import MAX_LINES, add_labels, cut_note, shown_variants
from recstudy.report.look import DASHES, PALETTE, SCREEN, metric_label, tint, without_common
from recstudy.report.names import find_metric, inline, metric, plural
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
NO_METRICS = ("variant", "seed", "id", "epoch", "seconds")
SELECTION = "selection_"
PANELS = 6  # of metrics that a user's own program reported
CIRCLE = {"symbol": "circle-open", "line": {"width": 2}}
MOST_TICKS = 12  # epochs that are all labelled


@PARTS.add("learning_curves")
class LearningCurves(FigurePart):
    """Per-epoch values of every variant: mean over the seeds, with the range between them."""

    name: str = "learning_curves"
    # none: all that a user's own program reported
    metrics: tuple[str, ...] = ("train_loss", "selection_top1_accuracy")
    window: int = Field(default=1, ge=1)  # epochs that a moving average is taken over; 1: none
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

        `mean`, `low` and `high` are over `n` seeds; `average` is the mean over the `window` epochs around.
        `selected` seeds have selected the epoch. Of a user's own program, `step` takes the place of `epoch`.
        """
        frame = records.epochs(shown_variants(records))
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
        data = add_labels(records, data)[COLUMNS]
        return data.rename(columns={"epoch": "step"}) if records.is_own else data

    def notes(self, records: StudyRecords, data: pd.DataFrame) -> Sequence[str]:
        """Name metrics that no run has, which may be misspelt, and logs that a crash or a disk has
        damaged.
        """
        unknown = [
            name
            for name in self.metrics
            if len(data) and not find_metric(name) and name not in set(data["metric"])
        ]
        lost_epochs = {f"{row.label}, seed {row.seed}": row.provenance.lost_epochs for row in records.rows}
        damaged = join_labels(
            [f"{run} ({plural(count, 'epoch')})" for run, count in lost_epochs.items() if count]
        )
        notes = [
            *cut_note(records, len(records.variants)),
            *(f"no run recorded a metric {name!r}" for name in unknown),
        ]
        return [f"damaged logs, so that epochs are missing: {damaged}", *notes] if damaged else notes

    def caption(self, data: pd.DataFrame) -> str:
        axis, common = axis_of(data), without_common(list(data["label"].unique()))[1]
        sentences = {
            "Lines: means over seeds; shaded: the range between them": (data["n"] > 1).any(),
            f"All variants: {common}": common,
            f"Light: each {axis}. Dark: moving average, centred, over {self.window} {axis}s": self.window > 1,
            "Circles: the epochs that were selected": is_selected(data).any(),
        }
        return ". ".join(sentence for sentence, is_needed in sentences.items() if is_needed)

    def finding(self, data: pd.DataFrame) -> str:
        """Return where the first score, or else the first metric, ends over the variants."""
        names = list(data["metric"].unique())
        name = next((name for name in names if name.startswith(SELECTION)), names[0])
        score = "selection " * name.startswith(SELECTION) + inline(name.removeprefix(SELECTION))
        last_values = span(data[data["metric"] == name].groupby("variant")["mean"].last(), metric(name).form)
        return f"{score} ends at {last_values} {metric(name).unit}".strip()

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw a panel a metric; a click on a name in the legend hides or shows that variant in all of them.

        The traces are made here and not by plotly.express, which takes ten times as long for 30 variants.
        """
        from plotly.subplots import make_subplots

        axis, variants = axis_of(data), data.drop_duplicates("variant")
        names = dict(zip(variants["variant"], without_common(list(variants["label"]))[0], strict=True))
        panels = {name: metric_label(unescape(name)) for name in data["metric"].unique()}
        figure = make_subplots(len(panels), shared_xaxes=True, subplot_titles=list(panels.values()))
        bands, light_lines, lines = list[Json](), list[Json](), list[Json]()
        for (name, variant), points in data.groupby(["metric", "variant"], sort=False):
            panel, position, x = list(panels).index(name) + 1, list(names).index(variant), points[axis]
            color, dash = PALETTE[position % len(PALETTE)], DASHES[position % len(DASHES)]
            trace = {
                "x": x,
                "name": names[variant],
                "legendgroup": str(variant),
                "xaxis": f"x{panel}",
                "yaxis": f"y{panel}",
            }
            silent = trace | {"mode": "lines", "hoverinfo": "skip", "showlegend": False}
            if (points["n"] > 1).any():
                outline = {
                    "x": [*x, *x[::-1]],
                    "y": [*points["high"], *points["low"][::-1]],
                    "line": {"width": 0},
                }
                bands.append(silent | outline | {"fill": "toself", "fillcolor": tint(color, 0.16)})
            if self.window > 1:
                light = {"color": tint(color, max(0.1, 0.7 / (1 + len(names)))), "width": 1}
                light_lines.append(silent | {"y": points["mean"], "line": light})
            circles = np.where(is_selected(points) | (len(points) == 1), 9, 0)
            marker = {**CIRCLE, "size": circles, "color": color}
            look = {
                "line": {"color": color, "dash": dash},
                "mode": "lines+markers" if circles.any() else "lines",
            }
            lines.append(trace | look | {"y": points["average"], "marker": marker, "showlegend": panel == 1})
        figure.add_traces([*bands, *light_lines, *lines])
        figure.update_yaxes(rangemode="nonnegative" if data["low"].min() >= 0 else "normal")
        figure.update_xaxes(
            dtick=1 if data[axis].max() <= MOST_TICKS else None, tickformat=",", showticklabels=True
        )
        figure.update_xaxes(title=axis, row=len(panels))
        layout = {
            "height": 140 + 240 * len(panels),
            "template": SCREEN,
            "margin_t": 55,
            "meta": {"across": axis},
        }
        return figure.update_layout(**layout)


def axis_of(data: pd.DataFrame) -> str:
    """Return what the lines of a log are called: the steps of a user's own program, else epochs."""
    return next(axis for axis in ("step", "update", "epoch") if axis in data)


def moving_average(values: pd.Series, window: int) -> pd.Series:
    """Return the mean of the `window` values around each (of an even number, one more before it); of fewer at
    the two ends.
    """
    return values.rolling(window, min_periods=1, center=True).mean()


def span(values: pd.Series, form: str) -> str:
    """Return `89.6 to 90.1`: the least and the largest value, or one where they print alike."""
    return " to ".join(dict.fromkeys(format(value, form) for value in (values.min(), values.max())))


def is_selected(data: pd.DataFrame) -> pd.Series[bool]:
    """Return which points are epochs that were selected, on the curves that they were selected by."""
    return data["metric"].str.startswith(SELECTION) & (data["selected"] > 0)


LOSS_COLUMNS = ["variant", "label", "seed", "update", "loss", "average", "synthetic"]
LOSSES = "losses.jsonl"
# of a variant: two for each pixel of a printed figure's width; 30 variants take 1 MB in a page
POINTS = 1_500
THINNED = "Drawn are the lowest and the highest point of each short stretch; the CSV file has all."


@PARTS.add("loss_trace")
class LossTrace(FigurePart, OfVariants):
    """The training loss of single updates, light, and its moving average, dark: one seed of every variant."""

    name: str = "loss_trace"
    window: int = Field(default=50, ge=1)  # recorded points that an average is taken over
    live = True
    default_title = "Training loss, update by update"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per recorded loss of the first finished or running seed of each variant, else of a
        diverged one.

        `update` counts from the start of training; `average` is the mean of the `window` recorded losses
        around.
        """
        runs: dict[int, Row] = {}
        for index in records.chosen(self.where):
            run = records.first_run(index, LOSSES, ("done", "unfinished")) or records.first_run(
                index, LOSSES, ("diverged",)
            )
            if run:
                runs[index] = run
        rows = []
        for index in shown_variants(records, MAX_LINES, runs):
            lines = read_log(records.results.run(runs[index].id).losses, LossLine)
            # the last line of an epoch that was run again
            for line in {line.epoch: line for line in lines}.values():
                rows.append(
                    (
                        index,
                        runs[index].seed,
                        line.first + line.every * np.arange(len(line.losses)),
                        line.losses,
                    )
                )
        data = pd.DataFrame(rows, columns=["variant", "seed", "update", "loss"]).explode(
            ["update", "loss"], ignore_index=True
        )
        data = data.dropna(subset="update").astype({"update": int, "loss": float})
        data["average"] = data.groupby("variant")["loss"].transform(moving_average, self.window)
        return add_labels(records, data)[LOSS_COLUMNS]

    def notes(self, records: StudyRecords, data: pd.DataFrame) -> Sequence[str]:
        return cut_note(records, len(records.chosen(self.where)))

    def finding(self, data: pd.DataFrame) -> str:
        last_averages = span(data.drop_duplicates("variant", keep="last")["average"], ".3g")
        return f"it ends at {last_averages} {metric('train_loss').unit}".strip()

    def caption(self, data: pd.DataFrame) -> str:
        words = (
            "Light: the recorded losses. Dark: their moving average, centred, over"
            f" {plural(self.window, 'point')}."
        )
        return f"{words} One seed a variant." + f" {THINNED}" * bool(
            data["variant"].value_counts().max() > POINTS
        )

    def draw(self, data: pd.DataFrame) -> go.Figure:
        parts = [
            part.iloc[thin(part["loss"].to_numpy(), POINTS)]
            for _, part in data.groupby("variant", sort=False)
        ]
        # Plotly packs them: a fifth of their digits
        types = {"update": "int32", "loss": "float32", "average": "float32"}
        points = pd.concat(parts).astype(types).rename(columns={"loss": "mean"})
        points = points.assign(metric="train_loss", low=points["mean"], n=1, selected=0)
        return LearningCurves(window=self.window).draw(points).update_xaxes(title="optimiser updates")


def thin(losses: np.ndarray, max_points: int) -> np.ndarray:
    """Return the positions of the lowest and the highest of each of `most / 2` equal stretches: the trace
    keeps its width.
    """
    positions = np.arange(len(losses))
    if len(losses) <= max_points:
        return positions
    stretches = np.array_split(positions, max(1, max_points // 2))
    return np.unique(
        [stretch[end(losses[stretch])] for stretch in stretches for end in (np.argmin, np.argmax)]
    )
