"""What a run answered on the test split, for figures and metrics that look at single images."""

from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.errors import StorageError
from recstudy.metrics import Answers
from recstudy.metrics.kept import Kept, unpacked
from recstudy.records import Results

NONE = "it kept no answers, which runs do since they can be evaluated later"


def answers_of(records: StudyRecords, run: Row) -> tuple[Answers | None, str]:
    """The answers of a run (a row of `records`); None, and why, where it has none. Of a cut file, and why it is cut, the
    images that it has."""
    kept, why = kept_answers(records.results, run.id)
    if kept is None:
        return None, why
    return kept.answers, f"of the first {len(kept.answers):,} of {kept.whole:,} test images" if kept.cut else ""


def kept_answers(results: Results, run_id: str) -> tuple[Kept | None, str]:
    """What a run's folder has; None, and why, where there is nothing to read."""
    path = results.fetched(results.run(run_id).answers)
    if not path.exists():
        return None, NONE if results.run(run_id).finished else "it has not finished"
    try:
        return unpacked(path), ""
    except StorageError as damage:
        return None, str(damage)
