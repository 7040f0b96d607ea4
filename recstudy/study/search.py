"""A search: a study whose variants a sampler proposes, within the ranges that stand beside the fields. Pure data."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log10, prod
from random import Random
from reprlib import repr as brief
from typing import Any, Literal

from recstudy.config import RunConfig, digest, flatten
from recstudy.config.fields import DIGITS, Tunable
from recstudy.errors import ConfigError
from recstudy.explained import explained
from recstudy.metrics import METRICS
from recstudy.records.study_schema import folder_of
from recstudy.report import Part
from recstudy.study.budget import Budget
from recstudy.study.design import Variant
from recstudy.study.stated import check_by_preset, check_list, check_presets, check_seeds
from recstudy.study.study import Run

Params = Mapping[str, Any]  # field -> value, and `family` where there are several
FAMILY = "family"
MOST_COMBINATIONS = 100_000  # that are gone through one by one: half a millisecond each


@explained
@dataclass(frozen=True)
class Search:
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
        when: field -> {another field that is varied: the values at which the first is searched}; at others it stays as the
            preset has it, as `{"model.balance_weight": {"model.experts": [2, 4]}}`.
    """

    name: str
    presets: Mapping[str, Sequence[RunConfig]]
    vary: Sequence[str]
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

    def __post_init__(self) -> None:
        check_presets(self.name, self.presets, many=True)
        for seeds in check_by_preset(self.name, "seeds", self.seeds, self.presets):
            check_seeds(self.name, seeds, least=0)
        for budget in check_by_preset(self.name, "a budget", self.budget, self.presets):
            Budget.parse(budget)
        for report in check_by_preset(self.name, "a report", self.report, self.presets):
            check_list(f"the report of {self.name}", report, Part)
        check_list(f"what {self.name} varies", self.vary, str)
        for first in check_by_preset(self.name, "first settings", self.first, self.presets, whole=False):
            check_list(f"the first settings of {self.name}", first, Mapping)
        if not isinstance(self.objectives, Mapping) or not {*self.objectives.values()} <= {"max", "min"} or not self.objectives:
            raise ConfigError(f"the objectives of {self.name} are {{name: 'max' or 'min'}}, but got {brief(self.objectives)}")
        self._check_ranges(self.ranges)
        for name, conditions in self.when.items() if isinstance(self.when, Mapping) else (("when", None),):
            if not isinstance(conditions, Mapping) or not all(isinstance(values, list | tuple) for values in conditions.values()):
                raise ConfigError(
                    f"the `when` of {self.name} is {{field: {{other field: [values]}}}}, but got {name!r}: {conditions!r}"
                )

    def _check_ranges(self, ranges: Mapping[str, Any]) -> None:
        if not isinstance(ranges, Mapping):
            raise ConfigError(f"the ranges of {self.name} are {{field: Tunable(...)}}, but got {brief(ranges)}")
        for name, given in ranges.items():
            if name in self.presets and isinstance(given, Mapping):
                self._check_ranges(given)
            elif not isinstance(given, Tunable):
                raise ConfigError(f"{self.name} gives {name!r} a range that is no Tunable: {given!r}")

    def by_preset(self, part: Any, preset: str) -> Any:
        """Budget, seeds, ranges or report: one for all presets, or this preset's own."""
        return part[preset] if isinstance(part, Mapping) and preset in part else part


@dataclass(frozen=True)
class SearchPlan:
    """A search under one preset, with the command line's changes."""

    study: Search
    preset: str
    bases: Mapping[str, RunConfig]  # by family
    space: Mapping[str, Mapping[str, Tunable]]  # by family: field -> what may be tried
    first: Sequence[Params]
    budget: Budget
    sampler: str
    stopping: str
    seeds: int
    changes: Mapping[str, Any]
    smoke: bool = False

    @property
    def base(self) -> RunConfig:
        return next(iter(self.bases.values()))

    @property
    def folder(self) -> str:
        """The preset's folder."""
        return folder_of(self.preset, self.smoke)

    @property
    def objectives(self) -> Mapping[str, Literal["max", "min"]]:
        """By the names that results have: `selection_top1_accuracy` for `score`."""
        best: Literal["max", "min"] = "min" if METRICS[self.base.score].better == "lower" else "max"
        return {
            f"selection_{self.base.score}" if name == "score" else name: best if name == "score" else way
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
        """How many of the best are run again."""
        return min(self.study.confirm, max(1, self.kept // self.seeds)) if self.kept else 0

    @property
    def split(self) -> str:
        """What the budget is for, in words."""
        if not self.kept:
            return f"{self.budget} in all, without fresh seeds"
        again = f"the best{f' {self.confirm}' * (self.confirm > 1)} with fresh seeds"
        if self.budget.unit != "runs":
            return f"{self.budget} in all, at most half of it for {self.kept} runs of {again}"
        return f"{self.budget} in all: {int(self.budget.amount) - self.kept} to search, {self.kept} for {again}"

    @cached_property
    def definition(self) -> str:
        """Of what is searched, not of how: trials of another definition are kept apart."""
        space = {family: {path: range.record for path, range in fields.items()} for family, fields in self.space.items()}
        values = {family: config.deciding for family, config in self.bases.items()}
        return digest([values, space, dict(self.objectives), *([self.study.when] if self.study.when else [])], 12)

    @property
    def conditional(self) -> bool:
        """Whether settings differ in which fields they have."""
        return len(self.bases) > 1 or bool(self.study.when)

    def searched(self, path: str, params: Params) -> bool:
        """Tell whether a field is searched beside these settings, those of the fields before it."""
        conditions = self.study.when.get(path, {})
        own = flatten(self.bases[self._family(params)].values) if conditions else {}
        return all(params.get(other, own.get(other)) in values for other, values in conditions.items())

    def config(self, params: Params) -> RunConfig:
        """The run config at these settings.

        Raises:
            ConfigError: they do not fit together.
        """
        changes = {path: value for path, value in params.items() if path != FAMILY}
        return comparable(self.bases[self._family(params)].with_changes(changes))

    def run(self, number: int, params: Params, seed: int = 0) -> Run:
        config = self.config(params).model_copy(update={"seed": seed})
        return Run(number, label(params), seed, config, config.run_id)

    def variant(self, params: Params) -> Variant:
        """Label, levels and what is changed in `base`."""
        family = self._family(params)
        changes = {path: value for path, value in params.items() if path != FAMILY}
        if self.bases[family] != self.base:
            config = self.config(params)
            changes = {part: config.values[part] for part in ("model", "train", "data")} | changes
        return Variant(label(params), changes, levels={path.rsplit(".", 1)[-1]: value for path, value in params.items()})

    def _family(self, params: Params) -> str:
        return str(params.get(FAMILY, next(iter(self.bases))))

    def draws(self, seed: int) -> Iterator[Params]:
        """Settings drawn evenly from the ranges, without end."""
        random, families = Random(seed), list(self.space)
        while True:
            family = random.choice(families)
            drawn: dict[str, Any] = {FAMILY: family} if len(families) > 1 else {}
            for path, range in self.space[family].items():
                if self.searched(path, drawn):
                    drawn[path] = readable(range.draw(random))
            yield drawn

    def combinations(self) -> Iterator[Params] | None:
        """Every setting there is; None where some field takes real numbers, or where they are too many to go through."""
        counts = [prod(len(range.every) for range in fields.values()) for fields in self.space.values()]
        if not all(counts) or sum(counts) > MOST_COMBINATIONS:
            return None
        whole = itertools.chain.from_iterable(
            (
                {**({FAMILY: family} if len(self.bases) > 1 else {}), **dict(zip(fields, values, strict=True))}
                for values in itertools.product(*(range.every for range in fields.values()))
            )
            for family, fields in self.space.items()
        )
        if not self.study.when:
            return whole
        kept = ({path: value for path, value in params.items() if self.searched(path, params)} for params in whole)
        return iter({repr(params): params for params in kept}.values())


def label(params: Params) -> str:
    """`latent_steps=3, batch_size=32`; the family in front, where there are several."""
    words = [f"{path.rsplit('.', 1)[-1]}={value}" for path, value in params.items() if path != FAMILY]
    return " ".join(filter(None, [f"{params[FAMILY]}:" if FAMILY in params else "", ", ".join(words)]))


def readable(value: Any) -> Any:
    """A real number at `DIGITS` significant digits, so that what is run is what a table prints."""
    if not isinstance(value, float) or not value:
        return value
    return round(value, DIGITS - 1 - int(log10(abs(value)) // 1))


def comparable(config: RunConfig) -> RunConfig:
    """Refuse a model that is told the answer, which every ranking would put first."""
    if config.model.leaks:
        raise ConfigError(f"a search compares, and {config.model.title} is told the caption it is to write. Choose another mode")
    return config
