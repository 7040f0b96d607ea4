"""A setting tuned in each cell of a table: by the selection split, never by the test set."""

import pytest
from made_up import as_result, base, plan, result, run_id

from recstudy.analysis import Tuned
from recstudy.analysis.frame import load_study
from recstudy.analysis.report import write_report
from recstudy.analysis.tables.table import tuned_data
from recstudy.errors import ConfigError
from recstudy.records import Results, write_json
from recstudy.report import dump_report

AXES = {"model": "model", "batch_size": "train.batch_size", "learning_rate": "train.learning_rate"}
# model, batch size, rate -> scores on the selection split and on the test set, the same for both seeds but 0.2 on the latter
SCORES = {
    ("A", 64, 0.001): (80.0, 95.0),  # the best on the test set, which must not decide
    ("A", 64, 0.01): (90.0, 85.0),
    ("A", 256, 0.001): (70.0, 71.0),
    ("A", 256, 0.01): (60.0, 61.0),
    ("B", 64, 0.001): (50.0, 51.0),
    ("B", 64, 0.01): (50.0, 52.0),  # as good: the first is taken
}


def write(root, leaks=(), status="done"):
    chosen = [
        {"label": f"model={model}, batch_size={batch}, learning_rate={rate}", "model": model, "data": "CIFAR-10",
         "levels": {"model": model, "batch_size": batch, "learning_rate": rate},
         "changes": {"train.batch_size": batch, "train.learning_rate": rate}, "leaks": model in leaks}
        for model, batch, rate in [*SCORES, ("B", 256, 0.001)]
    ]  # fmt: skip
    report = dump_report([Tuned(title="Tuned")])
    results = Results(root).create()
    made = plan(variants=chosen, axes=AXES, seeds=[0, 1], report=report, base=base(selection="validation"))
    write_json(results.study("made_up", "paper") / "plan.json", made)
    for index, (selected, test) in enumerate(SCORES.values()):
        for seed in (0, 1):
            told = result(test + 0.2 * seed, status=status)
            told["selected"] = {"epoch": 4, "split": "validation", "top1_accuracy": selected}
            results.run(run_id(index, seed)).finish(as_result(told))
    return results


def read(results):
    return load_study(results, "made_up", "paper")


def test_each_cell_has_the_rate_that_the_selection_split_likes_best(tmp_path):
    table = tuned_data(read(write(tmp_path)), Tuned())

    assert table.columns == ("64", "256")
    assert [[cell.value and round(cell.value, 6) for cell in row.cells] for row in table.rows] == [[85.1, 71.1], [51.1, None]]
    assert table.rows[0].cells[0].run_ids == (run_id(1, 0), run_id(1, 1))
    assert table.notes[-2:] == (
        "learning rate of each cell: A, 64: 0.01; A, 256: 0.001; B, 64: 0.001",
        "no run has finished yet: B, 256",
    )
    assert table.notes[0] == "in each cell the learning rate with the best Top-1 accuracy, selection"
    assert not any("pools" in warning for warning in table.warnings)


def test_a_loss_is_best_where_it_is_lowest(tmp_path):
    results = write(tmp_path)
    for index, loss in ((0, 0.5), (1, 0.9)):
        told = result(90.0)
        told["selected"] = {"epoch": 4, "split": "validation", "loss": loss}
        results.run(run_id(index, 0)).finish(as_result(told))

    table = tuned_data(read(results), Tuned(by="selection_loss"))

    assert table.notes[1] == "learning rate of each cell: A, 64: 0.001"


def test_what_leaks_is_left_out_and_nothing_is_no_table(tmp_path):
    leaky = tuned_data(read(write(tmp_path / "a", leaks=("A",))), Tuned())
    nothing = tuned_data(read(write(tmp_path / "b", status="diverged")), Tuned())

    assert [row.label for row in leaky.rows] == ["B"]
    assert (nothing.rows, nothing.columns) == ((), ())
    assert nothing.notes[1] == "no run has finished yet: A, 64; A, 256; B, 64; B, 256"


def test_an_axis_that_the_study_lacks_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"the report names .learning_raet., but .* Did you mean .learning_rate."):
        tuned_data(read(write(tmp_path)), Tuned(over="learning_raet"))


def test_it_is_a_table_of_the_report(tmp_path):
    page = write_report(write(tmp_path), "made_up", "paper")

    assert "85.1" in (page.parent / "tables/tuned.md").read_text()
    assert ">Tuned</h2>" in page.read_text()
