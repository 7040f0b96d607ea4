"""Variants and their settings: which of them a published number belongs to, and where two of them part."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from recstudy.config import KINDS, flatten
from recstudy.records import Json
from recstudy.records.study_schema import VariantRecord
from recstudy.report.levels import same

OTHERS = {f"{part}.{kind}": f"{part}." for part in ("data", "model") for kind in KINDS}  # of another one all is another


@dataclass(frozen=True)
class Design:
    """The variants that a study runs, or those of its `paper` preset.

    Args:
        base: the preset's config, in parts.
        axes: axis -> the field that it sets.
        variants: each with what it changes in the base.
    """

    base: Json
    axes: Mapping[str, str]
    variants: Sequence[VariantRecord]

    @cached_property
    def preset(self) -> Json:
        """The base's fields by dotted path."""
        return flatten(self.base)

    @cached_property
    def configs(self) -> list[Json]:
        """Each variant's config fields by dotted path."""
        return [config_of(self.preset, variant.changes) for variant in self.variants]

    @cached_property
    def varied(self) -> frozenset[str]:
        """The fields that tell variants apart; `model` stands for the model's title."""
        return frozenset({"model", *varied_fields(self.configs)})

    def setting(self, index: int, name: str) -> Any:
        """A variant's value of a stated setting; `model` is the model's title."""
        return self.variants[index].model if name == "model" else self.configs[index].get(name)

    def agrees(self, index: int, name: str, value: Any) -> bool:
        """Whether a variant has this setting; the level of an axis that replaces the model names the model too."""
        if same(self.setting(index, name), value):
            return True
        return name == "model" and value in [
            self.variants[index].levels.get(axis) for axis, path in self.axes.items() if path == name
        ]

    def homes(self, stated: Json, decides: Callable[[str], bool]) -> list[int]:
        """The variants of which these settings are stated. Where several are left, they are as the preset in what is unsaid and
        still tells them apart.
        """
        said = {path: value for path, value in stated.items() if path in self.varied}
        left = [index for index in range(len(self.variants)) if all(self.agrees(index, *one) for one in said.items())]
        apart = varied_fields([self.configs[index] for index in left])
        unsaid = [path for path in apart if path not in stated and decides(path)]
        return [index for index in left if all(same(self.configs[index].get(path), self.preset.get(path)) for path in unsaid)]


def config_of(base: Json, changes: Json) -> Json:
    """Flat config fields after a variant's changes; a change to a whole part replaces all of its fields."""
    config = dict(base)
    for path, value in changes.items():
        if isinstance(value, dict):
            config = {key: kept for key, kept in config.items() if not key.startswith(path + ".")}
            config |= flatten(value, path + ".")
        else:
            config[path] = value
    return config


def varied_fields(configs: Sequence[Json]) -> list[str]:
    """The fields whose value is not the same in every config, in the configs' order."""
    fields = dict.fromkeys(path for config in configs for path in config)
    return [path for path in fields if any(config.get(path) != configs[0].get(path) for config in configs)]


def differing_fields(ours: Json, theirs: Json) -> list[str]:
    """The fields whose values differ; of a part of another kind (model, data set) its kind alone, for the rest follows."""
    paths = [path for path in theirs | ours if not same(ours.get(path), theirs.get(path))]
    other = tuple(OTHERS[path] for path in paths if path in OTHERS)
    return [path for path in paths if path in OTHERS or not path.startswith(other)]
