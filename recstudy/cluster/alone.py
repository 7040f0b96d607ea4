"""Runs without Ray: one after another, in this process. For a host that has no Ray, and to look into a run
with a debugger.

Records, ids, checkpoints and what SIGTERM does are those of a sweep on Ray. What a process of its own gives a
run is not there: a run that hangs, is killed or finds no memory ends the command, and the same command goes
on from its checkpoint.

Any number of processes, such as the tasks of an array job, share the runs of a study: each takes the next run
that no other process has locked or finished. A process ends when nothing is left to take, so that no node
waits for the last runs of others.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recstudy.cluster.sources import Running, Source
from recstudy.cluster.view import Outcome
from recstudy.errors import ClusterError
from recstudy.programs.base import Program
from recstudy.programs.settings import Resources
from recstudy.programs.trial import with_warnings
from recstudy.records.locks import POLL
from recstudy.study.plan import Run

if TYPE_CHECKING:
    from recstudy.cluster.searching import PrunedBy


class _Enough(BaseException):
    """A pruner stops the run; no error, so that nothing between takes it for one."""


def fit_to_process(resources: Resources, program: Program) -> Resources:
    """Return `resources` as this process has it: one worker, with a GPU where the program sees one.

    Raises:
        ClusterError: it asks for several workers, or for a GPU that is not there.
    """
    if resources.workers > 1 or resources.trainer == "train":
        raise ClusterError(
            "--no-ray runs one worker, in this process: leave --workers and --trainer train out"
        )
    sees_gpu = program.sees_gpu()
    gpus = float(sees_gpu) if resources.gpus is None else resources.gpus
    if gpus and not sees_gpu:
        raise ClusterError(f"a run needs {gpus:g} GPU, but there is none on this machine. Leave --gpus out.")
    return resources.model_copy(update={"gpus": gpus})


@dataclass
class Alone(Running):
    """Runs in this process, each after the other."""

    def run(self, resources: Resources, source: Source, pruning: "PrunedBy | None" = None) -> None:
        self.begin(resources, source, pruning)
        before = {run.id: self._failure_time(run) for run in source.waiting} if source.shared else {}
        with self.leaving.on_sigterm():
            while not (self.leaving.is_requested or self.hopeless or source.over):
                run = self.take()
                if run is None:
                    if source.shared or not self.blocked:
                        break
                    time.sleep(POLL)
                elif source.shared and (
                    self.results.state(run.id) == "done" or self._failure_time(run) != before[run.id]
                ):
                    del self.runs[run.id]
                    self.view.ended_elsewhere(run)
                else:
                    self._execute(run)
        self.give_up()
        if self.blocked:
            self.view.left_to_others(list(self.blocked.values()))

    def _failure_time(self, run: Run) -> int:
        """Return when the failure of a run was recorded, in nanoseconds; 0 if it has none."""
        with suppress(FileNotFoundError):
            return self.results.run(run.id).failure.stat().st_mtime_ns
        return 0

    def _execute(self, run: Run) -> None:
        last: Outcome = {}

        def report(line: Outcome) -> None:
            last.update(line)
            self.heard(run, line)
            if self.is_pruned(run.id, line):
                raise _Enough

        self.started(run)
        with with_warnings(report) as tell:
            try:
                tell(self.work(self.trial(run), tell, lambda: self.leaving.is_requested))
            except _Enough:
                self.stop(run, last)
