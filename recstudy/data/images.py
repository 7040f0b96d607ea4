"""How a reader makes arrays of image files, and any folder of them by class.

Pillow is imported where it is used, so that a warm cache costs none of it.

Shapes: N images, C channels, H height, W width, K classes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from recstudy.config import DATASETS, DataConfig, Shape
from recstudy.data.reader import Arrays, Pixels, Reader, np
from recstudy.errors import DataError
from recstudy.files import refuse_stand_in

if TYPE_CHECKING:
    from PIL import Image

PIECE = 1024  # images that wait to be decoded at a time
GREY_MODES = ("1", "L", "LA", "La")
ENDINGS = frozenset(
    {".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp", ".jp2", ".pgm", ".ppm"}
)
DEPTHS = (8, 10, 12, 14, 16)  # bits of the values of scanners and cameras, which files of 16 bits store
REMARKS = {
    "transparent": "transparent in part: shown on white",
    "several frames": "of several frames or pages: the first is read",
    "colour": "in colour: converted to grey",
    "unreadable": "not readable: left out",
}


def images_are(count: int | np.integer[Any]) -> str:
    return "1 image is" if count == 1 else f"{count:,} images are"


def images_missing(place: Path, count: int, of: str, first: str) -> DataError:
    """Return what to raise where so many images are missing below `place`, `of` how many, such as `2 of 7
    images`.
    """
    are, them = ("is missing:", "it") if count == 1 else ("are missing, the first is", "them")
    return DataError(
        f"{place}: {of} {are} {first}. Put {them} there, or go on without {them} with --allow-missing."
    )


class DecodedImage(NamedTuple):
    """The pixels of one file, and the remarks on it for a note: keys of `REMARKS`, or the bits that its
    values take.
    """

    pixels: Pixels  # (C, size, size)
    remarks: tuple[str, ...]


def decode_all(
    decode: Callable[[Any], DecodedImage], items: Sequence[Any], shape: Shape
) -> tuple[Pixels, list[tuple[str, ...]]]:
    """Decode all items, in order, on all cores: Pillow lets other threads run while it decodes.

    Returns:
        The pixels (N, C, H, W), and the remarks on each image.
    """
    pixels, remarks = np.empty((len(items), *shape), np.uint8), list[tuple[str, ...]]()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(items), PIECE):
            for image in pool.map(decode, items[start : start + PIECE]):
                pixels[len(remarks)] = image.pixels
                remarks.append(image.remarks)
    return pixels, remarks


def image_notes(remarks: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the notes of a data set on what was changed in how many of its images."""
    counts = Counter(chain.from_iterable(remarks))
    return [f"{images_are(counts[name])} {words}" for name, words in REMARKS.items() if counts[name]]


def decode_image(file: Path, size: int, mode: str, bits: int = 0) -> DecodedImage:
    """Decode a file as a viewer shows it: turned by its EXIF mark, a transparent ground as white, the first
    frame.

    The shorter side is resized (bilinear, antialiased) and the centre cut out, as torchvision does.

    Args:
        file: The image.
        size: Pixels a side.
        mode: "RGB" or "L", as Pillow calls them.
        bits: If given, the image becomes grey, and grey values of 16 bits are scaled so that `bits` of them
            become 8. The remark on such an image is the least of `DEPTHS` that its values fit into, such as
            `12-bit`.

    Raises:
        DataError: The file is no image, or one of more than 8 bits a channel, whose values Pillow would cut
            off. Grey values of 16 bits are read if `bits` are given.
    """
    from PIL import Image
    from torchvision.transforms.v2 import functional as F

    try:
        with Image.open(file) as image:
            is_wide = image.mode.startswith("I")
            # Pillow drops the low half of 16 bits a channel, but in images of grey alone.
            is_deep = not image.mode.startswith(("I", "F")) and ";16" in str(getattr(image, "tile", ""))
            if image.mode.startswith("F") or is_deep or (is_wide and not bits):
                depth = f"(mode {image.mode}{', 16 bits a channel' * is_deep})"
                if bits:
                    raise DataError(f"{file} is no grey image of 8 or 16 bits {depth}. Save it as one.")
                raise DataError(f"{file} has more than 8 bits a channel {depth}. Save it with 8.")
            frame, remarks = _as_shown(image)
            if is_wide:
                frame, depth_remark = _scaled(frame, file, bits)
                remarks += (depth_remark,)
            elif (
                bits
                and frame.mode not in GREY_MODES
                and np.ptp(np.asarray(frame.convert("RGB")), axis=2).any()
            ):
                remarks += ("colour",)
            square = F.center_crop(F.resize(frame.convert(mode), [size]), [size])
            return DecodedImage(np.asarray(square).reshape(size, size, -1).transpose(2, 0, 1), remarks)
    except (OSError, EOFError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        refuse_stand_in(file)
        raise DataError(
            f"{file} cannot be read as an image ({str(error).splitlines()[0]}). Replace or remove it."
        ) from None


def _scaled(image: Image.Image, file: Path, bits: int) -> tuple[Image.Image, str]:
    """Return grey values of 16 bits scaled so that `bits` of them become 8, and the remark on them."""
    from PIL import Image

    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65_535:
        raise DataError(
            f"{file} has values from {values.min():,} to {values.max():,}, outside of 16 bits (0 to 65,535). "
            "Save it with 8 or 16 bits."
        )
    depth = next(depth for depth in DEPTHS if values.max() < 2**depth)
    return (
        Image.fromarray(np.round(values * (255 / (2**bits - 1))).clip(0, 255).astype(np.uint8)),
        f"{depth}-bit",
    )


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


@DATASETS.add("folder")
class ImageFolder(DataConfig):
    """Any folder of images by class: `PATH/train/CLASS/*.png`, `PATH/test/CLASS/*.png`, below the data
    folder.
    """

    name: Literal["folder"] = "folder"
    path: str = Field(description="below the data folder, such as `cifar100_subset`")
    class_count: int = Field(ge=2, description="classes; checked against the folders")
    size: int = Field(
        32, ge=4, le=1024, description="images are resized and centre-cropped to this many pixels a side"
    )
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
        return [
            f"{self.config.path}/{part}/{file}"
            for part in ("train", "test")
            for file, _ in self._files(folder, part)
        ]

    def decode(self, folder: Path) -> Arrays:
        config = self.config
        decode = partial(decode_image, size=config.size, mode="RGB" if config.channels == 3 else "L")
        parts: list[Any] = []
        remarks: list[tuple[str, ...]] = []
        for part in ("train", "test"):
            files = self._files(folder, part)
            images, image_remarks = decode_all(
                decode, [folder / config.path / part / file for file, _ in files], config.shape
            )
            parts += [images, np.array([label for _, label in files], np.int64)]
            remarks += image_remarks
        return Arrays(*parts)._replace(notes=tuple(image_notes(remarks)))

    def check(self, folder: Path) -> None:
        """Refuse (DataError) parts that have not the classes that the config counts, each with an image."""
        train, test = (set(self._classes(folder, part)) for part in ("train", "test"))
        place, count = folder / self.config.path, len(train)
        for name in sorted(train ^ test):
            has, lacks = ("train", "test") if name in train else ("test", "train")
            raise DataError(
                f"{place / lacks / name} is missing: class {name!r} is in {has} only. Give both the same"
                " class folders."
            )
        if count != self.config.class_count:
            raise DataError(
                f"{place / 'train'} has {count} class folders, but data.class_count is"
                f" {self.config.class_count}. Set it to {count}."
            )
        for part in ("train", "test"):
            for name in sorted(train - {file.partition("/")[0] for file, _ in self._files(folder, part)}):
                raise DataError(
                    f"{place / part / name} has no images. Put those of its class there, in no folder below"
                    " it, or remove the class from train and test."
                )

    def _classes(self, folder: Path, part: str) -> list[str]:
        try:
            return _names(folder / self.config.path / part, are_folders=True)
        except (FileNotFoundError, NotADirectoryError):
            raise self.not_found(folder, f"{self.config.path}/{part}") from None

    def _files(self, folder: Path, part: str) -> list[tuple[str, int]]:
        """Return the images of a part, with their labels. Every visible file counts, so that a stray one is
        named.
        """
        place = folder / self.config.path / part
        classes = enumerate(self._classes(folder, part))
        return [
            (f"{name}/{file}", label)
            for label, name in classes
            for file in _names(place / name, are_folders=False)
        ]


def _names(place: Path, are_folders: bool) -> list[str]:
    """Return the visible files, or the folders, in `place`."""
    with os.scandir(place) as entries:
        return sorted(
            entry.name
            for entry in entries
            if entry.is_dir() == are_folders and not entry.name.startswith(".")
        )
