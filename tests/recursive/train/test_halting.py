"""Slots, exploration and the halting targets of HRM and TRM, worked by hand."""

import math
import shutil

import pytest
import torch
from torch import Tensor

from recstudy.recursive import HRM, TRM, DataConfig, Digits, TrainConfig
from recstudy.recursive.contract.checks import training_of
from recstudy.recursive.data.batches import Batch
from recstudy.recursive.models.costs import cost
from recstudy.recursive.models.networks.contract import Carry, Output
from recstudy.recursive.testing import tiny_run
from recstudy.recursive.train.halting import Slots, find_halted, proceed_target, refill_slots
from recstudy.recursive.train.loop import Training, detached
from recstudy.recursive.train.losses import step_loss

SMALL = {"width": 16, "heads": 2, "vocabulary": 17}
HRM_SMALL = HRM(**SMALL, low_layers=1, high_layers=1)


class Counter:
    """A network whose state is a number, 0 at the start."""

    def start(self, images: Tensor, groups: Tensor | None = None) -> Carry:
        return (torch.zeros(len(images), 1),)


def batch(*values: float, groups: bool = False) -> Batch:
    images = torch.tensor(values).view(-1, 1, 1, 1)
    labels = torch.tensor(values).long()
    return Batch(images, labels, None, len(values), labels + 100 if groups else None)


def output(halt: list[float], proceed: list[float] | None = None) -> Output:
    return Output(
        torch.zeros(len(halt), 2), torch.tensor(halt), None if proceed is None else torch.tensor(proceed)
    )


def test_only_halted_slots_take_a_new_sample_and_restart():
    """Three slots after some steps; the middle one has halted: it takes sample 20 and state 0, and counts
    from 0.
    """
    old = Slots(batch(1.0, 2.0, 3.0, groups=True), (torch.tensor([[7.0], [8.0], [9.0]]),),
                torch.tensor([4, 16, 2]), torch.tensor([False, True, False]))  # fmt: skip

    new = refill_slots(old, batch(10.0, 20.0, 30.0, groups=True), Counter())  # type: ignore[arg-type]

    assert new.batch.images.flatten().tolist() == [1, 20, 3]
    assert new.batch.labels.tolist() == [1, 20, 3]
    assert new.batch.context is not None
    assert new.batch.context.tolist() == [101, 120, 103]
    assert new.carry[0].flatten().tolist() == [7, 0, 9]
    assert new.steps.tolist() == [4, 0, 2]


def test_a_sample_halts_when_it_is_surer_to_be_right_than_to_gain():
    """HRM: halt > proceed, or the last step. TRM: halt > 0, or the last step. Without exploration; and not
    before all is seen.
    """
    config = TrainConfig(supervision_steps=4, halting="sample", exploration=0.0)
    steps = torch.tensor([1, 1, 4])

    assert find_halted(output([1.0, 1.0, -9.0], [0.5, 1.5, 9.0]), steps, config).tolist() == [
        True,
        False,
        True,
    ]
    assert find_halted(output([0.1, -0.1, -9.0]), steps, config).tolist() == [True, False, True]
    assert find_halted(output([5.0, 5.0]), torch.tensor([1, 2]), config, unseen=1).tolist() == [False, True]


def test_exploration_delays_a_halt_of_its_share_by_a_least_number_of_steps_from_two_on():
    """Every sample is sure after one step. With exploration 1 each has M_min in {2, 3, 4}, a third of them
    each.
    """
    torch.manual_seed(0)
    sure = output([5.0] * 30_000)

    def share(step: int, exploration: float, max_steps: int) -> float:
        config = TrainConfig(supervision_steps=max_steps, halting="sample", exploration=exploration)
        return find_halted(sure, torch.full((30_000,), step), config).double().mean().item()

    assert [share(step, 1.0, 4) for step in (1, 2, 3, 4)] == [
        0,
        pytest.approx(1 / 3, abs=0.01),
        pytest.approx(2 / 3, abs=0.01),
        1,
    ]
    assert share(1, 0.1, 16) == pytest.approx(0.9, abs=0.01)


def test_the_value_of_going_on_is_learned_from_the_next_step():
    """sigmoid(max(halt', proceed')); at the last step sigmoid(halt')."""
    target = proceed_target(output([0.0, 1.0, -1.0], [2.0, 0.5, 3.0]), torch.tensor([1, 2, 4]), max_steps=4)

    assert target.tolist() == pytest.approx(
        [1 / (1 + math.exp(-2)), 1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1))]
    )


def training(model, data: DataConfig | None = None, **train) -> Training:
    settings = {
        "epochs": 2,
        "batch_size": 8,
        "supervision_steps": 4,
        "evaluation_steps": 4,
        "halting": "sample",
        "ema_decay": 0.0,
    }
    return training_of(tiny_run(model, data or Digits(limit=48), **settings | train))


def test_slots_live_on_from_batch_to_batch():
    """Nobody is sure (bias -5 on both outputs, so halt = proceed): all samples run to step 4, then all are
    replaced.
    """
    run = training(HRM_SMALL, exploration=0.0, learning_rate=1e-12, weight_decay=0.0)
    run.state.network.train()
    carried_steps = []
    for item in run._train.epoch(0):
        if item.total == 8:
            run.train_slots(item)
            slots = run.state.slots
            carried_steps.append((slots.batch.labels.tolist(), slots.steps.tolist(), slots.halted.tolist()))

    assert [steps[0] for _, steps, _ in carried_steps] == [1, 2, 3, 4, 1]
    assert carried_steps[0][0] == carried_steps[3][0] != carried_steps[4][0]
    assert carried_steps[3][2] == [True] * 8


def test_halting_by_sample_trains_and_counts_what_it_used():
    run = training(HRM_SMALL, exploration=0.5)
    lines = list(run.epochs())

    assert all(line["train_loss"] > 0 for line in lines)
    compute = run.state.compute
    assert compute["image_steps"] == 2 * 40  # 43 images in batches of 8: five full ones an epoch
    assert 16 <= compute["images"] <= 80
    assert all(1 <= line["supervision_steps_used"] <= 4 for line in lines)
    assert run.state.updates == 10


def test_two_passes_add_their_gradients_for_one_update():
    """Nobody halts, so both passes are on the batch's samples: w <- w - rate (g1 + g2), by hand."""
    run = training(
        TRM(**SMALL, layers=1, prefix=1, cycles=1, latent_steps=1),
        passes=2,
        exploration=0.0,
        optimizer="sgd",
        optimizer_options={"momentum": 0.0},
        learning_rate=0.1,
        final_learning_rate=0.1,
        weight_decay=0.0,
    )
    network, item = run.state.network.train(), next(iter(run._train.epoch(0)))
    first, carry = network(item.images, network.start(item.images))
    second, _ = network(item.images, detached(carry))
    loss = sum(step_loss(output, item, run.task).mean() for output in (first, second))
    loss.backward()
    expected = {
        name: (weight - 0.1 * weight.grad).detach()
        for name, weight in network.named_parameters()
        if weight.grad is not None
    }

    run._schedule()
    for number in (1, 2):
        run.train_slots(item, number)

    assert (run.state.updates, run.state.slots.steps.tolist()) == (1, [2] * 8)
    for name, weight in network.named_parameters():
        torch.testing.assert_close(weight.detach(), expected[name])


def test_two_passes_cost_twice_as_much_and_are_one_update():
    one, two = training(HRM_SMALL), training(HRM_SMALL, passes=2)
    list(two.epochs())

    assert (two.state.updates, two.state.compute["image_steps"]) == (10, 2 * 2 * 40)
    assert len(two.trace["losses"]) == 5
    assert cost(two.config).train_gflops == 2 * cost(one.config).train_gflops


def test_an_epoch_in_which_no_sample_begins_or_halts_counts_the_steps_of_those_in_work():
    """One batch an epoch, and nobody is sure: all samples begin in the first epoch and halt in the fourth."""
    run = training(HRM_SMALL, batch_size=43, epochs=4, exploration=0.0, learning_rate=1e-12, weight_decay=0.0)

    assert [line["supervision_steps_used"] for line in run.epochs()] == [1, 1, 1, 4]


@pytest.mark.parametrize("steps", [1, 2])
def test_a_single_step_trains_no_proceed(steps):
    """With one step there is nothing to proceed to: HRM's code has that loss only where there may be two."""
    run = training(HRM_SMALL, supervision_steps=steps, evaluation_steps=1, epochs=1, weight_decay=0.0)
    head = run.state.network.get_submodule("q_head")
    halt, proceed = head.bias.detach().clone()

    list(run.epochs())

    assert head.bias[0] != halt
    assert (head.bias[1] == proceed) == (steps == 1)


# pytest makes an error of the warning that torch hides while it looks at the tensors between two graphs
@pytest.mark.whole
@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf", "ignore::DeprecationWarning"
)
def test_compiling_changes_neither_losses_nor_slots():
    if not shutil.which("c++"):
        pytest.skip("torch.compile needs a C++ compiler on a CPU")
    eager = training(TRM(**SMALL, layers=1, prefix=1, cycles=1, latent_steps=1), data=Digits(limit=24))
    compiled = Training(eager.config, eager.data, torch.device("cpu"), compile=True)
    for run in (eager, compiled):
        next(run.epochs())

    assert compiled.trace["losses"] == pytest.approx(eager.trace["losses"], rel=1e-4)
    assert torch.equal(compiled.state.slots.steps, eager.state.slots.steps)
    assert torch.equal(compiled.state.slots.batch.images, eager.state.slots.batch.images)
    torch.testing.assert_close(
        compiled.state.slots.carry[0], eager.state.slots.carry[0], rtol=1e-3, atol=1e-4
    )


def test_the_halting_head_learns_when_it_is_right():
    """With all labels equal the answer is learned at once; then samples halt after fewer than four steps."""
    run = training(TRM(**SMALL, layers=1, prefix=1, cycles=1, latent_steps=1), epochs=30, exploration=0.0,
                   learning_rate=1e-2)  # fmt: skip
    run._train.labels = torch.zeros_like(run._train.labels)
    lines = list(run.epochs())

    assert lines[0]["supervision_steps_used"] > 3
    assert lines[-1]["supervision_steps_used"] < 1.5


@pytest.mark.parametrize(
    ("changes", "updates"),
    [
        ({}, 4),
        ({"train.detach_carry": False}, 1),
        ({"train.halting": "sample"}, 1),
        ({"model.halves": "carry", "model.half_steps": 1}, 3),  # the left half alone gives no loss
        ({"model.halves": "carry", "model.half_loss": "both"}, 4),
    ],
    ids=str,
)
def test_a_batch_takes_the_updates_that_are_counted(changes, updates):
    run = training(HRM_SMALL, halting="batch", halt_threshold=1)
    run = training_of(run.config.with_changes(changes))
    train = run.train_slots if run.config.train.halting == "sample" else run.train_batch
    run.state.network.train()
    train(next(iter(run._train.epoch(0))))

    assert run.state.updates == run.config.updates_a_batch == updates
