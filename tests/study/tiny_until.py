"""Do thirty epochs teach more than one?

A study for the tests with two claims: the first is plain after two seeds, the second is about what makes no
difference. No claim is about the second of its four variants.
"""

import tiny

from recstudy import Claim, Study, grid, main
from recstudy.report import Curve, Table

study = Study(
    name="tiny_until",
    presets={"quick": tiny.study.presets["quick"]},
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
