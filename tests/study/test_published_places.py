"""Where each published number stands in a study's first table before anything has run, and what speaks against it.

`placed/STUDY.txt` has a line a number: preset, row, metric, published value, verdict, reasons, what its paper leaves open and
how many deviations are stated. The other tests are of what the studies of puzzles and captions take from their papers.
After a change that is meant: RECSTUDY_GOLDEN=write pytest tests/study/test_published_places.py, and read the difference.
"""

import os
from pathlib import Path

import pytest
from shipped import STUDIES, compared, first_table, load

from recstudy import Study
from recstudy.analysis import LearningCurves, Table
from recstudy.analysis.tables.render import settings_text, settings_title
from recstudy.models import HRM
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
        for label, cell in ((row.label, cell) for row in data.rows for cell in row.cells if cell.placed):
            assumed = "; ".join(sorted({one.assumed for one in cell.placed} - {""}))
            deviations = f"{len({stated.field for one in cell.placed for stated in one.deviations})} deviations"
            lines.append(" | ".join((preset, label, cell.metric, *compared(cell), assumed, deviations)))
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("RECSTUDY_GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(lines) + "\n")

    assert lines == file.read_text().splitlines()


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("imagehrm_loops", {"model.high_cycles", "model.middle_cycles", "model.low_cycles", "model.image", "model.top_down"}),
        ("imagetrm_backbones", {"model.cycles", "model.latent_steps", "train.ema_decay"}),
    ],
)
def test_what_000_leaves_blank_is_an_assumption(name, fields):
    """As `blanks.yaml` has it, and where HRM or TRM say what 000 does not; what no plan does is refused as a deviation."""
    study = load(name)
    both = {"train.supervision_steps", "train.evaluation_steps", "train.halt_weight", "train.beta2", "train.selection",
            "train.exploration", "train.loss", "train.gradient_clip", "model.width", "model.decode", "model.halt_target",
            "model.halt_read"}  # fmt: skip

    assert {stated.field for stated in study.deviations if stated.paper is None} >= both | fields
    assert {config.model.beam for config in make_plan(study, "paper").configs} == {3}


@pytest.mark.parametrize("path", sorted(STUDIES.glob("micar_*.py")), ids=lambda path: path.stem)
def test_003_selects_by_the_score_of_its_code_and_its_studies_deviate_alike(path):
    """BLEU / 8 + METEOR / 4 + ROUGE-L / 4 on the validation split; how many ids there are is a data set's own."""
    study, one = load(path.stem), load("micar_routing")

    assert {config.train.score for config in make_plan(study, "paper").configs} == {"report_score"}
    assert set(study.deviations) >= set(one.deviations)


@pytest.mark.parametrize(
    ("name", "title", "settings"),
    [
        (
            "imagehrm_loops",
            ["backbone", "high/middle/low cycles"],
            {"LSTM": ["resnet18", "\N{EN DASH}"], "dual": ["resnet18", "2/0/2"], "triple, cycles 1/1/1": ["resnet18", "1/1/1"],
             "triple, Swin-B": ["swin_b", "2/2/2"], "triple, FuseLIP": ["fuselip", "2/2/2"]},
        ),
        (
            "imagetrm_backbones",
            ["family", "backbone", "cycles/latent steps", "gradient"],
            {"LSTM": ["image_lstm", "resnet18", "\N{EN DASH}", "\N{EN DASH}"], "ImageTRM": ["image_trm", "resnet18", "3/6", "full_bptt"],
             "ImageTRM, last cycle": ["image_trm", "resnet18", "3/6", "last_cycle"],
             "ImageTRM, twice the T": ["image_trm", "resnet18", "6/6", "full_bptt"],
             "ImageTRM, Swin-T": ["image_trm", "swin_t", "3/6", "full_bptt"]},
        ),
    ],
)  # fmt: skip
def test_the_tables_of_000_have_the_papers_columns_of_settings(tmp_path, name, title, settings):
    """Table I: backbone and H/M/L configuration; Table II: paradigm and backbone."""
    _, data = first_table(tmp_path / "r", name, "paper")

    assert list(map(settings_title, data.settings)) == title
    rows = {row.label: list(map(settings_text, row.settings)) for row in data.rows}
    assert {label: rows[label] for label in settings} == settings
    assert data.corner == "model"


def halting(study: Study, preset: str) -> bool:
    """Whether some run of the preset may end its supervision early, so that the steps it used are a result."""
    configs = [run.config for run in make_plan(study, preset).runs]
    several = [config.train for config in configs if config.model.halts and config.train.supervision_steps > 1]
    return any(train.halting == "sample" or train.halt_threshold < 1 for train in several)


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*_*.py")), ids=lambda path: path.stem)
def test_studies_that_halt_show_the_steps_that_were_used(path):
    study = load(path.stem)
    for preset in study.presets if isinstance(study, Study) else ():
        curves = [part for part in study.by_preset(study.report, preset) if isinstance(part, LearningCurves)]
        shown = any("supervision_steps_used" in part.metrics for part in curves)
        assert shown == halting(study, preset), preset


def test_a_smoke_epoch_goes_over_the_puzzles_once():
    configs = make_plan(load("sudoku_depth"), "paper", smoke=True).configs

    assert {config.training_images for config in configs} == {32}


def test_arc_states_the_optimiser_that_trms_text_has_not(tmp_path):
    _, data = first_table(tmp_path / "r", "arc_agi", "paper")

    assert "optimizer adam_atan2, not adamw: AdamW in its text, Adam-atan2 in its code" in data.notes


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


def test_quick_compares_hrm_and_trm_at_the_same_depths():
    rows = [variant.levels for variant in make_plan(load("trm_recursions"), "quick").variants]

    depths = {name: [row["depth"] for row in rows if row["model"] == name] for name in ("HRM", "TRM")}
    assert depths == {"HRM": [2, 6, 12], "TRM": [2, 6, 12]}
