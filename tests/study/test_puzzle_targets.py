"""Which variants of the studies of puzzles TRM's published numbers stand beside, and what is equal between them."""

import pytest
from shipped import compared, first_table, load

from recstudy.models import HRM
from recstudy.study.study import make_plan

SYNTHETIC = "data sudoku, not sudoku_extreme; train_puzzles none, not 1000"


@pytest.mark.parametrize("name", ["trm_ablation", "trm_recursions", "hrm_outer_loop"])
def test_every_published_number_has_a_place_and_none_compares_on_drawn_sudokus(tmp_path, name):
    table, paper = first_table(tmp_path / "paper", name, "paper")
    _, drawn = first_table(tmp_path / "standard", name, "standard")

    beside = [placed.target.source for row in paper.rows for cell in row.cells for placed in cell.placed]
    assert set(beside) == {target.source for target in table.targets}
    assert not [cell.reasons for row in paper.rows for cell in row.cells if cell.reasons]
    cells = [cell for row in drawn.rows for cell in row.cells if cell.placed]
    assert cells
    assert {compared(cell)[1:] for cell in cells} == {("not comparable", SYNTHETIC)}


def test_rows_of_the_ablation_by_their_published_accuracy(tmp_path):
    table, data = first_table(tmp_path / "r", "trm_ablation", "paper")

    assert {row.label: compared(row.cells[table.metrics.index("exact_accuracy")])[0] for row in data.rows} == {
        "TRM": "87.4",
        "with q_continue": "86.1",
        "two networks": "82.4",
        "no average of weights": "79.9",
        "4 layers, n=3": "79.5",
        "self-attention": "74.7",
        "T=n=2": "73.7",
        "one-step gradient": "56.5",
        "HRM": "55.0",
        "single z": "",
        "multi-scale z": "",
    }


def test_a_smoke_epoch_goes_over_the_puzzles_once():
    configs = make_plan(load("sudoku_depth"), "paper", smoke=True).configs

    assert {config.training_images for config in configs} == {32}


def test_published_numbers_stand_beside_namesakes_in_a_smaller_preset(tmp_path):
    table, data = first_table(tmp_path / "r", "trm_ablation", "quick")

    cells = {row.label: row.cells[table.metrics.index("exact_accuracy")] for row in data.rows}
    found = {label: compared(cell) for label, cell in cells.items() if cell.placed}
    assert {label: published for label, (published, _, _) in found.items()} == {
        "TRM": "87.4",
        "with q_continue": "86.1",
        "two networks": "82.4",
        "no average of weights": "79.9",
        "self-attention": "74.7",
        "one-step gradient": "56.5",
        "HRM": "55.0",
    }
    assert {verdict for _, verdict, _ in found.values()} == {"not comparable"}
    assert "layers 1, not 2" in found["TRM"][2]


AS_TRM = {
    "if HRM was trained as TRM, which the paper does not say",
    "if Direct pred was trained as TRM, which the paper does not say",
}
OWN = {"if epochs was 4 and ema_decay was 0, which the paper does not say"}


@pytest.mark.parametrize(
    ("name", "of_hrm", "others"),
    [("trm_ablation", AS_TRM, {""}), ("trm_recursions", AS_TRM, {""}), ("arc_agi", AS_TRM, {""}), ("hrm_outer_loop", OWN, OWN)],
)
def test_how_hrm_was_trained_in_trms_paper_is_a_guess_that_its_verdicts_name(tmp_path, name, of_hrm, others):
    _, data = first_table(tmp_path / "r", name, "paper")

    beside = [placed for row in data.rows for cell in row.cells if cell.metric != "params" for placed in cell.placed]
    own = {placed.assumed for placed in beside if placed.target.model == "HRM"}
    assert own
    assert own <= of_hrm
    assert {placed.assumed for placed in beside if not placed.target.model.startswith(("HRM", "Direct"))} <= others
    assert all(placed.deviations for placed in beside)


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


def test_every_number_of_arc_has_a_place_and_none_compares_on_the_subset(tmp_path):
    table, paper = first_table(tmp_path / "paper", "arc_agi", "paper")
    _, subset = first_table(tmp_path / "quick", "arc_agi", "quick")

    cells = [cell for row in paper.rows for cell in row.cells if cell.placed]
    assert {placed.target.source for cell in cells for placed in cell.placed} == {target.source for target in table.targets}
    assert not [cell.reasons for cell in cells if cell.reasons]
    small = {compared(cell)[1:] for row in subset.rows for cell in row.cells if cell.placed}
    assert {verdict for verdict, _ in small} == {"not comparable"}
    assert all("side 10, not 30" in reasons for _, reasons in small)
