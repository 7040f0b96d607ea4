"""Describe the fields of a config as table rows: type, bounds, default and the range that a search tries.

`recstudy fields` and the page docs/api/fields.md print these rows.
"""

import json
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from recstudy.base.errors import choices
from recstudy.programs.settings import KINDS, Config, Range, Resources, field_texts
from recstudy.recursive.config.functions import OneOf
from recstudy.recursive.config.parts import DATASETS, FAMILIES
from recstudy.recursive.config.train import TrainConfig
from recstudy.report.documents import FieldEntry

Kinds = dict[str, tuple[type[Config], str]]

BOUNDS = {Ge: "from {0.ge:g}", Gt: "above {0.gt:g}", Le: "to {0.le:g}", Lt: "below {0.lt:g}"}


def kinds_of_parts() -> dict[str, Kinds]:
    """Return title -> name of a part -> its config class and its path in a run config."""
    return {
        "model families": {name: (kind, "model.") for name, kind in FAMILIES.complete().items()},
        "data sets": {name: (kind, "data.") for name, kind in DATASETS.complete().items()},
        "of every run": {"train": (TrainConfig, "train."), "resources": (Resources, "resources.")},
    }


def describe_fields(kind: type[Config], prefix: str) -> Iterator[FieldEntry]:
    """Yield an entry for each field of a config and of its nested configs, in the order of definition.

    Args:
        kind: The config class.
        prefix: Path of the config in a run config, with a final dot: `train.`.
    """
    texts = field_texts(kind)
    for name, field in kind.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, Config) and annotation.model_fields:
            yield from describe_fields(annotation, f"{prefix}{name}.")
        elif name not in KINDS:
            ranges = [str(item) for item in field.metadata if isinstance(item, Range)]
            registries = [item.registry for item in field.metadata if isinstance(item, OneOf)]
            # A registry's names are listed in place of the type `str`.
            words = choices(sorted(registries[0].complete())) if registries else _type(annotation)
            bounds = (BOUNDS[type(bound)].format(bound) for bound in field.metadata if type(bound) in BOUNDS)
            yield FieldEntry(
                field=f"{prefix}{name}",
                type=" ".join([words, *bounds]),
                default=_default(field),
                search_range=ranges[0] if ranges else "",
                meaning=field.description or texts.get(name, ""),
            )


def _type(annotation: Any) -> str:
    """Return a type in words: `int`, `int or null`, `'batch' or 'sample'`."""
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is Literal:
        return choices(map(str, arguments))
    if origin in (Union, UnionType):
        words = [_type(argument) for argument in arguments if argument is not NoneType]
        return " or ".join([*words, *(["null"] if NoneType in arguments else [])])
    return str(annotation) if arguments else getattr(annotation, "__name__", str(annotation))


def _default(field: FieldInfo) -> str:
    """Return a field's default as a user types it; "" for a required field."""
    default = field.default
    if default is PydanticUndefined:
        return ""
    if isinstance(default, Config) or default == ():
        return "none"
    if isinstance(default, str):
        return default
    return ", ".join(map(str, default)) if isinstance(default, tuple) else json.dumps(default)
