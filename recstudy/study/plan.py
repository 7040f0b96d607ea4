"""The plan of a study or a search under one preset, with the command line's changes.

`make_plan` checks it. `Plan.runs` has the runs of a study; a search makes its runs by `Plan.run`. Nothing is
run or written here.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.values import digest, flatten
from recstudy.papers import of_program
from recstudy.programs.base import RunSettings
from recstudy.programs.metric import METRICS, using_metrics
from recstudy.programs.settings import PREFIX, run_ids
from recstudy.records import Json, Run
from recstudy.records.plans import FAMILY
from recstudy.records.study_schema import folder_of
from recstudy.report import (
    BesidePublished,
    Best,
    Claims,
    History,
    Importance,
    LearningCurves,
    ParallelCoordinates,
    Part,
    Slices,
    Table,
    check_report,
)
from recstudy.report.blocks import blocks_of
from recstudy.report.contrasts import Comparison
from recstudy.report.names import setting_name
from recstudy.study.budget import Budget
from recstudy.study.design import MOST_RUNS, Changes, Variant
from recstudy.study.search import (
    DIRECTIONS,
    Direction,
    Params,
    Search,
    Space,
    check_objectives,
    fields_of,
    first_settings,
    label,
    readable,
    space_of,
)
from recstudy.study.strategies import PRUNERS, SAMPLERS
from recstudy.study.study import PAPER, Study
from recstudy.study.variants import check_deviations, check_variants, variant_record

NO_BUDGET = Budget(0, "runs")


@dataclass(frozen=True)
class Plan:
    """The plan of a study or a search for one preset.

    Args:
        study: The study or search.
        preset: The name of the preset.
        space: The settings of the preset by model family (a study has one family), and the search space.
        changes: Field -> value from the command line.
        seeds: The number of seeds of each variant, or of fresh seeds for each confirmed trial of a search.
        smoke: Whether the runs are small and their results meaningless.
        variants: The variants of a study. A search makes its own.
        configs: The settings of the variants.
        max_seeds: The maximum number of seeds of a study; 0 if it states none.
        extended: Index of a variant -> its number of seeds, if it has more.
        first: The settings that a search tries first.
        budget: The budget of a search.
        sampler: The name of its sampler.
        stopping: The name of its pruner.
        finished: The runs of a study that were imported, each with its seed.
    """

    study: Study | Search
    preset: str
    space: Space
    changes: Changes
    seeds: int
    smoke: bool = False
    variants: Sequence[Variant] = ()
    configs: Sequence[RunSettings] = ()
    max_seeds: int = 0
    extended: Mapping[int, int] = field(default_factory=dict)
    first: Sequence[Params] = ()
    budget: Budget = NO_BUDGET
    sampler: str = ""
    stopping: str = "none"
    finished: Sequence[Run] = ()

    @property
    def is_search(self) -> bool:
        return bool(self.space.ranges)

    @property
    def base(self) -> RunSettings:
        return next(iter(self.space.bases.values()))

    @property
    def folder(self) -> str:
        """The name of the preset's folder."""
        return folder_of(self.preset, self.smoke)

    @cached_property
    def seeds_each(self) -> list[int]:
        """The number of seeds of each variant."""
        return [max(self.seeds, self.extended.get(number, 0)) for number in range(len(self.variants))]

    @cached_property
    def runs(self) -> Sequence[Run]:
        """Return a study's runs in seed blocks, seed 0 of every variant first.

        An unfinished table then has a value in every row.
        """
        if self.finished:
            return self.finished
        max_seeds = max(self.seeds_each, default=0)
        ids = [run_ids(deciding, range(max_seeds)) for deciding in self._deciding]
        return [
            Run(
                number,
                seed,
                ids[number][seed],
                variant.label,
                self.configs[number].model_copy(update={"seed": seed}),
            )
            for seed in range(max_seeds)
            for number, variant in enumerate(self.variants)
            if seed < self.seeds_each[number]
        ]

    @cached_property
    def _deciding(self) -> list[Json]:
        """The values from which the digests of each variant are made; they decide all its runs except for the
        seed.
        """
        return [config.deciding for config in self.configs]

    @cached_property
    def definition(self) -> str:
        """A digest of the variants or of the search space, without claims, sampler and budget.

        Each definition has its own files of plans and trials.
        """
        if not self.is_search:
            labels = [variant.label for variant in self.variants]
            return digest(list(zip(labels, self._deciding, strict=True)), 12)
        ranges = {
            family: {path: range.record for path, range in of.items()}
            for family, of in self.space.ranges.items()
        }
        bases = {family: base.deciding for family, base in self.space.bases.items()}
        conditions: list[Any] = [self.space.when] if self.space.when else []
        trial_seeds = [self.study.trial_seeds] if self.study.trial_seeds > 1 else []
        return digest([bases, ranges, self.objectives, *conditions, *trial_seeds], 12)

    @cached_property
    def report(self) -> list[Part]:
        """Return the claims, then the other parts of the report. A smoke run has no claims."""
        metrics = [*self.base.metrics]
        report = self.study.by_preset(self.study.report, self.preset)
        if not report:
            of_search = [History(), Best(), Importance(), ParallelCoordinates(), Slices()]
            report = of_search if self.is_search else [Table("results"), LearningCurves()]
        claims = () if self.smoke else tuple(self.study.by_preset(self.study.claims, self.preset, ()))
        parts: list[Part] = []
        for part in (*([Claims(claims=claims)] if claims else []), *report):
            part = part.of_metrics(metrics) if metrics else part
            if isinstance(part, BesidePublished) and part.targets:
                part = replace(part, targets=of_program(part.targets, [self.base, *self.configs]))
            parts.append(part.scored_by(self.base.score))
        return parts

    @property
    def claims(self) -> list[Claims]:
        return [part for part in self.report if isinstance(part, Claims)]

    @property
    def names(self) -> list[str]:
        """The names that a part of the report may use.

        These are axes, labels of variants, titles of models and data sets, and fields of the settings, with
        the depths and the part of the test set.
        """
        axes = [name for variant in self.variants for name in (*variant.axes, *variant.levels)]
        if self.is_search:
            axes = [
                "family",
                *(path.rpartition(".")[2] for ranges in self.space.ranges.values() for path in ranges),
            ]
        kinds = {config.kind: config for config in self.configs or self.space.bases.values()}
        fields = [path for config in kinds.values() for path in flatten(config.values)]
        own_fields = [
            name for path in fields if path.startswith(PREFIX) for name in (setting_name(path), path)
        ]
        return list(
            dict.fromkeys(
                [*axes, "variant", "model", "data", *(own_fields or [*fields, "eval.depth", "eval.part"])]
            )
        )

    # --- only for searches

    @property
    def objectives(self) -> dict[str, Direction]:
        """The objectives by their names in results: `selection_top1_accuracy` for `score`."""
        score = self.base.metrics.get(self.base.score) or METRICS[self.base.score]
        return dict(
            (self.base.objective, DIRECTIONS.get(score.better, way)) if name == "score" else (name, way)
            for name, way in self.study.objectives.items()
        )

    @property
    def reserved_runs(self) -> int:
        """The number of runs that are reserved for fresh seeds: at most half of a budget in runs."""
        wanted_runs, half = self.study.confirm * self.seeds, int(self.budget.amount) // 2
        if self.budget.unit != "runs" or wanted_runs <= half:
            return wanted_runs
        # each of the best with all of its seeds
        return half - half % self.seeds if half > self.seeds else half

    @property
    def confirm(self) -> int:
        """The number of best trials that are run again."""
        return min(self.study.confirm, max(1, self.reserved_runs // self.seeds)) if self.reserved_runs else 0

    @property
    def fresh_seeds(self) -> range:
        """The seeds for the confirmation, which follow those of the trials."""
        first = self.study.trial_seeds
        return range(first, first + self.reserved_runs // max(1, self.confirm))

    @property
    def split(self) -> str:
        """The split of the budget in words."""
        if not self.reserved_runs:
            return f"{self.budget} in total, without fresh seeds"
        confirmed_settings = f"the best{f' {self.confirm}' * (self.confirm > 1)} with fresh seeds"
        if self.budget.unit != "runs":
            return (
                f"{self.budget} in total, at most half of it for {self.reserved_runs} runs of"
                f" {confirmed_settings}"
            )
        search_runs, seeds = int(self.budget.amount) - self.reserved_runs, self.study.trial_seeds
        per_trial = f" with {seeds} seeds a trial" * (seeds > 1)
        reserved = f"{self.reserved_runs} for {confirmed_settings}"
        return f"{self.budget} in total: {search_runs} to search{per_trial}, {reserved}"

    def run(self, number: int, params: Params, seed: int = 0) -> Run:
        """Return a run of a trial.

        Raises:
            ConfigError: The settings are not compatible.
        """
        base = self.space.bases[params.get(FAMILY, self.base.family)]
        config = base.with_changes(fields_of(params)).model_copy(update={"seed": seed})
        config.refuse_search(self.study.objectives)
        return Run(number, seed, config.run_id, label(params), config)

    def trial_runs(self, number: int, params: Params) -> list[Run]:
        """Return the runs of a trial, one for each of its seeds."""
        return [self.run(number, params, seed) for seed in range(self.study.trial_seeds)]

    def variant(self, run: Run, params: Params) -> Variant:
        """Return a run of a trial as a variant: label, levels and changes to `base`."""
        changes, values = fields_of(params), run.config.values
        if run.config.family != self.base.family:
            changes = {part: values[part] for part in run.config.parts} | changes
        return Variant(
            run.label, changes, levels={path.rsplit(".", 1)[-1]: value for path, value in params.items()}
        )


def make_plan(
    study: Study | Search,
    preset: str = "",
    changes: Changes | None = None,
    seeds: int | None = None,
    smoke: bool = False,
    *,
    vary: Mapping[str, Any] | None = None,
    families: Sequence[str] = (),
    **options: Any,
) -> Plan:
    """Plan the runs of a study or search. Empty arguments are taken from `study`.

    Args:
        study: The study or search.
        preset: The name of a preset. By default the first one.
        changes: Field -> value, for all runs.
        seeds: The number of seeds of each variant, or of fresh seeds for the best trials.
        smoke: Make the runs small.
        vary: Field -> values, in place of those of the study.
        families: The model families of a search.
        options: `max_seeds` of a study; `budget`, `sampler` and `stopping` of a search.

    Raises:
        ConfigError: A preset or field is unknown, a value is out of range, a changed field is varied, a label
            or name is invalid, a report or claim names something that the study does not have, or there are
            no or too many runs.
    """
    study.activate()
    with using_metrics(study.metrics):
        preset = study.preset_named(preset)
        bases_by_family = {base.family: base for base in study.bases(preset)}
        if not bases_by_family:
            raise ConfigError(f"{study.name}, preset {preset}: there is no run config to search")
        families = families or [next(iter(bases_by_family))]
        for family in families:
            _check_name("--family", family, bases_by_family)
        path = bases_by_family[families[0]].path
        changes = {path(name): value for name, value in (changes or {}).items()}
        axes = {path(name): values for name, values in (vary or {}).items()}
        study = study.varied(preset, axes) if axes else study
        if isinstance(study, Study):
            check_variants(study, preset, changes)
        bases = {family: bases_by_family[family].with_changes(changes) for family in families}
        if smoke:
            changes |= bases[families[0]].smaller(changes)
            bases = {family: base.with_changes(changes) for family, base in bases.items()}
        if seeds is not None and seeds < study.fewest_seeds:
            raise ConfigError(f"--seeds must be at least {study.fewest_seeds}, but got {seeds}")
        count = seeds if seeds is not None else 1 if smoke else study.by_preset(study.seeds, preset)
        plan = Plan(study, preset, Space(bases), changes, count, smoke)
        if isinstance(study, Study):
            plan = _with_variants(plan, study, **options)
        else:
            # A search must be able to try these values in at least one family.
            for axis, values in axes.items():
                with_field = [base for base in bases.values() if axis in flatten(base.values)]
                for base in with_field or bases.values():
                    base.with_each({axis: value} for value in values)
            plan = _with_search(plan, study, **options)
        for name in study.blocks:
            _check_name(f"a block of {study.name}", name, plan.names)
        check_report(plan.report, plan.names, bool(plan.base.metrics))
        if claims := [claim for part in plan.claims for claim in part.claims]:
            records = list(map(variant_record, plan.variants, plan.configs))
            fields = [flatten(config.values) for config in plan.configs]
            blocks = blocks_of(records, fields, study.blocks)
            for claim in claims:
                Comparison(claim, records, fields, blocks).check()
        return plan


def _with_variants(plan: Plan, study: Study, max_seeds: int | None = None) -> Plan:
    variants = study.by_preset(study.variants, plan.preset)
    configs = plan.base.with_each({**variant.changes, **plan.changes} for variant in variants)
    if plan.preset == PAPER and not plan.changes:
        check_deviations(study, configs)
    limit = study.by_preset(study.max_seeds, plan.preset, 0) if max_seeds is None else max_seeds
    check_maximum(plan, limit)
    if len(variants) * plan.seeds > MOST_RUNS:
        raise ConfigError(
            f"{study.name} would have {len(variants)} variants x {plan.seeds:,} seeds, but a study plans"
            f" {MOST_RUNS:,} runs at most: lower --seeds, or split the study"
        )
    return replace(plan, variants=variants, configs=configs, max_seeds=limit)


def check_maximum(plan: Plan, maximum: int) -> None:
    """Refuse more seeds than a study may have; it may have any number with a maximum of 0."""
    if 0 < maximum < plan.seeds:
        raise ConfigError(
            f"{plan.seeds} seeds are more than the {maximum} that {plan.study.name} may have: raise its"
            f" max_seeds, or --max-seeds {plan.seeds}. Tests are stricter if the maximum is"
            " stated after verdicts were read"
        )


def _with_search(plan: Plan, search: Search, budget: str = "", sampler: str = "", stopping: str = "") -> Plan:
    sampler, stopping = sampler or search.sampler, stopping or search.stopping
    _check_name("--sampler", sampler, SAMPLERS.complete())
    _check_name("--stopping", stopping, ("none", *PRUNERS.complete()))
    space = space_of(search, plan.preset, plan.space.bases)
    for path in plan.changes:
        if any(path in ranges for ranges in space.ranges.values()):
            raise ConfigError(
                f"{setting_name(path)!r} is varied by {search.name}. Do not set it, or remove it from `vary`"
            )
    for family, ranges in space.ranges.items():
        for path, range in ranges.items():
            for value in map(readable, range.samples):
                try:
                    space.bases[family].with_changes({path: value})
                except ConfigError as error:
                    # The value may be valid together with other values of other settings.
                    if error.is_combination:
                        continue
                    raise ConfigError(
                        f"{search.name} varies {setting_name(path)} over {range}: {error}"
                    ) from None
    check_objectives(search, space.bases, stopping)
    return replace(
        plan,
        space=space,
        first=first_settings(search, plan.preset, space),
        budget=Budget.parse(budget or ("4" if plan.smoke else search.by_preset(search.budget, plan.preset))),
        sampler=sampler,
        stopping=stopping,
    )


def _check_name(option: str, name: str, known_names: Collection[str]) -> None:
    if name not in known_names:
        raise ConfigError(
            f"{option} must be one of {choices(known_names)}, but got {name!r}.{nearest(name, known_names)}"
        )
