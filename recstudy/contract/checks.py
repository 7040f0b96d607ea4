"""The small runs that the checks of a contract train, and a family's first twenty losses."""

import json
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import torch

from recstudy.config import FAMILIES, OneOf, RunConfig
from recstudy.data.cache import load
from recstudy.errors import ConfigError
from recstudy.metrics import TASKS
from recstudy.models.captioners import CaptionModel
from recstudy.programs.settings import Config, configure
from recstudy.records import write_whole
from recstudy.train.loop import Training

CLOSE = 1e-4  # relative, between processors
TRAIN = {"epochs": 2, "batch_size": 8, "ema_decay": 0.9, "halt_threshold": 1}
JUDGE: dict[str, Any] = {"data": {"name": "digits", "limit": 24}, "model": {}}
WRITER: dict[str, Any] = {
    "data": {"name": "phantom_captions", "size": 16, "length": 8, "limit": 24},
    "model": {"backbone": "small", "weights": "random", "tuned": False},
}


class Broken(AssertionError):
    """A broken promise of a family or task; the message says which."""


def hold(condition: object, message: str) -> None:
    if not condition:
        raise Broken(message)


def example(family: str, **fields: Any) -> RunConfig:
    """Return the small run of a family: its `example` with these fields of the model, on digits or generated
    captions.

    Raises:
        ConfigError: the example is no run.
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
        ConfigError: the task has no example, or the example is no run.
    """
    if {"data", "model"} <= TASKS[task].example.keys():
        return small_run(TASKS[task].example)
    raise ConfigError(
        f"the task {task!r} needs an `example` with its data and a model: {{'data': {{...}}, 'model':"
        " {...}}"
    )


def small_run(values: Mapping[str, Mapping[str, Any]]) -> RunConfig:
    steps = (
        {"supervision_steps": 2, "evaluation_steps": 2}
        if FAMILIES[values["model"]["family"]].recursive
        else {}
    )
    return configure(RunConfig, {**values, "train": {**TRAIN, **steps, **values.get("train", {})}})


def switches(kind: type[Config], skip: Iterable[str] = ()) -> list[tuple[str, Any]]:
    """Return every value of every field that lists its values, is on or off, or names what is registered."""
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
    """Return the training of a run on the CPU, before its first epoch."""
    data = load(config.data, folder, hold_out=config.train.selection == "validation")
    return Training(config, data, torch.device("cpu"))


def trained(config: RunConfig, folder: Path = Path("data")) -> Training:
    """Return the training of a run on the CPU, after its last epoch."""
    training = training_of(config, folder)
    for line in training.epochs():
        hold(line["train_loss"] == line["train_loss"], "the training loss is not a number")
    return training


def first_losses(config: RunConfig, folder: Path = Path("data")) -> list[float]:
    """Return the losses of 20 supervision steps in batches of 8, in float64, where the order of summation
    does not show.
    """
    config = config.with_changes({"data.limit": 200})
    if TASKS[config.task].mixes and not config.model.reads_pixels:
        config = config.with_changes({"train.augment.mixup": 0.4})
    training = training_of(config, folder)
    training.state.network.double()
    training.state.average = None
    torch.manual_seed(0)
    batches = (batch._replace(images=batch.images.double()) for batch in training._train.epoch(0))
    return [float(loss) for loss in islice(chain.from_iterable(map(training.train_batch, batches)), 20)]


def compare(file: Path, family: str, losses: list[float], write: bool = False) -> str:
    """Compare a family's losses with those in a file, or write them there; return a note if nothing was
    compared.
    """
    known: dict[str, list[float]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if write:
        known[family] = [round(loss, 6) for loss in losses]
        write_whole(file, json.dumps(known, indent=1) + "\n")
        return f"kept in {file.name}"
    if family not in known:
        return f"none are kept yet; --write keeps them in {file.name}"
    for step, (loss, before) in enumerate(zip(losses, known[family], strict=True), 1):
        close = abs(loss - before) <= CLOSE * abs(before)
        hold(
            close,
            f"the loss of step {step} is {loss:.6f}, but was {before:.6f}: what is computed has changed",
        )
    return ""
