"""Where the runs of a sweep come from, where they run, and what every way of running them does alike."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from recstudy.cluster.view import Listener, Outcome, View
from recstudy.programs.run_folder import is_free
from recstudy.programs.settings import Resources
from recstudy.programs.trial import Trial, Work
from recstudy.records import Results, Stopped, write_record
from recstudy.study.budget import Meter
from recstudy.study.plan import Plan, Run
from recstudy.study.record import resumed
from recstudy.terminal import Draining

if TYPE_CHECKING:
    from recstudy.cluster.searching import PrunedBy
    from recstudy.study.until import Until

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


@dataclass
class Running(ABC):
    """A study's or a search's way of running runs, and the account of them.

    Args:
        name: of the study.
        results: where the records are written.
        where: cluster and data.
        view: is told what happens.
        work: what is done with a trial.
        trackers: are told the same of each run.

    Attributes:
        errors: Of failed runs.
        succeeded: Whether any run has ended without a failure.
    """

    name: str
    results: Results
    where: Where
    view: View
    work: Work
    trackers: list[Listener] = field(default_factory=list)
    leaving: Draining = field(default_factory=Draining)
    errors: list[str] = field(default_factory=list)
    succeeded: bool = False

    @abstractmethod
    def run(self, resources: Resources, source: "Source", pruning: "PrunedBy | None" = None) -> None:
        """Run what `source` gives until it gives no more, each after the other or side by side.

        If the first runs all fail alike, the others are given up. SIGTERM ends it once its runs have left,
        each after its epoch, as Ctrl-C would.

        Args:
            resources: of every run, with its GPUs decided.
            source: of runs; is told what becomes of them.
            pruning: may stop a run early by its epochs; such a run is recorded as stopped.
        """

    def begin(self, resources: Resources, source: "Source", pruning: "PrunedBy | None" = None) -> None:
        """Take the runs of a source from now on."""
        self.resources, self.source, self.pruning = resources, source, pruning
        if source.meter is not None:
            source.meter.gpus = (resources.gpus or 0) * resources.workers
        self.listeners: list[Listener] = [self.view, source, *self.trackers]
        self.runs: dict[str, Run] = {}  # under way
        # runs that other processes work on, and these processes
        self.blocked: dict[str, tuple[Run, str]] = {}
        self.announced: set[str] = set()  # blocked runs whose wait was announced
        self.starved: list[Run] = []  # runs that found no memory

    def take(self) -> Run | None:
        """Return the run that begins next, or None for the time being. Blocked runs come last, once they are
        free.
        """
        if self.leaving.is_requested:
            return None
        run = self.source.waiting.popleft() if self.source.waiting else self.source.next()
        if run is None:
            store = self.results.store
            run = next(
                (
                    run
                    for run, _ in self.blocked.values()
                    if is_free(str(self.results.run(run.id).path), store)
                ),
                None,
            )
        if run is not None:
            self.blocked.pop(run.id, None)
            self.runs[run.id] = run
        elif not (self.runs or self.source.shared):  # nothing else is left to do
            for blocked, holder in self.blocked.values():
                if blocked.id not in self.announced:
                    self.view.waits(holder, str(blocked))
            self.announced = set(self.blocked)
        return run

    def started(self, run: Run) -> None:
        for listener in self.listeners:
            listener.started(run)

    def heard(self, run: Run, line: Outcome) -> None:
        """Pass on what a run reports: an epoch, or how it has ended."""
        for text in line.get("warnings", ()):
            self.view.say(f"{run}: warning: {text}")
        status = line.get("status")
        if status is None:
            for listener in self.listeners:
                listener.epoch(run, line)
        elif status in ("drained", "held"):
            self._left(run, line)
        else:
            self._ended(run, line)

    def _left(self, run: Run, line: Outcome) -> None:
        del self.runs[run.id]
        for listener in self.listeners:
            listener.left(run)
        if line["status"] == "drained":  # its node is wanted back: it resumes from its checkpoint elsewhere
            self.source.waiting.append(run)
            return
        self.blocked[run.id] = run, line["by"]
        self.announced.discard(run.id)
        if not self.source.shared:
            self.view.say(f"{run}: {line['by']} works on it; it is put off, and the others go first")

    def _ended(self, run: Run, outcome: Outcome) -> None:
        self.runs.pop(run.id, None)
        self.results.pull(run.id)
        if outcome["status"] != "failed":
            self.succeeded = True
        else:
            # a path in the run's own folder is no difference
            self.errors.append(str(outcome["error"]).replace(run.id, "ID"))
            if outcome.get("class") == "out of memory":
                self.starved.append(run)
        for listener in self.listeners:
            listener.ended(run, outcome)

    def is_pruned(self, run_id: str, line: Outcome) -> bool:
        """Return whether a pruner stops a run after this epoch."""
        return self.pruning is not None and self.pruning.stops(run_id, line)

    def stop(self, run: Run, last: Outcome) -> None:
        """Record that a pruner, or else the end of the sweep, has stopped a run after its `last` epoch."""
        by = self.pruning.name if self.pruning else ""
        record = Stopped(epoch=last["epoch"], score=last.get(run.config.objective), by=by)
        folder = self.results.run(run.id)
        with self.results.changing(folder.stopped):
            write_record(folder.stopped, record)
        self.heard(run, {"status": "stopped", "epoch": record.epoch, "score": record.score})

    @property
    def hopeless(self) -> bool:
        """Whether the first runs all failed in the same way."""
        return not self.succeeded and len(self.errors) >= SAME and len(set(self.errors)) == 1

    def give_up(self) -> None:
        """Say once that it is hopeless, in place of as many failures as there are runs left."""
        if self.hopeless:
            self.view.say(f"Stopped: {SAME} runs failed in the same way and none succeeded: {self.errors[0]}")
            self.view.say("The others were not run. Fix the cause and rerun the same command.")

    def trial(self, run: Run) -> Trial:
        """Return what a worker is given of a run."""
        where = self.where
        return Trial(
            study=self.name,
            label=run.label,
            config={**run.config.values, "resources": self.resources.model_dump()},
            run_id=run.id,
            folder=str(self.results.run(run.id).path),
            data=str(where.data.absolute()),
            download=where.download,
            scratch="",
            commit=where.commit,
            dirty=where.dirty,
            recstudy=where.recstudy,
            store=self.results.store,
            files=where.files,
        )


@dataclass
class Source(Listener):
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
        if self.meter is not None:
            self.meter.start_run(run.id)

    def left(self, run: Run) -> None:
        if self.meter is not None:
            self.meter.end_run(run.id)

    def ended(self, run: Run, outcome: Outcome) -> None:
        self.left(run)


class Step(NamedTuple):
    """What a sweep runs next.

    Args:
        plan: The plan with these runs.
        sources: Resources of a run -> the runs that get these: a process that is reused serves runs of one
            size.
        pruning: What stops runs early.
    """

    plan: Plan
    sources: Mapping[Resources, Source]
    pruning: "PrunedBy | None" = None


def study_steps(
    plan: Plan,
    runs: Sequence[Run],
    results: Results,
    view: View,
    again: Collection[str] = (),
    until: "Until | None" = None,
    shared: bool = False,
) -> Iterator[Step]:
    """Yield the unfinished runs of a study, and with `until` further blocks of seeds, each after the one
    before has ended.
    """
    if until:
        plan = resumed(plan, results)  # a driver for which this one has waited may have gone on with it
        runs = plan.runs
    meter = until.meter if until else None
    todo = missing(runs, results, again)
    view.planned(runs, todo)
    while True:
        sources: dict[Resources, Source] = {}
        for run in [] if meter and meter.is_spent else todo:
            sources.setdefault(run.config.resources, Source(deque(), meter, shared=shared)).waiting.append(
                run
            )
        yield Step(plan, sources)
        further = until.next_plan(plan, results) if until else None
        if further is None:
            return
        known, plan = {run.id for run in plan.runs}, further
        block = [run for run in plan.runs if run.id not in known]
        todo = missing(block, results)
        view.extended(block, todo)


def missing(
    runs: Iterable[Run], results: Results, again: Collection[str] = (), ended: Collection[str] = ("done",)
) -> list[Run]:
    """Return each run once that is in none of the `ended` states, or whose id is one of `again`."""
    unique = {run.id: run for run in runs}
    states = results.states(unique)
    return [run for run_id, run in unique.items() if states.get(run_id) not in ended or run_id in again]
