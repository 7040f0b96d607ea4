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

from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from pydantic import Field

from recstudy.recursive.config.parts import DATASETS, Shape
from recstudy.recursive.config.reader import Arrays, DrawingReader, np
from recstudy.recursive.data.chest_xray14 import FINDINGS, ChestFindings

if TYPE_CHECKING:
    import numpy.typing as npt

    from recstudy.recursive.config.reader import Labels, Mask, Pixels

    Array = npt.NDArray[np.float64]

SEED = 14
TRAIN_IMAGES, TEST_IMAGES = 1200, 400
PIECE = 2**18  # pixels drawn at a time: 2 MiB per array
GRID = 12  # points per side of the lung markings
NOISE = 0.25  # width of the uniform noise of each pixel

# A patient's measures, uniform between two limits.
MEASURES = {
    "body": (0.82, 0.95),  # half width
    "apart": (0.38, 0.45),  # distance of a lung's centre from the midline
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

    synthetic: ClassVar[bool] = True
    title: ClassVar[str] = "Phantom chest X-rays (synthetic)"

    name: Literal["phantom_xray"] = "phantom_xray"
    size: int = Field(32, ge=16, le=256, description="pixels per side")
    drawing_seed: int = Field(0, ge=0, description="random seed of the patients and their images")

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
    single = config.findings == "single"
    chosen_rows = np.flatnonzero(cases.present.sum(1) == 1) if single else np.arange(len(labels))
    images = draw_images(cases, config.size, config.drawing_seed)[chosen_rows]
    labels = labels.argmax(1)[chosen_rows] if single else labels[chosen_rows]
    groups = np.unique(cases.groups[chosen_rows], return_inverse=True)[1].astype(np.int64)
    cut = int(np.searchsorted(chosen_rows, TRAIN_IMAGES))
    return Arrays.cut(cut, images=images, labels=labels, groups=groups)


def draw_cases(seed: int) -> DrawnPatients:
    """Draw the random numbers of all images. A patient has one to three images."""
    # Seed 0 gives the numbers of SEED alone, as before the setting existed.
    random = np.random.default_rng([SEED, *filter(None, [seed])])
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


def draw_images(cases: DrawnPatients, size: int, seed: int) -> Pixels:
    """Render all images (N, 1, S, S), piece by piece."""
    random = np.random.default_rng([SEED, size, *filter(None, [seed])])
    step = max(1, PIECE // size**2)  # images per piece
    pixels = []
    for row in range(0, len(cases.groups), step):
        part = DrawnPatients._make(numbers[row : row + step] for numbers in cases)
        pixels.append(with_noise(draw(part, size)[:, None], NOISE, random))
    return np.concatenate(pixels)


def with_noise(bright: Array, width: float, random: np.random.Generator) -> Pixels:
    """Add uniform noise of a given width to the brightness, and convert it to uint8."""
    return ((bright + width * (random.random(bright.shape) - 0.5)).clip(0, 1) * 255 + 0.5).astype(np.uint8)


def draw(cases: DrawnPatients, size: int) -> Array:
    """Render the brightness (N, S, S) of images without noise."""
    scene = chest(cases.anatomy, cases.image, cases.markings, size)
    bright = healthy(scene)
    for index, (_, draw_sign) in enumerate(SIGNS.values()):
        side, *numbers = cases.signs[:, index, :, None, None].swapaxes(0, 1)
        with_sign = draw_sign(bright, scene, SignPlace(np.where(side < 0.5, -1.0, 1.0), *numbers))
        bright = np.where(cases.present[:, index, None, None], with_sign, bright)
    return np.asarray(bright * (0.85 + 0.3 * cases.image[:, 2, None, None]))


class Chest(NamedTuple):
    """The healthy anatomy of a piece of the images."""

    x: Array  # coordinates of the pixels
    y: Array
    of: dict[str, Array]  # the measures by name
    texture: Array  # smooth, 0 to 1


class SignPlace(NamedTuple):
    """Position and strength of a sign."""

    side: Array  # -1 or 1
    x: Array  # 0 to 1, as are the next three
    y: Array
    extent: Array
    strength: Array


def chest(anatomy: Array, image: Array, markings: Array, size: int) -> Chest:
    """Compute the anatomy of images from random numbers from 0 to 1.

    Args:
        anatomy: (N, measures).
        image: (N, 3) shift and exposure.
        markings: (N, GRID, GRID).
        size: S.
    """
    points = (2 * np.arange(size) + 1) / size - 1
    shift_x, shift_y = (0.12 * image[:, axis, None, None] - 0.06 for axis in (0, 1))
    parts = anatomy.T[:, :, None, None]
    of = {
        name: low + (high - low) * part
        for (name, (low, high)), part in zip(MEASURES.items(), parts, strict=True)
    }
    return Chest(
        points[None, None, :] + shift_x, points[None, :, None] + shift_y, of, _smooth(markings, size)
    )


def healthy(chest: Chest) -> Array:
    """Draw body, lungs with their markings, heart, spine and ribs."""
    x, y, of = chest.x, chest.y, chest.of
    body = _ramp((of["body"] * (1 - 0.4 * (-0.5 - y).clip(0, 1)) - abs(x)) / 0.08)
    lungs = _lung(chest, -1.0) + _lung(chest, 1.0)
    bright = of["tissue"] * body
    bright = _blend(bright, 0.08 + 0.22 * chest.texture, lungs)
    bright = _blend(bright, of["tissue"] + 0.12, _heart(chest, 1.0))
    bright = bright + 0.12 * _ramp((0.1 - abs(x)) / 0.06) * body
    stripes = (y + 0.35 * (abs(x) - of["apart"]) ** 2) * of["ribs"] / 2
    return np.asarray(bright + of["bone"] * _ramp(4 * abs(stripes - np.floor(stripes) - 0.5) - 1) * body)


def draw_atelectasis(bright: Array, chest: Chest, place: SignPlace) -> Array:
    """Draw a plate-like atelectasis: a thin, slightly oblique line in the lower lung."""
    x, y = _inside(chest, place, place.x, 0.55 + 0.4 * place.y)
    line_distance = chest.y - y - (0.5 * place.extent - 0.25) * (chest.x - x)
    plate = _ramp((0.08 - abs(line_distance)) / 0.05) * _ramp((0.26 - abs(chest.x - x)) / 0.06)
    return bright + (0.24 + 0.2 * place.strength) * plate


def draw_consolidation(bright: Array, chest: Chest, place: SignPlace) -> Array:
    """Draw a bright, patchy area without an edge."""
    x, y = _inside(chest, place, place.x, 0.2 + 0.6 * place.y)
    blob = _ellipse(chest, x, y, 0.16 + 0.1 * place.extent, 0.2 + 0.12 * place.extent, soft=1.0)
    return bright + (0.25 + 0.3 * place.strength) * blob * (2 * chest.texture).clip(0, 1) * _lung(
        chest, place.side
    )


def draw_pneumothorax(bright: Array, chest: Chest, place: SignPlace) -> Array:
    """Draw a dark apex without markings, and the edge of the lung below it."""
    edge_distance = chest.y - (0.35 * place.extent - 0.45) - 0.3 * (abs(chest.x) - chest.of["apart"])
    lung = _lung(chest, place.side)
    dark = _blend(bright, 0.3 * bright * (1 - place.strength / 2), lung * _ramp(-edge_distance / 0.05))
    return dark + 0.12 * lung * _ramp((0.05 - abs(edge_distance)) / 0.04)


def draw_effusion(bright: Array, chest: Chest, place: SignPlace) -> Array:
    """Draw fluid at the base of one lung. Its upper edge rises towards the chest wall (meniscus)."""
    outward = ((abs(chest.x) - chest.of["apart"]) / chest.of["width"]).clip(-1, 1)
    level = chest.of["base"] - (0.06 + 0.24 * place.extent) - 0.12 * (1 + outward) ** 2 / 2
    fluid = _lung(chest, place.side) * _ramp((chest.y - level) / 0.1)
    return _blend(bright, chest.of["tissue"] + 0.1, fluid * (0.6 + 0.4 * place.strength))


def draw_cardiomegaly(bright: Array, chest: Chest, place: SignPlace) -> Array:
    """Draw a heart of 1.15 to 1.5 times its normal width."""
    heart = _blend(bright, chest.of["tissue"] + 0.12, _heart(chest, 1.15 + 0.35 * place.strength))
    return np.maximum(bright, heart)


def draw_nodule(bright: Array, chest: Chest, place: SignPlace) -> Array:
    """Draw a small disc with an edge."""
    radius = 0.09 + 0.03 * place.extent
    x, y = _inside(chest, place, place.x, place.y)
    return bright + (0.34 + 0.2 * place.strength) * _ellipse(chest, x, y, radius, radius, soft=0.6)


def draw_mass(bright: Array, chest: Chest, place: SignPlace) -> Array:
    """Draw a large disc with an edge."""
    radius = 0.17 + 0.07 * place.extent
    x, y = _inside(chest, place, place.x, place.y)
    return bright + (0.18 + 0.2 * place.strength) * _ellipse(chest, x, y, radius, radius, soft=0.4)


# Finding -> probability in an image, and the function that draws the sign onto the brightness.
SIGNS = {
    "Atelectasis": (0.2, draw_atelectasis),
    "Consolidation": (0.15, draw_consolidation),
    "Pneumothorax": (0.15, draw_pneumothorax),
    "Effusion": (0.25, draw_effusion),
    "Cardiomegaly": (0.2, draw_cardiomegaly),
    "Nodule": (0.2, draw_nodule),
    "Mass": (0.15, draw_mass),
}


def _lung(chest: Chest, side: float | Array) -> Array:
    """Return the mask of the lung on one side, 0 to 1, above the dome of the diaphragm."""
    x, of = chest.x * side, chest.of
    lung = _ellipse(
        chest, side * of["apart"], of["base"] - of["height"] * 0.9, of["width"], of["height"], soft=0.3
    )
    dome = of["base"] + 0.15 * ((x - of["apart"]) / of["width"]) ** 2
    return lung * _ramp((dome - chest.y) / 0.06)


def _heart(chest: Chest, times: float | Array) -> Array:
    """Return the mask of a heart whose width is scaled by `times`."""
    # Two thirds of the heart are on the right of the image, which is the patient's left.
    return _ellipse(
        chest, 0.35 * chest.of["heart"], chest.of["base"] - 0.22, chest.of["heart"] * times, 0.3, soft=0.3
    )


def _inside(chest: Chest, place: SignPlace, x: Array, y: Array) -> tuple[Array, Array]:
    """Return the image coordinates of a point in the lung on the sign's side.

    Args:
        chest: Anatomy.
        place: Its side selects the lung.
        x: 0 (inner edge) to 1 (outer edge).
        y: 0 (apex) to 1 (base).
    """
    of = chest.of
    return place.side * (of["apart"] + of["width"] * (1.2 * x - 0.6)), of["base"] - of["height"] * (
        1.4 - 1.2 * y
    )


def _ellipse(
    chest: Chest, x: Array, y: Array, half_width: Array | float, half_height: Array | float, soft: float
) -> Array:
    """Return the mask of an ellipse: 1 inside, 0 outside.

    `soft` is the share of the squared radius over which the mask falls to 0.
    """
    return _ramp((1 - ((chest.x - x) / half_width) ** 2 - ((chest.y - y) / half_height) ** 2) / soft)


def _ramp(distance: Array) -> Array:
    return np.asarray(distance.clip(0, 1))


def _blend(bright: Array, value: Array, mask: Array) -> Array:
    return np.asarray(bright + (value - bright) * mask)


def _smooth(grid: Array, size: int) -> Array:
    """Interpolate (N, GRID, GRID) to (N, S, S), linearly in both directions."""
    points = (np.arange(size) + 0.5) / size * (GRID - 1)
    low = points.astype(int)
    part = points - low
    rows = grid[:, low] * (1 - part[:, None]) + grid[:, low + 1] * part[:, None]
    return np.asarray(rows[:, :, low] * (1 - part) + rows[:, :, low + 1] * part)
