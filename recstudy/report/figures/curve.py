"""A metric against a swept setting: lines, seeds, intervals and published values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar

from recstudy.errors import ConfigError
from recstudy.evidence import Answer, Verdict, contrast, mean_of
from recstudy.lazy import go, np, pd
from recstudy.report.caveats import leaky_notes
from recstudy.report.cells import Cell, cell
from recstudy.report.fits import Fits, fits_of
from recstudy.report.look import band, escape, is_number, range_mode, style, tint, whiskers, without_common
from recstudy.report.names import at_depth, axis_title, metric, number, plain, plural, registered
from recstudy.report.parts import PARTS, BesidePublished, FigurePart, OfVariants
from recstudy.report.rows import Row
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import Placed, place

WITHIN_A_RUN = {"eval.depth": "supervision steps at test", "eval.part": "level or class of the images"}
COLUMNS = ["line", "x", "value", "low", "high", "n", "expected", "published", "source", "verdict", "reasons", "run_ids"]
COLUMNS += ["synthetic", "seeds"]
MOST_TICKS = 24  # levels of an axis that are labelled; where there are more, Plotly chooses
BAND_SEEDS = 3  # the interval of two seeds says more of its own spread than of the mean
DOTS = "Small dots: the seeds. Shaded: 95 % intervals, from three seeds on"
HOLLOW = "Hollow: published, with its margin"
DROP = (
    "Each point minus the best one of its line, with its 95 % interval; of published points, of two numbers. The best is "
    "chosen from the same runs, so drops are a little too large"
)
Points = dict[tuple[str, Any, str], list[int]]  # (line, x, metric there) -> variants


@PARTS.add("curve")
class Curve(FigurePart, OfVariants, BesidePublished):
    """A metric against a swept field, one line for each value of another: a dot a seed, interval bands, published points.

    With `drop`, each point minus the best of its line: how robust a model is to a batch size. With `log`, powers of ten along y.
    """

    x: str
    y: str
    by: str | None = None
    drop: bool = False
    log: bool = False
    axes_in: ClassVar[tuple[str, ...]] = ("x", "by")
    metrics_in: ClassVar[tuple[str, ...]] = ("y",)

    def __post_init__(self) -> None:
        if self.drop and self.x.startswith("eval."):
            raise ConfigError(f"curve {self.name!r}: drop compares runs, and all points along {self.x} are of the same runs")
        if self.drop and self.log:
            raise ConfigError(f"curve {self.name!r}: drops are zero or less, which log cannot show")

    @property
    def heading(self) -> str:
        across = metric(self.x).title.lower() if registered(self.x) else axis_title(self.x)
        usual = f"{metric(self.y).title} against {across}" + ", as a drop from each line's best" * self.drop
        return self.title or self.default_title or usual

    def points(self, records: StudyRecords) -> Points:
        """Return the variants at each point; several at one point are pooled."""
        points = Points()
        for index in comparable(records, self.where):
            level = None if self.by is None else records.level(index, self.by)
            for x, measured in self._places(records, index):
                points.setdefault((self._line_name(level), x, measured), []).append(index)
        return points

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per point, ours and published. A point without a finished run has no value, but keeps its row."""
        points = self.points(records)
        placement = place(records, self.targets, sorted({index for pooled in points.values() for index in pooled}), [self.y])
        rows: list[dict[str, Any]] = []
        for (line, x, measured), pooled in points.items():
            ours = cell(records, pooled, measured, placement)
            point = {name: getattr(ours, name) for name in ("value", "low", "high", "n", "expected", "synthetic")}
            point |= {"verdict": ", ".join(ours.verdicts), "reasons": "; ".join(ours.reasons), "published": False}
            point |= {"run_ids": " ".join(ours.run_ids), "seeds": " ".join(map(repr, ours.values))}
            rows += [{"line": line, "x": x, **one} for one in (point, *_published_rows(ours))]
        lines = list(dict.fromkeys(row["line"] for row in rows))
        rows.sort(key=lambda row: (lines.index(row["line"]), row["published"], *_rank(row["x"])))
        data = pd.DataFrame(rows, columns=COLUMNS)
        return self._minus_best(records, data) if self.drop else data

    def notes(self, records: StudyRecords, data: pd.DataFrame) -> Sequence[str]:
        ours, published = _split(data)
        variant = {run.id: run.variant for run in records.rows}
        pooled = max((len({variant[run] for run in runs.split()}) for runs in ours["run_ids"].fillna("")), default=0)
        missing = int(ours["value"].isna().sum())
        apart = int((published["verdict"] == Verdict.NOT_COMPARABLE).sum())
        notes = {
            f"points pool up to {pooled} variants; intervals go by the spread of seeds within them": pooled > 1,
            f"{missing} of {len(ours)} points not run yet": missing,
            f"{apart} of {plural(len(published), 'published point')} not comparable": apart,
        }
        leaky = leaky_notes(records, records.chosen(self.where), shown=False)
        return [*leaky, *(note for note, needed in notes.items() if needed)]

    def caption(self, data: pd.DataFrame) -> str:
        ours, published = _split(data)
        _, common = without_common(list(dict.fromkeys(data["line"])))
        sentences = {
            DROP: self.drop,
            f"All lines: {common}": common,
            DOTS: ours["seeds"].str.contains(" ").any(),
            HOLLOW: len(published) and not self.drop,
        }
        return ". ".join(sentence for sentence, needed in sentences.items() if needed)

    def finding(self, data: pd.DataFrame) -> str:
        """Return `1.0 % at 1, 93.9 % at 16`: the ends of the line that gets best, where their intervals are apart."""
        ours = _split(data)[0].dropna(subset=["value", "low"])
        sign = metric(self.y).sign
        if self.drop or metric(self.y).better is None or ours.empty or not ours["x"].map(is_number).all():
            return ""
        best = ours.sort_values("value", key=lambda values: -sign * values.astype(float))["line"].iloc[0]
        ends = [ours[ours["line"] == best].iloc[at] for at in (0, -1)]
        if ends[0]["high"] >= ends[1]["low"] and ends[1]["high"] >= ends[0]["low"]:
            return ""
        unit = f" {metric(self.y).unit}".rstrip()
        words = ", ".join(f"{number(self.y, end['value'])}{unit} at {plain(end['x'])}" for end in ends)
        return f"{words} ({best})" if ours["line"].nunique() > 1 else words

    def draw(self, data: pd.DataFrame) -> go.Figure:
        figure = go.Figure(layout={"showlegend": self.by is not None})
        lines = list(dict.fromkeys(data["line"]))
        for position, name in enumerate(without_common(lines)[0]):
            ours, published = _split(data[data["line"] == lines[position]])
            self._draw_line(figure, ours.dropna(subset=["value"]), name, style(position))
            if len(published):
                _draw_published(figure, published, name, style(position))
        self.set_axes(figure, data)
        return figure

    def set_axes(self, figure: go.Figure, data: pd.DataFrame) -> None:
        """Set titles with units; a base-2 axis where the levels are powers of two, categories where they are words."""
        heading = escape(metric(self.y).heading + ", minus the best" * self.drop)
        figure.update_yaxes(title=heading, type="log" if self.log else None, rangemode=range_mode(data["value"], data["low"]))
        title = metric(self.x).heading if registered(self.x) else WITHIN_A_RUN.get(self.x) or axis_title(self.x)
        figure.update_xaxes(title=escape(title))
        levels = sorted({value for value in data["x"] if is_number(value)})
        if len(levels) < data["x"].nunique() or not levels:
            figure.update_xaxes(type="category")
        elif not registered(self.x) and len(levels) <= MOST_TICKS:
            doubled = len(levels) > 2 and all(level > 0 and float(np.log2(level)).is_integer() for level in levels)
            ticks = {"tickvals": levels, "ticktext": [f"{level:g}" for level in levels]}
            figure.update_xaxes(type="log" if doubled else None, **ticks)

    def _draw_line(self, figure: go.Figure, points: pd.DataFrame, name: str, look: dict[str, Any]) -> None:
        if self.log:  # zero has no place: an interval that reaches it ends a little below the lowest point
            points = points[points["value"] > 0]
            points = points.assign(low=points["low"].astype(float).clip(lower=points["value"].min() / 2))
        x, color = list(map(_tick, points["x"])), look["marker"]["color"]
        has_band = (points["low"].notna() & (points["n"].astype(float) >= BAND_SEEDS)).tolist()
        for has, stretch in groupby(range(len(points)), key=has_band.__getitem__):  # no band crosses a point without interval
            if has:
                within = list(stretch)
                ends = points.iloc[within]
                area = band([x[at] for at in within], ends["low"], ends["high"], color)
                figure.add_scatter(**area, legendgroup=name)
        seeds = [(at, float(value)) for at, own in zip(x, points["seeds"], strict=True) for value in own.split() if " " in own]
        if seeds:
            dots = {"mode": "markers", "marker": {"size": 5, "color": color}, "hoverinfo": "skip", "showlegend": False}
            figure.add_scatter(x=[at for at, _ in seeds], y=[value for _, value in seeds], **dots, legendgroup=name)
        hover = [self._hover(point) for point in points.to_dict("records")]
        line = {"mode": "lines+markers", "hovertext": hover, "hoverinfo": "text", **look}
        figure.add_scatter(x=x, y=points["value"], name=name, legendgroup=name, **line)

    def _hover(self, point: Mapping[Any, Any]) -> str:
        interval = "" if pd.isna(point["low"]) else f" [{point['low']:.6g}, {point['high']:.6g}]"
        at = f"{point['line']}, {axis_title(self.x)} {plain(point['x'])}"
        return f"{at}: {point['value']:.6g} {metric(self.y).unit}{interval} (n={point['n']:.0f} of {point['expected']:.0f})"

    def _line_name(self, level: Any) -> str:
        if self.by is None:
            return metric(self.y).title
        return level if isinstance(level, str) else f"{axis_title(self.by)} {plain(level)}"

    def _places(self, records: StudyRecords, index: int) -> list[tuple[Any, str]]:
        """Return where a variant's points lie on the x-axis, and which metric each shows."""
        runs = records.by_variant[index]
        if self.x in WITHIN_A_RUN:
            return self._places_within(runs) or self._places_within(records.rows)
        if not registered(self.x) or self.x in records.variants[index].levels:
            return [(records.level(index, self.x), self.y)]
        costs = [run.number(self.x) for run in runs if run.done and run.value(self.x) is not None]
        return [(mean_of(costs) if costs else None, self.y)]

    def _places_within(self, runs: Iterable[Row]) -> list[tuple[Any, str]]:
        """Return the depths that runs were scored at, or their parts: a level is a number, a class a word."""
        if self.x == "eval.depth":
            depths = {int(depth) for run in runs for depth in run.found.depths.get(self.y, ())}
            return [(depth, at_depth(self.y, depth)) for depth in sorted(depths)]
        start = f"{self.y}."
        names = dict.fromkeys(name for run in runs for name in run.found.metrics if name.startswith(start))
        parts = {name: name.removeprefix(start) for name in names}
        return [(int(part) if part.isdecimal() else part.replace("_", " "), name) for name, part in parts.items()]

    def _minus_best(self, records: StudyRecords, data: pd.DataFrame) -> pd.DataFrame:
        """Return the points as differences from the best of their line. `best` is where that one lies; it has no interval."""
        variants, fits = {run.id: run.variant for run in records.rows}, fits_of(records, self.y)
        parts = []
        for _, line in data.groupby(["line", "published"], sort=False):
            points = line.astype({"value": float, "low": float, "high": float}).assign(best=None, seeds="")
            if points["value"].notna().any():
                best = points.loc[[(metric(self.y).sign * points["value"]).idxmax()]].iloc[0]
                points["best"] = best["x"]
                for at, point in points[points["value"].notna()].iterrows():
                    difference = [point["value"] - best["value"], None, None]
                    if not point["published"] and at != best.name:
                        found = contrast([*_terms(1, point, variants, fits), *_terms(-1, best, variants, fits)])
                        difference = [found.value, found.low, found.high]
                    points.loc[at, ["value", "low", "high"]] = difference
            parts.append(points)
        return pd.concat(parts).sort_index() if parts else data.assign(best=None)


@PARTS.add("residuals")
class Residuals(Curve):
    """How far the states of a recursive model still move, |z_t - z_(t-1)| / |z_t|, segment by segment: a line a variant.

    Of models of puzzles, each a mean over the first test puzzles.
    """

    name: str = "residuals"
    x: str = "eval.depth"
    y: str = "residual"
    by: str | None = "variant"
    log: bool = True
    default_title: ClassVar[str] = "How far the states still move, segment by segment"


def comparable(records: StudyRecords, where: dict[str, Any]) -> list[int]:
    """Return the variants at these levels that do not leak."""
    return [index for index in records.chosen(where) if not records.leaks(index)]


def _split(data: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return ours and the published points."""
    published = data["published"].astype(bool)
    return data[~published], data[published]


def _rank(x: Any) -> tuple[bool, float]:
    """Order numbers by size, then words as in the study."""
    return (False, float(x)) if is_number(x) else (True, 0.0)


def _tick(x: Any) -> Any:
    return x if is_number(x) else plain(x)


def _published_rows(ours: Cell) -> list[dict[str, Any]]:
    """Return a row per published value, whatever number of places in the papers, or of pooled variants, it is given for."""
    by_value: dict[float, list[tuple[Placed, Answer[str]]]] = {}
    for target, answer in ours.answers:
        by_value.setdefault(target.value, []).append((target, answer))

    def joined(words: Iterable[str]) -> str:
        return "; ".join(dict.fromkeys(filter(None, words)))

    rows = []
    for value, found in by_value.items():
        margin = max(target.margin for target, _ in found)
        words = {
            "source": joined(target.target.cited for target, _ in found),
            "verdict": joined(answer.verdict for _, answer in found),
            "reasons": joined(reason for target, _ in found for reason in (*target.reasons, target.assumed)),
        }
        numbers = {"value": value, "low": value - margin, "high": value + margin}
        rows.append({**numbers, **words, "published": True, "synthetic": False, "seeds": ""})
    return rows


def _terms(sign: int, point: Any, variants: Mapping[str, int], fits: Fits) -> list[tuple[float, Any]]:
    """Return what the variants that a point pools add to a contrast, each weighted by its runs."""
    pooled = Counter(variants[run] for run in str(point["run_ids"]).split())
    means = {index: fit.weighted(key) for index, (fit, key) in fits.items() if index in pooled}
    return [(sign * count / pooled.total(), means[index]) for index, count in pooled.items()]


def _draw_published(figure: go.Figure, points: pd.DataFrame, name: str, look: dict[str, Any]) -> None:
    """Draw hollow markers, with the margin within which ours count as reproduced as a thick bar."""
    color = look["marker"]["color"]
    hover = [
        f"published: {row['value']:g}, {row['source']}: {row['verdict']}. {row['reasons']}" for row in points.to_dict("records")
    ]
    hollow = {"symbol": look["marker"]["symbol"] + "-open", "size": 12, "color": color, "line": {"width": 2}}
    margin = whiskers(points["value"], points["low"], points["high"], thickness=12, width=0, color=tint(color, 0.25))
    figure.add_scatter(
        x=list(map(_tick, points["x"])), y=points["value"], name=f"{name}, published", legendgroup=name, mode="markers",
        marker=hollow, hovertext=hover, hoverinfo="text", error_y={} if points["low"].isna().any() else margin,
    )  # fmt: skip
