"""One family of questions for a study, and looks that belong to runs: what a study cannot change by being
defined anew.
"""

from dataclasses import replace

import numpy as np
import pytest
from asking import AROUND, CLOSE, EQUAL_CLAIM, HELPS, HURTS, LINEAR_METRIC, MEANS, rows_of, study
from made_up import read
from own_study import run_study
from scipy import stats

from recstudy import Claim, Metric, load, published
from recstudy.evidence import Looks, Verdict
from recstudy.programs.metric import using_metrics
from recstudy.records import PlanRecord, Results, read_record, write_record
from recstudy.records.plans import read_looks, record_look
from recstudy.records.study_schema import Look
from recstudy.report import Claims, Differences, Table, dump_report
from recstudy.report.family import family, study_family
from recstudy.report.fits import fits_of
from recstudy.report.looks import RecordedLooks
from recstudy.report.parts import parts_of
from recstudy.report.registration import dropped_questions
from recstudy.report.study_records import load_study
from recstudy.report.summary import looks_words, origins, reading_notes

STUDY_KEY = ("made_up", "paper")
FILE = "studies/made_up/paper/plan.json"


def on_plain(*claims: Claim) -> list[Claim]:
    return [replace(claim, metric=LINEAR_METRIC) for claim in claims]


def edited(results: Results, **changes) -> PlanRecord:
    """Write the plan again with these changes."""
    record = replace(read_record(results.root / FILE, PlanRecord), **changes)
    write_record(results.root / FILE, record)
    return record


def report_of(*parts) -> tuple:
    return tuple(dump_report(list(parts)))


def test_claims_in_five_parts_are_adjusted_as_in_one(tmp_path):
    """Five parts of a claim each had five unadjusted intervals."""
    results = study(tmp_path / "r", on_plain(HURTS, EQUAL_CLAIM, CLOSE))
    together = [row.answer.adjusted for row in rows_of(read(results))]
    separate_parts = [
        Claims(name=f"claims {position}", claims=(claim,))
        for position, claim in enumerate(on_plain(HURTS, EQUAL_CLAIM, CLOSE))
    ]
    edited(results, report=report_of(*separate_parts, Differences(metric=LINEAR_METRIC, base="steps=1")))
    records = read(results)
    hurts, equal, close = (family(records, part).rows[0].answer for part in parts_of(records)[:3])
    adjusted = [hurts.adjusted, equal.adjusted, close.adjusted]

    assert study_family(records).tests == 5  # with three differences, of which a claim is one
    assert [p >= unadjusted_p for p, unadjusted_p in zip(adjusted, together, strict=True)] == [True] * 3
    assert hurts.adjusted == pytest.approx(4 * hurts.p)  # the second of five


def test_a_dropped_claim_still_counts_and_is_named(tmp_path):
    """p 0.143 became 0.024 when five of six claims were dropped."""
    results = study(tmp_path / "r", on_plain(CLOSE, HURTS, HELPS))
    (old_row, *_) = rows_of(read(results))
    full_plan = read_record(results.root / FILE, PlanRecord)
    shorter = replace(full_plan, report=report_of(Claims(claims=tuple(on_plain(CLOSE)))))
    dropped = dropped_questions(shorter, full_plan, is_frozen=True)
    edited(results, report=shorter.report, dropped=dropped)
    records = read(results)
    (new_row,) = rows_of(records)

    assert [words for words, _ in dropped.values()] == [
        f"the claim {claim.text!r}" for claim in (HURTS, HELPS)
    ]
    assert new_row.answer.adjusted == pytest.approx(min(1.0, 3 * new_row.answer.p))
    assert new_row.answer.adjusted >= old_row.answer.adjusted
    assert ("Questions dropped, still counted", "; ".join(words for words, _ in dropped.values())) in origins(
        records
    )
    assert dropped_questions(shorter, full_plan, is_frozen=False) == {}
    assert (
        dropped_questions(full_plan, replace(shorter, dropped=dropped), is_frozen=True) == {}
    )  # stated again


def test_dropped_published_values_still_count_until_they_are_stated_again(tmp_path):
    (tmp_path / "paper.csv").write_text(
        "metric,value,depth,rate\naccuracy,86,2,0.1\naccuracy,92.5,4,0.1\naccuracy,90,9,0.1\n"
    )
    with using_metrics({"accuracy": Metric("%", items=10_000)}):
        targets = published(tmp_path / "paper.csv", margin=0.5, why="half a point")
    tests = []
    for shown in (targets, (), targets[1:]):
        results = run_study(tmp_path / "r", report=[Table("scores", targets=shown)])
        records = load_study(results, "depth", "default")
        tests.append((study_family(records).tests, [words for words, _ in records.plan.dropped.values()]))

    words = [f"the published accuracy of paper (paper#{line})" for line in (1, 2)]
    assert tests == [(2, []), (2, words), (2, words[:1])]


def test_looks_belong_to_runs(tmp_path):
    """A new variant, a dropped claim, another name of the study and a notebook reset no look."""
    results = study(tmp_path / "r", on_plain(HURTS), seeds=2)
    load(results.study(*STUDY_KEY))
    first = read_record(results.root / FILE, PlanRecord)
    seeds = study(tmp_path / "more", on_plain(HURTS), seeds=3)
    third = read_record(seeds.root / FILE, PlanRecord)
    for run in seeds.root.glob("runs/*"):
        if not (results.root / "runs" / run.name).exists():
            run.rename(results.root / "runs" / run.name)
    renamed = results.study("another", "paper") / "plan.json"
    renamed.parent.mkdir(parents=True)
    write_record(
        renamed,
        replace(
            third,
            study="another",
            definition="f" * 12,
            report=report_of(Claims(claims=tuple(on_plain(CLOSE)))),
        ),
    )
    records = load(renamed.parent).records

    assert first.runs != third.runs
    assert [len(look.runs) for look in read_looks(results, third)] == [8, 4]
    assert records.looks.at([0, 1]) == Looks((2, 3), 0)
    (close,) = rows_of(records)
    assert close.answer.alpha == 0.025  # the second look, beyond the first
    assert (
        looks_words(records.looks.at_study())
        == "2, 3 seeds; extended beyond the first look, as no maximum was stated before: total error at most 7.5 %"
    )


def test_a_variant_with_an_unfinished_run_is_not_read_yet(tmp_path):
    results = study(tmp_path / "r", on_plain(HURTS), losses={(16, 1): "not run"})
    record_look(results, *STUDY_KEY)
    record_look(results, *STUDY_KEY)
    (look,) = read_looks(results, read_record(results.root / FILE, PlanRecord))

    assert len(look.runs) == 9
    assert read(results).looks.at([0, 3]).seed_counts == ()
    assert read(results).looks.at([0, 1]).seed_counts == (3,)


def test_a_look_at_pairs_counts_the_seeds_that_both_have(tmp_path):
    plan = read(study(tmp_path / "r", [HURTS])).plan
    seeds = [
        {f"{side}{seed}": seed for seed in range(start, start + 3)} for side, start in (("a", 0), ("b", 1))
    ]
    ids = [*seeds[0], *seeds[1]]
    looks = [
        RecordedLooks(
            replace(plan, paired=paired), [Look(date="2026-01-01", runs=tuple(ids))], seeds, {*ids}, 1
        )
        for paired in (False, True)
    ]

    assert [of_study.at([0, 1]).seed_counts for of_study in looks] == [(3,), (2,)]


def test_paired_seeds_are_compared_seed_by_seed(tmp_path):
    """All variants share the seeds' distances, so that differences within a seed do not vary: here they are
    made to, a little.
    """
    noise = {(2, seed): MEANS[2] + AROUND[seed] + shift for seed, shift in enumerate((-0.02, 0.0, 0.02))}
    results = study(tmp_path / "r", on_plain(CLOSE), losses=noise)
    (unpaired,) = rows_of(read(results))
    edited(results, paired=True)
    (paired,) = rows_of(read(results))
    theirs = stats.ttest_rel([MEANS[1] + near for near in AROUND], [noise[2, seed] for seed in range(3)])

    assert unpaired.verdict is Verdict.UNDECIDED
    assert paired.verdict is Verdict.SUPPORTED
    assert paired.answer.p == pytest.approx(theirs.pvalue)
    assert paired.interval == pytest.approx(tuple(theirs.confidence_interval()))
    assert np.mean(paired.interval) == pytest.approx(unpaired.estimate.value)


def test_seeds_with_overlapping_test_sets_have_nadeau_and_bengio_s_variance(tmp_path):
    """t = d / (s sqrt(1/J + q/(1 - q))) with J - 1 degrees of freedom, for J = 3 splits and q = 0.2."""
    noise = {(2, seed): MEANS[2] + AROUND[seed] + shift for seed, shift in enumerate((-0.02, 0.0, 0.02))}
    results = study(tmp_path / "r", on_plain(CLOSE), losses=noise)
    edited(results, paired=True, test_share=0.2)
    records = read(results)
    (row,) = rows_of(records)
    differences = np.array([MEANS[1] + near - noise[2, seed] for seed, near in enumerate(AROUND)])
    error = differences.std(ddof=1) * (1 / 3 + 0.2 / 0.8) ** 0.5
    p = 2 * stats.t.sf(abs(differences.mean()) / error, 2)

    assert (row.estimate.error, row.answer.p) == pytest.approx((error, p))
    half = stats.t.ppf(0.975, 2) * error
    assert row.interval == pytest.approx((differences.mean() - half, differences.mean() + half))
    # the interval of a mean, too
    fit = fits_of(records, LINEAR_METRIC)[0][0]
    assert fit.estimate(0).error == pytest.approx((fit.variance(0).value * (1 / 3 + 0.25)) ** 0.5)
    assert "a share of 0.2 of the data" in reading_notes(records)
