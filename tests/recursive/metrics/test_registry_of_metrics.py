import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from recstudy import Function, Metric
from recstudy.base.errors import ConfigError
from recstudy.plugins import gathering
from recstudy.plugins.registry import outsiders
from recstudy.programs.metric import NotAvailable
from recstudy.records.runs import RUN_COLUMNS
from recstudy.recursive import METRICS, Answers, measured, metric
from recstudy.recursive.metrics.registry import check_computed, selection_score
from recstudy.report import names

ANSWERS = Answers("multiclass", np.log([[3.0, 1.0], [1.0, 1.0]]), np.array([0, 1]), ("a", "b"))


@pytest.fixture
def registered():
    """Registers metrics for one test."""
    with gathering():
        yield METRICS.add


def test_user_metric_by_hand(registered):
    """Brier: (1/4)^2 + (1/4)^2 and (1/2)^2 + (1/2)^2, the mean 5/16. Or one number of each class, of which
    some are left out.
    """

    @registered("brier")
    @metric("Brier score", better="lower", bounds=(0, 2), form=".3f")
    def brier(answers: Answers) -> float:
        right = np.eye(answers.logits.shape[1])[answers.labels]
        return float(((answers.probabilities - right) ** 2).sum(1).mean())

    assert METRICS.modules["brier"] == __name__  # whose it is: the module that travels with a study's runs
    assert measured(ANSWERS).values["brier"] == pytest.approx(5 / 16)
    assert (names.metric("brier").heading, names.number("brier", 5 / 16)) == ("Brier score", "0.312")
    selected = names.metric("selection_brier")
    assert (selected.heading, selected.better) == ("Brier score, selection", "lower")
    registered("recall")(metric("Recall", by_finding=True)(lambda answers: {"b": 0.5}))
    assert measured(ANSWERS, ["recall"]) == ({"recall": 0.5, "recall.b": 0.5}, ("a",), {}, ())


def test_a_metric_that_was_removed_is_not_sent_to_workers(registered):
    """As in a notebook, before its cell is run again."""
    registered("brier")(metric("Brier score")(lambda answers: 0.5))
    assert __name__ in outsiders()
    del METRICS["brier"]
    assert __name__ not in outsiders()


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (
            lambda answers: 1 / 0,
            r"ZeroDivisionError: division by zero \(test_registry_of_metrics.py, line \d+\)",
        ),
        (
            lambda answers: np.concatenate([]),
            r"ValueError: need .* \(test_registry_of_metrics.py, line \d+\)",
        ),
        (lambda answers: float("nan"), "it is nan on this test split"),
        (lambda answers: 1.5, "it is 1.5, but Odd is from 0 to 1"),
        (lambda answers: {"a": 2.0}, "it is 2, but Odd is from 0 to 1"),
    ],
)
def test_a_metric_that_fails_costs_the_run_nothing_else(registered, of, why):
    registered("odd")(metric("Odd", bounds=(0, 1))(of))
    measurement = measured(ANSWERS)

    assert re.fullmatch(why, measurement.unavailable["odd"])
    assert measurement.raised == (("odd",) if "Error" in why else ())
    assert measurement.values["top1_accuracy"] == 50  # a tie is the first class's


@pytest.mark.parametrize("value", [None, float("inf"), {"a": -float("inf")}, "high"])
@pytest.mark.parametrize("score", ["odd", "top1_accuracy"])
def test_a_metric_that_gives_no_number_fails_in_the_first_evaluation(registered, value, score):
    registered("odd")(metric("Odd")(lambda answers: value))
    with pytest.raises(
        ConfigError, match=r"^the metric 'odd' gives .* must give a finite number. Raise NotAvailable"
    ):
        selection_score(score, ANSWERS)


def test_the_metrics_of_a_user_are_computed_once_before_the_end(registered):
    calls = []
    registered("mine")(metric("Mine")(lambda answers: calls.append(1) or 1 / 0))
    assert [selection_score("top1_accuracy", ANSWERS) for _ in range(2)] == [50, 50]
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"form": "d"}, "form must be a format of a number, such as .1f, but got 'd'"),
        ({"better": "up"}, "better must be 'higher', .*'up'"),
    ],
)
def test_a_score_that_no_line_could_print_is_refused_where_it_is_made(words, message):
    """The driver's view prints each run's score."""
    with pytest.raises(ConfigError, match=f"the metric 'New': {message}"):
        metric("New", **words)(lambda answers: 0.5)


@pytest.mark.parametrize("name", ["hits@1", "MAP%", "a.b", "a/b", "two words", "", 3])
def test_a_name_that_reports_and_files_could_not_have_is_refused_where_it_is_registered(name):
    with pytest.raises(
        ConfigError,
        match=f"the metric {name!r} has an invalid name. Names consist of letters, digits, '_', '-' and",
    ):
        METRICS.add(name)(Metric())
    with pytest.raises(ConfigError, match=f"the metric {name!r} has an invalid name"):
        Function(len, name="f").bind({}, {name: Metric("%")})


@pytest.mark.parametrize("name", RUN_COLUMNS)
def test_a_metric_with_the_name_of_another_column_of_the_runs_is_refused(name):
    with pytest.raises(ConfigError, match=f"a metric of f must not be named {name!r}, because .* Rename it"):
        Function(len, name="f").bind({}, {name: Metric("%")})


def test_metric_that_cannot_be_computed_is_refused():
    with pytest.raises(
        ConfigError, match=r"no metric 'top1_acuracy': there are .* Did you mean 'top1_accuracy'\?"
    ):
        check_computed("top1_acuracy")
    with pytest.raises(
        ConfigError, match=r"Parameters \(params\) cannot be computed from answers\. Choose from"
    ):
        check_computed("params")
    with pytest.raises(NotAvailable, match="Parameters cannot be computed from answers"):
        METRICS["params"](ANSWERS)


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 300),
    classes=st.integers(2, 20),
    scale=st.sampled_from([0.1, 1, 30]),
)
def test_numbers_are_those_of_torch(seed, count, classes, scale):
    """In float64: equal to 1e-12."""
    draw = torch.Generator().manual_seed(seed)
    logits = (torch.randn(count, classes, generator=draw) * scale).double()
    labels = torch.randint(classes, (count,), generator=draw)
    ours = measured(Answers("multiclass", logits.numpy(), labels.numpy())).values
    confidence, predicted = logits.softmax(-1).max(-1)
    right = (predicted == labels).double()
    gaps = torch.zeros(15).double().index_add(0, (confidence * 15).long().clamp(max=14), right - confidence)

    assert ours["top1_accuracy"] == pytest.approx(100 * right.mean().item(), rel=1e-12)
    assert ours["nll"] == pytest.approx(cross_entropy(logits, labels).item(), rel=1e-12)
    assert ours["ece"] == pytest.approx(100 * gaps.abs().sum().item() / count, rel=1e-12)


@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.1, 1, 30]))
def test_the_likelihood_of_several_labels_is_torchs(seed, scale):
    """Of those that are known."""
    draw = torch.Generator().manual_seed(seed)
    logits, labels = (
        torch.randn(50, 3, generator=draw).double() * scale,
        torch.randint(-1, 2, (50, 3), generator=draw),
    )
    ours, has_label = METRICS["nll"](Answers("multilabel", logits.numpy(), labels.numpy())), labels >= 0

    assert ours == pytest.approx(
        binary_cross_entropy_with_logits(logits[has_label], labels[has_label].double()).item(), rel=1e-12
    )
