"""Define the variants of a study: factorial designs, ablations and grids."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any

from recstudy.base.errors import ConfigError, choices
from recstudy.base.explained import explained
from recstudy.programs.settings import Config, python_value
from recstudy.records.plans import short_names

# The maximum number of runs of a study, because all of them are listed before the first one starts.
MOST_RUNS = 100_000
Changes = Mapping[str, Any]  # field -> value


Levels = Sequence[Any] | Changes
Axes = Mapping[str, Levels]  # field -> levels


@explained
@dataclass(frozen=True)
class Variant:
    """A variant of a study: a label and changes to the preset's config.

    Args:
        label: The label in tables. `--only` selects variants by it.
        changes: Dotted field -> value. A whole part (`model`) can be replaced by a config.
        levels: Axis -> level, for tables and curves. `axes` has the field of each axis.
        base: The label of the variant with which it is compared seed by seed in a report's `Differences`.
    """

    label: str
    changes: Changes
    levels: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)
    base: str = ""

    def __post_init__(self) -> None:
        fields = self.changes if isinstance(self.changes, Mapping) else [None]
        if not all(isinstance(word, str) for word in (self.label, *fields)):
            raise ConfigError(
                f"a variant is a label and {{field: value}}, but got {self.label!r} and {self.changes!r}"
            )


@explained
def grid(axes: Axes) -> list[Variant]:
    """Return all combinations of the axes' levels. The last axis varies fastest.

    Args:
        axes: Field -> its levels: a list of values, or a dictionary of named levels, each with a value or
            several changes.

    Example:
        >>> [variant.label for variant in grid({"model.latent_steps": [1, 2], "train.batch_size": [64]})]
        ['latent_steps=1, batch_size=64', 'latent_steps=2, batch_size=64']
    """
    levels_by_axis = _changes_by_level(axes)
    if (cells := prod(map(len, levels_by_axis.values()))) > MOST_RUNS:
        raise ConfigError(
            f"{choices(axes)} have {cells:,} combinations, but a study plans {MOST_RUNS:,} runs at most"
        )
    short = _axes(levels_by_axis)
    return [
        _variant(dict(zip(short, names, strict=True)), levels_by_axis, short)
        for names in product(*levels_by_axis.values())
    ]


@explained
def leave_one_out(parts: Mapping[str, Changes], *, base: str = "full") -> list[Variant]:
    """Return the unchanged preset, and for each part a variant without it.

    All variants use the same seeds, which alone decide the order of the data. So differences to the base are
    paired.

    Args:
        parts: Label of the variant -> the changes that remove the part.
        base: The label of the unchanged preset.

    Example:
        >>> parts = {"without MoE": {"model.experts": 1}, "without balancing": {"model.balance_weight": 0.0}}
        >>> [(variant.label, variant.base) for variant in leave_one_out(parts)]
        [('full', ''), ('without MoE', 'full'), ('without balancing', 'full')]
    """
    if not parts or base in parts:
        raise ConfigError(
            f"leave_one_out needs parts, none of them called {base!r} as the base is: {list(parts)}"
        )
    axes = _axes(path for changes in parts.values() for path in changes)
    return [
        Variant(base, {}, {}, axes),
        *(Variant(label, changes, {}, axes, base) for label, changes in parts.items()),
    ]


@explained
def one_at_a_time(factors: Axes, *, base: str = "base") -> list[Variant]:
    """Return the unchanged preset, and for each level of each axis a variant that changes only this.

    This design has few runs but cannot show interactions; see `factorial`.

    Args:
        factors: Axes and levels as in `grid`, without the levels of the preset itself.
        base: The label of the unchanged preset.

    Example:
        >>> [variant.label for variant in one_at_a_time({"model.experts": [2, 4], "train.batch_size": [64]})]
        ['base', 'experts=2', 'experts=4', 'batch_size=64']
    """
    levels_by_axis = _changes_by_level(factors)
    axes = _axes(levels_by_axis)
    variants = [
        _variant({short: level}, levels_by_axis, axes)
        for short, axis in axes.items()
        for level in levels_by_axis[axis]
    ]
    return [Variant(base, {}, {}, axes), *(replace(variant, base=base) for variant in variants)]


@explained
def factorial(factors: Axes) -> list[Variant]:
    """Return all combinations of two levels per axis, the low level first. `Effects` reports the effects.

    Args:
        factors: Axes with two levels each, as in `grid`.

    Example:
        >>> [variant.label for variant in factorial({"model.a": [0, 1], "model.b": [0, 1]})]
        ['a=0, b=0', 'a=0, b=1', 'a=1, b=0', 'a=1, b=1']
    """
    variants = grid(factors)
    for axis, levels in _changes_by_level(factors).items():
        if len(levels) != 2:
            raise ConfigError(
                f"a factorial has two levels an axis, but {axis!r} has {len(levels)}; grid takes any number"
            )
    return variants


def _axes(fields: Iterable[str]) -> dict[str, str]:
    """Return axis -> field. An axis is the last part of the path, or the whole path to be unique."""
    return {short: path for path, short in short_names(fields).items()}


def _changes_by_level(axes: Axes) -> dict[str, dict[Any, Any]]:
    """Return axis -> level -> changes."""
    if not isinstance(axes, Mapping):
        raise ConfigError(f"axes are {{field: levels}}, but got {axes!r}")
    return {axis: _level_changes(axis, levels) for axis, levels in axes.items()}


def _level_changes(axis: str, levels: Levels) -> dict[Any, Any]:
    """Return level -> its changes."""
    levels = getattr(levels, "levels", python_value(levels))  # of Commits
    if isinstance(levels, str) or not isinstance(levels, Sequence | Mapping) or not levels:
        raise ConfigError(
            f"the axis {axis!r} needs a list of levels, or named ones {{level: value}}, but got {levels!r}"
        )
    if isinstance(levels, Mapping):
        return {
            name: level if isinstance(level, Mapping) else {axis: level} for name, level in levels.items()
        }
    levels = list(map(python_value, levels))
    equal_levels: dict[Any, Any] = {}
    for level in levels:
        for key in {str(level), level if isinstance(level, int | float) else str(level)}:  # 1, True and 1.0
            if key in equal_levels:
                raise ConfigError(
                    f"the axis {axis!r} lists a level twice: {equal_levels[key]!r} and {level!r}"
                )
            equal_levels[key] = level
    if any(isinstance(level, list | dict) for level in levels):
        raise ConfigError(f"name the levels of the axis {axis!r}, as {{level: value}}: {list(levels)}")
    titles = [getattr(level, "title", str(level)) if isinstance(level, Config) else level for level in levels]
    return {title: {axis: level} for title, level in zip(titles, levels, strict=True)}


def _variant(
    levels: Mapping[str, Any], changes_by_level: Mapping[str, Mapping[Any, Any]], axes: Mapping[str, str]
) -> Variant:
    """Return the variant at these levels, labelled by the axes' short names."""
    changes: dict[str, Any] = {}
    for short, level in levels.items():
        changes |= changes_by_level[axes[short]][level]
    return Variant(label=_label(levels), changes=changes, levels=levels, axes=axes)


def crossed(variants: Iterable[Variant], axes: Axes) -> list[Variant]:
    """Return each variant at all combinations of these axes' levels, which replace its own levels of these
    axes.

    Variants that then are equal become one.

    Raises:
        ConfigError: An axis has the same short name as another field that the variants vary.
    """
    # Label -> the variant without these fields.
    reduced: dict[str, Variant] = {}
    # Changes -> the first variant with them.
    distinct: dict[str, Variant] = {}
    for variant in variants:
        changes = {field: value for field, value in variant.changes.items() if field not in axes}
        other_axes = {name: field for name, field in variant.axes.items() if field not in axes}
        levels = {
            axis: level
            for axis, level in variant.levels.items()
            if axis in other_axes or axis not in variant.axes
        }
        label = _label(levels) if variant.label == _label(variant.levels) else variant.label
        rest = replace(variant, label=label, changes=changes, levels=levels, axes=other_axes)
        reduced[variant.label] = distinct.setdefault(repr(sorted(changes.items())), rest)
    several = len(distinct) > 1
    combinations = []
    for original, new in product(distinct.values(), grid(axes)):
        compared = reduced.get(original.base) if original.base else None
        base = original.base
        if compared is original:  # it differed from its base in these fields only, and is that base now
            base = ""
        elif compared is not None:
            base = _combine(compared, new, several).label
        combinations.append(replace(_combine(original, new, several), base=base))
    return combinations


def _combine(variant: Variant, new: Variant, several: bool) -> Variant:
    """Return a variant with these additional levels."""
    for short, path in new.axes.items():
        if variant.axes.get(short, path) != path:
            raise ConfigError(
                f"--vary {path}: the axis {short!r} of this study is {variant.axes[short]!r}. Vary {path} in"
                " another study"
            )
    return replace(
        variant,
        label=", ".join(filter(None, [variant.label if several or variant.levels else "", new.label])),
        changes={**variant.changes, **new.changes},
        levels={**variant.levels, **new.levels},
        axes={**variant.axes, **new.axes},
    )


def _label(levels: Mapping[str, Any]) -> str:
    return ", ".join(f"{axis}={level}" for axis, level in levels.items())
