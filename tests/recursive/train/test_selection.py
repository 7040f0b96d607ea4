"""Epochs that another metric selects than the task's own."""

import math

import pytest

from recstudy.plugins import gathering
from recstudy.programs.metric import NotAvailable
from recstudy.recursive import METRICS, Digits, PhantomCaptions, RunConfig, metric
from recstudy.recursive.contract import promises
from recstudy.recursive.contract.checks import training_of
from recstudy.recursive.testing import tiny_model, tiny_run
from recstudy.recursive.train.loop import Training
from recstudy.study.plan import make_plan
from recstudy.study.search import Search

CLASSES = tiny_run(
    tiny_model(layers=1, dropout=0.0),
    Digits(limit=300),
    epochs=5,
    learning_rate=3e-2,
    ema_decay=0.0,
    score="nll",
)
CAPTIONS = tiny_run(
    tiny_model("image_lstm", tuned=True), PhantomCaptions(limit=24), epochs=2, batch_size=8, score="bleu_1"
)


def with_lines(config: RunConfig) -> tuple[Training, list[dict[str, float]]]:
    training = training_of(config)
    return training, list(training.epochs())


def test_a_score_that_is_better_when_lower_selects_the_lowest():
    training, lines = with_lines(CLASSES)

    likelihoods = [line["selection_nll"] for line in lines]
    result = training.finish()

    assert len(set(likelihoods)) == 5
    assert (
        training.state.best.epoch
        == likelihoods.index(min(likelihoods))
        != likelihoods.index(max(likelihoods))
    )
    assert (result["selected"]["nll"], result["selected"]["epoch"]) == (
        min(likelihoods),
        training.state.best.epoch,
    )
    assert result["depths"]["nll"]["1"] == pytest.approx(result["metrics"]["nll"], rel=1e-6)
    assert result["metrics"]["train_nll"] > 0
    assert "selection_top1_accuracy" not in lines[0]


def test_selection_resumes_as_if_uninterrupted():
    promises.resumes_to_the_bit(CLASSES)


def test_patience_waits_for_the_score():
    training, lines = with_lines(
        CLASSES.with_changes({"train.epochs": 40, "train.patience": 2, "train.learning_rate": 0.3})
    )

    likelihoods = [line["selection_nll"] for line in lines]

    assert len(lines) < 40
    assert training.state.best.epoch == likelihoods.index(min(likelihoods)) == len(lines) - 3


def test_user_score_may_be_missing_in_an_epoch():
    """Undefined, then worse than before: the epoch between them is selected."""
    scores = iter([math.nan, 1.0, 2.0])

    def of(answers):
        value = next(scores)
        if math.isnan(value):
            raise NotAvailable("too few images")
        return value

    with gathering():
        METRICS.add("mine")(metric("Mine", better="lower")(of))
        training, lines = with_lines(CLASSES.with_changes({"train.score": "mine", "train.epochs": 3}))

    assert [line.get("selection_mine") for line in lines] == [None, 1.0, 2.0]
    assert (training.state.best.epoch, training.state.best.score) == (1, 1.0)


def test_captions_that_the_model_writes_can_select():
    training, lines = with_lines(CAPTIONS)

    result = training.finish()

    assert result["selected"]["bleu_1"] == max(line["selection_bleu_1"] for line in lines)
    assert "token_accuracy" in result["depths"]


def test_the_score_is_part_of_the_id_where_it_is_given():
    explicit = CLASSES.with_changes({"train.score": None})

    assert "score" not in explicit.deciding["train"]
    assert explicit.run_id != CLASSES.run_id
    assert CLASSES.with_changes({"train.score": "top1_accuracy"}).score == explicit.score == "top1_accuracy"


def test_a_search_goes_the_way_in_which_the_score_is_better():
    def objectives(base: RunConfig):
        return dict(make_plan(Search("s", {"quick": [base]}, vary=["train.learning_rate"])).objectives)

    assert objectives(CLASSES) == {"selection_nll": "min"}
    assert objectives(CLASSES.with_changes({"train.score": None})) == {"selection_top1_accuracy": "max"}
