"""What a study's page says of other attempts of its runs, which a merge has kept."""

from collections.abc import Iterator

from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import distinct
from recstudy.records import Result, Results, read_record
from recstudy.records.merge import differing, merged_runs
from recstudy.records.run_folder import OTHER


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
