"""What a study's file states, checked where it states it, so that an error names the line."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from reprlib import repr as brief
from typing import Any

from recstudy.config import RunConfig
from recstudy.errors import ConfigError, choices, nearest
from recstudy.metrics import METRICS
from recstudy.records.study_schema import folder_of

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")  # one part of a path on any file system


def check_presets(study: str, presets: Mapping[str, Any], many: bool = False) -> None:
    """Refuse (ConfigError) presets without a run config, or a list where there are `many`, and names that no folder can have."""
    if not isinstance(presets, Mapping) or not presets:
        raise ConfigError(f"{study} has no presets: give {{NAME: RunConfig(...)}}, but got {brief(presets)}")
    for what, name in (("study", study), *(("preset", preset) for preset in presets)):
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ConfigError(
                f"a {what}'s name is that of a folder: letters, digits, '_', '-' and '.', with a letter or digit first and last, "
                f"but got {name!r}"
            )
    folders = Counter(folder.lower() for preset in presets for folder in (preset, folder_of(preset, smoke=True)))
    for preset, configs in presets.items():
        if folders[preset.lower()] > 1:
            raise ConfigError(f"{study}: the preset {preset!r} and another one would share a folder. Give it another name")
        if many:
            check_list(f"the preset {preset!r} of {study}", configs, RunConfig)
        elif not isinstance(configs, RunConfig):
            raise ConfigError(f"the preset {preset!r} of {study} must be a RunConfig, but got {brief(configs)}")


def check_by_preset(study: str, part: str, given: Any, presets: Iterable[str], whole: bool = True) -> list[Any]:
    """What is given of a part: one for all presets, or each preset's own, and then, where it is `whole`, of all of them.

    Raises:
        ConfigError: a preset is missing, or there is none of that name.
    """
    if not isinstance(given, Mapping):
        return [given]
    for preset in given:
        if preset not in presets:
            raise ConfigError(f"{study} has {part} for {preset!r}: its presets are {choices(presets)}.{nearest(preset, presets)}")
    for preset in presets if whole else ():
        if preset not in given:
            raise ConfigError(f"{study} has {part} for {choices(given) or 'no preset'}, but none for its preset {preset!r}")
    return list(given.values())


def check_list(what: str, given: Any, kind: type) -> None:
    """Refuse (ConfigError) what is no list of this kind of thing."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigError(f"{what} must be a list of {kind.__name__}, but got {brief(given)}")
    for one in given:
        if not isinstance(one, kind):
            raise ConfigError(f"{what} must be of {kind.__name__}, but got {brief(one)}")


def check_seeds(study: str, given: Any, least: int) -> None:
    """Refuse (ConfigError) what is no count of seeds."""
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise ConfigError(f"the seeds of {study} must be a whole number of at least {least}, but got {given!r}")


def check_at_most(study: str, seeds: int, most: Any) -> None:
    """Refuse (ConfigError) what is no number of seeds that a study may come to have; 0 states none."""
    if not isinstance(most, int) or isinstance(most, bool) or most < 0 or 0 < most < seeds:
        raise ConfigError(f"the seeds_at_most of {study} must be a whole number of at least its {seeds} seeds, but got {most!r}")


def check_learned(study: str, given: Any) -> None:
    """Refuse (ConfigError) what does not give metrics the number above which a seed has learned."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"the `learned` of {study} must be {{METRIC: VALUE}}, but got {brief(given)}")
    for name, value in given.items():
        known = METRICS[name]  # its error names those that there are
        low, high = known.bounds or (-inf, inf)
        if not isinstance(value, int | float) or isinstance(value, bool) or not low < value < high:
            raise ConfigError(f"`learned` of {study}: {name} must be a number between {low:g} and {high:g}, but got {value!r}")


def preset_of(study: Any, preset: str) -> str:
    """The preset of that name; the first one where none is named.

    Raises:
        ConfigError: there is none.
    """
    if preset and preset not in study.presets:
        raise ConfigError(f"no preset {preset!r}: {study.name} has {choices(study.presets)}.{nearest(preset, study.presets)}")
    return preset or str(next(iter(study.presets)))
