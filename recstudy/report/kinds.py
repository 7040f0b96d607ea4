"""Makes the parts of a report: calls their methods, checks what these return, and adds what the whole study must say."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TypeVar

from recstudy.errors import ConfigError, RecstudyError
from recstudy.lazy import pd
from recstudy.report.caveats import captions, warnings
from recstudy.report.cells import TableData
from recstudy.report.drawn import DrawnFigure
from recstudy.report.parts import FigurePart, Part, TablePart, Undrawable
from recstudy.report.shown import Shown, check_made
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables.render import table_shown

log = logging.getLogger(__name__)
P = TypeVar("P", bound=Part)


def drawn(records: StudyRecords, part: FigurePart) -> DrawnFigure:
    """Return a part's figure, with what a reader must know before any number of the study.

    Raises:
        ConfigError: The part names what the study does not have, or a user's class lacks a method.
    """
    data = _defined(part, FigurePart, "data").data(records)
    check_made(data, pd.DataFrame, "data")
    notes = tuple(dict.fromkeys([*warnings(records), *part.notes(records, data)]))
    return DrawnFigure(part, data, notes, part.below(records, data))


def cells(records: StudyRecords, part: TablePart) -> TableData:
    """Return a table's rows of cells, which page, terminal, LaTeX and findings all read. Raises as `drawn`."""

    def make() -> TableData:
        table = _defined(part, TablePart, "cells").cells(records)
        check_made(table, TableData, "cells")
        notes = tuple(dict.fromkeys([*warnings(records), *table.warnings]))
        study_notes = table.study_notes or captions(records, range(len(records.variants)))["study_notes"]
        return replace(table, warnings=notes, study_notes=study_notes)

    return make() if part.live else records.once((type(part), repr(part), "cells"), make)


def shown(records: StudyRecords, part: Part) -> Shown:
    """Make any part of a report. Raises as `drawn`."""
    if isinstance(part, Undrawable):
        raise ConfigError(part.reason)
    if isinstance(part, FigurePart):
        figure = drawn(records, part)
        return Shown(part.name, figure.finding, figure)
    if isinstance(part, TablePart):
        table = cells(records, part)
        return table_shown(table) if part.live else records.once((type(part), repr(part), "shown"), lambda: table_shown(table))
    return _defined(part, Part, "shown").shown(records)


def _defined(part: P, base: type[Part], method: str) -> P:
    """Return the part, if its class defines the method."""
    if getattr(type(part), method) is getattr(base, method):
        raise ConfigError(f"{type(part).__name__} does not define `{method}`: see recstudy.report.parts")
    return part


def heading(part: Part) -> str:
    """Return its title, whatever a user's own class makes of it."""
    try:
        return str(part.heading)
    except Exception as error:
        problem(part, error)
        return part.title or part.name


def problem(part: Part, error: Exception) -> str:
    """Say in one line why a part cannot be drawn. The log has the traceback, unless the error is a clear line by itself."""
    if isinstance(error, RecstudyError):
        log.warning("%s: %s", part.name, error)
        return str(error)
    message = f"{part.name!r} cannot be drawn: {type(error).__name__}: {error}".partition("\n")[0]
    log.error(message, exc_info=error)
    return message
