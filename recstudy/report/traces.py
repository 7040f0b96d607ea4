"""Where a captioner looked and which experts it used, word by word: the file `trace.npz` of a run, read with every check.

Shapes: L layers, H heads, T tokens that were read, P places of the image, E experts, k experts a token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recstudy.errors import StorageError
from recstudy.lazy import np
from recstudy.records import Json
from recstudy.report.caveats import some
from recstudy.report.kept import IMAGES, Pixels, read_archive, read_images, read_runs
from recstudy.report.names import plural
from recstudy.report.study_records import StudyRecords
from recstudy.report.variants import run_columns

if TYPE_CHECKING:
    import numpy.typing as npt

TRACE = "trace.npz"
ARRAYS = ("cross_attention", "self_attention", "router", "chosen")
ROUNDING = 0.05  # of half-precision shares that sum to one


@dataclass(frozen=True)
class CaptionTrace:
    """What a run kept of one generated caption, with the columns that name the run and its test image."""

    row: int  # in the test set
    words: list[str]  # T + 1: the tokens that were read, then the last one that was written
    cross_attention: npt.NDArray[np.float64]  # (L, H, T, P)
    self_attention: npt.NDArray[np.float64] | None = None  # (L, H, T, T)
    router: npt.NDArray[np.float64] | None = None  # (L, T, E)
    chosen: npt.NDArray[np.int64] | None = None  # (L, T, k), the likeliest first
    image: Pixels | None = None
    columns: Json = field(default_factory=dict)

    @property
    def title(self) -> str:
        return "{label}, seed {seed}, {data} test image {row}".format_map(self.columns)

    @property
    def side(self) -> int:
        """Return the places in a row of the image."""
        return math.isqrt(self.cross_attention.shape[-1])


def first_trace(records: StudyRecords, where: Json, example: int, experts: bool) -> tuple[CaptionTrace | None, list[str]]:
    """Return a caption's trace of the first variant that has one, and notes on missing and damaged traces.

    Args:
        records: The study's records.
        where: Levels of the variants to look at, by axis.
        example: Which of the captions that a run keeps, from 0.
        experts: Whether the model must be a mixture of experts.
    """
    runs, notes = read_runs(records, where, TRACE, partial(read_trace, example=example), most=len(records.variants))
    for run, trace in runs:
        if trace is not None and (trace.router is not None or not experts):
            image = None
            with suppress(StorageError):  # without it the maps are still good
                image = read_images(records.results.run(run.id).path / IMAGES).get(trace.row)
            return replace(trace, image=image, columns={**run_columns(records, run), "row": trace.row}), notes
    kind, place = "experts" if experts else "attention", f" (example {example})" if example else ""
    labels = some([records.variants[index].label for index in records.chosen(where)])
    return None, [*notes, f"no finished run has kept the {kind} of a caption{place}: {labels}"]


def read_trace(path: Path, example: int) -> CaptionTrace | None:
    """Read the caption `example` of a run's file; return None if the file has fewer captions.

    Raises:
        StorageError: The file is damaged. The message names it.
    """

    def caption(archive: Mapping[str, Any]) -> CaptionTrace | None:
        if example >= len(archive["rows"]):
            return None
        length = int(archive["lengths"][example])
        kinds = {**dict.fromkeys(ARRAYS, float), "chosen": int}
        shares = {name: archive[name][example][..., :length, :].astype(kind) for name, kind in kinds.items() if name in archive}
        if "self_attention" in shares:
            shares["self_attention"] = shares["self_attention"][..., :length]
        words = [str(word) for word in archive["words"][example][: length + 1]]
        return _checked(CaptionTrace(int(archive["rows"][example]), words, **shares))

    return read_archive(path, caption)


def _checked(trace: CaptionTrace) -> CaptionTrace:
    """Return the trace if its arrays fit together."""
    layers, heads, length, places = trace.cross_attention.shape
    if len(trace.words) != length + 1:
        raise ValueError(f"{plural(len(trace.words), 'word')} with the attention of {plural(length, 'token')}")
    if trace.side**2 != places:
        raise ValueError(f"{places} places are no square grid")
    sides = {"self_attention": (layers, heads, length, length), "router": (layers, length), "chosen": (layers, length)}
    for name in ARRAYS:
        array, shape = getattr(trace, name), sides.get(name, ())
        if array is None:
            continue
        if array.shape[: len(shape)] != shape:
            raise ValueError(f"{name} of {array.shape}")
        if name != "chosen" and not (array.min() >= 0 and np.allclose(array.sum(-1), 1, atol=ROUNDING)):
            raise ValueError("a row does not sum to 1")
    if trace.router is not None:
        experts = trace.router.shape[-1]
        if trace.chosen is None or not 0 <= trace.chosen.min() <= trace.chosen.max() < experts:
            raise ValueError(f"a token has an expert that is none of {experts}")
    return trace
