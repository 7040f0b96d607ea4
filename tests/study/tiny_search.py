"""Which tiny model learns the digits best?

A search for the tests: seconds a run on one core, nine settings in all with the default ranges.
"""

from recstudy import Range, Search, main
from recstudy.recursive import Digits
from recstudy.recursive.testing import tiny_model, tiny_run
from recstudy.report import Best, History, Importance, ParallelCoordinates, Pareto, Slices

BASE = tiny_run(
    tiny_model(layers=1, latent_steps=3, dropout=0.0),
    Digits(limit=200),
    epochs=6,
    batch_size=32,
    learning_rate=5e-3,
).with_changes({"resources.checkpoint_seconds": 0})

study = Search(
    name="tiny_search",
    presets={
        "quick": [BASE],
        "wild": [BASE],
    },
    vary=("model.latent_steps", "train.batch_size", "train.learning_rate"),
    ranges={
        "quick": {
            "model.latent_steps": Range(1, 3),
            "train.batch_size": Range([16, 32, 64]),
            "train.learning_rate": Range([5e-3]),
        },
        "wild": {"train.learning_rate": Range(1e-3, 1e8, log=True)},
    },
    budget="6 runs",
    seeds=1,
    confirm=2,
    report=[
        History(),
        Best("best"),
        Importance(),
        ParallelCoordinates(),
        Slices(),
        Pareto("front", x="train_gflops"),
    ],
)

if __name__ == "__main__":
    main(study)
