"""Which of a study's variants stand at the levels that a selector (`where`) names."""

from collections.abc import Callable, Mapping
from typing import Any

from recstudy.records import Json
from recstudy.records.study_schema import VariantRecord
from recstudy.report.names import plain


def level_of(variant: VariantRecord, config: Json, name: str) -> Any:
    """Its level of an axis, or its value of a config field; `variant` is its label, `model` and `data` alone are their titles.

    None where it has neither.
    """
    if name in variant.levels:
        level = variant.levels[name]
        return plain(level) if isinstance(level, dict | list) else level
    return config[name] if name in config else {"variant": variant.label, "model": variant.model, "data": variant.data}.get(name)


def fits(where: Mapping[str, Any], level: Callable[[str], Any]) -> bool:
    """Tell whether a variant with these levels is one that the selector means; a list is any of its values."""
    several = ((level(name), [wanted, *(wanted if isinstance(wanted, list | tuple) else [])]) for name, wanted in where.items())
    return all(any(same(found, one) for one in any_of) for found, any_of in several)


def same(one: Any, other: Any) -> bool:
    """Tell whether two settings are the same setting: 1 and 1.0 are, 1 and True are not."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
