"""Lays out a search under one preset, once all that it and the command line state fits together."""

import fnmatch
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from recstudy.config import RunConfig, flatten
from recstudy.config.fields import Tunable, tunable
from recstudy.errors import ConfigError, choices, nearest
from recstudy.report import check_report
from recstudy.study.budget import Budget
from recstudy.study.design import MOST_RUNS
from recstudy.study.search import FAMILY, Params, Search, SearchPlan, comparable, label
from recstudy.study.stated import preset_of
from recstudy.study.strategies import PRUNERS, SAMPLERS
from recstudy.study.study import named_by_reports, smaller

COSTS = ("params", "gflops", "train_gflops")  # objectives beside the score; all follow from the config


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
    preset = preset_of(search, preset)
    known = {config.model.family: config for config in search.presets[preset]}
    if not known:
        raise ConfigError(f"{search.name}, preset {preset}: there is no run config to search")
    chosen = list(families) or [next(iter(known))]
    for name, wanted, there in (
        *(("--family", family, tuple(known)) for family in chosen),
        ("--sampler", sampler or search.sampler, tuple(SAMPLERS.complete())),
        ("--stopping", stopping or search.stopping, ("none", *PRUNERS.complete())),
    ):
        if wanted not in there:
            raise ConfigError(f"{name} must be one of {choices(there)}, but got {wanted!r}.{nearest(wanted, there)}")
    changes = dict(changes or {})
    changes |= smaller(changes, known[chosen[0]]) if smoke else {}
    bases = {family: known[family].with_changes(changes) for family in dict.fromkeys(chosen)}
    ranges = search.by_preset(search.ranges, preset)
    space = _space(search, bases, {path: range for path, range in ranges.items() if isinstance(range, Tunable)})
    for path in changes:
        if any(path in fields for fields in space.values()):
            raise ConfigError(f"{path!r} is searched by {search.name}: give it no value, or take it out of `vary`")
    _check_objectives(search, bases, stopping or search.stopping)
    axes = ["family", *(path.rpartition(".")[2] for fields in space.values() for path in fields)]
    check_report(search.by_preset(search.report, preset), [*axes, *named_by_reports((), bases.values())])
    plan = SearchPlan(
        search,
        preset,
        bases,
        space,
        _first(search, preset, bases, space),
        Budget.parse("4" if smoke and not budget else budget or search.by_preset(search.budget, preset)),
        sampler or search.sampler,
        stopping or search.stopping,
        _seeds(search, preset, seeds, smoke),
        changes,
        smoke,
    )
    _check_budget(plan)
    return plan


def _space(search: Search, bases: Mapping[str, RunConfig], ranges: Mapping[str, Tunable]) -> dict[str, dict[str, Tunable]]:
    """By family: the fields that a pattern of `vary` names, in the order of `vary`."""
    stated = {family: tunable(config) for family, config in bases.items()}
    for path in ranges:
        if not any(fnmatch.fnmatchcase(path, pattern) for pattern in search.vary):
            raise ConfigError(f"{search.name} gives a range for {path!r}, which it does not vary")
    space: dict[str, dict[str, Tunable]] = {family: {} for family in bases}
    for family, pattern in itertools.product(bases, search.vary):
        known = [path for path in {**stated[family], **ranges} if path in flatten(bases[family].values)]
        space[family] |= {path: ranges.get(path) or stated[family][path] for path in fnmatch.filter(known, pattern)}
    everything = dict.fromkeys(path for config in search.presets.values() for base in config for path in tunable(base))
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
        for field, values in {path: [], **conditions}.items():
            known = [name for name in varied if name == path or name not in search.when]
            if field not in known:
                raise ConfigError(
                    f"{search.name} searches {path!r} where {field!r} is such and such, but varies "
                    f"{choices(known)}.{nearest(field, known)}"
                )
            for value in values:
                if value not in varied[field]:
                    raise ConfigError(
                        f"{search.name} searches {path!r} where {field} is {value!r}, which is not in its range ({varied[field]})"
                    )


def _first(
    search: Search, preset: str, bases: Mapping[str, RunConfig], space: Mapping[str, Mapping[str, Tunable]]
) -> list[Params]:
    """Each base's own settings where they lie in the ranges, then the named ones."""
    own = {family: flatten(config.values) for family, config in bases.items()}
    tried: list[Params] = []

    def searched(settings: Params, family: str) -> dict[str, Any]:
        given = {**own[family], **settings}
        conditions = {path: search.when.get(path, {}) for path in settings}
        return {path: settings[path] for path in settings if all(given[one] in known for one, known in conditions[path].items())}

    for family, fields in space.items():
        base = {path: own[family][path] for path in fields}
        given = [settings for settings in search.by_preset(search.first, preset) if settings.get(FAMILY, family) == family]
        named = [{path: value for path, value in settings.items() if path != FAMILY} for settings in given]
        for settings in named:
            _check_first(search.name, family, settings, searched(base | settings, family), fields)
        bare = searched(base, family)
        whole = [bare] * all(value in fields[path] for path, value in bare.items())
        whole += [searched(base | settings, family) for settings in named]
        tried += [({FAMILY: family} if len(bases) > 1 else {}) | settings for settings in whole]
    return tried


def _check_first(name: str, family: str, settings: Params, whole: Params, fields: Mapping[str, Tunable]) -> None:
    """Refuse settings that no trial of the search could have; `whole`: with the preset's own, as far as they are searched."""
    for path, value in {**whole, **settings}.items():
        if path not in fields:
            raise ConfigError(f"{name} tries {path!r} first, but {family} varies {choices(fields)}")
        if path not in whole:
            raise ConfigError(f"{name} tries {path}={value} first, beside settings at which its `when` does not search {path!r}")
        if value not in fields[path]:
            whose = "" if path in settings else f" (the preset's own, as {label(settings)} leaves it)"
            raise ConfigError(f"{name} tries {path}={value} first{whose}, which is not in its range ({fields[path]})")


def _check_objectives(search: Search, bases: Mapping[str, RunConfig], stopping: str) -> None:
    if stopping != "none" and len(search.objectives) > 1:
        raise ConfigError(
            f"--stopping {stopping} ranks runs by one objective, but {search.name} has {choices(search.objectives)}"
        )
    for name in search.objectives:
        if name not in ("score", *COSTS):
            raise ConfigError(f"no objective {name!r}: there are {choices(('score', *COSTS))}.{nearest(name, ('score', *COSTS))}")
    for config in map(comparable, bases.values()):
        if config.train.selection == "last" and "score" in search.objectives:
            raise ConfigError("train.selection must be 'validation' (or 'test') in a search, which needs a score to go by")
    scored = {family: f"{config.score} on {config.data.title}" for family, config in bases.items()}
    if len(set(scored.values())) > 1:
        each = " and ".join(f"{family} by its {by}" for family, by in scored.items())
        raise ConfigError(f"{search.name} scores {each}, which no ranking compares: give one --family")


def _seeds(search: Search, preset: str, given: int | None, smoke: bool) -> int:
    if given is not None and given < 0:
        raise ConfigError(f"--seeds must be at least 0, but got {given}")
    return given if given is not None else 1 if smoke else int(search.by_preset(search.seeds, preset))


def _check_budget(plan: SearchPlan) -> None:
    if plan.budget.unit == "runs" and plan.budget.amount != int(plan.budget.amount):
        raise ConfigError(f"a budget in runs is a whole number, but got {plan.budget.amount:g}")
    if plan.budget.unit == "runs" and plan.budget.amount > MOST_RUNS:
        raise ConfigError(f"a budget is {MOST_RUNS:,} runs at most, but got {plan.budget.amount:,.0f}")
    places = {config.place for config in plan.bases.values()}
    if len(places) > 1:
        raise ConfigError(f"all families of {plan.study.name} must have the same place, but there are {len(places)}")
