"""What pages are made from: the folder as of the last poll, the records of its studies, and where other programs are.

A study's records are kept as its runs change: the rows that `load_study` reads, each made again only when its run changed.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from recstudy.analysis.findings import findings
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.board.markup import Address
from recstudy.board.poller import PlannedStudy, ResultsPoller, StoreFollower, StudyKey
from recstudy.board.progress import RunUnderWay, run_under_way
from recstudy.errors import ConfigError, choices, nearest
from recstudy.metrics import METRICS
from recstudy.plugins import reading
from recstudy.records.study_schema import PlannedRun, PlanRecord
from recstudy.report import TablePart

LINKS = {
    "Ray dashboard": "http://127.0.0.1:8265",
    "TensorBoard": "http://127.0.0.1:6006",
    "Optuna dashboard": "http://127.0.0.1:8080",
}


@dataclass(frozen=True)
class Sources:
    """`links`: name and address of the programs that the board points to. `store`: where the folder is a copy of one. `trust`:
    studies' own modules are imported, whatever they are now."""

    poller: ResultsPoller
    links: tuple[tuple[str, str], ...] = tuple(LINKS.items())
    store: StoreFollower | None = None
    trust: bool = False
    _kept: dict[StudyKey, tuple[PlannedStudy, int, StudyRecords]] = field(default_factory=dict, init=False)

    def records(self, study: StudyKey) -> StudyRecords:
        """Return the study as of the last poll: the same object until something in it changes.

        Raises:
            ConfigError: there is no such study, or its plan cannot be read.
        """
        planned = self.poller.studies.get(study)
        if planned is None:
            named = [f"{name} ({preset})" for name, preset in self.poller.studies]
            here = f"there are {choices(named)}" if named else "there is none yet"
            raise ConfigError(f"no study {study[0]!r} with the preset {study[1]!r}: {here}.{nearest(' '.join(study), named)}")
        if planned.error:
            raise ConfigError(planned.error)
        before, version, records = self._kept.get(study, (None, -1, None))
        if before is not planned or records is None:
            rows = [self._row(planned.plan, run) for run in planned.plan.runs]
            records = StudyRecords(self.poller.results, planned.plan, rows, trust=self.trust)
        elif version < self.poller.version:
            new = {
                at: self._row(records.plan, PlannedRun(row.variant, row.seed, row.id))
                for at, row in enumerate(records.rows)
                if (seen := self.poller.runs.get(row.id)) is None or seen.version > version
            }
            if any(records.rows[at] != row for at, row in new.items()):
                records = replace(records, rows=[new.get(at, row) for at, row in enumerate(records.rows)])
        self._kept[study] = planned, self.poller.version, records
        return records

    def _row(self, plan: PlanRecord, run: PlannedRun) -> Row:
        return Row.of(self.poller.outcome(run.id), run.variant, plan.variants[run.variant], run.seed, run.id)

    def finding(self, study: StudyKey) -> str:
        """Return the first of a study's findings, or why there is none; nothing of the study's own is imported for it."""
        try:
            records = self.records(study)
            return records.once("finding", lambda: str(findings(replace(records, plan=replace(records.plan, plugins=())))[0]))
        except (Exception, SystemExit) as error:
            return f"It cannot be told: {type(error).__name__}: {error}"

    @contextmanager
    def plugins(self, address: Address) -> Iterator[list[str]]:
        """Have in place what the studies of a page define themselves, as long as the block runs; gives digests of it."""
        match address.path:
            case ("study" | "runs", name, preset):
                named = [(name, preset)]
            case ("run", run_id):
                named = self.poller.studies_of(run_id)[:1]
            case _:
                named = []
        plans = [self.poller.studies[study].plan for study in named if study in self.poller.studies]
        with ExitStack() as kept:
            yield [kept.enter_context(reading(plan.plugins, self.trust)) for plan in plans]

    def under_way(self) -> list[RunUnderWay]:
        """Return the runs under way that a study names, each once."""
        found = []
        for run_id, seen in self.poller.running.items():
            planned = next((one for one in self.poller.studies.values() if run_id in one.named), None)
            found += [run_under_way(planned, run_id, seen)] if planned is not None else []
        return found


def main_metric(records: StudyRecords) -> str:
    """Return the metric by which a study is judged; empty where no part, run or search names one.

    It is the first metric of the report's first table, or, where no run has that, the score by which the runs were selected, or
    the one by which runs of their kind are ranked.
    """

    def found() -> str:
        table = next((part for part in records.parts if isinstance(part, TablePart) and part.shows), None)
        search = records.plan.search
        scores = [name for row in records.rows for name in row.selected.scores if not name.endswith("loss")]
        asked = [name.removeprefix("selection_") for name in search.objectives] if search is not None else []
        names = dict.fromkeys([*(table.shows[:1] if table else ()), *scores, *asked])
        ranked = [name for name, one in METRICS.items() if one.ranks]
        known = (name for name in [*names, *ranked] if any(row.value(name) is not None for row in records.rows))
        return next(known, next(iter(names), ""))

    return records.once("main metric", found)


def one_run(records: StudyRecords, variant: int, run_id: str) -> StudyRecords:
    """Return the study as if it were of this run alone, for the report's functions."""
    rows = [replace(row, variant=0) for row in records.by_variant[variant] if row.id == run_id][:1]
    return _only(records, [variant], rows)


def some_variants(records: StudyRecords, chosen: list[int]) -> StudyRecords:
    """Return the study as if it had these variants alone."""
    at = {index: new for new, index in enumerate(chosen)}
    return _only(records, chosen, [replace(row, variant=new) for index, new in at.items() for row in records.by_variant[index]])


def _only(records: StudyRecords, chosen: list[int], rows: list[Row]) -> StudyRecords:
    plan = replace(
        records.plan,
        variants=tuple(records.variants[index] for index in chosen),
        seeds=tuple(dict.fromkeys(row.seed for row in rows)),
        runs=tuple(PlannedRun(row.variant, row.seed, row.id) for row in rows),
    )
    return StudyRecords(records.results, plan, rows, trust=records.trust)
