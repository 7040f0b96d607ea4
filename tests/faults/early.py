"""Which learning rate lets a tiny model learn?

A search for the faults: its first setting is the best, so that most others are stopped early.
"""

from recstudy import Place, RunConfig, Search, TrainConfig, Tunable, main
from recstudy.analysis import History
from recstudy.data import Digits
from recstudy.models import ViTRM

study = Search(
    name="early",
    presets={
        "quick": [
            RunConfig(
                data=Digits(limit=200),
                model=ViTRM(width=16, heads=2, layers=1, patch=2, latent_tokens=4, dropout=0.0),
                train=TrainConfig(epochs=40, batch_size=32, learning_rate=5e-3, ema_decay=0.9),
                place=Place(gpus_per_run=0),
            )
        ],
    },
    vary=("train.learning_rate",),
    ranges={"quick": {"train.learning_rate": Tunable(1e-6, 5e-3, log=True)}},
    sampler="random",
    stopping="asha",
    budget="30 runs",
    seeds=0,
    report=[History()],
)

if __name__ == "__main__":
    main(study)
