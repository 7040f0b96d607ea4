"""Does more supervision hurt ViTRM, or do more updates?

In Figure 2 of the ViTRM paper (002, section 4.4.1) each of N_sup supervision steps is an optimiser step of
its own, and all rows have the same epochs: 16 steps are trained with up to 16 times the updates of one, so
that the overfitting which the paper names may be that of more updates. Here N_sup times the epochs is
constant, with halting, which ends a batch early and so takes some of the updates back, and without; beside
them stand the paper's own equal epochs. Published: 93.1 % at n=3, N_sup=1, and less with each step more.
Expected, if updates are the reason: it falls at equal epochs, and at equal updates by less or not at all.
Cost: quick (synthetic boards), 9 minutes on 2 cores (measured); standard and paper, see --dry-run.

    python studies/supervision_at_equal_updates.py
    python studies/supervision_at_equal_updates.py --preset paper --address auto
"""

from itertools import product

from recstudy import Augment, Claim, Interaction, Resources, RunConfig, Study, TrainConfig, Variant, main
from recstudy.data import Cifar10, Dominoes
from recstudy.models import ViTRM
from recstudy.report import Curve, LearningCurves, Table

AUGMENT = Augment(crop=4, flip=True, randaugment_ops=2, randaugment_magnitude=9, mixup=0.2, cutmix=1.0)


def variants(epochs: int, steps: tuple[int, ...], threshold: float = 0.5) -> list[Variant]:
    """By what is kept equal; one step is the same run in all of them, since nothing halts before it."""
    axes = {"equal": "equal", "supervision_steps": "train.supervision_steps"}
    cells = product(("updates", "updates, halting", "epochs", "epochs, halting"), steps)
    return [
        Variant(
            f"{equal}, supervision_steps={count}",
            changes(equal, count, epochs, threshold),
            {"equal": equal, "supervision_steps": count},
            axes,
        )
        for equal, count in cells
    ]


def changes(equal: str, steps: int, epochs: int, threshold: float) -> dict[str, float]:
    halts = steps > 1 and equal.endswith("halting")
    return {
        "train.supervision_steps": steps,
        "train.epochs": epochs // steps if equal.startswith("updates") else epochs,
        "train.halt_threshold": threshold if halts else 1.0,
    }


def claims(most: int, on: str) -> list[Claim]:
    """The paper's sentence of CIFAR-10, at what it keeps equal and at equal updates, by half a point."""

    def at(equal: str, steps: int) -> dict[str, object]:
        return {"equal": equal, "supervision_steps": steps}

    lost = {equal: Interaction(of=at(equal, 1), over=at(equal, most)) for equal in ("updates", "epochs")}
    return [
        Claim(f"002 4.4.1, at equal epochs and with halting, as there: more supervision hurts, {on}",
              lower=at("epochs, halting", most), higher=at("epochs, halting", 1), margin=0.5),
        Claim(f"at equal updates, without halting: more supervision hurts, {on}",
              lower=at("updates", most), higher=at("updates", 1), margin=0.5),
        Claim(f"more updates are a part of it: more supervision hurts less at equal updates than at equal epochs, {on}",
              lower=lost["updates"], higher=lost["epochs"], margin=0.5),
        Claim(f"halting gives some back: at equal epochs it is ahead of every step taken, {on}",
              lower=at("epochs", most), higher=at("epochs, halting", most), margin=0.5),
    ]  # fmt: skip


REPORT = [
    Table("supervision", rows="equal", columns="supervision_steps", metrics=("top1_accuracy",),
          title="Top-1 accuracy (%): what is kept equal, and supervision steps a batch"),
    Table("fit", metrics=("top1_accuracy", "train_top1_accuracy", "train_gflops", "train_pflop"),
          settings=("train.epochs",), title="Accuracy on the training images too: who fits them more"),
    Curve("supervision", x="train.supervision_steps", y="top1_accuracy", by="equal"),
    Curve("overfitting", x="train.supervision_steps", y="train_top1_accuracy", by="equal"),
    LearningCurves(metrics=("train_loss", "selection_top1_accuracy", "supervision_steps_used")),
]  # fmt: skip

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
            train=TrainConfig(warmup=0.03, ema_decay=0.999, precision="bfloat16", augment=AUGMENT),
        ),
    },
    variants={
        "quick": variants(12, (1, 4), threshold=0.9),  # by chance alone half of two colours are right
        "standard": variants(96, (1, 2, 4)),
        "paper": variants(1008, (1, 2, 4, 8, 16)),
    },
    seeds={"quick": 3, "standard": 2, "paper": 3},
    max_seeds={"quick": 10},
    report=REPORT,
    claims={
        "quick": claims(4, "asked of synthetic boards"),
        "standard": claims(4, "CIFAR-10"),
        "paper": claims(16, "CIFAR-10"),
    },
)

if __name__ == "__main__":
    main(study)
