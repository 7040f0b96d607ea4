"""Where a captioner looks while it writes (003, Figure 7): cross-attention over the image, self-attention over its own words."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from recstudy.analysis.figures.mosaic import Pixels
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.traces import Inside, Numbers, first_inside
from recstudy.errors import ConfigError
from recstudy.records import Json
from recstudy.report import AttentionMaps

COLUMNS = ["variant", "label", "seed", "data", "row", "layer", "head", "place", "word", "of", "at", "seen", "share", "synthetic"]


@dataclass(frozen=True)
class Attention:
    """What one caption of T tokens attends to, of one layer and head or of the mean over them.

    One row of `frame` a word and what it attends to, in percent (`share`). Where `of` is `image`, `word` is the one that is
    written and `at` a place of the image (`seen`: its row and column); where it is `caption`, `word` is the token that is read
    and `at` the place of an earlier one (`seen`). Places count from 1.
    """

    frame: pd.DataFrame
    cross: Numbers  # (T, P) sums to one
    own: Numbers | None  # (T, T)
    words: list[str]  # T + 1: read, then written last
    image: Pixels | None
    named: str
    notes: tuple[str, ...]

    @property
    def side(self) -> int:
        """Places a side of the image's grid."""
        return math.isqrt(self.cross.shape[1])

    @property
    def even(self) -> float:
        """A place's share where all are looked at alike."""
        return 1 / self.cross.shape[1]

    @property
    def full(self) -> float:
        """The share that is tinted most: the largest, or twice the even one, so that hardly uneven attention looks so."""
        return max(float(self.cross.max()), 2 * self.even)


def attention_data(records: StudyRecords, spec: AttentionMaps) -> Attention:
    """Of the first variant that has kept attention maps.

    Raises:
        ConfigError: it has no such layer or head.
    """
    found, notes = first_inside(records, spec.where, spec.example, experts=False)
    if found is None:
        return Attention(pd.DataFrame(columns=COLUMNS), np.empty((0, 0)), None, [], None, "", notes)
    cross, own = (None if part is None else _chosen(part, spec) for part in (found.trace.cross, found.trace.own))
    assert cross is not None
    rows = _looked(cross, found.trace.words[1:]) + ([] if own is None else _read(own, found.trace.words[:-1]))
    of = {"layer": _or_mean(spec.layer), "head": _or_mean(spec.head), **found.columns}
    frame = pd.DataFrame(rows).assign(**of)[COLUMNS]
    none = () if found.image is not None else (f"{found.label}: the image of test row {found.trace.row} was not kept",)
    return Attention(frame, cross, own, found.trace.words, found.image, _named(found, spec), (*notes, *none))


def attention_caption(data: Attention) -> str:
    """How to read the tiles and the grid."""
    if data.frame.empty:
        return ""
    tiles = (
        f"Over each word: where the model looked as it wrote it, {data.side}x{data.side} places; orange where it is more than "
        f"even attention, which is {100 * data.even:.3g} %, and full at {100 * data.full:.3g} %."
    )
    grid = " Below: how much each token (row) attends to itself and to the tokens before it (columns)."
    return f"{data.named}. {tiles}{grid if data.own is not None else ''}"


def _chosen(part: Numbers, spec: AttentionMaps) -> Numbers:
    """(L, H, T, S) -> (T, S) of one layer and head, or the mean."""
    for at, (name, asked) in enumerate({"layer": spec.layer, "head": spec.head}.items()):
        if asked is not None and asked > part.shape[at]:
            raise ConfigError(f"attention {spec.name!r}: {name} must be at most {part.shape[at]}, but got {asked}")
    layers = part if spec.layer is None else part[[spec.layer - 1]]
    return np.asarray((layers if spec.head is None else layers[:, [spec.head - 1]]).mean((0, 1)))


def _named(found: Inside, spec: AttentionMaps) -> str:
    layers, heads, *_ = found.trace.cross.shape
    if layers == heads == 1:
        return found.named
    which = [
        f"the mean of all {count} {name}s" if asked is None else f"{name} {asked} of {count}"
        for name, asked, count in (("layer", spec.layer, layers), ("head", spec.head, heads))
    ]
    return f"{found.named}; {' and '.join(which)}"


def _looked(cross: Numbers, words: list[str]) -> list[Json]:
    side = math.isqrt(cross.shape[1])
    return [
        {"place": token + 1, "word": words[token], "of": "image", "at": at + 1, "seen": _cell(at, side), "share": 100 * share}
        for (token, at), share in np.ndenumerate(cross)
    ]


def _read(own: Numbers, words: list[str]) -> list[Json]:
    return [
        {"place": token + 1, "word": words[token], "of": "caption", "at": at + 1, "seen": words[at], "share": 100 * share}
        for (token, at), share in np.ndenumerate(own)
        if at <= token
    ]


def _cell(at: int, side: int) -> str:
    return f"row {at // side + 1}, column {at % side + 1}"


def _or_mean(asked: int | None) -> str:
    return "mean" if asked is None else str(asked)
