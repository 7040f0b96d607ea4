"""The claims of the presets `paper` of 002 and 004, judged on made-up runs that reach the printed accuracies.

So a claim says what its paper says: the paper's own numbers support it.
"""

from pathlib import Path

import pytest
from made_up import as_result, result
from shipped import load

from recstudy.papers import published
from recstudy.records import Results
from recstudy.report import Claims
from recstudy.report.family import family
from recstudy.report.parts import parts_of
from recstudy.report.study_records import load_study
from recstudy.report.tables.question_table import verdict_words
from recstudy.study.plan import make_plan
from recstudy.study.record import record_plan

EPOCH_SECONDS = {"ViTRM": 5.0, "ViT-Base": 9.0, "ViT-Large": 30.0}  # in the order of 4.2, which prints none
DATA = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "mnist": "MNIST"}


def printed(*tables: str) -> list[tuple[dict[str, object], dict[str, float]]]:
    """The levels of a variant and its metrics, in the unit of our records, of each printed accuracy."""
    rows = []
    for target in (target for table in tables for target in published(table)):
        if target.metric in ("top1_accuracy", "train_top1_accuracy") and None not in target.where.values():
            fields = {"batch_size": "train.batch_size", "latent_steps": "model.latent_steps"}
            fields["supervision_steps"] = "train.supervision_steps"
            levels = {axis: target.where[path] for axis, path in fields.items() if path in target.where}
            levels |= {"model": target.model, "data": DATA[target.where["data.name"]]}
            rows.append((levels, {target.metric: target.value * (100 if target.unit == "fraction" else 1)}))
    return rows


def verdicts(folder: Path, name: str, *tables: str, depths: tuple[float, ...] = ()) -> dict[str, list[str]]:
    """The sentences of the study's claims by verdict, three seeds around each printed accuracy."""
    study, results = load(name), Results(folder).create()
    plan = make_plan(study, "paper")
    record_plan(plan, results)
    rows = printed(*tables)
    for run in plan.runs:
        (levels,) = (variant.levels for variant in plan.variants if variant.label == run.label)
        # A row that stops early is taken to end where the others do.
        model = str(levels.get("model", "ViTRM")).removesuffix(", early stopping")
        run_levels = {"data": "CIFAR-10", **levels, "model": model}
        metrics = {}
        for row_levels, values in rows:
            if all(run_levels[axis] == level for axis, level in row_levels.items() if axis in run_levels):
                metrics |= values
        if metrics:
            noise = 0.02 * (run.seed - 1) + 0.001 * (int(run.id[:4], 16) % 7)
            metrics = {metric: value + noise * len(metric) / 13 for metric, value in metrics.items()}
            run_result = result(metrics["top1_accuracy"])
            run_result["metrics"] |= metrics
            run_result["cost"]["epoch_seconds"] = EPOCH_SECONDS.get(model, 3.0) + 0.1 * run.seed
            run_result["depths"] = {
                "top1_accuracy": {
                    str(depth): metrics["top1_accuracy"] + gain * (1 + 0.1 * run.seed)
                    for depth, gain in enumerate(depths, 1)
                }
            }
            results.run(run.id).finish(as_result(run_result))
    records = load_study(results, name, "paper")
    by_verdict: dict[str, list[str]] = {}
    for row in (
        row for part in parts_of(records) if isinstance(part, Claims) for row in family(records, part).rows
    ):
        by_verdict.setdefault(verdict_words(row).removesuffix(" (post hoc)"), []).append(row.label)
    return by_verdict


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("vitrm_batch_size", ("002_table1_cifar10", "002_table2_cifar100")),
        ("hrm_small_images", ("004_author_repo_curves", "004_abstract_accuracies")),
    ],
)
def test_the_claims_of_a_paper_are_supported_by_what_it_prints(tmp_path, name, tables):
    by_verdict = verdicts(tmp_path, name, *tables)

    other_labels = [
        label for verdict, labels in by_verdict.items() for label in labels if verdict != "supported"
    ]
    # 002 prints no training accuracy.
    assert all("severe overfitting" in label for label in other_labels)
    assert len(other_labels) == 2 * (name == "vitrm_batch_size")


def test_the_claims_on_depth_are_supported_by_what_the_text_prints(tmp_path):
    """Of 20 points the text prints seven, so that some claims have no run; more cycles at test are made up."""
    by_verdict = verdicts(
        tmp_path, "vitrm_depth_sweep", "002_ablation_fig2_fig3", depths=(0.0, 0.3, 0.6, 0.9)
    )

    words = 'ViTRM 4.4.1: "performance degrades as supervision depth increases beyond minimal values"'
    assert [label[-3:] for label in by_verdict["supported"] if label.startswith(words)] == [
        "n=1",
        "n=3",
        "n=6",
    ]
    assert any("naturally scales with test-time compute" in label for label in by_verdict["supported"])
    assert any("n=3 is above n=1 and n=2" in label for label in by_verdict["supported"])
    # Of the points with fewer supervision steps the text prints those with one.
    assert ["yielding the lowest accuracy" in label for label in by_verdict["interim"]] == [True]
    assert set(by_verdict) == {"supported", "interim", "not run"}
    assert [label[:12] for label in by_verdict["not run"]] == [
        "ViTRM 4.4.1:",
        "ARC Prize of",
        "ViTRM 4.4.2:",
        "ViTRM 4.4.1:",
        "ViTRM 4.4.1:",
    ]


def test_vit_large_is_out_of_memory_where_the_paper_says_so():
    """002 4.2: one GPU of 120 GB. In float32, as the authors train, and by counting."""
    plan = make_plan(load("vitrm_batch_size"), "paper")
    gigabytes = {
        variant.levels["batch_size"]: config.program.memory(config) / 1e9
        for variant, config in zip(plan.variants, plan.configs, strict=True)
        if (variant.levels["model"], variant.levels["data"]) == ("ViT-Large", "CIFAR-10")
    }

    assert [batch for batch, size in gigabytes.items() if size > 120] == [1024]
    assert gigabytes[1024] == pytest.approx(165, abs=1)


def test_an_epoch_of_vitrm_costs_less_than_one_of_vit_base_by_counting():
    """002 4.2; as many images an epoch for all."""
    plan = make_plan(load("vitrm_batch_size"), "paper")
    gflops = {
        variant.levels["model"]: config.program.cost(config).train_gflops
        for variant, config in zip(plan.variants, plan.configs, strict=True)
    }

    counts = [round(gflops[model], 1) for model in ("ViTRM", "ViT-Base", "ViT-Large")]
    assert counts == [10.4, 33.6, 119.0]


@pytest.mark.parametrize(
    "name",
    [
        "vitrm_batch_size",
        "vitrm_depth_sweep",
        "vitrm_fairness",
        "recursion_or_depth",
        "supervision_at_equal_updates",
    ],
)
def test_paper_presets_of_vitrm_train_in_float32(name):
    assert {config.train.precision for config in make_plan(load(name), "paper").configs} == {"float32"}
