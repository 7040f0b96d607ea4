"""Where the runs of a sweep come from, where they run, and what every way of running them does alike."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from recstudy.cluster.view import View
from recstudy.programs.settings import Place
from recstudy.programs.trial import Trial, Work
from recstudy.records import Results, Stopped, write_record
from recstudy.study.budget import Meter
from recstudy.study.plan import Plan, Run
from recstudy.study.record import resumed

if TYPE_CHECKING:
    from recstudy.study.until import Until

Outcome = dict[str, Any]
SAME = 3  # runs that fail with one and the same error before any succeeds: the rest would too


@dataclass(frozen=True)
class Where:
    """Where a study runs; nothing here decides a number."""

    address: str | None = None
    data: Path = Path("data")
    download: bool = False
    commit: str | None = None  # of the study's repository
    dirty: bool = False
    recstudy: str = ""  # its commit, where that is of another repository
    log: tuple[str, ...] = ()  # by which of Ray's loggers, see `trackers.py`
    log_losses: bool = False  # of updates
    alone: bool = False  # without Ray, one run after another in this process
    files: dict[str, str] = field(default_factory=dict)  # the SHA-256 of each user file, by path


class Pruning(Protocol):
    """Stops runs early."""

    name: str

    def stops(self, run_id: str, line: Outcome) -> bool:
        """Return whether a run is stopped after this epoch."""


@dataclass
class Running(ABC):
    """A study's or a search's way of running runs; `errors` and `succeeded` tell how it goes.

    Args:
        name: of the study.
        results: where the records are written.
        where: cluster and data.
        view: is told what happens.
        work: what is done with a trial.
    """

    name: str
    results: Results
    where: Where
    view: View
    work: Work
    errors: list[str] = field(default_factory=list)
    succeeded: bool = False

    @abstractmethod
    def run(self, place: Place, source: "Source", pruning: Pruning | None = None) -> None:
        """Run what `source` gives until it gives no more, each after the other or side by side.

        One whose first runs all fail alike is given up. One that SIGTERM asks to end does so once its runs have left, each after
        its epoch, as by Ctrl-C.

        Args:
            place: of every run, with its GPUs decided.
            source: of runs; is told what becomes of them.
            pruning: may stop a run early by its epochs; such a run is recorded as stopped.
        """

    @property
    def hopeless(self) -> bool:
        """Whether the first runs all failed in the same way."""
        return not self.succeeded and len(self.errors) >= SAME and len(set(self.errors)) == 1

    def give_up(self) -> None:
        """Say once that it is hopeless, in place of as many failures as there are runs left."""
        if self.hopeless:
            self.view.say(f"Stopped: {SAME} runs failed in the same way and none succeeded: {self.errors[0]}")
            self.view.say("The others were not run. Fix the cause and rerun the same command.")

    def counted(self, run: Run, outcome: Outcome) -> None:
        """Count how a run ended."""
        if outcome["status"] == "failed":
            self.errors.append(str(outcome["error"]).replace(run.id, "ID"))  # a path in the run's own folder is no difference
        else:
            self.succeeded = True

    def stopped(self, run: Run, last: Outcome, by: str) -> Outcome:
        """Record that a pruner stopped a run after its `last` epoch, and return that outcome."""
        record = Stopped(epoch=last["epoch"], score=last.get(run.config.objective), by=by)
        folder = self.results.run(run.id)
        with self.results.changing(folder.stopped):
            write_record(folder.stopped, record)
        return {"status": "stopped", "epoch": record.epoch, "score": record.score}

    def next_of(self, source: "Source") -> Run | None:
        """Return the next run of a source."""
        return source.waiting.popleft() if source.waiting else source.next()

    def trial(self, run: Run, place: Place, scratch: str = "", code: str = "", modules: tuple[str, ...] = ()) -> Trial:
        """Return what a worker is given of a run."""
        return Trial(
            study=self.name,
            label=run.label,
            config={**run.config.values, "place": place.model_dump()},
            run_id=run.id,
            folder=str(self.results.run(run.id).path),
            data=str(self.where.data.absolute()),
            download=self.where.download,
            scratch=scratch,
            commit=self.where.commit,
            dirty=self.where.dirty,
            recstudy=self.where.recstudy,
            store=self.results.store,
            code=code,
            modules=modules,
            files=self.where.files,
        )


@dataclass
class Source:
    """Hands out runs, and hears of them: here a list of runs.

    Args:
        waiting: The next runs, in their order.
        meter: Of a budget in hours, which ends everything once it is spent.
        shared: Whether other processes take runs of the same list.
    """

    waiting: deque[Run]
    meter: Meter | None = None
    shared: bool = field(default=False, kw_only=True)

    @property
    def over(self) -> bool:
        """Whether everything ends at once; runs under way resume from their checkpoints another time."""
        return self.meter is not None and self.meter.is_spent

    def next(self) -> Run | None:
        """Return the next run, or None for the time being; asked again as long as any run is under way."""
        return None

    def started(self, run: Run) -> None:
        """Hear that its process has begun, for the first time or again."""
        if self.meter is not None:
            self.meter.started(run.id)

    def epoch(self, run: Run, line: Outcome) -> None:
        """Hear of an epoch, as Tune does."""

    def left(self, run: Run) -> None:
        """Hear that its process has left it without an outcome; it is begun again later."""
        if self.meter is not None:
            self.meter.ended(run.id)

    def ended(self, run: Run, outcome: Outcome) -> None:
        """Hear of its end, `{"status": "done" | "diverged" | "failed" | "stopped", ...}`."""
        self.left(run)


class Step(NamedTuple):
    """What a sweep runs next.

    Args:
        plan: The plan with these runs.
        sources: Resources of a run -> the runs that get these: a process that is reused serves runs of one size.
        pruning: What stops runs early.
    """

    plan: Plan
    sources: Mapping[Place, Source]
    pruning: Pruning | None = None


def study_steps(
    plan: Plan,
    runs: Sequence[Run],
    results: Results,
    view: View,
    again: Collection[str] = (),
    until: "Until | None" = None,
    shared: bool = False,
) -> Iterator[Step]:
    """Yield the unfinished runs of a study, and with `until` further blocks of seeds, each after the one before has ended."""
    if until:
        plan = resumed(plan, results)  # a driver for which this one has waited may have gone on with it
        runs = plan.runs
    meter = until.meter if until else None
    todo = missing(runs, results, again)
    view.planned(runs, todo)
    while True:
        queues: dict[Place, deque[Run]] = {}
        for run in [] if meter and meter.is_spent else todo:
            queues.setdefault(run.config.place, deque()).append(run)
        yield Step(plan, {place: Source(queue, meter, shared=shared) for place, queue in queues.items()})
        further = until.further(plan, results) if until else None
        if further is None:
            return
        known, plan = {run.id for run in plan.runs}, further
        block = [run for run in plan.runs if run.id not in known]
        todo = missing(block, results)
        view.extended(block, todo)


def missing(runs: Iterable[Run], results: Results, again: Collection[str] = ()) -> list[Run]:
    """Return each run without a result or with an id of `again`, once."""
    unique = {run.id: run for run in runs}
    states = results.states(unique)
    return [run for run_id, run in unique.items() if states.get(run_id) != "done" or run_id in again]
