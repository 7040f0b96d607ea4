"""Which questions of a made-up study are open, and how many more seeds they want."""

import pytest
from asking import CLOSE, HURTS, rows_of, study
from made_up import finish, plan, read, result, variants, write_plan, write_study

from recstudy.evidence import Reason
from recstudy.records import Results
from recstudy.report.open_questions import open_questions


def questions_of(results: Results):
    return {question.text: question for question in open_questions(read(results))}


def test_a_decided_claim_wants_none_and_an_open_one_what_its_table_says(tmp_path):
    results = study(tmp_path / "r", [HURTS, CLOSE])
    records = read(results)
    _, close = rows_of(records)
    questions = questions_of(results)

    assert (
        questions[HURTS.text].is_decided,
        questions[HURTS.text].verdict,
        questions[HURTS.text].more_seeds,
    ) == (
        True,
        "supported",
        None,
    )
    assert (questions[CLOSE.text].is_decided, questions[CLOSE.text].verdict) == (False, "undecided")
    assert questions[CLOSE.text].more_seeds == close.answer.seeds_needed[1] > 0
    assert sorted(questions[CLOSE.text].variants) == [0, 1]


@pytest.mark.parametrize(
    ("seeds", "ending", "waits", "chance", "why"),
    [
        (3, "not run", True, 0.0, ""),
        (3, "failed", False, 0.0, "16 steps, seed 1: failed: code"),
        (1, "", False, 1.0, ""),
    ],
)
def test_runs_to_come_are_waited_for_and_lost_ones_leave_a_claim_open(
    tmp_path, seeds, ending, waits, chance, why
):
    """More seeds are wanted if too few are known to spread."""
    (question,) = questions_of(study(tmp_path / "r", [HURTS], seeds=seeds, losses={(16, 1): ending})).values()

    assert (question.is_decided, question.waits, question.chance, question.why) == (False, waits, chance, why)


def test_comparable_published_value_is_one_question_in_all_tables(tmp_path):
    """Two tables have the same values; the parameters follow from the config. ViT-Small's accuracies are of
    variants under way.
    """
    questions = [
        (question.text, question.variants, question.verdict)
        for question in open_questions(read(write_study(tmp_path / "r")))
    ]

    assert questions == [
        (
            "ViTRM, batch size 64: top-1 accuracy 92.6 %, ViTRM Table 1 (002_table1_cifar10#2)",
            (0,),
            "undecided: these seeds detect differences of 0.79 or more",
        ),
        (
            "ViTRM, batch size 128: top-1 accuracy 93.1 %, ViTRM Table 1 (002_table1_cifar10#3)",
            (1,),
            f"undecided: {Reason.RUNS_LOST}",
        ),
    ]


@pytest.mark.parametrize(
    ("scores", "verdict", "is_decided", "needs_more_seeds"),
    [
        ((92.4, 92.5, 92.6, 92.7, 92.8), "agrees within 0.5", True, False),
        ((92.6,), "undecided: no spread over seeds is known", False, False),
        ((92.3, 92.6, 92.9), "undecided: these seeds detect differences of 1.6 or more", False, True),
    ],
)
def test_published_value_asks_for_more_seeds_until_it_is_decided(
    tmp_path, scores, verdict, is_decided, needs_more_seeds
):
    changes = {"variants": variants()[:1], "seeds": list(range(len(scores)))}
    results = write_plan(tmp_path / "r", plan(**changes))
    for seed, score in enumerate(scores):
        finish(results, 0, seed, result(score) | {"answers": {"kept": 10_000, "of": 10_000}})
    (question,) = open_questions(read(results))

    assert (question.verdict, question.is_decided, question.more_seeds is not None) == (
        verdict,
        is_decided,
        needs_more_seeds,
    )
