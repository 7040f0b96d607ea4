"""More thinking at test by hand: networks whose answers are known, on grids that are to be read from right to
left.
"""

from itertools import combinations
from pathlib import Path

import pytest
import torch
from mirrored import SMALL, TINY, Mirrored
from torch.nn import functional as F

from recstudy.programs.settings import doubling_counts
from recstudy.recursive import HRM, AtTest, RunConfig, TrainConfig
from recstudy.recursive.contract.checks import training_of
from recstudy.recursive.data.cache import load
from recstudy.recursive.data.puzzles import numbers
from recstudy.recursive.models.networks.contract import Network, Output, build
from recstudy.recursive.tasks.at_test import add_noise, at_test, elect_answers, pass_at, sample_puzzles
from recstudy.recursive.testing import trained
from recstudy.report.targets import AT_TEST

RUN = RunConfig(data=Mirrored(), model=TINY, train=TrainConfig(batch_size=8))


def evaluate_at_test(network: Network, **fields) -> dict[str, float]:
    config = RUN.model_copy(update={"train": RUN.train.model_copy(update={"at_test": AtTest(**fields)})})
    training = training_of(config)
    return at_test(network, training._batches(training.data.test, shared=False), config)


def answer(images: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Logits (B, S, V) of the answer, or, where it is not `right`, (B,), of one that is wrong at the lower
    left.
    """
    cells = images.long().flip(3).flatten(1)
    cells[:, 3] += (~right) * torch.where(cells[:, 3] < 4, 1, -1)
    return 9 * F.one_hot(cells, 5).float()


class Drifts(Network):
    """y stays 1 and z where noise takes it; the answer is right, and said to be, where z is above 0.5."""

    def start(self, images, context=None):
        return (
            torch.ones(len(images), 1),
            torch.zeros(len(images), 1),
            torch.zeros(len(images), dtype=torch.int64),
        )

    def forward(self, images, carry):
        y, z, steps = carry
        assert (y == 1).all()
        return Output(answer(images, z[:, 0] > 0.5), z[:, 0]), (y, z, steps + 1)


class Lopsided(Drifts):
    """Right wherever the upper row's first token is not above the lower row's; equally sure of all."""

    def forward(self, images, carry):
        return Output(answer(images, self.right(images)), torch.zeros(len(images))), carry

    @staticmethod
    def right(images):
        return images[:, 0, 0, 0] <= images[:, 0, 1, 0]


def test_the_surest_of_more_noisy_trajectories_is_right_more_often():
    """After 4 segments z is N(0, 1), above 0.5 in 31 of 100; the largest of k in 1 - 0.69^k, where any is
    right at all.
    """
    drifts = evaluate_at_test(Drifts(), trajectories=6, noise=0.5, segments=4)

    for count, share in ((1, 31), (2, 52), (4, 77), (6, 89)):
        assert drifts[f"noisy_exact_accuracy.{count}"] == pytest.approx(share, abs=25)
        assert drifts[f"noisy_exact_accuracy.{count}"] == drifts[f"any_exact_accuracy.{count}"]
    assert drifts == evaluate_at_test(
        Drifts(), trajectories=6, noise=0.5, segments=4
    )  # noise follows from the seed
    assert list(drifts)[-4:] == [f"pass_at.{count}" for count in (1, 2, 4, 6)]
    assert drifts["pass_at.6"] == pytest.approx(drifts["any_exact_accuracy.6"])
    # the mean of six trajectories, where any.1 is the first alone
    assert drifts["pass_at.1"] == pytest.approx(31, abs=8)


def test_the_halting_head_chooses_even_where_it_is_mistaken():
    class Mistaken(Drifts):
        def forward(self, images, carry):
            output, carry = super().forward(images, carry)
            return output._replace(halt=-output.halt), carry

    chosen = evaluate_at_test(Mistaken(), trajectories=8, noise=0.5, segments=4)

    assert chosen["noisy_exact_accuracy.8"] < 10 < 90 < chosen["any_exact_accuracy.8"]


def test_pass_at_k_is_the_share_of_draws_with_one_that_is_right():
    """Of 5 trajectories, 2 right: every way to draw k of them, counted; and of any many the chance stays
    between 0 and 1.
    """
    right = [True, True, False, False, False]

    for count in range(1, 6):
        draws = [any(draw) for draw in combinations(right, count)]
        assert pass_at(count, 2, 5) == pytest.approx(sum(draws) / len(draws))
    assert [pass_at(512, right, 1024) for right in (0, 1, 513, 1024)] == [0, 0.5, 1, 1]


@pytest.mark.parametrize(
    ("model", "noisy"),
    [
        (HRM(**SMALL, low_layers=1, high_layers=1), 1),
        (TINY, 1),
        (TINY.model_copy(update={"states": "single"}), 0),
    ],
    ids=["hrm", "trm", "one state"],
)
def test_noise_is_on_the_last_state(model, noisy):
    carry = build(model, Mirrored()).start(torch.zeros(64, 1, 2, 3))

    new = add_noise(carry, AtTest(), torch.Generator().manual_seed(0))

    for index, (state, old_state) in enumerate(zip(new, carry, strict=True)):
        deviation = (state - old_state).float().std().item() if state.numel() else 0
        assert deviation == pytest.approx(0.3 if index == noisy else 0, rel=0.03)


def test_most_votes_win_and_of_several_the_surest_copies():
    """Puzzle 0: 5 twice; 1: once each, 6 is surest; 2: 5 and 6 twice each, means 2 and 3."""
    answers = torch.tensor([[[5], [6], [5], [7]], [[5], [6], [7], [8]], [[5], [6], [6], [5]]])
    sure = torch.tensor([[0.0, 9.0, 0.0, 9.0], [1.0, 3.0, 2.0, 0.0], [4.0, 2.0, 4.0, 0.0]])

    assert elect_answers(answers, sure).tolist() == [[5], [6], [6]]


def test_copies_answer_for_their_puzzle_when_they_are_turned_back():
    """A copy is right or wrong by which of its rows is above; the first is the puzzle itself, and none is
    surer than another.

    The mistake at the lower left is, of an exchanged copy, one at the upper left, which is not asked for. Of
    two copies that differ the first is elected.
    """
    test = load(Mirrored(), Path()).test
    images = torch.from_numpy(test.images[test.rows])
    exchanged = torch.from_numpy(numbers(0, test.rows, 0 * test.rows + 1, 1)[:, 0] < 0.5)
    first = Lopsided.right(images)
    second = exchanged | Lopsided.right(images)

    scores = evaluate_at_test(Lopsided(), copies=2, segments=1)

    expected = {"voted_exact_accuracy.1": first, "voted_exact_accuracy.2": first}
    expected |= {"any_copy_exact_accuracy.2": first | second, "flipped_puzzles.2": first ^ second}
    assert scores == pytest.approx(
        {name: 100 * right.double().mean().item() for name, right in expected.items()}
    )
    assert 0 < scores["flipped_puzzles.2"] < 100


def test_a_run_keeps_what_more_thinking_gives_and_computes_nothing_else_otherwise():
    train = {"train.evaluation_steps": 2, "train.supervision_steps": 2}
    base = RUN.with_changes(train)
    extended = base.with_changes({"train.at_test": AtTest(trajectories=3, copies=2, segments=2)})

    results = [trained(config).finish() for config in (base, extended)]

    added = results[1]["metrics"].keys() - results[0]["metrics"].keys()
    assert {name.partition(".")[0] for name in added} == set(AT_TEST)
    assert results[0]["metrics"] == {
        name: value for name, value in results[1]["metrics"].items() if name not in added
    }
    assert results[1]["metrics"]["voted_exact_accuracy.1"] == results[1]["metrics"]["exact_accuracy"]
    assert base.run_id == RUN.with_changes({**train, "train.at_test.noise": 0.3}).run_id != extended.run_id


def test_a_part_of_the_puzzles_is_spread_over_all():
    training = training_of(RUN)
    test = training._batches(training.data.test, shared=False)

    assert sample_puzzles(test, AtTest(puzzles=99)).rows.tolist() == test.rows.tolist()
    assert sample_puzzles(test, AtTest(puzzles=15)).rows.tolist() == test.rows[::3].tolist()
    assert [AtTest(puzzles=max_puzzles).scored(len(test.rows)) for max_puzzles in (15, 99)] == [14, 40]


def test_counts_are_doubled_up_to_the_last():
    assert [doubling_counts(maximum) for maximum in (0, 1, 5, 8)] == [[], [1], [1, 2, 4, 5], [1, 2, 4, 8]]
