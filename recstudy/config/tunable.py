"""Search ranges, stated beside the fields: what a search may try where it varies a field."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Any

from pydantic import BaseModel

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
    """Every field of a config that states a range, by dotted path."""
    return dict(_tunable(config, prefix))


def _tunable(config: BaseModel, prefix: str) -> Iterator[tuple[str, Tunable]]:
    parts = ((name, getattr(config, name), field) for name, field in type(config).model_fields.items())
    return chain.from_iterable(
        _tunable(value, f"{prefix}{name}.")
        if isinstance(value, BaseModel)
        else ((f"{prefix}{name}", stated) for stated in field.metadata if isinstance(stated, Tunable))
        for name, value, field in parts
    )
