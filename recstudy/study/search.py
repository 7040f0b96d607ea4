"""A search: a study whose variants a sampler proposes, within the ranges that stand beside the fields. Pure data."""

import fnmatch
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from random import Random
from reprlib import repr as brief
from typing import Any, Literal

from recstudy.errors import ConfigError, choices, nearest
from recstudy.explained import explained
from recstudy.programs.metric import METRICS, Metric, using_metrics
from recstudy.programs.settings import DIGITS, RunSettings, Tunable, digest, flatten
from recstudy.records.study_schema import folder_of
from recstudy.report import Part, check_report
from recstudy.study.budget import Budget
from recstudy.study.design import Variant
from recstudy.study.strategies import PRUNERS, SAMPLERS
from recstudy.study.study import (
    ByPreset,
    Run,
    fitted,
    named_by_reports,
    preset_of,
)

Params = Mapping[str, Any]  # field -> value, and `family` where there are several
FAMILY = "family"
COSTS = ("params", "gflops", "train_gflops")  # objectives beside the score; all follow from the config
MOST_COMBINATIONS = 100_000  # that are gone through one by one: half a millisecond each


@explained
@dataclass(frozen=True)
class Search(ByPreset):
    """One question for a sampler, in one file.

    Args:
        name: of its folder of results.
        presets: name -> run configs, one a model family; the first preset is the default, and so is its first family.
        vary: fields to choose, by name or glob (`model.*_cycles`); each states its range where it is defined.
        ranges: other ranges for some of them, for every preset or by preset.
        objectives: what to make large or small: `score` (the families' own, such as the top-1 accuracy, on the selection
            split; always the way in which that metric is better), `gflops`, `params`, `train_gflops`. The first is the one that
            rankings use.
        first: settings to try first, such as a paper's, for every preset or by preset; the preset's own settings always come
            before them. Those with a `family` are for that family.
        budget: what the search may spend in all (`24 runs`, `2h`, `40gpuh`), for every preset or by preset; no more than half
            of it goes to `confirm`.
        sampler: one of `SAMPLERS`, such as one of your own.
        stopping: one of `PRUNERS` stops runs early: `asha` or `median` those that look poor beside the others at the same epoch.
        confirm: how many of the best are run again with fresh seeds, as far as half of the budget allows.
        seeds: how many fresh seeds (1, 2, ...; the search itself uses 0), for every preset or by preset.
        report: tables and figures in their order, for every preset or by preset.
        question: by default the docstring of the file that is run.
        program, settings, metrics: of a program of your own, as in `Study`; `ranges` then says what varies.
        when: field -> {another field that is varied: the values at which the first is searched}; at others it stays as the
            preset has it, as `{"model.balance_weight": {"model.experts": [2, 4]}}`.
    """

    name: str
    presets: Mapping[str, Any] = field(default_factory=dict)
    vary: Sequence[str] = ()
    ranges: Mapping[str, Any] = field(default_factory=dict)
    objectives: Mapping[str, Literal["max", "min"]] = field(default_factory=lambda: {"score": "max"})
    first: Sequence[Params] | Mapping[str, Sequence[Params]] = ()
    budget: str | Mapping[str, str] = "24 runs"
    sampler: str = "tpe"
    stopping: str = "none"
    confirm: int = 10
    seeds: int | Mapping[str, int] = 3
    report: Sequence[Part] | Mapping[str, Sequence[Part]] = ()
    question: str = ""
    when: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    program: Any = None
    settings: Any = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bind_program(many=True)
        if self.program is not None:
            self._name_fields()
        self.check_presets(many=True)
        self.check_seeds(least=0)
        for budget in self.each("budget"):
            Budget.parse(budget)
        self.check_lists("report", Part)
        self.check_lists("vary", str)
        self.check_lists("first", Mapping, whole=False)
        if not isinstance(self.objectives, Mapping) or not {*self.objectives.values()} <= {"max", "min"} or not self.objectives:
            raise ConfigError(f"the objectives of {self.name} are {{name: 'max' or 'min'}}, but got {brief(self.objectives)}")
        self._check_ranges(self.ranges)
        for name, conditions in self.when.items() if isinstance(self.when, Mapping) else (("when", None),):
            if not isinstance(conditions, Mapping) or not all(isinstance(values, list | tuple) for values in conditions.values()):
                raise ConfigError(
                    f"the `when` of {self.name} is {{field: {{other field: [values]}}}}, but got {name!r}: {conditions!r}"
                )

    def _name_fields(self) -> None:
        """Name the fields of a user's own program as records do, and vary those that have a range."""
        path = next(iter(self.presets.values()))[0].path
        ranges = {name if name in self.presets else path(name): given for name, given in self.ranges.items()}
        vary = [path(name) for name in self.vary] or [
            *self.program.ranges,
            *(name for name in ranges if name not in self.presets),
        ]
        when = {path(name): {path(other): values for other, values in given.items()} for name, given in self.when.items()}
        first = self.first
        if not isinstance(first, Mapping):
            first = [{path(name): value for name, value in params.items()} for params in first]
        for name, value in {"ranges": ranges, "vary": list(dict.fromkeys(vary)), "when": when, "first": first}.items():
            object.__setattr__(self, name, value)

    def _check_ranges(self, ranges: Mapping[str, Any]) -> None:
        if not isinstance(ranges, Mapping):
            raise ConfigError(f"the ranges of {self.name} are {{field: Tunable(...)}}, but got {brief(ranges)}")
        for name, given in ranges.items():
            if name in self.presets and isinstance(given, Mapping):
                self._check_ranges(given)
            elif not isinstance(given, Tunable):
                raise ConfigError(f"{self.name} gives {name!r} a range that is no Tunable: {given!r}")


@dataclass(frozen=True)
class SearchPlan:
    """A search under one preset, with the command line's changes."""

    study: Search
    preset: str
    bases: Mapping[str, RunSettings]  # by family
    space: Mapping[str, Mapping[str, Tunable]]  # by family: field -> what may be tried
    first: Sequence[Params]
    budget: Budget
    sampler: str
    stopping: str
    seeds: int
    changes: Mapping[str, Any]
    smoke: bool = False

    @property
    def base(self) -> RunSettings:
        return next(iter(self.bases.values()))

    @property
    def folder(self) -> str:
        """Return the preset's folder."""
        return folder_of(self.preset, self.smoke)

    @property
    def objectives(self) -> Mapping[str, Literal["max", "min"]]:
        """Return the objectives by the names that results have: `selection_top1_accuracy` for `score`."""
        best: Literal["max", "min"] = "min" if METRICS[self.base.score].better == "lower" else "max"
        return {
            self.base.objective if name == "score" else name: best if name == "score" else way
            for name, way in self.study.objectives.items()
        }

    @property
    def kept(self) -> int:
        """Runs that are kept for fresh seeds: all that the search wants, but no more than half of a budget in runs."""
        wanted, half = self.study.confirm * self.seeds, int(self.budget.amount) // 2
        if self.budget.unit != "runs" or wanted <= half:
            return wanted
        return half - half % self.seeds if half > self.seeds else half  # each of the best with all of its seeds

    @property
    def confirm(self) -> int:
        """Tell how many of the best are run again."""
        return min(self.study.confirm, max(1, self.kept // self.seeds)) if self.kept else 0

    @property
    def split(self) -> str:
        """Return what the budget is for, in words."""
        if not self.kept:
            return f"{self.budget} in all, without fresh seeds"
        again = f"the best{f' {self.confirm}' * (self.confirm > 1)} with fresh seeds"
        if self.budget.unit != "runs":
            return f"{self.budget} in all, at most half of it for {self.kept} runs of {again}"
        return f"{self.budget} in all: {int(self.budget.amount) - self.kept} to search, {self.kept} for {again}"

    @cached_property
    def definition(self) -> str:
        """Digest what is searched, not how: trials of another definition are kept apart."""
        space = {family: {path: range.record for path, range in fields.items()} for family, fields in self.space.items()}
        values = {family: config.deciding for family, config in self.bases.items()}
        return digest([values, space, dict(self.objectives), *([self.study.when] if self.study.when else [])], 12)

    @property
    def conditional(self) -> bool:
        """Tell whether settings differ in which fields they have."""
        return len(self.bases) > 1 or bool(self.study.when)

    def searched(self, path: str, params: Params) -> bool:
        """Tell whether a field is searched beside these settings, those of the fields before it."""
        conditions = self.study.when.get(path, {})
        own = flatten(self.bases[self.family_of(params)].values) if conditions else {}
        return all(params.get(other, own.get(other)) in values for other, values in conditions.items())

    def config(self, params: Params) -> RunSettings:
        """Return the run config at these settings.

        Raises:
            ConfigError: they do not fit together.
        """
        config = self.bases[self.family_of(params)].with_changes(_fields(params))
        config.refuse_search(self.study.objectives)
        return config

    def run(self, number: int, params: Params, seed: int = 0) -> Run:
        config = self.config(params).model_copy(update={"seed": seed})
        return Run(number, label(params), seed, config, config.run_id)

    def variant(self, params: Params) -> Variant:
        """Label, levels and what is changed in `base`."""
        changes = _fields(params)
        if self.bases[self.family_of(params)] != self.base:
            config = self.config(params)
            changes = {part: config.values[part] for part in config.parts} | changes
        return Variant(label(params), changes, levels={path.rsplit(".", 1)[-1]: value for path, value in params.items()})

    def family_of(self, params: Params) -> str:
        """Tell which family settings are for."""
        return str(params.get(FAMILY, next(iter(self.bases))))

    def settings(self, family: str, choose: Callable[[str], Any]) -> dict[str, Any]:
        """Return settings of a family, by what is chosen for each field that is searched beside those before it."""
        params = {FAMILY: family} if len(self.bases) > 1 else {}
        for path in self.space[family]:
            if self.searched(path, params):
                params[path] = choose(path)
        return params

    def draws(self, seed: int) -> Iterator[Params]:
        """Settings drawn evenly from the ranges, without end."""
        random, families = Random(seed), list(self.space)
        while True:
            family = random.choice(families)
            levels = {path: readable(range.draw(random)) for path, range in self.space[family].items()}
            yield self.settings(family, levels.__getitem__)

    def combinations(self) -> Iterator[Params] | None:
        """Return every setting there is; None where some field takes real numbers, or where they are too many to go through."""
        counts = [prod(len(range.every) for range in fields.values()) for fields in self.space.values()]
        if not all(counts) or sum(counts) > MOST_COMBINATIONS:
            return None
        cells = (
            self.settings(family, dict(zip(fields, values, strict=True)).__getitem__)
            for family, fields in self.space.items()
            for values in itertools.product(*(range.every for range in fields.values()))
        )
        return iter({repr(params): params for params in cells}.values())


def label(params: Params) -> str:
    """`latent_steps=3, batch_size=32`; the family in front, where there are several."""
    words = [f"{path.rsplit('.', 1)[-1]}={value}" for path, value in params.items() if path != FAMILY]
    return " ".join(filter(None, [f"{params[FAMILY]}:" if FAMILY in params else "", ", ".join(words)]))


def _fields(params: Params) -> dict[str, Any]:
    return {path: value for path, value in params.items() if path != FAMILY}


def readable(value: Any) -> Any:
    """Return a real number at `DIGITS` significant digits, so that what is run is what a table prints."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def make_search(
    search: Search,
    preset: str = "",
    changes: Mapping[str, Any] | None = None,
    families: Sequence[str] = (),
    budget: str = "",
    sampler: str = "",
    stopping: str = "",
    seeds: int | None = None,
    smoke: bool = False,
) -> SearchPlan:
    """Lay out a search; what is empty is taken from `search`.

    Raises:
        ConfigError: no such preset, family, field, sampler; a budget that says nothing; a field that no family has; a name
            that cannot be used; a report that names what the search has not.
    """
    with using_metrics(search.metrics):
        return _make_search(search, preset, changes, families, budget, sampler, stopping, seeds, smoke)


def _make_search(
    search: Search,
    preset: str,
    changes: Mapping[str, Any] | None,
    families: Sequence[str],
    budget: str,
    sampler: str,
    stopping: str,
    seeds: int | None,
    smoke: bool,
) -> SearchPlan:
    preset, sampler, stopping = preset_of(search, preset), sampler or search.sampler, stopping or search.stopping
    known = {config.family: config for config in search.presets[preset]}
    if not known:
        raise ConfigError(f"{search.name}, preset {preset}: there is no run config to search")
    chosen = list(families) or [next(iter(known))]
    for name, wanted, there in (
        *(("--family", family, tuple(known)) for family in chosen),
        ("--sampler", sampler, tuple(SAMPLERS.complete())),
        ("--stopping", stopping, ("none", *PRUNERS.complete())),
    ):
        if wanted not in there:
            raise ConfigError(f"{name} must be one of {choices(there)}, but got {wanted!r}.{nearest(wanted, there)}")
    changes = {known[chosen[0]].path(name): value for name, value in (changes or {}).items()}
    changes |= known[chosen[0]].smaller(changes) if smoke else {}
    bases = {family: known[family].with_changes(changes) for family in dict.fromkeys(chosen)}
    ranges = search.by_preset(search.ranges, preset, search.ranges)
    space = _space(search, bases, {path: range for path, range in ranges.items() if isinstance(range, Tunable)})
    for path in changes:
        if any(path in fields for fields in space.values()):
            raise ConfigError(f"{path!r} is searched by {search.name}: give it no value, or take it out of `vary`")
    _check_objectives(search, bases, stopping)
    if seeds is not None and seeds < 0:
        raise ConfigError(f"--seeds must be at least 0, but got {seeds}")
    axes = ["family", *(path.rpartition(".")[2] for fields in space.values() for path in fields)]
    base = next(iter(bases.values()))
    parts = fitted(search.by_preset(search.report, preset), base)
    check_report(parts, [*axes, *named_by_reports((), bases.values())], bool(base.metrics))
    plan = SearchPlan(
        search,
        preset,
        bases,
        space,
        (),
        Budget.parse("4" if smoke and not budget else budget or search.by_preset(search.budget, preset)),
        sampler,
        stopping,
        seeds if seeds is not None else 1 if smoke else int(search.by_preset(search.seeds, preset)),
        changes,
        smoke,
    )
    if (places := len({config.place for config in bases.values()})) > 1:
        raise ConfigError(f"all families of {search.name} must have the same place, but there are {places}")
    return replace(plan, first=_first(plan))


def _space(search: Search, bases: Mapping[str, RunSettings], ranges: Mapping[str, Tunable]) -> dict[str, dict[str, Tunable]]:
    """Return by family the fields that a pattern of `vary` names, in the order of `vary`."""
    for path in ranges:
        if not any(fnmatch.fnmatchcase(path, pattern) for pattern in search.vary):
            raise ConfigError(f"{search.name} gives a range for {path!r}, which it does not vary")
    space: dict[str, dict[str, Tunable]] = {}
    for family, config in bases.items():
        fields = flatten(config.values)
        stated = {path: range for path, range in {**config.ranges, **ranges}.items() if path in fields}
        space[family] = {path: stated[path] for pattern in search.vary for path in fnmatch.filter(stated, pattern)}
    everything = dict.fromkeys(path for config in search.presets.values() for base in config for path in base.ranges)
    for pattern in search.vary:
        if not fnmatch.filter([*everything, *ranges], pattern):
            raise ConfigError(
                f"{search.name} varies {pattern!r}, but no field of that name states a range: "
                f"{choices(everything)}.{nearest(pattern, everything)}"
            )
    for family, fields in space.items():
        if not fields:
            raise ConfigError(f"{search.name} varies no field that {family} has")
    _check_when(search, space)
    return {family: dict(sorted(fields.items(), key=lambda one: one[0] in search.when)) for family, fields in space.items()}


def _check_when(search: Search, space: Mapping[str, Mapping[str, Tunable]]) -> None:
    """Refuse conditions on what is not varied, or that no setting fulfils; one on a field that has conditions itself, too."""
    varied = {path: range for fields in space.values() for path, range in fields.items()}
    for path, conditions in search.when.items():
        for other, values in {path: [], **conditions}.items():
            known = [name for name in varied if name == path or name not in search.when]
            if other not in known:
                raise ConfigError(
                    f"{search.name} searches {path!r} where {other!r} is such and such, but varies "
                    f"{choices(known)}.{nearest(other, known)}"
                )
            for value in values:
                if value not in varied[other]:
                    raise ConfigError(
                        f"{search.name} searches {path!r} where {other} is {value!r}, which is not in its range ({varied[other]})"
                    )


def _first(plan: SearchPlan) -> list[Params]:
    """Return by family the preset's own settings, if the ranges have them, and then those to try first, with the preset's own.

    Raises:
        ConfigError: settings that no trial of the search could have.
    """
    tried: list[Params] = []
    for family, fields in plan.space.items():
        own, name = flatten(plan.bases[family].values), plan.study.name
        bare = plan.settings(family, own.__getitem__)
        if all(value in fields[path] for path, value in _fields(bare).items()):
            tried.append(bare)
        for given in plan.study.by_preset(plan.study.first, plan.preset, ()):
            if given.get(FAMILY, family) != family:
                continue
            settings = _fields(given)
            whole = plan.settings(family, (own | settings).__getitem__)
            for path, value in (_fields(whole) | settings).items():
                if path not in fields:
                    raise ConfigError(f"{name} tries {path!r} first, but {family} varies {choices(fields)}")
                first = f"{name} tries {path}={value} first"
                if path not in whole:
                    raise ConfigError(f"{first}, beside settings at which its `when` does not search {path!r}")
                if value not in fields[path]:
                    whose = "" if path in settings else f" (the preset's own, as {label(settings)} leaves it)"
                    raise ConfigError(f"{first}{whose}, which is not in its range ({fields[path]})")
            tried.append(whole)
    return tried


def _check_objectives(search: Search, bases: Mapping[str, RunSettings], stopping: str) -> None:
    if stopping != "none" and len(search.objectives) > 1:
        raise ConfigError(
            f"--stopping {stopping} ranks runs by one objective, but {search.name} has {choices(search.objectives)}"
        )
    for name in search.objectives:
        if name not in ("score", *COSTS):
            raise ConfigError(f"no objective {name!r}: there are {choices(('score', *COSTS))}.{nearest(name, ('score', *COSTS))}")
    for config in bases.values():
        config.refuse_search(search.objectives)
    scored = {family: f"{config.score} on {config.description.data}" for family, config in bases.items()}
    if len(set(scored.values())) > 1:
        each = " and ".join(f"{family} by its {by}" for family, by in scored.items())
        raise ConfigError(f"{search.name} scores {each}, which no ranking compares: give one --family")
