"""What reads a data set: which files decide its images, whether they are there, how they decode, and what
that gives.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from recstudy.data.checking import checked
from recstudy.data.decoded import Arrays, Labels, Mask, Pixels, Tokens, np, torch
from recstudy.data.repeats import repeat_notes
from recstudy.errors import DataError

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
    """Reads one data set. It runs once a machine: the cache keeps what `decode` gives until a source file, a
    field of the config or the reader's own code changes.

    A data set of one's own is a config and its reader, in the study's file or in a module beside it:

        from typing import ClassVar, Literal

        import numpy as np

        from recstudy.data import DATASETS, DataConfig, Arrays, Reader

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

    With `task` "multilabel" the labels are (N, classes) of 1, 0 and -1 (unknown). Groups, such as patients,
    and a validation split of the set's own are further fields of `Arrays`. The config of a captioned set is
    a `Captioned`, and `recstudy.data.text.with_tokens` makes what its reader gives; a table of captions in
    another layout than `CaptionFolder` reads takes a `CaptionReader` alone. What `decode` gives is checked
    before it is kept.
    """

    official: Mapping[str, str] = {}
    archives: Sequence[str] = ()  # below the data folder: what it is unpacked from, if that has another name
    ignores: frozenset[str] = frozenset()  # fields of the config that decide nothing of what is decoded
    advice = "Pass --data DIR or set RECSTUDY_DATA."  # where the files are missing

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def sources(self, folder: Path) -> Sequence[str]:
        """Return the files that decide the decoded images, by path below `folder`; none where a program holds
        or draws them.
        """

    @abstractmethod
    def decode(self, folder: Path) -> Arrays:
        """Return all images of both official splits. A DataError names the file that is missing, damaged or
        undecodable.
        """

    def program(self) -> Sequence[str | int]:
        """Return what else decides the images: name and version of the package that holds them, or of what
        draws them.
        """
        return ()

    def repeats(self, decoded: Arrays) -> tuple[str, ...]:
        """Return notes on items that occur more than once in the files: by default on exact copies of decoded
        items.
        """
        return repeat_notes(decoded, self.config)

    def fetch(self, folder: Path) -> None:
        """Download what is missing into `folder`; a DataError says why that failed. By default it cannot
        be.
        """
        raise self.not_found(folder, str(self.find_missing(folder)))

    def check(self, folder: Path) -> None:
        """Refuse (DataError) a set whose files are not below `folder`. Opens no image, and imports no
        decoder.
        """
        if missing_file := self.find_missing(folder):
            raise self.not_found(folder, missing_file)

    def find_missing(self, folder: Path) -> str | None:
        """Return the first source that is not there, or the folder that it should be in; None where all are
        there.
        """
        names = self.sources(folder)
        if isinstance(names, str):
            raise DataError(
                f"the reader of {self.config.title} must give a list of sources, but gave the text {names!r}."
            )
        for name in names:
            if not (folder / name).is_file():
                parent = str(Path(name).parent)
                return name if parent == "." or (folder / parent).is_dir() else parent
        return None

    @final
    def not_found(self, folder: Path, missing_file: str) -> DataError:
        can_download = type(self).fetch is not Reader.fetch
        fix = "Pass --data DIR, set RECSTUDY_DATA, or add --download." if can_download else self.advice
        for archive in [*(f"{missing_file}{ending}" for ending in PACKED), *self.archives]:
            if (folder / archive).is_file():
                fix = f"{archive} is there: unpack it in its folder."
        return DataError(f"{self.config.title} not found under {folder} ({missing_file} is missing). {fix}")

    @final
    def read(self, folder: Path) -> Arrays:
        """Return what `decode` gives, checked, with contiguous arrays, once the files are known to be there
        and official.
        """
        self.check(folder)
        for name, md5 in self.official.items():
            with open(folder / name, "rb") as file:
                if hashlib.file_digest(file, "md5").hexdigest() != md5:
                    raise DataError(
                        f"{folder / name} is damaged: its md5 is not the official one of {self.config.title}."
                        " Delete it and unpack or download it again."
                    )
        decoded = checked(self.decode(folder), self.config)
        return (
            decoded._replace(notes=(*decoded.notes, *self.repeats(decoded)))
            if self.sources(folder)
            else decoded
        )


class DrawingReader(Reader):
    """Reads no file: a program holds or draws the images.

    Args:
        config: of the set.
        draw: gives the set; the data folder is for what else it needs, such as a tokenizer's files.
        program: name and version of what holds or draws it, part of the cache's digest: raise it with every
            change of the images.
        ignores: fields of the config that decide nothing of what is drawn.
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
