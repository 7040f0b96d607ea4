"""The answers that a study's runs have kept: intervals over seeds and test items, and tests over the items alone.

Shapes: n runs, M test items.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from recstudy.analysis.cells import Cell, TableRow
from recstudy.analysis.fits import scale_of
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import distinct
from recstudy.errors import StorageError
from recstudy.evidence import LINEAR, over_items, width
from recstudy.evidence.items import Scores
from recstudy.metrics import METRICS, NotAvailable
from recstudy.metrics.kept import unpacked

MOST_RUNS = 100  # whose answers a table reads: 2 s


def each_score(records: StudyRecords, run_ids: Sequence[str], name: str) -> Scores | None:
    """(n, M): what every run scores on every test item; None where the metric is no mean over items, or where runs have not
    kept the answers to all of them, or to others, such as items that each seed drew for itself."""
    if name not in METRICS or METRICS[name].each is None or not run_ids:
        return None
    made = records.once("checksums", lambda: {row.id: row.provenance.data_checksum for row in records.rows})
    if len({made[run_id] for run_id in run_ids if made.get(run_id)}) > 1:
        return None
    files = [records.results.run(run_id).answers for run_id in run_ids]
    found = [_scores(file, file.stat().st_mtime_ns, name) if file.exists() else None for file in files]
    whole = [one for one in found if one is not None]
    if len(whole) < len(found) or any(not np.array_equal(one[0], whole[0][0]) for one in whole):
        return None
    return np.array([scores for _, scores in whole], dtype=np.float64)


def with_items(records: StudyRecords, rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """Add intervals over seeds and items to a table whose runs have kept their answers and are not too many."""
    cells = [one for row in rows for one in row.cells if one.metric in METRICS and METRICS[one.metric].each is not None]
    if len({run_id for one in cells for run_id in one.run_ids}) > MOST_RUNS:
        return tuple(rows)
    return tuple(replace(row, cells=tuple(with_items_of(records, cell) for cell in row.cells)) for row in rows)


def with_items_of(records: StudyRecords, cell: Cell) -> Cell:
    """Add a cell's interval over seeds and items."""
    known = cell.estimate.error is not None and not cell.against
    scores = each_score(records, cell.run_ids, cell.metric) if known else None
    if scores is None:
        return cell
    runs = [row for row in distinct(records.rows) if row.id in cell.run_ids]
    alone = len({row.variant for row in runs}) == 1  # the mean of several variants is a contrast, in the metric's unit
    scale = scale_of(cell.metric, runs) if alone else LINEAR
    return replace(cell, items=over_items(cell.estimate, [scores], [1.0], scale=scale))


def items_note(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Say how much wider intervals are over other items, too."""
    ratios = [width(cell.items) / width(cell.estimate) for cell in cells if cell.items and width(cell.estimate)]
    ends = dict.fromkeys(f"{ratio:.1f}" for ratio in (min(ratios), max(ratios))) if ratios else {}
    wider = f"over seeds and other items they are {' to '.join(ends)} times as wide"
    return (f"intervals are over seeds, for these test items; {wider}",) if set(ends) - {"1.0"} else ()


@lru_cache(maxsize=256)
def _scores(file: Path, changed: int, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]] | None:
    """Read rows of the test split and the score of each; None where the file is cut or damaged, or its task has other answers."""
    known = METRICS[name].each
    try:
        kept = unpacked(file)
        if kept.cut or known is None:
            return None
        return kept.answers.rows, known(kept.answers).astype(np.float32)
    except (StorageError, NotAvailable):
        return None
