"""What a reader gives must hold this: checked once, when it is kept, because a wrong label would only show as a strange score.

Shapes: N images, C channels, H height, W width, K classes, T tokens, S cells.
"""

from typing import Any

import numpy as np

from recstudy.config import DataConfig
from recstudy.data.reader import Decoded
from recstudy.errors import DataError
from recstudy.metrics import TASKS

PARTS = ("train", "test")


def checked(decoded: Decoded, config: DataConfig) -> Decoded:
    """`decoded` with contiguous arrays.

    Raises:
        DataError: images that are not uint8 of the config's shape; labels, groups, captions or a validation split that are
            of another type, length or range; a split without images; a group in both splits.
    """
    if not isinstance(decoded, Decoded):
        raise DataError(f"the reader of {config.title} must give a recstudy.data.Decoded, but gave a {type(decoded).__name__}.")
    for part in PARTS:
        _images(f"{part}_images", getattr(decoded, f"{part}_images"), config)
        count = len(getattr(decoded, f"{part}_images"))
        _labels(f"{part}_labels", getattr(decoded, f"{part}_labels"), count, config)
        _captions(f"{part}_captions", getattr(decoded, f"{part}_captions"), count, config)
    _groups(decoded, config)
    _held(decoded, config)
    _puzzles(decoded, config)
    if (decoded.tokenizer is not None) != _takes_captions(config):
        raise _wrong(config, "tokenizer", "must be there for captions, and for nothing else")
    return Decoded._make(np.ascontiguousarray(part) if isinstance(part, np.ndarray) else part for part in decoded)


def _images(name: str, images: Any, config: DataConfig) -> None:
    _array(name, images, np.uint8, (None, *config.shape), "N, C, H, W", config)
    if not len(images):
        raise _wrong(config, name, "must not be empty")


def _labels(name: str, labels: Any, count: int, config: DataConfig) -> None:
    """As the task wants them."""
    wanted = TASKS[config.task].labels
    axes = ", ".join(["N", *map(str, wanted.shape)])
    _array(
        name, labels, np.dtype(wanted.dtype).type, (count, *wanted.sides(config)), axes, config, f" for the task {config.task!r}"
    )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise _wrong(config, name, "must be finite")
    least, below = wanted.least, wanted.bound(config)
    if (least is not None and labels.min() < least) or (below is not None and labels.max() >= below):
        most = "" if below is None else f" to {below - 1}" if labels.dtype.kind in "iu" else f" to below {below}"
        lowest = "any" if least is None else str(least)
        raise _wrong(config, name, f"must be from {lowest}{most}, but are from {labels.min()} to {labels.max()}")


def _takes_captions(config: DataConfig) -> bool:
    return "captions" in TASKS[config.task].takes


def _captions(name: str, captions: Any, count: int, config: DataConfig) -> None:
    if (captions is not None) != _takes_captions(config):
        raise _wrong(config, name, "must be there for captions, and for nothing else")
    if captions is None:
        return
    if len(captions) != count:
        raise _wrong(config, name, f"must be of {count:,} images, but are of {len(captions):,}")
    for row, texts in enumerate(captions):
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise _wrong(config, f"{name}[{row}]", f"must be a list of texts, at least one, but is {str(texts)[:40]!r}")


def _groups(decoded: Decoded, config: DataConfig) -> None:
    """Numbers from 0 on, and no group in both splits."""
    groups: list[Any] = [decoded.train_groups, decoded.test_groups]
    if groups[0] is None and groups[1] is None:
        return
    for part, numbers in zip(PARTS, groups, strict=True):
        if numbers is None:
            raise _wrong(config, f"{part}_groups", "are missing: give both splits' groups, or none")
        _array(f"{part}_groups", numbers, np.int64, (len(getattr(decoded, f"{part}_labels")),), "N", config)
        if numbers.min() < 0:
            raise _wrong(config, f"{part}_groups", f"must be numbered from 0 on, but one is {numbers.min()}")
    if len(both := np.intersect1d(*groups)):
        raise _wrong(config, "test_groups", f"must not have groups of train_groups, but both have {both[0]}")


def _held(decoded: Decoded, config: DataConfig) -> None:
    held, groups = decoded.train_held, decoded.train_groups
    if held is None:
        return
    _array("train_held", held, np.bool_, (len(decoded.train_labels),), "N", config)
    if held.all() or not held.any():
        raise _wrong(config, "train_held", "must hold out some images and leave some; None where the set holds out none")
    if groups is not None and len(both := np.intersect1d(groups[held], groups[~held])):
        raise _wrong(config, "train_held", f"must hold out whole groups, but divides group {both[0]}")


def _puzzles(decoded: Decoded, config: DataConfig) -> None:
    for name in ("puzzles", "ids"):
        both: list[Any] = [getattr(decoded, f"{part}_{name}") for part in PARTS]
        if both[0] is None and both[1] is None:
            continue
        if name not in TASKS[config.task].takes:
            raise _wrong(config, f"train_{name}", "must be there for puzzles, and for nothing else")
        for part, numbers in zip(PARTS, both, strict=True):
            if numbers is None:
                raise _wrong(config, f"{part}_{name}", f"are missing: give both splits' {name}, or none")
            _array(f"{part}_{name}", numbers, np.int64, (len(getattr(decoded, f"{part}_labels")),), "N", config)
            if numbers.min() < 0:
                raise _wrong(config, f"{part}_{name}", f"must be numbered from 0 on, but one is {numbers.min()}")


def _array(
    name: str, array: Any, dtype: type, shape: tuple[int | None, ...], axes: str, config: DataConfig, of: str = ""
) -> None:
    wanted = f"({', '.join('N' if side is None else str(side) for side in shape)}{',' * (len(shape) == 1)})"
    if not isinstance(array, np.ndarray):
        raise _wrong(config, name, f"must be a numpy array ({axes}), but is {type(array).__name__}")
    if array.dtype != dtype:
        raise _wrong(config, name, f"must be {np.dtype(dtype)}{of}, but are {array.dtype}")
    if array.ndim != len(shape) or any(side not in (None, given) for side, given in zip(shape, array.shape, strict=True)):
        raise _wrong(config, name, f"must have the shape {wanted} ({axes}){of}, but have {array.shape}")


def _wrong(config: DataConfig, name: str, what: str) -> DataError:
    return DataError(f"the reader of {config.title} gave wrong data: {name} {what}.")
