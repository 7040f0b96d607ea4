"""Draws `Dominoes`: chains that end in a colour, laid on a board in any order. Synthetic.

    domino 0, 1, 2       end in a colour each; the marked chain leads to 0
    domino 3 to 2 + k    the marked chain, each leads to the one before it: k steps from the mark to the colour
    the next two         lead to 1 and to 2
    all others           lead to any domino before them

Then signs, places and colours are dealt. Everything is drawn in integers.

Shapes: N images, M dominoes of a board, P pixels a side of a domino.
"""

from typing import NamedTuple

import numpy as np

from recstudy.data.decoded import Decoded
from recstudy.data.dominoes import COLOURS, DOMINO, Dominoes
from recstudy.data.images import Labels, Pixels

DRAWING = 1  # part of the cache's digest: raise it with every change of what is drawn
SEED = 9
TRAIN_IMAGES, TEST_IMAGES = 10_000, 2000
ENDS = len(COLOURS)
HALF = DOMINO * DOMINO // 2  # pixels of half a domino, which the signs share


class Boards(NamedTuple):
    """Dominoes in the order of their places."""

    signs: Labels  # (N, M) of the upper halves
    following: Labels  # (N, M) of the lower halves: the sign of the next domino, or -1 - COLOUR
    marked: Labels  # (N,) the place where the chain begins


def draw_set(config: Dominoes) -> Decoded:
    random = np.random.default_rng([SEED, config.side, config.least_steps, config.most_steps])
    train, test = (draw(config, count, random) for count in (TRAIN_IMAGES, TEST_IMAGES))
    return Decoded(picture(train[0], config.side), train[1], picture(test[0], config.side), test[1])


def draw(config: Dominoes, count: int, random: np.random.Generator) -> tuple[Boards, Labels]:
    """Boards and the colours that their marked chains end in; row N is of level `config.levels(N)`."""
    dominoes, steps = config.side**2, config.levels(np.arange(count))
    leads = chains(dominoes, steps, random)
    signs, order, colours = (dealt(count, cards, random) for cards in (dominoes, dominoes, ENDS))
    following = np.take_along_axis(signs, leads, 1)
    following[:, :ENDS] = -1 - colours
    places = order.argsort(1)  # of each domino; `order` is the domino of each place
    marked = np.where(steps > 0, ENDS - 1 + steps, 0)
    signs, following = (np.take_along_axis(part, order, 1) for part in (signs, following))
    return Boards(signs, following, places[np.arange(count), marked]), colours[:, 0]


def chains(dominoes: int, steps: Labels, random: np.random.Generator) -> Labels:
    """Which domino comes next, (N, M)."""
    leads = np.zeros((len(steps), dominoes), np.int64)
    for at in range(ENDS, dominoes):
        beyond = at - ENDS - steps  # how many come after the marked chain's; below 0: one of its own
        own = 0 if at == ENDS else at - 1
        leads[:, at] = np.select([beyond < 0, beyond < ENDS - 1], [own, beyond + 1], random.integers(0, at, len(steps)))
    return leads


def dealt(count: int, cards: int, random: np.random.Generator) -> Labels:
    """The cards 0, 1, ... in another order for each image, (N, cards)."""
    return random.permuted(np.tile(np.arange(cards), (count, 1)), axis=1)


def picture(boards: Boards, side: int) -> Pixels:
    """(N, 3, side P, side P): a sign is a dash at its own place, a colour fills its half, the mark is a negative upper half."""
    count, dominoes = boards.signs.shape
    shown = np.stack([boards.signs, boards.following], 2)
    dashes = np.arange(HALF) // (HALF // dominoes) == shown[..., None]  # (N, M, 2, HALF)
    halves = np.repeat(np.where(dashes, 255, 0).astype(np.uint8)[..., None], 3, axis=-1)
    ends = boards.following < 0
    halves[ends, 1] = np.array(list(COLOURS.values()), np.uint8)[-1 - boards.following[ends], None]
    halves[np.arange(count), boards.marked, 0] ^= 255
    pixels = halves.reshape(count, side, side, DOMINO, DOMINO, 3)
    return pixels.transpose(0, 5, 1, 3, 2, 4).reshape(count, 3, side * DOMINO, side * DOMINO)
