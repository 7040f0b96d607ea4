"""What pages are made from: the folder as of the last poll, the records of its studies, and the addresses of other programs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from recstudy.board.poller import PlannedStudy, ResultsPoller, StudyKey
from recstudy.board.progress import RunUnderWay, run_under_way
from recstudy.errors import ConfigError, choices, nearest
from recstudy.programs.metric import METRICS
from recstudy.records.study_schema import PlannedRun
from recstudy.report import TablePart
from recstudy.report.findings import findings
from recstudy.report.names import with_word_labels
from recstudy.report.rows import Row
from recstudy.report.status import last_change
from recstudy.report.study_records import StudyRecords

LINKS = {
    "Ray dashboard": "http://127.0.0.1:8265",
    "TensorBoard": "http://127.0.0.1:6006",
    "Optuna dashboard": "http://127.0.0.1:8080",
}


@dataclass(frozen=True)
class Sources:
    """What pages are made from.

    Args:
        poller: The folder.
        links: Name and address of the programs that the board points to.
        store: The URI of the object store that the folder is a copy of.
        trust: Import what studies define themselves.
        problems: Why the folder or its store cannot be read now, as the first page says it.
    """

    poller: ResultsPoller
    links: tuple[tuple[str, str], ...] = tuple(LINKS.items())
    store: str = ""
    trust: bool = False
    problems: list[str] = field(default_factory=list)  # why the folder or the store cannot be read now
    _records: dict[StudyKey, tuple[PlannedStudy, Sequence[Row], StudyRecords]] = field(default_factory=dict, init=False)

    def records(self, study: StudyKey) -> StudyRecords:
        """Return the study as of the last poll: the same object until something in it changes.

        Raises:
            ConfigError: there is no such study, or its plan cannot be read.
        """
        planned = self.poller.studies.get(study)
        if planned is None:
            names = [f"{name} ({preset})" for name, preset in self.poller.studies]
            here = f"there are {choices(names)}" if names else "there is none yet"
            raise ConfigError(f"no study {study[0]!r} with the preset {study[1]!r}: {here}.{nearest(' '.join(study), names)}")
        if planned.error:
            raise ConfigError(planned.error)
        plan, variants = planned.plan, with_word_labels(planned.plan.variants)
        outcomes = [self.poller.outcome(run.id) for run in plan.runs]
        before, earlier, records = self._records.get(study, (None, (), None))
        code = self.trust and bool(plan.plugins)  # which may have changed
        if records is None or code or before is not planned or any(a is not b for a, b in zip(earlier, outcomes, strict=True)):
            rows = [
                replace(outcome, variant=run.variant, label=variants[run.variant].label, seed=run.seed, id=run.id)
                for run, outcome in zip(plan.runs, outcomes, strict=True)
            ]
            records = StudyRecords(self.poller.results, plan, rows, trust=self.trust)
            self._records[study] = planned, outcomes, records
        return records

    @property
    def state(self) -> object:
        """What pages depend on: an equal state gives equal pages. With `trust` it has the times of the studies' own files."""
        plans = [planned.plan for planned in self.poller.studies.values()] if self.trust else []
        files = {entry["file"] for plan in plans for entry in plan.plugins if entry["file"]}
        return self.poller.state, tuple(self.problems), tuple((name, last_change(Path(name))) for name in sorted(files))

    def finding(self, study: StudyKey) -> str:
        """Return the first of a study's findings, or why there is none; nothing of the study's own is imported for it."""
        try:
            records = self.records(study)
            alone = replace(records, plan=replace(records.plan, plugins=()))
            with alone.standing():
                return records.once("finding", lambda: str(findings(alone)[0]))
        except Exception as error:
            return f"The finding cannot be computed: {type(error).__name__}: {error}"

    def under_way(self) -> list[RunUnderWay]:
        """Return the runs under way that a study names, each once."""
        runs = []
        for run_id, lines in self.poller.running.items():
            planned = next((planned for planned in self.poller.studies.values() if run_id in planned.named), None)
            runs += [run_under_way(planned, run_id, lines)] if planned is not None else []
        return runs


def main_metric(records: StudyRecords) -> str:
    """Return the metric by which a study is judged; empty where no part, run or search names one.

    It is the first metric of the report's first table, or, where no run has that, the score by which the runs were selected, or
    the one by which runs of their kind are ranked.
    """

    def find() -> str:
        table = next((part for part in records.parts if isinstance(part, TablePart) and part.shows), None)
        search = records.plan.search
        scores = [name for row in records.rows for name in row.selected.scores if not name.endswith("loss")]
        asked = [name.removeprefix("selection_") for name in search.objectives] if search is not None else []
        names = dict.fromkeys([*(table.shows[:1] if table else ()), *scores, *asked])
        ranked = [name for name, one in METRICS.complete().items() if one.ranks]
        known = (name for name in [*names, *ranked] if any(row.value(name) is not None for row in records.rows))
        return next(known, next(iter(names), ""))

    return records.once("main metric", find)


def one_run(records: StudyRecords, variant: int, run_id: str) -> StudyRecords:
    """Return the study as if it were of this run alone, for the report's functions."""
    rows = [replace(row, variant=0) for row in records.by_variant[variant] if row.id == run_id][:1]
    plan = replace(
        records.plan,
        variants=(records.variants[variant],),
        seeds=tuple(dict.fromkeys(row.seed for row in rows)),
        runs=tuple(PlannedRun(row.variant, row.seed, row.id) for row in rows),
    )
    return StudyRecords(records.results, plan, rows, trust=records.trust)
