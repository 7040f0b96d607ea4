"""Test images are a sample, too: intervals over seeds and images together, and the test of two variants on the same images.

Shapes: n runs, M test images.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import sqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

from recstudy.analysis.cells import Cell, TableRow
from recstudy.analysis.contrasts import Contrast, around, contrast
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.stats import Interval, Spread, interval, mean_of
from recstudy.errors import StorageError
from recstudy.metrics import METRICS, NotAvailable
from recstudy.metrics.kept import unpacked

Scores = npt.NDArray[np.float64]
MOST_RUNS = 100  # whose answers a table reads: 2 s


def each_score(records: StudyRecords, run_ids: Sequence[str], name: str) -> Scores | None:
    """(n, M): what every run scores on every test image; None where the metric is no mean over images, or where runs have not
    kept the answers to all of them, or to others, such as images that each seed drew for itself."""
    if not _of_images(name) or not run_ids:
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
    """The rows of a table, with intervals over seeds and images where its runs have kept their answers and are not too many."""
    cells = [cell for row in rows for cell in row.cells if _of_images(cell.metric)]
    if len({run_id for cell in cells for run_id in cell.run_ids}) > MOST_RUNS:
        return tuple(rows)
    return tuple(replace(row, cells=tuple(with_images_of(records, cell) for cell in row.cells)) for row in rows)


def with_images_of(records: StudyRecords, cell: Cell) -> Cell:
    """A cell with its interval over seeds and images."""
    scores = each_score(records, cell.run_ids, cell.metric) if cell.spread and not cell.against else None
    return cell if scores is None else replace(cell, items=over_images(cell.values, scores, cell.spread))


def items_note(cells: Sequence[Cell]) -> tuple[str, ...]:
    """How much wider intervals are over other images, too."""
    ratios = [_width(cell.items) / _width(Interval(cell.value, cell.low, cell.high, cell.n)) for cell in cells if cell.items]
    ends = dict.fromkeys(f"{ratio:.1f}" for ratio in (min(ratios), max(ratios))) if ratios else {}
    wider = f"over seeds and other images they are {' to '.join(ends)} times as wide"
    return (f"intervals are over seeds, for these test images; {wider}",) if ratios else ()


def _of_images(name: str) -> bool:
    return name in METRICS and METRICS[name].each is not None


def _width(found: Interval | Contrast) -> float:
    return (found.high or 0.0) - (found.low or 0.0)


def over_images(values: Sequence[float], scores: Scores, spread: Spread | None) -> Interval | None:
    """The interval of a mean over seeds and images, on the scale of its spread."""
    if spread is None:
        return None
    found = with_images(contrast([values], [1.0], [spread]), [scores], [1.0])
    if found.error is None or found.df is None:
        return None
    sd = found.error * sqrt(len(values)) / spread.scale.slope(mean_of(values))
    return interval(values, Spread(sd, found.df, spread.scale))


def with_images(found: Contrast, scores: Sequence[Scores], weights: Sequence[float]) -> Contrast:
    """A contrast as if the test images were drawn anew, too: seeds and images as crossed random effects.

    The variance over seeds and that over images, less what both contain of single answers; Satterthwaite's degrees of freedom.
    Never narrower than over seeds alone.
    """
    if found.value is None or found.error is None or found.df is None:
        return found
    means = np.sum([weight * one.mean(0) for one, weight in zip(scores, weights, strict=True)], axis=0)
    of_images = float(means.var(ddof=1)) / len(means)
    of_seeds, both = found.error**2, sum(weight**2 * _single(one) for one, weight in zip(scores, weights, strict=True))
    total = max(of_seeds, of_images, of_seeds + of_images - both)
    df = total**2 / (of_seeds**2 / found.df + of_images**2 / (len(means) - 1))
    wide = around(found.value, sqrt(total), df, within=found.within)
    return wide if _width(wide) > _width(found) else found


def mcnemar(ours: Scores, theirs: Scores) -> float | None:
    """p of McNemar's test that two variants are as often right on other images like these, their trained weights as they are.

    Of several runs each, the images are the clusters (Durkalski 2003): chi^2 = (sum of differences)^2 / sum of their squares.
    """
    apart = ours.mean(0) - theirs.mean(0)
    squares = float(apart @ apart)
    return float(chdtrc(1, float(apart.sum()) ** 2 / squares)) if squares else None


def _single(scores: Scores) -> float:
    """The variance of the mean that is due to single answers, beside effects of runs and of images."""
    n, images = scores.shape
    if n < 2:
        return 0.0
    left = scores - scores.mean(0) - scores.mean(1, keepdims=True) + scores.mean()
    return float((left**2).sum()) / ((n - 1) * (images - 1)) / (n * images)


@lru_cache(maxsize=256)
def _scores(file: Path, changed: int, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]] | None:
    """Rows of the test split and the score of each; None where the file is cut or damaged, or its task has other answers."""
    known = METRICS[name].each
    try:
        kept = unpacked(file)
        if kept.cut or known is None:
            return None
        return kept.answers.rows, known(kept.answers).astype(np.float32)
    except (StorageError, NotAvailable):
        return None
