"""Decode image files into arrays, and the data set `folder`: one folder of images per class.

Pillow is imported inside functions, because a cached data set does not need it.

Shapes: N images, C channels, H height, W width, K classes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from recstudy.base.errors import DataError
from recstudy.base.files import refuse_stand_in
from recstudy.recursive.config.parts import DATASETS, DataConfig, Shape
from recstudy.recursive.config.reader import Arrays, Pixels, Reader, np

if TYPE_CHECKING:
    from PIL import Image

PIECE = 1024  # images that are queued for decoding at a time
GREY_MODES = ("1", "L", "LA", "La")
ENDINGS = frozenset(
    {".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp", ".jp2", ".pgm", ".ppm"}
)
DEPTHS = (8, 10, 12, 14, 16)  # bit depths of scanners and cameras, stored in files of 16 bits
REMARKS = {
    "transparent": "partly transparent: shown on white",
    "several frames": "of several frames or pages: the first one is read",
    "colour": "in colour: converted to grey",
    "unreadable": "not readable: left out",
}


def is_image(name: str) -> bool:
    """Return whether a file name has the ending of an image."""
    return PurePath(name).suffix.lower() in ENDINGS


def images_are(count: int | np.integer[Any]) -> str:
    """Return the beginning of a note, such as "2 images are"."""
    return "1 image is" if count == 1 else f"{count:,} images are"


def missing_notes(
    place: Path, missing_images: Sequence[str], images: str, table: str, is_allowed: bool
) -> list[str]:
    """Return a note on images that a table names and the folder lacks; no note if there are none.

    Args:
        place: Folder of the data set.
        missing_images: The missing images.
        images: All images in words, such as `7 images`.
        table: The table, for the note.
        is_allowed: Whether images may be missing.

    Raises:
        DataError: Images are missing, and none may be.
    """
    count = len(missing_images)
    if not count:
        return []
    if not is_allowed:
        are, them = ("is missing:", "it") if count == 1 else ("are missing. The first one is", "them")
        raise DataError(
            f"{place}: {count:,} of {images} {are} {missing_images[0]}. Add {them}, or pass --allow-missing"
            f" to leave {them} out."
        )
    return [f"{images_are(count)} named in {table} but missing: left out"]


class DecodedImage(NamedTuple):
    """The pixels of one file, and what the notes of the data set count."""

    pixels: Pixels  # (C, size, size)
    remarks: tuple[str, ...] = ()  # keys of `REMARKS`
    depth: int = 0  # the smallest of `DEPTHS` that a grey image of 16 bits fits into; 0 for other images


def decode_all(
    decode: Callable[[Any], DecodedImage], items: Sequence[Any], shape: Shape
) -> tuple[Pixels, list[DecodedImage]]:
    """Decode all items in order, on all cores.

    Args:
        decode: Decodes one item.
        items: The N items, such as files.
        shape: (C, H, W) of the decoded images.

    Returns:
        The pixels (N, C, H, W), and the images, whose pixels are rows of this array.
    """
    # Threads are enough, because Pillow releases Python's lock while it decodes.
    pixels, images = np.empty((len(items), *shape), np.uint8), list[DecodedImage]()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(items), PIECE):
            for image in pool.map(decode, items[start : start + PIECE]):
                row = pixels[len(images)]
                row[:] = image.pixels
                images.append(image._replace(pixels=row))
    return pixels, images


def image_notes(images: Iterable[DecodedImage]) -> list[str]:
    """Return notes that count the images that were changed while decoding."""
    counts = Counter(remark for image in images for remark in image.remarks)
    return [f"{images_are(counts[name])} {words}" for name, words in REMARKS.items() if counts[name]]


def decode_image(file: Path, size: int, mode: str, grey_bits: int | None = None) -> DecodedImage:
    """Decode the first frame of a file as a viewer shows it.

    The image is rotated by its EXIF orientation, and transparent pixels become white. The shorter side is
    resized (bilinear, antialiased) and the centre is cropped, as torchvision does.

    Args:
        file: The image.
        size: Pixels per side.
        mode: Pillow's "RGB" or "L".
        grey_bits: Grey values of 16 bits are scaled from this number of bits to 8 bits, and colours are
            remarked on. None refuses images of 16 bits.

    Raises:
        DataError: If the file is not an image, or has more than 8 bits per channel, which Pillow would cut
            off. Grey values of 16 bits are allowed if `grey_bits` is given.
    """
    from PIL import Image
    from torchvision.transforms.v2 import functional as F

    try:
        with Image.open(file) as image:
            is_wide = image.mode.startswith("I")
            # Pillow drops the lower 8 of 16 bits per channel, except in grey images.
            is_deep = not image.mode.startswith(("I", "F")) and ";16" in str(getattr(image, "tile", ""))
            if image.mode.startswith("F") or is_deep or (is_wide and not grey_bits):
                depth = f"(mode {image.mode}{', 16 bits per channel' * is_deep})"
                if grey_bits:
                    raise DataError(f"{file} is not a grey image of 8 or 16 bits {depth}. Save it as one.")
                raise DataError(f"{file} has more than 8 bits per channel {depth}. Save it with 8 bits.")
            frame, remarks = _as_shown(image)
            value_bits = 0
            if grey_bits and is_wide:
                values = np.asarray(frame).astype(np.int64)
                if values.min() < 0 or values.max() > 65_535:
                    raise DataError(
                        f"{file} has values from {values.min():,} to {values.max():,}, but values of 16 bits"
                        " are from 0 to 65,535. Save it with 8 or 16 bits."
                    )
                value_bits = next(bits for bits in DEPTHS if values.max() < 2**bits)
                scaled = np.round(values * (255 / (2**grey_bits - 1))).clip(0, 255)
                frame = Image.fromarray(scaled.astype(np.uint8))
            elif grey_bits and frame.mode not in GREY_MODES:
                colours = np.asarray(frame.convert("RGB"))
                remarks += ("colour",) * bool(np.ptp(colours, axis=2).any())
            square = F.center_crop(F.resize(frame.convert(mode), [size]), [size])
            pixels = np.asarray(square).reshape(size, size, -1).transpose(2, 0, 1)
            return DecodedImage(pixels, remarks, value_bits)
    except (OSError, EOFError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        refuse_stand_in(file)
        raise DataError(
            f"{file} cannot be read as an image ({str(error).splitlines()[0]}). Replace or remove it."
        ) from None


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
                # A white image on a transparent background would become a blank image.
                raise ValueError("it is white on a transparent background, which is shown on white")
            image = on_white.convert("L" if image.mode in GREY_MODES else "RGB")
            remarks += ("transparent",)
    return image, remarks


class ImageFolderReader(Reader):
    """Reader of a folder per class. A label is the position of the class in the sorted class names."""

    config: ImageFolder

    def sources(self, folder: Path) -> Sequence[str]:
        return [file for part in ("train", "test") for file, _ in self._files(folder, part)]

    def decode(self, folder: Path) -> Arrays:
        config = self.config
        decode = partial(decode_image, size=config.size, mode="RGB" if config.channels == 3 else "L")
        train, test = (self._files(folder, part) for part in ("train", "test"))
        pixels, images = decode_all(decode, [folder / file for file, _ in train + test], config.shape)
        labels = np.array([label for _, label in train + test], np.int64)
        decoded = Arrays.cut(len(train), images=pixels, labels=labels)
        return decoded._replace(notes=tuple(image_notes(images)))

    def check(self, folder: Path) -> None:
        """Check that both splits have the same classes, as many as the config says, each with an image.

        Raises:
            DataError: If a class or its images are missing, or the number of classes differs.
        """
        train, test = (set(self._classes(folder, part)) for part in ("train", "test"))
        place, count = folder / self.config.path, len(train)
        for name in sorted(train ^ test):
            has, lacks = ("train", "test") if name in train else ("test", "train")
            raise DataError(
                f"{place / lacks / name} is missing: class {name!r} is in {has} only. Train and test need the"
                " same class folders."
            )
        if count != self.config.class_count:
            raise DataError(
                f"{place / 'train'} has {count} class folders, but data.class_count is"
                f" {self.config.class_count}. Set it to {count}."
            )
        for part in ("train", "test"):
            for name in sorted(train):
                if not _names(place / part / name, are_folders=False):
                    raise DataError(
                        f"{place / part / name} has no images. Add images directly to this folder, or remove"
                        " the class from train and test."
                    )

    def _classes(self, folder: Path, part: str) -> list[str]:
        try:
            return _names(folder / self.config.path / part, are_folders=True)
        except (FileNotFoundError, NotADirectoryError):
            raise self.not_found(folder, f"{self.config.path}/{part}") from None

    def _files(self, folder: Path, part: str) -> list[tuple[str, int]]:
        """Return the files of a split, relative to `folder`, with their labels."""
        # Every visible file counts as an image, so an error names a stray file.
        files = []
        for label, name in enumerate(self._classes(folder, part)):
            place = f"{self.config.path}/{part}/{name}"
            files += [(f"{place}/{file}", label) for file in _names(folder / place, are_folders=False)]
        return files


@DATASETS.add("folder")
class ImageFolder(DataConfig):
    """Any images with one folder per class: `PATH/train/CLASS/*.png` and `PATH/test/CLASS/*.png`."""

    reader_type: ClassVar = ImageFolderReader

    name: Literal["folder"] = "folder"
    path: str
    """folder of the set, relative to the data folder, such as `cifar100_subset`"""
    class_count: int = Field(ge=2)
    """number of classes; must match the folders"""
    size: int = Field(32, ge=4, le=1024)
    """images are resized and centre-cropped to this many pixels per side"""
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


def _names(place: Path, are_folders: bool) -> list[str]:
    """Return the sorted names of the visible files, or folders, in `place`."""
    with os.scandir(place) as entries:
        return sorted(
            entry.name
            for entry in entries
            if entry.is_dir() == are_folders and not entry.name.startswith(".")
        )
