"""Base classes of the execution of runs: the options, the sources of runs and the runner.

`recstudy.cluster.sweep` runs on Ray and `recstudy.cluster.without_ray` in this process.
"""

import shutil
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from recstudy.base.terminal import Draining
from recstudy.cluster.pruning import PrunedBy
from recstudy.cluster.view import Listener, Outcome, View
from recstudy.programs.attempt import CodeVersion, Trial
from recstudy.programs.run_folder import is_free, locked_run_folder
from recstudy.programs.settings import Resources
from recstudy.records import Results, Run, Stopped, write_record
from recstudy.records.locks import POLL, LockedError
from recstudy.study.budget import Meter
from recstudy.study.plan import Plan
from recstudy.study.record import resumed

if TYPE_CHECKING:
    from recstudy.study.until import Until

# If so many runs of a variant fail in a row with the same error, its other runs would fail too.
MAX_SAME_FAILURES = 3
FINAL_STATES = ("done", "stopped")  # trials of a search that are not repeated


@dataclass(frozen=True)
class RunOptions:
    """Options of the execution of a study. They do not affect its numbers.

    Args:
        address: The Ray cluster to join; None starts one on this machine.
        data: The folder with the data sets.
        download: Whether missing data sets are downloaded.
        version: The code version of the study.
        log: Names of Ray's loggers (see `trackers.py`).
        log_losses: Whether the loggers also get the losses of updates.
        without_ray: Execute one run after another in this process.
        files: The SHA-256 of each user file by path.
    """

    address: str | None = None
    data: Path = Path("data")
    download: bool = False
    version: CodeVersion = field(default_factory=CodeVersion)
    log: tuple[str, ...] = ()
    log_losses: bool = False
    without_ray: bool = False
    files: dict[str, str] = field(default_factory=dict)


@dataclass
class Runner(ABC):
    """Executes the runs of a study or a search, and counts their failures.

    Args:
        name: The name of the study.
        results: The results folder.
        options: Cluster, data and loggers.
        view: The display of progress.
        trackers: Loggers and metrics, which receive the same events as `view`.

    Attributes:
        errors: Variant -> the errors of its failed runs since one succeeded.
        succeeded: Whether any run of the study has ended without a failure, also in an earlier session.
        retries: Whether runs that run out of memory are retried alone at the end.
        pruned_ids: Ids of runs that a pruner has stopped and whose program's folders remain.
    """

    name: str
    results: Results
    options: RunOptions
    view: View
    trackers: list[Listener] = field(default_factory=list)
    draining: Draining = field(default_factory=Draining)
    errors: dict[int, list[str]] = field(default_factory=dict)
    succeeded: bool = False
    retries: bool = False
    pruned_ids: set[str] = field(default_factory=set)

    @abstractmethod
    def run(self, resources: Resources, source: "Source") -> None:
        """Execute the runs of `source` until it has no more.

        If several runs of a variant fail in a row with the same error, the rest of the variant is skipped. If
        the first runs of the study all do, all other runs are skipped.

        After the first SIGTERM, no further run starts. Each running one saves a checkpoint at the end of its
        epoch and ends. Ctrl-C and a second SIGTERM end the runs at once, which loses at most the epochs since
        the last checkpoint. In each case the method raises KeyboardInterrupt.

        Args:
            resources: The resources of each run, with the number of GPUs set.
            source: The source of the runs, which receives their events.
        """

    def begin(self, resources: Resources, source: "Source") -> None:
        """Start to take the runs of a source."""
        self.resources, self.source = resources, source
        if source.meter is not None:
            source.meter.gpus = (resources.gpus or 0) * resources.workers
        self.listeners: list[Listener] = [self.view, source, *self.trackers]
        self.runs: dict[str, Run] = {}  # running
        # runs that other processes have locked, and the names of these processes
        self.blocked: dict[str, tuple[Run, str]] = {}
        self.announced: set[str] = set()  # ids of blocked runs whose wait was printed
        self.starved: list[Run] = []  # runs that ran out of memory and are retried

    @property
    def is_starved(self) -> bool:
        """Whether the first runs all ran out of memory. The others then wait for the retries."""
        return self.retries and not self.succeeded and len(self.starved) >= MAX_SAME_FAILURES

    def take(self) -> Run | None:
        """Return the next run to start; None if no run can start now. Blocked runs come last."""
        if self.draining.is_requested or self.is_starved:
            return None
        run = self.source.waiting.popleft() if self.source.waiting else self.source.next()
        if run is None:
            for blocked, _ in self.blocked.values():
                if is_free(str(self.results.run(blocked.id).path), self.results.store):
                    run = blocked
                    break
        if run is not None:
            self.blocked.pop(run.id, None)
            self.runs[run.id] = run
        elif not (self.runs or self.source.shared):  # only blocked runs are left
            for blocked, holder in self.blocked.values():
                if blocked.id not in self.announced:
                    self.view.waits(holder, str(blocked))
            self.announced = set(self.blocked)
        return run

    def start(self, run: Run) -> None:
        for listener in self.listeners:
            listener.on_start(run)

    def on_report(self, run: Run, line: Outcome) -> None:
        """Pass a line of a run to the listeners: an epoch, or the outcome."""
        for text in line.get("warnings", ()):
            self.view.say(f"{run}: warning: {text}")
        status = line.get("status")
        if status is None:
            for listener in self.listeners:
                listener.on_epoch(run, line)
        elif status in ("drained", "held"):
            self._left(run, line)
        else:
            self._end(run, line)

    def _left(self, run: Run, line: Outcome) -> None:
        del self.runs[run.id]
        for listener in self.listeners:
            listener.on_leave(run)
        if line["status"] == "drained":  # its node is drained; it resumes from its checkpoint on another one
            self.source.waiting.append(run)
            return
        self.blocked[run.id] = run, line["by"]
        self.announced.discard(run.id)
        if not self.source.shared:
            self.view.say(f"{run}: locked by {line['by']}; other runs start first")

    def _end(self, run: Run, outcome: Outcome) -> None:
        self.runs.pop(run.id, None)
        self.results.pull(run.id)
        errors = self.errors.setdefault(run.variant, [])
        if outcome["status"] != "failed":
            self.succeeded = True
            errors.clear()
        elif self.retries and outcome.get("class") == "out of memory":
            self.starved.append(run)
        else:
            # paths in the run's folder must not make errors look different
            errors.append(str(outcome["error"]).replace(run.id, "ID"))
        for listener in self.listeners:
            listener.on_end(run, outcome)
        self.remove_pruned()
        if not _are_same(errors[-MAX_SAME_FAILURES:]) or self.is_hopeless:
            return
        if siblings := [sibling for sibling in self.source.waiting if sibling.variant == run.variant]:
            for sibling in siblings:
                self.source.waiting.remove(sibling)
                self.view.left_out(sibling)
            self.view.say(
                f"{run.label}: {MAX_SAME_FAILURES} runs failed with the same error, so its other"
                f" {len(siblings)} were skipped."
            )

    def is_pruned(self, run_id: str, line: Outcome) -> bool:
        """Return whether the pruner stops a run after this epoch."""
        if self.source.pruner is None or not self.source.pruner.stops(run_id, line):
            return False
        self.pruned_ids.add(run_id)
        return True

    def remove_pruned(self, patience_s: float = 0) -> None:
        """Remove the program's folders of pruned runs whose processes end within this time."""
        deadline = time.monotonic() + patience_s
        while self.pruned_ids:
            for run_id in [*self.pruned_ids]:
                place = str(self.results.run(run_id).path), self.results.store
                with suppress(LockedError), locked_run_folder(*place, wait=False) as folder:
                    shutil.rmtree(folder.program_folder, ignore_errors=True)
                    self.pruned_ids.remove(run_id)
            if time.monotonic() >= deadline:
                return
            time.sleep(POLL)

    def stop(self, run: Run, last: Outcome) -> None:
        """Record that the pruner or the end of the sweep has stopped a run after its `last` epoch."""
        pruner = self.source.pruner.name if self.source.pruner else ""
        record = Stopped(epoch=last["epoch"], score=last.get(run.config.objective), by=pruner)
        folder = self.results.run(run.id)
        with self.results.changing(folder.stopped):
            write_record(folder.stopped, record)
        self.on_report(run, {"status": "stopped", "epoch": record.epoch, "score": record.score})

    @property
    def is_hopeless(self) -> bool:
        """Whether the first runs of the study all failed with the same error."""
        return not self.succeeded and _are_same([*chain(*self.errors.values())])

    def give_up(self) -> None:
        """If the study is hopeless, print the error once."""
        if self.is_hopeless:
            error = next(chain(*self.errors.values()))
            self.view.say(
                f"Stopped: {MAX_SAME_FAILURES} runs failed with the same error, none succeeded: {error}"
            )
            self.view.say("The other runs were skipped. Fix the cause and rerun the same command.")

    def trial(self, run: Run) -> Trial:
        """Return the trial of a run, the input of its worker."""
        options = self.options
        return Trial(
            config={**run.config.values, "resources": self.resources.model_dump()},
            run_id=run.id,
            folder=str(self.results.run(run.id).path),
            data=str(options.data.absolute()),
            download=options.download,
            version=options.version,
            store=self.results.store,
            files=options.files,
            keeps_files=self.source.keeps_files,
        )


@dataclass
class Source(Listener):
    """A list of runs to execute.

    Args:
        waiting: The next runs in order.
        meter: The meter of a budget in hours. All runs end when it is spent.
        shared: Whether other processes take runs from the same list.
        pruner: Stops runs early based on their epochs. These runs are recorded as stopped.
        keeps_files: Whether the folders of the runs' programs stay.
    """

    waiting: deque[Run]
    meter: Meter | None = None
    shared: bool = field(default=False, kw_only=True)
    pruner: PrunedBy | None = field(default=None, kw_only=True)
    keeps_files: bool = field(default=False, kw_only=True)

    @property
    def is_over(self) -> bool:
        """Whether all runs must end now. They can be resumed from their checkpoints later."""
        return self.meter is not None and self.meter.is_spent

    def next(self) -> Run | None:
        """Return the next run; None if there is none now. Called again while any run is running."""
        return None

    def retry(self, runs: Sequence[Run]) -> None:
        """Add failed runs again, before the others."""
        self.waiting.extendleft(reversed(runs))

    def on_start(self, run: Run) -> None:
        if self.meter is not None:
            self.meter.start_run(run.id)

    def on_leave(self, run: Run) -> None:
        if self.meter is not None:
            self.meter.end_run(run.id)

    def on_end(self, run: Run, outcome: Outcome) -> None:
        self.on_leave(run)


class SweepStep(NamedTuple):
    """The next runs of a sweep.

    Args:
        plan: The plan with these runs.
        sources: The runs by resources, because a reused process serves runs with equal resources.
    """

    plan: Plan
    sources: Mapping[Resources, Source]


def study_steps(
    plan: Plan,
    runs: Sequence[Run],
    results: Results,
    view: View,
    rerun_ids: Collection[str],
    until: "Until | None",
    shared: bool,
) -> Iterator[SweepStep]:
    """Yield the unfinished runs of a study. With `until`, then yield blocks of additional seeds."""
    if until:
        plan = resumed(plan, results)  # an earlier driver may have added blocks while this one waited
        runs = plan.runs
    meter = until.meter if until else None
    if meter:
        meter.start()  # the wait for the study's lock does not count
    unfinished = unfinished_runs(runs, results, rerun_ids)
    view.planned(runs, unfinished)
    while True:
        sources: dict[Resources, Source] = {}
        for run in [] if meter and meter.is_spent else unfinished:
            source = sources.setdefault(run.config.resources, Source(deque(), meter, shared=shared))
            source.waiting.append(run)
        yield SweepStep(plan, sources)
        extended_plan = until.next_plan(plan, results) if until else None
        if extended_plan is None:
            return
        known_ids, plan = {run.id for run in plan.runs}, extended_plan
        block = [run for run in plan.runs if run.id not in known_ids]
        unfinished = unfinished_runs(block, results)
        view.extended(block, unfinished, until.open_lines if until else ())


def unfinished_runs(
    runs: Iterable[Run],
    results: Results,
    rerun_ids: Collection[str] = (),
    final_states: Collection[str] = ("done",),
) -> list[Run]:
    """Return the runs without duplicates that are not in a final state, or whose id is in `rerun_ids`.

    Runs that have failed come last, so that they block no other run.
    """
    unique = {run.id: run for run in runs}
    states = results.states(unique)
    unfinished = [
        run for run_id, run in unique.items() if states.get(run_id) not in final_states or run_id in rerun_ids
    ]
    return sorted(unfinished, key=lambda run: states.get(run.id) == "failed")


def _are_same(errors: Sequence[str]) -> bool:
    return len(errors) >= MAX_SAME_FAILURES and len(set(errors)) == 1
