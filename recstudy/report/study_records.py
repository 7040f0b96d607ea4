"""One study's records: its variants with their settings, and a row a run, read straight from the JSON files.

Nothing here knows how a run was made. Missing, failed, diverged and damaged runs are rows like any other.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar, cast

from recstudy.errors import ConfigError, StorageError, choices, nearest
from recstudy.evidence.seeds import Looks
from recstudy.lazy import pd
from recstudy.opened import refuse_link, there
from recstudy.plugins import absent, reading
from recstudy.programs.base import Program, reader_of
from recstudy.programs.metric import Metric, using_metrics
from recstudy.programs.settings import KINDS, PREFIX, flatten
from recstudy.records import EpochLine, Json, PlanRecord, Results, read_log
from recstudy.records.plans import read_plan, whole_seeds
from recstudy.records.study_schema import VariantRecord
from recstudy.report.names import fits, level_of, plain, same, setting_name, with_word_labels
from recstudy.report.parts import Part, Undrawable, read_report
from recstudy.report.registration import post_hoc
from recstudy.report.rows import ENDED, Row, imported_outcomes, outcome_of
from recstudy.report.status import studies
from recstudy.terminal import shortest

Made = TypeVar("Made")
FEW = 50  # runs that tell whether a program reports steps
OTHERS = {f"{part}.{kind}": f"{part}." for part in ("data", "model") for kind in KINDS}  # of another one all is another


@dataclass(frozen=True)
class Design:
    """The variants that a study runs, or those of its `paper` preset.

    Args:
        base: the preset's config, in parts.
        axes: axis -> the field that it sets.
        variants: each with what it changes in the base.
    """

    base: Json
    axes: Mapping[str, str]
    variants: Sequence[VariantRecord]

    @cached_property
    def preset(self) -> Json:
        """The base's fields by dotted path."""
        return flatten(self.base)

    @cached_property
    def configs(self) -> list[Json]:
        """Each variant's config fields by dotted path."""
        return [config_of(self.preset, variant.changes) for variant in self.variants]

    @cached_property
    def varied(self) -> frozenset[str]:
        """The fields that tell variants apart; `model` stands for the model's title."""
        return frozenset({"model", *varied_fields(self.configs)})

    def setting(self, index: int, name: str) -> Any:
        """Return a variant's value of a stated setting; `model` is the model's title."""
        return self.variants[index].model if name == "model" else self.configs[index].get(name)

    def agrees(self, index: int, name: str, value: Any) -> bool:
        """Tell whether a variant has this setting; the level of an axis that replaces the model names the model too."""
        if same(self.setting(index, name), value):
            return True
        return name == "model" and value in [
            self.variants[index].levels.get(axis) for axis, path in self.axes.items() if path == name
        ]

    def homes(self, stated: Json, decides: Callable[[str], bool]) -> list[int]:
        """Return the variants of these settings. Where several are left, they are as the preset in what is unsaid and still
        tells them apart.
        """
        said = {path: value for path, value in stated.items() if path in self.varied}
        left = [index for index in range(len(self.variants)) if all(self.agrees(index, *one) for one in said.items())]
        apart = varied_fields([self.configs[index] for index in left])
        unsaid = [path for path in apart if path not in stated and decides(path)]
        return [index for index in left if all(same(self.configs[index].get(path), self.preset.get(path)) for path in unsaid)]


def config_of(base: Json, changes: Json) -> Json:
    """Return flat config fields after a variant's changes; a change to a whole part replaces all of its fields."""
    config = dict(base)
    for path, value in changes.items():
        if isinstance(value, dict):
            config = {key: kept for key, kept in config.items() if not key.startswith(path + ".")}
            config |= flatten(value, path + ".")
        else:
            config[path] = value
    return config


def varied_fields(configs: Sequence[Json]) -> list[str]:
    """Return the fields whose value is not the same in every config, in the configs' order."""
    fields = dict.fromkeys(path for config in configs for path in config)
    return [path for path in fields if any(config.get(path) != configs[0].get(path) for config in configs)]


def differing_fields(ours: Json, theirs: Json) -> list[str]:
    """Return the fields whose values differ; of a part of another kind (model, data set) its kind alone, for the rest follows."""
    paths = [path for path in theirs | ours if not same(ours.get(path), theirs.get(path))]
    other = tuple(OTHERS[path] for path in paths if path in OTHERS)
    return [path for path in paths if path in OTHERS or not path.startswith(other)]


@contextmanager
def standing(plan: PlanRecord, trust: bool = False) -> Iterator[None]:
    """Have in place what a study defines itself inside the block: its metrics, and its modules as far as they may be imported.

    One thread at a time is inside.
    """
    reader_of(plan.base)  # the recursive models add their metrics
    stated = enumerate(plan.metrics.items())  # the first one is the score
    metrics = {name: Metric(**asdict(kept), ranks=not position) for position, (name, kept) in stated}
    with reading(plan.plugins, trust), using_metrics(metrics):
        yield


@dataclass(frozen=True)
class StudyRecords:
    """A study's plan and its runs: `rows` has one a planned run, and `runs` is the same as a frame.

    With `trust`, its own modules are imported whatever they are now; see `recstudy.plugins.reading`.
    """

    results: Results
    plan: PlanRecord = field(repr=False)
    rows: list[Row] = field(repr=False)
    called: str = ""  # by commands, where that is not where it lies
    trust: bool = False
    _made: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, what: Hashable, make: Callable[[], Made]) -> Made:
        """Return what `make` gives, kept for the next who asks these records for it: they do not change."""
        if what not in self._made:
            self._made[what] = make()
        return cast(Made, self._made[what])

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row a planned run: `variant` (its place among all), `label`, `seed`, `id`, `status`, `levels.AXIS`, every config
        field that differs between variants (`model.latent_steps`), metrics and costs by their names (which are listed in
        `measured`), `METRIC@DEPTH`, `undefined` (findings that the metrics leave out), `unavailable` (metric -> why there is
        none), `caption_notes`, `tokenizers`, `decode`, `selected.*`, `attempts`, `provenance.*`; of a run that failed
        `error_class`, `error` and `traceback`, of one that was stopped `stopped_epoch` and `stopped_score`.
        """
        varied = varied_fields(self.configs)
        shared: list[Json] = []  # of all runs of a variant; `seed` and `id` are to be filled in
        for index, (variant, config) in enumerate(zip(self.variants, self.configs, strict=True)):
            levels = {axis: plain(one) if isinstance(one, dict | list) else one for axis, one in variant.levels.items()}
            known = {"variant": index, "label": variant.label, "seed": None, "id": None}
            known |= {f"levels.{axis}": level for axis, level in levels.items()}
            shared.append(known | {path: config.get(path) for path in varied})
        rows = [shared[row.variant] | {"seed": row.seed, "id": row.id} | row.columns for row in self.rows]
        return pd.DataFrame(rows, columns=None if rows else ["variant", "label", "seed", "id", "status"])

    def standing(self) -> AbstractContextManager[None]:
        """Have in place what the study defines itself, as `standing` has it of a plan."""
        return standing(self.plan, self.trust)

    @cached_property
    def program(self) -> Program:
        """The program of the runs, as readers need it."""
        return reader_of(self.plan.base)

    @property
    def is_own(self) -> bool:
        """Whether the runs are of a user's own program, and not of the recursive models."""
        return bool(self.plan.base.get("program"))

    @property
    def not_here(self) -> list[str]:
        """Why some of what the study defines - figures, metrics' titles, units and directions - is not in place, as it stands.

        A user's own program is read by its records, so that only a part of the report can be missing.
        """
        missing = any(isinstance(part, Undrawable) for part in self.parts) if self.is_own else self.plan.plugins
        return list(absent) if missing else []

    @property
    def place(self) -> str:
        """What commands call the study by."""
        place = self.called or self.results.store or shortest(self.results.study(self.plan.study, self.plan.folder))
        return shlex.quote(place)

    @cached_property
    def variants(self) -> Sequence[VariantRecord]:
        """The variants of the plan, their generated labels as words."""
        return with_word_labels(self.plan.variants)

    def label_of(self, name: str) -> str:
        """Return the label of the variant that its study calls `name`; `name` itself if no variant is called so."""
        labels = (
            variant.label for planned, variant in zip(self.plan.variants, self.variants, strict=True) if planned.label == name
        )
        return next(labels, name)

    @cached_property
    def design(self) -> Design:
        """The variants as they run."""
        return Design(self.plan.base, self.plan.axes, self.variants)

    @property
    def configs(self) -> list[Json]:
        """Each variant's config fields by dotted path."""
        return self.design.configs

    @cached_property
    def reference(self) -> Design | None:
        """The variants of the `paper` preset as the study has them; None in a plan that does not know them."""
        kept = self.plan.reference
        if kept is None:
            return None
        return self.design if kept.variants is None else Design(kept.base, kept.axes, kept.variants)

    @cached_property
    def by_variant(self) -> list[list[Row]]:
        """The rows of each variant."""
        groups: list[list[Row]] = [[] for _ in self.variants]
        for row in self.rows:
            groups[row.variant].append(row)
        return groups

    @cached_property
    def looks(self) -> Looks:
        """At how many seeds its answers were read, this one included, of how many; 0 where that was stated post hoc."""
        now = whole_seeds(self.plan, {row.id for row in self.rows if row.status in ENDED})
        most = self.plan.seeds_at_most
        taken = sorted({*self.plan.looks, *([now] if now else [])})
        return Looks(tuple(taken), 0 if post_hoc(self, most) else most)

    @cached_property
    def data_settings(self) -> list[str]:
        """What each variant sets of its data, in one text: those of the same text are of the same data."""
        of_data = ({path: value for path, value in config.items() if path.startswith("data.")} for config in self.configs)
        return [sys.intern(repr(sorted(fields.items()))) for fields in of_data]  # of many variants one text

    def data_checksums(self, variant: int) -> list[str]:
        """Of the images that this variant's data stand for, in its runs, in others of the same data, and as they are now: one,
        if all is well.
        """

        def found() -> dict[str, set[str]]:
            sums: dict[str, set[str]] = {}
            for index, planned in enumerate(self.variants):
                own = {planned.data_checksum, *(run.provenance.data_checksum for run in self.by_variant[index])}
                sums.setdefault(self.data_settings[index], set()).update(own - {""})
            return sums

        return sorted(self.once("data checksums", found)[self.data_settings[variant]])

    @cached_property
    def synthetic(self) -> frozenset[int]:
        """The variants that are planned on synthetic data, or have a run that says it was."""
        planned = (index for index, variant in enumerate(self.variants) if variant.synthetic)
        return frozenset({*planned, *(row.variant for row in self.rows if row.found.provenance.synthetic)})

    @cached_property
    def imported(self) -> frozenset[int]:
        """The variants whose weights, or whose results, are from elsewhere: nothing is trained here."""
        if self.is_own:
            return frozenset(row.variant for row in self.rows if row.provenance.origin == "imported")
        return frozenset(index for index, config in enumerate(self.configs) if config.get("train.epochs") == 0)

    @property
    def parts(self) -> list[Part]:
        """The parts of the report, by the study's own modules as they are now; one that cannot be read here says why.

        Learning curves of whatever is reported are left out if no run has reported a step.
        """
        with self.standing():
            parts = read_report(self.plan.report)
        begun = [row for row in self.rows if row.status != "not run"][:FEW]
        if begun and not any(there(self.results.run(row.id).epochs) for row in begun):
            parts = [part for part in parts if not part.of_steps]
        return parts

    def level(self, variant: int, name: str) -> Any:
        """Return a variant's level of an axis, or its value of a config field; `model` and `data` alone give their titles.

        Raises:
            ConfigError: it has neither. The message names the axes.
        """
        found = level_of(self.variants[variant], self.configs[variant], name)
        if found is None and not any(self.has(index, name) for index in range(len(self.variants))):
            known = [*self.plan.axes, *map(setting_name, self.configs[variant])]
            raise ConfigError(f"the report names {name!r}, but the study has {choices(known)}.{nearest(name, known)}")
        return found  # None: another model's field

    def has(self, variant: int, name: str) -> bool:
        """Return whether a variant has an axis or a setting of that name."""
        config = self.configs[variant]
        return name in self.variants[variant].levels or name in config or PREFIX + name in config

    def chosen(self, where: Json) -> list[int]:
        """Return the variants at these levels, in the study's order."""
        if isinstance(name := where.get("variant"), str):
            where = {**where, "variant": self.label_of(name)}
        return [index for index in range(len(self.variants)) if fits(where, partial(self.level, index))]

    def leaks(self, variant: int) -> bool:
        """Tell whether the model was told what it was to say, so that none of its numbers compares with another."""
        return self.variants[variant].leaks

    def measured(self, variants: Iterable[int]) -> list[str]:
        """Return the metrics and costs that any run of these variants has, in the order of their first appearance."""
        names: dict[str, None] = {}
        for run in (run for index in variants for run in self.by_variant[index]):
            names |= dict.fromkeys(name for name in run.measured if name not in names and run.value(name) is not None)
        return list(names)

    def first_run(self, variant: int, file: str, states: Sequence[str]) -> Row | None:
        """Return the first of a variant's seeds that is in one of these `states` and has this file (`mistakes.npz`)."""
        runs = (run for run in self.by_variant[variant] if run.status in states)
        return next((run for run in runs if there(self.results.run(run.id).path / file)), None)

    def epochs(self, variants: Iterable[int]) -> pd.DataFrame:
        """Return the lines of these variants' logs, with `variant`, `seed` and `id`.

        `epoch` is 1 for the first epoch; of a user's own program it is the step as it was reported.
        """
        lines: list[Json] = []
        for index in variants:
            for run in self.by_variant[index]:
                seen = {line.epoch: line for line in read_log(self.results.run(run.id).epochs, EpochLine)}
                lines.extend(
                    {"variant": index, "seed": run.seed, "id": run.id, **line.values, "epoch": line.epoch + (not self.is_own)}
                    for line in seen.values()
                )
        return pd.DataFrame(lines)


def load_study(results: Results, name: str, preset: str, trust: bool = False) -> StudyRecords:
    """Read a study's plan and all its runs; with `trust`, its own modules are imported whatever they are now.

    Raises:
        ConfigError: there is no such study or preset. The message names those there are.
    """
    refuse_link(results.root / "runs")
    plan = read_plan(results.study(name, preset))
    if plan is None:
        known = [f"{study} ({found})" for study, found in studies(results)]
        have = f"there are {choices(known)}.{nearest(f'{name} ({preset})', known)}" if known else "there is none yet."
        raise ConfigError(f"no study {name!r} with the preset {preset!r} in {results.root}: {have}")
    return replace(records_of(results, plan), trust=trust)


def records_of(results: Results, plan: PlanRecord) -> StudyRecords:
    """Return what the results folder has of a plan's runs, whether the plan is there or not."""
    imported = imported_outcomes(results.study(plan.study, plan.folder)) if plan.imported else {}
    variants = with_word_labels(plan.variants)
    rows = []
    for run in plan.runs:
        outcome = imported.get(run.id) or outcome_of(results, run.id)
        rows.append(Row.of(outcome, run.variant, variants[run.variant], run.seed, run.id))
    return StudyRecords(results, plan, rows)


def load_studies(
    found: Iterable[tuple[Results, str, str]], trust: bool = False
) -> tuple[dict[tuple[str, str], StudyRecords], list[StorageError]]:
    """Return the studies that can be read, by name and preset, and what is damaged of the others."""
    records: dict[tuple[str, str], StudyRecords] = {}
    damaged: list[StorageError] = []
    for results, name, preset in found:
        try:
            records[name, preset] = load_study(results, name, preset, trust)
        except StorageError as damage:
            damaged.append(damage)
    return records, damaged
