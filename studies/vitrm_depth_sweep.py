"""How deep should ViTRM think, and how often should it be corrected?

Figures 2 and 3 of the ViTRM paper (002, section 4.4): latent steps n against supervision steps N_sup, CIFAR-10, batch 128.
Published: 93.1 % at n=3, N_sup=1; more latent steps saturate, more supervision hurts.
Cost: quick, about 3 minutes on 2 cores; standard, a few GPU hours; paper, some 300 GPU hours, see --dry-run.

    python studies/vitrm_depth_sweep.py
    python studies/vitrm_depth_sweep.py --preset paper --address auto
"""

from recstudy import Augment, Place, RunConfig, Study, TrainConfig, grid, main, published
from recstudy.data import Cifar10, Digits
from recstudy.models import ViTRM
from recstudy.report import Curve, HeatMap, LearningCurves, Table

FIGURES = published("002_ablation_fig2_fig3")
AUGMENT = Augment(crop=4, flip=True, randaugment_ops=2, randaugment_magnitude=9, mixup=0.2, cutmix=1.0)

study = Study(
    name="vitrm_depth_sweep",
    presets={
        "quick": RunConfig(
            data=Digits(),
            model=ViTRM(width=64, heads=4, layers=1, latent_tokens=8, patch=2, dropout=0.0),
            train=TrainConfig(
                epochs=30, warmup=0.1, batch_size=32, learning_rate=5e-3, ema_decay=0.98, augment=Augment(mixup=0.4)
            ),
            place=Place(gpus_per_run=0),
        ),
        "standard": RunConfig(
            data=Cifar10(),
            model=ViTRM(),
            train=TrainConfig(
                epochs=100, warmup=0.05, precision="bfloat16", augment=Augment(crop=4, flip=True, randaugment_ops=2)
            ),
        ),
        "paper": RunConfig(
            data=Cifar10(),
            model=ViTRM(),
            train=TrainConfig(epochs=1000, warmup=0.03, precision="bfloat16", selection="test", augment=AUGMENT),
        ),
    },
    variants={
        "quick": grid({"model.latent_steps": [1, 2, 3, 6], "train.supervision_steps": [1, 2, 4]}),
        "standard": grid({"model.latent_steps": [1, 2, 3, 6], "train.supervision_steps": [1, 2, 4]}),
        "paper": grid({"model.latent_steps": [1, 2, 3, 6], "train.supervision_steps": [1, 2, 4, 8, 16]}),
    },
    seeds={"quick": 2, "standard": 1, "paper": 3},
    report=[
        Table("depths", metrics=("top1_accuracy", "params", "gflops"), targets=FIGURES),
        Curve("figure2", x="train.supervision_steps", y="top1_accuracy", by="model.latent_steps", targets=FIGURES),
        Curve("figure3", x="model.latent_steps", y="top1_accuracy", by="train.supervision_steps", targets=FIGURES),
        HeatMap("sweep", x="supervision_steps", y="latent_steps"),
        LearningCurves(metrics=("train_loss", "selection_top1_accuracy", "supervision_steps_used"), window=5),
    ],
)

if __name__ == "__main__":
    main(study)
