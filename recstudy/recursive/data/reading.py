"""Read a data set: check its files, decode them, and check the arrays.

The checks run once, before the cache keeps the arrays, because a wrong label would only show up as a strange
score. Notes count items that occur more than once: in both splits, or with different labels. Only exact
copies count, because items are compared by a digest of their decoded values.

Shapes: N images, C channels, H height, W width, K classes, T tokens, S cells.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from recstudy.base.errors import DataError
from recstudy.records.schema import REPEATED
from recstudy.recursive.config.parts import DataConfig
from recstudy.recursive.config.reader import Array, Arrays, Reader, np
from recstudy.recursive.config.tasks import TASKS
from recstudy.recursive.data.splits import surrogate_half

PARTS = ("train", "test")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32")
IMAGE_TYPES = ("uint8", "uint16", "float32")


def read_data(reader: Reader, folder: Path) -> Arrays:
    """Check the files of a data set, decode them, check the arrays, and add notes on repeated items.

    Returns:
        The set, with contiguous arrays.

    Raises:
        DataError: A file is missing, is not the official one, or decodes to wrong arrays.
    """
    config = reader.config
    reader.check(folder)
    for name, md5 in reader.official.items():
        with open(folder / name, "rb") as file:
            if hashlib.file_digest(file, "md5").hexdigest() != md5:
                raise DataError(
                    f"{folder / name} is damaged: its md5 is not the official one of {config.title}."
                    " Delete it and unpack or download it again."
                )
    decoded = checked(reader.decode(folder), config)
    if not reader.sources(folder) or not reader.counts_repeats:
        return decoded
    return decoded._replace(notes=(*decoded.notes, *repeat_notes(decoded, config)))


def checked(decoded: Arrays, config: DataConfig) -> Arrays:
    """Check decoded arrays and return them contiguous, in the types that training expects.

    Images of 16 bits become float32 shares of 65,535. Labels get the type of the task. Puzzles whose answer
    has no scored cell are left out.

    Args:
        decoded: What the reader's `decode` returned.
        config: Config of the data set.

    Raises:
        DataError: If images have another type than uint8, uint16 or float32 (puzzles and captioned images:
            uint8) or another shape than the config's; if labels, groups, captions or the validation split
            have a wrong type, length or range; if a split has no images; or if a group is in both splits.
    """
    if not isinstance(decoded, Arrays):
        raise DataError(
            f"the reader of {config.title} must return a recstudy.recursive.Arrays, but returned a"
            f" {type(decoded).__name__}."
        )
    if problem := next(_problems(decoded, config), None):
        raise DataError(f"the reader of {config.title} returned wrong data: {problem}.")
    task = TASKS[config.task]
    for part in PARTS:
        images, labels = getattr(decoded, f"{part}_images"), getattr(decoded, f"{part}_labels")
        if images.dtype == np.uint16:
            decoded = decoded._replace(**{f"{part}_images": images / np.float32(65_535)})
        labels = labels.astype(task.labels.dtype, copy=False)
        decoded = decoded._replace(**{f"{part}_labels": labels})
        if task.output == "cells" and not (is_scored := labels.any(1)).all():
            # Any answer would solve such a puzzle. The code of HRM and TRM does not score them either.
            note = (
                f"{len(labels) - is_scored.sum():,} of {len(labels):,} {part} puzzles have no scored cell and"
                " are left out"
            )
            decoded = decoded.taking(part, np.flatnonzero(is_scored))._replace(notes=(*decoded.notes, note))
    return Arrays._make(
        np.ascontiguousarray(part) if isinstance(part, np.ndarray) else part for part in decoded
    )


def _problems(decoded: Arrays, config: DataConfig) -> Iterator[str]:
    """Yield what is wrong with the arrays. Each check relies on those before it, so only the first counts."""
    task = TASKS[config.task]
    has_captions = "captions" in task.takes
    for part in PARTS:
        images, labels, captions = (
            getattr(decoded, f"{part}_{name}") for name in ("images", "labels", "captions")
        )
        dtypes = IMAGE_TYPES if task.output == "image" else ("uint8",)
        yield from _array_problems(f"{part}_images", images, dtypes, (None, *config.shape), "N, C, H, W")
        if not len(images):
            yield f"{part}_images must not be empty"
        if images.dtype != (first_type := decoded.train_images.dtype):
            yield f"{part}_images must be {first_type}, as train_images are, but are {images.dtype}"
        if images.dtype.kind == "f" and not np.isfinite(images).all():
            yield f"{part}_images must be finite"
        yield from _label_problems(f"{part}_labels", labels, len(images), config)
        if (captions is not None) != has_captions:
            yield f"{part}_captions must be set for captioned images, and only for them"
        if has_captions and len(captions) != len(images):
            yield f"{part}_captions must have {len(images):,} rows, one per image, but have {len(captions):,}"
        for row, texts in enumerate(captions or ()):
            if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
                wrong = f"must be a non-empty list of texts, but is {str(texts)[:40]!r}"
                yield f"{part}_captions[{row}] {wrong}"
            for half in filter(None, map(surrogate_half, texts)):
                yield f"{part}_captions[{row}]: {half}"
    for name in ("groups", "puzzles", "ids"):
        yield from _number_problems(name, decoded, name == "groups" or name in task.takes)
    groups, held_mask = decoded.train_groups, decoded.train_held
    if groups is not None and len(shared_groups := np.intersect1d(groups, np.asarray(decoded.test_groups))):
        yield f"train_groups and test_groups must not share a group, but both have {shared_groups[0]}"
    if held_mask is not None:
        yield from _array_problems("train_held", held_mask, ("bool",), (len(decoded.train_labels),), "N")
        if held_mask.all() or not held_mask.any():
            yield (
                "train_held must be true for some images and false for others, or None without a validation"
                " split"
            )
        if groups is not None and len(divided := np.intersect1d(groups[held_mask], groups[~held_mask])):
            yield f"train_held must hold out whole groups, but divides group {divided[0]}"
    if (decoded.tokenizer is not None) != has_captions:
        yield "tokenizer must be set for captioned images, and only for them"
    for row, half in enumerate(map(surrogate_half, decoded.identifiers or ())):
        if half:
            yield f"identifiers[{row}]: {half}"


def _label_problems(name: str, labels: Any, count: int, config: DataConfig) -> Iterator[str]:
    """Check type, shape and range of labels. Integer labels may have any integer type."""
    label_type = TASKS[config.task].labels
    axes, task = ", ".join(["N", *map(str, label_type.shape)]), f" for the task {config.task!r}"
    dtypes = INTEGERS if label_type.dtype in INTEGERS else (label_type.dtype,)
    yield from _array_problems(name, labels, dtypes, (count, *label_type.sides(config)), axes, task)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        yield f"{name} must be finite"
    minimum, bound = label_type.least, label_type.bound(config)
    if (minimum is not None and labels.min() < minimum) or (bound is not None and labels.max() >= bound):
        allowed = "from any" if minimum is None else f"from {minimum}"
        if bound is not None:
            allowed += f" to {bound - 1}" if labels.dtype.kind in "iu" else f" to below {bound}"
        yield f"{name} must be {allowed}, but are from {labels.min()} to {labels.max()}"
    if TASKS[config.task].output == "cells" and not labels.any():
        yield f"{name} must have a scored cell (not 0) in at least one puzzle"


def _number_problems(name: str, decoded: Arrays, is_taken: bool) -> Iterator[str]:
    """Check groups, puzzles or ids: set for both splits or none, not negative, and used by the task."""
    numbers_by_part: dict[str, Any] = {part: getattr(decoded, f"{part}_{name}") for part in PARTS}
    if all(numbers is None for numbers in numbers_by_part.values()):
        return
    if not is_taken:
        yield f"train_{name} must be set for puzzles only"
    for part, numbers in numbers_by_part.items():
        if numbers is None:
            yield f"{part}_{name} are missing: set the {name} of both splits, or of none"
        count = len(getattr(decoded, f"{part}_labels"))
        yield from _array_problems(f"{part}_{name}", numbers, ("int64",), (count,), "N")
        if numbers.min() < 0:
            yield f"{part}_{name} must be numbered from 0, but one is {numbers.min()}"


def _array_problems(
    name: str, array: Any, dtypes: Sequence[str], shape: tuple[int | None, ...], axes: str, task: str = ""
) -> Iterator[str]:
    """Check type and shape of an array. None in `shape` allows any length."""
    if not isinstance(array, np.ndarray):
        yield f"{name} must be a numpy array ({axes}), but is {type(array).__name__}"
    if array.dtype.name not in dtypes:
        type_names = "integers" if dtypes == INTEGERS else " or ".join(", ".join(dtypes).rsplit(", ", 1))
        yield f"{name} must be {type_names}{task}, but are {array.dtype}"
    if array.ndim != len(shape) or any(
        side not in (None, length) for side, length in zip(shape, array.shape, strict=True)
    ):
        expected_shape = str(shape).replace("None", "N")
        yield f"{name} must have the shape {expected_shape} ({axes}){task}, but have {array.shape}"


def repeat_notes(decoded: Arrays, config: DataConfig) -> tuple[str, ...]:
    """Return notes on test items that are copies of training items, and on copies with different labels.

    Different captions of one image do not count as different labels.
    """
    kind, label = ("puzzles", "answers") if TASKS[config.task].output == "cells" else ("images", "labels")
    train = _digests(decoded.train_images, decoded.train_ids)
    test = _digests(decoded.test_images, decoded.test_ids)
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


def _digests(items: Array, ids: Array | None = None) -> Array:
    """Return (N,) digests of items and, if given, their ids."""
    # With 64 bits, two of 4 million different items share a digest with a probability of 5e-7.
    digests = np.empty(len(items), np.uint64)
    for row, item in enumerate(items):
        # The id of a puzzle counts: it names the rule, and the rule decides the answer.
        content = item.tobytes() if ids is None else item.tobytes() + ids[row].tobytes()
        digests[row] = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())
    return digests
