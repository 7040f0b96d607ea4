"""Generated boards on which each further step of reasoning answers harder images, for quick presets,
demonstrations and tests.

    domino 0 and 1       end in a colour each; the marked chain leads to 0
    domino 2 to 1 + k    the marked chain, each leads to the one before it: k steps from the mark to the colour
    domino 2 + k         leads to 1
    all others           lead to any domino before them

Then signs, places and colours are dealt. Everything but noise is drawn in integers.

Shapes: N images, M dominoes of a board, P pixels a side of a domino.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from recstudy.config import DATASETS, DataConfig, Shape
from recstudy.data.reader import Arrays, DrawingReader, Labels, Mask, Pixels, np

COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255)}
END_COUNT = len(COLOURS)
DOMINO = 6  # pixels a side
SEED = 9
TRAIN_IMAGES, TEST_IMAGES = 10_000, 2000
HALF = DOMINO * DOMINO // 2  # pixels of half a domino, which the signs share


@DATASETS.add("dominoes")
class Dominoes(DataConfig):
    """10,000 + 2,000 generated boards: which colour ends the chain that begins at the marked domino?
    Synthetic.

    A domino has a sign of its own in its upper half, and in its lower half the sign of the domino that comes
    next, or, where a chain ends, one of two colours. All chains end in a colour, and each of the two has one.
    From the mark it is `least_steps` to `most_steps` steps, each number equally often: the level of an image.
    Every step is by the same rule, which a weight-tied recursion can repeat.
    """

    synthetic: ClassVar[bool] = True
    title: ClassVar[str] = "Dominoes (synthetic)"
    classes: ClassVar[int] = len(COLOURS)
    class_names: ClassVar[tuple[str, ...]] = tuple(COLOURS)
    train_size: ClassVar[int | None] = 10_000

    name: Literal["dominoes"] = "dominoes"
    columns: int = Field(
        3, ge=3, le=9, description="of the board, which has two rows; a domino is 6x6 pixels, for one patch"
    )
    least_steps: int = Field(0, ge=0, description="from the marked domino to the colour")
    most_steps: int = Field(3, ge=0)
    noise: float = Field(
        0.0, ge=0, lt=0.5, description="share of the pixels that are inverted, so that signs are misread"
    )
    drawing_seed: int = Field(0, ge=0, description="draws the boards")

    @model_validator(mode="after")
    def _chains_fit(self) -> Self:
        max_steps = 2 * self.columns - len(COLOURS) - 1  # one more leads to the other colour
        if not self.least_steps <= self.most_steps <= max_steps:
            raise ValueError(
                f"least_steps <= most_steps <= {max_steps} must hold on {2 * self.columns} dominoes, but got"
                f" {self.least_steps} and {self.most_steps}"
            )
        return self

    @property
    def shape(self) -> Shape:
        return (3, 2 * DOMINO, self.columns * DOMINO)

    def levels(self, rows: Labels) -> Labels:
        return self.least_steps + rows % (self.most_steps - self.least_steps + 1)

    def reader(self) -> DrawingReader:
        return DrawingReader(self, lambda folder: draw_set(self), "dominoes", 1)


def draw_set(config: Dominoes) -> Arrays:
    """Draw a set in which no two images are the same."""
    extra_seed = filter(None, [config.drawing_seed])  # 0: as before there was such a seed
    random = np.random.default_rng([SEED, config.columns, config.least_steps, config.most_steps, *extra_seed])
    steps = config.levels(np.concatenate([np.arange(TRAIN_IMAGES), np.arange(TEST_IMAGES)]))
    images, labels = draw(2 * config.columns, steps, random)
    while len(repeated_rows := repeated(images)):
        images[repeated_rows], labels[repeated_rows] = draw(2 * config.columns, steps[repeated_rows], random)
    if config.noise:
        count, _, height, width = images.shape
        images[np.broadcast_to(random.random((count, 1, height, width)) < config.noise, images.shape)] ^= 255
    return Arrays.cut(TRAIN_IMAGES, images=images, labels=labels)


def repeated(images: Pixels) -> Labels:
    """Return the rows of images that came before."""
    _, first = np.unique(images.reshape(len(images), -1), axis=0, return_index=True)
    return np.delete(np.arange(len(images)), first)


def draw(dominoes: int, steps: Labels, random: np.random.Generator) -> tuple[Pixels, Labels]:
    """Draw images of so many steps each, and the colours that their marked chains end in."""
    count = len(steps)
    leads = chains(dominoes, steps, random)
    decks = (np.tile(np.arange(cards), (count, 1)) for cards in (dominoes, dominoes, END_COUNT))
    # dealt in another order for each image
    signs, order, colours = (random.permuted(deck, axis=1) for deck in decks)
    following = np.take_along_axis(signs, leads, 1)
    following[:, :END_COUNT] = -1 - colours
    # `order`: the domino of each place
    signs, following = (np.take_along_axis(part, order, 1) for part in (signs, following))
    marked = order == np.where(steps > 0, END_COUNT - 1 + steps, 0)[:, None]
    return picture(signs, following, marked), colours[:, 0]


def chains(dominoes: int, steps: Labels, random: np.random.Generator) -> Labels:
    """Return which domino comes next, (N, M)."""
    leads = np.zeros((len(steps), dominoes), np.int64)
    for domino in range(END_COUNT, dominoes):
        next_in_chain = 0 if domino == END_COUNT else domino - 1
        position = domino - END_COUNT - steps  # below 0: of the marked chain
        leads[:, domino] = np.select(
            [position < 0, position == 0], [next_in_chain, 1], random.integers(0, domino, len(steps))
        )
    return leads


def picture(signs: Labels, following: Labels, marked: Mask) -> Pixels:
    """Draw (N, 3, 2 P, M P / 2): a sign is a dash at its own place, a colour fills its half, the mark a
    negative upper half.

    Args:
        signs: (N, M) of the upper halves, in the order of the places.
        following: (N, M) of the lower halves: the sign of the next domino, or -1 - COLOUR.
        marked: (N, M) where the chain begins.
    """
    count, dominoes = signs.shape
    halves_signs = np.stack([signs, following], 2)
    dashes = np.arange(HALF) // (HALF // dominoes) == halves_signs[..., None]  # (N, M, 2, HALF)
    halves = np.repeat(np.where(dashes, 255, 0).astype(np.uint8)[..., None], 3, axis=-1)
    is_end = following < 0
    halves[is_end, 1] = np.array(list(COLOURS.values()), np.uint8)[-1 - following[is_end], None]
    halves[marked, 0] ^= 255
    pixels = halves.reshape(count, 2, dominoes // 2, DOMINO, DOMINO, 3)
    return pixels.transpose(0, 5, 1, 3, 2, 4).reshape(count, 3, 2 * DOMINO, dominoes // 2 * DOMINO)
