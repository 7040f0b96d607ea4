"""The forest plot of differences: ours with intervals, the published ones with their margin."""

import pytest
from made_up import TABLE1, write_study
from test_findings import ablation

from recstudy.analysis import Differences
from recstudy.analysis.figures.forest import HOW, forest_data, forest_figure
from recstudy.analysis.frame import load_study
from recstudy.analysis.report import write_report
from recstudy.analysis.tables.differences import differences_data


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
