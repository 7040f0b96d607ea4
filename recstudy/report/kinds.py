"""Make the parts of a report: call their methods, check the results, and add the warnings of the study.

Pages, notebooks, LaTeX and `recstudy explain` get every table and figure from `render_part`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TypeVar

from recstudy.base.errors import ConfigError, NotYetError, RecstudyError
from recstudy.base.lazy import pd
from recstudy.records.schema import escaped
from recstudy.report.caveats import caption_facts, interim_words, warnings
from recstudy.report.claims import QuestionPart
from recstudy.report.names import plural
from recstudy.report.parts import FigurePart, Part, TablePart, Undrawable
from recstudy.report.shown import RenderedPart
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import TableData
from recstudy.report.tables.question_table import questions_shown
from recstudy.report.tables.render import table_shown

log = logging.getLogger(__name__)
Value = TypeVar("Value")


def draw_figure(records: StudyRecords, part: FigurePart) -> RenderedPart:
    """Return a part's figure with the warnings of the study.

    Raises:
        ConfigError: The part names an unknown variant or metric, or a user's class lacks a method.
    """
    data = call_method(records, part, "data", pd.DataFrame)
    notes = dict.fromkeys([*warnings(records), *part.notes(records, data)])
    return part.shown(data, notes, part.html_below(records, data))


def make_table(records: StudyRecords, part: TablePart) -> TableData:
    """Return a table's cells, which pages, terminal, LaTeX and findings use. Raises as `draw_figure`."""

    def make() -> TableData:
        table = call_method(records, part, "cells", TableData)
        for row in table.rows:
            if len(row.cells) not in (0, len(table.columns)):
                raise ConfigError(
                    f"its row {row.label!r} has {plural(len(row.cells), 'cell')}, but the table has"
                    f" {plural(len(table.columns), 'column')}"
                )
        notes = list(dict.fromkeys([*warnings(records), *table.warnings]))
        study_notes = table.study_notes or caption_facts(records, records.indices)["study_notes"]
        return replace(table, warnings=notes, study_notes=study_notes)

    # Page, terminal, LaTeX and findings ask for the same cells.
    return records.compute_once((type(part), repr(part), "cells"), make)


def render_part(records: StudyRecords, part: Part) -> RenderedPart:
    """Render any part of a report. Its finding is marked while runs are left. Raises as `draw_figure`."""
    return replace(_render(records, part), interim=interim_words(records))


def _render(records: StudyRecords, part: Part) -> RenderedPart:
    if isinstance(part, Undrawable):
        raise ConfigError(part.reason)
    if isinstance(part, FigurePart):
        return draw_figure(records, part)
    if isinstance(part, TablePart):
        return table_shown(make_table(records, part))
    if isinstance(part, QuestionPart):
        return questions_shown(records, part)
    return call_method(records, part, "render", RenderedPart)


def call_method(records: StudyRecords, part: Part, method: str, kind: type[Value]) -> Value:
    """Return the result of a part's method.

    Raises:
        ConfigError: A user's own class does not define the method, or the result is not a `kind`.
    """
    value = getattr(part, method)(records)
    if not isinstance(value, kind):
        raise ConfigError(
            f"its method `{method}` must return {kind.__name__}, but gave {type(value).__name__}"
        )
    return value


def heading(part: Part) -> str:
    """Return a part's heading, or its title if a user's own class raises an error."""
    try:
        return str(part.heading)
    except Exception as error:
        # The page still needs a heading for the section that states the problem.
        report_problem(part, error)
        return part.title or part.name


def report_problem(part: Part, error: Exception, records: StudyRecords | None = None) -> str:
    """Log why a part cannot be drawn, and return the reason in one line.

    The log has the traceback, unless the error is one of recstudy with a clear message. The error also counts
    among the `drawing_errors` of the records, unless data or a module of the study is missing.
    """
    is_clear = isinstance(error, RecstudyError)
    reason = escaped(str(error) if is_clear else f"{type(error).__name__}: {error}".partition("\n")[0])
    if records and not isinstance(part, Undrawable) and not isinstance(error, NotYetError):
        records.drawing_errors[part.name] = reason
    # Errors of recstudy have a clear message. All others are logged with their traceback.
    if is_clear:
        log.warning("%s: %s", part.name, reason)
        return reason
    message = f"{part.name!r} cannot be drawn: {reason}"
    log.error(message, exc_info=error)
    return message
