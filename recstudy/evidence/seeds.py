"""How many seeds: what each look at them may decide, and how many more an answer needs.

Looks: whoever reads a study at three seeds and again at five has had two chances to be wrong.

A study states its most seeds; each look at n of them spends part of the error that the whole may have (Lan and DeMets 1983,
Pocock's type):

    alpha(t) = alpha ln(1 + (e - 1) t),   t = n / n_max          (1)

The level of a look is what it spends beyond the look before it. With looks at 3 and 5 of 5, or at 3, 5 and 10 of 10, a claim
exactly on its margin is decided wrongly in under 5 % of studies.

Seeds needed: to plan for the estimate itself is to plan for luck: at an effect of half a standard deviation over seeds the
number so found decides in 45 % of studies where 80 % is said. So the effect counts as the lower quartile of where it may lie,
given the estimate and its error (`studies/bench/evidence.py` prints what comes of it).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, log

from recstudy.lazy import np, special

ALPHA = 0.05


@dataclass(frozen=True)
class Looks:
    """At which numbers of seeds a study's answers were read.

    Args:
        taken: seeds at each look, in their order.
        at_most: the seeds that the study stated as its most before it ran; 0 where it stated none. Then looks beyond the first
            count as if every seed had been one, up to the last taken.
    """

    taken: tuple[int, ...] = ()
    at_most: int = 0

    def level(self, n: int, alpha: float = ALPHA) -> float:
        """Return the level at which an answer of n seeds is read.

        What it spends beyond the look before it; of a variant that has had further seeds beyond the last look of all, and where
        no most was stated, beyond one seed fewer.
        """
        most = max(self.at_most, *self.taken, n)
        earlier = [look for look in self.taken if look < n]
        stated = n in self.taken and most == self.at_most
        before = 0 if not earlier else max(earlier) if stated else n - 1
        now, then = (log(1 + (e - 1) * seeds / most) for seeds in (n, before))
        return alpha * (now - then)


POWER = 0.8
SURE = 0.25  # the effect is at least so large in three of four
MOST_SEEDS = 1000  # where an answer needs more than these, seeds are not what it lacks


def more_seeds(room: float, error: float, df: float, n: int, alpha: float = ALPHA, pooled: int = 2) -> int | None:
    """Further seeds of each variant that decide 4 times in 5 where the truth lies so far from an edge.

    Args:
        room: from the estimate to the edge; 0 or below where no number of seeds would move it inside.
        error: the estimate's standard error at `n` seeds.
        df: its degrees of freedom.
        n: seeds of each variant.
        alpha: the level at which it will be tested.
        pooled: variants whose further seeds make the spread better known.

    Returns:
        At least 1; None where over `MOST_SEEDS` would be needed.
    """
    if room <= 0 or error <= 0:
        return None if room <= 0 else 1
    effect, most = 0.0, room + 20 * error  # the lower quartile of the distance from the edge, which lies around `room` by a t
    for _ in range(40):
        middle = (effect + most) / 2
        share = special.stdtr(df, (middle - room) / error) - special.stdtr(df, (-middle - room) / error)
        effect, most = (middle, most) if share < SURE else (effect, middle)
    seeds = np.unique(np.concatenate([np.arange(2, 100), np.geomspace(100, MOST_SEEDS, 60).astype(int)]))
    seeds = seeds[n < seeds]
    later = df + pooled * (seeds - n)
    shift = effect / error * np.sqrt(seeds / n)
    reached = special.nctdtr(later, np.minimum(shift, 30.0), special.stdtrit(later, 1 - alpha / 2)) <= 1 - POWER
    return int(seeds[reached][0]) - n if reached.any() else None


def detectable(error: float, df: float, alpha: float = ALPHA) -> float:
    """Return the least true difference that a test at this level shows 4 times in 5."""
    return error * float(special.nctdtrinc(df, 1 - POWER, special.stdtrit(df, 1 - alpha / 2)))
