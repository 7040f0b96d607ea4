"""What leaves this package of one variant: an estimate with its interval, and why an interval is as it is or is missing."""

from dataclasses import dataclass
from enum import StrEnum
from math import inf

LEVEL = 0.95


class Why(StrEnum):
    """Why an estimate is no plain t interval."""

    CEILING = "ceiling"  # every seed at the upper bound: the interval is exact, over the items
    FLOOR = "floor"  # every seed at the lower bound
    SPLIT = "split"  # some seeds learned and others did not
    NO_SPREAD = "no spread"  # one run and nothing to borrow from, or runs that agree
    NO_RUN = "no run"


@dataclass(frozen=True, slots=True)
class Split:
    """Seeds of two kinds: `learned` of `of` lie above the gap.

    `low` and `high` are the exact (Clopper-Pearson) interval of the share that learns, `given` the mean of those that did.
    """

    learned: int
    of: int
    low: float
    high: float
    given: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its confidence interval over seeds, in the metric's own unit.

    Args:
        value: the mean, or a weighted sum of means; None without runs.
        low: lower end at `level`; None where `why` says so.
        high: upper end.
        level: of the interval, 0.95 where nothing else is said.
        n: seeds behind it, of a contrast the fewest of its variants.
        df: degrees of freedom; None where no spread is known.
        error: standard error in the metric's unit.
        reach: the least and the largest that it can be, beyond which no interval reaches.
        why: what a reader must know of the interval.
        split: the two kinds of seeds, where `why` is SPLIT.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    level: float = LEVEL
    n: int = 0
    df: float | None = None
    error: float | None = None
    reach: tuple[float, float] = (-inf, inf)
    why: Why | None = None
    split: Split | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends; None where there is no interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)
