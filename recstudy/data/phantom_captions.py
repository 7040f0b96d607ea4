"""Generated images of shapes with captions, for tests, demonstrations and quick presets: shapes on a dark, mottled ground.

    case      shape, size, brightness, side and tint: the same in all of its images
    image     how many there are, none to three; where they are; mottling and noise
    caption   a finding and an impression, in words that are drawn for each caption

The words of an image follow from what is drawn, so a model that sees it can say it. The random numbers, but for the noise,
do not depend on the size of the images, and no step calls a function whose last digit depends on the processor.

Shapes: N images, S pixels a side.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from pydantic import Field

from recstudy.config import DATASETS
from recstudy.data.captions import Captioned
from recstudy.data.lazy import np
from recstudy.data.reader import Decoded, DrawingReader
from recstudy.data.text import CLEANERS, with_tokens

if TYPE_CHECKING:
    import numpy.typing as npt

    from recstudy.data.images import Labels, Pixels

    Array = npt.NDArray[np.float64]

SEED = 500
TRAIN_IMAGES, TEST_IMAGES = 1000, 200
PIECE = 256  # images drawn at a time
GRID = 8  # points a side of the mottling
NOISE = 0.1  # width of the uniform noise of each pixel
SHAPES = ("disc", "ring", "square")
SIZES, LEVELS, SIDES = ("small", "large"), ("faint", "bright"), ("left", "right")
COUNTS = ("no", "one", "two", "three")
RADIUS, BRIGHTNESS = (0.11, 0.2), (0.28, 0.6)  # of SIZES, in half image sides; of LEVELS, above the ground
NAMES = {"disc": ("nodule", "tumour"), "ring": ("cyst", "cavern"), "square": ("plate", "block")}  # by SIZES
TISSUES = ("soft", "calcified")  # by LEVELS
FINDINGS = (
    "{count} {size} {level} {shapes} on the {side} .",
    "on the {side} there {are} {count} {level} {shapes} , {size} in size .",
    "the {side} side : {count} {shapes} , {size} and {level} , {are} seen .",
)
NOTHING = ("no shape on either side .", "there is nothing on the left or on the right .", "both sides : no shape is seen .")
IMPRESSIONS = ("impression : {what} .", "this suggests : {what} .", "conclusion : {what} .")


@DATASETS.add("phantom_captions")
class PhantomCaptions(Captioned):
    """1,000 + 200 drawn images of shapes, with findings and an impression; synthetic: no result on them is a medical one.

    An image shows none to three discs, rings or squares: large or small, bright or faint, left or right. Two or three
    captions say so, each in words of its own. Cases have one to three images and are in one split only.
    """

    synthetic: ClassVar[bool] = True
    title: ClassVar[str] = "Phantom captions (synthetic)"
    train_size: ClassVar[int | None] = 1000

    name: Literal["phantom_captions"] = "phantom_captions"
    tokenizer: Literal["byte", "word", "bpe", "clip"] = "word"
    vocabulary: int = Field(64, ge=16, le=100_000)
    length: int = Field(32, ge=4, le=4096)
    size: int = Field(64, ge=16, le=256)
    drawing_seed: int = Field(0, ge=0, description="draws the images and their captions")

    def reader(self) -> PhantomCaptionsReader:
        return PhantomCaptionsReader(self)


class PhantomCaptionsReader(DrawingReader):
    """Draws captioned shapes; reads no file but CLIP's, where its tokenizer is asked for."""

    drawing = ("phantom captions", 1)

    def decode(self, folder: Path) -> Decoded:
        return draw_set(self.config, folder)


class DrawnShapes(NamedTuple):
    """All random numbers but the noise; each row an image."""

    groups: Labels  # (N,) cases
    case: Labels  # (N, 4) shape, size, brightness and side, as positions in the tuples above
    number: Labels  # (N,) of shapes, 0 to 3
    tint: Array  # (N, 3) of red, green and blue
    slots: Labels  # (N, 3) the order in which the three places of a side are filled
    shift: Array  # (N, 3, 2) of each place in x and y, -1 to 1
    mottling: Array  # (N, GRID, GRID)
    several: Labels  # (N,) captions, 2 or 3
    ways: Labels  # (N, 9) of putting a caption, in the order in which they are used


def draw_set(config: PhantomCaptions, folder: Path) -> Decoded:
    """Draw all images with their captions. Reads nothing from `folder` but CLIP's files."""
    cases = draw_cases(config.drawing_seed)
    clean = CLEANERS[config.clean]
    captions = [[clean(caption) for caption in describe(cases, row)] for row in range(len(cases.groups))]
    return with_tokens(config, folder, draw_images(cases, config.size, config.drawing_seed), captions, TRAIN_IMAGES, cases.groups)


def draw_cases(seed: int) -> DrawnShapes:
    """Draw one to three images a case; the first test image begins a new one. One image in ten shows nothing."""
    random = np.random.default_rng([SEED, *filter(None, [seed])])  # 0: as before there was such a seed
    count = TRAIN_IMAGES + TEST_IMAGES
    train, test = (np.repeat(np.arange(n), random.integers(1, 4, n))[:n] for n in (TRAIN_IMAGES, TEST_IMAGES))
    groups = np.concatenate([train, test + train[-1] + 1])
    kinds = random.integers(0, (len(SHAPES), 2, 2, 2), (count, 4))
    return DrawnShapes(
        groups=groups,
        case=kinds[groups],
        number=np.where(random.random(count) < 0.1, 0, random.integers(1, 4, count)),
        tint=(0.8 + 0.2 * random.random((count, 3)))[groups],
        slots=random.permuted(np.tile(np.arange(3), (count, 1)), axis=1),
        shift=2 * random.random((count, 3, 2)) - 1,
        mottling=random.random((count, GRID, GRID)),
        several=random.integers(2, 4, count),
        ways=random.permuted(np.tile(np.arange(9), (count, 1)), axis=1),
    )


def describe(cases: DrawnShapes, row: int) -> list[str]:
    """Return two or three captions of one image."""
    return [_say(cases, row, way) for way in cases.ways[row, : cases.several[row]].tolist()]


def _say(cases: DrawnShapes, row: int, way: int) -> str:
    """Say a finding in one of three ways, and an impression in one of three."""
    shape, size, level, side = cases.case[row].tolist()
    count = int(cases.number[row])
    s, are, many = ("s", "are", "multiple ") if count > 1 else ("", "is", "")
    what = f"{many}{TISSUES[level]} {NAMES[SHAPES[shape]][size]}{s}" if count else "normal"
    sentences = f"{(FINDINGS if count else NOTHING)[way // 3]} {IMPRESSIONS[way % 3]}"
    of = {"count": COUNTS[count], "size": SIZES[size], "level": LEVELS[level], "side": SIDES[side]}
    return sentences.format(shapes=SHAPES[shape] + s, are=are, what=what, **of)


def draw_images(cases: DrawnShapes, size: int, seed: int) -> Pixels:
    """Draw (N, 3, S, S), a piece at a time."""
    random = np.random.default_rng([SEED, size, *filter(None, [seed])])
    images = np.empty((len(cases.groups), 3, size, size), np.uint8)
    for start in range(0, len(images), PIECE):
        part = DrawnShapes._make(numbers[start : start + PIECE] for numbers in cases)
        bright = draw(part, size)[:, None] * part.tint[:, :, None, None]
        noisy = bright + NOISE * (random.random(bright.shape) - 0.5)
        images[start : start + PIECE] = (noisy.clip(0, 1) * 255 + 0.5).astype(np.uint8)
    return images


def draw(cases: DrawnShapes, size: int) -> Array:
    """Draw brightness (N, S, S) without tint and noise. Lengths are in half image sides, from -1 (left, top) to 1."""
    points = (2 * np.arange(size) + 1) / size - 1
    at = np.arange(size) * GRID // size
    bright = 0.1 + 0.15 * cases.mottling[:, at[:, None], at]
    shape, big, level, side = cases.case.T
    radius, extra = np.array(RADIUS)[big], np.array(BRIGHTNESS)[level]
    for number in range(3):
        x = (2 * side - 1) * 0.5 + 0.15 * cases.shift[:, number, 0]
        y = 0.6 * (cases.slots[:, number] - 1) + 0.08 * cases.shift[:, number, 1]
        across, down = points - x[:, None], points - y[:, None]
        drawn = _shape(across[:, None, :], down[:, :, None], shape, radius)
        bright = bright + np.where(number < cases.number, extra, 0)[:, None, None] * drawn
    return bright


def _shape(across: Array, down: Array, shape: Labels, radius: Array) -> Array:
    """Draw 1 inside a shape, 0 outside, with an edge a tenth of its radius wide; (N, S, S)."""
    radius = radius[:, None, None]
    round_ = (across**2 + down**2) / radius**2
    square = np.maximum(abs(across), abs(down)) / (0.9 * radius)
    disc, hole = ((limit - round_) / 0.2 for limit in (1, 0.4))
    drawn = np.choose(shape[:, None, None], [disc.clip(0, 1), disc.clip(0, 1) - hole.clip(0, 1), ((1 - square) / 0.1).clip(0, 1)])
    return np.asarray(drawn)
