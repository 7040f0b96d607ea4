"""The forest plots of differences, ours with intervals and the published ones with their margin, and of claims."""

import pytest
from made_up import TABLE1, write_study
from test_claims import CLOSE, HELPS, HURTS, SAME, study
from test_findings import ablation

from recstudy.analysis import Differences
from recstudy.analysis.figures import claim_forest
from recstudy.analysis.figures.claim_forest import claims_figure, claims_frame
from recstudy.analysis.figures.forest import HOW, forest_data, forest_figure
from recstudy.analysis.frame import load_study
from recstudy.analysis.report import write_report
from recstudy.analysis.tables.claims import claims_data
from recstudy.analysis.tables.differences import differences_data
from recstudy.report import Claim


def test_a_difference_has_its_interval_and_is_filled_where_it_is_shown(tmp_path):
    part = Differences()
    records = load_study(ablation(tmp_path / "r", [part]), "made_up", "paper")
    found = differences_data(records, part)

    data = forest_data(found)
    (ours,) = forest_figure(data, part).data

    assert data["label"].tolist() == ["same", "less"]
    assert data["low"].tolist() == [row.found.low for row in found.rows]
    assert list(ours.marker.symbol) == ["circle-open", "circle"]
    assert ours.error_x.array[1] == pytest.approx(found.rows[1].found.high - found.rows[1].found.value)
    assert forest_figure(data, part).layout.xaxis.title.text == "minus base (%)"


def test_a_published_difference_stands_beside_ours_with_its_margin(tmp_path):
    part = Differences(base="ViTRM, batch_size=64", targets=TABLE1)
    records = load_study(write_study(tmp_path / "r"), "made_up", "paper")

    data = forest_data(differences_data(records, part))
    published = data[data["published"].astype(bool)]

    assert published["label"].tolist() == ["ViTRM, batch_size=128", "ViT-Small, batch_size=64"]
    assert published["value"].iloc[0] == pytest.approx(0.5)  # 93.1 and 92.6
    assert (published["high"] - published["value"]).tolist() == pytest.approx([TABLE1[0].margin] * 2)
    assert "diamond-open" in forest_figure(data, part).data[0].marker.symbol


def test_the_plot_stands_over_its_table_and_only_where_there_is_a_difference(tmp_path):
    page = write_report(ablation(tmp_path / "r", [Differences()]), "made_up", "paper")
    none = write_report(ablation(tmp_path / "none", [Differences()], status="failed"), "made_up", "paper")

    assert page.read_text().index(HOW) < page.read_text().index("<td")
    assert (page.parent / "figures" / "differences.csv").exists()
    assert HOW not in none.read_text()


LOSS = Claim(
    "a loss " + "that has a sentence longer than two lines of a phone " * 2, less={"steps": 1}, than={"steps": 2}, metric="nll"
)


def judged(root, *claims, **changes):
    records = load_study(study(root, claims, **changes), "made_up", "paper")
    return claims_data(records, records.parts[0])


def test_a_claim_is_drawn_with_its_interval_over_the_shade_of_what_is_claimed(tmp_path):
    found = judged(tmp_path / "r", HURTS, HELPS, SAME, CLOSE)

    data = claims_frame(found)
    figure = claims_figure(data, "Claims")
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
    figure = claims_figure(claims_frame(judged(tmp_path / "r", HURTS, LOSS)), "Claims")

    titles = [figure.layout[axis].title.text for axis in ("xaxis", "xaxis2")]
    assert titles == ["Top-1 accuracy: difference (%)", "NLL: difference (nats)"]
    words = figure.layout.annotations[1].text
    assert words.count("<br>") == 1
    assert words.endswith(" …")


def test_claims_stand_over_their_table_once_they_have_a_difference(tmp_path):
    page = write_report(study(tmp_path / "r", [HURTS]), "made_up", "paper")
    none = write_report(
        study(tmp_path / "none", [HURTS], losses={(16, seed): "not run" for seed in range(3)}), "made_up", "paper"
    )

    assert page.read_text().index(claim_forest.HOW) < page.read_text().index("<td")
    assert (page.parent / "figures" / "claims.csv").read_text().count("more supervision hurts") == 1
    assert claim_forest.HOW not in none.read_text()
    assert "not run" in none.read_text()
