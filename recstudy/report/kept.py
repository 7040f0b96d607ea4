"""What runs kept of single test images, read with every check: answers, pictures, JSON lists and archives of arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from recstudy.errors import StorageError
from recstudy.lazy import np
from recstudy.opened import arrays
from recstudy.programs.base import Program
from recstudy.records import Json, Results, read_json
from recstudy.records.reading import record_of
from recstudy.records.runs import Row
from recstudy.report.study_records import StudyRecords
from recstudy.report.variants import cut_note, shown_variants

if TYPE_CHECKING:
    import numpy.typing as npt

    from recstudy.metrics import Answers
    from recstudy.metrics.kept import Kept

Pixels: TypeAlias = "npt.NDArray[np.uint8]"
MOST = 6  # variants whose images, captions or puzzles fit on a page
IMAGES = "captions.npz"  # `images` (n, C, H, W) of 0-255 and their `rows` in the test set
T = TypeVar("T")


def answers_of(records: StudyRecords, run: Row) -> tuple[Answers | None, str]:
    """Return what a run (a row of `records`) answered on the test split, and of how many images where not of all; None, and why,
    where it has none."""
    found, why = kept_answers(records.program, records.results, run.id)
    if found is None:
        return None, why
    return found.answers, f"of the first {len(found.answers):,} of {found.whole:,} test images" if found.cut else ""


def kept_answers(program: Program, results: Results, run_id: str) -> tuple[Kept | None, str]:
    """Return what a run's folder has; None, and why, where there is nothing to read."""
    path = results.fetched(results.run(run_id).answers)
    if not os.path.lexists(path):
        since = "it kept no answers, which runs do since they can be evaluated later"
        return None, since if results.run(run_id).finished else "it has not finished"
    try:
        return program.answers(path), ""
    except StorageError as damage:
        return None, str(damage)


def read_runs(
    records: StudyRecords, where: Json, file: str, read: Callable[[Path], T], most: int = MOST
) -> tuple[list[tuple[Row, T]], list[str]]:
    """Read a file of the first finished run of each of the `most` best variants that have it.

    Args:
        records: The study's records.
        where: Levels of the variants to choose from, by axis.
        file: The file's name in a run's folder.
        read: Returns what the file has; raises StorageError if it is damaged.
        most: How many variants the page has room for.

    Returns:
        The runs with what was read, and notes on left out variants and damaged files.
    """
    runs = [records.first_run(index, file, ("done",)) for index in records.chosen(where)]
    first_runs = {run.variant: run for run in runs if run is not None}
    contents: list[tuple[Row, T]] = []
    notes = list(cut_note(records, len(first_runs), most))
    for run in (first_runs[index] for index in shown_variants(records, most, first_runs)):
        try:
            contents.append((run, read(records.results.run(run.id).path / file)))
        except StorageError as damage:
            notes.append(f"{run.label}: {damage}")
    return contents, notes


def read_kept(path: Path, kind: type[T]) -> T:
    """Return a JSON file of a run as a record of this kind.

    Raises:
        StorageError: The file is damaged. The message names it and the field.
    """
    try:
        return record_of(kind, read_json(path) or {})
    except ValueError as error:
        raise damaged(path, str(error)) from None


def read_images(path: Path) -> dict[int, Pixels]:
    """Return images (height, width, channels) by their row in the test set.

    Raises:
        StorageError: the file is damaged. The message names it.
    """

    def images(archive: Mapping[str, Any]) -> dict[int, Pixels]:
        return dict(zip(map(int, archive["rows"]), pictures(archive["images"], archive["rows"]), strict=True))

    return read_archive(path, images)


def kept_images(records: StudyRecords, where: Json, notes: list[str]) -> dict[tuple[str, int], Pixels]:
    """Return the images that runs kept, by data set and row in its test split; add to `notes` which files are damaged."""
    runs, damage = read_runs(records, where, IMAGES, read_images)
    notes += [note for note in damage if note not in notes]
    return {(records.variants[run.variant].data, row): image for run, images in runs for row, image in images.items()}


def read_archive(path: Path, take: Callable[[Mapping[str, Any]], T]) -> T:
    """Return what `take` gives of a run's arrays; where it cannot, they are damaged (StorageError)."""
    try:
        return take(arrays(path))
    except StorageError:
        raise
    except Exception as error:  # a damaged archive raises nearly anything, and the rest of the report is still good
        raise damaged(path, f"{type(error).__name__}: {error}".partition("\n")[0]) from None


def pictures(images: Any, *beside: Any) -> list[Pixels]:
    """Return kept images (n, C, H, W) as (H, W, C) each; ValueError where they are none, or not as many as what is `beside`."""
    fit = images.ndim == 4 and images.shape[1] in (1, 3) and images.dtype == np.uint8 and 0 not in images.shape[1:]
    if not fit or any(len(one) != len(images) for one in beside):
        raise ValueError(f"{len(beside[0])} rows with images {images.dtype} {images.shape}")
    return [image.transpose(1, 2, 0) for image in images]


def damaged(path: Path, reason: str) -> StorageError:
    return StorageError(
        f"runs/{path.parent.name}/{path.name} is damaged ({reason}). Remove that run's folder and run the study again."
    )
