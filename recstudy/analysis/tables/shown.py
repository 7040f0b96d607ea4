"""Every kind of table made from the records: its words, its numbers, and what is behind each of them."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, Self

import pandas as pd

from recstudy.analysis.caveats import caption, warnings
from recstudy.analysis.cells import TableData
from recstudy.analysis.figures.forest import ForestRow, Mark, draw_forest
from recstudy.analysis.findings import of_family, of_table
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import links
from recstudy.analysis.questions import Family, QuestionPart, family
from recstudy.analysis.shown import Explained, FigureShown, Places, Shown, check_made, figure_shown
from recstudy.analysis.tables import arithmetic, entries, question_table, render
from recstudy.analysis.tables.entries import Printed
from recstudy.analysis.tables.explain import cell_behind, question_behind, setting_behind
from recstudy.analysis.tables.latex import latex
from recstudy.analysis.tables.question_table import interval_words, verdict_words
from recstudy.analysis.tables.render import settings_title
from recstudy.evidence import Verdict
from recstudy.records import write_whole
from recstudy.report import Arithmetic, Claims
from recstudy.report.names import metric
from recstudy.report.venues import ARTICLE, Paper

FILES = ("md", "tex", "csv")
MOST_ROWS = 40  # in the terminal: one screen
COLUMNS = ("difference", "interval", "p (Holm)", "verdict", "seeds needed")  # what `explain` calls the numbers of a question


@dataclass(frozen=True, repr=False)
class TableShown(Shown):
    """A table in words, and its numbers as CSV; what else there is of it is made where it is asked for.

    Questions stand under their forest plot, which then has the warnings.
    """

    page: Printed
    csv: str
    finding: str = ""
    narrow: Callable[[], Printed] | None = None
    behind: Callable[[], Places] = lambda: Places((), ())
    forest: FigureShown | None = None

    @property
    def html(self) -> str:
        return self.above + entries.html_table(self.printed)

    @property
    def printed(self) -> Printed:
        return replace(self.page, warnings=()) if self.forest else self.page  # said over the plot

    @property
    def above(self) -> str:
        return self.forest.html if self.forest else ""

    @property
    def figure(self) -> Any:
        return self.forest.figure if self.forest else None

    @property
    def markdown(self) -> str:
        return entries.markdown(self.page)

    @property
    def latex(self) -> str:
        return self.latex_for(ARTICLE)

    def latex_for(self, paper: Paper) -> str:
        """As wide as its columns or its text, in parts where that is not enough."""
        return latex(self.page, paper, self.finding)

    @property
    def frame(self) -> pd.DataFrame:
        """The numbers in full precision."""
        return pd.read_csv(StringIO(self.csv))

    def without(self, said: Collection[str]) -> Self:
        page = replace(self.page, warnings=[note for note in self.page.warnings if note not in said])
        return replace(self, page=page, forest=self.forest.without(said) if self.forest else None)

    def in_terminal(self) -> entries.Terminal:
        return entries.Terminal(self.narrow() if self.narrow else self.page)

    def places(self) -> Places:
        return self.behind()

    def write(self, folder: Path, file: str, export: Sequence[str], paper: Paper) -> str:
        for ending, text in zip(FILES, (self.markdown, self.latex_for(paper), self.csv), strict=True):
            write_whole(folder / "tables" / f"{file}.{ending}", text)
        return links("tables", file, FILES) + (self.forest.write(folder, file, export, paper) if self.forest else "")

    def __repr__(self) -> str:
        return self.markdown


def with_facts(records: StudyRecords, table: TableData) -> TableShown:
    """Make a table with what must be known before any number of the study, and what the numbers are of, whoever makes it."""
    check_made(table, TableData, "cells")
    told = tuple(dict.fromkeys([*warnings(records), *table.warnings]))
    return of_cells(replace(table, warnings=told, caption=table.caption or caption(records, range(len(records.variants)))))


def of_cells(table: TableData) -> TableShown:
    """Make a table whose every number carries the runs behind it."""
    narrow = partial(render.narrow, table, MOST_ROWS)
    return TableShown(render.printed(table), render.csv_text(table), of_table(table), narrow, behind=partial(_places, table))


def asked(records: StudyRecords, part: QuestionPart) -> TableShown:
    """Make a row a question of claims, differences or effects, under their forest plot."""
    found = family(records, part)

    def places() -> Places:
        behind = [(row.label, [partial(question_behind, row=row, family=found)] * len(COLUMNS)) for row in found.rows]
        return Places(COLUMNS, behind)

    page, csv, said = question_table.printed(records, part, found), question_table.csv_text(found), of_family(found)
    drawn = draw_forest(part.heading, _forest_rows(part, found), finding=said)
    plot = None if drawn.data.empty else figure_shown(records, part.name, drawn)
    return TableShown(page, csv, said, behind=places, forest=plot)


def _forest_rows(part: QuestionPart, found: Family) -> list[ForestRow]:
    """Draw a row a question that has an estimate; its region is what is claimed, or the published difference with its margin."""
    rows = []
    for row in found.rows:
        if row.estimate.value is None:
            continue
        known, estimate = metric(row.metric), row.estimate
        unit = "points" if known.unit == "%" else known.unit or "no unit"
        group = f"{known.title}: difference{f' from {row.group}' if row.group else ''} ({unit})"
        region = row.answer.question.region if isinstance(part, Claims) else None
        about = f"{row.contrast or row.label}; {interval_words(row)}"
        for theirs in row.published:
            margin = max(theirs.ours.margin, theirs.theirs.margin)
            region = region or (theirs.value - margin, theirs.value + margin)
            about += f"; published {theirs.value:+.6g}"
        against = row.verdict in (Verdict.CONTRADICTED, Verdict.SMALLER)
        mark: Mark = "no" if against else "yes" if row.verdict.decided else "open"
        value, low, high = row.estimate.value, estimate.low, estimate.high
        rows.append(ForestRow(row.label, value, low, high, region, verdict_words(row), group, estimate.n, about, mark))
    return rows


def counted(_: StudyRecords, part: Arithmetic) -> TableShown:
    """Make a row a published claim."""
    return TableShown(arithmetic.printed(part), arithmetic.csv_text(part))


def _places(table: TableData) -> Places:
    """Return what is behind each number; rows of one label in several groups are called by their group too."""
    group, count = "", Counter(row.label for row in table.rows if row.cells)
    rows: list[tuple[str, Sequence[Explained]]] = []
    for row in table.rows:
        if not row.cells:
            group = row.label
            continue
        settings = [dict(zip(fields, words, strict=True)) for fields, words in zip(table.settings, row.settings, strict=True)]
        behind: list[Explained] = [partial(cell_behind, cell=cell) for cell in row.cells]
        behind += [partial(setting_behind, setting=setting) for setting in settings]
        rows.append((f"{group}, {row.label}" if count[row.label] > 1 else row.label, behind))
    return Places([*table.columns, *map(settings_title, table.settings)], rows)
