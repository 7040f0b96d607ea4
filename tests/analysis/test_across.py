"""Tables with metrics in rows: two models on chest X-rays, judged finding by finding (`made_up.write_chest`)."""

from pathlib import Path

import pytest
from made_up import beside, plan, write_chest

from recstudy.analysis import Table
from recstudy.analysis.frame import load_study
from recstudy.analysis.tables.render import cell_text, table_shown
from recstudy.analysis.tables.table import table_data
from recstudy.errors import ConfigError
from recstudy.papers import Target

GOLDEN = Path(__file__).parent / "golden"
ACROSS = Table("chest", metrics=("auroc", "auroc.*", "top1_accuracy", "epoch_seconds"), across=True, title="Chest X-rays")


def chest(path, spec=ACROSS, **changes):
    return table_data(load_study(write_chest(path, **changes), "made_up", "paper"), spec)


def published_auroc(model, value, metric="auroc"):
    where = {"model": model, "train.selection": "test"}
    return Target(
        source="003 x",
        metric=metric,
        value=value,
        unit="percent",
        kind="reported",
        where=where,
        margin=0.5,
        margin_reason="stated",
    )


def test_across_has_a_row_a_metric_and_a_column_a_variant(tmp_path):
    """A metric that no run has (top-1 accuracy) is left out; no row has a best, as three runs tell nothing apart."""
    table = chest(tmp_path / "r")

    assert (table.corner, table.columns) == ("metric", ("HRM", "CNN"))
    assert [[row.label, *map(cell_text, row.cells)] for row in table.rows] == [
        ["AUROC (%)", "81.0 [68.3, 93.7] (n=2)", "84.0 [50.1, 100.0] (n=1 of 2)"],
        ["AUROC, Effusion (%)", "89.0 [76.3, 100.0] (n=2)", "88.0 [54.1, 100.0] (n=1 of 2)"],
        ["AUROC, Pleural Thickening (%)", "72.5 [59.8, 85.2] (n=2)", "71.5 [37.6, 100.0] (n=1 of 2)"],
        ["Epoch, training pass (s)", "15.5 (n=2)", "15.5 (n=1 of 2)"],
    ]
    assert [[cell.best for cell in row.cells] for row in table.rows] == [[False, False]] * 4


@pytest.mark.parametrize(("form", "ending"), [("markdown", "md"), ("latex", "tex"), ("csv", "csv")])
def test_golden_across(tmp_path, form, ending):
    assert getattr(table_shown(chest(tmp_path / "r")), form) == (GOLDEN / f"chest.{ending}").read_text()


def test_findings_without_a_positive_or_negative_image_are_named(tmp_path):
    note = "left out, undefined on this test split: Hernia"

    table = chest(tmp_path / "r")

    assert table.notes[0] == note
    assert all(note[1:] in getattr(table_shown(table), form) for form in ("markdown", "latex", "html"))
    assert chest(tmp_path / "s", Table("t", metrics=("auroc",))).notes[0] == note
    assert chest(tmp_path / "u", Table("t", metrics=("params",))).notes == ()


def test_a_pattern_that_nothing_matches_yet_is_said(tmp_path):
    for spec in (ACROSS, Table("t", metrics=("params", "auroc.*"))):
        table = chest(tmp_path / spec.name, spec, seeds=[])
        assert table.warnings == ("no run has a metric auroc.* yet",)
    assert [row.label for row in chest(tmp_path / "r", seeds=[]).rows] == [
        "AUROC (%)",
        "Top-1 accuracy (%)",
        "Epoch, training pass (s)",
    ]
    with pytest.raises(ConfigError, match=r"table 'c' has nothing to show: no run has a metric ece\* yet"):
        chest(tmp_path / "c", Table("c", rows="model", columns="data", metrics=("ece*",)))


def test_a_pattern_names_each_metric_once_and_never_a_depth(tmp_path):
    table = chest(tmp_path / "r", Table("t", metrics=("auroc.Effusion", "auroc*")))

    assert [column for column in table.columns if column.startswith("AUROC")] == [
        "AUROC, Effusion (%)",
        "AUROC (%)",
        "AUROC, Pleural Thickening (%)",
    ]


def test_published_values_stand_under_ours_across(tmp_path):
    targets = (published_auroc("HRM", 81.5), published_auroc("CNN", 88.1, "auroc.Effusion"), published_auroc("HRM", 1, "ece"))

    table = chest(tmp_path / "r", Table("t", metrics=("auroc", "auroc.*", "ece"), across=True, targets=targets))

    assert [[beside(cell)[0] for cell in row.cells] for row in table.rows] == [["81.5", ""], ["", "88.1"], ["", ""]]
    assert [reason for _, reason in table.unmatched_targets] == ["not measured here"]
    shown = table_shown(table).markdown
    assert "| published | 81.5, undecided: too few seeds | – |" in shown  # noqa: RUF001
    assert "| published | – | 88.1, interim |" in shown  # noqa: RUF001


def test_the_best_is_not_marked_across_data_sets_in_rows_either(tmp_path):
    made = plan()["variants"]
    chosen = [made[0] | {"data": "NIH"}, made[2] | {"data": "CheXpert"}]

    assert not any(cell.best for row in chest(tmp_path / "r", variants=chosen).rows for cell in row.cells)


def test_across_takes_no_axes():
    with pytest.raises(ConfigError, match="table 't': across puts metrics in rows"):
        Table("t", across=True, rows="model")
