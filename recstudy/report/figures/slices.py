"""The score of a search against each field."""

from __future__ import annotations

from typing import ClassVar

from recstudy.lazy import go, pd, px
from recstudy.records.plans import short_names
from recstudy.report.figures.parallel_coordinates import ParallelCoordinates
from recstudy.report.look import SPECTRUM, escape, panels
from recstudy.report.parts import PARTS

COLUMNS = 2  # panels side by side
DECADES = 100  # ratio of the ends of a range from which only powers of ten are labelled


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
            COLUMNS,
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
                axis.update(type="log", dtick=1 if stated.high >= DECADES * stated.low else None)
        return figure.update_xaxes(matches=None).update_layout(coloraxis_showscale=False)
