"""Where a captioner looked, which experts it used, and what its vision encoder saw: `trace.npz` of a run, read with every check.

Shapes: L layers, H heads, T tokens that were read, P places of the image, E experts, k experts a token, S feature maps of h x w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from recstudy.lazy import np
from recstudy.opened import arrays
from recstudy.records import Json
from recstudy.report.caveats import some
from recstudy.report.examples import add_images, read_examples
from recstudy.report.study_records import StudyRecords

if TYPE_CHECKING:
    from PIL.Image import Image

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


def first_trace(records: StudyRecords, where: Json, example: int, array: str) -> tuple[CaptionTrace | None, list[str]]:
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

    examples, notes = read_examples(records, where, TRACE, read, most=len(records.variants))
    if not examples.empty:
        first, _ = add_images(records, where, examples.head(1))
        columns = {str(name): value for name, value in first.iloc[0].items()}
        return replace(columns.pop("trace"), image=columns.pop("_image"), columns=columns), notes
    place = f" (example {example})" if example else ""
    labels = some([records.variants[index].label for index in records.chosen(where)])
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
    shares = {name: archive[name][example][..., :length, :].astype(float) for name in SHARES if name in archive}
    if "self_attention" in shares:
        shares["self_attention"] = shares["self_attention"][..., :length]
    words = [str(word) for word in archive["words"][example][: length + 1]]
    trace = CaptionTrace(int(archive["rows"][example]), words, **shares)
    layers, heads, _, places = trace.cross_attention.shape
    sizes = {"cross_attention": (layers, heads, length), "self_attention": (layers, heads, length), "router": (layers, length)}
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
