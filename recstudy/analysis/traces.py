"""What a run kept of its inside (`trace.npz`, `train/routing.py`), read with every check: a caption, its attention, its experts.

Shapes: n captions, L layers, H heads, T tokens, P places of the image, E experts, k experts a token.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from recstudy.analysis.caveats import is_synthetic, some, warnings
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.kept import IMAGES, Pixels, read_archive, read_images
from recstudy.analysis.rows import Row
from recstudy.errors import StorageError
from recstudy.records import Json
from recstudy.report.names import plural

TRACE = "trace.npz"
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CaptionTrace:
    """One caption's, of T tokens that were read."""

    row: int  # in the test set
    words: list[str]  # T + 1: the tokens that were read, then the one that was written last
    cross: Numbers  # (L, H, T, P)
    own: Numbers | None  # (L, H, T, T)
    router: Numbers | None  # (L, T, E)
    chosen: npt.NDArray[np.int64] | None  # (L, T, k), the likeliest first


@dataclass(frozen=True)
class Inside:
    """The trace of one run of one variant, and its image where that is kept."""

    label: str
    data: str
    run: Row
    trace: CaptionTrace
    image: Pixels | None
    synthetic: bool

    @property
    def named(self) -> str:
        return f"{self.label}, seed {self.run.seed}, {self.data} test image {self.trace.row}"

    @property
    def columns(self) -> Json:
        """What every row of a figure's numbers says of the run."""
        own = {"label": self.label, "seed": self.run.seed, "data": self.data, "row": self.trace.row}
        return {"variant": self.run.variant, **own, "synthetic": self.synthetic}


def first_inside(records: StudyRecords, where: Json, example: int, experts: bool) -> tuple[Inside | None, tuple[str, ...]]:
    """The kept caption `example`, from 0, of the first variant at these levels that has one, and what must be said first.

    Args:
        records: of the study.
        where: axis -> level.
        example: which of the captions that a run keeps.
        experts: whether it must be of a mixture of experts.
    """
    notes, lacking = list(warnings(records)), []
    for index in records.chosen(where):
        variant, run = records.variants[index], records.first_run(index, TRACE, ("done",))
        folder = None if run is None else records.results.run(run.id).path
        try:
            trace = None if folder is None else read_trace(folder / TRACE, example)
        except StorageError as damage:
            notes.append(f"{variant.label}: {damage}")
            continue
        if run is None or folder is None or trace is None or (experts and trace.router is None):
            lacking.append(variant.label)
            continue
        image = None
        if (folder / IMAGES).exists():
            with suppress(StorageError):  # the maps are still good
                image = read_images(folder / IMAGES).get(trace.row)
        return Inside(variant.label, variant.data, run, trace, image, is_synthetic(records, [index])), tuple(notes)
    if lacking:
        what = f"the {'experts' if experts else 'attention'} of a caption{f' (example {example})' if example else ''}"
        notes.append(f"no finished run has kept {what}: {some(lacking)}")
    return None, tuple(notes)


def read_trace(path: Path, example: int) -> CaptionTrace | None:
    """The caption `example` of a run's file; None where it has fewer.

    Raises:
        StorageError: the file is damaged. The message names it.
    """

    def caption(archive: Mapping[str, Any]) -> CaptionTrace | None:
        kept = dict(archive)
        if example >= len(kept["rows"]):
            return None
        length = int(kept["lengths"][example])
        words = [str(word) for word in kept["words"][example][: length + 1]]
        cross, own, router = (  # of the caption's own tokens: the last dimension but one
            kept[name][example][..., :length, :].astype(np.float64) if name in kept else None
            for name in ("cross_attention", "self_attention", "router")
        )
        if cross is None:
            raise ValueError("it has no cross_attention")
        chosen = None if router is None else kept["chosen"][example][:, :length].astype(np.int64)
        own = None if own is None else own[..., :length]
        return _checked(CaptionTrace(int(kept["rows"][example]), words, cross, own, router, chosen))

    return read_archive(path, caption)


def _checked(trace: CaptionTrace) -> CaptionTrace:
    """The trace, if its parts go together."""
    layers, heads, length, places = trace.cross.shape
    if length < 1 or len(trace.words) != length + 1:
        raise ValueError(f"{plural(len(trace.words), 'word')} with the attention of {plural(length, 'token')}")
    if math.isqrt(places) ** 2 != places:
        raise ValueError(f"{places} places are no square grid")
    if trace.own is not None and trace.own.shape != (layers, heads, length, length):
        raise ValueError(f"self_attention of {trace.own.shape}")
    for part in (trace.cross, trace.own, trace.router):
        if part is not None and not (np.isfinite(part).all() and part.min() >= 0 and np.allclose(part.sum(-1), 1, atol=0.05)):
            raise ValueError("a row does not sum to 1")
    if trace.router is not None and trace.chosen is not None:
        expected, experts = (layers, length), trace.router.shape[-1]
        if trace.router.shape[:2] != expected or trace.chosen.shape[:2] != expected or not trace.chosen.shape[2]:
            raise ValueError(f"router of {trace.router.shape}, chosen of {trace.chosen.shape}")
        if trace.chosen.min() < 0 or trace.chosen.max() >= experts:
            raise ValueError(f"a token has an expert that is none of {experts}")
    return trace
