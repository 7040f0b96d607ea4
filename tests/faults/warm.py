"""Which of two families learns, one run after another on the same Ray Train workers?

A study for the faults: one of its runs diverges, and the weights of another would take 4 PB.
"""

from recstudy import Place, RunConfig, Study, TrainConfig, Variant, main
from recstudy.analysis import Table
from recstudy.data import Digits
from recstudy.models import ResNet, ViTRM

study = Study(
    name="warm",
    presets={
        "quick": RunConfig(
            data=Digits(limit=100),
            model=ViTRM(width=16, heads=2, layers=1, patch=2, latent_tokens=4, dropout=0.1),
            train=TrainConfig(epochs=2, batch_size=32, ema_decay=0.9),
            place=Place(gpus_per_run=0, trainer="train", checkpoint_seconds=0),
        )
    },
    variants=[
        Variant("recursive", {}),
        Variant("residual", {"model": ResNet()}),
        Variant("diverges", {"train.learning_rate": 1e30}),
        Variant("recursive again", {"model.latent_steps": 2}),
        Variant("hungry", {"model.width": 2**25}),
        Variant("residual again", {"model": ResNet(), "train.batch_size": 16}),
    ],
    report=[Table("families")],
)

if __name__ == "__main__":
    main(study)
