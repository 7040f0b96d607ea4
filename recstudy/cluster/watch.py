"""What Ray Tune calls while a sweep runs: it is handed one run after another, told what is put off, and when all is over."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import tune
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.search import Searcher

from recstudy.cluster.view import Outcome
from recstudy.programs.trial import Trial, failed
from recstudy.records import Failure
from recstudy.study.plan import Run

if TYPE_CHECKING:
    from recstudy.cluster.sweep import Sweep

KEPT_TRIALS = 100  # of those that have ended, which Tune may still ask something


class TuneCallback(tune.Callback, tune.Stopper):
    """Tells the sweep what Tune sees, stops what the sweep stops, and records failures that a run's process could not record."""

    def __init__(self, sweep: "Sweep") -> None:
        self.sweep = sweep
        self.finished: deque[TuneTrial] = deque()  # the last trials that have ended

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __call__(self, trial_id: str, result: Outcome) -> bool:
        """Return whether a pruner stops this trial."""
        return self.sweep.is_pruned(result["config"]["trial"].run_id, result)

    def stop_all(self) -> bool:
        return self.sweep.hopeless or self.sweep.source.over

    def on_step_begin(self, **info: Any) -> None:
        if self.sweep.leaving.tell():
            runs = len(self.sweep.runs)
            each = "The run under way ends after its epoch" if runs == 1 else f"The {runs} runs under way end after their epochs"
            self.sweep.view.say(f"{each}, with a checkpoint. Ctrl-C ends at once.")
        if self.sweep.where.address:  # a cluster of our own keeps its one node
            self.sweep.leaving.leave_draining_nodes()

    def on_trial_start(self, trial: TuneTrial, **info: Any) -> None:
        if run := self._run(trial):
            self.sweep.started(run)

    def on_trial_result(self, trial: TuneTrial, result: Outcome, **info: Any) -> None:
        if run := self._run(trial):
            self.sweep.heard(run, result)

    def on_trial_complete(self, trial: TuneTrial, **info: Any) -> None:
        run, last = self._run(trial), trial.last_result
        if run and "status" not in last:  # it was stopped before its end
            self.sweep.stop(run, last)
        self._forget(trial)

    def on_step_end(self, **info: Any) -> None:
        self.sweep.metrics.show()

    def on_trial_recover(self, trial: TuneTrial, **info: Any) -> None:
        if run := self._run(trial):
            lost = "its process was lost, and another one goes on from its checkpoint, if it had one"
            self.sweep.view.say(f"{run}: {lost}: {_lost(trial).error}")

    def on_trial_error(self, trial: TuneTrial, **info: Any) -> None:
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
        self.sweep.heard(run, failed(failure))

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

    def _run(self, trial: TuneTrial) -> Run | None:
        """Whose trial it is; None where its outcome is known: its process died behind it, and Tune has begun another one."""
        return self.sweep.runs.get(trial.config["trial"].run_id)


class Supply(Searcher):
    """Hands Tune one run after another.

    Args:
        sweep: knows which.
        trial: what Tune is handed of a run.
        at_once: says how many may be under way.
    """

    def __init__(self, sweep: "Sweep", trial: Callable[[Run], Trial], at_once: Callable[[], int]) -> None:
        super().__init__()
        self.sweep, self.trial, self.at_once = sweep, trial, at_once

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune writes its own state to disk; it is never restored from there

    def suggest(self, trial_id: str) -> dict[str, Trial] | str | None:
        if len(self.sweep.runs) >= self.at_once():
            return None
        if run := self.sweep.take():
            return {"trial": self.trial(run)}
        may_follow = self.sweep.runs or (self.sweep.blocked and not self.sweep.leaving.asked)
        return None if may_follow else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        """See `TuneCallback`."""

    def save(self, checkpoint_path: str) -> None:
        """See `__getstate__`."""


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
