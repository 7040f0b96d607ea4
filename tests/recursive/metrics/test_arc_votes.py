"""ARC-AGI's two attempts, by hand: what is cut from a canvas, augmentations undone, votes, ties, and Kaggle's
file.
"""

import numpy as np
import pytest

from recstudy.recursive import Answers
from recstudy.recursive.metrics.arc import (
    TURNS,
    ArcGrid,
    Augmented,
    augmented,
    ballots,
    cropped,
    pass_at,
    submission,
)

TURNED = [  # by numpy, in the order of the authors' numbers
    lambda grid: grid,
    np.rot90,
    lambda grid: np.rot90(grid, 2),
    lambda grid: np.rot90(grid, 3),
    np.fliplr,
    np.flipud,
    np.transpose,
    lambda grid: np.fliplr(np.rot90(grid)),
]
GRID = np.array([[1, 2, 3], [4, 5, 0]])


def rows(text):
    """A grid by its rows of digits."""
    return np.array([list(row) for row in text.split()]).astype(np.uint8)


@pytest.mark.parametrize("turn", range(8))
def test_an_augmentation_is_undone(turn):
    colours = (0, 3, 1, 2, 9, 8, 7, 6, 5, 4)
    augmentation = Augmented("a", turn, colours)

    assert len(TURNS) == len(TURNED)
    assert augmentation.undone(np.array(colours, np.uint8)[TURNED[turn](GRID)] + 2).rows == GRID.tolist()
    assert augmentation.name == f"a|||t{turn}|||0312987654"
    assert (augmented(augmentation.name), augmented("a"), Augmented("a").name) == (
        augmentation,
        Augmented("a"),
        "a",
    )


@pytest.mark.parametrize(
    ("canvas", "answer"),
    [
        ("341 561 110", "34 56"),
        ("345 678 923", "345 678 923"),  # no room for an edge
        ("345 611 711", "345"),  # one row of three, or three of one: the fewer rows
        ("341 561 710", "34 56"),  # four cells are more than three
        ("305 678 923", "3 6 9"),  # what is behind a gap counts in no row below
        ("133 333 333", ""),
    ],
)
def test_the_largest_rectangle_from_the_corner_is_the_answer(canvas, answer):
    assert cropped(rows(canvas)).tolist() == rows(answer).tolist()


NAMES = ["<blank>", "a", "a|||t1|||0123456789", "a|||t0|||0213456789", "b"]
SURE, UNSURE = 2.0, -2.0


def canvas(text):
    """On 3x3 cells; nothing is a cell that ends the grid."""
    grid, canvas = rows(text or "9") + 2, np.zeros((3, 3), np.uint8)
    canvas[: len(grid), : len(grid[0])] = grid if text else 1
    return canvas.flatten()


def ballots_of(*votes):
    """Ballots of (id, answer, right, q_halt), in rows of colours."""
    ids, answers, labels, halt = zip(*votes, strict=True)
    grids = [np.stack([canvas(grid) for grid in column]) for column in (answers, labels)]
    return ballots(Answers("grid", cells=grids[0], labels=grids[1]), np.array(halt), np.array(ids), NAMES)


def test_identical_answers_are_counted_once_their_augmentations_are_undone():
    """[[1, 2]] under a quarter turn is [[2], [1]], with colours 1 and 2 exchanged [[2, 1]]: two votes against
    a surer one.
    """
    ballots = ballots_of((1, "33", "12", 9.0), (2, "2 1", "2 1", UNSURE), (3, "21", "21", UNSURE))

    assert list(ballots) == [("a", 0)]
    assert [grid.rows for grid in ballots["a", 0].ranked] == [[[1, 2]], [[3, 3]]]
    assert (pass_at(1, ballots), pass_at(2, ballots)) == (100, 100)


@pytest.mark.parametrize(("first", "second", "right"), [(UNSURE, SURE, 100), (SURE, UNSURE, 0)])
def test_of_equal_votes_the_surest_on_average_comes_first(first, second, right):
    votes = (1, "33", "12", first), (3, "21", "21", second)

    assert pass_at(1, ballots_of(*votes)) == pass_at(1, ballots_of(*votes[::-1])) == right


def test_a_task_counts_by_the_share_of_its_test_inputs():
    """Task a has two test inputs, answered in turn under each id, of which one is solved; b has one that is
    not.
    """
    ballots = ballots_of(
        (1, "1", "1", 0.0), (1, "5", "4", 0.0), (4, "7", "8", 0.0), (3, "2", "2", 0.0), (3, "5", "4", 0.0)
    )

    assert list(ballots) == [("a", 0), ("a", 1), ("b", 0)]
    assert ballots["a", 0].votes == {ArcGrid(1, b"\1"): [0.5, 0.5]}
    assert pass_at(1, ballots) == pass_at(2, ballots) == 25


def test_the_submission_has_two_attempts_at_each_test_input():
    """One answer is given twice, and a canvas without an answer is one 0."""
    ballots = ballots_of((4, "12 34", "1", 0.0), (1, "", "1", SURE), (1, "6", "6", 0.0), (3, "7", "7", 0.0))

    assert submission(ballots) == {
        "a": [{"attempt_1": [[0]], "attempt_2": [[7]]}, {"attempt_1": [[6]], "attempt_2": [[6]]}],
        "b": [{"attempt_1": [[1, 2], [3, 4]], "attempt_2": [[1, 2], [3, 4]]}],
    }
