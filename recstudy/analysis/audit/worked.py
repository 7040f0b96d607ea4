"""The numbers of a contradiction that follow from the published ones: what stands in braces in `contradictions.yaml`."""

import json
from collections.abc import Callable, Mapping
from math import ceil, hypot, sqrt

from recstudy.papers import published, rows

Numbers = Mapping[str, float]
TRAINED = 50_000  # images of CIFAR-10
TESTED = 10_000
Z = 1.96  # standard errors on either side of a 95 % interval of many items
# Images of a patient -> patients, of the 336 images with a caption in COVID-CT (github.com/UCSD-AI4H/COVID-CT).
PATIENTS = {1: 147, 2: 25, 3: 10, 4: 6, 5: 3, 6: 5, 8: 3, 16: 1}
SHARE = 0.8  # of them in training


def updates() -> Numbers:
    """Of a run of 002 without and with the most supervision (batch 128), and what the accuracy loses."""
    once, most = (_row("002_ablation_fig2_fig3", id=f"002_ablation_fig2_fig3#{row}") for row in (1, 3))
    steps, batch = (json.loads(most["config"])[letter] for letter in ("n_sup", "batch_size"))
    made = published("002_table1_cifar10")[0].where["train.epochs"] * ceil(TRAINED / batch)
    return {"once": made, "most": steps * made, "steps": steps, "loss": float(once["value"]) - float(most["value"])}


def balance() -> Numbers:
    """What Avg-BLEU loses without the balance loss alone, and without experts, in 003's Table III."""

    def lost(data: str, variant: str) -> float:
        full, less = (_ablated(data, name) for name in ("full", variant))
        return round(full - less, 3)

    balance, experts = lost("covctr", "w/o lb loss"), lost("covctr", "w/o moe")
    on_mmr = {"balance_mmr": lost("mmr", "w/o lb loss"), "experts_mmr": lost("mmr", "w/o moe")}
    return {"balance": balance, "experts": experts, "times": balance / experts, **on_mmr}


def rate_scores() -> Numbers:
    """003's RaTEScore above the transformer's, in standard errors of two means over the test images.

    The reports are taken as scored apart: a difference on the same images may have a smaller error, which is not printed.
    """
    of_cov, of_gross = _rate_score("covctr"), _rate_score("pgross")
    return of_cov | {f"{name}_pgross": value for name, value in of_gross.items()}


def rouge() -> Numbers:
    """003's ROUGE-L on MM-Retinal and R2Gen's."""
    ours, theirs = (_value("003_table1_sota", dataset="mmr", model=of, metric="rouge_l") for of in ("MicarVLMoE", "R2Gen"))
    return {"ours": ours, "theirs": theirs, "above": theirs - ours}


def leaked() -> Numbers:
    """How many test images of a split by image have another image of their patient among those trained on."""
    images = sum(size * count for size, count in PATIENTS.items())
    alone = sum(size * count * _none_trained(size, images) for size, count in PATIENTS.items())
    several = {size: count for size, count in PATIENTS.items() if size > 1}
    known = {"several": sum(size * count for size, count in several.items()), "patients": sum(several.values())}
    return known | {"leaked": 1 - alone / images}


def one_run() -> Numbers:
    """004's accuracy on CIFAR-10 in percent, how far the CNN is above it, and how wide the test images alone leave it."""
    score, theirs = (
        _value("004_author_repo_curves", dataset="cifar10", model=of, metric="test_accuracy_final")
        for of in ("HRM", "CNN two-stage")
    )
    return {"score": 100 * score, "gap": 100 * (theirs - score), "half": 100 * Z * sqrt(score * (1 - score) / TESTED)}


WORKED: dict[str, Callable[[], Numbers]] = {
    "002-14": updates,
    "003-10": balance,
    "003-11": rate_scores,
    "003-12": rouge,
    "003-13": leaked,
    "004-5": one_run,
}


def _row(table: str, **fields: str) -> dict[str, str]:
    """The one row with these fields."""
    (found,) = (row for row in rows(table) if all(row[name] == value for name, value in fields.items()))
    return found


def _value(table: str, **fields: str) -> float:
    return float(_row(table, **fields)["value"])


def _ablated(data: str, variant: str) -> float:
    return _value("003_table3_ablation", dataset=data, config=json.dumps({"variant": variant}), metric="avg_bleu")


def _rate_score(data: str) -> dict[str, float]:
    ours, theirs = (_row("003_table2_ratescore", dataset=data, model=of) for of in ("MicarVLMoE", "Transformer"))
    images = _tested(data)
    error = hypot(float(ours["std"]), float(theirs["std"])) / sqrt(images)
    gap = round(float(ours["value"]) - float(theirs["value"]), 3)
    return {"gap": gap, "error": error, "errors": gap / error, "images": images}


def _tested(data: str) -> int:
    """Test images of one of 003's data sets, by its split."""
    shares = [int(part) for part in _row("003_setup", dataset=data, metric="split")["value"].split(":")]
    return round(_value("003_setup", dataset=data, metric="images") * shares[-1] / sum(shares))


def _none_trained(size: int, images: int) -> float:
    """The chance that none of an image's `size - 1` siblings is among the images trained on, which are drawn without return."""
    left, others = images - round(SHARE * images) - 1, images - 1
    chance = 1.0
    for taken in range(size - 1):
        chance *= (left - taken) / (others - taken)
    return chance
