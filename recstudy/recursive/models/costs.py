"""Compute the cost of a model: parameters, FLOPs, and the memory of a training step.

FLOPs are those of the matrix products and convolutions, 2 per multiply-add, of the model as its paper writes
it: every token of every layer, although recstudy skips outputs that are not read. A frozen backbone does not
count, because its features are computed once per data set.

Memory is that of the weights, their gradients, the optimiser's state and the copies of the weights, and of
the tensors that the forward pass saves for the backward pass, each storage once. Temporary tensors, such as
the gradients of one layer, are left out: measured peaks on a CPU are 0.8 to 1.25 times the estimate
(tests/recursive/metrics/test_training_memory.py).

The counts need a network (`networks/counting.py`) and are saved in RECSTUDY_CACHE/counted.json, so that a
plan has its cost without torch. They are repeated if the settings or the code of the model or the data set
change, or the version of a package that networks are built with.
"""

import json
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from math import ceil
from pathlib import Path
from typing import Any

from recstudy.base.files import atomic_write, cache_folder
from recstudy.base.values import hashed
from recstudy.plugins import import_object
from recstudy.plugins.files import code_key
from recstudy.programs.facts import Cost, RunPrice
from recstudy.programs.metric import METRICS
from recstudy.recursive.config.parts import DataConfig, ModelConfig
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.tasks import TASKS

# Assumed FLOP/s of large products on an H100: a quarter of the data sheet's bfloat16, 60 % of its float32.
GPU_RATE = {"bfloat16": 250e12, "float32": 40e12}
LAUNCH_S = 5e-6  # assumed seconds between two kernels; torch.compile makes fewer of them, Python is slower
MAX_WORKERS = 64  # of a run
WEIGHT_COPIES = 4  # the weights, their gradients and the two moments of Adam
COUNT = "recstudy.recursive.models.networks.counting:count"
PACKAGES = ("torch", "torchvision", "timm")

MAX_COUNTS = 5000  # saved counts; the oldest are dropped


def cost(config: RunConfig) -> Cost:
    """Return the cost of a run's model, without early halting."""
    # the last stage is the model at test
    params, trained_params, test_flops, *_ = cached_count(COUNT, config.model.stages[-1][1], config.data)
    return Cost(
        params + config.model.frozen_params,
        trained_params,
        test_flops * config.train.evaluation_steps / 1e9,
        _training(config, 3) / 1e9,
    )


def _training(config: RunConfig, column: int) -> float:
    """Return the FLOPs per image (column 3) or the kernels per batch (6) of all supervision steps."""
    model, train = config.model, config.train
    stages = [(share, cached_count(COUNT, stage, config.data)) for share, stage in model.stages]
    forward = sum(share * counts[column] for share, counts in stages)
    step = sum(share * counts[column + 1] for share, counts in stages)  # forward and backward
    silent = model.silent_steps if train.detach_carry else 0
    steps = steps_a_batch(config)
    trained = silent * forward + (steps - silent) * step
    if model.bootstraps and train.halting == "sample" and train.supervision_steps > 1:
        trained += steps * forward  # the target of `proceed` needs one more forward pass (halting.py)
    return trained


def steps_a_batch(config: RunConfig) -> int:
    """Return the number of supervision steps per batch, without early halting.

    It is `train.passes` if each sample halts on its own.
    """
    train = config.train
    return train.passes if train.halting == "sample" else train.supervision_steps


def train_pflop(config: RunConfig, image_steps: float) -> float:
    """Return the PFLOP of a training, by its supervision steps summed over images."""
    return image_steps * cost(config).train_gflops / steps_a_batch(config) / 1e6


def price(config: RunConfig) -> RunPrice | None:
    """Return the computation of a run without early halting, and its assumed time on one GPU.

    Evaluation is that of the selection split after each epoch, and of the test set and as many training
    images at the end, with the trajectories and copies of `train.at_test`. A test set of unknown size counts
    as large as the validation split. If captions select epochs, they are written after each epoch. A caption
    counts as one pass over its tokens for each beam, because the counts do not separate the vision encoder.

    No GPU was measured. The time of training and of evaluation is the larger of two: their FLOPs at
    `GPU_RATE`, and their kernels times `LAUNCH_S`, which bound a narrow network with a small batch.

    Returns:
        None if the number of training images is unknown.
    """
    images = config.training_images
    if images is None:
        return None
    data, train, model = config.data, config.train, config.model
    validation = round(images / data.showings * data.held_share / (1 - data.held_share))
    size = data.test_size or validation
    tests = min(size, data.limit or size)
    selection_images = {"test": tests, "last": 0}.get(train.selection, validation)
    passes = (train.epochs * selection_images + 2 * tests) * train.evaluation_steps
    if model.recursive:
        passes += tests * train.evaluation_depths
    if train.at_test.repeats and tests:
        answers = train.at_test.trajectories + train.at_test.copies
        passes += train.at_test.scored(tests) * answers * train.at_test.segments
    counts = cached_count(COUNT, model.stages[-1][1], data)
    kernels = counts[5] * passes
    if TASKS[config.task].output == "caption":
        is_written_each_epoch = METRICS[config.score].of is not None
        captions = train.evaluation_steps * (tests + is_written_each_epoch * train.epochs * selection_images)
        beams = getattr(model, "beams", 1)
        passes += beams * captions
        kernels += counts[8] * beams * captions * data.tokens  # each token has a pass of its own
    batches = train.epochs * ceil(images / train.batch_size)
    training, evaluation = cost(config).train_gflops * images * train.epochs / 1e6, counts[2] * passes / 1e15

    def seconds(pflop: float, kernels: float) -> float:
        return max(1e15 * pflop / GPU_RATE[train.precision], kernels * LAUNCH_S)

    return RunPrice(
        training,
        evaluation,
        seconds(training, batches * _training(config, 6)),
        seconds(evaluation, kernels / (2 * train.batch_size)),
    )


def known_pflop(config: RunConfig) -> float | None:
    """Return the PFLOP of training if all counts are saved, so that torch is not loaded; otherwise None."""
    saved_counts = _read_counts(cache_folder() / "counted.json")
    has_counts = all(_key(COUNT, stage, config.data) in saved_counts for _, stage in config.model.stages)
    known_price = price(config) if has_counts else None
    return known_price and known_price.training


def training_memory(config: RunConfig, workers: int = 0) -> int:
    """Return the bytes that one of the workers of a run needs for training, without those of the libraries.

    `workers` replaces the number of workers in the config.
    """
    train = config.train
    weights, activations = cached_count(
        "recstudy.recursive.models.networks.counting:saved",
        config.model,
        config.data,
        ceil(train.batch_size / (workers or config.resources.workers)),
        # supervision steps whose activations are in memory at once
        1 if train.detach_carry else steps_a_batch(config),
        train.precision == "bfloat16",
    )
    # The moving average and the best epoch are further copies of the weights.
    # AMSGrad keeps the maximum of the second moment.
    copies = WEIGHT_COPIES + train.amsgrad + (train.ema_decay > 0) + (train.selection != "last")
    return copies * weights + activations


def memory_fix(config: RunConfig, gpu_bytes: float) -> str:
    """Return in words how a run can fit into so many bytes of a GPU.

    More workers need less memory each, but each has all copies of the weights.
    """
    batch_size = config.train.batch_size
    for workers in range(2, min(batch_size, MAX_WORKERS) + 1):
        if batch_size % workers == 0 and training_memory(config, workers) <= gpu_bytes:
            return (
                f"Set resources.workers={workers} to split a batch between {workers} GPUs, or lower"
                " train.batch_size."
            )
    return "Lower train.batch_size or the sizes of the model."


@lru_cache(maxsize=1024)
def cached_count(place: str, model: ModelConfig, data: DataConfig, *arguments: int) -> tuple[int, ...]:
    """Return the counts of a function, from the cache if they are there.

    Args:
        place: The function as `module:name`.
        model: Its first argument.
        data: Its second argument.
        *arguments: Its other arguments.
    """
    key, path = _key(place, model, data, *arguments), cache_folder() / "counted.json"
    saved_counts = _read_counts(path)
    if key not in saved_counts:
        saved_counts[key] = list(import_object(place)(model, data, *arguments))
        newest_counts = dict([*saved_counts.items()][-MAX_COUNTS:])
        # If the cache cannot be written, the next call counts again.
        with suppress(OSError), atomic_write(path) as temporary:
            temporary.write_text(json.dumps(newest_counts), encoding="utf-8")
    return tuple(saved_counts[key])


def _key(place: str, model: ModelConfig, data: DataConfig, *arguments: int) -> str:
    """Return the key of counts: a digest of the function, its arguments and the code that they depend on."""
    parts = [place, model.model_dump_json(), data.model_dump_json(), *map(str, arguments)]
    return hashed("\n".join([*parts, *_code(place, type(model), type(data))]), 16)


def _read_counts(path: Path) -> dict[str, list[int]]:
    """Return the saved counts; empty if there is no file or it is damaged."""
    with suppress(OSError, ValueError):
        content: Any = json.loads(path.read_bytes())
        if isinstance(content, dict) and all(isinstance(counts, list) for counts in content.values()):
            return content
    return {}


@lru_cache(maxsize=256)
def _code(place: str, model: type[ModelConfig], data: type[DataConfig]) -> list[str]:
    network = [model.network] if model.network else []
    return [*code_key(place, model, data, *network), *map(version, PACKAGES)]
