import pytest

from recstudy.report.names import metric, number, quantity


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
    ("name", "value", "said"),
    [
        ("train_pflop", 0.0003927, "392.7 GFLOP"),
        ("train_pflop", 518.0, "518 PFLOP"),
        ("images_per_second", 13800.4, "13,800 images/s"),
        ("params", 41133, "41,133"),
    ],
)
def test_a_quantity_alone_is_in_a_unit_that_can_be_read(name, value, said):
    assert quantity(name, value) == said
