"""A study's report: tables and figures as files, and one page that holds them all and opens anywhere.

The page is written last and whole, so that it never speaks of files that are not there yet.
"""

import logging
import re
from collections.abc import Sequence
from pathlib import Path

from recstudy.analysis.export import check_formats, write_figure
from recstudy.analysis.facts import again, failures, header, provenance, settings
from recstudy.analysis.figures import curve_data, curve_figure, curve_notes, curve_title
from recstudy.analysis.frame import StudyRecords, load_study
from recstudy.analysis.learning import learning_data, learning_figure, learning_notes, learning_title
from recstudy.analysis.page import figure_box, links, page, warning_lines
from recstudy.analysis.render import csv_text, html_table, latex, markdown
from recstudy.analysis.spec import REPORT, Curve, LearningCurves, Table
from recstudy.analysis.tables import table_data
from recstudy.errors import ConfigError
from recstudy.records import Results, write_whole

log = logging.getLogger(__name__)


def write_report(results: Results, name: str, preset: str, export: Sequence[str] = ()) -> Path:
    """Write `report/tables/*`, `report/figures/*` and `report/report.html` of a study, finished or not.

    Args:
        results: the results folder.
        name: the study.
        preset: its preset.
        export: also write each figure as these: `pdf`, `svg`, `png`. Without a browser that is logged as a warning.

    Returns:
        The page.

    Raises:
        ConfigError: no such study, preset or export format.
    """
    check_formats(export)
    records = load_study(results, name, preset)
    folder = results.study(name, preset) / "report"
    specs = REPORT.validate_python(records.plan["report"])
    files = file_names([spec.name for spec in specs])
    sections = [_section(records, spec, folder, file, export) for spec, file in zip(specs, files, strict=True)]
    _forget_others(folder, files)
    failed = failures(records)
    sections += [("What failed", failed)] if failed else []
    sections += [("Settings", settings(records)), ("Provenance", provenance(records)), ("Finish or repeat", again(records))]
    target = folder / "report.html"
    write_whole(target, page(f"{name} ({preset})", header(records), sections))
    return target


def file_names(names: Sequence[str]) -> list[str]:
    """File names that are safe in any folder, in the order of the parts, each used once."""
    files: list[str] = []
    for name in names:
        safe = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")[:80] or "part"
        files.append(next(f for f in (safe, *(f"{safe}-{at}" for at in range(2, len(names) + 2))) if f not in files))
    return files


def _section(
    records: StudyRecords, spec: Table | Curve | LearningCurves, folder: Path, file: str, export: Sequence[str]
) -> tuple[str, str]:
    """Title and HTML of one part. A part that names what the study does not have says so in its place."""
    title = _title(spec)
    try:
        if isinstance(spec, Table):
            return title, _table(records, spec, folder / "tables", file)
        return title, _figure(records, spec, folder / "figures", file, export)
    except ConfigError as error:
        log.warning("%s: %s", spec.name, error)
        return title, warning_lines([str(error)])


def _title(spec: Table | Curve | LearningCurves) -> str:
    if isinstance(spec, Curve):
        return curve_title(spec)
    return learning_title(spec) if isinstance(spec, LearningCurves) else spec.title or spec.name.replace("_", " ")


def _table(records: StudyRecords, spec: Table, folder: Path, file: str) -> str:
    table = table_data(records, spec)
    for ending, text in {"md": markdown(table), "tex": latex(table), "csv": csv_text(table)}.items():
        write_whole(folder / f"{file}.{ending}", text)
    return html_table(table) + links("tables", file, ("md", "tex", "csv"))


def _figure(records: StudyRecords, spec: Curve | LearningCurves, folder: Path, file: str, export: Sequence[str]) -> str:
    if isinstance(spec, Curve):
        data = curve_data(records, spec)
        notes = curve_notes(records, spec, data)
        figure = curve_figure(data, spec, notes)
    else:
        data, notes = learning_data(records, spec), learning_notes(records)
        figure = learning_figure(data, spec, notes)
    problem = write_figure(figure, data, folder, file, export)
    if problem:
        log.warning("%s: %s", spec.name, problem)
    if data.empty:
        return '<p class="note">Nothing to draw yet: no run has reported.</p>'
    written = ("html", "csv", *(export if problem is None else ()))
    return figure_box(figure, _title(spec), notes) + links("figures", file, written)


def _forget_others(folder: Path, files: Sequence[str]) -> None:
    """Remove tables and figures that this report no longer has: they would show older numbers."""
    for old in [*(folder / "tables").glob("*"), *(folder / "figures").glob("*")]:
        if old.is_file() and old.name.rpartition(".")[0] not in {*files, "plotly.min"}:
            old.unlink()
