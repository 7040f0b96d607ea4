"""Where each published number stands in a study's first table before anything has run, and what speaks
against it.

`placed/STUDY.txt` has a line for preset, verdict, reasons, what the paper leaves open and how many deviations
are stated, and below it the rows with their published values. The other tests are of what the studies of
equal costs keep equal. After a change that is meant: RECSTUDY_GOLDEN=write pytest
tests/study/test_published_places.py, and read the difference.
"""

import os
from pathlib import Path

import pytest
from shipped import STUDIES, compared, first_table, load

from recstudy import Study
from recstudy.recursive.models.costs import cost
from recstudy.report import Table
from recstudy.study.plan import make_plan

GOLDEN = Path(__file__).with_name("placed")
WITH = [
    path.stem
    for path in sorted(STUDIES.glob("*_*.py"))
    if isinstance(study := load(path.stem), Study)
    and all(
        any(isinstance(part, Table) and part.targets for part in study.by_preset(study.report, preset))
        for preset in study.presets
    )
]


@pytest.mark.parametrize("name", WITH)
def test_published_numbers_stand_where_they_stood(tmp_path, name):
    lines, study = [], load(name)
    for preset in study.presets:
        table, data = first_table(tmp_path / preset, name, preset)
        matched_sources = {
            match.target.source for row in data.rows for cell in row.cells for match in cell.matches
        }
        unmatched_count = len({target.source for target in table.targets} - matched_sources)
        lines.append(f"{preset}: {len(matched_sources)} placed, {unmatched_count} without a place")
        groups: dict[str, dict[str, list[str]]] = {}
        for label, cell in ((row.label, cell) for row in data.rows for cell in row.cells if cell.matches):
            value, verdict, reasons = compared(cell)
            assumed = "; ".join(sorted({match.assumed for match in cell.matches} - {""}))
            deviations = f"{len({deviation.field for match in cell.matches for deviation in match.deviations})} deviations"
            group = groups.setdefault(" | ".join((preset, verdict, reasons, assumed, deviations)), {})
            group.setdefault(label, []).append(f"{cell.metric} {value}")
        for group, rows in groups.items():
            lines += [group, *(f"- {label}: {', '.join(values)}" for label, values in rows.items())]
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("RECSTUDY_GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(lines) + "\n")

    assert lines == file.read_text().splitlines()


def test_values_of_micar_stay_comparable_if_incomplete_rows_are_dropped(tmp_path):
    """Section IV.C drops them; in the preset paper they are an error."""
    _, data = first_table(tmp_path, "micar_components", "paper", {"data.allow_missing": True})

    cells = [cell for row in data.rows for cell in row.cells if cell.matches]
    assert len(cells) == 50
    assert {reason for cell in cells for reason in cell.reasons} == set()


def test_r2gen_differs_from_its_code_in_stated_settings(tmp_path):
    _, data = first_table(tmp_path, "micar_datasets", "paper")

    (row,) = (row for row in data.rows if row.label == "PGROSS, R2Gen")
    (match,) = next(cell for cell in row.cells if cell.metric == "bleu_1").matches
    stated = {deviation.field: deviation.paper for deviation in match.deviations}
    assert (stated["train.optimizer"], stated["train.score"]) == ("adam", "bleu_4")
    assert "train.weight_decay" not in stated
    assert match.assumed.startswith("if the words of BLEU are of the Penn Treebank")


def configs(name, preset):
    plan = make_plan(load(name), preset)
    return {variant.label: config for variant, config in zip(plan.variants, plan.configs, strict=True)}


@pytest.mark.parametrize(
    ("preset", "tolerance", "depths"), [("quick", 0.1, (3, 6)), ("paper", 0.025, (1, 3, 6))]
)
def test_recursion_and_depth_have_the_same_flops_updates_and_average(preset, tolerance, depths):
    configs_by_label = configs("recursion_or_depth", preset)
    vitrm = {n: configs_by_label[f"model=ViTRM, n={n}"] for n in depths}
    same_size = configs_by_label["model=ViT, equal parameters"]

    for n, config in vitrm.items():
        assert cost(configs_by_label[f"model=ViT, equal FLOPs, n={n}"]).train_gflops == pytest.approx(
            cost(config).train_gflops, rel=tolerance
        )
    assert cost(same_size).params == pytest.approx(cost(vitrm[3]).params, rel=0.01)
    assert len({config.train for config in configs_by_label.values()}) == 1
    assert vitrm[3].train.supervision_steps == 1


def test_recursion_and_depth_on_puzzles_have_the_same_flops_at_test_and_in_training():
    configs_by_label = configs("recursion_or_depth", "puzzles")

    for n in (1, 3, 6):
        trm, flat = (
            cost(configs_by_label[f"model={model}, n={n}"]) for model in ("TRM", "transformer, equal FLOPs")
        )
        assert (flat.gflops, flat.train_gflops) == pytest.approx((trm.gflops, trm.train_gflops))
    assert (
        cost(configs_by_label["model=transformer, equal parameters"]).params
        == cost(configs_by_label["model=TRM, n=3"]).params
    )


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_transformers_beside_hrm_have_its_size_or_its_flops(preset):
    costs = [
        (config.model.title, cost(config)) for config in make_plan(load("hrm_outer_loop"), preset).configs
    ]
    hrm = next(hrm_cost for title, hrm_cost in costs if title == "HRM")
    equal_cost, deep, _ = (model_cost for title, model_cost in costs if title != "HRM")

    assert equal_cost.params == hrm.params
    assert deep.gflops == pytest.approx(hrm.gflops)


@pytest.mark.parametrize(("preset", "updates"), [("quick", 12), ("standard", 96), ("paper", 1008)])
def test_supervision_steps_times_epochs_are_constant(preset, updates):
    configs_by_label = configs("supervision_at_equal_updates", preset)

    for label, config in configs_by_label.items():
        steps, epochs = config.train.supervision_steps, config.train.epochs
        assert (epochs * steps if label.startswith("updates") else epochs) == updates
        assert (config.train.halt_threshold < 1) == ("halting" in label and steps > 1)
    assert (
        len({config.run_id for config in configs_by_label.values() if config.train.supervision_steps == 1})
        == 1
    )
