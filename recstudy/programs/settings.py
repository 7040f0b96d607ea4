"""The parts of a run's settings: frozen pydantic models, ranges of a search, resources and run ids.

`recstudy.programs.base.RunSettings` is the base class of all settings of a run.
"""

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import getsource
from random import Random
from reprlib import repr as brief
from textwrap import dedent
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import to_jsonable_python

from recstudy.base.errors import ConfigError, choices
from recstudy.base.explained import explained, refusal
from recstudy.base.values import canonical, hashed

ConfigT = TypeVar("ConfigT", bound="Config")


class Config(BaseModel):
    """A frozen pydantic model that rejects unknown fields."""

    if not TYPE_CHECKING:
        # keeps pydantic's mark on __init__, so that validation need not call it
        __init__ = explained(BaseModel.__init__)

    # increased if the computation changes, so that runs get new ids (recstudy/recursive/config/ids.py)
    revision: ClassVar[int] = 1

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True, defer_build=True
    )

    @property
    def revised(self) -> int:
        """The revision for these values. Override it if a change concerns some values only."""
        return self.revision


def configure(kind: type[ConfigT], values: Mapping[str, Any], part: str = "") -> ConfigT:
    """Validate `values` as an instance of `kind`.

    Raises:
        ConfigError: A value is invalid. The message names the field, the rule, the value and a similar name.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise refusal(error, kind, part) from None


def field_texts(kind: type) -> dict[str, str]:
    """Return the text below each field, in the source of the class or of the base that defines it."""
    # Pydantic reads them too (use_attribute_docstrings), but at each import, which takes 0.4 s.
    texts = dict[str, str]()
    for part in reversed(kind.__mro__):
        if part is BaseModel:  # its long source takes 0.04 s
            continue
        with suppress(OSError, TypeError):  # a class without a source file has no texts
            name = ""  # of the field above; at first none, above the docstring of the class
            for node in ast.iter_child_nodes(ast.parse(dedent(getsource(part))).body[0]):
                match node:
                    case ast.AnnAssign(target=ast.Name(id=name)):
                        texts[name] = ""
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        texts[name] = " ".join(text.split())
    return texts


def python_value(value: Any) -> Any:
    """Convert a number or an array of NumPy or torch to Python objects; return other values unchanged."""
    return value.tolist() if hasattr(value, "dtype") and hasattr(value, "tolist") else value


def json_value(value: Any, name: str) -> Any:
    """Convert the value of a setting to JSON types.

    Raises:
        ConfigError: The value or an element of it has a type that JSON does not have.
    """

    def convert(element: Any) -> Any:
        converted = python_value(element)
        if converted is element:
            types = "a number, a string, a bool, None, or a list or dict of these"
            raise ConfigError(
                f"{name} contains {brief(element)}, but a setting must be {types}. Use a name for it instead"
            )
        return converted

    return to_jsonable_python(value, fallback=convert)


def doubling_counts(count: int) -> list[int]:
    """Return 1, 2, 4, ... up to `count`, which is always included; an empty list for 0."""
    return [*(2**power for power in range((count - 1).bit_length())), count] if count else []


DIGITS = 4  # significant digits of a sampled number, so that a setting can be read and typed


@explained
@dataclass(frozen=True, init=False)
class Range:
    """The values of a setting in a search: an interval with both ends, or a list of values.

    An interval contains integers only if both ends are integers.

    Args:
        low: The lower end, or a list of values.
        high: The upper end.
        log: Whether values are sampled on a logarithmic scale.

    Example:
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
    values: tuple[Any, ...]  # empty for an interval

    def __init__(self, low: Any, high: float | None = None, log: bool = False) -> None:
        if high is None:
            if not isinstance(low, Collection) or isinstance(low, str) or not low:
                raise ConfigError(
                    f"Range needs low and high, or a list such as Range([16, 32]), but got {low!r}"
                )
            self.__dict__.update(low=0, high=0, log=log, values=tuple(low))
        elif low < high and (low > 0 or not log):
            self.__dict__.update(low=low, high=high, log=log, values=())
        else:
            raise ConfigError(
                f"Range needs low < high, and low > 0 if it is logarithmic, but got {low} to {high}"
            )

    @property
    def is_integer(self) -> bool:
        """Whether the interval contains integers only."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def all_values(self) -> Sequence[Any]:
        """All values; empty for an interval of real numbers."""
        return self.values or (range(int(self.low), int(self.high) + 1) if self.is_integer else ())

    @property
    def samples(self) -> Sequence[Any]:
        """Values to validate: all values of a list; both ends and 8 random values of an interval."""
        random = Random(0)
        return self.values or [self.low, self.high, *(self.draw(random) for _ in range(8))]

    def draw(self, random: Random) -> Any:
        """Sample a value, uniformly on the linear or logarithmic scale."""
        if self.values:
            return random.choice(self.values)
        share = random.random()
        if self.log:
            value = self.low * (self.high / self.low) ** share
        else:
            value = self.low + (self.high - self.low) * share
        return round(value) if self.is_integer else value

    def __contains__(self, value: Any) -> bool:
        if all_values := self.all_values:
            return value in all_values
        return isinstance(value, int | float) and self.low <= value <= self.high

    def __repr__(self) -> str:
        return f"Range({self})"

    def __str__(self) -> str:
        if self.values:
            return choices(map(str, self.values))
        return f"{self.low:g} to {self.high:g}{', log' * self.log}"

    @property
    def record(self) -> dict[str, Any]:
        """The range as JSON values, for the record of the plan."""
        if self.values:
            return {"choices": self.values}
        return {"low": self.low, "high": self.high, "log": self.log}


def tunable(config: BaseModel, prefix: str = "") -> dict[str, Range]:
    """Return the search range of each field that has one, by dotted path."""
    ranges: dict[str, Range] = {}
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            ranges |= tunable(value, f"{prefix}{name}.")
            continue
        for annotation in field.metadata:
            if isinstance(annotation, Range):
                ranges[f"{prefix}{name}"] = annotation
    return ranges


class Resources(Config):
    """The resources of a run. They do not change its id.

    Fields: `cpus`, `gpus` and `workers` of a run; its execution (`trainer`, `device`, `compile`,
    `compile_mode`); the time between checkpoints (`checkpoint_seconds`) and the time after which a hanging
    run is stopped (`hang_timeout_minutes`).
    """

    cpus: int = Field(1, ge=1, description="CPU cores per worker")
    gpus: float | None = Field(
        None, ge=0, description="GPUs per worker; a fraction shares a GPU; by default 1 if there are any"
    )
    workers: int = Field(1, ge=1, le=64, description="workers that share each batch of a run")
    trainer: Literal["auto", "inline", "train"] = Field(
        "auto",
        description=(
            "inline: in Tune's process; train: on Ray Train workers; auto: Train for several workers or a"
            " whole GPU"
        ),
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "auto",
        description="auto: CUDA if the run has a GPU, else the CPU; mps: Apple GPU, for one worker",
    )
    compile: Literal["auto", "on", "off"] = Field(
        "auto", description="compile the network with torch.compile; auto: on CUDA only"
    )
    compile_mode: Literal["default", "reduce-overhead", "max-autotune-no-cudagraphs"] = Field(
        "default",
        description=(
            "mode of torch.compile; reduce-overhead: CUDA graphs, if all batches have one shape;"
            " max-autotune-no-cudagraphs: tries several kernels of each product, for minutes"
        ),
    )
    checkpoint_seconds: float = Field(
        30.0, ge=0, description="least time between two checkpoints; 0: one per epoch"
    )
    hang_timeout_minutes: float = Field(
        30.0, ge=0, description="a run without a sign of life for this long is stopped as hung; 0: never"
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
    def _fill_gpus(cls, values: Any) -> Any:
        """Add the GPUs that the device implies: 1 for CUDA, 0 for the others."""
        if not isinstance(values, Mapping):
            return values
        implied_gpus = {"cpu": 0.0, "mps": 0.0, "cuda": 1.0}.get(str(values.get("device")))
        if implied_gpus is not None and values.get("gpus") is None:
            return {**values, "gpus": implied_gpus}
        return values

    @model_validator(mode="after")
    def _check_device(self) -> Self:
        gpus, device = self.gpus, self.device
        if gpus is not None and ((device == "cuda" and not gpus) or (device in ("cpu", "mps") and gpus)):
            needs = "gpus=0" if gpus else "a GPU"
            raise ValueError(f"device {device!r} needs {needs}, but gpus is {gpus:g}. Remove one of them")
        if device in ("cpu", "mps") and self.compile_mode != "default":
            raise ValueError(
                f"compile_mode {self.compile_mode!r} needs CUDA, but device is {device!r}."
                " Remove compile_mode"
            )
        if device == "mps" and (self.workers > 1 or self.uses_train or self.compile == "on"):
            raise ValueError(
                "device 'mps' supports one worker in Tune's process or with --no-ray, without compilation."
                " Remove workers, trainer and compile"
            )
        if self.trainer == "inline" and self.workers > 1:
            raise ValueError("trainer 'inline' runs one worker. Use 'train' or 'auto' for several")
        if gpus is not None and gpus > 1 and gpus != int(gpus):
            raise ValueError(f"gpus above 1 must be an integer, but got {gpus}")
        return self


def run_ids(deciding: Mapping[str, Any], seeds: Iterable[int]) -> list[str]:
    """Return the run ids of a config with several seeds. The other values are encoded only once."""
    encoded_fields = {
        name: f"{canonical(name)}:{canonical(value)}" for name, value in sorted(deciding.items())
    }
    seeded = (encoded_fields | {"seed": f'"seed":{seed}'} for seed in seeds)
    return [hashed("{" + ",".join(parts.values()) + "}", 20) for parts in seeded]


PREFIX = "settings."  # prefix of the path of a setting of a user's program in records
# fields that select a model family and a data set, on which their other fields depend
KINDS = ("family", "name")
