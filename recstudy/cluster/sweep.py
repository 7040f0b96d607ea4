"""Execute runs on Ray Tune: set up the tuner, supply runs, and pass their reports to the listeners.

Tune schedules trials, restarts killed processes and reuses warm ones. recstudy manages seeds, order, resuming
and progress.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Any

from ray import cloudpickle, tune
from ray.tune import CheckpointConfig, CLIReporter, FailureConfig, TuneConfig, Tuner
from ray.tune import RunConfig as TuneRunConfig
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.search import Searcher

from recstudy.base.errors import ConfigError, RecstudyError
from recstudy.base.terminal import environment
from recstudy.cluster.messages import LeaveRequests
from recstudy.cluster.nodes import ClusterCapacity, versions
from recstudy.cluster.sources import Runner, Source
from recstudy.cluster.trackers import Logger, Metrics
from recstudy.cluster.view import Outcome
from recstudy.cluster.worker import COORDINATOR, END_S, CheckedNodes, inline, train_run
from recstudy.plugins import sent_files
from recstudy.programs.attempt import Trial
from recstudy.programs.base import Program
from recstudy.programs.own import OwnProgram
from recstudy.programs.settings import Resources
from recstudy.programs.trial import failed_outcome
from recstudy.records import Failure, Run
from recstudy.records.locks import temporary

MAX_KEPT_TRIALS = 100  # finished trials that Tune may still use
RESTARTS = 2  # restarts of a trial whose process or workers were lost


@dataclass
class Sweep(Runner):
    """Executes runs concurrently on Ray.

    Runs that ran out of memory are retried at the end, one at a time.
    """

    draining: LeaveRequests = field(default_factory=LeaveRequests)
    refused: set[str] = field(default_factory=set)  # ids of new nodes that failed the checks
    program: Program = field(kw_only=True)

    def __post_init__(self) -> None:
        self.pickled_program = _pickle_program(self.program) if isinstance(self.program, OwnProgram) else ""
        self.metrics = Metrics(self.name)
        self.trackers = [self.metrics]
        for tracker in dict.fromkeys(self.options.log):
            self.trackers.append(Logger(tracker, self.name, self.results, self.view, self.options.log_losses))

    def run(self, resources: Resources, source: Source) -> None:
        self.retries = True
        self.begin(resources, source)
        with self.draining.on_sigterm():
            self._fit()
            self.retries = False
            if self.starved and not (self.is_hopeless or source.is_over):
                self.view.retrying(self.starved)
                source.retry(self.starved)
                self.begin(resources, source)
                self._fit(single=True)
        self.remove_pruned(END_S)
        self.give_up()

    def _fit(self, single: bool = False) -> None:
        resources = self.resources
        # on a cluster in the results folder, which all nodes see
        parent = self.results.root if self.options.address and not self.results.store else None
        with temporary(parent) as folder:
            scratch = str(folder)
            # no node joins a local cluster
            joins = (versions(), self.results.store, scratch) if self.options.address else ()
            capacity = ClusterCapacity(resources, joins, self.view.say, self.refused)
            CheckedNodes.labels = capacity.labels
            request = {"CPU": resources.cpus, "GPU": resources.gpus or 0}
            code, modules = sent_files()
            callback = TuneCallback(self)

            def make_trial(run: Run) -> Trial:
                return replace(
                    self.trial(run), scratch=scratch, code=code, modules=modules, labels=capacity.labels()
                )

            tuner = Tuner(
                tune.with_resources(
                    self._trainable(), CheckedNodes([COORDINATOR if resources.uses_train else request])
                ),
                tune_config=TuneConfig(
                    search_alg=Supply(self, make_trial, lambda: 1 if single else capacity()),
                    num_samples=-1,
                    reuse_actors=True,
                ),
                run_config=TuneRunConfig(
                    name=self.name,
                    storage_path=scratch,
                    verbose=0,
                    progress_reporter=CLIReporter(),  # the reporter for notebooks clears the cell
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
        """Return the trainable for Tune. It contains the values that are the same for all trials."""
        messages, pickled = self.draining.messages, self.pickled_program
        if self.resources.uses_train:
            return train_run(self.name, messages)

        def trainable(settings: dict[str, Trial]) -> None:
            inline(replace(settings["trial"], program=pickled), messages)

        trainable.__name__ = self.name  # shown on the Actors page of the dashboard
        return trainable


def _pickle_program(program: OwnProgram) -> str:
    """Pickle a program for the workers, with one character for each byte.

    Raises:
        ConfigError: The program contains an object that cannot be pickled, such as a lock or an open file.
    """
    try:
        return cloudpickle.dumps(program).decode("latin-1")
    except Exception as error:  # user objects may raise any exception
        reason = " ".join(str(error).split()[:30])
        raise ConfigError(
            f"{program.name} cannot be sent to Ray's workers: {reason}. Create the object inside the"
            " function, or use --no-ray"
        ) from None


def keeps_error(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method of `TuneCallback`, so that `on_step_end` raises its RecstudyError.

    Tune (2.60) would raise a TuneError with the traceback as its text, or restart the trial.
    """

    @wraps(method)
    def call(callback: "TuneCallback", *args: Any, **info: Any) -> Any:
        try:
            return method(callback, *args, **info)
        except RecstudyError as error:
            callback.error = callback.error or error

    return call


class TuneCallback(tune.Callback, tune.Stopper):
    """Passes Tune's events to the sweep, stops pruned trials, and records failures of lost processes."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.finished: deque[TuneTrial] = deque()  # the last finished trials
        self.error: RecstudyError | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {}

    @keeps_error
    def __call__(self, trial_id: str, result: Outcome) -> bool:
        """Return whether a pruner stops this trial."""
        return self.sweep.is_pruned(result["config"]["trial"].run_id, result)

    def stop_all(self) -> bool:
        return self.sweep.is_hopeless or self.sweep.source.is_over

    def on_step_begin(self, **info: Any) -> None:
        if self.sweep.draining.tell():
            runs = len(self.sweep.runs)
            if runs == 1:
                runs_text = "The run saves a checkpoint and ends after its epoch"
            else:
                runs_text = f"{runs} runs save a checkpoint and end after their epochs"
            self.sweep.view.say(f"{runs_text}. Ctrl-C ends at once.")
        if self.sweep.options.address:  # a local cluster is not drained
            self.sweep.draining.leave_draining_nodes()

    @keeps_error
    def on_trial_start(self, trial: TuneTrial, **info: Any) -> None:
        if run := self._run(trial):
            self.sweep.start(run)

    @keeps_error
    def on_trial_result(self, trial: TuneTrial, result: Outcome, **info: Any) -> None:
        if run := self._run(trial):
            self.sweep.on_report(run, result)

    @keeps_error
    def on_trial_complete(self, trial: TuneTrial, **info: Any) -> None:
        run, last = self._run(trial), trial.last_result
        if run and "status" not in last:  # the pruner or the end of the sweep stopped it
            self.sweep.stop(run, last)
        self._forget(trial)

    def on_step_end(self, **info: Any) -> None:
        if self.error:
            raise self.error from None
        self.sweep.metrics.show()

    def on_trial_recover(self, trial: TuneTrial, **info: Any) -> None:
        if run := self._run(trial):
            message = "process lost, the run resumes from its last checkpoint in a new process"
            self.sweep.view.say(f"{run}: {message}: {_failure_of(trial).error}")

    @keeps_error
    def on_trial_error(self, trial: TuneTrial, **info: Any) -> None:
        run = self._run(trial)
        if run is None:
            return
        folder = self.sweep.results.pull(run.id).run(run.id)
        failure = folder.last_failure
        if failure is None:  # its process died before it could record it
            failure = _failure_of(trial)
            if not folder.finished:
                with self.sweep.results.changing(folder.failure):
                    folder.fail(failure)
        self.sweep.on_report(run, failed_outcome(failure))

    def _forget(self, trial: TuneTrial) -> None:
        """Free the memory of finished trials that Tune no longer uses.

        The statistics of reported numbers take 20 of the 29 KB of a trial: 2 GB for 100,000 runs.
        """
        self.finished.append(trial)
        if len(self.finished) > MAX_KEPT_TRIALS:
            old = self.finished.popleft()
            old.metric_analysis.clear()
            old.run_metadata.metric_n_steps.clear()
            old.run_metadata.last_result = {}
            old.config = old.evaluated_params = {}

    def _run(self, trial: TuneTrial) -> Run | None:
        """Return the run of a trial; None if the run has ended and its process died afterwards."""
        return self.sweep.runs.get(trial.config["trial"].run_id)


class Supply(Searcher):
    """Supplies Tune with one run after another.

    Args:
        sweep: The sweep, which selects the runs.
        trial: Returns the trial of a run.
        max_running: Returns how many runs may run concurrently.
    """

    def __init__(self, sweep: Sweep, trial: Callable[[Run], Trial], max_running: Callable[[], int]) -> None:
        super().__init__()
        self.sweep, self.trial, self.max_running = sweep, trial, max_running

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune saves its state to disk, but it is never restored

    def suggest(self, trial_id: str) -> dict[str, Trial] | str | None:
        if len(self.sweep.runs) >= self.max_running():
            return None
        if run := self.sweep.take():
            return {"trial": self.trial(run)}
        is_ending = self.sweep.draining.is_requested or self.sweep.is_starved
        may_follow = self.sweep.runs or (self.sweep.blocked and not is_ending)
        return None if may_follow else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        """See `TuneCallback`."""

    def save(self, checkpoint_path: str) -> None:
        """See `__getstate__`."""


def _failure_of(trial: TuneTrial) -> Failure:
    """Return the failure of a trial whose process ended, based on Ray's error file."""
    text = Path(trial.error_file).read_text(encoding="utf-8", errors="replace") if trial.error_file else ""
    reason = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "its process ended")
    low = "running low on memory" in text
    return Failure(
        error_class="out of memory" if low or "OutOfMemory" in text else "lost node",
        error="its node ran low on memory, and Ray ended its process" if low else reason,
        traceback=text,
    )
