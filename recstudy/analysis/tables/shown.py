"""Every kind of table made from the records: its words, its numbers, and what is behind each of them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from math import inf
from pathlib import Path

import pandas as pd

from recstudy.analysis.caveats import caption, warnings
from recstudy.analysis.cells import TableData
from recstudy.analysis.figures import forest
from recstudy.analysis.figures.export import FigureShown, shown
from recstudy.analysis.figures.forest import ForestRow
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.headlines import of_claims, of_differences, of_effects, of_table
from recstudy.analysis.page import links
from recstudy.analysis.shown import Explained, Places, Shown, check_made
from recstudy.analysis.tables import arithmetic, claim_table, difference_table, effect_table, markup, render
from recstudy.analysis.tables.claims import Judged, claims_data
from recstudy.analysis.tables.differences import DifferencesData, differences_data
from recstudy.analysis.tables.effects import effects_data
from recstudy.analysis.tables.explain_cells import cell_behind, setting_behind
from recstudy.analysis.tables.explain_tests import claim_behind, difference_behind, effect_behind
from recstudy.analysis.tables.labels import settings_title
from recstudy.analysis.tables.latex import latex
from recstudy.analysis.tables.markup import Printed
from recstudy.records import write_whole
from recstudy.report import Arithmetic, Claims, Differences, Effects
from recstudy.report.names import metric
from recstudy.report.venues import ARTICLE, Paper

FILES = ("md", "tex", "csv")
MOST_ROWS = 40  # in the terminal: one screen


@dataclass(frozen=True, repr=False)
class TableShown(Shown):
    """A table in words, and its numbers as CSV; what else there is of it is made where it is asked for."""

    page: Printed
    csv: str
    said: str = ""  # in its heading
    narrow: Callable[[], Printed] | None = None
    on_paper: Callable[[], Printed] | None = None
    behind: Callable[[], Places] = lambda: Places((), ())

    @property
    def html(self) -> str:
        return markup.html_table(self.page)

    @property
    def markdown(self) -> str:
        return markup.markdown(self.page)

    @property
    def latex(self) -> str:
        return self.latex_for(ARTICLE)

    def latex_for(self, paper: Paper) -> str:
        """As wide as its columns or its text, in parts where that is not enough."""
        return latex(self.on_paper() if self.on_paper else self.page, paper, self.said)

    @property
    def frame(self) -> pd.DataFrame:
        """The numbers in full precision."""
        return pd.read_csv(StringIO(self.csv))

    @property
    def finding(self) -> str:
        return self.said

    @property
    def printed(self) -> Printed:
        return self.page

    def in_terminal(self) -> markup.Terminal:
        return markup.terminal(self.narrow() if self.narrow else self.page)

    def places(self) -> Places:
        return self.behind()

    def write(self, folder: Path, file: str, export: Sequence[str], paper: Paper) -> str:
        for ending, text in zip(FILES, (self.markdown, self.latex_for(paper), self.csv), strict=True):
            write_whole(folder / "tables" / f"{file}.{ending}", text)
        return links("tables", file, FILES)

    def __repr__(self) -> str:
        return self.markdown


@dataclass(frozen=True, repr=False)
class ForestShown(TableShown):
    """A table of differences or claims under their forest plot."""

    forest: FigureShown | None = None

    @property
    def html(self) -> str:
        return self.above + markup.html_table(self.printed)

    @property
    def printed(self) -> Printed:
        return replace(self.page, warnings=()) if self.forest else self.page  # said over the plot

    @property
    def above(self) -> str:
        return self.forest.html if self.forest else ""

    def write(self, folder: Path, file: str, export: Sequence[str], paper: Paper) -> str:
        files = super().write(folder, file, export, paper)
        return files + (self.forest.write(folder, file, export, paper) if self.forest else "")


def with_facts(records: StudyRecords, table: TableData) -> TableShown:
    """A table with what must be known before any number of the study, and what the numbers are of, whoever makes it."""
    check_made(table, TableData, "cells")
    told = tuple(dict.fromkeys([*warnings(records), *table.warnings]))
    return of_cells(replace(table, warnings=told, caption=table.caption or caption(records, range(len(records.variants)))))


def of_cells(table: TableData) -> TableShown:
    """A table whose every number carries the runs behind it."""
    narrow, paper = partial(render.narrow, table, MOST_ROWS), partial(render.on_paper, table)
    return TableShown(render.printed(table), render.csv_text(table), of_table(table), narrow, paper, partial(_places, table))


def differences(records: StudyRecords, part: Differences) -> TableShown:
    """A base's own line stands above the variants that are compared with it."""
    data = differences_data(records, part)

    def places() -> Places:
        heads = difference_table.columns(part, data)
        rows: dict[str, Sequence[Explained]] = {
            row.base: [partial(cell_behind, cell=row.theirs)] * len(heads) for row in data.rows
        }
        for row in data.rows:
            behind = partial(difference_behind, row=row, data=data)
            rows[row.label] = [partial(cell_behind, cell=row.ours), *[behind] * (len(heads) - 1)]
        return Places(heads, list(rows.items()))

    page, csv = difference_table.printed(records, part, data), difference_table.csv_text(data)
    paper = partial(difference_table.printed, records, part, data, paper=True)
    said = of_differences(data.rows)
    plot = shown(records, part.name, forest.drawn(part.heading, difference_rows(data), finding=said))
    return ForestShown(page, csv, said, on_paper=paper, behind=places, forest=plot)


def difference_rows(data: DifferencesData) -> list[ForestRow]:
    """A row a difference that has a value; its region is the published difference with its margin, where there is one."""
    rows = []
    for row in data.rows:
        if row.found.value is None:
            continue
        known, n = metric(row.ours.metric), min(row.n)
        group = f"{known.title} minus {row.base} ({known.unit or 'no unit'})"
        for theirs in row.published or (None,):
            margin = max(theirs.ours.margin, theirs.theirs.margin) if theirs else 0.0
            region = (theirs.value - margin, theirs.value + margin) if theirs else None
            about = f"Published: {'; '.join([theirs.sources, *theirs.reasons])}" if theirs else ""
            rows.append(ForestRow(row.label, row.found.value, *row.found[1:3], region, row.verdict, group, n, about))
    return rows


def effects(records: StudyRecords, part: Effects) -> TableShown:
    """A row an effect."""
    data = effects_data(records, part)

    def places() -> Places:
        heads = effect_table.HEADS[1:]
        return Places(heads, [(one.title, [partial(effect_behind, effect=one, data=data)] * len(heads)) for one in data.effects])

    page, csv = effect_table.printed(records, part, data), effect_table.csv_text(data, part.metric)
    return TableShown(page, csv, of_effects(data), behind=places)


def claims(records: StudyRecords, part: Claims) -> TableShown:
    """A row a claim."""
    judged = claims_data(records, part)

    def places() -> Places:
        heads = claim_table.HEADS[2:]
        return Places(heads, [(one.claim.text, [partial(claim_behind, one=one, judged=judged)] * len(heads)) for one in judged])

    said = of_claims(judged)
    plot = shown(records, part.name, forest.drawn(part.heading, claim_rows(judged), finding=said))
    page, csv = claim_table.printed(records, part, judged), claim_table.csv_text(judged)
    return ForestShown(page, csv, said, behind=places, forest=None if plot.drawn.data.empty else plot)


def claim_rows(judged: Sequence[Judged]) -> list[ForestRow]:
    """A row a claim that has a difference; its region is what is claimed."""
    rows = []
    for one in judged:
        if one.found is None or one.found.value is None:
            continue
        claim, known, (low, high) = one.claim, metric(one.claim.metric), one.interval or (None, None)
        region = (claim.by, inf) if claim.within is None else (-claim.within, claim.within)
        group = f"{known.title}: difference ({known.unit or 'no unit'})"
        about = f"{claim.contrast}; {1 - one.alpha:.1%} interval"
        rows.append(ForestRow(claim.text, one.found.value, low, high, region, one.verdict, group, one.seeds, about))
    return rows


def counted(_: StudyRecords, part: Arithmetic) -> TableShown:
    """A row a published claim."""
    data = arithmetic.arithmetic_data(part)
    return TableShown(arithmetic.printed(data), arithmetic.csv_text(data))


def _places(table: TableData) -> Places:
    """Rows of one label in several groups are called by their group too."""
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
