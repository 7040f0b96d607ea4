"""How deep must a tiny recursive model think to solve a Sudoku, in training and at test?

TRM (arXiv:2510.04871) supervises up to N_sup segments on a puzzle. Each segment has T cycles of n updates. It
tests with 16 segments. This study varies N_sup, T and n, and scores the same weights after every segment.
Each sample halts by itself, so an update is one segment for every N_sup. Rows with the same T and n are
therefore equal in updates and in FLOPs. Rows with another T or n cost more per update; the figure `cost`
shows accuracy against training FLOPs.

Published: 87.4 % on Sudoku-Extreme with T=3, n=6, N_sup=16, trained on 1,000 puzzles; 73.7 % with T=n=2; 63.2
% with T=1, n=2.

Caveats: the preset fast is a recipe of recstudy, not the paper's protocol. It has Muon, CUDA graphs and a
third of the updates. Its report does not show published values.

Cost: quick (synthetic 6x6 Sudokus), 7 minutes on 2 cores (measured); standard (9x9), an hour of one GPU;
paper, 2.1 EFLOP per row with T=3; fast, a third of that.

    python studies/sudoku_depth.py
    python studies/sudoku_depth.py --preset paper --data DIR
"""

from recstudy import Claim, Interaction, Resources, Study, Variant, deviations, grid, main, published
from recstudy.recursive import TRM, Residuals, RunConfig, Sudoku, SudokuExtreme, Thinking, TrainConfig
from recstudy.report import Curve, LearningCurves, Pareto, Replications, Table

MARGIN = {
    "margin": 1.0,
    "why": "a tenth of the 10.5 points between T=n=2 and T=1, n=2",
}
TARGETS = (
    *published("trm_table1_sudoku_ablation", **MARGIN, only=("exact_accuracy", "params")),
    *published("trm_table3_recursions", **MARGIN, only=("exact_accuracy",)),
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
    "epochs": 4,
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
# Our recipe, not yet tried on a GPU. Muon's steps have the size of AdamW's, for which 1e-3 is usual at this
# width. The learning rate falls to a tenth.
FAST = PAPER | {
    "optimizer": "muon",
    "epochs": 3,
    "learning_rate": 1e-3,
    "final_learning_rate": 1e-4,
    "weight_decay": 0.1,
}
# One trained embedding in front of every puzzle, the same for all.
CELLS = {"tokens": "cell", "puzzle_emb": "puzzle", "identifiers": 1}
MLP = TRM(**CELLS, mixing="mlp")
SMALL = TRM(
    tokens="cell", mixing="mlp", width=64, expansion=2, multiple=32, prefix=1, cycles=1, latent_steps=1
)


def claims(min_steps: int, max_steps: int, margin: float, puzzles: str, *cycles: int) -> list[Claim]:
    """Return what recursion is claimed to do, at each number of cycles, because T interacts with all of it.

    Args:
        min_steps: The fewest supervision steps in training.
        max_steps: The most supervision steps in training.
        margin: Points that more segments at test must gain.
        puzzles: The data, in words.
        cycles: The numbers of cycles T.
    """
    statements = []
    late, early = {"eval.depth": 8}, {"eval.depth": 1}
    for t in cycles:
        shallow = {"cycles": t, "supervision_steps": min_steps}
        deep = {"cycles": t, "supervision_steps": max_steps}
        statements += [
            Claim(
                f"Weights that were trained with N_sup={max_steps} solve more after eight segments than after"
                f" one, T={t}, {puzzles}",
                lower={**deep, **early},
                higher={**deep, **late},
                margin=margin,
            ),
            Claim(
                f"Eight segments solve more where N_sup was {max_steps} in training than where it was"
                f" {min_steps}, T={t}, {puzzles}",
                lower={**shallow, **late},
                higher={**deep, **late},
            ),
            Claim(
                "ARC Prize of HRM on ARC-AGI: the loop at training matters more than at test; here TRM,"
                f" T={t}, {puzzles}",
                lower=Interaction(of={**deep, **late}, over={**deep, **early}),
                higher=Interaction(of={**deep, **early}, over={**shallow, **early}),
            ),
        ]
    return statements


REPORT = [
    Curve(
        "segments",
        x="eval.depth",
        y="exact_accuracy",
        by="variant",
        title="Puzzles solved by number of segments, same weights",
    ),
    Thinking(),
    Table(
        "depths",
        metrics=tuple(f"exact_accuracy@{depth}" for depth in (1, 2, 4, 8, 16)),
        title="Exact accuracy (%) by number of segments at test, same weights",
    ),
    Table(
        "solved",
        metrics=(
            "exact_accuracy",
            "cell_accuracy",
            "halted_exact_accuracy",
            "halted_steps",
            "train_exact_accuracy",
            "lawful_answers",
            "params",
            "train_pflop",
        ),
        targets=TARGETS,
    ),
    Replications(cell="trm_mlp_sudoku_extreme"),
    Pareto("cost", x="train_pflop", y="exact_accuracy", title="Accuracy against training FLOPs"),
    Residuals(),
    LearningCurves(metrics=("train_loss", "supervision_steps_used")),
]

FAST_METRICS = (
    "exact_accuracy",
    "cell_accuracy",
    "halted_exact_accuracy",
    "halted_steps",
    "params",
    "train_pflop",
    "mfu",
)
# Without published values: the fast recipe is not the paper's protocol.
FAST_REPORT = [
    *REPORT[:3],
    Table("solved", metrics=FAST_METRICS),
    LearningCurves(metrics=("train_loss", "supervision_steps_used")),
]

study = Study(
    name="sudoku_depth",
    presets={
        "quick": RunConfig(
            data=Sudoku(side=6, givens=10, rounds=7),
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
        "fast": RunConfig(
            data=SudokuExtreme(train_puzzles=1000, augmentations=1000, rounds=5000),
            model=MLP,
            train=TRAIN.model_copy(update=FAST),
            resources=Resources(compile="on", compile_mode="reduce-overhead"),
        ),
    },
    variants={
        "fast": [Variant("TRM-MLP, fast recipe", {})],
        "quick": grid({"train.supervision_steps": [1, 4], "model.cycles": [1, 2]}),
        "standard": grid(
            {"train.supervision_steps": [1, 4, 16], "model.cycles": [1, 3], "model.latent_steps": [6]}
        ),
        "paper": [
            *grid({"train.supervision_steps": [1, 4, 16], "model.cycles": [3], "model.latent_steps": [6]}),
            *grid({"train.supervision_steps": [16], "model.cycles": [1, 2], "model.latent_steps": [2]}),
        ],
    },
    seeds={"quick": 3, "standard": 1, "paper": 3, "fast": 3},
    max_seeds={"quick": 10},
    report={**dict.fromkeys(("quick", "standard", "paper"), REPORT), "fast": FAST_REPORT},
    claims={
        "quick": claims(1, 4, 40, "synthetic 6x6 Sudokus", 1, 2),
        "standard": claims(1, 16, 20, "synthetic 9x9 Sudokus", 1, 3),
        "paper": claims(1, 16, 20, "Sudoku-Extreme", 3),
    },
    deviations=(*deviations("puzzle_code"), *deviations("trm_code"), *deviations("trm_epochs")),
)

if __name__ == "__main__":
    main(study)
