"""Two metrics or costs against each other, and their Pareto front."""

from __future__ import annotations

from typing import ClassVar

from recstudy.errors import ConfigError
from recstudy.evidence import mean_of
from recstudy.lazy import go, pd, px
from recstudy.report.caveats import is_synthetic, leaky_notes, some
from recstudy.report.look import SCREEN, metric_label
from recstudy.report.names import metric
from recstudy.report.parts import PARTS, FigurePart
from recstudy.report.study_records import StudyRecords
from recstudy.report.trials import direction_of, front

COSTLY = 20  # ratio of the largest to the least cost from which the axis is logarithmic


@PARTS.add("pareto")
class Pareto(FigurePart):
    """Two metrics or costs against each other, a point per trial (a variant in other studies), and the front as a line.

    `y` is by default the search's first objective, which is scored on the selection split.
    """

    name: str = "pareto"
    x: str = "gflops"
    y: str | None = None
    metrics_in: ClassVar[tuple[str, ...]] = ("x", "y")

    @property
    def heading(self) -> str:
        return self.title or f"{metric(self.y).title if self.y else 'Score'} against {metric(self.x).heading}"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per point with both values, each a mean over `n` runs; of a trial only the search's own run counts.

        Raises:
            ConfigError: The study is no search, and `y` is not named.
        """
        search = records.plan.search
        if self.y is None and search is None:
            raise ConfigError(f"{self.name!r} needs y: {records.plan.study} is no search, whose first objective it could show")
        objectives, trials = (search.objectives, search.trials) if search else ({}, ())
        numbers = {trial.variant: trial.number for trial in reversed(trials)}  # the first trial that proposed a setting
        names = [self.x, self.y or next(iter(objectives))]
        rows = []
        for index, variant in enumerate(records.variants):
            runs = records.by_variant[index][: 1 if search else None]
            values = [[run.objective(name) for name in names] for run in runs if run.done]
            values = [pair for pair in values if None not in pair]
            if values:
                means = [mean_of(axis) for axis in zip(*values, strict=True)]
                facts = [len(values), is_synthetic(records, [index]), records.leaks(index)]
                rows.append([numbers.get(index), variant.label, *means, *facts])
        data = pd.DataFrame(rows, columns=["trial", "label", *names, "n", "synthetic", "front"])
        directions = [direction_of(name, objectives) for name in names]
        is_fair = ~data["front"].astype(bool)
        data["front"] = front(data[names].where(is_fair).to_numpy(float), directions) & is_fair
        best = data[data["front"]].sort_values(self.x)["label"].tolist()
        point = "a finished trial, at the search's one seed" if search else "a variant, the mean of its finished runs"
        better = f"{'up' if directions[1] == 'max' else 'down'} and to the {'right' if directions[0] == 'max' else 'left'}"
        labels = f", from the left: {some(best, '; ', 6)}" if best and not search else ""
        data.attrs["caption"] = (
            f"One point is {point}; {len(data)} of {len(records.variants)} drawn. Better: {better}. "
            f"The front is what no other point beats in both{labels}."
        )
        finished = [run for run in records.rows if run.done]
        absent = [name for name in names if finished and all(run.objective(name) is None for run in finished)]
        notes = [f"no run recorded a metric {name!r}" for name in absent]
        data.attrs["notes"] = [*leaky_notes(records, range(len(records.variants))), *notes]
        return data

    def finding(self, data: pd.DataFrame) -> str:
        return f"{data['front'].sum()} of {len(data)} on the front" if len(data) > 1 else ""

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw all points, and a line through the front; a search's front has its trial numbers."""
        x, y = data.columns[2:4]
        figure = px.scatter(
            data.assign(front=data["front"].map({True: "front", False: "others"})).sort_values(x),
            x=x,
            y=y,
            color="front",
            symbol="front",
            category_orders={"front": ["others", "front"]},
            text="trial",
            labels={x: metric_label(x), y: metric_label(y), "front": ""},
            hover_name="label",
            hover_data=["n"],
            log_x=data[x].min() > 0 and data[x].max() > COSTLY * data[x].min(),
            template=SCREEN,
        )
        figure.update_traces(mode="markers", textposition="top center", cliponaxis=False)
        return figure.update_traces(mode="lines+markers+text", selector={"name": "front"})
