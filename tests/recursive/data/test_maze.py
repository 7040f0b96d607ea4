"""Generated mazes: one shortest path each by counting walks, no maze in both splits, symmetries that keep the
rules.
"""

from functools import cache

import numpy as np
import pytest
import torch

from recstudy.base.errors import DataError
from recstudy.recursive import Maze


@cache
def small(**fields):
    config = Maze(puzzles=24, test_puzzles=16, **fields)
    return config, config.generate()


def tokens(*grids):
    """(B, S) of drawings whose rows a bar ends."""
    return np.array(
        [["?# SGo".index(symbol) for symbol in grid.replace("|", "")] for grid in grids], np.uint8
    )


def walks(grid):
    """Steps from S to G, and how many walks of as few steps there are, which are the shortest paths."""
    rows, columns = (grid != 1).nonzero()
    adjacency = (abs(rows[:, None] - rows) + abs(columns[:, None] - columns) == 1).astype(np.int64)
    reached, goal, steps = (grid[rows, columns] == 3).astype(np.int64), grid[rows, columns] == 4, 0
    while not reached[goal].any():
        reached, steps = adjacency @ reached, steps + 1
    return steps, reached[goal].item()


@pytest.mark.parametrize("fields", [{}, {"side": 13, "openings": 0.1, "least_steps": 24}, {"openings": 0}])
def test_every_maze_has_the_one_shortest_path_that_is_asked_for(fields):
    config, maze_set = small(**fields)
    loops = []
    for mazes, answers, count in (
        (maze_set.train_images, maze_set.train_labels, 24),
        (maze_set.test_images, maze_set.test_labels, 16),
    ):
        assert (mazes.shape, answers.shape) == ((count, *config.shape), (count, config.cells))
        for grid, answer in zip(mazes[:, 0], answers, strict=True):
            steps, ways = walks(grid)
            assert (ways, steps) == (1, 1 + (answer == 5).sum())
            assert steps >= config.least_steps
            loops.append((grid != 1).sum() - 2 * ((config.side + 1) // 2) ** 2 + 1)
        assert config.check_answers(mazes.reshape(count, -1), answers).all()
    assert (max(loops) > 0) == (config.openings > 0)


def test_the_eight_symmetries_keep_paths_and_follow_from_their_numbers():
    config, maze_set = small()
    mazes, answers = (
        torch.from_numpy(grids[:1].reshape(1, -1)).expand(8, -1)
        for grids in (maze_set.train_images, maze_set.train_labels)
    )
    draws = torch.arange(8, dtype=torch.float64)[:, None] / 8
    turned, right = config.apply_symmetry(mazes.long(), answers, draws)
    square = maze_set.train_images[0, 0]

    assert (turned.dtype, right.dtype) == (torch.int64, torch.uint8)
    assert torch.equal(config.undo_symmetry(right, draws), answers)
    assert config.check_answers(turned.numpy(), right.numpy()).all()
    expected = {np.rot90(grid, turns).tobytes() for grid in (square, square.T) for turns in range(4)}
    assert {grid.tobytes() for grid in turned.byte().numpy()} == expected


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

    mazes = tokens(*[maze] * len(answers))

    assert Maze(side=5, least_steps=4).check_answers(mazes, tokens(*answers)).tolist() == list(
        answers.values()
    )


def test_maze_that_cannot_be_generated_is_refused():
    with pytest.raises(DataError, match=r"Maze 5x5 \(synthetic\) has too few mazes: after .* or raise side"):
        Maze(side=5, least_steps=4, openings=0).generate()
