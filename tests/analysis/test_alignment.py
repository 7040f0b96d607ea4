"""Cosines before and after training: the pairs, their differences, and the paper's beside them."""

import re

import pytest
from made_up import run_id, write_alignment, write_caption_study

from recstudy.analysis import Alignment
from recstudy.analysis.figures.alignment import (
    alignment_data,
    alignment_figure,
    alignment_html,
    printed_pairs,
    read_pairs,
    summary,
)
from recstudy.analysis.frame import load_study
from recstudy.analysis.report import write_report
from recstudy.errors import StorageError
from recstudy.papers import published
from recstudy.records import write_json
from recstudy.report import dump_report

COSINES = [(0.0, 0.3), (-0.1, 0.4), (0.2, 0.1)]  # differences 0.3, 0.5, -0.1: mean 0.2333, half-width 0.7589


@pytest.fixture
def study(tmp_path):
    results = write_caption_study(tmp_path / "r", report=dump_report([Alignment()]))
    write_alignment(results, run_id(3, 0), COSINES, caption='<b>"film"</b>')
    return results


def found(results, spec=Alignment()):  # noqa: B008
    return alignment_data(load_study(results, "made_up", "paper"), spec)


def test_pairs_and_the_published_ones(study):
    frame = found(study).frame

    assert frame["difference"].tolist() == pytest.approx([0.3, 0.5, -0.1, 0.4813, 0.1336])
    assert frame["published"].tolist() == [False] * 3 + [True] * 2
    assert frame["label"].tolist() == ["TRM"] * 3 + ["published"] * 2


def test_a_pair_of_published_cosines_is_one_images():
    first, second = printed_pairs(published("000_alignment_cosines"))

    assert (first["caption"], first["before"], first["after"]) == ("ROCOv2_2023_test_000036.jpg", -0.0253, 0.456)
    assert (second["caption"], second["before"], second["after"]) == ("000002", 0.3026, 0.4362)
    assert "000_alignment_cosines#1); ImageHRM/ImageTRM text (000_alignment_cosines#2" in first["source"]


def test_mean_differences_have_an_interval_over_the_pairs(study):
    """t(0.975, 2) = 4.3027, standard deviation 0.3055: 4.3027 * 0.3055 / sqrt(3) = 0.7589."""
    ours, *paper = summary(found(study))

    assert ours == ("TRM, seed 0", "2 of 3", "0.0333", "0.2667", "+0.2333 [-0.5256, +0.9922]")
    assert [row[4] for row in paper] == ["+0.4813 (one pair)", "+0.1336 (one pair)"]


def test_one_pair_has_no_interval(study):
    write_alignment(study, run_id(3, 0), COSINES[:1])

    assert summary(found(study))[0][4] == "+0.3000"


def test_no_ratio_is_shown_and_why(study):
    page = alignment_html(found(study), Alignment())

    assert "1900% increase&quot; divides the difference 0.4813 by 0.0253" in page
    assert len(re.findall(r"\d ?%", page)) == 2  # that one and the intervals' level


def test_the_figure_has_two_halves_a_variant_and_the_papers_points(study):
    write_alignment(study, run_id(0, 0), COSINES[:2])
    figure = alignment_figure(found(study))

    kinds = [(trace.type, trace.name, getattr(trace, "side", None), len(trace.y)) for trace in figure.data]
    assert kinds == [
        ("violin", "before", "negative", 2),
        ("violin", "before", "negative", 3),
        ("scatter", "before, paper", None, 2),
        ("violin", "after", "positive", 2),
        ("violin", "after", "positive", 3),
        ("scatter", "after, paper", None, 2),
    ]
    assert figure.data[2].y == (-0.0253, 0.3026)
    assert figure.data[0].marker.symbol != figure.data[3].marker.symbol  # not by colour alone
    assert figure.layout.xaxis.range == (-0.6, 3.6)


def test_captions_are_text_and_images_stand_beside_them(study):
    page = alignment_html(found(study, Alignment(most=2)), Alignment(most=2))

    assert page.count("<img ") == page.count("&lt;b&gt;&quot;film&quot;&lt;/b&gt;") == 2
    assert "<b>" not in page
    assert "TRM: the first 2 test pairs" in page
    assert ">-0.1000<" in page


@pytest.mark.parametrize("cosine", ["1.5", "NaN", '"0.3"', "null", "true"])
def test_a_number_that_is_no_cosine_is_named(study, cosine):
    path = study.run(run_id(3, 0)).path / "alignment.json"
    path.write_text(f'{{"pairs": [{{"row": 1, "caption": "x", "before": 0.1, "after": {cosine}}}]}}')

    with pytest.raises(StorageError, match=rf"runs/{run_id(3, 0)}/alignment\.json is damaged \(pairs\[0\]"):
        read_pairs(path)


def test_damage_leaves_the_rest_of_the_report(study):
    write_json(study.run(run_id(0, 0)).path / "alignment.json", {"pairs": 3})

    page = write_report(study, "made_up", "paper")

    assert "LSTM: runs/" in page.read_text()
    assert "it has no list of pairs" in page.read_text()
    assert len((page.parent / "figures" / "alignment.csv").read_text().splitlines()) == 1 + 5


def test_without_pairs_the_papers_points_stand_nowhere(tmp_path):
    results = write_caption_study(tmp_path / "r", report=dump_report([Alignment()]))

    page = write_report(results, "made_up", "paper").read_text()

    assert "Nothing to draw yet" in page
    assert "0.4813" not in page
