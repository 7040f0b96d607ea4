"""The settings of every finished trial and its score: as lines, and a panel for each field.

The lines are plain ones: Plotly's own parallel coordinates have no hover text, and the second of two in one figure stays empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from recstudy.lazy import go, np, pd, px
from recstudy.records.plans import ranges_of, short_names
from recstudy.records.study_schema import Range
from recstudy.report.look import SCREEN, SPECTRUM, clipped, escape, folded, panels
from recstudy.report.names import metric, plain, quantity
from recstudy.report.parts import PARTS, FigurePart
from recstudy.report.study_records import StudyRecords
from recstudy.report.trials import TRIAL, ranked, search_of, trial_table

LETTERS = 14  # of a line of an axis's title, and of a choice


@PARTS.add("parallel_coordinates")
class ParallelCoordinates(FigurePart):
    """A line for each finished trial of a search, through its settings to the first objective."""

    name: str = "parallel_coordinates"
    default_title: ClassVar[str] = "Every trial's settings"
    reading: ClassVar[str] = "One line per finished trial, to its score; orange is better."

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per finished trial: a column for each field (empty if its family has none), then the first objective.

        `attrs` has the `ranges` of the fields, and the `objective` with its direction.
        """
        search = search_of(records, self.name)
        score, direction = next(iter(search.objectives.items()))
        trials = trial_table(records, search).dropna(subset=score)
        fields = dict.fromkeys(path for ranges in search.space.values() for path in ranges)
        params = pd.DataFrame([trial.params for trial in search.trials], columns=list(fields), dtype=object)
        data = trials[TRIAL].join(params).join(trials[score])
        data.attrs = {"ranges": ranges_of(search.space), "objective": {score: direction}}
        goal = metric(score).heading
        data.attrs["caption"] = f"{self.reading.format(goal)} {len(data)} of {len(params)} trials have finished."
        return data

    def finding(self, data: pd.DataFrame) -> str:
        *fields, score = data.columns[len(TRIAL) :]
        best = ranked(data, data.attrs["objective"]).iloc[0]
        names = short_names(fields)
        settings = [f"{names[field].replace('_', ' ')} {plain(best[field])}" for field in fields if pd.notna(best[field])]
        return f"best {quantity(score, best[score])} at {', '.join(settings)}"

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw better lines in orange above the others; a line passes over a field that its family lacks."""
        from plotly.colors import sample_colorscale

        ((score, direction),) = data.attrs["objective"].items()
        ranges = data.attrs["ranges"]
        data = data.sort_values(score, ascending=direction == "max", kind="stable")
        places, ticks = {}, {}
        for path, title in {**short_names(ranges), score: metric(score).heading}.items():
            axis = folded(escape(title.replace("_", " ")), LETTERS)
            places[axis], ticks[axis] = _positions(
                data[path], ranges.get(path) or [Range(low=data[score].min(), high=data[score].max())]
            )
        shares = places[axis] if direction == "max" else 1 - places[axis]
        lines = data[["trial", "label"]].assign(**places).melt(["trial", "label"], var_name="axis", value_name="position")
        figure = px.line(
            lines.dropna(subset="position"),
            x="axis",
            y="position",
            color="trial",
            category_orders={"axis": list(places), "trial": list(data["trial"])},
            color_discrete_sequence=sample_colorscale(list(SPECTRUM), shares),
            hover_name="label",
            hover_data={"axis": False, "position": False},
            markers=True,
            render_mode="svg",
            template=SCREEN,
        )
        for axis, labels in ticks.items():
            for label, position in labels.items():
                figure.add_annotation(
                    x=axis, y=position, text=clipped(label, LETTERS), xanchor="right", xshift=-6, showarrow=False
                )
        figure.update_xaxes(side="top", title=None).update_yaxes(visible=False)
        return figure.update_layout(showlegend=False, meta={"min_width": 50 + 100 * len(places)})


@PARTS.add("slices")
class Slices(ParallelCoordinates):
    """The first objective of a search against each field, in a panel of its own, coloured by trial number."""

    name: str = "slices"
    default_title: ClassVar[str] = "The score against each field"
    reading: ClassVar[str] = "Upwards: {}. One point per finished trial: early ones blue, late ones orange."

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Colour points by trial number, so that a reader sees where the sampler went."""
        ranges, score = data.attrs["ranges"], data.columns[-1]
        names = short_names(ranges)
        points = data.melt(["trial", "label", score], list(ranges), "field", "level").dropna(subset="level")
        figure = panels(
            px.scatter,
            points.assign(field=points["field"].map(names).map(escape).str.replace("_", " ")),
            "field",
            columns=2,
            x="level",
            y=score,
            color="trial",
            color_continuous_scale=SPECTRUM,
            labels={"level": "", score: ""},
            hover_name="label",
        )
        for trace, path in zip(figure.data, points["field"].unique(), strict=True):
            axis, stated = figure.layout[trace.xaxis.replace("x", "xaxis")], ranges[path][0]
            if stated.choices:
                axis.update(type="category", categoryorder="category ascending")
            elif stated.log:
                axis.type = "log"
        return figure.update_xaxes(matches=None).update_layout(coloraxis_showscale=False)


def _positions(levels: pd.Series, ranges: Sequence[Range]) -> tuple[Any, dict[str, float]]:
    """Return the position (0 to 1) of each level on its axis, and the labels of the axis with their positions."""
    choices = [escape(plain(choice)) for stated in ranges for choice in stated.choices]
    if choices:
        names = list(dict.fromkeys([*choices, *levels.dropna().map(plain)]))
        labels = dict(zip(names, np.linspace(0, 1, len(names)), strict=True))
        return levels.map(plain).map(labels), labels
    ends = min(stated.low for stated in ranges), max(stated.high for stated in ranges)
    scale = np.log10 if all(stated.log for stated in ranges) else np.asarray
    return np.interp(scale(levels.astype(float)), scale(ends), [0, 1]), dict(zip(map("{:g}".format, ends), [0, 1], strict=True))
