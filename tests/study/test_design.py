import doctest

import numpy as np

from recstudy import Study, Variant, grid, leave_one_out, one_at_a_time
from recstudy.recursive import Digits, RunConfig, TrainConfig, ViT, ViTRM
from recstudy.study import design
from recstudy.study.plan import make_plan
from recstudy.study.record import plan_record

BASE = RunConfig(data=Digits(limit=64), model=ViTRM(patch=2, width=16, heads=2), train=TrainConfig(epochs=4))
PARTS = {"without recursion": {"model.latent_steps": 1}, "without EMA": {"train.ema_decay": 0.0}}


def planned(variants, **fields):
    return make_plan(Study(name="s", presets={"quick": BASE}, variants=variants, question="?", **fields))


def test_the_examples_in_the_docstrings_are_true():
    doctests = doctest.testmod(design)

    assert (doctests.attempted, doctests.failed) == (5, 0)


def test_leave_one_out_is_the_preset_and_a_variant_a_part():
    full, recursion, ema = leave_one_out(PARTS)

    assert (full.label, full.changes, full.base) == ("full", {}, "")
    assert (recursion.changes, recursion.base, ema.base) == ({"model.latent_steps": 1}, "full", "full")
    assert planned([full]).configs == [BASE]


def test_plan_gives_the_position_of_each_base():
    """A variant that the study adds by itself may name the base too; one without has no such key, as in older
    plans.
    """
    combined = Variant("unweighted", {"model.cycles": 2}, base="full")

    record = plan_record(planned([*leave_one_out(PARTS), combined]))

    assert [variant.base for variant in record.variants] == [None, 0, 0, 0]
    assert record.axes == {"latent_steps": "model.latent_steps", "ema_decay": "train.ema_decay"}
    assert [variant.levels for variant in record.variants[:2]] == [
        {"latent_steps": BASE.model.latent_steps, "ema_decay": BASE.train.ema_decay},
        {"latent_steps": 1, "ema_decay": BASE.train.ema_decay},
    ]


def test_one_at_a_time_changes_one_axis_in_each_variant():
    variants = one_at_a_time({"model.latent_steps": [1, 6], "train": {"short": {"train.epochs": 2}}})

    assert [(variant.label, dict(variant.changes), variant.base) for variant in variants] == [
        ("base", {}, ""),
        ("latent_steps=1", {"model.latent_steps": 1}, "base"),
        ("latent_steps=6", {"model.latent_steps": 6}, "base"),
        ("train=short", {"train.epochs": 2}, "base"),
    ]
    assert all(
        variant.axes == {"latent_steps": "model.latent_steps", "train": "train"} for variant in variants
    )


def test_fields_that_end_alike_keep_their_path():
    (variant,) = grid({"model.eyes.width": [1], "model.width": [2]})
    variants = one_at_a_time({"model.eyes.width": [1], "model.width": [2]})

    assert variant.levels == {"model.eyes.width": 1, "model.width": 2}
    assert [variant.label for variant in variants] == ["base", "model.eyes.width=1", "model.width=2"]


def test_two_families_share_an_axis_by_the_levels_of_their_variants():
    variants = [
        Variant(f"{name}, depth={depth}", {"model": model}, levels={"model": name, "depth": depth})
        for depth in (1, 3)
        for name, model in {"ViTRM": ViTRM(latent_steps=depth), "ViT": ViT(layers=depth)}.items()
    ]

    plan = planned(variants)

    assert [
        getattr(run.config.model, "latent_steps", None) or run.config.model.layers for run in plan.runs
    ] == [1, 1, 3, 3]
    assert [variant.levels["depth"] for variant in plan_record(plan).variants] == [1, 1, 3, 3]


def test_counts_of_numpy_are_whole_numbers():
    levels = {"model.latent_steps": [np.int64(1), np.int32(2)]}
    plan = planned(grid(levels), seeds={"quick": np.int64(3)}, max_seeds=np.int64(5))

    assert (len(plan.runs), plan_record(plan).max_seeds) == (6, 5)
