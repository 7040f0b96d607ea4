"""Which of two models fits into memory?

A study for the faults: the weights of one would take 4 PB.
"""

from recstudy import Study, grid, main
from recstudy.analysis import Table
from recstudy.data import Digits
from recstudy.testing import tiny_model, tiny_run

study = Study(
    name="hungry",
    presets={"quick": tiny_run(tiny_model(layers=1, latent_steps=3, dropout=0.0), Digits(limit=100), epochs=2, batch_size=32)},
    variants=grid({"model.width": [2**25, 16]}),
    report=[Table("widths")],
)

if __name__ == "__main__":
    main(study)
