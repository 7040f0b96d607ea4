"""Runs on Ray Tune: how it is set up and called; what it calls in turn is in `watch.py`.

Tune schedules, restarts what was killed and reuses warm processes. Seeds, order, resume and progress are ours.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ray import cloudpickle, tune
from ray.tune import CheckpointConfig, CLIReporter, FailureConfig, TuneConfig, Tuner
from ray.tune import RunConfig as TuneRunConfig

from recstudy.cluster.nodes import ClusterCapacity, versions
from recstudy.cluster.sources import Running, Source
from recstudy.cluster.trackers import Logger, Metrics
from recstudy.cluster.train_run import COORDINATOR, train_run
from recstudy.cluster.watch import Supply, TuneCallback
from recstudy.cluster.worker import LeaveRequests, inline
from recstudy.errors import ConfigError
from recstudy.plugins import sent_files
from recstudy.programs.base import Program
from recstudy.programs.own import OwnProgram
from recstudy.programs.settings import Place
from recstudy.programs.trial import Trial
from recstudy.records.locks import temporary
from recstudy.study.plan import Run
from recstudy.terminal import environment

if TYPE_CHECKING:
    from recstudy.cluster.searching import PrunedBy

RESTARTS = 2  # of a trial whose process or workers were lost


@dataclass
class Sweep(Running):
    """Runs on Ray, side by side; one that found no memory is tried once more at the end, alone."""

    leaving: LeaveRequests = field(default_factory=LeaveRequests)
    refused: set[str] = field(default_factory=set)  # nodes that have come and may not work
    program: Program = field(kw_only=True)

    def __post_init__(self) -> None:
        self.programs = _sent(self.program) if isinstance(self.program, OwnProgram) else ""
        self.metrics = Metrics(self.name)
        self.trackers = [self.metrics]
        for tracker in dict.fromkeys(self.where.log):
            self.trackers.append(Logger(tracker, self.name, self.results, self.view, self.where.log_losses))

    def run(self, place: Place, source: Source, pruning: "PrunedBy | None" = None) -> None:
        self.begin(source, pruning)
        with self.leaving.on_sigterm():
            self._fit(place)
            if self.starved and not self.hopeless:
                self.view.again(self.starved)
                self.begin(Source(deque(self.starved)))
                self._fit(place, alone=True)
        self.give_up()

    def _fit(self, place: Place, alone: bool = False) -> None:
        # Below the results where all nodes see that folder.
        with temporary(self.results.root if self.where.address and not self.results.store else None) as folder:
            scratch = str(folder)
            resources = COORDINATOR if place.uses_train else {"cpu": place.cpus_per_run, "gpu": place.gpus_per_run or 0}
            joins = (versions(), self.results.store, scratch) if self.where.address else ()  # nobody joins a cluster of our own
            capacity = ClusterCapacity(place, joins, self.view.say, self.refused)
            code, modules = sent_files()
            callback = TuneCallback(self)

            def make_trial(run: Run) -> Trial:
                return replace(self.trial(run, place), scratch=scratch, code=code, modules=modules)

            tuner = Tuner(
                tune.with_resources(self._trainable(place), resources),
                tune_config=TuneConfig(
                    search_alg=Supply(self, make_trial, lambda: 1 if alone else capacity()), num_samples=-1, reuse_actors=True
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

    def _trainable(self, place: Place) -> Any:
        """Return what Tune calls with a trial: once a process it gets what is the same for all."""
        work, messages, programs = self.work, self.leaving.messages, self.programs
        if place.uses_train:
            return train_run(self.name, work, messages)

        def named(settings: dict[str, Trial]) -> None:
            inline(replace(settings["trial"], programs=programs), work, messages)

        named.__name__ = self.name  # what the dashboard's Actors page shows
        return named


def _sent(program: OwnProgram) -> str:
    """Return a program as workers receive it, a character for each byte.

    Raises:
        ConfigError: It holds something that cannot be sent to another process, such as a lock or an open file.
    """
    try:
        return cloudpickle.dumps([program]).decode("latin-1")
    except Exception as error:  # whatever the user's objects raise
        reason = " ".join(str(error).split()[:30])
        raise ConfigError(
            f"{program.name} cannot be sent to Ray's workers: {reason}. Make such an object inside of the function, or run with "
            "--no-ray"
        ) from None
