"""One run: its parts, whether they fit together, its id, and where it runs, which decides none of its numbers."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from recstudy.config.base import Config, canonical, configure, hashed
from recstudy.config.ids import deciding
from recstudy.config.parts import DATASETS, FAMILIES, KINDS, DataConfig, ModelConfig
from recstudy.config.train import TrainConfig
from recstudy.errors import ConfigError, choices, nearest
from recstudy.metrics import TASKS
from recstudy.plugins import Registry


class Place(Config):
    """Where and with how much a run runs. Never part of the run id."""

    cpus_per_run: int = Field(1, ge=1, description="CPU cores a worker may use")
    gpus_per_run: float | None = Field(
        None, ge=0, description="GPUs a worker gets; a fraction shares one; by default 1 where there are any"
    )
    workers_per_run: int = Field(1, ge=1, le=64, description="workers that share each batch of one run")
    trainer: Literal["auto", "inline", "train"] = Field(
        "auto", description="in Tune's process, or on Ray Train workers; auto: Train for several workers or a whole GPU"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "auto", description="auto: a GPU of CUDA where a run has one, else the CPU; mps: Apple's GPU, for one worker"
    )
    compile: Literal["auto", "on", "off"] = Field(
        "auto", description="torch.compile the network; auto: on a GPU of CUDA, not on a CPU"
    )
    checkpoint_seconds: float = Field(30.0, ge=0, description="least time between two checkpoints; 0: one each epoch")
    silent_minutes: float = Field(
        30.0, ge=0, description="a run that shows no sign for so long is stopped and marked hung; 0: never"
    )

    @property
    def uses_train(self) -> bool:
        if self.trainer == "auto":
            return self.workers_per_run > 1 or (self.gpus_per_run or 0) >= 1
        return self.trainer == "train"

    @property
    def compiles(self) -> bool:
        return self.compile == "on" or (self.compile == "auto" and bool(self.gpus_per_run))

    @model_validator(mode="before")
    @classmethod
    def _stated(cls, values: Any) -> Any:
        """Refuse a range of workers, and add the GPUs that a device means: one of CUDA's, else none that Ray gives out.

        Earlier records may have a range, in two fields, and are read as its first number.
        """
        if not isinstance(values, Mapping):
            return values
        workers = values.get("workers_per_run")
        if isinstance(workers, str) and workers[:1].isdigit() and "-" in workers:
            raise ValueError(f"workers_per_run must be a number, but got {workers}: ranges were removed")
        means = {"cpu": 0.0, "mps": 0.0, "cuda": 1.0}.get(str(values.get("device")))
        stated = {} if means is None or values.get("gpus_per_run") is not None else {"gpus_per_run": means}
        return {name: value for name, value in values.items() if name != "max_workers_per_run"} | stated

    @model_validator(mode="after")
    def _fits(self) -> Self:
        gpus, device = self.gpus_per_run, self.device
        if gpus is not None and ((device == "cuda" and not gpus) or (device in ("cpu", "mps") and gpus)):
            has = "no GPU of CUDA" if gpus else "a GPU"
            raise ValueError(f"device {device!r} has {has}, but gpus_per_run is {gpus:g}. Leave one of them out")
        if device == "mps" and (self.workers_per_run > 1 or self.uses_train or self.compile == "on"):
            raise ValueError(
                "device 'mps' is for one worker in Tune's process, or with --no-ray, and for networks that are not compiled. "
                "Leave workers_per_run, trainer and compile out"
            )
        if self.trainer == "inline" and self.workers_per_run > 1:
            raise ValueError("trainer 'inline' runs one worker; use 'train' or 'auto' for several")
        if gpus is not None and gpus > 1 and gpus != int(gpus):
            raise ValueError(f"gpus_per_run must be a whole number above 1, but got {gpus}")
        return self


# What a kind of answer (`Task.output`) is called in a message; one of a user's own is called by its name.
OUTPUTS = {
    "image": "an answer an image",
    "cells": "an answer a cell of a grid",
    "caption": "captions",
    "pair": "features of images and captions",
}


def _named(outputs: Iterable[str]) -> str:
    return " or ".join(OUTPUTS.get(output, repr(output)) for output in outputs)


def _from_registry(part: str, registry: Registry[Any], key: str) -> Any:
    """Turns `{"family": "vitrm", ...}` into the registered class's instance; an instance passes."""

    def lookup(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        if key not in value:
            raise ConfigError(f"'{part}' needs a {key!r}: one of {choices(sorted(registry))}")
        return configure(registry[str(value[key])], value, part)

    return BeforeValidator(lookup)


class RunConfig(Config):
    """Everything that decides one run, and where it runs."""

    data: Annotated[SerializeAsAny[DataConfig], _from_registry("data", DATASETS, "name")]
    model: Annotated[SerializeAsAny[ModelConfig], _from_registry("model", FAMILIES, "family")]
    train: TrainConfig = TrainConfig()
    seed: int = Field(0, ge=0)
    place: Place = Place()

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        model, train = self.model, self.train
        task, own = TASKS[self.task], TASKS[self.data.task]
        if task.labels != own.labels:
            raise ValueError(f"{model.title} learns {task.name}, but {self.data.title} is {own.name}")
        if task.output not in model.outputs:
            families = [name for name, kind in FAMILIES.items() if task.output in kind.outputs]
            giving = f"{choices(families)} give{'s' * (len(families) == 1)}" if families else "no registered family gives"
            needed = f"{self.data.title} ({task.name}) needs {_named([task.output])}, which {giving}"
            raise ValueError(f"{model.title} gives {_named(model.outputs)}, but {needed}")
        model.check(self.data)
        task.check(self)
        task.check_score(self)
        for name in ("supervision_steps", "evaluation_steps"):
            if (steps := getattr(train, name)) > 1 and not model.recursive:
                raise ValueError(f"train.{name} must be 1 for {model.title}, which has no state to refine, but got {steps}")
        if train.halting == "sample" and not model.halts:
            raise ValueError(f"train.halting must be 'batch' for {model.title}, which has no halting head")
        if train.halting == "sample" and model.silent_steps:
            raise ValueError(
                f"train.halting must be 'batch' for {model.title} without a loss on the left half: "
                "samples of several ages share an optimiser step. Use model.half_loss 'both'"
            )
        if min(train.supervision_steps, train.evaluation_steps) <= model.unseen_steps:
            raise ValueError(
                f"train.supervision_steps and train.evaluation_steps must be above {model.unseen_steps}, the steps in which "
                f"{model.title} has not seen the whole image, but got {train.supervision_steps} and {train.evaluation_steps}"
            )
        if model.reads_pixels and (train.augment.mixup or train.augment.cutmix):
            raise ValueError(f"train.augment.mixup and cutmix must be 0 for {model.title} on pixel tokens, which cannot be mixed")
        if train.backbone_learning_rate is not None and not getattr(model, "tuned", False):
            raise ValueError(
                f"train.backbone_learning_rate is for a tuned backbone, but {model.title} trains none. Leave it out, or set "
                "model.tuned of a captioner to true"
            )
        return self

    @property
    def task(self) -> str:
        """What is learned, by its name among `TASKS`."""
        return self.model.task or self.data.task

    @property
    def revised(self) -> int:
        """One more where weights are averaged that batch norm follows: its running statistics were those of today's weights."""
        trains_norms = self.model.family in ("cnn", "resnet", "micar") or getattr(self.model, "tuned", False)
        return self.revision + bool(self.train.ema_decay and trains_norms)

    @property
    def values(self) -> dict[str, Any]:
        """The parts that decide the numbers, as plain JSON values."""
        return self.model_dump(mode="json", exclude={"place"})

    @property
    def deciding(self) -> dict[str, Any]:
        """Of `values`, those that digests are made of."""
        return deciding(self, self.values)

    @property
    def score(self) -> str:
        """The name of the metric that selects epochs, is drawn against depth and shown while a run trains."""
        return self.train.score or TASKS[self.task].score

    @property
    def drawn(self) -> "RunConfig":
        """This config with its data set as its seed draws it, for what loads and trains; the run id is of the one as stated."""
        return self.model_copy(update={"data": self.data.drawn_by(self.seed)})

    @property
    def graph(self) -> str:
        """What a compiled network is made for: runs that have it alike are compiled once."""
        parts = [part.model_dump(mode="json") for part in (self.model, self.data)]
        return canonical([*parts, self.train.batch_size]) + self.train.precision

    @property
    def updates_a_batch(self) -> int:
        """Optimiser updates on one batch, where nothing halts early."""
        one = not self.train.detach_carry or self.train.halting == "sample"
        return 1 if one else self.train.supervision_steps - self.model.silent_steps

    @property
    def training_images(self) -> int | None:
        """Images of an epoch, after the limit and without the held-out ones; None where only the files tell."""
        size = self.data.train_size
        if size is None:
            return None
        size = min(size, self.data.limit or size)
        held = round(size * self.data.validation) if self.train.selection == "validation" else 0
        return (size - held) * self.data.showings

    @property
    def run_id(self) -> str:
        """20 hex digits (80 bits: a clash among a billion runs is a one in a million event) over canonical JSON."""
        return run_ids(self.deciding, [self.seed])[0]

    def with_changes(self, changes: Mapping[str, Any]) -> "RunConfig":
        """Return this config with fields replaced, addressed as `model.latent_steps`; a whole part may be replaced too."""
        return self.with_each([changes])[0]

    def with_each(self, several: Iterable[Mapping[str, Any]]) -> list["RunConfig"]:
        """Return `with_changes` of each of several changes."""
        own = self.model_dump(mode="json")
        configs = []
        for changes in several:
            if "place.max_workers_per_run" in changes:
                raise ConfigError("place.max_workers_per_run was removed. Set place.workers_per_run to a number")
            values = dict(own)
            for path, value in changes.items():
                _replace(values, path, value)
            configs.append(configure(RunConfig, values))
        return configs


def run_ids(deciding: Mapping[str, Any], seeds: Iterable[int]) -> list[str]:
    """Return the ids of the runs of one config with these seeds, of which all else is written once."""
    written = {name: f"{canonical(name)}:{canonical(value)}" for name, value in sorted(deciding.items())}
    seeded = (written | {"seed": f'"seed":{seed}'} for seed in seeds)
    return [hashed("{" + ",".join(parts.values()) + "}", 20) for parts in seeded]


def _replace(values: dict[str, Any], path: str, value: Any) -> None:
    if isinstance(value, Config):
        value = value.model_dump(mode="json")
    *parents, last = path.split(".")
    for parent in parents:
        if not isinstance(values.get(parent), dict):
            raise ConfigError(f"no field {path!r}: there are {choices(values)}.{nearest(parent, values)}")
        values[parent] = dict(values[parent])  # the dictionaries are shared with the config they come from
        values = values[parent]
    if last in KINDS and values.get(last) != value:
        values.clear()  # another family or data set has other fields
    values[last] = value
