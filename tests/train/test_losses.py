import math

import pytest
import torch

from recstudy.config import TrainConfig
from recstudy.data.batches import Batch
from recstudy.models.networks.contract import Output
from recstudy.train.losses import step_loss

LOG3 = math.log(3)


def batch(label, targets=None):
    return Batch(torch.zeros(1, 1, 1, 1), torch.tensor([label]), None if targets is None else torch.tensor([targets]), 1)


def output(halt):
    """Softmax over logits (ln 3, 0) is (3/4, 1/4); the answer is class 0."""
    return Output(torch.tensor([[LOG3, 0.0]]), None if halt is None else torch.tensor([halt]))


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (0, math.log(4 / 3) + math.log(4 / 3)),  # right: -log 3/4, and halting probability 3/4 against 1
        (1, math.log(4) + math.log(4)),  # wrong: -log 1/4, and 3/4 against 0
    ],
)
def test_classification_and_halting_by_hand(label, expected):
    """Equation (5) at halting logit ln 3."""
    assert step_loss(output(LOG3), batch(label), TrainConfig()).item() == pytest.approx(expected, rel=1e-6)


def test_halting_weight_and_a_model_without_a_halting_head():
    assert step_loss(output(LOG3), batch(0), TrainConfig(halt_weight=0)).item() == pytest.approx(math.log(4 / 3))
    assert step_loss(output(LOG3), batch(0), TrainConfig(halt_weight=2)).item() == pytest.approx(3 * math.log(4 / 3))
    assert step_loss(output(None), batch(0), TrainConfig()).item() == pytest.approx(math.log(4 / 3))


@pytest.mark.parametrize(("target", "correct"), [("original", True), ("mixed", False)])
def test_halting_target_of_a_mixed_image(target, correct):
    """Label 0 mixed with 70 % of class 1: class 0 is right by the original label, wrong by the mixture's largest part."""
    classification = 0.3 * math.log(4 / 3) + 0.7 * math.log(4)
    halting = math.log(4 / 3) if correct else math.log(4)

    loss = step_loss(output(LOG3), batch(0, [0.3, 0.7]), TrainConfig(halting_target=target))

    assert loss.item() == pytest.approx(classification + halting, rel=1e-6)


def test_label_smoothing_by_hand():
    """With 0.2 over 2 classes the target is (0.9, 0.1)."""
    expected = 0.9 * math.log(4 / 3) + 0.1 * math.log(4)

    assert step_loss(output(None), batch(0), TrainConfig(label_smoothing=0.2)).item() == pytest.approx(expected, rel=1e-6)


def test_the_halting_target_sends_no_gradient_to_the_answer():
    logits = torch.tensor([[LOG3, 0.0]], requires_grad=True)
    halt = torch.tensor([LOG3], requires_grad=True)

    step_loss(Output(logits, halt), batch(1), TrainConfig()).sum().backward()

    torch.testing.assert_close(logits.grad, torch.tensor([[0.75, -0.75]]))
    torch.testing.assert_close(halt.grad, torch.tensor([0.75]))
