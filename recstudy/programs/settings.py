"""The settings of a run: frozen, strict about names, with an id, and the resources that decide none of its
numbers.

`RunSettings` is what the platform knows of them. `recstudy.config.RunConfig` has the settings of the
recursive models, `recstudy.programs.own.OwnSettings` those of a user's function, command or table.
"""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import to_jsonable_python

from recstudy.errors import ConfigError, choices
from recstudy.explained import explained, refusal

if TYPE_CHECKING:
    from recstudy.programs.base import Program
    from recstudy.programs.metric import Metric

ConfigT = TypeVar("ConfigT", bound="Config")


class Config(BaseModel):
    """Frozen, and strict about names."""

    if not TYPE_CHECKING:
        # with pydantic's mark of its own, so that validation need not call it
        __init__ = explained(BaseModel.__init__)

    # raised where what it computes has changed: its runs then have new ids (ids.py)
    revision: ClassVar[int] = 1

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True, defer_build=True
    )

    @property
    def revised(self) -> int:
        """`revision` of what these values compute, where only some of them compute something else than
        before.
        """
        return self.revision


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(values: Any) -> str:
    """Return JSON that is the same whatever the order of the fields."""
    return _CANONICAL.encode(values)


def digest(values: Any, digits: int) -> str:
    """Hex digits of a sha256 over canonical JSON."""
    return hashed(canonical(values), digits)


def hashed(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted path: `{"train": {"epochs": 1}}` gives `{"train.epochs": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def configure(kind: type[ConfigT], values: Mapping[str, Any], part: str = "") -> ConfigT:
    """Return an instance of `kind`, or a ConfigError that names the field, what must hold, what was given and
    a near name.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise refusal(error, kind, part) from None


def python_value(value: Any) -> Any:
    """Return a number or an array of NumPy or torch as Python's own, and any other value as it is."""
    return value.tolist() if hasattr(value, "dtype") and hasattr(value, "tolist") else value


def json_value(value: Any, name: str) -> Any:
    """Return the value of a setting as JSON has it.

    Raises:
        ConfigError: it, or a part of it, is of a type that JSON does not have.
    """

    def convert(part: Any) -> Any:
        converted = python_value(part)
        if converted is part:
            kinds = "a number, a text, true, false, none, or a list or dict of these"
            raise ConfigError(
                f"{name} contains {brief(part)}, but a setting is {kinds}. Give a name for it instead"
            )
        return converted

    return to_jsonable_python(value, fallback=convert)


def set_at(values: dict[str, Any], path: str, value: Any) -> None:
    """Replace a value at a dotted path; the parts that it stands in are copied."""
    *parents, last = path.split(".")
    for parent in parents:
        values[parent] = dict(values[parent]) if isinstance(values.get(parent), dict) else {}
        values = values[parent]
    values[last] = value


def doubled(most: int) -> list[int]:
    """Return the counts that are scored up to this one: 1, 2, 4, ... and itself; none of none."""
    return [*(2**power for power in range((most - 1).bit_length())), most] if most else []


def averaged_steps(decay: float) -> float:
    """Return how many steps a moving average of the weights looks back: 1 / (1 - decay), 0 without one."""
    return 1 / (1 - decay) if 0 < decay < 1 else 0.0


DIGITS = 4  # significant, of a number drawn from a range: a setting that can be read and typed


@explained
@dataclass(frozen=True, init=False)
class Range:
    """A range with both ends, whole numbers where both are whole, or a list of values.

    >>> Range(1, 6)
    Range(1 to 6)
    >>> Range(1e-5, 1e-2, log=True)
    Range(1e-05 to 0.01, log)
    >>> Range([16, 32, 64])
    Range(16, 32, 64)
    """

    low: float
    high: float
    log: bool
    values: tuple[Any, ...]  # empty for a range

    def __init__(self, low: Any, high: float | None = None, log: bool = False) -> None:
        if high is None:
            if not isinstance(low, Collection) or isinstance(low, str) or not low:
                raise ConfigError(
                    f"a range is Range(low, high) or a list such as Range([16, 32]), but got {low!r}"
                )
            self.__dict__.update(low=0, high=0, log=log, values=tuple(low))
        elif low < high and (low > 0 or not log):
            self.__dict__.update(low=low, high=high, log=log, values=())
        else:
            raise ConfigError(
                f"a range needs low < high, and low > 0 where it is logarithmic, but got {low} to {high}"
            )

    @property
    def whole(self) -> bool:
        """Whether the range is one of whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def every(self) -> Sequence[Any]:
        """Every value there is; none for a range of real numbers."""
        return self.values or (range(int(self.low), int(self.high) + 1) if self.whole else ())

    @property
    def samples(self) -> Sequence[Any]:
        """Values to check: all of a list; of a range both ends and some within it."""
        random = Random(0)
        return self.values or [self.low, self.high, *(self.draw(random) for _ in range(8))]

    def draw(self, random: Random) -> Any:
        """Some value of it; of a logarithmic range, evenly on its scale."""
        if self.values:
            return random.choice(self.values)
        share = random.random()
        drawn = (
            self.low * (self.high / self.low) ** share
            if self.log
            else self.low + (self.high - self.low) * share
        )
        return round(drawn) if self.whole else drawn

    def __contains__(self, value: Any) -> bool:
        if every := self.every:
            return value in every
        return isinstance(value, int | float) and self.low <= value <= self.high

    def __repr__(self) -> str:
        return f"Range({self})"

    def __str__(self) -> str:
        return (
            choices(map(str, self.values))
            if self.values
            else f"{self.low:g} to {self.high:g}{', log' * self.log}"
        )

    @property
    def record(self) -> dict[str, Any]:
        """As plain JSON values, for the plan."""
        return (
            {"choices": self.values} if self.values else {"low": self.low, "high": self.high, "log": self.log}
        )


def tunable(config: BaseModel, prefix: str = "") -> dict[str, Range]:
    """Return every field of a config that states a range, by dotted path."""
    ranges: dict[str, Range] = {}
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            ranges |= tunable(value, f"{prefix}{name}.")
        else:
            ranges |= {f"{prefix}{name}": stated for stated in field.metadata if isinstance(stated, Range)}
    return ranges


# Names in records and configs of version 0.1, and the present ones.
EARLIER_NAMES = {
    "cpus_per_run": "cpus",
    "gpus_per_run": "gpus",
    "workers_per_run": "workers",
    "silent_minutes": "hang_timeout_minutes",
}
EARLIER_PARTS = {"place": "resources"}
EARLIER_PATHS = {"data.drawing": "data.resample"} | {
    f"place.{earlier}": f"resources.{name}" for earlier, name in EARLIER_NAMES.items()
}


def current_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings of a record, with the fields of version 0.1 under their present names."""
    renamed = {EARLIER_PARTS.get(part, part): value for part, value in settings.items()}
    for part in ("data", "resources"):
        fields = renamed.get(part)
        if isinstance(fields, Mapping):
            names = EARLIER_NAMES if part == "resources" else {"drawing": "resample"}
            renamed[part] = {names.get(name, name): value for name, value in fields.items()}
    return renamed


def current_paths(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their paths, with the fields of version 0.1 under their present names."""
    return {EARLIER_PATHS.get(path, path): value for path, value in changes.items()}


class Resources(Config):
    """The resources of a run. They never change its id.

    Fields: `cpus`, `gpus` and `workers` of each run, how it is executed (`trainer`, `device`, `compile`,
    `compile_mode`), and when it is saved or stopped (`checkpoint_seconds`, `hang_timeout_minutes`).
    """

    cpus: int = Field(1, ge=1, description="CPU cores a worker may use")
    gpus: float | None = Field(
        None, ge=0, description="GPUs a worker gets; a fraction shares one; by default 1 where there are any"
    )
    workers: int = Field(1, ge=1, le=64, description="workers that share each batch of one run")
    trainer: Literal["auto", "inline", "train"] = Field(
        "auto",
        description=(
            "in Tune's process, or on Ray Train workers; auto: Train for several workers or a whole GPU"
        ),
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "auto",
        description="auto: a GPU of CUDA where a run has one, else the CPU; mps: Apple's GPU, for one worker",
    )
    compile: Literal["auto", "on", "off"] = Field(
        "auto", description="torch.compile the network; auto: on a GPU of CUDA, not on a CPU"
    )
    compile_mode: Literal["default", "reduce-overhead"] = Field(
        "default",
        description="of torch.compile; reduce-overhead: CUDA graphs, for batches that all have one shape",
    )
    checkpoint_seconds: float = Field(
        30.0, ge=0, description="least time between two checkpoints; 0: one each epoch"
    )
    hang_timeout_minutes: float = Field(
        30.0, ge=0, description="a run that shows no sign for so long is stopped and marked hung; 0: never"
    )

    @property
    def uses_train(self) -> bool:
        if self.trainer == "auto":
            return self.workers > 1 or (self.gpus or 0) >= 1
        return self.trainer == "train"

    @property
    def compiles(self) -> bool:
        return self.compile == "on" or (self.compile == "auto" and bool(self.gpus))

    @model_validator(mode="before")
    @classmethod
    def _stated(cls, values: Any) -> Any:
        """Add the GPUs that a device means: one for CUDA, none for the others. Refuse a range of workers.

        Records of version 0.1 have longer names, and may have a range of workers, whose first number counts.
        """
        if not isinstance(values, Mapping):
            return values
        values = {EARLIER_NAMES.get(name, name): value for name, value in values.items()}
        workers = values.get("workers")
        if isinstance(workers, str) and workers[:1].isdigit() and "-" in workers:
            raise ValueError(f"workers must be a number, but got {workers}: ranges were removed")
        means = {"cpu": 0.0, "mps": 0.0, "cuda": 1.0}.get(str(values.get("device")))
        stated = {} if means is None or values.get("gpus") is not None else {"gpus": means}
        return {name: value for name, value in values.items() if name != "max_workers_per_run"} | stated

    @model_validator(mode="after")
    def _fits(self) -> Self:
        gpus, device = self.gpus, self.device
        if gpus is not None and ((device == "cuda" and not gpus) or (device in ("cpu", "mps") and gpus)):
            has = "no GPU of CUDA" if gpus else "a GPU"
            raise ValueError(f"device {device!r} has {has}, but gpus is {gpus:g}. Leave one of them out")
        if device in ("cpu", "mps") and self.compile_mode != "default":
            raise ValueError(
                f"compile_mode {self.compile_mode!r} is CUDA graphs, which device {device!r} does not have. "
                "Leave compile_mode out"
            )
        if device == "mps" and (self.workers > 1 or self.uses_train or self.compile == "on"):
            raise ValueError(
                "device 'mps' is for one worker in Tune's process, or with --no-ray, and for networks that"
                " are not compiled. Leave workers, trainer and compile out"
            )
        if self.trainer == "inline" and self.workers > 1:
            raise ValueError("trainer 'inline' runs one worker; use 'train' or 'auto' for several")
        if gpus is not None and gpus > 1 and gpus != int(gpus):
            raise ValueError(f"gpus must be a whole number above 1, but got {gpus}")
        return self


def run_ids(deciding: Mapping[str, Any], seeds: Iterable[int]) -> list[str]:
    """Return the ids of the runs of one config with these seeds, of which all else is written once."""
    written = {name: f"{canonical(name)}:{canonical(value)}" for name, value in sorted(deciding.items())}
    seeded = (written | {"seed": f'"seed":{seed}'} for seed in seeds)
    return [hashed("{" + ",".join(parts.values()) + "}", 20) for parts in seeded]


PREFIX = "settings."  # of the path that a setting of a user's own program has in records
# the fields that choose a model family and a data set: their other fields depend on these
KINDS = ("family", "name")


@dataclass(frozen=True)
class Description:
    """What tables and verdicts say of a run's settings.

    Args:
        model: The title of the model or program.
        data: The title of the data set.
        is_synthetic: Whether the data are generated.
        leaks: Whether the model is told the answer, so that its numbers compare with no others.
        has_batch_norm: Whether it trains with batch norm.
        is_imported: Whether nothing is trained: its weights or its numbers come from elsewhere.
    """

    model: str = ""
    data: str = ""
    is_synthetic: bool = False
    leaks: bool = False
    has_batch_norm: bool = False
    is_imported: bool = False


class RunSettings(Config):
    """Everything that decides one run of a program, and the resources that it gets (`resources`)."""

    if TYPE_CHECKING:  # fields of the subclasses, which state them in the order that their records have
        seed: int
        resources: Resources

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, values: Any) -> Any:
        return current_names(values) if isinstance(values, Mapping) else values

    @property
    @abstractmethod
    def program(self) -> "Program":
        """The program that these settings are for."""

    @property
    @abstractmethod
    def description(self) -> Description:
        """What tables say of them."""

    @property
    @abstractmethod
    def score(self) -> str:
        """The name of the metric that selects, ranks and is shown while a run is under way."""

    @property
    def objective(self) -> str:
        """The name of that metric where a search optimizes it."""
        return self.score

    @property
    def metrics(self) -> "Mapping[str, Metric]":
        """The metrics that the program states for these settings; none where the registry has them."""
        return {}

    @property
    def ranges(self) -> Mapping[str, Range]:
        """The search range of each field that states one, by its path."""
        return {}

    @property
    def kind(self) -> Hashable:
        """Settings of one kind have the same fields."""
        return type(self)

    @property
    def family(self) -> str:
        """The name by which a search chooses between programs or model families."""
        return self.program.name

    @property
    def parts(self) -> Mapping[str, Config]:
        """The parts that differ between families, by their names."""
        return {}

    @property
    def steps(self) -> int | None:
        """How many steps a run reports, where that is known."""
        return None

    @property
    def values(self) -> dict[str, Any]:
        """What decides the numbers, as plain JSON values."""
        return self.model_dump(mode="json", exclude={"resources"})

    @property
    def deciding(self) -> dict[str, Any]:
        """The part of `values` that the run id is made of."""
        return self.values

    @property
    def run_id(self) -> str:
        """20 hex digits (80 bits: a clash among a billion runs is a one in a million event) over canonical
        JSON.
        """
        return run_ids(self.deciding, [self.seed])[0]

    def path(self, name: str) -> str:
        """Return the path of a field as records have it, of a name that a user types."""
        return name

    def with_changes(self, changes: Mapping[str, Any]) -> Self:
        """Return these settings with fields replaced, addressed by their paths."""
        return self.with_each([changes])[0]

    @abstractmethod
    def with_each(self, several: Iterable[Mapping[str, Any]]) -> list[Self]:
        """Return `with_changes` of each of several changes."""

    def smaller(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the changes that make a smoke run small, without fields that `changes` sets."""
        return {}

    def refuse_search(self, objectives: Collection[str]) -> None:
        """Refuse (ConfigError) settings that a search for these objectives cannot compare."""
