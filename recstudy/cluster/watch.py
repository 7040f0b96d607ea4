"""What Ray Tune calls while a sweep runs: it is handed one run after another, told what is put off, and when all is over."""

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.search import Searcher

from recstudy.cluster.sources import Outcome, Pruning, Running, Source
from recstudy.cluster.trackers import Logger, Metrics
from recstudy.cluster.worker import LeaveRequests
from recstudy.errors import StorageError
from recstudy.programs.run_folder import wait_until_free
from recstudy.programs.trial import Trial, failed
from recstudy.records import Failure
from recstudy.study.plan import Run

KEPT_TRIALS = 100  # of those that have ended, which Tune may still ask something


class OnRay(Running):
    """What a watch needs of a sweep beside that."""

    metrics: Metrics
    listeners: list[Metrics | Logger]
    leaving: LeaveRequests


class TuneCallback(tune.Callback):
    """Tells the sweep what Tune sees, and records what a run's own process did not live to record."""

    def __init__(self, sweep: OnRay, source: Source, pruning: Pruning | None) -> None:
        self.sweep, self.source, self.pruning = sweep, source, pruning
        self.runs: dict[str, Run] = {}  # under way
        # Runs that another study, or a process of before, works on: waited for in the driver, where that takes no worker.
        self.blocked: dict[str, tuple[Run, str]] = {}  # with who works on them
        self.announced: set[str] = set()  # those of them whose wait was told
        self.freed: deque[tuple[Run, str]] = deque()  # with the error of a wait in vain
        self.starved: list[Run] = []  # found no memory
        self.finished: deque[TuneTrial] = deque()  # the last trials that have ended
        self.told = (sweep.view, source, *sweep.listeners)

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def next(self) -> Run | None:
        """Return the run that is begun next, or None for the time being."""
        if self.sweep.leaving.asked:
            return None
        while self.freed:
            run, error = self.freed.popleft()
            del self.blocked[run.id]
            self.announced.discard(run.id)
            if error:
                self._ended(run, failed(Failure(error_class="storage", error=error)))
            else:
                self.source.waiting.append(run)
        following = self.sweep.next_of(self.source)
        if following is not None:
            self.runs[following.id] = following
        elif not self.runs:  # nothing else is left to do
            for run, holder in self.blocked.values():
                if run.id not in self.announced:
                    self.sweep.view.waits(holder, str(run))
            self.announced = set(self.blocked)
        return following

    @property
    def more(self) -> bool:
        """Whether there may be another one later."""
        return bool(self.runs or (self.blocked and not self.sweep.leaving.asked))

    def on_step_begin(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        if self.sweep.leaving.tell():
            runs = len(self.runs)
            each = "The run under way ends after its epoch" if runs == 1 else f"The {runs} runs under way end after their epochs"
            self.sweep.view.say(f"{each}, with a checkpoint. Ctrl-C ends at once.")
        if self.sweep.where.address:  # a cluster of our own keeps its one node
            self.sweep.leaving.leave_draining_nodes()

    def on_trial_start(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        if run := self._run(trial):
            for listener in self.told:
                listener.started(run)

    def on_trial_result(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, result: Outcome, **info: Any) -> None:
        run = self._run(trial)
        if run is None:
            return
        for text in result.get("warnings", ()):
            self.sweep.view.warned(run, text)
        status = result.get("status")
        if status in ("drained", "held"):
            self._left(run)
        if status == "drained":  # its node is wanted back, and it goes on from its checkpoint elsewhere
            self.source.waiting.append(run)
        elif status == "held":
            self.blocked[run.id] = run, result["by"]
            self.sweep.view.put_off(run, result["by"])
            threading.Thread(target=self._wait, args=(run,), daemon=True).start()
        elif status is not None:
            self._ended(run, result)
        else:
            for listener in self.told:
                listener.epoch(run, result)

    def on_trial_complete(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        run, last = self._run(trial), trial.last_result
        if run is not None and "status" not in last:  # no outcome came: the scheduler stopped it
            self._ended(run, self.sweep.stopped(run, last, self.pruning.name if self.pruning else ""))

        self._forget(trial)

    def on_step_end(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        self.sweep.metrics.show()

    def on_trial_recover(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        if run := self._run(trial):
            goes_on = "its process was lost, and another one goes on from its checkpoint, if it had one"
            self.sweep.view.say(f"{run}: {goes_on}: {_lost(trial).error}")

    def on_trial_error(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        run = self._run(trial)
        if run is None:
            return
        folder = self.sweep.results.pull(run.id).run(run.id)
        failure = folder.last_failure
        if failure is None or failure.attempts != folder.tries:  # its own process did not live to tell
            failure = _lost(trial)
            if not folder.finished:
                with self.sweep.results.changing(folder.failure):
                    folder.fail(failure)
        self._ended(run, failed(failure))

    def _forget(self, trial: TuneTrial) -> None:
        """Free what Tune keeps of trials that have ended, once it has let go of them.

        Statistics of each number that a trial has reported are 20 of the 29 KB of a trial: 2 GB for 100,000 runs.
        """
        self.finished.append(trial)
        if len(self.finished) > KEPT_TRIALS:
            old = self.finished.popleft()
            old.metric_analysis.clear()
            old.run_metadata.metric_n_steps.clear()
            old.run_metadata.last_result = {}
            old.config = old.evaluated_params = {}

    def _wait(self, run: Run) -> None:
        error = ""
        try:
            wait_until_free(str(self.sweep.results.run(run.id).path), self.sweep.results.store)
        except StorageError as vain:
            error = str(vain)
        finally:
            self.freed.append((run, error))

    def _left(self, run: Run) -> None:
        del self.runs[run.id]
        for listener in (self.sweep.view, self.source, self.sweep.metrics):
            listener.left(run)

    def _ended(self, run: Run, outcome: Outcome) -> None:
        self.runs.pop(run.id, None)
        self.sweep.results.pull(run.id)
        if outcome["status"] == "failed":
            self.starved += [run] if outcome.get("class") == "out of memory" else []
        self.sweep.counted(run, outcome)
        for listener in self.told:
            listener.ended(run, outcome)

    def _run(self, trial: TuneTrial) -> Run | None:
        """Whose trial it is; None where its outcome is known: its process died behind it, and Tune has begun another one."""
        return self.runs.get(trial.config["trial"].run_id)


class Supply(Searcher):
    """Hands Tune one run after another.

    Args:
        watch: knows which.
        trial: what Tune is handed of a run.
        at_once: says how many may be under way.
    """

    def __init__(self, watch: TuneCallback, trial: Callable[[Run], Trial], at_once: Callable[[], int]) -> None:
        super().__init__()
        self.watch, self.trial, self.at_once = watch, trial, at_once

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune writes its own state to disk; it is never restored from there

    def suggest(self, trial_id: str) -> dict[str, Trial] | str | None:
        if len(self.watch.runs) >= self.at_once():
            return None
        run = self.watch.next()
        if run is not None:
            return {"trial": self.trial(run)}
        return None if self.watch.more else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        """Tell the watch."""

    def save(self, checkpoint_path: str) -> None:
        """See `__getstate__`."""

    def restore(self, checkpoint_path: str) -> None:
        """See `__getstate__`."""


class Over(tune.Stopper):
    """Ends everything at once."""

    def __init__(self, over: Callable[[], bool]) -> None:
        self.over = over

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __call__(self, trial_id: str, result: Outcome) -> bool:
        return False

    def stop_all(self) -> bool:
        return self.over()


def _lost(trial: TuneTrial) -> Failure:
    """Return why a trial's process ended, from what Ray says of it."""
    said = Path(trial.error_file).read_text(encoding="utf-8") if trial.error_file else ""
    reason = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "its process ended")
    low = "running low on memory" in said
    return Failure(
        error_class="out of memory" if low or "OutOfMemory" in said else "lost node",
        error="its node ran low on memory, and Ray ended its process" if low else reason,
        traceback=said,
    )
