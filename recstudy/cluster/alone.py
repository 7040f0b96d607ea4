"""Runs without Ray: one after another, in this process. For a host that has no Ray, and to look into a run with a debugger.

Records, ids, checkpoints and what SIGTERM does are those of a sweep on Ray. What a process of its own gives a run is not there: a
run that hangs, is killed or finds no memory ends the command, and the same command goes on from its checkpoint.

Any number of processes, such as the tasks of an array job, share the runs of a study: each takes the next run that no other
process has locked or finished. A process ends when nothing is left to take, so that no node waits for the last runs of others.
"""

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

from recstudy.cluster.sources import Outcome, Pruning, Running, Source
from recstudy.errors import ClusterError, StorageError
from recstudy.programs.base import Program
from recstudy.programs.run_folder import wait_until_free
from recstudy.programs.settings import Place
from recstudy.programs.trial import failed, warning
from recstudy.records import Failure, held
from recstudy.records.locks import holder_of
from recstudy.study.plan import Run
from recstudy.terminal import Draining


class _Enough(BaseException):
    """A pruner stops the run; no error, so that nothing between takes it for one."""


def here(place: Place, program: Program) -> Place:
    """Return `place` as this process has it: one worker, with a GPU where the program sees one.

    Raises:
        ClusterError: it asks for several workers, or for a GPU that is not there.
    """
    if place.workers_per_run > 1 or place.trainer == "train":
        raise ClusterError("--no-ray runs one worker, in this process: leave --workers-per-run and --trainer train out")
    program.check_device(place.device)
    sees_gpu = program.sees_gpu()
    gpus = float(sees_gpu) if place.gpus_per_run is None else place.gpus_per_run
    if gpus and not sees_gpu:
        raise ClusterError(f"a run needs {gpus:g} GPU, but there is none on this machine. Leave --gpus-per-run out.")
    return place.model_copy(update={"gpus_per_run": gpus})


@dataclass
class Alone(Running):
    """Runs in this process, each after the other."""

    leaving: Draining = field(default_factory=Draining)
    locked: deque[tuple[Run, str]] = field(default_factory=deque)  # runs of other processes, and these processes
    failures: dict[str, int] = field(default_factory=dict)  # run id -> time of the failure that was recorded before we began

    def run(self, place: Place, source: Source, pruning: Pruning | None = None) -> None:
        if source.shared:
            self.failures = {run.id: time for run in source.waiting if (time := self._failure_time(run))}
        with self.leaving.on_sigterm():
            while not (self.leaving.asked or self.hopeless or source.over):
                if run := self._next(source):
                    self._one(run, place, source, pruning)
                else:
                    break
        self.give_up()
        if self.locked:
            self.view.left_to_others(list(self.locked))
            self.locked.clear()

    def _next(self, source: Source) -> Run | None:
        """Return the next run. Runs of other processes come last: shared ones if they are free by then, others once they are."""
        if source.shared:
            return self._next_free(source)
        run = self.next_of(source)
        while run is None and self.locked:
            run, holder = self.locked.popleft()
            self.view.waits(holder, str(run))
            try:
                wait_until_free(str(self.results.run(run.id).path), self.results.store)
            except StorageError as error:
                self._ended(run, failed(Failure(error_class="storage", error=str(error))), source)
                run = None
        return run

    def _next_free(self, source: Source) -> Run | None:
        """Return the next run that no other process has locked, finished or tried since this one began."""
        for _ in range(len(source.waiting) + len(self.locked)):
            run = source.waiting.popleft() if source.waiting else self.locked.popleft()[0]
            lock = self.results.run(run.id).lock
            if held(lock):
                self.locked.append((run, holder_of(lock)))
            elif self.results.state(run.id) == "done" or self._failure_time(run) != self.failures.get(run.id, 0):
                self.view.ended_elsewhere(run)
            else:
                return run
        return None

    def _failure_time(self, run: Run) -> int:
        """Return when the failure of a run was recorded, in nanoseconds; 0 if it has none."""
        with suppress(FileNotFoundError):
            return self.results.run(run.id).failure.stat().st_mtime_ns
        return 0

    def _one(self, run: Run, place: Place, source: Source, pruning: Pruning | None) -> None:
        said: Outcome = {}

        def report(line: Outcome) -> None:
            for text in line.pop("warnings", ()):
                self.view.warned(run, text)
            if "status" in line:
                return
            said.update(line)
            self.view.epoch(run, line)
            source.epoch(run, line)
            if pruning is not None and pruning.stops(run.id, line):
                raise _Enough

        self.view.started(run)
        source.started(run)
        with warning(report) as tell:
            try:
                outcome = self.work(self.trial(run, place), tell, lambda: self.leaving.asked)
            except _Enough:
                assert pruning is not None
                outcome = self.stopped(run, said, pruning.name)
            tell({"status": outcome["status"]})  # what was warned of behind the last epoch
        if outcome["status"] in ("held", "drained"):
            self.view.left(run)
            source.left(run)
        if outcome["status"] == "held":
            self.locked.append((run, outcome["by"]))
            self.view.put_off(run, outcome["by"])
        elif outcome["status"] != "drained":
            self._ended(run, outcome, source)

    def _ended(self, run: Run, outcome: Outcome, source: Source) -> None:
        self.results.pull(run.id)
        self.counted(run, outcome)
        self.view.ended(run, outcome)
        source.ended(run, outcome)
