"""How many seeds: the level of each look at a study's answers, and how many seeds an open answer needs.

Looks (interim analyses): a study that is read at three seeds and again at five has two chances to be wrong. A
study states its maximum number of seeds; the looks up to n seeds may spend (power family of Kim and DeMets
1987)

    alpha(t) = alpha t^1.5,   t = n / maximum          (1)

of the error of the whole. The level of a look is the level of its t test at which null studies cross the
boundary for the first time as often as (1) allows. `boundaries` simulates it once for each schedule: for
looks at 3, 5 and 10 of 10 seeds the levels are 0.8, 1.1 and 3.7 %. With a true difference of 2 standard
deviations, 97 % of such studies are decided, by 7 seeds on average.

A study that goes beyond its maximum has half of alpha for the next look, then a quarter: its total error is
at most 10 %.

Seeds needed: a number for the estimate alone relies on luck, and at a true effect of half a standard
deviation decides 45 % of studies instead of 80 %. So they are a range: for the estimate, and for the lower
quartile of the effect given the estimate and its error. `tests/benchmarks/evidence.py` prints how often the
upper number decides.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from recstudy.lazy import np, special

ALPHA = 0.05
SPENDING = 1.5  # exponent of (1): early looks spend little, so that a late look keeps its power
# null studies that are simulated, about a second: the level of a look is known to a hundredth of itself
PATHS = 400_000
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "recstudy")  # noqa: PTH111 (never raises)
POWER = 0.8
QUARTILE = 0.25  # the effect is at least as large as its lower quartile with a chance of three in four
MAX_SEEDS = 1000  # a question that needs more lacks something other than seeds


@dataclass(frozen=True)
class Looks:
    """The looks at a study's answers.

    Args:
        taken: The number of seeds at each look, in ascending order.
        max_seeds: The maximum number of seeds that the study stated before it ran; 0 if it stated none. Then
            the first look is the maximum, and each later look extends the study.
    """

    taken: tuple[int, ...] = ()
    max_seeds: int = 0

    @property
    def maximum(self) -> int:
        """The stated maximum, or the seeds of the first look."""
        return self.max_seeds or min(self.taken, default=0)

    def level(self, n: int) -> float:
        """Return the level of the t test at a look of n seeds."""
        if 0 < self.maximum < n:
            return ALPHA / 2 ** (1 + sum(self.maximum < look < n for look in self.taken))
        return self._levels(n)[n]

    def later(self, n: int) -> dict[int, float]:
        """Return the level of each planned look after n seeds, by its number of seeds."""
        return (
            {look: level for look, level in self._levels(n).items() if look > n} if n < self.maximum else {}
        )

    def _levels(self, n: int) -> dict[int, float]:
        """Return the levels of the earlier looks, of this look and of the planned looks."""
        maximum = self.maximum or n
        looks = (
            *(look for look in self.taken if look < n),
            n,
            *(look for look in schedule(maximum) if look > n),
        )
        return dict(zip(looks, boundaries(looks, maximum), strict=True))


def schedule(maximum: int) -> Iterator[int]:
    """Yield the planned numbers of seeds: 3, 5, 8, 12, 16, 20, 25, ... and the maximum."""
    look, steps = 3, iter((2, 3))
    while look < maximum:
        yield look
        look += next(steps, max(4, look // 4))
    yield maximum


@cache
def boundaries(looks: tuple[int, ...], maximum: int) -> tuple[float, ...]:
    """Return the two-sided level of the t test at each look.

    The levels are simulated with studies of two equal variants, and are kept in the user's cache for the next
    command.

    Args:
        looks: Seeds at each look, in ascending order.
        maximum: The maximum number of seeds.
    """
    if looks == (maximum,):
        return (ALPHA,)
    file = CACHE / f"looks-{'-'.join(map(str, looks))}-of-{maximum}.json"
    with suppress(OSError, ValueError):
        cached_levels = tuple(json.loads(file.read_text(encoding="utf-8")))
        if len(cached_levels) == len(looks):
            return cached_levels
    levels = _simulated_levels(looks, maximum)
    with suppress(OSError):
        if not CACHE.is_absolute():  # a user without a home
            return levels
        CACHE.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(levels), encoding="utf-8")
        unfinished.replace(file)
    return levels


def _simulated_levels(looks: tuple[int, ...], maximum: int) -> tuple[float, ...]:
    generator = np.random.default_rng(0)
    sums, squares = np.zeros((2, PATHS), np.float32), np.zeros((2, PATHS), np.float32)
    undecided = np.ones(PATHS, dtype=bool)
    levels, spent, n = [], 0, 0
    for look in looks:
        for _ in range(look - n):
            values = generator.standard_normal((2, PATHS), dtype=np.float32)
            sums += values
            squares += values**2
        n = look
        if n == 1:  # one seed has no variance, so nothing is decided
            levels.append(0.0)
            continue
        variances = (squares - sums**2 / n) / (n - 1)
        t = np.abs(sums[0] - sums[1]) / np.sqrt(n * variances.sum(axis=0))
        may_cross = round(ALPHA * (n / maximum) ** SPENDING * PATHS) - spent
        spent += may_cross
        t[~undecided] = 0.0
        critical = float(np.partition(t, PATHS - may_cross)[PATHS - may_cross])
        undecided &= t < critical
        levels.append(2 * float(special.stdtr(2 * (n - 1), -critical)))
    return tuple(levels)


@dataclass(frozen=True)
class PowerAnalysis:
    """What further seeds can decide.

    Args:
        room: From the estimate to the edge of the question's region.
        error: Standard error of the estimate.
        df: Degrees of freedom of the error.
        n: Seeds of each variant.
        variants: The number of variants in the contrast, whose further seeds make the error better known.
    """

    room: float
    error: float
    df: float
    n: int
    variants: int = 2

    def power(self, true_room: float, seeds: Any, level: float) -> Any:
        """Return the chance that a test at this level decides the question, for a number of seeds or an array
        of numbers.
        """
        df = self.df + self.variants * (seeds - self.n)
        # beyond it, `nctdtr` loses its precision
        shift = np.minimum(true_room / self.error * np.sqrt(seeds / self.n), 30.0)
        return 1 - special.nctdtr(df, shift, special.stdtrit(df, 1 - level / 2))

    def chance(self, looks: Looks, share: float = 1.0) -> float:
        """Return the chance of a decision at the maximum if the true effect is the estimate plus one standard
        error.

        Args:
            looks: Of the question.
            share: Of each look's level that the question may use in its family.
        """
        later = looks.later(self.n)
        return (
            float(self.power(self.room + self.error, looks.maximum, share * later[looks.maximum]))
            if later
            else 0.0
        )

    def seeds_needed(self, looks: Looks, share: float = 1.0) -> tuple[int, int] | None:
        """Return the further seeds of each variant that decide 4 times in 5: for the estimate, and for its
        lower quartile.

        They are read at the study's remaining looks, and beyond its maximum as an extension. None if the
        upper number exceeds `MAX_SEEDS`, or if the estimate is on the edge.
        """
        if self.room <= 0:
            return None
        numbers = [self._seeds(room, looks, share) for room in (self.room, self._lower_quartile())]
        return (numbers[0], numbers[1]) if numbers[0] and numbers[1] else None

    def _seeds(self, true_room: float, looks: Looks, share: float) -> int:
        for seeds, level in looks.later(self.n).items():
            if self.power(true_room, seeds, share * level) >= POWER:
                return seeds - self.n
        extensions = sum(look > looks.maximum for look in {*looks.taken, self.n})
        beyond = share * ALPHA / 2 ** (1 + extensions)
        first = max(self.n, looks.maximum) + 1
        candidates = np.unique(np.geomspace(first, max(first, MAX_SEEDS), 200).astype(int))
        enough = self.power(true_room, candidates, beyond) >= POWER
        return int(candidates[enough][0]) - self.n if enough.any() else 0

    def _lower_quartile(self) -> float:
        """Return the lower quartile of the distance from the edge, which lies around `room` by a t
        distribution.
        """
        least, most = 0.0, self.room + 20 * self.error
        for _ in range(40):
            middle = (least + most) / 2
            share = special.stdtr(self.df, (middle - self.room) / self.error)
            share -= special.stdtr(self.df, (-middle - self.room) / self.error)
            least, most = (middle, most) if share < QUARTILE else (least, middle)
        return least


def detectable(error: float, df: float, alpha: float = ALPHA) -> float:
    """Return the smallest true difference that a test at this level shows 4 times in 5."""
    return error * float(special.nctdtrinc(df, 1 - POWER, special.stdtrit(df, 1 - alpha / 2)))
