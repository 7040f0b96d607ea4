"""The run id: a digest of what decides a run's numbers, which outlives fields that are added later.

    the fields of the frozen table, always; younger ones where they differ from the default that they came with     (1)
    of parts from outside, which have no line in the table: what differs from their own defaults                    (2)
    `revision` of every part that computes (a config's class, a registered function), where it is above 1           (3)

So a field that is added with a default leaves every id as it was (1, 2), and changing what a default computes is said by
raising the part's revision (3), which gives its runs new ids.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, get_args

from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from recstudy.config.base import Config
from recstudy.config.frozen import FIELDS, REMOVED, RENAMED, YOUNGER
from recstudy.config.functions import LOSSES, OPTIMIZERS, SCHEDULES
from recstudy.config.parts import KINDS, DataConfig, ModelConfig
from recstudy.config.train import AUGMENTATIONS, Augment, TrainConfig


def part_name(config: Config) -> str:
    """Under which the frozen table knows a part: `model.vitrm`, `data.digits`, `TrainConfig`; an outsider's stands nowhere."""
    if isinstance(config, ModelConfig):
        return f"model.{config.family}"
    if isinstance(config, DataConfig):
        return f"data.{config.name}"
    kind = type(config)
    return kind.__name__ if kind.__module__.startswith("recstudy.") else f"{kind.__module__}.{kind.__name__}"


def deciding(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """Of a config's values, dumped as JSON, those that its id is made of."""
    part = part_name(config)
    younger, nested = _rule(type(config), part)
    kept = dict(values)
    for name in nested:
        if name in kept:
            kept[name] = _inside(getattr(config, name), kept[name])
    for name, default in younger.items():
        if name in kept and default in (kept[name], values[name]):
            del kept[name]
    for now, before in RENAMED.get(part, {}).items():
        if now in kept:
            kept[before] = kept.pop(now)
    kept.update(REMOVED.get(part, {}))
    kept.update(_revised(config))
    return kept


def _revised(config: Config) -> dict[str, Any]:
    """What tells a part that computes something else than it did, and the registered functions that it names."""
    revised: dict[str, Any] = {"revision": config.revised} if config.revised > 1 else {}
    if isinstance(config, TrainConfig | Augment):
        counts = {name: getattr(function, "revision", 1) for name, function in _functions(config)}
        if any(count > 1 for count in counts.values()):
            revised["revisions"] = {name: count for name, count in counts.items() if count > 1}
    return revised


def _functions(config: TrainConfig | Augment) -> list[tuple[str, Any]]:
    if isinstance(config, TrainConfig):
        named = ((OPTIMIZERS, config.optimizer), (LOSSES, config.loss), (SCHEDULES, config.schedule))
        return [(name, registry.get(name)) for registry, name in named]
    own = {"crop": config.crop, "flip": config.flip, "randaugment": config.randaugment_ops}
    return [(name, AUGMENTATIONS.get(name)) for name in (*(name for name, used in own.items() if used), *config.more)]


def _inside(own: Any, value: Any) -> Any:
    """The same for the configs that a field holds."""
    if isinstance(own, Config):
        return deciding(own, value)
    if isinstance(own, tuple | list):
        return [_inside(one, dumped) for one, dumped in zip(own, value, strict=True)]
    if isinstance(own, Mapping):
        return {name: _inside(one, dumped) for one, (name, dumped) in zip(own.values(), value.items(), strict=True)}
    return value


@lru_cache(maxsize=256)
def _rule(kind: type[Config], part: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields that count only where they have another value than this one, and fields that hold configs."""
    always = {*FIELDS.get(part, "").split(), *(KINDS if issubclass(kind, ModelConfig | DataConfig) else ())}
    before = {name: RENAMED.get(part, {}).get(name, name) for name in kind.model_fields}
    younger = {
        name: _default(part, before[name], about)
        for name, about in kind.model_fields.items()
        if before[name] not in always and not about.is_required()
    }
    return younger, tuple(name for name, about in kind.model_fields.items() if _holds(about.annotation))


def _default(part: str, name: str, about: FieldInfo) -> Any:
    """With which a younger field came: the table knows it, or it is the field's own."""
    own = about.get_default(call_default_factory=True, validated_data={})
    return YOUNGER.get(part, {}).get(name, to_jsonable_python(own))


def _holds(annotation: Any) -> bool:
    """Whether a value of this type may be or hold a config."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return True
    return any(_holds(inner) for inner in get_args(annotation))
