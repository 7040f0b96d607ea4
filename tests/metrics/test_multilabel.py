import math

import pytest
import torch

from recstudy.metrics.multilabel import auroc, multilabel
from recstudy.metrics.task import measures, score

# Three classes, five images. A: known everywhere; B: one label unknown; C: no positive image.
LABELS = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0], [0, -1, 0]])
LOGITS = torch.tensor([[3.0, 3.0, 0.0], [1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.0], [-1.0, 9.0, 0.0]])


def test_auroc_and_average_precision_by_hand():
    """A: of 2 x 3 pairs (positive, negative) five are in order, 1 < 2 is not. B: of 2 x 2 pairs three.

    Average precision of A: hits at ranks 1 and 3: (1 + 2/3)/2; of B: ranks 1 and 3 of four.
    """
    metrics, undefined = multilabel(LOGITS, LABELS, ["A", "B", "C"])

    assert undefined == ["C"]
    assert metrics["auroc.A"] == pytest.approx(100 * 5 / 6)
    assert metrics["auroc.B"] == pytest.approx(75)
    assert metrics["auroc"] == pytest.approx((100 * 5 / 6 + 75) / 2)
    assert metrics["average_precision.A"] == metrics["average_precision.B"] == pytest.approx(100 * 5 / 6)
    assert "auroc.C" not in metrics


def test_nll_is_over_known_labels():
    metrics, _ = multilabel(torch.zeros(2, 2), torch.tensor([[1, 0], [-1, 1]]), ["A", "B"])

    assert metrics["nll"] == pytest.approx(math.log(2))


def test_ties_count_half():
    assert auroc(torch.zeros(4, 1), torch.tensor([[1], [0], [1], [0]])) == 50


def test_nothing_defined_is_no_number():
    assert math.isnan(auroc(torch.zeros(2, 1), torch.tensor([[0], [0]])))
    assert multilabel(torch.zeros(2, 1), torch.tensor([[-1], [-1]]), ["A"]) == ({}, ["A"])


def test_a_task_has_one_score():
    assert score("multilabel", LOGITS, LABELS) == pytest.approx((100 * 5 / 6 + 75) / 2)
    assert score("multiclass", torch.eye(4), torch.tensor([0, 1, 2, 0])) == 75
    assert measures("multilabel", LOGITS, LABELS, ["A", "B", "C"])["undefined"] == ["C"]
    assert "undefined" not in measures("multiclass", torch.eye(4), torch.tensor([0, 1, 2, 0]), ["a"] * 4)
