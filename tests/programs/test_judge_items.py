"""`recstudy.judge`: results on test items, standard errors over items, and tables in a notebook."""

import json
import random
import re
from math import hypot
from pathlib import Path

import pandas as pd
import pytest
from scipy.stats import norm, t, ttest_ind, ttest_rel

import recstudy
from recstudy import Claim, Metric
from recstudy.base.errors import ConfigError
from recstudy.cli.judge import JudgeCommand
from recstudy.publishing.bundle import Bundle
from recstudy.publishing.publish import publish
from recstudy.publishing.verify import verify
from recstudy.report.status import studies_at

BETTER = Claim("B is better", higher={"method": "B"}, lower={"method": "A"})


def item_results(seeds: int = 1, items: int = 300, advantage: float = 0.2) -> pd.DataFrame:
    """Results of A and B on the same items, of which some are harder than others."""
    draw = random.Random(1)
    difficulties = [draw.random() for _ in range(items)]
    rows = []
    for method, shift in (("A", 0.0), ("B", advantage)):
        for seed in range(seeds):
            for item, difficulty in enumerate(difficulties):
                is_correct = draw.random() < min(1.0, 0.1 + 0.7 * difficulty + shift)
                rows.append((f"q{item}", method, seed, int(is_correct)))
    frame = pd.DataFrame(rows, columns=["item_id", "method", "seed", "correct"])
    return frame.drop(columns="seed") if seeds == 1 else frame


def test_single_runs_are_compared_on_the_same_items_and_the_sentence_says_so(tmp_path, capsys):
    frame = item_results()
    frame.to_csv("items.csv", index=False)
    Path("claims.yaml").write_text("- {text: B is better, higher: {method: B}, lower: {method: A}}\n")
    assert JudgeCommand(Path("items.csv"), claims=Path("claims.yaml")).run() == 0
    output = capsys.readouterr().out
    assert "test items: item_id; metrics: correct (higher is better, 300 test items)" in output
    assert "over 300 test items" in output.splitlines()[1]
    assert "other seeds may differ by more" in output

    loaded = recstudy.load("results")
    scores = frame.pivot(index="item_id", columns="method", values="correct")
    expected = ttest_rel(scores.B, scores.A)
    claim = loaded.answers.iloc[0]
    assert claim.p == pytest.approx(expected.pvalue)
    assert (claim.low, claim.high) == pytest.approx(tuple(expected.confidence_interval()))
    assert list(loaded.estimates.df) == [299, 299]
    publish(*studies_at(Path("results"))[0], tmp_path / "bundle")
    assert not verify(Bundle(tmp_path / "bundle")).differences


def test_several_seeds_give_verdicts_over_seeds_and_never_over_all_lines():
    frame = item_results(seeds=3)
    answer = recstudy.judge(frame, claims=[BETTER]).answers.iloc[0]
    means = frame.groupby(["method", "seed"]).correct.mean()
    seeds = recstudy.judge(means.reset_index(), metrics="correct:share:300", claims=[BETTER], name="means")
    assert answer.difference == pytest.approx(seeds.answers.difference.iloc[0])
    assert recstudy.load("results/studies/table/imported").estimates.n.tolist() == [3, 3]
    difference = recstudy.load("results/studies/table/imported").table("differences").frame.iloc[0]
    assert difference.low_items < difference.low  # the interval over other seeds and items is wider
    assert difference.high_items > difference.high


def test_runs_with_equal_answers_are_compared_by_their_own_errors():
    frame = item_results()
    equal = frame[frame.method == "A"]
    answer = recstudy.judge(pd.concat([equal, equal.assign(method="B")]), claims=[BETTER]).answers.iloc[0]
    assert (answer.difference, answer.verdict) == (0, "undecided")
    assert answer.low < 0 < answer.high


def test_means_over_different_items_are_refused():
    """A answered 60 items and B the last 40 of them, with the same answers: B was better by 0.27."""
    rows = [(f"q{item}", method, int(item >= 20)) for method in "AB" for item in range(60)]
    frame = pd.DataFrame(rows, columns=["item_id", "method", "correct"])
    frame.loc[(frame.method == "B") & (frame.correct == 0), "correct"] = None
    with pytest.raises(ConfigError, match=r"some runs have no value for q0, q1, q10, .* \(20 in all\)"):
        recstudy.judge(frame)
    assert not Path("results/studies/table").exists()


def test_corrected_items_with_the_same_mean_are_no_silent_change(capsys):
    frame = item_results()
    recstudy.judge(frame, claims=[BETTER])
    scores = frame.loc[frame.method == "B", "correct"].to_numpy()
    frame.loc[frame.method == "B", "correct"] = scores[::-1]
    with pytest.raises(ConfigError, match=r"different: item_scores\)"):
        recstudy.judge(frame, claims=[BETTER], replace=False)
    capsys.readouterr()
    recstudy.judge(frame, claims=[BETTER])
    assert "adds 0 and changes 1" in capsys.readouterr().out


def test_more_items_than_records_may_have_are_refused_before_anything_is_written():
    frame = item_results(items=400)
    frame["item_id"] += "x" * 50_000
    with pytest.raises(ConfigError, match=r"table: its records would have 40\.\d MB, .*at most 32 MB"):
        recstudy.judge(frame)
    assert not list(Path("results").rglob("*.json*"))


def test_a_name_that_is_a_path_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match=r"'../evil' cannot be the name of a study: .* --name evil"):
        recstudy.judge(item_results(), name="../evil", results=tmp_path / "a/results")
    assert not list(tmp_path.iterdir())


def test_an_item_that_failed_counts_with_its_value(capsys):
    """Its state is no state of a run."""
    plain = recstudy.judge(item_results(), claims=[BETTER], name="plain")
    frame = item_results()
    status = ["timeout" if correct == 0 and row % 3 else "ok" for row, correct in enumerate(frame.correct)]
    study = recstudy.judge(frame.assign(status=status), claims=[BETTER])

    assert study.answers.low.tolist() == plain.answers.low.tolist()
    frame.loc[5, "correct"] = None
    with pytest.raises(ConfigError, match=r"line 6, .* the cell is empty, and status is 'timeout'. Write"):
        recstudy.judge(frame.assign(status=["timeout"] * 600))


def test_settings_that_vary_together_are_no_answers():
    frame = item_results().assign(temperature=lambda frame: frame.method.map({"A": 0.2, "B": 0.7}))
    study = recstudy.judge(frame.assign(answer=[f"text {row}" for row in range(600)], topic=frame.item_id))
    assert study.records.plan.variants[0].levels == {"method": "A", "temperature": 0.2}


def test_each_seed_may_have_its_own_items():
    frame = item_results(seeds=3).assign(item_id=lambda rows: rows.item_id + rows.seed.astype(str))
    assert recstudy.judge(frame, claims=[BETTER]).estimates.n.tolist() == [3, 3]
    with pytest.raises(ConfigError, match="would be of different test items"):
        recstudy.judge(frame[(frame.method == "A") | (frame.seed > 0)], name="other")


def test_standard_errors_of_a_harness_decide_within_each_task():
    rows = [
        ("A", "arc", 0.51, 0.014),
        ("B", "arc", 0.55, 0.013),
        ("A", "mmlu", 0.61, 0.004),
        ("B", "mmlu", 0.63, 0.004),
    ]
    frame = pd.DataFrame(rows, columns=["model", "task", "acc", "acc_stderr"])
    loaded = recstudy.judge(frame)
    answers = loaded.answers[loaded.answers.label.str.contains("task")].set_index("label")
    for task, errors, difference in (("arc", (0.014, 0.013), 0.04), ("mmlu", (0.004, 0.004), 0.02)):
        answer = answers.loc[f"B, task {task}"]
        assert answer.p == pytest.approx(2 * norm.sf(difference / hypot(*errors)), rel=1e-3)
    assert answers.loc["B, task mmlu"].verdict == "higher"
    assert "over test items" in loaded.findings[0]


def test_one_run_on_its_items_says_nothing_about_a_published_value():
    Path("paper.csv").write_text("method,metric,value\nA,correct,0.46\n")
    loaded = recstudy.judge(item_results(), published="paper.csv")
    published = loaded.answers[loaded.answers.kind == "published value"].iloc[0]
    assert published.verdict == "undecided"
    assert "spread over seeds" in published.reasons


def test_a_notebook_gives_the_answers_of_the_command():
    frame = pd.DataFrame(
        [(method, seed, epoch, 80 + shift + epoch + seed**2 / 10) for method, shift in (("A", 0), ("B", 2)) for seed in range(4) for epoch in (1, 2)],
        columns=["method", "seed", "epoch", "val_acc"],
    )  # fmt: skip
    frame.to_csv("runs.csv", index=False)
    Path("claims.yaml").write_text("- {text: B is better, higher: {method: B}, lower: {method: A}}\n")
    JudgeCommand(Path("runs.csv"), claims=Path("claims.yaml"), metrics="val_acc:%:1000", last="epoch").run()
    by_command = recstudy.load("results/studies/runs/imported").answers
    metrics = {"val_acc": Metric("%", items=1000)}
    by_frame = recstudy.judge(
        frame.set_index(["method", "seed"]), claims=[BETTER], metrics=metrics, last="epoch"
    )
    by_path = recstudy.judge(
        "runs.csv", claims="claims.yaml", metrics="val_acc:%:1000", last="epoch", name="again"
    )
    for answers in (by_frame.answers, by_path.answers):
        pd.testing.assert_frame_equal(answers, by_command)
    paired = recstudy.judge(frame, claims=[BETTER], metrics=metrics, last="epoch", paired=True)
    assert paired.answers.iloc[0].reasons != by_command.iloc[0].reasons  # all differences are equal
    based = recstudy.judge(
        frame, metrics=metrics, last="epoch", settings="method", base="method=A", name="based"
    )
    assert based.answers.label.tolist() == ["method B"]
    with pytest.raises(ConfigError, match=r"judge has no option 'lst'. Did you mean 'last'"):
        recstudy.judge(frame, lst="epoch")


def test_records_without_items_stay_as_they_were():
    recstudy.judge(pd.DataFrame({"lr": [1, 2], "acc": [0.5, 0.6]}))
    runs = json.loads(Path("results/studies/table/imported/imported.json").read_text())["runs"]
    assert all({"item_scores", "errors"}.isdisjoint(run) for run in runs.values())


def test_numbers_that_contradict_their_unit_are_refused():
    frame = pd.DataFrame({"model": ["A", "B"], "acc": [0.81, 0.79]})
    problem = "table: acc looks like a share: its values are 0.79 to 0.81, but its unit is %. "
    with pytest.raises(ConfigError, match=problem):
        recstudy.judge(frame, metrics="acc:%")
    assert not Path("results/studies").exists()


def test_a_share_is_judged_as_one():
    frame = pd.DataFrame(
        {"model": ["A", "B"] * 3, "seed": [0, 0, 1, 1, 2, 2], "acc": [0.81, 0.9, 0.82, 0.92, 0.8, 0.91]}
    )
    estimates = recstudy.judge(frame, metrics="acc:share").estimates
    assert recstudy.load("results").records.plan.metrics["acc"].share
    assert (estimates.high < 1).all()


def test_folds_can_be_seeds_with_overlapping_training_data(capsys):
    draw = random.Random(3)
    rows = [
        (data, method, fold, 70 + gain + draw.gauss(0, 0.8))
        for data in "PQ"
        for method, gain in (("base", 0), ("ours", 2))
        for fold in range(5)
    ]
    frame = pd.DataFrame(rows, columns=["dataset", "method", "fold", "score"])
    frame.to_csv("folds.csv", index=False)
    JudgeCommand(Path("folds.csv")).run()
    assert (
        "to judge over the folds of a cross-validation: --seed fold --test-share 0.2;"
        in capsys.readouterr().out
    )
    JudgeCommand(Path("folds.csv"), seed="fold", test_share=0.2, name="cv", base="method=base").run()
    answers = recstudy.load("results/studies/cv/imported").answers.set_index("label")
    scores = frame[frame.dataset == "P"].pivot(index="fold", columns="method", values="score")
    differences = scores.ours - scores.base
    error = (differences.var() * (1 / 5 + 0.25)) ** 0.5
    answer = next(row for label, row in answers.iterrows() if "ours" in label and "P" in label)
    assert answer.p == pytest.approx(2 * t.sf(differences.mean() / error, 4))


def test_scores_of_one_model_on_several_benchmarks_are_no_independent_runs():
    draw = random.Random(4)
    runs = {(model, seed): 60 + draw.gauss(0, 1) for model in "AB" for seed in range(4)}
    rows = [
        (model, seed, task, value + draw.gauss(0, 0.01) + difficulty)
        for (model, seed), value in runs.items()
        for task, difficulty in (("arc", 0), ("mmlu", 5), ("gsm8k", -20))
    ]
    frame = pd.DataFrame(rows, columns=["model", "seed", "task", "acc"])
    claim = Claim("B is better", higher={"model": "B"}, lower={"model": "A"})
    answer = recstudy.judge(frame, claims=claim, metrics=["acc:%"]).answers.iloc[0]
    means = frame.groupby(["model", "seed"]).acc.mean()
    expected = ttest_ind(means["B"], means["A"], equal_var=False)
    assert (answer.low, answer.high) == pytest.approx(tuple(expected.confidence_interval()), rel=1e-3)


SCORES = pd.DataFrame(
    {
        "model": ["A", "A", "B", "B"],
        "seed": [0, 1, 0, 1],
        "train_loss": [0.3, 0.31, 0.2, 0.22],
        "acc": [81, 81.5, 84, 84.4],
    }
)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"blocks": "modle"}, "--blocks 'modle' is no setting: there are model. Did you mean 'model'"),
        ({"last": "seed", "best": "acc"}, "--last and --best choose different lines of a run"),
        ({"metrics": "acc:%:higher:lower"}, "'lower' is no unit. Write higher or lower once"),
        ({"metrics": "acc:%:items=1000"}, "'items=1000' is no unit"),
        ({"claims": Claim("B is better", higher={"model": "B"})}, "has higher without lower: give lower="),
    ],
)
def test_options_that_allow_two_readings_are_refused(options, problem):
    with pytest.raises(ConfigError, match=re.escape(problem)):
        recstudy.judge(SCORES, **options)
    assert not Path("results").exists()


def test_folds_need_their_column_and_a_name_keeps_its_settings():
    with pytest.raises(ConfigError, match="--test-share needs the column of the folds or seeds"):
        recstudy.judge(SCORES.drop(columns="seed").drop_duplicates("model"), test_share=0.2)
    recstudy.judge(SCORES, name="first")
    with pytest.raises(
        ConfigError, match=r"has the settings lr, but .* under this name have model. Give another"
    ):
        recstudy.judge(
            SCORES.rename(columns={"model": "lr"}).replace({"A": 1, "B": 2}), name="first", replace=False
        )


def test_the_score_is_no_metric_of_training_and_the_level_can_be_stated():
    loaded = recstudy.judge(SCORES, alpha=0.01, metrics="")
    assert list(loaded.records.plan.metrics) == ["acc", "train_loss"]
    assert loaded.records.plan.alpha == 0.01


def test_a_value_above_a_range_contradicts_it():
    claim = Claim("B is between 70 and 75", of={"model": "B"}, at_least=70, at_most=75)
    assert recstudy.judge(SCORES, claims=claim).answers.verdict[0] == "contradicted"


def test_different_values_of_equal_seeds_are_not_called_equal(capsys):
    frame = pd.DataFrame(
        {"precision": ["fp16", "int8"] * 3, "seed": [0, 0, 1, 1, 2, 2], "memory_gb": [14.2, 7.8] * 3}
    )
    frame.to_csv("memory.csv", index=False)
    JudgeCommand(Path("memory.csv")).run()
    output = capsys.readouterr().out
    assert "all seeds gave the same number: does the program use its seed?\n" in output
    assert "no significant difference" not in output
