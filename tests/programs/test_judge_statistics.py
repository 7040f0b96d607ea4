"""What `judge` says of tables on which a plain test would be wrong: paired, split, lost and shared seeds."""

import pandas as pd
import pytest

import recstudy
from recstudy import Claim

AROUND = (0.1, -0.12, 0.03)  # a seed's distance from its mean
WITHIN = Claim("B is the same", higher={"method": "B"}, lower={"method": "A"}, within=2)
AT_MOST = Claim("the loss is low", of={"method": "A"}, metric="loss", at_most=3.2)
REACHES = Claim("A reaches 95", of={"method": "A"}, at_least=95)


def methods(score="accuracy", **values):
    rows = [
        (method, seed, value) for method, of_seeds in values.items() for seed, value in enumerate(of_seeds)
    ]
    return pd.DataFrame(rows, columns=["method", "seed", score]).dropna()


def crossed(**means):
    """Two widths of method A, and of B, which is better by these amounts in the data sets."""
    rows = [
        (method, width, data, seed, 80 + width + better * (method == "B") + around)
        for data, better in means.items()
        for method in "AB"
        for width in (1, 2)
        for seed, around in enumerate(AROUND)
    ]
    return pd.DataFrame(rows, columns=["method", "width", "dataset", "seed", "accuracy"])


def benchmarks():
    """A seed is one model with six scores, so that they vary together."""
    shift = {"A": (-1, 0, 1, 0), "B": (0.5, -1.2, 0, 1.7)}
    rows = [
        (method, f"b{benchmark}", seed, 80 + benchmark + of_seed + 0.1 * ((benchmark + seed) % 3))
        for method, of_seeds in shift.items()
        for benchmark in range(6)
        for seed, of_seed in enumerate(of_seeds)
    ]
    return pd.DataFrame(rows, columns=["method", "benchmark", "seed", "accuracy"])


SPLIT = {"C": [99, 98, 10, 99, 98, 97.0]}
PAIR = {"A": [90, 91.5, 88.8, 90.8, 89.4, 91.1], "B": [90.5, 92.1, 89.2, 91.4, 89.9, 91.5]}
PAIRED = {"paired": True, "metrics": "accuracy:%:1000"}


@pytest.mark.parametrize(
    ("table", "options", "said", "unsaid"),
    [
        # rounding errors are no variance of equal differences
        (methods(A=[90.1, 90.4], B=[90.3, 90.6]), PAIRED, "Undecided: 1 difference", "than"),
        # a third variant that splits leaves the pairs as they are
        (
            methods(**PAIR, **SPLIT),
            PAIRED,
            "accuracy of method A -0.50 points (95 % CI -0.59 to -0.41",
            "-1.87",
        ),
        # a failed run leaves the best one open
        (
            methods(A=[90.1, 90.2, 90.0], B=[95.1, 95.2, 95.3]).assign(state=["ok"] * 5 + ["failed"]),
            {"metrics": "accuracy:%:1000"},
            "1 difference: runs failed",
            "Best",
        ),
        # without a test there is no "no significant difference"
        (methods(A=[90.1], B=[91.1], C=[70.0, 72.0]), {}, "Undecided: 2 differences", "No significant"),
        # the data set in which nothing differs does not speak for the other one
        (
            crossed(D1=5, D2=0).query("width == 1"),
            {"settings": "method,dataset", "blocks": "dataset"},
            "Better than method A, dataset D1: accuracy of method B, dataset D1 +5.00",
            "in each of these 2 data sets",
        ),
        # an average over data sets that differ is no answer
        (crossed(D1=6, D2=-3), {"blocks": "dataset"}, "Undecided", "method A -1.5"),
        # six benchmarks of one model are no six models
        (
            benchmarks(),
            {"claims": [WITHIN], "metrics": "accuracy:%:1000"},
            "Undecided: B is the same",
            "Support",
        ),
        # a mean is tested on the scale of its interval, which contains 3.2
        (
            methods("loss", A=[1.0, 2.0, 0.5], B=[1.1, 2.0, 0.6]),
            {"claims": [AT_MOST]},
            "Undecided: the loss",
            "-0.",
        ),
        # a mean that is too low is not "smaller than claimed", which is said of differences
        (methods(A=[90.1, 90.4, 90.1], B=[90.2, 90, 90.4]), {"claims": [REACHES]}, "Contradicted", "Smaller"),
    ],
    ids=["equal", "split", "failed", "single", "one block", "two signs", "benchmarks", "loss", "mean"],
)
def test_a_sentence_claims_no_more_than_was_tested(table, options, said, unsaid, tmp_path):
    study = recstudy.judge(table, results=tmp_path, name="t", **options)
    text = "\n".join(map(str, study.findings))

    assert said in text
    assert unsaid not in text


def test_a_data_set_has_the_interval_of_its_own_items(tmp_path):
    """20 of 20 items are at least 83 % (Clopper-Pearson), whatever the size of another data set."""
    rows = [
        (model, task, f"{task}{item}", float(task == "small" or (item + (model == "A")) % 3 > 0))
        for model in "AB"
        for task, count in (("small", 20), ("big", 600))
        for item in range(count)
    ]
    table = pd.DataFrame(rows, columns=["model", "task", "item_id", "correct"])
    study = recstudy.judge(table, results=tmp_path, name="t")
    estimates = study.estimates
    small = estimates[estimates["label"].str.contains("small")]

    assert list(small["low"]) == pytest.approx([0.025 ** (1 / 20)] * 2, abs=1e-3)


def test_a_reading_without_a_test_is_no_look(tmp_path):
    """A level of 2.5 % instead of 5 % was the price of having read a table of single runs."""
    values = {"A": [90.0, 90.6, 90.2], "B": [91.0, 90.9, 91.3]}
    recstudy.judge(methods(A=values["A"][:1], B=values["B"][:1]), results=tmp_path, name="t")
    study = recstudy.judge(methods(**values), results=tmp_path, name="t")

    assert study.answers["p"][0] == study.answers["adjusted_p"][0]
