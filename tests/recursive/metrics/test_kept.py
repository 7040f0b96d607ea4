"""Answers that a run keeps: read back as they were but for half precision, cut where they are too large."""

import numpy as np
import pytest

from recstudy.base.errors import StorageError
from recstudy.recursive import METRICS, Answers, measured
from recstudy.recursive.metrics.kept import pack_answers, unpack_answers


def some(count, classes=10, seed=0):
    draw = np.random.default_rng(seed)
    logits, labels = 4 * draw.normal(size=(count, classes)), draw.integers(classes, size=count)
    return Answers(
        "multiclass", logits, labels, tuple("abcdefghij"[:classes]), labels // 2, np.arange(count) + 7
    )


def save_and_load(tmp_path, answers, limit=2**22):
    content, count = pack_answers(answers, limit)
    (tmp_path / "answers.npz").write_bytes(content)
    restored = unpack_answers(tmp_path / "answers.npz")
    assert (len(content) <= limit, len(restored.answers)) == (True, count)
    return restored


def test_classes_come_back_in_half_precision(tmp_path):
    answers = some(500)
    restored = save_and_load(tmp_path, answers)

    assert (restored.total, restored.is_truncated, restored.answers.task, restored.answers.class_names) == (
        500,
        False,
        "multiclass",
        tuple("abcdefghij"),
    )
    for name in ("labels", "groups", "rows", "predicted"):
        assert getattr(restored.answers, name).tolist() == getattr(answers, name).tolist()
    np.testing.assert_allclose(
        restored.answers.log_probabilities, answers.log_probabilities, rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize(("logits", "label", "nll"), [([3e-5, 4e-5], 1, 0.6931), ([30.0, 0.0], 1, 30)])
def test_the_most_likely_class_and_a_class_without_a_chance_stay_so(tmp_path, logits, label, nll):
    """Half precision cannot tell the first two apart; a probability of 1e-13 would be 0 in it."""
    answers = Answers("multiclass", np.array([logits]), np.array([label]), ("a", "b"))
    restored = save_and_load(tmp_path, answers).answers

    assert restored.predicted == answers.predicted
    assert METRICS["nll"](restored) == pytest.approx(nll, rel=1e-3)


def test_findings_and_their_unknown_labels_come_back(tmp_path):
    answers = Answers(
        "multilabel", np.array([[0.5, -2.0], [1e9, 3.0]]), np.array([[1, -1], [0, 1]]), ("A", "B")
    )
    restored = save_and_load(tmp_path, answers).answers

    assert (restored.labels.tolist(), restored.logits.tolist(), restored.groups) == (
        [[1, -1], [0, 1]],
        [[0.5, -2.0], [65504, 3.0]],
        None,
    )


def test_levels_come_back_and_are_judged_one_by_one(tmp_path):
    answers = Answers(
        "multiclass",
        np.eye(2)[[0, 0, 1, 1]],
        np.array([0, 1, 1, 1]),
        ("a", "b"),
        levels=np.array([0, 0, 3, 3]),
    )
    restored = save_and_load(tmp_path, answers).answers

    expected = {"level_accuracy": 75, "level_accuracy.0": 50, "level_accuracy.3": 100}
    assert measured(restored, ["level_accuracy"]) == (expected, (), {}, ())
    assert "level_accuracy" in measured(restored).values
    assert "level_accuracy" not in measured(some(5)).values | measured(some(5)).unavailable


def test_captions_come_back(tmp_path):
    answers = Answers(
        "caption", written=["a dïsc", ""], references=[["a disc", "ring"], ["x"]], rows=np.array([3, 5])
    )

    restored = save_and_load(tmp_path, answers).answers

    assert (restored.written, restored.references, restored.rows.tolist()) == (
        ["a dïsc", ""],
        [["a disc", "ring"], ["x"]],
        [3, 5],
    )
    assert METRICS["bleu_1"](restored) == METRICS["bleu_1"](answers)


@pytest.mark.parametrize("limit", [2_000, 10_000])
def test_the_first_that_fit_are_kept(tmp_path, limit):
    restored = save_and_load(tmp_path, some(5000), limit)

    assert (restored.is_truncated, restored.total) == (True, 5000)
    assert restored.answers.rows.tolist() == list(range(7, 7 + len(restored.answers)))
    assert len(pack_answers(some(5000), limit)[0]) > 0.6 * limit


@pytest.mark.parametrize("content", ["torn", "empty", "other"])
def test_damaged_answers_are_reported(tmp_path, content):
    path = tmp_path / "answers.npz"
    np.savez(path, x=np.arange(3))
    if content != "other":
        path.write_bytes(pack_answers(some(50))[0][:200] if content == "torn" else b"")
    with pytest.raises(StorageError, match=r"answers.npz is damaged"):
        unpack_answers(path)
