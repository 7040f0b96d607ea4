"""What every config is: frozen, strict about names; a refusal names the field, what must hold and what was given."""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from recstudy.errors import ConfigError
from recstudy.explained import explain, explained

ConfigT = TypeVar("ConfigT", bound="Config")


class Config(BaseModel):
    """Frozen, and strict about names."""

    if not TYPE_CHECKING:
        __init__ = explained(BaseModel.__init__)  # with pydantic's mark of its own, so that validation need not call it

    revision: ClassVar[int] = 1  # raised where what it computes has changed: its runs then have new ids (ids.py)

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True, defer_build=True)

    @property
    def revised(self) -> int:
        """`revision` of what these values compute, where only some of them compute something else than before."""
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
    """Return an instance of `kind`, or a ConfigError that names the field, what must hold, what was given and a near name."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError(explain(error, kind, part)) from None
