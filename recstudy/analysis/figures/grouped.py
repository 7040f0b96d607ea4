"""Runs grouped by their settings: a metric along one, a colour for each value of a second, a panel for each of a third.

Each point is the cell that a table has of its variants (`analysis.cells`): the mean over seeds, and its interval by the one
fit of the study. The board draws it at an address, and `recstudy report PLACE --grouped QUERY` for a paper.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.figures.curve import Points, draw_points, line_name, line_traces, places, set_axes
from recstudy.analysis.figures.layout import Drawn, along, axes_at, small_multiples
from recstudy.analysis.figures.learning import comparable
from recstudy.analysis.figures.theme import Size, ordered, style
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.errors import ConfigError
from recstudy.report import Curve
from recstudy.report.names import axis_title, metric, plain, plural

PANELS = 30  # that a reader still looks at


@dataclass(frozen=True)
class Group:
    """What is drawn: a metric `y` along `x`, by colour and panel; the last two may be empty."""

    x: str
    y: str
    colour: str = ""
    facet: str = ""


def draw_grouped(records: StudyRecords, chosen: Sequence[Row], group: Group) -> Drawn:
    """Draw the chosen runs so grouped; the data have a row a point, with the runs behind it.

    Raises:
        ConfigError: there are more panels than a reader looks at.
    """
    there = {(row.variant, row.id) for row in chosen}
    variants = dict.fromkeys(row.variant for row in chosen)
    kept = [row for row in records.rows if row.variant not in variants or (row.variant, row.id) in there]
    if len(kept) < len(records.rows) or records.plan.search:  # of some variants, some seeds: the rest says nothing of them here
        records = replace(records, rows=kept, plan=replace(records.plan, search=None))
    spec = Curve("grouped", x=group.x, y=group.y, by=group.colour or None)
    honest, without = set(comparable(records, {})), 0
    parts: dict[str, Points] = {}
    for index in (index for index in variants if index in honest):
        for x, measured in places(records, index, spec):
            without += x is None and any(row.done for row in records.by_variant[index])
            if x is not None:
                point = _level(records, index, group.colour), plain(x) if isinstance(x, list) else x, measured
                parts.setdefault(plain(_level(records, index, group.facet)), {}).setdefault(point, []).append(index)
    if len(parts) > PANELS:
        raise ConfigError(
            f"{group.facet} has {len(parts)} values, and {PANELS} panels are the most. Filter the list, or choose another."
        )
    levels = [line_name(_level(records, index, group.colour), spec) for index in range(len(records.variants))]
    lost = [f"{plural(without, 'variant')} without {axis_title(group.x)} not drawn"] if without else []
    if not group.facet:
        drawn = draw_points(records, spec, parts.get("none", {}), levels)
        return replace(drawn, notes=(*drawn.notes, *lost))
    each = {panel: draw_points(records, spec, points, levels) for panel, points in _in_order(records, group.facet, parts)}
    data = (
        pd.concat([drawn.data.assign(panel=panel) for panel, drawn in each.items()], ignore_index=True)
        if each
        else pd.DataFrame()
    )
    first = next(iter(each.values()), draw_points(records, spec, {}))
    across = f"Upwards: {metric(group.y).heading}; across: {axis_title(group.x)}; a panel for each {axis_title(group.facet)}"
    notes = dict.fromkeys(note for drawn in each.values() for note in drawn.notes)
    caption = ". ".join(
        dict.fromkeys([across, *(words for drawn in each.values() for words in drawn.caption.split(". ") if words)])
    )
    return Drawn(lambda size: _panels(data, spec, levels, group, size), data, first.label, (*notes, *lost), caption)


def _level(records: StudyRecords, index: int, name: str) -> Any:
    """Return a variant's value of a setting; None without a name, or of a field that another model has."""
    level = records.level(index, name) if name else None
    return plain(level) if isinstance(level, list | dict) else level


def _in_order(records: StudyRecords, facet: str, parts: Mapping[str, Points]) -> list[tuple[str, Points]]:
    """Return the panels by their levels: numbers by size, words in the study's order."""
    levels = ordered([level for index in range(len(records.variants)) if (level := _level(records, index, facet)) is not None])
    return [(plain(level), parts[plain(level)]) for level in [*levels, None] if plain(level) in parts]


def _panels(data: pd.DataFrame, spec: Curve, levels: Sequence[str], group: Group, size: Size) -> go.Figure:
    """Draw a panel a value, all with the same axes; a line has its look in all of them."""
    looks = {name: style(at) for at, name in enumerate(dict.fromkeys([*levels, *data["line"]]))}
    names, said = list(dict.fromkeys(data["panel"])), set[str]()
    titles = [f"{axis_title(group.facet)} {name}" for name in names]
    figure = small_multiples(go.Figure(layout={"showlegend": bool(group.colour)}), titles, size)
    for at, name in enumerate(names):
        for line, points in data[data["panel"] == name].groupby("line", sort=False):
            for trace in line_traces(points[points["value"].notna()], str(line), looks[str(line)], spec):
                if "name" in trace:
                    trace["showlegend"] = str(line) not in said
                    said.add(str(line))
                figure.add_scatter(**trace, **axes_at(at))
    set_axes(figure, data, spec, apart=True)
    return along(figure.update_xaxes(matches="x").update_yaxes(matches="y"), spec.x)
