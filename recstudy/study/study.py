"""What a user states in one file: a study, its variants and seeds, and the reports to make of them. Pure
data.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from reprlib import repr as brief
from types import MappingProxyType
from typing import Any, Self, TypeAlias, TypeVar

from recstudy.errors import ConfigError, choices, nearest
from recstudy.explained import explained
from recstudy.plugins import caller
from recstudy.programs.function import Function
from recstudy.programs.metric import METRICS, Metric, using_metrics
from recstudy.programs.own import OwnProgram
from recstudy.programs.settings import RunSettings, flatten
from recstudy.records.study_schema import Deviation, folder_of
from recstudy.report import Claim, Part
from recstudy.study.design import Axes, Variant, crossed

PAPER = "paper"  # the preset with the settings of the paper
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")  # one part of a path on any file system
DEFAULT = "default"  # the preset of a user's own program that states none
T = TypeVar("T")
ByPreset: TypeAlias = T | Mapping[str, T]  # for every preset, or by its name


class StudyBase:
    """What studies and searches have in common: values for every preset or by preset, and the user's own
    program, if any.
    """

    name: str
    presets: Mapping[str, Any]
    program: Any
    settings: Any
    metrics: Mapping[str, Metric]
    variants: Any = ()  # from here on of one of the two alone
    claims: Any = ()
    success_threshold: Any = MappingProxyType({})
    deviations: Any = ()
    objectives: Any = MappingProxyType({})
    confirm: int = 0
    fewest_seeds = 1
    has_families = False  # a preset is a list of settings, one for each model family

    def __post_init__(self) -> None:
        self._bind_program()
        self._check_presets()
        for seeds in self.values_of("seeds"):
            if not is_count(seeds, self.fewest_seeds):
                raise ConfigError(
                    f"the seeds of {self.name} must be a whole number of at least {self.fewest_seeds}, but"
                    f" got {seeds!r}"
                )
        self.check_lists("report", Part)

    def _bind_program(self) -> None:
        """Make presets of a user's own program, and register it for other processes (ConfigError)."""
        if self.program is None:
            for name in ("settings", "metrics"):
                if getattr(self, name):
                    raise ConfigError(
                        f"{self.name} has {name} but no program: give program=train, or presets of RunConfigs"
                    )
            return
        program = self.program
        if not isinstance(program, OwnProgram):
            program = program if hasattr(program, "bind") else Function(program)
            program = program.bind({} if self.settings is None else self.settings, self.metrics)
        program.register(caller().get("__name__", "__main__"))
        presets = {}
        for name, changes in (self.presets or {DEFAULT: {}}).items():
            presets[name] = program.base(changes) if isinstance(changes, Mapping) else changes
        self._replace(program=program, presets=presets, metrics=program.metrics)

    def _replace(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _check_presets(self) -> None:
        """Refuse (ConfigError) presets without settings, and names that no folder can have."""
        presets = self.presets
        if not isinstance(presets, Mapping) or not presets:
            raise ConfigError(
                f"{self.name} has no presets: give {{NAME: RunConfig(...)}}, or program=train with its"
                f" settings and metrics, but got {brief(presets)}"
            )
        presets = dict(presets)
        for name, settings in presets.items():
            if self.has_families and isinstance(settings, RunSettings):
                presets[name] = [settings]
            elif not self.has_families and isinstance(settings, list | tuple) and len(settings) == 1:
                presets[name] = settings[0]
        self._replace(presets=presets)
        for noun, name in (("study", self.name), *(("preset", preset) for preset in presets)):
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise ConfigError(
                    f"a {noun}'s name is that of a folder: letters, digits, '_', '-' and '.', with a letter"
                    f" or digit first and last, but got {name!r}"
                )
        folders = Counter(
            folder.lower() for preset in presets for folder in (preset, folder_of(preset, smoke=True))
        )
        for preset, settings in presets.items():
            if folders[preset.lower()] > 1:
                raise ConfigError(
                    f"{self.name}: the preset {preset!r} and another one would share a folder. Rename it"
                )
            if self.has_families:
                check_list(f"the preset {preset!r} of {self.name}", settings, RunSettings, "RunConfig")
            elif not isinstance(settings, RunSettings):
                fix = ". Write the other configs as variants" if isinstance(settings, list | tuple) else ""
                raise ConfigError(
                    f"the preset {preset!r} of {self.name} must be a RunConfig, but got"
                    f" {brief(settings)}{fix}"
                )

    def preset_named(self, name: str = "") -> str:
        """Return the preset of this name, by default the first one (ConfigError: there is none)."""
        if name and name not in self.presets:
            raise ConfigError(
                f"Unknown preset {name!r}.{nearest(name, self.presets)} {self.name} has {choices(self.presets)}"
            )
        return name or next(iter(self.presets))

    def bases(self, preset: str) -> list[RunSettings]:
        """Return the settings of a preset, one for each model family of a search."""
        settings = self.presets[preset]
        return list(settings) if self.has_families else [settings]

    def by_preset(self, part: Any, preset: str, otherwise: Any = None) -> Any:
        """Return what is stated of a part, such as seeds or report: for all presets, or of this one, or
        `otherwise`.
        """
        return part.get(self.preset_named(preset), otherwise) if isinstance(part, Mapping) else part

    def values_of(self, part: str, required: bool = True) -> list[Any]:
        """Return what is stated of a part: once for all presets, or by preset, and, if it must be `whole`, of
        all of them.

        Raises:
            ConfigError: a preset is missing, or there is none of that name.
        """
        values = getattr(self, part)
        if not isinstance(values, Mapping):
            return [values]
        for preset in values:
            if preset not in self.presets:
                preset_names = f"its presets are {choices(self.presets)}.{nearest(preset, self.presets)}"
                raise ConfigError(f"{self.name} has {part} for {preset!r}: {preset_names}")
        for preset in self.presets if required else ():
            if preset not in values:
                stated_presets = choices(values) or "no preset"
                raise ConfigError(
                    f"{self.name} has {part} for {stated_presets}, but none for its preset {preset!r}"
                )
        return list(values.values())

    def check_lists(self, part: str, kind: type, required: bool = True) -> None:
        """Refuse (ConfigError) a part that is no list of this kind of thing."""
        for value in self.values_of(part, required):
            check_list(f"the {part} of {self.name}", value, kind)


@explained
@dataclass(frozen=True)
class Study(StudyBase):
    """One question, in one file.

    Args:
        name: of its folder of results.
        presets: name -> run config that the variants change, or a list of one; the first preset is the
            default. With a program of your own: name -> changes of its settings; none are needed.
        variants: the cells, for every preset or by preset.
        seeds: how many seeds (0, 1, ...), for every preset or by preset.
        max_seeds: the maximum number of seeds, for every preset or by preset; 0 if none is stated, so
            that the first look has the whole error. A study that is read at 3 seeds and again at 5 has two
            chances to be wrong, so each look spends a part of the 5 %. A study that goes beyond its maximum
            may err in 7.5 %.
        success_threshold: metric -> the value above which a seed has learned, where some seeds do and others do not (`2
            of 3 learned`); without it one wide gap between the seeds tells.
        paired: whether variants of the same seed share data order and initialization, so that differences are
            taken per seed.
        report: the tables and figures in their order, for every preset or by preset; by default a table of
            results and the learning curves.
        claims: the sentences that it tests, for every preset or by preset; they stand before the report.
        question: what the study asks and what an answer costs; by default the docstring of the file that is
            run.
        deviations: where the preset `paper` knowingly is not as its paper, said under every table that
            compares with it.
        program: what runs execute, in place of the recursive models: a training function, a `Function` or a
            `Command`.
        settings: of that program: names with defaults, a dataclass or a pydantic model.
        metrics: of that program: name -> how it is read, such as `Metric("%", items=10_000)`; the first one
            is the score.
    """

    name: str
    presets: Mapping[str, Any] = field(default_factory=dict)
    variants: ByPreset[Sequence[Variant]] = ()
    seeds: ByPreset[int] = 1
    max_seeds: ByPreset[int] = 0
    success_threshold: Mapping[str, float] = field(default_factory=dict)
    paired: bool = False
    report: ByPreset[Sequence[Part]] = ()
    claims: ByPreset[Sequence[Claim]] = ()
    question: str = ""
    deviations: Sequence[Deviation] = ()
    program: Any = None
    settings: Any = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.values_of("max_seeds", required=False)
        for preset in self.presets:
            seeds, max_seeds = self.by_preset(self.seeds, preset), self.by_preset(self.max_seeds, preset, 0)
            if max_seeds != 0 and not is_count(max_seeds, seeds):
                raise ConfigError(
                    f"the max_seeds of {self.name} must be a whole number of at least its {seeds} seeds,"
                    f" but got {max_seeds!r}"
                )
        if not isinstance(self.paired, bool):
            raise ConfigError(
                f"the `paired` of {self.name} must be True or False, but got {brief(self.paired)}"
            )
        if not isinstance(self.success_threshold, Mapping):
            raise ConfigError(
                f"the `success_threshold` of {self.name} must be {{METRIC: VALUE}}, but got {brief(self.success_threshold)}"
            )
        with using_metrics(self.metrics):
            for name, value in self.success_threshold.items():
                low, high = METRICS[name].bounds or (-inf, inf)
                if not isinstance(value, int | float) or isinstance(value, bool) or not low < value < high:
                    raise ConfigError(
                        f"`success_threshold` of {self.name}: {name} must be a number between {low:g} and {high:g}, but"
                        f" got {value!r}"
                    )
        self.check_lists("variants", Variant)
        self.check_lists("claims", Claim, required=False)
        self.check_lists("deviations", Deviation)
        if self.program is not None:
            path = self.bases(self.preset_named())[0].path
            variants = {}
            for preset in self.presets:
                variants[preset] = [
                    with_paths(variant, path) for variant in self.by_preset(self.variants, preset)
                ]
            names = flatten(self.program.defaults)  # what a deviation is about may also stand in words
            deviations = []
            for deviation in self.deviations:
                deviations.append(
                    replace(deviation, field=path(deviation.field)) if deviation.field in names else deviation
                )
            self._replace(variants=variants, deviations=deviations)

    def varied(self, preset: str, axes: Axes) -> Self:
        """Return the study with each variant of a preset at every combination of these axes' levels.

        The levels replace those of an axis that the study sweeps itself. Its claims are about its own
        variants, and are dropped.

        Args:
            preset: The preset whose variants are varied.
            axes: Path of a field -> levels, as in `grid`.
        """
        variants = {name: self.by_preset(self.variants, name) for name in self.presets}
        return replace(self, variants={**variants, preset: crossed(variants[preset], axes)}, claims=())


# ----------------------------------- what a file states is checked where it states it, so that an error names
# the line


def check_list(subject: str, value: Any, kind: type, name: str = "") -> None:
    """Refuse (ConfigError) what is no list of this kind of thing."""
    name = name or kind.__name__
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"{subject} must be a list of {name}, but got {brief(value)}")
    for item in value:
        if not isinstance(item, kind):
            raise ConfigError(f"{subject} must be of {name}, but got {brief(item)}")


def is_count(value: Any, minimum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


def with_paths(variant: Variant, path: Callable[[str], str]) -> Variant:
    """Return a variant whose fields are named as in records."""
    changes = {path(name): value for name, value in variant.changes.items()}
    return replace(variant, changes=changes, axes={axis: path(name) for axis, name in variant.axes.items()})
