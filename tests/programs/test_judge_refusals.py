"""`recstudy judge` refuses tables and claims that allow two readings, and names the fix."""

from pathlib import Path

import pandas as pd
import pytest
from refusals import refused

import recstudy
from recstudy import Claim, Metric
from recstudy.base.errors import ConfigError

BETTER = Claim("B is better", higher={"method": "B"}, lower={"method": "A"})
SCORES = {"A": (90.1, 90.4, 90.2), "B": (92.0, 92.3, 91.9)}


def runs(**columns: object) -> pd.DataFrame:
    """Three seeds of two methods. A column has a value for each run, or for all."""
    rows = [(method, seed, score) for method, scores in SCORES.items() for seed, score in enumerate(scores)]
    return pd.DataFrame(rows, columns=["method", "seed", "accuracy"]).assign(**columns)


def of_metric(name: str, values: object = None) -> pd.DataFrame:
    """The runs with another name, and other values, of their metric."""
    frame = runs().rename(columns={"accuracy": name})
    return frame if values is None else frame.assign(**{name: values})


def long_format() -> pd.DataFrame:
    return runs(loss=[0.3, 0.31, 0.32, 0.2, 0.21, 0.22]).melt(["method", "seed"], var_name="metric")


def of_settings(*cells: tuple[str, float, float]) -> pd.DataFrame:
    """Three seeds for each method, learning rate and mean accuracy."""
    rows = [(method, lr, seed, score + seed / 10) for method, lr, score in cells for seed in range(3)]
    return pd.DataFrame(rows, columns=["method", "lr", "seed", "accuracy"])


@refused(globals(), "frame options", "a table with two readings")
def test_a_table_with_two_readings_is_refused(frame, options, message):
    with pytest.raises(ConfigError, match=message):
        recstudy.judge(frame, **options)
    assert not Path("results/studies").exists()


@refused(globals(), "frame claim", "a claim about something else")
def test_a_claim_about_something_else_is_refused(frame, claim, message):
    with pytest.raises(ConfigError, match=message):
        recstudy.judge(frame, claims=[claim])
    assert not Path("results/studies").exists()


def test_a_margin_that_covers_all_values_is_refused():
    claim = Claim("equal", higher={"method": "B"}, lower={"method": "A"}, within=1)
    with pytest.raises(ConfigError, match="has a margin of 1, but Accuracy is between 0 and 1"):
        recstudy.judge(runs(accuracy=[0.5] * 6), claims=[claim], metrics={"accuracy": Metric(share=True)})


def test_a_claim_whose_difference_differs_between_settings_says_so():
    frame = of_settings(("A", 0.1, 80.1), ("A", 0.01, 90.1), ("B", 0.1, 88.1), ("B", 0.01, 87.1))
    study = recstudy.judge(frame, claims=[BETTER])
    assert study.findings[0].startswith("Supported (post hoc, differs between settings: -3.00 to +8.00)")


def test_levels_without_common_settings_have_no_difference():
    frame = of_settings(("A", 0.1, 90.1), ("A", 0.2, 90.2), ("B", 0.2, 91.1), ("B", 0.3, 91.2))
    assert recstudy.judge(frame).answers.label.tolist() == ["method A"]


def test_a_single_run_beside_several_is_undecided():
    study = recstudy.judge(runs().iloc[:4], claims=[BETTER])
    assert study.answers.verdict.tolist()[0] == "undecided"
    assert study.findings[0].endswith("n=1); seeds needed: a second seed.")


def test_errors_below_a_percent_are_percentages():
    frame = pd.DataFrame({"method": ["A", "B"] * 2, "dataset": [*"xxyy"], "error": [0.8, 1.1, 20, 24]})
    assert len(recstudy.judge(frame).runs) == 4


@pytest.mark.parametrize("head", ["acc_train", "Accuracy (train)"])
def test_a_metric_of_training_is_not_the_score(head):
    frame = runs()[["method", "seed"]].assign(**{head: 99.0, "acc_test": runs().accuracy})
    assert recstudy.judge(frame, claims=[BETTER]).answers.metric.tolist()[0] == "acc_test"


@pytest.mark.parametrize(
    ("head", "better"),
    [
        ("metrics.logloss", "lower"),
        ("summary.val/cross_entropy", "lower"),
        ("HD95 \N{DOWNWARDS ARROW}", "lower"),
        ("quality \N{UPWARDS ARROW}", "higher"),
        ("testError", "lower"),
        ("brier_score", "lower"),
        ("my_dice", "higher"),
        ("test_neg_log_loss", "higher"),
    ],
)
def test_the_direction_follows_from_the_name(head, better, capsys):
    recstudy.judge(runs().rename(columns={"accuracy": head}), metrics=head)
    assert f"{head} ({better} is better)" in capsys.readouterr().out


def test_a_cost_in_front_of_the_scores_is_not_the_score():
    frame = runs()[["method", "seed"]].assign(time_s=[100, 101, 103, 110, 111, 112], accuracy=runs().accuracy)
    assert recstudy.judge(frame, claims=[BETTER]).answers.metric.tolist()[0] == "accuracy"


def test_the_last_line_of_a_run_has_its_metric():
    steps = pd.concat([runs(step=step) for step in range(1, 5)]).assign(loss=0.5)
    steps.loc[steps.step != 3, "accuracy"] = None
    study = recstudy.judge(steps, last="step", metrics="accuracy")
    assert study.estimates["value"].tolist() == pytest.approx([90.2333, 92.0667], abs=1e-3)
    with pytest.raises(ConfigError, match=r"line \d+ of this run has a value. .*: --metrics accuracy, so"):
        recstudy.judge(steps, last="step", metrics="accuracy,loss", name="both")


def test_runs_with_a_further_column_do_not_count_twice():
    recstudy.judge(runs(), name="runs")
    with pytest.raises(ConfigError, match=r"line 1: this run differs .* only in that one has no lr"):
        recstudy.judge(runs(lr=0.1), name="runs", settings="method,lr", replace=False)
    assert len(recstudy.load("results/studies/runs/imported").runs) == 6


def test_numbered_lines_are_runs_if_no_column_has_items():
    plain = recstudy.judge(runs(), claims=[BETTER], name="plain")
    study = recstudy.judge(runs(idx=range(6)), claims=[BETTER], items="none")
    assert study.answers.low.tolist() == plain.answers.low.tolist()


def test_imports_of_shares_and_percentages_are_not_pooled():
    recstudy.judge(runs(accuracy=0.9), name="runs")
    with pytest.raises(
        ConfigError, match=r"accuracy has values such as 0.9 and 90.1, which look like shares"
    ):
        recstudy.judge(runs(accuracy=90.1, method="C"), name="runs", replace=False)


def test_a_list_is_no_table():
    with pytest.raises(ConfigError, match="takes a path or a pandas frame, but got a list"):
        recstudy.judge([{"method": "A", "accuracy": 90.1}])
