"""What a model costs: parameters, FLOPs, and the memory of a training step.

FLOPs are those of the matrix products and convolutions, 2 a multiply-add, of the model as its paper writes
it: every token of every layer, although ours skips outputs that nobody reads. A frozen backbone is not in
them: its features are computed once a data set.

Memory is that of the weights, their gradients, the optimiser's state and the copies that are kept of them;
and of what the forward pass saves for the backward pass, each storage once. What a step takes for a moment
beside that, such as one layer's gradients, is not in it: measured peaks on a CPU are 0.8 to 1.25 times the
estimate (tests/metrics/test_training_memory.py).

What is counted by building a model (`networks/counting.py`) is kept in RECSTUDY_CACHE/counted.json, so that a
plan is priced without torch. It is counted anew where the model's or the data set's settings or code change,
or a package that networks are made with.
"""

import json
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from recstudy.config import DataConfig, ModelConfig, RunConfig
from recstudy.files import atomic_write, cache_folder, sha
from recstudy.plugins import named
from recstudy.plugins.files import code_key
from recstudy.programs.base import Cost

KEPT = 4  # copies of the weights: themselves, their gradients and the two moments of Adam
PACKAGES = ("torch", "torchvision", "timm")
MOST = 5000  # kept counts; the oldest go


def cost(config: RunConfig) -> Cost:
    """Return what `config`'s model costs, without early halting."""
    model, train = config.model, config.train
    stages = [
        (share, counted("recstudy.models.networks.counting:count", one, config.data))
        for share, one in model.stages
    ]
    params, trained_params, forward, *_ = stages[-1][1]  # as it is at test
    blind, step = (sum(share * counts[at] for share, counts in stages) for at in (3, 4))
    silent = model.silent_steps if train.detach_carry else 0
    steps = steps_a_batch(config)
    trained = silent * blind + (steps - silent) * step
    if model.bootstraps and train.halting == "sample":
        trained += steps * blind  # the halting target looks one step ahead
    return Cost(
        params + model.frozen_params, trained_params, forward * train.evaluation_steps / 1e9, trained / 1e9
    )


def steps_a_batch(config: RunConfig) -> int:
    """Return supervision steps that a batch is given, without early halting: one, where each sample halts by
    itself.
    """
    return 1 if config.train.halting == "sample" else config.train.supervision_steps


def total_pflop(config: RunConfig) -> float | None:
    """Return PFLOP of a run's training, without early halting; None where only the files tell how many
    images.
    """
    images = config.training_images
    return None if images is None else cost(config).train_gflops * images * config.train.epochs / 1e6


def known_pflop(config: RunConfig) -> float | None:
    """Return `total_pflop` where it takes no building of a network, which loads torch: it was counted before;
    else None.
    """
    kept = _kept(cache_folder() / "counted.json")
    counts = "recstudy.models.networks.counting:count"
    return (
        total_pflop(config)
        if all(_key(counts, one, config.data) in kept for _, one in config.model.stages)
        else None
    )


def training_memory(config: RunConfig) -> int:
    """Return bytes that one worker of a run needs to train, without the libraries' own."""
    train = config.train
    own = -(-train.batch_size // config.resources.workers)  # images of this worker
    # supervision steps whose activations are kept at once
    joined = 1 if train.detach_carry else steps_a_batch(config)
    half = train.precision == "bfloat16"
    weights, activations = counted(
        "recstudy.models.networks.counting:saved", config.model, config.data, own, joined, half
    )
    copies = KEPT + (train.ema_decay > 0) + (train.selection != "last")
    return copies * weights + activations


@lru_cache(maxsize=1024)
def counted(place: str, model: ModelConfig, data: DataConfig, *more: int) -> tuple[int, ...]:
    """Return what the function at `place` (`module:name`) says of the model, the data set and what else it
    takes.
    """
    key, path = _key(place, model, data, *more), cache_folder() / "counted.json"
    kept = _kept(path)
    if key not in kept:
        kept[key] = list(named(place)(model, data, *more))
        with suppress(OSError), atomic_write(path) as temporary:  # then it is counted again
            temporary.write_text(json.dumps(dict([*kept.items()][-MOST:])), encoding="utf-8")
    return tuple(kept[key])


def _key(place: str, model: ModelConfig, data: DataConfig, *more: int) -> str:
    """Return what counts are kept by."""
    return sha(
        [
            place,
            model.model_dump_json(),
            data.model_dump_json(),
            *map(str, more),
            *_code(place, type(model), type(data)),
        ]
    )


def _kept(path: Path) -> dict[str, list[int]]:
    """Return the counts that are kept there; none where there is no such file, or a damaged one."""
    with suppress(OSError, ValueError):
        found: Any = json.loads(path.read_bytes())
        if isinstance(found, dict) and all(isinstance(counts, list) for counts in found.values()):
            return found
    return {}


@lru_cache(maxsize=256)
def _code(place: str, model: type[ModelConfig], data: type[DataConfig]) -> list[str]:
    network = [model.network] if model.network else []
    return [*code_key(place, model, data, *network), *map(version, PACKAGES)]
