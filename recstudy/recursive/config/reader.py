"""The base class of readers. A reader knows which files a data set needs and decodes them into arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from recstudy.base.errors import DataError
from recstudy.recursive.config.arrays import Arrays, Labels, Mask, Pixels, Tokens, np, torch

__all__ = [
    "PATH_ADVICE",
    "Arrays",
    "DrawingReader",
    "Labels",
    "Mask",
    "Pixels",
    "Reader",
    "Tokens",
    "np",
    "torch",
]

PATH_ADVICE = "Pass --data DIR, set RECSTUDY_DATA or data.path."
PACKED = (".gz", ".zip", ".tar", ".tar.gz", ".tgz")  # endings of an archive


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

    def repeats(self, decoded: Arrays) -> tuple[str, ...] | None:
        """Return notes on repeated items. By default exact copies are counted among the decoded items."""
        return None

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
        for archive in [*(f"{missing_file}{ending}" for ending in PACKED), *self.archives]:
            if (folder / archive).is_file():
                fix = f"Unpack {archive} in its folder."
        return DataError(f"{self.config.title} not found under {folder} ({missing_file} is missing). {fix}")


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
