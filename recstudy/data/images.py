"""Decoded images: what a reader gives, and how it makes arrays of image files.

Pillow is imported where it is used, so that a warm cache costs none of it.

Shapes: N images, C channels, H height, W width, K classes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from recstudy.errors import DataError

if TYPE_CHECKING:
    from PIL import Image

Pixels: TypeAlias = npt.NDArray[np.uint8]
Labels: TypeAlias = npt.NDArray[np.int64]
Tokens: TypeAlias = npt.NDArray[np.int32]
Mask: TypeAlias = npt.NDArray[np.bool_]

GREY_MODES = ("1", "L", "LA", "La")


class Decoded(NamedTuple):
    """A data set in memory: images (N, C, H, W) uint8 and labels of both official splits, and what only some sets have.

    Labels are (N,) int64, a class each; (N, K) int64 of 1 (yes), 0 (no) or -1 (unknown) where there are several an image;
    or (N, T) int32, the tokens of each image's first caption.
    """

    train_images: Pixels
    train_labels: Labels | Tokens
    test_images: Pixels
    test_labels: Labels | Tokens
    train_groups: Labels | None = None  # (N,) the patient of each image, counted from 0 over the training, then the test images
    test_groups: Labels | None = None
    train_held: Mask | None = None  # (N,) images that the set itself holds out for validation
    notes: tuple[str, ...] = ()  # what a reader of the results should know of the decoding
    train_captions: list[list[str]] | None = None  # N texts of each image, where there are captions
    test_captions: list[list[str]] | None = None
    tokenizer: dict[str, Any] | None = None  # what made tokens of them, as `Tokenizer.stored` gives it


def decode(file: Path, size: int, mode: str) -> Pixels:
    """(C, size, size): the shorter side resized (bilinear, antialiased), then the centre; as torchvision's Resize, CenterCrop."""
    with _opened(file) as image:
        if image.mode.startswith(("I", "F")):  # Pillow would clip their values to 255 without a word
            raise DataError(f"{file} has more than 8 bits a channel (mode {image.mode}). Save it with 8.")
        square = _square(image.convert(mode), size)
        return np.asarray(square).reshape(size, size, -1).transpose(2, 0, 1)


def decode_grey(file: Path, size: int) -> tuple[Pixels, str]:
    """(1, size, size), cut as `decode` does, and what the file was: `grey`, `16-bit` (now value / 257) or `colour`."""
    with _opened(file) as image:
        if image.mode.startswith("F"):
            raise DataError(f"{file} has floating-point values (mode {image.mode}). Save it with 8 or 16 bits.")
        deep = image.mode.startswith("I")
        kind = "16-bit" if deep else "grey" if image.mode in GREY_MODES else "colour"
        grey = _eight_bits(image) if deep else image.convert("L")
        return np.asarray(_square(grey, size))[None], kind


@contextmanager
def _opened(file: Path) -> "Iterator[Image.Image]":
    from PIL import Image

    try:
        with Image.open(file) as image:
            yield image
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{file} cannot be read as an image ({str(error).splitlines()[0]}). Replace or remove it.") from None


def _eight_bits(image: "Image.Image") -> "Image.Image":
    """65,535 = 257 * 255: both ends stay ends."""
    from PIL import Image

    values = np.asarray(image).astype(np.float64)
    return Image.fromarray(np.round(values / 257).clip(0, 255).astype(np.uint8))


def _square(image: "Image.Image", size: int) -> "Image.Image":
    from PIL import Image

    shorter = min(image.size)
    width, height = (size * side // shorter for side in image.size)
    if shorter != size:
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.crop((left, top, left + size, top + size))
