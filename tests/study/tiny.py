"""Which of six tiny models learns the digits?

A study for the tests: seconds a run on one core.
"""

from recstudy import Study, grid, main, published
from recstudy.recursive import Digits, RunConfig, TrainConfig, ViTRM
from recstudy.recursive.testing import tiny_model, tiny_run
from recstudy.report import Curve, LearningCurves, Table

FIGURES = published("002_ablation_fig2_fig3")

study = Study(
    name="tiny",
    presets={
        "quick": tiny_run(
            tiny_model(layers=1, latent_steps=3, dropout=0.0),
            Digits(limit=300),
            epochs=8,
            batch_size=32,
            learning_rate=5e-3,
        ).with_changes({"resources.checkpoint_seconds": 0}),
        "long": RunConfig(
            data=Digits(), model=ViTRM(width=16, heads=2, layers=1, patch=2), train=TrainConfig(epochs=500)
        ),
    },
    variants=grid({"model.latent_steps": [1, 2, 3], "train.supervision_steps": [1, 2]}),
    seeds={"quick": 1, "long": 1},
    report=[
        Table("depths", targets=FIGURES),
        Curve(
            "curve", x="model.latent_steps", y="top1_accuracy", by="train.supervision_steps", targets=FIGURES
        ),
        LearningCurves(),
    ],
)

if __name__ == "__main__":
    main(study)
