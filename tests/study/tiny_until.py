"""Do thirty epochs teach more than one?

A study for the tests with two claims: the first is plain after two seeds, the second is about what makes no
difference. No claim is about the second of its four variants.
"""

from recstudy import Claim, Resources, Study, grid, main
from recstudy.recursive import Digits, RunConfig, TrainConfig, ViTRM
from recstudy.report import Curve, Table

study = Study(
    name="tiny_until",
    presets={
        "quick": RunConfig(
            data=Digits(limit=300),
            model=ViTRM(width=16, heads=2, layers=1, patch=2, latent_tokens=4, dropout=0.0),
            train=TrainConfig(epochs=8, batch_size=32, learning_rate=5e-3, ema_decay=0.9),
            resources=Resources(gpus=0, checkpoint_seconds=0),
        ),
    },
    variants=grid({"train.epochs": [1, 30], "train.weight_decay": [0.05, 0.0501]}),
    seeds=1,
    max_seeds=4,
    claims=[
        Claim(
            "one epoch teaches less",
            lower={"epochs": 1, "weight_decay": 0.05},
            higher={"epochs": 30, "weight_decay": 0.05},
        ),
        Claim(
            "a hair more decay helps",
            lower={"epochs": 30, "weight_decay": 0.05},
            higher={"epochs": 30, "weight_decay": 0.0501},
        ),
    ],
    report=[Table("scores"), Curve("curve", x="train.epochs", y="top1_accuracy", by="weight_decay")],
)

if __name__ == "__main__":
    main(study)
