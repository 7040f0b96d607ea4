"""How a reader makes arrays of image files, and any folder of them by class.

Pillow is imported where it is used, so that a warm cache costs none of it.

Shapes: N images, C channels, H height, W width, K classes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field

from recstudy.config import DATASETS, DataConfig, Shape
from recstudy.data.reader import Decoded, Pixels, Reader, np
from recstudy.errors import DataError

if TYPE_CHECKING:
    from PIL import Image

Item = TypeVar("Item")
Done = TypeVar("Done")
PIECE = 1024  # images that wait to be decoded at a time
GREY_MODES = ("1", "L", "LA", "La")


def in_threads(one: Callable[[Item], Done], items: Sequence[Item]) -> Iterator[Done]:
    """Yield `one` of each item, in order, on all cores: Pillow lets other threads run while it decodes."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(items), PIECE):
            yield from pool.map(one, items[start : start + PIECE])


def images_are(count: int | np.integer[Any]) -> str:
    return "1 image is" if count == 1 else f"{count:,} images are"


def images_missing(place: Path, count: int, of: str, first: str) -> DataError:
    """Return what to raise where so many images are missing below `place`, `of` how many, such as `2 of 7 images`."""
    are, them = ("is missing:", "it") if count == 1 else ("are missing, the first is", "them")
    return DataError(f"{place}: {of} {are} {first}. Put {them} there, or go on without {them} with --allow-missing.")


def decode(file: Path, size: int, mode: str) -> Pixels:
    """Decode (C, size, size): the shorter side resized (bilinear, antialiased), then the centre, as torchvision does."""
    with _opened(file) as image:
        if image.mode.startswith(("I", "F")):  # Pillow would clip their values to 255 without a word
            raise DataError(f"{file} has more than 8 bits a channel (mode {image.mode}). Save it with 8.")
        square = _square(image.convert(mode), size)
        return np.asarray(square).reshape(size, size, -1).transpose(2, 0, 1)


def decode_grey(file: Path, size: int) -> tuple[Pixels, str]:
    """Decode (1, size, size), cut as `decode` does, and say what the file was: `grey`, `16-bit` (now value / 257) or `colour`."""
    from PIL import Image

    with _opened(file) as image:
        if image.mode.startswith("F"):
            raise DataError(f"{file} has floating-point values (mode {image.mode}). Save it with 8 or 16 bits.")
        deep = image.mode.startswith("I")
        kind = "16-bit" if deep else "grey" if image.mode in GREY_MODES else "colour"
        if deep:  # 65,535 = 257 * 255: both ends stay ends
            image = Image.fromarray(np.round(np.asarray(image).astype(np.float64) / 257).clip(0, 255).astype(np.uint8))
        else:
            image = image.convert("L")
        return np.asarray(_square(image, size))[None], kind


@contextmanager
def _opened(file: Path) -> Iterator[Image.Image]:
    from PIL import Image

    try:
        with Image.open(file) as image:
            yield image
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{file} cannot be read as an image ({str(error).splitlines()[0]}). Replace or remove it.") from None


def _square(image: Image.Image, size: int) -> Image.Image:
    from PIL import Image

    shorter = min(image.size)
    width, height = (size * side // shorter for side in image.size)
    if shorter != size:
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.crop((left, top, left + size, top + size))


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
