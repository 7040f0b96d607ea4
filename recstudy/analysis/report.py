"""A study's report: tables and figures as files, and one page that holds them all and opens anywhere.

The page is written last and whole, so that it never speaks of files that are not there yet.
"""

import logging
import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from recstudy.analysis.export import check_formats, write_figure
from recstudy.analysis.facts import again, failures, header, provenance, settings
from recstudy.analysis.figures import curve_data, curve_figure, curve_notes, curve_title
from recstudy.analysis.frame import StudyRecords, load_study, status, studies
from recstudy.analysis.learning import learning_data, learning_figure, learning_notes, learning_title
from recstudy.analysis.page import figure_box, links, page, warning_lines
from recstudy.analysis.render import csv_text, html_table, latex, markdown, terminal
from recstudy.analysis.spec import REPORT, Curve, LearningCurves, Table
from recstudy.analysis.tables import table_data
from recstudy.errors import ConfigError
from recstudy.records import Results, write_whole

MOST_ROWS = 40  # of a table in the terminal: one screen
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
    return _write(load_study(results, name, preset), results.study(name, preset), export)


def show_report(results: Results, name: str, preset: str, export: Sequence[str], out: Console) -> Path:
    """Write the report, print its tables and say where the page is. Returns and raises as `write_report`."""
    records = load_study(results, name, preset)
    page = _write(records, results.study(name, preset), export)
    for spec in REPORT.validate_python(records.plan["report"]):
        if isinstance(spec, Table):
            try:
                out.print(terminal(table_data(records, spec), MOST_ROWS))
            except ConfigError:
                continue  # said in the page and in the log
    out.print(Text(f"Report: {shortest(page)}"), soft_wrap=True)
    return page


def show_status(results: Results, out: Console) -> None:
    """Print how far each study of a results folder is, and the commands that finish those that are not."""
    rows = status(results)
    shown = RichTable("study", "preset", "done", "failed", "planned")
    for row in rows:
        shown.add_row(*(Text(str(row[key])) for key in ("study", "preset", "done", "failed", "planned")))
    out.print(shown if rows else Text(f"no studies in {shortest(results.root)}"))
    for row in rows:
        if row["done"] < row["planned"]:
            out.print(Text(f"Finish {row['study']} ({row['preset']}) with: {row['command']}"), soft_wrap=True)


def studies_at(path: Path) -> list[tuple[Results, str, str]]:
    """The studies (results folder, name, preset) in a results folder, or in a study's folder inside one.

    Raises:
        ConfigError: there is no study there.
    """
    path = path.absolute()
    root = next((folder for folder in (path, *path.parents) if (folder / "recstudy.json").exists()), None)
    if root is not None:
        results = Results(root)
        found = [(results, *study) for study in studies(results) if results.study(*study).is_relative_to(path)]
        if found:
            return found
    raise ConfigError(f"no study in {path}. Give a results folder (recstudy.json is in it) or one of its studies/NAME/PRESET.")


def shortest(path: Path) -> str:
    """Relative to the working directory, where it is below that."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _write(records: StudyRecords, study: Path, export: Sequence[str]) -> Path:
    """Everything, the page last."""
    check_formats(export)
    folder = study / "report"
    specs = REPORT.validate_python(records.plan["report"])
    files = file_names([spec.name for spec in specs])
    sections = [_section(records, spec, folder, file, export) for spec, file in zip(specs, files, strict=True)]
    _forget_others(folder, files)
    failed = failures(records)
    sections += [("What failed", failed)] if failed else []
    sections += [("Settings", settings(records)), ("Provenance", provenance(records)), ("Finish or repeat", again(records))]
    target = folder / "report.html"
    write_whole(target, page(f"{study.parent.name} ({study.name})", header(records), sections))
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
