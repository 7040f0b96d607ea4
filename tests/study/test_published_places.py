"""Where each published number stands in a study's first table before anything has run, and what speaks against it.

`placed/STUDY.txt` has a line for preset, verdict, reasons, what the paper leaves open and how many deviations are stated, and
below it the rows with their published values. The other tests are of what studies ask of their papers' sentences, what of a
setting speaks against a comparison, and what the studies of equal costs keep equal.
After a change that is meant: RECSTUDY_GOLDEN=write pytest tests/study/test_published_places.py, and read the difference.
"""

import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from shipped import STUDIES, compared, first_table, load

from recstudy import Study
from recstudy.analysis import Budgets, Table
from recstudy.analysis.frame import load_study
from recstudy.analysis.kinds import cells
from recstudy.models import HRM
from recstudy.models.costs import cost
from recstudy.papers import published
from recstudy.records import Results
from recstudy.report import Claim
from recstudy.report.claims import Where
from recstudy.report.names import metric
from recstudy.study.plan import record_plan
from recstudy.study.study import make_plan

GOLDEN = Path(__file__).with_name("placed")
WITH = [
    path.stem
    for path in sorted(STUDIES.glob("*_*.py"))
    if isinstance(study := load(path.stem), Study)
    and all(any(isinstance(part, Table) and part.targets for part in study.by_preset(study.report, one)) for one in study.presets)
]


@pytest.mark.parametrize("name", WITH)
def test_published_numbers_stand_where_they_stood(tmp_path, name):
    lines, study = [], load(name)
    for preset in study.presets:
        table, data = first_table(tmp_path / preset, name, preset)
        placed = {one.target.source for row in data.rows for cell in row.cells for one in cell.placed}
        missing = len({target.source for target in table.targets} - placed)
        lines.append(f"{preset}: {len(placed)} placed, {missing} without a place")
        groups: dict[str, dict[str, list[str]]] = {}
        for label, cell in ((row.label, cell) for row in data.rows for cell in row.cells if cell.placed):
            value, verdict, reasons = compared(cell)
            assumed = "; ".join(sorted({one.assumed for one in cell.placed} - {""}))
            deviations = f"{len({stated.field for one in cell.placed for stated in one.deviations})} deviations"
            group = groups.setdefault(" | ".join((preset, verdict, reasons, assumed, deviations)), {})
            group.setdefault(label, []).append(f"{cell.metric} {value}")
        for group, rows in groups.items():
            lines += [group, *(f"- {label}: {', '.join(values)}" for label, values in rows.items())]
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("RECSTUDY_GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(lines) + "\n")

    assert lines == file.read_text().splitlines()


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_effective_depth_is_that_of_the_networks(preset):
    plan = make_plan(load("trm_recursions"), preset)
    for variant, config in zip(plan.variants, plan.configs, strict=True):
        model = config.model
        if "depth" not in variant.levels:  # mazes
            continue
        if isinstance(model, HRM):
            assert variant.levels["depth"] == model.high_cycles * (model.low_cycles + 1) * model.high_layers
        else:
            assert variant.levels["depth"] == model.cycles * (model.latent_steps + 1) * model.layers


def against(folder: Path, name: str, preset: str, changes: dict[str, Any]) -> set[str]:
    """What speaks against the published scores in a study's first table; parameters and times apart."""
    _, table = first_table(folder, name, preset, changes)
    cells = [cell for row in table.rows for cell in row.cells if cell.placed]
    scores = [cell for cell in cells if not metric(cell.metric).computed and not metric(cell.metric).timed]
    assert scores
    found = {compared(cell)[1:] for cell in scores}
    assert all(verdict == ("not comparable" if reasons else "not run") for verdict, reasons in found)
    return {reasons for _, reasons in found}


PLAIN = {f"train.augment.{name}": 0 for name in ("crop", "randaugment_ops", "mixup", "cutmix")} | {"train.augment.flip": False}
OTHER = {
    "no augmentation": (
        PLAIN,
        "crop 0, not 4; flip false, not true; randaugment_ops 0, not 2; mixup 0, not 0.2; cutmix 0, not 1",
    ),
    "optimiser": (
        {"train.optimizer": "adam_atan2", "train.loss": "stablemax", "train.weight_decay": 1.0},
        "optimizer adam_atan2, not adamw; weight_decay 1, not 0.05; loss stablemax, not softmax",
    ),
    "width": ({"model.width": 64, "model.heads": 4}, "width 64, not 384; heads 4, not 6"),
    "block": ({"model.norm": "post", "model.latent_init": "fixed"}, "norm post, not pre; latent_init fixed, not learned"),
}


@pytest.mark.parametrize(("changes", "reasons"), OTHER.values(), ids=OTHER)
def test_each_setting_of_002_that_is_not_the_papers_is_a_reason(tmp_path, changes, reasons):
    assert against(tmp_path / "r", "vitrm_depth_sweep", "paper", changes) == {reasons}


@pytest.mark.parametrize("preset", ["paper", "quick"])
def test_settings_of_more_thinking_at_test_bear_on_its_own_metrics_alone(tmp_path, preset):
    """PTRM's two numbers: comparable as the paper's preset has them; of the plain one, trajectories and copies say nothing."""
    study, results = load("puzzle_test_time"), Results(tmp_path).create()
    record_plan(make_plan(study, preset), results)
    budgets = next(part for part in study.by_preset(study.report, preset) if isinstance(part, Budgets))

    rows = cells(load_study(results, study.name, preset), budgets).rows

    told = {row.label: compared(row.cells[1]) for row in rows if row.cells[1].placed}
    found = {label: (published, verdict) for label, (published, verdict, _) in told.items()}
    if preset == "paper":
        assert found == {"segments, 16": ("87.4", "not run"), "surest of noisy trajectories, 100": ("98.8", "not run")}
    else:
        assert found == {"segments, 16": ("87.4", "not comparable")}
        assert not [word for word in ("trajectories", "copies", "segments") if word in told["segments, 16"][2]]


def printed_scores() -> dict[tuple[str, str, int], float]:
    """Tables 1 and 2 of 002, by data set, model and batch size."""
    tables = {"CIFAR-10": "002_table1_cifar10", "CIFAR-100": "002_table2_cifar100"}
    return {
        (data, target.model, target.where["train.batch_size"]): target.value
        for data, table in tables.items()
        for target in published(table, only=("top1_accuracy",))
    }


def contrasts(claim: Claim) -> Iterator[tuple[tuple[float, Where], ...]]:
    """In each of which a claim must hold: with every model that a selector names."""
    models = [where["model"] if claim.each and sign < 0 else [where["model"]] for sign, where in claim.selectors]
    for chosen in product(*models):
        yield tuple((sign, {**where, "model": name}) for (sign, where), name in zip(claim.selectors, chosen, strict=True))


def test_what_002_says_of_batch_sizes_holds_in_its_own_tables():
    scores = printed_scores()
    for claim in load("vitrm_batch_size").claims["paper"]:
        for contrast in contrasts(claim):
            found = sum(sign * scores[where["data"], where["model"], where["batch_size"]] for sign, where in contrast)

            assert abs(found) < claim.within if claim.within is not None else found > claim.by, claim.text


def configs(name, preset):
    plan = make_plan(load(name), preset)
    return {variant.label: config for variant, config in zip(plan.variants, plan.configs, strict=True)}


@pytest.mark.parametrize(("preset", "within", "depths"), [("quick", 0.1, (3, 6)), ("paper", 0.025, (1, 3, 6))])
def test_recursion_and_depth_have_the_same_flops_updates_and_average(preset, within, depths):
    found = configs("recursion_or_depth", preset)
    vitrm = {n: found[f"model=ViTRM, n={n}"] for n in depths}
    alike = found["model=ViT, equal parameters"]

    for n, config in vitrm.items():
        assert cost(found[f"model=ViT, equal FLOPs, n={n}"]).train_gflops == pytest.approx(cost(config).train_gflops, rel=within)
    assert cost(alike).params == pytest.approx(cost(vitrm[3]).params, rel=0.01)
    assert len({config.train for config in found.values()}) == 1
    assert vitrm[3].train.supervision_steps == 1


def test_recursion_and_depth_on_puzzles_have_the_same_flops_at_test_and_in_training():
    found = configs("recursion_or_depth", "puzzles")

    for n in (1, 3, 6):
        trm, flat = (cost(found[f"model={model}, n={n}"]) for model in ("TRM", "transformer, equal FLOPs"))
        assert (flat.gflops, flat.train_gflops) == pytest.approx((trm.gflops, trm.train_gflops))
    assert cost(found["model=transformer, equal parameters"]).params == cost(found["model=TRM, n=3"]).params


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_transformers_beside_hrm_have_its_size_or_its_flops(preset):
    found = [(config.model.title, cost(config)) for config in make_plan(load("hrm_outer_loop"), preset).configs]
    hrm = next(known for title, known in found if title == "HRM")
    same, deep, _ = (known for title, known in found if title != "HRM")

    assert same.params == hrm.params
    assert deep.gflops == pytest.approx(hrm.gflops)


@pytest.mark.parametrize(("preset", "updates"), [("quick", 12), ("standard", 96), ("paper", 1008)])
def test_supervision_steps_times_epochs_are_constant(preset, updates):
    found = configs("supervision_at_equal_updates", preset)

    for label, config in found.items():
        steps, epochs = config.train.supervision_steps, config.train.epochs
        assert (epochs * steps if label.startswith("updates") else epochs) == updates
        assert (config.train.halt_threshold < 1) == ("halting" in label and steps > 1)
    assert len({config.run_id for config in found.values() if config.train.supervision_steps == 1}) == 1
