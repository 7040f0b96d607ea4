import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from recstudy.metrics import METRICS, Answers, measured

SURE = np.log([[3.0, 1.0], [3.0, 1.0]])  # twice 3/4 for the first class


def value(name: str, logits, labels) -> float:
    return METRICS[name](Answers("multiclass", np.asarray(logits, float), np.asarray(labels)))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_macro_f1_equals_scikit_learns(pairs):
    labels, predicted = map(list, zip(*pairs, strict=True))

    ours = value("macro_f1", np.eye(5)[predicted], labels)

    assert ours == pytest.approx(100 * f1_score(labels, predicted, average="macro", zero_division=0))


def test_calibration_error_by_hand():
    """Two answers with confidence 3/4, one right: |1 - 3/4 + 0 - 3/4| / 2 = 1/4."""
    assert value("ece", SURE, [0, 1]) == pytest.approx(25)


def test_all_metrics_of_two_images_by_hand():
    found = measured(Answers("multiclass", SURE, np.array([0, 1]), ("a", "b")))

    assert found.values["top1_accuracy"] == 50
    assert found.values["nll"] == pytest.approx((math.log(4 / 3) + math.log(4)) / 2)
    assert found.values["macro_f1"] == pytest.approx(100 * (2 / 3) / 2)
    assert found.values["ece"] == pytest.approx(25)
    assert (found.undefined, found.unavailable) == ((), {})


def test_large_logits_overflow_nothing():
    assert value("nll", [[1000.0, 0.0]], [1]) == 1000
    assert Answers("multiclass", np.array([[1000.0, 0.0]])).probabilities.tolist() == [[1, 0]]
