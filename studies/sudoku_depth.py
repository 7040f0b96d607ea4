"""How deep must a tiny recursive model think to solve a Sudoku, at training and at test?

TRM (arXiv:2510.04871) supervises up to N_sup segments on a puzzle, each of T cycles of n updates, and tests with 16. Here the
same weights are scored after every segment, and N_sup, T and n are varied. Each sample halts by itself, so that an update is one
segment whatever N_sup is: rows of one T and n are equal in updates and in FLOPs. Of rows with another T or n, which cost more
an update, `cost` shows accuracy against training FLOPs.
Published: 87.4 % on Sudoku-Extreme with T=3, n=6, N_sup=16, trained on 1,000 puzzles; 73.7 % with T=n=2.
Cost: quick (drawn 6x6 Sudokus), 5 minutes on 2 cores; standard and paper, see --dry-run.

    python studies/sudoku_depth.py
    python studies/sudoku_depth.py --preset paper --data DIR
"""

from recstudy import Claim, Gain, Place, RunConfig, Study, TrainConfig, grid, main
from recstudy.data import Sudoku
from recstudy.models import TRM
from recstudy.report import Curve, HeatMap, LearningCurves, Pareto, Table

SEGMENTS = (1, 2, 4, 8, 16)
SLOTS = TrainConfig(
    halting="sample", supervision_steps=16, evaluation_steps=16, evaluation_depths=16, loss="stablemax", halt_weight=0.5,
    optimizer="adamw", beta2=0.95, schedule="update", selection="last",
)  # fmt: skip
SMALL = TRM(tokens="cell", mixing="mlp", width=64, expansion=2, multiple=32, prefix=1, cycles=1, latent_steps=1)


def claims(few: int, many: int, by: float) -> list[Claim]:
    """What recursion is said to be for, by points of exact accuracy; `few` and `many` supervision steps."""
    deep, late = {"supervision_steps": many}, {"eval.depth": 8}
    return [
        Claim(f"The same weights, trained with N_sup={many}, solve more puzzles after eight segments than after one",
              less={**deep, "eval.depth": 1}, than={**deep, **late}, by=by),
        Claim(f"Recursion at test has to be learned: eight segments solve more where N_sup was {many} than where it was {few}",
              less={"supervision_steps": few, **late}, than={**deep, **late}, by=by),
        Claim("Loops at training matter more than loops at test",
              less=Gain(of={**deep, **late}, over={**deep, "eval.depth": 1}),
              than=Gain(of={**deep, **late}, over={"supervision_steps": few, **late})),
    ]  # fmt: skip


REPORT = [
    Curve("segments", x="eval.depth", y="exact_accuracy", by="variant", title="Puzzles solved after so many segments, same weights"),
    Table("depths", metrics=tuple(f"exact_accuracy@{depth}" for depth in SEGMENTS), title="Exact accuracy (%) after segments at test"),
    Table("solved", metrics=("exact_accuracy", "cell_accuracy", "halted_exact_accuracy", "halted_steps", "train_exact_accuracy",
                             "lawful_answers", "params", "train_pflop")),
    Pareto("cost", x="train_pflop", y="exact_accuracy", title="Equal FLOPs: accuracy after 16 segments against those of training"),
    LearningCurves(metrics=("train_loss", "supervision_steps_used")),
]  # fmt: skip

study = Study(
    name="sudoku_depth",
    presets={
        "quick": RunConfig(
            data=Sudoku(side=6, givens=10, rounds=8),
            model=SMALL,
            train=SLOTS.model_copy(
                update={"epochs": 4, "batch_size": 32, "learning_rate": 4e-3, "final_learning_rate": 4e-4, "warmup": 0.03,
                        "weight_decay": 0.1, "ema_decay": 0.99, "loss": "softmax"}
            ),
            place=Place(gpus_per_run=0),
        ),
    },
    variants={"quick": grid({"train.supervision_steps": [1, 4], "model.cycles": [1, 2]})},
    seeds={"quick": 3},
    report=REPORT,
    claims={"quick": claims(1, 4, by=40)},
)  # fmt: skip

if __name__ == "__main__":
    main(study)
