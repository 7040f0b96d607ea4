"""Words that make variants: which runs answer the question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from recstudy.config import Config
from recstudy.errors import ConfigError

Levels = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True)
class Variant:
    """A label and what it changes in the preset's run config.

    Args:
        label: shown in tables and matched by `--only`.
        changes: dotted field -> value; a whole part (`model`) may be replaced by a config.
        levels: axis -> level, for tables and curves; axis -> the field it sets, in `axes`.
    """

    label: str
    changes: Mapping[str, Any]
    levels: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)


def grid(axes: Mapping[str, Levels]) -> list[Variant]:
    """Every combination of the axes' levels, the last axis fastest.

    An axis is a field with a list of values, or with named levels: a value each, or several changes at once.

    >>> [variant.label for variant in grid({"model.latent_steps": [1, 2], "train.batch_size": [64]})]
    ['latent_steps=1, batch_size=64', 'latent_steps=2, batch_size=64']
    """
    named = {axis: _named(axis, levels) for axis, levels in axes.items()}
    return [_variant(dict(zip(named, names, strict=True)), named) for names in product(*named.values())]


def _named(axis: str, levels: Levels) -> dict[Any, Mapping[str, Any]]:
    """Level -> its changes."""
    if not levels:
        raise ConfigError(f"the axis {axis!r} has no levels")
    if isinstance(levels, Mapping):
        return {name: level if isinstance(level, Mapping) else {axis: level} for name, level in levels.items()}
    if len(set(map(str, levels))) < len(levels):
        raise ConfigError(f"the axis {axis!r} lists a level twice: {list(levels)}")
    return {_plain(level): {axis: level} for level in levels}


def _plain(level: Any) -> Any:
    return getattr(level, "title", str(level)) if isinstance(level, Config) else level


def _variant(levels: Mapping[str, Any], named: Mapping[str, Mapping[Any, Mapping[str, Any]]]) -> Variant:
    changes: dict[str, Any] = {}
    for axis, level in levels.items():
        changes |= named[axis][level]
    short = {axis: axis.rsplit(".", 1)[-1] for axis in levels}
    return Variant(
        label=", ".join(f"{short[axis]}={level}" for axis, level in levels.items()),
        changes=changes,
        levels={short[axis]: level for axis, level in levels.items()},
        axes={short[axis]: axis for axis in levels},
    )
