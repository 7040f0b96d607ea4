"""What is said of a field: the range that a search may try, stated beside it, and its type, default and bounds in words."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from recstudy.config.base import Config
from recstudy.config.functions import OneOf
from recstudy.config.parts import KINDS
from recstudy.errors import ConfigError, choices
from recstudy.explained import explained

DIGITS = 4  # significant, of a number drawn from a range: a setting that can be read and typed


@explained
@dataclass(frozen=True, init=False)
class Tunable:
    """A range with both ends, whole numbers where both are whole, or a list of values.

    >>> Tunable(1, 6)
    Tunable(1 to 6)
    >>> Tunable(1e-5, 1e-2, log=True)
    Tunable(1e-05 to 0.01, log)
    >>> Tunable([16, 32, 64])
    Tunable(16, 32, 64)
    """

    low: float
    high: float
    log: bool
    values: tuple[Any, ...]  # empty for a range

    def __init__(self, low: Any, high: float | None = None, log: bool = False) -> None:
        values = () if high is not None else tuple(low)
        ends = (low, high) if high is not None else (0, 0)
        if high is not None and not (low < high and (low > 0 or not log)):
            raise ConfigError(f"a range needs low < high, and low > 0 where it is logarithmic, but got {low} to {high}")
        for name, value in {"low": ends[0], "high": ends[1], "log": log, "values": values}.items():
            object.__setattr__(self, name, value)

    @property
    def whole(self) -> bool:
        """Whether the range is one of whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def every(self) -> tuple[Any, ...]:
        """Every value there is; none for a range of real numbers."""
        return self.values or (tuple(range(int(self.low), int(self.high) + 1)) if self.whole else ())

    def draw(self, random: Random) -> Any:
        """Some value of it; of a logarithmic range, evenly on its scale."""
        if self.values:
            return random.choice(self.values)
        share = random.random()
        drawn = self.low * (self.high / self.low) ** share if self.log else self.low + (self.high - self.low) * share
        return round(drawn) if self.whole else drawn

    def __contains__(self, value: Any) -> bool:
        if self.values:
            return value in self.values
        return isinstance(value, int | float) and self.low <= value <= self.high and (not self.whole or value == int(value))

    def __repr__(self) -> str:
        return f"Tunable({self})"

    def __str__(self) -> str:
        return choices(map(str, self.values)) if self.values else f"{self.low:g} to {self.high:g}{', log' * self.log}"

    @property
    def record(self) -> dict[str, Any]:
        """As plain JSON values, for the plan."""
        return {"choices": list(self.values)} if self.values else {"low": self.low, "high": self.high, "log": self.log}


def tunable(config: BaseModel, prefix: str = "") -> dict[str, Tunable]:
    """Return every field of a config that states a range, by dotted path."""
    ranges: dict[str, Tunable] = {}
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            ranges |= tunable(value, f"{prefix}{name}.")
        else:
            ranges |= {f"{prefix}{name}": stated for stated in field.metadata if isinstance(stated, Tunable)}
    return ranges


BOUNDS = {Ge: "from {0.ge:g}", Gt: "above {0.gt:g}", Le: "to {0.le:g}", Lt: "below {0.lt:g}"}


class Described(NamedTuple):
    """One field."""

    path: str
    kind: str
    default: str
    search: str
    description: str


def described(kind: type[Config], prefix: str) -> Iterator[Described]:
    """Yield the fields of a config, and of the configs in it, in the order in which they stand there."""
    for name, field in kind.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, Config) and annotation.model_fields:
            yield from described(annotation, f"{prefix}{name}.")
        elif name not in KINDS:
            search = next((str(stated) for stated in field.metadata if isinstance(stated, Tunable)), "")
            registry = next((stated.registry for stated in field.metadata if isinstance(stated, OneOf)), None)
            words = choices(sorted(registry.complete())) if registry is not None else _type(annotation)
            bounds = (BOUNDS[type(bound)].format(bound) for bound in field.metadata if type(bound) in BOUNDS)
            kind_words = " ".join([words, *bounds])
            yield Described(f"{prefix}{name}", kind_words, _default(field), search, field.description or "")


def _type(annotation: Any) -> str:
    """Return `int`, `none or int`, `'batch' or 'sample'`, ..."""
    if get_origin(annotation) is Literal:
        return choices(map(str, get_args(annotation)))
    if get_origin(annotation) in (Union, UnionType):
        inner = [_type(one) for one in get_args(annotation) if one is not NoneType]
        return " or ".join([*inner, *(["null"] if NoneType in get_args(annotation) else [])])
    return getattr(annotation, "__name__", str(annotation)) if not get_args(annotation) else str(annotation)


def _default(field: FieldInfo) -> str:
    """Return it as it is typed."""
    if field.default is PydanticUndefined:
        return ""
    if isinstance(field.default, Config) or field.default == ():
        return "none"
    if isinstance(field.default, str):
        return field.default
    return ", ".join(map(str, field.default)) if isinstance(field.default, tuple) else json.dumps(field.default)
