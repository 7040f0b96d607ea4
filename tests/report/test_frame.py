import pytest
from made_up import base, read, run_id, variants, write_chest, write_study

from recstudy.base.errors import ConfigError
from recstudy.base.values import flatten
from recstudy.records.runs import config_of
from recstudy.report.study_records import load_study


def test_every_planned_run_is_a_row_with_its_state(records):
    states = records.runs.set_index(["variant", "seed"])["status"]

    assert len(states) == 12
    assert states[(0, 0)] == "done"
    assert states[(1, 2)] == "failed"
    assert states[(2, 1)] == "diverged"
    assert states[(2, 2)] == "not run"
    assert states[(3, 2)] == "unfinished"


def test_a_row_has_levels_varied_fields_metrics_cost_and_provenance(records):
    row = records.runs.iloc[0]

    assert (row["levels.model"], row["levels.batch_size"], row["train.batch_size"]) == ("ViTRM", 64, 64)
    assert (row["top1_accuracy"], row["params"], row["attempts"], row["provenance.commit"]) == (
        93.0,
        3_624_971,
        1,
        "0123abc",
    )
    assert row["provenance.versions"] == "recstudy 0.1.0, torch 2.15.0"
    assert {"label", "id"} <= set(row.index)
    assert "train.epochs" not in records.runs


def test_a_row_names_what_was_measured_apart_from_depths_and_provenance(records, tmp_path):
    assert records.measured([0]) == [
        *("top1_accuracy", "macro_f1", "nll", "ece"),
        *("params", "gflops", "train_pflop", "seconds", "images_per_second", "epoch_seconds"),
    ]
    chest = read(write_chest(tmp_path / "r")).rows[0]
    assert (chest.value("auroc.Effusion"), chest.value("auroc@1"), chest.result_or_empty.undefined) == (
        88.04,
        80.0,
        ("Hernia",),
    )


def test_a_changed_part_replaces_all_of_its_fields():
    config = config_of(flatten(base()), variants()[2]["changes"])

    assert config["model.depth"] == 9
    assert "model.latent_steps" not in config


def test_epochs_are_read_for_the_asked_variants_and_a_torn_line_is_dropped(results, records):
    with open(results.run(run_id(1, 0)).epochs, "a") as file:
        file.write('{"epoch": 5, "tr')

    epochs = records.epochs([1])

    assert set(epochs["variant"]) == {1}
    assert len(epochs) == 10
    assert set(epochs["epoch"]) == {1, 2, 3, 4, 5}


def test_an_unknown_study_or_axis_names_the_nearest(results, records):
    with pytest.raises(
        ConfigError, match=r"no study 'made_pu' .* made_up \(paper\).* Did you mean 'made_up \(paper\)'\?"
    ):
        load_study(results, "made_pu", "paper")
    with pytest.raises(
        ConfigError, match=r"the report names 'batch_sise', but the study has .* Did you mean 'batch_size'"
    ):
        records.chosen({"batch_sise": 64})


def test_a_study_without_any_run_can_be_read(tmp_path):
    results = write_study(tmp_path / "r", seeds=[])

    records = read(results)

    assert records.runs.empty
    assert records.epochs([0, 1]).empty
