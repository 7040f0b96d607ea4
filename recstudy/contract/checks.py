"""What the checks share: a small example of a family, the values of its switches, and its first losses.

The first twenty losses of a family on its example are what a refactoring leaves as they are.
"""

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import torch
from torch import Tensor, nn

from recstudy.config import FAMILIES, Config, OneOf, RunConfig, configure
from recstudy.data.cache import load
from recstudy.errors import ConfigError
from recstudy.metrics import TASKS
from recstudy.models.captioners import CaptionModel
from recstudy.records import write_whole
from recstudy.train.loop import Training

DIGITS = 6
CLOSE = 1e-4  # relative, between processors
TRAIN = {"epochs": 2, "batch_size": 8, "ema_decay": 0.9, "halt_threshold": 1}
JUDGE: dict[str, Any] = {"data": {"name": "digits", "limit": 24}, "model": {}}
WRITER: dict[str, Any] = {
    "data": {"name": "phantom_captions", "size": 16, "length": 8, "limit": 24},
    "model": {"backbone": "small", "weights": "random", "tuned": False},
}


class Broken(AssertionError):
    """A promise that a family does not keep; the message says which, and by what."""


def hold(condition: object, message: str) -> None:
    if not condition:
        raise Broken(message)


def example(family: str, **fields: Any) -> RunConfig:
    """Return the small run of a family on which its checks run, with these fields of the model.

    It is made of the family's `example` and, where that says nothing, of 24 digits, or drawn captions for a captioner.

    Raises:
        ConfigError: the example is no run.
    """
    kind = FAMILIES[family]
    values = deepcopy(WRITER if issubclass(kind, CaptionModel) else JUDGE)
    for part, given in kind.example.items():
        values[part] = dict(given) if part == "data" and "name" in given else {**values.get(part, {}), **given}
    values["model"] = {**values["model"], **fields, "family": family}
    return _run(values)


def example_of_task(task: str) -> RunConfig:
    """Return the small run of a task on which its checks run.

    Raises:
        ConfigError: it has no example, or that is no run.
    """
    given = TASKS[task].example
    if not {"data", "model"} <= given.keys():
        raise ConfigError(
            f"the task {task!r} needs an `example` with its data and a model: {{'data': {{...}}, 'model': {{...}}}}"
        )
    return _run(given)


def _run(values: Mapping[str, Mapping[str, Any]]) -> RunConfig:
    steps = {"supervision_steps": 2, "evaluation_steps": 2} if FAMILIES[values["model"]["family"]].recursive else {}
    return configure(RunConfig, {**values, "train": {**TRAIN, **steps, **values.get("train", {})}})


def switches(kind: type[Config], skip: Iterable[str] = ()) -> list[tuple[str, Any]]:
    """Return every value of every field that lists its values, is on or off, or names what is registered."""
    found: list[tuple[str, Any]] = []
    for name, field in kind.model_fields.items():
        registry = next((known.registry for known in field.metadata if isinstance(known, OneOf)), None)
        if name in skip:
            continue
        if registry is not None:
            found += [(name, value) for value in registry]
        elif get_origin(field.annotation) is Literal:
            found += [(name, value) for value in get_args(field.annotation)]
        elif field.annotation is bool:
            found += [(name, True), (name, False)]
    return found


def training_of(config: RunConfig, folder: Path = Path("data")) -> Training:
    """Return the run before its first epoch, on this machine's processor."""
    data = load(config.data, folder, hold_out=config.train.selection == "validation")
    return Training(config, data, torch.device("cpu"))


def trained(config: RunConfig, folder: Path = Path("data")) -> Training:
    """Return the run, trained to its end on this machine's processor."""
    training = training_of(config, folder)
    for line in training.epochs():
        hold(line["train_loss"] == line["train_loss"], "the training loss is not a number")
    return training


def same(one: Tensor, other: Tensor, tolerance: float = 0.0) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=tolerance, atol=tolerance)


def unreached(network: nn.Module) -> list[str]:
    """Return the weights without a gradient."""
    return [name for name, weight in network.named_parameters() if weight.grad is None or not weight.grad.any()]


class Untouched:
    """Holds that nothing is written on a network as long as the block runs."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network

    def __enter__(self) -> None:
        self.weights = {name: value.clone() for name, value in self.network.state_dict().items()}
        self.attributes = {name: set(module.__dict__) for name, module in self.network.named_modules()}

    def __exit__(self, *_: object) -> None:
        state = self.network.state_dict()
        written = [name for name, value in self.weights.items() if not torch.equal(value, state[name])]
        hold(not written, f"evaluation writes on {', '.join(written)}")
        new = {name: set(module.__dict__) - self.attributes[name] for name, module in self.network.named_modules()}
        kept = [f"{name}.{attribute}".lstrip(".") for name, attributes in new.items() for attribute in sorted(attributes)]
        hold(not kept, f"evaluation keeps {', '.join(kept)} on the module")


def first_losses(config: RunConfig, folder: Path = Path("data")) -> list[float]:
    """Of 20 supervision steps in batches of 8, with Mixup where there is one; in float64, where the order of summation does
    not show."""
    config = config.with_changes({"data.limit": 200})
    if TASKS[config.task].mixes and not config.model.reads_pixels:
        config = config.with_changes({"train.augment.mixup": 0.4})
    training = training_of(config, folder)
    training.state.network.double()
    training.state.average = None
    torch.manual_seed(0)
    found: list[float] = []
    for batch in training._train.epoch(0):
        found += [float(loss) for loss in training.train_batch(batch._replace(images=batch.images.double()))]
        if len(found) >= 20:
            break
    return found[:20]


def compare(file: Path, family: str, found: list[float]) -> bool:
    """Hold the losses against those that were kept; False where none were."""
    kept = kept_losses(file).get(family)
    if kept is None:
        return False
    hold(len(kept) == len(found), f"there are {len(found)} losses, but were {len(kept)}")
    for at, (one, other) in enumerate(zip(found, kept, strict=True)):
        close = abs(one - other) <= CLOSE * abs(other)
        hold(close, f"the loss of step {at + 1} is {one:.6f}, but was {other:.6f}: what is computed has changed")
    return True


def kept_losses(file: Path) -> dict[str, list[float]]:
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def keep(file: Path, family: str, found: list[float]) -> None:
    losses = kept_losses(file) | {family: [round(loss, DIGITS) for loss in found]}
    write_whole(file, json.dumps(losses, indent=1) + "\n")
