"""Which questions of a made-up study are open, and how many more seeds they want."""

import pytest
from asking import CLOSE, HURTS, study
from made_up import as_result, plan, result, run_id, variants, write_study

from recstudy.evidence import Reason
from recstudy.records import Results, write_json
from recstudy.report.family import family
from recstudy.report.findings import open_questions
from recstudy.report.study_records import load_study

MADE_UP = ("made_up", "paper")


def asked(results: Results):
    return {one.text: one for one in open_questions(load_study(results, *MADE_UP))}


def test_a_decided_claim_wants_none_and_an_open_one_what_its_table_says(tmp_path):
    results = study(tmp_path / "r", [HURTS, CLOSE])
    records = load_study(results, *MADE_UP)
    _, close = family(records, records.parts[0]).rows
    found = asked(results)

    assert (found[HURTS.text].is_decided, found[HURTS.text].verdict, found[HURTS.text].more_seeds) == (
        True,
        "supported",
        None,
    )
    assert (found[CLOSE.text].is_decided, found[CLOSE.text].verdict) == (False, "undecided")
    assert found[CLOSE.text].more_seeds == close.answer.seeds_needed[1] > 0
    assert sorted(found[CLOSE.text].variants) == [0, 1]


@pytest.mark.parametrize(
    ("seeds", "how", "waits", "chance", "why"),
    [
        (3, "not run", True, 0.0, ""),
        (3, "failed", False, 0.0, "16 steps, seed 1: failed: code"),
        (1, "", False, 1.0, ""),
    ],
)
def test_runs_to_come_are_waited_for_and_lost_ones_leave_a_claim_open(
    tmp_path, seeds, how, waits, chance, why
):
    """More seeds are wanted if too few are known to spread."""
    (one,) = asked(study(tmp_path / "r", [HURTS], seeds=seeds, losses={(16, 1): how})).values()

    assert (one.is_decided, one.waits, one.chance, one.why) == (False, waits, chance, why)


def test_each_comparable_published_value_is_a_question_once_whatever_tables_it_stands_in(tmp_path):
    """Two tables have the same values; the parameters follow from the config. ViT-Small's accuracies are of
    variants under way.
    """
    found = [
        (one.text, one.variants, one.verdict)
        for one in open_questions(load_study(write_study(tmp_path / "r"), *MADE_UP))
    ]

    assert found == [
        (
            "ViTRM, batch size 64: top-1 accuracy 92.6 %, ViTRM Table 1 (002_table1_cifar10#2)",
            (0,),
            "undecided: these seeds detect differences of 1.1 or more",
        ),
        (
            "ViTRM, batch size 128: top-1 accuracy 93.1 %, ViTRM Table 1 (002_table1_cifar10#3)",
            (1,),
            f"undecided: {Reason.RUNS_LOST}",
        ),
    ]


@pytest.mark.parametrize(
    ("scores", "verdict", "is_decided", "more"),
    [
        ((92.4, 92.5, 92.6, 92.7, 92.8), "agrees within 0.5", True, False),
        ((92.6,), "undecided: no spread over seeds is known", False, False),
        ((92.3, 92.6, 92.9), "undecided: these seeds detect differences of 2.2 or more", False, True),
    ],
)
def test_how_many_seeds_a_published_value_wants(tmp_path, scores, verdict, is_decided, more):
    changes = {"variants": variants()[:1], "seeds": list(range(len(scores)))}
    results = Results(tmp_path / "r").create()
    write_json(results.study(*MADE_UP) / "plan.json", plan(**changes))
    for seed, score in enumerate(scores):
        results.run(run_id(0, seed)).finish(
            as_result(result(score) | {"answers": {"kept": 10_000, "of": 10_000}})
        )
    (one,) = open_questions(load_study(results, *MADE_UP))

    assert (one.verdict, one.is_decided, one.more_seeds is not None) == (verdict, is_decided, more)
