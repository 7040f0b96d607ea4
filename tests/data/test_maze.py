"""Generated mazes: one shortest path each by counting walks, no maze in both splits, symmetries that keep the rules."""

import hashlib
from functools import cache

import numpy as np
import pytest
import torch

from recstudy.config import DATASETS, configure
from recstudy.data import Maze, Sudoku
from recstudy.data.maze import make_set
from recstudy.errors import ConfigError, DataError


@cache
def small(**fields):
    config = Maze(puzzles=24, test_puzzles=16, **fields)
    return config, make_set(config)


def tokens(*grids):
    """(B, S) of drawings whose rows a bar ends."""
    return np.array([["?# SGo".index(symbol) for symbol in grid.replace("|", "")] for grid in grids], np.uint8)


def walks(grid):
    """Steps from S to G, and how many walks of as few steps there are, which are the shortest paths."""
    rows, columns = (grid != 1).nonzero()
    beside = (abs(rows[:, None] - rows) + abs(columns[:, None] - columns) == 1).astype(np.int64)
    here, goal, steps = (grid[rows, columns] == 3).astype(np.int64), grid[rows, columns] == 4, 0
    while not here[goal].any():
        here, steps = beside @ here, steps + 1
    return steps, here[goal].item()


@pytest.mark.parametrize("fields", [{}, {"side": 13, "openings": 0.1, "least_steps": 24}, {"openings": 0}])
def test_every_maze_has_the_one_shortest_path_that_is_asked_for(fields):
    config, made = small(**fields)
    loops = []

    for given, answers, count in ((made.train_images, made.train_labels, 24), (made.test_images, made.test_labels, 16)):
        assert (given.shape, given.dtype) == ((count, *config.shape), np.uint8)
        assert (answers.shape, answers.dtype) == ((count, config.cells), np.uint8)
        for grid, answer in zip(given[:, 0], answers, strict=True):
            steps, ways = walks(grid)
            assert ways == 1
            assert steps == 1 + (answer == 5).sum() >= config.least_steps
            loops.append((grid != 1).sum() - 2 * ((config.side + 1) // 2) ** 2 + 1)
        assert config.lawful(given.reshape(count, -1), answers).all()
    assert (max(loops) > 0) == (config.openings > 0)


def test_no_walls_come_twice_under_any_symmetry():
    _, made = small(side=7, least_steps=6)
    squares = np.concatenate([made.train_images, made.test_images])[:, 0] == 1

    seen = [{np.rot90(one, turns).tobytes() for one in (square, square.T) for turns in range(4)} for square in squares]

    assert len(set.union(*seen)) == sum(len(own) for own in seen)


def test_the_eight_symmetries_keep_paths_and_follow_from_their_numbers():
    config, made = small()
    given, answers = torch.from_numpy(made.train_images.reshape(24, -1)).long(), torch.from_numpy(made.train_labels)
    draws = torch.arange(8, dtype=torch.float64)[:, None] / 8

    turned, right = config.turned(given[:1].expand(8, -1), answers[:1].expand(8, -1), draws)
    again, _ = config.turned(given[:1].expand(8, -1), answers[:1].expand(8, -1), draws)

    assert (turned.dtype, right.dtype) == (torch.int64, torch.uint8)
    assert torch.equal(turned, again)
    assert torch.equal(config.turned_back(right, draws), answers[:1].expand(8, -1))
    assert len(turned.unique(dim=0)) == 8
    assert config.lawful(turned.numpy(), right.numpy()).all()
    wanted = {
        np.rot90(one, turns).tobytes() for one in (made.train_images[0, 0], made.train_images[0, 0].T) for turns in range(4)
    }
    assert {one.tobytes() for one in turned.byte().numpy()} == wanted


def test_lawful_by_hand():
    maze = "S    |# # #|    G|# # #|     "
    answers = {
        "Sooo |# #o#|   oG|# # #|     ": 1,
        "So   |#o# #| oooG|# # #|     ": 1,  # as short: only a maze with one shortest path has one answer
        "So   |#o# #| o oG|#o#o#| ooo ": 0,  # a detour
        "Soooo|# #o#|   oG|# # #|     ": 0,  # a cell too many
        "Sooo |# #o#|   oG|# # #|o    ": 0,  # and apart
        "So o |# #o#|   oG|# # #|     ": 0,  # a gap
        "Sooo |# #o#|   oG|# #  |     ": 0,  # a wall is gone
        "Sooo#|# #o#|   oG|# # #|     ": 0,  # a wall has come
        "oooo |# #o#|   oG|# # #|     ": 0,  # the start is gone
        maze: 0,
    }

    given = tokens(*[maze] * len(answers))

    assert Maze(side=5, least_steps=4).lawful(given, tokens(*answers)).tolist() == list(answers.values())


def test_the_same_bits_on_every_machine():
    _, made = small(drawing_seed=1)
    arrays = made.train_images, made.train_labels, made.test_images, made.test_labels

    assert hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:16] == "0c7f19104100cdab"
    assert (made.train_images != small()[1].train_images).any()


def test_it_is_a_synthetic_set_that_refuses_what_it_cannot_draw():
    config = Maze(side=11, puzzles=100)

    assert DATASETS["maze"] is Maze
    assert (config.synthetic, config.title, config.classes, config.train_size) == (True, "Maze 11x11 (synthetic)", 6, 100)
    with pytest.raises(ConfigError, match="side must be odd, but got 10"):
        configure(Maze, {"side": 10})
    with pytest.raises(ConfigError, match="least_steps <= 16 must hold on 9x9 cells, but got 17"):
        configure(Maze, {"least_steps": 17})
    with pytest.raises(ConfigError, match="openings"):
        configure(Maze, {"openings": 0.6})
    with pytest.raises(DataError, match=r"Maze 5x5 \(synthetic\) has too few mazes: after .* or raise side"):
        make_set(Maze(side=5, least_steps=4, openings=0))


def test_every_token_has_a_symbol_and_a_colour():
    for config in (Maze(), Sudoku(side=9)):
        assert len(config.symbols) == config.classes
        assert len(config.colours) in (0, config.classes)
        assert all(not side or not cells % side for side, cells in zip(config.boxes, config.shape[1:], strict=True))
