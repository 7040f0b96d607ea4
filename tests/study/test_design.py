import doctest

import numpy as np
import pytest

from recstudy import Study, Variant, factorial, grid, leave_one_out, one_at_a_time
from recstudy.base.errors import ConfigError
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


def test_base_that_is_no_variant_is_named():
    with pytest.raises(
        ConfigError,
        match=r"'b' is compared with 'ful', which is no variant: there are full, b\. Did you mean 'full'\?",
    ):
        planned([Variant("full", {}), Variant("b", {}, base="ful")])


@pytest.mark.parametrize("parts", [{}, {"full": {}}])
def test_leave_one_out_needs_parts_of_other_names(parts):
    with pytest.raises(ConfigError, match="leave_one_out needs parts, none of them called 'full'"):
        leave_one_out(parts)


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: grid({"model.a": []}), "the axis 'model.a' needs a list of levels"),
        (
            lambda: factorial({"model.a": [1, 2, 3]}),
            "a factorial has two levels an axis, but 'model.a' has 3; grid takes any number",
        ),
        (lambda: grid({"x": [True, 1]}), "the axis 'x' lists a level twice: True and 1"),
        (lambda: one_at_a_time({"x": [0.0, -0.0]}), "the axis 'x' lists a level twice: 0.0 and -0.0"),
        (lambda: factorial({"x": [1, 1.0]}), "the axis 'x' lists a level twice: 1 and 1.0"),
        (lambda: grid({"x": [None, "None"]}), "the axis 'x' lists a level twice: None and 'None'"),
        (
            lambda: factorial({"model.a": [0, 1]}, fraction=1 / 2),
            "no argument 'fraction': factorial has factors",
        ),
    ],
)
def test_a_bad_design_is_refused_in_one_line(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_counts_of_numpy_are_whole_numbers():
    levels = {"model.latent_steps": [np.int64(1), np.int32(2)]}
    plan = planned(grid(levels), seeds={"quick": np.int64(3)}, max_seeds=np.int64(5))

    assert (len(plan.runs), plan_record(plan).max_seeds) == (6, 5)
