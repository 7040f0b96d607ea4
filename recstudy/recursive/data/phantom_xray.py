"""Generated chest X-rays with 7 findings, only for tests, demonstrations and quick presets.

    patient   body, two lungs, ribs, spine, diaphragm and heart, each with the patient's own measures
    image     position, exposure, lung markings, noise, and the findings, which are independent and have the
              probabilities in `SIGNS`
    finding   one visible sign with its own side, position, extent and strength

Except for the noise, random numbers do not depend on the size of the images. No step calls a function whose
last digit depends on the processor (exp, sin), so the images have the same bytes everywhere. Lengths are in
half image sides: x from -1 (left) to 1, y from -1 (top) to 1. Brightness is from 0 (air) to 1 (bone).

Shapes: N images, S pixels per side, F generated findings. The type Array broadcasts to (N, S, S).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field, NonNegativeInt

from recstudy.recursive.config.parts import DATASETS, Shape
from recstudy.recursive.config.reader import Array, Arrays, DrawingReader, Labels, Mask, Pixels, generator, np
from recstudy.recursive.data.chest_xray14 import FINDINGS, ChestFindings

SEED = 14
TRAIN_IMAGES, TEST_IMAGES = 1200, 400
PIECE = 2**18  # pixels drawn at a time: 2 MiB per array
GRID = 12  # points per side of the lung markings
NOISE = 0.25  # width of the uniform noise of each pixel

# A patient's measures, uniform between two limits.
MEASURES = {
    "body": (0.82, 0.95),  # half width
    "spread": (0.38, 0.45),  # distance of a lung's centre from the midline
    "width": (0.25, 0.31),  # half width of a lung
    "height": (0.62, 0.75),  # half height of a lung
    "base": (0.42, 0.55),  # y of the diaphragm
    "heart": (0.22, 0.31),  # half width
    "ribs": (5.0, 7.0),  # number of ribs from top to bottom
    "bone": (0.06, 0.14),  # brightness that a rib adds
    "tissue": (0.5, 0.65),  # brightness of soft tissue
}


@DATASETS.add("phantom_xray")
class PhantomXray(ChestFindings):
    """1,200 + 400 generated chest-like images of 7 findings. Synthetic: results have no medical meaning.

    Body, lungs, ribs and heart differ between patients. A patient has one to three images, all in the same
    split. An image may have several findings. The other 11 findings are unknown. Patients, images and labels
    do not depend on `size`.
    """

    synthetic: ClassVar = True
    title: ClassVar = "Phantom chest X-rays (synthetic)"

    name: Literal["phantom_xray"] = "phantom_xray"
    size: int = Field(32, ge=16, le=256)
    """pixels per side"""
    drawing_seed: NonNegativeInt = 0
    """random seed of the patients and their images"""

    @property
    def shape(self) -> Shape:
        return (1, self.size, self.size)

    @property
    def train_size(self) -> int | None:
        if self.findings == "multilabel":
            return 1200
        return None if self.drawing_seed or self.is_regenerated else 437

    def reader(self) -> DrawingReader:
        return DrawingReader(self, lambda folder: draw_set(self), "phantom", 1)


class DrawnPatients(NamedTuple):
    """The random numbers of all images except for their noise, one row per image. Numbers are from 0 to 1."""

    groups: Labels  # (N,) patient of each image
    present: Mask  # (N, F) whether the image has the finding
    anatomy: Array  # (N, measures), equal for all images of a patient
    image: Array  # (N, 3) shift in x and y, exposure
    signs: Array  # (N, F, 5) side, position in x and y, extent, strength
    markings: Array  # (N, GRID, GRID)


def draw_set(config: PhantomXray) -> Arrays:
    """Generate both splits: all images, or only those with exactly one finding."""
    cases = draw_cases(config.drawing_seed)
    # The findings without a sign are unknown (-1).
    labels = np.full((len(cases.present), len(FINDINGS)), -1, np.int64)
    labels[:, [FINDINGS.index(name) for name in SIGNS]] = cases.present
    images = render(cases, draw, NOISE, SEED, config)
    if config.findings == "multilabel":
        return Arrays.cut(TRAIN_IMAGES, images=images, labels=labels, groups=cases.groups)
    chosen_rows = np.flatnonzero(cases.present.sum(1) == 1)
    return Arrays.cut(
        int(np.searchsorted(chosen_rows, TRAIN_IMAGES)),
        images=images[chosen_rows],
        labels=labels.argmax(1)[chosen_rows],
        groups=np.unique(cases.groups[chosen_rows], return_inverse=True)[1],
    )


def draw_cases(seed: int) -> DrawnPatients:
    """Draw the random numbers of all images. A patient has one to three images."""
    random = generator(seed, SEED)
    count, groups = TRAIN_IMAGES + TEST_IMAGES, draw_groups(random, TRAIN_IMAGES, TEST_IMAGES)
    return DrawnPatients(
        groups=groups,
        present=random.random((count, len(SIGNS))) < [probability for probability, _ in SIGNS.values()],
        anatomy=random.random((groups[-1] + 1, len(MEASURES)))[groups],
        image=random.random((count, 3)),
        signs=random.random((count, len(SIGNS), 5)),
        markings=random.random((count, GRID, GRID)),
    )


def draw_groups(random: np.random.Generator, train: int, test: int) -> Labels:
    """Draw the group of each image (N,). A group has one to three images, all in the same split."""
    first, second = (np.repeat(np.arange(n), random.integers(1, 4, n))[:n] for n in (train, test))
    return np.concatenate([first, second + first[-1] + 1])


def render(cases: Any, draw: Callable[[Any, int], Array], noise: float, seed: int, config: Any) -> Pixels:
    """Render all images (N, C, S, S), piece by piece.

    Args:
        cases: The random numbers of the images, a named tuple of N rows each.
        draw: Returns the brightness (N, C, S, S) of some cases, 0 to 1. Its arguments are the cases and S.
        noise: Width of the uniform noise that each pixel gets.
        seed: Seed of the set.
        config: Config of the set, with `size` and `drawing_seed`.
    """
    random, step = generator(config.drawing_seed, seed, config.size), max(1, PIECE // config.size**2)
    pixels = []
    for row in range(0, len(cases.groups), step):
        bright = draw(cases._make(numbers[row : row + step] for numbers in cases), config.size)
        noisy = (bright + noise * (random.random(bright.shape) - 0.5)).clip(0, 1)
        pixels.append((noisy * 255 + 0.5).astype(np.uint8))
    return np.concatenate(pixels)


def draw(cases: DrawnPatients, size: int) -> Array:
    """Render the brightness (N, 1, S, S) of images without noise."""
    chest = Chest(cases, size)
    bright = chest.healthy()
    for index, (_, draw_sign) in enumerate(SIGNS.values()):
        side, *numbers = cases.signs[:, index, :, None, None].swapaxes(0, 1)
        with_sign = draw_sign(bright, chest, SignPlace(np.where(side < 0.5, -1.0, 1.0), *numbers))
        bright = np.where(cases.present[:, index, None, None], with_sign, bright)
    exposed: Array = bright * (0.85 + 0.3 * cases.image[:, 2, None, None])
    return exposed[:, None]


class SignPlace(NamedTuple):
    """Position and strength of a sign."""

    side: Array  # -1 or 1
    x: Array  # 0 to 1, as are the next three
    y: Array
    extent: Array
    strength: Array


class Chest(SimpleNamespace):
    """The healthy anatomy of some images, with an attribute for each of `MEASURES`.

    Args:
        cases: The random numbers of the images.
        size: S.
    """

    def __init__(self, cases: DrawnPatients, size: int) -> None:
        parts = zip(MEASURES.items(), cases.anatomy.T[:, :, None, None], strict=True)
        super().__init__(**{name: low + (high - low) * part for (name, (low, high)), part in parts})
        points = (2 * np.arange(size) + 1) / size - 1
        shift_x, shift_y = (0.12 * cases.image[:, axis, None, None] - 0.06 for axis in (0, 1))
        self.x, self.y = points[None, None, :] + shift_x, points[None, :, None] + shift_y  # of the pixels
        # The lung markings, 0 to 1: the grid is interpolated linearly in both directions.
        points = (np.arange(size) + 0.5) / size * (GRID - 1)
        low = points.astype(int)
        part, grid = points - low, cases.markings
        rows = grid[:, low] * (1 - part[:, None]) + grid[:, low + 1] * part[:, None]
        self.texture = rows[:, :, low] * (1 - part) + rows[:, :, low + 1] * part

    def healthy(self) -> Array:
        """Draw body, lungs with their markings, heart, spine and ribs."""
        body = _ramp((self.body * (1 - 0.4 * (-0.5 - self.y).clip(0, 1)) - abs(self.x)) / 0.08)
        bright = self.tissue * body
        bright = _blend(bright, 0.08 + 0.22 * self.texture, self.lung(-1.0) + self.lung(1.0))
        bright = _blend(bright, self.tissue + 0.12, self.heart_mask(1.0))
        bright = bright + 0.12 * _ramp((0.1 - abs(self.x)) / 0.06) * body
        stripes = (self.y + 0.35 * (abs(self.x) - self.spread) ** 2) * self.ribs / 2
        return bright + self.bone * _ramp(4 * abs(stripes - np.floor(stripes) - 0.5) - 1) * body

    def lung(self, side: float | Array) -> Array:
        """Return the mask of the lung on one side, 0 to 1, above the dome of the diaphragm."""
        lung = self.ellipse(
            side * self.spread, self.base - self.height * 0.9, self.width, self.height, soft=0.3
        )
        dome = self.base + 0.15 * ((self.x * side - self.spread) / self.width) ** 2
        return lung * _ramp((dome - self.y) / 0.06)

    def heart_mask(self, times: float | Array) -> Array:
        """Return the mask of a heart whose width is scaled by `times`."""
        # Two thirds of the heart are on the right of the image, which is the patient's left.
        return self.ellipse(0.35 * self.heart, self.base - 0.22, self.heart * times, 0.3, soft=0.3)

    def inside(self, side: Array, x: Array, y: Array) -> tuple[Array, Array]:
        """Return the image coordinates of a point in the lung on one side.

        Args:
            side: -1 or 1.
            x: 0 (inner edge) to 1 (outer edge).
            y: 0 (apex) to 1 (base).
        """
        image_x = side * (self.spread + self.width * (1.2 * x - 0.6))
        return image_x, self.base - self.height * (1.4 - 1.2 * y)

    def ellipse(
        self, x: Array, y: Array, half_width: Array | float, half_height: Array | float, soft: float
    ) -> Array:
        """Return the mask of an ellipse: 1 inside, 0 outside.

        `soft` is the share of the squared radius over which the mask falls to 0.
        """
        return _ramp((1 - ((self.x - x) / half_width) ** 2 - ((self.y - y) / half_height) ** 2) / soft)


def draw_atelectasis(bright: Array, chest: Chest, place: SignPlace) -> Array:
    """Draw a plate-like atelectasis: a thin, slightly oblique line in the lower lung."""
    x, y = chest.inside(place.side, place.x, 0.55 + 0.4 * place.y)
    line_distance = chest.y - y - (0.5 * place.extent - 0.25) * (chest.x - x)
    plate = _ramp((0.08 - abs(line_distance)) / 0.05) * _ramp((0.26 - abs(chest.x - x)) / 0.06)
    return bright + (0.24 + 0.2 * place.strength) * plate


def draw_consolidation(bright: Array, chest: Chest, place: SignPlace) -> Array:
    """Draw a bright, patchy area without an edge."""
    x, y = chest.inside(place.side, place.x, 0.2 + 0.6 * place.y)
    blob = chest.ellipse(x, y, 0.16 + 0.1 * place.extent, 0.2 + 0.12 * place.extent, soft=1.0)
    strength = 0.25 + 0.3 * place.strength
    return bright + strength * blob * (2 * chest.texture).clip(0, 1) * chest.lung(place.side)


def draw_pneumothorax(bright: Array, chest: Chest, place: SignPlace) -> Array:
    """Draw a dark apex without markings, and the edge of the lung below it."""
    edge_distance = chest.y - (0.35 * place.extent - 0.45) - 0.3 * (abs(chest.x) - chest.spread)
    lung = chest.lung(place.side)
    dark = _blend(bright, 0.3 * bright * (1 - place.strength / 2), lung * _ramp(-edge_distance / 0.05))
    return dark + 0.12 * lung * _ramp((0.05 - abs(edge_distance)) / 0.04)


def draw_effusion(bright: Array, chest: Chest, place: SignPlace) -> Array:
    """Draw fluid at the base of one lung. Its upper edge rises towards the chest wall (meniscus)."""
    outward = ((abs(chest.x) - chest.spread) / chest.width).clip(-1, 1)
    level = chest.base - (0.06 + 0.24 * place.extent) - 0.12 * (1 + outward) ** 2 / 2
    fluid = chest.lung(place.side) * _ramp((chest.y - level) / 0.1)
    return _blend(bright, chest.tissue + 0.1, fluid * (0.6 + 0.4 * place.strength))


def draw_cardiomegaly(bright: Array, chest: Chest, place: SignPlace) -> Array:
    """Draw a heart of 1.15 to 1.5 times its normal width."""
    heart = _blend(bright, chest.tissue + 0.12, chest.heart_mask(1.15 + 0.35 * place.strength))
    return np.maximum(bright, heart)


def draw_disc(
    bright: Array,
    chest: Chest,
    place: SignPlace,
    least_radius: float,
    growth: float,
    least_strength: float,
    soft: float,
) -> Array:
    """Draw a disc with an edge."""
    radius = least_radius + growth * place.extent
    disc = chest.ellipse(*chest.inside(place.side, place.x, place.y), radius, radius, soft)
    return bright + (least_strength + 0.2 * place.strength) * disc


# Finding -> probability in an image, and the function that draws the sign onto the brightness.
SIGNS: dict[str, tuple[float, Callable[..., Array]]] = {
    "Atelectasis": (0.2, draw_atelectasis),
    "Consolidation": (0.15, draw_consolidation),
    "Pneumothorax": (0.15, draw_pneumothorax),
    "Effusion": (0.25, draw_effusion),
    "Cardiomegaly": (0.2, draw_cardiomegaly),
    "Nodule": (0.2, partial(draw_disc, least_radius=0.09, growth=0.03, least_strength=0.34, soft=0.6)),
    "Mass": (0.15, partial(draw_disc, least_radius=0.17, growth=0.07, least_strength=0.18, soft=0.4)),
}


def _ramp(distance: Array) -> Array:
    return distance.clip(0, 1)


def _blend(bright: Array, value: Array, mask: Array) -> Array:
    return bright + (value - bright) * mask
