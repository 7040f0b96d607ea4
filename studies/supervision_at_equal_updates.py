"""Does more supervision hurt ViTRM, or do more updates?

In Figure 2 of the ViTRM paper (002, section 4.4.1) each of N_sup supervision steps is a separate optimizer
step, and all rows have the same epochs. So 16 steps have up to 16 times the updates of one step, and the
overfitting that the paper names may come from more updates. Here N_sup times the epochs is constant, with and
without halting, so more steps have fewer epochs. Halting ends a batch early and so removes some updates. The
paper's own equal epochs are rows too.

Published: 93.1 % at n=3, N_sup=1, and less with each further step. If updates are the reason, accuracy falls
at equal epochs, and at equal updates it falls less or not at all.

Caveats: the preset cpu has CIFAR-10 and a ViTRM of width 64 with one latent step, for 4 epochs with one
supervision step. So small a network is still improving when it stops, so more updates can only help it. It
shows what a supervision step is worth beside an update with a new batch, not the overfitting of the paper's
1,000 epochs.

Cost: quick (synthetic boards), 13 minutes on one core (measured); cpu, two hours on one core with
resources.compile=on (measured); standard, see --dry-run; paper, in float32 as the authors, at most 98 EFLOP
with evaluation: 28 GPU days at the 40 TFLOP/s that `--dry-run` assumes.

    python studies/supervision_at_equal_updates.py
    python studies/supervision_at_equal_updates.py --preset cpu --data DIR
    python studies/supervision_at_equal_updates.py --preset paper --address auto
"""

from itertools import product

from recstudy import Claim, Deviation, Interaction, Resources, Study, Variant, deviations, main
from recstudy.recursive import Augment, Cifar10, Dominoes, RunConfig, TrainConfig, ViTRM
from recstudy.report import Curve, LearningCurves, Table

AUGMENT = Augment(crop=4, flip=True, randaugment_ops=2, randaugment_magnitude=9, mixup=0.2, cutmix=1.0)


def variants(epochs: int, steps: tuple[int, ...], threshold: float = 0.5) -> list[Variant]:
    """Return the variants by what is kept equal.

    One supervision step is the same run in all rows, because no batch halts before it.
    """
    axes = {"equal": "equal", "supervision_steps": "train.supervision_steps"}
    pairs = product(("updates", "updates, halting", "epochs", "epochs, halting"), steps)
    return [
        Variant(
            f"{equal}, supervision_steps={count}",
            {
                "train.supervision_steps": count,
                # N_sup times the epochs is constant if the updates are equal.
                "train.epochs": epochs // count if equal.startswith("updates") else epochs,
                "train.halt_threshold": threshold if count > 1 and equal.endswith("halting") else 1.0,
            },
            {"equal": equal, "supervision_steps": count},
            axes,
        )
        for equal, count in pairs
    ]


def claims(max_steps: int, data: str) -> list[Claim]:
    """Return the paper's sentence on CIFAR-10 at equal epochs and at equal updates. The margin is half a
    point.
    """

    def select(equal: str, steps: int) -> dict[str, object]:
        return {"equal": equal, "supervision_steps": steps}

    losses = {
        equal: Interaction(of=select(equal, 1), over=select(equal, max_steps))
        for equal in ("updates", "epochs")
    }
    return [
        Claim(
            f"002 4.4.1, at equal epochs and with halting, as in the paper: more supervision hurts, {data}",
            lower=select("epochs, halting", max_steps),
            higher=select("epochs, halting", 1),
            margin=0.5,
        ),
        Claim(
            f"At equal updates, without halting: more supervision hurts, {data}",
            lower=select("updates", max_steps),
            higher=select("updates", 1),
            margin=0.5,
        ),
        Claim(
            "More updates are a part of it: more supervision hurts less at equal updates than at equal"
            f" epochs, {data}",
            lower=losses["updates"],
            higher=losses["epochs"],
            margin=0.5,
        ),
        Claim(
            f"Halting helps: at equal epochs it is better than taking every step, {data}",
            lower=select("epochs", max_steps),
            higher=select("epochs, halting", max_steps),
            margin=0.5,
        ),
    ]


REPORT = [
    Table(
        "supervision",
        rows="equal",
        columns="supervision_steps",
        metrics=("top1_accuracy",),
        title="Top-1 accuracy (%) by what is kept equal and supervision steps per batch",
    ),
    Table(
        "fit",
        metrics=("top1_accuracy", "train_top1_accuracy", "train_gflops", "train_pflop"),
        settings=("train.epochs",),
        title="Accuracy on test and training images",
    ),
    Curve("supervision", x="train.supervision_steps", y="top1_accuracy", by="equal"),
    Curve("overfitting", x="train.supervision_steps", y="train_top1_accuracy", by="equal"),
    LearningCurves(metrics=("train_loss", "selection_top1_accuracy", "supervision_steps_used")),
]

study = Study(
    name="supervision_at_equal_updates",
    presets={
        "quick": RunConfig(
            data=Dominoes(),
            model=ViTRM(width=64, heads=4, layers=1, latent_tokens=1, latent_steps=3, patch=6, dropout=0.0),
            train=TrainConfig(
                warmup=0.05, schedule="update", learning_rate=2e-3, ema_decay=0.98, halt_weight=0.1
            ),
            resources=Resources(gpus=0),
        ),
        "cpu": RunConfig(
            data=Cifar10(),
            model=ViTRM(width=64, heads=4, latent_tokens=8, latent_steps=1, dropout=0.0),
            train=TrainConfig(
                batch_size=64,
                warmup=0.05,
                schedule="update",
                learning_rate=1e-3,
                ema_decay=0.99,
                augment=Augment(crop=4, flip=True),
            ),
            resources=Resources(gpus=0),
        ),
        "standard": RunConfig(
            data=Cifar10(),
            model=ViTRM(),
            train=TrainConfig(
                warmup=0.05,
                ema_decay=0.999,
                precision="bfloat16",
                augment=Augment(crop=4, flip=True, randaugment_ops=2),
            ),
        ),
        "paper": RunConfig(
            data=Cifar10(),
            model=ViTRM(),
            train=TrainConfig(warmup=0.03, ema_decay=0.999, augment=AUGMENT),
        ),
    },
    # The epochs are divisible by all of their numbers of steps.
    variants={
        "quick": variants(12, (1, 4), threshold=0.9),  # half of two colors are right by chance
        "cpu": variants(4, (1, 4)),
        "standard": variants(96, (1, 2, 4)),
        "paper": variants(1008, (1, 2, 4, 8, 16)),
    },
    seeds={"quick": 3, "cpu": 3, "standard": 2, "paper": 3},
    max_seeds={"quick": 10, "cpu": 5},
    report=REPORT,
    claims={
        "quick": claims(4, "on synthetic boards"),
        **dict.fromkeys(("cpu", "standard"), claims(4, "CIFAR-10")),
        "paper": claims(16, "CIFAR-10"),
    },
    deviations=[
        *deviations("002_code"),
        Deviation(
            field="train.epochs", paper=1000, ours=1008, why="divisible by all numbers of supervision steps"
        ),
        Deviation(
            field="train.selection", paper="test", ours="validation", why="so that no test image selects"
        ),
    ],
)

if __name__ == "__main__":
    main(study)
