"""What decides a run: frozen, checked, documented field by field.

A run config has four parts that decide its numbers (`data`, `model`, `train`, `seed`) and one that does not
(`resources`). The run id is a digest of the first four (ids.py), so the same run has the same id in every study,
on every machine. Field descriptions use the papers' letters; bounds are checked when the config is read, not
after an hour.
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
