"""Puzzles through the loop: loss, scores and halting by hand, symmetries and rounds, and what is kept to look
at.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from mirrored import SIZES, SMALL, TINY, Mirrored
from torch.nn import functional as F

from recstudy.recursive import TRM, Answers, Augment, Grid, RunConfig, TrainConfig, measured
from recstudy.recursive.contract import promises
from recstudy.recursive.data.batches import Batch, Batches
from recstudy.recursive.data.cache import load
from recstudy.recursive.data.puzzles import Groups, numbers, symmetries
from recstudy.recursive.metrics.kept import pack_answers, unpack_answers
from recstudy.recursive.models.networks.contract import Output
from recstudy.recursive.tasks.solving import (
    Solution,
    ThinkingRecorder,
    by_depth,
    halting,
    solve,
    sum_segments,
)
from recstudy.recursive.testing import trained
from recstudy.recursive.train.losses import step_loss, token_hits, token_share

SLOTS = TrainConfig(
    epochs=2, batch_size=32, halting="sample", supervision_steps=4, evaluation_steps=4, evaluation_depths=6, ema_decay=0.9,
    loss="stablemax", halt_weight=0.5,
)  # fmt: skip
RUN = RunConfig(data=Mirrored(), model=TINY, train=SLOTS)


def test_the_loss_of_two_puzzles_by_hand():
    """Three cells, two tokens beside PAD. Puzzle 0 is asked for two of them and has one right; puzzle 1 for
    one, and has it.

    Stablemax: s(1) = 2, s(0) = 1, s(-1) = 1/2. Puzzle 0: (-log 2/4 - log 1/4) / 2; puzzle 1: -log 2/3.5. The
        halting
    targets are 0 and 1, because only puzzle 1 is right as a whole; a probability of 3/4 costs log 4 and log
    4/3, at half the weight.
    """
    logits = torch.tensor(
        [[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]], [[-1.0, 0.0, 1.0], [0.0] * 3, [0.0] * 3]]
    )
    labels = torch.tensor([[1, 1, 0], [2, 0, 0]])
    batch = Batch(torch.zeros(2, 1, 1, 3), labels, None, 2)

    loss = step_loss(Output(logits, torch.full((2,), math.log(3))), batch, Grid(RUN))

    expected = [(math.log(2) + math.log(4)) / 2 + math.log(4) / 2, -math.log(2 / 3.5) + math.log(4 / 3) / 2]
    assert loss.tolist() == pytest.approx(expected)


def test_a_puzzle_of_which_no_cell_is_asked_for_is_right_at_every_place():
    """As in the authors' code; its share of right cells is 0 of 1."""
    logits, labels = F.one_hot(torch.tensor([[1, 2], [1, 1]]), 3).float(), torch.tensor([[0, 0], [1, 2]])

    hits, token_counts = token_hits(logits, labels)
    sums = sum_segments(hits[:, None], token_counts, torch.zeros(1, 2, 1, dtype=torch.bool), 1)

    assert token_share(logits, labels, exact=True).tolist() == [True, False]
    assert token_share(logits, labels, exact=False).tolist() == [0.0, 0.5]
    assert (sums["exact"].tolist(), sums["cells"].tolist(), sums["halted"].tolist()) == ([1.0], [0.5], [1.0])
    assert (
        measured(Answers("grid", labels=labels.numpy(), cells=logits.argmax(-1).numpy())).values[
            "exact_accuracy"
        ]
        == 50.0
    )


def test_scores_count_only_cells_that_are_asked_for(tmp_path):
    """Puzzle 0: all right where asked; 1: one of two; 2: none of one, though it breaks no rule. A file keeps
    them.
    """
    answers = Answers(
        "grid",
        labels=np.array([[1, 2, 0], [1, 2, 0], [3, 0, 0]]),
        cells=np.array([[1, 2, 3], [1, 1, 0], [1, 1, 1]]),
        lawful=np.array([1, 0, 1]),
        levels=np.array([5, 5, 7]),
    )

    values = measured(answers).values

    assert values["exact_accuracy"] == pytest.approx(100 / 3)
    assert values["cell_accuracy"] == pytest.approx(50)
    assert values["lawful_answers"] == pytest.approx(200 / 3)
    assert values["other_solutions"] == pytest.approx(100 / 3)
    assert (values["level_exact_accuracy.5"], values["level_exact_accuracy.7"]) == (50, 0)
    (tmp_path / "answers.npz").write_bytes(pack_answers(answers)[0])
    assert measured(unpack_answers(tmp_path / "answers.npz").answers).values == values


def test_accuracy_by_segment_and_by_its_own_halting_by_hand():
    """Three puzzles of two cells, three segments, of which two count for halting.

    Puzzle 0 halts at once and is right from the second on; 1 halts at the second, right there; 2 never does,
    right at the third. By the second rule all halt at once. Puzzle 1 is lost at the third segment. Of the
    right one of the last, 1, and the wrong one, 2, the head is surer of 1, and of 0 than of both.
    """
    changes = {"train.evaluation_steps": 2, "train.evaluation_depths": 3, "train.supervision_steps": 2}
    config = RUN.with_changes({**changes, "train.at_test.halts": "0.25"})
    hits = torch.tensor([[1, 2, 2], [0, 2, 0], [1, 1, 2]])
    halts = torch.tensor([[[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[1, 1, 1]] * 3]).bool()
    sums = sum_segments(hits, torch.tensor([2, 2, 2]), halts, last=2)
    solved = Solution(torch.empty(0), torch.empty(0), hits[:, 1] == 2, torch.tensor([5.0, 4.0, 4.0]), sums)

    assert by_depth(solved, config) == {
        "exact_accuracy": pytest.approx({"1": 0, "2": 200 / 3, "3": 200 / 3}),
        "cell_accuracy": pytest.approx({"1": 100 / 3, "2": 250 / 3, "3": 200 / 3}),
        "lost_puzzles": pytest.approx({"1": 0, "2": 0, "3": 100 / 3}),
    }
    assert halting(solved, config) == pytest.approx(
        {
            "halted_exact_accuracy": 100 / 3, "halted_exact_accuracy.0.25": 0, "halted_steps": 5 / 3, "halted_steps.0.25": 1,
            "halting_auroc": 75,
        }
    )  # fmt: skip
    assert "halting_auroc" not in halting(replace(solved, right=torch.ones(3, dtype=torch.bool)), config)


def test_numbers_follow_from_seed_row_and_turn_alone():
    rows, turns = np.arange(1000), np.full(1000, 3)

    draws = numbers(7, rows, turns, 4)

    assert np.array_equal(draws[500:], numbers(7, rows[500:], turns[500:], 4))
    for other_draws in (
        numbers(8, rows, turns, 4),
        numbers(7, rows, turns + 1, 4),
        numbers(7, rows + 1, turns, 4)[:-1],
    ):
        assert not np.isin(other_draws, draws[0]).any()
    assert 0 <= draws.min() < 0.01 < 0.99 < draws.max() < 1
    assert abs(np.corrcoef(draws.T)[np.triu_indices(4, 1)]).max() < 0.12


@pytest.mark.parametrize("count", [0, 3])
def test_a_puzzle_has_itself_and_so_many_symmetries_for_every_seed(count):
    config = Mirrored(augmentations=count)
    rows, turns = np.zeros(400, np.int64), np.arange(400)

    transformed = [symmetries(config, seed, rows, turns) for seed in (0, 1)]

    forms = [
        {("itself" if is_identity else float(draw[0])) for draw, is_identity in zip(*variants, strict=True)}
        for variants in transformed
    ]
    assert [len(variants) for variants in forms] == [count + 1] * 2
    assert forms[0] == forms[1]
    assert np.array_equal(transformed[0][1], transformed[1][1]) == (count == 0)


def test_an_epoch_goes_over_the_puzzles_in_rounds_under_symmetries():
    config, cpu = Mirrored(rounds=2), torch.device("cpu")
    split = load(config, Path(), hold_out=False).train
    batches = Batches(split, (0.0,), (1 / 255,), 5, 16, Augment(), 0, cpu, data=config, context=Grid.context)

    first, repeated, next_epoch = (list(batches.epoch(number)) for number in (0, 0, 1))

    images, labels = (torch.cat([getattr(batch, name) for batch in first]) for name in ("images", "labels"))
    # read from right to left, where it is asked for
    assert ((labels == images.flip(3).flatten(1)) | (labels == 0)).all()
    corners = (labels == 0).int().argmax(1)
    assert (len(batches), batches.size, len(corners)) == (15, 2 * SIZES[0], 2 * SIZES[0])
    assert sorted(corners.unique().tolist()) == [0, 3]  # as it is, or with the rows exchanged
    assert torch.equal(images, torch.cat([batch.images for batch in repeated]))
    assert not torch.equal(images, torch.cat([batch.images for batch in next_epoch]))


def test_an_epoch_takes_all_examples_of_one_puzzle_of_each_group():
    """Group 5 has puzzles 1 (examples at 0, 3) and 2 (at 1); group 6 has puzzle 9 (at 2, 4)."""
    groups = Groups(np.array([5, 5, 6, 5, 6]), np.array([1, 2, 9, 1, 9]))

    drawn_rows = [tuple(sorted(groups.one_of_each(np.random.default_rng(seed)))) for seed in range(40)]

    assert set(drawn_rows) == {(0, 2, 3, 4), (1, 2, 4)}


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_slots_of_puzzles_with_embeddings_resume_to_the_bit(optimizer):
    model = TRM(**SMALL, layers=1, puzzle_emb="puzzle", identifiers=3)
    promises.resumes_to_the_bit(RUN.with_changes({"model": model, "train.optimizer": optimizer}))


def test_a_run_is_scored_after_every_segment_and_keeps_its_thinking():
    """And where its head is sure enough: at a probability that is passed at once, and at one that is never
    reached.
    """
    changes = {
        "data.rounds": 8,
        "train.epochs": 6,
        "train.learning_rate": 1e-2,
        "train.at_test.halts": "1e-9,0.999999999",
    }

    training = trained(RUN.with_changes(changes))
    result = training.finish()
    metrics, depths, thinking = result["metrics"], result["depths"], training.files["thinking.npz"]

    assert metrics["cell_accuracy"] > 45  # by chance 25
    assert metrics["exact_accuracy"] == depths["exact_accuracy"]["4"]
    assert {"train_exact_accuracy", "halted_exact_accuracy", "lawful_answers"} <= metrics.keys()
    assert sorted(depths["cell_accuracy"]) == sorted(depths["residual"]) == list("123456")
    assert [metrics[f"halted_steps.{threshold}"] for threshold in ("1e-09", "0.999999999")] == [1, 4]
    assert [metrics[f"halted_exact_accuracy.{threshold}"] for threshold in ("1e-09", "0.999999999")] == [
        depths["exact_accuracy"][step] for step in "14"
    ]
    assert (thinking["cells"].shape, thinking["halt"].shape, thinking["given"].shape) == (
        (12, 6, 6),
        (12, 6),
        (12, 6),
    )
    exact = ((thinking["cells"][:, 3] == thinking["answers"]) | (thinking["answers"] == 0)).all(1)
    solved = solve(
        training.task, training.state.evaluated, training._batches(training.data.test, shared=False)
    )
    assert exact.tolist() == solved.right[:12].tolist()


def test_a_network_without_states_has_no_residual():
    recorder, batch = ThinkingRecorder(), Batch(torch.zeros(2, 1, 1, 3), torch.ones(2, 3), None, 2)
    recorder.record(batch, (), Output(torch.zeros(2, 3, 5)), (), 2)

    assert (len(recorder.cells), recorder.residual) == (1, {})
