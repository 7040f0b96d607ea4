import math

import numpy as np
import pytest

from recstudy.recursive import TASKS, Answers, measured
from recstudy.recursive.metrics.registry import score

# Three classes, five images. A: known everywhere; B: one label unknown; C: no positive image.
LABELS = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0], [0, -1, 0]])
LOGITS = np.array([[3.0, 3.0, 0.0], [1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.0], [-1.0, 9.0, 0.0]])


def answers(logits, labels, names="ABC"):
    labels = np.asarray(labels)
    return Answers("multilabel", np.asarray(logits, float), labels, tuple(names)[: labels.shape[1]])


def test_auroc_and_average_precision_by_hand():
    """A: of 2 x 3 pairs (positive, negative) five are in order, 1 < 2 is not. B: of 2 x 2 pairs three.

    Average precision of A: hits at ranks 1 and 3: (1 + 2/3)/2; of B: ranks 1 and 3 of four.
    """
    metrics, undefined, unavailable, _ = measured(answers(LOGITS, LABELS))

    assert (undefined, unavailable) == (("C",), {})
    assert metrics["auroc.A"] == pytest.approx(100 * 5 / 6)
    assert metrics["auroc.B"] == pytest.approx(75)
    assert metrics["auroc"] == pytest.approx((100 * 5 / 6 + 75) / 2)
    assert metrics["average_precision.A"] == metrics["average_precision.B"] == pytest.approx(100 * 5 / 6)
    assert "auroc.C" not in metrics


def test_nothing_defined_is_no_number_and_ties_count_half():
    assert score("auroc", answers(np.zeros((4, 1)), [[1], [0], [1], [0]])) == 50
    assert math.isnan(score("auroc", answers(np.zeros((2, 1)), [[0], [0]])))
    unlabelled = measured(answers(np.zeros((2, 1)), [[-1], [-1]]))
    assert unlabelled == ({}, ("A",), {"nll": "it is nan on this test split"}, ())


def test_a_task_has_one_score():
    assert [TASKS[task].score for task in ("multiclass", "multilabel", "caption")] == [
        "top1_accuracy",
        "auroc",
        "token_accuracy",
    ]
    assert answers([[0.0, math.log(3)]], [[1, 0]]).probabilities.tolist() == [[0.5, pytest.approx(0.75)]]
