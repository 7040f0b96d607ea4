"""Examples that runs saved: answers, images, captions and traces of single test images.

The file `trace.npz` of a captioner's run has its attention, its chosen experts and the feature maps of its
vision encoder for a few captions. `read_trace` checks it completely, because figures rely on its shapes.

Shapes: L layers, H heads, T tokens that were read, P places of the image, E experts, k experts a token, S
feature maps of h x w.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from recstudy.base.errors import StorageError
from recstudy.base.lazy import np, pd
from recstudy.base.opened import arrays
from recstudy.records import Json, Results
from recstudy.records.runs import Row
from recstudy.recursive.metrics.kept import unpack_answers
from recstudy.report.figures.chosen import cut_note, run_columns, shown_variants
from recstudy.report.parts import OfVariants
from recstudy.report.study_records import StudyRecords

if TYPE_CHECKING:
    from PIL.Image import Image

    from recstudy.recursive.config.answers import Answers
    from recstudy.recursive.metrics.kept import SavedAnswers

IMAGES = "captions.npz"  # the test images of a captioner's run
MAX_VARIANTS = 6  # variants whose images, captions or puzzles fit on a page
Content = TypeVar("Content")


def answers_of(records: StudyRecords, run: Row) -> tuple[Answers | None, str]:
    """Return the answers of a run on the test split.

    Args:
        records: The records of the study.
        run: A row of `records`.

    Returns:
        The answers, and the number of images if the run saved only some; or None and the reason.
    """
    saved, reason = kept_answers(records.results, run.id)
    if saved is None:
        return None, reason
    note = f"of the first {len(saved.answers):,} of {saved.total:,} test images"
    return saved.answers, note if saved.is_truncated else ""


def kept_answers(results: Results, run_id: str) -> tuple[SavedAnswers | None, str]:
    """Return the saved answers of a run; or None and the reason."""
    path = results.fetched(results.run(run_id).answers)
    if not os.path.lexists(path):
        if not results.run(run_id).finished:
            return None, "it has not finished"
        return None, "it saved no answers (runs of earlier versions did not)"
    try:
        return unpack_answers(path), ""
    except StorageError as damage:
        return None, str(damage)


def first_runs(records: StudyRecords, selector: Json, file: str) -> dict[int, Row]:
    """Return the first finished run of each variant at these levels that has a file of this name."""
    runs = {index: records.first_run(index, file, ("done",)) for index in records.chosen(selector)}
    return {index: run for index, run in runs.items() if run}


def read_runs(
    records: StudyRecords,
    selector: Json,
    file: str,
    read: Callable[[Path], Content],
    limit: int = MAX_VARIANTS,
    runs: Mapping[int, Row] | None = None,
) -> tuple[list[tuple[Row, Content]], list[str]]:
    """Read a file of a run of each of the best variants.

    Args:
        records: The records of the study.
        selector: The levels of the variants.
        file: The file's name in a run's folder.
        read: Returns the content of a file.
        limit: The greatest number of variants.
        runs: The run of each variant; by default its first finished run that has the file.

    Returns:
        The runs with the content of their files, and notes on left out variants and damaged files.
    """
    runs = first_runs(records, selector, file) if runs is None else runs
    contents, notes = [], [*cut_note(records, len(runs), limit)]
    for index in shown_variants(records, limit, runs):
        run = runs[index]
        path = records.results.run(run.id).path / file
        try:
            contents.append((run, read(path)))
        # a damaged archive raises nearly any error, and the rest of the report is unaffected
        except Exception as error:
            notes.append(f"{run.label}: {describe_damage(path, error)}")
    return contents, notes


def read_examples(
    records: StudyRecords, part: OfVariants, read: Callable[[Path], Iterable[Json]]
) -> tuple[pd.DataFrame, list[str]]:
    """Return a row per example of a part's variants with the columns of its run, and notes.

    `read` returns the examples in the file `part.run_file` of a run.
    """
    contents, notes = read_runs(records, part.where, part.run_file, read)
    rows = [run_columns(records, run) | example for run, examples in contents for example in examples]
    return pd.DataFrame(rows), notes


def add_images(records: StudyRecords, selector: Json, data: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the data with the `_image` of each test image, and notes on damaged files.

    `_image` is None if no run saved the image.
    """
    contents, notes = read_runs(records, selector, IMAGES, read_images, len(records.variants))
    images: dict[tuple[str, int], Image] = {}
    for run, run_images in contents:
        for row, image in run_images.items():
            images.setdefault((records.variants[run.variant].data, row), image)
    keys = zip(data["data"], data["row"], strict=True)
    return data.assign(_image=pd.Series(map(images.get, keys), data.index, object)), notes


def to_images(pixels: Any, rows: Any) -> list[Image]:
    """Return saved pixels (n, C, H, W) of 0 to 255 as images.

    Raises:
        ValueError: The array has another shape or type, or the number of images differs from that of rows.
    """
    from PIL import Image

    is_image = pixels.ndim == 4 and pixels.shape[1] in (1, 3) and pixels.dtype == np.uint8
    if not is_image or len(rows) != len(pixels):
        raise ValueError(f"{len(rows)} rows with images {pixels.dtype} {pixels.shape}")
    return [Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)) for image in pixels]


def describe_damage(path: Path, error: Exception) -> str:
    """Return an error text with the damaged file of a run, the reason and the fix."""
    if isinstance(error, StorageError):
        return str(error)
    reason = f"{type(error).__name__}: {error}".partition("\n")[0]
    return (
        f"runs/{path.parent.name}/{path.name} is damaged ({reason}). Remove that run's folder and run the"
        " study again."
    )


def read_images(path: Path) -> dict[int, Image]:
    archive = arrays(path)
    rows = archive["rows"].tolist()
    return dict(zip(rows, to_images(archive["images"], rows), strict=True))


TRACE = "trace.npz"
SHARES = ("cross_attention", "self_attention", "router")
ROUNDING = 0.05  # error of a sum of half-precision shares


@dataclass(frozen=True)
class CaptionTrace:
    """The trace of one generated caption."""

    row: int  # of the image in the test set
    words: list[str]  # T + 1: the tokens that were read, then the last token that was written
    cross_attention: np.ndarray  # (L, H, T, P)
    # arrays, or None
    self_attention: Any = None  # (L, H, T, T)
    router: Any = None  # (L, T, E)
    chosen: Any = None  # (L, T, k), the likeliest first
    features: Any = None  # (S, h, w), means over channels

    @property
    def side(self) -> int:
        """The number of places in a row of the image."""
        return math.isqrt(self.cross_attention.shape[-1])


def read_trace(path: Path, example: int) -> CaptionTrace | None:
    """Read the caption `example` of a run's file; return None if the file has fewer captions.

    Raises:
        ValueError: The arrays do not fit together.
    """
    archive = arrays(path)
    if example >= len(archive["rows"]):
        return None
    length = int(archive["lengths"][example])
    shares = {
        name: archive[name][example][..., :length, :].astype(float) for name in SHARES if name in archive
    }
    if "self_attention" in shares:
        shares["self_attention"] = shares["self_attention"][..., :length]
    words = [str(word) for word in archive["words"][example][: length + 1]]
    trace = CaptionTrace(int(archive["rows"][example]), words, **shares)
    layers, heads, _, places = trace.cross_attention.shape
    is_whole = len(words) == length + 1 and trace.side**2 == places
    for name, array in shares.items():
        size = (layers, length) if name == "router" else (layers, heads, length)
        is_whole = is_whole and array.shape[:-1] == size and array.min() >= 0
        is_whole = is_whole and np.allclose(array.sum(-1), 1, atol=ROUNDING)
    if trace.router is not None:
        chosen = archive["chosen"][example][:, :length].astype(int)
        np.take_along_axis(trace.router, chosen, -1)  # raises an error unless each choice is an expert
        trace = replace(trace, chosen=chosen)
        is_whole = is_whole and chosen.shape[:2] == (layers, length) and chosen.min() >= 0
    if "features" in archive:
        features = archive["features"][example].astype(float)
        trace = replace(trace, features=features)
        is_whole = is_whole and features.ndim == 3 and bool(np.isfinite(features).all())
    if not is_whole:
        raise ValueError("arrays do not fit together")
    return trace
