"""Nested values of records: their canonical JSON, its digest, and their dotted paths."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from recstudy.base.files import encoded

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(values: Any) -> str:
    """Return JSON that does not depend on the order of the fields."""
    return _CANONICAL.encode(values)


def digest(values: Any, digits: int) -> str:
    """Return the first hex digits of the SHA-256 of canonical JSON."""
    return hashed(canonical(values), digits)


def hashed(text: str, digits: int) -> str:
    return hashlib.sha256(encoded(text)).hexdigest()[:digits]


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted path: `{"train": {"epochs": 1}}` becomes `{"train.epochs": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def set_at(values: dict[str, Any], path: str, value: Any) -> None:
    """Replace the value at a dotted path. Dictionaries on the path are copied."""
    *parents, last = path.split(".")
    for parent in parents:
        values[parent] = dict(values[parent]) if isinstance(values.get(parent), dict) else {}
        values = values[parent]
    values[last] = value


def is_number(value: Any) -> bool:
    """Return whether a value is an int or a float, and no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_count(value: Any, minimum: int) -> bool:
    """Return whether a value is an integer of at least `minimum`, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


def mean_of_all(values: Sequence[float | None]) -> float | None:
    """Return the mean of values; None if one is missing."""
    known_values = [value for value in values if value is not None]
    return fmean(known_values) if len(known_values) == len(values) else None
