"""How deep must a tiny recursive model think to solve a Sudoku, at training and at test?

TRM (arXiv:2510.04871) supervises up to N_sup segments on a puzzle, each of T cycles of n updates, and tests
with 16. Here the same weights are scored after every segment, and N_sup, T and n are varied. Each sample
halts by itself, so that an update is one segment whatever N_sup is: rows of one T and n are equal in updates
and in FLOPs. Of rows with another T or n, which cost more an update, `cost` shows accuracy against training
FLOPs. Published: 87.4 % on Sudoku-Extreme with T=3, n=6, N_sup=16, trained on 1,000 puzzles; 73.7 % with
T=n=2; 63.2 % with T=1, n=2. The preset fast is a recipe of recstudy and not the paper's protocol: Muon, CUDA
graphs and a third of the updates. Published values are not shown beside it.
Cost: quick (synthetic 6x6 Sudokus), 7 minutes on 2 cores (measured); standard (9x9), an hour of one GPU;
paper, 2.1 EFLOP a row of T=3; fast, a third of that.

    python studies/sudoku_depth.py
    python studies/sudoku_depth.py --preset paper --data DIR
"""

from recstudy import (
    Claim,
    Interaction,
    Resources,
    RunConfig,
    Study,
    TrainConfig,
    Variant,
    deviations,
    grid,
    main,
    published,
)
from recstudy.data import Sudoku, SudokuExtreme
from recstudy.models import TRM
from recstudy.report import Curve, LearningCurves, Pareto, Replications, Residuals, Table, Thinking

DEEPER = {
    "margin": 1.0,
    "why": "a thirteenth of the 13.7 points between T=3, n=6 and T=n=2, the least that is drawn on here",
}
TARGETS = (
    *published("trm_table1_sudoku_ablation", **DEEPER, only=("exact_accuracy", "params")),
    *published("trm_table3_recursions", **DEEPER, only=("exact_accuracy",)),
)
SLOTS = TrainConfig(
    halting="sample", supervision_steps=16, evaluation_steps=16, evaluation_depths=16, halt_weight=0.5, schedule="update",
    beta2=0.95, selection="last",
)  # fmt: skip
QUICK = {
    "epochs": 4, "batch_size": 32, "learning_rate": 4e-3, "final_learning_rate": 4e-4, "warmup": 0.03, "weight_decay": 0.1,
    "ema_decay": 0.99,
}  # fmt: skip
# The published code's: a constant rate after 2,000 of 65,100 updates (50,000 epochs of 1,000 puzzles).
PAPER = {
    "epochs": 10, "batch_size": 768, "learning_rate": 1e-4, "final_learning_rate": 1e-4, "warmup": 0.03072, "weight_decay": 1.0,
    "puzzle_learning_rate": 1e-4, "puzzle_weight_decay": 1.0, "ema_decay": 0.999, "optimizer": "adam_atan2", "loss": "stablemax",
    "precision": "bfloat16",
}  # fmt: skip
# Ours, untried on a GPU: Muon's steps have the size of AdamW's, for which 1e-3 is usual at this width; the
# rate falls to a tenth.
FAST = PAPER | {
    "optimizer": "muon",
    "epochs": 3,
    "learning_rate": 1e-3,
    "final_learning_rate": 1e-4,
    "weight_decay": 0.1,
}
# one trained row in front, the same for all puzzles
CELLS = {"tokens": "cell", "puzzle_emb": "puzzle", "identifiers": 1}
MLP = TRM(**CELLS, mixing="mlp")
SMALL = TRM(
    tokens="cell", mixing="mlp", width=64, expansion=2, multiple=32, prefix=1, cycles=1, latent_steps=1
)


def claims(few: int, many: int, by: float, on: str, *cycles: int) -> list[Claim]:
    """What recursion is said to be for, at each number of cycles T, which interacts with all of it.

    Args:
        few: supervision steps in training.
        many: the same, more.
        by: points that segments at test are to gain.
        on: the data.
        cycles: T.
    """
    found = []
    for t in cycles:
        one, deep = ({"cycles": t, "supervision_steps": steps} for steps in (few, many))
        late, early = {"eval.depth": 8}, {"eval.depth": 1}
        found += [
            Claim(f"Weights that were trained with N_sup={many} solve more after eight segments than after one, T={t}, {on}",
                  lower={**deep, **early}, higher={**deep, **late}, margin=by),
            Claim(f"Eight segments solve more where N_sup was {many} in training than where it was {few}, T={t}, {on}",
                  lower={**one, **late}, higher={**deep, **late}),
            Claim(f"ARC Prize of HRM on ARC-AGI: the loop at training matters more than at test; asked of TRM, T={t}, {on}",
                  lower=Interaction(of={**deep, **late}, over={**deep, **early}), higher=Interaction(of={**deep, **early}, over={**one, **early})),
        ]  # fmt: skip
    return found


REPORT = [
    Curve("segments", x="eval.depth", y="exact_accuracy", by="variant", title="Solved after so many segments, same weights"),
    Thinking(),
    Table(
        "depths",
        metrics=tuple(f"exact_accuracy@{depth}" for depth in (1, 2, 4, 8, 16)),
        title="Exact accuracy (%) after so many segments at test, same weights",
    ),
    Table(
        "solved",
        metrics=("exact_accuracy", "cell_accuracy", "halted_exact_accuracy", "halted_steps", "train_exact_accuracy",
                 "lawful_answers", "params", "train_pflop"),
        targets=TARGETS,
    ),
    Replications(cell="trm_mlp_sudoku_extreme"),
    Pareto("cost", x="train_pflop", y="exact_accuracy", title="Accuracy against FLOPs of training"),
    Residuals(),
    LearningCurves(metrics=("train_loss", "supervision_steps_used")),
]  # fmt: skip

SOLVED = (
    "exact_accuracy",
    "cell_accuracy",
    "halted_exact_accuracy",
    "halted_steps",
    "params",
    "train_pflop",
    "mfu",
)
FAST_REPORT = [
    *REPORT[:3],
    Table("solved", metrics=SOLVED),
    LearningCurves(metrics=("train_loss", "supervision_steps_used")),
]

study = Study(
    name="sudoku_depth",
    presets={
        "quick": RunConfig(
            data=Sudoku(side=6, givens=10, rounds=7),
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
        "fast": RunConfig(
            data=SudokuExtreme(train_puzzles=1000, augmentations=1000, rounds=5000),
            model=MLP,
            train=SLOTS.model_copy(update=FAST),
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
