"""Runs grouped by their settings: a metric along one, a colour for each value of a second, a panel for each of a third.

What is asked stands in the address, beside the filters that say of which runs: `group.x`, `group.y` (a metric; else the study's
own), `group.colour` and `group.facet`. Each point is the cell that a table has of its variants (`analysis.cells`): the mean over
seeds, and its interval by the study's one fit. The same figure goes into a paper by `recstudy report PLACE --grouped QUERY`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.figures.curve import BAND, Points, draw_points, line_name, line_traces, places, set_axes
from recstudy.analysis.figures.layout import Drawn, along, axes_at, small_multiples
from recstudy.analysis.figures.learning import comparable
from recstudy.analysis.figures.theme import Size, ordered, style
from recstudy.analysis.frame import StudyRecords, load_study
from recstudy.analysis.page import Html, code, figure_box, fold, safe_names, words_table
from recstudy.analysis.rows import Row
from recstudy.analysis.shown import write_figure
from recstudy.analysis.written import ReportFiles
from recstudy.board.columns import GROUPED, chosen_rows, columns_of, groupings
from recstudy.board.markup import Address, address_of, text
from recstudy.board.sources import main_metric
from recstudy.errors import ConfigError, choices, nearest
from recstudy.records import Results
from recstudy.report import Curve
from recstudy.report.names import axis_title, metric, number, plain, plural, registered
from recstudy.report.venues import Paper

PANELS = 30  # that a reader still looks at
OF_A_SEARCH = "a search chooses settings by what it found: a mean over its trials is of what it tried, which is no plain sample"


@dataclass(frozen=True)
class Group:
    """What is drawn: a metric `y` along `x`, by colour and panel; the last two may be empty."""

    x: str
    y: str
    colour: str = ""
    facet: str = ""


def group_of(address: Address, y: str, settings: Sequence[str], numbers: Sequence[str]) -> Group | None:
    """Return what an address asks for; None where it asks for no axis.

    Args:
        address: of the list of runs.
        y: the metric where it names none.
        settings: what runs can be grouped by.
        numbers: their metrics and costs.

    Raises:
        ConfigError: it names what the runs do not have.
    """
    x, asked, colour, facet = map(address.get, GROUPED)
    if not x:
        return None
    for field, name, known in zip(
        GROUPED, (x, asked, colour, facet), ([*settings, *numbers], numbers, settings, settings), strict=True
    ):
        if name and name not in known:
            raise ConfigError(f"{field} is {name!r}, but the runs have {choices(list(known))}.{nearest(name, list(known))}")
    return Group(x, asked or y, colour, facet)


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


# ----------------------------------------------------------------------------------------------------------------- page


def group_html(
    records: StudyRecords, chosen: Sequence[Row], address: Address, group: Group | None, titles: Mapping[str, Mapping[str, str]]
) -> tuple[Html, str]:
    """Write the fields of the form that asks for a grouping, and the figure that is asked for, with its numbers.

    Args:
        records: of the study.
        chosen: the runs that the list has.
        address: of the page.
        group: what is asked for.
        titles: of each field of the address: what can be chosen, and what it is called.
    """
    heads = dict(zip(GROUPED, ("along", "metric", "a colour each", "a panel each"), strict=True))
    fields = "".join(
        f'<label>{heads[field]} <select name="{field}">{_options(known, address.get(field), field)}</select></label>'
        for field, known in titles.items()
    )
    if group is None:
        return Html(fields), '<p class="note">Choose what the runs of the list below are grouped along.</p>'
    asked = tuple(row.id for row in chosen), tuple(row.variant for row in chosen), group
    return Html(fields), records.once(("grouped", *asked), lambda: _figure(records, chosen, group, address))


def _options(known: Mapping[str, str], now: str, field: str) -> str:
    first = {"": "the study's own" if field == "group.y" else "none"}
    every = {**first, **known}
    return "".join(
        f'<option value="{text(name)}"{" selected" * (name == now)}>{text(words)}</option>' for name, words in every.items()
    )


def _figure(records: StudyRecords, chosen: Sequence[Row], group: Group, address: Address) -> str:
    drawn = draw_grouped(records, chosen, group)
    if drawn.data.empty:
        return '<p class="note">No run of the list can be grouped so.</p>'
    notes = [*drawn.notes, *([OF_A_SEARCH] if records.plan.search else [])]
    figure = figure_box(
        drawn.figure, drawn.alternative, notes, f"Of the {plural(len(chosen), 'run')} of the list below. {drawn.caption}"
    )
    return (
        figure
        + fold("Its numbers", _numbers(drawn.data, group))
        + fold("As files, for a paper", code(_command(records, address)))
    )


def _numbers(data: pd.DataFrame, group: Group) -> Html:
    """Show each point: mean, interval from three seeds on, and how many runs it has of those that are planned."""
    sides = (
        {"panel": axis_title(group.facet), "line": axis_title(group.colour)}
        if group.facet
        else {"line": axis_title(group.colour)}
    )
    if not group.colour:
        del sides["line"]
    rows = []
    for point in data[data["value"].notna()].to_dict("records"):
        mean = number(group.y, point["value"])
        if pd.notna(point["low"]) and point["n"] >= BAND:
            mean += f" [{number(group.y, point['low'])}, {number(group.y, point['high'])}]"
        x = number(group.x, point["x"]) if registered(group.x) else plain(point["x"])
        rows.append((*(point[side] for side in sides), x, mean, f"{point['n']:.0f} of {point['expected']:.0f}"))
    heads = (*sides.values(), axis_title(group.x), f"{metric(group.y).heading}, mean [95 %]", "runs")
    return words_table("Numbers of the figure", heads, rows)


def _command(records: StudyRecords, address: Address) -> str:
    return f"recstudy report {records.place} --grouped '{query_of(address)}' --export pdf"


def query_of(address: Address, beside: Iterable[str] = ("sort", "columns", "ticked", "runs")) -> str:
    """Return the part of the query that says which runs, and how they are grouped."""
    return urlencode([(name, value) for name, value in address.query if name not in beside])


def write_grouped(study: tuple[Results, str, str], query: str, formats: Sequence[str], paper: Paper, trust: bool) -> Path:
    """Write what an address of the list with this query groups its runs by, below `grouped/` beside the study's report.

    Raises:
        ConfigError: the query groups by nothing, or by what the runs do not have.
    """
    records, address = load_study(*study, trust), address_of("", query.rpartition("?")[2])
    with records.standing():
        columns = columns_of(records, set())
        settings, numbers = groupings(records, columns)
        group = group_of(address, main_metric(records), list(settings), list(numbers))
        if group is None:
            raise ConfigError(
                f"--grouped {query!r} has no {GROUPED[0]}: give {GROUPED[0]}=NAME, one of {choices(list(settings))}"
            )
        drawn = draw_grouped(records, chosen_rows(records, columns, address), group)
        out = ReportFiles(study[0].study(*study[1:]) / "grouped")
        (name,) = safe_names(["-".join(filter(None, (group.y, group.x, group.colour, group.facet)))])
        if problem := write_figure(drawn, out, name, formats, paper):
            raise ConfigError(problem)
    return out.folder / f"figures/{name}.html"
