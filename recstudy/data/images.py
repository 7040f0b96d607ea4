"""How a reader makes arrays of image files.

Pillow is imported where it is used, so that a warm cache costs none of it.

Shapes: N images, C channels, H height, W width, K classes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from recstudy.data.lazy import np
from recstudy.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt
    from PIL import Image

    Pixels: TypeAlias = npt.NDArray[np.uint8]
    Labels: TypeAlias = npt.NDArray[np.int64]
    Tokens: TypeAlias = npt.NDArray[np.int32]
    Mask: TypeAlias = npt.NDArray[np.bool_]
else:
    Pixels = Labels = Tokens = Mask = Any  # no process looks them up

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
