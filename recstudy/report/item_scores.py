"""The scores of each test item, from the answers that runs have kept. Shapes: n runs, M test items."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from recstudy.errors import StorageError
from recstudy.lazy import np
from recstudy.programs.base import Program
from recstudy.programs.metric import METRICS, NotAvailable
from recstudy.records.runs import Row
from recstudy.report.study_records import StudyRecords

if TYPE_CHECKING:
    import numpy.typing as npt

MAX_RUNS = 100  # whose answers are read for one table or fit: 2 s


class ItemScores(NamedTuple):
    """Scores of the items of one test set.

    Args:
        rows: (M,) of the test set.
        scores: (n, M), or (M,) of one run.
        clusters: (M,) the patient of each item, whose items are one draw; None without patients.
    """

    rows: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]
    clusters: npt.NDArray[np.int64] | None


def item_scores(records: StudyRecords, runs: Sequence[Row], name: str) -> tuple[ItemScores | None, tuple[str, ...]]:
    """Return the scores of all runs on each test item, and why saved answers cannot be read.

    There are none if the metric is no mean over items, or if the runs did not keep their answers to the same, whole test set.
    """
    if name not in METRICS or METRICS[name].each is None or not runs:
        return None, ()
    files = [records.results.run(run.id).answers for run in runs]
    program = records.program
    reads = [_read_scores(program, file, file.lstat().st_mtime_ns, name) if os.path.lexists(file) else None for file in files]
    damages = tuple(damage for damage in reads if isinstance(damage, str))
    scores = [read for read in reads if isinstance(read, ItemScores)]
    checksums = {run.provenance.data_checksum for run in runs} - {""}
    if len(checksums) > 1 or len(scores) < len(reads) or any(not np.array_equal(score.rows, scores[0].rows) for score in scores):
        return None, damages
    return scores[0]._replace(scores=np.array([score.scores for score in scores], dtype=np.float64)), ()


@lru_cache(maxsize=256)
def _read_scores(program: Program, file: Path, changed: int, name: str) -> ItemScores | str | None:
    """Return a run's scores; None if its file is cut or its task has other answers; the reason if it is damaged."""
    score = METRICS[name].each
    try:
        saved = program.answers(file)
        if saved is None or saved.cut or score is None:
            return None
        return ItemScores(saved.answers.rows, score(saved.answers).astype(np.float32), saved.answers.groups)
    except NotAvailable:
        return None
    except Exception as error:  # arrays that do not go together raise nearly anything
        why = f"{type(error).__name__}: {error}" if not isinstance(error, StorageError) else str(error)
        return " ".join(why.replace(f"{file.parents[2]}/", "").split())
