"""A study: labelled run configs, seeds, and the reports to make of them. Pure data; running it is the driver's."""

import fnmatch
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from math import inf
from reprlib import repr as brief
from typing import Any

from recstudy.errors import ConfigError, choices, nearest
from recstudy.explained import explained
from recstudy.papers import of_program
from recstudy.programs.function import Function
from recstudy.programs.metric import METRICS, Metric, using_metrics
from recstudy.programs.own import OwnProgram
from recstudy.programs.settings import KINDS, PREFIX, RunSettings, digest, flatten, run_ids
from recstudy.records.files import Json
from recstudy.records.study_schema import Deviation, VariantRecord, folder_of
from recstudy.report import BesidePublished, Claim, Claims, LearningCurves, Part, Table, check_report
from recstudy.report.claims import weights_each
from recstudy.report.names import setting_name
from recstudy.study.design import MOST_RUNS, Levels, Variant, crossed

PAPER = "paper"  # the preset with the settings of the paper
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")  # one part of a path on any file system
DEFAULT = "default"  # the preset of a user's own program that states none


class ByPreset:
    """What is stated for every preset alike, or by preset; and the user's own program, if it has one."""

    name: str
    presets: Mapping[str, Any]
    program: Any
    settings: Any
    metrics: Mapping[str, Metric]

    def bind_program(self, many: bool = False) -> None:
        """Make presets of a user's own program, and register it for other processes.

        Args:
            many: A preset is a list of settings, as in a search.

        Raises:
            ConfigError: settings, metrics or a preset do not fit.
        """
        if self.program is None:
            for name in ("settings", "metrics"):
                if getattr(self, name):
                    raise ConfigError(f"{self.name} has {name} but no program: give program=train, or presets of RunConfigs")
            return
        program = self.program
        if not isinstance(program, OwnProgram):
            program = program if hasattr(program, "bind") else Function(program)
            program = program.bind({} if self.settings is None else self.settings, self.metrics)
        program.register(calling_module())
        presets = {}
        for name, given in (self.presets or {DEFAULT: {}}).items():
            if isinstance(given, Mapping):
                own = program.base(given)
                presets[name] = [own] if many else own
            else:
                presets[name] = given
        object.__setattr__(self, "program", program)
        object.__setattr__(self, "presets", presets)
        object.__setattr__(self, "metrics", program.metrics)

    def by_preset(self, part: Any, preset: str, otherwise: Any = None) -> Any:
        """Return what is stated of a part, such as seeds or report: for all presets, or of this one, or `otherwise`."""
        return part.get(preset_of(self, preset), otherwise) if isinstance(part, Mapping) else part

    def check_presets(self, many: bool = False) -> None:
        """Refuse (ConfigError) presets without a run config, or without a list of `many`, and names that no folder can have."""
        presets = self.presets
        if not isinstance(presets, Mapping) or not presets:
            raise ConfigError(
                f"{self.name} has no presets: give {{NAME: RunConfig(...)}}, or program=train with its settings and metrics, "
                f"but got {brief(presets)}"
            )
        for what, name in (("study", self.name), *(("preset", preset) for preset in presets)):
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise ConfigError(
                    f"a {what}'s name is that of a folder: letters, digits, '_', '-' and '.', with a letter or digit first and "
                    f"last, but got {name!r}"
                )
        folders = Counter(folder.lower() for preset in presets for folder in (preset, folder_of(preset, smoke=True)))
        for preset, configs in presets.items():
            if folders[preset.lower()] > 1:
                raise ConfigError(f"{self.name}: the preset {preset!r} and another one would share a folder. Rename it")
            if many:
                check_list(f"the preset {preset!r} of {self.name}", configs, RunSettings, "RunConfig")
            elif not isinstance(configs, RunSettings):
                raise ConfigError(f"the preset {preset!r} of {self.name} must be a RunConfig, but got {brief(configs)}")

    def each(self, part: str, whole: bool = True) -> list[Any]:
        """Return what is stated of a part: once for all presets, or by preset, and, if it must be `whole`, of all of them.

        Raises:
            ConfigError: a preset is missing, or there is none of that name.
        """
        given = getattr(self, part)
        if not isinstance(given, Mapping):
            return [given]
        for preset in given:
            if preset not in self.presets:
                known = f"its presets are {choices(self.presets)}.{nearest(preset, self.presets)}"
                raise ConfigError(f"{self.name} has {part} for {preset!r}: {known}")
        for preset in self.presets if whole else ():
            if preset not in given:
                stated = choices(given) or "no preset"
                raise ConfigError(f"{self.name} has {part} for {stated}, but none for its preset {preset!r}")
        return list(given.values())

    def check_lists(self, part: str, kind: type, whole: bool = True) -> None:
        """Refuse (ConfigError) a part that is no list of this kind of thing."""
        for given in self.each(part, whole):
            check_list(f"the {part} of {self.name}", given, kind)

    def check_seeds(self, least: int) -> None:
        """Refuse (ConfigError) what is no count of seeds."""
        for given in self.each("seeds"):
            if not isinstance(given, int) or isinstance(given, bool) or given < least:
                raise ConfigError(f"the seeds of {self.name} must be a whole number of at least {least}, but got {given!r}")


@explained
@dataclass(frozen=True)
class Study(ByPreset):
    """One question, in one file.

    Args:
        name: of its folder of results.
        presets: name -> run config that the variants change; the first one is the default. With a program of your own:
            name -> changes of its settings; none are needed.
        variants: the cells, for every preset or by preset.
        seeds: how many seeds (0, 1, ...), for every preset or by preset.
        seeds_at_most: how many it may come to have, for every preset or by preset; 0 where that is not stated. Whoever looks at
            3 seeds and then at 5 has had two chances to be wrong: levels of tests go by the looks that were taken, out of these.
        learned: metric -> the value above which a seed has learned, where some seeds do and others do not (`2 of 3 learned`);
            without it one wide gap between the seeds tells.
        report: the tables and figures in their order, for every preset or by preset.
        claims: the sentences that it tests, for every preset or by preset; they stand before the report.
        question: what the study asks and what an answer costs; by default the docstring of the file that is run.
        deviations: where the preset `paper` knowingly is not as its paper, said under every table that compares with it.
        program: what runs execute, in place of the recursive models: a training function, a `Function` or a `Command`.
        settings: of that program: names with defaults, a dataclass or a pydantic model.
        metrics: of that program: name -> how it is read, such as `Metric("%", items=10_000)`; the first one is the score.
    """

    name: str
    presets: Mapping[str, Any] = field(default_factory=dict)
    variants: Sequence[Variant] | Mapping[str, Sequence[Variant]] = ()
    seeds: int | Mapping[str, int] = 1
    seeds_at_most: int | Mapping[str, int] = 0
    learned: Mapping[str, float] = field(default_factory=dict)
    report: Sequence[Part] | Mapping[str, Sequence[Part]] = ()
    claims: Sequence[Claim] | Mapping[str, Sequence[Claim]] = ()
    question: str = ""
    deviations: Sequence[Deviation] = ()
    program: Any = None
    settings: Any = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bind_program()
        self.check_presets()
        self.check_seeds(least=1)
        self.each("seeds_at_most", whole=False)
        for preset in self.presets:
            seeds, most = self.by_preset(self.seeds, preset), self.by_preset(self.seeds_at_most, preset, 0)
            if not isinstance(most, int) or isinstance(most, bool) or most < 0 or 0 < most < seeds:
                raise ConfigError(
                    f"the seeds_at_most of {self.name} must be a whole number of at least its {seeds} seeds, but got {most!r}"
                )
        with using_metrics(self.metrics):
            check_learned(self.name, self.learned)
        self.check_lists("variants", Variant)
        self.check_lists("report", Part)
        self.check_lists("claims", Claim, whole=False)
        self.check_lists("deviations", Deviation)


def fitted(parts: Iterable[Part], settings: RunSettings) -> list[Part]:
    """Return the parts of a report with what these settings' program calls its metrics and settings.

    Raises:
        ConfigError: a part names what the program does not have.
    """
    own = [part.of_metrics([*settings.metrics]) if settings.metrics else part for part in parts]
    return [
        replace(part, targets=of_program(part.targets, settings)) if isinstance(part, BesidePublished) and part.targets else part
        for part in own
    ]


@dataclass(frozen=True)
class Run:
    """One cell of a study: variant x seed."""

    variant: int
    label: str
    seed: int
    config: RunSettings
    id: str  # the config's `run_id`

    def __str__(self) -> str:
        return f"{self.label}, seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """A study under one preset, with the command line's changes: every run, in the order in which they start."""

    study: Study
    preset: str
    base: RunSettings
    variants: Sequence[Variant]
    configs: Sequence[RunSettings]
    seeds: int
    changes: Mapping[str, Any]  # what the command line changed
    smoke: bool = False
    seeds_at_most: int = 0
    extended: Mapping[int, int] = field(default_factory=dict)  # the seeds of variants, by their place, that have more

    @cached_property
    def seeds_each(self) -> list[int]:
        """Return how many seeds each variant has."""
        return [max(self.seeds, self.extended.get(number, 0)) for number in range(len(self.variants))]

    @cached_property
    def runs(self) -> list[Run]:
        """Return the runs in seed blocks, seed 0 of every variant first: a half-finished table is a whole one of fewer seeds."""
        seeds = self.seeds_each
        most = max(seeds)
        ids = [run_ids(deciding, range(most)) for deciding in self._deciding]
        return [
            Run(number, variant.label, seed, config.model_copy(update={"seed": seed}), ids[number][seed])
            for seed in range(most)
            for number, (variant, config) in enumerate(zip(self.variants, self.configs, strict=True))
            if seed < seeds[number]
        ]

    @cached_property
    def _deciding(self) -> list[Json]:
        """Return what the digests of each variant are made of; but for the seed, it is that of all its runs."""
        return [config.deciding for config in self.configs]

    @cached_property
    def definition(self) -> str:
        """Return a digest of what is compared, whatever is claimed of it and the number of seeds; another one is kept apart."""
        cells = [[variant.label, deciding] for variant, deciding in zip(self.variants, self._deciding, strict=True)]
        return digest(cells, 12)

    @cached_property
    def report(self) -> list[Part]:
        """Return the study's parts, after its claims where it has some; a smoke run's numbers bear none."""
        stated = self.study.by_preset(self.study.report, self.preset)
        if not stated and self.base.metrics:
            stated = [Table("results"), LearningCurves()]  # of all that a user's own program returns and reports
        claims = () if self.smoke else tuple(self.study.by_preset(self.study.claims, self.preset, ()))
        return fitted([*([Claims(claims=claims).scored_by(self.base.score)] if claims else []), *stated], self.base)

    @property
    def claims(self) -> list[Claims]:
        return [part for part in self.report if isinstance(part, Claims)]

    @property
    def folder(self) -> str:
        """Return the preset's folder."""
        return folder_of(self.preset, self.smoke)


def make_plan(
    study: Study,
    preset: str = "",
    changes: Mapping[str, Any] | None = None,
    seeds: int | None = None,
    smoke: bool = False,
    seeds_at_most: int | None = None,
) -> Plan:
    """Lay out a study's runs.

    Raises:
        ConfigError: no such preset or field, a value out of range, a change to a field that tells variants apart, a label
            that cannot be used, a report or a claim that names what the study has not, nothing to run, or too much.
    """
    with using_metrics(study.metrics):
        return _make_plan(study, preset_of(study, preset), dict(changes or {}), seeds, smoke, seeds_at_most)


def _make_plan(
    study: Study, preset: str, changes: dict[str, Any], seeds: int | None, smoke: bool, seeds_at_most: int | None
) -> Plan:
    path = study.presets[preset].path
    variants = [with_paths(variant, path) for variant in study.by_preset(study.variants, preset)]
    changes = {path(name): value for name, value in changes.items()}
    _check_labels(f"{study.name}, preset {preset}", variants)
    _check_swept(changes, variants)
    base = study.presets[preset].with_changes(changes)
    changes |= base.smaller(changes) if smoke else {}
    configs = base.with_each({**variant.changes, **changes} for variant in variants)
    if preset == PAPER and not changes:
        _check_deviations(study, configs)
    count = study.by_preset(study.seeds, preset) if seeds is None else seeds
    if count < 1:
        raise ConfigError(f"--seeds must be at least 1, but got {count}")
    count = 1 if smoke and not seeds else count
    most = study.by_preset(study.seeds_at_most, preset, 0) if seeds_at_most is None else seeds_at_most
    if most and count > most:
        raise ConfigError(
            f"{count} seeds are more than the {most} that {study.name} may have: raise its seeds_at_most, or "
            f"--seeds-at-most {count}. Tests are stricter where that is stated after the first run has finished"
        )
    if len(variants) * count > MOST_RUNS:
        raise ConfigError(
            f"{study.name} would have {len(variants)} variants x {count:,} seeds, but a study plans {MOST_RUNS:,} runs at most: "
            "lower --seeds, or split the study"
        )
    plan = Plan(study, preset, base.with_changes(changes), variants, configs, count, changes, smoke, most)
    check_report(plan.report, named_by_reports(variants, configs), bool(base.metrics))
    if claims := [claim for part in plan.claims for claim in part.claims]:
        known = [described(variant, config) for variant, config in zip(variants, configs, strict=True)]
        fields = [flatten(config.values) for config in configs]
        for claim in claims:
            weights_each(claim, known, fields)
    return plan


def varied(study: Study, preset: str, axes: Mapping[str, Levels]) -> Study:
    """Return the study with each of its variants at every combination of these axes' levels.

    Of an axis that it sweeps itself, these levels take the place of its own. Its claims are about its own variants, and go.

    Args:
        study: as its file states it.
        preset: whose variants are varied; the first one by default.
        axes: field -> levels, as in `grid`.
    """
    if not axes:
        return study
    chosen = preset_of(study, preset)
    path = study.presets[chosen].path
    axes = {path(name): levels for name, levels in axes.items()}
    variants = {name: [with_paths(one, path) for one in study.by_preset(study.variants, name)] for name in study.presets}
    return replace(study, variants={**variants, chosen: crossed(variants[chosen], axes)}, claims=())


def described(variant: Variant, config: RunSettings, **known: Any) -> VariantRecord:
    """Return what a selector may ask of a variant, and what else is known; an axis that it leaves has the preset's level."""
    fields = flatten(config.values) if variant.axes.keys() - variant.levels.keys() else {}
    own = {axis: fields[path] for axis, path in variant.axes.items() if path in fields}
    return VariantRecord(
        label=variant.label,
        levels=own | dict(variant.levels),
        model=config.description.model,
        data=config.description.data,
        synthetic=config.description.is_synthetic,
        leaks=config.description.leaks,
        batch_norm=config.description.has_batch_norm,
        **known,
    )


def named_by_reports(variants: Iterable[Variant], configs: Iterable[RunSettings]) -> list[str]:
    """Return what a part of a report may name: the axes, a variant by its label, the model and the data by their titles, every
    field of a config, the depth at which the test set is answered, and the part of it.
    """
    axes = [name for variant in variants for name in (*variant.axes, *variant.levels)]
    kinds = {config.kind: config for config in configs}
    fields = [path for config in kinds.values() for path in flatten(config.values)]
    own = [name for path in fields if path.startswith(PREFIX) for name in (setting_name(path), path)]
    return list(dict.fromkeys([*axes, "variant", "model", "data", *(own or [*fields, "eval.depth", "eval.part"])]))


def _check_labels(study: str, variants: Sequence[Variant]) -> None:
    labels = Counter(variant.label for variant in variants)
    if not labels:
        raise ConfigError(f"{study}: there are no variants to run")
    for label, count in labels.items():
        if count > 1:
            raise ConfigError(f"{study}: {count} variants are called {label!r}. Give each a label of its own")
    for variant in variants:
        if variant.base and variant.base not in labels:
            raise ConfigError(
                f"{variant.label!r} is compared with {variant.base!r}, which is no variant: there are {choices(labels, most=6)}."
                + nearest(variant.base, labels)
            )


def _check_swept(changes: Mapping[str, Any], variants: Sequence[Variant]) -> None:
    """Refuse to set what tells variants apart, which would make their labels wrong."""
    if "seed" in changes:
        raise ConfigError("seed is not a field to set: --seeds N runs seeds 0 to N-1")
    axes = {path: variant.label for variant in reversed(variants) for path in variant.axes.values()}
    apart = {path: label for path, label in _apart(variants).items() if path not in axes}
    for changed in changes:
        if changed in axes:
            raise ConfigError(
                f"{changed.removeprefix('settings.')!r} is swept by this study. Choose its levels with --only, such as "
                f"--only '{axes[changed]}'"
            )
        if changed in apart:
            raise ConfigError(
                f"{changed!r} is what sets {apart[changed]!r} apart in this study, whose label would not be true any more. "
                "Choose variants with --only, or change its value in the study"
            )
        for path in (*axes, *apart):
            if path.startswith(f"{changed}.") or changed in (f"{path}.{kind}" for kind in KINDS):
                raise ConfigError(
                    f"{changed!r} would replace {path!r}, which is swept by this study. "
                    "Set other fields one by one, such as train.epochs=5"
                )


def _check_deviations(study: Study, configs: Iterable[RunSettings]) -> None:
    """Refuse to state of the `paper` preset what it does not do."""
    settings = [flatten(config.values) for config in configs]
    for stated in study.deviations:
        found = {repr(fields[stated.field]): None for fields in settings if stated.field in fields}
        if stated.of_config and repr(stated.ours) not in found:
            raise ConfigError(
                f"{study.name} states as a deviation that {stated.field} is {stated.ours!r}, but in its preset {PAPER} "
                + (f"it is {choices(found)}" if found else "no model or data set has this field")
            )


def _apart(variants: Sequence[Variant]) -> dict[str, str]:
    """Field -> the label of a variant that sets it, of each field that not all of them set alike."""
    values: dict[str, dict[str, Any]] = {}
    for variant in variants:
        for path, value in variant.changes.items():
            values.setdefault(path, {})[variant.label] = value
    return {
        path: next(iter(labelled))
        for path, labelled in values.items()
        if len(labelled) < len(variants) or len(set(map(repr, labelled.values()))) > 1
    }


def select(runs: Sequence[Run], patterns: Sequence[str], option: str = "--only") -> Sequence[Run]:
    """Return the runs whose label matches any of the globs, in which spaces do not count; all of them without globs."""
    labels = {run.label.replace(" ", ""): run.label for run in runs}
    chosen: set[str] = set()
    for pattern in patterns:
        matches = fnmatch.filter(labels, pattern.replace(" ", ""))
        if not matches:
            known = choices((f"'{label}'" for label in labels.values()), most=6)
            near = _nearest_name(pattern, labels.values()) or nearest(pattern, labels.values())
            raise ConfigError(f"no variant matches {option} {pattern!r}: there are {known}.{near}")
        chosen |= {labels[match] for match in matches}
    return [run for run in runs if run.label in chosen] if patterns else runs


def _nearest_name(pattern: str, labels: Iterable[str]) -> str:
    """Return a hint of what stands before a level in labels and begins as the glob nearly does."""
    word = re.split(r"[=*?[]", pattern.lstrip("* "))[0]
    names = dict.fromkeys(part.partition("=")[0] for label in labels for part in label.split(", "))
    begun = {name[: len(word) + 1]: name for name in reversed(names)}  # one letter more, as one may be missing
    match = get_close_matches(word, begun, n=1)
    return f" Did you mean {begun[match[0]]!r}?" if match and word not in names else ""


# ----------------------------------- what a file states is checked where it states it, so that an error names the line


def check_list(what: str, given: Any, kind: type, name: str = "") -> None:
    """Refuse (ConfigError) what is no list of this kind of thing."""
    name = name or kind.__name__
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigError(f"{what} must be a list of {name}, but got {brief(given)}")
    for item in given:
        if not isinstance(item, kind):
            raise ConfigError(f"{what} must be of {name}, but got {brief(item)}")


def check_learned(study: str, given: Any) -> None:
    """Refuse (ConfigError) what does not give metrics the number above which a seed has learned."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"the `learned` of {study} must be {{METRIC: VALUE}}, but got {brief(given)}")
    for name, value in given.items():
        known = METRICS[name]  # its error names those that there are
        low, high = known.bounds or (-inf, inf)
        if not isinstance(value, int | float) or isinstance(value, bool) or not low < value < high:
            raise ConfigError(f"`learned` of {study}: {name} must be a number between {low:g} and {high:g}, but got {value!r}")


def with_paths(variant: Variant, path: Callable[[str], str]) -> Variant:
    """Return a variant whose fields are named as in records."""
    changes = {path(name): value for name, value in variant.changes.items()}
    return replace(variant, changes=changes, axes={axis: path(name) for axis, name in variant.axes.items()})


def calling_module() -> str:
    """Return the name of the first module outside of recstudy that is being run."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("recstudy", "dataclasses"):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "__main__")) if frame is not None else "__main__"


def preset_of(study: ByPreset, preset: str) -> str:
    """Return the preset of that name; the first one where none is named.

    Raises:
        ConfigError: there is none.
    """
    if preset and preset not in study.presets:
        raise ConfigError(f"no preset {preset!r}: {study.name} has {choices(study.presets)}.{nearest(preset, study.presets)}")
    return preset or str(next(iter(study.presets)))
