import pytest

from recstudy import Function, Metric
from recstudy.programs.metric import using_metrics
from recstudy.records.study_schema import VariantRecord
from recstudy.report.names import (
    formatted,
    inline,
    metric,
    number,
    quantity,
    resolving_form,
    with_word_labels,
)
from recstudy.report.table import Interval


@pytest.mark.parametrize(
    ("name", "heading", "better", "text"),
    [
        ("auroc.Effusion", "AUROC, Effusion (%)", "higher", "81.2"),
        ("epoch_seconds", "Epoch, training pass (s)", None, "81.23"),
        ("some_score.x", "some score.x", None, "81.23"),
        ("auroc.Effusion_delta", "AUROC, Effusion delta (%)", None, "81.23"),
        ("top1_accuracy@4", "Top-1 accuracy after 4 (%)", "higher", "81.2"),
    ],
)
def test_a_metric_has_words_a_unit_and_a_form(name, heading, better, text):
    assert (metric(name).heading, metric(name).better, number(name, 81.2345)) == (heading, better, text)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("train_pflop", 0.0003927, "392.7 GFLOP"),
        ("train_pflop", 518.0, "518 PFLOP"),
        ("images_per_second", 13800.4, "13,800 images/s"),
        ("params", 41133, "41,133"),
        ("gflops", 0.000755, "755 kFLOP/image"),
        ("gflops", 0.0, "0 GFLOP/image"),
    ],
)
def test_a_quantity_alone_is_in_a_unit_that_can_be_read(name, value, expected):
    assert quantity(name, value) == expected


def test_a_generated_label_is_words_where_a_level_has_a_comma():
    levels = [{"model": "ViT, equal FLOPs", "batch_size": size} for size in (32, 64)]
    labels = [", ".join(f"{axis}={level}" for axis, level in level_set.items()) for level_set in levels]
    variants = [VariantRecord(label, level_set) for label, level_set in zip(labels, levels, strict=True)]

    assert [variant.label for variant in with_word_labels(variants)] == ["batch size 32", "batch size 64"]
    variants.append(VariantRecord("model=ViTRM, batch_size=32", {"model": "ViTRM", "batch_size": 32}))
    assert with_word_labels(variants)[0].label == "ViT, equal FLOPs, batch size 32"


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (2.4e200, ".1f", "2.4e200"),
        (-2.4e200, "+.4g", "-2.4e200"),
        (2.4e200, "+.2f", "+2.4e200"),
        (5e-07, ".4g", "5e-7"),
        (123456.0, ",.0f", "123,456"),
        (20971.4, ".4g", "20,971"),
        (-17945.5, "+.6g", "-17,945.5"),
        (2135.4, ".1f", "2,135.4"),
        (2097152.0, ".3e", "2.097e6"),
        (float("nan"), ".1f", "nan"),
    ],
)
def test_numbers_of_any_size_can_be_read(value, form, text):
    assert formatted(value, form) == text
    assert str(Interval(value, value, form)) == f"[{text}, {text}]"


@pytest.mark.parametrize(
    ("form", "interval", "expected"),
    [
        (".1f", (97.6, 97.9), ".1f"),  # the interval has a digit
        (".1f", (97.6, 97.8), ".1f"),
        (".1f", (97.60, 97.69), ".3f"),
        (".2f", (1.0750, 1.0760), ".5f"),
        ("+.5g", (0.00095284, 0.0030472), "+.4f"),
        (".4g", (1.075, 1.076), ".5f"),
        (".4g", (120.0, 180.0), ".4g"),
        (",.0f", (1000.2, 1000.4), ",.2f"),
        (".1f", (97.6, 97.6 + 1e-9), ".1f"),  # equal but for rounding errors
        (".2e", (1.0, 1.001), ".2e"),
        (".1f", (float("-inf"), 97.6), ".1f"),
        (".1f", None, ".1f"),
    ],
)
def test_digits_follow_the_interval(form, interval, expected):
    assert resolving_form(form, interval) == expected


def test_a_metric_keeps_the_letters_of_its_name_within_a_sentence():
    names = ["F1", "macro_F1", "\N{GREEK CAPITAL LETTER DELTA}_loss", "accuracy"]
    program = Function(max).bind({}, {name: Metric() for name in names})

    with using_metrics(program.metrics):
        titles = [(metric(name).title, inline(name)) for name in [*names, "selection_F1"]]

    assert titles == [
        ("F1", "F1"),
        ("macro F1", "macro F1"),
        ("\N{GREEK CAPITAL LETTER DELTA} loss", "\N{GREEK CAPITAL LETTER DELTA} loss"),
        ("Accuracy", "accuracy"),
        ("F1, selection", "F1, selection"),
    ]
    assert inline("top1_accuracy") == "top-1 accuracy"
