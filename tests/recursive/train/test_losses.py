import math

import pytest
import torch

from recstudy.recursive import CNN, PAD, Captioning, Classification, Digits, Findings, RunConfig, TrainConfig
from recstudy.recursive.data.batches import Batch
from recstudy.recursive.models.networks.contract import Output
from recstudy.recursive.train.losses import stablemax
from recstudy.recursive.train.losses import step_loss as loss_of_step

LOG3 = math.log(3)


def batch(label, targets=None):
    return Batch(
        torch.zeros(1, 1, 1, 1),
        torch.tensor([label]),
        None if targets is None else torch.tensor([targets]),
        1,
    )


def step_loss(output, batch, train, proceed_target=None, kind=Classification):
    return loss_of_step(
        output, batch, kind(RunConfig(data=Digits(), model=CNN(), train=train)), proceed_target
    )


def output(halt):
    """Softmax over logits (ln 3, 0) is (3/4, 1/4); the answer is class 0."""
    return Output(torch.tensor([[LOG3, 0.0]]), None if halt is None else torch.tensor([halt]))


# of class 0 and of class 1; of a halting probability of 3/4 against 1 and 0
RIGHT, WRONG = math.log(4 / 3), math.log(4)


@pytest.mark.parametrize(
    ("output", "targets", "train", "expected"),
    [
        (output(LOG3), batch(0), {}, RIGHT + RIGHT),  # equation (5)
        (output(LOG3), batch(1), {}, WRONG + WRONG),
        (output(LOG3), batch(0), {"halt_weight": 0}, RIGHT),
        (output(LOG3), batch(0), {"halt_weight": 2}, RIGHT + 2 * RIGHT),
        (output(None), batch(0), {}, RIGHT),  # a model without a halting head
        # label 0 mixed with 70 % of class 1: right by the original label, wrong by the mixture's largest part
        (
            output(LOG3),
            batch(0, [0.3, 0.7]),
            {"halting_target": "original"},
            0.3 * RIGHT + 0.7 * WRONG + RIGHT,
        ),
        (output(LOG3), batch(0, [0.3, 0.7]), {"halting_target": "mixed"}, 0.3 * RIGHT + 0.7 * WRONG + WRONG),
        (output(None), batch(0), {"label_smoothing": 0.2}, 0.9 * RIGHT + 0.1 * WRONG),
        # targets over 2 classes, logits over 3 tokens: the third token has share 0
        (
            Output(torch.tensor([[0.0, LOG3, 0.0]])),
            batch(0, [0.25, 0.75]),
            {},
            0.25 * math.log(5) + 0.75 * math.log(5 / 3),
        ),
    ],
)
def test_classification_and_halting_by_hand(output, targets, train, expected):
    assert step_loss(output, targets, TrainConfig(**train)).item() == pytest.approx(expected, rel=1e-6)


def test_the_halting_target_sends_no_gradient_to_the_answer():
    logits = torch.tensor([[LOG3, 0.0]], requires_grad=True)
    halt = torch.tensor([LOG3], requires_grad=True)

    step_loss(Output(logits, halt), batch(1), TrainConfig()).sum().backward()

    torch.testing.assert_close(logits.grad, torch.tensor([[0.75, -0.75]]))
    torch.testing.assert_close(halt.grad, torch.tensor([0.75]))


def test_stablemax_by_hand():
    """s(1) = 2, s(0) = 1, s(-1) = 1/2: shares 4/7, 2/7, 1/7."""
    logits = torch.tensor([[1.0, 0.0, -1.0]])
    first, second, third = math.log(7 / 4), math.log(7 / 2), math.log(7)

    assert stablemax(logits.expand(3, 3), torch.tensor([0, 1, 2])).tolist() == pytest.approx(
        [first, second, third]
    )
    assert stablemax(logits, torch.tensor([[0.5, 0.5, 0.0]])).item() == pytest.approx((first + second) / 2)
    smooth = stablemax(logits, torch.tensor([0]), smoothing=0.3)
    assert smooth.item() == pytest.approx(0.8 * first + 0.1 * second + 0.1 * third)


def test_stablemax_has_a_finite_gradient_everywhere():
    logits = torch.tensor([[0.0, -50.0, 50.0, -1e4]], requires_grad=True)
    stablemax(logits, torch.tensor([1])).sum().backward()

    assert torch.isfinite(logits.grad).all()


def test_several_labels_count_where_they_are_known():
    """Logits ln 3, 0, 7 against 1, 0, unknown: (-log 3/4 - log 1/2) / 2; an image of unknown labels alone
    costs nothing.
    """
    logits, labels = torch.tensor([[LOG3, 0.0, 7.0]] * 2), torch.tensor([[1, 0, -1], [-1, -1, -1]])

    loss = step_loss(Output(logits), Batch(logits, labels, None, 2), TrainConfig(), kind=Findings)

    assert loss.tolist() == pytest.approx([(RIGHT + math.log(2)) / 2, 0.0])
    logits, labels = torch.tensor([[1.0, -1.0, 5.0], [1.0, 1.0, 5.0]]), torch.tensor([[1, 0, -1]] * 2)
    assert Findings.right(None, Output(logits), Batch(logits, labels, None, 2)).tolist() == [True, False]


def test_the_value_of_going_on_is_half_of_the_halting_loss():
    """HRM: CE + 0.5 (BCE(halt) + BCE(proceed)): halt ln 3 on a right answer, proceed 0 against a target of
    0.25.
    """
    output = Output(torch.tensor([[LOG3, 0.0]]), torch.tensor([LOG3]), torch.tensor([0.0]))
    loss = step_loss(output, batch(0), TrainConfig(halt_weight=0.5), torch.tensor([0.25]))

    assert loss.item() == pytest.approx(math.log(4 / 3) + 0.5 * (math.log(4 / 3) + math.log(2)))


def test_the_mean_of_a_captions_loss_by_hand():
    """Logits 0 over 4 tokens, but 20 for the right one of the second caption: losses ln 4 a token, and 0.

    Captions of 3 tokens and 1: each its own mean gives (ln 4 + 0) / 2, all tokens together 3 ln 4 / 4.
    """
    tokens = torch.tensor([[1, 2, 3, 2], [1, 3, PAD, PAD]])
    logits = torch.zeros(2, 3, 4)
    logits[1, 0, 3] = 20.0
    captions = Batch(torch.zeros(2, 1, 1, 1), tokens, None, 2)

    losses = {
        mean: step_loss(Output(logits), captions, TrainConfig(caption_mean=mean), kind=Captioning)
        .mean()
        .item()
        for mean in ("caption", "batch")
    }

    assert losses == {"caption": pytest.approx(math.log(4) / 2), "batch": pytest.approx(3 * math.log(4) / 4)}
