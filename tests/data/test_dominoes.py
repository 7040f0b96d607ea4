"""The drawn boards: what a reader of the pixels finds is what the labels say."""

import hashlib

import numpy as np
import pytest

from recstudy.config import DATASETS, configure
from recstudy.data import Dominoes
from recstudy.data.cache import load
from recstudy.data.dominoes_drawing import chains, draw_set
from recstudy.errors import ConfigError

COLOURS = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]


def walked(image, side):
    """The colour at the end of the marked chain and the steps to it, from the pixels alone."""
    upper, lower, here = {}, {}, None
    for row, column in np.ndindex(side, side):
        domino = image[:, 6 * row : 6 * row + 6, 6 * column : 6 * column + 6]
        top, bottom = domino[:, :3].reshape(3, 18), domino[:, 3:].reshape(3, 18)
        if top.mean() > 128:
            top, here = 255 - top, (row, column)
        upper[top.tobytes()] = row, column
        lower[row, column] = bottom
    steps = 0
    while lower[here].tobytes() in upper:
        here, steps = upper[lower[here].tobytes()], steps + 1
    return COLOURS.index(tuple(lower[here][:, 0])), steps


@pytest.mark.parametrize(("side", "least", "most"), [(3, 0, 3), (3, 4, 4), (4, 1, 6)])
def test_walking_from_the_mark_gives_label_and_level(side, least, most):
    config = Dominoes(side=side, least_steps=least, most_steps=most)
    drawn = draw_set(config)
    images, labels = drawn.test_images[:200], drawn.test_labels[:200]

    found = [walked(image, side) for image in images]

    assert images[0].shape == config.shape
    assert found == list(zip(labels.tolist(), config.levels(np.arange(200)).tolist(), strict=True))
    assert {steps for _, steps in found} == set(range(least, most + 1))


def test_no_board_is_drawn_twice_and_colours_are_as_frequent():
    drawn = draw_set(Dominoes())
    images = np.concatenate([drawn.train_images, drawn.test_images]).reshape(12_000, -1)

    assert len({image.tobytes() for image in images}) == 12_000
    assert len(drawn.train_labels) == Dominoes().train_size
    assert np.abs(np.bincount(drawn.train_labels) - 10_000 / 3).max() < 3 * np.sqrt(10_000 * 2 / 9)


def test_every_colour_is_led_to():
    """What leads to a colour says nothing of whether it is the answer: the two others have a domino that leads to them."""
    leads = chains(9, np.arange(5), np.random.default_rng(0))

    assert [sorted(set(row[3:].tolist()) & {0, 1, 2}) for row in leads] == [[1, 2], *[[0, 1, 2]] * 4]
    assert (leads[:, 3:] < np.arange(3, 9)).all()


def test_the_same_bits_on_every_machine():
    images, labels = draw_set(Dominoes())[2:4]

    assert hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()[:16] == "5121eb91ea73d3f1"


def test_it_is_a_synthetic_set_with_levels_within_its_board(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    data = load(Dominoes(limit=64), tmp_path)

    assert DATASETS["dominoes"] is Dominoes
    assert (Dominoes.synthetic, Dominoes.title, data.classes) == (True, "Dominoes (synthetic)", 3)
    assert len(data.test) == 64
    for steps in ({"most_steps": 5}, {"least_steps": 4}):
        with pytest.raises(ConfigError, match="least_steps <= most_steps <= 4 must hold on 9 dominoes, but got"):
            configure(Dominoes, steps)
