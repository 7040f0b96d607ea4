"""What studies ask of their papers' sentences: all of each, and nothing that its own tables would contradict."""

from collections.abc import Iterator
from itertools import product

import pytest
import torch
from shipped import load

from recstudy.data import Cifar10
from recstudy.models.networks.contract import build
from recstudy.papers import published
from recstudy.report import Arithmetic, Claim
from recstudy.report.claims import Where
from recstudy.study.study import make_plan

RESNETS = ("ResNet-18", "ResNet-34", "ResNet-50")


def printed_scores() -> dict[tuple[str, str, int], float]:
    """Tables 1 and 2 of 002, by data set, model and batch size."""
    tables = {"CIFAR-10": "002_table1_cifar10", "CIFAR-100": "002_table2_cifar100"}
    return {
        (data, target.model, target.where["train.batch_size"]): target.value
        for data, table in tables.items()
        for target in published(table, only=("top1_accuracy",))
    }


def contrasts(claim: Claim) -> Iterator[tuple[tuple[float, Where], ...]]:
    """In each of which a claim must hold: with every model that a selector names."""
    models = [where["model"] if claim.each and sign < 0 else [where["model"]] for sign, where in claim.selectors]
    for chosen in product(*models):
        yield tuple((sign, {**where, "model": name}) for (sign, where), name in zip(claim.selectors, chosen, strict=True))


def test_what_002_says_of_batch_sizes_holds_in_its_own_tables():
    scores = printed_scores()
    for claim in load("vitrm_batch_size").claims["paper"]:
        for contrast in contrasts(claim):
            found = sum(sign * scores[where["data"], where["model"], where["batch_size"]] for sign, where in contrast)

            assert abs(found) < claim.within if claim.within is not None else found > claim.by, claim.text


def test_the_sentence_of_all_resnets_and_batch_sizes_is_asked_of_each():
    """`less` that names no batch size, or several models without `each`, would be their mean, which one large difference can
    carry."""
    claims = load("vitrm_batch_size").claims["paper"]
    asked = [claim for claim in claims if "outperforms all ResNet variants" in claim.text]

    said = [where for claim in asked for contrast in contrasts(claim) for sign, where in contrast if sign < 0]
    expected = product(("CIFAR-10", "CIFAR-100"), RESNETS, (64, 128, 256, 512, 1024))
    assert sorted((one["data"], one["model"], one["batch_size"]) for one in said) == sorted(expected)


@pytest.mark.parametrize(
    ("number", "less", "than"),
    [
        ("0.9", "ViTRM", "ViT-Small"),
        ("1.2", "ViTRM", "ViT-Base"),
        ("1.1", "ResNet-50", "ViTRM"),
        ("8.3", "ResNet-50", "ViTRM"),
        ("4", "ViTRM", "ViT-Small"),
    ],
)
def test_each_gap_that_002_names_is_a_claim(number, less, than):
    """`002_text_claims` #6 to #10; half a point around each."""
    found = [claim for claim in load("vitrm_batch_size").claims["paper"] if f" {number} points" in claim.text]

    assert [(claim.less["model"], claim.than["model"]) for claim in found] == [(less, than)]
    assert (found[0].within or found[0].by) == pytest.approx(float(number) + (0.5 if found[0].within else -0.5))


def test_the_ratios_of_002_are_those_of_its_models():
    """`002_text_claims` #1 to #5. By exact counts ViT-Large has 83.4 times the parameters, not 84: that is of 302.4 / 3.6."""
    study = load("vitrm_batch_size")
    (part,) = [part for part in study.report["paper"] if isinstance(part, Arithmetic)]
    plan = make_plan(study, "paper")
    models = {variant.levels["model"]: config.model for variant, config in zip(plan.variants, plan.configs, strict=True)}
    with torch.device("meta"):
        counts = {name: sum(weight.numel() for weight in build(model, Cifar10()).parameters()) for name, model in models.items()}

    times = {name: count / counts["ViTRM"] for name, count in counts.items()}
    assert part.counted == {
        "params_ratio_vs_vit_small": times["ViT-Small"],
        "params_ratio_vs_vit_base": times["ViT-Base"],
        "params_ratio_vs_resnet50": times["ResNet-50"],
        "params_ratio_max_vs_vit": max(times.values()),
        "params_ratio_max_vs_cnn": max(times[name] for name in RESNETS),
    }


def test_figure_six_of_003_peaks_at_eight_experts_and_two_layers():
    """More than 8 experts and each other depth that the preset has are asked, on the one data set that it has."""
    claims = load("micar_hyperparameters").claims["paper"]
    pairs = [(claim.less, claim.than) for claim in claims]

    experts = {(less["model.experts"], than["model.experts"]) for less, than in pairs}
    assert experts == {(2, 8), (16, 8), (8, 8)}
    depths = {(less["model.decoder_layers"], than["model.decoder_layers"]) for less, than in pairs}
    assert depths == {(1, 2), (3, 2), (4, 2), (2, 2)}
    assert all(claim.text.endswith("asked of COVCTR") for claim in claims)


@pytest.mark.parametrize(("preset", "data"), [("quick", "8x8 digits"), ("standard", "MNIST")])
def test_what_004_concludes_from_cifar_is_asked_of_other_images_by_name(preset, data):
    (claim,) = load("hrm_small_images").claims[preset]

    assert claim.text.endswith(f"concluded from CIFAR-10 and -100; asked of {data}")
