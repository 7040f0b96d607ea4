"""Execute runs without Ray, one after another in this process (`--no-ray`).

Use it on a machine without Ray or with a debugger. Records, ids, checkpoints and the effects of SIGTERM and
Ctrl-C are the same as on Ray. Runs have no process of their own: a run that hangs, is killed or runs out of
memory ends the command. The same command then resumes from the checkpoint.

Several processes, such as the tasks of an array job, can share the runs of a study. Each process takes the
next run that is neither locked nor finished. It ends when no such run is left, so no node waits for the last
runs of other processes.
"""

import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from recstudy.base.errors import ClusterError, RecstudyError
from recstudy.base.terminal import Draining
from recstudy.cluster.sources import Runner, Source
from recstudy.cluster.view import Outcome
from recstudy.programs.base import Program
from recstudy.programs.settings import Resources
from recstudy.programs.trial import run_trial, with_warnings
from recstudy.records import Run
from recstudy.records.locks import POLL

STOPPING = "Stopping: the run finishes its epoch first. Ctrl-C or a second SIGTERM stops at once.\n"


class _Pruned(BaseException):
    """Raised if a pruner stops the run. A BaseException, so that user code does not catch it."""


class _StudyFailed(BaseException):
    """Raised in a run if an error ends the study; its argument is the error."""


def fit_to_process(resources: Resources, program: Program) -> Resources:
    """Return the resources of a run in this process: one worker, and a GPU if the program sees one.

    Raises:
        ClusterError: `resources` need several workers, or a GPU that this machine does not have.
    """
    if resources.workers > 1 or resources.trainer == "train":
        raise ClusterError("--no-ray runs one worker in this process. Remove --workers and --trainer train")
    sees_gpu = program.sees_gpu()
    gpus = float(sees_gpu) if resources.gpus is None else resources.gpus
    if gpus and not sees_gpu:
        raise ClusterError(f"A run needs {gpus:g} GPU, but this machine has none. Remove --gpus.")
    return resources.model_copy(update={"gpus": gpus})


@dataclass
class LocalRunner(Runner):
    """Executes runs one after another in this process."""

    draining: Draining = field(default_factory=partial(Draining, STOPPING))

    def run(self, resources: Resources, source: Source) -> None:
        self.begin(resources, source)
        earlier_failures = (
            {run.id: self._failure_time(run) for run in source.waiting} if source.shared else {}
        )
        with self.draining.on_sigterm():
            while not (self.draining.is_requested or self.is_hopeless or source.is_over):
                run = self.take()
                if run is None:
                    if source.shared or not self.blocked:
                        break
                    time.sleep(POLL)
                elif source.shared and (
                    self.results.state(run.id) == "done"
                    or self._failure_time(run) not in (0, earlier_failures[run.id])
                ):
                    del self.runs[run.id]
                    self.view.left_out(run)
                else:
                    self._execute(run)
        self.give_up()
        if self.blocked:
            self.view.left_to_others(list(self.blocked.values()))

    def _failure_time(self, run: Run) -> int:
        """Return the time of a run's recorded failure in nanoseconds; 0 if it has none."""
        with suppress(FileNotFoundError):
            return self.results.run(run.id).failure.stat().st_mtime_ns
        return 0

    def _execute(self, run: Run) -> None:
        last: Outcome = {}

        def report(line: Outcome) -> None:
            last.update(line)
            try:
                self.on_report(run, line)
                is_pruned = self.is_pruned(run.id, line)
            except RecstudyError as error:
                raise _StudyFailed(error) from None
            if is_pruned:
                raise _Pruned

        self.start(run)
        with with_warnings(report) as tell:
            try:
                tell(run_trial(self.trial(run), tell, lambda: self.draining.is_requested))
            except _Pruned:
                self.stop(run, last)
            except _StudyFailed as failed:
                raise failed.args[0] from None
