"""Runs on Ray Tune: sets up the tuner, hands out one run after another, and passes on what they report.

Tune schedules, restarts what was killed and reuses warm processes. Seeds, order, resume and progress are
ours.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import cloudpickle, tune
from ray.tune import CheckpointConfig, CLIReporter, FailureConfig, TuneConfig, Tuner
from ray.tune import RunConfig as TuneRunConfig
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.search import Searcher

from recstudy.cluster.nodes import ClusterCapacity, versions
from recstudy.cluster.sources import Running, Source
from recstudy.cluster.trackers import Logger, Metrics
from recstudy.cluster.view import Outcome
from recstudy.cluster.worker import COORDINATOR, LeaveRequests, inline, train_run
from recstudy.errors import ConfigError
from recstudy.plugins import sent_files
from recstudy.programs.base import Program
from recstudy.programs.own import OwnProgram
from recstudy.programs.settings import Resources
from recstudy.programs.trial import Trial, failed_outcome
from recstudy.records import Failure
from recstudy.records.locks import temporary
from recstudy.study.plan import Run
from recstudy.terminal import environment

if TYPE_CHECKING:
    from recstudy.cluster.searching import PrunedBy

KEPT_TRIALS = 100  # of those that have ended, which Tune may still ask something
RESTARTS = 2  # of a trial whose process or workers were lost


@dataclass
class Sweep(Running):
    """Runs on Ray, side by side; one that found no memory is tried once more at the end, alone."""

    leaving: LeaveRequests = field(default_factory=LeaveRequests)
    refused: set[str] = field(default_factory=set)  # nodes that have come and may not work
    program: Program = field(kw_only=True)

    def __post_init__(self) -> None:
        self.sent = _sent(self.program) if isinstance(self.program, OwnProgram) else ""
        self.metrics = Metrics(self.name)
        self.trackers = [self.metrics]
        for tracker in dict.fromkeys(self.where.log):
            self.trackers.append(Logger(tracker, self.name, self.results, self.view, self.where.log_losses))

    def run(self, resources: Resources, source: Source, pruning: "PrunedBy | None" = None) -> None:
        self.begin(resources, source, pruning)
        with self.leaving.on_sigterm():
            self._fit()
            if self.starved and not self.hopeless:
                self.view.again(self.starved)
                self.begin(resources, Source(deque(self.starved)))
                self._fit(alone=True)
        self.give_up()

    def _fit(self, alone: bool = False) -> None:
        resources = self.resources
        # Below the results where all nodes see that folder.
        with temporary(
            self.results.root if self.where.address and not self.results.store else None
        ) as folder:
            scratch = str(folder)
            request = (
                COORDINATOR if resources.uses_train else {"cpu": resources.cpus, "gpu": resources.gpus or 0}
            )
            # nobody joins a cluster of our own
            joins = (versions(), self.results.store, scratch) if self.where.address else ()
            capacity = ClusterCapacity(resources, joins, self.view.say, self.refused)
            code, modules = sent_files()
            callback = TuneCallback(self)

            def make_trial(run: Run) -> Trial:
                return replace(self.trial(run), scratch=scratch, code=code, modules=modules)

            tuner = Tuner(
                tune.with_resources(self._trainable(), request),
                tune_config=TuneConfig(
                    search_alg=Supply(self, make_trial, lambda: 1 if alone else capacity()),
                    num_samples=-1,
                    reuse_actors=True,
                ),
                run_config=TuneRunConfig(
                    name=self.name,
                    storage_path=scratch,
                    verbose=0,
                    progress_reporter=CLIReporter(),  # the one for notebooks empties the cell, verbose or not
                    callbacks=[callback],
                    stop=callback,
                    failure_config=FailureConfig(max_failures=RESTARTS),
                    checkpoint_config=CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
                ),
            )
            try:
                with environment(TUNE_MAX_PENDING_TRIALS_PG=str(capacity())):
                    tuner.fit()
            finally:
                for tracker in self.trackers:
                    tracker.close()

    def _trainable(self) -> Any:
        """Return what Tune calls with a trial: once a process it gets what is the same for all."""
        work, messages, sent = self.work, self.leaving.messages, self.sent
        if self.resources.uses_train:
            return train_run(self.name, work, messages)

        def named(settings: dict[str, Trial]) -> None:
            inline(replace(settings["trial"], program=sent), work, messages)

        named.__name__ = self.name  # what the dashboard's Actors page shows
        return named


def _sent(program: OwnProgram) -> str:
    """Return a program as workers receive it, a character for each byte.

    Raises:
        ConfigError: It holds something that cannot be sent to another process, such as a lock or an open
            file.
    """
    try:
        return cloudpickle.dumps(program).decode("latin-1")
    except Exception as error:  # whatever the user's objects raise
        reason = " ".join(str(error).split()[:30])
        raise ConfigError(
            f"{program.name} cannot be sent to Ray's workers: {reason}. Make such an object inside of the"
            " function, or run with --no-ray"
        ) from None


class TuneCallback(tune.Callback, tune.Stopper):
    """Tells the sweep what Tune sees, stops what the sweep stops, and records failures that a run's process
    could not record.
    """

    def __init__(self, sweep: Sweep) -> None:
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
            each = (
                "The run under way ends after its epoch"
                if runs == 1
                else f"The {runs} runs under way end after their epochs"
            )
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
            self.sweep.view.say(f"{run}: {lost}: {_failure_of(trial).error}")

    def on_trial_error(self, trial: TuneTrial, **info: Any) -> None:
        run = self._run(trial)
        if run is None:
            return
        folder = self.sweep.results.pull(run.id).run(run.id)
        failure = folder.last_failure
        if failure is None or failure.attempts != folder.tries:  # its own process did not live to tell
            failure = _failure_of(trial)
            if not folder.finished:
                with self.sweep.results.changing(folder.failure):
                    folder.fail(failure)
        self.sweep.heard(run, failed_outcome(failure))

    def _forget(self, trial: TuneTrial) -> None:
        """Free what Tune keeps of trials that have ended, once it has let go of them.

        Statistics of each number that a trial has reported are 20 of the 29 KB of a trial: 2 GB for 100,000
        runs.
        """
        self.finished.append(trial)
        if len(self.finished) > KEPT_TRIALS:
            old = self.finished.popleft()
            old.metric_analysis.clear()
            old.run_metadata.metric_n_steps.clear()
            old.run_metadata.last_result = {}
            old.config = old.evaluated_params = {}

    def _run(self, trial: TuneTrial) -> Run | None:
        """Return the run of a trial; None if its outcome is known, because its process died afterwards and
        Tune began another.
        """
        return self.sweep.runs.get(trial.config["trial"].run_id)


class Supply(Searcher):
    """Hands Tune one run after another.

    Args:
        sweep: knows which.
        trial: what Tune is handed of a run.
        at_once: says how many may be under way.
    """

    def __init__(self, sweep: Sweep, trial: Callable[[Run], Trial], at_once: Callable[[], int]) -> None:
        super().__init__()
        self.sweep, self.trial, self.at_once = sweep, trial, at_once

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune writes its own state to disk; it is never restored from there

    def suggest(self, trial_id: str) -> dict[str, Trial] | str | None:
        if len(self.sweep.runs) >= self.at_once():
            return None
        if run := self.sweep.take():
            return {"trial": self.trial(run)}
        may_follow = self.sweep.runs or (self.sweep.blocked and not self.sweep.leaving.is_requested)
        return None if may_follow else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        """See `TuneCallback`."""

    def save(self, checkpoint_path: str) -> None:
        """See `__getstate__`."""


def _failure_of(trial: TuneTrial) -> Failure:
    """Return why a trial's process ended, from what Ray says of it."""
    text = Path(trial.error_file).read_text(encoding="utf-8") if trial.error_file else ""
    reason = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "its process ended")
    low = "running low on memory" in text
    return Failure(
        error_class="out of memory" if low or "OutOfMemory" in text else "lost node",
        error="its node ran low on memory, and Ray ended its process" if low else reason,
        traceback=text,
    )
