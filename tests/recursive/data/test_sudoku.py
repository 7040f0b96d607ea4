"""Generated Sudokus: one solution each by a second solver, no class in both splits, symmetries that keep the
rules.
"""

import json
from functools import cache
from itertools import product
from operator import eq
from pathlib import Path

import numpy as np
import pytest
import torch

from recstudy.programs.trial import run_trial
from recstudy.recursive import Sudoku
from recstudy.recursive.data.cache import load
from recstudy.recursive.data.sudoku import canonical, in_classes
from recstudy.recursive.testing import make_trial, tiny_model, tiny_run

BOXES = {4: (2, 2), 6: (2, 3), 9: (3, 3)}


@cache
def small(side, **fields):
    config = Sudoku(side=side, puzzles=16, test_puzzles=16, **fields)
    return config, config.generate()


def solutions_of(puzzle, max_solutions=2):
    """Up to so many solutions of a puzzle (S,), by trial and error: tokens (S,) each."""
    side = round(len(puzzle) ** 0.5)
    tall, wide = BOXES[side]
    places = [(row, column, (row // tall, column // wide)) for row, column in product(range(side), repeat=2)]

    def candidates(cell):
        neighbours = [
            neighbour for neighbour, place in enumerate(places) if any(map(eq, place, places[cell]))
        ]
        return {*range(2, side + 2)} - {puzzle[neighbour] for neighbour in neighbours}

    if 1 not in puzzle:
        return [puzzle]
    cell = min(
        (cell for cell, token in enumerate(puzzle) if token == 1), key=lambda cell: len(candidates(cell))
    )
    solutions = []
    for token in candidates(cell):
        if len(solutions) < max_solutions:
            solutions += solutions_of(
                [*puzzle[:cell], token, *puzzle[cell + 1 :]], max_solutions - len(solutions)
            )
    return solutions


@pytest.mark.parametrize(("side", "givens"), [(4, 9), (6, None), (9, 40)])
def test_every_puzzle_has_the_one_solution_that_is_asked_for(side, givens):
    _, puzzle_set = small(side, givens=givens)
    for puzzles, answers in (
        (puzzle_set.train_images, puzzle_set.train_labels),
        (puzzle_set.test_images, puzzle_set.test_labels),
    ):
        assert (puzzles.shape, answers.shape) == ((16, 1, side, side), (16, side * side))
        for puzzle, answer in zip(puzzles[:6].reshape(6, -1), answers[:6].tolist(), strict=True):
            assert solutions_of(puzzle.tolist()) == [answer]
            assert np.count_nonzero(puzzle > 1) == givens or givens is None


@pytest.mark.parametrize(("side", "classes", "kin", "grids"), [(4, 2, 96, 288), (6, 49, 34_560, 28_200_960)])
def test_number_of_grids_and_classes_is_the_published_one(side, classes, kin, grids):
    """By the numbers that are published; each grid in order stands for as many: digits, and lines of all but
    one block.
    """
    ordered, class_sizes = in_classes(side)

    assert len(ordered) * kin == grids
    assert np.unique(class_sizes).tolist() == list(range(classes))


@pytest.mark.parametrize("side", [4, 6, 9])
def test_a_class_has_one_form_which_is_of_the_class_and_no_class_is_in_both_splits(side):
    config, puzzle_set = small(side)
    grids = torch.from_numpy(puzzle_set.train_labels)
    _, turned = config.apply_symmetry(grids, grids, torch.rand(16, config.draws, dtype=torch.float64))
    forms, test_forms = canonical(puzzle_set.train_labels - 2), canonical(puzzle_set.test_labels - 2)

    assert (canonical(turned.numpy() - 2) == forms).all()
    assert (canonical(forms) == forms).all()
    assert config.check_answers(np.ones_like(forms), forms + 2).all()
    assert not {form.tobytes() for form in forms} & {form.tobytes() for form in test_forms}


def test_validation_holds_out_whole_classes_of_6x6(tmp_path):
    data = load(Sudoku(puzzles=64, test_puzzles=16), tmp_path)
    parts = [set(split.groups[split.rows].tolist()) for split in (data.train, data.validation, data.test)]

    assert all(parts)
    assert sum(map(len, parts)) == len(set.union(*parts))


@pytest.mark.parametrize("side", [4, 6, 9])
def test_symmetries_keep_solutions_and_follow_from_their_numbers(side):
    """Of one grid sixteen others; cells that are not asked for stay so."""
    config, puzzle_set = small(side)
    puzzles, answers = (
        torch.from_numpy(puzzle_set.train_images.reshape(16, -1)).long(),
        torch.from_numpy(puzzle_set.train_labels),
    )
    draws = torch.from_numpy(np.random.default_rng(side).random((16, config.draws)))
    turned, right = config.apply_symmetry(puzzles, answers, draws)

    assert (turned.dtype, right.dtype) == (torch.int64, torch.uint8)
    assert torch.equal(config.undo_symmetry(right, draws), answers)
    assert torch.equal(config.undo_symmetry(turned, draws), puzzles)
    assert config.check_answers(turned.numpy(), right.numpy()).all()
    assert torch.equal(
        config.apply_symmetry(puzzles, torch.where(puzzles > 1, 0, answers), draws)[1] == 0, turned > 1
    )
    assert (
        len(
            config.apply_symmetry(puzzles[:1].expand(16, -1), answers[:1].expand(16, -1), draws)[0].unique(
                dim=0
            )
        )
        == 16
    )


def test_lawful_by_hand():
    config = Sudoku(side=4)
    right = np.array([2, 3, 4, 5, 4, 5, 2, 3, 3, 2, 5, 4, 5, 4, 3, 2])
    twice_in_a_box = np.array([2, 3, 4, 5, 3, 4, 5, 2, 4, 5, 2, 3, 5, 2, 3, 4])
    blank = np.where(np.arange(16) == 0, 2, 1)

    answers = np.stack([right, right[::-1], twice_in_a_box, np.where(right == 5, 1, right), right])
    puzzles = np.stack([blank, blank, blank, blank, np.where(np.arange(16) == 0, 3, 1)])

    assert config.check_answers(puzzles, answers).tolist() == [1, 1, 0, 0, 0]


def test_each_generated_puzzle_is_a_draw_of_its_own_whatever_its_class(tmp_path):
    data = Sudoku(side=4, puzzles=32, test_puzzles=16)
    trial = make_trial(
        tmp_path,
        tiny_run(tiny_model("trm", tokens="cell"), data, epochs=1, batch_size=16, supervision_steps=1),
    )

    run_trial(trial, lambda line: None)

    result = json.loads((Path(trial.folder) / "result.json").read_text())
    assert len(np.unique(load(data, tmp_path / "cache").test.groups)) < 16
    assert result["answers"] == {"kept": 16, "of": 16}
