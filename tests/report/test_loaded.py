"""`recstudy.load`, also in a notebook that is run for real."""

import re
from pathlib import Path

import plotly.graph_objects as go
import pytest
from made_up import TABLE1, run_id, specs, write_study
from notebooks import executed

import recstudy
from recstudy.base.errors import ConfigError
from recstudy.records import write_json
from recstudy.report import Claim, Claims, Curve, Differences, Table, dump_report

ROOT = Path(__file__).parents[2]


@pytest.fixture
def loaded(results):
    return recstudy.load(results.study("made_up", "paper"))


def test_epochs_have_a_row_a_run_and_epoch(loaded):
    epochs = loaded.epochs

    assert len(epochs) == 6 * 5
    last = epochs[(epochs["id"] == run_id(0, 2)) & (epochs["epoch"] == 5)].iloc[0]
    assert (last["label"], last["seed"], last["selection_top1_accuracy"]) == (
        "ViTRM, batch size 64",
        2,
        pytest.approx(91.2),
    )


def test_estimates_are_the_numbers_of_the_tables(loaded):
    """93.0, 93.1 and 93.2 of the first variant; one seed of ViT-Small."""
    estimates = loaded.estimates.set_index(["variant", "metric"])
    printed = loaded["scores"].frame.set_index(["row", "column"])

    accuracy = estimates.loc[(0, "top1_accuracy")]
    assert (accuracy["value"], accuracy["n"], accuracy["label"]) == (
        pytest.approx(93.1),
        3,
        "ViTRM, batch size 64",
    )
    row = printed.loc[("ViTRM, batch size 64", "Top-1 accuracy (%)")]
    assert tuple(accuracy[["value", "low", "high"]]) == pytest.approx(tuple(row[["mean", "low", "high"]]))
    assert estimates.loc[(2, "top1_accuracy")]["n"] == 1
    assert estimates.loc[(0, "params")]["notes"] == "no spread"
    assert 3 not in loaded.estimates["variant"].tolist()  # no run of it has ended


def test_answers_have_a_row_per_question(tmp_path):
    claim = Claim(
        "smaller batches help",
        lower={"batch_size": 128},
        higher={"batch_size": 64, "model": "ViTRM"},
        metric="top1_accuracy",
    )
    report = dump_report(
        [Claims(claims=(claim,)), Differences(base="ViTRM, batch_size=64"), Table("scores", targets=TABLE1)]
    )
    answers = recstudy.load(write_study(tmp_path / "r", report=report).root).answers

    assert answers["kind"].value_counts()[["claim", "difference"]].to_dict() == {"claim": 1, "difference": 3}
    difference = answers[
        (answers["kind"] == "difference") & (answers["label"] == "ViTRM, batch size 128")
    ].iloc[0]
    assert difference["difference"] == pytest.approx(93.1 - 93.1)
    assert difference["low"] < 0 < difference["high"]
    assert (difference["verdict"], difference["reasons"]) == (
        "undecided",
        "runs failed or diverged, and the rest may be the lucky ones",
    )
    assert set(answers.columns) >= {"metric", "p", "adjusted_p"}


def test_parts_show_themselves(loaded):
    table = loaded["scores"]

    assert isinstance(loaded["by_batch"], go.Figure)
    assert "93.1 [92.8, 93.4]</td>" in table._repr_html_()
    assert table.frame["mean"].iloc[0] == pytest.approx(93.1)
    assert "| ViTRM | 64 |" in repr(table)
    assert "siunitx" in table.latex
    assert list(loaded.parts) == ["scores", "table1", "by_batch", "learning_curves"]
    assert repr(loaded).startswith("made_up (paper): 12 runs; scores, ")
    assert "6 of 12 done" in loaded._repr_html_()
    assert loaded.show(Table("t", group="gflops")).frame["row"].nunique() == 4
    assert len(loaded.show(Curve("c", x="gflops", y="top1_accuracy")).data) > 0


def test_a_part_may_give_a_table_and_a_figure(tmp_path):
    report = dump_report([Differences(base="ViTRM, batch_size=64"), *specs()])
    loaded = recstudy.load(write_study(tmp_path / "r", report=report).root)

    assert len(loaded.table("differences").frame) >= 1
    assert isinstance(loaded.figure("differences"), go.Figure)
    assert loaded.table("scores").frame["mean"].iloc[0] == pytest.approx(93.1)
    with pytest.raises(ConfigError, match=r"'scores' is a table without a figure: use table\('scores'\)"):
        loaded.figure("scores")
    with pytest.raises(
        ConfigError, match=r"'by_batch' is a figure without a table: use figure\('by_batch'\)"
    ):
        loaded.table("by_batch")
    with pytest.raises(
        ConfigError, match=r"the report has no part 'score': it has .*, scores, .* Did you mean 'scores'\?"
    ):
        loaded["score"]


def test_load_asks_for_one_study(results, tmp_path):
    write_json(results.study("made_up", "quick") / "plan.json", {})

    with pytest.raises(
        ConfigError, match="has 2 studies: give one of studies/made_up/paper, studies/made_up/quick in "
    ):
        recstudy.load(results.root)
    with pytest.raises(ConfigError, match="no study in "):
        recstudy.load(tmp_path / "nowhere")


def documented_cells() -> list[str]:
    """The example of docs/how-to/notebook.md, a cell a line."""
    first, *other_blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/how-to/notebook.md").read_text(), re.DOTALL
    )
    imports, _, lines = first.partition("\n\n")
    return [imports, *"\n".join([lines, *other_blocks]).strip().splitlines()]


def test_the_documented_example_in_a_notebook(results, tmp_path):
    """Every line in a real kernel: frames and tables come out as HTML, figures as Plotly's own kind of
    output.
    """
    cells = [
        line.replace("results/studies/vitrm_depth_sweep/quick", str(results.root))
        for line in documented_cells()
    ]
    for old, new in (("depths", "scores"), ("figure3", "by_batch"), ("model.latent_steps", "batch_size")):
        cells = [cell.replace(old, new) for cell in cells]

    done = executed(cells, ROOT)

    kinds = [set(cell.outputs[0].data) if cell.outputs else set() for cell in done]
    assert sum("text/html" in kind for kind in kinds) >= 3
    assert any("application/vnd.plotly.v1+json" in kind for kind in kinds)
    assert any(
        "93.1 [92.8, 93.4]" in cell.outputs[0].data.get("text/html", "") for cell in done if cell.outputs
    )
