"""Which of TRM's design choices make it solve Sudokus, and at what cost?

Table 1 of the TRM paper (arXiv:2510.04871) removes one choice at a time, or returns to HRM's choice. Here
each choice is one row. The table shows its difference to TRM with a confidence interval over seeds. Two rows
come from the paper's Table 2: one state that is both answer and latent, and a separate latent for each of the
n updates. The last row is ours. It tests the trained embedding that the published code puts in front of every
puzzle, the same for all. In quick only that row has the embedding; in the other presets every other row has
it.

Published: Sudoku-Extreme with 1,000 puzzles, one run each: TRM 87.4 %; without the average of the weights
79.9, with the gradient through one step 56.5, with a latent for each update 77.6, with one state 71.9. The
paper quotes HRM's 55.0 from the HRM paper.

Caveats: the HRM paper has 20,000 epochs and no average of the weights, and the preset `paper` trains HRM so.
Rows have equal updates, not equal FLOPs; the table shows both. Only HRM in `paper` has fewer updates. The
settings were chosen for the first row. In quick attention learns nothing in so few updates. HRM has attention
and the other rows an MLP, so neither its row nor that of self-attention says anything about a trained
network. Quick halves the layers, so its "4 layers, n=3" is 2 layers, n=1. Its claims are the same sentences
of Table 1 with the same margins.

Cost: quick (synthetic 6x6 Sudokus), an hour in one process for up to ten seeds (measured beside tests);
standard (synthetic 9x9), a day of one GPU; paper, 2.1 EFLOP per row.

    python studies/trm_ablation.py
    python studies/trm_ablation.py --preset paper --data DIR
"""

from recstudy import Claim, Deviation, Resources, Study, Variant, deviations, leave_one_out, main, published
from recstudy.recursive import HRM, TRM, Residuals, RunConfig, Sudoku, SudokuExtreme, Thinking, TrainConfig
from recstudy.report import Curve, Differences, LearningCurves, Pareto, Replications, Table

MARGIN = {
    "margin": 0.4,
    "why": "a third of the 1.3 points that q_continue costs, the smallest difference to TRM",
}
TARGETS = (
    *published("trm_table1_sudoku_ablation", **MARGIN, only=("exact_accuracy", "params")),
    *published("trm_table2_latents", **MARGIN),
)
# Each sample halts by itself. The last weights are evaluated, so nothing is selected on the test set.
TRAIN = TrainConfig(
    halting="sample",
    supervision_steps=16,
    evaluation_steps=16,
    evaluation_depths=16,
    halt_weight=0.5,
    schedule="update",
    beta2=0.95,
    selection="last",
)
QUICK = {
    "epochs": 2,
    "supervision_steps": 4,
    "evaluation_steps": 8,
    "evaluation_depths": 8,
    "batch_size": 32,
    "learning_rate": 4e-3,
    "final_learning_rate": 4e-4,
    "warmup": 0.03,
    "weight_decay": 0.1,
    "ema_decay": 0.99,
}
# As in the published code: a constant rate after 2,000 of 65,100 updates (50,000 epochs of 1,000 puzzles).
PAPER = {
    "epochs": 10,
    "batch_size": 768,
    "learning_rate": 1e-4,
    "final_learning_rate": 1e-4,
    "warmup": 0.03072,
    "weight_decay": 1.0,
    "puzzle_learning_rate": 1e-4,
    "puzzle_weight_decay": 1.0,
    "ema_decay": 0.999,
    "optimizer": "adam_atan2",
    "loss": "stablemax",
    "precision": "bfloat16",
}
# One trained embedding in front of every puzzle, the same for all.
CELLS = {"tokens": "cell", "puzzle_emb": "puzzle", "identifiers": 1}
MLP = TRM(**CELLS, mixing="mlp")
SIZE = {"tokens": "cell", "width": 64, "heads": 4, "expansion": 2, "multiple": 32, "prefix": 1}
SMALL = TRM(**SIZE, mixing="mlp", layers=1, cycles=2, latent_steps=2)
NO_ROW = {"model.puzzle_emb": "none", "model.identifiers": 0}
# The embedding has the learning rate and weight decay of the weights, as in the published commands.
SMALL_ROW = {
    "model.puzzle_emb": "puzzle",
    "model.identifiers": 1,
    "train.puzzle_learning_rate": 4e-3,
    "train.puzzle_weight_decay": 0.1,
}


def rows(model: TRM, hrm: dict, recursion: int) -> list[tuple[str, dict, str, float]]:
    """Return the rows of Table 1, then those of Table 2, then our row of the shared embedding.

    Args:
        model: The preset's TRM.
        hrm: The changes of the row of HRM.
        recursion: T and n of the row with less recursion.

    Returns:
        Label, changes, the paper's sentence, and about half of the difference that the paper prints. The last
        row removes the embedding if `model` has it, and adds it otherwise.
    """
    embedding = ("no puzzle row", NO_ROW) if model.identifiers else ("shared puzzle row", SMALL_ROW)
    layers, n = 2 * model.layers, model.latent_steps // 2
    return [
        (
            "with q_continue",
            {"model.act": "continue"},
            "4.6: without q_continue, and its second pass, no fewer are solved",
            0.0,
        ),
        ("two networks", {"model.networks": 2}, "4.3: one network solves more than one for each state", 2.5),
        ("no average of weights", {"train.ema_decay": 0.0}, "4.7: averaged weights solve more", 3.5),
        (
            f"{layers} layers, n={n}",
            {"model.layers": layers, "model.latent_steps": n},
            "4.4: few layers and more recursion solve more than more layers",
            4.0,
        ),
        (
            "self-attention",
            {"model.mixing": "attention"},
            "4.5: on a small grid of fixed size an MLP over the sequence solves more than attention",
            6.0,
        ),
        (
            f"T=n={recursion}",
            {"model.cycles": recursion, "model.latent_steps": recursion},
            "4.8: more recursion solves more",
            7.0,
        ),
        (
            "one-step gradient",
            {"model.gradient": "one_step"},
            "4.1: the gradient through a whole cycle solves more than that through its last step",
            15.0,
        ),
        ("HRM", hrm, "5: TRM solves more than HRM", 16.0),
        (
            "single z",  # from here on Table 2
            {"model.states": "single"},
            "4.2: an answer and a latent solve more than one state",
            7.5,
        ),
        (
            "multi-scale z",
            {"model.states": "multi-scale"},
            "4.2: one latent solves more than one for each update",
            4.5,
        ),
        (*embedding, "", 0.0),  # our row, which the paper makes no claim about
    ]


# As in the HRM paper, from which Table 1 quotes HRM: 20,000 epochs, 2,000 of 26,000 updates of warm-up, and
# no average of the weights.
QUOTED = {"train.epochs": 4, "train.warmup": 0.0768, "train.ema_decay": 0.0}
FULL_HRM = {"model": HRM(**CELLS)}
ROWS = rows(MLP, FULL_HRM, recursion=2)
PAPER_ROWS = rows(MLP, FULL_HRM | QUOTED, recursion=2)
SMALL_ROWS = rows(SMALL, {"model": HRM(**SIZE, high_layers=2, low_layers=2)}, recursion=1)
TABLE_1_ROWS = 8  # the first rows; those of Table 2 follow


def variants(rows: list[tuple[str, dict, str, float]]) -> list[Variant]:
    return leave_one_out({label: changes for label, changes, *_ in rows}, base="TRM")


def claims(rows: list[tuple[str, dict, str, float]], puzzles: str) -> list[Claim]:
    """Return the paper's sentences about Sudoku-Extreme as claims about these puzzles."""
    return [
        Claim(
            f"TRM {sentence}, {puzzles}", lower={"variant": label}, higher={"variant": "TRM"}, margin=margin
        )
        for label, _, sentence, margin in rows
        if sentence
    ]


REPORT = [
    Table(
        "table1",
        metrics=(
            "exact_accuracy",
            "cell_accuracy",
            "train_exact_accuracy",
            "halted_exact_accuracy",
            "halted_steps",
            "params",
            "train_gflops",
            "train_pflop",
        ),
        targets=TARGETS,
        title="Tables 1 and 2 of the TRM paper: one choice at a time",
    ),
    Differences("differences", metric="exact_accuracy", targets=TARGETS),
    Curve(
        "segments",
        x="eval.depth",
        y="exact_accuracy",
        by="variant",
        title="Puzzles solved by number of segments, same weights",
    ),
    *(
        Replications(f"others_{model}", cell=f"{model}_sudoku_extreme")
        for model in ("trm_mlp", "trm_att", "hrm")
    ),
    Pareto("cost", x="train_pflop", y="exact_accuracy", title="Accuracy against training FLOPs"),
    Residuals(),
    Thinking(),
    LearningCurves(metrics=("train_loss", "supervision_steps_used")),
]

study = Study(
    name="trm_ablation",
    presets={
        "quick": RunConfig(
            data=Sudoku(side=6, givens=12, rounds=8),
            model=SMALL,
            train=TRAIN.model_copy(update=QUICK),
            resources=Resources(gpus=0),
        ),
        "standard": RunConfig(
            data=Sudoku(side=9, rounds=500), model=MLP, train=TRAIN.model_copy(update=PAPER)
        ),
        "paper": RunConfig(
            data=SudokuExtreme(train_puzzles=1000, augmentations=1000, rounds=5000),
            model=MLP,
            train=TRAIN.model_copy(update=PAPER),
        ),
    },
    variants={"quick": variants(SMALL_ROWS), "standard": variants(ROWS), "paper": variants(PAPER_ROWS)},
    seeds={"quick": 3, "standard": 1, "paper": 3},
    max_seeds={"quick": 10},
    report=REPORT,
    claims={
        "quick": claims(SMALL_ROWS[:TABLE_1_ROWS], "on synthetic 6x6 Sudokus"),
        "standard": claims(ROWS, "on synthetic 9x9 Sudokus"),
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
            why="as in trm_singlez.py, whose last update does not read x; in the text every update does",
        ),
    ),
)

if __name__ == "__main__":
    main(study)
