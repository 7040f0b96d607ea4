"""Test items as a sample: by hand, by drawing, and in the tables of a study that kept its answers."""

import csv

import numpy as np
import pytest
from made_up import finish, read, result, run_id, write_answers, write_study
from scipy import stats

from recstudy.evidence import Estimate, Fit, Scale, at_level, mcnemar, over_items
from recstudy.report import Differences, Table, dump_report
from recstudy.report.family import family
from recstudy.report.fits import scale_of
from recstudy.report.kinds import render_part
from recstudy.report.tables.render import table_shown
from recstudy.report.targets import AT_TEST

RIGHT = 100.0 * np.array([[1, 1, 1, 0], [1, 1, 0, 0]])  # two runs, four items
TRUTH = 0.8146  # P(N(1.4, 1.2^2 + 1 + 0.08^2) > 0)


def over_seeds(df):
    return at_level(Estimate(62.5, n=2, df=df, error=25 / 2**0.5), 0.95)


def test_the_variance_over_items_is_added_by_hand():
    """Means of the items 100 100 50 0: variance 6875 / 3, over four items 572.9; what single answers have
    beside runs and items, 3750 / 3 an answer, is in both: 156.25 over eight. The seeds have 25^2 / 2."""
    estimate = over_items(over_seeds(10), [RIGHT], [1])

    seeds, items, single = 25**2 / 2, 6875 / 3 / 4, 3750 / 3 / 8
    assert estimate.error**2 == pytest.approx(seeds + items - single)
    assert estimate.df == pytest.approx((seeds + items - single) ** 2 / (seeds**2 / 10 + items**2 / 3))


def test_interval_over_items_is_never_narrower_than_over_seeds_alone():
    """Where two seeds have a t of 12.7, items that all agree with them add degrees of freedom and no
    doubt.
    """
    assert over_items(over_seeds(1), [RIGHT], [1]) == over_seeds(1)


def test_mcnemar_of_several_runs_by_hand():
    """The items' differences are 100, 0, 50 and -50: chi^2 = 100^2 / (100^2 + 50^2 + 50^2)."""
    ours, theirs = (
        100.0 * np.array([[1, 0, 1, 0], [1, 1, 1, 0]]),
        100.0 * np.array([[0, 1, 0, 0], [0, 0, 1, 1]]),
    )

    assert mcnemar(ours, theirs) == pytest.approx(stats.chi2.sf(2 / 3, 1))
    assert mcnemar(ours, ours) is None
    # In clusters, the last two are one patient's and cancel, so that chi^2 = 100^2 / 100^2.
    assert mcnemar(ours, theirs, np.array([3, 5, 9, 9])) == pytest.approx(stats.chi2.sf(1, 1))


def test_interval_covers_the_truth_with_new_seeds_and_items():
    """Thirty seeds on the same 200 items: over seeds alone the interval holds it in fewer than half of the
    draws.
    """
    rng, n, items, hits, seed_hits = np.random.default_rng(1), 30, 200, 0, 0
    scale = Scale(0.0, 100.0, "share", items)
    for _ in range(300):
        easy = rng.normal(1.4, 1.2, items)
        scores = 100.0 * (rng.normal(0, 1, (n, items)) + rng.normal(0, 0.08, (n, 1)) + easy > 0)
        estimate = Fit({"a": scores.mean(1).tolist()}, scale).estimate("a")
        wide = over_items(estimate, [scores], [1.0], scale=scale)
        hits += wide.low <= 100 * TRUTH <= wide.high
        seed_hits += estimate.low <= 100 * TRUTH <= estimate.high

    assert hits / 300 > 0.93
    assert seed_hits / 300 < 0.5


@pytest.mark.parametrize(
    ("counts", "plain_width", "noisy"),
    [
        ({}, 500, 500),
        ({"repeated": 100}, 500, 100),
        ({"draws": 40}, 40, 40),
        ({"draws": 40, "repeated": 100}, 40, 40),
    ],
    ids=["each its own", "a part of the puzzles", "copies", "both"],
)
def test_copies_and_trajectories_of_a_puzzle_are_one_draw(tmp_path, counts, plain_width, noisy):
    """However many trajectories choose an answer, a share of solved puzzles has the noise of as many draws as
    there are puzzles.
    """
    results = write_study(tmp_path / "r")
    finish(results, 0, 0, result(50.0) | {"answers": {"kept": 0, "of": 500, **counts}})
    runs = [run for run in read(results).rows if run.result_or_empty and run.result_or_empty.answers]

    assert len(runs) == 1
    assert scale_of("exact_accuracy", runs).items == plain_width
    assert {scale_of(f"{name}.64", runs).items for name in AT_TEST} == {noisy}


def answer(results, variant, counts, **changes):
    """Write answers of three runs to 20 images, so many of them right."""
    for seed, right in enumerate(counts):
        logits = np.where(np.arange(20)[:, None] < right, [[2.0, 0.0]], [[0.0, 2.0]])
        write_answers(results, run_id(variant, seed), logits, np.zeros(20, int), **changes)


@pytest.fixture
def answered_study(tmp_path):
    """Variant 0 is right on 18, 19 and 18 of 20 images, variant 1 on 12, 14 and 13, one each as the runs'
    results say.
    """
    results = write_study(
        tmp_path / "r", report=dump_report([Table("t"), Differences("d", base="ViTRM, batch_size=128")])
    )
    for variant, counts in ((0, (18, 19, 18)), (1, (12, 14, 13))):
        for seed, right in enumerate(counts):
            finish(results, variant, seed, result(5.0 * right))
        answer(results, variant, counts)
    return read(results)


def test_a_table_has_the_interval_over_items_at_each_number(answered_study):
    table = Table("t", metrics=("top1_accuracy", "macro_f1")).cells(answered_study)

    first_cell, second_cell = table.rows[0].cells
    # as angles: not the bound itself
    assert (
        first_cell.items.low
        < first_cell.low
        < first_cell.value
        < first_cell.high
        < first_cell.items.high
        < 100
    )
    assert second_cell.items.interval is None
    assert table.rows[2].cells[0].items.interval is None  # it kept no answers
    line = next(csv.DictReader(table_shown(table).csv.splitlines()))
    assert (float(line["low_items"]), float(line["high_items"])) == pytest.approx(first_cell.items.interval)


def test_a_difference_has_both_tests(answered_study):
    part = Differences(base="ViTRM, batch_size=128")
    row = family(answered_study, part).rows[0]

    assert row.items.level == row.estimate.level == 0.95
    assert row.items.low < row.estimate.low < row.estimate.value < row.estimate.high < row.items.high
    ours, theirs = (
        100.0 * (np.arange(20) < np.array(right_counts)[:, None])
        for right_counts in ((18, 19, 18), (12, 14, 13))
    )
    assert row.over_items_alone == pytest.approx(mcnemar(ours, theirs))
    assert row.over_items_alone < 0.05
    line = next(csv.DictReader(render_part(answered_study, part).csv.splitlines()))
    assert float(line["p_mcnemar"]) == pytest.approx(row.over_items_alone)


def test_the_items_of_a_patient_are_one_draw(answered_study):
    """Ten patients of two images each, both right or both wrong: half as many draws, so that the interval
    over items widens.
    """
    single_items = Table("t").cells(answered_study).rows[0].cells[0]
    answer(answered_study.results, 0, (18, 19, 18), groups=np.arange(20) // 2)

    patients = Table("t").cells(read(answered_study.results)).rows[0].cells[0]

    assert patients.items.error > single_items.items.error > patients.estimate.error


def test_cut_answers_and_those_to_other_items_are_left_out(answered_study):
    draw = np.random.default_rng(0)
    write_answers(
        answered_study.results,
        run_id(0, 0),
        draw.normal(size=(3000, 2)),
        draw.integers(2, size=3000),
        limit=6000,
    )
    write_answers(answered_study.results, run_id(1, 0), draw.normal(size=(21, 2)), draw.integers(2, size=21))

    table = Table("t").cells(answered_study)

    assert [row.cells[0].items.interval for row in table.rows] == [None] * 4


def test_items_that_each_seed_drew_for_itself_are_not_the_same_items(answered_study):
    """Row 3 of one run's test split is another item than row 3 of the next."""
    for seed in (0, 1, 2):
        record = result(5.0 * (18, 19, 18)[seed])
        finish(
            answered_study.results,
            0,
            seed,
            record | {"provenance": record["provenance"] | {"data_checksum": f"{seed}"}},
        )

    table = Table("t").cells(read(answered_study.results))

    assert table.rows[0].cells[0].items.interval is None
    assert table.rows[1].cells[0].items.interval is not None
