"""The config of one run: its parts, the checks that they fit together, and what follows from them.

The `resources` are part of the config, but they do not affect its id or its numbers. Studies make these
configs, and the training loop reads them.
"""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, NonNegativeInt, SerializeAsAny, model_validator

from recstudy.base.errors import ConfigError, choices, nearest, nearest_first
from recstudy.base.values import canonical, flatten
from recstudy.plugins import Registry
from recstudy.programs.base import Program, RunSettings, load_program
from recstudy.programs.facts import Description
from recstudy.programs.settings import KINDS, Config, Range, Resources, configure, tunable
from recstudy.records.files import Json
from recstudy.recursive.config.ids import deciding
from recstudy.recursive.config.parts import DATASETS, FAMILIES, DataConfig, ModelConfig
from recstudy.recursive.config.tasks import TASKS
from recstudy.recursive.config.train import TrainConfig

SMOKE = {"train.epochs": 2, "data.limit": 32, "data.rounds": 1, "resources.compile": "off"}

# Words of messages for the kinds of answers (`Task.output`). A user's kind is called by its name.
OUTPUTS = {
    "image": "an answer an image",
    "cells": "an answer a cell of a grid",
    "caption": "captions",
    "pair": "features of images and captions",
}


def _describe_outputs(outputs: Iterable[str]) -> str:
    return " or ".join(OUTPUTS.get(output, repr(output)) for output in outputs)


def _from_registry(part: str, registry: Registry[Any], key: str) -> Any:
    """Return a validator that turns `{"family": "vitrm", ...}` into an instance of the registered class."""

    def lookup(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        if key not in value:
            raise ConfigError(
                f"{part}.{key} is missing. Choose one of {choices(sorted(registry.complete()))}"
            )
        return configure(registry[str(value[key])], value, part)

    return BeforeValidator(lookup)


class RunConfig(RunSettings):
    """The settings that decide a run's numbers, and the resources that it runs on."""

    data: Annotated[SerializeAsAny[DataConfig], _from_registry("data", DATASETS, "name")]
    model: Annotated[SerializeAsAny[ModelConfig], _from_registry("model", FAMILIES, "family")]
    train: TrainConfig = TrainConfig()
    seed: NonNegativeInt = 0
    resources: Resources = Resources()

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        model, train = self.model, self.train
        task, data_task = TASKS[self.task], TASKS[self.data.task]
        if task.labels != data_task.labels:
            raise ValueError(f"{model.title} learns {task.name}, but {self.data.title} is {data_task.name}")
        if task.output not in model.outputs:
            families = [name for name, kind in FAMILIES.complete().items() if task.output in kind.outputs]
            subject = choices(families) if families else "no registered family"
            verb = "give" if len(families) > 1 else "gives"
            needed_output = _describe_outputs([task.output])
            raise ValueError(
                f"{model.title} gives {_describe_outputs(model.outputs)}, but {self.data.title} ({task.name})"
                f" needs {needed_output}, which {subject} {verb}"
            )
        model.check(self.data)
        task.check(self)
        task.check_score(self)
        for name in ("supervision_steps", "evaluation_steps"):
            if (steps := getattr(train, name)) > 1 and not model.recursive:
                raise ValueError(
                    f"train.{name} must be 1 for {model.title}, which has no state to refine, but got {steps}"
                )
        if train.halting == "sample" and not model.halts:
            raise ValueError(f"train.halting must be 'batch' for {model.title}, which has no halting head")
        if train.halting == "sample" and model.silent_steps:
            raise ValueError(
                f"train.halting must be 'batch' for {model.title} without a loss on the left half, because"
                " samples at different steps share an optimiser step. Otherwise use model.half_loss 'both'"
            )
        if min(train.supervision_steps, train.evaluation_steps) <= model.unseen_steps:
            raise ValueError(
                f"train.supervision_steps and train.evaluation_steps must be above {model.unseen_steps}, the"
                f" steps in which {model.title} has not seen the whole image, but got"
                f" {train.supervision_steps} and {train.evaluation_steps}"
            )
        if train.state_precision != "float32" and not (model.casts_states and train.precision == "bfloat16"):
            raise ValueError(
                f"train.state_precision must be 'float32' for {model.title} with train.precision"
                f" {train.precision!r}. 'bfloat16' is for HRM, TRM and transformer with precision 'bfloat16'"
            )
        if model.reads_pixels and (train.augment.mixup or train.augment.cutmix):
            raise ValueError(
                f"train.augment.mixup and cutmix must be 0 for {model.title} on pixel tokens, which cannot be"
                " mixed"
            )
        if train.backbone_learning_rate is not None and not getattr(model, "tuned", False):
            raise ValueError(
                f"train.backbone_learning_rate is for a tuned backbone, but {model.title} trains none. Leave"
                " it out, or set model.tuned of a captioner to true"
            )
        return self

    @property
    def task(self) -> str:
        """The name of the task in `TASKS`."""
        return self.model.task or self.data.task

    @property
    def revised(self) -> int:
        """The revision of what a run computes, which is part of its id."""
        # One higher for averaged weights with batch norm: the running statistics of revision 1 belonged to
        # the current weights, and not to the average.
        trains_norms = self.model.family in ("cnn", "resnet", "micar") or getattr(self.model, "tuned", False)
        # One higher for rotary positions in bfloat16: revision 1 computed the rotation in bfloat16, too.
        is_rounded = self.model.rotates and self.train.precision == "bfloat16"
        return self.revision + bool(self.train.ema_decay and trains_norms) + is_rounded

    @property
    def deciding(self) -> Json:
        """The part of `values` that the run id is made of."""
        return deciding(self, self.values)

    @property
    def score(self) -> str:
        """The metric that selects epochs, is plotted against depth and is shown during training."""
        return self.train.score or TASKS[self.task].score

    @property
    def depths(self) -> range:
        """The numbers of supervision steps after which the test set is scored; empty without recursion.

        The first depth is the first one that has seen the whole image.
        """
        last = self.train.evaluation_depths if self.model.recursive else 0
        return range(self.model.unseen_steps + 1, last + 1)

    @property
    def resolved_config(self) -> "RunConfig":
        """This config with the data set of its seed, for loading and training.

        The run id comes from the config as stated.
        """
        return self.model_copy(update={"data": self.data.for_seed(self.seed)})

    @property
    def graph(self) -> str:
        """The key of a compiled network: runs with the same key share one compilation."""
        parts = [part.model_dump(mode="json") for part in (self.model, self.data)]
        precisions = self.train.precision, self.train.state_precision
        return canonical([*parts, self.train.batch_size, *precisions])

    @property
    def updates_a_batch(self) -> int:
        """The number of optimiser updates on one batch without early halting."""
        if not self.train.detach_carry or self.train.halting == "sample":
            return 1
        return self.train.supervision_steps - self.model.silent_steps

    @property
    def training_images(self) -> int | None:
        """The number of images of an epoch, after the limit and without the held-out images.

        If the size is known only after the files are read, the limit counts as the size. Without a limit the
        number is None.
        """
        # The limit applies to the official training images, before the validation split is held out.
        sizes = [size for size in (self.data.train_size, self.data.limit) if size is not None]

        if not sizes:
            return None
        size = min(sizes)
        held_out_images = round(size * self.data.held_share) if self.train.selection == "validation" else 0
        return (size - held_out_images) * self.data.showings

    @property
    def program(self) -> Program:
        return load_program()

    @property
    def description(self) -> Description:
        model, data = self.model, self.data
        return Description(
            model.title,
            data.title,
            data.synthetic,
            model.leaks,
            model.batch_norm,
            is_imported=self.train.imported,
        )

    @property
    def objective(self) -> str:
        """The name of the score on the split that selects epochs."""
        return f"selection_{self.score}"

    @property
    def ranges(self) -> dict[str, Range]:
        ranges = tunable(self)
        if not self.model.recursive:
            del ranges["train.supervision_steps"]  # must be 1, see _parts_fit
        return ranges

    @property
    def kind(self) -> tuple[type[ModelConfig], type[DataConfig]]:
        return type(self.model), type(self.data)

    @property
    def family(self) -> str:
        return self.model.family

    @property
    def parts(self) -> dict[str, Config]:
        return {"model": self.model, "data": self.data, "train": self.train}

    @property
    def steps(self) -> int:
        return self.train.epochs

    def smaller(self, changes: Mapping[str, Any]) -> Json:
        # A field that this run lacks is left out: only puzzles have rounds.
        fields = flatten(self.model_dump(mode="json")).keys() - flatten(changes).keys()
        fields -= {"train.epochs"} if self.train.imported else set()
        return {field: value for field, value in SMOKE.items() if field in fields}

    def refuse_search(self, objectives: Collection[str]) -> None:
        if self.model.leaks:
            raise ConfigError(
                f"{self.model.title} cannot be searched, because its input contains the caption. Choose"
                " another mode"
            )
        if "score" in objectives and self.train.selection == "last":
            raise ConfigError(
                "train.selection must be 'validation' or 'test' in a search with the objective 'score',"
                " because 'last' scores no epoch"
            )

    def with_each(self, several: Iterable[Mapping[str, Any]]) -> list["RunConfig"]:
        """Return the configs of several sets of changes, each applied to this config."""
        own_values = self.model_dump(mode="json")
        fields = dict.fromkeys([*own_values, *flatten(own_values)])
        configs = []
        for changes in several:
            values = dict(own_values)
            for path, value in changes.items():
                if path.count(".") < 2 and path not in fields:
                    _refuse_elsewhere(path, fields, changes)
                _replace(values, path, value)
            configs.append(configure(RunConfig, values))
        return configs


def _refuse_elsewhere(path: str, fields: Iterable[str], changes: Mapping[str, Any]) -> None:
    """Raise a ConfigError for a field without its part, or for a field of another part."""
    part, _, name = path.rpartition(".")
    # The changes replace this part, and the new one has other fields.
    is_replaced = part in changes or any(f"{part}.{kind}" in changes for kind in KINDS)
    if is_replaced or (part and part not in fields):
        return
    names = {field.rpartition(".")[2]: field for field in fields}
    if not part or name in names:
        close = [names[match] for match in get_close_matches(name, names, n=1)]
        hint = "" if name in names else nearest(name, fields)
        hint = hint or "".join(f" Did you mean {field!r}?" for field in close)
        raise ConfigError(f"Unknown field {path!r}.{hint} Fields: {nearest_first(name, fields)}")


def _replace(values: Json, path: str, value: Any) -> None:
    """Set the value of a dotted path in nested dictionaries, which are copied on the way."""
    if isinstance(value, Config):
        value = value.model_dump(mode="json")
    *parents, last = path.split(".")
    for parent in parents:
        if not isinstance(values.get(parent), dict):
            raise ConfigError(f"Unknown field {path!r}.{nearest(parent, values)} Parts: {choices(values)}")
        values[parent] = dict(values[parent])  # copied: `with_each` shares it between several configs
        values = values[parent]
    # A different family or data set has other fields. The name of an image tokenizer is only a title.
    if len(parents) == 1 and last in KINDS and values.get(last) != value:
        values.clear()

    values[last] = value
