"""What decides a run: frozen, checked, documented field by field.

A run config has four parts that decide its numbers (`data`, `model`, `train`, `seed`) and one that does not (`place`).
The run id is a digest of the first four, so the same run has the same id in every study, on every machine.
Field descriptions use the papers' letters; bounds are checked when the config is read, not after an hour.
"""

from recstudy.config.base import Config, canonical, configure, flatten
from recstudy.config.parts import DATASETS, FAMILIES, KINDS, PAD, SCORES, UNKNOWN, DataConfig, ModelConfig, Shape, Task
from recstudy.config.place import Place
from recstudy.config.run import RunConfig
from recstudy.config.train import YOUNGER, Augment, TrainConfig

__all__ = [
    "DATASETS",
    "FAMILIES",
    "KINDS",
    "PAD",
    "SCORES",
    "UNKNOWN",
    "YOUNGER",
    "Augment",
    "Config",
    "DataConfig",
    "ModelConfig",
    "Place",
    "RunConfig",
    "Shape",
    "Task",
    "TrainConfig",
    "canonical",
    "configure",
    "flatten",
]
