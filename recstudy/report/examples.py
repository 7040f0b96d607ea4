"""Examples that runs saved: answers, images, captions and traces of single test images; and which variants a
figure shows.

The file `trace.npz` of a run has where a captioner looked, which experts it used, and what its vision encoder
saw. It is read with every check.

Shapes: L layers, H heads, T tokens that were read, P places of the image, E experts, k experts a token, S
feature maps of h x w.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recstudy.errors import StorageError
from recstudy.lazy import np, pd
from recstudy.opened import arrays
from recstudy.programs.base import Program
from recstudy.programs.metric import METRICS
from recstudy.records import Json, Results
from recstudy.records.runs import Row
from recstudy.report.caveats import join_labels
from recstudy.report.names import inline
from recstudy.report.study_records import StudyRecords

if TYPE_CHECKING:
    from PIL.Image import Image

    from recstudy.metrics import Answers
    from recstudy.metrics.kept import Kept

MOST_LINES = 30  # lines that a reader still looks at


def add_labels(records: StudyRecords, data: pd.DataFrame) -> pd.DataFrame:
    """Return the data with each variant's `label`, and whether it is `synthetic`."""
    labels = {index: records.variants[index].label for index in data["variant"].unique()}
    return data.assign(label=data["variant"].map(labels), synthetic=data["variant"].isin(records.synthetic))


def run_columns(records: StudyRecords, run: Row) -> Json:
    """Return the columns that name a run in a figure's data."""
    columns = {
        "variant": run.variant,
        "label": run.label,
        "seed": run.seed,
        "synthetic": run.variant in records.synthetic,
    }
    return {**columns, "data": records.variants[run.variant].data}


def shown_variants(
    records: StudyRecords, limit: int = MOST_LINES, among: Iterable[int] | None = None
) -> list[int]:
    """Return the best variants in the study's order; a variant that leaks is the worst.

    Args:
        records: of the study.
        most: the number of variants.
        among: the variants to choose from; by default all.
    """
    name = _ranking_metric(records)

    def rank(index: int) -> tuple[bool, float]:
        scores = [
            run.number(name) for run in records.by_variant[index] if run.done and run.value(name) is not None
        ]
        mean = METRICS[name].sign * sum(scores) / len(scores) if scores else float("-inf")
        return not records.leaks(index), mean

    candidates = range(len(records.variants)) if among is None else among
    return sorted(sorted(candidates, key=rank, reverse=True)[:limit])


def cut_note(records: StudyRecords, count: int, limit: int = MOST_LINES) -> tuple[str, ...]:
    """Say so where `shown_variants` leaves some of `count` variants out."""
    return (
        (f"the {limit} best of {count:,} variants by {inline(_ranking_metric(records))}",)
        if count > limit
        else ()
    )


def _ranking_metric(records: StudyRecords) -> str:
    scores = [name for name, score in METRICS.items() if score.ranks]
    return next(
        (name for name in scores if any(run.value(name) is not None for run in records.rows)), "top1_accuracy"
    )


MAX_VARIANTS = 6  # variants whose images, captions or puzzles fit on a page


def answers_of(records: StudyRecords, run: Row) -> tuple[Answers | None, str]:
    """Return the answers of a run (a row of `records`) on the test split.

    Returns:
        The answers, and the number of images if the run saved only some; or None and the reason.
    """
    saved, reason = kept_answers(records.program, records.results, run.id)
    if saved is None:
        return None, reason
    count = len(saved.answers)
    return saved.answers, f"of the first {count:,} of {saved.whole:,} test images" if saved.cut else ""


def kept_answers(program: Program, results: Results, run_id: str) -> tuple[Kept | None, str]:
    """Return the saved answers of a run; or None and the reason."""
    path = results.fetched(results.run(run_id).answers)
    if not os.path.lexists(path):
        since = "it kept no answers, which runs do since they can be evaluated later"
        return None, since if results.run(run_id).finished else "it has not finished"
    try:
        return program.answers(path), ""
    except StorageError as damage:
        return None, str(damage)


def read_examples(
    records: StudyRecords,
    selector: Json,
    file: str,
    read: Callable[[Path], Iterable[Json]],
    limit: int = MAX_VARIANTS,
) -> tuple[pd.DataFrame, list[str]]:
    """Read a file of the first finished run of each of the `most` best variants that have it.

    Args:
        records: The study's records.
        where: Levels of the variants to choose from, by axis.
        file: The file's name in a run's folder.
        read: Returns the examples of a file as rows.
        most: How many variants the page has room for.

    Returns:
        A row per example with the columns of its run, and notes on left out variants and damaged files.
    """
    runs = [records.first_run(index, file, ("done",)) for index in records.chosen(selector)]
    first_runs = {run.variant: run for run in runs if run is not None}
    rows: list[Json] = []
    notes = list(cut_note(records, len(first_runs), limit))
    for run in (first_runs[index] for index in shown_variants(records, limit, first_runs)):
        path, columns = records.results.run(run.id).path / file, run_columns(records, run)
        try:
            rows += [columns | example for example in read(path)]
        # a damaged archive raises nearly anything, and the rest of the report is still good
        except Exception as error:
            notes.append(f"{run.label}: {describe_damage(path, error)}")
    return pd.DataFrame(rows), notes


def add_images(records: StudyRecords, selector: Json, data: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the data with the `_image` of each test image, None if no run saved it, and notes on damaged
    files.
    """
    images, notes = read_examples(records, selector, "captions.npz", _read_images, len(records.variants))
    images = images.reindex(columns=["data", "row", "_image"]).drop_duplicates(["data", "row"])
    data = data.merge(images.astype({"row": "int64"}), "left", ["data", "row"])
    return data.assign(_image=data["_image"].astype(object).where(data["_image"].notna(), None)), notes


def to_images(pixels: Any, rows: Any) -> list[Image]:
    """Return saved pixels (n, C, H, W) of 0-255 as images.

    Raises:
        ValueError: The array has another shape or type, or there are not as many images as rows.
    """
    from PIL import Image

    if (
        pixels.ndim != 4
        or pixels.shape[1] not in (1, 3)
        or pixels.dtype != np.uint8
        or len(rows) != len(pixels)
    ):
        raise ValueError(f"{len(rows)} rows with images {pixels.dtype} {pixels.shape}")
    return [Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)) for image in pixels]


def describe_damage(path: Path, error: Exception) -> str:
    """Name the damaged file of a run, the reason and the fix."""
    if isinstance(error, StorageError):
        return str(error)
    reason = f"{type(error).__name__}: {error}".partition("\n")[0]
    return (
        f"runs/{path.parent.name}/{path.name} is damaged ({reason}). Remove that run's folder and run the"
        " study again."
    )


def _read_images(path: Path) -> list[Json]:
    archive = arrays(path)
    rows = archive["rows"].tolist()
    images = to_images(archive["images"], rows)
    return [{"row": row, "_image": image} for row, image in zip(rows, images, strict=True)]


TRACE = "trace.npz"
SHARES = ("cross_attention", "self_attention", "router")
NAMES = {"cross_attention": "attention", "router": "experts", "features": "feature maps"}
ROUNDING = 0.05  # of half-precision shares that sum to one


@dataclass(frozen=True)
class CaptionTrace:
    """What a run kept of one generated caption, with the columns that name the run and its test image."""

    row: int  # in the test set
    words: list[str]  # T + 1: the tokens that were read, then the last one that was written
    cross_attention: np.ndarray  # (L, H, T, P)
    self_attention: np.ndarray | None = None  # (L, H, T, T)
    router: np.ndarray | None = None  # (L, T, E)
    chosen: np.ndarray | None = None  # (L, T, k), the likeliest first
    features: np.ndarray | None = None  # (S, h, w), means over channels
    image: Image | None = None
    columns: Json = field(default_factory=dict)

    @property
    def title(self) -> str:
        return "{label}, seed {seed}, {data} test image {row}".format_map(self.columns)

    @property
    def side(self) -> int:
        """Return the places in a row of the image."""
        return math.isqrt(self.cross_attention.shape[-1])


def first_trace(
    records: StudyRecords, selector: Json, example: int, array: str
) -> tuple[CaptionTrace | None, list[str]]:
    """Return a caption's trace of the first variant that has one, and notes on missing and damaged traces.

    Args:
        records: The study's records.
        where: Levels of the variants to look at, by axis.
        example: Which of the captions that a run keeps, from 0.
        array: Which array the trace must have, of `NAMES`.
    """

    def read(path: Path) -> list[Json]:
        trace = read_trace(path, example)
        if trace is None or getattr(trace, array) is None:
            return []
        return [{"row": trace.row, "trace": trace}]

    examples, notes = read_examples(records, selector, TRACE, read, limit=len(records.variants))
    if not examples.empty:
        first, _ = add_images(records, selector, examples.head(1))
        columns = {str(name): value for name, value in first.iloc[0].items()}
        return replace(columns.pop("trace"), image=columns.pop("_image"), columns=columns), notes
    place = f" (example {example})" if example else ""
    labels = join_labels([records.variants[index].label for index in records.chosen(selector)])
    return None, [*notes, f"no finished run has kept the {NAMES[array]} of a caption{place}: {labels}"]


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
    sizes = {
        "cross_attention": (layers, heads, length),
        "self_attention": (layers, heads, length),
        "router": (layers, length),
    }
    is_whole = len(words) == length + 1 and trace.side**2 == places
    for name, array in shares.items():
        is_whole = is_whole and array.shape[:-1] == sizes[name] and array.min() >= 0
        is_whole = is_whole and np.allclose(array.sum(-1), 1, atol=ROUNDING)
    if trace.router is not None:
        chosen = archive["chosen"][example][:, :length].astype(int)
        np.take_along_axis(trace.router, chosen, -1)  # which raises an error unless each choice is an expert
        trace = replace(trace, chosen=chosen)
        is_whole = is_whole and chosen.shape[:2] == (layers, length) and chosen.min() >= 0
    if "features" in archive:
        features = archive["features"][example].astype(float)
        trace = replace(trace, features=features)
        is_whole = is_whole and features.ndim == 3 and bool(np.isfinite(features).all())
    if not is_whole:
        raise ValueError("arrays do not fit together")
    return trace
