"""Axes that a study is given from outside, in place of its own or beside them."""

from dataclasses import replace

import tiny

from recstudy import Claim, Variant, grid, leave_one_out, one_at_a_time
from recstudy.cli.options import axes
from recstudy.study.plan import make_plan


def with_variants(variants: list[Variant], **changes: object):
    return type(tiny.study)("s", tiny.study.presets, variants, **changes)


def test_an_axis_of_its_own_has_other_levels_and_the_others_stay():
    study = tiny.study.varied("quick", {"model.latent_steps": [2, 5]})

    ours, theirs = (
        study.variants["quick"],
        grid({"train.supervision_steps": [1, 2], "model.latent_steps": [2, 5]}),
    )
    assert [(variant.label, variant.changes, variant.levels) for variant in ours] == [
        (variant.label, variant.changes, variant.levels) for variant in theirs
    ]
    assert study.variants["long"] == tiny.study.variants


def test_the_levels_that_it_had_keep_their_ids():
    def ids(study) -> set[str]:
        return {run.id for run in make_plan(study).runs}

    assert ids(tiny.study.varied("quick", {"model.latent_steps": [1, 2, 3]})) == ids(tiny.study)
    assert (
        make_plan(tiny.study.varied("quick", {"model.latent_steps": [1, 4]})).definition
        != make_plan(tiny.study).definition
    )


def test_named_variants_are_named_still_and_compared_at_the_same_level():
    study = with_variants(leave_one_out({"no dropout": {"model.dropout": 0.1}}))

    ours = study.varied("quick", {"train.batch_size": [16, 64]}).variants["quick"]

    assert [(variant.label, variant.base) for variant in ours] == [
        ("full, batch_size=16", ""),
        ("full, batch_size=64", ""),
        ("no dropout, batch_size=16", "full, batch_size=16"),
        ("no dropout, batch_size=64", "full, batch_size=64"),
    ]


def test_a_variant_is_compared_with_its_base_at_the_same_new_level():
    """Whose label names the axis that is varied, too."""
    variants = [
        replace(variant, base="batch_size=16, dropout=0.0" if variant.levels["dropout"] else "")
        for variant in grid({"train.batch_size": [16, 32], "model.dropout": [0.0, 0.1]})
    ]

    plan = make_plan(with_variants(variants).varied("quick", {"train.batch_size": [64, 128]}))

    assert [(variant.label, variant.base) for variant in plan.variants] == [
        ("dropout=0.0, batch_size=64", ""),
        ("dropout=0.0, batch_size=128", ""),
        ("dropout=0.1, batch_size=64", "dropout=0.0, batch_size=64"),
        ("dropout=0.1, batch_size=128", "dropout=0.0, batch_size=128"),
    ]


def test_a_variant_that_differed_from_its_base_in_what_is_varied_alone_is_that_base():
    study = with_variants(one_at_a_time({"model.dropout": [0.1], "train.batch_size": [64]}))

    plan = make_plan(study.varied("quick", {"model.dropout": [0.2, 0.3]}))

    assert [(variant.label, variant.base) for variant in plan.variants] == [
        ("base, dropout=0.2", ""),
        ("base, dropout=0.3", ""),
        ("batch_size=64, dropout=0.2", "base, dropout=0.2"),
        ("batch_size=64, dropout=0.3", "base, dropout=0.3"),
    ]


def test_claims_are_about_the_study_s_own_variants_and_go():
    study = with_variants(
        tiny.study.variants,
        claims=[Claim("more is better", lower={"latent_steps": 1}, higher={"latent_steps": 3})],
    )

    assert make_plan(study).claims
    assert not make_plan(study.varied("quick", {"model.latent_steps": [1, 4]})).claims


def test_levels_are_numbers_words_and_lists():
    assert axes(["a.b=1,2.5", "c.d=pre,post", "e.f=[1,2],[3]", "g.h=true,null"]) == {
        "a.b": [1, 2.5],
        "c.d": ["pre", "post"],
        "e.f": [[1, 2], [3]],
        "g.h": [True, None],
    }
