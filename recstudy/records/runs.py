"""What a study's runs left behind: a `Row` per planned run, and all of them as one DataFrame.

Missing, failed, diverged and damaged runs are rows like any other. Nothing here knows how a run was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from recstudy.errors import StorageError
from recstudy.lazy import pd
from recstudy.opened import is_regular_file
from recstudy.programs.settings import flatten
from recstudy.records.files import Json
from recstudy.records.plans import read_imported
from recstudy.records.reading import read_record
from recstudy.records.results import Results
from recstudy.records.schema import Failure, Measured, Number, Provenance, Result, Selected, Stopped, Values
from recstudy.records.study_schema import PlanRecord, VariantRecord

STATUSES = ("done", "diverged", "stopped", "failed", "unfinished", "not run")
ENDED = STATUSES[:4]
NO_RESULT = Result(status="done", metrics={})
ORIGIN = (
    *("dirty", "recstudy", "workers", "threads", "precision", "data_checksum", "data_notes"),
    *("synthetic", "started", "finished"),
)
MACHINE = ("host", "cpu", "cores", "gpu")
NONE: Mapping[str, Any] = {}  # one object for all rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A planned run, and what its folder says of it.

    Args:
        variant: Its index among the study's variants.
        label: Of the variant.
        seed: The seed.
        id: Of the run.
        status: One of `STATUSES`. An `unfinished` run was begun and left neither result nor failure.
        result: Of a run that is done or diverged.
        failure: Of a run that failed, or whose records are damaged.
        stopped: Of a run that a search's scheduler stopped.
        later: Metrics that were computed after the run -> from its `answers` or its `weights`.
        added: Values that follow from other runs, by metric.
    """

    variant: int = 0
    label: str = ""
    seed: int = 0
    id: str = ""
    status: str = "not run"
    result: Result | None = None
    failure: Failure | None = None
    stopped: Stopped | None = None
    later: Mapping[str, str] = field(default_factory=lambda: NONE)
    added: Mapping[str, Number | None] = field(default_factory=lambda: NONE)

    @property
    def found(self) -> Result:
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
        return self.found.provenance

    @property
    def selected(self) -> Selected:
        return self.found.selected

    @property
    def attempts(self) -> int | None:
        return self.failure.attempts if self.failure else self.found.attempts

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
        """The last lines of the user's files that led to its failure."""
        return self.failure.calls if self.failure else ()

    @property
    def measured(self) -> tuple[str, ...]:
        """The names of its metrics and costs."""
        return tuple(dict.fromkeys((*self.found.metrics, *self.found.cost)))

    @property
    def unavailable(self) -> Mapping[str, str]:
        """Metric -> why there is none."""
        return self.found.unavailable

    @property
    def raised(self) -> Mapping[str, str]:
        """Metric -> what its own code raised in place of a number."""
        return {
            name: self.found.unavailable[name] for name in self.found.raised if name in self.found.unavailable
        }

    def value(self, name: str) -> Number | None:
        """Return a metric or a cost; `METRIC@DEPTH` is a metric after so many supervision steps. None without
        a value.
        """
        if name in self.added:
            return self.added[name]
        result = self.result
        if result is None:
            return None
        if "@" in name:
            metric, _, depth = name.rpartition("@")
            return result.depths.get(metric, {}).get(depth)
        # a user's metric may have any name
        return result.metrics[name] if name in result.metrics else result.cost.get(name)

    def number(self, name: str) -> float:
        """Return `value` of a run that has it."""
        value = self.value(name)
        assert value is not None
        return float(value)

    @property
    def paid(self) -> float:
        """Wall seconds of its training and of the evaluation at its end, which older records do not have."""
        return float(sum(self.found.cost.get(name) or 0.0 for name in ("seconds", "evaluation_seconds")))

    def objective(self, name: str) -> float | None:
        """Return a metric or a cost; `selection_NAME` is the selected epoch's score on the selection
        split.
        """
        selected = name.removeprefix("selection_")
        value = self.value(name) if selected == name else self.selected.scores.get(selected)
        return None if value is None else float(value)


def read_runs(results: Results, plan: PlanRecord) -> pd.DataFrame:
    """Return the planned runs of a study, one per row.

    The columns are `variant` (its index), `label`, `seed`, `id`, `status`, `levels.AXIS`, each setting that
    differs between variants (`model.latent_steps`), every metric and cost by its name, `METRIC@DEPTH`,
    `selected.epoch` and `selected.METRIC` of the selected epoch, `attempts`, and `provenance.NAME` for
    machine, versions, data and dates. A failed run has `error_class`, `error` and `traceback`; a run that its
    search stopped has `stopped_epoch` and `stopped_score`.

    Args:
        results: The results folder.
        plan: Of the study.
    """
    base = flatten(plan.base)
    configs = [config_of(base, variant.changes) for variant in plan.variants]
    return runs_frame(read_rows(results, plan, plan.variants), plan.variants, configs)


def read_rows(
    results: Results,
    plan: PlanRecord,
    variants: Sequence[VariantRecord],
    known_rows: Mapping[str, Row] = NONE,
) -> list[Row]:
    """Return the planned runs with the labels of these variants, which are the plan's. Runs in `known_rows`
    are not read.
    """
    imported = imported_rows(results.study(plan.study, plan.folder)) if plan.imported else {}
    rows = []
    for index, seed, run_id in plan.runs:
        planned: Json = {"variant": index, "label": variants[index].label, "seed": seed}
        row = imported.get(run_id) or known_rows.get(run_id)
        rows.append(replace(row, **planned) if row else read_row(results, run_id, planned))
    return rows


def runs_frame(
    rows: Sequence[Row], variants: Sequence[VariantRecord], configs: Sequence[Json]
) -> pd.DataFrame:
    """Return `read_runs` of rows that were read before."""
    varied = varied_fields(configs)
    shared = [
        {
            f"levels.{axis}": level if isinstance(level, str | int | float | None) else str(level)
            for axis, level in levels.items()
        }
        | {path: config.get(path) for path in varied}
        for levels, config in zip((variant.levels for variant in variants), configs, strict=True)
    ]
    names = ("variant", "label", "seed", "id", "status")
    values = [
        {name: getattr(row, name) for name in names} | shared[row.variant] | _measurements(row)
        for row in rows
    ]
    return pd.DataFrame(values, columns=None if values else names)


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
        **(row.result.cost | row.result.metrics | depths),
        **{f"selected.{name}": value for name, value in selected.items()},
        "attempts": row.attempts,
        **{f"provenance.{name}": value for name, value in origin(row.provenance).items()},
    }


def config_of(base: Json, changes: Json) -> Json:
    """Return flat config fields after a variant's changes; a change to a whole part replaces all of its
    fields.
    """
    config = dict(base)
    for path, value in changes.items():
        if isinstance(value, dict):
            config = {name: other for name, other in config.items() if not name.startswith(path + ".")}
            config |= flatten(value, path + ".")
        else:
            config[path] = value
    return config


def varied_fields(configs: Sequence[Json]) -> list[str]:
    """Return the fields whose value is not the same in every config, in the configs' order."""
    fields = dict.fromkeys(path for config in configs for path in config)
    return [path for path in fields if any(config.get(path) != configs[0].get(path) for config in configs)]


def distinct(rows: Iterable[Row]) -> list[Row]:
    """Return each run once, even if several variants have it."""
    return list({row.id: row for row in rows}.values())


def read_row(results: Results, run_id: str, planned: Mapping[str, Any] = NONE) -> Row:
    """Return what a run's folder says; a damaged record is a failure that names it.

    Args:
        results: The results folder.
        run_id: Of the run.
        planned: The row's variant, label and seed.
    """
    folder = str(results.run(run_id).path)  # strings, because 10,000 runs have several paths each
    try:
        if result := read_record(f"{folder}/result.json", Result):
            values = _with_later(result, read_record(f"{folder}/measured.json", Measured))
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
    """Return a study's imported runs by their ids (StorageError: their file is damaged)."""
    imported = read_imported(study)
    origins = [
        Provenance(origin="imported", source=file.words, finished=file.changed) for file in imported.files
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
            rows[run_id] = Row(id=run_id, status=run.status, result=result)
    return rows


def _with_later(result: Result, later: Measured | None) -> Json:
    """Return status and result with the metrics that were computed later; those of the result itself stay
    what they are.
    """
    new = (
        {name: value for name, value in later.metrics.items() if result.metrics.get(name) is None}
        if later
        else {}
    )
    if not new:
        return {"status": result.status, "result": result}
    metrics: Values = {}
    for name, computed in new.items():
        values = {name: computed.value} | {
            f"{name}.{part}": value for part, value in computed.by_class.items()
        }
        metrics |= {name: value for name, value in values.items() if value is not None}
    tokenizers = {
        name: computed.tokenizer for name, computed in new.items() if computed.tokenizer and name in metrics
    }
    notes = [
        f"{name}: computed later, {tokenizer}"
        for name, tokenizer in tokenizers.items()
        if tokenizer not in result.tokenizer.values()
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
        "later": {name: computed.how for name, computed in new.items() if name in metrics},
    }


def origin(provenance: Provenance) -> Json:
    """Return what made a run's numbers, by name, each in one value."""
    return {
        "commit": provenance.made_by or None,
        **{name: getattr(provenance, name) for name in ORIGIN},
        **{name: getattr(provenance.hardware, name) for name in MACHINE},
        "versions": provenance.packages,
        "initial": provenance.begun,
        "source": provenance.source,
    }
