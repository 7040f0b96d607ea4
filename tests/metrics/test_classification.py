import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from recstudy.metrics.classification import calibration_error, classification, macro_f1


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_macro_f1_equals_scikit_learns(pairs):
    labels, predicted = map(list, zip(*pairs, strict=True))

    ours = macro_f1(torch.tensor(predicted), torch.tensor(labels), 5)

    assert ours == pytest.approx(f1_score(labels, predicted, average="macro", zero_division=0))


def test_calibration_error_by_hand():
    """Two answers with confidence 3/4, one right: |1 - 3/4 + 0 - 3/4| / 2 = 1/4."""
    logits = torch.tensor([[math.log(3), 0.0], [math.log(3), 0.0]])

    assert calibration_error(logits, torch.tensor([0, 1])) == pytest.approx(0.25)


def test_all_metrics_of_two_images_by_hand():
    logits = torch.tensor([[math.log(3), 0.0], [math.log(3), 0.0]])

    metrics = classification(logits, torch.tensor([0, 1]))

    assert metrics["top1_accuracy"] == 50
    assert metrics["nll"] == pytest.approx((math.log(4 / 3) + math.log(4)) / 2)
    assert metrics["macro_f1"] == pytest.approx(100 * (2 / 3) / 2)
    assert metrics["ece"] == pytest.approx(25)
