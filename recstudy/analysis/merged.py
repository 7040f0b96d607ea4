"""What a study's page says of other attempts of its runs, which a merge has kept, and of other definitions of its name."""

from collections.abc import Iterator

from recstudy.analysis.frame import StudyRecords, records_of
from recstudy.analysis.kinds import problem, shown
from recstudy.analysis.page import escape, fold, warning_lines, words_table
from recstudy.analysis.rows import distinct
from recstudy.config import flatten
from recstudy.records import Result, Results, read_record
from recstudy.records.merge import differing, merged_runs
from recstudy.records.plans import kept_beside
from recstudy.records.run_folder import OTHER
from recstudy.report import TablePart
from recstudy.report.names import DASH, plain, plural


def other_attempts(results: Results, run: str) -> Iterator[tuple[str, Result]]:
    """Yield the finished attempts of a run that other results folders had, by the folder that each is kept in."""
    for file in sorted(results.run(run).path.glob(f"{OTHER}-*/result.json")):
        if (result := read_record(file, Result)) is not None:
            yield file.parent.name, result


def attempt_notes(records: StudyRecords) -> list[str]:
    """Say which runs have other attempts, and in what their numbers differ, a line each."""
    merged = merged_runs(records.results)
    return [
        f"{row.label}, seed {row.seed} has another attempt ({name}): {differing(row.result, result)}"
        for row in (distinct(records.rows) if merged else ())
        if row.id in merged and row.result is not None
        for name, result in other_attempts(records.results, row.id)
    ]


def definitions_html(records: StudyRecords) -> str:
    """Show each other definition of the study's name beside this one: in what they differ, and its first table."""
    plan, html = records.plan, ""
    for other in kept_beside(records.results.study(plan.study, plan.folder), plan) if plan.others else ():
        theirs = records_of(records.results, other)
        sides = flatten(plan.base), flatten(other.base)
        paths = [path for path in dict.fromkeys([*sides[0], *sides[1]]) if not path.startswith("place.")]
        rows = [(path, *(plain(side[path]) if path in side else DASH for side in sides)) for path in paths]
        rows = [row for row in rows if row[1] != row[2]]
        rows.append(("variants", *("; ".join(variant.label for variant in one.variants) for one in (plan, other))))
        beside = words_table(f"Definition {other.definition}", ("", f"{plan.definition}, shown", other.definition), rows)
        with theirs.standing():
            table = next((part for part in theirs.parts if isinstance(part, TablePart)), None)
            try:
                drawn = shown(theirs, table).html if table else ""
            except Exception as error:  # a part of theirs that cannot be drawn costs this page nothing else
                drawn = warning_lines([problem(table, error)]) if table else ""
        done = sum(row.status == "done" for row in distinct(theirs.rows))
        words = f"Definition {other.definition}: {done:,} of {plural(len(distinct(theirs.rows)), 'run')} done"
        html += fold(words, beside + drawn)
    return f"<h3>{escape('Other definitions of this name')}</h3>{html}" if html else ""
