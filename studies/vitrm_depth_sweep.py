"""How deep should ViTRM think, and how many supervision steps does it need?

Figures 2 and 3 of the ViTRM paper (002, section 4.4): latent steps n against supervision steps N_sup,
CIFAR-10, batch 128. Published: 93.1 % at n=3, N_sup=1; more latent steps saturate, more supervision hurts.
The quick preset asks of latent steps alone, on synthetic boards whose images are of known depth; the
question's second half is asked by the preset standard, and, on these boards, by the study
supervision_at_equal_updates. The preset cpu asks it of natural images: CIFAR-10 with a ViTRM of width 64.
Cost: quick, 8 minutes on 2 cores; cpu, 5 hours on 2 cores; by --dry-run at 250 TFLOP/s of a GPU: standard,
1.5 GPU hours; paper, 214 GPU hours.

    python studies/vitrm_depth_sweep.py
    python studies/vitrm_depth_sweep.py --address auto                 # with GPUs: the preset standard
    python studies/vitrm_depth_sweep.py --preset paper --address auto
"""

from math import isqrt

from recstudy import (
    Augment,
    Claim,
    Interaction,
    Resources,
    RunConfig,
    Study,
    TrainConfig,
    deviations,
    grid,
    main,
    published,
)
from recstudy.data import Cifar10, Dominoes
from recstudy.models import ViTRM
from recstudy.report import Curve, HeatMap, LearningCurves, Table

FIGURES = published(
    "002_ablation_fig2_fig3",
    margin=0.15,
    why="a third of the 0.5 points from n=1 to 6 with most supervision, the least of 4.4",
)
QUICK = TrainConfig(
    epochs=20, warmup=0.05, schedule="update", learning_rate=2e-3, ema_decay=0.98,
    halt_weight=0.0, halt_threshold=1.0,  # in so few updates the halting loss hides what depth does: LOG.md
)  # fmt: skip
AUGMENT = Augment(crop=4, flip=True, randaugment_ops=2, randaugment_magnitude=9, mixup=0.2, cutmix=1.0)


def claims(most: int, asked: str = "", within: float = 0.5) -> list[Claim]:
    """Section 4.4's sentences of CIFAR-10, `most` supervision steps being its many. The margin is the
    figures', half a point.

    `asked`: of which other data; `within`: the margin of no additional benefit, where other data have larger
    effects.
    """

    def at(latent: int, supervision: int) -> dict[str, int]:
        return {"latent_steps": latent, "supervision_steps": supervision}

    few, many = Interaction(of=at(6, 1), over=at(1, 1)), Interaction(of=at(6, most), over=at(1, most))
    trained, moderate = {"supervision_steps": min(most, 4)}, isqrt(most)
    return [
        # 93.1 to 90.0 at n=3
        Claim('002 4.4.1: "performance degrades as supervision depth increases beyond minimal values"' + asked,
              lower={"supervision_steps": most}, higher={"supervision_steps": 1}, margin=0.5),
        # 91.9 to 92.9
        Claim("002 4.4.2: with one supervision step, more latent steps improve accuracy" + asked,
              lower=at(1, 1), higher=at(6, 1), margin=0.5),
        # 93.1 and 92.9
        Claim('002 4.4.2: "moderate latent depth yields the best performance, while further increasing depth provides no '
              'additional benefit"' + asked, lower=at(6, 1), higher=at(3, 1), within=within),
        # 90.5 to 90.0
        Claim("002 4.4.2: under strong supervision more latent steps are slightly harmful" + asked,
              lower=at(6, most), higher=at(1, most)),
        # 1.0 against -0.5
        Claim('002 4.4.2: "latent reasoning depth and supervision depth interact non-trivially"' + asked,
              lower=many, higher=few, margin=0.5),
        Claim("ARC Prize of HRM on ARC-AGI, asked of ViTRM: the loop at training matters more than at test",
              lower=Interaction(of={**trained, "eval.depth": 4}, over={**trained, "eval.depth": 1}),
              higher=Interaction(of={**trained, "eval.depth": 1}, over={"supervision_steps": 1, "eval.depth": 1})),
        # The text leaves both numbers blank: the middle of the supervision steps, and the least n above 1.
        Claim(f'002 4.4.2: with moderate supervision "performance saturates rapidly" (n=2 against 3 and 6, N_sup={moderate})',
              lower=at(2, moderate), higher={"latent_steps": [3, 6], "supervision_steps": moderate}, each=True, within=within),
    ]  # fmt: skip


REPORT = [
    Table("depths", metrics=("top1_accuracy", "params", "gflops"), targets=FIGURES),
    Curve(
        "figure2", x="train.supervision_steps", y="top1_accuracy", by="model.latent_steps", targets=FIGURES
    ),
    Curve(
        "figure3", x="model.latent_steps", y="top1_accuracy", by="train.supervision_steps", targets=FIGURES
    ),
    HeatMap("sweep", x="supervision_steps", y="latent_steps"),
    LearningCurves(metrics=("train_loss", "selection_top1_accuracy", "supervision_steps_used"), window=5),
]
CURVES = [part for part in REPORT if not isinstance(part, HeatMap)]  # of one number of supervision steps
LEVELS = [
    Table("depths", metrics=("top1_accuracy", "params", "gflops"), targets=FIGURES),
    Table("by_level", metrics=("level_accuracy.*",), title="Accuracy (%) by the steps that an image takes"),
    Curve(
        "levels",
        x="eval.part",
        y="level_accuracy",
        by="latent_steps",
        title="Accuracy against the steps that an image takes",
    ),
    Curve("figure3", x="model.latent_steps", y="top1_accuracy", targets=FIGURES),
    LearningCurves(),
]

study = Study(
    name="vitrm_depth_sweep",
    presets={
        "quick": RunConfig(
            data=Dominoes(),
            model=ViTRM(width=64, heads=4, layers=1, latent_tokens=1, patch=6, dropout=0.0),
            train=QUICK,
            resources=Resources(gpus=0),
        ),
        "cpu": RunConfig(
            data=Cifar10(),
            model=ViTRM(width=64, heads=4, latent_tokens=8, dropout=0.0),
            train=TrainConfig(
                epochs=20,
                batch_size=128,
                warmup=0.05,
                ema_decay=0.99,
                schedule="update",
                learning_rate=1e-3,
                augment=Augment(crop=4, flip=True),
            ),
            resources=Resources(gpus=0),
        ),
        "standard": RunConfig(
            data=Cifar10(),
            model=ViTRM(),
            train=TrainConfig(
                epochs=100,
                warmup=0.05,
                ema_decay=0.999,
                precision="bfloat16",
                augment=Augment(crop=4, flip=True, randaugment_ops=2),
            ),
        ),
        "paper": RunConfig(
            data=Cifar10(),
            model=ViTRM(),
            train=TrainConfig(
                epochs=1000,
                warmup=0.03,
                ema_decay=0.999,
                precision="bfloat16",
                selection="test",
                augment=AUGMENT,
            ),
        ),
    },
    variants={
        "quick": grid({"model.latent_steps": [1, 2, 3, 6], "train.supervision_steps": [1]}),
        "cpu": grid({"model.latent_steps": [1, 2, 3, 6], "train.supervision_steps": [1]}),
        "standard": grid({"model.latent_steps": [1, 2, 3, 6], "train.supervision_steps": [1, 2, 4]}),
        "paper": grid({"model.latent_steps": [1, 2, 3, 6], "train.supervision_steps": [1, 2, 4, 8, 16]}),
    },
    seeds={"quick": 5, "cpu": 3, "standard": 1, "paper": 3},
    max_seeds={"quick": 10, "cpu": 5},
    report={
        "quick": LEVELS,
        "cpu": [part for part in REPORT if not isinstance(part, HeatMap)],
        "standard": REPORT,
        "paper": REPORT,
    },
    claims={
        "quick": claims(1, ", asked of synthetic boards", within=1.0)[1:3],
        "cpu": claims(1)[1:3],
        "standard": claims(4),
        "paper": claims(16),
    },
    deviations=deviations("002_code"),
)

if __name__ == "__main__":
    main(study)
