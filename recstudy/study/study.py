"""A study: labelled run configs, seeds, and the reports to make of them. Pure data; running it is the driver's."""

import fnmatch
import hashlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from recstudy.analysis.spec import ReportPart
from recstudy.config import KINDS, RunConfig, canonical
from recstudy.errors import ConfigError, choices, nearest
from recstudy.study.design import Variant

SMOKE = {"train.epochs": 2, "data.limit": 32, "place.compile": "off"}


@dataclass(frozen=True)
class Study:
    """One question, in one file.

    Args:
        name: of its folder of results.
        presets: name -> run config that the variants change; the first one is the default.
        variants: the cells, for every preset or by preset.
        seeds: how many seeds (0, 1, ...), for every preset or by preset.
        report: the tables and figures in their order, for every preset or by preset.
        question: what the study asks and what an answer costs; by default the docstring of the file that makes it.
    """

    name: str
    presets: Mapping[str, RunConfig]
    variants: Sequence[Variant] | Mapping[str, Sequence[Variant]]
    seeds: int | Mapping[str, int] = 1
    report: Sequence[ReportPart] | Mapping[str, Sequence[ReportPart]] = ()
    question: str = ""

    def __post_init__(self) -> None:
        if not self.question:
            asked = sys._getframe(2).f_globals.get("__doc__") or self.name  # 0: here, 1: __init__, 2: the study file
            object.__setattr__(self, "question", inspect.cleandoc(asked))

    def by_preset(self, part: Any, preset: str) -> Any:
        """Variants, seeds or report: one for all presets, or this preset's own."""
        return part[preset] if isinstance(part, Mapping) else part


@dataclass(frozen=True)
class Run:
    """One cell of a study: variant x seed."""

    variant: int
    label: str
    seed: int
    config: RunConfig

    @cached_property
    def id(self) -> str:
        return self.config.run_id


@dataclass(frozen=True)
class Plan:
    """A study under one preset, with the command line's changes: every run, in the order in which they start."""

    study: Study
    preset: str
    base: RunConfig
    variants: Sequence[Variant]
    configs: Sequence[RunConfig]
    seeds: int
    changes: Mapping[str, Any]  # what the command line changed
    smoke: bool = False

    @cached_property
    def runs(self) -> list[Run]:
        """In seed blocks: seed 0 of every variant before seed 1, so that a half-finished table is a whole one of fewer seeds."""
        return [
            Run(number, variant.label, seed, config.model_copy(update={"seed": seed}))
            for seed in range(self.seeds)
            for number, (variant, config) in enumerate(zip(self.variants, self.configs, strict=True))
        ]

    @cached_property
    def definition(self) -> str:
        """A digest of what is compared, whatever the number of seeds; another one of the same name is kept apart."""
        cells = [[variant.label, config.deciding] for variant, config in zip(self.variants, self.configs, strict=True)]
        return hashlib.sha256(canonical(cells).encode()).hexdigest()[:12]

    @property
    def folder(self) -> str:
        """The preset's folder; a smoke run has its own, so that it never stands in for the real one."""
        return f"{self.preset}-smoke" if self.smoke else self.preset


def make_plan(
    study: Study, preset: str = "", changes: Mapping[str, Any] | None = None, seeds: int | None = None, smoke: bool = False
) -> Plan:
    """Lay out a study's runs.

    Raises:
        ConfigError: no such preset or field, a value out of range, or a change to a field that the study sweeps.
    """
    preset = preset or next(iter(study.presets))
    if preset not in study.presets:
        raise ConfigError(f"no preset {preset!r}: {study.name} has {choices(study.presets)}.{nearest(preset, study.presets)}")
    variants = study.by_preset(study.variants, preset)
    changes = dict(changes or {})
    for variant in variants:
        _not_swept(changes, variant)
        _has_base(variant, variants)
    base = study.presets[preset].with_changes(changes)
    changes |= smaller(changes) if smoke else {}
    configs = [base.with_changes({**variant.changes, **changes}) for variant in variants]
    if seeds is not None and seeds < 1:
        raise ConfigError(f"--seeds must be at least 1, but got {seeds}")
    count = seeds or study.by_preset(study.seeds, preset)
    return Plan(study, preset, base.with_changes(changes), variants, configs, 1 if smoke and not seeds else count, changes, smoke)


def smaller(changes: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a smoke run small, but for what the command line sets itself."""
    within = {f"{part}.{name}" for part, value in changes.items() if isinstance(value, Mapping) for name in value}
    return {field: value for field, value in SMOKE.items() if field not in changes and field not in within}


def _not_swept(changes: Mapping[str, Any], variant: Variant) -> None:
    if "seed" in changes:
        raise ConfigError("seed is not a field to set: --seeds N runs seeds 0 to N-1")
    for field, axis in product(changes, variant.axes.values()):
        if field == axis:
            raise ConfigError(
                f"{field!r} is swept by this study. Choose its levels with --only, such as --only '{variant.label}'"
            )
        if axis.startswith(f"{field}.") or field in (f"{axis}.{kind}" for kind in KINDS):
            raise ConfigError(
                f"{field!r} would replace {axis!r}, which is swept by this study. "
                "Set other fields one by one, such as train.epochs=5"
            )


def _has_base(variant: Variant, variants: Sequence[Variant]) -> None:
    labels = [other.label for other in variants]
    if variant.base and variant.base not in labels:
        raise ConfigError(
            f"{variant.label!r} is compared with {variant.base!r}, which is no variant: there are {choices(labels, most=6)}."
            + nearest(variant.base, labels)
        )


def select(plan: Plan, patterns: Sequence[str]) -> list[Run]:
    """The runs whose label matches any of the globs; all of them without globs."""
    if not patterns:
        return plan.runs
    labels = [variant.label for variant in plan.variants]
    for pattern in patterns:
        if not fnmatch.filter(labels, pattern):
            known = choices((f"'{label}'" for label in labels), most=6)
            raise ConfigError(f"no variant matches --only {pattern!r}: there are {known}.{nearest(pattern, labels)}")
    return [run for run in plan.runs if any(fnmatch.fnmatchcase(run.label, pattern) for pattern in patterns)]
