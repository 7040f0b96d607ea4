"""The page `/run/ID` of one run: metrics, curves, examples, attempts, log, settings and provenance."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from recstudy.base.errors import StorageError
from recstudy.base.opened import descriptor, is_regular_file
from recstudy.base.values import flatten
from recstudy.board.folder import BoardStudy
from recstudy.board.frame import framed, piece
from recstudy.board.progress import progress_words
from recstudy.board.runs import NO_CURVES, curves, select_runs, settings_table
from recstudy.records import RunFolder, read_log
from recstudy.records.reading import read_record
from recstudy.records.schema import Attempt, Failure
from recstudy.report import PARTS, Part
from recstudy.report.caveats import warnings
from recstudy.report.names import metric, number, quantity
from recstudy.report.page import PageContent, Section, fold, markup, words_table
from recstudy.report.study_records import StudyRecords
from recstudy.report.summary import failures, named_settings, provenance
from recstudy.report.writing import section

# At most so many last lines of a log are shown.
LINES = 12
# Bytes read from the end of a file for its last lines, so that a log of any size is shown at once.
TAIL = 2**16


def run_page(study: BoardStudy, run_id: str) -> str:
    """Return the page of a run."""
    records = select_runs(study.records, [run_id])
    row, plan = records.rows[0], records.plan
    folder = records.results.run(run_id)
    state = (
        progress_words(study, next(row for row in study.records.rows if row.id == run_id))
        if run_id in study.logs
        else row.status
    )
    tries = row.attempts
    with suppress(StorageError):  # the section of attempts reports the damage
        tries = tries or folder.tries
    head = [piece("run_head", row, tries, plan, records.variants[0], state, warnings(records)), "", ""]
    all_sections: list[Section | None] = [
        checked("Failure", lambda: failures(records) + hang_logs(folder)),
        checked("Numbers", lambda: numbers(records)),
        curves(records) if is_regular_file(folder.epochs) else None,
        *(section(records, part) for part in drawn_parts(records)),
        checked("Attempts", lambda: attempts(folder)),
        checked("Earlier failures", lambda: earlier_failures(records, folder)),
        checked("Last epochs", lambda: last_epochs(records)),
        checked("Output", lambda: tail(folder.path / "output.log")),
        checked("Settings", lambda: settings(records)),
        checked("Provenance", lambda: provenance(records)),
    ]
    sections = [part for part in all_sections if part and part.content]
    return framed(PageContent(row.label, head, sections), study)


def checked(title: str, make: Callable[[], str]) -> Section:
    """Return a section. If its records are damaged, it shows the error, and the other sections are intact."""
    try:
        return Section(title, make())
    except Exception as error:
        return Section(title, markup("warnings", [f"{type(error).__name__}: {error}"]))


def drawn_parts(records: StudyRecords) -> Iterator[Part]:
    """Yield the report parts that draw the files of a run. An unfinished run only has its losses."""
    row, config = records.rows[0], records.configs[0]
    for kind in PARTS.values():
        if not kind.run_file or not (row.done or kind.live):
            continue
        part = kind.of_run(config)
        if part and is_regular_file(records.results.run(row.id).path / kind.run_file):
            yield part


def numbers(records: StudyRecords) -> str:
    """Return the table of a run's metrics and costs, with the reasons for unavailable ones."""
    row = records.rows[0]
    values = [
        (metric(name).title, quantity(name, value))
        for name in row.measured
        if (value := row.value(name)) is not None
    ]
    unavailable = [
        (metric(name).title, f"not available: {reason}") for name, reason in row.unavailable.items()
    ]
    return words_table("Numbers", ("metric", "value"), values + unavailable) if values or unavailable else ""


def attempts(folder: RunFolder) -> str:
    """Return the table of a run's attempts."""
    rows = [
        (
            line.started or line.ended or "",
            "started" if line.started else "left a drained node" if line.drained else "left its node",
            line.host,
            f"{line.commit or ''}{' with changes' * line.dirty}",
        )
        for line in read_log(folder.attempts, Attempt)
    ]
    return words_table("Attempts", ("time", "event", "host", "commit"), rows) if rows else ""


def earlier_failures(records: StudyRecords, folder: RunFolder) -> str:
    """Return the failures that were retried since."""
    rows = [
        replace(records.rows[0], status="failed", failure=read_record(file, Failure))
        for file in folder.earlier_failures
    ]
    return failures(replace(records, rows=rows))


def last_epochs(records: StudyRecords) -> str:
    """Return the table of the last epochs."""
    frame = records.epochs([0]).tail(LINES)
    if frame.empty:
        return ""
    names = [name for name in map(str, frame) if name not in NO_CURVES or name == "seconds"]
    rows = [
        [line["epoch"], *("" if line[name] != line[name] else number(name, line[name]) for name in names)]
        for line in frame.to_dict("records")
    ]
    heads = [records.program.step_name, *(metric(name).heading for name in names)]
    return words_table("Last epochs", heads, rows, kind="")


def settings(records: StudyRecords) -> str:
    """Return the table of settings that differ from the study's base, and the table of all settings."""
    config = records.configs[0]
    values = named_settings(records, config)
    difference = settings_table(("setting", "base", "this run"), [flatten(records.plan.base), config])
    return difference + fold(
        f"All {len(values)} settings", words_table("Settings", ("setting", "value"), values)
    )


def hang_logs(folder: RunFolder) -> Markup:
    """Return the last lines of the stack traces of hung workers."""
    title = Markup("<h3>{}</h3>{}")
    return Markup().join(title.format(log.name, tail(log)) for log in sorted(folder.path.glob("hang-*.log")))


def tail(log: Path) -> str:
    """Return the last lines of a log; empty if there is no file."""
    if not is_regular_file(log):
        return ""
    with open(log, "rb", opener=descriptor) as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        lines = file.read(TAIL).decode(errors="replace").strip().splitlines()
    return markup("code", "\n".join(lines[-LINES:]))
