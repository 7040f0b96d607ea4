"""Write a study's report: tables and figures as files, one HTML page with all of them, and a LaTeX document.

`recstudy report` and the end of a study's run call `show_report`. The page is written last, so that its links
never lead to missing files.
"""

import gc
import logging
import os
from collections.abc import Callable, Sequence
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
from recstudy.report.figures.lead import leading_parts
from recstudy.report.findings import findings
from recstudy.report.kinds import render_part, report_problem
from recstudy.report.names import capitalized, page_title
from recstudy.report.numbers import numbers_tex
from recstudy.report.page import FIGURE, PageContent, Section, markup, page, render, safe_names
from recstudy.report.parts import FigurePart, OfVariants, Part, missing_modules, parts_of
from recstudy.report.shown import RenderedPart, ReportFiles
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
from recstudy.report.table import TableData, matches
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

    The report consists of `tables/*`, `figures/*`, `report.html`, `report.md`, `paper.tex` and `numbers.tex`
    in `report/`.
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
        folder = results.study(name, preset)
        tables = write_files(records, folder, export, paper, say, price)
        for finding in findings(records):
            console.print(
                Text.assemble((f"{finding.verdict}: ", "bold"), f"{finding.text}{finding.end_mark}"),
                soft_wrap=True,
            )
        facts = caption_facts(records, records.indices)["study_notes"]
        for line in (*warnings(records), "; ".join(facts)):
            say(f"{capitalized(line)}.")
        stated_notes = (*warnings(records), *facts)
        for table in tables:
            console.print(TerminalTable(table.without_notes(stated_notes)))
        for line in (*failed_metrics(records), *missing_modules(records), *missing_metrics(records)):
            say(capitalized(line))
    page = folder / "report" / "report.html"
    say(f"Report: {shortest(page)}")
    if {"svg", "png"} & {*export}:
        say(f"Markdown with figures: {shortest(page.with_suffix('.md'))}")
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
) -> list[TableData]:
    """Write all files of a report into the folder `report` of a study, and return its tables.

    Args:
        records: The study's records.
        study: The study's folder.
        export: Further formats of each figure: `pdf`, `svg`, `png`.
        paper: The page that sets the widths of LaTeX tables and exported figures.
        tell: Gets a line before each figure is exported, which takes seconds.
        price: The price of a GPU hour.
    """
    folder, plan = study / "report", records.plan
    # An unknown format is refused before any file is written.
    report_files = ReportFiles(folder, export, paper, warnings(records))
    files = safe_names([part.name for part in parts_of(records)])
    figures = [part for part in parts_of(records) if export and isinstance(part, FigurePart)]
    sections: list[Section] = []
    rendered_parts: dict[str, RenderedPart] = {}

    def write(file: str, rendered: RenderedPart) -> str:
        rendered_parts[file] = rendered
        return rendered.write(report_files, file)

    for part, file in zip(parts_of(records), files, strict=True):
        if part in figures:
            tell(
                f"Exporting figure {figures.index(part) + 1} of {len(figures)} as {', '.join(export)}:"
                f" {part.name}"
            )
        sections.append(section(records, part, partial(write, file)))
    report_files.finish()
    tables = [rendered.table for rendered in rendered_parts.values() if rendered.table]
    pictures = {
        file: f"figures/{file}.{kind}"
        for kind in ("svg", "png")
        for file in files
        if f"figures/{file}.{kind}" in report_files.checksums
    }
    inputs = (f"{kind}/{file}.tex" for file in files for kind in ("tables", "figures"))
    words: dict[str, Any] = {
        "title": page_title(plan),
        "question": by_name(plan.question),
        "warnings": warnings(records),
        "findings": findings(records),
        "parts": [(rendered, pictures.get(file)) for file, rendered in rendered_parts.items()],
        "inputs": [path for path in inputs if path in report_files.checksums],
        "paper": paper,
        "packages": PACKAGES,
        "md": md,
        "tex": breakable,
        "sentence": sentence,
    }
    for name in ("report.md", "paper.tex"):
        write_whole(folder / name, render(f"{name}.jinja", **words))
    write_whole(folder / "numbers.tex", numbers_tex(records))
    heads = [head for table in tables for head in table.heads[1:]]
    for column in paper.hidden_columns:
        if not any(matches(head, [column]) for head in heads):
            log.warning("--without %s: no table of %s has such a column", column, plan.study)
    # The page is last, so that its links never lead to missing files.
    write_whole(folder / "report.html", page(page_content(records, sections, price)))
    return tables


def page_content(
    records: StudyRecords, sections: Sequence[Section], price: Price | None = None
) -> PageContent:
    """Return the page of a study.

    Args:
        records: The study's records.
        sections: The parts of its report, as `section` returns them.
        price: The price of a GPU hour.
    """
    empty = [part.title for part in sections if not part.content]
    positions = map(parts_of(records).index, leading_parts(parts_of(records)))
    picture = next((index for index in positions if FIGURE in sections[index].content), None)
    if picture is not None:  # its position among the sections that the page has
        picture -= sum(not part.content for part in sections[:picture])
    paid = costs(records, price)
    last = {
        "Published values": published_html(records),
        "Failed runs": failures(records),
        "Costs": markup("facts", paid) if any(words for _, words in paid) else "",
        "Reproducibility": reproducibility(records),
        TITLE: audit_html(records),
        "How to read this page": reading_notes(records),
    }
    last_sections = [Section(title, content) for title, content in last.items() if content]
    head = [question(records), answer(records), overview(records, empty)]
    shown_sections = [*(part for part in sections if part.content), *last_sections]
    return PageContent(page_title(records.plan), head, shown_sections, picture)


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
        links = write(rendered)
        # the page only names a figure without values
        is_empty = rendered.data is not None and rendered.is_empty and not (rendered.table or rendered.body)
        return Section(title, "" if is_empty else content + links, rendered.marked_finding)
    except Exception as error:
        # The part was rendered, so this error is about writing its files and concerns the whole report.
        if content and isinstance(error, StorageError):
            raise
        return Section(title, markup("warnings", [report_problem(part, error, records)]))
