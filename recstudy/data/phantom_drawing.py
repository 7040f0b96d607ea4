"""How the phantom is drawn: a chest from a patient's measures, and one visible sign a finding.

Lengths are in half image sides: x from -1 (left) to 1, y from -1 (top) to 1. Brightness goes from 0 (air) to 1 (bone).
No step calls a function whose last digit depends on the processor (exp, sin), so the images are the same bytes everywhere.

Shapes: N images, S pixels a side; what is written Array here broadcasts to (N, S, S).
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]

GRID = 12  # points a side of the lung markings
NOISE = 0.25  # width of the uniform noise of each pixel

# A patient's measures, uniform between the two.
MEASURES = {
    "body": (0.82, 0.95),  # half width
    "apart": (0.38, 0.45),  # of the lungs' centres, off the middle
    "width": (0.25, 0.31),  # of a lung, half
    "height": (0.62, 0.75),  # of a lung, half
    "base": (0.42, 0.55),  # y of the diaphragm
    "heart": (0.22, 0.31),  # half width
    "ribs": (5.0, 7.0),  # from top to bottom
    "bone": (0.06, 0.14),  # brightness that a rib adds
    "tissue": (0.5, 0.65),  # brightness of the soft tissue
}


class Chest(NamedTuple):
    """A piece of the images while they are drawn."""

    x: Array
    y: Array
    of: dict[str, Array]  # the measures
    texture: Array  # 0 to 1, smooth


class Place(NamedTuple):
    """Where and how a sign is drawn."""

    side: Array  # -1 or 1
    x: Array  # the other four: 0 to 1
    y: Array
    extent: Array
    strength: Array


class Sign(NamedTuple):
    """A finding's probability in an image, and what draws it onto the brightness."""

    probability: float
    draw: Callable[[Array, Chest, Place], Array]


def chest(anatomy: Array, image: Array, markings: Array, size: int) -> Chest:
    """From numbers of 0 to 1: anatomy (N, measures), image (N, 3) of shift in x and y and exposure, markings (N, GRID, GRID)."""
    points = (2 * np.arange(size) + 1) / size - 1
    shift_x, shift_y = (0.12 * image[:, axis, None, None] - 0.06 for axis in (0, 1))
    parts = anatomy.T[:, :, None, None]
    of = {name: low + (high - low) * part for (name, (low, high)), part in zip(MEASURES.items(), parts, strict=True)}
    return Chest(points[None, None, :] + shift_x, points[None, :, None] + shift_y, of, _smooth(markings, size))


def healthy(chest: Chest) -> Array:
    """Body, lungs with their markings, heart, spine and ribs."""
    x, y, of = chest.x, chest.y, chest.of
    body = _ramp((of["body"] * (1 - 0.4 * (-0.5 - y).clip(0, 1)) - abs(x)) / 0.08)
    lungs = _lung(chest, -1.0) + _lung(chest, 1.0)
    bright = of["tissue"] * body
    bright = _blend(bright, 0.08 + 0.22 * chest.texture, lungs)
    bright = _blend(bright, of["tissue"] + 0.12, _heart(chest, 1.0))
    bright = bright + 0.12 * _ramp((0.1 - abs(x)) / 0.06) * body
    stripes = (y + 0.35 * (abs(x) - of["apart"]) ** 2) * of["ribs"] / 2
    return np.asarray(bright + of["bone"] * _ramp(4 * abs(stripes - np.floor(stripes) - 0.5) - 1) * body)


def _atelectasis(bright: Array, chest: Chest, at: Place) -> Array:
    """A plate: a thin, slightly oblique line in the lower lung."""
    x, y = _inside(chest, at, at.x, 0.55 + 0.4 * at.y)
    across = chest.y - y - (0.5 * at.extent - 0.25) * (chest.x - x)
    plate = _ramp((0.08 - abs(across)) / 0.05) * _ramp((0.26 - abs(chest.x - x)) / 0.06)
    return bright + (0.24 + 0.2 * at.strength) * plate


def _consolidation(bright: Array, chest: Chest, at: Place) -> Array:
    """A bright, patchy blob without an edge."""
    x, y = _inside(chest, at, at.x, 0.2 + 0.6 * at.y)
    blob = _ellipse(chest, x, y, 0.16 + 0.1 * at.extent, 0.2 + 0.12 * at.extent, soft=1.0)
    return bright + (0.25 + 0.3 * at.strength) * blob * (2 * chest.texture).clip(0, 1) * _lung(chest, at.side)


def _pneumothorax(bright: Array, chest: Chest, at: Place) -> Array:
    """A black apex without markings, and the edge of the lung below it."""
    below = chest.y - (0.35 * at.extent - 0.45) - 0.3 * (abs(chest.x) - chest.of["apart"])
    lung = _lung(chest, at.side)
    dark = _blend(bright, 0.3 * bright * (1 - at.strength / 2), lung * _ramp(-below / 0.05))
    return dark + 0.12 * lung * _ramp((0.05 - abs(below)) / 0.04)


def _effusion(bright: Array, chest: Chest, at: Place) -> Array:
    """A bright base of one lung, whose upper edge rises towards the wall: the meniscus."""
    outward = ((abs(chest.x) - chest.of["apart"]) / chest.of["width"]).clip(-1, 1)
    level = chest.of["base"] - (0.06 + 0.24 * at.extent) - 0.12 * (1 + outward) ** 2 / 2
    fluid = _lung(chest, at.side) * _ramp((chest.y - level) / 0.1)
    return _blend(bright, chest.of["tissue"] + 0.1, fluid * (0.6 + 0.4 * at.strength))


def _cardiomegaly(bright: Array, chest: Chest, at: Place) -> Array:
    """A heart of 1.15 to 1.5 times its width."""
    heart = _blend(bright, chest.of["tissue"] + 0.12, _heart(chest, 1.15 + 0.35 * at.strength))
    return np.maximum(bright, heart)


def _nodule(bright: Array, chest: Chest, at: Place) -> Array:
    """A small disc with an edge."""
    radius = 0.09 + 0.03 * at.extent
    return bright + (0.34 + 0.2 * at.strength) * _ellipse(chest, *_inside(chest, at, at.x, at.y), radius, radius, soft=0.6)


def _mass(bright: Array, chest: Chest, at: Place) -> Array:
    """A large disc with an edge."""
    radius = 0.17 + 0.07 * at.extent
    return bright + (0.18 + 0.2 * at.strength) * _ellipse(chest, *_inside(chest, at, at.x, at.y), radius, radius, soft=0.4)


SIGNS = {
    "Atelectasis": Sign(0.2, _atelectasis),
    "Consolidation": Sign(0.15, _consolidation),
    "Pneumothorax": Sign(0.15, _pneumothorax),
    "Effusion": Sign(0.25, _effusion),
    "Cardiomegaly": Sign(0.2, _cardiomegaly),
    "Nodule": Sign(0.2, _nodule),
    "Mass": Sign(0.15, _mass),
}


def _lung(chest: Chest, side: float | Array) -> Array:
    """The lung of one side, 0 to 1, cut by the dome of the diaphragm."""
    x, of = chest.x * side, chest.of
    lung = _ellipse(chest, side * of["apart"], of["base"] - of["height"] * 0.9, of["width"], of["height"], soft=0.3)
    dome = of["base"] + 0.15 * ((x - of["apart"]) / of["width"]) ** 2
    return lung * _ramp((dome - chest.y) / 0.06)


def _heart(chest: Chest, times: float | Array) -> Array:
    """Two thirds of it lie to the right of the image, which is the patient's left."""
    return _ellipse(chest, 0.35 * chest.of["heart"], chest.of["base"] - 0.22, chest.of["heart"] * times, 0.3, soft=0.3)


def _inside(chest: Chest, at: Place, x: Array, y: Array) -> tuple[Array, Array]:
    """A point of the lung on the sign's side: x from one edge to the other, y from the apex to the base, both 0 to 1."""
    of = chest.of
    return at.side * (of["apart"] + of["width"] * (1.2 * x - 0.6)), of["base"] - of["height"] * (1.4 - 1.2 * y)


def _ellipse(chest: Chest, x: Array, y: Array, half_width: Array | float, half_height: Array | float, soft: float) -> Array:
    """1 inside, 0 outside; `soft` is the share of the (squared) radius in which it falls."""
    return _ramp((1 - ((chest.x - x) / half_width) ** 2 - ((chest.y - y) / half_height) ** 2) / soft)


def _ramp(distance: Array) -> Array:
    return np.asarray(distance.clip(0, 1))


def _blend(bright: Array, value: Array, mask: Array) -> Array:
    return np.asarray(bright + (value - bright) * mask)


def _smooth(grid: Array, size: int) -> Array:
    """(N, GRID, GRID) drawn up to (N, S, S), linearly in both directions."""
    points = (np.arange(size) + 0.5) / size * (GRID - 1)
    low = points.astype(int)
    part = points - low
    rows = grid[:, low] * (1 - part[:, None]) + grid[:, low + 1] * part[:, None]
    return np.asarray(rows[:, :, low] * (1 - part) + rows[:, :, low + 1] * part)
