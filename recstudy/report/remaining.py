"""How long a study takes from here: the one estimate that the terminal and the board show.

A run takes what the ended runs of its variant took. One of a variant of which none has ended takes what those
of the others took on average, with time that grows as the square root of FLOPs: small networks wait for each
step more than they compute. It is half as far off as time in proportion to FLOPs, or by a line
(tests/benchmarks/remaining.py, two studies of recorded runs). A run under way tells its own pace once a tenth of
its epochs, and three, are done: the first one compiles, loads and warms up. Before anything has ended or
tells its pace, nothing is said.
"""

import heapq
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

EPOCHS, SHARE = 3, 0.1  # that a run under way has done before its pace is taken for that of the rest


@dataclass(frozen=True)
class Job:
    """A run: ended, with what it took; under way, with what its epochs have taken; or still to be begun."""

    variant: Hashable = None  # runs of it take alike
    pflop: float | None = None  # of its training, where that is known
    training: float = 0.0  # seconds
    evaluation: float = 0.0  # seconds behind the last epoch, of one that has ended
    epochs: int = 0  # done, of one under way
    share: float = 0.0  # of all that they are

    @property
    def paced(self) -> bool:
        return self.epochs >= EPOCHS and self.share >= SHARE


def remaining_seconds(ended: Sequence[Job], todo: Iterable[Job]) -> list[float] | None:
    """Return the seconds that each run `todo` still takes; None where nothing tells how long one does."""
    jobs = list(todo)
    told = ended or [Job(job.variant, job.pflop, job.training / job.share) for job in jobs if job.paced]
    if not told:
        return None
    groups: dict[Hashable, list[Job]] = {}
    for job in told:
        groups.setdefault(job.variant, []).append(job)
    means = {
        variant: (fmean(job.training for job in group), fmean(job.evaluation for job in group))
        for variant, group in groups.items()
    }
    usual, evaluation = fmean(job.training for job in told), median(job.evaluation for job in told)
    counted = [job.pflop for job in told if job.pflop]
    lefts = []
    for job in jobs:
        own = means.get(job.variant)
        if own:
            training, after = own
        else:
            more = job.pflop / fmean(counted) if job.pflop and counted else 1.0
            training, after = usual * more**0.5, evaluation
        if job.paced and not (own and ended):
            training = job.training / job.share
        lefts.append(training * (1 - job.share) + after)
    return lefts


def wall_time(lefts: Iterable[float], at_once: int) -> float:
    """Return the seconds until the last has ended, where so many go on at once, in this order."""
    free = [0.0] * max(1, at_once)
    for left in lefts:
        heapq.heappush(free, heapq.heappop(free) + left)
    return max(free)
