"""Best and second, groups of rows, and how LaTeX shows them."""

from pathlib import Path

import pytest
from made_up import VIT, as_result, plan, result, run_id
from tex import compiled, needs_latex, packages

from recstudy.analysis import Table
from recstudy.analysis.frame import load_study
from recstudy.analysis.tables.labels import groups
from recstudy.analysis.tables.render import csv_text
from recstudy.analysis.tables.shown import of_cells
from recstudy.analysis.tables.table import table_data
from recstudy.errors import ConfigError
from recstudy.records import Results, write_json

MODELS = ("ST", "SAT", "R2Gen", "Ours")


def study(root: Path, scores: dict[str, list[float | None]], params: list[int] | None = None, leaky: tuple[int, ...] = ()):
    """One finished run a variant: of each data set the models in their order; no score, no run."""
    cells = [(data, model, score) for data, own in scores.items() for model, score in zip(MODELS, own, strict=False)]
    variants = [
        {
            "label": f"data={data}, model={model}",
            "levels": {"data": data, "model": model},
            "changes": {"model": {**VIT, "width": at}, "data": {"name": data}},
            "model": model,
            "data": data,
            "leaks": at in leaky,
        }
        for at, (data, model, _) in enumerate(cells)
    ]
    results = Results(root).create()
    made = plan(variants=variants, axes={"data": "data", "model": "model"}, seeds=[0], report=[])
    write_json(results.study("made_up", "paper") / "plan.json", made)
    for at, (_, _, score) in enumerate(cells):
        if score is not None:
            found = result(score)
            found["cost"]["params"] = params[at] if params else 1000
            results.run(run_id(at, 0)).finish(as_result(found))
    return load_study(results, "made_up", "paper")


def marks(table) -> list[str]:
    """`*` best, `_` second, of the first column."""
    return ["*" if row.cells[0].best else "_" if row.cells[0].second else "" for row in table.rows if row.cells]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([90.0, 92.0, 91.0, 89.0], ["", "*", "_", ""]),
        ([90.0, 92.0, 91.0, 91.01], ["", "*", "_", "_"]),  # as printed
        ([92.0, 92.01, 91.0, 90.0], ["*", "*", "", ""]),
        ([90.0, 92.0], ["", "*"]),  # the last is no second
        ([92.0, 90.0, 90.0], ["*", "", ""]),
        ([91.0, 91.0, 91.01], ["", "", ""]),
        ([90.0, None, None, None], ["", "", "", ""]),
        ([None, 92.0, None, 91.0], ["", "*", "", ""]),
    ],
)
def test_best_and_second_as_printed(tmp_path, scores, expected):
    records = study(tmp_path / "r", {"CIFAR-10": scores})

    assert marks(table_data(records, Table("t", metrics=("top1_accuracy",)))) == expected


def test_lower_is_better_where_it_is(tmp_path):
    records = study(tmp_path / "r", {"CIFAR-10": [90.0, 92.0, 91.0]})
    rows = table_data(records, Table("t", metrics=("nll", "params", "macro_f1"))).rows

    assert not any(row.cells[0].best or row.cells[1].best for row in rows)  # all NLL alike; parameters are no score
    assert [row.cells[2].second for row in rows] == [False, False, True]


def test_what_leaks_is_neither(tmp_path):
    records = study(tmp_path / "r", {"CIFAR-10": [99.0, 92.0, 91.0, 90.0]}, leaky=(0,))

    assert marks(table_data(records, Table("t", metrics=("top1_accuracy",)))) == ["", "*", "_", ""]


def test_rows_of_data_sets_are_ranked_each_on_its_own(tmp_path):
    """Table II of 003: data sets by models."""
    records = study(tmp_path / "r", {"COVCTR": [70.0, 72.0, 71.0], "ROCO": [33.0, 31.0, 32.0]})
    table = table_data(records, Table("t", rows="data", columns="model", metrics=("top1_accuracy",)))

    assert [[cell.best for cell in row.cells] for row in table.rows] == [[False, True, False], [True, False, False]]
    assert [[cell.second for cell in row.cells] for row in table.rows] == [[False, False, True], [False, False, True]]


def test_groups_of_an_axis_have_headings_and_a_best_each(tmp_path):
    """Table I of 003: methods under their data set."""
    records = study(tmp_path / "r", {"COVCTR": [70.0, 72.0, 71.0], "ROCO": [33.0, 31.0, 32.0]})
    table = table_data(records, Table("t", metrics=("top1_accuracy", "params"), group="data"))

    assert [row.label for row in table.rows] == ["COVCTR", "ST", "SAT", "R2Gen", "ROCO", "ST", "SAT", "R2Gen"]
    assert marks(table) == ["", "*", "_", "*", "", "_"]
    assert "| *COVCTR* |  |  |\n| ST | 70.0 (n=1) | 1,000 |\n| SAT | **72.0 (n=1)** | 1,000 |" in of_cells(table).markdown
    assert "| R2Gen | <ins>71.0 (n=1)</ins> | 1,000 |" in of_cells(table).markdown
    assert '<tr><th scope="rowgroup" colspan="3">ROCO</th></tr>' in of_cells(table).html
    assert "<u>32.0 (n=1)</u>" in of_cells(table).html
    assert len(csv_text(table).splitlines()) == 1 + 12


def test_groups_of_a_cost_hold_what_costs_about_the_same(tmp_path):
    """Equal parameters: 1,000 and 1,100 are within a tenth, 1,200 is not; the costliest comes last."""
    records = study(tmp_path / "r", {"CIFAR-10": [90.0, 92.0, 91.0, 89.0]}, params=[1200, 1100, 1000, 5000])
    table = table_data(records, Table("t", metrics=("top1_accuracy",), group="params"))

    assert [row.label for row in table.rows if not row.cells] == [
        "Parameters 1,000 to 1,100",
        "Parameters 1,200",
        "Parameters 5,000",
    ]
    assert marks(table) == ["", "*", "", ""]
    assert table.notes[0].startswith("grouped by Parameters, at most 10 % above the least of a group")


def test_variants_without_a_cost_stand_last(tmp_path):
    records = study(tmp_path / "r", {"CIFAR-10": [None, 92.0]})

    assert groups(records, [0, 1], "gflops") == [
        ("Forward 0.3451 GFLOP/image", [1]),
        ("Forward: no run has finished", [0]),
    ]


def test_a_group_that_nothing_has_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="the report names 'dta', but the study has data, model"):
        table_data(study(tmp_path / "r", {"CIFAR-10": [90.0]}), Table("t", group="dta"))
    with pytest.raises(ConfigError, match="table 't': group goes with one row a variant"):
        Table("t", rows="data", columns="model", group="data")


def test_latex_aligns_numbers_and_marks_them(tmp_path):
    records = study(tmp_path / "r", {"COVCTR": [9.5, 10.5, 7.0], "ROCO": [None]}, params=[5, 1_234_567, 44_444])
    text = of_cells(table_data(records, Table("t", metrics=("top1_accuracy", "params"), group="data"))).latex

    assert r"\begin{tabular}{lS[table-format=2.1]@{}lS[table-format=7.0]}" in text
    assert r"\addlinespace \multicolumn{4}{l}{\textit{COVCTR}} \\" in text
    assert r"ST & {\phantom{9}\underline{9.5}} & ~(n=1) & 5 \\" in text
    assert r"SAT & {\textbf{10.5}} & ~(n=1) & 1234567 \\" in text
    assert r"\multicolumn{2}{c}{\textendash{} not run}" in text
    assert f"% Top-1 accuracy (%); Parameters: runs {run_id(1, 0)}; seed 0; commit 0123abc" in text


@needs_latex
@packages
def test_latex_of_groups_compiles(tmp_path, siunitx):
    records = study(tmp_path / "r", {"COVCTR": [9.5, 10.5, 7.0], "ROCO": [None]}, params=[5, 1_234_567, 44_444])

    assert compiled(of_cells(table_data(records, Table("t", group="data"))).latex, tmp_path, siunitx).exists()
