"""What is said of a field: the range that a search may try, stated beside it, and its type, default and
bounds in words.
"""

import json
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from recstudy.config.functions import OneOf
from recstudy.errors import choices
from recstudy.programs.settings import KINDS, Config, Range

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
            search = next((str(stated) for stated in field.metadata if isinstance(stated, Range)), "")
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
    return (
        ", ".join(map(str, field.default)) if isinstance(field.default, tuple) else json.dumps(field.default)
    )
