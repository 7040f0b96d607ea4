import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from recstudy.recursive import METRICS, Answers


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_macro_f1_equals_scikit_learns(pairs):
    labels, predicted = map(list, zip(*pairs, strict=True))
    ours = METRICS["macro_f1"](Answers("multiclass", np.eye(5)[predicted], np.array(labels)))

    assert ours == pytest.approx(100 * f1_score(labels, predicted, average="macro", zero_division=0))


def test_calibration_by_hand_and_a_likelihood_that_overflows_nothing():
    """Two answers with confidence 3/4, one right: the calibration error is |1 - 3/4 + 0 - 3/4| / 2 = 1/4."""
    assert METRICS["ece"](
        Answers("multiclass", np.log([[3.0, 1.0], [3.0, 1.0]]), np.array([0, 1]))
    ) == pytest.approx(25)
    assert METRICS["nll"](Answers("multiclass", np.array([[1000.0, 0.0]]), np.array([1]))) == 1000
