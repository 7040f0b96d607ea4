"""Puzzles through the loop: loss, scores and halting by hand, symmetries and rounds, and what is kept to look at."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from mirrored import SIZES, SMALL, TINY, Mirrored
from torch.nn import functional as F

from recstudy.config import Augment, RunConfig, TrainConfig
from recstudy.contract import promises
from recstudy.data import Digits
from recstudy.data.batches import Batch, Batches
from recstudy.data.cache import load
from recstudy.data.puzzles import Groups, numbers, symmetries
from recstudy.errors import ConfigError
from recstudy.metrics import Answers, measured
from recstudy.metrics.kept import packed, unpacked
from recstudy.models import HRM, TRM, Transformer, ViTRM
from recstudy.models.networks.contract import Output
from recstudy.tasks import Grid
from recstudy.tasks.solving import Solved, by_depth, halting, solve, sums_of
from recstudy.testing import trained
from recstudy.train.losses import step_loss, token_hits, token_share

SLOTS = TrainConfig(
    epochs=2, batch_size=32, halting="sample", supervision_steps=4, evaluation_steps=4, evaluation_depths=6, ema_decay=0.9,
    loss="stablemax", halt_weight=0.5,
)  # fmt: skip
RUN = RunConfig(data=Mirrored(), model=TINY, train=SLOTS)


def task(**train):
    return Grid(RunConfig(data=Mirrored(), model=Transformer(**SMALL, layers=2), train=TrainConfig(**train)))


def test_the_loss_of_two_puzzles_by_hand():
    """Three cells, two tokens beside PAD. Puzzle 0 is asked for two of them and has one right; puzzle 1 for one, and has it.

    Stablemax: s(1) = 2, s(0) = 1, s(-1) = 1/2. Puzzle 0: (-log 2/4 - log 1/4) / 2; puzzle 1: -log 2/3.5. The halting
    targets are 0 and 1; a logit of 0 costs log 2 either way, at half the weight.
    """
    logits = torch.tensor([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]], [[-1.0, 0.0, 1.0], [0.0] * 3, [0.0] * 3]])
    labels = torch.tensor([[1, 1, 0], [2, 0, 0]])
    batch = Batch(torch.zeros(2, 1, 1, 3), labels, None, 2)

    loss = step_loss(Output(logits, torch.zeros(2)), batch, task(loss="stablemax", halt_weight=0.5))

    expected = [(math.log(2) + math.log(4)) / 2 + math.log(2) / 2, -math.log(2 / 3.5) + math.log(2) / 2]
    assert loss.tolist() == pytest.approx(expected)


def test_halting_is_learned_from_grids_that_are_right_as_a_whole():
    logits = F.one_hot(torch.tensor([[1, 2], [1, 1]]), 3).float() * 9
    batch = Batch(torch.zeros(2, 1, 1, 2), torch.tensor([[1, 2], [1, 2]]), None, 2)
    sure = torch.tensor([8.0, 8.0])

    loss = step_loss(Output(logits, sure), batch, task())

    cells = F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), reduction="none").view(2, 2).mean(1)
    assert (loss - cells).tolist() == pytest.approx([math.log1p(math.exp(-8)), 8 + math.log1p(math.exp(-8))], rel=1e-4)


def test_a_puzzle_of_which_no_cell_is_asked_for_is_right_at_every_place():
    """As in the authors' code; its share of right cells is 0 of 1."""
    logits, labels = F.one_hot(torch.tensor([[1, 2], [1, 1]]), 3).float(), torch.tensor([[0, 0], [1, 2]])

    hits, asked = token_hits(logits, labels)
    sums = sums_of(hits[:, None], asked, torch.zeros(1, 2, 1, dtype=torch.bool), 1)

    assert token_share(logits, labels, exact=True).tolist() == [True, False]
    assert token_share(logits, labels, exact=False).tolist() == [0.0, 0.5]
    assert (sums["exact"].tolist(), sums["cells"].tolist(), sums["halted"].tolist()) == ([1.0], [0.5], [1.0])
    assert measured(Answers("grid", labels=labels.numpy(), cells=logits.argmax(-1).numpy())).values["exact_accuracy"] == 50.0


def test_scores_count_only_cells_that_are_asked_for():
    """Puzzle 0: all right where asked; 1: one of two; 2: none of one, though it breaks no rule."""
    answers = Answers(
        "grid",
        labels=np.array([[1, 2, 0], [1, 2, 0], [3, 0, 0]]),
        cells=np.array([[1, 2, 3], [1, 1, 0], [1, 1, 1]]),
        lawful=np.array([1, 0, 1]),
        levels=np.array([5, 5, 7]),
    )

    found = measured(answers).values

    assert found["exact_accuracy"] == pytest.approx(100 / 3)
    assert found["cell_accuracy"] == pytest.approx(50)
    assert found["lawful_answers"] == pytest.approx(200 / 3)
    assert found["other_solutions"] == pytest.approx(100 / 3)
    assert (found["level_exact_accuracy.5"], found["level_exact_accuracy.7"]) == (50, 0)


def test_answers_of_puzzles_are_kept_whole(tmp_path):
    answers = Answers("grid", labels=np.array([[1, 2]]), cells=np.array([[2, 2]]), lawful=np.array([0]), rows=np.array([4]))
    content, count = packed(answers)
    (tmp_path / "answers.npz").write_bytes(content)

    kept = unpacked(tmp_path / "answers.npz")

    assert (count, kept.cut, kept.answers.task) == (1, False, "grid")
    for name in ("labels", "cells", "lawful", "rows"):
        assert getattr(kept.answers, name).tolist() == getattr(answers, name).tolist()


def test_accuracy_by_segment_and_by_its_own_halting_by_hand():
    """Three puzzles of two cells, three segments, of which two count for halting.

    Puzzle 0 halts at once and is right from the second on; 1 halts at the second, right there; 2 never does, right at the third.
    By the second rule all halt at once. Puzzle 1 is lost at the third segment. Of the right one of the last, 1, and the wrong
    one, 2, the head is surer of 1, and of 0 than of both.
    """
    changes = {"train.evaluation_steps": 2, "train.evaluation_depths": 3, "train.supervision_steps": 2}
    config = RUN.with_changes({**changes, "train.at_test.halts": "0.25"})
    hits = torch.tensor([[1, 2, 2], [0, 2, 0], [1, 1, 2]])
    halts = torch.tensor([[[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[1, 1, 1]] * 3]).bool()
    sums = sums_of(hits, torch.tensor([2, 2, 2]), halts, last=2)
    found = Solved(torch.empty(0), torch.empty(0), hits[:, 1] == 2, torch.tensor([5.0, 4.0, 4.0]), sums)

    assert by_depth(found, config) == {
        "exact_accuracy": pytest.approx({"1": 0, "2": 200 / 3, "3": 200 / 3}),
        "cell_accuracy": pytest.approx({"1": 100 / 3, "2": 250 / 3, "3": 200 / 3}),
        "lost_puzzles": pytest.approx({"1": 0, "2": 0, "3": 100 / 3}),
    }
    assert halting(found, config) == pytest.approx(
        {
            "halted_exact_accuracy": 100 / 3, "halted_exact_accuracy.0.25": 0, "halted_steps": 5 / 3, "halted_steps.0.25": 1,
            "halting_auroc": 75,
        }
    )  # fmt: skip
    assert "halting_auroc" not in halting(replace(found, right=torch.ones(3, dtype=torch.bool)), config)


def test_a_run_is_scored_where_its_head_is_first_sure_enough():
    """At a probability that is passed at once all puzzles halt after one segment, at one that is never reached after the last."""
    found = trained(RUN.with_changes({"train.epochs": 1, "train.at_test.halts": "1e-9,0.999999999"})).finish()
    told, depths = found["metrics"], found["depths"]["exact_accuracy"]

    assert [told[f"halted_steps.{at}"] for at in ("1e-09", "0.999999999")] == [1, 4]
    assert [told[f"halted_exact_accuracy.{at}"] for at in ("1e-09", "0.999999999")] == [depths["1"], depths["4"]]


def test_numbers_follow_from_seed_row_and_turn_alone():
    rows, turns = np.arange(1000), np.full(1000, 3)

    whole = numbers(7, rows, turns, 4)

    assert np.array_equal(whole[500:], numbers(7, rows[500:], turns[500:], 4))
    assert len(np.unique(whole)) == whole.size
    for other in (numbers(8, rows, turns, 4), numbers(7, rows, turns + 1, 4), numbers(7, rows + 1, turns, 4)[:-1]):
        assert not np.isin(other, whole[0]).any()
    assert whole.min() >= 0
    assert whole.max() < 1
    assert abs(whole.mean() - 0.5) < 0.02
    assert abs(np.corrcoef(whole.T)[np.triu_indices(4, 1)]).max() < 0.12


@pytest.mark.parametrize("count", [1, 3])
def test_a_puzzle_has_itself_and_so_many_symmetries_for_every_seed(count):
    config = Mirrored(augmentations=count)
    rows, turns = np.zeros(400, np.int64), np.arange(400)

    seen = [symmetries(config, seed, rows, turns) for seed in (0, 1)]

    forms = [{("itself" if same else float(draw[0])) for draw, same in zip(*one, strict=True)} for one in seen]
    assert [len(one) for one in forms] == [count + 1] * 2
    assert forms[0] == forms[1]
    assert not np.array_equal(seen[0][1], seen[1][1])


def batches(config: Mirrored, rank: int = 0, world: int = 1, size: int = 16) -> Batches:
    split = load(config, Path(), hold_out=False).train
    return Batches(
        split, (0.0,), (1 / 255,), 5, size, Augment(), 0, torch.device("cpu"), rank=rank, world=world, data=config, told=Grid.told
    )


def mirrored(batch: Batch) -> bool:
    """Whether every answer is its grid from right to left, wherever it is asked for."""
    right = batch.images.flip(3).flatten(1).long()
    return bool(((batch.labels == right) | (batch.labels == 0)).all())


def test_an_epoch_goes_over_the_puzzles_in_rounds_under_symmetries():
    one, epoch = batches(Mirrored(rounds=2)), []
    for batch in one.epoch(0):
        assert mirrored(batch)
        epoch.append(batch)

    corners = torch.cat([(batch.labels == 0).int().argmax(1) for batch in epoch])
    assert (len(one), one.size, len(corners)) == (15, 2 * SIZES[0], 2 * SIZES[0])
    assert sorted(corners.unique().tolist()) == [0, 3]  # as it is, or with the rows exchanged
    again, other = torch.cat([b.images for b in one.epoch(0)]), torch.cat([b.images for b in one.epoch(1)])
    assert torch.equal(again, torch.cat([batch.images for batch in epoch]))
    assert not torch.equal(again, other)


def test_without_augmentations_every_round_shows_each_puzzle_as_it_is():
    one = batches(Mirrored(rounds=2, augmentations=0))

    shown = torch.cat([batch.images for batch in one.epoch(0)]).flatten(1)

    for half in shown.split(SIZES[0]):
        assert torch.equal(half.sort(0).values, one.images.flatten(1).float().sort(0).values)


def test_two_workers_see_together_what_one_sees():
    whole = list(batches(Mirrored()).epoch(3))
    shares = [list(batches(Mirrored(), rank, 2).epoch(3)) for rank in (0, 1)]

    for one, left, right in zip(whole, *shares, strict=True):
        assert torch.equal(one.images, torch.cat([left.images, right.images]))
        assert torch.equal(one.labels, torch.cat([left.labels, right.labels]))


def test_an_epoch_takes_all_examples_of_one_puzzle_of_each_group():
    """Group 5 has puzzles 1 (examples at 0, 3) and 2 (at 1); group 6 has puzzle 9 (at 2, 4)."""
    groups = Groups(np.array([5, 5, 6, 5, 6]), np.array([1, 2, 9, 1, 9]))

    drawn = [tuple(sorted(groups.one_of_each(np.random.default_rng(seed)))) for seed in range(40)]

    assert set(drawn) == {(0, 2, 3, 4), (1, 2, 4)}


@pytest.mark.parametrize(
    "model",
    [TINY, HRM(**SMALL, low_layers=1, high_layers=1), TRM(**SMALL, layers=1, puzzle_emb="puzzle", identifiers=3)],
    ids=["trm", "hrm", "puzzle table"],
)
def test_slots_of_puzzles_resume_to_the_bit(model):
    promises.resumes_to_the_bit(RUN.with_changes({"model": model}))


def test_puzzles_without_identifiers_share_a_row_that_signsgd_trains_at_its_own_rate():
    """Two updates from 0 with rate 0.01 and decay 1: the first gives +-0.01, the second +-0.01 to 0.99 of that."""
    model = TRM(**SMALL, layers=1, puzzle_emb="puzzle", identifiers=1)
    train = {"puzzle_learning_rate": 0.01, "puzzle_weight_decay": 1.0, "schedule": "update", "final_learning_rate": 3e-4}
    config = RunConfig(data=Mirrored(), model=model, train=SLOTS.model_copy(update=train | {"epochs": 1, "batch_size": 54}))
    training = trained(config)

    row = training.state.network.puzzle.weight[0]

    updates = len(training._batches(training.data.train, shared=False))
    assert (updates, row.shape) == (2, (config.model.width,))
    expected = torch.tensor([0.01 * 0.99 + 0.01, 0.01 * 0.99 - 0.01])
    assert torch.isclose(row.abs()[:, None], expected.abs(), rtol=1e-4).any(1).all()


def test_a_run_is_scored_after_every_segment_and_keeps_its_thinking():
    config = RUN.with_changes({"data.rounds": 8, "train.epochs": 6, "train.learning_rate": 1e-2})

    training = trained(config)
    found = training.finish()
    thinking = training.kept["thinking.npz"]

    assert found["metrics"]["exact_accuracy"] == found["depths"]["exact_accuracy"]["4"]
    assert sorted(found["depths"]["cell_accuracy"], key=int) == list("123456")
    assert found["metrics"]["cell_accuracy"] > 45  # by chance 25
    assert {"train_exact_accuracy", "halted_exact_accuracy", "halted_steps", "lawful_answers"} <= found["metrics"].keys()
    assert (thinking["cells"].shape, thinking["halt"].shape) == ((12, 6, 6), (12, 6))
    assert (thinking["colours"].shape, thinking["boxes"].tolist()) == ((0,), [0, 0])
    assert sorted(found["depths"]["residual"], key=int) == list("123456")
    assert all(0 < moved < 3 for moved in found["depths"]["residual"].values())
    assert thinking["given"].shape == thinking["answers"].shape == (12, 6)
    exact = ((thinking["cells"][:, 3] == thinking["answers"]) | (thinking["answers"] == 0)).all(1)
    solved = solve(training.task, training.state.evaluated, training._batches(training.data.test, shared=False))
    assert exact.tolist() == solved.right[:12].tolist()


def test_a_transformer_answers_in_one_pass_and_never_halts():
    train = TrainConfig(epochs=1, batch_size=32)
    found = trained(RunConfig(data=Mirrored(), model=Transformer(**SMALL, layers=2), train=train)).finish()

    assert Grid.score == "exact_accuracy"
    assert found["metrics"]["exact_accuracy"] >= 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": TRM(width=16, heads=2)}, "model.tokens must be 'cell' for Mirrored grids"),
        (
            {"model": ViTRM()},
            "ViTRM gives an answer an image, but Mirrored grids .* needs an answer a cell of a grid, which transformer, hrm, trm give",
        ),
        ({"model": TINY.model_copy(update={"halves": "carry"})}, "model.halves must be 'whole'"),
        ({"model": TINY.model_copy(update={"puzzle_emb": "patient", "identifiers": 3})}, "must be 'none' or 'puzzle'"),
        ({"train.augment.flip": True}, "train.augment must be off for puzzles"),
        ({"data": Digits()}, r"model\.tokens must be .pixel. or .patch. for Digits"),
        ({"train.loss": "stablemax", "train.score": "nll"}, "train.score 'nll' is for multiclass and multilabel data"),
    ],
    ids=["tokens", "family", "halves", "patients", "augment", "no puzzles", "score"],
)
def test_what_does_not_fit_puzzles_is_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        RUN.with_changes(changes)
