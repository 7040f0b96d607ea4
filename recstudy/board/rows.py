"""A study's records, kept as its runs change: the rows that `load_study` reads, each made again only when its run changed."""

from dataclasses import replace

from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.board.plans import Planned, Study
from recstudy.board.watch import Watch
from recstudy.errors import ConfigError, choices, nearest
from recstudy.records.study_schema import PlannedRun, PlanRecord


class Kept:
    """The records of the studies that somebody looked at.

    Args:
        watch: the folder.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self._kept: dict[Study, tuple[Planned, int, StudyRecords]] = {}

    def records(self, study: Study) -> StudyRecords:
        """The study as of the last look: the same object until something in it changes.

        Raises:
            ConfigError: there is no such study, or its plan cannot be read.
        """
        planned = self._planned(study)
        known, version, records = self._kept.get(study, (None, -1, None))
        if known is not planned or records is None:
            records = self._new(study, planned)
        elif version < self.watch.version:
            records = self._again(study, records, version)
        self._kept[study] = planned, self.watch.version, records
        return records

    def _planned(self, study: Study) -> Planned:
        planned = self.watch.studies.get(study)
        if planned is None:
            known = [f"{name} ({preset})" for name, preset in self.watch.studies]
            here = f"there are {choices(known)}" if known else "there is none yet"
            raise ConfigError(f"no study {study[0]!r} with the preset {study[1]!r}: {here}.{nearest(' '.join(study), known)}")
        if planned.error:
            raise ConfigError(planned.error)
        return planned

    def _new(self, study: Study, planned: Planned) -> StudyRecords:
        return StudyRecords(self.watch.results, planned.plan, [self._row(planned.plan, run) for run in planned.plan.runs])

    def _again(self, study: Study, records: StudyRecords, version: int) -> StudyRecords:
        """The same object, or one with new rows for the runs that changed since this version."""
        runs = self.watch.runs
        new = {
            at: self._row(records.plan, PlannedRun(row.variant, row.seed, row.id))
            for at, row in enumerate(records.rows)
            if (seen := runs.get(row.id)) is None or seen.version > version
        }
        if all(records.rows[at] == row for at, row in new.items()):
            return records
        return replace(records, rows=[new.get(at, row) for at, row in enumerate(records.rows)])

    def _row(self, plan: PlanRecord, run: PlannedRun) -> Row:
        return Row.of(self.watch.outcome(run.id), run.variant, plan.variants[run.variant], run.seed, run.id)


def one_run(records: StudyRecords, variant: int, run_id: str) -> StudyRecords:
    """The study as if it were of this run alone, for the report's functions."""
    rows = [replace(row, variant=0) for row in records.by_variant[variant] if row.id == run_id][:1]
    return _only(records, [variant], rows)


def some_variants(records: StudyRecords, chosen: list[int]) -> StudyRecords:
    """The study as if it had these variants alone."""
    at = {index: new for new, index in enumerate(chosen)}
    return _only(records, chosen, [replace(row, variant=new) for index, new in at.items() for row in records.by_variant[index]])


def _only(records: StudyRecords, chosen: list[int], rows: list[Row]) -> StudyRecords:
    plan = replace(
        records.plan,
        variants=tuple(records.variants[index] for index in chosen),
        seeds=tuple(dict.fromkeys(row.seed for row in rows)),
        runs=tuple(PlannedRun(row.variant, row.seed, row.id) for row in rows),
    )
    return StudyRecords(records.results, plan, rows)
