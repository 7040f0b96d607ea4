"""Data augmentation of whole batches, on the device of the images. `batches.py` calls it.

    crop, flip     random shift with zero padding; horizontal flip with probability 1/2 (uint8 to uint8)
    randaugment    Cubuk et al. 2019 (1909.13719): 14 operations, 31 levels, drawn per image (uint8 to uint8)
    more           augmentations that a user has registered by name (uint8 to uint8)
    mix            Mixup (1710.09412) or CutMix (1905.04899), one draw per batch (float images, probabilities)

torchvision augments image by image on the CPU, and a GPU would wait for it. This module draws all random
numbers on the CPU from the given generator and sends them to the device in one copy. Images are sorted by
operation, so each operation runs once per batch. The code never waits for the device and does not change the
global random state.

Shapes: B images, C channels, H height, W width, P = H W pixels, K classes.
"""

from __future__ import annotations

import math
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING

from recstudy.base.errors import ConfigError
from recstudy.recursive.config.reader import np, torch
from recstudy.recursive.config.train import AUGMENTATIONS, Augment

if TYPE_CHECKING:
    from torch import Generator, Tensor

LEVELS = 31
# In torchvision's order: identity, operations that move pixels, operations that change their values.
MOVES = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
SIGNED_COLOURS = ("Brightness", "Color", "Contrast", "Sharpness")
OPERATIONS = ("Identity", *MOVES, *SIGNED_COLOURS, "Posterize", "Solarize", "AutoContrast", "Equalize")
SIGNED = tuple(name in MOVES + SIGNED_COLOURS for name in OPERATIONS)
# Strength at the highest level: shear in pixels per pixel, shift as a share of the side, rotation in degrees,
# distance of the blend factor from 1. The values are torchvision's.
HIGHEST = {
    "ShearX": 0.3,
    "ShearY": 0.3,
    "TranslateX": 150 / 331,
    "TranslateY": 150 / 331,
    "Rotate": 30.0,
} | dict.fromkeys(SIGNED_COLOURS, 0.9)


def augment(images: Tensor, settings: Augment, generator: Generator, labels: Tensor | None = None) -> Tensor:
    """Apply crop, flip, RandAugment and registered augmentations, as `settings` enables them.

    Args:
        images: (B, C, H, W) uint8.
        settings: The run's `train.augment`.
        generator: Source of all random numbers.
        labels: Labels of the images, passed to each augmentation that has a parameter `labels`.

    Returns:
        (B, C, H, W) uint8.

    Raises:
        ConfigError: If an augmentation returns another shape or type than it was given.
    """
    steps: list[tuple[str, dict[str, int]]] = [("crop", {"padding": settings.crop})] if settings.crop else []
    steps += [("flip", {})] if settings.flip else []
    steps += settings.randaugment_ops * [("randaugment", {"magnitude": settings.randaugment_magnitude})]
    for name, options in [*steps, *((name, {}) for name in settings.more)]:
        function = AUGMENTATIONS[name]
        label_options = {"labels": labels} if "labels" in signature(function).parameters else {}
        changed = function(images, generator, **options, **label_options)
        if changed.shape != images.shape or changed.dtype != images.dtype:
            expected_type, actual_type = (
                f"{tuple(some.shape)} {str(some.dtype).removeprefix('torch.')}" for some in (images, changed)
            )
            raise ConfigError(
                f"the augmentation {name!r} must return images {expected_type}, as it was given, but returned"
                f" {actual_type}"
            )
        images = changed
    return images


@AUGMENTATIONS.add("crop")
def crop(images: Tensor, generator: Generator, *, padding: int = 4) -> Tensor:
    """Shift each image at random: pad it with `padding` zeros on all sides and crop it to its old size."""
    B, C, H, W = images.shape
    offsets = torch.randint(2 * padding + 1, (2, B, 1), generator=generator)
    rows, columns = offsets[0] + torch.arange(H), offsets[1] + torch.arange(W)
    pixels_BHW = (
        send(rows, images.device)[:, :, None] * (W + 2 * padding) + send(columns, images.device)[:, None, :]
    )
    padded_BCP = torch.nn.functional.pad(images, (padding,) * 4).flatten(2)
    return padded_BCP.gather(2, pixels_BHW.view(B, 1, H * W).expand(B, C, H * W)).view(B, C, H, W)


@AUGMENTATIONS.add("flip")
def flip(images: Tensor, generator: Generator) -> Tensor:
    """Flip each image (C, H, W) horizontally with probability 1/2."""
    mirrored = torch.rand(len(images), generator=generator) < 0.5
    return torch.where(send(mirrored, images.device)[:, None, None, None], images.flip(-1), images)


@AUGMENTATIONS.add("randaugment")
def randaugment(images: Tensor, generator: Generator, *, magnitude: int = 9) -> Tensor:
    """Apply one of 14 random operations to each image. If the operation has a sign, the sign is random too.

    For the same operations, the result equals torchvision's RandAugment with one operation, nearest
    interpolation and fill 0.

    Args:
        images: (B, C, H, W) uint8 with C of 1 or 3.
        generator: Source of the random numbers.
        magnitude: Level of the strength, from 0 to 30.
    """
    kinds = torch.randint(len(OPERATIONS), (len(images),), generator=generator)
    minus = torch.rand(len(images), generator=generator) < 0.5
    return apply(images, 2 * kinds + (minus & torch.tensor(SIGNED)[kinds]), magnitude)


def apply(images: Tensor, codes: Tensor, magnitude: int) -> Tensor:
    """Apply operation `OPERATIONS[codes[b] // 2]` to image b, with negative strength if the code is odd.

    Args:
        images: (B, C, H, W) uint8.
        codes: (B,) on the CPU.
        magnitude: Level of the strength, from 0 to 30.
    """
    # Images are sorted by operation, so that each operation runs once per batch.
    order = torch.argsort(codes, stable=True)
    group_ends = torch.bincount(codes, minlength=2 * len(OPERATIONS)).cumsum(0).tolist()
    order_and_codes = send(torch.stack([order, codes[order]]), images.device)
    changed = images.index_select(0, order_and_codes[0])
    moved = slice(group_ends[1], group_ends[2 * len(MOVES) + 1])
    B, C, H, W = changed[moved].shape
    maps_BP = _source_pixels(H, W, magnitude, images.device).index_select(0, order_and_codes[1, moved] - 2)
    padded_BCP = torch.nn.functional.pad(changed[moved].flatten(2), (1, 0))  # pixel 0 is outside the image
    changed[moved] = padded_BCP.gather(2, maps_BP[:, None].expand(B, C, H * W)).view(B, C, H, W)
    for code in range(2 * len(MOVES) + 2, 2 * len(OPERATIONS)):
        group = slice(group_ends[code - 1], group_ends[code])
        if group.start < group.stop:
            changed[group] = _recolour(changed[group], OPERATIONS[code // 2], magnitude, minus=code % 2 == 1)
    return torch.empty_like(images).index_copy_(0, order_and_codes[0], changed)


def level(name: str, magnitude: int) -> float:
    """Return the strength of an operation at one of the 31 levels, in float32 as torchvision computes it.

    The strength of a translation is a share of the side.
    """
    if name == "Posterize":
        return 8 - round(magnitude / ((LEVELS - 1) / 4))  # bits that are kept
    if name == "Solarize":
        # Values above this share of 255 are inverted.
        return float(torch.linspace(1, 0, LEVELS)[magnitude])
    return float(torch.linspace(0, HIGHEST[name], LEVELS)[magnitude])


@lru_cache(maxsize=8)
def _source_pixels(H: int, W: int, magnitude: int, device: torch.device) -> Tensor:
    """Return (2 x moves, P): the number of the source pixel of each pixel, from 1; 0 is outside the image."""
    # An operation moves the pixels of all images alike. So torchvision transforms one image of the pixel
    # numbers, and the result is reused as an index.
    numbers = torch.arange(1, H * W + 1, dtype=torch.float32).view(1, H, W)
    maps = [_affine(numbers, name, sign * level(name, magnitude)) for name in MOVES for sign in (1, -1)]
    return torch.stack(maps).view(len(maps), H * W).long().to(device)


def _affine(image: Tensor, name: str, strength: float) -> Tensor:
    """Move pixels as torchvision's RandAugment does."""
    # The import takes a third of a second, which processes without augmentation do not spend.
    from torchvision.transforms.v2 import functional as F

    H, W = image.shape[-2:]
    if name == "Rotate":
        return F.rotate(image, angle=strength)
    # torchvision shears about the upper left corner. The tangent of the angle is the strength.
    degrees = math.degrees(math.atan(strength))
    shear = [degrees if name == "ShearX" else 0.0, degrees if name == "ShearY" else 0.0]
    shift = [
        int(strength * W) if name == "TranslateX" else 0,
        int(strength * H) if name == "TranslateY" else 0,
    ]
    corner = [0.0, 0.0] if name.startswith("Shear") else None
    return F.affine(image, angle=0.0, translate=shift, scale=1.0, shear=shear, center=corner)


def _recolour(images: Tensor, name: str, magnitude: int, minus: bool) -> Tensor:
    # A late import, as in `_affine`.
    from torchvision.transforms.v2 import functional as F

    if name == "AutoContrast":
        return F.autocontrast(images)
    if name == "Equalize":
        return F.equalize(images)
    strength = level(name, magnitude)
    if name == "Posterize":
        return F.posterize(images, int(strength))
    if name == "Solarize":
        return F.solarize(images, 255 * strength)
    factor = 1 - strength if minus else 1 + strength
    blend = {
        "Brightness": F.adjust_brightness,
        "Color": F.adjust_saturation,
        "Contrast": F.adjust_contrast,
        "Sharpness": _sharpen,
    }
    return blend[name](images, factor)


def _sharpen(images: Tensor, factor: float) -> Tensor:
    """Return what torchvision's adjust_sharpness returns, without waiting for the device."""
    # torchvision sends its 3x3 kernel (all 1, centre 5) to the device and waits for the copy. Sums of shifted
    # images need no kernel: the sum of nine pixels plus four times the centre, divided by 13.
    sharp = images.float()
    inside = sharp[..., 1:-1, 1:-1]
    rows = sharp[..., :-2, :] + sharp[..., 1:-1, :] + sharp[..., 2:, :]
    blurred = (rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]).add_(inside, alpha=4).div_(13).round_()
    inside.add_(blurred.sub_(inside), alpha=1 - factor)
    return sharp.clamp_(0, 255).to(images.dtype)


def mix(
    images: Tensor, labels: Tensor, classes: int, settings: Augment, generator: Generator
) -> tuple[Tensor, Tensor | None]:
    """Mix each image of the batch with a random partner, by Mixup or CutMix.

    Mixup blends the two images. CutMix pastes a box of the partner. If both are enabled, the batch draws one
    of them. If none is enabled, the images are returned unchanged.

    Args:
        images: (B, C, H, W) float.
        labels: (B,) classes.
        classes: K.
        settings: The run's `train.augment`.
        generator: Source of all random numbers.

    Returns:
        The images, and the targets (B, K) that sum to 1 per image; None if nothing is mixed.
    """
    if not settings.mixup and not settings.cutmix:
        return images, None
    # torch has no seeded Beta distribution, so NumPy draws, seeded by the generator.
    draw = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    partners = send(torch.randperm(len(images), generator=generator), images.device)
    if settings.cutmix and (not settings.mixup or draw.random() < 0.5):
        # The box has the share 1 - lambda of the image and a uniform centre. If the border clips the box,
        # lambda is recomputed from its remaining area, as in the paper's code.
        H, W = images.shape[-2:]
        half = 0.5 * math.sqrt(1 - draw.beta(settings.cutmix, settings.cutmix))
        y, x = int(draw.integers(H)), int(draw.integers(W))
        rows, columns = (
            slice(max(c - int(half * n), 0), min(c + int(half * n), n)) for c, n in ((y, H), (x, W))
        )
        mixed = images.clone()
        mixed[:, :, rows, columns] = images[partners, :, rows, columns]
        share = 1 - (rows.stop - rows.start) * (columns.stop - columns.start) / (H * W)
    else:
        share = float(draw.beta(settings.mixup, settings.mixup))
        mixed = torch.lerp(images[partners], images, share)
    one_hot = torch.zeros(len(images), classes, device=images.device).scatter_(1, labels[:, None], 1.0)
    return mixed, torch.lerp(one_hot[partners], one_hot, share)


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy to the device without waiting for it."""
    # CUDA copies asynchronously from pinned memory only.
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
