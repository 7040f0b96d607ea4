"""The level of each look at a study's answers, and the number of seeds that an open answer needs.

A look is an interim analysis. A study that is tested at three seeds and again at five has two chances of a
false finding. Therefore a study states its maximum number of seeds, and the looks up to n seeds together may
spend this part of the error alpha (power family of Kim and DeMets 1987):

    alpha(t) = alpha t^1.5,   t = n / maximum          (1)

alpha is 5 % by default. A study or a claim may state another one.

The level of a look is the level of its t test at which studies without a difference cross the boundary for
the first time as often as (1) allows. `boundaries` simulates it once for each schedule. For looks at 3, 5 and
10 of 10 seeds the levels are 0.8, 1.1 and 3.7 %. With a true difference of 2 standard deviations, 97 % of
such studies are decided, by 7 seeds on average.

`PowerAnalysis` returns the seeds needed as a range: for the estimate, and for the lower quartile of the
effect given the estimate and its error. `tests/benchmarks/evidence.py` prints how often the upper number
decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from recstudy.base.files import atomic_write, cache_folder
from recstudy.base.lazy import np, special

ALPHA = 0.05
MIN_ALPHA, MAX_ALPHA = 1e-4, 0.5  # the smallest is reached by 40 simulated studies
SPENDING = 1.5  # exponent of (1): early looks spend little, so that a late look keeps its power
# Simulated studies without a difference, about a second: the relative error of a level is about 1 %.
PATHS = 400_000
POWER = 0.8
QUARTILE = 0.25  # the effect is at least as large as its lower quartile with a chance of three in four
MAX_SEEDS = 1000  # largest number that is proposed: a question that needs more lacks something else


@dataclass(frozen=True)
class Looks:
    """The looks at a study's answers.

    Args:
        seed_counts: The number of seeds at each look, in ascending order.
        max_seeds: The maximum number of seeds that the study stated before it ran; 0 if it stated none. Then
            the first look is the maximum, and each later look extends the study.
        alpha: The error of all looks together.
        extended_to: The maximum that was stated after the first look; 0 if there is none.
    """

    seed_counts: tuple[int, ...] = ()
    max_seeds: int = 0
    alpha: float = ALPHA
    extended_to: int = 0

    @property
    def maximum(self) -> int:
        """The stated maximum, or the seeds of the first look."""
        return self.max_seeds or min(self.seed_counts, default=0)

    def level(self, n: int) -> float:
        """Return the level of the t test at a look of n seeds."""
        if 0 < self.maximum < n:
            # Each extension has half of the alpha of the one before: the total error is at most 2 alpha.
            return self.alpha / 2 ** (1 + sum(self.maximum < look < n for look in self.seed_counts))
        return self._levels(n)[n]

    def later_levels(self, n: int) -> dict[int, float]:
        """Return the level of each planned look after n seeds, by its number of seeds."""
        levels = {}
        if n < self.maximum:
            levels = {look: level for look, level in self._levels(n).items() if look > n}
        if self.extended_to > max(n, self.maximum):
            seed_counts = tuple(sorted({*self.seed_counts, n, *levels}))
            levels[self.extended_to] = replace(self, seed_counts=seed_counts).level(self.extended_to)
        return levels

    def _levels(self, n: int) -> dict[int, float]:
        """Return the levels of the earlier looks, of this look and of the planned looks."""
        maximum = self.maximum or n
        earlier_looks = [look for look in self.seed_counts if look < n]
        planned_looks = [look for look in schedule(maximum) if look > n]
        looks = (*earlier_looks, n, *planned_looks)
        return dict(zip(looks, boundaries(looks, maximum, self.alpha), strict=True))


def schedule(maximum: int, stated_maximum: int = 0) -> Iterator[int]:
    """Yield the planned numbers of seeds: 3, 5, 8, 12, 16, 20, 25, ... and the maximum.

    Args:
        maximum: The maximum number of seeds.
        stated_maximum: The maximum that was stated before the first look, or the seeds of the first look.
            Above it the study looks once, because each look there halves the level. 0 if no look was taken.
    """
    look, steps = 3, iter((2, 3))
    last = stated_maximum if 0 < stated_maximum < maximum else maximum
    while look < last:
        yield look
        look += next(steps, max(4, look // 4))
    yield from dict.fromkeys((last, maximum))


@cache
def boundaries(looks: tuple[int, ...], maximum: int, alpha: float = ALPHA) -> tuple[float, ...]:
    """Return the two-sided level of the t test at each look.

    The levels come from a simulation of studies with two equal variants. They are saved in the cache folder
    for the next command.

    Args:
        looks: Seeds at each look, in ascending order.
        maximum: The maximum number of seeds.
        alpha: The error of all looks together.
    """
    if looks == (maximum,):
        return (alpha,)
    at_alpha = f"-at-{alpha:g}" * (alpha != ALPHA)
    file = cache_folder() / f"looks-{'-'.join(map(str, looks))}-of-{maximum}{at_alpha}.json"
    with suppress(OSError, ValueError):
        cached_levels = tuple(json.loads(file.read_text(encoding="utf-8")))
        if len(cached_levels) == len(looks):
            return cached_levels
    levels = _simulated_levels(looks, maximum, alpha)
    # If the cache cannot be written, the next command simulates again.
    with suppress(OSError), atomic_write(file) as temporary:
        temporary.write_text(json.dumps(levels), encoding="utf-8")
    return levels


def _simulated_levels(looks: tuple[int, ...], maximum: int, alpha: float) -> tuple[float, ...]:
    generator = np.random.default_rng(0)
    sums, squares = np.zeros((2, PATHS), np.float32), np.zeros((2, PATHS), np.float32)
    undecided = np.ones(PATHS, dtype=bool)
    levels, crossings, n = [], 0, 0
    for look in looks:
        for _ in range(look - n):
            values = generator.standard_normal((2, PATHS), dtype=np.float32)
            sums += values
            squares += values**2
        n = look
        may_cross = round(alpha * (n / maximum) ** SPENDING * PATHS) - crossings
        # One seed has no variance, and a tiny alpha leaves nothing to an early look.
        if n == 1 or may_cross < 1:
            levels.append(0.0)
            continue
        variances = (squares - sums**2 / n) / (n - 1)
        t = np.abs(sums[0] - sums[1]) / np.sqrt(n * variances.sum(axis=0))
        crossings += may_cross
        t[~undecided] = 0.0
        critical = float(np.partition(t, PATHS - may_cross)[PATHS - may_cross])
        undecided &= t < critical
        levels.append(2 * float(special.stdtr(2 * (n - 1), -critical)))
    return tuple(levels)


@dataclass(frozen=True)
class PowerAnalysis:
    """The power of further seeds for an open question.

    Args:
        room: Distance from the estimate to the edge of the question's region.
        error: Standard error of the estimate.
        df: Degrees of freedom of the error.
        n: Seeds of each variant.
        variants: The number of variants in the contrast. Each of their seeds adds a degree of freedom.
        overlap: The `overlap` of the fit, by which more seeds add less.
    """

    room: float
    error: float
    df: float
    n: int
    variants: int = 2
    overlap: float = 0.0

    def power(self, true_room: float, seeds: Any, level: float) -> Any:
        """Return the chance that a test decides the question.

        Args:
            true_room: The true distance to the edge of the region.
            seeds: Seeds of each variant, a number or an array.
            level: Level of the test.

        Returns:
            The chance from 0 to 1, in the shape of `seeds`.
        """
        df = self.df + self.variants * (seeds - self.n)
        # `nctdtr` loses its precision at a noncentrality above 30.
        gain = (1 + self.n * self.overlap) / (1 + seeds * self.overlap)
        shift = np.minimum(true_room / self.error * np.sqrt(gain * seeds / self.n), 30.0)
        return 1 - special.nctdtr(df, shift, special.stdtrit(df, 1 - level / 2))

    def chance(self, looks: Looks, share: float = 1.0) -> float:
        """Return the chance of a decision at the last look if the estimate is one standard error too small.

        Args:
            looks: The looks of the question.
            share: The share of each look's level that the question may use in its family.
        """
        later_levels = looks.later_levels(self.n)
        if not later_levels:
            return 0.0
        seeds, level = max(later_levels.items())
        return float(self.power(self.room + self.error, seeds, share * level))

    def seeds_needed(self, looks: Looks, share: float = 1.0) -> tuple[int, int] | None:
        """Return the further seeds of each variant that decide the question 4 times in 5.

        Args:
            looks: The looks of the question.
            share: The share of each look's level that the question may use in its family.

        Returns:
            The seeds for the estimate and for the lower quartile of the effect, tested at the remaining looks
            of the study or, above its maximum, as an extension. None if the upper number exceeds `MAX_SEEDS`,
            or if the estimate is on the edge.
        """
        if self.room <= 0:
            return None
        # The number for the estimate alone is too small if the estimate is too large by luck: at a true
        # effect of half a standard deviation it decides 45 % of studies instead of 80 %.
        lower = self._seeds(self.room, looks, share)
        # the quartile is of the effect's size, so that near 0 it is larger than the estimate
        upper = self._seeds(min(self.room, self._lower_quartile()), looks, share)
        return (lower, upper) if lower and upper else None

    def _seeds(self, true_room: float, looks: Looks, share: float) -> int:
        later_levels = looks.later_levels(self.n)
        for seeds, level in later_levels.items():
            if self.power(true_room, seeds, share * level) >= POWER:
                return seeds - self.n
        extensions = sum(look > looks.maximum for look in {*looks.seed_counts, self.n, *later_levels})
        extension_level = share * looks.alpha / 2 ** (1 + extensions)
        first = max(self.n, looks.maximum, *later_levels) + 1
        candidates = np.unique(np.geomspace(first, max(first, MAX_SEEDS), 200).astype(int))
        enough = self.power(true_room, candidates, extension_level) >= POWER
        return int(candidates[enough][0]) - self.n if enough.any() else 0

    def _lower_quartile(self) -> float:
        """Return the lower quartile of the distance from the edge, with a t distribution around `room`."""
        lower, upper = 0.0, self.room + 20 * self.error
        for _ in range(40):  # bisection
            middle = (lower + upper) / 2
            share = special.stdtr(self.df, (middle - self.room) / self.error)
            share -= special.stdtr(self.df, (-middle - self.room) / self.error)
            lower, upper = (middle, upper) if share < QUARTILE else (lower, middle)
        return lower


def detectable(error: float, df: float, alpha: float = ALPHA) -> float:
    """Return the smallest true difference that a test at this level detects 4 times in 5."""
    return error * float(special.nctdtrinc(df, 1 - POWER, special.stdtrit(df, 1 - alpha / 2)))
