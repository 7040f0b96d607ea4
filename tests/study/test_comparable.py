"""What is comparable with a published number: the `paper` preset as its study has it, and nothing that decides else."""

from pathlib import Path
from typing import Any

import pytest
from shipped import compared, first_table, load

from recstudy.analysis import Budgets
from recstudy.analysis.frame import load_study
from recstudy.analysis.kinds import cells
from recstudy.records import Results
from recstudy.report.names import metric
from recstudy.study.plan import record_plan
from recstudy.study.study import make_plan


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
    "learning rate": ({"train.learning_rate": 0.01}, "learning_rate 0.01, not 0.0003"),
    "no augmentation": (
        PLAIN,
        "crop 0, not 4; flip false, not true; randaugment_ops 0, not 2; mixup 0, not 0.2; cutmix 0, not 1",
    ),
    "no EMA": ({"train.ema_decay": 0.0}, "ema_decay 0, not 0.999"),
    "optimiser": (
        {"train.optimizer": "adam_atan2", "train.loss": "stablemax", "train.weight_decay": 1.0},
        "optimizer adam_atan2, not adamw; weight_decay 1, not 0.05; loss stablemax, not softmax",
    ),
    "width": ({"model.width": 64, "model.heads": 4}, "width 64, not 384; heads 4, not 6"),
    "cycles at test": ({"model.test_cycles": 8}, "test_cycles 8, not 1"),
    "block": ({"model.norm": "post", "model.latent_init": "fixed"}, "norm post, not pre; latent_init fixed, not learned"),
}


@pytest.mark.parametrize(("changes", "reasons"), OTHER.values(), ids=OTHER)
def test_each_setting_of_002_that_is_not_the_papers_is_a_reason(tmp_path, changes, reasons):
    assert against(tmp_path / "r", "vitrm_depth_sweep", "paper", changes) == {reasons}


def test_003_read_and_split_otherwise_is_not_comparable(tmp_path):
    found = against(tmp_path / "r", "micar_components", "paper", {"model.decode": "greedy", "data.split_seed": 7})

    assert all("decode greedy, not beam" in reasons for reasons in found)
    assert all("split_seed 7, not 0" in reasons for reasons in found)


def test_004_with_crops_flips_and_a_high_rate_is_not_comparable(tmp_path):
    """Its `standard` preset is the MNIST row of `paper`, and compares with it."""
    changes = {"train.augment.crop": 4, "train.augment.flip": True, "train.learning_rate": 0.01}
    same = against(tmp_path / "a", "hrm_small_images", "standard", {})
    other = against(tmp_path / "b", "hrm_small_images", "standard", changes)

    assert "" in same
    assert "learning_rate 0.01, not 0.001; crop 4, not 0; flip true, not false" in other
    assert "" not in other


def test_a_plan_of_before_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("recstudy.study.plan.reference", lambda plan: None)

    assert against(tmp_path / "r", "vitrm_depth_sweep", "paper", {}) == {
        "planned before the paper's settings were kept: run its command again"
    }


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
