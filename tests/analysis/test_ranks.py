"""Which values are marked as the best, groups of rows, and how LaTeX shows them."""

from pathlib import Path

import pytest
from made_up import VIT, as_result, plan, result, run_id
from tex import compiled, needs_siunitx

from recstudy.analysis import Table
from recstudy.analysis.frame import load_study
from recstudy.analysis.tables.render import csv_text, table_shown
from recstudy.analysis.tables.table import groups, table_data
from recstudy.errors import ConfigError
from recstudy.records import Results, write_json

MODELS = ("ST", "SAT", "R2Gen", "Ours")


def study(
    root: Path,
    scores: dict[str, list[float | None]],
    params: list[int] | None = None,
    leaky: tuple[int, ...] = (),
    seeds: int = 3,
):
    """Runs a tenth of a point apart: of each data set the models in their order; no score, no run."""
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
    made = plan(variants=variants, axes={"data": "data", "model": "model"}, seeds=[*range(seeds)], report=[])
    write_json(results.study("made_up", "paper") / "plan.json", made)
    for at, (_, _, score) in enumerate(cells):
        for seed in range(seeds if score is not None else 0):
            found = result(score + 0.1 * (seed - (seeds - 1) / 2))
            found["cost"]["params"] = params[at] if params else 1000
            results.run(run_id(at, seed)).finish(as_result(found))
    return load_study(results, "made_up", "paper")


def marks(table) -> list[str]:
    """`*` best, of the first column."""
    return ["*" * row.cells[0].best for row in table.rows if row.cells]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([80.0, 92.0, 86.0, 75.0], ["", "*", "", ""]),
        ([92.0, 92.1, 86.0, 80.0], ["*", "*", "", ""]),  # a tenth of a point is no difference at this spread
        ([80.0, 92.0], ["", "*"]),
        ([91.0, 91.0, 91.1], ["", "", ""]),
        ([90.0, None, None, None], ["", "", "", ""]),
        ([None, 92.0, None, 80.0], ["", "*", "", ""]),
    ],
)
def test_best_is_what_cannot_be_told_from_it_where_something_can(tmp_path, scores, expected):
    records = study(tmp_path / "r", {"CIFAR-10": scores})

    assert marks(table_data(records, Table("t", metrics=("top1_accuracy",)))) == expected


def test_where_nothing_can_be_told_apart_the_table_says_so(tmp_path):
    """One run a variant shows no spread, however far apart the values are."""
    spec = Table("t", metrics=("top1_accuracy", "nll", "params"))

    alone = table_data(study(tmp_path / "a", {"CIFAR-10": [90.0, 92.0]}, seeds=1), spec)
    close = table_data(study(tmp_path / "b", {"CIFAR-10": [91.0, 91.1]}), spec)
    apart = table_data(study(tmp_path / "c", {"CIFAR-10": [80.0, 92.0]}), spec)

    assert marks(alone) == marks(close) == ["", ""]
    assert "no significant difference between variants by Top-1 accuracy; NLL" in alone.notes
    assert "no significant difference between variants by Top-1 accuracy; NLL" in close.notes
    assert "no significant difference between variants by NLL" in apart.notes


def test_lower_is_better_where_it_is(tmp_path):
    records = study(tmp_path / "r", {"CIFAR-10": [80.0, 92.0, 86.0]})
    rows = table_data(records, Table("t", metrics=("nll", "params", "macro_f1"))).rows

    assert not any(row.cells[0].best or row.cells[1].best for row in rows)  # all NLL alike; parameters are no score
    assert [row.cells[2].best for row in rows] == [False, True, False]


def test_what_leaks_is_never_the_best(tmp_path):
    records = study(tmp_path / "r", {"CIFAR-10": [99.0, 92.0, 86.0, 80.0]}, leaky=(0,))

    assert marks(table_data(records, Table("t", metrics=("top1_accuracy",)))) == ["", "*", "", ""]


def test_rows_of_data_sets_are_ranked_each_on_its_own(tmp_path):
    """Table II of 003: data sets by models."""
    records = study(tmp_path / "r", {"COVCTR": [60.0, 72.0, 65.0], "ROCO": [33.0, 21.0, 26.0]})
    table = table_data(records, Table("t", rows="data", columns="model", metrics=("top1_accuracy",)))

    assert [[cell.best for cell in row.cells] for row in table.rows] == [[False, True, False], [True, False, False]]


def test_groups_of_an_axis_have_headings_and_a_best_each(tmp_path):
    """Table I of 003: methods under their data set."""
    records = study(tmp_path / "r", {"COVCTR": [60.0, 72.0, 65.0], "ROCO": [33.0, 21.0, 26.0]})
    table = table_data(records, Table("t", metrics=("top1_accuracy", "params"), group="data"))

    assert [row.label for row in table.rows] == ["COVCTR", "ST", "SAT", "R2Gen", "ROCO", "ST", "SAT", "R2Gen"]
    assert marks(table) == ["", "*", "", "*", "", ""]
    assert (
        "| *COVCTR* |  |  |\n| ST | 60.0 \\[57.5, 62.5\\] | 1,000 |\n| SAT | **72.0 \\[69.7, 74.2\\]** | 1,000 |"
        in table_shown(table).markdown
    )
    assert '<tr><th scope="rowgroup" colspan="3">ROCO</th></tr>' in table_shown(table).html
    assert "<strong>33.0 [30.6, 35.4]</strong>" in table_shown(table).html
    assert len(csv_text(table).splitlines()) == 1 + 12


def test_groups_of_a_cost_hold_what_costs_about_the_same(tmp_path):
    """Equal parameters: 1,000 and 1,100 are within a tenth, 1,200 is not; the costliest comes last."""
    records = study(tmp_path / "r", {"CIFAR-10": [80.0, 92.0, 86.0, 75.0]}, params=[1200, 1100, 1000, 5000])
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


def test_latex_has_groups_marks_and_runs(tmp_path):
    records = study(tmp_path / "r", {"COVCTR": [9.5, 10.5, 7.0], "ROCO": [None]}, params=[5, 1_234_567, 44_444])
    text = table_shown(table_data(records, Table("t", metrics=("top1_accuracy", "params"), group="data"))).latex

    assert r"\addlinespace \multicolumn{4}{@{}l}{\textit{COVCTR}} \\" in text
    assert r"SAT & \bfseries 10.5 & ~{[}9.0, 12.1] & 1234567 \\" in text
    assert "interval over seeds, n=3." in text
    assert (
        f"% Top-1 accuracy (%); Parameters: runs {' '.join(run_id(1, seed) for seed in range(3))}; seeds 0, 1, 2; commit 0123abc"
        in text
    )


@needs_siunitx
def test_latex_of_groups_compiles(tmp_path):
    records = study(tmp_path / "r", {"COVCTR": [9.5, 10.5, 7.0], "ROCO": [None]}, params=[5, 1_234_567, 44_444])

    assert compiled(table_shown(table_data(records, Table("t", group="data"))).latex, tmp_path).exists()
