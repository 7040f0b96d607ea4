"""Which findings of follow-up work on TRM hold on small Sudokus?

Authors who built on TRM (arXiv:2510.04871) and HRM report what helps: more segments at test, noise with a
choice among trajectories, votes of copies, random starts, a curriculum, feedback of the answer, and other
batch sizes and lengths of training. Most of their figures come from one run on Sudoku-Extreme or ARC-AGI.
Here each finding is one claim about exact accuracy. Its margin is a third of the published difference,
because a smaller effect would be a different finding. A claim whose margin has another reason says so.

The sources are PTRM (arXiv:2605.19943), EqR (2605.21488), CGAR (2511.08653), the papers 2510.00355,
2512.11847, 2604.21999 (a universal transformer) and 2608.24136, reports by alphaXiv and Aakash, and
repositories that retrained TRM. TRM's own findings are from its Table 1.

Caveats: random start, noise and feedback are our implementations. Copies use all symmetries of a Sudoku, not
only those of its digits. Rows have equal updates, not equal FLOPs; the table shows both.

Four groups of findings are not tested:

- The puzzle's identifier, and symbols tied by symmetry. One family of rules and this embedding cannot show an
  effect.
- Checkpoints that vote, and HRM's two modules: see hrm_outer_loop.
- Four layers of attention, and a loss at the last step alone or at each step (one update per batch in both
  cases). These solve nothing in so few updates.
- Round-off, which belongs to an evaluation and not to a run, and the variance over seeds, which the dots
  show.

RSM (2603.15641, 97.5 %) and Sotaku (99.12 % after 1,024 iterations) are not comparable: they train on 3.83
million and 2.7 million puzzles, TRM on 1,000. Speed is Confidence (2601.19085) takes the first of several
models that halts (97 %), or trains the best of four states (96.9 %), with Muon and another SwiGLU. Their
numbers are in `papers/replications.csv`. Two papers are about sequences: 2604.21106 finds that r recurrences
of a block are worth r^0.46 blocks in language models, and 2603.08082 finds no gain from an autoregressive TRM
at matched compute. The study recursion_or_depth tests this on images and Sudokus.

Cost: quick (synthetic 6x6 Sudokus), an hour in one process for up to five seeds (measured); standard (9x9), a
day of one GPU.

    python studies/field_claims.py
    python studies/field_claims.py --preset standard
"""

from typing import Any

from recstudy import Claim, Resources, Study, Variant, leave_one_out, main
from recstudy.recursive import TRM, AtTest, RunConfig, Sudoku, TrainConfig
from recstudy.report import Curve, LearningCurves, Part, Table

# Each sample halts by itself. The last weights are evaluated, so nothing is selected on the test set.
TRAIN = TrainConfig(
    halting="sample",
    supervision_steps=16,
    evaluation_steps=16,
    evaluation_depths=64,
    halt_weight=0.5,
    schedule="update",
    beta2=0.95,
    selection="last",
)
QUICK = {
    "epochs": 3,
    "supervision_steps": 4,
    "batch_size": 32,
    "learning_rate": 4e-3,
    "final_learning_rate": 4e-4,
    "warmup": 0.03,
    "weight_decay": 0.1,
    "ema_decay": 0.99,
    "at_test": AtTest(trajectories=16, copies=8),
}
STANDARD = {
    "epochs": 10,
    "batch_size": 768,
    "learning_rate": 1e-4,
    "final_learning_rate": 1e-4,
    "warmup": 0.03072,
    "weight_decay": 1.0,
    "ema_decay": 0.999,
    "optimizer": "adam_atan2",
    "loss": "stablemax",
    "precision": "bfloat16",
    "at_test": AtTest(trajectories=100, segments=64, copies=32, puzzles=1000),
}
SIZE = {"tokens": "cell", "mixing": "mlp"}
SMALL = TRM(**SIZE, width=64, expansion=2, multiple=32, prefix=1, cycles=1, latent_steps=1)
# Copies, trajectories and 64 segments are expensive. Rows whose claims do not need them run without.
WITHOUT_EXTRA_TESTS = {"train.at_test": AtTest(), "train.evaluation_depths": 16}
# T=n=3 as in trm_recursions, which is deep enough for a curriculum.
DEEP = {
    "data.givens": 12,
    "model.heads": 4,
    "model.layers": 1,
    "model.cycles": 3,
    "model.latent_steps": 3,
    "train.epochs": 2,
    "train.evaluation_steps": 8,
    "train.evaluation_depths": 8,
    "train.at_test": AtTest(),
}


def variants(rounds: int, batch: int, epochs: int, steps: int, deep: dict[str, Any]) -> list[Variant]:
    """Return TRM and its variants, one for each change that a claim is about.

    Args:
        rounds: Rounds per epoch of TRM.
        batch: Batch size of TRM.
        epochs: Epochs of TRM.
        steps: Latent steps n of TRM.
        deep: Other settings of the two deep variants, one of which has a curriculum.
    """
    changes = {
        **{
            f"halting bias {bias}": {"model.halt_bias": float(bias), **WITHOUT_EXTRA_TESTS}
            for bias in (-3, 0, 1)
        },
        "no halting in training": {"train.halt_weight": 0.0, **WITHOUT_EXTRA_TESTS},
        "random start": {"model.start": "random", **WITHOUT_EXTRA_TESTS},
        "random start and noise": {"model.start": "random", "model.noise": 0.5, "train.at_test": AtTest()},
        "feedback": {"model.feedback": 1.0, **WITHOUT_EXTRA_TESTS},
        "feedback reversed": {"model.feedback": -1.0, **WITHOUT_EXTRA_TESTS},
        "batch / 4": {"data.rounds": rounds // 4, "train.batch_size": batch // 4, **WITHOUT_EXTRA_TESTS},
        "batch x 4": {"data.rounds": 4 * rounds, "train.batch_size": 4 * batch, **WITHOUT_EXTRA_TESTS},
        "epochs x 2": {"train.epochs": 2 * epochs, **WITHOUT_EXTRA_TESTS},
        "no average of weights": {"train.ema_decay": 0.0, **WITHOUT_EXTRA_TESTS},
        "n x 2": {"model.latent_steps": 2 * steps, **WITHOUT_EXTRA_TESTS},
        "n x 2, one-step gradient": {
            "model.latent_steps": 2 * steps,
            "model.gradient": "one_step",
            **WITHOUT_EXTRA_TESTS,
        },
    }
    rows = leave_one_out({**changes, "deep": deep}, base="TRM")
    return [*rows, Variant("deep, curriculum", {**deep, "model.curriculum": "thirds"}, base="deep")]


def claims(trajectories: int, copies: int, puzzles: str) -> list[Claim]:
    """Return the findings of follow-up work as claims about these puzzles."""
    trm = {"variant": "TRM"}

    def row(label: str) -> dict[str, Any]:
        return {"variant": label}

    def at_test(name: str, count: int = 0) -> dict[str, Any]:
        return {**trm, "metric": f"{name}.{count}" if count else name}

    baseline = at_test("exact_accuracy")
    late, early = {**trm, "eval.depth": 64}, {**trm, "eval.depth": 16}
    noisy = row("random start and noise")
    vote, any_copy = at_test("voted_exact_accuracy", copies), at_test("any_copy_exact_accuracy", copies)
    surest = at_test("noisy_exact_accuracy", trajectories)
    findings: list[tuple[str, float, Any, Any]] = [  # sentence, published points, lower side, higher side
        (
            f"2512.11847, of 1,000 copies on ARC-AGI: a vote of {copies} solves more than one",
            10.75,
            baseline,
            vote,
        ),
        (f"Aakash: any of {copies} copies solves more than one", 10.0, baseline, any_copy),
        ("HRM, CGAR, EqR: 64 segments at test solve more than 16", 5.0, early, late),
        (
            f"PTRM: the surest of {trajectories} noisy trajectories solves more than one without noise",
            10.9,
            baseline,
            surest,
        ),
        ("EqR: noise makes a single trajectory worse", 9.4, at_test("noisy_exact_accuracy", 1), baseline),
        ("EqR: a random start in training solves more", 1.2, trm, row("random start")),
        (
            "EqR: with a random start and noise in training, 64 segments solve more than 16",
            6.6,
            {**noisy, "eval.depth": 16},
            {**noisy, "eval.depth": 64},
        ),
        ("EqR: halting in training solves more, at equal updates", 8.3, row("no halting in training"), trm),
        ("2608.24136: feedback of the answer solves more", 5.8, trm, row("feedback")),
        ("2608.24136: feedback with its sign reversed solves fewer", 9.4, row("feedback reversed"), trm),
        ("alphaXiv: longer training solves fewer", 3.8, row("epochs x 2"), trm),
        ("alphaXiv: a larger batch solves fewer, at equal updates", 7.1, row("batch x 4"), trm),
        ("A repository of TRM: a tiny batch breaks it, at equal updates", 68.0, row("batch / 4"), trm),
        (
            "TRM: the gradient through a whole cycle solves more than that of one step",
            30.9,
            row("n x 2, one-step gradient"),
            row("n x 2"),
        ),
        ("TRM: averaged weights solve more", 7.5, row("no average of weights"), trm),
        ("alphaXiv, of ARC-AGI: twice the inner cycles solve more", 9.75, trm, row("n x 2")),
    ]
    return [
        *(
            Claim(
                f"{text} ({points:g} published), {puzzles}",
                lower=lower,
                higher=higher,
                margin=round(points / 3, 1),  # a smaller effect would be a different finding
            )
            for text, points, lower, higher in findings
        ),
        Claim(
            "2512.11847, of ARC-AGI: nearly all is solved after one segment (94.4 % of it: within 5 points),"
            f" {puzzles}",
            lower={**trm, "eval.depth": 1},
            higher=early,
            within=5.0,
        ),
        Claim(
            "2604.21999: a halting head that starts at 0 or 1 fails (in 70 % of runs: a third of 60 points),"
            f" {puzzles}",
            lower={"variant": ["halting bias 0", "halting bias 1"]},
            higher=row("halting bias -3"),
            margin=20.0,  # a third of 60 points
        ),
        Claim(
            f"Aakash: a vote of {copies} copies adds 2.7 points at most, {puzzles}",
            lower=baseline,
            higher=vote,
            within=2.7,
        ),
        Claim(
            f"2510.00355v1, of HRM: halting by itself at test solves more (no figure: above 0), {puzzles}",
            lower=baseline,
            higher=at_test("halted_exact_accuracy"),
        ),
        Claim(
            f"CGAR: a curriculum of depth costs little (0.6 to 1.2 points: within 2), {puzzles}",
            lower=row("deep, curriculum"),
            higher=row("deep"),
            within=2.0,
        ),
        Claim(
            # The lower end of the published range.
            f"Aakash: copies disagree on 24 to 50 % of the puzzles (at least 24), {puzzles}",
            of=at_test("flipped_puzzles", copies),
            at_least=24.0,
        ),
        Claim(
            "Aakash: the halting head knows right answers from wrong ones (AUROC of 99.8: at least 99),"
            f" {puzzles}",
            of=at_test("halting_auroc"),
            at_least=99.0,
        ),
    ]


COPIES = (
    "any_exact_accuracy",
    "pass_at",
    "noisy_exact_accuracy",
    "voted_exact_accuracy",
    "any_copy_exact_accuracy",
    "flipped_puzzles",
)
REPORT: list[Part] = [
    Table(
        "rows",
        metrics=(
            "exact_accuracy",
            "cell_accuracy",
            "train_exact_accuracy",
            "halted_exact_accuracy",
            "halted_steps",
            "supervision_steps_used",
            "params",
            "train_pflop",
        ),
        title="What the claims change in TRM",
    ),
    Table(
        "at_test",
        metrics=(*(f"{name}.{count}" for name in COPIES for count in (2, 8)), "halting_auroc"),
        across=True,
        where={"variant": "TRM"},
        title="More compute at test with the weights of TRM",
    ),
    Curve(
        "segments",
        x="eval.depth",
        y="exact_accuracy",
        by="variant",
        title="Puzzles solved by number of segments, same weights",
    ),
    LearningCurves(metrics=("train_loss", "supervision_steps_used")),
]

study = Study(
    name="field_claims",
    presets={
        "quick": RunConfig(
            data=Sudoku(side=6, givens=10, rounds=8),
            model=SMALL,
            train=TRAIN.model_copy(update=QUICK),
            resources=Resources(gpus=0),
        ),
        "standard": RunConfig(
            data=Sudoku(side=9, rounds=500), model=TRM(**SIZE), train=TRAIN.model_copy(update=STANDARD)
        ),
    },
    variants={
        "quick": variants(8, 32, 3, 1, DEEP),
        "standard": variants(500, 768, 10, 6, WITHOUT_EXTRA_TESTS),
    },
    seeds={"quick": 3, "standard": 1},
    max_seeds={"quick": 10},
    report=REPORT,
    claims={
        "quick": claims(16, 8, "synthetic 6x6 Sudokus"),
        "standard": claims(100, 32, "synthetic 9x9 Sudokus"),
    },
)

if __name__ == "__main__":
    main(study)
