"""The forest plot of any questions, and the rows that differences and claims give it."""

from math import inf

import pytest
from made_up import TABLE1, write_study
from test_claims import CLOSE, HELPS, HURTS, SAME, study
from test_findings import ablation

from recstudy.analysis import Differences
from recstudy.analysis.figures.forest import SHADE, ForestRow, drawn, forest_data, forest_figure
from recstudy.analysis.frame import load_study
from recstudy.analysis.report import write_report
from recstudy.analysis.tables.claims import claims_data
from recstudy.analysis.tables.differences import differences_data
from recstudy.analysis.tables.shown import claim_rows, difference_rows
from recstudy.report import Claim

MARK = "Filled circles: "


def test_a_row_is_an_estimate_with_its_interval_over_the_region_that_is_asked_about():
    """Of two groups, each with an axis of its own; a region that is open ends where the axis does."""
    rows = [
        ForestRow("depth helps", 3.0, 2.0, 4.0, (0.5, inf), "supported", "Accuracy (%)", 3),
        ForestRow("width helps", -1.0, None, None, None, "undecided", "Accuracy (%)"),
        ForestRow("HRM, others", 40.3, 38.0, 42.0, (39.0, 41.0), "differs", "Published (%)", about="of 5 replications"),
    ]

    made = drawn("What holds", rows, finding="1 supported")
    figure = made.figure
    end = figure.layout.xaxis.range[1]

    assert made.data[["region_low", "region_high"]].dropna().values.tolist() == [[0.5, inf], [39.0, 41.0]]
    assert [(shape.x0, shape.x1) for shape in figure.layout.shapes if shape.type == "rect"] == [(0.5, end), (39.0, 41.0)]
    assert [list(trace.marker.symbol) for trace in figure.data] == [["circle", "circle-open"], ["x"]]
    assert (figure.data[0].error_x.array[0], figure.data[0].error_x.arrayminus[0]) == (1.0, 1.0)
    assert end > 4
    assert [figure.layout[axis].title.text for axis in ("xaxis", "xaxis2")] == ["Accuracy (%)", "Published (%)"]
    assert figure.data[1].hovertext == ("HRM, others: +40.3 [+38, +42]: differs; asked: +39 to +41. of 5 replications",)
    assert made.caption == f"Filled circles: supported. Crosses: differs. Hollow circles: undecided. {SHADE}"
    assert made.alternative == "What holds: 1 supported"
    assert drawn("Nothing yet", []).data.empty
    assert not [shape for shape in drawn("Values", rows[2:], line=None).figure.layout.shapes if shape.type == "line"]


def test_a_difference_has_its_interval_and_is_filled_where_it_is_shown(tmp_path):
    part = Differences()
    records = load_study(ablation(tmp_path / "r", [part]), "made_up", "paper")
    found = differences_data(records, part)

    data = forest_data(difference_rows(found))
    (ours,) = forest_figure(data).data

    assert data["label"].tolist() == ["same", "less"]
    assert data["low"].tolist() == [row.found.low for row in found.rows]
    assert list(ours.marker.symbol) == ["circle-open", "circle"]
    assert ours.error_x.array[1] == pytest.approx(found.rows[1].found.high - found.rows[1].found.value)
    assert forest_figure(data).layout.xaxis.title.text == "Top-1 accuracy minus base (%)"


def test_a_published_difference_is_the_region_of_ours_with_its_margin(tmp_path):
    part = Differences(base="ViTRM, batch_size=64", targets=TABLE1)
    records = load_study(write_study(tmp_path / "r"), "made_up", "paper")

    data = forest_data(difference_rows(differences_data(records, part)))
    margin = TABLE1[0].margin

    assert data["label"].tolist() == ["ViTRM, batch_size=128", "ViT-Small, batch_size=64"]
    assert data[["region_low", "region_high"]].values[0].tolist() == pytest.approx([0.5 - margin, 0.5 + margin])  # 93.1 and 92.6
    assert data["about"].str.startswith("Published: ").all()


def test_the_plot_stands_over_its_table_and_only_where_there_is_a_difference(tmp_path):
    page = write_report(ablation(tmp_path / "r", [Differences()]), "made_up", "paper")
    none = write_report(ablation(tmp_path / "none", [Differences()], status="failed"), "made_up", "paper")

    assert page.read_text().index(MARK) < page.read_text().index("<td")
    assert (page.parent / "figures" / "differences.csv").exists()
    assert MARK not in none.read_text()


LOSS = Claim(
    "a loss " + "that has a sentence longer than two lines of a phone " * 4, less={"steps": 1}, than={"steps": 2}, metric="nll"
)


def judged(root, *claims, **changes):
    records = load_study(study(root, claims, **changes), "made_up", "paper")
    return claims_data(records, records.parts[0])


def test_a_claim_is_drawn_with_its_interval_over_the_shade_of_what_is_claimed(tmp_path):
    found = judged(tmp_path / "r", HURTS, HELPS, SAME, CLOSE)

    data = forest_data(claim_rows(found))
    figure = forest_figure(data)
    (ours,) = figure.data
    end = figure.layout.xaxis.range[1]

    assert data["verdict"].tolist() == ["supported", "contradicted", "supported", "undecided"]
    assert list(ours.marker.symbol) == ["circle", "x", "circle", "circle-open"]
    assert list(ours.x) == pytest.approx([3.0, -3.0, -0.1, 0.1])
    assert ours.error_x.array[0] == pytest.approx(found[0].interval[1] - found[0].found.value)
    shades = [(shape.x0, shape.x1) for shape in figure.layout.shapes if shape.type == "rect"]
    assert shades == [(0.5, end), (0, end), (-0.6, 0.6), (0, end)]
    assert [words.text for words in figure.layout.annotations] == [one.claim.text for one in found]


def test_claims_of_another_metric_have_an_axis_of_their_own_and_long_ones_are_cut(tmp_path):
    figure = forest_figure(forest_data(claim_rows(judged(tmp_path / "r", HURTS, LOSS))))

    titles = [figure.layout[axis].title.text for axis in ("xaxis", "xaxis2")]
    assert titles == ["Top-1 accuracy: difference (%)", "NLL: difference (nats)"]
    words = figure.layout.annotations[1].text
    assert words.count("<br>") == 3
    assert words.endswith(" …")


def test_claims_stand_over_their_table_once_they_have_a_difference(tmp_path):
    page = write_report(study(tmp_path / "r", [HURTS]), "made_up", "paper")
    none = write_report(
        study(tmp_path / "none", [HURTS], losses={(16, seed): "not run" for seed in range(3)}), "made_up", "paper"
    )

    assert page.read_text().index(MARK) < page.read_text().index("<td")
    assert (page.parent / "figures" / "claims.csv").read_text().count("more supervision hurts") == 1
    assert MARK not in none.read_text()
    assert "not run" in none.read_text()
