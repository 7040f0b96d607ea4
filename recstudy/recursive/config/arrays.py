"""The arrays of a decoded data set, and lazy imports of NumPy and torch for the modules of data sets.

`import recstudy` must load neither NumPy nor torch. `np` and `torch` of this module are imported on first
use, so one module can have the config of a data set and the code that computes its arrays. Such a module
needs `from __future__ import annotations`, because annotations of arrays must not be evaluated either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from recstudy.base.lazy import LazyModule

__all__ = ["Arrays", "Labels", "Mask", "Pixels", "Tokens", "np", "torch"]


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
    Pixels = Labels = Tokens = Mask = Any  # never evaluated


class Arrays(NamedTuple):
    """A data set in memory: images (N, C, H, W) and labels of both official splits, and optional fields.

    Images are uint8. For classes and findings they may also be uint16 or float32 in any unit. Both splits
    have the same type. Images are standardized by mean and deviation of the training images unless the config
    has `moments`. Mean and deviation of integers refer to values from 0 to 1, those of float32 to its unit.

    Labels depend on the task:

    - one class per image: (N,) int64
    - findings: (N, K) int64 of 1 (yes), 0 (no) or -1 (unknown)
    - captions: (N, T) int32, the tokens of each image's first caption
    - puzzles: (N, S) uint8, the token of each cell of the answer, 0 for cells that are not scored. The image
      of a puzzle is (1, rows, columns) of tokens.
    """

    train_images: Pixels
    train_labels: Labels | Tokens | Pixels
    test_images: Pixels
    test_labels: Labels | Tokens | Pixels
    train_groups: Labels | None = None  # (N,) int64, patient of each image, numbered from 0 over both splits
    test_groups: Labels | None = None
    train_held: Mask | None = None  # (N,) bool, the set's own validation split
    notes: tuple[str, ...] = ()  # facts about the decoding that belong with the results
    train_captions: list[list[str]] | None = None  # reference texts of each of the N images
    test_captions: list[list[str]] | None = None
    tokenizer: dict[str, Any] | None = None  # `Tokenizer.stored` of the tokenizer of the captions
    # (N,) int64, the puzzle of each example, for puzzles with several examples. An epoch shows one puzzle per
    # group.
    train_puzzles: Labels | None = None
    test_puzzles: Labels | None = None
    # (N,) int64, the puzzle's row in the network's table of embeddings
    train_ids: Labels | None = None
    test_ids: Labels | None = None
    identifiers: list[str] | None = None  # name of each id, from 0; None if ids have no names

    def taking(self, part: str, rows: Labels) -> Arrays:
        """Return a copy that keeps only the given rows of one split.

        Args:
            part: "train" or "test". The other split is unchanged.
            rows: Rows to keep.
        """
        chosen: dict[str, Any] = {}
        for name, column in self._asdict().items():
            if name.startswith(f"{part}_") and column is not None:
                is_array = isinstance(column, np.ndarray)
                chosen[name] = column[rows] if is_array else [column[row] for row in rows]
        return self._replace(**chosen)

    @classmethod
    def cut(cls, train: int, **columns: Any) -> Arrays:
        """Split columns at row `train` into the training and the test split.

        Args:
            train: Number of training rows, which come first.
            **columns: `images`, `labels` and other fields that both splits have. None is left out.
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
