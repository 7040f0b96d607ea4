"""Generated boards of dominoes whose difficulty is the number of reasoning steps. They are for quick presets,
demonstrations and tests.

    domino 0 and 1      end in one colour each; the marked chain leads to 0
    domino 2 to 1 + k   the marked chain: 2 leads to 0, each other one to the domino before it; 1 + k is
                        marked
    domino 2 + k        leads to 1
    all others          lead to a random domino before them

Here k is the number of steps of the marked chain. Then signs, positions and colours are assigned at random.
Everything except for the noise uses integers.

Shapes: N images, M dominoes of a board, P pixels per side of a domino.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, model_validator

from recstudy.recursive.config.parts import DATASETS, DataConfig, Shape
from recstudy.recursive.config.reader import Arrays, DrawingReader, Labels, Mask, Pixels, generator, np

COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255)}
END_COUNT = len(COLOURS)  # dominoes that end a chain, one per colour
DOMINO = 6  # pixels per side
SEED = 9
TRAIN_IMAGES, TEST_IMAGES = 10_000, 2000
HALF = DOMINO * DOMINO // 2  # pixels of half a domino, divided among the signs


@DATASETS.add("dominoes")
class Dominoes(DataConfig):
    """10,000 + 2,000 synthetic boards: which colour ends the chain that begins at the marked domino?

    The upper half of a domino has its own sign. The lower half has the sign of the next domino or, at the end
    of a chain, one of two colours. Every chain ends in a colour, and each colour ends one chain. The level of
    an image is the number of steps from the mark to the colour, from `least_steps` to `most_steps`. All
    levels are equally frequent. Every step follows the same rule, which a weight-tied recursion can repeat.
    """

    synthetic: ClassVar = True
    title: ClassVar = "Dominoes (synthetic)"
    classes: ClassVar = len(COLOURS)
    class_names: ClassVar = tuple(COLOURS)
    train_size: ClassVar = TRAIN_IMAGES

    name: Literal["dominoes"] = "dominoes"
    columns: int = Field(3, ge=3, le=9)
    """columns of the board, which has two rows; a domino is a 6x6 patch"""
    least_steps: NonNegativeInt = 0
    """minimum number of steps from the marked domino to the colour"""
    most_steps: NonNegativeInt = 3
    """maximum number of steps"""
    noise: float = Field(0.0, ge=0, lt=0.5)
    """share of the pixels that are inverted, which makes signs ambiguous"""
    drawing_seed: NonNegativeInt = 0
    """random seed of the boards"""

    @model_validator(mode="after")
    def _chains_fit(self) -> Self:
        # All dominoes but the two ends and the one that leads to the other colour can be in the chain.
        max_steps = 2 * self.columns - len(COLOURS) - 1
        if not self.least_steps <= self.most_steps <= max_steps:
            raise ValueError(
                f"least_steps and most_steps must satisfy least_steps <= most_steps <= {max_steps} with"
                f" {2 * self.columns} dominoes, but are {self.least_steps} and {self.most_steps}"
            )
        return self

    @property
    def shape(self) -> Shape:
        return (3, 2 * DOMINO, self.columns * DOMINO)

    def levels(self, rows: Labels) -> Labels:
        """Return the number of steps of the images in these rows of a split."""
        return self.least_steps + rows % (self.most_steps - self.least_steps + 1)

    def reader(self) -> DrawingReader:
        return DrawingReader(self, lambda folder: draw_set(self), "dominoes", 1)  # 1: version of the images


def draw_set(config: Dominoes) -> Arrays:
    """Generate both splits, without duplicate images."""
    random = generator(config.drawing_seed, SEED, config.columns, config.least_steps, config.most_steps)
    steps = config.levels(np.concatenate([np.arange(TRAIN_IMAGES), np.arange(TEST_IMAGES)]))
    images, labels = draw(2 * config.columns, steps, random)
    while len(repeated_rows := repeated(images)):
        images[repeated_rows], labels[repeated_rows] = draw(2 * config.columns, steps[repeated_rows], random)
    if config.noise:
        count, _, height, width = images.shape
        images[np.broadcast_to(random.random((count, 1, height, width)) < config.noise, images.shape)] ^= 255
    return Arrays.cut(TRAIN_IMAGES, images=images, labels=labels)


def repeated(images: Pixels) -> Labels:
    """Return the rows of images that equal an earlier image."""
    _, first = np.unique(images.reshape(len(images), -1), axis=0, return_index=True)
    return np.delete(np.arange(len(images)), first)


def draw(dominoes: int, steps: Labels, random: np.random.Generator) -> tuple[Pixels, Labels]:
    """Draw images and the colours of their marked chains.

    Args:
        dominoes: M.
        steps: (N,) steps of the marked chain.
        random: Source of the random numbers.
    """
    count = len(steps)
    leads = chains(dominoes, steps, random)
    decks = (np.tile(np.arange(cards), (count, 1)) for cards in (dominoes, dominoes, END_COUNT))
    # Signs, positions and colours are shuffled for each image.
    signs, order, colours = (random.permuted(deck, axis=1) for deck in decks)
    following = np.take_along_axis(signs, leads, 1)
    following[:, :END_COUNT] = -1 - colours
    # `order` has the domino at each position of the board.
    signs, following = (np.take_along_axis(part, order, 1) for part in (signs, following))
    marked = order == np.where(steps > 0, END_COUNT - 1 + steps, 0)[:, None]
    return picture(signs, following, marked), colours[:, 0]


def chains(dominoes: int, steps: Labels, random: np.random.Generator) -> Labels:
    """Return the next domino of each domino, (N, M). See the table at the top of this module."""
    leads = np.zeros((len(steps), dominoes), np.int64)
    for domino in range(END_COUNT, dominoes):
        next_in_chain = 0 if domino == END_COUNT else domino - 1
        position = domino - END_COUNT - steps  # below 0: in the marked chain
        leads[:, domino] = np.select(
            [position < 0, position == 0], [next_in_chain, 1], random.integers(0, domino, len(steps))
        )
    return leads


def picture(signs: Labels, following: Labels, marked: Mask) -> Pixels:
    """Render boards. A sign is a dash whose position identifies it, a colour fills its half of the domino.

    The marked domino has an inverted upper half.

    Args:
        signs: (N, M) signs of the upper halves, by position.
        following: (N, M) content of the lower halves: the sign of the next domino, or -1 - colour.
        marked: (N, M) true where the chain begins.

    Returns:
        (N, 3, 2 P, M P / 2) pixels.
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
