"""A planned run with what its folder says of it: finished, stopped, failed, damaged, under way or not begun."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from recstudy.errors import StorageError
from recstudy.records import Failure, Json, Result, Results, Stopped, read_record
from recstudy.records.plans import read_imported
from recstudy.records.schema import Measured, Number, Provenance, Selected, Values
from recstudy.records.study_schema import VariantRecord
from recstudy.report.names import at_depth

STATUSES = ("done", "diverged", "stopped", "failed", "unfinished", "not run")
ENDED = ("done", "diverged", "stopped", "failed")
NOTHING = Result(status="done", metrics={})
NONE: Mapping[str, Any] = {}  # one for all: 10,000 rows have three each


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run's folder says. `status` is one of `STATUSES`; `unfinished` was begun and left neither result nor failure."""

    status: str = "not run"
    result: Result | None = None  # of one that is done or diverged
    failure: Failure | None = None  # of one that failed, or whose records are damaged
    stopped: Stopped | None = None  # of one that a search's scheduler stopped
    later: Mapping[str, str] = field(default_factory=lambda: NONE)  # metric computed after the run -> from `answers` or `weights`

    @property
    def found(self) -> Result:
        """The result, which is empty where there is none."""
        return self.result or NOTHING

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
    def measured(self) -> tuple[str, ...]:
        """Its metrics and costs by their names."""
        return tuple(dict.fromkeys((*self.found.metrics, *self.found.cost)))

    @property
    def unavailable(self) -> Mapping[str, str]:
        """Metric -> why there is none."""
        return self.found.unavailable

    @property
    def raised(self) -> Mapping[str, str]:
        """Metric -> what its own code raised in place of a number."""
        return {name: self.found.unavailable[name] for name in self.found.raised if name in self.found.unavailable}

    def value(self, name: str) -> Number | None:
        """Give a metric or a cost, or, as `METRIC@DEPTH`, a metric after so many supervision steps; None where there is none."""
        result = self.result
        if result is None:
            return None
        if "@" in name:
            metric, _, depth = name.rpartition("@")
            return result.depths.get(metric, {}).get(depth)
        return result.metrics[name] if name in result.metrics else result.cost.get(name)  # a user's metric may have any name

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
        """Return as `selection_NAME` the score of the selected epoch, by any other name a metric or a cost."""
        selected = name.removeprefix("selection_")
        value = self.value(name) if selected == name else self.selected.scores.get(selected)
        return None if value is None else float(value)

    @property
    def columns(self) -> Json:
        """As columns of a frame."""
        told: Json = {"status": self.status}
        if self.stopped is not None:
            return told | {"stopped_epoch": self.stopped.epoch + 1, "stopped_score": self.stopped.score}
        if self.failure is not None:
            return told | {name: getattr(self.failure, name) for name in ("error_class", "error", "traceback", "attempts")}
        if (result := self.result) is None:
            return told
        return {
            **told,
            **(result.metrics | result.cost | result.metrics),
            "measured": self.measured,
            "undefined": result.undefined,
            "unavailable": result.unavailable,
            "tokenizers": result.tokenizer,
            "decode": result.decode,
            "answers": result.answers,
            "caption_notes": result.notes,
            **{at_depth(name, depth): value for name, scored in result.depths.items() for depth, value in scored.items()},
            "selected.epoch": result.selected.number,
            "selected.split": result.selected.split,
            **{f"selected.{name}": value for name, value in result.selected.scores.items()},
            "attempts": result.attempts,
            **{f"provenance.{name}": value for name, value in origin(result.provenance).items()},
            "later": dict(self.later),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Outcome):
    """A planned run: a variant, by its place among all, with one seed."""

    variant: int
    label: str
    seed: int
    id: str
    added: Mapping[str, Number | None] = field(default_factory=lambda: NONE)  # values that follow from others

    @classmethod
    def of(cls, outcome: Outcome, variant: int, planned: VariantRecord, seed: int, id: str) -> "Row":
        return cls(
            status=outcome.status, result=outcome.result, failure=outcome.failure, stopped=outcome.stopped, later=outcome.later,
            variant=variant, label=planned.label, seed=seed, id=id,
        )  # fmt: skip

    def value(self, name: str) -> Number | None:
        return self.added[name] if name in self.added else Outcome.value(self, name)


def distinct(rows: Iterable[Row]) -> list[Row]:
    """Return each run once, whatever number of labels it stands under."""
    return list({row.id: row for row in rows}.values())


def outcome_of(results: Results, run_id: str) -> Outcome:
    """Return what a run's folder says; a damaged record is a failure that names it."""
    folder = results.run(run_id)
    try:
        result = read_record(folder.result, Result)
        if result is not None:
            return _with_later(result, read_record(folder.measured, Measured))
        stopped, failure = read_record(folder.stopped, Stopped), read_record(folder.failure, Failure)
    except StorageError as damage:
        return Outcome(status="failed", failure=Failure(error_class="damaged record", error=str(damage)))
    if stopped is not None:
        return Outcome(status="stopped", stopped=stopped)
    if failure is not None:
        return Outcome(status="failed", failure=failure)
    return Outcome(status="unfinished" if folder.attempts.exists() else "not run")


def imported_outcomes(study: Path) -> dict[str, Outcome]:
    """Return the outcomes of a study's imported runs by their ids (StorageError: their file is damaged)."""
    imported = read_imported(study)
    made = [Provenance(origin="imported", source=file.words, finished=file.changed) for file in imported.files]
    outcomes = {}
    for run_id, run in imported.runs.items():
        if run.status == "failed":
            outcomes[run_id] = Outcome(status="failed", failure=Failure(error_class=run.error_class, error=run.error))
            continue
        result = Result(status=run.status, error=run.error, metrics=run.metrics, provenance=made[run.file])
        outcomes[run_id] = Outcome(status=run.status, result=result)
    return outcomes


def _with_later(result: Result, later: Measured | None) -> Outcome:
    """Add the metrics that were computed after the run had finished; those of its result stay what they are."""
    if later is None:
        return Outcome(status=result.status, result=result)
    new = {name: one for name, one in later.metrics.items() if result.metrics.get(name) is None}
    values: Values = {
        f"{name}.{part}" if part else name: value
        for name, one in new.items()
        for part, value in ({"": one.value} | one.by_class).items()
        if value is not None
    }
    cut = {name: one.tokenizer for name, one in new.items() if one.tokenizer and name in values}
    other = [f"{name}: computed later, {by}" for name, by in cut.items() if by not in result.tokenizer.values()]
    known = {name: why for name, why in result.unavailable.items() if name not in values}
    whole = replace(
        result,
        metrics=result.metrics | values,
        undefined=tuple(dict.fromkeys([*result.undefined, *(part for one in new.values() for part in one.undefined)])),
        unavailable=known | {name: one.unavailable for name, one in new.items() if one.unavailable},
        raised=(*(name for name in result.raised if name not in new), *(name for name, one in new.items() if one.raised)),
        notes=(*result.notes, *other),
    )
    return Outcome(status=result.status, result=whole, later={name: one.how for name, one in new.items() if name in values})


def origin(made: Provenance) -> Json:
    """Return what made a run's numbers, by name, each in one value."""
    machine = made.hardware
    return {
        "commit": made.made_by or None,
        "dirty": made.dirty,
        "recstudy": made.recstudy,
        "workers": made.workers,
        "threads": made.threads,
        "data_checksum": made.data_checksum,
        "data_notes": made.data_notes,
        "synthetic": made.synthetic,
        "started": made.started,
        "finished": made.finished,
        "host": machine.host,
        "cpu": machine.cpu,
        "cores": machine.cores,
        "gpu": machine.gpu,
        "versions": made.packages,
        "initial": made.begun,
        "source": made.source,
    }
