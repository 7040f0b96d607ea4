"""What decides a run: frozen, checked, documented field by field.

A run config has four parts that decide its numbers (`data`, `model`, `train`, `seed`) and one that does not (`place`).
The run id is a digest of the first four, so the same run has the same id in every study, on every machine.
Field descriptions use the papers' letters; bounds are checked when the config is read, not after an hour.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SerializeAsAny, ValidationError, model_validator

from recstudy.errors import ConfigError, choices, nearest
from recstudy.registry import Registry
from recstudy.tunable import Tunable

if TYPE_CHECKING:
    from torch import nn

ConfigT = TypeVar("ConfigT", bound="Config")
Shape = tuple[int, int, int]  # channels, height, width of an image
Task = Literal["multiclass", "multilabel", "caption"]
PAD = 0  # the token behind a caption's last, of every tokenizer
UNKNOWN = -1  # a label that nobody gave, in data of several labels an image
# The metric that selects epochs, is drawn against depth and shown while a run trains; a percentage, higher is better.
SCORES: dict[Task, str] = {"multiclass": "top1_accuracy", "multilabel": "auroc", "caption": "token_accuracy"}


class Config(BaseModel):
    """Frozen, and strict about names."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)


class ModelConfig(Config):
    """One model family: what can be set. What is computed stands in `recstudy.models.networks`."""

    recursive: ClassVar[bool] = False  # can take several supervision steps: its carry is not empty
    halts: ClassVar[bool] = False  # has a halting head: says of each answer whether it is right
    score: ClassVar[str] = ""  # what selects its epochs, where that is not its task's
    bootstraps: ClassVar[bool] = False  # its halting head also values going on, which is learned from the next step (HRM)

    family: str

    @property
    def title(self) -> str:
        """The name a paper's table gives this model, such as `ViT-Small`."""
        return type(self).__name__

    @property
    def reads_pixels(self) -> bool:
        """Whether the network wants the pixels' 256 grey levels as they are, and not standardised values."""
        return False

    @property
    def frozen_params(self) -> int:
        """Parameters that take part and are not trained, beside those of the network."""
        return 0

    @property
    def exact_halt(self) -> bool:
        """Whether halting is learned from answers that are right as a whole, or from the share of their tokens that are."""
        return True

    def input_shape(self, shape: Shape) -> tuple[int, ...]:
        """Of one image as the network reads it."""
        return shape

    @property
    def unseen_steps(self) -> int:
        """First supervision steps on an image that have not seen all of it."""
        return 0

    @property
    def silent_steps(self) -> int:
        """Those of them that give no loss."""
        return 0

    def check(self, data: "DataConfig") -> None:
        """Refuse (ValueError) a data set that this model cannot read."""

    def check_groups(self, count: int, data: str) -> None:
        """Refuse (ConfigError) more patients than this model knows, which only the files of the data set tell."""

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        """The network, with freshly drawn weights, for images of `shape` in `classes` classes."""
        raise ConfigError(f"the family {self.family!r} has no network")


class DataConfig(Config):
    """One data set: which images, how many of them, and which are held out."""

    synthetic: ClassVar[bool] = False  # drawn by a program: said wherever a number from it appears

    name: str
    limit: int | None = Field(None, ge=16, description="at most this many images of each split, classes in proportion")
    validation: float = Field(0.1, gt=0, lt=1, description="share of the training images held out for selection")
    split_seed: int = Field(0, ge=0, description="draws the validation split; the same for every seed of a study")

    @property
    def title(self) -> str:
        """The data set's name as a paper prints it."""
        return type(self).__name__

    @property
    def shape(self) -> Shape:
        """Channels, height and width of one image."""
        raise ConfigError(f"the data set {self.name!r} states no shape")

    @property
    def classes(self) -> int:
        """How many classes there are."""
        raise ConfigError(f"the data set {self.name!r} states no classes")

    @property
    def task(self) -> Task:
        """One label an image; one yes, no or unknown a class; or the tokens of a caption."""
        return "multiclass"

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called; numbers where nobody named them."""
        return tuple(map(str, range(self.classes)))

    @property
    def tokens(self) -> int:
        """Tokens of a caption, with BOS and EOS; 0 where images have none."""
        return 0

    @property
    def train_size(self) -> int | None:
        """Official training images; None where only the files tell."""
        return None


KINDS = ("family", "name")  # the fields that tell model families and data sets apart
FAMILIES: Registry[type[ModelConfig]] = Registry("model family")
DATASETS: Registry[type[DataConfig]] = Registry("data set")


class Augment(Config):
    """What is done to training images (002, section 4.1): crop, flip, RandAugment, then Mixup or CutMix. All off by default."""

    crop: int = Field(0, ge=0, le=16, description="random crop of the original size after padding by this many pixels")
    flip: bool = Field(False, description="mirror half of the images")
    randaugment_ops: int = Field(0, ge=0, le=8, description="RandAugment operations an image")
    randaugment_magnitude: int = Field(9, ge=0, le=30, description="their strength, of 31 levels")
    mixup: float = Field(0.0, ge=0, description="Mixup's alpha; 0 is off")
    cutmix: float = Field(0.0, ge=0, description="CutMix's alpha; 0 is off. With both on, each batch draws one of them")


class TrainConfig(Config):
    """How a model is trained: the one loop's settings, with the defaults of 002 where it states them."""

    epochs: int = Field(1, ge=1, description="passes over the training images")
    batch_size: Annotated[int, Tunable([16, 32, 64, 128, 256, 512])] = Field(
        128, ge=1, description="images an optimiser step, over all workers"
    )
    supervision_steps: Annotated[int, Tunable(1, 16)] = Field(
        1, ge=1, le=64, description="N_sup: losses and optimiser steps a batch, at most"
    )
    evaluation_steps: int = Field(1, ge=1, le=64, description="supervision steps (segments) before the logits are read at test")
    evaluation_depths: int = Field(
        4, ge=0, le=64, description="also score the test set after each of 1 to so many supervision steps, without retraining"
    )
    halting: Literal["batch", "sample"] = Field(
        "batch",
        description="the batch halts as one, by its mean (002); or each sample by itself: its slot takes the next batch's "
        "sample, the other slots go on with theirs (HRM, TRM), one optimiser step a batch",
    )
    exploration: float = Field(
        0.1, ge=0, le=1, description="with halting 'sample': how often a random least number of steps, from 2 up, delays a halt"
    )
    halt_threshold: float = Field(
        0.5, ge=0, le=1, description="tau: halt when the batch mean of the halting probability exceeds it; 1 never halts"
    )
    halt_weight: float = Field(1.0, ge=0, description="weight of the halting loss beside the classification loss")
    halting_target: Literal["original", "mixed"] = Field(
        "original", description="correct against the label before Mixup/CutMix, or against the mixed label's largest part"
    )
    detach_carry: bool = Field(
        True, description="an optimiser step each supervision step, no gradient between them; false: one step through all"
    )
    loss: Literal["softmax", "stablemax"] = Field(
        "softmax", description="probabilities of one-label-an-image data, of which the loss is the cross-entropy"
    )
    optimizer: Literal["adamw", "adam_atan2"] = Field(
        "adamw", description="AdamW, or Adam whose step is an arctangent, without an epsilon (HRM, TRM)"
    )
    learning_rate: Annotated[float, Tunable(1e-5, 1e-2, log=True)] = Field(3e-4, gt=0)
    final_learning_rate: float = Field(1e-6, ge=0, description="the cosine ends here")
    warmup: float = Field(
        0.0, ge=0, lt=1, description="share of the schedule with a linear warm-up, which starts at 0; 0.03 is 30 of 1,000 epochs"
    )
    schedule: Literal["epoch", "update", "batch"] = Field(
        "epoch",
        description="what the schedule counts: epochs (002); optimiser updates; or updates against a length in batches, so that "
        "several updates a batch run it through early (004 as its author ran it, contradiction 004-3)",
    )
    weight_decay: Annotated[float, Tunable(1e-3, 1.0, log=True)] = Field(0.05, ge=0, description="on every parameter")
    puzzle_learning_rate: float = Field(1e-2, gt=0, description="of the puzzle embeddings, which SignSGD trains row by row")
    puzzle_weight_decay: float = Field(0.1, ge=0, description="on the puzzle embeddings of the batch")
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.999, ge=0, lt=1)
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    gradient_clip: float = Field(0.0, ge=0, description="largest global gradient norm; 0 is off")
    ema_decay: Annotated[float, Tunable([0.0, 0.99, 0.999, 0.9999])] = Field(
        0.999, ge=0, lt=1, description="moving average of the weights, for evaluation; 0 is off"
    )
    precision: Literal["float32", "bfloat16"] = Field("float32", description="of the matrix products (autocast)")
    selection: Literal["validation", "test", "last"] = Field(
        "validation",
        description="which epoch is reported: the best on the held-out validation split, the best on the test set "
        "(the protocol of 002, optimistic), or the last",
    )
    patience: int = Field(0, ge=0, description="stop after so many epochs without a better selection score; 0 never does")
    augment: Augment = Augment()

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        if self.patience and self.selection == "last":
            raise ValueError("patience must be 0 with selection 'last', which scores no epoch")
        if self.halting == "sample" and not self.detach_carry:
            raise ValueError("detach_carry must be true with halting 'sample': a step's batch holds samples of several ages")
        return self


class Place(Config):
    """Where and with how much a run runs. Never part of the run id."""

    cpus_per_run: int = Field(1, ge=1, description="CPU cores a worker may use")
    gpus_per_run: float | None = Field(
        None, ge=0, description="GPUs a worker gets; a fraction shares one; by default 1 where there are any"
    )
    workers_per_run: int = Field(
        1, ge=1, le=64, description="workers that share each batch of one run; 1-4: one at least, up to four where there is room"
    )
    max_workers_per_run: int | None = Field(None, ge=1, le=64, description="of an elastic run: the 4 of workers_per_run 1-4")
    trainer: Literal["auto", "inline", "train"] = Field(
        "auto", description="in Tune's process, or on Ray Train workers; auto: Train for several workers or a GPU"
    )
    compile: Literal["auto", "on", "off"] = Field("auto", description="torch.compile the network; auto: where a run has a GPU")
    checkpoint_seconds: float = Field(30.0, ge=0, description="least time between two checkpoints; 0: one each epoch")
    silent_minutes: float = Field(
        30.0, ge=0, description="a run that shows no sign for so long is stopped and marked hung; 0: never"
    )

    @property
    def most_workers(self) -> int:
        return self.max_workers_per_run or self.workers_per_run

    @property
    def uses_train(self) -> bool:
        if self.trainer == "auto":
            return self.most_workers > 1 or bool(self.gpus_per_run)
        return self.trainer == "train"

    @property
    def compiles(self) -> bool:
        return self.compile == "on" or (self.compile == "auto" and bool(self.gpus_per_run))

    @model_validator(mode="before")
    @classmethod
    def _range_of_workers(cls, values: Any) -> Any:
        """`{"workers_per_run": "1-4"}` as the two fields that it means; a plain number has no second."""
        if not isinstance(values, Mapping) or not isinstance(values.get("workers_per_run"), str):
            return values
        least, dash, most = values["workers_per_run"].partition("-")
        return {**values, "workers_per_run": least, "max_workers_per_run": most if dash else None}

    @model_validator(mode="after")
    def _inline_is_one_worker(self) -> Self:
        if self.most_workers < self.workers_per_run:
            raise ValueError(
                f"workers_per_run must be a number or LEAST-MOST, but got {self.workers_per_run}-{self.max_workers_per_run}"
            )
        if self.trainer == "inline" and self.most_workers > 1:
            raise ValueError("trainer 'inline' runs one worker; use 'train' or 'auto' for several")
        if self.gpus_per_run is not None and self.gpus_per_run > 1 and self.gpus_per_run != int(self.gpus_per_run):
            raise ValueError(f"gpus_per_run must be a whole number above 1, but got {self.gpus_per_run}")
        return self


def _from_registry(part: str, registry: Registry[Any], key: str) -> Any:
    """Turns `{"family": "vitrm", ...}` into the registered class's instance; an instance passes."""

    def lookup(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        if key not in value:
            raise ConfigError(f"'{part}' needs a {key!r}: one of {choices(sorted(registry))}")
        return configure(registry[value[key]], value, part)

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
        model.check(self.data)
        if train.supervision_steps > 1 and not model.recursive:
            raise ValueError(
                f"train.supervision_steps must be 1 for {model.title}, which has no state to refine, "
                f"but got {train.supervision_steps}"
            )
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
        if self.data.task == "caption" and train.augment != Augment():
            raise ValueError("train.augment must be off for captions: a mirrored image has another one, and features are kept")
        if self.data.task == "multilabel" and (train.augment.mixup or train.augment.cutmix):
            raise ValueError("train.augment.mixup and cutmix must be 0 for data of several labels an image")
        if self.data.task == "multilabel" and train.loss != "softmax":
            raise ValueError(f"train.loss {train.loss!r} is for one label an image; several have a binary cross-entropy each")
        return self

    @property
    def values(self) -> dict[str, Any]:
        """The parts that decide the numbers, as plain JSON values."""
        return self.model_dump(mode="json", exclude={"place"})

    @property
    def score(self) -> str:
        """The name of the metric that selects epochs: a percentage, higher is better."""
        return self.model.score or SCORES[self.data.task]

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
        return size - round(size * self.data.validation) if self.train.selection == "validation" else size

    @property
    def run_id(self) -> str:
        """20 hex digits (80 bits: a clash among a billion runs is a one in a million event) over canonical JSON."""
        return hashlib.sha256(canonical(self.values).encode()).hexdigest()[:20]

    def with_changes(self, changes: Mapping[str, Any]) -> "RunConfig":
        """This config with fields replaced, addressed as `model.latent_steps`; a whole part may be replaced too."""
        values: dict[str, Any] = {**self.values, "place": self.place.model_dump()}
        for path, value in changes.items():
            _replace(values, path, value)
        return configure(RunConfig, values)


def canonical(values: Any) -> str:
    """JSON that is the same whatever the order of the fields."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted path: `{"train": {"epochs": 1}}` gives `{"train.epochs": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


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


def configure(kind: type[ConfigT], values: Mapping[str, Any], part: str = "") -> ConfigT:
    """An instance of `kind`, or a ConfigError that names the field, what must hold, what was given and the nearest name."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_explain(error, kind, part)) from None


def _explain(error: ValidationError, kind: type[Config], part: str) -> str:
    first = error.errors(include_url=False)[0]
    path = ".".join([part, *map(str, first["loc"])] if part else map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        for name in first["loc"][:-1]:  # the class that holds the field, for its list of names
            kind = kind.model_fields[str(name)].annotation  # type: ignore[assignment]
        known = sorted(kind.model_fields)
        return f"no field {path!r}: {kind.__name__} has {choices(known)}.{nearest(str(first['loc'][-1]), known)}"
    if first["type"] == "value_error":
        return f"{path or kind.__name__}: {first['ctx']['error']}" if path else str(first["ctx"]["error"])
    rule = first["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return f"{path!r} must be {rule}, but got {first['input']!r}"
