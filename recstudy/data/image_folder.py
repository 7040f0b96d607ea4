"""Any folder of images by class."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from recstudy.config import DATASETS, DataConfig, Shape
from recstudy.data.images import decode, in_threads
from recstudy.data.lazy import np
from recstudy.data.reader import Decoded, Reader
from recstudy.errors import DataError


@DATASETS.add("folder")
class ImageFolder(DataConfig):
    """Any folder of images by class: `PATH/train/CLASS/*.png`, `PATH/test/CLASS/*.png`, below the data folder."""

    name: Literal["folder"] = "folder"
    path: str = Field(description="below the data folder, such as `cifar100_subset`")
    class_count: int = Field(ge=2, description="classes; checked against the folders")
    size: int = Field(32, ge=4, le=1024, description="images are resized and centre-cropped to this many pixels a side")
    channels: Literal[1, 3] = 3

    @property
    def title(self) -> str:
        return self.path

    @property
    def shape(self) -> Shape:
        return (self.channels, self.size, self.size)

    @property
    def classes(self) -> int:
        return self.class_count

    def reader(self) -> ImageFolderReader:
        return ImageFolderReader(self)


class ImageFolderReader(Reader):
    """Labels are the positions of the sorted class names."""

    config: ImageFolder

    def sources(self, folder: Path) -> Sequence[str]:
        return [f"{self.config.path}/{part}/{file}" for part in ("train", "test") for file, _ in self._files(folder, part)]

    def decode(self, folder: Path) -> Decoded:
        mode = "RGB" if self.config.channels == 3 else "L"
        parts: list[Any] = []
        for part in ("train", "test"):
            files = self._files(folder, part)
            paths = [folder / self.config.path / part / file for file, _ in files]
            images = np.empty((len(files), *self.config.shape), np.uint8)
            for row, pixels in enumerate(in_threads(partial(decode, size=self.config.size, mode=mode), paths)):
                images[row] = pixels
            parts += [images, np.array([label for _, label in files], np.int64)]
        return Decoded(*parts)

    def check(self, folder: Path) -> None:
        """Refuse (DataError) parts that have not the classes that the config counts, each with an image."""
        train, test = (set(self._classes(folder, part)) for part in ("train", "test"))
        place, found = folder / self.config.path, len(train)
        for name in sorted(train ^ test):
            has, lacks = ("train", "test") if name in train else ("test", "train")
            raise DataError(
                f"{place / lacks / name} is missing: class {name!r} is in {has} only. Give both the same class folders."
            )
        if found != self.config.class_count:
            raise DataError(
                f"{place / 'train'} has {found} class folders, but data.class_count is {self.config.class_count}. "
                f"Set it to {found}."
            )
        for part in ("train", "test"):
            known = {file.partition("/")[0] for file, _ in self._files(folder, part)}
            for kind in sorted(train - known):
                raise DataError(
                    f"{place / part / kind} has no images. Put those of its class there, in no folder below it, or remove the "
                    "class from train and test."
                )

    def _classes(self, folder: Path, part: str) -> list[str]:
        try:
            with os.scandir(folder / self.config.path / part) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            raise self.not_found(folder, f"{self.config.path}/{part}") from None

    def _files(self, folder: Path, part: str) -> list[tuple[str, int]]:
        """Return the images of a part, with their labels. Every visible file counts, so that a stray one is named."""
        found: list[tuple[str, int]] = []
        for label, kind in enumerate(self._classes(folder, part)):
            with os.scandir(folder / self.config.path / part / kind) as entries:
                names = sorted(entry.name for entry in entries if not entry.is_dir() and not entry.name.startswith("."))
            found += [(f"{kind}/{name}", label) for name in names]
        return found
