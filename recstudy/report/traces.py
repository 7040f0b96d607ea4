"""Where a captioner looked and which experts it used, word by word: the file `trace.npz` of a run, read with every check.

Shapes: L layers, H heads, T tokens that were read, P places of the image, E experts, k experts a token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recstudy.errors import StorageError
from recstudy.lazy import np
from recstudy.records import Json
from recstudy.report.caveats import some
from recstudy.report.kept import IMAGES, Pixels, read_archive, read_images
from recstudy.report.names import plural
from recstudy.report.study_records import StudyRecords
from recstudy.report.variants import run_columns

if TYPE_CHECKING:
    import numpy.typing as npt

TRACE = "trace.npz"
ROUNDING = 0.05  # of half-precision shares that sum to one


@dataclass(frozen=True)
class CaptionTrace:
    """What a run kept of one generated caption, with the columns that name the run and its test image."""

    row: int  # in the test set
    words: list[str]  # T + 1: the tokens that were read, then the last one that was written
    cross_attention: npt.NDArray[np.float64]  # (L, H, T, P)
    self_attention: npt.NDArray[np.float64] | None  # (L, H, T, T)
    router: npt.NDArray[np.float64] | None  # (L, T, E)
    chosen: npt.NDArray[np.int64] | None  # (L, T, k), the likeliest first
    image: Pixels | None = None
    columns: Json = field(default_factory=dict)

    @property
    def title(self) -> str:
        return "{label}, seed {seed}, {data} test image {row}".format_map(self.columns)


def first_trace(records: StudyRecords, where: Json, example: int, experts: bool) -> tuple[CaptionTrace | None, list[str]]:
    """Return a caption's trace of the first variant that has one, and notes on missing and damaged traces.

    Args:
        records: The study's records.
        where: Levels of the variants to look at, by axis.
        example: Which of the captions that a run keeps, from 0.
        experts: Whether the model must be a mixture of experts.
    """
    notes: list[str] = []
    labels_without: list[str] = []
    for index in records.chosen(where):
        label, run = records.variants[index].label, records.first_run(index, TRACE, ("done",))
        trace = None
        if run is not None:
            folder = records.results.run(run.id).path
            try:
                trace = read_trace(folder / TRACE, example)
            except StorageError as damage:
                notes.append(f"{label}: {damage}")
                continue
        if run is None or trace is None or (experts and trace.router is None):
            labels_without.append(label)
            continue
        images: dict[int, Pixels] = {}
        if (folder / IMAGES).exists():
            with suppress(StorageError):  # the maps are still good
                images = read_images(folder / IMAGES)
        columns = {**run_columns(records, run), "row": trace.row}
        return replace(trace, image=images.get(trace.row), columns=columns), notes
    if labels_without:
        kind, which = "experts" if experts else "attention", f" (example {example})" if example else ""
        notes.append(f"no finished run has kept the {kind} of a caption{which}: {some(labels_without)}")
    return None, notes


def read_trace(path: Path, example: int) -> CaptionTrace | None:
    """Read the caption `example` of a run's file; return None if the file has fewer captions.

    Raises:
        StorageError: The file is damaged. The message names it.
    """

    def caption(archive: Mapping[str, Any]) -> CaptionTrace | None:
        if example >= len(archive["rows"]):
            return None
        length = int(archive["lengths"][example])
        shares: dict[str, Any] = dict.fromkeys(("cross_attention", "self_attention", "router"))
        for name in shares.keys() & archive.keys():
            shares[name] = archive[name][example][..., :length, :].astype(float)
        if shares["cross_attention"] is None:
            raise ValueError("it has no cross_attention")
        if shares["self_attention"] is not None:
            shares["self_attention"] = shares["self_attention"][..., :length]
        chosen = None if shares["router"] is None else archive["chosen"][example][:, :length].astype(int)
        words = [str(word) for word in archive["words"][example][: length + 1]]
        return _checked(CaptionTrace(int(archive["rows"][example]), words, **shares, chosen=chosen))

    return read_archive(path, caption)


def _checked(trace: CaptionTrace) -> CaptionTrace:
    """Return the trace if its arrays fit together."""
    layers, heads, length, places = trace.cross_attention.shape
    if length < 1 or len(trace.words) != length + 1:
        raise ValueError(f"{plural(len(trace.words), 'word')} with the attention of {plural(length, 'token')}")
    if math.isqrt(places) ** 2 != places:
        raise ValueError(f"{places} places are no square grid")
    if trace.self_attention is not None and trace.self_attention.shape != (layers, heads, length, length):
        raise ValueError(f"self_attention of {trace.self_attention.shape}")
    for shares in (trace.cross_attention, trace.self_attention, trace.router):
        if shares is not None and not (shares.min() >= 0 and np.allclose(shares.sum(-1), 1, atol=ROUNDING)):
            raise ValueError("a row does not sum to 1")
    if trace.router is not None and trace.chosen is not None:
        *sides, experts = trace.router.shape
        if sides != [layers, length] or [*trace.chosen.shape[:2]] != sides or not trace.chosen.size:
            raise ValueError(f"router of {trace.router.shape}, chosen of {trace.chosen.shape}")
        if trace.chosen.min() < 0 or trace.chosen.max() >= experts:
            raise ValueError(f"a token has an expert that is none of {experts}")
    return trace
