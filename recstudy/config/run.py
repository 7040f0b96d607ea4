"""One run: its parts, whether they fit together, and its id."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from recstudy.config.base import Config, canonical, configure, hashed
from recstudy.config.ids import deciding
from recstudy.config.parts import DATASETS, FAMILIES, KINDS, DataConfig, ModelConfig
from recstudy.config.place import Place
from recstudy.config.train import Augment, TrainConfig
from recstudy.errors import ConfigError, choices, nearest
from recstudy.metrics.registry import METRICS, selecting
from recstudy.plugins import Registry


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
        if self.data.task == "caption" and not model.reads_captions:
            families = choices(name for name, kind in FAMILIES.items() if kind.reads_captions)
            raise ValueError(f"{model.title} judges images, but {self.data.title} has captions, which are for {families}")
        if self.data.task == "grid" and not model.reads_puzzles:
            families = choices(name for name, kind in FAMILIES.items() if kind.reads_puzzles)
            raise ValueError(f"{model.title} judges images, but those of {self.data.title} are puzzles, which are for {families}")
        model.check(self.data)
        self._check_score()
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
        if self.data.task == "caption" and train.augment != Augment():
            raise ValueError("train.augment must be off for captions: a mirrored image has another one, and features are kept")
        if self.data.task == "grid" and train.augment != Augment():
            raise ValueError("train.augment must be off for puzzles: they have symmetries of their own (data.augmentations)")
        self._check_at_test()
        if self.data.task == "multilabel" and (train.augment.mixup or train.augment.cutmix):
            raise ValueError("train.augment.mixup and cutmix must be 0 for data of several labels an image")
        if self.data.task == "multilabel" and train.loss != "softmax":
            raise ValueError(f"train.loss {train.loss!r} is for one label an image; several have a binary cross-entropy each")
        return self

    def _check_at_test(self) -> None:
        if not self.train.at_test.on:
            return
        if self.data.task != "grid":
            raise ValueError(f"train.at_test must be off for {self.data.title}: it is for puzzles")
        if not self.model.halts:
            raise ValueError(f"train.at_test must be off for {self.model.title}, which has no halting head to choose by")
        if self.train.at_test.copies > 1 and not getattr(self.data, "draws", 0):
            raise ValueError(f"train.at_test.copies must be 0 for {self.data.title}, whose symmetries nobody knows")

    def _check_score(self) -> None:
        name, own = self.train.score, self.model.score or selecting(self.data.task)
        if name is None or name == own:
            return
        known = METRICS[name]
        if self.model.score:
            raise ValueError(
                f"train.score must be left out for {self.model.title}, which is judged by {METRICS[own].title} alone"
            )
        if self.data.task not in known.tasks:
            tasks = " and ".join(known.tasks) or "no"
            raise ValueError(f"train.score {name!r} is for {tasks} data, but those of {self.data.title} are {self.data.task}")
        if known.of is None:
            raise ValueError(f"train.score {name!r} must follow from answers, which {known.title} does not")

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
        return self.train.score or self.model.score or selecting(self.data.task)

    @property
    def drawn(self) -> "RunConfig":
        """This config with its data set as its seed draws it, for what loads and trains; the run id is of the one as stated."""
        return self.model_copy(update={"data": self.data.drawn_by(self.seed)})

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
        """This config with fields replaced, addressed as `model.latent_steps`; a whole part may be replaced too."""
        return self.with_each([changes])[0]

    def with_each(self, several: Iterable[Mapping[str, Any]]) -> list["RunConfig"]:
        """`with_changes` of each of several changes."""
        own = {**self.values, "place": self.place.model_dump()}
        configs = []
        for changes in several:
            values = dict(own)
            for path, value in changes.items():
                _replace(values, path, value)
            configs.append(configure(RunConfig, values))
        return configs


def run_ids(deciding: Mapping[str, Any], seeds: Iterable[int]) -> list[str]:
    """The ids of the runs of one config with these seeds, of which all else is written once."""
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
