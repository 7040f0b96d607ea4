"""The augmentations by name. Importing this loads no torch: recstudy's own are computed in `augment.py`."""

from typing import TYPE_CHECKING

from recstudy.config import AUGMENTATIONS

if TYPE_CHECKING:
    from torch import Generator, Tensor


@AUGMENTATIONS.add("crop")
def crop(images: "Tensor", generator: "Generator", *, padding: int = 4) -> "Tensor":
    """Each image cut out of itself padded with zeros all round, at its own offset."""
    from recstudy.data import augment

    return augment.crop(images, padding, generator)


@AUGMENTATIONS.add("flip")
def flip(images: "Tensor", generator: "Generator") -> "Tensor":
    """Half of the images mirrored left to right."""
    from recstudy.data import augment

    return augment.flip(images, generator)


@AUGMENTATIONS.add("randaugment")
def randaugment(images: "Tensor", generator: "Generator", *, magnitude: int = 9) -> "Tensor":
    """One of 14 operations on each image."""
    from recstudy.data import augment

    return augment.randaugment(images, magnitude, generator)
