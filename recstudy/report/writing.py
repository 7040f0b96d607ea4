"""Write a study's report: tables and figures as files, one HTML page with all of them, and a LaTeX document.

`recstudy report` and the end of a study's run call `show_report`. The page is written last, so that its links
never lead to missing files.
"""

import gc
import logging
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from recstudy.base.errors import ConfigError, NotYetError, PartError, StorageError
from recstudy.base.terminal import shortest
from recstudy.papers import by_name
from recstudy.records import PlanRecord, Results, write_whole
from recstudy.report.audit import TITLE, audit_html
from recstudy.report.caveats import caption_facts, warnings
from recstudy.report.findings import findings
from recstudy.report.kinds import render_part, report_problem
from recstudy.report.names import page_title
from recstudy.report.page import FIGURE, PageContent, Section, markup, page, render, safe_names
from recstudy.report.parts import FigurePart, OfVariants, Part, missing_modules, parts_of
from recstudy.report.shown import RenderedPart, ReportFiles, check_export
from recstudy.report.study_records import StudyRecords, load_study, records_of
from recstudy.report.summary import (
    Price,
    answer,
    costs,
    failed_metrics,
    failures,
    missing_metrics,
    overview,
    published_html,
    question,
    reading_notes,
    reproducibility,
)
from recstudy.report.table import matches
from recstudy.report.venues import ARTICLE, Paper
from recstudy.report.writers import PACKAGES, TerminalTable, breakable, md, sentence

log = logging.getLogger(__name__)


def show_report(
    results: Results,
    name: str,
    preset: str,
    export: Sequence[str],
    console: Console,
    paper: Paper = ARTICLE,
    trust: bool = False,
    price: Price | None = None,
) -> Path:
    """Write a study's report, print its findings and tables, and return the path of the page.

    The report consists of `tables/*`, `figures/*`, `report.html`, `report.md` and `paper.tex` in `report/`.
    The study need not be finished.

    Args:
        results: The results folder.
        name: The name of the study.
        preset: Its preset.
        export: Further formats of each figure: `pdf`, `svg`, `png`. If there is no browser, a warning is
            logged instead.
        out: The terminal.
        paper: The page of `VENUES` or `paper_of`, which sets the widths of LaTeX tables and exported figures.
        trust: Import the study's own modules as they are now.
        price: The price of a GPU hour. The page then states the cost of the GPUs.

    Raises:
        ConfigError: There is no such study, preset or export format.
        PartError: The report was written, but the drawing of a part raised an error.
    """

    def say(line: str) -> None:
        console.print(Text(line), soft_wrap=True)

    records = load_study(results, name, preset, trust)
    # With 10,000 runs, garbage collection of these records takes a tenth of the time, and the command ends
    # after the report anyway.
    gc.freeze()
    with records.study_modules():
        page = write_files(records, results.study(name, preset), export, paper, say, price)
        for finding in findings(records):
            console.print(Text.assemble((f"{finding.verdict}: ", "bold"), f"{finding.text}."), soft_wrap=True)
        facts = caption_facts(records, range(len(records.variants)))["study_notes"]
        for line in (*warnings(records), "; ".join(facts)):
            say(f"{line[0].upper()}{line[1:]}.")
        for part in parts_of(records):
            rendered = no_figure(records, part)
            if rendered and rendered.table:
                console.print(TerminalTable(rendered.table.without_notes((*warnings(records), *facts))))
        for line in map(
            str, (*failed_metrics(records), *missing_modules(records), *missing_metrics(records))
        ):
            say(line[0].upper() + line[1:])
    say(f"Report: {shortest(page)}")
    if errors := records.drawing_errors.items():
        parts = "; ".join(f"{part!r}: {error}" for part, error in errors)
        raise PartError(f"The report of {name} ({preset}) lacks what cannot be drawn: {parts}")
    return page


def check_drawable(plan: PlanRecord) -> list[str]:
    """Refuse a report with a part that could never be drawn, before any run starts.

    Each part is drawn in memory without runs.

    Returns:
        A line for each part of a user's own kind that raises an error. Such a part may need runs.

    Raises:
        ConfigError: A part is invalid. For example, the study lacks a field, or no variant is the base.
        Exception: A part of recstudy raises an error, which is a bug of recstudy.
    """
    records = records_of(Results(Path(os.devnull)), replace(plan, runs=()))
    warning_lines = []
    for part in parts_of(records):
        try:
            if isinstance(part, OfVariants) and not records.chosen(part.where):
                raise ConfigError(f"no variant matches {part.where}")
            render_part(records, part)
        except NotYetError:
            continue
        except ConfigError as error:
            raise ConfigError(f"the part {part.name!r} of the report can never be drawn: {error}") from None
        except Exception as error:
            if type(part).__module__.startswith("recstudy."):
                error.add_note(f"in the part {part.name!r} of the report, which was drawn without runs")
                raise
            problem = f"{type(error).__name__}: {error}".partition("\n")[0]
            warning_lines.append(
                f"The part {part.name!r} of the report cannot be drawn without a run: {problem}. It is tried"
                " again when runs have finished."
            )
    return warning_lines


def write_files(
    records: StudyRecords,
    study: Path,
    export: Sequence[str],
    paper: Paper,
    tell: Callable[[str], object] = lambda line: None,
    price: Price | None = None,
) -> Path:
    """Write all files of a report into the folder `report` of a study, and return the path of the page.

    Args:
        records: The study's records.
        study: The study's folder.
        export: Further formats of each figure: `pdf`, `svg`, `png`.
        paper: The page that sets the widths of LaTeX tables and exported figures.
        tell: Gets a line before each figure is exported, which takes seconds.
        price: The price of a GPU hour.
    """
    # An unknown format is refused before any file is written.
    check_export(export)
    folder = study / "report"
    report_files = ReportFiles(folder)
    files = safe_names([part.name for part in parts_of(records)])
    figures = [part for part in parts_of(records) if export and isinstance(part, FigurePart)]
    sections = []
    for part, file in zip(parts_of(records), files, strict=True):
        if part in figures:
            tell(
                f"Exporting figure {figures.index(part) + 1} of {len(figures)} as {', '.join(export)}:"
                f" {part.name}"
            )
        write = partial(RenderedPart.write, report_files=report_files, file=file, export=export, paper=paper)
        sections.append(section(records, part, write))
    report_files.finish()
    tables = [
        (folder / table).read_text(encoding="utf-8")
        for file in files
        if (table := f"tables/{file}.md") in report_files.checksums
    ]
    words: dict[str, Any] = {
        "title": page_title(records.plan),
        "question": by_name(records.plan.question),
        "findings": findings(records),
    }
    write_whole(folder / "report.md", render("report.md.jinja", **words, tables=tables, md=md))
    write_whole(folder / "paper.tex", _latex(records, report_files.checksums, files, paper))
    pages = [
        rendered.table
        for part in parts_of(records)
        if paper.hidden_columns and (rendered := no_figure(records, part)) and rendered.table
    ]
    for column in paper.hidden_columns:
        if not any(matches(head, [column]) for page in pages for head in page.heads[1:]):
            log.warning("--without %s: no table of %s has such a column", column, records.plan.study)
    # The page is last, so that its links never lead to missing files.
    write_whole(folder / "report.html", page(page_content(records, sections, price)))
    return folder / "report.html"


def page_content(
    records: StudyRecords, sections: Sequence[Section], price: Price | None = None
) -> PageContent:
    """Return the page of a study.

    Args:
        records: The study's records.
        sections: The parts of its report, as `section` returns them.
        price: The price of a GPU hour.
    """
    figure_sections = [index for index, part in enumerate(sections) if FIGURE in part.content]
    figures = [index for index in figure_sections if isinstance(parts_of(records)[index], FigurePart)]
    # the first figure, else the first table with a figure above it
    picture = next(iter([*figures, *figure_sections]), None)
    last = {
        "Published values": published_html(records),
        "Failed runs": failures(records),
        "Costs": markup("facts", costs(records, price)),
        "Reproducibility": reproducibility(records),
        TITLE: audit_html(records),
        "How to read this page": reading_notes(records),
    }
    last_sections = [Section(title, content) for title, content in last.items() if content]
    head = [question(records), answer(records), overview(records)]
    return PageContent(page_title(records.plan), head, [*sections, *last_sections], picture)


def section(
    records: StudyRecords,
    part: Part,
    write: Callable[[RenderedPart], str] = lambda rendered: "",
    link: Callable[[Sequence[str]], str] | None = None,
) -> Section:
    """Return the section of one part. If the part cannot be drawn, the section states the reason.

    Args:
        records: The study's records.
        part: The part of the report.
        write: Writes the files of the part and returns HTML that links to them.
        link: Returns the address of the page of some runs.

    Raises:
        StorageError: `write` cannot write the files.
    """
    title, content = part.title or part.name, ""
    try:
        title = str(part.heading)
        rendered = render_part(records, part)
        content = rendered.linked_html(link, warnings(records))
        return Section(title, content + write(rendered), rendered.marked_finding)
    except Exception as error:
        # The part was rendered, so this error is about writing its files and concerns the whole report.
        if content and isinstance(error, StorageError):
            raise
        return Section(title, markup("warnings", [report_problem(part, error, records)]))


def no_figure(records: StudyRecords, part: Part) -> RenderedPart | None:
    """Return a rendered part; None for a figure and for a part that cannot be rendered.

    The page and the log state why it cannot be rendered.
    """
    try:
        return None if isinstance(part, FigurePart) else render_part(records, part)
    except Exception:
        return None


def _latex(records: StudyRecords, written_files: Collection[str], files: Sequence[str], paper: Paper) -> str:
    """Return the LaTeX document: question, findings, tables, and figures that were exported as PDF."""
    plan = records.plan
    return render(
        "paper.tex.jinja",
        paper=paper,
        packages=PACKAGES,
        title=breakable(page_title(plan)),
        question=breakable(by_name(plan.question)),
        findings=[
            (breakable(finding.verdict), breakable(sentence(finding.text))) for finding in findings(records)
        ],
        parts=[
            part
            for file in files
            for part in (f"tables/{file}.tex", f"figures/{file}.tex")
            if part in written_files
        ],
    )
