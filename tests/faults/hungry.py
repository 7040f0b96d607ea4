"""Which of two models fits into memory?

A study for the faults: the weights of one would take 4 PB.
"""

from recstudy import Place, RunConfig, Study, TrainConfig, grid, main
from recstudy.analysis import Table
from recstudy.data import Digits
from recstudy.models import ViTRM

study = Study(
    name="hungry",
    presets={
        "quick": RunConfig(
            data=Digits(limit=100),
            model=ViTRM(width=16, heads=2, layers=1, patch=2, latent_tokens=4, dropout=0.0),
            train=TrainConfig(epochs=2, batch_size=32, ema_decay=0.9),
            place=Place(gpus_per_run=0),
        )
    },
    variants=grid({"model.width": [2**25, 16]}),
    report=[Table("widths")],
)

if __name__ == "__main__":
    main(study)
