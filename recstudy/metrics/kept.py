"""The answers that a run keeps, so that a metric costs no training: `answers.npz`, compressed and of a
limited size.

    about            JSON: format, task, names of the classes, images of the whole test split
    answers (N, K)   float16: the logarithms of class probabilities, or logits where an image has several labels
    labels, rows, groups, levels    as `Answers` has them; no groups for sets without patients, no levels without these
    captions         JSON, for the task of captions: `written` and `references`
    cells, lawful    for the task of grids, which has no `answers`
    kept.NAME        what another task keeps, in its precision

Logarithms, because half precision keeps four digits of them wherever they are: of the probabilities it loses
the small ones, which likelihoods are made of, and those near 1.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from recstudy import opened
from recstudy.errors import StorageError
from recstudy.metrics.answers import Answers
from recstudy.metrics.classification import BINS
from recstudy.metrics.registry import measured
from recstudy.programs.metric import METRICS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LIMIT = 4 * 2**20  # bytes of the file; of ImageNet's 50,000 x 1,000 answers the first 2,000 or so fit
FORMAT = 1
KEPT = "kept."  # before the names of what a task keeps
# int64 in `Answers`, as they are kept
INTEGERS = {"rows": "int32", "groups": "int32", "levels": "int32", "lawful": "uint8"}


class Kept(NamedTuple):
    """Answers of the first of `whole` test images, all of them where no more fit the limit."""

    answers: Answers
    whole: int

    @property
    def cut(self) -> bool:
        return len(self.answers) < self.whole


def packed(answers: Answers, limit: int = LIMIT) -> tuple[bytes, int]:
    """Return the file's content, and of how many images: all of them, or the first that fit `limit` bytes."""
    count = len(answers)
    content = _archive(answers, count, count)
    while len(content) > limit and count:
        count = min(count - 1, int(0.95 * count * limit / len(content)))
        content = _archive(answers, count, len(answers))
    return content, count


def unpacked(path: Path) -> Kept:
    """Return what `packed` wrote.

    Raises:
        StorageError: it is damaged, or of a newer recstudy.
    """
    import numpy as np

    try:
        arrays = opened.arrays(path)
        about = _text(arrays["about"])
        if about["format"] > FORMAT:
            raise StorageError(
                f"{path} was written by a newer recstudy (format {about['format']}). Update this one."
            )
        captions, labels = _text(arrays["captions"]), arrays["labels"]
        _check(about, arrays, captions)
        integers: dict[str, Any] = {
            name: arrays[name].astype(np.int64) for name in INTEGERS if name in arrays
        }
        found = Answers(
            about["task"],
            arrays["answers"].astype(np.float64),
            labels.astype(np.float64 if labels.dtype.kind == "f" else np.int64),
            tuple(about["class_names"]),
            written=captions["written"],
            references=captions["references"],
            cells=arrays.get("cells", np.empty(0, np.uint8)),
            kept={name.removeprefix(KEPT): array for name, array in arrays.items() if name.startswith(KEPT)},
            **integers,
        )
        return Kept(found, about["images"])
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as error:
        raise StorageError(
            f"{path} is damaged ({error}). Remove it: what needs it is then computed from the weights."
        ) from None


def _check(
    about: Mapping[str, Any], arrays: "Mapping[str, npt.NDArray[Any]]", captions: Mapping[str, Any]
) -> None:
    """Refuse arrays that are not of the same images (ValueError), which a metric could not tell from its own
    faults.
    """
    of_images = {name: array for name, array in arrays.items() if name not in ("about", "captions")}
    sides = {name: len(array) if array.ndim else -1 for name, array in of_images.items()}
    sides |= {name: len(list(captions[name])) for name in ("written", "references")}
    count = max(sides.values())
    if wrong := {name: length for name, length in sides.items() if length not in (0, count)}:
        raise ValueError(f"{wrong} of {count} images")
    words = [
        about["task"],
        *about["class_names"],
        *captions["written"],
        *(one for own in captions["references"] for one in own),
    ]
    if not isinstance(about["images"], int) or not all(isinstance(one, str) for one in words):
        raise ValueError("names, captions and counts of other types")


def _archive(answers: Answers, count: int, whole: int) -> bytes:
    import numpy as np

    some = _first(answers, count)
    labels = some.labels
    about = {
        "format": FORMAT,
        "task": answers.task,
        "class_names": list(answers.class_names),
        "images": whole,
    }
    arrays: dict[str, Any] = {
        "about": _bytes(about),
        "answers": _halved(some),
        # Whole numbers in the least type that holds them and -1; others in single precision.
        "labels": labels.astype(
            np.float32 if labels.dtype.kind == "f" else np.min_scalar_type(-1 - int(labels.max(initial=0)))
        ),
        "captions": _bytes(
            {"written": list(some.written), "references": [list(own) for own in some.references]}
        ),
        **{
            name: value.astype(kind)
            for name, kind in INTEGERS.items()
            if (value := getattr(some, name)) is not None
        },
        **({"cells": some.cells.astype(np.uint8, copy=False)} if some.task == "grid" else {}),
        **{KEPT + name: array for name, array in some.kept.items()},
    }
    return archived(arrays)


def archived(arrays: Mapping[str, Any]) -> bytes:
    """Return an .npz file of these arrays."""
    import numpy as np

    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _first(answers: Answers, count: int) -> Answers:
    """Return those of the first images."""
    every = {
        field.name: getattr(answers, field.name)
        for field in fields(answers)
        if field.name not in ("task", "class_names")
    }
    some = {name: value[:count] for name, value in every.items() if value is not None and name != "kept"}
    return replace(answers, **some, kept={name: array[:count] for name, array in answers.kept.items()})


def _halved(answers: Answers) -> "npt.NDArray[np.float16]":
    """Return them in half precision, with the same most likely class: the next number up where that ties with
    another.
    """
    import numpy as np

    several = answers.task != "multiclass"
    values = answers.logits if several else answers.log_probabilities
    most = float(np.finfo(np.float16).max)
    half = values.clip(-most, most).astype(np.float16)
    if not several and len(answers):
        tied = (
            (half.argmax(1) != answers.predicted).nonzero()[0],
            answers.predicted[half.argmax(1) != answers.predicted],
        )
        half[tied] = np.nextafter(half[tied], np.float16(np.inf))
    return half


def rounding_errors(answers: Answers, values: Mapping[str, float]) -> dict[str, float]:
    """Return by how much `values`, metrics of unpacked answers, may differ from those before half precision.

    Shares depend on the most likely class alone, which half precision keeps; captions and cells are kept as
    they are. The others are read from logits, each of which was off by half a unit in the last place at most.
    NLL, AUROC and average precision have their extremes where the right answers are off in one direction and
    all others in the other.
    """
    import numpy as np

    names = [name for name in values if name in METRICS and not METRICS[name].share]
    if not answers.logits.size or not names:
        return {}
    off = np.abs(np.spacing(answers.logits.astype(np.float16))).astype(np.float64) / 2
    right = answers.labels == 1
    if answers.task == "multiclass":
        classes = np.arange(answers.logits.shape[1])
        right, top = answers.labels[:, None] == classes, answers.predicted[:, None] == classes
        # `_halved` may have raised the most likely class above a second one that tied with it.
        second = np.sort(answers.logits, 1)[:, -2:][:, 0]
        off[top & (answers.logits - second[:, None] <= 2 * off)] *= 3
    # What is equal in half precision may have differed, which gives a lower average precision.
    apart = off * np.linspace(1, 1.001, len(answers))[:, None]
    sides = [replace(answers, logits=answers.logits + np.where(right, step, -step)) for step in (off, -apart)]
    ends = [measured(side, names).values for side in sides]
    errors = {
        name: max(abs(end[name] - value) for end in ends) for name, value in values.items() if name in ends[0]
    }
    if "ece" in errors:
        # Of no use here: the gaps of a bin's items cancel out. A confidence moves the gap of its bin by as
        # much as it is off itself; next to the border of two bins it may also leave one for the other, with
        # its whole gap.
        confidence = answers.probabilities[top]
        sides = [replace(answers, logits=answers.logits + np.where(top, step, -step)) for step in (-off, off)]
        low, high = (side.probabilities[top] for side in sides)
        leaves = (low * BINS).astype(int) != (high * BINS).astype(int)
        gaps = leaves * np.abs((answers.predicted == answers.labels) - confidence)
        errors["ece"] = 100 * float((high - low + 2 * gaps).mean())
    # The extremes are reached, such as by an AUROC, whose sums have rounding errors of their own.
    return {name: 1.001 * error + 1e-9 for name, error in errors.items()}


def _bytes(value: Mapping[str, Any]) -> "npt.NDArray[np.uint8]":
    import numpy as np

    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _text(array: "npt.NDArray[np.uint8]") -> dict[str, Any]:
    return dict(json.loads(array.tobytes()))
