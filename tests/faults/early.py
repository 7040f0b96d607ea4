"""Which learning rate lets a tiny model learn?

A search for the faults: its first setting is the best, so that most others are stopped early.
"""

from recstudy import Search, Tunable, main
from recstudy.analysis import History
from recstudy.data import Digits
from recstudy.testing import tiny_model, tiny_run

study = Search(
    name="early",
    presets={
        "quick": [
            tiny_run(
                tiny_model(layers=1, latent_steps=3, dropout=0.0),
                Digits(limit=200),
                epochs=40,
                batch_size=32,
                learning_rate=5e-3,
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
