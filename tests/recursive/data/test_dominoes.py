"""The drawn boards: what a reader of the pixels finds is what the labels say."""

from functools import cache

import numpy as np
import pytest

from recstudy.recursive import Dominoes
from recstudy.recursive.data.dominoes import draw_set

COLOURS = [(255, 0, 0), (0, 0, 255)]


@cache
def draw_boards(**fields):
    return draw_set(Dominoes(**fields))


def walked(image):
    """The colour at the end of the marked chain and the steps to it, from the pixels alone."""
    upper, lower, position = {}, {}, None
    for row, column in np.ndindex(2, image.shape[2] // 6):
        domino = image[:, 6 * row : 6 * row + 6, 6 * column : 6 * column + 6]
        top, bottom = domino[:, :3].reshape(3, 18), domino[:, 3:].reshape(3, 18)
        if top.mean() > 128:
            top, position = 255 - top, (row, column)
        upper[top.tobytes()] = row, column
        lower[row, column] = bottom
    steps = 0
    while lower[position].tobytes() in upper:
        position, steps = upper[lower[position].tobytes()], steps + 1
    return COLOURS.index(tuple(lower[position][:, 0])), steps


@pytest.mark.parametrize(("columns", "least_steps", "most_steps"), [(3, 0, 3), (5, 1, 4)])
def test_walking_from_the_mark_gives_label_and_level(columns, least_steps, most_steps):
    config = Dominoes(columns=columns, least_steps=least_steps, most_steps=most_steps)
    board_set = draw_boards(columns=columns, least_steps=least_steps, most_steps=most_steps)
    images, labels = board_set.test_images[:100], board_set.test_labels[:100]
    levels = config.levels(np.arange(100)).tolist()

    assert images[0].shape == config.shape
    assert [walked(image) for image in images] == list(zip(labels.tolist(), levels, strict=True))
    assert set(levels) == set(range(least_steps, most_steps + 1))


def test_noise_inverts_its_share_of_the_pixels_and_nothing_else():
    clean, noisy = draw_boards(), draw_boards(noise=0.06)

    inverted = (noisy.train_images != clean.train_images).all(1)
    assert (noisy.train_images[:, 0] != clean.train_images[:, 0]).mean() == pytest.approx(0.06, abs=0.001)
    assert np.array_equal(
        np.where(inverted[:, None], 255 - clean.train_images, clean.train_images), noisy.train_images
    )
    assert np.array_equal(noisy.test_labels, clean.test_labels)
