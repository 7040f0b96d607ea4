"""Test images as a sample: by hand, against statsmodels, by drawing, and in the tables of a study that kept its answers."""

import csv

import numpy as np
import pytest
from made_up import as_result, result, run_id, write_answers, write_study
from recstudy.analysis.contrasts import contrast
from recstudy.analysis.stats import Spread
from recstudy.analysis.tables.difference_table import csv_text as differences_csv
from recstudy.analysis.tables.differences import differences_data
from statsmodels.stats.contingency_tables import mcnemar as mcnemar_of_two

from recstudy.analysis import Differences, Table
from recstudy.analysis.frame import load_study
from recstudy.analysis.items import mcnemar, with_images
from recstudy.analysis.tables.cell_names import find
from recstudy.analysis.tables.shown import of_cells
from recstudy.analysis.tables.table import table_data
from recstudy.report import dump_report

RIGHT = 100.0 * np.array([[1, 1, 1, 0], [1, 1, 0, 0]])  # two runs, four images


def test_the_variance_over_images_is_added_by_hand():
    """Means of the images 100 100 50 0: variance 6875 / 3, over four images 572.9; what single answers have beside runs and
    images, 3750 / 3 an answer, is in both: 156.25 over eight. The seeds have 25^2 / 2."""
    found = with_images(contrast([[75.0, 50.0]], [1], [Spread(25.0, 10)]), [RIGHT], [1])

    seeds, images, single = 25**2 / 2, 6875 / 3 / 4, 3750 / 3 / 8
    assert found.error**2 == pytest.approx(seeds + images - single)
    assert found.df == pytest.approx((seeds + images - single) ** 2 / (seeds**2 / 10 + images**2 / 3))


def test_it_is_never_narrower_than_over_seeds_alone():
    """Where two seeds have a t of 12.7, images that all agree with them add degrees of freedom and no doubt."""
    alone = contrast([[75.0, 50.0]], [1], [Spread(25.0, 1)])

    assert with_images(alone, [RIGHT], [1]) == alone


def test_of_one_run_each_it_is_mcnemars_test():
    rng = np.random.default_rng(0)
    ours, theirs = 100.0 * (rng.random((2, 1, 200)) < [[[0.8]], [[0.7]]])

    table = [[sum((ours[0] == a) & (theirs[0] == b)) for b in (100, 0)] for a in (100, 0)]

    assert mcnemar(ours, theirs) == pytest.approx(mcnemar_of_two(table, exact=False, correction=False).pvalue)
    assert mcnemar(ours, ours) is None


def test_drawn_anew_with_seeds_and_images_the_truth_is_covered():
    """Three seeds, 200 images, half of the spread in each: over seeds alone the interval holds it in half of the draws."""
    rng, n, images, hits, alone = np.random.default_rng(1), 3, 200, 0, 0
    for _ in range(300):
        easy = rng.normal(1.4, 1.2, images)
        scores = 100.0 * (rng.normal(0, 1, (n, images)) + rng.normal(0, 0.08, (n, 1)) + easy > 0)
        means = scores.mean(1)
        found = contrast([list(means)], [1], [Spread(float(means.std(ddof=1)) or 0.5, n - 1)])
        wide, truth = with_images(found, [scores], [1]), 100 * TRUTH
        hits += wide.low <= truth <= wide.high
        alone += found.low <= truth <= found.high

    assert hits / 300 > 0.93
    assert alone < hits


TRUTH = 0.8146  # P(N(1.4, 1.2^2 + 1 + 0.08^2) > 0)


@pytest.fixture
def kept(tmp_path):
    """Variant 0 is right on 18, 19 and 18 of 20 images, variant 1 on 12, 14 and 13, one each as the runs' results say."""
    results = write_study(tmp_path / "r", report=dump_report([Table("t"), Differences("d", base="ViTRM, batch_size=128")]))
    for variant, counts in ((0, (18, 19, 18)), (1, (12, 14, 13))):
        for seed, right in enumerate(counts):
            labels = np.zeros(20, int)
            logits = np.where(np.arange(20)[:, None] < right, [[2.0, 0.0]], [[0.0, 2.0]])
            results.run(run_id(variant, seed)).finish(as_result(result(5.0 * right)))
            write_answers(results, run_id(variant, seed), logits, labels)
    return load_study(results, "made_up", "paper")


def test_a_table_has_the_interval_over_images_at_each_number(kept):
    table = table_data(kept, Table("t", metrics=("top1_accuracy", "macro_f1")))

    whole, other = table.rows[0].cells
    assert whole.items.low < whole.low < whole.value < whole.high <= whole.items.high <= 100
    assert other.items is None
    assert table.rows[2].cells[0].items is None  # it kept no answers
    assert any(note.startswith("intervals are over seeds, for these test images; over seeds and other") for note in table.notes)
    shown = of_cells(table)
    assert f"over seeds and images {whole.items.low:.6g} to {whole.items.high:.6g}" in shown.html
    line = next(csv.DictReader(shown.csv.splitlines()))
    assert (float(line["low_items"]), float(line["high_items"])) == pytest.approx(whole.items[1:3])
    said = find(kept, "t:1:1").behind(kept).lines
    assert any(line.startswith("95 % interval over seeds and test images: ") for line in said)


def test_a_difference_has_both_tests(kept):
    row = differences_data(kept, Differences(base="ViTRM, batch_size=128")).rows[0]

    assert row.items.low < row.found.low < row.found.value < row.found.high < row.items.high
    assert row.mcnemar < 0.05
    line = next(csv.DictReader(differences_csv(differences_data(kept, Differences(base="ViTRM, batch_size=128"))).splitlines()))
    assert float(line["p_mcnemar"]) == pytest.approx(row.mcnemar)
    said = find(kept, "d:ViTRM, batch_size=64:p").behind(kept).lines
    assert any(line.startswith("Test images as a sample, too: over seeds and test images +") for line in said)


def test_cut_answers_and_those_to_other_images_are_left_out(kept):
    draw = np.random.default_rng(0)
    write_answers(kept.results, run_id(0, 0), draw.normal(size=(3000, 2)), draw.integers(2, size=3000), limit=6000)
    write_answers(kept.results, run_id(1, 0), draw.normal(size=(21, 2)), draw.integers(2, size=21))

    table = table_data(kept, Table("t"))

    assert [row.cells[0].items for row in table.rows] == [None] * 4


def test_images_that_each_seed_drew_for_itself_are_not_the_same_images(kept):
    """Row 3 of one run's test split is another image than row 3 of the next."""
    for seed in (0, 1, 2):
        made = result(5.0 * (18, 19, 18)[seed])
        kept.results.run(run_id(0, seed)).finish(
            as_result(made | {"provenance": made["provenance"] | {"data_checksum": f"{seed}"}})
        )

    table = table_data(load_study(kept.results, "made_up", "paper"), Table("t"))

    assert table.rows[0].cells[0].items is None
    assert table.rows[1].cells[0].items is not None
