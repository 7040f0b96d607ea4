"""Which code computes a run: its model, its data and its training, each with a digest of the definitions that it uses."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from recstudy.config import AUGMENTATIONS, LOSSES, OPTIMIZERS, SCHEDULES, DataConfig, ModelConfig, RunConfig
from recstudy.config.ids import part_name
from recstudy.metrics import METRICS, TASKS
from recstudy.source import Code, code_of

LOOP = ("recstudy.train.loop:Training", "recstudy.data.augment:")
LOOPS = (
    "recstudy.train",
    "recstudy.tasks",
    "recstudy.metrics.classification",
    "recstudy.data.augment",
    "recstudy.data.batches",
)
SPLITS = ("recstudy.data.splits:hold_out", "recstudy.data.splits:limit")
IDLE = ("recstudy.train.watchdog",)  # computes no numbers
CAPTIONS = ("recstudy.tasks.captioning", "recstudy.tasks.alignment")


def part_names(config: RunConfig) -> dict[str, str]:
    """What computes the run's `model`, `data` and `train`, by name; runs that name it alike are computed by the same code."""
    train, training = config.train, "training of captioners" if "captions" in TASKS[config.task].takes else "training"
    named = ", ".join([training, train.optimizer, train.loss, train.schedule, *train.augment.more, *_selecting(config)])
    return {"model": part_name(config.model), "data": part_name(config.data), "train": named}


def codes(config: RunConfig) -> dict[str, Code]:
    """The present code of the run's `model`, `data` and `train`, as this process first saw it."""
    train, without = config.train, IDLE if "captions" in TASKS[config.task].takes else IDLE + CAPTIONS
    chosen = (AUGMENTATIONS[name] for name in train.augment.more)
    functions = OPTIMIZERS[train.optimizer], LOSSES[train.loss], SCHEDULES[train.schedule]
    named = *functions, *chosen, *_selecting(config).values(), TASKS[config.task]
    return {"model": _of_part(type(config.model)), "data": _of_part(type(config.data)), "train": _of_training(named, without)}


def _selecting(config: RunConfig) -> dict[str, Callable[..., Any] | str]:
    """The metric that selects epochs, by its name, where it follows from answers."""
    metric = METRICS[config.score]
    return {config.score: metric.of} if metric.of is not None and config.train.selection != "last" else {}


@lru_cache(maxsize=256)
def _of_part(kind: type[ModelConfig | DataConfig]) -> Code:
    if issubclass(kind, ModelConfig):
        return code_of(kind, within=("recstudy.models",))
    return code_of(kind, *SPLITS, within=("recstudy.data",), without=("recstudy.data.checking",))


@lru_cache(maxsize=256)
def _of_training(named: tuple[Callable[..., Any] | str, ...], without: tuple[str, ...]) -> Code:
    return code_of(*LOOP, *named, within=LOOPS, without=without)
