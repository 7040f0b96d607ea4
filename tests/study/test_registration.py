"""When claims, margins and deviations were stated: kept with their first date, whatever plan comes after."""

import json
from dataclasses import replace

import tiny

from recstudy.evidence.seeds import Looks
from recstudy.papers import published
from recstudy.records import Results, read_record, write_json
from recstudy.records.plans import record_look
from recstudy.records.reading import dumped, record_of
from recstudy.records.schema import Result
from recstudy.records.study_schema import Deviation, PlanRecord
from recstudy.report import Claim, Claims, Table
from recstudy.report.family import family
from recstudy.report.findings import findings
from recstudy.report.registration import digest_of, post_hoc
from recstudy.report.study_records import StudyRecords, load_study
from recstudy.report.tables.question_table import verdict_words
from recstudy.study.plan import Plan, make_plan
from recstudy.study.record import record_plan, recorded
from recstudy.study.study import Study
from recstudy.testing import make_result

EARLY_TIME, LATE_TIME = "2020-01-01T00:00:00+00:00", "2099-01-01T00:00:00+00:00"
STEPS = Claim("more steps help", lower={"latent_steps": 1}, higher={"latent_steps": 3}, margin=2.0)
STRICTER = replace(STEPS, margin=5.0)
HURTS = Claim(
    "supervision hurts", lower={"supervision_steps": 2}, higher={"supervision_steps": 1}, margin=0.1
)
STUDY = replace(tiny.study, seeds=3, claims=[STEPS])


def finish(results: Results, plan: Plan, finished: str, label: str = "") -> None:
    for run in (run for run in plan.runs if label in run.label):
        score = 80.0 + 5 * run.config.model.latent_steps + 0.1 * run.seed
        results.run(run.id).finish(make_result(score, provenance={"finished": finished}))


def register_study(results: Results, study: Study = STUDY, **changes) -> StudyRecords:
    record_plan(make_plan(study, **changes), results)
    return load_study(results, "tiny", "quick")


def claims(records: StudyRecords) -> Claims:
    return next(part for part in records.parts if isinstance(part, Claims))


def outcomes(records: StudyRecords) -> list[str]:
    return [verdict_words(row) for row in family(records, claims(records)).rows]


def test_a_claim_that_was_stated_before_the_runs_is_not_post_hoc_whatever_comes_after(results):
    record_plan(make_plan(STUDY), results)
    finish(results, make_plan(STUDY), LATE_TIME)
    for changed_study in (replace(STUDY, claims=[]), replace(STUDY, claims=[HURTS])):
        record_plan(make_plan(changed_study), results)
    record_plan(make_plan(STUDY, changes={"train.epochs": 9}), results)

    assert outcomes(register_study(results, seeds=4)) == ["interim"]
    assert outcomes(register_study(results)) == ["supported"]


def test_a_claim_that_was_stated_or_changed_after_its_first_run_is_post_hoc_wherever_it_is_shown(results):
    record_plan(make_plan(STUDY), results)
    finish(results, make_plan(STUDY), EARLY_TIME)

    records = register_study(results, replace(STUDY, claims=[STRICTER]))

    assert outcomes(records) == ["supported (post hoc)"]
    assert next(finding.verdict for finding in findings(records)) == "Supported (post hoc)"


def test_a_threshold_of_learning_of_afterwards_marks_the_verdicts_on_its_metric(results):
    """The claim is of 2019, the runs of 2020, the threshold of now."""
    record_plan(make_plan(STUDY), results)
    for file in results.study("tiny", "quick").glob("plan*.json"):
        content = json.loads(file.read_text())
        write_json(file, content | {"stated": dict.fromkeys(content["stated"], "2019-01-01T00:00:00+00:00")})
    finish(results, make_plan(STUDY), EARLY_TIME)

    assert outcomes(register_study(results)) == ["supported"]
    assert outcomes(register_study(results, replace(STUDY, success_threshold={"macro_f1": 50}))) == [
        "supported"
    ]
    assert outcomes(register_study(results, replace(STUDY, success_threshold={"top1_accuracy": 50}))) == [
        "supported (post hoc)"
    ]


def test_only_runs_of_its_own_variants_and_of_its_own_numbers_count(results):
    plan = make_plan(STUDY)
    finish(results, plan, EARLY_TIME, "latent_steps=2")  # which the claim is not of
    records = register_study(results)
    assert not post_hoc(records, claims(records).claims[0])

    finish(results, plan, EARLY_TIME, "latent_steps=3, supervision_steps=1")
    records = register_study(results)
    assert post_hoc(records, claims(records).claims[0])
    reworded = replace(claims(records).claims[0], text="other words")
    dates = records.plan.stated
    assert dates[digest_of(reworded)] == dates[digest_of(claims(records).claims[0])] > EARLY_TIME


def test_runs_that_are_run_again_were_finished_before_all_the_same(results):
    plan = make_plan(STUDY)
    finish(results, plan, EARLY_TIME)
    for run in plan.runs:
        results.run(run.id).archive()
        values = {"status": "done", "metrics": {}, "provenance": {"finished": LATE_TIME, "earlier": 1}}
        results.run(run.id).finish(record_of(Result, values))

    records = register_study(results)

    assert post_hoc(records, claims(records).claims[0])


def test_margins_deviations_and_the_most_seeds_have_dates_too(results):
    deviation = Deviation(field="data", paper="CIFAR-10", ours="digits", why="small")
    target = published("002_ablation_fig2_fig3", margin=0.3, why="small")[0]
    table = Table("depths", targets=[target])
    record_plan(make_plan(STUDY), results)
    finish(results, make_plan(STUDY), EARLY_TIME)

    changed = replace(
        STUDY, report=[table], deviations=[deviation], max_seeds=9, success_threshold={"top1_accuracy": 50}
    )
    records = register_study(results, changed)

    assert all(post_hoc(records, item) for item in (deviation, target, ("top1_accuracy", 50), 9))
    assert not post_hoc(records, target, variants=[])
    assert records.looks == Looks((3,), 9)  # stated before any verdict was read


def test_a_maximum_that_is_changed_after_verdicts_were_read_does_not_count(results, monkeypatch):
    first = replace(STUDY, max_seeds=5)
    record_plan(make_plan(first), results)
    finish(results, make_plan(first), EARLY_TIME)
    record_look(results, "tiny", "quick")

    monkeypatch.setattr("recstudy.study.record.current_time", lambda: LATE_TIME)
    changed = [
        register_study(results, replace(STUDY, max_seeds=max_seeds)).looks.maximum for max_seeds in (9, 3, 0)
    ]

    assert changed == [5, 5, 5]


def test_an_old_plan_s_claims_are_from_before_this_was_kept(results):
    """Its definition was a digest of the claims too, so that a changed claim was an `earlier revision`."""
    plan = make_plan(STUDY, seeds=4)
    record_plan(plan, results)
    finish(results, plan, EARLY_TIME)
    folder = results.study("tiny", "quick")
    old = dumped(read_record(folder / "plan.json", PlanRecord)) | {"definition": "abc", "created": EARLY_TIME}
    del old["stated"], old["max_seeds"]
    for file in folder.glob("plan*.json"):
        file.unlink()
    for name in ("plan", "plan-abc"):
        write_json(folder / f"{name}.json", old)
    records = load_study(results, "tiny", "quick")
    assert outcomes(records) == ["supported"]
    assert records.plan.stated.get(digest_of(claims(records).claims[0]), "") == ""

    new = make_plan(replace(STUDY, claims=[STEPS, STRICTER]))
    record_plan(new, results)
    records = load_study(results, "tiny", "quick")

    assert outcomes(records) == ["supported", "supported (post hoc)"]


def test_a_changed_claim_is_no_other_definition(results):
    plan_a, plan_b = make_plan(STUDY), make_plan(replace(STUDY, claims=[STRICTER]))

    assert plan_a.definition == plan_b.definition == make_plan(tiny.study).definition
    record_plan(plan_a, results)
    assert not recorded(plan_b, results)  # a driver that runs it has other claims in its plan


def test_a_digest_is_of_what_decides_and_not_of_its_order_or_words():
    sides = {"latent_steps": 1, "supervision_steps": 2}
    turned = dict(reversed(sides.items()))
    original, turned_claim = (
        Claim("", lower=side, higher={"latent_steps": 3}, metric="nll") for side in (sides, turned)
    )
    other_claims = [
        replace(original, margin=1.0),
        replace(original, within=1.0),
        replace(original, metric="ece"),
        replace(original, lower=original.higher, higher=original.lower),
    ]

    assert digest_of(original) == digest_of(turned_claim)
    assert len({digest_of(claim) for claim in (original, *other_claims)}) == 5
