"""The numbers in `papers/contradictions.yaml` that follow from published ones, worked out from the published
tables.
"""

import json
from math import ceil, hypot, sqrt

import pytest

from recstudy.papers import published, rows
from recstudy.recursive import CNN, HRM, Cifar10, HRMImage, PhantomXray, RunConfig
from recstudy.recursive.models.costs import cost
from recstudy.report.audit import contradictions


def row(table, **fields):
    """The one row with these fields."""
    (row,) = (row for row in rows(table) if all(row[name] == value for name, value in fields.items()))
    return row


def value(table, **fields):
    return float(row(table, **fields)["value"])


def patient_rows():
    """HRM's parameters with a row of the puzzle table for each patient, and without."""
    data, fields = PhantomXray(findings="single"), {"puzzle_emb": "patient", "identifiers": 30_805}
    models = HRM(**fields), HRM()
    with_rows, without = (cost(RunConfig(data=data, model=model)).params for model in models)
    return (
        f"{with_rows:,} parameters, {100 * (with_rows / without - 1):.0f}% more than the {without:,} without",
        f"each of the {fields['identifiers']:,} patients",
    )


def updates():
    """Of a run of 002 without and with the most supervision (batch 128), on 50,000 images; and what the
    accuracy loses.
    """
    single_step, most_steps = (
        row("002_ablation_fig2_fig3", id=f"002_ablation_fig2_fig3#{number}") for number in (1, 3)
    )
    steps, batch = (json.loads(most_steps["config"])[letter] for letter in ("n_sup", "batch_size"))
    (epochs,) = (
        target.where["train.epochs"]
        for target in published("002_ablation_fig2_fig3")
        if target.row == single_step["id"]
    )
    updates, loss = epochs * ceil(50_000 / batch), float(single_step["value"]) - float(most_steps["value"])
    return (
        f"{updates:,} of them at N_sup=1 (batch 128) and up to {steps * updates:,} at {steps}",
        f"the loss of {loss:.1f} points",
    )


def balance():
    """What Avg-BLEU loses without the balance loss alone, and without experts, in 003's Table III."""

    def score(data, variant):
        return value(
            "003_table3_ablation", dataset=data, config=json.dumps({"variant": variant}), metric="avg_bleu"
        )

    losses = [
        round(score(data, "full") - score(data, f"w/o {part}"), 3)
        for data in ("covctr", "mmr")
        for part in ("lb loss", "moe")
    ]
    times = f"{losses[0] / losses[1]:.1f} times less"
    return (
        f"alone is worth {losses[0]:.3f} Avg-BLEU and the experts with it {losses[1]:.3f}, {times}",
        "(on MMR {2:.3f} and {3:.3f})".format(*losses),
    )


def rate_scores():
    """003's RaTEScore above the transformer's, in standard errors of two means over the test images, as if
    scored apart.
    """
    differences = []
    for data in ("covctr", "pgross"):
        ours, theirs = (
            row("003_table2_ratescore", dataset=data, model=of, metric="ratescore")
            for of in ("MicarVLMoE", "Transformer")
        )
        shares = [int(part) for part in row("003_setup", dataset=data, metric="split")["value"].split(":")]
        images = round(value("003_setup", dataset=data, metric="images") * shares[-1] / sum(shares))
        error = hypot(float(ours["std"]), float(theirs["std"])) / sqrt(images)
        gap = round(float(ours["value"]) - float(theirs["value"]), 3)
        differences.append((gap, gap / error, images, error))
    first = "{0:.3f} above the transformer, {1:.1f} standard errors of the difference on {2} test images (about {3:.3f},"
    return first.format(*differences[0]), "on PGROSS {:.3f}, {:.1f} on {:,}".format(*differences[1])


def rouge():
    """003's ROUGE-L on MM-Retinal and R2Gen's."""
    ours, theirs = (
        value("003_table1_sota", dataset="mmr", model=of, metric="rouge_l") for of in ("MicarVLMoE", "R2Gen")
    )
    return (f"R2Gen's ROUGE-L is {theirs:.3f}, {theirs - ours:.3f} above its own {ours:.3f}",)


def one_run():
    """004's accuracy on CIFAR-10 in percent, how far the CNN is above it, and how wide 10,000 test images
    alone leave it.
    """
    models = ("HRM", "CNN two-stage")
    score, theirs = (
        value("004_author_repo_curves", dataset="cifar10", model=of, metric="test_accuracy_final")
        for of in models
    )
    half = 1.96 * sqrt(score * (1 - score) / 10_000)
    left = f"leave {100 * half:.1f} points on either side of {100 * score:.1f}"
    return (
        f"{100 * (theirs - score):.1f} points on CIFAR-10 between two runs. Its 10,000 test images alone {left}",
    )


def parameter_savings():
    """ViT-Large's parameters in ViTRM's, counted and as printed."""
    ours, theirs = (
        value("solved_parameter_counts", dataset="cifar10", model=of) for of in ("ViTRM", "ViT-Large")
    )
    printed = [value("002_table1_cifar10", model=of, metric="params") for of in ("ViT-Large", "ViTRM")]
    return (
        f"{theirs:,.0f} of ViT-Large are {theirs / ours:.1f} times the {ours:,.0f}",
        f"{printed[0] / printed[1]:.1f} is the ratio of the rounded",
    )


def degradation():
    """002's accuracies on CIFAR-10 by batch size, of which it compares others of ViTRM than of ResNet-50."""

    def score(of, batch):
        config = json.dumps({"batch_size": batch})
        return value("002_table1_cifar10", model=of, config=config, metric="top1_accuracy")

    small, large = score("ViTRM", 64), score("ViTRM", 1024)
    return (
        f"{score('ViTRM', 128)}% is of batch 128, but ResNet-50's {score('ResNet-50', 64)}% is of batch 64",
        f"ViTRM loses {small - large:.1f} points ({small} to {large}%)",
    )


def gap_to_vit():
    """The points of ViTRM's best batch size below ViT-Small's on CIFAR-10."""
    best = [
        max(float(entry["value"]) for entry in rows("002_table1_cifar10")
            if entry["model"] == of and entry["metric"] == "top1_accuracy" and entry["value"])
        for of in ("ViT-Small", "ViTRM")
    ]  # fmt: skip
    return (f"its gap on CIFAR-10 is {best[0] - best[1]:.1f} points",)


def sizes_of_trm():
    """Which TRM solves 87 % of Sudoku-Extreme, and how many parameters it has."""
    fields = {"dataset": "sudoku_extreme_1k", "metric": "exact_accuracy"}
    mlp, attention = (row("trm_table4_puzzles", model=of, **fields) for of in ("TRM-MLP", "TRM-Att"))
    size = json.loads(mlp["config"])["params_millions"].removesuffix(" (Sudoku), 19 (Maze)")
    other_size = json.loads(attention["config"])["params_millions"]
    return (
        f"{mlp['value']}% for TRM-MLP with {size}M parameters; TRM-Att with {other_size}M has {attention['value']}%",
    )


def faster():
    """How many times the CNN's training FLOPs HRM has on CIFAR-10: two segments of training, and three of
    evaluation more.
    """
    train = {"supervision_steps": 2, "evaluation_steps": 3}
    hrm, cnn = (
        cost(RunConfig(data=Cifar10(), **fields))
        for fields in ({"model": HRMImage(), "train": train}, {"model": CNN()})
    )
    seconds = [value("004_author_repo_curves", dataset="cifar10", model=of, metric="seconds_per_epoch")
               for of in ("HRM", "CNN two-stage")]  # fmt: skip
    times = (hrm.train_gflops / cnn.train_gflops, (hrm.train_gflops + hrm.gflops) / cnn.train_gflops)
    return (
        "{:.0f} and {:.0f} s".format(*seconds),
        "about {:.0f}x in training FLOPs, {:.0f}x with those segments".format(*times),
    )


@pytest.mark.parametrize(
    ("name", "worked"),
    [
        ("001-5", patient_rows),
        ("002-16", parameter_savings),
        ("002-14", updates),
        ("002-17", degradation),
        ("002-18", gap_to_vit),
        ("002-19", sizes_of_trm),
        ("003-10", balance),
        ("003-11", rate_scores),
        ("003-12", rouge),
        ("004-2", faster),
        ("004-5", one_run),
    ],
)
def test_a_contradiction_has_its_numbers_worked_out(name, worked):
    (conflict,) = (entry.conflict for entry in contradictions() if entry.id == name)
    assert all(words in conflict for words in worked())
