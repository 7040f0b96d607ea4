"""Training images, changed at random: a whole batch at once, on the device the images are on.

    crop, flip     a random shift with zero padding; a mirror image for half of them (uint8 to uint8)
    randaugment    Cubuk et al. 2019 (1909.13719): 14 operations, 31 levels, each image draws its own (uint8 to uint8)
    more           what a user has registered, by name, under the same contract (uint8 to uint8)
    mix            Mixup (1710.09412) or CutMix (1905.04899), one draw a batch (float images, class probabilities)

torchvision augments image by image on the CPU; a GPU would wait for it. Here what is random is drawn on the
CPU from the generator that is given, sent over in one piece, and the images are sorted by operation, so that
each operation runs once a batch. Nothing waits for the device, and nothing touches the global random state.

Shapes: B images, C channels, H height, W width, P = H W pixels, K classes.
"""

from __future__ import annotations

import math
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING

from recstudy.config import AUGMENTATIONS, Augment
from recstudy.data.reader import np, torch
from recstudy.errors import ConfigError

if TYPE_CHECKING:
    from torch import Generator, Tensor

LEVELS = 31
# In torchvision's order: one that keeps, those that move pixels, those that change their values.
MOVES = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
SIGNED_COLOURS = ("Brightness", "Color", "Contrast", "Sharpness")
OPERATIONS = ("Identity", *MOVES, *SIGNED_COLOURS, "Posterize", "Solarize", "AutoContrast", "Equalize")
SIGNED = tuple(name in MOVES + SIGNED_COLOURS for name in OPERATIONS)
# At the highest level: shear in pixels a pixel, shift as a share of the side, degrees, blend factor off 1.
HIGHEST = {
    "ShearX": 0.3,
    "ShearY": 0.3,
    "TranslateX": 150 / 331,
    "TranslateY": 150 / 331,
    "Rotate": 30.0,
} | dict.fromkeys(SIGNED_COLOURS, 0.9)


def augment(images: Tensor, settings: Augment, generator: Generator, labels: Tensor | None = None) -> Tensor:
    """Crop, flip, RandAugment and more for `images` (B, C, H, W) uint8, as far as `settings` has them on.

    An augmentation that has an argument `labels` is given those of the images.

    Raises:
        ConfigError: an augmentation gave other than uint8 images of the same shape.
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
                f"the augmentation {name!r} must give images {expected_type}, as it gets them, but gave {actual_type}"
            )
        images = changed
    return images


@AUGMENTATIONS.add("crop")
def crop(images: Tensor, generator: Generator, *, padding: int = 4) -> Tensor:
    """Cut each image (C, H, W) out of itself padded with `padding` zeros all round, at its own offset."""
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
    """Mirror each image (C, H, W) left to right with probability 1/2."""
    mirrored = torch.rand(len(images), generator=generator) < 0.5
    return torch.where(send(mirrored, images.device)[:, None, None, None], images.flip(-1), images)


@AUGMENTATIONS.add("randaugment")
def randaugment(images: Tensor, generator: Generator, *, magnitude: int = 9) -> Tensor:
    """Do one of 14 operations on each image (C, H, W) uint8, C 1 or 3; `magnitude` 0..30. The sign is drawn
    where there is one.

    Equal to torchvision's RandAugment with one operation, nearest interpolation and fill 0, for the
    operations drawn.
    """
    kinds = torch.randint(len(OPERATIONS), (len(images),), generator=generator)
    minus = torch.rand(len(images), generator=generator) < 0.5
    return apply(images, 2 * kinds + (minus & torch.tensor(SIGNED)[kinds]), magnitude)


def apply(images: Tensor, codes: Tensor, magnitude: int) -> Tensor:
    """Apply operation `codes[b] // 2` of OPERATIONS to image b, negative where the code is odd; codes (B,) on
    the CPU.
    """
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
    """Return an operation's strength at one of the 31 levels; a shift is a share of the side. As torchvision,
    in float32.
    """
    if name == "Posterize":
        return 8 - round(magnitude / ((LEVELS - 1) / 4))  # bits that stay
    if name == "Solarize":
        # the share of 255 from which on values are inverted
        return float(torch.linspace(1, 0, LEVELS)[magnitude])
    return float(torch.linspace(0, HIGHEST[name], LEVELS)[magnitude])


@lru_cache(maxsize=8)
def _source_pixels(H: int, W: int, magnitude: int, device: torch.device) -> Tensor:
    """Return (2 x moves, P): which pixel, counted from 1, each pixel comes from; 0 is outside the image.

    All images of one operation move alike, so torchvision moves a picture of the pixel numbers, once.
    """
    numbers = torch.arange(1, H * W + 1, dtype=torch.float32).view(1, H, W)
    maps = [_affine(numbers, name, sign * level(name, magnitude)) for name in MOVES for sign in (1, -1)]
    return torch.stack(maps).view(len(maps), H * W).long().to(device)


def _affine(image: Tensor, name: str, strength: float) -> Tensor:
    """Move as torchvision's RandAugment does: it shears about the corner, by an angle whose tangent is the
    strength.
    """
    # here: a third of a second of each process that augments nothing
    from torchvision.transforms.v2 import functional as F

    H, W = image.shape[-2:]
    if name == "Rotate":
        return F.rotate(image, angle=strength)
    degrees = math.degrees(math.atan(strength))
    shear = [degrees if name == "ShearX" else 0.0, degrees if name == "ShearY" else 0.0]
    shift = [
        int(strength * W) if name == "TranslateX" else 0,
        int(strength * H) if name == "TranslateY" else 0,
    ]
    corner = [0.0, 0.0] if name.startswith("Shear") else None
    return F.affine(image, angle=0.0, translate=shift, scale=1.0, shear=shear, center=corner)


def _recolour(images: Tensor, name: str, magnitude: int, minus: bool) -> Tensor:
    # here: a third of a second of each process that augments nothing
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
    """Do as torchvision's adjust_sharpness, which sends its 3x3 kernel (all 1, centre 5) to the device and
    waits.
    """
    sharp = images.float()
    inside = sharp[..., 1:-1, 1:-1]
    rows = sharp[..., :-2, :] + sharp[..., 1:-1, :] + sharp[..., 2:, :]
    blurred = (rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]).add_(inside, alpha=4).div_(13).round_()
    inside.add_(blurred.sub_(inside), alpha=1 - factor)
    return sharp.clamp_(0, 255).to(images.dtype)


def mix(
    images: Tensor, labels: Tensor, classes: int, settings: Augment, generator: Generator
) -> tuple[Tensor, Tensor | None]:
    """Mix each image of the batch with a partner: images (B, C, H, W) float and targets (B, K) that sum to 1.

    Mixup blends the two, CutMix pastes a box of the partner; with both on, the batch draws one of them. With
    neither on, the images come back as they are, with None.
    """
    if not settings.mixup and not settings.cutmix:
        return images, None
    # torch has no seeded Beta
    draw = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    partners = send(torch.randperm(len(images), generator=generator), images.device)
    if settings.cutmix and (not settings.mixup or draw.random() < 0.5):
        # CutMix pastes a box with the share 1 - lambda of the image and any centre; what is clipped at the
        # border is given back.
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
    """Copy to the device without waiting for it: only pinned memory is copied while the host goes on."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
