"""How runs are asked to be grouped, and where the figure goes (`analysis/figures/grouped.py` draws it).

What is asked stands in the address, beside the filters that say of which runs: `group.x`, `group.y` (a metric; else the study's
own), `group.colour` and `group.facet`. The same figure goes into a paper by `recstudy report PLACE --grouped QUERY`.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

import pandas as pd

from recstudy.analysis.figures.curve import BAND
from recstudy.analysis.figures.grouped import Group, draw_grouped
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
from recstudy.report.names import axis_title, metric, number, plain, plural, registered
from recstudy.report.venues import Paper

OF_A_SEARCH = "a search chooses settings by what it found: a mean over its trials is of what it tried, which is no plain sample"


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
