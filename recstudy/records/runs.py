"""Read the runs of a study: a `Row` per planned run, and all rows as a DataFrame.

Reports, the board and notebooks read runs here. Missing, failed, diverged and damaged runs are rows, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from recstudy.base.errors import StorageError
from recstudy.base.lazy import pd
from recstudy.base.opened import is_regular_file
from recstudy.base.values import flatten
from recstudy.records.files import Json
from recstudy.records.plans import read_imported
from recstudy.records.reading import read_record
from recstudy.records.results import Results
from recstudy.records.schema import (
    Failure,
    LateMetric,
    Measured,
    Number,
    Provenance,
    Result,
    Selected,
    Stopped,
    Values,
)
from recstudy.records.study_schema import PlanRecord, VariantRecord

STATUSES = ("done", "diverged", "stopped", "failed", "unfinished", "not run")
FINAL_STATUSES = STATUSES[:4]
NO_RESULT = Result(status="done", metrics={})
ORIGIN = (
    *("dirty", "recstudy", "workers", "threads", "precision", "data_checksum", "data_notes"),
    *("synthetic", "started", "finished"),
)
RUN_COLUMNS = ("variant", "label", "seed", "id", "status")  # no metric has these names
MACHINE = ("host", "cpu", "cores", "gpu")
NONE: Mapping[str, Any] = {}  # shared by all rows to save memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A planned run with the records of its folder.

    Args:
        variant: Its index among the study's variants.
        label: The label of the variant.
        seed: The seed.
        id: The run id.
        status: One of `STATUSES`. An `unfinished` run was started and has neither result nor failure.
        result: The result, if the run is done or diverged.
        failure: The failure, if the run failed or its records are damaged.
        stopped: The record of the stop, if a search's scheduler stopped the run.
        late_sources: Metric that was computed after the run -> its source, `answers` or `weights`.
        added: Metric -> a value that was derived from other runs.
        item_scores: Metric -> test item -> score, of an imported run.
        errors: Metric -> its standard error over test items, of an imported run.
    """

    variant: int = 0
    label: str = ""
    seed: int = 0
    id: str = ""
    status: str = "not run"
    result: Result | None = None
    failure: Failure | None = None
    stopped: Stopped | None = None
    late_sources: Mapping[str, str] = field(default_factory=lambda: NONE)
    added: Mapping[str, Number | None] = field(default_factory=lambda: NONE)
    item_scores: Mapping[str, Mapping[str, Number]] = field(default_factory=lambda: NONE)
    errors: Mapping[str, Number] = field(default_factory=lambda: NONE)

    @property
    def result_or_empty(self) -> Result:
        """The result; an empty one if there is none."""
        return self.result or NO_RESULT

    @property
    def done(self) -> bool:
        return self.status == "done"

    @property
    def failed(self) -> bool:
        return self.status == "failed"

    @property
    def provenance(self) -> Provenance:
        return self.result_or_empty.provenance

    @property
    def selected(self) -> Selected:
        return self.result_or_empty.selected

    @property
    def attempts(self) -> int | None:
        return self.failure.attempts if self.failure else self.result_or_empty.attempts

    @property
    def error_class(self) -> str:
        return self.failure.error_class if self.failure else ""

    @property
    def error(self) -> str:
        return self.failure.error if self.failure else ""

    @property
    def traceback(self) -> str:
        return self.failure.traceback if self.failure else ""

    @property
    def calls(self) -> tuple[str, ...]:
        """The last lines of the user's files in the traceback of its failure."""
        return self.failure.calls if self.failure else ()

    @property
    def measured(self) -> tuple[str, ...]:
        """The names of its metrics and costs."""
        return tuple(dict.fromkeys((*self.result_or_empty.metrics, *self.result_or_empty.cost)))

    @property
    def unavailable(self) -> Mapping[str, str]:
        """Metric -> why it has no value."""
        return self.result_or_empty.unavailable

    @property
    def raised(self) -> Mapping[str, str]:
        """Metric -> the error that its code raised."""
        return {
            name: self.result_or_empty.unavailable[name]
            for name in self.result_or_empty.raised
            if name in self.result_or_empty.unavailable
        }

    def value(self, name: str) -> Number | None:
        """Return a metric or a cost, or None if the run has no such value.

        Args:
            name: The name of a metric or cost, or `METRIC@DEPTH` for a metric after DEPTH supervision steps.
        """
        if name in self.added:
            return self.added[name]
        result = self.result
        if result is None:
            return None
        if "@" in name:
            metric, _, depth = name.rpartition("@")
            return result.depths.get(metric, {}).get(depth)
        # Metrics come first: a metric of a user's program may have the name of a cost.
        return result.metrics[name] if name in result.metrics else result.cost.get(name)

    def number(self, name: str) -> float:
        """Return a metric or a cost that the run has."""
        value = self.value(name)
        assert value is not None
        return float(value)

    @property
    def wall_seconds(self) -> float:
        return self.result_or_empty.wall_seconds

    def objective(self, name: str) -> float | None:
        """Return a metric or a cost, or None if the run has no such value.

        Args:
            name: The name of a metric or cost, or `selection_NAME` for the score on the selection split.
        """
        selected = name.removeprefix("selection_")
        value = self.value(name) if selected == name else self.selected.scores.get(selected)
        return None if value is None else float(value)


def read_rows(
    results: Results,
    plan: PlanRecord,
    variants: Sequence[VariantRecord],
    known_rows: Mapping[str, Row] = NONE,
) -> list[Row]:
    """Return the planned runs of a study.

    Args:
        results: The results folder.
        plan: The plan of the study.
        variants: The variants of the plan, with the labels for the rows.
        known_rows: Run id -> its row, for runs that need not be read again.
    """
    imported = imported_rows(results.study(plan.study, plan.folder)) if plan.imported else {}
    rows = []
    for run in plan.runs:
        planned: Json = {"variant": run.variant, "label": variants[run.variant].label, "seed": run.seed}
        row = imported.get(run.id) or known_rows.get(run.id)
        rows.append(replace(row, **planned) if row else read_row(results, run.id, planned))
    return rows


def runs_frame(
    rows: Sequence[Row], variants: Sequence[VariantRecord], configs: Sequence[Json]
) -> pd.DataFrame:
    """Return the planned runs of a study as a frame, one per row.

    The columns are `variant` (its index), `label`, `seed`, `id`, `status`, `levels.AXIS`, each setting that
    differs between variants (`model.latent_steps`), every metric and cost by its name, `METRIC@DEPTH`,
    `selected.epoch` and `selected.METRIC` of the selected epoch, `attempts`, and `provenance.NAME` for
    machine, versions, data and dates. A failed run has `error_class`, `error` and `traceback`; a run that its
    search stopped has `stopped_epoch` and `stopped_score`.

    Args:
        rows: The runs.
        variants: The variants of the study.
        configs: The flat settings of each variant.
    """
    varied = varied_fields(configs)
    shared = [
        {
            f"levels.{axis}": level if isinstance(level, str | int | float | None) else str(level)
            for axis, level in levels.items()
        }
        | {path: config.get(path) for path in varied}
        for levels, config in zip((variant.levels for variant in variants), configs, strict=True)
    ]
    values = [
        {name: getattr(row, name) for name in RUN_COLUMNS} | shared[row.variant] | _measurements(row)
        for row in rows
    ]
    return pd.DataFrame(values, columns=None if values else RUN_COLUMNS)


def _measurements(row: Row) -> Json:
    if row.stopped:
        return {"stopped_epoch": row.stopped.epoch + 1, "stopped_score": row.stopped.score}
    if row.failure:
        return {name: getattr(row, name) for name in ("error_class", "error", "traceback", "attempts")}
    if row.result is None:
        return {}
    depths = {
        f"{name}@{depth}": value
        for name, values in row.result.depths.items()
        for depth, value in values.items()
    }
    selected = {"epoch": row.selected.number, **row.selected.scores} if row.selected.split else {}
    return {
        "attempts": row.attempts,  # a metric of this name replaces it
        **(row.result.cost | row.result.metrics | depths),
        **{f"selected.{name}": value for name, value in selected.items()},
        **{f"provenance.{name}": value for name, value in origin(row.provenance).items()},
    }


def config_of(base: Json, changes: Json) -> Json:
    """Return the flat config fields of a variant.

    Args:
        base: The flat fields of the base config.
        changes: Field -> value. A change of a whole part, such as `model`, replaces all fields of the part.
    """
    config = dict(base)
    for path, value in changes.items():
        if isinstance(value, dict):
            config = {
                name: field_value for name, field_value in config.items() if not name.startswith(path + ".")
            }
            config |= flatten(value, path + ".")
        else:
            config[path] = value
    return config


def varied_fields(configs: Sequence[Json]) -> list[str]:
    """Return the fields that differ between configs, in the order of the configs."""
    fields = dict.fromkeys(path for config in configs for path in config)
    return [path for path in fields if any(config.get(path) != configs[0].get(path) for config in configs)]


def distinct(rows: Iterable[Row]) -> list[Row]:
    """Return one row per run, because several variants can share a run."""
    return list({row.id: row for row in rows}.values())


def read_row(results: Results, run_id: str, planned: Mapping[str, Any] = NONE) -> Row:
    """Return the row of a run. A damaged record becomes a failure that names the file.

    Args:
        results: The results folder.
        run_id: The run id.
        planned: The row's variant, label and seed.
    """
    folder = str(results.run(run_id).path)  # strings are faster than Path objects for 10,000 runs
    try:
        if result := read_record(f"{folder}/result.json", Result):
            measured = read_record(f"{folder}/measured.json", Measured) or Measured()
            values = _with_later(result, measured.metrics)
        elif stopped := read_record(f"{folder}/stopped.json", Stopped):
            values = {"status": "stopped", "stopped": stopped}
        elif failure := read_record(f"{folder}/failure.json", Failure):
            values = {"status": "failed", "failure": failure}
        else:
            values = {"status": "unfinished" if is_regular_file(f"{folder}/attempts.jsonl") else "not run"}
    except StorageError as damage:
        values = {"status": "failed", "failure": Failure(error_class="damaged record", error=str(damage))}
    return Row(id=run_id, **planned, **values)


def imported_rows(study: Path) -> dict[str, Row]:
    """Return the imported runs of a study by id. Raises StorageError if their file is damaged."""
    imported = read_imported(study)
    origins = [
        Provenance(origin="imported", source=file.words, started=file.started) for file in imported.files
    ]
    rows = {}
    for run_id, run in imported.runs.items():
        if run.status == "failed":
            failure = Failure(error_class=run.error_class, error=run.error)
            rows[run_id] = Row(id=run_id, status="failed", failure=failure)
        else:
            result = Result(
                status=run.status, error=run.error, metrics=run.metrics, provenance=origins[run.file]
            )
            rows[run_id] = Row(
                id=run_id,
                status=run.status,
                result=result,
                item_scores=run.item_scores or NONE,
                errors=run.errors or NONE,
            )
    return rows


def _with_later(result: Result, late_metrics: Mapping[str, LateMetric]) -> Json:
    """Return status and result, completed by later metrics that the result does not have."""
    new = {name: computed for name, computed in late_metrics.items() if result.metrics.get(name) is None}
    if not new:
        return {"status": result.status, "result": result}
    metrics: Values = {}
    for name, computed in new.items():
        values = {name: computed.value} | {
            f"{name}.{part}": value for part, value in computed.by_class.items()
        }
        metrics |= {name: value for name, value in values.items() if value is not None}
    notes = [
        f"{name}: computed later, {computed.tokenizer}"
        for name, computed in new.items()
        if name in metrics and computed.tokenizer not in ("", *result.tokenizer.values())
    ]
    undefined = [*result.undefined, *(part for computed in new.values() for part in computed.undefined)]
    unavailable = {name: why for name, why in result.unavailable.items() if name not in metrics}
    complete = replace(
        result,
        metrics=result.metrics | metrics,
        undefined=tuple(dict.fromkeys(undefined)),
        unavailable=unavailable
        | {name: computed.unavailable for name, computed in new.items() if computed.unavailable},
        raised=(
            *(name for name in result.raised if name not in new),
            *(name for name in new if new[name].raised),
        ),
        notes=(*result.notes, *notes),
    )
    return {
        "status": result.status,
        "result": complete,
        "late_sources": {name: computed.how for name, computed in new.items() if name in metrics},
    }


def origin(provenance: Provenance) -> Json:
    """Return the provenance of a run as flat columns: code, data, machine and dates."""
    return {
        "commit": provenance.made_by or None,
        **{name: getattr(provenance, name) for name in ORIGIN},
        **{name: getattr(provenance.hardware, name) for name in MACHINE},
        "versions": provenance.packages,
        "initial": provenance.initial_weights,
        "source": provenance.source,
    }
