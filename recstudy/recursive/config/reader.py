"""Readers: each knows which files a data set needs and decodes them into arrays.

`import recstudy` must load neither NumPy nor torch. `np` and `torch` of this module are imported on first
use, so one module can have the config of a data set and the code that computes its arrays. Such a module
needs `from __future__ import annotations`, because annotations of arrays must not be evaluated either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

from recstudy.base.errors import DataError
from recstudy.base.lazy import LazyModule

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

    Pixels: TypeAlias = npt.NDArray[np.uint8]
    Labels: TypeAlias = npt.NDArray[np.int64]
    Tokens: TypeAlias = npt.NDArray[np.int32]
    Mask: TypeAlias = npt.NDArray[np.bool_]
    Array: TypeAlias = npt.NDArray[Any]
    Tensor: TypeAlias = torch.Tensor
else:
    np, torch = LazyModule("numpy"), LazyModule("torch")
    Pixels = Labels = Tokens = Mask = Array = Tensor = Any  # never evaluated

__all__ = [
    "Array",
    "Arrays",
    "DrawingReader",
    "Labels",
    "Mask",
    "Pixels",
    "Reader",
    "TableReader",
    "Tensor",
    "Tokens",
    "counts_within",
    "generator",
    "np",
    "torch",
]

DATA_MODULES = "recstudy.recursive.data."  # the sets with a page in docs/data
PACKED = (".gz", ".zip", ".tar", ".tar.gz", ".tgz")  # endings of an archive


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
    test_names: list[str] | None = None  # file of each test image
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
        fields: dict[str, Any] = {}
        for name, column in columns.items():
            if column is not None:
                fields |= {f"train_{name}": column[:train], f"test_{name}": column[train:]}
        return cls(**fields)


class Reader(ABC):
    """Reader of one data set.

    A reader runs once per machine. The cache keeps the result of `decode` until a source file, a field of the
    config or the reader's own code changes.

    To add a data set, define its config and its reader in the study's file or in a module in the same folder:

        from typing import ClassVar, Literal

        import numpy as np

        from recstudy.recursive.config.parts import DATASETS, DataConfig
        from recstudy.recursive.config.reader import Arrays, Reader

        @DATASETS.add("cells")
        class Cells(DataConfig):
            shape: ClassVar = (1, 28, 28)
            classes: ClassVar = 5

            name: Literal["cells"] = "cells"
            path: str = "cells.npz"  # below the data folder

            def reader(self):
                return CellsReader(self)

        class CellsReader(Reader):
            def sources(self, folder):
                return [self.config.path]

            def decode(self, folder):
                with np.load(folder / self.config.path) as file:  # images (N, 1, 28, 28), labels (N,)
                    return Arrays(file["train_x"], file["train_y"], file["test_x"], file["test_y"])

    With `task` "multilabel", labels are (N, classes) of 1, 0 and -1 (unknown). `Arrays` has further fields
    for groups, such as patients, and for a validation split. The config of a captioned set is a subclass of
    `Captioned`, and its reader returns the result of `recstudy.recursive.data.text.with_tokens`. For a table
    of captions in another layout than `CaptionFolder`, a `CaptionReader` is enough. The result of `decode` is
    checked before it is cached.
    """

    official: Mapping[str, str] = {}  # official md5 of files, by path in the data folder
    archives: Sequence[str] = ()  # paths of archives whose names differ from those of the unpacked files
    ignores: frozenset[str] = frozenset()  # fields of the config that do not affect the decoded arrays
    advice = "Pass --data DIR or set RECSTUDY_DATA."  # shown if files are missing
    counts_repeats = True  # whether notes count exact copies among the decoded items

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def sources(self, folder: Path) -> Sequence[str]:
        """Return the paths, relative to `folder`, of all files that the decoded arrays depend on.

        The list is empty if a program contains or generates the data; see `program`.
        """

    @abstractmethod
    def decode(self, folder: Path) -> Arrays:
        """Decode all images of both official splits.

        Raises:
            DataError: If a file is missing, damaged or cannot be decoded.
        """

    def program(self) -> Sequence[str | int]:
        """Return name and version of the package that contains the data, or of the generating program."""
        return ()

    def fetch(self, folder: Path) -> None:
        """Download missing files into `folder`. The default implementation cannot download.

        Raises:
            DataError: If the download fails.
        """
        raise self.not_found(folder, str(self.find_missing(folder)))

    def check(self, folder: Path) -> None:
        """Check that the set's files are in `folder`, without opening an image or importing a decoder.

        Raises:
            DataError: If a file is missing.
        """
        if missing_file := self.find_missing(folder):
            raise self.not_found(folder, missing_file)

    def find_missing(self, folder: Path) -> str | None:
        """Return the first missing source file, or its folder if that is missing too; None if all exist."""
        names = self.sources(folder)
        if isinstance(names, str):
            raise DataError(
                f"the reader of {self.config.title} must return a list from `sources`, but returned the text"
                f" {names!r}."
            )
        for name in names:
            if not (folder / name).is_file():
                parent = str(Path(name).parent)
                return name if parent == "." or (folder / parent).is_dir() else parent
        return None

    @final
    def not_found(self, folder: Path, missing_file: str) -> DataError:
        """Return the error for a missing file, with advice: set a path, download, or unpack an archive."""
        can_download = type(self).fetch is not Reader.fetch
        fix = "Pass --data DIR, set RECSTUDY_DATA, or add --download." if can_download else self.advice
        if type(self.config).__module__.startswith(DATA_MODULES):
            fix += f" docs/data/{self.config.name}.md has the source and the folder tree."
        for archive in [*(f"{missing_file}{ending}" for ending in PACKED), *self.archives]:
            if (folder / archive).is_file():
                fix = f"Unpack {archive} in its folder."
        return DataError(f"{self.config.title} not found under {folder} ({missing_file} is missing). {fix}")


class TableReader(Reader):
    """Reader of images that a table names. `choose` checks everything but the pixels before a run starts."""

    advice = "Pass --data DIR, set RECSTUDY_DATA or data.path."

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.chosen = lru_cache(maxsize=1)(self.choose)

    @abstractmethod
    def choose(self, folder: Path) -> Any:
        """Choose images without opening one, and return them with all source files as `sources`.

        `chosen` keeps the result.
        """

    def sources(self, folder: Path) -> Sequence[str]:
        return list(self.chosen(folder).sources)

    def check(self, folder: Path) -> None:
        self.chosen(folder)


class DrawingReader(Reader):
    """Reader of a set that a program contains or generates, without source files.

    Args:
        config: Config of the set.
        draw: Returns the set. Its argument is the data folder, for other files such as a tokenizer's.
        program: Name and version of the program. They are part of the cache's digest, so raise the version
            with every change of the images.
        ignores: Fields of the config that do not affect the arrays.
    """

    def __init__(
        self,
        config: Any,
        draw: Callable[[Path], Arrays],
        *program: str | int,
        ignores: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(config)
        self.draw, self.drawing, self.ignores = draw, program, ignores

    def sources(self, folder: Path) -> Sequence[str]:
        return ()

    def program(self) -> Sequence[str | int]:
        return self.drawing

    def decode(self, folder: Path) -> Arrays:
        return self.draw(folder)


def counts_within(sizes: Labels) -> Labels:
    """Return 0, 1, ... for the members of each group, one group after the other, from the groups' sizes."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def generator(drawing_seed: int, *numbers: int) -> np.random.Generator:
    """Return the source of a generated set's random numbers."""
    # Seed 0 adds no number, so it gives the same images as before the setting existed.
    return np.random.default_rng([*numbers, drawing_seed] if drawing_seed else numbers)
