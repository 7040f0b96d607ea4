"""Checks of the arrays that a reader returns. They run once, before the cache keeps the arrays, because a
wrong label would only show up as a strange score.

Shapes: N images, C channels, H height, W width, K classes, T tokens, S cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recstudy.base.errors import DataError
from recstudy.recursive.config.arrays import Arrays, np
from recstudy.recursive.config.parts import DataConfig
from recstudy.recursive.config.tasks import TASKS

PARTS = ("train", "test")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32")
IMAGE_TYPES = ("uint8", "uint16", "float32")


def checked(decoded: Arrays, config: DataConfig) -> Arrays:
    """Check decoded arrays and return them contiguous, in the types that training expects.

    Images of 16 bits become float32 shares of 65,535. Labels get the type of the task.

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
    try:
        decoded = _checked(decoded, config)
    except WrongDataError as error:
        raise DataError(f"the reader of {config.title} returned wrong data: {error}.") from None
    return Arrays._make(
        np.ascontiguousarray(part) if isinstance(part, np.ndarray) else part for part in decoded
    )


class WrongDataError(Exception):
    """Error that names the wrong field of the arrays."""


def _checked(decoded: Arrays, config: DataConfig) -> Arrays:
    takes, changed = TASKS[config.task].takes, dict[str, Any]()
    for part in PARTS:
        images, labels, captions = (
            getattr(decoded, f"{part}_{name}") for name in ("images", "labels", "captions")
        )
        dtypes = IMAGE_TYPES if TASKS[config.task].output == "image" else ("uint8",)
        _array(f"{part}_images", images, dtypes, (None, *config.shape), "N, C, H, W")
        if not len(images):
            raise WrongDataError(f"{part}_images must not be empty")
        if images.dtype != decoded.train_images.dtype:
            raise WrongDataError(
                f"{part}_images must be {decoded.train_images.dtype}, as train_images are, but are"
                f" {images.dtype}"
            )
        if images.dtype.kind == "f" and not np.isfinite(images).all():
            raise WrongDataError(f"{part}_images must be finite")
        changed[f"{part}_images"] = images / np.float32(65_535) if images.dtype == np.uint16 else images
        changed[f"{part}_labels"] = _labels(f"{part}_labels", labels, len(images), config)
        if (captions is not None) != ("captions" in takes):
            raise WrongDataError(f"{part}_captions must be set for captioned images, and only for them")
        if captions is not None and len(captions) != len(images):
            raise WrongDataError(
                f"{part}_captions must have {len(images):,} rows, one per image, but have {len(captions):,}"
            )
        for row, texts in enumerate(captions or ()):
            if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
                wrong = f"must be a non-empty list of texts, but is {str(texts)[:40]!r}"
                raise WrongDataError(f"{part}_captions[{row}] {wrong}")
            for text in texts:
                check_encodable(
                    text, f"the reader of {config.title} returned wrong data: {part}_captions[{row}]"
                )
    for name in ("groups", "puzzles", "ids"):
        _numbers(name, decoded, name == "groups" or name in takes)
    if decoded.train_groups is not None and len(
        shared_groups := np.intersect1d(decoded.train_groups, np.asarray(decoded.test_groups))
    ):
        raise WrongDataError(
            f"train_groups and test_groups must not share a group, but both have {shared_groups[0]}"
        )
    if (held_mask := decoded.train_held) is not None:
        _array("train_held", held_mask, ("bool",), (len(decoded.train_labels),), "N")
        if held_mask.all() or not held_mask.any():
            raise WrongDataError(
                "train_held must be true for some images and false for others, or None without a validation"
                " split"
            )
        groups = decoded.train_groups
        if groups is not None and len(
            divided_groups := np.intersect1d(groups[held_mask], groups[~held_mask])
        ):
            raise WrongDataError(
                f"train_held must hold out whole groups, but divides group {divided_groups[0]}"
            )
    if (decoded.tokenizer is not None) != ("captions" in takes):
        raise WrongDataError("tokenizer must be set for captioned images, and only for them")
    for row, name in enumerate(decoded.identifiers or ()):
        check_encodable(name, f"the reader of {config.title} returned wrong data: identifiers[{row}]")
    decoded = decoded._replace(**changed)
    if TASKS[config.task].output == "cells":
        return _without_blank_answers(decoded)
    return decoded


def _without_blank_answers(decoded: Arrays) -> Arrays:
    """Leave out puzzles whose answer has no scored cell."""
    # Any answer would solve such a puzzle. The code of HRM and TRM does not score them either.
    for part in PARTS:
        labels: Any = getattr(decoded, f"{part}_labels")
        asking = labels.any(1)
        if not asking.any():
            raise WrongDataError(f"{part}_labels must have a scored cell (not 0) in at least one puzzle")
        if not asking.all():
            note = (
                f"{len(labels) - asking.sum():,} of {len(labels):,} {part} puzzles have no scored cell and"
                " are left out"
            )
            decoded = decoded.taking(part, np.flatnonzero(asking))._replace(notes=(*decoded.notes, note))
    return decoded


def check_encodable(text: str, position: str) -> None:
    r"""Refuse half of a surrogate pair, such as `\ud83d`, which JSON can have but UTF-8 cannot.

    Args:
        text: The text to check.
        position: File and line of the text, for the message.

    Raises:
        DataError: If the text cannot be encoded in UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"{text[error.start]!a}"
        raise DataError(
            f"{position}: {half} is half of a surrogate pair, not a character. Replace or remove it."
        ) from None


def _labels(name: str, labels: Any, count: int, config: DataConfig) -> Any:
    """Check shape and range of labels and return them in the type of the task.

    Integer labels may have any integer type.
    """
    label_type = TASKS[config.task].labels
    axes, task = ", ".join(["N", *map(str, label_type.shape)]), f" for the task {config.task!r}"
    dtypes = INTEGERS if np.dtype(label_type.dtype).kind in "iu" else (label_type.dtype,)
    _array(name, labels, dtypes, (count, *label_type.sides(config)), axes, task)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise WrongDataError(f"{name} must be finite")
    minimum, bound = label_type.least, label_type.bound(config)
    if (minimum is not None and labels.min() < minimum) or (bound is not None and labels.max() >= bound):
        allowed = "from any" if minimum is None else f"from {minimum}"
        if bound is not None:
            allowed += f" to {bound - 1}" if labels.dtype.kind in "iu" else f" to below {bound}"
        raise WrongDataError(f"{name} must be {allowed}, but are from {labels.min()} to {labels.max()}")
    return labels.astype(label_type.dtype, copy=False)


def _numbers(name: str, decoded: Arrays, is_taken: bool) -> None:
    """Check groups, puzzles or ids: set for both splits or none, not negative, and used by the task."""
    numbers_by_part: dict[str, Any] = {part: getattr(decoded, f"{part}_{name}") for part in PARTS}
    if all(numbers is None for numbers in numbers_by_part.values()):
        return
    if not is_taken:
        raise WrongDataError(f"train_{name} must be set for puzzles only")
    for part, numbers in numbers_by_part.items():
        if numbers is None:
            raise WrongDataError(f"{part}_{name} are missing: set the {name} of both splits, or of none")
        _array(f"{part}_{name}", numbers, ("int64",), (len(getattr(decoded, f"{part}_labels")),), "N")
        if numbers.min() < 0:
            raise WrongDataError(f"{part}_{name} must be numbered from 0, but one is {numbers.min()}")


def _array(
    name: str,
    array: Any,
    dtypes: Sequence[str],
    shape: tuple[int | None, ...],
    axes: str,
    task: str = "",
) -> None:
    """Check type and shape of an array. None in `shape` allows any length."""
    expected_shape = (
        f"({', '.join('N' if side is None else str(side) for side in shape)}{',' * (len(shape) == 1)})"
    )
    if not isinstance(array, np.ndarray):
        raise WrongDataError(f"{name} must be a numpy array ({axes}), but is {type(array).__name__}")
    if array.dtype.name not in dtypes:
        type_names = "integers" if dtypes == INTEGERS else " or ".join(", ".join(dtypes).rsplit(", ", 1))
        raise WrongDataError(f"{name} must be {type_names}{task}, but are {array.dtype}")
    if array.ndim != len(shape) or any(
        side not in (None, length) for side, length in zip(shape, array.shape, strict=True)
    ):
        raise WrongDataError(
            f"{name} must have the shape {expected_shape} ({axes}){task}, but have {array.shape}"
        )
