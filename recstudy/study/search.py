"""The class `Search`: a study whose variants a sampler proposes within ranges of the fields."""

import fnmatch
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from random import Random
from reprlib import repr as brief
from typing import Any, Literal, Self

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.explained import explained
from recstudy.base.values import flatten, is_count
from recstudy.programs.base import RunSettings
from recstudy.programs.metric import METRICS, Better, Metric
from recstudy.programs.settings import DIGITS, Range
from recstudy.records.plans import FAMILY
from recstudy.report import Part
from recstudy.study.budget import Budget
from recstudy.study.study import ByPreset, StudyBase

Direction = Literal["max", "min"]
DIRECTIONS: Mapping[Better | None, Direction] = {"higher": "max", "lower": "min"}
# Field -> value. With several model families, also `family`.
Params = Mapping[str, Any]
Ranges = Mapping[str, Mapping[str, Range]]  # family -> path of a field -> its range
# field -> other field -> the values of that at which it is searched
Conditions = Mapping[str, Mapping[str, Sequence[Any]]]
# Objectives other than the score. All of them follow from the settings.
COSTS = ("params", "gflops", "train_gflops")
# At most so many combinations are enumerated, which takes half a millisecond each.
MOST_COMBINATIONS = 100_000


@explained
@dataclass(frozen=True)
class Search(StudyBase):
    """A hyperparameter search: a sampler chooses the settings of the runs.

    Most arguments can be given for all presets, or as a dictionary by preset.

    Args:
        name: The name of the search and of its results folder.
        presets: Name -> run config, or a list of configs, one per model family. The first preset and its
            first family are the defaults.
        vary: The fields to vary, by name or glob (`model.*_cycles`). Each field states its range where it is
            defined.
        ranges: Field -> another range. Ranges of a preset take precedence.
        objectives: The metrics to optimize: `score` (that of the families, such as the top-1 accuracy on the
            selection split, in its better direction), `gflops`, `params`, `train_gflops`. Rankings use the
            first one.
        first: Settings to try first, such as those of a paper. Settings with a `family` are for that family.
            The settings of the preset always come first.
        budget: The total budget (`24 runs`, `2h`, `40gpuh`). At most half of it is used for `confirm`.
        sampler: One of `SAMPLERS`, such as your own.
        stopping: One of `PRUNERS` to stop runs early. `asha` and `median` stop runs that are poor compared
            with other runs at the same epoch.
        confirm: How many of the best trials are run again with fresh seeds, as far as half of the budget
            allows.
        seeds: The number of fresh seeds for the confirmation, which follow those of the trials.
        trial_seeds: The number of seeds of each trial (0, 1, ...), whose mean is its score.
        keep: `best` keeps the folder of the best trial's runs, such as its checkpoint, for a function or a
            command. By default the folder of a run is removed when it has ended.
        report: The tables and figures in their order. By default the progress, a table of the best settings,
            parameter importances, and the score against each parameter.
        question: The question. By default the docstring of the study file.
        program: A program of your own, as in `Study`. `ranges` then states the varied fields.
        settings: The settings of the program, as in `Study`.
        metrics: The metrics of the program, as in `Study`.
        when: Field -> {another varied field: its values for which the first field is varied}. For other
            values the field stays as in the preset: `{"model.balance_weight": {"model.experts": [2, 4]}}`.
    """

    name: str
    presets: Mapping[str, Any] = field(default_factory=dict)
    vary: Sequence[str] = ()
    ranges: Mapping[str, Any] = field(default_factory=dict)
    objectives: Mapping[str, Direction] = field(default_factory=lambda: {"score": "max"})
    first: ByPreset[Sequence[Params]] = ()
    budget: ByPreset[str] = "24 runs"
    sampler: str = "tpe"
    stopping: str = "none"
    confirm: int = 10
    seeds: ByPreset[int] = 3
    trial_seeds: int = 1
    keep: Literal["", "best"] = ""
    report: ByPreset[Sequence[Part]] = ()
    question: str = ""
    when: Conditions = field(default_factory=dict)
    program: Any = None
    settings: Any = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    fewest_seeds = 0
    has_families = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for budget in self.values_of("budget"):
            Budget.parse(budget)
        if not is_count(self.trial_seeds, 1):
            raise ConfigError(
                f"the trial_seeds of {self.name} must be a whole number of at least 1, but got"
                f" {self.trial_seeds!r}"
            )
        if self.keep not in ("", "best"):
            raise ConfigError(f"the `keep` of {self.name} must be 'best' or empty, but got {self.keep!r}")
        self.check_lists("vary", str)
        self.check_lists("first", Mapping, required=False)
        if (
            not isinstance(self.objectives, Mapping)
            or not {*self.objectives.values()} <= {"max", "min"}
            or not self.objectives
        ):
            raise ConfigError(
                f"the objectives of {self.name} are {{name: 'max' or 'min'}}, but got"
                f" {brief(self.objectives)}"
            )
        self._check_ranges(self.ranges)
        for name, conditions in self.when.items() if isinstance(self.when, Mapping) else (("when", None),):
            if not isinstance(conditions, Mapping) or not all(
                isinstance(values, list | tuple) for values in conditions.values()
            ):
                raise ConfigError(
                    f"the `when` of {self.name} is {{field: {{other field: [values]}}}}, but got {name!r}:"
                    f" {conditions!r}"
                )
        self._name_fields()

    def _name_fields(self) -> None:
        """Name the fields of a user's program as in records, and set the ranges by preset."""
        path = next((base.path for base in self.bases(self.preset_named())), str)

        def qualified(names: Any) -> Any:
            if isinstance(names, Mapping):
                return {
                    name if name in (FAMILY, *self.presets) else path(name): qualified(value)
                    for name, value in names.items()
                }
            return [*map(qualified, names)] if isinstance(names, list | tuple) else names

        ranges_stated = qualified(self.ranges)
        of_all = {name: range for name, range in ranges_stated.items() if name not in self.presets}
        ranges = {preset: {**of_all, **ranges_stated.get(preset, {})} for preset in self.presets}
        fields = [name for preset_ranges in ranges.values() for name in preset_ranges]
        vary = self.vary or [*(self.program.ranges if self.program else ()), *fields]
        self._replace(
            ranges=ranges,
            vary=list(dict.fromkeys(map(path, vary))),
            when=qualified(self.when),
            first=qualified(self.first),
        )

    def _check_ranges(self, ranges: Mapping[str, Any]) -> None:
        if not isinstance(ranges, Mapping):
            raise ConfigError(f"the ranges of {self.name} are {{field: Range(...)}}, but got {brief(ranges)}")
        for name, range in ranges.items():
            if name in self.presets and isinstance(range, Mapping):
                self._check_ranges(range)
            elif not isinstance(range, Range):
                raise ConfigError(f"{self.name} gives {name!r} a range that is no Range: {range!r}")

    def varied(self, preset: str, axes: Mapping[str, Any]) -> Self:
        """Return the search with these fields varied over these values. Only the preset's own settings are
        tried first.

        Args:
            preset: The preset whose ranges are replaced.
            axes: Path of a field -> values.
        """
        new = [path for path in axes if not any(fnmatch.fnmatchcase(path, pattern) for pattern in self.vary)]
        ranges = {**self.ranges[preset], **{path: Range(values) for path, values in axes.items()}}
        return replace(self, vary=[*self.vary, *new], ranges={preset: ranges}, first=())


@dataclass(frozen=True)
class Space:
    """The search space: the ranges of each model family's fields. A field can have conditions on other
    fields.

    Args:
        bases: Family -> the settings in which the fields are changed.
        ranges: Family -> path of a field -> its range. Fields with conditions come last.
        when: Path of a field -> path of another field -> its values for which the first field is varied.
    """

    bases: Mapping[str, RunSettings]
    ranges: Ranges = field(default_factory=dict)
    when: Conditions = field(default_factory=dict)

    def settings(self, family: str, choose: Callable[[str], Any]) -> dict[str, Any]:
        """Return chosen settings of a family. Fields whose conditions do not hold are left out."""
        params = {FAMILY: family} if len(self.bases) > 1 else {}
        base = flatten(self.bases[family].values) if self.when else {}
        for path in self.ranges[family]:
            if all(
                params.get(condition_field, base.get(condition_field)) in values
                for condition_field, values in self.when.get(path, {}).items()
            ):
                params[path] = choose(path)
        return params

    def draws(self, seed: int) -> Iterator[Params]:
        """Yield random settings from the ranges, without end."""
        random, families = Random(seed), list(self.ranges)
        while True:
            family = random.choice(families)
            levels = {path: readable(range.draw(random)) for path, range in self.ranges[family].items()}
            yield self.settings(family, levels.__getitem__)

    def combinations(self) -> Iterator[Params] | None:
        """Return all settings, or None if a field takes real numbers or there are too many combinations."""
        counts = [prod(len(range.all_values) for range in ranges.values()) for ranges in self.ranges.values()]
        if not all(counts) or sum(counts) > MOST_COMBINATIONS:
            return None
        cells = (
            self.settings(family, dict(zip(ranges, values, strict=True)).__getitem__)
            for family, ranges in self.ranges.items()
            for values in itertools.product(*(range.all_values for range in ranges.values()))
        )
        return iter({repr(params): params for params in cells}.values())


def fields_of(params: Params) -> dict[str, Any]:
    """Return settings without the choice of the family."""
    return {path: value for path, value in params.items() if path != FAMILY}


def label(params: Params) -> str:
    """Return the label `latent_steps=3, batch_size=32`, with the family in front if there are several."""
    words = ", ".join(f"{path.rsplit('.', 1)[-1]}={value}" for path, value in fields_of(params).items())
    return " ".join(filter(None, [f"{params[FAMILY]}:" if FAMILY in params else "", words]))


def readable(value: Any) -> Any:
    """Round a real number to `DIGITS` significant digits, so that a run has the value that tables print."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def space_of(search: Search, preset: str, bases: Mapping[str, RunSettings]) -> Space:
    """Return the ranges of the fields that match a pattern of `vary`, in the order of `vary`.

    Raises:
        ConfigError: A family has none of the fields, a field has no range, or a condition cannot be met.
    """
    preset_ranges = search.ranges[preset]
    for path in preset_ranges:
        if not any(fnmatch.fnmatchcase(path, pattern) for pattern in search.vary):
            raise ConfigError(f"{search.name} gives a range for {path!r}, which it does not vary")
    known_fields = dict.fromkeys(
        path for name in search.presets for base in search.bases(name) for path in base.ranges
    )
    for pattern in search.vary:
        if not fnmatch.filter([*known_fields, *preset_ranges], pattern):
            raise ConfigError(
                f"{search.name} varies {pattern!r}, but no field of that name states a range: "
                f"{choices(known_fields)}.{nearest(pattern, known_fields)}"
            )
    ranges: dict[str, dict[str, Range]] = {}
    for family, base in bases.items():
        fields = flatten(base.values)
        family_ranges = {**base.ranges, **preset_ranges}
        usable = [
            path
            for path in family_ranges
            if path in fields and (path in base.ranges or path not in known_fields)
        ]
        paths = dict.fromkeys(path for pattern in search.vary for path in fnmatch.filter(usable, pattern))
        ranges[family] = {path: family_ranges[path] for path in sorted(paths, key=search.when.__contains__)}
        if not paths:
            raise ConfigError(f"{search.name} varies no field that {family} has")
    _check_when(search, ranges)
    return Space(bases, ranges, search.when)


def _check_when(search: Search, ranges: Ranges) -> None:
    """Check the conditions of a search.

    Raises:
        ConfigError: A condition is on a field that is not varied or has conditions itself, or it can never
            hold.
    """
    varied = {path: range for fields in ranges.values() for path, range in fields.items()}
    for path, conditions in search.when.items():
        for condition_field, values in {path: [], **conditions}.items():
            condition_fields = [name for name in varied if name == path or name not in search.when]
            if condition_field not in condition_fields:
                raise ConfigError(
                    f"{search.name} varies {path!r} depending on {condition_field!r}, but only varies "
                    f"{choices(condition_fields)}.{nearest(condition_field, condition_fields)}"
                )
            for value in values:
                if value not in varied[condition_field]:
                    raise ConfigError(
                        f"{search.name} varies {path!r} if {condition_field} is {value!r}, but this is not in"
                        f" its range ({varied[condition_field]})"
                    )


def first_settings(search: Search, preset: str, space: Space) -> list[Params]:
    """Return the settings to try first by family: those of the preset, if they are in the ranges, then
    `first`.

    Raises:
        ConfigError: No trial of the search could have these settings.
    """
    tried: list[Params] = []
    for family, ranges in space.ranges.items():
        base = flatten(space.bases[family].values)
        preset_settings = space.settings(family, base.__getitem__)
        if all(value in ranges[path] for path, value in fields_of(preset_settings).items()):
            tried.append(preset_settings)
        for proposal in search.by_preset(search.first, preset, ()):
            if proposal.get(FAMILY, family) != family:
                continue
            settings = fields_of(proposal)
            full_settings = space.settings(family, (base | settings).__getitem__)
            for path, value in (fields_of(full_settings) | settings).items():
                if path not in ranges:
                    raise ConfigError(
                        f"{search.name} tries {path!r} first, but {family} varies {choices(ranges)}"
                    )
                first = f"{search.name} tries {path}={value} first"
                if path not in full_settings:
                    raise ConfigError(
                        f"{first}, beside settings at which its `when` does not search {path!r}"
                    )
                if value not in ranges[path]:
                    source = (
                        "" if path in settings else f" (the preset's own, as {label(settings)} leaves it)"
                    )
                    raise ConfigError(f"{first}{source}, which is not in its range ({ranges[path]})")
            tried.append(full_settings)
    return tried


def check_objectives(search: Search, bases: Mapping[str, RunSettings], stopping: str) -> None:
    """Check the objectives of a search.

    Raises:
        ConfigError: An objective is unknown or contradicts its metric, no pruner can rank by it, or the
            families do not share it.
    """
    if stopping != "none" and len(search.objectives) > 1:
        raise ConfigError(
            f"--stopping {stopping} ranks runs by one objective, but {search.name} has"
            f" {choices(search.objectives)}"
        )
    if stopping != "none" and search.trial_seeds > 1:
        raise ConfigError(
            f"--stopping {stopping} ranks single runs, but each trial of {search.name} has"
            f" {search.trial_seeds} seeds. Use stopping='none' or trial_seeds=1"
        )
    known_names = ("score", *(search.metrics or COSTS))
    for name in search.objectives:
        if name not in known_names:
            raise ConfigError(
                f"no objective {name!r}: there are {choices(known_names)}.{nearest(name, known_names)}"
            )
    score = next(iter(bases.values())).score
    if "score" in search.objectives and "score" in search.metrics and score != "score":
        raise ConfigError(
            f"the objective 'score' of {search.name} is its first metric, {score!r}, but it also has a metric"
            f" 'score'. Put that metric first, or state objectives={{{score!r}: ...}}"
        )
    for name, direction in search.objectives.items():
        metric = score if name == "score" else name
        better = METRICS[metric].better
        # `score` is optimized in its better direction, and its default is "max"
        if better and direction != DIRECTIONS[better] and (name, direction) != ("score", "max"):
            raise ConfigError(
                f"the objectives of {search.name} have {name!r}: {direction!r}, but of the metric {metric!r}"
                f" {better} is better. State {name!r}: {DIRECTIONS[better]!r}, or change its `better`"
            )
    for base in bases.values():
        base.refuse_search(search.objectives)
    scored = {family: f"{base.score} on {base.description.data}" for family, base in bases.items()}
    if len(set(scored.values())) > 1:
        scores = " and ".join(f"{family} by its {by}" for family, by in scored.items())
        raise ConfigError(f"{search.name} scores {scores}, which no ranking compares: give one --family")
    if (places := len({base.resources for base in bases.values()})) > 1:
        raise ConfigError(
            f"all families of {search.name} must have the same resources, but there are {places}"
        )
