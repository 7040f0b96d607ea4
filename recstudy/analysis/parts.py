"""One part of a report after another: from its spec to its files, its place in the page and its table in the terminal."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
from rich.table import Table as RichTable

from recstudy.analysis.alignment import Aligned, alignment_caption, alignment_data, alignment_title
from recstudy.analysis.captions import warnings
from recstudy.analysis.cards import captions_html, captions_title
from recstudy.analysis.examples import captions_data
from recstudy.analysis.figures import drops
from recstudy.analysis.figures.attention import attention_caption, attention_data, attention_title
from recstudy.analysis.figures.curve import curve_data, curve_figure, curve_notes, curve_title
from recstudy.analysis.figures.experts import path_caption, path_data, path_figure, path_title
from recstudy.analysis.figures.export import write_figure
from recstudy.analysis.figures.heat_map import HOW, heat_map_data, heat_map_figure, heat_map_notes, heat_map_title
from recstudy.analysis.figures.history import history_caption, history_data, history_figure, history_title
from recstudy.analysis.figures.importance import (
    importance_caption,
    importance_data,
    importance_figure,
    importance_notes,
    importance_title,
)
from recstudy.analysis.figures.interactions import (
    PARALLEL,
    interactions_data,
    interactions_figure,
    interactions_notes,
    interactions_title,
)
from recstudy.analysis.figures.learning import learning_caption, learning_data, learning_figure, learning_notes, learning_title
from recstudy.analysis.figures.loads import loads_caption, loads_data, loads_figure, loads_title
from recstudy.analysis.figures.losses import loss_caption, loss_data, loss_figure, loss_notes, loss_title
from recstudy.analysis.figures.maps import attention_figure
from recstudy.analysis.figures.mistakes import in_words, mistakes_caption, mistakes_data, mistakes_title
from recstudy.analysis.figures.parallel import parallel_caption, parallel_figure, parallel_title, settings_data
from recstudy.analysis.figures.pareto import pareto_caption, pareto_data, pareto_figure, pareto_notes, pareto_title, y_of
from recstudy.analysis.figures.slices import slices_caption, slices_figure, slices_title
from recstudy.analysis.figures.tiles import mistakes_figure
from recstudy.analysis.figures.violins import alignment_figure
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import figure_box, links, warning_lines
from recstudy.analysis.pairs import alignment_html
from recstudy.analysis.spec import (
    Alignment,
    AnyPart,
    Arithmetic,
    AttentionMaps,
    Best,
    Captions,
    Curve,
    Differences,
    Drawing,
    Effects,
    ExpertLoad,
    ExpertPath,
    HeatMap,
    History,
    Importance,
    Inner,
    Interactions,
    LearningCurves,
    LossTrace,
    Mistakes,
    OfCells,
    ParallelCoordinates,
    Pareto,
    Slices,
    Table,
    Tabular,
    Tuned,
)
from recstudy.analysis.tables import arithmetic, difference_words, effect_words, markup, render
from recstudy.analysis.tables.best import best_data, best_title
from recstudy.analysis.tables.cells import TableData, table_data
from recstudy.analysis.tables.differences import differences_data
from recstudy.analysis.tables.effects import effects_data
from recstudy.analysis.tables.latex import latex
from recstudy.analysis.tables.tuned import tuned_data, tuned_title
from recstudy.analysis.trials import search_of
from recstudy.errors import ConfigError
from recstudy.records import write_whole

MOST_ROWS = 40  # of a table in the terminal: one screen
TABLE_FILES = ("md", "tex", "csv")
NOTHING = '<p class="note">Nothing to draw yet.</p>'
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Drawn:
    """A figure with the numbers behind it, what must be said before it and under it, and its label for screen readers."""

    figure: go.Figure
    data: pd.DataFrame
    notes: Sequence[str]
    label: str
    caption: str = ""


def section(records: StudyRecords, spec: AnyPart, folder: Path, file: str, export: Sequence[str]) -> tuple[str, str]:
    """Title and HTML of one part, its files written. A part that names what the study does not have says so in its place."""
    try:
        if isinstance(spec, Tabular):
            return title(spec), _table(records, spec, folder / "tables", file)
        if isinstance(spec, Captions):
            return title(spec), _captions(records, spec, folder / "tables", file)
        if isinstance(spec, Alignment):
            return title(spec), _alignment(records, spec, folder / "figures", file, export)
        return title(spec), _figure(spec.name, draw(records, spec), folder / "figures", file, export)
    except ConfigError as error:
        log.warning("%s: %s", spec.name, error)
        return title(spec), warning_lines([str(error)])


def title(spec: AnyPart) -> str:
    match spec:
        case Table():
            return spec.title or spec.name.replace("_", " ")
        case Tuned():
            return tuned_title(spec)
        case Arithmetic():
            return arithmetic.arithmetic_title(spec)
        case Differences():
            return difference_words.differences_title(spec)
        case Effects():
            return effect_words.effects_title(spec)
        case Curve():
            return curve_title(spec)
        case Interactions():
            return interactions_title(spec)
        case HeatMap():
            return heat_map_title(spec)
        case LearningCurves():
            return learning_title(spec)
        case LossTrace():
            return loss_title(spec)
        case Mistakes():
            return mistakes_title(spec)
        case ExpertLoad():
            return loads_title(spec)
        case ExpertPath():
            return path_title(spec)
        case AttentionMaps():
            return attention_title(spec)
        case History():
            return history_title(spec)
        case Importance():
            return importance_title(spec)
        case ParallelCoordinates():
            return parallel_title(spec)
        case Slices():
            return slices_title(spec)
        case Pareto():
            return pareto_title(spec)
        case Best():
            return best_title(spec)
        case Captions():
            return captions_title(spec)
        case Alignment():
            return alignment_title(spec)


def in_terminal(records: StudyRecords, spec: AnyPart) -> RichTable | None:
    """The part as a table for `rich.print`; None for a figure, and for a table that cannot be made."""
    try:
        if isinstance(spec, OfCells):
            return render.terminal(cells(records, spec), MOST_ROWS)
        return markup.terminal(table_words(records, spec)[0]) if isinstance(spec, Tabular) else None
    except ConfigError:
        return None  # said in the page and in the log


def cells(records: StudyRecords, spec: OfCells) -> TableData:
    """A table whose every number carries the runs behind it.

    Raises:
        ConfigError: the part names what the study does not have.
    """
    match spec:
        case Best():
            return best_data(records, spec)
        case Tuned():
            return tuned_data(records, spec)
        case Table():
            return table_data(records, spec)


def draw(records: StudyRecords, spec: Drawing) -> Drawn:
    """Reads what the figure shows, and no more.

    Raises:
        ConfigError: the part names what the study does not have.
    """
    match spec:
        case Curve():
            data = curve_data(records, spec)
            notes = curve_notes(records, spec, data)
            return Drawn(curve_figure(data, spec, notes), data, notes, title(spec), drops.HOW if spec.drop else "")
        case Interactions():
            data = interactions_data(records, spec)
            notes = interactions_notes(records, spec, data)
            return Drawn(interactions_figure(data, spec, notes), data, notes, title(spec), PARALLEL)
        case HeatMap():
            data = heat_map_data(records, spec)
            notes = heat_map_notes(records, spec, data)
            return Drawn(heat_map_figure(data, spec, notes), data, notes, title(spec), HOW)
        case LearningCurves():
            data = learning_data(records, spec)
            notes = learning_notes(records, spec, data)
            return Drawn(learning_figure(data, spec, notes), data, notes, title(spec), learning_caption(spec))
        case LossTrace():
            data, notes = loss_data(records, spec), loss_notes(records, spec)
            return Drawn(loss_figure(data, spec, notes), data, notes, title(spec), loss_caption(data, spec))
        case Mistakes():
            found = mistakes_data(records, spec)
            label = f"{title(spec)}. {in_words(found.frame)}".strip()
            return Drawn(mistakes_figure(found, spec), found.frame, found.notes, label, mistakes_caption(found))
        case ExpertLoad() | ExpertPath() | AttentionMaps():
            return _draw_inside(records, spec)
        case _:
            return _draw_search(records, spec)


def _draw_inside(records: StudyRecords, spec: Inner) -> Drawn:
    match spec:
        case ExpertLoad():
            loads = loads_data(records, spec)
            return Drawn(loads_figure(loads, spec), loads.frame, loads.notes, title(spec), loads_caption(loads))
        case ExpertPath():
            path = path_data(records, spec)
            label = f"{title(spec)}. {path.said}".strip()
            return Drawn(path_figure(path, spec), path.frame, path.notes, label, path_caption(path))
        case AttentionMaps():
            seen = attention_data(records, spec)
            label = f"{title(spec)}. {' '.join(seen.words)}".strip()
            return Drawn(attention_figure(seen, spec), seen.frame, seen.notes, label, attention_caption(seen))


def _draw_search(records: StudyRecords, spec: History | Importance | ParallelCoordinates | Slices | Pareto) -> Drawn:
    match spec:
        case History():
            data, notes = history_data(records, spec), warnings(records)
            return Drawn(history_figure(data, spec, notes), data, notes, title(spec), history_caption(data))
        case Importance():
            data, notes = importance_data(records, spec), importance_notes(records, spec)
            return Drawn(importance_figure(data, spec, notes), data, notes, title(spec), importance_caption(data))
        case ParallelCoordinates():
            search, data, notes = search_of(records, spec.name), settings_data(records, spec), warnings(records)
            caption = parallel_caption(data, search)
            return Drawn(parallel_figure(data, spec, search, notes), data, notes, title(spec), caption)
        case Slices():
            search, data, notes = search_of(records, spec.name), settings_data(records, spec), warnings(records)
            caption = slices_caption(data, search)
            return Drawn(slices_figure(data, spec, search, notes), data, notes, title(spec), caption)
        case Pareto():
            data = pareto_data(records, spec)
            notes, caption = pareto_notes(records, spec), pareto_caption(records, spec, data)
            figure = pareto_figure(data, spec, y_of(records, spec), notes, caption)
            return Drawn(figure, data, notes, title(spec), caption)


def table_words(records: StudyRecords, spec: Tabular) -> tuple[markup.Printed, str]:
    """A table as the words of its page, and its numbers as CSV."""
    match spec:
        case Differences():
            differences = differences_data(records, spec)
            return difference_words.printed(records, spec, differences), difference_words.csv_text(differences)
        case Effects():
            effects = effects_data(records, spec)
            return effect_words.printed(records, spec, effects), effect_words.csv_text(effects, spec.metric)
        case Arithmetic():
            claims = arithmetic.arithmetic_data(spec)
            return arithmetic.printed(claims), arithmetic.csv_text(claims)
        case Table() | Tuned() | Best():
            table = cells(records, spec)
            return render.printed(table), render.csv_text(table)


def _table(records: StudyRecords, spec: Tabular, folder: Path, file: str) -> str:
    page, numbers = table_words(records, spec)
    for ending, text in zip(TABLE_FILES, (markup.markdown(page), latex(page), numbers), strict=True):
        write_whole(folder / f"{file}.{ending}", text)
    return markup.html_table(page) + links("tables", file, TABLE_FILES)


def _captions(records: StudyRecords, spec: Captions, folder: Path, file: str) -> str:
    data = captions_data(records, spec)
    write_whole(folder / f"{file}.csv", data.frame.to_csv(index=False))
    return captions_html(data) + links("tables", file, ("csv",))


def _alignment(records: StudyRecords, spec: Alignment, folder: Path, file: str, export: Sequence[str]) -> str:
    data = alignment_data(records, spec)
    return _figure(spec.name, _drawn(data, spec), folder, file, export) + alignment_html(data, spec)


def _drawn(data: Aligned, spec: Alignment) -> Drawn:
    return Drawn(alignment_figure(data, spec), data.frame, data.notes, title(spec), alignment_caption(data))


def _figure(name: str, drawn: Drawn, folder: Path, file: str, export: Sequence[str]) -> str:
    problem = write_figure(drawn.figure, drawn.data, folder, file, export)
    if problem:
        log.warning("%s: %s", name, problem)
    if drawn.data.empty:
        return warning_lines(drawn.notes) + NOTHING
    written = ("html", "csv", *(export if problem is None else ()))
    return figure_box(drawn.figure, drawn.label, drawn.notes, drawn.caption) + links("figures", file, written)
