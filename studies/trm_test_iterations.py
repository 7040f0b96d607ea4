"""Does TRM solve more Sudokus with up to 128 segments at test, from the same weights?

TRM (arXiv:2510.04871) trains and tests with up to 16 segments. Others ran public weights longer. This study
scores the same weights after every segment from 1 to 128. It asks whether the gain beyond 16 segments needs
TRM, and whether a depth curriculum in training (CGAR, arXiv:2511.08653) changes it.

Published, on Sudoku-Extreme, from one set of weights each, with 16, 32, 64 and 128 segments: alphaXiv's TRM
79.3, 81.4, 83.5 and 85.0 %, CGAR 86.1, 89.5, 91.7 and 93.2 %, and HRM 54.9, 58.0 and 59.9 % with up to 64
(reports by Aakash-Marthandan). A comment in issue 1 of helblazer811/Flow-Reasoning-Models reports about 96 %
with 128 for a TRM of its author. Margins are a third of a published difference.

The preset `weights` has one network, TRM-MLP on Sudoku-Extreme, for public weights that are not trained
further. Public weights of this network are gaoxin492/TinyRecursiveModels-Sudoku-Extreme-mlp and
MaximeILL/GAR_ckpts on Hugging Face. The first command below imports a checkpoint and prints the id of its
run. One set of weights has no other seeds, so the page shows its curve and decides no claim about TRM.

Caveats: all rows have equal updates, not equal FLOPs. The curriculum costs less per update. In quick an MLP
mixes the tokens of HRM too, because with attention HRM solves nothing in so few updates. One run of TRM in
quick solved 84.2 % with 16 segments and 85.6 % with 128, so small Sudokus may be too easy for this question.

Cost: quick (synthetic 6x6 Sudokus), a minute of a core per run (measured), 5 minutes on 2 idle cores; paper,
0.7 to 2.1 EFLOP per row to train and 0.9 to 1.5 EFLOP to test; weights, 1.5 EFLOP, two hours of one GPU.

    python studies/trm_test_iterations.py
    recstudy weights import CHECKPOINT sudoku_extreme --as trm --data DIR
    python studies/trm_test_iterations.py --preset weights --init-from RUN train.epochs=0 --data DIR
    python studies/trm_test_iterations.py --preset paper --data DIR
"""

from recstudy import Claim, Interaction, Resources, Study, deviations, grid, main
from recstudy.recursive import HRM, TRM, Residuals, RunConfig, Sudoku, SudokuExtreme, Thinking, TrainConfig
from recstudy.report import Curve, LearningCurves, Replications, Table

TRAINED, DEEPEST = 16, 128  # segments in training, and at most at test
# Each sample halts by itself. The last weights are evaluated, so nothing is selected on the test set.
TRAIN = TrainConfig(
    halting="sample",
    supervision_steps=TRAINED,
    evaluation_steps=TRAINED,
    evaluation_depths=DEEPEST,
    halt_weight=0.5,
    schedule="update",
    beta2=0.95,
    selection="last",
)
QUICK = {
    "epochs": 2,
    "supervision_steps": 4,
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
# As in HRM's code: 20,000 epochs, 2,000 of 26,000 updates of warm-up, and no average of the weights.
HRM_TRAINING = {"train.epochs": 4, "train.warmup": 0.0768, "train.ema_decay": 0.0}
SIZE = {
    "tokens": "cell",
    "width": 64,
    "heads": 4,
    "expansion": 2,
    "multiple": 32,
    "prefix": 1,
    "mixing": "mlp",
}
SMALL = TRM(**SIZE, layers=1, cycles=2, latent_steps=2)
# One trained embedding in front of every puzzle, the same for all.
CELLS = {"tokens": "cell", "puzzle_emb": "puzzle", "identifiers": 1}
MLP = TRM(**CELLS, mixing="mlp")
EXTREME = SudokuExtreme(train_puzzles=1000, augmentations=1000, rounds=5000)
CURRICULUM = {"model.curriculum": "thirds"}


def claims(puzzles: str) -> list[Claim]:
    """Return the findings about depth at test as claims about these puzzles."""

    def selector(model: str, depth: int) -> dict[str, object]:
        return {"model": model, "eval.depth": depth}

    def gain(model: str) -> Interaction:
        return Interaction(of=selector(model, DEEPEST), over=selector(model, TRAINED))

    return [
        Claim(
            f"Aakash, of alphaXiv's weights: 128 segments at test solve more than 16 (5.7 points), {puzzles}",
            lower=selector("TRM", TRAINED),
            higher=selector("TRM", DEEPEST),
            margin=1.9,
        ),
        Claim(
            f"Aakash, of alphaXiv's weights: 128 segments still solve more than 64 (1.5 points), {puzzles}",
            lower=selector("TRM", 64),
            higher=selector("TRM", DEEPEST),
            margin=0.5,
        ),
        Claim(
            f"Aakash, of HRM's weights: 64 segments at test solve more than 16 (5.0 points), {puzzles}",
            lower=selector("HRM", TRAINED),
            higher=selector("HRM", 64),
            margin=1.7,
        ),
        Claim(
            f"Aakash: CGAR's curriculum gains more than TRM from 16 to 128 (7.1 against 5.7), {puzzles}",
            lower=gain("TRM"),
            higher=gain("CGAR"),
            margin=0.5,
        ),
    ]


# "Approximately 96 %", so a point less is still about as much.
REPORTED = Claim(
    "An issue of Flow-Reasoning-Models: TRM solves about 96 % with 128 segments, Sudoku-Extreme",
    of={"model": "TRM", "eval.depth": DEEPEST},
    at_least=95.0,
)
REPORT = [
    Table(
        "depths",
        metrics=tuple(f"exact_accuracy@{depth}" for depth in (1, 2, 4, 8, 16, 32, 64, 128)),
        title="Exact accuracy (%) by number of segments at test, same weights",
    ),
    Curve(
        "segments",
        x="eval.depth",
        y="exact_accuracy",
        by="model",
        title="Puzzles solved by number of segments, same weights",
    ),
    Table(
        "models",
        metrics=(
            "exact_accuracy",
            "cell_accuracy",
            "train_exact_accuracy",
            "halted_exact_accuracy",
            "halted_steps",
            "params",
            "train_pflop",
        ),
        title="Exact accuracy with 16 segments, and what training cost",
    ),
    Replications("others", cell="trm_mlp_sudoku_extreme"),
    Residuals(),
    Thinking(),
    LearningCurves(metrics=("train_loss", "supervision_steps_used")),
]

study = Study(
    name="trm_test_iterations",
    presets={
        "quick": RunConfig(
            data=Sudoku(side=6, givens=12, rounds=8),
            model=SMALL,
            train=TRAIN.model_copy(update=QUICK),
            resources=Resources(gpus=0),
        ),
        "weights": RunConfig(data=EXTREME, model=MLP, train=TRAIN.model_copy(update=PAPER)),
        "paper": RunConfig(data=EXTREME, model=MLP, train=TRAIN.model_copy(update=PAPER)),
    },
    variants={
        "quick": grid(
            {
                "model": {
                    "TRM": {"model": SMALL},
                    "CGAR": CURRICULUM,
                    "HRM": {"model": HRM(**SIZE, high_layers=1, low_layers=1)},
                }
            }
        ),
        "weights": grid({"model": {"TRM": {"model": MLP}}}),
        "paper": grid(
            {
                "model": {
                    "TRM": {"model": MLP},
                    "CGAR": CURRICULUM,
                    "HRM": {"model": HRM(**CELLS), **HRM_TRAINING},
                }
            }
        ),
    },
    seeds={"quick": 3, "weights": 1, "paper": 3},
    max_seeds={"quick": 10},
    report=REPORT,
    claims={
        "quick": claims("synthetic 6x6 Sudokus"),
        "weights": [],  # one set of weights has no spread over seeds
        "paper": [*claims("Sudoku-Extreme"), REPORTED],
    },
    deviations=(*deviations("puzzle_code"), *deviations("trm_code"), *deviations("trm_epochs")),
)

if __name__ == "__main__":
    main(study)
