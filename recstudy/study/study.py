"""The class `Study`: what a user states in a study file, such as variants, seeds, claims and reports."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from reprlib import repr as brief
from types import MappingProxyType
from typing import Any, Self, TypeAlias, TypeVar

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.explained import explained
from recstudy.base.values import flatten, is_count, is_number
from recstudy.evidence.seeds import ALPHA, MAX_ALPHA, MIN_ALPHA
from recstudy.plugins import caller
from recstudy.programs.base import Program, RunSettings
from recstudy.programs.commits import CommitsProgram
from recstudy.programs.function import Function
from recstudy.programs.metric import METRICS, Metric, using_metrics
from recstudy.programs.settings import python_value
from recstudy.records.study_schema import Deviation, folder_of
from recstudy.report import Claim, Part
from recstudy.study.commits import has_commits
from recstudy.study.design import Axes, Variant, crossed

PAPER = "paper"  # the preset with the settings of the paper
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")  # one part of a path on any file system
DEFAULT = "default"  # the preset of a user's own program that states none
T = TypeVar("T")
ByPreset: TypeAlias = T | Mapping[str, T]  # for every preset, or by its name


class StudyBase:
    """The common part of studies and searches: values by preset, and the user's own program."""

    name: str
    presets: Mapping[str, Any]
    program: Any
    settings: Any
    metrics: Mapping[str, Metric]
    variants: Any = ()  # from here on of one of the two alone
    paired: bool = False
    blocks: Sequence[str] = ()
    alpha: float = ALPHA
    test_share: float = 0.0
    claims: Any = ()
    success_threshold: Any = MappingProxyType({})
    deviations: Any = ()
    objectives: Any = MappingProxyType({})
    confirm: int = 0
    trial_seeds: int = 1
    keep: str = ""
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
        """Build the presets of a user's own program, and register the program for other processes.

        Raises:
            ConfigError: The program, its settings or its metrics are invalid.
        """
        if self.program is None:
            for name in ("settings", "metrics"):
                if getattr(self, name):
                    raise ConfigError(
                        f"{self.name} has {name} but no program: give program=train, or presets of RunConfigs"
                    )
            return
        program: Any = self.program if isinstance(self.program, Program) else Function(self.program)
        settings = {} if self.settings is None else self.settings
        if has_commits(self.variants) and not isinstance(program, CommitsProgram):
            program = CommitsProgram(program, settings, self.metrics)
        program = program.bind(settings, self.metrics)
        program.register(caller().get("__name__", "__main__"))
        presets = {}
        for name, changes in (self.presets or {DEFAULT: {}}).items():
            presets[name] = program.base(changes) if isinstance(changes, Mapping) else changes
        self._replace(program=program, presets=presets, metrics=program.metrics)

    def _replace(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _check_presets(self) -> None:
        """Check the presets.

        Raises:
            ConfigError: There are no settings, or a name cannot be the name of a folder.
        """
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

    def activate(self) -> None:
        """Use this study's own settings and metrics of its program, which other studies may have too."""
        if self.program is not None:
            self.program.activate()

    def preset_named(self, name: str = "") -> str:
        """Return the preset of this name. By default the first one.

        Raises:
            ConfigError: There is no such preset.
        """
        if name and name not in self.presets:
            raise ConfigError(
                f"Unknown preset {name!r}.{nearest(name, self.presets)}"
                f" {self.name} has {choices(self.presets)}"
            )
        return name or next(iter(self.presets))

    def bases(self, preset: str) -> list[RunSettings]:
        """Return the settings of a preset, one for each model family of a search."""
        settings = self.presets[preset]
        return list(settings) if self.has_families else [settings]

    def by_preset(self, part: Any, preset: str, otherwise: Any = None) -> Any:
        """Return the value of an argument, such as seeds or report, for this preset, or `otherwise`."""
        value = part.get(self.preset_named(preset), otherwise) if isinstance(part, Mapping) else part
        return python_value(value)

    def values_of(self, part: str, required: bool = True) -> list[Any]:
        """Return the value of an argument for each preset, or only the one that holds for all presets.

        Raises:
            ConfigError: A preset is missing or unknown.
        """
        values = getattr(self, part)
        if not isinstance(values, Mapping):
            return [python_value(values)]
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
        return list(map(python_value, values.values()))

    def check_lists(self, part: str, kind: type, required: bool = True) -> None:
        """Check the entries of a list argument for all presets.

        Raises:
            ConfigError: It is no list, or an entry has another type.
        """
        for value in self.values_of(part, required):
            check_list(f"the {part} of {self.name}", value, kind)


@explained
@dataclass(frozen=True)
class Study(StudyBase):
    """A study: one question, with its variants, seeds, claims and report.

    Most arguments can be given for all presets, or as a dictionary by preset.

    Args:
        name: The name of the study and of its results folder.
        presets: Name -> run config that the variants change, or a list with one config. The first preset is
            the default. For a program of your own: name -> changes of its settings; presets are optional
            then.
        variants: The variants.
        seeds: The number of seeds (0, 1, ...).
        max_seeds: The maximum number of seeds. Each look at the verdicts spends a part of the 5 % error,
            because a study that is read at 3 seeds and again at 5 has two chances to be wrong. If 0, no
            maximum is stated, and the first look has the whole error. A study that exceeds its maximum
            once may err in 7.5 %, and more often in 10 %.
        success_threshold: Metric -> the value above which a seed counts as a success, if some seeds learn the
            task and others do not (`2 of 3 learned`). By default a wide gap between the seeds decides.
        paired: Whether variants with the same seed share data order and initialization, so that differences
            are taken per seed.
        blocks: The settings that are blocks, such as a data set, a task or an environment. Variants are
            compared within each block, and the differences are averaged over the blocks. The data sets of
            the recursive models are blocks without this.
        alpha: The level of all tests: the chance of any wrong verdict. Intervals stay at 95 %. A claim may
            state a stricter one.
        test_share: The share of the data that a seed draws as its test set, or 1 / K for K folds as seeds.
            These sets overlap, so intervals and tests use Nadeau and Bengio's correction. It needs `paired`.
            By default all seeds have the same test set.
        report: The tables and figures in their order. By default a table of results and the learning curves.
        claims: The statements that the study tests. They come before the report.
        question: The question of the study and the cost of an answer. By default the docstring of the study
            file.
        deviations: Known deviations of the preset `paper` from its paper. They are printed below every table
            that compares with the paper.
        program: The program of the runs, in place of the recursive models: a training function, a `Function`
            or a `Command`.
        settings: The settings of the program: a dictionary of defaults, a dataclass or a pydantic model.
        metrics: Name -> metric of the program, such as `Metric("%", items=10_000)`. The first one is the
            score.
    """

    name: str
    presets: Mapping[str, Any] = field(default_factory=dict)
    variants: ByPreset[Sequence[Variant]] = ()
    seeds: ByPreset[int] = 1
    max_seeds: ByPreset[int] = 0
    success_threshold: Mapping[str, float] = field(default_factory=dict)
    paired: bool = False
    blocks: Sequence[str] = ()
    alpha: float = ALPHA
    test_share: float = 0.0
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
        for field_name, low, high in (("alpha", MIN_ALPHA, MAX_ALPHA), ("test_share", 0, 1)):
            value = getattr(self, field_name)
            if not isinstance(value, int | float) or not low <= value < high:
                raise ConfigError(
                    f"the {field_name} of {self.name} must be a number from {low:g} to {high:g}, such as"
                    f" 0.01, but got {value!r}"
                )
        if self.test_share and not self.paired:
            raise ConfigError(
                f"the test_share of {self.name} needs paired=True: variants with the same seed must share the"
                " split"
            )
        if not isinstance(self.success_threshold, Mapping):
            raise ConfigError(
                f"the `success_threshold` of {self.name} must be {{METRIC: VALUE}}, but got"
                f" {brief(self.success_threshold)}"
            )
        with using_metrics(self.metrics):
            for name, value in self.success_threshold.items():
                low, high = METRICS[name].bounds or (-inf, inf)
                if not is_number(value) or not low < value < high:
                    raise ConfigError(
                        f"`success_threshold` of {self.name}: {name} must be a number between {low:g} and"
                        f" {high:g}, but got {value!r}"
                    )
        check_list(f"the blocks of {self.name}", self.blocks, str, "setting names")
        self.check_lists("variants", Variant)
        self.check_lists("claims", Claim, required=False)
        for claim in (claim for claims in self.values_of("claims", required=False) for claim in claims):
            if claim.has_no_lower:
                raise ConfigError(
                    f"the claim {claim.text!r} has higher without lower: give lower={{...}} for a difference,"
                    " or of={...} with at_least or at_most for the metric itself"
                )
            if claim.alpha and claim.alpha > self.alpha:
                raise ConfigError(
                    f"the claim {claim.text!r} has alpha={claim.alpha:g}, which must not exceed the"
                    f" {self.alpha:g} of {self.name}: state Study(alpha={claim.alpha:g})"
                )
        self.check_lists("deviations", Deviation)
        if self.program is not None:
            path = self.bases(self.preset_named())[0].path
            variants = {
                preset: [with_paths(variant, path) for variant in self.by_preset(self.variants, preset)]
                for preset in self.presets
            }
            # A deviation may also be described in words, so only fields of the program are renamed.
            names = flatten(self.program.defaults)
            deviations = [
                replace(deviation, field=path(deviation.field)) if deviation.field in names else deviation
                for deviation in self.deviations
            ]
            self._replace(variants=variants, deviations=deviations)

    def varied(self, preset: str, axes: Axes) -> Self:
        """Return the study with each variant of a preset at all combinations of these axes' levels.

        The levels replace those of an axis that the study already varies. The claims are dropped, because
        they are about the original variants.

        Args:
            preset: The preset whose variants are varied.
            axes: Path of a field -> levels, as in `grid`.
        """
        variants = {name: self.by_preset(self.variants, name) for name in self.presets}
        return replace(self, variants={**variants, preset: crossed(variants[preset], axes)}, claims=())


# ----------------------------------- what a file states is checked where it states it, so that an error names
# the line


def check_list(subject: str, value: Any, kind: type, name: str = "") -> None:
    """Check a list of the study file.

    Raises:
        ConfigError: It is no list, or an entry has another type.
    """
    name = name or kind.__name__
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"{subject} must be a list of {name}, but got {brief(value)}")
    for item in value:
        if not isinstance(item, kind):
            raise ConfigError(f"{subject} must be of {name}, but got {brief(item)}")


def with_paths(variant: Variant, path: Callable[[str], str]) -> Variant:
    """Return a variant whose fields are named as in records."""
    changes = {path(name): value for name, value in variant.changes.items()}
    return replace(variant, changes=changes, axes={axis: path(name) for axis, name in variant.axes.items()})
