"""Which of TRM's choices make it solve Sudokus, and at what cost?

Table 1 of the TRM paper (arXiv:2510.04871) takes one choice away at a time, or goes back to HRM's. Here each
is one row, with its seeds, and the difference to TRM with its interval. Two rows of the paper's Table 2 stand
below: one state that is both answer and latent, and a latent of its own for each of the n updates. A last row
is ours: what the trained row does that the published code puts in front of every puzzle, the same for all.
Quick has it in that row alone, the other presets everywhere else. Published, Sudoku-Extreme with 1,000
puzzles, each from one run: 87.4 %; 79.9 without the average of the weights, 56.5 with the gradient through
one step, 77.6 with a latent for each update, 71.9 with one state. The paper quotes HRM's 55.0 from the HRM
paper, which has 20,000 epochs and no average of the weights. The preset `paper` trains HRM so. Read with it:
rows share updates, not FLOPs, of which the table has both; only HRM in `paper` has fewer updates. Settings
were chosen for the first row. Quick halves the layers, so that "4 layers, n=3" is 2 layers, n=1. Its claims
ask for the same sentences of Table 1 with the same margins. Cost: quick (synthetic 6x6 Sudokus), 30 minutes
on 2 cores (measured); standard (synthetic 9x9), a day of one GPU; paper, 2.1 EFLOP a row.

    python studies/trm_ablation.py
    python studies/trm_ablation.py --preset paper --data DIR
"""

from recstudy import (
    Claim,
    Deviation,
    Resources,
    RunConfig,
    Study,
    TrainConfig,
    Variant,
    deviations,
    leave_one_out,
    main,
    published,
)
from recstudy.data import Sudoku, SudokuExtreme
from recstudy.models import HRM, TRM
from recstudy.report import (
    Curve,
    Differences,
    LearningCurves,
    Pareto,
    Replications,
    Residuals,
    Table,
    Thinking,
)

LEAST = {"margin": 0.4, "why": "a third of the 1.3 points that q_continue costs, the least difference to TRM"}
TARGETS = (
    *published("trm_table1_sudoku_ablation", **LEAST, only=("exact_accuracy", "params")),
    *published("trm_table2_latents", **LEAST),
)
SLOTS = TrainConfig(
    halting="sample", supervision_steps=16, evaluation_steps=16, evaluation_depths=16, halt_weight=0.5, schedule="update",
    beta2=0.95, selection="last",
)  # fmt: skip
QUICK = {
    "epochs": 2, "supervision_steps": 4, "evaluation_steps": 8, "evaluation_depths": 8, "batch_size": 32, "learning_rate": 4e-3,
    "final_learning_rate": 4e-4, "warmup": 0.03, "weight_decay": 0.1, "ema_decay": 0.99,
}  # fmt: skip
# The published code's: a constant rate after 2,000 of 65,100 updates (50,000 epochs of 1,000 puzzles).
PAPER = {
    "epochs": 10, "batch_size": 768, "learning_rate": 1e-4, "final_learning_rate": 1e-4, "warmup": 0.03072, "weight_decay": 1.0,
    "puzzle_learning_rate": 1e-4, "puzzle_weight_decay": 1.0, "ema_decay": 0.999, "optimizer": "adam_atan2", "loss": "stablemax",
    "precision": "bfloat16",
}  # fmt: skip
# one trained row in front, the same for all puzzles
CELLS = {"tokens": "cell", "puzzle_emb": "puzzle", "identifiers": 1}
MLP = TRM(**CELLS, mixing="mlp")
SIZE = {"tokens": "cell", "width": 64, "heads": 4, "expansion": 2, "multiple": 32, "prefix": 1}
SMALL = TRM(**SIZE, mixing="mlp", layers=1, cycles=2, latent_steps=2)
NO_ROW = {"model.puzzle_emb": "none", "model.identifiers": 0}
SMALL_ROW = {  # its rate and decay are those of the weights, as in the published commands
    "model.puzzle_emb": "puzzle", "model.identifiers": 1, "train.puzzle_learning_rate": 4e-3, "train.puzzle_weight_decay": 0.1,
}  # fmt: skip


def rows(model: TRM, hrm: dict, less: int) -> list[tuple[str, dict, str, float]]:
    """Table 1's rows, then Table 2's: what each changes, what the paper says of it, and about half of the
    difference it prints.

    `hrm` is what the row of HRM changes, `less` is T and n of less recursion. The last row has the row in
    front that `model` lacks, or lacks it.
    """
    prompt = ("no puzzle row", NO_ROW) if model.identifiers else ("shared puzzle row", SMALL_ROW)
    layers, n = 2 * model.layers, model.latent_steps // 2
    return [
        ("with q_continue", {"model.act": "continue"}, "4.6: without q_continue, and its second pass, no fewer are solved", 0.0),
        ("two networks", {"model.networks": 2}, "4.3: one network solves more than one for each state", 2.5),
        ("no average of weights", {"train.ema_decay": 0.0}, "4.7: averaged weights solve more", 3.5),
        (f"{layers} layers, n={n}", {"model.layers": layers, "model.latent_steps": n},
         "4.4: few layers and more recursion solve more than more layers", 4.0),
        ("self-attention", {"model.mixing": "attention"},
         "4.5: on a small grid of fixed size an MLP over the sequence solves more than attention", 6.0),
        (f"T=n={less}", {"model.cycles": less, "model.latent_steps": less}, "4.8: more recursion solves more", 7.0),
        ("one-step gradient", {"model.gradient": "one_step"},
         "4.1: the gradient through a whole cycle solves more than that through its last step", 15.0),
        ("HRM", hrm, "5: TRM solves more than HRM", 16.0),
        ("single z", {"model.states": "single"}, "4.2: an answer and a latent solve more than one state", 7.5),
        ("multi-scale z", {"model.states": "multi-scale"}, "4.2: one latent solves more than one for each update", 4.5),
        (*prompt, "", 0.0),
    ]  # fmt: skip


# The HRM paper's, from which Table 1 takes its HRM: 20,000 epochs, 2,000 of 26,000 updates, no average of the
# weights.
QUOTED = {"train.epochs": 4, "train.warmup": 0.0768, "train.ema_decay": 0.0}
FULL_HRM = {"model": HRM(**CELLS)}
ROWS, PAPER_ROWS = rows(MLP, FULL_HRM, less=2), rows(MLP, FULL_HRM | QUOTED, less=2)
SMALL_ROWS = rows(SMALL, {"model": HRM(**SIZE, high_layers=2, low_layers=2)}, less=1)
OF_TABLE_1 = 8  # rows


def variants(rows: list[tuple[str, dict, str, float]]) -> list[Variant]:
    return leave_one_out({label: changes for label, changes, *_ in rows}, base="TRM")


def claims(rows: list[tuple[str, dict, str, float]], on: str) -> list[Claim]:
    """What the paper says of Sudoku-Extreme, asked `on` these puzzles."""
    return [
        Claim(f"TRM {sentence}, {on}", lower={"variant": label}, higher={"variant": "TRM"}, margin=by)
        for label, _, sentence, by in rows
        if sentence
    ]


REPORT = [
    Table(
        "table1",
        metrics=("exact_accuracy", "cell_accuracy", "train_exact_accuracy", "halted_exact_accuracy", "halted_steps", "params",
                 "train_gflops", "train_pflop"),
        targets=TARGETS,
        title="Tables 1 and 2 of the TRM paper: one choice at a time",
    ),
    Differences("differences", metric="exact_accuracy", targets=TARGETS),
    Curve("segments", x="eval.depth", y="exact_accuracy", by="variant", title="Solved after so many segments, same weights"),
    *(Replications(f"others_{cell}", cell=f"{cell}_sudoku_extreme") for cell in ("trm_mlp", "trm_att", "hrm")),
    Pareto("cost", x="train_pflop", y="exact_accuracy", title="Accuracy against FLOPs of training"),
    Residuals(),
    Thinking(),
    LearningCurves(metrics=("train_loss", "supervision_steps_used")),
]  # fmt: skip

study = Study(
    name="trm_ablation",
    presets={
        "quick": RunConfig(
            data=Sudoku(side=6, givens=12, rounds=8),
            model=SMALL,
            train=SLOTS.model_copy(update=QUICK),
            resources=Resources(gpus=0),
        ),
        "standard": RunConfig(
            data=Sudoku(side=9, rounds=500), model=MLP, train=SLOTS.model_copy(update=PAPER)
        ),
        "paper": RunConfig(
            data=SudokuExtreme(train_puzzles=1000, augmentations=1000, rounds=5000),
            model=MLP,
            train=SLOTS.model_copy(update=PAPER),
        ),
    },
    variants={"quick": variants(SMALL_ROWS), "standard": variants(ROWS), "paper": variants(PAPER_ROWS)},
    seeds={"quick": 3, "standard": 1, "paper": 3},
    max_seeds={"quick": 10},
    report=REPORT,
    claims={
        "quick": claims(SMALL_ROWS[:OF_TABLE_1], "asked of synthetic 6x6 Sudokus"),
        "standard": claims(ROWS, "asked of synthetic 9x9 Sudokus"),
        "paper": claims(PAPER_ROWS, "Sudoku-Extreme"),
    },
    deviations=(
        *deviations("puzzle_code"),
        *deviations("trm_code"),
        *deviations("trm_epochs"),
        Deviation(
            field="model.states",
            paper="single, with x in all n + 1 updates",
            ours="single",
            why="as trm_singlez.py, whose last update reads no x; the text has x in each",
        ),
    ),
)

if __name__ == "__main__":
    main(study)
