"""When claims, margins and deviations were stated: kept with their first date, whatever plan comes after."""

import json
import re
from dataclasses import replace

import pytest
import tiny

from recstudy import Metric, grid
from recstudy.base.values import digest
from recstudy.papers import published
from recstudy.programs.base import PROGRAMS
from recstudy.records import Results, read_record, write_json
from recstudy.records.plans import record_look
from recstudy.records.reading import dumped, record_of
from recstudy.records.schema import Result
from recstudy.records.study_schema import Deviation, PlanRecord
from recstudy.report import Claim, Claims, Differences, Table
from recstudy.report.audit import audit
from recstudy.report.family import family
from recstudy.report.findings import findings
from recstudy.report.parts import parts_of
from recstudy.report.registration import digest_of, post_hoc
from recstudy.report.study_records import StudyRecords, load_study
from recstudy.report.summary import origins
from recstudy.report.tables.question_table import needed_words, verdict_words
from recstudy.study.plan import Plan, make_plan
from recstudy.study.record import record_plan, recorded
from recstudy.study.study import Study
from recstudy.study.testing import make_result
from recstudy.study.until import with_maximum

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
    return next(part for part in parts_of(records) if isinstance(part, Claims))


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
    assert outcomes(register_study(results)) == ["not run"]

    finish(results, plan, EARLY_TIME)
    records = register_study(results)
    assert outcomes(records) == ["supported (post hoc)"]
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

    assert post_hoc(records, claims(records).claims[0], range(6))


def test_margins_deviations_and_the_most_seeds_have_dates_too(results):
    deviation = Deviation(field="data", paper="CIFAR-10", ours="digits", why="small")
    target = published("002_ablation_fig2_fig3", margin=0.3, why="small")[0]
    table = Table("depths", targets=[target])
    record_plan(make_plan(STUDY), results)
    finish(results, make_plan(STUDY), EARLY_TIME)

    records = register_study(results, replace(STUDY, report=[table], deviations=[deviation], max_seeds=9))

    assert all(post_hoc(records, statement, range(6)) for statement in (deviation, target, 9))
    assert not post_hoc(records, target, variants=[])
    # stated before any verdict was read
    assert (records.looks.at_study().seed_counts, records.looks.at_study().maximum) == ((3,), 9)


def test_a_report_of_a_store_records_its_look_there(tmp_path, monkeypatch, typed):
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(tmp_path / "scratch"))
    results = Results(f"local://{tmp_path}/store").create()
    record_plan(make_plan(STUDY), results)
    finish(results, make_plan(STUDY), EARLY_TIME)
    results.send(results.root / "runs")

    typed("report", f"local://{tmp_path}/store")

    assert len((tmp_path / "store/studies/looks.jsonl").read_text().splitlines()) == 1
    assert not (tmp_path / "store/studies/tiny/quick/report").exists()


def test_a_look_at_one_seed_has_no_test_and_is_none(results, monkeypatch):
    """A maximum that is stated after it is in time."""
    plan = make_plan(STUDY, seeds=1)
    record_plan(plan, results)
    finish(results, plan, EARLY_TIME)
    record_look(results, "tiny", "quick")
    assert with_maximum(make_plan(STUDY, seeds=1), results).max_seeds == 4

    monkeypatch.setattr("recstudy.study.record.current_time", lambda: "2098-01-01T00:00:00+00:00")
    monkeypatch.setattr("recstudy.records.plans.current_time", lambda: LATE_TIME)
    plan = make_plan(STUDY, seeds=3, max_seeds=10)
    record_plan(plan, results)
    finish(results, plan, LATE_TIME)
    record_look(results, "tiny", "quick")
    looks = load_study(results, "tiny", "quick").looks.at_study()

    assert (looks.seed_counts, looks.maximum) == ((3,), 10)


def test_a_maximum_that_is_changed_after_verdicts_were_read_does_not_count(results, monkeypatch):
    first = replace(STUDY, max_seeds=5)
    record_plan(make_plan(first), results)
    finish(results, make_plan(first), EARLY_TIME)
    record_look(results, "tiny", "quick")

    monkeypatch.setattr("recstudy.study.record.current_time", lambda: LATE_TIME)
    changed = [
        register_study(results, replace(STUDY, max_seeds=max_seeds)).looks.at_study().maximum
        for max_seeds in (9, 3, 0)
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


def test_a_dry_run_counts_the_seeds_that_claims_need_with_dropped_claims(results, typed):
    """A dropped claim makes the intervals of the others wider, and so their number of seeds larger."""
    noisy = replace(STUDY, claims=[replace(STEPS, margin=9.8)])
    others = [replace(HURTS, text=f"claim {number}", margin=number / 10) for number in range(1, 9)]
    record_plan(make_plan(replace(noisy, claims=[*noisy.claims, *others])), results)
    finish(results, make_plan(STUDY), LATE_TIME)

    def needed_seeds() -> str:
        output = typed("--dry-run", "--results", results.root, study=noisy)
        return re.search(r"Seeds needed by the runs so far: (.+)\.", output)[1]

    before = needed_seeds()
    records = register_study(results, noisy)

    assert len(records.plan.dropped) == 8
    assert before == needed_seeds() == needed_words(family(records, claims(records)).rows[0])


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
        replace(original, alpha=0.01),
        Claim("", of={"latent_steps": 3}, at_least=20, metric="nll"),
        Claim("", of={"latent_steps": 3}, at_most=20, metric="nll"),
        Claim("", of={"latent_steps": 3}, at_least=10, at_most=20, metric="nll"),
    ]

    assert digest_of(original) == digest_of(turned_claim)
    assert len({digest_of(claim) for claim in (original, *other_claims)}) == 9
    # the digest of version 0.2, which wrote `higher` and `margin` for `of` and `at_least`
    assert digest_of(other_claims[5]) == "3126f916323d"
    assert digest_of(Claim("", higher={"latent_steps": 3}, margin=20, metric="nll")) == "3126f916323d"


# ------------------------------------------------------------------------------------------------------------
# metrics, thresholds, pairing and blocks

MIDDLE_TIME = "2021-01-01T00:00:00+00:00"
ITEMS = {"accuracy": Metric("%", items=2000), "loss": Metric(better="lower")}
BARE = ITEMS | {"accuracy": Metric("%")}


def score(run):
    return {"accuracy": 90.0 + run.settings["depth"], "loss": 1.0}


def own_study(metrics=BARE, **fields) -> Study:
    dict.pop(PROGRAMS, f"{__name__}.score", None)  # a process has one description of a program
    deeper = {"lower": {"depth": 1}, "higher": {"depth": 2}}
    return Study(
        "own",
        program=score,
        settings={"depth": 1, "rate": 0.1},
        metrics=metrics,
        variants=grid({"depth": [1, 2]}),
        seeds=3,
        claims=[Claim("accuracy", metric="accuracy", **deeper), Claim("loss", metric="loss", **deeper)],
        **fields,
    )


@pytest.fixture
def plan_at(results, monkeypatch):
    """Records the plan of a study at a date. The runs of the first plan finish a year later."""

    def plan(date: str, **fields) -> StudyRecords:
        study = own_study(**fields)
        monkeypatch.setattr("recstudy.study.record.current_time", lambda: date)
        record_plan(make_plan(study), results)
        for run in () if results.states() else make_plan(study).runs:
            metrics = {"accuracy": 90 + 3 * run.config.settings["depth"] + run.seed, "loss": 1 + run.seed / 9}
            provenance = {"finished": EARLY_TIME}
            results.run(run.id).finish(make_result(metrics=metrics, provenance=provenance))
        return load_study(results, "own", "default")

    return plan


@pytest.mark.parametrize(
    ("changed", "marked", "words"),
    [
        (
            {"metrics": ITEMS},
            ["accuracy"],
            "accuracy.items none -> 2000, accuracy.bounds none -> [0, 100], accuracy.share none -> true",
        ),
        (
            {"metrics": BARE | {"loss": Metric(better="higher")}},
            ["loss"],
            "loss.better lower -> higher",
        ),
        ({"success_threshold": {"loss": 2.0}}, ["loss"], "loss.success_threshold none -> 2"),
        ({"paired": True}, ["accuracy", "loss"], "paired none -> true"),
        ({"alpha": 0.04}, ["accuracy", "loss"], "alpha none -> 0.04"),
        (
            {"paired": True, "test_share": 0.1},
            ["accuracy", "loss"],
            "paired none -> true, test_share none -> 0.1",
        ),
        ({"blocks": ["rate"]}, ["accuracy", "loss"], "blocks none -> [rate]"),
    ],
)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_description_that_is_changed_after_the_runs_marks_its_verdicts(
    plan_at, changed, marked, words, is_reversed
):
    """The page shows both values, audit asks, and the description of before is not post hoc."""
    first, second = ({}, changed)[:: -1 if is_reversed else 1]
    before = plan_at("2019-01-01T00:00:00+00:00", **first)
    with before.study_modules():
        assert not any("post hoc" in outcome for outcome in outcomes(before))
    records = plan_at(MIDDLE_TIME, **second)
    with records.study_modules():
        rows = family(records, claims(records)).rows
        question = dict(origins(records))["Changed after runs had finished"]
        assert [row.label for row in rows if "post hoc" in row.marks] == marked
        assert question.endswith("changed on 2021-01-01 after 6 runs had finished")
        assert is_reversed or question.startswith(words)
        assert [finding.what for finding in audit(records).findings] == [question]
    restored = plan_at(LATE_TIME, **first)
    with restored.study_modules():
        assert not any("post hoc" in outcome for outcome in outcomes(restored))


def test_a_metric_that_is_described_anew_marks_differences_too(plan_at):
    report = [Differences(metric="accuracy", base="depth=1")]
    plan_at("2019-01-01T00:00:00+00:00", report=report)
    records = plan_at(MIDDLE_TIME, report=report, metrics=ITEMS)
    with records.study_modules():
        (part,) = (part for part in parts_of(records) if isinstance(part, Differences))
        (difference,) = family(records, part).rows
    assert difference.marks == ["post hoc"]


def test_descriptions_of_a_plan_without_their_dates_are_from_before(plan_at, results):
    plan_at("2019-01-01T00:00:00+00:00")
    for file in results.study("own", "default").glob("plan*.json"):
        content = json.loads(file.read_text())
        del content["described"]
        write_json(file, content)
    for records in (load_study(results, "own", "default"), plan_at(MIDDLE_TIME)):
        assert outcomes(records) == ["supported", "undecided"]
    assert outcomes(plan_at(LATE_TIME, metrics=ITEMS)) == ["supported (post hoc)", "undecided"]


def test_a_late_threshold_of_an_old_plan_stays_post_hoc(results):
    """Thresholds had digests among the dates of claims."""
    study = replace(STUDY, success_threshold={"top1_accuracy": 50})
    record_plan(make_plan(study), results)
    finish(results, make_plan(study), EARLY_TIME)
    for file in results.study("tiny", "quick").glob("plan*.json"):
        content = json.loads(file.read_text())
        dates = dict.fromkeys(content["stated"], "2019-01-01T00:00:00+00:00")
        content["stated"] = dates | {digest(["learned", "top1_accuracy", 50.0], 12): MIDDLE_TIME}
        del content["described"]
        write_json(file, content)

    assert outcomes(load_study(results, "tiny", "quick")) == ["supported (post hoc)"]
    assert outcomes(register_study(results, study)) == ["supported (post hoc)"]
