"""Does TRM learn more from two backward passes before each update than from one?

TRM (arXiv:2510.04871) takes one supervision step on a batch of samples and then updates its weights. Pull
request 41 of SamsungSAILMontreal/TinyRecursiveModels takes two supervision steps, adds their gradients, and
updates once. A sample that halts after the first step is replaced before the second one, by the sample of
the same batch. This study repeats the comparison with several seeds, as `train.passes`. Two passes cost twice
as much per update, so two more rows cost as much: one pass with twice the updates, and one pass with twice
the batch.

Published, on Sudoku-Extreme, TRM-MLP, after 39,060 updates, from one run each: 64.9 % with one pass and 87.9
% with two (the pull request). The author of olivkoch/nano-trm tried it and found a negligible difference,
without a number.

Caveats: the two reports contradict each other, so both are claims, with a third of the 23 points as one
margin and two points as the other. Retrainings of TRM-MLP vary by about four points (docs/replications.md).
The last two claims are ours.

Cost: quick (synthetic 6x6 Sudokus), 8 minutes in one process (measured); paper, 1.3 EFLOP with one pass and
2.6 EFLOP for each other row.

    python studies/trm_two_passes.py
    python studies/trm_two_passes.py --preset paper --data DIR
"""

from recstudy import Claim, Resources, Study, Variant, deviations, leave_one_out, main
from recstudy.recursive import TRM, RunConfig, Sudoku, SudokuExtreme, TrainConfig
from recstudy.report import Curve, Differences, LearningCurves, Pareto, Replications, Table

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
    "batch_size": 32,
    "learning_rate": 4e-3,
    "final_learning_rate": 4e-4,
    "warmup": 0.03,
    "weight_decay": 0.1,
    "ema_decay": 0.99,
}
# As in the published code, a constant rate after 2,000 updates. 39,060 updates are 30,000 epochs.
PAPER = {
    "epochs": 6,
    "batch_size": 768,
    "learning_rate": 1e-4,
    "final_learning_rate": 1e-4,
    "warmup": 0.0512,
    "weight_decay": 1.0,
    "puzzle_learning_rate": 1e-4,
    "puzzle_weight_decay": 1.0,
    "ema_decay": 0.999,
    "optimizer": "adam_atan2",
    "loss": "stablemax",
    "precision": "bfloat16",
}
SMALL = TRM(
    tokens="cell", mixing="mlp", width=64, expansion=2, multiple=32, prefix=1, cycles=1, latent_steps=1
)
# One trained embedding in front of every puzzle, the same for all.
MLP = TRM(tokens="cell", puzzle_emb="puzzle", identifiers=1, mixing="mlp")
QUICK_ROUNDS, PAPER_ROUNDS = 8, 5000  # symmetries of each puzzle per epoch


def variants(rounds: int, batch: int, warmup: float, **settings: int) -> list[Variant]:
    """Return one pass, two passes, and two rows with one pass that cost as much as two.

    Args:
        rounds: Rounds per epoch of one pass.
        batch: Batch size of one pass.
        warmup: Share of the updates that are warm-up; twice the updates have half of it.
        **settings: Further settings of the row with twice the batch.
    """
    return leave_one_out(
        {
            "two passes": {"train.passes": 2},
            "one pass, updates x 2": {"data.rounds": 2 * rounds, "train.warmup": warmup / 2},
            "one pass, batch x 2": {"data.rounds": 2 * rounds, "train.batch_size": 2 * batch, **settings},
        },
        base="one pass",
    )


def claims(puzzles: str) -> list[Claim]:
    """Return both reports, and the comparison at equal FLOPs, as claims about these puzzles."""
    one_pass, two_passes = {"variant": "one pass"}, {"variant": "two passes"}
    return [
        Claim(
            f"Pull request 41: two passes solve more than one, at equal updates (23.0 points), {puzzles}",
            lower=one_pass,
            higher=two_passes,
            margin=7.7,
        ),
        Claim(
            f"nano-trm's author: two passes or one make a negligible difference (within 2 points), {puzzles}",
            lower=one_pass,
            higher=two_passes,
            within=2.0,
        ),
        *(
            Claim(
                f"Two passes solve more than one pass with twice the {size}, at equal FLOPs, {puzzles}",
                lower={"variant": f"one pass, {size} x 2"},
                higher=two_passes,
                margin=2.0,
            )
            for size in ("updates", "batch")
        ),
    ]


study = Study(
    name="trm_two_passes",
    presets={
        "quick": RunConfig(
            data=Sudoku(side=6, givens=12, rounds=QUICK_ROUNDS),
            model=SMALL,
            train=TRAIN.model_copy(update=QUICK),
            resources=Resources(gpus=0),
        ),
        "paper": RunConfig(
            data=SudokuExtreme(train_puzzles=1000, augmentations=1000, rounds=PAPER_ROUNDS),
            model=MLP,
            train=TRAIN.model_copy(update=PAPER),
        ),
    },
    variants={
        "quick": variants(QUICK_ROUNDS, QUICK["batch_size"], QUICK["warmup"]),
        # Twice the batch needs 84 GB, so two GPUs share it.
        "paper": variants(PAPER_ROUNDS, PAPER["batch_size"], PAPER["warmup"], **{"resources.workers": 2}),
    },
    seeds=3,
    max_seeds={"quick": 10},
    report=[
        Table(
            "passes",
            metrics=(
                "exact_accuracy",
                "cell_accuracy",
                "train_exact_accuracy",
                "halted_exact_accuracy",
                "halted_steps",
                "supervision_steps_used",
                "train_pflop",
            ),
            title="One or two backward passes before each update",
        ),
        Differences("differences", metric="exact_accuracy"),
        Curve(
            "segments",
            x="eval.depth",
            y="exact_accuracy",
            by="variant",
            title="Puzzles solved by number of segments, same weights",
        ),
        Pareto("cost", x="train_pflop", y="exact_accuracy", title="Accuracy against training FLOPs"),
        Replications("others", cell="trm_mlp_sudoku_extreme"),
        LearningCurves(metrics=("train_loss", "supervision_steps_used")),
    ],
    claims={"quick": claims("synthetic 6x6 Sudokus"), "paper": claims("Sudoku-Extreme")},
    deviations=deviations("puzzle_code"),
)

if __name__ == "__main__":
    main(study)
