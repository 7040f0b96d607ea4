"""Make the small runs that the checks train, and compare a family's first twenty losses with saved ones.

`contract/command.py` and `tests/recursive/contract` call it.
"""

import json
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import torch

from recstudy.base.errors import ConfigError
from recstudy.programs.settings import Config, configure
from recstudy.records import Json, write_whole
from recstudy.recursive.config.functions import OneOf
from recstudy.recursive.config.parts import FAMILIES
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.tasks import TASKS
from recstudy.recursive.data.cache import load
from recstudy.recursive.models.caption import CaptionModel
from recstudy.recursive.train.loop import Training

CLOSE = 1e-4  # relative difference that is allowed between processors
TRAIN = {"epochs": 2, "batch_size": 8, "ema_decay": 0.9, "halt_threshold": 1}
JUDGE: Json = {"data": {"name": "digits", "limit": 24}, "model": {}}
WRITER: Json = {
    "data": {"name": "phantom_captions", "size": 16, "length": 8, "limit": 24},
    "model": {"backbone": "small", "weights": "random", "tuned": False},
}


class Broken(AssertionError):
    """A violated property of a family or task; the message names it."""


def require(condition: object, message: str) -> None:
    """Raise `Broken` with the message if the condition is false."""
    if not condition:
        raise Broken(message)


def example(family: str, **fields: Any) -> RunConfig:
    """Return a small run of a family, on digits or generated captions unless its `example` has other data.

    Args:
        family: Name of the family.
        **fields: Fields of the model that replace those of the family's `example`.

    Raises:
        ConfigError: The example is not a valid run.
    """
    kind = FAMILIES[family]
    start = WRITER if issubclass(kind, CaptionModel) else JUDGE
    data, model = kind.example.get("data", {}), kind.example.get("model", {})
    data = data if "name" in data else {**start["data"], **data}
    return small_run(
        {**kind.example, "data": data, "model": {**start["model"], **model, **fields, "family": family}}
    )


def example_of_task(task: str) -> RunConfig:
    """Return the small run of a task.

    Raises:
        ConfigError: The task has no example, or the example is not a valid run.
    """
    if {"data", "model"} <= TASKS[task].example.keys():
        return small_run(TASKS[task].example)
    raise ConfigError(
        f"the task {task!r} has no complete `example`. Set it to {{'data': {{...}}, 'model': {{...}}}}"
    )


def small_run(values: Mapping[str, Mapping[str, Any]]) -> RunConfig:
    # Two supervision steps are the fewest that use the carry; other families must have one.
    steps = (
        {"supervision_steps": 2, "evaluation_steps": 2}
        if FAMILIES[values["model"]["family"]].recursive
        else {}
    )
    return configure(RunConfig, {**values, "train": {**TRAIN, **steps, **values.get("train", {})}})


def switches(kind: type[Config], skip: Iterable[str] = ()) -> list[tuple[str, Any]]:
    """Return (field, value) for every value of the fields with a fixed set of values.

    These are literals, booleans and names of registered things.
    """
    pairs: list[tuple[str, Any]] = []
    for name, field in kind.model_fields.items():
        values: list[Any] = [
            value for part in field.metadata if isinstance(part, OneOf) for value in part.registry
        ]
        if get_origin(field.annotation) is Literal:
            values += get_args(field.annotation)
        elif field.annotation is bool:
            values += True, False
        pairs += [(name, value) for value in values if name not in skip]
    return pairs


def training_of(config: RunConfig, folder: Path = Path("data")) -> Training:
    """Return the training of a run on the CPU before its first epoch."""
    data = load(config.data, folder, hold_out=config.train.selection == "validation")
    return Training(config, data, torch.device("cpu"))


def trained(config: RunConfig, folder: Path = Path("data")) -> Training:
    """Return the training of a run on the CPU after its last epoch."""
    training = training_of(config, folder)
    for line in training.epochs():
        # only NaN differs from itself
        require(line["train_loss"] == line["train_loss"], "the training loss is not a number")
    return training


def first_losses(config: RunConfig, folder: Path = Path("data")) -> list[float]:
    """Return the losses of the first 20 supervision steps, in batches of 8."""
    config = config.with_changes({"data.limit": 200})
    if TASKS[config.task].mixes and not config.model.reads_pixels:
        config = config.with_changes({"train.augment.mixup": 0.4})
    training = training_of(config, folder)
    # In float64 the order of summation, which differs between processors, does not change the losses' digits.
    training.state.network.double()
    training.state.average = None
    torch.manual_seed(0)
    batches = (batch._replace(images=batch.images.double()) for batch in training._train.epoch(0))
    return [float(loss) for loss in islice(chain.from_iterable(map(training.train_batch, batches)), 20)]


def compare(file: Path, family: str, losses: list[float], write: bool = False) -> str:
    """Compare a family's losses with those saved in a file, or save them.

    Args:
        file: JSON file with the losses by family.
        family: Name of the family.
        losses: Its first losses.
        write: Save the losses instead of comparing them.

    Returns:
        A note if nothing was compared, else an empty string.

    Raises:
        Broken: A loss differs from the saved one.
    """
    saved_losses: dict[str, list[float]] = (
        json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    )
    if write:
        saved_losses[family] = [round(loss, 6) for loss in losses]
        write_whole(file, json.dumps(saved_losses, indent=1) + "\n")
        return f"saved in {file.name}"
    if family not in saved_losses:
        return f"no losses are saved yet; --write saves them in {file.name}"
    for step, (loss, saved_loss) in enumerate(zip(losses, saved_losses[family], strict=True), 1):
        close = abs(loss - saved_loss) <= CLOSE * abs(saved_loss)
        require(
            close,
            f"the loss of step {step} is {loss:.6f}, but was {saved_loss:.6f}: the computation has changed",
        )
    return ""
