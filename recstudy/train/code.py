"""Which code computes a run: its model, its data and its training, each with a digest of the definitions that it uses."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from recstudy.config import AUGMENTATIONS, LOSSES, OPTIMIZERS, SCHEDULES, RunConfig
from recstudy.config.ids import part_name
from recstudy.metrics import METRICS, TASKS
from recstudy.source import Code, code_of

LOOP = ("recstudy.train.loop:Training", "recstudy.data.augment:")
SPLITS = ("recstudy.data.splits:hold_out", "recstudy.data.splits:limit")


def part_names(config: RunConfig) -> dict[str, str]:
    """Return what computes the run's `model`, `data` and `train`, by name: runs that name it alike share that code."""
    train = config.train
    chosen = [train.optimizer, train.loss, train.schedule, *train.augment.more, *_selecting(config)]
    named = ", ".join([f"training on {config.task} data", *chosen])
    return {"model": part_name(config.model), "data": part_name(config.data), "train": named}


def codes(config: RunConfig) -> dict[str, Code]:
    """Return the present code of the run's `model`, `data` and `train`, as this process first saw it."""
    train = config.train
    chosen = (AUGMENTATIONS[name] for name in train.augment.more)
    functions = OPTIMIZERS[train.optimizer], LOSSES[train.loss], SCHEDULES[train.schedule]
    places = (getattr(function, "place", function) for function in functions)  # of recstudy's own, which need torch to be there
    named = *places, *chosen, *_selecting(config).values(), TASKS[config.task]
    return {"model": _code(type(config.model)), "data": _code(type(config.data), *SPLITS), "train": _code(*LOOP, *named)}


def _selecting(config: RunConfig) -> dict[str, Callable[..., Any] | str]:
    """Return the metric that selects epochs, by its name, where it follows from answers."""
    metric = METRICS[config.score]
    return {config.score: metric.of} if metric.of is not None and config.train.selection != "last" else {}


_code = lru_cache(maxsize=256)(code_of)
