"""Which function makes each of recstudy's kinds of parts; one of a user's defines its own method (`report/parts.py`).

A figure: a function gives a `Drawn`, whose data tests read and which draws them for any size. A table: cells, each with the runs
behind it. The others are made whole.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from recstudy import report as parts
from recstudy.errors import ConfigError, RecstudyError
from recstudy.lazy import pd
from recstudy.report import budgets
from recstudy.report.caveats import caption, warnings
from recstudy.report.cells import TableData
from recstudy.report.drawn import DrawnFigure
from recstudy.report.figures.layout import Drawn
from recstudy.report.parts import FigurePart, Part, TablePart, Undrawable
from recstudy.report.shown import Shown, check_made
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables import arithmetic, question_table, render, table

log = logging.getLogger(__name__)
MAKERS: dict[type[Part], Callable[[StudyRecords, Any], Any]] = {
    # tables of cells
    parts.Budgets: budgets.budgets_data,
    parts.Table: table.table_data,
    parts.Tuned: table.tuned_data,
    # made whole
    parts.Arithmetic: arithmetic.arithmetic_shown,
    parts.Claims: question_table.asked,
    parts.Differences: question_table.asked,
    parts.Effects: question_table.asked,
}


def drawn(records: StudyRecords, part: FigurePart) -> Drawn | DrawnFigure:
    """Draw a figure, with what must be known before any number of the study, whoever draws it.

    Raises:
        ConfigError: it names what the study does not have; or a user's kind lacks its method.
    """
    if type(part).data is not FigurePart.data:
        data = part.data(records)
        check_made(data, pd.DataFrame, "data")
        notes = tuple(dict.fromkeys([*warnings(records), *part.notes(records, data)]))
        return DrawnFigure(part, data, notes, part.below(records, data))
    made = _make(records, part, "drawn")
    check_made(made, Drawn, "drawn")
    return replace(made, notes=tuple(dict.fromkeys([*warnings(records), *made.notes])))


def cells(records: StudyRecords, part: TablePart) -> TableData:
    """Return a table's rows of cells, which page, terminal, LaTeX and findings all read. Raises as `drawn`."""

    def made() -> TableData:
        table = _make(records, part, "cells")
        check_made(table, TableData, "cells")
        told = tuple(dict.fromkeys([*warnings(records), *table.warnings]))
        return replace(table, warnings=told, caption=table.caption or caption(records, range(len(records.variants))))

    return made() if part.live else records.once((type(part), repr(part), "cells"), made)


def shown(records: StudyRecords, part: Part) -> Shown:
    """Make any part of a report. Raises as `drawn`."""
    if isinstance(part, Undrawable):
        raise ConfigError(part.reason)
    if isinstance(part, FigurePart):
        made = drawn(records, part)
        return Shown(part.name, made.finding, made)
    if isinstance(part, TablePart):
        data = cells(records, part)
        return (
            render.table_shown(data)
            if part.live
            else records.once((type(part), repr(part), "shown"), lambda: render.table_shown(data))
        )
    made = _make(records, part, "shown")
    assert isinstance(made, Shown)
    return made


def _make(records: StudyRecords, part: Part, method: str) -> Any:
    """Make a part by its own method, or as one of recstudy's kinds, or as the one that it derives from."""
    if own := getattr(part, method, None):
        return own(records)
    kind = next((kind for kind in type(part).__mro__ if kind in MAKERS), None)
    if kind is None:
        raise ConfigError(f"{type(part).__name__} does not define how it is made: see recstudy.report.parts")
    return MAKERS[kind](records, part)


def heading(part: Part) -> str:
    """Return its title, whatever a user's own class makes of it."""
    try:
        return str(part.heading)
    except Exception as error:
        problem(part, error)
        return part.title or part.name


def problem(part: Part, error: Exception) -> str:
    """Say in one line why a part cannot be drawn; what is no clear line by itself is in the log with its traceback."""
    if isinstance(error, RecstudyError):
        log.warning("%s: %s", part.name, error)
        return str(error)
    said = f"{part.name!r} cannot be drawn: {type(error).__name__}: {error}".partition("\n")[0]
    log.error(said, exc_info=error)
    return said
