"""The report part `Pareto`: two metrics or costs of trials or variants, with the Pareto front."""

from __future__ import annotations

from recstudy.base.errors import ConfigError
from recstudy.base.lazy import go, pd, px
from recstudy.evidence import mean_of
from recstudy.report.caveats import leaky_notes
from recstudy.report.look import SCREEN, without_prefix
from recstudy.report.names import join_labels, metric
from recstudy.report.parts import PARTS, FigurePart
from recstudy.report.study_records import StudyRecords
from recstudy.report.trials import direction_of, front

LOG_RATIO = 20  # the axis of costs is logarithmic if the largest is more than 20 times the least


@PARTS.add("pareto")
class Pareto(FigurePart):
    """Two metrics or costs against each other, with the Pareto front as a line.

    A point is a trial of a search, or a variant of another study.

    Args:
        name: The name of the part and of its files.
        x: The metric or cost along x.
        y: The metric or cost along y. The default is the search's first objective, which is scored on the
            selection split.
    """

    name: str = "pareto"
    x: str = "gflops"
    y: str | None = None
    metrics_in = ("x", "y")

    @property
    def heading(self) -> str:
        return self.title or f"{metric(self.y).title if self.y else 'Score'} against {metric(self.x).heading}"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per point with both values, each a mean over `n` runs.

        Raises:
            ConfigError: `y` is not set, and the study is not a search.
        """
        search = records.plan.search
        if self.y is None and search is None:
            raise ConfigError(
                f"pareto {self.name!r} needs y, such as y='top1_accuracy': only a search has a first"
                f" objective as the default, and {records.plan.study} is not a search"
            )
        objectives, trials = (search.objectives, search.trials) if search else ({}, ())
        # the first trial that proposed a setting
        numbers = {trial.variant: trial.number for trial in reversed(trials)}
        names = [self.x, self.y or next(iter(objectives))]
        rows = []
        for index, variant in enumerate(records.variants):
            # of a trial, only the search's own runs count and no fresh seed
            search_runs, other_runs = records.split_runs(index)
            runs = search_runs if search else other_runs
            values = [[run.objective(name) for name in names] for run in runs if run.done]
            values = [pair for pair in values if None not in pair]
            if values and not (search and len(values) < len(runs)):
                means = [mean_of(axis) for axis in zip(*values, strict=True)]
                facts = [len(values), index in records.synthetic, records.leaks(index)]
                rows.append([numbers.get(index), variant.label, *means, *facts])
        data = pd.DataFrame(rows, columns=["trial", "label", *names, "n", "synthetic", "leaks"])
        directions = [direction_of(name, objectives) for name in names]
        # models that were given the answer cannot be on the front
        is_fair = ~data.pop("leaks").astype(bool)
        data["front"] = front(data[names].where(is_fair).to_numpy(float), directions) & is_fair
        best = data[data["front"]].sort_values(self.x)["label"].tolist()
        point = (
            "a finished trial with the seeds of the search"
            if search
            else "the mean of a variant's finished runs"
        )
        horizontal, vertical = {"max": "right", "min": "left"}, {"max": "up", "min": "down"}
        labels = f", from the left: {join_labels(best, '; ', 6)}" if best and not search else ""
        data.attrs["caption"] = (
            f"Each point is {point}; the figure shows {len(data)} of"
            f" {len(records.variants)}. Better: {vertical[directions[1]]} and to the"
            f" {horizontal[directions[0]]}. No other point beats a point of the front in both"
            f" metrics{labels}."
        )
        finished = records.finished_runs
        data.attrs["notes"] = leaky_notes(records, records.indices)
        for name in names:
            if finished and all(run.objective(name) is None for run in finished):
                data.attrs["notes"].append(f"no run recorded a metric {name!r}")
        return data

    def finding(self, data: pd.DataFrame) -> str:
        return f"{data['front'].sum()} of {len(data)} on the front" if len(data) > 1 else ""

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw all points and a line through the front. The front of a search has its trial numbers."""
        x, y = data.columns[2:4]
        scales = {}
        for name in (x, y):
            data[name], scales[name] = without_prefix(name, data[name])
        figure = px.scatter(
            data.assign(front=data["front"].map({True: "front", False: "others"})).sort_values(x),
            x=x,
            y=y,
            color="front",
            symbol="front",
            category_orders={"front": ["others", "front"]},
            text="trial",
            labels={"front": ""},
            hover_name="label",
            hover_data=["n"],
            log_x=data[x].min() > 0 and data[x].max() > LOG_RATIO * data[x].min(),
            template=SCREEN,
        )
        figure.update_traces(mode="markers", textposition="top center", cliponaxis=False)
        figure.update_xaxes(scales[x]).update_yaxes(scales[y])
        return figure.update_traces(mode="lines+markers+text", selector={"name": "front"})
