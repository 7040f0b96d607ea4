"""Which values are marked as the best, groups of rows, and how LaTeX shows them."""

from pathlib import Path

import pytest
from made_up import VIT, as_result, plan, result, run_id
from tex import compiled, needs_siunitx

from recstudy.analysis import Table
from recstudy.analysis.frame import load_study
from recstudy.analysis.tables.render import table_shown
from recstudy.analysis.tables.table import groups, table_data
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


def test_lower_is_better_where_it_is(tmp_path):
    records = study(tmp_path / "r", {"CIFAR-10": [80.0, 92.0, 86.0]})
    rows = table_data(records, Table("t", metrics=("nll", "params", "macro_f1"))).rows

    assert not any(row.cells[0].best or row.cells[1].best for row in rows)  # all NLL alike; parameters are no score
    assert [row.cells[2].best for row in rows] == [False, True, False]


def test_what_leaks_is_never_the_best(tmp_path):
    records = study(tmp_path / "r", {"CIFAR-10": [99.0, 92.0, 86.0, 80.0]}, leaky=(0,))

    assert marks(table_data(records, Table("t", metrics=("top1_accuracy",)))) == ["", "*", "", ""]


def test_variants_without_a_cost_stand_last(tmp_path):
    records = study(tmp_path / "r", {"CIFAR-10": [None, 92.0]})

    assert groups(records, [0, 1], "gflops") == [
        ("Forward 0.3451 GFLOP/image", [1]),
        ("Forward: no run has finished", [0]),
    ]


@needs_siunitx
def test_latex_of_groups_compiles(tmp_path):
    records = study(tmp_path / "r", {"COVCTR": [9.5, 10.5, 7.0], "ROCO": [None]}, params=[5, 1_234_567, 44_444])

    assert compiled(table_shown(table_data(records, Table("t", group="data"))).latex, tmp_path).exists()
