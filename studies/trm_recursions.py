"""How much recursion do HRM and TRM need at equal effective depth?

Table 3 of the TRM paper (arXiv:2510.04871) raises T and n of both models. A segment of T cycles, each with n
+ 1 updates of L layers, is T (n + 1) L layers deep. HRM has four layers per network there and TRM has two. At
the same T, TRM therefore has twice the n of HRM and about the same depth. Quick has one layer per network in
both models, so their depths are equal. The preset paper also has the mazes of Table 4, where TRM has n=4.

Published: Sudoku-Extreme with 1,000 puzzles, one run each: HRM from 46.4 % at depth 9 to 62.3 at 84; TRM from
63.2 at 7 to 87.4 at 42, and 84.2 at 72. TRM ran out of memory at n=12, because its gradient goes through a
whole cycle and HRM's through two updates.

Caveats: the paper quotes HRM's 55.0 % at depth 24, and HRM and direct prediction of Table 4, from the HRM
paper. That paper has 20,000 epochs and no average of the weights; TRM has 50,000 epochs and an average. The
preset `paper` trains each model in its own way. The paper does not state how HRM was trained at its other
depths. Quick and standard train both models alike. In quick an MLP mixes the tokens of both, because with
attention HRM solves nothing in so few updates (tests/benchmarks/LOG.md). At T=n=1, HRM's depth is 8 by the
paper's formula, and 9 in its table. At T=1 and n=2, TRM's is 6 by the formula, and 7 in its table. The rows
of one model have equal updates, not equal FLOPs; see the figure `cost`.

Cost: quick (synthetic 6x6 Sudokus), 8 minutes on 2 cores (measured); standard (9x9), a day of one GPU; paper,
0.5 to 10 EFLOP per row.

    python studies/trm_recursions.py
    python studies/trm_recursions.py --preset paper --data DIR
"""

from recstudy import Claim, Deviation, Interaction, Resources, Study, Variant, deviations, main, published
from recstudy.papers import Target
from recstudy.recursive import (
    HRM,
    TRM,
    MazeHard,
    Residuals,
    RunConfig,
    Sudoku,
    SudokuExtreme,
    TrainConfig,
    Transformer,
)
from recstudy.report import Curve, LearningCurves, Pareto, Part, Table

SUDOKUS = published(
    "trm_table3_recursions",
    margin=0.5,
    only=("exact_accuracy",),
    why="a third of the 1.6 points between TRM at depth 42 and 84, the smallest step of its column",
)
TABLE_4 = published(
    "trm_table4_puzzles",
    margin=1.0,
    only=("exact_accuracy",),
    why="ten of 1,000 mazes, a tenth of the 10.8 points between HRM and TRM-Att",
)
MAZES = tuple(target for target in TABLE_4 if target.where["data.name"] == "maze_hard")
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
# As in the HRM paper, from which Table 4 quotes: 20,000 epochs, 2,000 of 26,000 updates of warm-up, and no
# average of the weights.
QUOTED = {"train.epochs": 4, "train.warmup": 0.0768, "train.ema_decay": 0.0}
# An MLP mixes the tokens of both: with attention HRM solves nothing in so few updates.
SIZE = {
    "tokens": "cell",
    "width": 64,
    "heads": 4,
    "expansion": 2,
    "multiple": 32,
    "prefix": 1,
    "mixing": "mlp",
}
SMALL, SMALL_HRM = TRM(**SIZE, layers=1), HRM(**SIZE, high_layers=1, low_layers=1)
# One trained embedding in front of every puzzle, the same for all.
CELLS = {"tokens": "cell", "puzzle_emb": "puzzle", "identifiers": 1}
MLP, FULL_HRM = TRM(**CELLS, mixing="mlp"), HRM(**CELLS)
# Pairs (T, n). In the paper, TRM runs out of memory at n=12.
SMALL_ROWS = [(1, 1), (2, 2), (3, 3)]
HRM_ROWS = [(1, 1), (2, 2), (3, 3), (4, 4), (3, 6), (6, 3), (6, 6)]
TRM_ROWS = [(1, 2), (2, 4), (3, 6), (4, 8), (6, 6)]
STANDARD_ROWS = 3  # rows of each model in the preset standard


def variants(
    trm: TRM,
    hrm: HRM,
    trm_rows: list[tuple[int, int]],
    hrm_rows: list[tuple[int, int]],
    hrm_training: dict[str, float],
) -> list[Variant]:
    """Return both models at each (T, n), with their effective depth."""
    axes = {"model": "model", "T": "T", "n": "n", "depth": "depth"}
    models = [
        ("HRM", t, n, hrm.high_layers, hrm.model_copy(update={"high_cycles": t, "low_cycles": n}))
        for t, n in hrm_rows
    ]
    models += [
        ("TRM", t, n, trm.layers, trm.model_copy(update={"cycles": t, "latent_steps": n}))
        for t, n in trm_rows
    ]
    return [
        Variant(
            f"{name}, T={t}, n={n}",
            {"model": model, **(hrm_training if name == "HRM" else {})},
            # A segment has T cycles of n + 1 updates of L layers.
            {"model": name, "T": t, "n": n, "depth": t * (n + 1) * layers},
            axes,
        )
        for name, t, n, layers, model in models
    ]


def mazes() -> list[Variant]:
    """Return the rows of Maze-Hard in Table 4."""
    models = {
        "Direct pred": {
            "model": Transformer(**CELLS, heads=12),
            **QUOTED,
            "train.supervision_steps": 1,
            "train.evaluation_steps": 1,
        },
        "HRM": {"model": HRM(**CELLS), **QUOTED},
        # TRM has n=4 on mazes.
        "TRM-Att": {"model": TRM(**CELLS, latent_steps=4)},
        "TRM-MLP": {"model": TRM(**CELLS, latent_steps=4, mixing="mlp")},
    }
    data = MazeHard(train_puzzles=1000, augmentations=0, rounds=5000)
    return [
        Variant(f"{name}, mazes", {"data": data, **changes}, {"model": name}, {"model": "model"})
        for name, changes in models.items()
    ]


def claims(min_cycles: int, max_cycles: int, ratio: int, puzzles: str) -> list[Claim]:
    """Return the paper's conclusions from Table 3. Each margin is about half of the printed difference.

    Args:
        min_cycles: T and n of HRM with the least recursion.
        max_cycles: T and n of HRM with the most recursion.
        ratio: n of TRM over n of HRM.
        puzzles: The data, in words.
    """
    flat, deep = ({"model": "HRM", "T": t, "n": t} for t in (min_cycles, max_cycles))
    flat_trm, deep_trm = ({"model": "TRM", "T": t, "n": ratio * t} for t in (min_cycles, max_cycles))
    return [
        Claim(
            f"At about equal depth TRM solves more than HRM, T={min_cycles}, {puzzles}",
            lower=flat,
            higher=flat_trm,
            margin=8.0,
        ),
        Claim(
            f"At about equal depth TRM solves more than HRM, T={max_cycles}, {puzzles}",
            lower=deep,
            higher=deep_trm,
            margin=13.0,
        ),
        Claim(
            f"TRM solves more with more recursion, T={min_cycles} to {max_cycles}, {puzzles}",
            lower=flat_trm,
            higher=deep_trm,
            margin=12.0,
        ),
        Claim(
            f"HRM solves more with more recursion, T={min_cycles} to {max_cycles}, {puzzles}",
            lower=flat,
            higher=deep,
            margin=7.0,
        ),
        Claim(
            f"TRM gains more by recursion than HRM, {puzzles}",
            lower=Interaction(of=deep, over=flat),
            higher=Interaction(of=deep_trm, over=flat_trm),
        ),
    ]


def report(data: str, targets: tuple[Target, ...] = SUDOKUS) -> list[Part]:
    """Return the report. Its figures show this data set only."""
    return [
        Curve(
            "depth",
            x="depth",
            y="exact_accuracy",
            by="model",
            where={"data.name": data},
            title="Exact accuracy against effective depth",
        ),
        Table(
            "table3",
            metrics=(
                "exact_accuracy",
                "cell_accuracy",
                "train_exact_accuracy",
                "params",
                "train_gflops",
                "train_pflop",
            ),
            settings=("depth",),
            group="data",
            targets=targets,
            title="Tables 3 and 4 of the TRM paper: recursion of both",
        ),
        Pareto("cost", x="train_pflop", y="exact_accuracy", title="Accuracy against training FLOPs"),
        Curve(
            "segments",
            x="eval.depth",
            y="exact_accuracy",
            by="variant",
            where={"data.name": data},
            title="Puzzles solved by number of segments, same weights",
        ),
        Residuals(),
        LearningCurves(metrics=("train_loss", "supervision_steps_used")),
    ]


study = Study(
    name="trm_recursions",
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
    variants={
        "quick": variants(SMALL, SMALL_HRM, SMALL_ROWS, SMALL_ROWS, {}),
        "standard": variants(MLP, FULL_HRM, TRM_ROWS[:STANDARD_ROWS], HRM_ROWS[:STANDARD_ROWS], {}),
        "paper": [*variants(MLP, FULL_HRM, TRM_ROWS, HRM_ROWS, QUOTED), *mazes()],
    },
    seeds={"quick": 3, "standard": 1, "paper": 3},
    max_seeds={"quick": 10},
    report={
        "quick": report("sudoku"),
        "standard": report("sudoku"),
        "paper": report("sudoku_extreme", (*SUDOKUS, *MAZES)),
    },
    claims={
        "quick": claims(1, 3, 1, "on synthetic 6x6 Sudokus"),
        "standard": claims(1, 3, 2, "on synthetic 9x9 Sudokus"),
        "paper": claims(1, 3, 2, "Sudoku-Extreme"),
    },
    deviations=(
        *deviations("puzzle_code"),
        *deviations("trm_code"),
        *deviations("trm_epochs"),
        *deviations("direct_prediction"),
        Deviation(
            field="data.augmentations",
            paper=7,
            ours=0,
            why=(
                "TRM's text has all 8 dihedral symmetries of a maze; its builder's default and the HRM paper"
                " have none"
            ),
        ),
    ),
)

if __name__ == "__main__":
    main(study)
