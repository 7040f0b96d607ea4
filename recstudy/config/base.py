"""What every config is: frozen, strict about names; a refusal names the field, what must hold and what was given."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from recstudy.errors import ConfigError, choices, nearest

ConfigT = TypeVar("ConfigT", bound="Config")


class Config(BaseModel):
    """Frozen, and strict about names."""

    revision: ClassVar[int] = 1  # raised where what it computes has changed: its runs then have new ids (ids.py)

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    @property
    def revised(self) -> int:
        """`revision` of what these values compute, where only some of them compute something else than before."""
        return self.revision


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(values: Any) -> str:
    """JSON that is the same whatever the order of the fields."""
    return _CANONICAL.encode(values)


def digest(values: Any, digits: int) -> str:
    """Hex digits of a sha256 over canonical JSON."""
    return hashlib.sha256(canonical(values).encode()).hexdigest()[:digits]


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted path: `{"train": {"epochs": 1}}` gives `{"train.epochs": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


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
