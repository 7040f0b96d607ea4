"""The config of a run: frozen, checked when it is read, and documented field by field.

Four parts decide a run's numbers (`data`, `model`, `train`, `seed`); `resources` does not affect them. The
run id is a digest of the four (`ids.py`), so a run has the same id in every study and on every machine. Field
descriptions use the letters of the papers.
"""

from recstudy.config.functions import LOSSES, OPTIMIZERS, SCHEDULES, OneOf
from recstudy.config.parts import DATASETS, FAMILIES, PAD, DataConfig, ModelConfig, Moments, Shape
from recstudy.config.run import RunConfig
from recstudy.config.train import AUGMENTATIONS, AtTest, Augment, TrainConfig
from recstudy.metrics import UNKNOWN

__all__ = [
    "AUGMENTATIONS",
    "DATASETS",
    "FAMILIES",
    "LOSSES",
    "OPTIMIZERS",
    "PAD",
    "SCHEDULES",
    "UNKNOWN",
    "AtTest",
    "Augment",
    "DataConfig",
    "ModelConfig",
    "Moments",
    "OneOf",
    "RunConfig",
    "Shape",
    "TrainConfig",
]
