"""A data set in memory, as a reader gives it.

`np` and `torch` are here for the modules of data sets, each imported when something of it is first used:
`import recstudy` loads neither. So a module can hold what can be set about a data set and, below it, the
arithmetic that makes it; it has `from __future__ import annotations`, because annotations of arrays are not
to be looked up either.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

__all__ = ["Arrays", "Labels", "Mask", "Pixels", "Tokens", "np", "torch"]


class LazyModule:
    """Stands for a module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

    Pixels: TypeAlias = npt.NDArray[np.uint8]
    Labels: TypeAlias = npt.NDArray[np.int64]
    Tokens: TypeAlias = npt.NDArray[np.int32]
    Mask: TypeAlias = npt.NDArray[np.bool_]
else:
    np, torch = LazyModule("numpy"), LazyModule("torch")
    Pixels = Labels = Tokens = Mask = Any  # no process looks them up


class Arrays(NamedTuple):
    """A data set in memory: images (N, C, H, W) and labels of both official splits, and what only some sets
    have.

    Images are uint8 or, for classes and findings, uint16 or float32 in any unit; both splits alike. Mean and
    deviation of the training images standardise them, unless the config states `moments`: of integers from 0
    to 1, of float32 in its unit. Labels are (N,) int64, a class each; (N, K) int64 of 1 (yes), 0 (no) or -1
    (unknown) where there are several an image; or (N, T) int32, the tokens of each image's first caption. A
    puzzle is an image (1, rows, columns) of tokens, and its labels are (N, S) uint8, the token of each cell
    of its answer, 0 where none is asked for.
    """

    train_images: Pixels
    train_labels: Labels | Tokens | Pixels
    test_images: Pixels
    test_labels: Labels | Tokens | Pixels
    train_groups: Labels | None = None  # (N,) int64, the patient of each image, from 0 on, over both splits
    test_groups: Labels | None = None
    train_held: Mask | None = None  # (N,) bool, images that the set itself holds out for validation
    notes: tuple[str, ...] = ()  # what a reader of the results should know of the decoding
    train_captions: list[list[str]] | None = None  # N texts of each image, where there are captions
    test_captions: list[list[str]] | None = None
    tokenizer: dict[str, Any] | None = None  # what made tokens of them, as `Tokenizer.stored` gives it
    # (N,) int64, of several examples of a puzzle which it is; an epoch shows one puzzle of a group.
    train_puzzles: Labels | None = None
    test_puzzles: Labels | None = None
    # (N,) int64, what a network is told of a puzzle: its row in a table of embeddings
    train_ids: Labels | None = None
    test_ids: Labels | None = None
    identifiers: list[str] | None = None  # what each id stands for, from 0 on, where ids have names

    def taking(self, part: str, rows: Labels) -> Arrays:
        """Return the set with these rows of one split alone, `train` or `test`."""
        columns = {name: column for name, column in self._asdict().items() if name.startswith(f"{part}_")}
        chosen: dict[str, Any] = {
            name: column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows]
            for name, column in columns.items()
            if column is not None
        }
        return self._replace(**chosen)

    @classmethod
    def cut(cls, train: int, **columns: Any) -> Arrays:
        """Return a set of `images`, `labels` and what else both splits have, whose first `train` rows are for
        training.
        """
        parts = {"train": slice(train), "test": slice(train, None)}
        given_columns = {name: column for name, column in columns.items() if column is not None}
        return cls(
            **{
                f"{part}_{name}": column[rows]
                for part, rows in parts.items()
                for name, column in given_columns.items()
            }
        )
