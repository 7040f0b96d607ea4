"""The report parts `Curve` and `Residuals`: a metric against a swept setting.

A curve shows lines of means, a dot per seed, interval bands and the published values. `effort.py`,
`heat_map.py` and `means.py` reuse `point_row`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

from recstudy.base.errors import ConfigError
from recstudy.base.lazy import go, pd, px
from recstudy.base.values import is_number
from recstudy.evidence import Estimate, Verdict, Weighted, contrast, mean_of
from recstudy.records.runs import Row
from recstudy.report.caveats import leaky_notes
from recstudy.report.cells import Cell, cell
from recstudy.report.family import published_answers
from recstudy.report.figures.chosen import MAX_CURVES, ranked
from recstudy.report.fits import weighted_mean
from recstudy.report.look import (
    GREY,
    bands,
    escape,
    is_geometric,
    line_style,
    metric_label,
    name_ends,
    ordered,
    seed_dots,
    tint,
    without_common,
    without_prefix,
)
from recstudy.report.names import (
    at_depth,
    axis_title,
    find_metric,
    level_words,
    metric,
    plural,
    quantity,
    value_text,
)
from recstudy.report.parts import PARTS, BesidePublished, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import MatchedTarget, match_targets

WITHIN_A_RUN = {"eval.depth": "supervision steps at test", "eval.part": "level or class of the images"}
COLUMNS = [
    "line",
    "x",
    "value",
    "low",
    "high",
    "n",
    "expected",
    "published",
    "source",
    "verdict",
    "reasons",
    "run_ids",
]
COLUMNS += ["synthetic", "seeds"]
MAX_TICKS = 24  # if an axis has more levels, Plotly chooses which to label
BAND_SEEDS = 3  # an interval from two seeds says more about its own spread than about the mean
DOTS = "Small dots: seeds. Shading: 95 % intervals, for three or more seeds"
HOLLOW = "Hollow markers: published values with their margins"
DROP = (
    "Each point minus the best point of its line, with the 95 % interval of the difference. Published drops"
    " are differences of two published numbers. The best point is chosen from the same runs, so drops are"
    " slightly overestimated"
)
HOVER = {"line": False, "value": ":.6g", "low": ":.6g", "high": ":.6g", "n": True, "expected": True}
Points = dict[tuple[str, Any, str], list[int]]  # (line, x, metric at that x) -> variants


@PARTS.add("curve")
class Curve(FigurePart, OfVariants, BesidePublished):
    """A metric against a swept field, with a line for each value of another field.

    Args:
        x: The field or cost along the x-axis.
        y: The metric.
        by: The field whose values are the lines.
        drop: Whether to subtract the best point of each line, which shows for example how robust a model is
            to the batch size.
        log: Whether the y-axis is logarithmic.
    """

    x: str
    y: str
    by: str | None = None
    drop: bool = False
    log: bool = False
    axes_in = ("x", "by")
    metrics_in = ("y",)

    def __post_init__(self) -> None:
        if self.drop and self.x.startswith("eval."):
            raise ConfigError(
                f"curve {self.name!r}: drop compares different runs, but all points along {self.x} belong to"
                " the same runs. Remove drop or choose another x"
            )
        if self.drop and self.log:
            raise ConfigError(
                f"curve {self.name!r}: drop and log cannot be combined, because drops are zero or negative"
            )

    @property
    def heading(self) -> str:
        x_title = metric(self.x).title.lower() if find_metric(self.x) else axis_title(self.x)
        usual = f"{metric(self.y).title} against {x_title}" + ", as a drop from each line's best" * self.drop
        return self.title or self.default_title or usual

    def points(self, records: StudyRecords) -> Points:
        """Return the variants at each point. Several variants at one point are pooled."""
        points = Points()
        for index in self.comparable(records):
            line = level_words(self.by, records.level(index, self.by)) if self.by else metric(self.y).title
            for x, name in self._positions(records, index).items():
                points.setdefault((line, x, name), []).append(index)
        return points

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per point, ours and published.

        A point without a finished run has a row without a value.
        """
        points = self.points(records)
        variants = sorted({index for pooled in points.values() for index in pooled})
        placement = match_targets(records, self.targets, variants, [self.y])
        rows: list[dict[str, Any]] = []
        for (line, x, name), pooled in points.items():
            point = cell(records, pooled, name, placement)
            rows += [{"line": line, "x": x, **row} for row in (point_row(point), *_published_points(point))]
        data = pd.DataFrame(rows, columns=COLUMNS).sort_values(
            ["line", "published", "x"], key=_order, ignore_index=True
        )
        return self._minus_best(records, data) if self.drop else data

    def notes(self, records: StudyRecords, data: pd.DataFrame) -> Sequence[str]:
        ours, published = _split(data)
        pooled = max(map(len, self.points(records).values()), default=0)
        unfinished_points = ours["value"].isna().sum()
        incomparable = (published["verdict"] == Verdict.NOT_COMPARABLE).sum()
        notes = {
            f"points pool up to {pooled} variants; intervals use the variance of seeds within variants": (
                pooled > 1
            ),
            f"{unfinished_points} of {len(ours)} points have no finished run": unfinished_points,
            f"{incomparable} of {plural(len(published), 'published point')} not comparable": incomparable,
        }
        leaky = leaky_notes(records, records.chosen(self.where), is_shown=False)
        return [*leaky, *(note for note, is_needed in notes.items() if is_needed)]

    def caption(self, data: pd.DataFrame) -> str:
        ours, published = _split(data)
        _, common = without_common(data["line"])
        sentences = {
            DROP: self.drop,
            f"Colours: the best {MAX_CURVES} lines": data["line"].nunique() > MAX_CURVES,
            f"All lines: {common}": common,
            DOTS: ours["seeds"].str.contains(" ").any(),
            HOLLOW: len(published) and not self.drop,
        }
        return ". ".join(sentence for sentence, is_needed in sentences.items() if is_needed)

    def finding(self, data: pd.DataFrame) -> str:
        """Return the two ends of the line with the best point: `1.0 % at 1, 93.9 % at 16`.

        Return an empty text if the intervals of both ends overlap.
        """
        ours = _split(data)[0].dropna(subset=["value", "low"])
        if self.drop or metric(self.y).better is None or ours.empty or not ours["x"].map(is_number).all():
            return ""
        line = ranked(ours, self.y)["line"].iloc[0]
        first, last = ours[ours["line"] == line].iloc[[0, -1]].to_dict("records")
        if first["high"] >= last["low"] and last["high"] >= first["low"]:
            return ""
        words = ", ".join(
            f"{quantity(self.y, end['value'])} at {value_text(end['x'])}" for end in (first, last)
        )
        return f"{words} ({line})" if ours["line"].nunique() > 1 else words

    def draw(self, data: pd.DataFrame) -> go.Figure:
        names, _ = without_common(data["line"])
        data = data.assign(
            line=data["line"].map(names), x=data["x"].map(lambda x: x if is_number(x) else value_text(x))
        )
        data = data.astype({"value": float, "low": float, "high": float})
        scale: dict[str, Any] = {}
        if find_metric(self.x):
            data["x"], scale = without_prefix(self.x, data["x"].astype(float))
        ours, published = _split(data)
        ours = ours.dropna(subset="value")
        if self.log:
            # a logarithmic axis has no zero: an interval that reaches it ends at half the lowest value
            ours = ours[ours["value"] > 0]
            ours["low"] = ours["low"].clip(lower=ours["value"].min() / 2)
        title = WITHIN_A_RUN.get(self.x) or axis_title(self.x)
        labels = {
            "x": scale.get("title", escape(title)),
            "value": metric_label(self.y) + ", minus the best" * self.drop,
            "line": "",
        }
        options = {
            "x": "x",
            "y": "value",
            "labels": labels,
            "log_y": self.log,
            **line_style("line", names.values()),
        }
        figure = px.line(ours, hover_name="line", hover_data=HOVER, **options)
        margins = published.assign(margin=published["high"] - published["value"])
        hollow = px.line(
            margins, error_y="margin", hover_name="source", hover_data=["verdict", "reasons"], **options
        )
        hollow.for_each_trace(make_hollow)
        # of many lines, only the best have a colour and a name
        best_lines = pd.concat([ranked(ours, self.y), ranked(data, self.y)])["line"].drop_duplicates()
        bright_lines = set(best_lines[:MAX_CURVES])
        clear = ours[ours["line"].isin(bright_lines)]
        shaded = bands(clear, clear["low"].notna() & (clear["n"] >= BAND_SEEDS), **options)
        traces = sorted([*figure.data, *hollow.data], key=lambda trace: trace.legendgroup in bright_lines)
        figure = go.Figure([*shaded, *seed_dots(clear, **options), *traces], figure.layout)
        figure.update_traces(
            line={"color": GREY, "dash": "solid", "width": 1},
            marker={"color": GREY, "size": 4},
            selector=lambda trace: trace.legendgroup not in bright_lines,
        )
        is_positive = not (data[["value", "low"]] < 0).to_numpy().any()
        figure.update_yaxes(rangemode="nonnegative" if is_positive else "normal")
        figure.update_xaxes({**self._ticks(ordered(data["x"])), **scale}).update_layout(showlegend=False)
        # the name of a line is at its last run, or at the published point of a line without runs
        points = pd.concat([published.dropna(subset="value"), ours])
        last_points = points[points["line"].isin(bright_lines)].groupby("line").last()
        if len(names) > 1 and len(last_points):
            colors = options["color_discrete_map"]
            line_ends = {str(line): (point["value"], colors[line]) for line, point in last_points.iterrows()}
            name_ends(figure, line_ends, ordered(data["x"])[-1], data["value"])
        return figure

    def _ticks(self, levels: Sequence[Any]) -> dict[str, Any]:
        """Return Plotly's options of the x-axis for these levels."""
        if not all(map(is_number, levels)):
            return {"type": "category"}
        if find_metric(self.x):
            return {"rangemode": "nonnegative"}
        scale = {"type": "log"} if is_geometric(levels) else {}
        if len(levels) > MAX_TICKS:
            return scale
        return {"tickvals": levels, "ticktext": [f"{level:g}" for level in levels], **scale}

    def _positions(self, records: StudyRecords, index: int) -> Mapping[Any, str]:
        """Return the levels of the x-axis at which a variant has a point, with the metric of each point."""
        runs = records.by_variant[index]
        if self.x in WITHIN_A_RUN:
            # a variant without runs has the levels of the others, so that its missing points are counted
            return self._positions_within(runs) or self._positions_within(records.rows)
        if not find_metric(self.x) or self.x in records.variants[index].levels:
            return {records.level(index, self.x): self.y}
        costs = [run.number(self.x) for run in runs if run.done and run.value(self.x) is not None]
        return {mean_of(costs) if costs else None: self.y}

    def _positions_within(self, runs: Iterable[Row]) -> Mapping[Any, str]:
        """Return the depths or parts (levels, classes) at which runs were scored, with their metrics."""
        if self.x == "eval.depth":
            depths = {int(depth) for run in runs for depth in run.result_or_empty.depths.get(self.y, ())}
            return {depth: at_depth(self.y, depth) for depth in sorted(depths)}
        start = f"{self.y}."
        names = [name for run in runs for name in run.result_or_empty.metrics if name.startswith(start)]
        parts = {name.removeprefix(start): name for name in names}
        # a level of difficulty is a number, a class of the images a word
        return {
            int(part) if part.isdecimal() else part.replace("_", " "): name for part, name in parts.items()
        }

    def _minus_best(self, records: StudyRecords, data: pd.DataFrame) -> pd.DataFrame:
        """Return the points as differences from the best of their line.

        The column `best` has the x of the best point, whose own difference is 0 without an interval.
        """
        lines = ranked(data, self.y).groupby(["line", "published"])
        leaders = {line: points.iloc[0] for line, points in lines}
        variants = {run.id: run.variant for run in records.rows}

        def terms(sign: int, run_ids: str) -> list[tuple[float, Weighted | None]]:
            counts = Counter(variants[run] for run in run_ids.split())
            return [
                (sign * count / counts.total(), weighted_mean(records, index, self.y))
                for index, count in counts.items()
            ]

        rows = []
        for _, point in data.iterrows():
            best = leaders.get((point["line"], point["published"]))
            estimate = Estimate(None)
            if best is not None and not pd.isna(point["value"]):
                estimate = Estimate(point["value"] - best["value"])
                if not point["published"] and point["x"] != best["x"]:
                    estimate = contrast([*terms(1, point["run_ids"]), *terms(-1, best["run_ids"])])
            difference = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
            rows.append({**point, **difference, "seeds": "", "best": None if best is None else best["x"]})
        return pd.DataFrame(rows, columns=[*COLUMNS, "best"])


def _split(data: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return our points and the published points."""
    is_published = data["published"].astype(bool)
    return data[~is_published], data[is_published]


def _order(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the sort key of a column: numbers by size, words and lines in the order of the study."""
    if column.name == "x":
        return column.map(lambda x: x if is_number(x) else inf)
    return pd.Series(pd.factorize(column)[0], column.index)


def point_row(point: Cell) -> dict[str, Any]:
    """Return the columns of a figure's data that a cell fills: value, interval, counts, verdict and runs."""
    names = ("value", "low", "high", "n", "expected", "synthetic")
    texts = {
        "verdict": _join_unique(str(answer.verdict) for _, answer in published_answers(point)),
        "reasons": "; ".join(point.reasons),
        "run_ids": " ".join(point.run_ids),
    }
    seeds = " ".join(map(repr, point.values))
    return {name: getattr(point, name) for name in names} | texts | {"published": False, "seeds": seeds}


def _published_points(point: Cell) -> list[dict[str, Any]]:
    """Return a row per published value of a point."""
    # several tables of the papers may state the same value
    groups: dict[float, list[tuple[MatchedTarget, str]]] = {}
    for target, answer in published_answers(point):
        groups.setdefault(target.value, []).append((target, answer.verdict))
    return [
        {
            "value": value,
            "low": min(target.value - target.margin for target, _ in group),
            "high": max(target.value + target.margin for target, _ in group),
            "source": _join_unique(target.target.cited for target, _ in group),
            "verdict": _join_unique(verdict for _, verdict in group),
            "reasons": _join_unique(
                reason for target, _ in group for reason in (*target.reasons, target.assumed)
            ),
            "published": True,
            "synthetic": False,
            "seeds": "",
        }
        for value, group in groups.items()
    ]


def _join_unique(words: Iterable[str]) -> str:
    return "; ".join(filter(None, dict.fromkeys(words)))


def make_hollow(trace: go.Scatter) -> None:
    """Make the markers hollow, and draw the margin of reproduction as a thick bar."""
    symbol, color = f"{trace.marker.symbol}-open", trace.line.color
    marker = {"symbol": symbol, "size": 12, "line_width": 2}
    trace.update(name=f"{trace.name}, published", mode="markers", marker=marker)
    trace.error_y.update(thickness=12, width=0, color=tint(color, 0.25))
