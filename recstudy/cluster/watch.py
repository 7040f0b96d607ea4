"""What Ray Tune calls while a sweep runs: it is handed one run after another, told what is put off, and when all is over."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.search import Searcher

from recstudy.cluster.sources import Outcome, Pruning, Running, Source
from recstudy.cluster.trackers import Logger, Metrics
from recstudy.cluster.view import View
from recstudy.cluster.worker import LeaveRequests
from recstudy.errors import StorageError
from recstudy.records import Failure, Results
from recstudy.study.study import Run
from recstudy.train.run_folder import wait_until_free
from recstudy.train.work import Trial, failed


class OnRay(Running):
    """What a watch needs of a sweep beside that."""

    metrics: Metrics
    listeners: list[Metrics | Logger]
    leaving: LeaveRequests


class TuneCallback(tune.Callback):
    """Tells the sweep what Tune sees, and records what a run's own process did not live to record."""

    def __init__(self, sweep: OnRay, source: Source, pruning: Pruning | None) -> None:
        self.sweep, self.source = sweep, source
        self.stopped_by = pruning.name if pruning else ""
        self.runs: dict[str, Run] = {}  # under way
        self.held = BlockedRuns(sweep.results, sweep.view)
        self.starved: list[Run] = []  # found no memory
        self.told = (sweep.view, source, *sweep.listeners)

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def next(self) -> Run | None:
        """Return the run that is begun next, or None for the time being."""
        if self.sweep.leaving.asked:
            return None
        for run, vain in self.held.free():
            if vain is None:
                self.source.waiting.append(run)
            else:
                self._ended(run, failed(Failure(error_class="storage", error=str(vain))))
        following = self.sweep.next_of(self.source)
        if following is not None:
            self.runs[following.id] = following
        elif not self.runs:
            self.held.tell()
        return following

    @property
    def more(self) -> bool:
        """Whether there may be another one later."""
        return bool(self.runs or (self.held and not self.sweep.leaving.asked))

    def on_step_begin(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        if self.sweep.leaving.tell():
            self.sweep.view.leaving(len(self.runs))
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
            self.held.add(run, result["by"])
        elif status is not None:
            self._ended(run, result)
        else:
            for listener in self.told:
                listener.epoch(run, result)

    def on_trial_complete(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        run, last = self._run(trial), trial.last_result
        if run is not None and "status" not in last:  # no outcome came: the scheduler stopped it
            self._ended(run, self.sweep.stopped(run, last, self.stopped_by))

    def on_step_end(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        self.sweep.metrics.show()

    def on_trial_recover(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        if run := self._run(trial):
            self.sweep.view.restarted(run, _lost(trial).error)

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
        return self.runs.get(_settings(trial).run_id)


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


def _settings(trial: TuneTrial) -> Trial:
    return trial.config["trial"]


class BlockedRuns:
    """Runs that another study, or a process of before, works on: waited for in the driver, where that takes no worker.

    False where nothing is put off.

    Args:
        results: with the runs.
        view: is told of each.
    """

    def __init__(self, results: Results, view: View) -> None:
        self.results, self.view = results, view
        self._waits: dict[str, tuple[Run, str]] = {}
        self._told: set[str] = set()
        self._over: deque[tuple[Run, StorageError | None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waits)

    def add(self, run: Run, holder: str) -> None:
        """Wait for `holder` to leave the run."""
        self._waits[run.id] = run, holder
        self.view.put_off(run, holder)
        threading.Thread(target=self._wait, args=(run,), daemon=True).start()

    def _wait(self, run: Run) -> None:
        vain = None
        try:
            wait_until_free(str(self.results.run(run.id).path), self.results.store)
        except StorageError as error:
            vain = error
        finally:
            self._over.append((run, vain))

    def free(self) -> Iterator[tuple[Run, StorageError | None]]:
        """Yield the runs that are waited for no more; with why, where that was in vain."""
        while self._over:
            run, vain = self._over.popleft()
            del self._waits[run.id]
            self._told.discard(run.id)
            yield run, vain

    def tell(self) -> None:
        """Say, once, as nothing else is left to do, what is waited for."""
        for run_id, (run, holder) in self._waits.items():
            if run_id not in self._told:
                self._told.add(run_id)
                self.view.waits(holder, f"{run.label}, seed {run.seed}")
