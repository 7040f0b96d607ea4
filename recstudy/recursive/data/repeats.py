"""Find items that occur more than once in a data set: in both splits, or with different labels.

Readers of files call this module. Only exact copies count, because items are compared by a digest of their
decoded values.

Shapes: N images or puzzles.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from recstudy.records.schema import REPEATED
from recstudy.recursive.config.arrays import Arrays, np
from recstudy.recursive.config.parts import DataConfig
from recstudy.recursive.config.tasks import TASKS

if TYPE_CHECKING:
    import numpy.typing as npt


def repeat_notes(decoded: Arrays, config: DataConfig) -> tuple[str, ...]:
    """Return notes on test items that are copies of training items, and on copies with different labels.

    Different captions of one image do not count as different labels.
    """
    kind, label = ("puzzles", "answers") if TASKS[config.task].output == "cells" else ("images", "labels")
    train, test = (
        _digests(getattr(decoded, f"{part}_images"), getattr(decoded, f"{part}_ids"))
        for part in ("train", "test")
    )
    notes = []
    if shared := int(np.isin(test, train).sum()):
        notes.append(f"{REPEATED}{shared:,} of {len(test):,} test {kind} are exact copies of training {kind}")
    if decoded.train_captions is None:
        labels = np.concatenate([_digests(decoded.train_labels), _digests(decoded.test_labels)])
        pairs = np.unique(np.stack([np.concatenate([train, test]), labels], 1), axis=0)
        _, counts = np.unique(pairs[:, 0], return_counts=True)
        if several := int((counts > 1).sum()):
            notes.append(f"{REPEATED}{several:,} {kind} have several copies with different {label}")
    return tuple(notes)


def _digests(items: npt.NDArray[Any], ids: npt.NDArray[Any] | None = None) -> npt.NDArray[np.uint64]:
    """Return (N,) digests of items and, if given, their ids."""
    # With 64 bits, two of 4 million different items share a digest with a probability of 5e-7.
    digests = np.empty(len(items), np.uint64)
    for row, item in enumerate(items):
        # The id of a puzzle counts: it names the rule, and the rule decides the answer.
        content = item.tobytes() if ids is None else item.tobytes() + ids[row].tobytes()
        digests[row] = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())
    return digests
