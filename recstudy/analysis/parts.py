"""One part of a report after another: from its spec to its files, its place in the page and its table in the terminal.

Each kind of part has one line in `OF_CELLS`, `TABLES` or `FIGURES`, which names what makes it: a new kind is a new module, its
spec and that line.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rich.table import Table as RichTable

from recstudy.analysis import cards
from recstudy.analysis import spec as kinds
from recstudy.analysis.examples import captions_data
from recstudy.analysis.figures import (
    curve,
    experts,
    heat_map,
    history,
    importance,
    interactions,
    learning,
    loads,
    losses,
    maps,
    parallel,
    pareto,
    slices,
    tiles,
    violins,
)
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.export import write_figure
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import figure_box, links, warning_lines
from recstudy.analysis.tables import arithmetic, best, difference_words, effect_words, markup, render, tuned
from recstudy.analysis.tables.cells import TableData, table_data
from recstudy.analysis.tables.differences import differences_data
from recstudy.analysis.tables.effects import effects_data
from recstudy.analysis.tables.latex import latex
from recstudy.errors import ConfigError
from recstudy.records import write_whole

Words = tuple[markup.Printed, str]  # a table as the words of its page, and its numbers as CSV
MOST_ROWS = 40  # of a table in the terminal: one screen
TABLE_FILES = ("md", "tex", "csv")
NOTHING = '<p class="note">Nothing to draw yet.</p>'
log = logging.getLogger(__name__)


def _differences(records: StudyRecords, spec: kinds.Differences) -> Words:
    data = differences_data(records, spec)
    return difference_words.printed(records, spec, data), difference_words.csv_text(data)


def _effects(records: StudyRecords, spec: kinds.Effects) -> Words:
    data = effects_data(records, spec)
    return effect_words.printed(records, spec, data), effect_words.csv_text(data, spec.metric)


def _arithmetic(_: StudyRecords, spec: kinds.Arithmetic) -> Words:
    data = arithmetic.arithmetic_data(spec)
    return arithmetic.printed(data), arithmetic.csv_text(data)


class OfCells(NamedTuple):
    """What makes a kind of table whose every number carries the runs behind it."""

    title: Callable[[Any], str]
    cells: Callable[[StudyRecords, Any], TableData]


class OfWords(NamedTuple):
    """What makes any other kind of table."""

    title: Callable[[Any], str]
    words: Callable[[StudyRecords, Any], Words]


class Figure(Protocol):
    """What the module of a kind of figure has."""

    def title(self, spec: Any) -> str: ...

    def drawn(self, records: StudyRecords, spec: Any) -> Drawn: ...


OF_CELLS: Mapping[type, OfCells] = {
    kinds.Table: OfCells(lambda spec: spec.title or spec.name.replace("_", " "), table_data),
    kinds.Tuned: OfCells(tuned.tuned_title, tuned.tuned_data),
    kinds.Best: OfCells(best.best_title, best.best_data),
}
TABLES: Mapping[type, OfWords] = {
    kinds.Differences: OfWords(difference_words.differences_title, _differences),
    kinds.Effects: OfWords(effect_words.effects_title, _effects),
    kinds.Arithmetic: OfWords(arithmetic.arithmetic_title, _arithmetic),
}
FIGURES: Mapping[type, Figure] = {
    kinds.Curve: curve,
    kinds.Interactions: interactions,
    kinds.HeatMap: heat_map,
    kinds.LearningCurves: learning,
    kinds.LossTrace: losses,
    kinds.Mistakes: tiles,
    kinds.ExpertLoad: loads,
    kinds.ExpertPath: experts,
    kinds.AttentionMaps: maps,
    kinds.Alignment: violins,
    kinds.History: history,
    kinds.Importance: importance,
    kinds.ParallelCoordinates: parallel,
    kinds.Slices: slices,
    kinds.Pareto: pareto,
}


def section(
    records: StudyRecords, spec: kinds.AnyPart, folder: Path, file: str, export: Sequence[str], columns: int = 2
) -> tuple[str, str]:
    """Title and HTML of one part, its files written. A part that names what the study does not have says so in its place."""
    try:
        if isinstance(spec, kinds.Tabular):
            return title(spec), _table(records, spec, folder / "tables", file)
        if isinstance(spec, kinds.Captions):
            return title(spec), _captions(records, spec, folder / "tables", file)
        return title(spec), _figure(spec.name, draw(records, spec), folder / "figures", file, export, columns)
    except ConfigError as error:
        log.warning("%s: %s", spec.name, error)
        return title(spec), warning_lines([str(error)])


def title(spec: kinds.AnyPart) -> str:
    if isinstance(spec, kinds.Captions):
        return cards.captions_title(spec)
    known: Mapping[type, OfCells | OfWords | Figure] = {**OF_CELLS, **TABLES, **FIGURES}
    return known[type(spec)].title(spec)


def in_terminal(records: StudyRecords, spec: kinds.AnyPart) -> RichTable | None:
    """The part as a table for `rich.print`; None for a figure, and for a table that cannot be made."""
    try:
        if isinstance(spec, kinds.OfCells):
            return render.terminal(cells(records, spec), MOST_ROWS)
        return markup.terminal(table_words(records, spec)[0]) if isinstance(spec, kinds.Tabular) else None
    except ConfigError:
        return None  # said in the page and in the log


def cells(records: StudyRecords, spec: kinds.OfCells) -> TableData:
    """A table whose every number carries the runs behind it.

    Raises:
        ConfigError: the part names what the study does not have.
    """
    return OF_CELLS[type(spec)].cells(records, spec)


def draw(records: StudyRecords, spec: kinds.Drawing) -> Drawn:
    """Reads what the figure shows, and no more.

    Raises:
        ConfigError: the part names what the study does not have.
    """
    return FIGURES[type(spec)].drawn(records, spec)


def table_words(records: StudyRecords, spec: kinds.Tabular) -> Words:
    """A table as the words of its page, and its numbers as CSV.

    Raises:
        ConfigError: the part names what the study does not have.
    """
    if isinstance(spec, kinds.OfCells):
        table = cells(records, spec)
        return render.printed(table), render.csv_text(table)
    return TABLES[type(spec)].words(records, spec)


def _table(records: StudyRecords, spec: kinds.Tabular, folder: Path, file: str) -> str:
    page, numbers = table_words(records, spec)
    for ending, text in zip(TABLE_FILES, (markup.markdown(page), latex(page), numbers), strict=True):
        write_whole(folder / f"{file}.{ending}", text)
    return markup.html_table(page) + links("tables", file, TABLE_FILES)


def _captions(records: StudyRecords, spec: kinds.Captions, folder: Path, file: str) -> str:
    data = captions_data(records, spec)
    write_whole(folder / f"{file}.csv", data.frame.to_csv(index=False))
    return cards.captions_html(data) + links("tables", file, ("csv",))


def _figure(name: str, drawn: Drawn, folder: Path, file: str, export: Sequence[str], columns: int) -> str:
    problem = write_figure(drawn, folder, file, export, columns)
    if problem:
        log.warning("%s: %s", name, problem)
    if drawn.data.empty:
        return warning_lines(drawn.notes) + NOTHING + drawn.below
    written = ("html", "csv", *(export if problem is None else ()))
    return figure_box(drawn.figure, drawn.label, drawn.notes, drawn.caption) + links("figures", file, written) + drawn.below
