"""How a reader makes arrays of image files, and any folder of them by class.

Pillow is imported where it is used, so that a warm cache costs none of it.

Shapes: N images, C channels, H height, W width, K classes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from pydantic import Field

from recstudy.config import DATASETS, DataConfig, Shape
from recstudy.data.reader import Decoded, Pixels, Reader, np
from recstudy.errors import DataError
from recstudy.files import stand_in

if TYPE_CHECKING:
    from PIL import Image

Item = TypeVar("Item")
Done = TypeVar("Done")
PIECE = 1024  # images that wait to be decoded at a time
GREY_MODES = ("1", "L", "LA", "La")
ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp", ".jp2", ".pgm", ".ppm"})


def in_threads(function: Callable[[Item], Done], items: Sequence[Item]) -> Iterator[Done]:
    """Yield the result for each item, in order, on all cores: Pillow lets other threads run while it decodes."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(items), PIECE):
            yield from pool.map(function, items[start : start + PIECE])


def images_are(count: int | np.integer[Any]) -> str:
    return "1 image is" if count == 1 else f"{count:,} images are"


def images_missing(place: Path, count: int, of: str, first: str) -> DataError:
    """Return what to raise where so many images are missing below `place`, `of` how many, such as `2 of 7 images`."""
    are, them = ("is missing:", "it") if count == 1 else ("are missing, the first is", "them")
    return DataError(f"{place}: {of} {are} {first}. Put {them} there, or go on without {them} with --allow-missing.")


class DecodedImage(NamedTuple):
    """The pixels of one file, and what a note must say of it: keys of `REMARKS`, or the bits that its values take."""

    pixels: Pixels  # (C, size, size)
    remarks: tuple[str, ...]


REMARKS = {
    "transparent": "transparent in part: shown on white",
    "several frames": "of several frames or pages: the first is read",
    "colour": "in colour: converted to grey",
}
DEPTHS = (8, 10, 12, 14, 16)  # bits of the values of scanners and cameras, which files of 16 bits store


def image_notes(remarks: Counter[str]) -> list[str]:
    """Return the notes of a data set on what was changed in how many of its images."""
    return [f"{images_are(remarks[name])} {words}" for name, words in REMARKS.items() if remarks[name]]


def decode(file: Path, size: int, mode: str) -> Pixels:
    """Return the pixels (C, size, size) of `decode_image`."""
    return decode_image(file, size, mode).pixels


def decode_image(file: Path, size: int, mode: str) -> DecodedImage:
    """Decode a file as a viewer shows it: turned by its EXIF mark, a transparent ground as white, the first frame.

    The shorter side is resized (bilinear, antialiased) and the centre cut out, as torchvision does.

    Raises:
        DataError: no image, or one of more than 8 bits a channel, whose values Pillow would cut off.
    """
    with _opened(file) as image:
        if image.mode.startswith(("I", "F")) or _is_deep(image):
            raise DataError(f"{file} has more than 8 bits a channel ({_depth(image)}). Save it with 8.")
        shown, remarks = _as_shown(image)
        square = _square(shown.convert(mode), size)
        return DecodedImage(np.asarray(square).reshape(size, size, -1).transpose(2, 0, 1), remarks)


def decode_grey(file: Path, size: int, bits: int = 16) -> DecodedImage:
    """Decode (1, size, size) as `decode_image` does; grey values of 16 bits are scaled so that `bits` of them become 8.

    Of such an image the remark is the least of `DEPTHS` that its values fit into, such as `12-bit`.

    Raises:
        DataError: no image, or one of other values than 8 bits a channel or 16 bits of grey.
    """
    from PIL import Image

    with _opened(file) as image:
        if image.mode.startswith("F") or _is_deep(image):
            raise DataError(f"{file} is no grey image of 8 or 16 bits ({_depth(image)}). Save it as one.")
        is_wide = image.mode.startswith("I")
        image, remarks = _as_shown(image)
        if is_wide:
            values = np.asarray(image).astype(np.int64)
            if values.min() < 0 or values.max() > 65_535:
                raise DataError(
                    f"{file} has values from {values.min():,} to {values.max():,}, outside of 16 bits (0 to 65,535). "
                    "Save it with 8 or 16 bits."
                )
            depth = next(depth for depth in DEPTHS if values.max() < 2**depth)
            image = Image.fromarray(np.round(values * (255 / (2**bits - 1))).clip(0, 255).astype(np.uint8))
            remarks += (f"{depth}-bit",)
        elif image.mode not in GREY_MODES:
            remarks += ("colour",)
        return DecodedImage(np.asarray(_square(image.convert("L"), size))[None], remarks)


def _as_shown(image: Image.Image) -> tuple[Image.Image, tuple[str, ...]]:
    """Return the first frame as a viewer shows it, and the remarks on it."""
    from PIL import Image, ImageOps

    remarks: tuple[str, ...] = ("several frames",) if getattr(image, "n_frames", 1) > 1 else ()
    image = ImageOps.exif_transpose(image)
    if image.has_transparency_data and not image.mode.startswith("I"):
        rgba = image.convert("RGBA")
        opacity = np.asarray(rgba.getchannel("A"))
        if opacity.min() < 255:
            on_white = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
            if np.ptp(opacity) and not np.ptp(np.asarray(on_white), axis=(0, 1)).any():
                raise ValueError("it is white on a transparent ground, which is shown on white")
            image = on_white.convert("L" if image.mode in GREY_MODES else "RGB")
            remarks += ("transparent",)
    return image, remarks


def _is_deep(image: Image.Image) -> bool:
    """Return whether Pillow drops the low half of 16 bits a channel, as it does but in images of grey alone."""
    return not image.mode.startswith(("I", "F")) and ";16" in str(getattr(image, "tile", ""))


def _depth(image: Image.Image) -> str:
    return f"mode {image.mode}, 16 bits a channel" if _is_deep(image) else f"mode {image.mode}"


@contextmanager
def _opened(file: Path) -> Iterator[Image.Image]:
    from PIL import Image

    try:
        with Image.open(file) as image:
            yield image
    except (OSError, EOFError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        problem = stand_in(file) or f"cannot be read as an image ({str(error).splitlines()[0]}). Replace or remove it."
        raise DataError(f"{file} {problem}") from None


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
        remarks = Counter[str]()
        for part in ("train", "test"):
            files = self._files(folder, part)
            paths = [folder / self.config.path / part / file for file, _ in files]
            images = np.empty((len(files), *self.config.shape), np.uint8)
            for row, image in enumerate(in_threads(partial(decode_image, size=self.config.size, mode=mode), paths)):
                images[row] = image.pixels
                remarks.update(image.remarks)
            parts += [images, np.array([label for _, label in files], np.int64)]
        return Decoded(*parts)._replace(notes=tuple(image_notes(remarks)))

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
