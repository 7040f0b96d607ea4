"""Which of two families learns, one run after another on the same Ray Train workers?

A study for the faults: one of its runs diverges, and the weights of another would take 4 PB.
"""

from recstudy import Study, Variant, main
from recstudy.analysis import Table
from recstudy.data import Digits
from recstudy.models import ResNet
from recstudy.testing import tiny_model, tiny_run

study = Study(
    name="warm",
    presets={
        "quick": tiny_run(
            tiny_model(layers=1, latent_steps=3, dropout=0.1), Digits(limit=100), epochs=2, batch_size=32
        ).with_changes({"place.trainer": "train", "place.checkpoint_seconds": 0})
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
