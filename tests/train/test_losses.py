import math

import pytest
import torch

from recstudy.config import PAD, RunConfig, TrainConfig
from recstudy.data import Digits
from recstudy.data.batches import Batch
from recstudy.models import CNN
from recstudy.models.networks.contract import Output
from recstudy.tasks import Captioning, Classification, Findings
from recstudy.train.losses import stablemax
from recstudy.train.losses import step_loss as loss_of_step

LOG3 = math.log(3)


def batch(label, targets=None):
    return Batch(torch.zeros(1, 1, 1, 1), torch.tensor([label]), None if targets is None else torch.tensor([targets]), 1)


def step_loss(output, batch, train, proceed_target=None, kind=Classification):
    return loss_of_step(output, batch, kind(RunConfig(data=Digits(), model=CNN(), train=train)), proceed_target)


def answer_loss(logits, labels):
    """Of images with several labels."""
    return step_loss(Output(logits), Batch(logits, labels, None, len(labels)), TrainConfig(), kind=Findings)


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


def test_stablemax_by_hand():
    """s(1) = 2, s(0) = 1, s(-1) = 1/2: shares 4/7, 2/7, 1/7."""
    loss = stablemax(torch.tensor([[1.0, 0.0, -1.0]] * 3), torch.tensor([0, 1, 2]))

    assert loss.tolist() == pytest.approx([math.log(7 / 4), math.log(7 / 2), math.log(7)])


def test_stablemax_with_shared_and_smoothed_labels():
    logits = torch.tensor([[1.0, 0.0, -1.0]])
    mixed = stablemax(logits, torch.tensor([[0.5, 0.5, 0.0]]))
    smooth = stablemax(logits, torch.tensor([0]), smoothing=0.3)

    assert mixed.item() == pytest.approx((math.log(7 / 4) + math.log(7 / 2)) / 2)
    assert smooth.item() == pytest.approx(0.8 * math.log(7 / 4) + 0.1 * math.log(7 / 2) + 0.1 * math.log(7))


def test_stablemax_has_a_finite_gradient_everywhere():
    logits = torch.tensor([[0.0, -50.0, 50.0, -1e4]], requires_grad=True)
    stablemax(logits, torch.tensor([1])).sum().backward()

    assert torch.isfinite(logits.grad).all()


def test_several_labels_count_where_they_are_known():
    """Logits ln 3, 0, 7 against 1, 0, unknown: (-log 3/4 - log 1/2) / 2; an image of unknown labels alone costs nothing."""
    logits = torch.tensor([[LOG3, 0.0, 7.0]] * 2)
    loss = answer_loss(logits, torch.tensor([[1, 0, -1], [-1, -1, -1]]))

    assert loss.tolist() == pytest.approx([(math.log(4 / 3) + math.log(2)) / 2, 0.0])


def test_several_labels_are_right_when_every_known_one_is():
    logits = torch.tensor([[1.0, -1.0, 5.0], [1.0, 1.0, 5.0]])

    labels = torch.tensor([[1, 0, -1], [1, 0, -1]])

    assert Findings.right(None, Output(logits), Batch(logits, labels, None, 2)).tolist() == [True, False]


def test_a_vocabulary_larger_than_the_classes_takes_mixed_labels():
    """Targets over 2 classes, logits over 3 tokens: the third token has share 0."""
    mixed = Batch(torch.zeros(1, 1, 1, 1), torch.tensor([0]), torch.tensor([[0.25, 0.75]]), 1)
    loss = step_loss(Output(torch.tensor([[0.0, LOG3, 0.0]])), mixed, TrainConfig())

    assert loss.item() == pytest.approx(0.25 * math.log(5) + 0.75 * math.log(5 / 3))


def test_the_value_of_going_on_is_half_of_the_halting_loss():
    """HRM: CE + 0.5 (BCE(halt) + BCE(proceed)): halt ln 3 on a right answer, proceed 0 against a target of 0.25."""
    said = Output(torch.tensor([[LOG3, 0.0]]), torch.tensor([LOG3]), torch.tensor([0.0]))
    loss = step_loss(said, batch(0), TrainConfig(halt_weight=0.5), torch.tensor([0.25]))

    assert loss.item() == pytest.approx(math.log(4 / 3) + 0.5 * (math.log(4 / 3) + math.log(2)))


def test_the_mean_of_a_captions_loss_by_hand():
    """Logits 0 over 4 tokens, but 20 for the right one of the second caption: losses ln 4 a token, and 0.

    Captions of 3 tokens and 1: each its own mean gives (ln 4 + 0) / 2, all tokens together 3 ln 4 / 4.
    """
    tokens = torch.tensor([[1, 2, 3, 2], [1, 3, PAD, PAD]])
    logits = torch.zeros(2, 3, 4)
    logits[1, 0, 3] = 20.0
    captions = Batch(torch.zeros(2, 1, 1, 1), tokens, None, 2)

    found = {
        mean: step_loss(Output(logits), captions, TrainConfig(caption_mean=mean), kind=Captioning).mean().item()
        for mean in ("caption", "batch")
    }

    assert found == {"caption": pytest.approx(math.log(4) / 2), "batch": pytest.approx(3 * math.log(4) / 4)}
