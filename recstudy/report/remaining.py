"""The estimate of a study's remaining time, which the terminal and the board show.

A run is assumed to take as long as the finished runs of its variant. If its variant has none, the mean of the
other variants is scaled by FLOPs. A running run is extrapolated from its own epochs. There is no estimate
before a run has finished or has done enough epochs.
"""

import heapq
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

# The first epoch compiles, loads data and warms up, so a running run is extrapolated only after three epochs
# and a tenth of all.
EPOCHS, SHARE = 3, 0.1


@dataclass(frozen=True)
class Job:
    """A finished, running or planned run, as far as its time is concerned.

    Args:
        variant: The variant. Its runs are assumed to take equally long.
        pflop: The PFLOP of the training, if known.
        training: The seconds that the training took so far.
        evaluation: The seconds after the last epoch, of a finished run.
        epochs: The number of epochs that a running run has done.
        share: Their share of all epochs.
    """

    variant: Hashable = None
    pflop: float | None = None
    training: float = 0.0
    evaluation: float = 0.0
    epochs: int = 0
    share: float = 0.0

    @property
    def is_extrapolable(self) -> bool:
        """Whether enough epochs are done to extrapolate the run's time."""
        return self.epochs >= EPOCHS and self.share >= SHARE


def remaining_seconds(finished_jobs: Sequence[Job], todo: Iterable[Job]) -> list[float] | None:
    """Return the remaining seconds of each run in `todo`; None if there is no basis for an estimate."""
    jobs = list(todo)
    timed_jobs = finished_jobs or [
        Job(job.variant, job.pflop, job.training / job.share) for job in jobs if job.is_extrapolable
    ]
    if not timed_jobs:
        return None
    groups: dict[Hashable, list[Job]] = {}
    for job in timed_jobs:
        groups.setdefault(job.variant, []).append(job)
    means = {}
    for variant, group in groups.items():
        means[variant] = fmean(job.training for job in group), fmean(job.evaluation for job in group)
    usual = fmean(job.training for job in timed_jobs), median(job.evaluation for job in timed_jobs)
    counted = [job.pflop for job in timed_jobs if job.pflop]
    lefts = []
    for job in jobs:
        has_mean = job.variant in means
        training, evaluation = means.get(job.variant, usual)
        if not has_mean and job.pflop and counted:
            # Time grows as the square root of FLOPs, because a small network waits for each step more than it
            # computes. On recorded runs of two studies, the error is half of that of proportional time and of
            # a fitted line.
            training *= (job.pflop / fmean(counted)) ** 0.5
        if job.is_extrapolable and not (has_mean and finished_jobs):
            training = job.training / job.share
        lefts.append(training * (1 - job.share) + evaluation)
    return lefts


def wall_time(lefts: Iterable[float], parallel_runs: int) -> float:
    """Return the seconds until all runs have ended.

    Args:
        lefts: The remaining seconds of each run, in the order of their start.
        parallel_runs: The number of runs that run at the same time.
    """
    free_times = [0.0] * max(1, parallel_runs)
    for seconds_left in lefts:
        heapq.heappush(free_times, heapq.heappop(free_times) + seconds_left)
    return max(free_times)
