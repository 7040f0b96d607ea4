"""Axes from the command line: `--vary model.latent_steps=1,2,4` adds one to a study, or replaces its levels of it."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from recstudy.errors import ConfigError
from recstudy.study.design import Levels, Variant, grid
from recstudy.study.study import Study

WORD = re.compile(r"(?!(?:true|false|null)\b)[A-Za-z_][\w.-]*")


def varied(study: Study, preset: str, axes: Mapping[str, Levels]) -> Study:
    """The study with each of its variants at every combination of these axes' levels.

    Of an axis that it sweeps itself, these levels take the place of its own. Its claims are about its own variants, and go.

    Args:
        study: as its file states it.
        preset: whose variants are varied.
        axes: field -> levels, as in `grid`.
    """
    if not axes:
        return study
    named = _without(study.by_preset(study.variants, preset), axes)
    kept = list({id(one): one for one in named.values()}.values())
    several = len(kept) > 1
    variants = []
    for own, new in product(kept, grid(axes)):
        compared = named.get(own.base) if own.base else None
        # One that differs from its base in these fields alone is that base now.
        base = own.base if compared is None else "" if compared is own else _both(compared, new, several).label
        variants.append(replace(_both(own, new, several), base=base))
    return replace(study, variants={**_each(study), preset: variants}, claims=())


def _each(study: Study) -> dict[str, Sequence[Variant]]:
    """Every preset's variants."""
    return {preset: study.by_preset(study.variants, preset) for preset in study.presets}


def _without(variants: Iterable[Variant], axes: Iterable[str]) -> dict[str, Variant]:
    """Return each variant without these fields, by the label that it had; those that then are the same are one."""
    found: dict[str, Variant] = {}
    alike: dict[str, Variant] = {}
    for variant in variants:
        short = {name for name, field in variant.axes.items() if field in axes}
        changes = {field: value for field, value in variant.changes.items() if field not in axes}
        levels = {axis: level for axis, level in variant.levels.items() if axis not in short}
        label = _label(levels) if variant.label == _label(variant.levels) else variant.label
        kept = replace(
            variant,
            label=label,
            changes=changes,
            levels=levels,
            axes={name: field for name, field in variant.axes.items() if name not in short},
        )
        same = repr(sorted(changes.items()))
        found[variant.label] = alike.setdefault(same, kept)
    return found


def _both(own: Variant, new: Variant, several: bool) -> Variant:
    """A variant at these levels too."""
    for short, field in new.axes.items():
        if own.axes.get(short, field) != field:
            raise ConfigError(
                f"--vary {field}: {short!r} of this study is {own.axes[short]!r}; one of them needs a study of its own"
            )
    label = ", ".join(filter(None, [own.label if several or own.levels else "", new.label]))
    return replace(
        own,
        label=label,
        changes={**own.changes, **new.changes},
        levels={**own.levels, **new.levels},
        axes={**own.axes, **new.axes},
    )


def _label(levels: Mapping[str, Any]) -> str:
    return ", ".join(f"{axis}={level}" for axis, level in levels.items())


def axes(given: Iterable[str]) -> dict[str, list[Any]]:
    """Each `FIELD=VALUE,VALUE` as field -> levels.

    Raises:
        ConfigError: it is not of this form, or names a field twice.
    """
    found: dict[str, list[Any]] = {}
    for axis in given:
        field, equals, text = axis.partition("=")
        if not equals or not text.strip():
            raise ConfigError(f"--vary takes FIELD=VALUE,VALUE, such as model.latent_steps=1,2,4, but got {axis!r}")
        if field.strip() in found:
            raise ConfigError(f"--vary {field.strip()} stands twice: give all its levels in one, such as {axis},...")
        found[field.strip()] = _levels(field.strip(), text)
    return found


def _levels(field: str, text: str) -> list[Any]:
    try:
        return json.loads(f"[{text}]")
    except ValueError:
        _check_typed(field, text)
        return [level(field, word.strip()) for word in text.split(",")]


def level(field: str, text: str) -> Any:
    """Return what a field is given on the command line: JSON where it is some, else the word itself."""
    try:
        return json.loads(text)
    except ValueError:
        _check_typed(field, text)
        return text


def _check_typed(field: str, text: str) -> None:
    """Refuse (ConfigError) Python's None and a list of words without quotes, which would be taken for words."""
    if text == "None":
        raise ConfigError(f"{field}={text}: values are typed as in JSON, here {field}=null")
    if text[:1] + text[-1:] == "[]":
        quoted = WORD.sub(r'"\g<0>"', re.sub("[\"']", "", text))
        raise ConfigError(f"{field}={text}: values are typed as in JSON, here '{field}={quoted}'")
