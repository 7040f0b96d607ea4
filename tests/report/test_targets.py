import pytest
from made_up import base, read, variants, write_study

from recstudy.papers import Target, published
from recstudy.records.study_schema import Deviation
from recstudy.report.cells import cell
from recstudy.report.family import published_answers
from recstudy.report.registration import digest_of
from recstudy.report.tables.render import outcome_words, verdicts
from recstudy.report.targets import deviation_notes, match_targets


def target(value=93.0, metric="top1_accuracy", unit="percent", margin=0.5, **conditions):
    settings = {"data.name": "cifar10", "model": "ViTRM", "train.selection": "test", "train.epochs": 1000}
    settings |= {path.replace("__", "."): setting for path, setting in conditions.items()}
    fields = {"source": "002 Table 1", "kind": "reported", "margin_reason": "stated"}
    return Target(**fields, metric=metric, value=value, unit=unit, where=settings, margin=margin)


def match_in(records, *targets):
    return match_targets(records, targets, range(len(records.variants)), ("top1_accuracy", "params"))


def verdicts_on(records, index, published_target):
    return verdicts(cell(records, [index], published_target.metric, match_in(records, published_target)))


def study(path, **changes):
    return read(write_study(path, **changes))


@pytest.mark.parametrize(
    ("conditions", "places"),
    [
        ({"train__batch_size": 64}, [(0, "top1_accuracy")]),
        ({}, [(1, "top1_accuracy")]),  # what is unsaid counts as the preset's own: batch 128
        # of every training setting
        ({"value": 3.6, "metric": "params", "unit": "million"}, [(0, "params"), (1, "params")]),
    ],
)
def test_target_is_matched_with_the_variants_whose_varied_settings_it_states(records, conditions, places):
    matches = match_in(records, target(**conditions)).matches

    assert list(matches) == places
    assert [match.reasons for cell_matches in matches.values() for match in cell_matches] == [()] * len(
        places
    )


def test_a_value_without_a_place_says_why(records):
    blank, gain, other_metric = (
        target(train__supervision_steps=None),
        target(1.0, "net_gain_points", "points"),
        target(model="ResNet-18"),
    )

    assert match_in(records, blank, gain, other_metric).unmatched_targets == (
        (blank, "supervision_steps left blank in the source"),
        (gain, "not measured here"),
        (other_metric, "no variant here has its settings"),
    )


@pytest.mark.parametrize(("count", "verdict"), [(3.6, "agrees"), (3.7, "differs")])
def test_a_parameter_count_must_round_to_the_published_digits(records, count, verdict):
    assert verdicts_on(records, 0, target(count, "params", "million")) == (verdict,)


def reference(**changes):
    return {"preset": "paper", "base": base(), "axes": {"model": "model"}, "variants": variants()} | changes


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        (
            {"base": base(selection="validation", epochs=12)},
            ("selection validation, not test", "epochs 12, not 1000"),
        ),
        (
            {"base": base() | {"data": base()["data"] | {"limit": 32}}, "smoke": True},
            ("only 32 images of each split", "smoke run"),
        ),
        (
            {"base": base(learning_rate=0.01), "reference": reference(base=base(learning_rate=0.0003))},
            ("learning_rate 0.01, not 0.0003",),
        ),
        (
            {
                "base": base(**{f"field_{index}": index for index in range(8)}),
                "reference": reference(base=base(**{f"field_{index}": 9 for index in range(8)})),
            },
            (*(f"field_{index} {index}, not 9" for index in range(6)), "2 more settings (field_6, field_7)"),
        ),
        ({"reference": reference(variants=variants()[2:])}, ("the paper preset has no such variant",)),
    ],
)
def test_difference_from_the_paper_is_a_reason(tmp_path, changes, reasons):
    records = study(tmp_path / "r", **changes)
    matches = match_in(records, target(3.6, "params", "million"), target(train__batch_size=64)).matches

    assert matches[0, "top1_accuracy"][0].reasons == reasons
    assert verdicts_on(records, 0, target(train__batch_size=64)) == ("not comparable",)
    if "learning_rate" in reasons[0]:
        assert matches[0, "params"][0].reasons == ()  # a count follows from the model alone


def test_value_without_a_variant_is_matched_by_the_label_of_the_paper_preset(tmp_path):
    """Labels are words on pages and not in plans: "ViTRM, batch size 64" is the namesake of "ViTRM,
    batch_size=64".
    """
    smaller = variants()
    for variant in smaller:
        variant["changes"]["train.batch_size"] //= 8
    records = study(tmp_path / "r", variants=smaller, reference=reference())
    matches = match_in(records, target(train__batch_size=64)).matches

    assert records.variants[0].label == "ViTRM, batch size 64"
    assert [*matches] == [(0, "top1_accuracy")]
    assert matches[0, "top1_accuracy"][0].reasons == ("batch_size 8, not 64",)


def test_a_value_of_another_data_set_or_model_is_not_shown(tmp_path):
    """MNIST's rows showed CIFAR-100's 91.5, and a row of TRM the 55.0 of HRM: neither data set nor family was
    varied.
    """
    mixing = variants()
    for variant in mixing:
        variant["changes"]["model.mixing"] = "mlp"
    records = study(tmp_path / "r", base=base() | {"data": {"name": "cifar100"}}, variants=mixing)
    other_set, other_data = target(data__name="cifar100"), target()
    other_model = target(data__name="cifar100", model__mixing="attention")
    count = target(1.0, metric="params", unit="count")

    placement = match_in(records, other_data, other_model, other_set, count)

    assert [value.target for values in placement.matches.values() for value in values] == [other_set]
    reasons = ("its data set is not run here", "its model is not run here", "its data set is not run here")
    assert placement.unmatched_targets == tuple(zip((other_data, other_model, count), reasons, strict=True))


def test_the_level_of_a_model_axis_names_the_model_too(tmp_path):
    chosen = variants()
    for variant in chosen:
        variant["model"] = "ViTRM with another title"
    records = study(tmp_path / "r", variants=chosen)

    assert list(match_in(records, target(train__batch_size=64)).matches) == [(0, "top1_accuracy")]


def test_published_fractions_are_compared_in_percent(records):
    match = match_in(records, target(0.93, unit="fraction", margin=0.005, train__batch_size=64)).matches[
        0, "top1_accuracy"
    ][0]

    assert (match.value, match.margin, match.text) == (pytest.approx(93.0), pytest.approx(0.5), "93.0")


def test_a_setting_that_comes_with_what_is_stated_needs_not_be_stated(tmp_path):
    """002 prints no EMA; its baselines have none, and each of them has that at every batch size."""
    chosen = variants()
    for variant in chosen[2:]:
        variant["changes"]["train.ema_decay"] = 0.0
    records = study(tmp_path / "r", variants=chosen, base=base(ema_decay=0.999))

    assert list(match_in(records, target(model="ViT-Small", train__batch_size=64)).matches) == [
        (2, "top1_accuracy")
    ]


STATED_DEVIATIONS = [
    {"field": "train.precision", "paper": "float32", "ours": "bfloat16", "why": "as its code (002-4)"},
    {"field": "images", "paper": "cropped", "ours": "whole", "why": "nothing is lost"},
    {"field": "train.warmup", "ours": 0.1, "why": "a guess"},
]


def deviating(path, stated=None, **training):
    """A study with these training settings whose `paper` preset has bfloat16 and a warm-up of 0.1, and says
    so. `stated`: the dates of its statements.
    """
    paper = {"precision": "bfloat16", "warmup": 0.1}
    records = study(
        path,
        base=base(**paper | training),
        reference=reference(base=base(**paper)),
        deviations=STATED_DEVIATIONS,
        stated=stated or {},
    )
    return match_in(records, target(train__batch_size=64), target(3.6, "params", "million")).matches


def test_stated_deviation_is_shown_beside_the_compared_value(tmp_path):
    matches = deviating(tmp_path / "r")
    score = matches[0, "top1_accuracy"][0]

    assert deviation_notes([score]) == (
        "comparable, with 2 stated deviations and 1 assumption:",
        "precision bfloat16, not float32: as its code (ViTRM-4)",
        "images whole, not cropped: nothing is lost",
        "warmup 0.1, which the paper leaves blank: a guess",
    )
    assert score.assumed == "if warmup was 0.1, which the paper does not say"
    assert deviation_notes(matches[0, "params"]) == ()  # a count follows from the model
    assert not score.late


def test_a_deviation_that_was_stated_after_the_runs_makes_its_verdict_post_hoc(tmp_path):
    stated = {digest_of(Deviation(**STATED_DEVIATIONS[0])): "2099-01-01T00:00:00+00:00"}

    assert deviating(tmp_path / "r", stated)[0, "top1_accuracy"][0].late


def test_the_papers_own_value_compares_too_and_does_not_deviate(tmp_path):
    (float32_match,) = deviating(tmp_path / "a", precision="float32")[0, "top1_accuracy"]
    (float16_match,) = deviating(tmp_path / "b", precision="float16")[0, "top1_accuracy"]

    assert (float32_match.reasons, [deviation.field for deviation in float32_match.deviations]) == (
        (),
        ["images", "train.warmup"],
    )
    assert (float16_match.reasons, float16_match.deviations, float16_match.assumed) == (
        ("precision float16, not float32",),
        (),
        "",
    )


def test_assumption_of_a_row_is_part_of_its_verdict(records):
    """002 prints no N_sup beside the 90.0 of its Figure 2."""
    (third,) = [
        target_of_three
        for target_of_three in published("002_ablation_fig2_fig3")
        if target_of_three.source.endswith("#3)")
    ]
    assumed = target(train__batch_size=64).model_copy(update={"assumed": third.assumed})

    score_cell = cell(records, [0], "top1_accuracy", match_in(records, assumed))

    assert score_cell.matches[0].assumed == "if N_sup was 16, which the paper does not say"
    assert verdicts(score_cell) == ("undecided",)
    assert outcome_words(*published_answers(score_cell)[0]).endswith(f" ({score_cell.matches[0].assumed})")
