"""The records of one study: its variants with their settings, and a row per run.

`load_study` reads them from the JSON files of a results folder. Reports, the board and `recstudy explain` use
`StudyRecords` and read no files of their own, except for saved answers and logs.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar, cast

from recstudy.base.errors import ConfigError, StorageError, choices, nearest
from recstudy.base.lazy import pd
from recstudy.base.opened import is_regular_file, refuse_link
from recstudy.base.terminal import shortest
from recstudy.base.values import flatten
from recstudy.plugins import reading
from recstudy.programs.base import Program, reader_of
from recstudy.programs.metric import Metric, using_metrics
from recstudy.programs.settings import PREFIX
from recstudy.records import EpochLine, Json, PlanRecord, Results, read_log
from recstudy.records.plans import read_looks, read_plan, record_runs_read
from recstudy.records.runs import FINAL_STATUSES, Row, config_of, read_rows, runs_frame, varied_fields
from recstudy.records.study_schema import VariantRecord
from recstudy.report.blocks import Block, blocks_of, methods_of
from recstudy.report.changes import change_lines, find_changes
from recstudy.report.looks import RecordedLooks
from recstudy.report.names import is_selected, level_of, same_value, setting_name, with_word_labels
from recstudy.report.status import StudyLocation, studies

Value = TypeVar("Value")


@dataclass(frozen=True)
class Design:
    """The variants of a study's preset, or of its `paper` preset.

    Args:
        base: The preset's config, in parts.
        axes: Axis -> the config field that it sets.
        variants: The variants with their changes to the base.
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
        """The fields that differ between variants, and `model`, the model's title."""
        return frozenset({"model", *varied_fields(self.configs)})

    def setting(self, index: int, name: str) -> Any:
        """Return a variant's value of a config field, or the model's title for `model`."""
        return self.variants[index].model if name == "model" else self.configs[index].get(name)

    def agrees(self, index: int, name: str, value: Any) -> bool:
        """Return whether a variant has this setting."""
        # If an axis replaces the whole model, published values may name the model by the axis level.
        levels = self.variants[index].levels
        titles = [levels.get(axis) for axis, path in self.axes.items() if path == name == "model"]
        return same_value(self.setting(index, name), value) or value in titles

    def homes(self, stated_settings: Json, decides: Callable[[str], bool]) -> list[int]:
        """Return the variants with these settings.

        Args:
            stated_settings: Settings by dotted path.
            decides: Returns whether a field matters for the match.
        """
        shared = {path: value for path, value in stated_settings.items() if path in self.varied}

        def has_settings(index: int) -> bool:
            return all(self.agrees(index, path, value) for path, value in shared.items())

        matches = [index for index in range(len(self.variants)) if has_settings(index)]
        fields = varied_fields([self.configs[index] for index in matches])
        unstated = [path for path in fields if path not in stated_settings and decides(path)]

        # If several variants match, those with the preset's values of unstated fields are kept.
        def is_like_preset(index: int) -> bool:
            config = self.configs[index]
            return all(same_value(config.get(path), self.preset.get(path)) for path in unstated)

        return [index for index in matches if is_like_preset(index)]


@dataclass(frozen=True)
class StudyRecords:
    """A study's plan and its runs.

    Args:
        results: The results folder.
        plan: Of the study.
        rows: A row per planned run.
        given_path: The study's path in commands, if it is not its folder.
        trust: Import the study's own modules as they are now; see `recstudy.plugins.reading`.
    """

    results: Results
    plan: PlanRecord = field(repr=False)
    rows: list[Row] = field(repr=False)
    given_path: str = ""
    trust: bool = False
    # part -> why its drawing raised an error
    drawing_errors: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    _cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def compute_once(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the result of `make`, which is computed once for these records."""
        if key not in self._cache:
            self._cache[key] = make()
        return cast(Value, self._cache[key])

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row per planned run, as `recstudy.records.runs.runs_frame` returns it."""
        return runs_frame(self.rows, self.variants, self.configs)

    @contextmanager
    def study_modules(self) -> Iterator[None]:
        """Make the study's own metrics available in the block, and its modules if they may be imported.

        One thread at a time is inside.
        """
        reader_of(self.plan.base)  # the recursive models add their metrics
        metrics = {
            name: Metric(**asdict(record), ranks=not position)
            for position, (name, record) in enumerate(self.plan.metrics.items())
        }
        with reading(self.plan.plugins, self.trust), using_metrics(metrics):
            yield

    @cached_property
    def program(self) -> Program:
        """The program of the runs, as readers need it."""
        return reader_of(self.plan.base)

    @property
    def is_own(self) -> bool:
        """Whether the runs are of a user's own program, and not of the recursive models."""
        return bool(self.plan.base.get("program"))

    @property
    def folder(self) -> Path:
        """The folder of the study."""
        return self.results.study(self.plan.study, self.plan.folder)

    @property
    def command_path(self) -> str:
        """The study's path in commands."""
        return shlex.quote(self.given_path or self.results.store or shortest(self.folder))

    @cached_property
    def variants(self) -> Sequence[VariantRecord]:
        """The variants of the plan. Their generated labels are written in words."""
        return with_word_labels(self.plan.variants)

    def label_of(self, name: str) -> str:
        """Return the label on pages for a label in the study file; `name` itself if no variant has it."""
        pairs = zip(self.plan.variants, self.variants, strict=True)
        return next((variant.label for planned, variant in pairs if planned.label == name), name)

    def labels(self, variants: Iterable[int]) -> list[str]:
        """Return the labels of these variants."""
        return [self.variants[index].label for index in variants]

    @cached_property
    def design(self) -> Design:
        """The variants of the preset that was run."""
        return Design(self.plan.base, self.plan.axes, self.variants)

    @property
    def configs(self) -> list[Json]:
        """Each variant's config fields by dotted path."""
        return self.design.configs

    @cached_property
    def reference(self) -> Design | None:
        """The variants of the study's `paper` preset; None if the plan has none."""
        reference = self.plan.reference
        if reference is None:
            return None
        return (
            self.design
            if reference.variants is None
            else Design(reference.base, reference.axes, reference.variants)
        )

    @cached_property
    def by_variant(self) -> list[list[Row]]:
        """The rows of each variant."""
        groups: list[list[Row]] = [[] for _ in self.variants]
        for row in self.rows:
            groups[row.variant].append(row)
        return groups

    @property
    def indices(self) -> range:
        """The indices of all variants."""
        return range(len(self.variants))

    def split_runs(self, index: int) -> tuple[list[Row], list[Row]]:
        """Return the runs by which a search chose a variant, none without a search, and all other runs.

        The best of many trials is lucky, so only its other runs, with fresh seeds, are fair.
        """
        runs, search = self.by_variant[index], self.plan.search
        count = len(runs) - len(search.confirmed.get(index, ())) if search else 0
        return runs[:count], runs[count:]

    def rows_of(self, variants: Iterable[int]) -> Iterator[Row]:
        """Return the rows of these variants, one variant after another."""
        return (row for index in variants for row in self.by_variant[index])

    @property
    def finished_runs(self) -> list[Row]:
        """The rows of finished runs, one variant after another."""
        return [row for row in self.rows_of(self.indices) if row.done]

    @property
    def ended_ids(self) -> set[str]:
        """The ids of the ended runs."""
        return {row.id for row in self.rows if row.status in FINAL_STATUSES}

    def changed(self, kind: str) -> list[str]:
        """Return a line for each user file (`code`) or data set (`data`) that has changed since its runs.

        The runs are compared with the plan of the study's last command.
        """
        provenances = {row.id: row.provenance for row in self.rows if row.result}
        variants = {row.id: self.variants[row.variant] for row in self.rows}
        data = {run_id: (variant.data, variant.data_checksum) for run_id, variant in variants.items()}
        changes = find_changes(provenances, self.plan.files, data, self.plan.code_digests)
        return change_lines([change for change in changes if change.kind == kind])

    @cached_property
    def looks(self) -> RecordedLooks:
        """The looks (interim analyses) at the runs."""
        # Before a run has ended, there are no verdicts to read.
        looks = read_looks(self.results, self.plan) if self.ended_ids else []
        seeds = [{row.id: row.seed for row in rows} for rows in self.by_variant]
        # one seed has no test, except over items or blocks
        has_items = self.plan.imported and any(row.item_scores or row.errors for row in self.rows)
        untested_seeds = 0 if has_items or any(self.blocks) else 1
        return RecordedLooks(self.plan, looks, seeds, self.ended_ids, untested_seeds)

    def record_look(self) -> None:
        """Record a look: verdicts on the finished runs are read now."""
        record_runs_read(self.results, self.plan, self.ended_ids)

    @cached_property
    def data_settings(self) -> list[str]:
        """The data settings of each variant as a text. Equal texts mean the same data."""
        settings = (
            {path: value for path, value in config.items() if path.startswith("data.")}
            for config in self.configs
        )
        return [
            sys.intern(repr(sorted(fields.items()))) for fields in settings
        ]  # variants share the text, which saves memory

    def data_checksums(self, variant: int) -> list[str]:
        """Return all checksums recorded for a variant's data set. More than one means that the data
        changed.
        """
        return sorted(self._checksums[self.data_settings[variant]] - {""})

    @cached_property
    def _checksums(self) -> dict[str, set[str]]:
        checksums: dict[str, set[str]] = {}
        for settings, variant, rows in zip(self.data_settings, self.variants, self.by_variant, strict=True):
            recorded = {variant.data_checksum, *(row.provenance.data_checksum for row in rows)}
            checksums.setdefault(settings, set()).update(recorded)
        return checksums

    @cached_property
    def synthetic(self) -> frozenset[int]:
        """The variants on generated data, by the plan or by a run."""
        planned = (index for index, variant in enumerate(self.variants) if variant.synthetic)
        return frozenset({*planned, *(row.variant for row in self.rows if row.provenance.synthetic)})

    @cached_property
    def imported(self) -> frozenset[int]:
        """The variants with imported weights or results, which were not trained here."""
        if self.is_own:
            return frozenset(row.variant for row in self.rows if row.provenance.origin == "imported")
        return frozenset(
            index for index, config in enumerate(self.configs) if config.get("train.epochs") == 0
        )

    @cached_property
    def blocks(self) -> list[Block]:
        """The block of each variant, such as its data set. Comparisons never cross blocks."""
        return blocks_of(self.variants, self.configs, self.plan.blocks)

    @cached_property
    def methods(self) -> list[str]:
        """Each variant in words without its block."""
        return methods_of(self.variants, self.blocks)

    def level(self, variant: int, name: str) -> Any:
        """Return a variant's level of an axis or its value of a config field; `model` and `data` give titles.

        Returns:
            The level, or None if only other variants have this axis or field.

        Raises:
            ConfigError: No variant has the axis or field.
        """
        level = level_of(self.variants[variant], self.configs[variant], name)
        if level is None and not any(self.has(index, name) for index in self.indices):
            names = [*self.plan.axes, *map(setting_name, self.configs[variant])]
            raise ConfigError(
                f"the report names {name!r}, but the study has {choices(names)}.{nearest(name, names)}"
            )
        return level

    def has(self, variant: int, name: str) -> bool:
        """Return whether a variant has an axis or a setting of that name."""
        config = self.configs[variant]
        return name in self.variants[variant].levels or name in config or PREFIX + name in config

    def chosen(self, selector: Json) -> list[int]:
        """Return the variants at these levels, in the study's order."""
        if names := selector.get("variant"):
            names = [names] if isinstance(names, str) else names
            selector = {**selector, "variant": list(map(self.label_of, names))}
        return [index for index in self.indices if is_selected(selector, partial(self.level, index))]

    def leaks(self, variant: int) -> bool:
        """Return whether the model was given the target that it must predict.

        The numbers of such a variant are never compared.
        """
        return self.variants[variant].leaks

    def measured(self, variants: Iterable[int]) -> list[str]:
        """Return the metrics and costs of these variants' runs, in the order of their first appearance."""
        names: dict[str, None] = {}
        for row in self.rows_of(variants):
            names |= dict.fromkeys(
                name for name in row.measured if name not in names and row.value(name) is not None
            )
        return list(names)

    def first_run(self, variant: int, file: str, states: Sequence[str]) -> Row | None:
        """Return a variant's first run that has one of these statuses and a file, such as `mistakes.npz`."""
        rows = (row for row in self.by_variant[variant] if row.status in states)
        return next((row for row in rows if is_regular_file(self.results.run(row.id).path / file)), None)

    def epochs(self, variants: Iterable[int]) -> pd.DataFrame:
        """Return a row per epoch of these variants' runs, with `variant`, `seed`, `id` and `epoch`.

        The first epoch is 1. For a user's own program, `epoch` is the reported step.
        """
        lines: list[Json] = []
        for row in self.rows_of(variants):
            log = {line.epoch: line.values for line in read_log(self.results.run(row.id).epochs, EpochLine)}
            for epoch, values in log.items():
                lines.append(
                    {"variant": row.variant, "seed": row.seed, "id": row.id}
                    | values
                    | {"epoch": epoch + (not self.is_own)}
                )
        return pd.DataFrame(lines)


def load_study(results: Results, name: str, preset: str, trust: bool = False) -> StudyRecords:
    """Read a study's plan and all its runs.

    Args:
        results: The results folder.
        name: Of the study.
        preset: Its preset.
        trust: Import the study's own modules as they are now.

    Raises:
        ConfigError: There is no such study or preset. The message lists the studies of the folder.
    """
    refuse_link(results.root / "runs")
    plan = read_plan(results.study(name, preset))
    if plan is None:
        names = [f"{study} ({study_preset})" for study, study_preset in studies(results)]
        have = (
            f"there are {choices(names)}.{nearest(f'{name} ({preset})', names)}"
            if names
            else "there is none yet."
        )
        raise ConfigError(f"no study {name!r} with the preset {preset!r} in {results.root}: {have}")
    return replace(records_of(results, plan), trust=trust)


def records_of(results: Results, plan: PlanRecord, rows: Mapping[str, Row] | None = None) -> StudyRecords:
    """Return the records of a plan's runs. The results folder need not contain the plan.

    Args:
        results: The results folder.
        plan: The plan of the study.
        rows: Run id -> the row of a run that was read before.
    """
    return StudyRecords(results, plan, read_rows(results, plan, with_word_labels(plan.variants), rows or {}))


def load_studies(
    locations: Iterable[StudyLocation], trust: bool = False
) -> tuple[dict[tuple[str, str], StudyRecords], list[StorageError]]:
    """Return the readable studies by name and preset, and the damage of the others.

    Args:
        locations: The locations of the studies.
        trust: Import the studies' own modules as they are now.
    """
    records: dict[tuple[str, str], StudyRecords] = {}
    damages: list[StorageError] = []
    for results, name, preset in locations:
        try:
            records[name, preset] = load_study(results, name, preset, trust)
        except StorageError as damage:
            damages.append(damage)
    return records, damages
